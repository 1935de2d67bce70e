//! A connection to a running sandbox, for exec, terminals and files; and the named sessions at its other end.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::keep::SOCKET;
use crate::keeper::socket;
use crate::session_book::{self, SessionRecord};
use crate::stop::{LAST_ACT, wait_for_end};
use palisade_core::{Layout, State};
use palisade_host::fault::Step;
use palisade_protocol::client::{
    Client, ClientError, SignsOfLife, StreamEvent, StreamReceiver, StreamSender,
};
use palisade_protocol::{ExecRequest, KeeperVerb, Open, Refusal, RefusalCode, Report, SessionInfo, Size};
use palisade_store::Row;
use std::io;
use std::time::Duration;

/// How long a keeper may take to greet a client. It does so without its guest.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of a sandbox's keeper, and where the sandbox's places are.
#[derive(Debug)]
pub struct Connection {
    pub row: Row,
    pub client: Client,
    pub layout: Layout,
}

impl Engine {
    pub async fn connect(&self, name: &str) -> Result<Connection, EngineError> {
        let row = self.row(name)?;
        self.refuse_foreign(&row)?;
        let row = self.recovered(row).await?;
        let (id, keeper) = (row.id().clone(), row.keeper.clone());
        match (self.reach(row).await, keeper) {
            // A keeper that was dying when we came may have taken our connection with it, and nothing else.
            (Err(EngineError::Client(_) | EngineError::KeeperUnreachable { .. }), Some(keeper))
                if wait_for_end(&keeper, LAST_ACT).await =>
            {
                self.reach(self.recovered(self.row(id.as_str())?).await?).await
            }
            (reached, _) => reached,
        }
    }

    async fn reach(&self, row: Row) -> Result<Connection, EngineError> {
        let not_running = |row: &Row| EngineError::WrongState {
            name: row.name.clone(),
            state: row.state,
            verb: "this",
            hint: format!("start it with: palisade start {}", row.name),
        };
        if row.state != State::Running {
            return Err(not_running(&row));
        }
        if let Some(why) = row.error {
            return Err(EngineError::EngineLost { name: row.name, why });
        }
        let backend = self.backend(row.spec.method)?;
        let dir = row.spec.dir.as_ref().ok_or_else(|| not_running(&row))?;
        let stream = socket::connect(dir.path(), SOCKET)
            .await
            .map_err(|source| EngineError::keeper_unreachable(&row.name, source))?;
        let connected = tokio::time::timeout(KEEPER_TIMEOUT, Client::connect(stream)).await;
        let (client, _) = connected.map_err(|_| {
            let text = format!("it did not answer within {} s", KEEPER_TIMEOUT.as_secs());
            EngineError::keeper_unreachable(&row.name, io::Error::new(io::ErrorKind::TimedOut, text))
        })??;
        client.watch(Some(row.name.as_str()), SignsOfLife::USUAL);
        EngineError::step(Step::ExecConnected)?;
        Ok(Connection { layout: backend.layout(&row.spec), client, row })
    }
}

impl Engine {
    /// How many processes in a running sandbox the kernel has killed because of its memory limit, since it was started.
    pub async fn memory_kills(&self, row: &Row) -> u64 {
        match (self.backend(row.spec.method), &row.keeper) {
            (Ok(backend), Some(keeper)) => backend.memory_kills(&row.spec, keeper.pid).await,
            _ => 0,
        }
    }

    /// What became of the sessions of a sandbox, whatever state it is in.
    pub async fn session_records(&self, name: &str) -> Result<(Row, Vec<SessionRecord>), EngineError> {
        let row = self.recovered(self.row(name)?).await?;
        let records = row.spec.dir.as_ref().map(session_book::read).transpose()?;
        Ok((row, records.unwrap_or_default()))
    }
}

/// Both halves of a stream that the sandbox has accepted.
pub type Streams = (StreamSender, StreamReceiver);

/// What to do with a session that has ended although nobody was there to see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenEnd {
    /// Its last screen and its exit are shown, once.
    Show,
    /// It is as if it had never been.
    Forget,
}

#[derive(Debug)]
pub enum SessionStart {
    Started(Streams),
    /// A session of this name is running already.
    Running,
    Refused(Refusal),
}

impl Connection {
    /// Tells the keeper to look again at what it is to do besides. Says whether it knows how: one of an earlier version
    /// does when it is started again.
    pub async fn give_orders(&self) -> bool {
        let asked = async {
            let (_sender, mut receiver) = self.client.open(Open::Keeper(KeeperVerb::Orders)).await.ok()?;
            answer(&mut receiver).await.ok()
        };
        matches!(asked.await, Some(None))
    }

    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, EngineError> {
        let (_sender, mut receiver) = self.client.open(Open::Sessions).await?;
        while let Some(event) = receiver.next().await? {
            if let StreamEvent::Report(Report::Sessions(sessions)) = event {
                return Ok(sessions);
            }
        }
        Err(ClientError::Closed.into())
    }

    /// Asks the commands of all sessions to end, and waits for that a while.
    pub async fn end_sessions(&self, grace: Duration) -> Result<(), EngineError> {
        let running = |sessions: Vec<SessionInfo>| -> Vec<String> {
            sessions
                .into_iter()
                .filter(|session| session.exit.is_none())
                .map(|session| session.name)
                .collect()
        };
        let names = running(self.sessions().await?);
        if names.is_empty() {
            return Ok(());
        }
        let mut ends = Vec::new();
        for name in names {
            let size = Size { rows: 24, columns: 80 };
            let (sender, mut receiver) = self.client.open(Open::Attach { session: name, size }).await?;
            // One that has ended meanwhile needs no signal.
            if answer(&mut receiver).await?.is_none() {
                for signal in [libc::SIGHUP, libc::SIGTERM] {
                    sender.signal(signal as u8).await?;
                }
                ends.push((sender, receiver));
            }
        }
        let all = async {
            for (_sender, receiver) in &mut ends {
                while let Ok(Some(event)) = receiver.next().await {
                    if matches!(event, StreamEvent::Exit(_)) {
                        break;
                    }
                }
            }
        };
        // What does not end by itself ends with the sandbox.
        let _ = tokio::time::timeout(grace, all).await;
        Ok(())
    }

    /// Stops the sandbox unless another client is connected to it; says whether it does.
    pub async fn stop_if_unused(&self, grace: Duration) -> Result<bool, EngineError> {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        let verb = Open::Keeper(KeeperVerb::StopIfUnused { grace_ms });
        let (_sender, mut receiver) = self.client.open(verb).await?;
        if answer(&mut receiver).await?.is_some() {
            return Ok(false);
        }
        // Until the keeper has put everything away.
        while let Ok(Some(_)) = receiver.next().await {}
        Ok(true)
    }

    /// Looks at a session; `None` when there is none to look at, and one can be started in its place.
    pub async fn join(
        &self,
        name: &str,
        size: Size,
        unseen: UnseenEnd,
    ) -> Result<Option<Streams>, EngineError> {
        let of_interest = |session: &SessionInfo| match session.exit {
            None => true,
            Some(_) => !session.seen && unseen == UnseenEnd::Show,
        };
        let sessions = self.sessions().await?;
        if !sessions.iter().any(|session| session.name == name && of_interest(session)) {
            return Ok(None);
        }
        let mut streams = self.client.open(Open::Attach { session: name.to_owned(), size }).await?;
        // It may have made room for another one meanwhile.
        Ok(answer(&mut streams.1).await?.is_none().then_some(streams))
    }

    /// Starts a command as a named session. It needs a terminal, and outlives the streams.
    pub async fn start_session(&self, name: &str, request: ExecRequest) -> Result<SessionStart, EngineError> {
        let request = ExecRequest { session: Some(name.to_owned()), ..request };
        let mut streams = self.client.open(Open::Exec(request)).await?;
        Ok(match answer(&mut streams.1).await? {
            None => SessionStart::Started(streams),
            Some(refusal) if refusal.code == RefusalCode::Exists => SessionStart::Running,
            Some(refusal) => SessionStart::Refused(refusal),
        })
    }
}

/// The first word on a stream: why it was refused, or nothing.
async fn answer(receiver: &mut StreamReceiver) -> Result<Option<Refusal>, EngineError> {
    match receiver.next().await? {
        Some(StreamEvent::Accepted) => Ok(None),
        Some(StreamEvent::Refused(refusal)) => Ok(Some(refusal)),
        _ => Err(ClientError::Closed.into()),
    }
}
