//! Every message reads back as it was written, and no bytes whatever bring a decoder down.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use palisade_protocol::fields::Writer;
use palisade_protocol::message::{
    accepted_frame, decode_data, decode_eof, decode_shutdown, decode_signal, decode_window, encode_data,
    eof_frame, reset_frame, shutdown_frame, signal_frame, window_frame,
};
use palisade_protocol::{
    Changes, ChangesRequest, Channel, Decoder, EgressRequest, ExecRequest, Exit, Frame, Hello, KeeperVerb,
    Kind, Open, Refusal, RefusalCode, Report, SessionInfo, Size, Violation, Welcome, frame,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn channel() -> impl Strategy<Value = Channel> {
    prop_oneof![Just(Channel::Main), Just(Channel::Error)]
}

fn size() -> impl Strategy<Value = Size> {
    any::<(u16, u16)>().prop_map(|(rows, columns)| Size { rows, columns })
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![any::<u8>().prop_map(Exit::Code), (1u8..=64).prop_map(Exit::Signal)]
}

fn session_name() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9-]{0,62}"
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn exec() -> impl Strategy<Value = ExecRequest> {
    let optional = (proptest::option::of(size()), proptest::option::of(session_name()), any::<bool>());
    (vec(text(), 0..5), vec(text(), 0..5), text(), any::<bool>(), optional).prop_map(
        |(argv, env, cwd, stdin, (pty, session, detached))| ExecRequest {
            argv,
            env,
            cwd,
            stdin,
            pty,
            session,
            detached,
        },
    )
}

fn changes() -> impl Strategy<Value = Changes> {
    any::<(u64, u64, u64)>().prop_map(|(branches, sessions, ended)| Changes { branches, sessions, ended })
}

fn open() -> impl Strategy<Value = Open> {
    prop_oneof![
        exec().prop_map(Open::Exec),
        (session_name(), size()).prop_map(|(session, size)| Open::Attach { session, size }),
        Just(Open::Sessions),
        Just(Open::Listeners),
        Just(Open::SessionChanges),
        any::<u16>().prop_map(|port| Open::Dial { port }),
        text().prop_map(|path| Open::TarOut { path }),
        text().prop_map(|path| Open::TarIn { path }),
        (any::<String>(), any::<u16>()).prop_map(|(host, port)| Open::Outward { host, port }),
        any::<String>().prop_map(|host| Open::Name { host }),
        any::<u16>().prop_map(|port| Open::HostPort { port }),
        (vec(any::<u16>(), 0..9), vec(any::<u16>(), 0..9), any::<u16>())
            .prop_map(|(ports, host_ports, proxy)| Open::Egress(EgressRequest { ports, host_ports, proxy })),
        any::<u32>().prop_map(|grace_ms| Open::Keeper(KeeperVerb::Stop { grace_ms })),
        Just(Open::Keeper(KeeperVerb::Status)),
        Just(Open::Keeper(KeeperVerb::Orders)),
        (text(), proptest::option::of(changes()), any::<bool>()).prop_map(|(repository, known, sessions)| {
            Open::Changes(ChangesRequest { repository, known, sessions })
        }),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let code = prop_oneof![
        Just(RefusalCode::Exec),
        Just(RefusalCode::Cwd),
        Just(RefusalCode::NotFound),
        Just(RefusalCode::Exists),
        Just(RefusalCode::Limit),
        Just(RefusalCode::Unsupported),
        Just(RefusalCode::Forbidden),
        Just(RefusalCode::Failed),
    ];
    (code, any::<i32>(), any::<String>()).prop_map(|(code, errno, text)| Refusal { code, errno, text })
}

fn report() -> impl Strategy<Value = Report> {
    let session = (session_name(), any::<u16>(), size(), proptest::option::of(exit()), any::<bool>())
        .prop_map(|(name, viewers, size, exit, seen)| SessionInfo { name, viewers, size, exit, seen });
    prop_oneof![
        vec(session, 0..5).prop_map(Report::Sessions),
        vec(any::<u16>(), 0..20).prop_map(Report::Listeners),
        any::<String>().prop_map(Report::Keeper),
        changes().prop_map(Report::Changes),
    ]
}

/// Sends the frame through the wire's bytes.
fn carried(frame: &Frame) -> Frame {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let mut decoder = Decoder::new(frame::MAX_FROM_HOST);
    decoder.push(&bytes);
    decoder.next_frame().unwrap().unwrap()
}

proptest! {
    #[test]
    fn a_greeting_reads_back(oldest: u16, newest: u16, nonce: [u8; 16], version: u16, build: String) {
        let hello = Hello { oldest, newest, nonce };
        prop_assert_eq!(Hello::decode(&carried(&hello.frame()).payload), Ok(hello));
        let welcome = Welcome { version, nonce, build };
        prop_assert_eq!(Welcome::decode(&carried(&welcome.frame()).payload), Ok(welcome));
    }

    #[test]
    fn a_request_reads_back(open in open(), stream: u32) {
        let frame = carried(&open.frame(stream));
        prop_assert_eq!((frame.kind, frame.stream), (Kind::Open, stream));
        prop_assert_eq!(Open::decode(&frame.payload), Ok(open));
    }

    #[test]
    fn an_answer_reads_back(refusal in refusal(), report in report(), exit in exit()) {
        prop_assert_eq!(Refusal::decode(&carried(&refusal.frame(1)).payload), Ok(refusal));
        prop_assert_eq!(Report::decode(&carried(&report.frame(1)).payload), Ok(report));
        prop_assert_eq!(Exit::decode(&carried(&exit.frame(1)).payload), Ok(exit));
    }

    #[test]
    fn what_flows_reads_back(
        stream: u32, channel in channel(), data in vec(any::<u8>(), 0..300), credit: u32, size in size(),
        signal in 1u8..=64, grace: u32,
    ) {
        let mut bytes = Vec::new();
        encode_data(stream, channel, &data, &mut bytes);
        let mut decoder = Decoder::new(frame::MAX_FROM_GUEST);
        decoder.push(&bytes);
        let frame = decoder.next_frame().unwrap().unwrap();
        prop_assert_eq!((frame.kind, frame.stream), (Kind::Data, stream));
        prop_assert_eq!(decode_data(&frame.payload), Ok((channel, data.as_slice())));
        prop_assert_eq!(decode_eof(&carried(&eof_frame(stream, channel)).payload), Ok(channel));
        let window = carried(&window_frame(stream, channel, credit));
        prop_assert_eq!(decode_window(&window.payload), Ok((channel, credit)));
        prop_assert_eq!(decode_signal(&carried(&signal_frame(stream, signal)).payload), Ok(signal));
        prop_assert_eq!(Size::decode_resize(&carried(&size.frame(stream)).payload), Ok(size));
        prop_assert_eq!(decode_shutdown(&carried(&shutdown_frame(grace)).payload), Ok(grace));
        prop_assert_eq!(carried(&accepted_frame(stream)), accepted_frame(stream));
        prop_assert_eq!(carried(&reset_frame(stream)), reset_frame(stream));
    }

    #[test]
    fn arbitrary_bytes_bring_no_decoder_down(bytes in vec(any::<u8>(), 0..600)) {
        decode_everything(&bytes);
    }

    /// Random bytes rarely look like fields; random fields do.
    #[test]
    fn arbitrary_fields_bring_no_decoder_down(fields in vec((0u8..14, vec(any::<u8>(), 0..20)), 0..12)) {
        let writer = fields.iter().fold(Writer::new(), |writer, (tag, value)| writer.bytes(*tag, value));
        decode_everything(&writer.finish());
    }

    #[test]
    fn fields_of_a_later_version_are_skipped(open in open(), tag in 100u8.., value in text()) {
        let mut payload = open.frame(1).payload;
        payload.extend(Writer::new().bytes(tag, &value).finish());
        prop_assert_eq!(Open::decode(&payload), Ok(open));
    }
}

fn decode_everything(bytes: &[u8]) {
    let _ = (Hello::decode(bytes), Welcome::decode(bytes), Open::decode(bytes), Refusal::decode(bytes));
    let _ = (Report::decode(bytes), Exit::decode(bytes), Size::decode_resize(bytes), decode_data(bytes));
    let _ = (decode_eof(bytes), decode_window(bytes), decode_signal(bytes), decode_shutdown(bytes));
}

#[test]
fn a_session_name_is_as_narrow_as_a_sandbox_name() {
    let attach = |name: &str| {
        let size = Size { rows: 1, columns: 1 };
        Open::decode(&Open::Attach { session: name.to_owned(), size }.frame(1).payload)
    };
    assert!(attach("a").is_ok() && attach(&"a".repeat(63)).is_ok());
    for name in ["", "-a", "A", "a b", "a/b", "..", "a\n", "ä", &"a".repeat(64)] {
        assert_eq!(attach(name), Err(Violation::Malformed("session name")));
    }
}
