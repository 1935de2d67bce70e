//! The byte stream to the host: frames in, frames out, and the bound on what waits to go out.

use palisade_protocol::message::encode_data;
use palisade_protocol::{Channel, Decoder, Frame, StreamId, frame};
use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Above this, nothing more is read from commands and connections until the host reads.
const CONGESTED: usize = 256 * 1024;
/// Above this, not even requests are read: answers count too.
const FULL: usize = 1024 * 1024;
const READ: usize = frame::MAX_DATA;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Something,
    Nothing,
    /// The host closed the stream, or it broke.
    End,
}

#[derive(Debug)]
pub(crate) struct Link {
    input: OwnedFd,
    output: OwnedFd,
    pub(crate) decoder: Decoder,
    queued: Vec<u8>,
    written: usize,
    /// One buffer for every read of the program.
    scratch: Box<[u8]>,
}

impl Link {
    pub(crate) fn new(input: OwnedFd, output: OwnedFd) -> Self {
        Self {
            input,
            output,
            decoder: Decoder::new(frame::MAX_FROM_HOST),
            queued: Vec::new(),
            written: 0,
            scratch: vec![0; READ].into_boxed_slice(),
        }
    }

    /// To nobody: it ends as soon as it is read.
    pub(crate) fn to_nothing() -> std::io::Result<Self> {
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self::new(null.try_clone()?, null))
    }

    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    fn pending(&self) -> usize {
        self.queued.len() - self.written
    }

    pub(crate) fn wants_write(&self) -> bool {
        self.pending() > 0
    }

    pub(crate) fn congested(&self) -> bool {
        self.pending() > CONGESTED
    }

    pub(crate) fn full(&self) -> bool {
        self.pending() > FULL
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        frame.encode(&mut self.queued);
    }

    pub(crate) fn send_data(&mut self, stream: StreamId, channel: Channel, data: &[u8]) {
        encode_data(stream, channel, data, &mut self.queued);
    }

    /// Reads up to `most` bytes from `source` and sends them on; the number read, zero at the end.
    pub(crate) fn relay(
        &mut self,
        source: BorrowedFd<'_>,
        stream: StreamId,
        channel: Channel,
        most: usize,
    ) -> Result<usize, Errno> {
        let most = most.min(self.scratch.len());
        let read = rustix::io::read(source, &mut self.scratch[..most])?;
        if read > 0 {
            encode_data(stream, channel, &self.scratch[..read], &mut self.queued);
        }
        Ok(read)
    }

    /// Reads from a terminal for somebody who keeps the bytes.
    pub(crate) fn read(&mut self, source: BorrowedFd<'_>) -> Result<&[u8], Errno> {
        let read = rustix::io::read(source, &mut self.scratch[..])?;
        Ok(&self.scratch[..read])
    }

    /// Reads once from the host, into the decoder.
    pub(crate) fn receive(&mut self) -> Received {
        match rustix::io::read(&self.input, spare_capacity(self.decoder.spare())) {
            Ok(0) => Received::End,
            Ok(_) => Received::Something,
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// Writes what the host takes now; false when it will never take anything again.
    pub(crate) fn flush(&mut self) -> bool {
        while self.wants_write() {
            match rustix::io::write(&self.output, &self.queued[self.written..]) {
                Ok(written) => self.written += written,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        if self.wants_write() {
            // Moved only when that halves the buffer, so that a byte is copied a bounded number of times.
            if self.written > self.queued.len() / 2 {
                self.queued.drain(..self.written);
                self.written = 0;
            }
        } else {
            self.queued.clear();
            self.queued.shrink_to(READ);
            self.written = 0;
        }
        true
    }

    /// Forgets what nobody will read.
    pub(crate) fn discard_output(&mut self) {
        self.queued = Vec::new();
        self.written = 0;
    }
}
