//! Who a frame is for. Each stream of a client has a stream of its own at the guest; frames pass from one to the
//! other with the id rewritten, so credit holds from end to end and the keeper stores only what is under way.
//!
//! Invariants:
//! - Nothing is passed on that would make the other side give up: a client cannot get the guest's connection
//!   closed for it, nor can the guest a client's.
//! - A route is freed by whichever side ends the stream; late frames of the other are dropped.
//! - No call here waits. Clients wait for room towards the guest before they come; a client that lets more pile
//!   up than its cap is cut off.

use super::pulse::Pulse;
use super::route::{Next, Route};
use super::{KeeperConfig, KeeperEnd};
use palisade_protocol::client::{self as stream, Bearer, ClientError, Door, Incoming, StreamState};
use palisade_protocol::frame::{Kind, MAX_FROM_GUEST};
use palisade_protocol::message::{accepted_frame, reset_frame, shutdown_frame};
use palisade_protocol::outbox::{Outbox, until};
use palisade_protocol::{
    Exit, FrameRef, KeeperVerb, Open, Refusal, RefusalCode, Report, StreamId, Violation,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Clients that may be connected at once.
const MAX_CLIENTS: usize = 256;
/// Streams that all clients together may have open.
const MAX_STREAMS: usize = 4096;
/// Bytes that may wait for the guest before clients wait.
const GUEST_QUEUE: usize = 256 * 1024;
/// Bytes that may wait for one client: a dozen streams with all their credit used. Beyond, it is cut off.
const CLIENT_CAP: usize = 8 * 1024 * 1024;

pub(super) type ClientId = u64;

pub(super) struct Router {
    pub(super) to_guest: Outbox,
    routes: Mutex<Routes>,
    /// The keeper's end, the guest's, or a client's departure.
    changed: Notify,
    status_json: Arc<dyn Fn() -> String + Send + Sync>,
    door: Option<Door>,
    session_started: Arc<dyn Fn(&str) + Send + Sync>,
    pulse: Arc<Pulse>,
    /// Why there is no connection to the guest, while there is none.
    absence: Option<String>,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

/// Of the streams that the guest asks for.
impl Bearer for Router {
    fn outbox(&self) -> &Outbox {
        &self.to_guest
    }

    fn forget(&self, stream: StreamId) -> bool {
        self.lock().outward.remove(&stream).is_some()
    }
}

#[derive(Default)]
struct Routes {
    /// By the guest's stream id.
    routes: HashMap<StreamId, Route>,
    clients: HashMap<ClientId, Client>,
    joined: ClientId,
    /// How many streams were ever opened at the guest.
    opened: u32,
    /// The highest id that the guest opened a stream under.
    peer: StreamId,
    /// The streams that the guest asked for and that have not ended.
    outward: HashMap<StreamId, Arc<StreamState>>,
    /// Streams of clients that wait for the sandbox to have stopped, and whether they were told that it will be.
    stops: Vec<(ClientId, StreamId, Promise)>,
    guest_gone: bool,
    end: Option<KeeperEnd>,
    closed: bool,
}

/// What a client that asked for a stop was told so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    Accepted,
    /// It is not known yet whether the sandbox can be stopped.
    None,
}

struct Client {
    outbox: Arc<Outbox>,
    /// The client's ids and the guest's.
    streams: HashMap<StreamId, StreamId>,
    highest: StreamId,
}

impl Router {
    /// `opened` streams were opened at the guest before.
    pub(super) fn new(config: &KeeperConfig, opened: u32) -> Self {
        Self {
            to_guest: Outbox::new(GUEST_QUEUE),
            routes: Mutex::new(Routes { opened, ..Routes::default() }),
            changed: Notify::new(),
            status_json: Arc::clone(&config.status_json),
            door: config.door.clone(),
            session_started: Arc::clone(&config.session_started),
            pulse: Arc::clone(&config.pulse),
            absence: None,
        }
    }

    /// Without a guest: only what the keeper answers itself is answered, and the rest is refused with this reason.
    pub(super) fn without_guest(config: &KeeperConfig, absence: String) -> Self {
        let routes = Mutex::new(Routes { guest_gone: true, ..Routes::default() });
        Self { absence: Some(absence), routes, ..Self::new(config, 0) }
    }

    fn lock(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a client in, `None` when there are too many.
    pub(super) fn join(&self, outbox: Arc<Outbox>) -> Option<ClientId> {
        let mut routes = self.lock();
        if routes.clients.len() >= MAX_CLIENTS {
            return None;
        }
        routes.joined += 1;
        let id = routes.joined;
        routes.clients.insert(id, Client { outbox, streams: HashMap::new(), highest: 0 });
        Some(id)
    }

    /// A client is gone, and with it everything it asked for.
    pub(super) fn leave(&self, id: ClientId) {
        let mut routes = self.lock();
        let Some(client) = routes.clients.remove(&id) else { return };
        client.outbox.close();
        for guest in client.streams.into_values() {
            routes.routes.remove(&guest);
            self.to_guest.push(|out| reset_frame(guest).encode(out));
        }
        drop(routes);
        self.changed.notify_waiters();
    }

    /// A frame from a client; an error is the client's and ends only its own connection.
    pub(super) fn client_says(&self, id: ClientId, frame: FrameRef<'_>) -> Result<(), Violation> {
        if frame.kind == Kind::Open {
            return self.open(id, frame);
        }
        let mut routes = self.lock();
        let Some(client) = routes.clients.get(&id) else { return Ok(()) };
        let Some(&guest) = client.streams.get(&frame.stream) else {
            let ended = frame.stream % 2 == 1 && frame.stream <= client.highest;
            return if ended { Ok(()) } else { Err(Violation::UnknownStream(frame.stream)) };
        };
        let Some(route) = routes.routes.get_mut(&guest) else { return Ok(()) };
        let next = route.input(frame)?;
        if route.is_work(frame.kind) {
            self.pulse.beat();
        }
        self.to_guest.push(|out| frame.encode_as(guest, out));
        if next == Next::Ended {
            routes.free(guest);
        }
        Ok(())
    }

    fn open(&self, id: ClientId, frame: FrameRef<'_>) -> Result<(), Violation> {
        let stream = frame.stream;
        let open = Open::decode(frame.payload)?;
        // Made before locking: it may look at anything, this router's owner included.
        let status = match open {
            Open::Keeper(KeeperVerb::Status) => Some(Report::Keeper((self.status_json)()).frame(stream)),
            _ => None,
        };
        let mut routes = self.lock();
        let stopping = routes.end.is_some();
        let (streams, opened) = (routes.routes.len(), routes.opened);
        let is_used_by_others = routes.clients.len() > 1;
        let Some(client) = routes.clients.get_mut(&id) else { return Ok(()) };
        if stream.is_multiple_of(2) || stream <= client.highest {
            return Err(Violation::UnknownStream(stream));
        }
        client.highest = stream;
        let outbox = Arc::clone(&client.outbox);
        let refuse = |code, text: &str| {
            outbox.push(|out| Refusal::new(code, 0, text).frame(stream).encode(out));
        };
        match open {
            Open::Keeper(KeeperVerb::Status) => match status {
                Some(report) if report.payload.len() <= MAX_FROM_GUEST => {
                    outbox.push(|out| {
                        accepted_frame(stream).encode(out);
                        report.encode(out);
                        Exit::Code(0).frame(stream).encode(out);
                    });
                }
                _ => refuse(RefusalCode::Failed, "the status is too long to be sent"),
            },
            Open::Keeper(KeeperVerb::Stop { grace_ms }) => {
                let promise = if self.absence.is_none() { Promise::Accepted } else { Promise::None };
                if promise == Promise::Accepted {
                    outbox.push(|out| accepted_frame(stream).encode(out));
                }
                routes.stops.push((id, stream, promise));
                routes.end.get_or_insert(KeeperEnd::StopAsked { grace_ms });
                self.changed.notify_waiters();
            }
            Open::Keeper(KeeperVerb::StopIfUnused { .. }) if is_used_by_others => {
                refuse(RefusalCode::Exists, "another client uses the sandbox");
            }
            Open::Keeper(KeeperVerb::StopIfUnused { grace_ms }) if self.absence.is_none() => {
                outbox.push(|out| accepted_frame(stream).encode(out));
                routes.stops.push((id, stream, Promise::Accepted));
                routes.end.get_or_insert(KeeperEnd::StopAsked { grace_ms });
                self.changed.notify_waiters();
            }
            Open::Keeper(KeeperVerb::Orders) => {
                outbox.push(|out| {
                    accepted_frame(stream).encode(out);
                    Exit::Code(0).frame(stream).encode(out);
                });
                self.pulse.give_orders();
            }
            Open::Outward { .. } => refuse(RefusalCode::Forbidden, "only a sandbox opens streams outward"),
            _ if self.absence.is_some() => {
                refuse(RefusalCode::Failed, self.absence.as_deref().unwrap_or_default())
            }
            _ if stopping => refuse(RefusalCode::Failed, "the sandbox is stopping"),
            _ if streams >= MAX_STREAMS => {
                refuse(RefusalCode::Limit, "too many streams are open in this sandbox")
            }
            _ => match opened.checked_mul(2).and_then(|id| id.checked_add(1)) {
                Some(guest) => {
                    client.streams.insert(stream, guest);
                    routes.opened += 1;
                    routes.routes.insert(guest, Route::new(id, stream, open));
                    self.to_guest.push(|out| frame.encode_as(guest, out));
                }
                None => {
                    refuse(RefusalCode::Limit, "this keeper has used up its streams: restart the sandbox")
                }
            },
        }
        Ok(())
    }

    /// A frame from the guest; an error ends its connection.
    pub(super) fn guest_says(self: &Arc<Self>, frame: FrameRef<'_>) -> Result<(), Violation> {
        if frame.kind == Kind::Open {
            return self.answer_guest(frame);
        }
        if frame.kind == Kind::Accepted
            && let Some(session) = self.starting_session(frame.stream)
        {
            (self.session_started)(&session);
        }
        let mut routes = self.lock();
        let id = frame.stream;
        if let Some(stream) = routes.outward.get(&id) {
            if stream.take(frame)? == stream::Next::Ended {
                routes.outward.remove(&id);
            }
            return Ok(());
        }
        let ended = if id % 2 == 1 { id / 2 < routes.opened } else { id != 0 && id <= routes.peer };
        let Some(route) = routes.routes.get_mut(&id) else {
            return if ended { Ok(()) } else { Err(Violation::UnknownStream(id)) };
        };
        let next = route.output(frame)?;
        if route.is_work(frame.kind) {
            self.pulse.beat();
        }
        let (client, stream) = (route.client, route.stream);
        if let Some(client) = routes.clients.get(&client) {
            client.outbox.push(|out| frame.encode_as(stream, out));
            if client.outbox.queued() > CLIENT_CAP {
                tracing::warn!("a client does not read what it asked for: cut off");
                client.outbox.close();
            }
        }
        if next == Next::Ended {
            routes.free(id);
        }
        Ok(())
    }

    /// The session whose start this stream waits for.
    fn starting_session(&self, stream: StreamId) -> Option<String> {
        self.lock().routes.get_mut(&stream).and_then(|route| route.starting.take())
    }

    /// A stream that the guest opens is a way out of the sandbox. Whoever guards the way answers; without anybody
    /// there is none.
    fn answer_guest(self: &Arc<Self>, frame: FrameRef<'_>) -> Result<(), Violation> {
        let id = frame.stream;
        let mut routes = self.lock();
        if !id.is_multiple_of(2) || id <= routes.peer {
            return Err(Violation::UnknownStream(id));
        }
        let open = Open::decode(frame.payload)?;
        routes.peer = id;
        if self.to_guest.is_overfull() {
            return Err(Violation::Unexpected("requests without reading the answers"));
        }
        let Some(door) = self.door.as_ref().filter(|_| routes.end.is_none()) else {
            let refusal = Refusal::new(RefusalCode::Forbidden, 0, "the sandbox has no way out");
            self.to_guest.push(|out| refusal.frame(id).encode(out));
            return Ok(());
        };
        let state = Arc::new(StreamState::asked_for());
        routes.outward.insert(id, Arc::clone(&state));
        // It may forget the stream at once.
        drop(routes);
        door(Incoming::new(Arc::clone(self) as _, id, state, open));
        Ok(())
    }

    /// The guest's connection has ended, by itself or because it broke the rules.
    pub(super) fn guest_ended(&self, reason: ClientError) {
        self.to_guest.close();
        let mut routes = self.lock();
        routes.guest_gone = true;
        routes.end.get_or_insert(match reason {
            ClientError::Violation(violation) => KeeperEnd::Violation(violation),
            other => KeeperEnd::GuestGone(other.to_string()),
        });
        let outward = std::mem::take(&mut routes.outward);
        drop(routes);
        for stream in outward.values() {
            stream.lose_connection(&ClientError::Closed);
        }
        self.changed.notify_waiters();
    }

    pub(super) fn terminate(&self) {
        self.lock().end.get_or_insert(KeeperEnd::TerminateSignal);
        self.changed.notify_waiters();
    }

    pub(super) async fn ended(&self) -> KeeperEnd {
        until(&self.changed, || self.lock().end.clone()).await
    }

    pub(super) fn shut_guest_down(&self, grace_ms: u32) {
        self.to_guest.push(|out| shutdown_frame(grace_ms).encode(out));
    }

    pub(super) async fn guest_gone(&self) {
        until(&self.changed, || self.lock().guest_gone.then_some(())).await;
    }

    /// Tells those who asked for the stop that it is done, and lets everybody's last frames out.
    pub(super) fn dismiss_clients(&self) {
        let mut routes = self.lock();
        for (client, stream, promise) in std::mem::take(&mut routes.stops) {
            if let Some(client) = routes.clients.get(&client) {
                client.outbox.push(|out| {
                    if promise == Promise::None {
                        accepted_frame(stream).encode(out);
                    }
                    Exit::Code(0).frame(stream).encode(out);
                });
            }
        }
        routes.clients.values().for_each(|client| client.outbox.finish());
    }

    /// Tells those who asked for the stop that it cannot be done, and why.
    pub(super) fn refuse_stops(&self, reason: &str) {
        let mut routes = self.lock();
        for (client, stream, _) in std::mem::take(&mut routes.stops) {
            if let Some(client) = routes.clients.get(&client) {
                let refusal = Refusal::new(RefusalCode::Failed, 0, reason);
                client.outbox.push(|out| refusal.frame(stream).encode(out));
            }
        }
        routes.clients.values().for_each(|client| client.outbox.finish());
    }

    pub(super) async fn clients_gone(&self) {
        until(&self.changed, || self.lock().clients.is_empty().then_some(())).await;
    }

    /// Cuts everybody off at once.
    pub(super) fn close(&self) {
        self.to_guest.close();
        let mut routes = self.lock();
        routes.closed = true;
        routes.clients.values().for_each(|client| client.outbox.close());
        drop(routes);
        self.changed.notify_waiters();
    }

    pub(super) async fn closed(&self) {
        until(&self.changed, || self.lock().closed.then_some(())).await;
    }
}

impl Routes {
    fn free(&mut self, guest: StreamId) {
        let Some(route) = self.routes.remove(&guest) else { return };
        if let Some(client) = self.clients.get_mut(&route.client) {
            client.streams.remove(&route.stream);
        }
    }
}
