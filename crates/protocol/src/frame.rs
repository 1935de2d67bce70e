//! Frames: `kind (1) · stream (4, big-endian) · length (4, big-endian) · payload`.
//!
//! Kind 0 is a lone padding byte without a header. A host that re-attaches to a guest in the middle of a frame
//! sends [`RESYNC`] padding bytes: whatever frame was cut is completed by them, the rest are skipped, and the next
//! byte starts a frame again.

use crate::Violation;

/// Streams opened by the host are odd, by the guest even; 0 is the connection itself. Never used twice.
pub type StreamId = u32;

pub const HEADER: usize = 9;
/// The longest data that goes into one frame.
pub const MAX_DATA: usize = 64 * 1024;
/// The longest payload a host accepts from a guest: data and its channel byte, or a report.
pub const MAX_FROM_GUEST: usize = 2 * MAX_DATA;
/// The longest payload a guest accepts from its host: an exec request with a large environment.
pub const MAX_FROM_HOST: usize = 2 * 1024 * 1024;
/// Padding that completes any frame a guest may be in the middle of.
pub const RESYNC: usize = HEADER + MAX_FROM_HOST;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Open = 3,
    Accepted = 4,
    Refused = 5,
    Data = 6,
    Eof = 7,
    Window = 8,
    Signal = 9,
    Resize = 10,
    Exit = 11,
    Reset = 12,
    Report = 13,
    Shutdown = 14,
}

const PAD: u8 = 0;
/// What an idle decoder keeps: room for two frames of data.
const KEEP: usize = 2 * (HEADER + 1 + MAX_DATA);

impl Kind {
    /// The name of a frame, for messages about one that came unexpectedly.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Welcome => "welcome",
            Kind::Open => "open",
            Kind::Accepted => "accepted",
            Kind::Refused => "refused",
            Kind::Data => "data",
            Kind::Eof => "eof",
            Kind::Window => "window",
            Kind::Signal => "signal",
            Kind::Resize => "resize",
            Kind::Exit => "exit",
            Kind::Reset => "reset",
            Kind::Report => "report",
            Kind::Shutdown => "shutdown",
        }
    }
}

impl TryFrom<u8> for Kind {
    type Error = Violation;
    fn try_from(byte: u8) -> Result<Self, Violation> {
        Ok(match byte {
            1 => Kind::Hello,
            2 => Kind::Welcome,
            3 => Kind::Open,
            4 => Kind::Accepted,
            5 => Kind::Refused,
            6 => Kind::Data,
            7 => Kind::Eof,
            8 => Kind::Window,
            9 => Kind::Signal,
            10 => Kind::Resize,
            11 => Kind::Exit,
            12 => Kind::Reset,
            13 => Kind::Report,
            14 => Kind::Shutdown,
            other => return Err(Violation::UnknownKind(other)),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub stream: StreamId,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: Kind, stream: StreamId, payload: Vec<u8>) -> Self {
        Self { kind, stream, payload }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        header(self.kind, self.stream, self.payload.len(), out);
        out.extend_from_slice(&self.payload);
    }
}

/// A frame still in the decoder's buffer, for those who only look at it or pass it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRef<'a> {
    pub kind: Kind,
    pub stream: StreamId,
    pub payload: &'a [u8],
}

impl FrameRef<'_> {
    /// Appends the same frame under another stream id.
    pub fn encode_as(&self, stream: StreamId, out: &mut Vec<u8>) {
        header(self.kind, stream, self.payload.len(), out);
        out.extend_from_slice(self.payload);
    }
}

/// Appends a frame header. Lengths are bounded far below `u32::MAX` by the callers' limits.
pub fn header(kind: Kind, stream: StreamId, len: usize, out: &mut Vec<u8>) {
    out.push(kind as u8);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(&(len as u32).to_be_bytes());
}

/// Cuts a byte stream into frames, whatever pieces it arrives in. Holds at most one frame and one read.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    limit: usize,
}

impl Decoder {
    /// `limit` is the longest payload to accept, [`MAX_FROM_GUEST`] or [`MAX_FROM_HOST`].
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, limit }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to append the next read to, with room for at least a frame of data: saves the copy of
    /// [`Decoder::push`].
    pub fn spare(&mut self) -> &mut Vec<u8> {
        self.compact();
        if self.buffer.capacity() - self.buffer.len() < MAX_DATA {
            self.buffer.reserve_exact(KEEP.saturating_sub(self.buffer.len()).max(MAX_DATA));
        }
        &mut self.buffer
    }

    /// Gives the whole buffer back if it holds nothing; for those who have many idle decoders.
    pub fn rest(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer = Vec::new();
            self.start = 0;
        }
    }

    /// What was consumed is dropped before growing, so the buffer never exceeds one frame and one read.
    fn compact(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
    }

    /// The next whole frame, `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Violation> {
        let frame = self.next_ref()?;
        Ok(frame.map(|frame| Frame::new(frame.kind, frame.stream, frame.payload.to_vec())))
    }

    /// The next whole frame where it lies, `None` when more bytes are needed.
    pub fn next_ref(&mut self) -> Result<Option<FrameRef<'_>>, Violation> {
        while self.buffer.get(self.start) == Some(&PAD) {
            self.start += 1;
        }
        let rest = &self.buffer[self.start..];
        let Some((head, body)) = rest.split_first_chunk::<HEADER>() else {
            // An unknown kind is reported at once, not after eight more bytes that may never come.
            if let Some(&kind) = rest.first() {
                Kind::try_from(kind)?;
            } else {
                self.release();
            }
            return Ok(None);
        };
        let kind = Kind::try_from(head[0])?;
        let stream = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let len = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
        if len > self.limit {
            return Err(Violation::TooLong { len, limit: self.limit });
        }
        if body.len() < len {
            return Ok(None);
        }
        let payload = self.start + HEADER;
        self.start = payload + len;
        Ok(Some(FrameRef { kind, stream, payload: &self.buffer[payload..self.start] }))
    }

    /// Steps over one byte after a violation, for a receiver that looks for the next hello.
    pub fn skip(&mut self) {
        self.start = self.buffer.len().min(self.start + 1);
    }

    /// Gives the memory of a large frame back once everything was read.
    fn release(&mut self) {
        self.buffer.clear();
        self.start = 0;
        self.buffer.shrink_to(KEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_kind() -> impl Strategy<Value = Kind> {
        (1u8..=14).prop_map(|byte| Kind::try_from(byte).unwrap())
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        (any_kind(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(kind, stream, payload)| Frame { kind, stream, payload })
    }

    fn decode_all(decoder: &mut Decoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.next_frame().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn frames_survive_any_split_and_any_padding(
            frames in proptest::collection::vec((any_frame(), 0usize..20), 0..20),
            cuts in proptest::collection::vec(1usize..50, 1..40),
        ) {
            let mut bytes = Vec::new();
            for (frame, padding) in &frames {
                bytes.extend(std::iter::repeat_n(PAD, *padding));
                frame.encode(&mut bytes);
            }
            let mut decoder = Decoder::new(MAX_FROM_GUEST);
            let mut seen = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, tail) = rest.split_at((*cut).min(rest.len()));
                decoder.push(piece);
                seen.extend(decode_all(&mut decoder));
                rest = tail;
            }
            let sent: Vec<Frame> = frames.into_iter().map(|(frame, _)| frame).collect();
            prop_assert_eq!(seen, sent);
        }

        #[test]
        fn arbitrary_bytes_never_panic_nor_grow_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let mut decoder = Decoder::new(1024);
            for piece in bytes.chunks(97) {
                decoder.push(piece);
                loop {
                    match decoder.next_frame() {
                        Ok(Some(frame)) => prop_assert!(frame.payload.len() <= 1024),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(decoder.buffer.len() <= 1024 + HEADER + 97);
            }
        }

        #[test]
        fn resync_padding_recovers_from_a_frame_cut_anywhere(len in 0usize..5000, keep in 0usize..5009) {
            let mut cut = Vec::new();
            Frame::new(Kind::Data, 7, vec![9; len]).encode(&mut cut);
            cut.truncate(keep.min(cut.len()));
            let mut decoder = Decoder::new(MAX_FROM_HOST);
            decoder.push(&cut);
            decoder.push(&vec![PAD; RESYNC]);
            let hello = Frame::new(Kind::Hello, 0, vec![1, 2, 3]);
            let mut bytes = Vec::new();
            hello.encode(&mut bytes);
            decoder.push(&bytes);
            prop_assert_eq!(decode_all(&mut decoder).pop(), Some(hello));
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_from_its_header_alone() {
        let mut bytes = Vec::new();
        header(Kind::Data, 1, 1025, &mut bytes);
        let mut decoder = Decoder::new(1024);
        decoder.push(&bytes);
        assert_eq!(decoder.next_frame(), Err(Violation::TooLong { len: 1025, limit: 1024 }));
    }

    #[test]
    fn an_unknown_kind_is_refused_at_its_first_byte() {
        let mut decoder = Decoder::new(1024);
        decoder.push(&[200]);
        assert_eq!(decoder.next_frame(), Err(Violation::UnknownKind(200)));
    }
}
