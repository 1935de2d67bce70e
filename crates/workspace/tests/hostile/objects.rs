//! Objects that git would not make: each leaves out its own ref, by name, and everything else comes.

use crate::assert_refs;
use crate::support::Scene;
use palisade_workspace::{ArchiveReport, Arrival, CommitsOutcome, OnUnapplied, WhyStayed};

/// Shell functions that write objects byte by byte.
const FORGE: &str = r#"
blob() { printf '%b' "$1" | git hash-object -w --stdin; }
entry() { printf '%s %b\0' "$1" "$2"; printf %s "$3" | perl -pe '$_ = pack("H*", $_)'; }
tree() { git hash-object -t tree -w --literally --stdin; }
branch() { git update-ref "refs/heads/$1" "$(git commit-tree "$2" -p HEAD -m forged)"; }
B=$(blob 'echo x')
"#;

/// A branch whose objects are wrong, how they are made, and git's name for what is wrong.
const FORGED: &[(&str, &str, &str)] = &[
    ("dotgit", "dir .git", "hasDotgit"),
    ("upper", "dir .GIT", "hasDotgit"),
    ("blank", "dir '.git '", "hasDotgit"),
    ("dot", "dir .git.", "hasDotgit"),
    ("stream", "dir '.git::$INDEX_ALLOCATION'", "hasDotgit"),
    ("short", "dir git~1", "hasDotgit"),
    ("joiner", "dir '.g\\0342\\0200\\0214it'", "hasDotgit"),
    ("here", "dir .", "hasDot"),
    ("parent", "dir ..", "hasDotdot"),
    ("path", "branch path $(entry 100644 a/../../x $B | tree)", "fullPathname"),
    (
        "collision",
        "branch collision $({ entry 120000 a $(blob .git/hooks); entry 40000 a $(entry 100755 post-checkout $B | tree); } | tree)",
        "duplicateEntries",
    ),
    (
        "modules-link",
        "branch modules-link $(entry 120000 .gitmodules $(blob /etc/passwd) | tree)",
        "gitmodulesSymlink",
    ),
    ("modules-url", "modules '\\turl = -u./x\\n'", "gitmodulesUrl"),
    ("modules-path", "modules '\\turl = ./x\\n\\tpath = -x\\n'", "gitmodulesPath"),
    ("modules-update", "modules '\\turl = ./x\\n\\tupdate = !touch x\\n'", "gitmodulesUpdate"),
    (
        "modules-name",
        "branch modules-name $(entry 100644 .gitmodules $(blob '[submodule \"../../x\"]\\n\\turl = ./x\\n') | tree)",
        "gitmodulesName",
    ),
    (
        "commit",
        "git update-ref refs/heads/commit $(printf 'tree %s\\nauthor a <> 0 +0\\n\\nx' $(git write-tree) | git hash-object -t commit -w --literally --stdin)",
        "missingSpaceBeforeEmail|badTimezone|missingCommitter",
    ),
];

fn forge(name: &str, how: &str) -> String {
    let directory = how
        .strip_prefix("dir ")
        .map(|entry| format!("branch {name} $(entry 40000 {entry} $(entry 100644 config $B | tree) | tree)"));
    let modules = how.strip_prefix("modules ").map(|lines| {
        format!(
            "M=$(blob '[submodule \"x\"]\\n'{lines}); branch {name} $(entry 100644 .gitmodules $M | tree)"
        )
    });
    directory.or(modules).unwrap_or_else(|| how.to_owned())
}

/// What was left out: its name, and why.
fn refused(archived: &ArchiveReport) -> Vec<(String, String)> {
    let refused = archived.main.refused.iter();
    refused.map(|refused| (refused.what.describe(), refused.reason.clone())).collect()
}

#[tokio::test]
async fn objects_that_git_would_not_make_leave_out_their_ref_by_name_and_no_other() {
    let scene = Scene::new();
    scene.start().await;
    // The user's own excuses do not hold for a sandbox's objects.
    for settings in ["fetch.fsck", "receive.fsck", "fsck"] {
        scene.host(&format!(
            "git config {settings}.hasDotgit ignore; git config {settings}.gitmodulesUrl warn"
        ));
    }
    scene.inside("git branch good; git checkout -q good; echo good > good; git add good; git commit -qm good; git checkout -q main; echo work > code; git commit -qam work");
    let all: String = FORGED.iter().map(|(name, how, _)| forge(name, how) + "\n").collect();
    scene.inside(&format!("{FORGE}{all}"));
    let plain = scene.plain(
        "git fetch -q ../inside 'refs/heads/*:refs/heads/forged/*'; git -c fsck.hasDotgit=error -c fsck.gitmodulesUrl=error fsck --strict 2>&1",
    );
    for (_, _, wrong) in FORGED {
        let expected = FORGED.iter().filter(|(_, _, other)| other == wrong).count();
        let found = plain.lines().filter(|line| wrong.split('|').any(|wrong| line.contains(wrong))).count();
        assert!(found >= expected, "the control, {wrong}: {plain}");
    }

    let synced = scene.sync().await;
    let mut left_out = refused(&synced.0.archived);
    left_out.sort();
    let mut expected: Vec<_> =
        FORGED.iter().map(|(name, _, wrong)| (format!("branch {name}"), *wrong)).collect();
    expected.sort();
    assert_eq!(left_out.len(), expected.len(), "{left_out:?}");
    for ((name, reason), (expected, wrong)) in left_out.iter().zip(&expected) {
        assert_eq!(name, expected);
        assert!(wrong.split('|').any(|wrong| reason.contains(wrong)), "{name}: {reason}");
    }
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    scene.host("git config --remove-section fsck");
    assert_refs(&scene, &["refs/heads/good", "refs/heads/main"]);
}

/// More objects go another way: git keeps them as one pack.
#[tokio::test]
async fn a_wrong_object_among_many_is_found_as_well() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(&format!(
        "{FORGE}echo work > code; git commit -qam work
         mkdir many; for n in $(seq 150); do echo $n > many/$n; done; git add many; M=$(git write-tree --prefix=many/); git reset -q --hard
         branch forged $({{ entry 40000 .GIT $(entry 100644 config $B | tree); entry 40000 many $M; }} | tree)"
    ));
    let plain = scene
        .plain("git fetch -q ../inside forged; git fsck --strict 2>&1; git checkout -q FETCH_HEAD; ls -A");
    assert!(plain.contains("hasDotgit"), "the control: {plain}");

    let synced = scene.sync().await;
    let left_out = refused(&synced.0.archived);
    assert!(
        matches!(&left_out[..], [(name, reason)] if name == "branch forged" && reason.contains("hasDotgit")),
        "{left_out:?}"
    );
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_refs(&scene, &["refs/heads/main"]);
}

/// What is not committed can be wrong, too. It is left out, what was brought before stays, and it is not removed inside.
#[tokio::test]
async fn files_that_git_would_not_make_leave_the_users_files_and_the_sandboxs_alone() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside("echo draft > code");
    scene.sync().await;
    let wrong = scene.inside(&format!(
        "{FORGE}T=$({{ entry 40000 .GIT $(entry 100644 config $B | tree); entry 100644 code $B; }} | tree); echo $T $(git commit-tree $T -p HEAD -m forged)"
    ));
    let (tree, commit) = wrong.split_once(' ').unwrap();
    scene.inside("git checkout -q -b good; git commit -qam good; git checkout -q main; echo precious > code");
    let [main, good] = ["main", "good"].map(|name| scene.inside(&format!("git rev-parse {name}")));
    let workspace = scene.workspace();
    scene.forge_survey(
        &[
            &["repository", "", "main", "ref", "refs/heads/main", &main, "ref", "refs/heads/good", &good][..],
            &["tree", &workspace, "main", &main, commit, tree, ""],
        ]
        .concat(),
    );
    scene.plain(&format!("git fetch -q ../inside {commit}:refs/x 2>&1 || (cd ../inside; git pack-objects --revs --stdout -q) <<< {commit}"));

    let synced = scene.sync().await;
    let left_out = refused(&synced.0.archived);
    assert!(
        matches!(&left_out[..], [(name, reason)] if name.starts_with("uncommitted files in") && reason.contains("hasDotgit")),
        "{left_out:?}"
    );
    assert!(!synced.0.archived.is_complete());
    assert_eq!(scene.host("git status --porcelain; cat code"), " M code\ndraft");
    assert_refs(&scene, &["refs/heads/good", "refs/heads/main"]);

    // A start that is to follow the host does not remove what is nowhere else.
    let started = scene.start_with(|options| options.on_unapplied = OnUnapplied::FollowHost).await.unwrap();
    assert!(matches!(started.arrival, Arrival::Stayed(WhyStayed::NotArchived(_))), "{started:?}");
    assert_eq!(scene.inside("cat code"), "precious");
}

/// Content that is wrong only for those who obey it: it arrives, and nothing has obeyed.
#[tokio::test]
async fn submodules_of_a_sandbox_are_never_fetched() {
    let scene = Scene::new();
    scene.start().await;
    let trap = scene.trap("ext");
    scene.write("home/helper", &format!("{trap} </dev/null"));
    let url = format!("ext::sh {}", scene.path("home/helper").display());
    scene.inside(&format!(
        "git config -f .gitmodules submodule.x.path x && git config -f .gitmodules submodule.x.url '{url}'
         git init -q x && git -C x commit -q --allow-empty -m x && git add -A 2>/dev/null && git commit -qm modules"
    ));
    scene.plain("git -c protocol.ext.allow=always pull -q --recurse-submodules ../inside main; git -c protocol.ext.allow=always submodule update --init");
    assert_eq!(scene.sprung(), ["ext"], "the control");

    scene.host("git config protocol.ext.allow always; git config submodule.recurse true; git config fetch.recurseSubmodules true");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    scene.sync().await;
    assert_eq!((scene.sprung(), scene.host("ls -A x; git status --porcelain")), (vec![], String::new()));
    assert_refs(&scene, &["refs/heads/main"]);
}

/// Git finds some mistakes only after it has written everything. What it refused must not be there for the next sync, which
/// would find nothing missing.
#[tokio::test]
async fn what_was_refused_once_is_not_taken_without_a_look_the_next_time() {
    for files in [1, 150] {
        let mut scene = Scene::new();
        scene.start().await;
        let forged = forge("forged", "modules '\\turl = -u./x\\n'");
        scene.inside(&format!(
            "{FORGE}{forged}; git read-tree forged; for n in $(seq {files}); do echo $n > f$n; done; git add f*
             git update-ref refs/heads/forged $(git commit-tree $(git write-tree) -p HEAD -m forged); git reset -q --hard; git clean -q -f; rm .git/logs/refs/heads/forged"
        ));
        assert_eq!(refused(&scene.sync().await.0.archived).len(), 1);
        let plain = scene.plain("git -C ../inside pack-objects --revs --stdout -q <<X | git unpack-objects -q --strict || git cat-file -t $(git -C ../inside rev-parse forged)\nforged\n^main\nX");
        assert!(plain.contains("commit\n"), "the control: it is there, and all that it leads to: {plain}");

        scene.replace_inside_git("pack-objects", "git \"$@\" </dev/null; exit");
        let synced = scene.sync().await;
        assert_eq!(refused(&synced.0.archived).len(), 1, "{synced:?}");
        assert_refs(&scene, &["refs/heads/main"]);
    }
}
