//! Listening to a sandbox: a question to the guest that it answers when something has changed, again and again. The
//! pause between two questions is ours, so a guest that has news without end is heard no more often for it.

use super::{Heard, When};
use crate::engine::Engine;
use crate::keep::SOCKET;
use crate::keeper::socket;
use crate::keeper_home::KeeperHome;
use palisade_core::printable_lines;
use palisade_protocol::client::{Client, ClientError, StreamEvent};
use palisade_protocol::{Changes, ChangesRequest, Open, Refusal, Report};
use palisade_store::Row;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(500);
/// Where the guest cannot tell, something may have changed this often.
const BEAT: Duration = Duration::from_secs(60);

enum Answer {
    Changes(Changes),
    Refused(Refusal),
}

impl Engine {
    /// As a client of this keeper's own socket, like any other: what the guest says goes through the same checks.
    pub(super) async fn listen(
        &self,
        row: &Row,
        home: &KeeperHome,
        when: When,
        tell: Sender<Heard>,
    ) -> Infallible {
        let mut known = None;
        let mut client = None;
        loop {
            let pause = match self.ask(row, home, when, known, &mut client).await {
                Ok(Answer::Changes(now)) => {
                    for news in news(known, now) {
                        // Whoever listens outlives this.
                        let _ = tell.send(news).await;
                    }
                    known = Some(now);
                    PAUSE
                }
                Ok(Answer::Refused(refusal)) => {
                    let why = printable_lines(&refusal.text);
                    tracing::warn!(why, "the guest does not tell what changes; it is looked at every minute");
                    let _ = tell.send(Heard::Branches).await;
                    BEAT
                }
                Err(error) => {
                    tracing::debug!(%error, "nothing is heard from inside");
                    client = None;
                    PAUSE * 4
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask(
        &self,
        row: &Row,
        home: &KeeperHome,
        when: When,
        known: Option<Changes>,
        client: &mut Option<(Client, Vec<u8>)>,
    ) -> Result<Answer, ClientError> {
        if client.is_none() {
            *client = Some(self.own_client(row, home).await?);
        }
        let Some((client, repository)) = client else { return Err(ClientError::Closed) };
        let request = ChangesRequest {
            repository: repository.clone(),
            known,
            sessions: matches!(when, When::OnIdle { .. }),
        };
        let (_sender, mut receiver) = client.open(Open::Changes(request)).await?;
        while let Some(event) = receiver.next().await? {
            match event {
                StreamEvent::Report(Report::Changes(changes)) => return Ok(Answer::Changes(changes)),
                StreamEvent::Refused(refusal) => return Ok(Answer::Refused(refusal)),
                _ => {}
            }
        }
        Err(ClientError::Closed)
    }

    async fn own_client(&self, row: &Row, home: &KeeperHome) -> Result<(Client, Vec<u8>), ClientError> {
        let other = |error: String| ClientError::from(std::io::Error::other(error));
        let backend = self.backend(row.spec.method).map_err(|error| other(error.to_string()))?;
        let stream = socket::connect(home.dir().path(), SOCKET).await?;
        let (client, _) = Client::connect(stream).await?;
        Ok((client, backend.layout(&row.spec).workspace.into_bytes()))
    }
}

/// What an answer tells beyond the one before.
fn news(known: Option<Changes>, now: Changes) -> Vec<Heard> {
    let Some(known) = known else { return vec![Heard::Before] };
    let all = [
        (now.sessions != known.sessions, Heard::Movement),
        (now.branches != known.branches, Heard::Branches),
        (now.ended != known.ended, Heard::SessionEnded),
    ];
    all.into_iter().filter_map(|(differs, heard)| differs.then_some(heard)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_news() {
        let known = Changes { branches: 1, sessions: 2, ended: 3 };
        assert_eq!(news(None, known), [Heard::Before]);
        assert_eq!(news(Some(known), known), []);
        assert_eq!(news(Some(known), Changes { branches: 0, ..known }), [Heard::Branches]);
        let ended = Changes { sessions: 9, ended: 4, ..known };
        assert_eq!(news(Some(known), ended), [Heard::Movement, Heard::SessionEnded]);
    }
}
