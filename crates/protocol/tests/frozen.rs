//! The frozen subset, byte for byte: a newer host must for ever be able to greet an old guest, run commands in it
//! and move trees in and out. A failure here means that the change breaks sandboxes that exist.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use palisade_protocol::message::{
    accepted_frame, decode_data, decode_eof, decode_signal, decode_window, encode_data, eof_frame,
    reset_frame, signal_frame, window_frame,
};
use palisade_protocol::{
    Channel, Decoder, ExecRequest, Exit, Frame, Hello, Kind, Open, Refusal, RefusalCode, Size, Welcome, frame,
};

/// Bytes as hexadecimal digits, in groups for the reader's eye.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

/// The one frame these bytes are.
fn decoded(bytes: &[u8]) -> Frame {
    let mut decoder = Decoder::new(frame::MAX_FROM_HOST);
    decoder.push(bytes);
    let frame = decoder.next_frame().unwrap().unwrap();
    assert_eq!(decoder.next_frame(), Ok(None));
    frame
}

const NONCE: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

#[test]
fn hello() {
    let golden = bytes(
        "01 00000000 00000030
         01 00000008 50414c4953414445
         02 00000002 0001
         03 00000002 0001
         04 00000010 000102030405060708090a0b0c0d0e0f",
    );
    let hello = Hello { oldest: 1, newest: 1, nonce: NONCE };
    assert_eq!(encoded(&hello.frame()), golden);
    let frame = decoded(&golden);
    assert_eq!((frame.kind, frame.stream, Hello::decode(&frame.payload)), (Kind::Hello, 0, Ok(hello)));
}

#[test]
fn welcome() {
    let golden = bytes(
        "02 00000000 00000033
         01 00000008 50414c4953414445
         02 00000002 0001
         04 00000010 000102030405060708090a0b0c0d0e0f
         05 00000005 302e312e30",
    );
    let welcome = Welcome { version: 1, nonce: NONCE, build: "0.1.0".to_owned() };
    assert_eq!(encoded(&welcome.frame()), golden);
    let frame = decoded(&golden);
    assert_eq!((frame.kind, frame.stream, Welcome::decode(&frame.payload)), (Kind::Welcome, 0, Ok(welcome)));
}

fn assert_open(open: &Open, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(encoded(&open.frame(0x0102_0305)), golden);
    let frame = decoded(&golden);
    assert_eq!((frame.kind, frame.stream), (Kind::Open, 0x0102_0305));
    assert_eq!(Open::decode(&frame.payload).as_ref(), Ok(open));
}

#[test]
fn open_exec_with_pipes() {
    let request = ExecRequest {
        argv: vec![b"ls".to_vec(), b"-l".to_vec()],
        env: vec![b"A=1".to_vec()],
        cwd: b"/w".to_vec(),
        stdin: true,
        ..Default::default()
    };
    assert_open(
        &Open::Exec(request),
        "03 01020305 00000028
         01 00000001 01
         02 00000002 6c73
         02 00000002 2d6c
         03 00000003 413d31
         04 00000002 2f77
         05 00000000",
    );
}

#[test]
fn open_exec_with_a_terminal_in_a_session() {
    let request = ExecRequest {
        argv: vec![b"sh".to_vec()],
        cwd: b"/".to_vec(),
        pty: Some(Size { rows: 24, columns: 80 }),
        session: Some("main".to_owned()),
        detached: false,
        ..Default::default()
    };
    assert_open(
        &Open::Exec(request),
        "03 01020305 00000025
         01 00000001 01
         02 00000002 7368
         04 00000001 2f
         06 00000004 00180050
         07 00000004 6d61696e",
    );
}

#[test]
fn open_tar_out() {
    assert_open(
        &Open::TarOut { path: b"/w".to_vec() },
        "03 01020305 0000000d 01 00000001 06 09 00000002 2f77",
    );
}

#[test]
fn open_tar_in() {
    assert_open(
        &Open::TarIn { path: b"/w".to_vec() },
        "03 01020305 0000000d 01 00000001 07 09 00000002 2f77",
    );
}

#[test]
fn accepted() {
    let golden = bytes("04 00000003 00000000");
    assert_eq!(encoded(&accepted_frame(3)), golden);
    assert_eq!(decoded(&golden), Frame::new(Kind::Accepted, 3, Vec::new()));
}

#[test]
fn refused() {
    let golden = bytes("05 00000003 00000016 01 00000001 01 02 00000004 00000002 03 00000002 6e6f");
    let refusal = Refusal::new(RefusalCode::Exec, 2, "no");
    assert_eq!(encoded(&refusal.frame(3)), golden);
    let frame = decoded(&golden);
    assert_eq!((frame.kind, Refusal::decode(&frame.payload)), (Kind::Refused, Ok(refusal)));
    let codes = [
        (RefusalCode::Exec, 1),
        (RefusalCode::Cwd, 2),
        (RefusalCode::NotFound, 3),
        (RefusalCode::Exists, 4),
        (RefusalCode::Limit, 5),
        (RefusalCode::Unsupported, 6),
        (RefusalCode::Forbidden, 7),
        (RefusalCode::Failed, 8),
    ];
    for (code, number) in codes {
        assert_eq!(Refusal::new(code, 0, "").frame(1).payload[5], number);
    }
}

#[test]
fn data() {
    for (channel, golden) in
        [(Channel::Main, "06 00000003 00000003 00 6869"), (Channel::Error, "06 00000003 00000003 01 6869")]
    {
        let golden = bytes(golden);
        let mut out = Vec::new();
        encode_data(3, channel, b"hi", &mut out);
        assert_eq!(out, golden);
        assert_eq!(decode_data(&decoded(&golden).payload), Ok((channel, b"hi".as_slice())));
    }
}

#[test]
fn eof() {
    let golden = bytes("07 00000003 00000001 01");
    assert_eq!(encoded(&eof_frame(3, Channel::Error)), golden);
    assert_eq!(decode_eof(&decoded(&golden).payload), Ok(Channel::Error));
}

#[test]
fn window() {
    let golden = bytes("08 00000003 00000005 00 00020000");
    assert_eq!(encoded(&window_frame(3, Channel::Main, 131_072)), golden);
    assert_eq!(decode_window(&decoded(&golden).payload), Ok((Channel::Main, 131_072)));
}

#[test]
fn signal() {
    let golden = bytes("09 00000003 00000001 0f");
    assert_eq!(encoded(&signal_frame(3, 15)), golden);
    assert_eq!(decode_signal(&decoded(&golden).payload), Ok(15));
}

#[test]
fn resize() {
    let golden = bytes("0a 00000003 00000004 0018 0050");
    let size = Size { rows: 24, columns: 80 };
    assert_eq!(encoded(&size.frame(3)), golden);
    assert_eq!(Size::decode_resize(&decoded(&golden).payload), Ok(size));
}

#[test]
fn exit() {
    for (exit, golden) in
        [(Exit::Code(42), "0b 00000003 00000002 00 2a"), (Exit::Signal(9), "0b 00000003 00000002 01 09")]
    {
        let golden = bytes(golden);
        assert_eq!(encoded(&exit.frame(3)), golden);
        assert_eq!(Exit::decode(&decoded(&golden).payload), Ok(exit));
    }
}

#[test]
fn reset() {
    let golden = bytes("0c 00000003 00000000");
    assert_eq!(encoded(&reset_frame(3)), golden);
    assert_eq!(decoded(&golden), Frame::new(Kind::Reset, 3, Vec::new()));
}

#[test]
fn limits_that_both_sides_rely_on() {
    assert_eq!(palisade_protocol::flow::INITIAL, 262_144);
    assert_eq!((frame::HEADER, frame::MAX_DATA), (9, 65_536));
    assert_eq!((frame::MAX_FROM_GUEST, frame::MAX_FROM_HOST), (131_072, 2_097_152));
}
