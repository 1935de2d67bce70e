//! Files that git ignores, brought home by an honest agent: replaced by their successors, kept when they are the user's,
//! in the working tree of their branch.

use crate::{git, inside, on_a_small_disk, repository};
use palisade_testing::{Instance, Outcome, Random, requires};
use std::time::Duration;

const IGNORE: &str = "printf 'build/\\n*.o\\n' > .gitignore && git add .gitignore && git commit -qm ignore";

fn sync(instance: &Instance, options: &[&str]) -> Outcome {
    instance.run(["agent", "sync", "box", "--artifacts"].iter().chain(options))
}

fn read(instance: &Instance, name: &str) -> String {
    std::fs::read_to_string(instance.work().join(name)).unwrap()
}

fn there(instance: &Instance, name: &str) -> bool {
    instance.work().join(name).symlink_metadata().is_ok()
}

#[test]
fn named_files_come_alone_and_names_that_lead_elsewhere_are_refused() {
    requires!(bwrap, git);
    let instance = repository();
    inside(
        &instance,
        &format!("{IGNORE}; mkdir -p build/a build/b && echo a > build/a/x && echo b > build/b/x"),
    );
    let work = instance.work().canonicalize().unwrap();
    let synced = sync(&instance, &["./build/a/", "code"]).ok().stderr;
    let expected =
        format!("main: 1 artifact, 2 bytes, 1 left to git, which carries them in {}\n", work.display());
    assert!(synced.starts_with("main: 1 commit\n") && synced.ends_with(&expected), "{synced}");
    assert_eq!((read(&instance, "build/a/x").as_str(), there(&instance, "build/b")), ("a\n", false));

    for (path, why) in [
        ("../outside", "it leads out of the working tree"),
        ("/etc/passwd", "it leads out of the working tree"),
        ("build/../../x", "it leads out of the working tree"),
        (".", "it is the working tree itself"),
        (".git/hooks", "it leads into git's own directory"),
        ("build/.GIT", "it leads into git's own directory"),
    ] {
        let refused = sync(&instance, &[path]);
        assert_eq!(refused.code, 2, "{path}: {}", refused.stderr);
        assert!(refused.stderr.contains(&format!("{path} cannot be brought: {why}")), "{}", refused.stderr);
    }
    let missing = sync(&instance, &["nothing"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("no such file or directory in the sandbox"), "{}", missing.stderr);
}

#[test]
fn the_users_own_files_stay_and_what_to_do_is_said() {
    requires!(bwrap, git);
    let instance = repository();
    inside(
        &instance,
        &format!("{IGNORE}; mkdir build && echo 1 > build/own && echo 1 > build/out && echo 1 > new.o"),
    );
    std::fs::create_dir(instance.work().join("build")).unwrap();
    std::fs::write(instance.work().join("build/own"), "mine").unwrap();
    let told = sync(&instance, &[]).ok().stderr;
    assert!(told.contains("main: 2 artifacts, 4 bytes in "), "{told}");
    assert!(told.contains("warning: main: these are yours and stay as they are: build/own\n"), "{told}");
    assert!(told.contains("  next: move them away, then palisade agent sync box --artifacts\n"), "{told}");
    assert_eq!(
        (read(&instance, "build/own").as_str(), read(&instance, "build/out").as_str()),
        ("mine", "1\n")
    );

    // Its own are replaced, and those of an earlier sandbox of the same name are the user's.
    inside(&instance, "echo 3 > new.o");
    sync(&instance, &[]).ok();
    assert_eq!(read(&instance, "new.o"), "3\n");
    instance.run(["agent", "rm", "box", "--discard", "box"]).ok();
    let task = "mkdir build && echo 2 > build/own && echo 2 > build/out && ln -s out build/link";
    instance
        .run(["agent", "start", "--agent", "shell", "--name", "box", "--allow-dirty", "--task", task])
        .ok();
    std::fs::remove_file(instance.work().join("build/own")).unwrap();
    let report = instance.run(["agent", "sync", "box", "--json", "--artifacts"]).ok().json();
    let place = instance.work().canonicalize().unwrap();
    assert_eq!(
        report["artifacts"],
        serde_json::json!([{
            "branch": "main", "place": place, "files": 1, "links": 1, "bytes": 2, "same": 0, "tracked": 0,
            "kept": ["build/out"], "kept_in_all": 1, "left_out": [], "left_out_in_all": 0, "autorun": [],
        }])
    );
    assert_eq!(
        (read(&instance, "build/own").as_str(), read(&instance, "build/link").as_str()),
        ("2\n", "1\n")
    );
    assert_eq!(git(&instance, "status --porcelain"), "?? notes");
}

#[test]
fn each_branch_goes_to_the_working_tree_where_it_is_checked_out() {
    requires!(bwrap, git);
    let instance = repository();
    inside(
        &instance,
        &format!(
            "{IGNORE}; mkdir build && echo main > build/out; git worktree add -q .worktrees/side -b side && \
             mkdir .worktrees/side/build && echo side > .worktrees/side/build/out"
        ),
    );
    let told = sync(&instance, &["--all"]).ok().stderr;
    assert!(
        told.contains("warning: side: its artifacts wait: you have that branch checked out nowhere\n"),
        "{told}"
    );
    assert_eq!(read(&instance, "build/out"), "main\n");
    assert!(!there(&instance, ".worktrees"), "another working tree is no artifact");

    git(&instance, "worktree add -q ../side side");
    sync(&instance, &["--worktree", "side"]).ok();
    assert_eq!(
        (read(&instance, "build/out").as_str(), read(&instance, "../side/build/out").as_str()),
        ("main\n", "side\n")
    );
    let unknown = sync(&instance, &["--worktree", "none"]);
    assert_eq!(unknown.code, 6, "{}", unknown.stderr);
}

#[test]
fn files_that_were_sent_in_do_not_come_back_as_artifacts() {
    requires!(bwrap, git);
    let instance = repository();
    std::fs::write(instance.work().join(".env"), "A=1\n").unwrap();
    let start =
        ["agent", "start", "--agent", "shell", "--name", "box", "--allow-dirty", "--task", "echo A=2 > .env"];
    instance.run(start).ok();
    let told = sync(&instance, &[]).ok().stderr;
    assert!(told.contains("main: 0 artifacts, 0 bytes in "), "{told}");
    // By name it would, and it is the user's.
    let told = sync(&instance, &[".env"]).ok().stderr;
    assert!(told.contains("these are yours and stay as they are: .env\n"), "{told}");
    assert_eq!(read(&instance, ".env"), "A=1\n");
}

#[test]
fn heavy_a_sync_of_artifacts_is_killed_and_the_next_one_knows_its_files() {
    requires!(bwrap, git);
    let instance = repository();
    let mut random = Random::new(Random::seed());
    // Every file anew, each of one letter alone.
    let build = |letter: char| {
        let script =
            "mkdir -p build && for i in $(seq 60); do head -c 20000 /dev/zero | tr '\\0' $0 > build/$i; done";
        instance.run(["agent", "exec", "box", "--", "sh", "-c", script, &letter.to_string()]).ok();
    };
    inside(&instance, IGNORE);
    build('0');
    let began = std::time::Instant::now();
    sync(&instance, &[]).ok();
    let whole = began.elapsed();
    for (round, (first, second)) in ('a'..='f').zip('A'..='F').enumerate() {
        build(first);
        let mut child = instance.command(["agent", "sync", "box", "--artifacts"]).spawn().unwrap();
        // The moment is the subject here, not the wait for something.
        std::thread::sleep(whole / 3 + Duration::from_millis(random.below(whole.as_millis() as u64 * 2 / 3)));
        child.kill().unwrap();
        child.wait().unwrap();
        for entry in std::fs::read_dir(instance.work().join("build")).unwrap().flatten() {
            let content = std::fs::read(entry.path()).unwrap();
            let one = content.first().copied().unwrap_or_default();
            assert!(
                content.len() == 20000 && content.iter().all(|byte| *byte == one),
                "{entry:?} is in part"
            );
        }
        build(second);
        let told = sync(&instance, &[]).ok().stderr;
        assert!(told.contains("main: 60 artifacts, 1200000 bytes in "), "round {round}: {told}");
        assert!(!told.contains("these are yours"), "round {round}: {told}");
    }
}

#[test]
fn artifacts_onto_a_full_disk_are_given_up_and_come_whole_when_there_is_room() {
    // Only root may mount a small file system.
    requires!(bwrap, git, root);
    let instance = Instance::with_method("bwrap");
    let script = r#"
        git config --global user.name Ada; git config --global user.email ada@example.org
        git init -q -b main; echo build/ > .gitignore; git add -A; git commit -qm start; mkdir build; echo mine > build/own
        "$P" agent start --agent shell --name box --task 'mkdir build; echo theirs > build/own; echo a > build/a
            head -c 1500000 /dev/urandom > build/b; head -c 1500000 /dev/urandom > build/c' >&2
        head -c 2000000 /dev/zero > fill
        "$P" agent sync box --artifacts 2>&1 | grep -v '^nothing new' | sed 's/[0-9][0-9]*$/ROOM/'
        ls build; cat build/own
        rm fill; "$P" agent sync box --artifacts >&2
        wc -c < build/b; wc -c < build/c
        head -c 600000 /dev/zero > fill
        "$P" cp box:build . 2>&1 | sed 's/[0-9][0-9]*$/ROOM/'
    "#;
    let outcome = on_a_small_disk(&instance, script);
    let needs = |path: &str| format!("error: {path} needs 1500000 bytes, and the disk has ROOM\n");
    let hint = "hint: free some space on that file system and try again\n";
    let expected =
        format!("{}{hint}a\nb\nown\nmine\n1500000\n1500000\n{}{hint}", needs("build/c"), needs("build/b"));
    assert_eq!((outcome.stdout, outcome.code), (expected, 0), "{}", outcome.stderr);
}
