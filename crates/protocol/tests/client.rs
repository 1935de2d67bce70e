//! The client against a scripted guest that says exactly what each test needs, well-behaved or not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use palisade_protocol::client::{Client, ClientError, ExecError, Output, StreamEvent};
use palisade_protocol::flow::INITIAL;
use palisade_protocol::frame::{MAX_DATA, MAX_FROM_HOST, header};
use palisade_protocol::message::{
    accepted_frame, decode_data, decode_eof, decode_window, encode_data, eof_frame, reset_frame,
    shutdown_frame, signal_frame, window_frame,
};
use palisade_protocol::{
    Channel, Decoder, ExecRequest, Exit, Frame, Hello, Kind, Open, Refusal, RefusalCode, Report, Size,
    Violation, Welcome,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

struct Guest {
    stream: DuplexStream,
    decoder: Decoder,
}

impl Guest {
    fn new(stream: DuplexStream) -> Self {
        Self { stream, decoder: Decoder::new(MAX_FROM_HOST) }
    }

    /// The next frame from the client, `None` when it has left.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            if self.stream.read_buf(self.decoder.spare()).await.unwrap() == 0 {
                return None;
            }
        }
    }

    async fn expect(&mut self, kind: Kind) -> Frame {
        let frame = self.next().await.unwrap();
        assert_eq!(frame.kind, kind);
        frame
    }

    async fn send(&mut self, frame: Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.raw(&bytes).await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn data(&mut self, stream: u32, channel: Channel, data: &[u8]) {
        for piece in data.chunks(MAX_DATA) {
            let mut bytes = Vec::new();
            encode_data(stream, channel, piece, &mut bytes);
            self.raw(&bytes).await;
        }
    }

    async fn welcome(&mut self) {
        let hello = Hello::decode(&self.expect(Kind::Hello).await.payload).unwrap();
        self.send(welcome(hello.nonce).frame()).await;
    }
}

fn welcome(nonce: [u8; 16]) -> Welcome {
    Welcome { version: 1, nonce, build: "scripted".into() }
}

/// A client and its guest after the handshake.
async fn connected() -> (Client, Guest) {
    let (near, far) = duplex(1024 * 1024);
    let mut guest = Guest::new(far);
    let (client, ()) = tokio::join!(Client::connect(near), guest.welcome());
    (client.unwrap().0, guest)
}

fn exec() -> ExecRequest {
    ExecRequest { argv: vec![b"true".to_vec()], cwd: b"/".to_vec(), ..ExecRequest::default() }
}

/// Connects while the guest does something else than answering properly.
async fn greeted_with(answer: impl FnOnce([u8; 16]) -> Vec<u8>) -> ClientError {
    let (near, far) = duplex(1024 * 1024);
    let mut guest = Guest::new(far);
    let (client, ()) = tokio::join!(Client::connect(near), async {
        let hello = Hello::decode(&guest.expect(Kind::Hello).await.payload).unwrap();
        guest.raw(&answer(hello.nonce)).await;
        guest.stream.shutdown().await.unwrap();
    });
    client.map(|_| ()).unwrap_err()
}

fn bytes_of(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

fn violation(error: ClientError) -> Violation {
    match error {
        ClientError::Violation(violation) => violation,
        other => panic!("{other:?} is not a violation"),
    }
}

#[tokio::test]
async fn a_welcome_must_be_the_first_word_and_repeat_the_nonce() {
    let error = greeted_with(|_| bytes_of(welcome([7; 16]).frame())).await;
    assert_eq!(violation(error), Violation::Unexpected("nonce in the welcome"));

    let error = greeted_with(|_| b"Welcome to Debian\n".to_vec()).await;
    assert_eq!(violation(error), Violation::UnknownKind(b'W'));

    let error = greeted_with(|_| bytes_of(accepted_frame(1))).await;
    assert_eq!(violation(error), Violation::Unexpected("accepted"));

    let future = |nonce| bytes_of(Welcome { version: 9, ..welcome(nonce) }.frame());
    assert_eq!(violation(greeted_with(future).await), Violation::Version { theirs_min: 9, theirs_max: 9 });

    assert!(matches!(greeted_with(|_| Vec::new()).await, ClientError::Closed));
}

#[tokio::test]
async fn a_client_finds_its_guest_again_in_the_middle_of_frames_of_both_sides() {
    let (near, far) = duplex(64 * 1024);
    let mut guest = Guest::new(far);
    // The guest has read a part of a frame, and was writing data that looks like a welcome.
    let mut half = Vec::new();
    header(Kind::Data, 1, 5000, &mut half);
    guest.decoder.push(&half);
    let mut stale = vec![Kind::Welcome as u8, 0, 0, 0, 0, 0, 0, 3];
    stale.extend(bytes_of(welcome([1; 16]).frame()));
    stale.extend([Kind::Welcome as u8, 0, 0, 0, 0, 0, 0, 2, 0]);
    guest.raw(&stale).await;

    let (client, ()) = tokio::join!(Client::reconnect(near), async {
        assert_eq!(guest.expect(Kind::Data).await.payload, vec![0; 5000]);
        guest.welcome().await;
        // Speaks at once: what follows the welcome must not be lost.
        guest.send(Open::Outward { host: "example.org".into(), port: 443 }.frame(2)).await;
    });
    let (_client, met) = client.unwrap();
    assert_eq!(met.build, "scripted");
    guest.expect(Kind::Refused).await;
}

#[tokio::test]
async fn a_command_s_output_and_exit_are_gathered() {
    let (client, mut guest) = connected().await;
    let (output, ()) = tokio::join!(client.exec_collect(exec(), 1024), async {
        let open = guest.expect(Kind::Open).await;
        assert_eq!((open.stream, Open::decode(&open.payload).unwrap()), (1, Open::Exec(exec())));
        guest.send(accepted_frame(1)).await;
        guest.data(1, Channel::Main, b"out").await;
        guest.data(1, Channel::Error, b"err").await;
        guest.data(1, Channel::Main, b"put").await;
        guest.send(Exit::Signal(9).frame(1)).await;
    });
    let expected = Output { stdout: b"output".to_vec(), stderr: b"err".to_vec(), exit: Exit::Signal(9) };
    assert_eq!(output.unwrap(), expected);

    let refusal = Refusal::new(RefusalCode::Exec, 2, "no such program");
    let (output, ()) = tokio::join!(client.exec_collect(exec(), 1024), async {
        assert_eq!(guest.expect(Kind::Open).await.stream, 3);
        guest.send(refusal.frame(3)).await;
    });
    assert!(matches!(output, Err(ExecError::Refused(found)) if found == refusal));

    let (output, ()) = tokio::join!(client.exec_collect(exec(), 1024), async {
        guest.expect(Kind::Open).await;
        guest.data(5, Channel::Main, &[0; 1025]).await;
    });
    assert!(matches!(output, Err(ExecError::OutputLimit(1024))));
    assert_eq!(guest.next().await, Some(reset_frame(5)));
}

#[tokio::test]
async fn a_sender_sends_no_more_than_its_credit_until_it_is_granted_more() {
    let (client, mut guest) = connected().await;
    let (sender, _receiver) = client.open(Open::Dial { port: 80 }).await.unwrap();
    let total = INITIAL as usize + 100;
    let sending = tokio::spawn(async move {
        sender.send(&vec![5; total]).await.unwrap();
        sender.eof().await.unwrap();
        sender.signal(2).await.unwrap();
        sender.resize(Size { rows: 1, columns: 2 }).await.unwrap();
    });
    guest.expect(Kind::Open).await;
    let mut received = 0;
    while received < INITIAL as usize {
        received += decode_data(&guest.expect(Kind::Data).await.payload).unwrap().1.len();
    }
    assert_eq!(received, INITIAL as usize);
    assert!(!sending.is_finished());
    guest.send(window_frame(1, Channel::Main, 1000)).await;
    assert_eq!(decode_data(&guest.expect(Kind::Data).await.payload).unwrap(), (Channel::Main, &[5; 100][..]));
    assert_eq!(decode_eof(&guest.expect(Kind::Eof).await.payload).unwrap(), Channel::Main);
    assert_eq!(guest.next().await, Some(signal_frame(1, 2)));
    assert_eq!(guest.next().await, Some(Size { rows: 1, columns: 2 }.frame(1)));
    sending.await.unwrap();
}

#[tokio::test]
async fn credit_is_granted_as_data_is_taken_and_not_before() {
    let (client, mut guest) = connected().await;
    let (_sender, mut receiver) = client.open(Open::TarOut { path: b"/".to_vec() }).await.unwrap();
    guest.expect(Kind::Open).await;
    guest.data(1, Channel::Main, &vec![1; INITIAL as usize]).await;
    // A request that the client answers at once shows that it has read the data, and granted nothing for it.
    guest.send(Open::Sessions.frame(2)).await;
    guest.expect(Kind::Refused).await;

    let mut taken = 0;
    while taken < INITIAL as usize / 2 {
        match receiver.next().await.unwrap().unwrap() {
            StreamEvent::Data { channel: Channel::Main, bytes } => taken += bytes.len(),
            other => panic!("{other:?}"),
        }
    }
    let (channel, grant) = decode_window(&guest.expect(Kind::Window).await.payload).unwrap();
    assert_eq!((channel, grant as usize), (Channel::Main, taken));
}

#[tokio::test]
async fn a_flood_of_tiny_pieces_is_joined_and_a_report_replaces_the_one_before() {
    let (client, mut guest) = connected().await;
    let (_sender, mut receiver) = client.open(Open::Listeners).await.unwrap();
    guest.expect(Kind::Open).await;
    for _ in 0..5000 {
        guest.data(1, Channel::Main, b"m").await;
        guest.data(1, Channel::Error, b"e").await;
    }
    guest.send(Report::Listeners(vec![80]).frame(1)).await;
    guest.send(Report::Listeners(vec![80, 443]).frame(1)).await;
    guest.send(Exit::Code(0).frame(1)).await;
    // Everything has arrived once the next stream is answered.
    let (_, mut other) = client.open(Open::Sessions).await.unwrap();
    guest.expect(Kind::Open).await;
    guest.send(accepted_frame(3)).await;
    assert_eq!(other.next().await.unwrap(), Some(StreamEvent::Accepted));

    let (mut pieces, mut main, mut error) = (0, 0, 0);
    let report = loop {
        match receiver.next().await.unwrap().unwrap() {
            StreamEvent::Data { channel: Channel::Main, bytes } => main += bytes.len(),
            StreamEvent::Data { channel: Channel::Error, bytes } => error += bytes.len(),
            other => break other,
        }
        pieces += 1;
    };
    assert_eq!((main, error), (5000, 5000));
    assert!(pieces < 300, "{pieces} pieces waited");
    assert_eq!(report, StreamEvent::Report(Report::Listeners(vec![80, 443])));
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(0))));
    assert_eq!(receiver.next().await.unwrap(), None);
}

#[tokio::test]
async fn every_stream_learns_of_a_violation_and_the_connection_is_closed() {
    let data = |stream, len| {
        let mut bytes = Vec::new();
        encode_data(stream, Channel::Main, &vec![0; len], &mut bytes);
        bytes
    };
    let over_credit = (0..5).flat_map(|_| data(1, MAX_DATA)).collect();
    let twice = [bytes_of(accepted_frame(1)), bytes_of(accepted_frame(1))].concat();
    let late =
        [bytes_of(accepted_frame(1)), bytes_of(Refusal::new(RefusalCode::Limit, 0, "").frame(1))].concat();
    let after_end = [bytes_of(eof_frame(1, Channel::Main)), data(1, 1)].concat();
    let cases: Vec<(Vec<u8>, Violation)> = vec![
        (over_credit, Violation::CreditExceeded(1)),
        (bytes_of(window_frame(1, Channel::Main, u32::MAX)), Violation::CreditOverflow(1)),
        (bytes_of(window_frame(1, Channel::Error, 1)), Violation::Unexpected("window")),
        (data(5, 1), Violation::UnknownStream(5)),
        (data(0, 1), Violation::UnknownStream(0)),
        (data(2, 1), Violation::UnknownStream(2)),
        (data(1, MAX_DATA + 1), Violation::TooLong { len: MAX_DATA + 1, limit: MAX_DATA }),
        (bytes_of(Open::Sessions.frame(3)), Violation::UnknownStream(3)),
        (bytes_of(Frame::new(Kind::Open, 2, vec![1])), Violation::Malformed("open")),
        (bytes_of(Frame::new(Kind::Exit, 1, vec![1])), Violation::Malformed("exit")),
        (bytes_of(shutdown_frame(0)), Violation::Unexpected("shutdown")),
        (bytes_of(signal_frame(1, 9)), Violation::Unexpected("signal")),
        (twice, Violation::Unexpected("accepted")),
        (late, Violation::Unexpected("refused")),
        (after_end, Violation::Unexpected("data after its end")),
        (vec![99], Violation::UnknownKind(99)),
    ];
    for (bytes, expected) in cases {
        let (client, mut guest) = connected().await;
        let (first, _first_receiver) = client.open(Open::Sessions).await.unwrap();
        let (_second, mut second_receiver) = client.open(Open::Sessions).await.unwrap();
        guest.expect(Kind::Open).await;
        guest.expect(Kind::Open).await;
        guest.raw(&bytes).await;
        assert_eq!(violation(client.closed().await), expected);
        assert_eq!(violation(second_receiver.next().await.unwrap_err()), expected);
        assert_eq!(violation(first.send(b"x").await.unwrap_err()), expected);
        assert_eq!(violation(client.open(Open::Sessions).await.map(|_| ()).unwrap_err()), expected);
        assert_eq!(guest.next().await, None);
    }
}

#[tokio::test]
async fn what_the_guest_opens_is_refused_and_what_it_sends_there_ignored() {
    let (client, mut guest) = connected().await;
    guest.send(Open::Outward { host: "example.org".into(), port: 443 }.frame(2)).await;
    guest.data(2, Channel::Main, b"early").await;
    let refused = guest.expect(Kind::Refused).await;
    assert_eq!(refused.stream, 2);
    assert_eq!(Refusal::decode(&refused.payload).unwrap().code, RefusalCode::Forbidden);
    guest.send(Open::Sessions.frame(4)).await;
    assert_eq!(guest.expect(Kind::Refused).await.stream, 4);
    guest.send(Open::Sessions.frame(4)).await;
    assert_eq!(violation(client.closed().await), Violation::UnknownStream(4));
}

#[tokio::test]
async fn a_guest_that_asks_without_end_and_never_reads_the_answers_is_given_up() {
    let (client, mut guest) = connected().await;
    let asking = async {
        for id in (2..).step_by(2) {
            let mut bytes = Vec::new();
            Open::Sessions.frame(id).encode(&mut bytes);
            if guest.stream.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    let (reason, ()) = tokio::join!(client.closed(), asking);
    assert_eq!(violation(reason), Violation::Unexpected("requests without reading the answers"));
}

#[tokio::test]
async fn dropping_both_halves_resets_the_stream_and_the_rest_of_it_is_ignored() {
    let (client, mut guest) = connected().await;
    let (sender, receiver) = client.open(Open::Sessions).await.unwrap();
    guest.expect(Kind::Open).await;
    drop(sender);
    drop(receiver);
    assert_eq!(guest.next().await, Some(reset_frame(1)));
    guest.data(1, Channel::Main, b"too late").await;
    guest.send(Exit::Code(0).frame(1)).await;

    let (sender, mut receiver) = client.open(Open::Sessions).await.unwrap();
    guest.expect(Kind::Open).await;
    guest.send(Exit::Code(0).frame(3)).await;
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(0))));
    assert!(matches!(sender.send(b"x").await, Err(ClientError::StreamEnded)));
    // An ended stream needs no reset: the next frame is the shutdown.
    drop((sender, receiver));
    client.shutdown(500).await.unwrap();
    assert_eq!(guest.next().await, Some(shutdown_frame(500)));
    drop(guest);
    assert!(matches!(client.closed().await, ClientError::Closed));
}

#[tokio::test]
async fn what_a_guest_said_before_it_left_is_still_heard() {
    let (client, mut guest) = connected().await;
    let (sender, mut receiver) = client.open(Open::Exec(exec())).await.unwrap();
    guest.expect(Kind::Open).await;
    guest.data(1, Channel::Main, b"last words").await;
    guest.send(Exit::Code(3).frame(1)).await;
    drop(guest);
    // Writing fails, or is too late: either way what was said is read.
    let _ = sender.send(b"input").await;
    let said = StreamEvent::Data { channel: Channel::Main, bytes: b"last words".to_vec() };
    assert_eq!(receiver.next().await.unwrap(), Some(said));
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(3))));
}

#[tokio::test]
async fn the_last_handle_closes_the_connection_after_everything_was_written() {
    let (client, mut guest) = connected().await;
    let (sender, receiver) = client.open(Open::Dial { port: 1 }).await.unwrap();
    sender.send(b"bye").await.unwrap();
    drop(client);
    drop((sender, receiver));
    guest.expect(Kind::Open).await;
    assert_eq!(decode_data(&guest.expect(Kind::Data).await.payload).unwrap().1, b"bye");
    assert_eq!(guest.next().await, Some(reset_frame(1)));
    assert_eq!(guest.next().await, None);
}

#[tokio::test]
async fn a_request_that_no_guest_would_read_is_not_sent() {
    let (client, _guest) = connected().await;
    let request = ExecRequest { env: vec![vec![b'x'; MAX_FROM_HOST]], ..exec() };
    let error = client.open(Open::Exec(request)).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }));
}
