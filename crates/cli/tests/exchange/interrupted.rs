//! A sync that is cut off, by a kill at any step or a disk without room: refs are old or new, nothing is half there, the
//! user's own work is untouched, and the next sync brings everything.

use crate::{git, host, inside, on_a_small_disk, repository};
use palisade_testing::tracer::{Point, Role, Surface, trace};
use palisade_testing::{Instance, Random, requires};

/// Kills, one in each equal part of the sync's own steps.
const KILLS: u64 = 8;

/// The agent commits one round and leaves another uncommitted, in a file that is there and one that is new.
fn work(instance: &Instance, round: u64) {
    let script = format!(
        "git add -A && echo {round} > code && git add -A && git commit -qm round-{round} && \
         echo {round}+ >> code && echo {round} > new-{round}"
    );
    instance.run(["agent", "exec", "box", "--", "sh", "-c", &script]).ok();
}

/// Everything of a round is in the user's branch and files, and what the user had is as it was.
#[track_caller]
fn assert_brought(instance: &Instance, round: u64) {
    assert_eq!(git(instance, "log -1 --format=%s"), format!("round-{round}"));
    assert_eq!(git(instance, "status --porcelain"), format!(" M code\n?? new-{round}\n?? notes"));
    let read = |name: &str| std::fs::read_to_string(instance.work().join(name)).unwrap();
    assert_eq!((read("code"), read("notes")), (format!("{round}\n{round}+\n"), "the user's\n".into()));
    let entries = std::fs::read_dir(instance.work().join(".git")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<String> =
        names.filter(|name| name.starts_with("palisade-") || name == "index.lock").collect();
    assert_eq!(left, Vec::<String>::new(), "nothing of a sync is left");
}

#[test]
fn heavy_a_sync_is_killed_at_random_steps_and_the_next_brings_everything() {
    requires!(bwrap, git);
    let mut random = Random::new(Random::seed());
    let instance = repository();
    let sync = instance.command(["agent", "sync", "box"]);
    work(&instance, 0);
    let steps = trace(&sync, Surface::Nothing, &[], None).steps[&Role::Command];
    assert_brought(&instance, 0);
    for part in 0..KILLS {
        let round = part + 1;
        work(&instance, round);
        let before = git(&instance, "rev-parse HEAD");
        let step = 1 + (steps * part + random.below(steps)) / KILLS;
        let point = Point { victim: Role::Command, clock: Role::Command, step };
        let traced = trace(&sync, Surface::Nothing, &[], Some(point));
        println!("step {step} of {steps}: {:?}", traced.kill);

        git(&instance, "fsck --strict");
        let head = git(&instance, "rev-parse HEAD");
        let subject = git(&instance, "log -1 --format=%s");
        assert!(head == before || subject == format!("round-{round}"), "{subject}");
        assert_eq!(std::fs::read_to_string(instance.work().join("notes")).unwrap(), "the user's\n");
        if round % 2 == 0 {
            // Other work than what was being laid, and then that again.
            instance.run(["agent", "exec", "box", "--", "sh", "-c", "echo other > code"]).ok();
            instance.run(["agent", "sync", "box"]).ok();
            let back = format!("printf '{round}\\n{round}+\\n' > code");
            instance.run(["agent", "exec", "box", "--", "sh", "-c", &back]).ok();
        }
        instance.run(["agent", "sync", "box"]).ok();
        assert_brought(&instance, round);
    }
}

#[test]
fn objects_that_a_killed_sync_has_brought_in_part_are_brought_again() {
    requires!(bwrap, git);
    let instance = repository();
    inside(&instance, "for n in 1 2; do echo $n > code; git commit -qam round-$n; done");
    // The last commit is among the host's objects, and the one before it is not.
    let object = inside(&instance, "git cat-file commit HEAD");
    std::fs::write(instance.home().join("object"), object).unwrap();
    host(&instance, "git hash-object -w -t commit ~/object");
    assert_eq!(instance.run(["agent", "rm", "box"]).code, 7, "the commits are not on the host");
    instance.run(["agent", "sync", "box"]).ok();
    assert_eq!(git(&instance, "log --format=%s"), "round-2\nround-1\nstart");
    git(&instance, "fsck --strict");
}

#[test]
fn a_sync_onto_a_full_disk_changes_nothing_and_the_next_brings_everything() {
    // Only root may mount a small file system.
    requires!(bwrap, git, root);
    let instance = Instance::with_method("bwrap");
    let script = r#"
        git config --global user.name Ada; git config --global user.email ada@example.org
        git init -q -b main; echo 0 > code; git add -A; git commit -qm start; echo mine > notes
        "$P" agent start --agent shell --name box --allow-dirty --task 'head -c 600000 /dev/urandom > noise
            git add -A; git commit -qm noise; head -c 600000 /dev/urandom > more; echo 1 > code' >&2
        for room in 8 300 900 1500 2100; do
            head -c $((room * 1024)) /dev/zero > room; cat /dev/zero > fill 2>/dev/null || true; rm room
            if said=$("$P" agent sync box 2>&1); then echo "$room: done"
            else case $said in *'o space'*|*'disk has'*) ;; *) echo "$said" ;; esac; fi
            rm -f fill; git fsck --strict >&2; cat notes
            case $(git log -1 --format=%s) in start|noise) ;; *) git log -1 ;; esac
        done
        "$P" agent sync box >&2
        git status --porcelain; git log --format=%s; cat code; wc -c < more; ls .git/objects/pack | grep tmp || true
    "#;
    let outcome = on_a_small_disk(&instance, script);
    let told: Vec<&str> = outcome.stdout.lines().filter(|line| !line.ends_with(": done")).collect();
    let expected = [
        "mine", "mine", "mine", "mine", "mine", " M code", "?? more", "?? notes", "noise", "start", "1",
        "600000",
    ];
    assert_eq!((told, outcome.code), (expected.to_vec(), 0), "{}", outcome.stderr);
}

#[test]
fn a_sync_by_itself_onto_a_full_disk_is_told_and_tried_again() {
    // Only root may mount a small file system.
    requires!(bwrap, git, root);
    let instance = Instance::with_method("bwrap");
    let script = r#"
        git config --global user.name Ada; git config --global user.email ada@example.org
        git init -q -b main; echo 0 > code; git add -A; git commit -qm start; echo mine > notes
        "$P" agent start --agent shell --name box --allow-dirty --sync on-commit --task true >&2
        # The files that git needs to look at the repository at all are there; the pack finds no room.
        cat /dev/zero > fill 2>/dev/null || true
        "$P" agent exec box -- sh -c 'head -c 600000 /dev/urandom > noise; git add -A; git commit -qm noise' >&2
        until "$P" agent log box --sync --json | grep -qi 'no space\|disk has'; do sleep 0.2; done
        git fsck --strict >&2; git for-each-ref --format='%(refname) %(subject)'; cat notes
        rm fill
        until git log --format=%s --all | grep -q noise; do sleep 0.2; done
        git fsck --strict >&2; git log --format=%s; git status --porcelain; ls .git/objects/pack | grep tmp || true
    "#;
    let outcome = on_a_small_disk(&instance, script);
    let before: Vec<&str> =
        outcome.stdout.lines().filter(|line| !line.starts_with("refs/palisade/")).collect();
    assert_eq!(
        (before, outcome.code),
        (vec!["refs/heads/main start", "mine", "start", "?? notes"], 0),
        "{}",
        outcome.stderr
    );
    assert!(
        !outcome.stdout.contains("noise"),
        "a ref moved with nowhere to keep its objects: {}",
        outcome.stdout
    );
}

#[test]
fn a_sandbox_that_does_not_answer_is_given_up() {
    requires!(bwrap, git);
    let instance = repository();
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), "[agent]\nmax_fetch_time = \"6s\"\n").unwrap();
    work(&instance, 1);
    // The agent's own settings have its git wait for ever.
    let silent = "printf '#!/bin/sh\\nexec sleep 1000\\n' > ~/silent && chmod +x ~/silent && \
                  git config --global filter.silent.clean ~/silent && echo 'code filter=silent' > .git/info/attributes";
    inside(&instance, silent);
    let refused = instance.run(["agent", "sync", "box"]);
    assert_eq!(refused.code, 8, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("looking at the work in the sandbox: it took longer than 6 s"),
        "{}",
        refused.stderr
    );
    assert_eq!(git(&instance, "log -1 --format=%s"), "start");
    // The control: without that setting, the same sandbox answers.
    inside(&instance, "rm .git/info/attributes");
    instance.run(["agent", "sync", "box"]).ok();
    assert_brought(&instance, 1);
}
