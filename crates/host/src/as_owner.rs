//! Work in a directory as the user that it belongs to, in a process of root's.
//!
//! What root writes into a user's repository is root's: the user could not change it any more. And a repository of a
//! user's must not choose what root reads. So a thread of its own takes the user's identity, which on Linux every thread
//! has for itself, and ends with the work. Programs that it starts have that identity, too.

use palisade_core::HostIdentity;
use rustix::process::{Gid, Uid};
use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user to work as in a directory; `None` when that is this process's own.
pub fn other_owner(directory: &Path) -> io::Result<Option<HostIdentity>> {
    let meta = std::fs::metadata(directory)?;
    let is_other = rustix::process::geteuid().is_root() && meta.uid() != 0;
    Ok(is_other.then_some(HostIdentity { uid: meta.uid(), gid: meta.gid() }))
}

/// Runs work as a user, on a thread of its own where that is not this process's own.
pub async fn run_as<T, W, F>(user: Option<HostIdentity>, work: W) -> io::Result<T>
where
    W: FnOnce() -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    let Some(user) = user else { return Ok(work().await) };
    let (send, receive) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("as-owner".into()).spawn(move || {
        let ran = take_identity(user).and_then(|()| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(work()))
        });
        // The other side may have been dropped.
        let _ = send.send(ran);
    })?;
    receive.await.map_err(|_| io::Error::other("the thread ended early"))?
}

/// For this thread and for good.
fn take_identity(user: HostIdentity) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_of_another_user_has_their_identity_and_leaves_ours_alone() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().to_owned();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&here, Some(4321), Some(4321)).unwrap();
        }
        let user = other_owner(&here).unwrap();
        assert_eq!(user.is_some(), is_root);
        let file = here.join("file");
        let made = file.clone();
        run_as(user, || async move { std::fs::write(made, "x") }).await.unwrap().unwrap();
        let expected = if is_root { 4321 } else { rustix::process::geteuid().as_raw() };
        assert_eq!(std::fs::metadata(&file).unwrap().uid(), expected);
        assert_eq!(rustix::process::geteuid().is_root(), is_root);
    }
}
