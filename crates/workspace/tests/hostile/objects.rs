//! Objects that git would not make: refused as they come in, and nothing of them stays.

use crate::support::Scene;
use palisade_workspace::Commits;
use palisade_workspace::Divergence;

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

#[tokio::test]
async fn objects_that_git_would_not_make_are_refused_and_refs_stay() {
    let scene = Scene::new();
    scene.send().await;
    scene.host("git config fetch.fsck.hasDotgit ignore; git config fetch.fsck.gitmodulesUrl warn");
    for (name, forge, wrong) in FORGED {
        let forge = forge
            .strip_prefix("dir ")
            .map(|entry| format!("branch {name} $(entry 40000 {entry} $(entry 100644 config $B | tree) | tree)"))
            .or_else(|| {
                let lines = forge.strip_prefix("modules ")?;
                Some(format!(
                    "M=$(blob '[submodule \"x\"]\\n'{lines}); branch {name} $(entry 100644 .gitmodules $M | tree)"
                ))
            })
            .unwrap_or_else(|| (*forge).to_owned());
        scene.inside(&format!("{FORGE}{forge}"));
        let plain = scene.plain(&format!("git fetch -q ../inside {name}; git fsck --strict 2>&1"));
        let names = |text: &str| wrong.split('|').any(|wrong| text.contains(wrong));
        assert!(names(&plain), "the control, {name}: {plain}");

        let error = scene.try_fetch(name, false).await.unwrap_err().to_string();
        assert!(names(&error), "{name}: {error}");
    }
    assert_eq!(scene.refs(), "refs/heads/main");
}

/// Content that is wrong only for those who obey it: it arrives, and nobody has obeyed.
#[tokio::test]
async fn submodules_of_a_sandbox_are_never_fetched() {
    let scene = Scene::new();
    scene.send().await;
    let trap = scene.trap("ext");
    scene.write("home/helper", &format!("{trap} </dev/null"));
    let url = format!("ext::sh {}", scene.path("home/helper").display());
    scene.inside(&format!(
        "git config -f .gitmodules submodule.x.path x && git config -f .gitmodules submodule.x.url '{url}'
         nested() {{ git init -q $1 && git -C $1 -c user.name=a -c user.email=a@b commit -q --allow-empty -m $1; }}
         nested x && git add -A 2>/dev/null && git commit -qm modules && nested y"
    ));
    scene.plain("git -c protocol.ext.allow=always pull -q --recurse-submodules ../inside main; git -c protocol.ext.allow=always submodule update --init");
    assert_eq!(scene.sprung(), ["ext"], "the control");

    scene.host("git config protocol.ext.allow always; git config submodule.recurse true; git config fetch.recurseSubmodules true");
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    scene.sync(Divergence::Wait).await;
    assert_eq!((scene.sprung(), scene.host("ls -A x y")), (vec![], "x:\n\ny:".to_owned()));
}
