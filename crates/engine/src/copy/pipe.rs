//! Between the asynchronous connection and the tar library's blocking reads and writes.

use std::io::{self, Read, Write};
use tokio::sync::mpsc;

/// Pieces under way; with pieces of at most 64 KiB, a bound on memory.
const PIECES: usize = 8;
const PIECE: usize = 64 * 1024;

pub(super) struct PipeReader {
    chunks: mpsc::Receiver<Vec<u8>>,
    current: Vec<u8>,
    position: usize,
}

pub(super) fn reader() -> (PipeReader, mpsc::Sender<Vec<u8>>) {
    let (sender, chunks) = mpsc::channel(PIECES);
    (PipeReader { chunks, current: Vec::new(), position: 0 }, sender)
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.current.len() {
            match self.chunks.blocking_recv() {
                Some(chunk) => (self.current, self.position) = (chunk, 0),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.current.len() - self.position);
        buffer[..count].copy_from_slice(&self.current[self.position..self.position + count]);
        self.position += count;
        Ok(count)
    }
}

pub(super) struct PipeWriter {
    chunks: mpsc::Sender<Vec<u8>>,
    pending: Vec<u8>,
}

pub(super) fn writer() -> (PipeWriter, mpsc::Receiver<Vec<u8>>) {
    let (chunks, receiver) = mpsc::channel(PIECES);
    (PipeWriter { chunks, pending: Vec::new() }, receiver)
}

impl Write for PipeWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(buffer);
        if self.pending.len() >= PIECE {
            self.flush()?;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.pending);
        self.chunks.blocking_send(chunk).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
