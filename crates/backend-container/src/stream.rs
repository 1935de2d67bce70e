//! The attachment to the first process of a container, as one byte stream. The engine packs what comes from inside into
//! frames of its own, since it knows two outputs; only the standard one is the guest's.

use bollard::container::{AttachContainerResults, LogOutput};
use bytes::{Buf, Bytes};
use std::io::{Error, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) struct Attached {
    results: AttachContainerResults,
    /// What has arrived and was not read yet.
    pending: Bytes,
}

impl Attached {
    pub(crate) fn new(results: AttachContainerResults) -> Self {
        Self { results, pending: Bytes::new() }
    }
}

impl AsyncRead for Attached {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        while self.pending.is_empty() {
            match ready!(self.results.output.as_mut().poll_next(context)) {
                None => return Poll::Ready(Ok(())),
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
        self.results.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.results.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.results.input.as_mut().poll_shutdown(context)
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}
