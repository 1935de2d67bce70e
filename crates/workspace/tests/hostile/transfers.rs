//! The same limits with the real thing in between: our guest, and the host's end of the protocol.

use crate::assert_refs;
use crate::support::Scene;
use palisade_protocol::client::Client;
use palisade_workspace::{CommitsOutcome, ExchangeError, SandboxError, TransferError};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A guest that is a process beside us.
struct Guest {
    process: std::process::Child,
    client: Arc<Client>,
}

impl Guest {
    async fn start() -> Self {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut command = std::process::Command::new(palisade_testing::guest_binary());
        command.args(["serve", "--stdio", "--subreaper"]);
        command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
        let process = command.spawn().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = tokio::net::UnixStream::from_std(ours).unwrap();
        let (client, _) = Client::connect(stream).await.unwrap();
        Self { process, client: Arc::new(client) }
    }
}

/// A scene with a guest between the host and the inside.
async fn scene() -> (Scene, Guest) {
    let (mut scene, guest) = (Scene::new(), Guest::start().await);
    scene.commands = guest.client.clone();
    scene.start().await;
    (scene, guest)
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn work_comes_back_through_a_guest() {
    let (mut scene, _guest) = scene().await;
    scene.inside(
        "head -c 3000000 /dev/urandom > noise && git add -A && git commit -qm work && echo more > more",
    );
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain; cmp noise ../inside/noise"), "?? more");
    scene.replace_inside_git("pack-objects", "exec no-such-program");
    scene.inside("echo x > x && git add x && git commit -qm x");
    let synced = scene.sync().await;
    let refused = synced.0.archived.main.refused.iter().map(|refused| refused.what.describe());
    let refused: Vec<String> = refused.collect();
    assert_eq!(refused, ["branch main".to_owned(), format!("uncommitted files in {}", scene.workspace())]);
}

#[tokio::test]
async fn limits_on_bytes_silence_and_time_hold() {
    let (mut scene, _guest) = scene().await;
    scene.inside("echo work > code && git commit -qam work");
    let limits = scene.limits;
    for (script, silence, time, expected) in [
        ("exec yes", 60, 60, "more than the 20000000 bytes"),
        ("exec yes >&2", 60, 60, "more than the 20000000 bytes"),
        ("exec sleep 1000", 1, 60, "nothing came or went for 1 s"),
        ("exec 0<&-; exec sleep 1000", 1, 60, "nothing came or went for 1 s"),
        ("while echo drop; do sleep 0.1; done", 60, 1, "it took longer than 1 s"),
    ] {
        scene.limits.bytes = 20_000_000;
        (scene.limits.silence, scene.limits.time) = (Duration::from_secs(silence), Duration::from_secs(time));
        scene.replace_inside_git("pack-objects", script);
        let began = Instant::now();
        match scene.sync_with(|_| {}).await {
            Err(ExchangeError::Sandbox(SandboxError::NotRun { source, .. })) => {
                assert!(source.to_string().contains(expected), "{script}: {source}");
            }
            other => panic!("{script}: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{script}");
        assert_refs(&scene, &["refs/heads/main"]);
    }
    scene.limits = limits;
    scene.restore_inside();
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 }, "the control");
}

#[tokio::test]
async fn a_guest_that_dies_in_the_middle_is_an_error_and_nothing_of_it_stays() {
    let (mut scene, guest) = scene().await;
    scene.inside("head -c 300000 /dev/urandom > noise && git add -A && git commit -qm work");
    let kill = format!("git \"$@\" | head -c 100000; kill -9 {}; exec sleep 1000", guest.process.id());
    scene.replace_inside_git("pack-objects", &kill);
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    let lost = |error: &ExchangeError| {
        matches!(
            error,
            ExchangeError::Sandbox(SandboxError::NotRun { source: TransferError::Connection(_), .. })
        )
    };
    assert!(lost(&error), "{error}");
    assert_refs(&scene, &["refs/heads/main"]);
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    assert!(lost(&error), "{error}");

    let another = Guest::start().await;
    scene.restore_inside();
    scene.commands = another.client.clone();
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
}
