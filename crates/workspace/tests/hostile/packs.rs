//! Git inside that is any program at all: what it sends in the place of a pack may be nonsense, too much, or never end.

use crate::assert_refs;
use crate::support::{Scene, Synced};
use palisade_workspace::{CommitsOutcome, ExchangeError, SandboxError, TransferError};
use std::time::{Duration, Instant};

/// A sandbox with a commit on `main`.
async fn with_work() -> Scene {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(
        "echo work > code && head -c 300000 /dev/urandom > noise && git add -A && git commit -qm work",
    );
    scene
}

/// Why a branch was left out.
#[track_caller]
fn refusal(synced: &Synced) -> String {
    let [refused] = synced.0.archived.main.refused.as_slice() else { panic!("{synced:?}") };
    assert_eq!(refused.what.describe(), "branch main");
    refused.reason.clone()
}

#[tokio::test]
async fn a_pack_that_is_none_is_left_out_by_name_and_nothing_of_it_stays() {
    let mut scene = with_work().await;
    let broken = "git \"$@\" > ../inside-home/pack; printf X | dd of=../inside-home/pack bs=1 seek=2000 conv=notrunc status=none; cat ../inside-home/pack; exit";
    for (script, said) in [
        ("exit 0", "incomplete"),
        ("exec head -c 5000 /dev/urandom", "PACK|pack|signature"),
        ("yes | head -c 100000; exit", "PACK|pack|signature"),
        ("git \"$@\" | head -c 100000; exit", "early EOF"),
        ("git \"$@\" | head -c 12; exit", "early EOF"),
        (broken, "inflate|corrupt|CRC|SHA-1|hash|mismatch|unpack"),
        (
            "printf 'PACK\\0\\0\\0\\2\\377\\377\\377\\377'; head -c 100000 /dev/zero; exit",
            "pack|memory|overflow",
        ),
        ("printf 'PACK\\0\\0\\0\\177\\0\\0\\0\\1'; exit", "version"),
        // Everything is sent, and yet it has failed.
        ("git \"$@\"; echo said >&2; exit 1", "said"),
        ("printf '\\033]0;title\\007\\033[2Jgone\\n' >&2; exit 1", "\\u{1b}]0;title\\u{7}\\u{1b}[2Jgone"),
    ] {
        scene.replace_inside_git("pack-objects", script);
        let reason = refusal(&scene.sync().await);
        assert!(said.split('|').any(|said| reason.contains(said)), "{script}: {reason}");
        assert!(!reason.contains('\u{1b}'), "{reason:?}");
        assert_refs(&scene, &["refs/heads/main"]);
        assert_eq!(scene.host("git status --porcelain; git log --format=%s; ls .git/objects/pack"), "first");
    }
    let plain = scene.plain("git -C ../inside pack-objects --all --stdout -q </dev/null 2>/dev/null | head -c 100000 | git index-pack --stdin || ls .git/objects/pack");
    assert!(plain.contains("tmp_pack_"), "the control: plain git leaves half a pack: {plain}");

    scene.restore_inside();
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
}

/// The objects are good, each for itself.
#[tokio::test]
async fn a_pack_without_some_of_its_objects_is_left_out_by_name() {
    let mut scene = with_work().await;
    let without = "git rev-list --objects --filter=blob:none main | git pack-objects --stdout -q; exit";
    let script = |command: &str| format!("cat > /dev/null; {command}");
    let plain = scene.plain(&format!(
        "(cd ../inside; {}) | git unpack-objects -q && git update-ref refs/heads/new {} && git fsck 2>&1",
        without.trim_end_matches("; exit"),
        scene.inside("git rev-parse main")
    ));
    assert!(plain.contains("missing blob"), "the control: {plain}");

    for command in [without, "echo main~1 | git pack-objects --revs --stdout -q; exit"] {
        scene.replace_inside_git("pack-objects", &script(command));
        refusal(&scene.sync().await);
        assert_refs(&scene, &["refs/heads/main"]);
    }
}

#[tokio::test]
async fn a_pack_that_never_comes_or_never_ends_is_given_up() {
    let mut scene = with_work().await;
    let limits = scene.limits;
    for (script, bytes) in [
        ("exec sleep 1000", u64::MAX >> 1),
        ("while :; do echo progress >&2; done", u64::MAX >> 1),
        ("exec yes", 20_000_000),
        ("git \"$@\" | head -c 1000; exec sleep 1000", u64::MAX >> 1),
        // A file without an end.
        (
            "printf 'PACK\\0\\0\\0\\2\\0\\0\\0\\1\\277\\377\\377\\377\\377\\1\\170\\001'; while :; do printf '\\0\\377\\377\\0\\0'; head -c 65535 /dev/zero; done",
            20_000_000,
        ),
        // Behind the end of a whole pack.
        ("git \"$@\"; exec yes", 20_000_000),
    ] {
        scene.limits.silence = Duration::from_millis(500);
        scene.limits.bytes = bytes;
        scene.replace_inside_git("pack-objects", script);
        let began = Instant::now();
        match scene.sync_with(|_| {}).await {
            Err(ExchangeError::Sandbox(SandboxError::NotRun { source, .. })) => {
                let expected = matches!(
                    source,
                    TransferError::Silent(_) | TransferError::Slow(_) | TransferError::TooMuch(_)
                );
                assert!(expected, "{script}: {source}");
            }
            other => panic!("{script}: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{script}");
        assert_refs(&scene, &["refs/heads/main"]);
        assert_eq!(scene.host("git status --porcelain; ls .git/objects/pack"), "");
    }
    let plain = scene.plain("mkfifo pipe; exec 3<>pipe; printf 'PACK\\0\\0\\0\\2\\0\\0\\0\\1' >&3; timeout 1 git index-pack --stdin <&3 || echo $?");
    assert_eq!(plain.lines().next(), Some("124"), "the control: {plain}");

    scene.limits = limits;
    scene.restore_inside();
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
}

/// A large file is written to the disk as it comes.
#[tokio::test]
async fn half_of_a_large_file_is_cleared_away() {
    let mut scene = with_work().await;
    scene.host("git config core.bigFileThreshold 100k");
    scene.replace_inside_git("pack-objects", "git \"$@\" | head -c 250000; exit");
    let plain = scene.plain(
        "echo main | git -C ../inside pack-objects --revs --stdout -q | head -c 250000 | git unpack-objects -q || find .git/objects -name 'tmp_obj_*'",
    );
    assert!(plain.contains("tmp_obj_"), "the control: {plain}");

    refusal(&scene.sync().await);
    assert_refs(&scene, &["refs/heads/main"]);
}

#[tokio::test]
async fn a_pack_with_more_than_was_asked_for_brings_only_what_was_asked_for() {
    let mut scene = with_work().await;
    scene.inside("git checkout -q --orphan other && git commit -qm unasked && git checkout -q -f main && git branch -D -q other; git branch -D -q other || true");
    let unasked = scene.inside("git rev-list --reflog --max-parents=0 --grep=unasked");
    scene.replace_inside_git(
        "pack-objects",
        "{ cat; git rev-list --reflog --max-parents=0; } | git \"$@\"; exit",
    );
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_refs(&scene, &["refs/heads/main"]);
    assert!(!scene.host("git rev-list main").contains(&unasked));
}
