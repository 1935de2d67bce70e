//! Bytes from a hostile guest or host: cut into frames in pieces of a size the input chooses, and each frame given
//! to every decoder, also those of other kinds. What a decoder accepts must read back the same, and the pieces
//! must not matter.

use palisade_protocol::message::{decode_data, decode_eof, decode_shutdown, decode_signal, decode_window};
use palisade_protocol::{Decoder, Exit, Frame, Hello, Open, Refusal, Report, Size, Welcome, frame};

/// The first byte is the size of the pieces, the rest is the stream.
pub fn check(input: &[u8]) {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let frames = cut(bytes, usize::from(piece).max(1));
    assert_eq!(frames, cut(bytes, bytes.len().max(1)), "the pieces it came in change what was read");
    for frame in &frames {
        assert!(frame.payload.len() <= frame::MAX_FROM_GUEST);
        let mut written = Vec::new();
        frame.encode(&mut written);
        assert_eq!(cut(&written, written.len()), std::slice::from_ref(frame));
        decode(&frame.payload);
    }
    decode(bytes);
}

fn cut(bytes: &[u8], piece: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut decoder = Decoder::new(frame::MAX_FROM_GUEST);
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                // A receiver that waits for the next hello goes on behind the byte that was wrong.
                Err(_) => decoder.skip(),
            }
        }
    }
    frames
}

fn decode(payload: &[u8]) {
    if let Ok(hello) = Hello::decode(payload) {
        assert_eq!(Hello::decode(&hello.frame().payload), Ok(hello));
    }
    if let Ok(welcome) = Welcome::decode(payload) {
        assert_eq!(Welcome::decode(&welcome.frame().payload), Ok(welcome));
    }
    if let Ok(open) = Open::decode(payload) {
        assert_eq!(Open::decode(&open.frame(1).payload), Ok(open));
    }
    if let Ok(refusal) = Refusal::decode(payload) {
        assert_eq!(Refusal::decode(&refusal.frame(1).payload), Ok(refusal));
    }
    if let Ok(report) = Report::decode(payload) {
        assert_eq!(Report::decode(&report.frame(1).payload), Ok(report));
    }
    if let Ok(exit) = Exit::decode(payload) {
        assert_eq!(Exit::decode(&exit.frame(1).payload), Ok(exit));
    }
    let _ = (Size::decode_resize(payload), decode_data(payload), decode_eof(payload), decode_window(payload));
    let _ = (decode_signal(payload), decode_shutdown(payload));
}
