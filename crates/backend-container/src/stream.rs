//! The attachment to the first process of a container, as one byte stream. The engine packs what comes from inside into
//! frames of its own, since it knows two outputs; only the standard one is the guest's.
//!
//! Whoever lets go of the stream ends the guest's input, and what the guest still says is read until it has left: then
//! the container is about to end by itself, see [`FarEnd`].

use bollard::container::{AttachContainerResults, LogOutput};
use bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::io::{Error, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;

pub(crate) struct Attached {
    /// Taken only when this is dropped.
    results: Option<AttachContainerResults>,
    /// What has arrived and was not read yet.
    pending: Bytes,
    /// Told, by being dropped, that the guest has left.
    leaving: Option<oneshot::Sender<()>>,
}

/// The guest, as far as it can be awaited.
#[derive(Debug)]
pub(crate) struct FarEnd(oneshot::Receiver<()>);

impl FarEnd {
    /// Until the guest has closed its output, or the patience is over.
    pub(crate) async fn left(self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.0).await;
    }
}

impl Attached {
    pub(crate) fn new(results: AttachContainerResults) -> (Self, FarEnd) {
        let (leaving, left) = oneshot::channel();
        (Self { results: Some(results), pending: Bytes::new(), leaving: Some(leaving) }, FarEnd(left))
    }

    fn input(&mut self) -> Result<Pin<&mut (dyn AsyncWrite + Send)>> {
        let results = self.results.as_mut().ok_or_else(|| Error::other("the stream was let go"))?;
        Ok(results.input.as_mut())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let (Some(mut results), Some(leaving)) = (self.results.take(), self.leaving.take()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let _leaving = leaving;
            // Where the input is broken already, the guest has seen its end.
            let _ = results.input.shutdown().await;
            while let Some(Ok(_)) = poll_fn(|context| results.output.as_mut().poll_next(context)).await {}
        });
    }
}

impl AsyncRead for Attached {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        while self.pending.is_empty() {
            let Some(results) = self.results.as_mut() else { return Poll::Ready(Ok(())) };
            match ready!(results.output.as_mut().poll_next(context)) {
                None => {
                    self.leaving = None;
                    return Poll::Ready(Ok(()));
                }
                Some(Ok(LogOutput::StdOut { message })) => self.pending = message,
                // The guest closes its standard error before it says anything; what comes there is none of it.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(Error::other(error))),
            }
        }
        let count = self.pending.len().min(buffer.remaining());
        buffer.put_slice(&self.pending[..count]);
        self.pending.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Attached {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.input()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.input()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.input()?.poll_shutdown(context)
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}
