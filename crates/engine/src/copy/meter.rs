//! A bound on what a tar reader takes from its stream before the next entry: names and extensions come ahead of the
//! entry they describe, in any length the sender likes, and the reader keeps them in memory.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};

/// More than the longest name and link target of any tree, and than the map of any sparse file worth its name.
const HEADERS: u64 = 256 * 1024;

pub(super) struct Meter<R> {
    inner: RefCell<R>,
    left: Cell<u64>,
}

impl<R: Read> Meter<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner: RefCell::new(inner), left: Cell::new(HEADERS) }
    }

    /// From here on: the content of the entry that was just read, and the headers of the one behind it.
    pub(super) fn allow(&self, content: u64) {
        self.left.set(content.saturating_add(HEADERS));
    }
}

impl<R: Read> Read for &Meter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            let reason = format!("it has more than {} KiB of headers before one entry", HEADERS / 1024);
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.inner.borrow_mut().read(&mut buffer[..most])?;
        self.left.set(left - count as u64);
        Ok(count)
    }
}
