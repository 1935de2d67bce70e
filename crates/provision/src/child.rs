//! What every program that is started here needs: an end together with its helpers, and pipes that are read to theirs.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Ends a program's process group when it is given up: a helper of its own may outlive it and hold its pipes. The
/// program must have been started in a group of its own.
pub(crate) struct Group(Option<u32>);

impl Group {
    pub(crate) fn of(child: &tokio::process::Child) -> Self {
        Self(child.id())
    }

    /// It has been waited for: its number may be another's from here on.
    pub(crate) fn is_over(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // Nothing to tell: it has not been waited for, so it is there, if only as a zombie.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// At most so much of a pipe; the rest is read and forgotten, so that the writer does not wait for ever.
pub(crate) async fn bounded(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = (&mut pipe).take(most).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    bytes
}
