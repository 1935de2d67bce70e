//! A keeper between a scripted guest and real clients at a real socket.

use super::socket::{bind, connect, may_connect};
use super::{Closing, Keeper, KeeperConfig, KeeperEnd, Pulse};
use palisade_core::HostPath;
use palisade_protocol::client::{Client, ClientError, ExecError, Output, StreamEvent};
use palisade_protocol::flow::{INITIAL, LIMIT};
use palisade_protocol::frame::{MAX_DATA, MAX_FROM_GUEST, MAX_FROM_HOST, header};
use palisade_protocol::message::{
    accepted_frame, decode_data, decode_shutdown, encode_data, eof_frame, reset_frame, shutdown_frame,
    signal_frame, window_frame,
};
use palisade_protocol::{
    Changes, ChangesRequest, Channel, Decoder, ExecRequest, Exit, Frame, Hello, KeeperVerb, Kind, Open,
    Refusal, RefusalCode, Report, Size, StreamId, Violation, Welcome,
};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// One end of a conversation, told frame by frame what to say.
struct Scripted<S> {
    stream: S,
    decoder: Decoder,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Scripted<S> {
    fn new(stream: S) -> Self {
        Self { stream, decoder: Decoder::new(MAX_FROM_HOST) }
    }

    /// The next frame, `None` when the other side has left.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            if !matches!(self.stream.read_buf(self.decoder.spare()).await, Ok(1..)) {
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
        self.raw(&bytes_of(frame)).await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }
}

fn bytes_of(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

fn data(stream: StreamId, channel: Channel, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_data(stream, channel, data, &mut bytes);
    bytes
}

struct Scene {
    guest: Scripted<DuplexStream>,
    serving: JoinHandle<(KeeperEnd, Closing)>,
    terminate: Option<oneshot::Sender<()>>,
    pulse: Arc<Pulse>,
    dir: HostPath,
    _temp: TempDir,
}

/// A keeper at work for the user who runs the tests.
async fn scene() -> Scene {
    let temp = tempfile::tempdir().unwrap();
    let dir = HostPath::new(temp.path()).unwrap();
    let (near, far) = duplex(1024 * 1024);
    let mut guest = Scripted::new(far);
    let (keeper, ()) = tokio::join!(Keeper::handshake(Box::new(near)), async {
        let hello = Hello::decode(&guest.expect(Kind::Hello).await.payload).unwrap();
        guest.send(Welcome { version: 1, nonce: hello.nonce, build: "scripted".into() }.frame()).await;
    });
    let (terminate, terminated) = oneshot::channel::<()>();
    let pulse = Arc::new(Pulse::default());
    let mut config = KeeperConfig {
        pulse: Arc::clone(&pulse),
        door: None,
        session_started: Arc::new(|_| ()),
        listener: bind(&dir, "keeper.sock").await.unwrap(),
        status_json: Arc::new(|| "{\"state\":\"running\"}".into()),
        allowed_uid: rustix::process::getuid().as_raw(),
        terminate: Box::pin(async {
            if terminated.await.is_err() {
                std::future::pending::<()>().await;
            }
        }),
    };
    let keeper = keeper.unwrap();
    let serving = tokio::spawn(async move { keeper.serve(&mut config).await });
    Scene { guest, serving, terminate: Some(terminate), pulse, dir, _temp: temp }
}

impl Scene {
    async fn client(&self) -> Client {
        let (client, welcome) =
            Client::connect(connect(&self.dir, "keeper.sock").await.unwrap()).await.unwrap();
        assert_eq!(welcome.build, "scripted");
        client
    }

    /// A client after the handshake that then does what the test says, allowed or not.
    async fn rogue(&self) -> Scripted<UnixStream> {
        let mut rogue = Scripted::new(connect(&self.dir, "keeper.sock").await.unwrap());
        rogue.send(Hello::new([3; 16]).frame()).await;
        assert_eq!(Welcome::decode(&rogue.expect(Kind::Welcome).await.payload).unwrap().nonce, [3; 16]);
        rogue
    }

    async fn end(self) -> KeeperEnd {
        self.serving.await.unwrap().0
    }
}

fn exec(word: &str) -> ExecRequest {
    ExecRequest { argv: vec![word.into()], cwd: b"/".to_vec(), ..ExecRequest::default() }
}

fn said(bytes: &[u8]) -> Option<StreamEvent> {
    Some(StreamEvent::Data { channel: Channel::Main, bytes: bytes.to_vec() })
}

#[tokio::test]
async fn two_clients_at_once_get_each_their_own_output_and_exit() {
    let mut scene = scene().await;
    let (first, second) = (scene.client().await, scene.client().await);
    let guest = async {
        let mut by_word = std::collections::HashMap::new();
        for _ in 0..2 {
            let frame = scene.guest.expect(Kind::Open).await;
            let Open::Exec(request) = Open::decode(&frame.payload).unwrap() else { panic!("{frame:?}") };
            by_word.insert(request.argv[0].clone(), frame.stream);
        }
        let (one, two) = (by_word[&b"one"[..]], by_word[&b"two"[..]]);
        assert_ne!(one, two);
        for (stream, piece) in [(two, "t"), (one, "o"), (two, "w"), (one, "n"), (one, "e"), (two, "o")] {
            scene.guest.raw(&data(stream, Channel::Main, piece.as_bytes())).await;
        }
        scene.guest.raw(&data(one, Channel::Error, b"warning")).await;
        scene.guest.send(Exit::Code(2).frame(two)).await;
        scene.guest.send(Exit::Code(1).frame(one)).await;
    };
    let (one, two, ()) =
        tokio::join!(first.exec_collect(exec("one"), 99), second.exec_collect(exec("two"), 99), guest);
    let expected = Output { stdout: b"one".to_vec(), stderr: b"warning".to_vec(), exit: Exit::Code(1) };
    assert_eq!(one.unwrap(), expected);
    assert_eq!(two.unwrap(), Output { stdout: b"two".to_vec(), stderr: Vec::new(), exit: Exit::Code(2) });
}

#[tokio::test]
async fn input_signals_sizes_and_credit_pass_through_in_order() {
    let mut scene = scene().await;
    let client = scene.client().await;
    let (sender, mut receiver) = client.open(Open::Exec(exec("cat"))).await.unwrap();
    scene.guest.expect(Kind::Open).await;
    scene.guest.send(accepted_frame(1)).await;
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Accepted));

    let total = 2 * INITIAL as usize;
    let sending = tokio::spawn(async move {
        sender.send(&vec![7; total]).await.unwrap();
        sender.eof().await.unwrap();
        sender.signal(15).await.unwrap();
        sender.resize(Size { rows: 5, columns: 6 }).await.unwrap();
        sender
    });
    let mut received = 0;
    while received < total {
        let frame = scene.guest.expect(Kind::Data).await;
        let piece = decode_data(&frame.payload).unwrap().1.len();
        received += piece;
        scene.guest.send(window_frame(1, Channel::Main, piece as u32)).await;
    }
    assert_eq!(scene.guest.next().await, Some(eof_frame(1, Channel::Main)));
    assert_eq!(scene.guest.next().await, Some(signal_frame(1, 15)));
    assert_eq!(scene.guest.next().await, Some(Size { rows: 5, columns: 6 }.frame(1)));
    let _sender = sending.await.unwrap();

    // And back: all the credit there is, then as much again for what was taken.
    for _ in 0..INITIAL as usize / MAX_DATA {
        scene.guest.raw(&data(1, Channel::Main, &[9; MAX_DATA])).await;
    }
    let mut taken = 0;
    while taken < INITIAL as usize {
        let Some(StreamEvent::Data { bytes, .. }) = receiver.next().await.unwrap() else { panic!("no data") };
        taken += bytes.len();
    }
    scene.guest.expect(Kind::Window).await;
    scene.guest.raw(&data(1, Channel::Main, b"more")).await;
    assert_eq!(receiver.next().await.unwrap(), said(b"more"));
}

#[tokio::test]
async fn a_client_that_vanishes_has_its_streams_reset_and_what_comes_for_it_dropped() {
    let mut scene = scene().await;
    let stays = scene.client().await;
    let (_sender, mut receiver) = stays.open(Open::Sessions).await.unwrap();
    scene.guest.expect(Kind::Open).await;

    let mut leaves = scene.rogue().await;
    leaves.send(Open::Dial { port: 1 }.frame(1)).await;
    leaves.send(Open::Dial { port: 2 }.frame(3)).await;
    assert_eq!(scene.guest.expect(Kind::Open).await.stream, 3);
    assert_eq!(scene.guest.expect(Kind::Open).await.stream, 5);
    drop(leaves);
    let mut reset = [scene.guest.next().await.unwrap(), scene.guest.next().await.unwrap()];
    reset.sort_by_key(|frame| frame.stream);
    assert_eq!(reset, [reset_frame(3), reset_frame(5)]);

    scene.guest.raw(&data(3, Channel::Main, b"too late")).await;
    scene.guest.send(Exit::Code(0).frame(5)).await;
    scene.guest.raw(&data(1, Channel::Main, b"in time")).await;
    assert_eq!(receiver.next().await.unwrap(), said(b"in time"));
}

#[tokio::test]
async fn a_guest_that_breaks_a_rule_ends_the_keeper_with_the_reason() {
    let over_credit = (0..5).flat_map(|_| data(1, Channel::Main, &[0; MAX_DATA])).collect();
    let mut oversized = Vec::new();
    header(Kind::Data, 1, MAX_FROM_GUEST + 1, &mut oversized);
    // Answers twice on the first stream, where the second answer was due on the other's.
    let misdirected = [bytes_of(accepted_frame(1)), bytes_of(accepted_frame(1))].concat();
    let late =
        [bytes_of(accepted_frame(1)), bytes_of(Refusal::new(RefusalCode::Limit, 0, "").frame(1))].concat();
    let after_end = [bytes_of(eof_frame(1, Channel::Error)), data(1, Channel::Error, b"x")].concat();
    let cases: Vec<(Vec<u8>, Violation)> = vec![
        (over_credit, Violation::CreditExceeded(1)),
        (oversized, Violation::TooLong { len: MAX_FROM_GUEST + 1, limit: MAX_FROM_GUEST }),
        (data(5, Channel::Main, b"x"), Violation::UnknownStream(5)),
        (data(2, Channel::Main, b"x"), Violation::UnknownStream(2)),
        (data(0, Channel::Main, b"x"), Violation::UnknownStream(0)),
        (misdirected, Violation::Unexpected("accepted")),
        (late, Violation::Unexpected("refused")),
        (after_end, Violation::Unexpected("data after its end")),
        (bytes_of(window_frame(1, Channel::Main, LIMIT)), Violation::CreditOverflow(1)),
        (bytes_of(Report::Keeper("{}".into()).frame(1)), Violation::Unexpected("report")),
        (bytes_of(Hello::new([0; 16]).frame()), Violation::UnknownStream(0)),
        (bytes_of(signal_frame(1, 9)), Violation::Unexpected("signal")),
        (bytes_of(Frame::new(Kind::Exit, 3, vec![7])), Violation::Malformed("exit")),
        (vec![99], Violation::UnknownKind(99)),
    ];
    for (bytes, expected) in cases {
        let mut scene = scene().await;
        let (first, second) = (scene.client().await, scene.client().await);
        let _first = first.open(Open::Sessions).await.unwrap();
        scene.guest.expect(Kind::Open).await;
        let (_sender, mut receiver) = second.open(Open::Sessions).await.unwrap();
        scene.guest.expect(Kind::Open).await;
        scene.guest.raw(&bytes).await;
        assert_eq!(scene.end().await, KeeperEnd::Violation(expected));
        assert!(matches!(receiver.next().await, Err(ClientError::Closed)));
    }
}

#[tokio::test]
async fn a_client_that_breaks_a_rule_is_cut_off_and_nobody_else_notices() {
    let over_credit: Vec<u8> = (0..5).flat_map(|_| data(1, Channel::Main, &[0; MAX_DATA])).collect();
    let open = bytes_of(Open::Sessions.frame(1));
    let mut oversized = Vec::new();
    header(Kind::Open, 3, MAX_FROM_HOST + 1, &mut oversized);
    let cases: Vec<Vec<u8>> = vec![
        over_credit,
        oversized,
        open.clone(),
        bytes_of(Open::Sessions.frame(2)),
        bytes_of(Frame::new(Kind::Open, 3, vec![1, 2, 3])),
        data(3, Channel::Main, b"x"),
        data(1, Channel::Error, b"x"),
        [bytes_of(eof_frame(1, Channel::Main)), data(1, Channel::Main, b"x")].concat(),
        bytes_of(window_frame(1, Channel::Main, LIMIT)),
        bytes_of(Frame::new(Kind::Signal, 1, vec![200])),
        bytes_of(Frame::new(Kind::Resize, 1, vec![1])),
        bytes_of(Exit::Code(0).frame(1)),
        bytes_of(shutdown_frame(0)),
        bytes_of(Hello::new([0; 16]).frame()),
        vec![99],
    ];
    let mut scene = scene().await;
    let other = scene.client().await;
    for bytes in cases {
        let mut rogue = scene.rogue().await;
        rogue.raw(&open).await;
        let guest_id = scene.guest.expect(Kind::Open).await.stream;
        rogue.raw(&bytes).await;
        assert_eq!(rogue.next().await, None, "after {:?}", &bytes[..bytes.len().min(20)]);
        // Of what it sent, the guest sees at most what was allowed; then the reset.
        loop {
            let frame = scene.guest.next().await.unwrap();
            assert_eq!(frame.stream, guest_id);
            if frame.kind == Kind::Reset {
                break;
            }
        }
        let answer = async {
            let stream = scene.guest.expect(Kind::Open).await.stream;
            scene.guest.send(Exit::Code(0).frame(stream)).await;
        };
        let (output, ()) = tokio::join!(other.exec_collect(exec("true"), 9), answer);
        assert_eq!(output.unwrap().exit, Exit::Code(0));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_before_it_costs_more_than_its_cap() {
    let mut scene = scene().await;
    let mut rogue = scene.rogue().await;
    rogue.send(Open::TarOut { path: b"/".to_vec() }.frame(1)).await;
    rogue.send(window_frame(1, Channel::Main, LIMIT - INITIAL)).await;
    scene.guest.expect(Kind::Open).await;
    scene.guest.expect(Kind::Window).await;
    // The guest uses its credit; the keeper gives the client up long before that is used up.
    let reset = async {
        for _ in 0..LIMIT as usize / MAX_DATA {
            scene.guest.raw(&data(1, Channel::Main, &[1; MAX_DATA])).await;
        }
        scene.guest.next().await
    };
    assert_eq!(reset.await, Some(reset_frame(1)));
}

#[tokio::test]
async fn what_only_the_guest_may_ask_is_refused_to_clients_and_the_other_way_round() {
    let mut scene = scene().await;
    let client = scene.client().await;
    let (_sender, mut receiver) = client.open(Open::Outward { host: "x".into(), port: 1 }).await.unwrap();
    let Some(StreamEvent::Refused(refusal)) = receiver.next().await.unwrap() else { panic!("not refused") };
    assert_eq!(refusal.code, RefusalCode::Forbidden);

    scene.guest.send(Open::Outward { host: "x".into(), port: 1 }.frame(2)).await;
    scene.guest.raw(&data(2, Channel::Main, b"early")).await;
    let refused = scene.guest.expect(Kind::Refused).await;
    assert_eq!(
        (refused.stream, Refusal::decode(&refused.payload).unwrap().code),
        (2, RefusalCode::Forbidden)
    );

    let refusal = Refusal::new(RefusalCode::Exec, 2, "no such file");
    let (output, ()) = tokio::join!(client.exec_collect(exec("nothing"), 9), async {
        let stream = scene.guest.expect(Kind::Open).await.stream;
        scene.guest.send(refusal.frame(stream)).await;
    });
    assert!(matches!(output, Err(ExecError::Refused(found)) if found == refusal));
}

#[tokio::test]
async fn the_keeper_tells_its_status_without_troubling_the_guest() {
    let scene = scene().await;
    let client = scene.client().await;
    let (_sender, mut receiver) = client.open(Open::Keeper(KeeperVerb::Status)).await.unwrap();
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Accepted));
    let report = Report::Keeper("{\"state\":\"running\"}".into());
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Report(report)));
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(0))));
}

#[tokio::test]
async fn new_orders_and_work_are_told_and_looking_on_is_no_work() {
    let mut scene = scene().await;
    let client = scene.client().await;
    let (_sender, mut receiver) = client.open(Open::Keeper(KeeperVerb::Orders)).await.unwrap();
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Accepted));
    assert_eq!(receiver.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(0))));
    scene.pulse.ordered().await;

    scene.pulse.listen();
    let question = ChangesRequest { repository: b"/workspace".to_vec(), known: None, sessions: true };
    let (_sender, mut receiver) = client.open(Open::Changes(question)).await.unwrap();
    let stream = scene.guest.expect(Kind::Open).await.stream;
    let changes = Report::Changes(Changes { branches: 1, sessions: 2, ended: 3 });
    scene.guest.send(accepted_frame(stream)).await;
    scene.guest.send(changes.frame(stream)).await;
    scene.guest.send(Exit::Code(0).frame(stream)).await;
    let mut heard = Vec::new();
    while let Some(event) = receiver.next().await.unwrap() {
        heard.push(event);
    }
    let told = [StreamEvent::Accepted, StreamEvent::Report(changes), StreamEvent::Exit(Exit::Code(0))];
    assert_eq!(heard, told);
    let now = std::time::Duration::ZERO;
    assert!(tokio::time::timeout(now, scene.pulse.beaten()).await.is_err());

    let (output, ()) = tokio::join!(client.exec_collect(exec("true"), 9), async {
        let stream = scene.guest.expect(Kind::Open).await.stream;
        scene.guest.send(accepted_frame(stream)).await;
        scene.guest.send(Exit::Code(0).frame(stream)).await;
    });
    output.unwrap();
    scene.pulse.beaten().await;
}

#[tokio::test]
async fn a_stop_lets_everybody_hear_the_end_before_it_is_confirmed() {
    let mut scene = scene().await;
    let (worker, stopper) = (scene.client().await, scene.client().await);
    let (_input, mut work) = worker.open(Open::Exec(exec("sleep"))).await.unwrap();
    let stream = scene.guest.expect(Kind::Open).await.stream;
    let (_sender, mut stop) = stopper.open(Open::Keeper(KeeperVerb::Stop { grace_ms: 700 })).await.unwrap();
    assert_eq!(stop.next().await.unwrap(), Some(StreamEvent::Accepted));
    let (end, closing) = scene.serving.await.unwrap();
    assert_eq!(end, KeeperEnd::StopAsked { grace_ms: 700 });

    let (_, mut refused) = worker.open(Open::Sessions).await.unwrap();
    assert!(matches!(refused.next().await, Ok(Some(StreamEvent::Refused(_)))));
    let guest = async {
        assert_eq!(decode_shutdown(&scene.guest.expect(Kind::Shutdown).await.payload), Ok(700));
        scene.guest.send(Exit::Signal(15).frame(stream)).await;
        drop(scene.guest);
    };
    let (in_time, ()) = tokio::join!(closing.shut_guest_down(700), guest);
    assert!(in_time);
    closing.finish().await;
    assert_eq!(work.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Signal(15))));
    assert_eq!(stop.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(0))));
    assert!(matches!(worker.closed().await, ClientError::Closed));
}

/// A keeper that has lost its guest's connection, and where it listens.
async fn lost() -> (KeeperConfig, HostPath, TempDir) {
    let temp = tempfile::tempdir().unwrap();
    let dir = HostPath::new(temp.path()).unwrap();
    let config = KeeperConfig {
        pulse: Arc::new(Pulse::default()),
        door: None,
        session_started: Arc::new(|_| ()),
        listener: bind(&dir, "keeper.sock").await.unwrap(),
        status_json: Arc::new(|| "{}".into()),
        allowed_uid: rustix::process::getuid().as_raw(),
        terminate: Box::pin(std::future::pending()),
    };
    (config, dir, temp)
}

#[tokio::test]
async fn without_its_guest_a_keeper_says_why_and_promises_no_stop() {
    let (mut config, dir, _temp) = lost().await;
    for stopped in [false, true] {
        let serving = super::serve_without_guest(&mut config, "the engine is away");
        let asking = async {
            let (client, _) = Client::connect(connect(&dir, "keeper.sock").await.unwrap()).await.unwrap();
            let (_sender, mut refused) = client.open(Open::Exec(exec("true"))).await.unwrap();
            let Ok(Some(StreamEvent::Refused(refusal))) = refused.next().await else { panic!("refused") };
            assert_eq!(refusal.text, "the engine is away");
            let (_sender, mut status) = client.open(Open::Keeper(KeeperVerb::Status)).await.unwrap();
            assert_eq!(status.next().await.unwrap(), Some(StreamEvent::Accepted));
            let stop = client.open(Open::Keeper(KeeperVerb::Stop { grace_ms: 9 })).await.unwrap();
            (client, stop)
        };
        let ((end, closing), (_client, (_sender, mut stop))) = tokio::join!(serving, asking);
        assert_eq!(end, KeeperEnd::StopAsked { grace_ms: 9 });
        let told = async {
            match stop.next().await.unwrap() {
                Some(StreamEvent::Refused(refusal)) => (false, refusal.text),
                Some(StreamEvent::Accepted) => {
                    assert_eq!(stop.next().await.unwrap(), Some(StreamEvent::Exit(Exit::Code(0))));
                    (true, String::new())
                }
                other => panic!("{other:?}"),
            }
        };
        let ending = async {
            match stopped {
                true => closing.finish().await,
                false => closing.refuse_stop("nobody answers").await,
            }
        };
        let (told, ()) = tokio::join!(told, ending);
        let expected = if stopped { (true, String::new()) } else { (false, "nobody answers".to_owned()) };
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn the_guest_s_departure_and_the_signal_to_end_are_told_apart() {
    let scene_one = scene().await;
    drop(scene_one.guest);
    let (end, _) = scene_one.serving.await.unwrap();
    assert_eq!(end, KeeperEnd::GuestGone("the connection to the sandbox was closed".into()));

    let mut scene_two = scene().await;
    scene_two.terminate.take().unwrap().send(()).unwrap();
    let (end, closing) = scene_two.serving.await.unwrap();
    assert_eq!(end, KeeperEnd::TerminateSignal);
    drop(closing);
    assert_eq!(scene_two.guest.next().await, None);
}

#[tokio::test]
async fn a_socket_works_at_a_path_longer_than_an_address_and_is_its_owner_s_alone() {
    let temp = tempfile::tempdir().unwrap();
    let deep = temp.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let dir = HostPath::new(&deep).unwrap();
    assert_eq!(connect(&dir, "keeper.sock").await.unwrap_err().kind(), ErrorKind::NotFound);

    let listener = bind(&dir, "keeper.sock").await.unwrap();
    assert_eq!(std::fs::metadata(deep.join("keeper.sock")).unwrap().permissions().mode() & 0o777, 0o600);
    let (near, far) = tokio::join!(connect(&dir, "keeper.sock"), listener.accept());
    near.unwrap();
    far.unwrap();

    assert_eq!(bind(&dir, "keeper.sock").await.unwrap_err().kind(), ErrorKind::AddrInUse);
    drop(listener);
    assert_eq!(connect(&dir, "keeper.sock").await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let _listener = bind(&dir, "keeper.sock").await.unwrap();
    connect(&dir, "keeper.sock").await.unwrap();
    assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 1);
}

#[test]
fn only_the_owner_and_root_may_connect() {
    assert!(may_connect(1000, 1000));
    assert!(may_connect(0, 1000));
    assert!(!may_connect(1001, 1000));
    assert!(!may_connect(65534, 0));
}
