//! A sandbox whose git is any program at all: it may lie, stall, flood or talk to the user's terminal.

use crate::support::Scene;
use palisade_workspace::{Divergence, GitError};
use std::time::{Duration, Instant};

impl Scene {
    /// The sandbox answers with this program instead of git's.
    fn answers(&self, script: &str) {
        self.write("transport", &format!("shift\nexport SIDE=inside\n{script}\n"));
    }

    /// The sandbox's git packs with this program, as its own settings may say.
    fn packs_with(&self, script: &str) {
        self.write("hook", &format!("#!/bin/sh\n{script}\n"));
        self.write("evil", &format!("[uploadpack]\npackObjectsHook = {}\n", self.path("hook").display()));
        self.host("chmod +x ../hook");
        self.answers(&format!("export GIT_CONFIG_GLOBAL={}\nexec sh -c \"$1\"", self.path("evil").display()));
    }
}

async fn with_work() -> Scene {
    let scene = Scene::new();
    scene.send().await;
    scene.inside(
        "echo work > code && head -c 300000 /dev/urandom > noise && git add -A && git commit -qm work",
    );
    scene
}

#[tokio::test]
async fn nonsense_is_an_error_and_changes_nothing() {
    let scene = with_work().await;
    for (script, told) in [
        ("exec head -c 200000 /dev/urandom", "bad line length|protocol error"),
        ("exec yes", "bad line length"),
        ("printf '0000'; exec sleep 0", "couldn't find remote ref|early EOF|hung up"),
        ("exit 3", "Could not read from remote|hung up"),
        ("printf '000dERR \\033[2J!'", "ERR|remote error"),
    ] {
        scene.answers(script);
        let error = scene.try_sync(Divergence::Wait).await.unwrap_err().to_string();
        assert!(told.split('|').any(|told| error.contains(told)), "{script}: {error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
    assert_eq!(
        (scene.refs().as_str(), scene.host("git status --porcelain").as_str()),
        ("refs/heads/main", "")
    );
}

#[tokio::test]
async fn a_pack_that_never_comes_or_never_ends_is_given_up() {
    let mut scene = with_work().await;
    scene.patience = Duration::from_secs(3);
    for hook in ["exec sleep 1000", "while :; do echo progress >&2 || exit; sleep 0.01; done", "exec yes"] {
        scene.packs_with(hook);
        if !hook.ends_with("yes") {
            let plain = scene.plain("GIT_SSH_VARIANT=simple GIT_SSH_COMMAND='sh ../transport' timeout 2 git fetch -q x:$PWD/../inside main || echo $?");
            assert_eq!(plain.lines().next(), Some("124"), "the control: {plain}");
        }
        let began = Instant::now();
        let error = scene.try_sync(Divergence::Wait).await.unwrap_err();
        assert!(matches!(error, GitError::Slow { .. } | GitError::Failed { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(scene.host("ls .git/objects/pack"), "");
    }
    assert_eq!(scene.refs(), "refs/heads/main");
    scene.answers("exec sh -c \"$1\"");
    scene.patience = Duration::from_secs(600);
    scene.sync(Divergence::Wait).await;
    assert_eq!(scene.host("git log -1 --format=%s"), "work");
}

#[tokio::test]
async fn half_a_pack_is_cleared_away() {
    let scene = with_work().await;
    scene.host("git config fetch.unpackLimit 1");
    scene.answers("sh -c \"$1\" | perl -e 'while ($left = 100000 - $sent and $n = sysread STDIN, $b, $left) { syswrite STDOUT, $b; $sent += $n }'");
    let plain = scene.plain("GIT_SSH_VARIANT=simple GIT_SSH_COMMAND='sh ../transport' git fetch -q x:$PWD/../inside main || ls .git/objects/pack");
    assert!(plain.contains("tmp_pack_"), "the control: {plain}");

    scene.try_sync(Divergence::Wait).await.unwrap_err();
    assert_eq!((scene.host("ls .git/objects/pack").as_str(), scene.refs().as_str()), ("", "refs/heads/main"));
}

#[tokio::test]
async fn words_for_the_users_terminal_are_shown_as_text() {
    let scene = with_work().await;
    scene.packs_with("cat > /dev/null; printf '\\033]0;title\\007\\033[2Jgone\\n' >&2; exit 1");
    let plain = scene.plain(
        "GIT_SSH_VARIANT=simple GIT_SSH_COMMAND='sh ../transport' git -c sideband.allowControlCharacters=true fetch x:$PWD/../inside main",
    );
    assert!(plain.contains("\u{1b}[2J"), "the control: {plain:?}");
    let error = scene.try_sync(Divergence::Wait).await.unwrap_err().to_string();
    assert!(error.contains("\\u{1b}]0;title\\u{7}\\u{1b}[2Jgone") && !error.contains('\u{1b}'), "{error:?}");
}
