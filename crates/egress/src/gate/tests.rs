//! The gate against a guest that asks whatever it likes, and a name server that answers whatever it likes.
use super::*;
use palisade_core::{BoxFuture, HostName, Network, Policy};
use palisade_protocol::client::Client;
use palisade_protocol::frame::{MAX_FROM_HOST, StreamId};
use palisade_protocol::message::{encode_data, eof_frame};
use palisade_protocol::{Channel, Decoder, Frame, Hello, Kind, Welcome};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;

/// Every name leads to the same addresses, and who was asked for is remembered.
#[derive(Clone, Default)]
struct Answers {
    addresses: Vec<IpAddr>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Resolve for Answers {
    fn resolve<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_string());
        Box::pin(async { Ok(self.addresses.clone()) })
    }
}

struct Scene {
    guest: DuplexStream,
    decoder: Decoder,
    next: StreamId,
    ledger: Arc<Ledger>,
    asked: Arc<Mutex<Vec<String>>>,
    client: Client,
}

impl Scene {
    async fn new(policy: Policy, addresses: &[&str]) -> Self {
        let answers = Answers {
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            asked: Arc::default(),
        };
        let (asked, ledger) = (Arc::clone(&answers.asked), Arc::new(Ledger::default()));
        let gate = Gate::new(Rules::of(&policy).unwrap(), Box::new(answers), Arc::clone(&ledger));
        let (host, mut guest) = duplex(1 << 20);
        let door = Arc::new(gate).door();
        let connecting = tokio::spawn(Client::connect_with_door(host, Open::Sessions, door));
        let mut decoder = Decoder::new(MAX_FROM_HOST);
        let hello = Hello::decode(&frame(&mut guest, &mut decoder).await.payload).unwrap();
        let mut bytes = Vec::new();
        Welcome { version: 1, nonce: hello.nonce, build: "test".into() }.frame().encode(&mut bytes);
        guest.write_all(&bytes).await.unwrap();
        let (client, _, _) = connecting.await.unwrap().unwrap();
        let mut scene = Scene { guest, decoder, next: 2, ledger, asked, client };
        // What the host asks for with its hello is not what these tests are about.
        assert_eq!(scene.frame().await.kind, Kind::Open);
        scene
    }

    async fn frame(&mut self) -> Frame {
        frame(&mut self.guest, &mut self.decoder).await
    }

    /// The frame that comes next, but for those that only end the host's own first stream.
    async fn answer(&mut self) -> Frame {
        loop {
            let frame = self.frame().await;
            if frame.stream != 1 {
                return frame;
            }
        }
    }

    async fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.guest.write_all(&bytes).await.unwrap();
    }

    async fn ask(&mut self, open: Open) -> StreamId {
        let id = self.next;
        self.next += 2;
        self.send(&open.frame(id)).await;
        id
    }

    /// Asks, and tells why it was refused; `None` when it was not.
    async fn refused(&mut self, open: Open) -> Option<String> {
        let id = self.ask(open).await;
        let frame = self.answer().await;
        assert_eq!(frame.stream, id);
        match frame.kind {
            Kind::Refused => Some(Refusal::decode(&frame.payload).unwrap().text),
            Kind::Accepted => None,
            other => panic!("{other:?}"),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn frame(stream: &mut DuplexStream, decoder: &mut Decoder) -> Frame {
    loop {
        if let Some(frame) = decoder.next_frame().unwrap() {
            return frame;
        }
        assert_ne!(stream.read_buf(decoder.spare()).await.unwrap(), 0, "the host has left");
    }
}

fn policy(network: Network, allow: &[&str]) -> Policy {
    Policy { network, allow: allow.iter().map(|text| text.parse().unwrap()).collect(), ..Policy::default() }
}

fn outward(host: &str, port: u16) -> Open {
    Open::Outward { host: host.into(), port }
}

#[tokio::test]
async fn names_that_are_refused_are_never_looked_up() {
    let mut scene = Scene::new(policy(Network::Allowlist, &["example.org"]), &["10.0.0.1"]).await;
    let not_listed = Some("not on the allow list".to_owned());
    let secret = "c2VjcmV0.evil.com";
    assert_eq!(scene.refused(Open::Name { host: secret.into() }).await, not_listed);
    assert_eq!(scene.refused(outward(secret, 443)).await, not_listed);
    assert_eq!(scene.refused(outward("example.org", 22)).await, Some("allowed, but not on this port".into()));
    // Nor is one that is allowed, while nobody connects.
    assert_eq!(scene.refused(Open::Name { host: "example.org".into() }).await, None);
    assert_eq!(scene.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_leads_to_a_forbidden_address_is_refused_after_the_lookup() {
    for (address, kind) in [
        ("127.0.0.1", "the host's own loopback"),
        ("0.0.0.0", "the host's own loopback"),
        ("::1", "the host's own loopback"),
        ("192.168.1.1", "a private address"),
        ("169.254.169.254", "a metadata address"),
        ("fd00:ec2::254", "a metadata address"),
        ("::ffff:10.0.0.1", "an address with another one inside"),
        ("100.64.0.1", "an address of the provider's own network"),
    ] {
        for mode in [Network::Allowlist, Network::Open] {
            let mut scene = Scene::new(policy(mode, &["rebind.example.org"]), &[address]).await;
            let reason = format!("it is {kind}, and that is not listed");
            assert_eq!(scene.refused(outward("rebind.example.org", 443)).await, Some(reason), "{address}");
            assert_eq!(scene.asked(), ["rebind.example.org"]);
            let (entries, _) = scene.ledger.entries();
            assert_eq!(entries[0].address, Some(address.parse().unwrap()));
        }
    }
}

#[tokio::test]
async fn only_a_sandboxs_own_questions_are_answered() {
    let mut scene = Scene::new(policy(Network::Open, &[]), &[]).await;
    let text = "a sandbox may ask for the way out and nothing else";
    assert_eq!(scene.refused(Open::Dial { port: 22 }).await, Some(text.into()));
    assert_eq!(scene.refused(Open::HostPort { port: 22 }).await, Some("not a listed host port".into()));
    assert_eq!(scene.refused(outward("example.org", 443)).await, Some("the name is unknown".into()));
}

/// A connection to a host port, with its number and the server's end of it.
async fn connected() -> (Scene, StreamId, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host_port = format!("80:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    let policy = Policy { host_ports: vec![host_port], ..policy(Network::Allowlist, &[]) };
    let mut scene = Scene::new(policy, &[]).await;
    let id = scene.ask(Open::HostPort { port: 80 }).await;
    let (server, _) = listener.accept().await.unwrap();
    assert_eq!(scene.answer().await.kind, Kind::Accepted);
    (scene, id, server)
}

#[tokio::test]
async fn a_guest_that_sends_before_it_is_answered_is_cut_off() {
    let mut scene = Scene::new(policy(Network::Open, &[]), &[]).await;
    let mut bytes = Vec::new();
    outward("example.org", 443).frame(2).encode(&mut bytes);
    encode_data(2, Channel::Main, b"early", &mut bytes);
    scene.guest.write_all(&bytes).await.unwrap();
    let end = scene.client.closed().await;
    assert_eq!(end.to_string(), "the sandbox broke the protocol: unexpected data before the answer");
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_direction_ends_by_itself() {
    let (mut scene, id, mut server) = connected().await;
    let mut bytes = Vec::new();
    encode_data(id, Channel::Main, b"question", &mut bytes);
    eof_frame(id, Channel::Main).encode(&mut bytes);
    scene.guest.write_all(&bytes).await.unwrap();
    let mut heard = String::new();
    server.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    let kinds = [scene.answer().await, scene.answer().await, scene.answer().await];
    assert_eq!(kinds.each_ref().map(|frame| frame.kind), [Kind::Data, Kind::Eof, Kind::Exit]);
    assert_eq!(kinds[0].payload[1..], *b"answer");
}

#[tokio::test]
async fn a_stream_that_the_sandbox_drops_drops_the_connection() {
    let (mut scene, id, mut server) = connected().await;
    scene.send(&palisade_protocol::message::reset_frame(id)).await;
    let mut rest = Vec::new();
    // Either end of the connection is fine; that it stays would not be.
    let _ = server.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
}
