//! A connection to a running sandbox, for exec, terminals and files.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::keep::SOCKET;
use crate::keeper::socket;
use palisade_core::{Layout, State};
use palisade_protocol::client::Client;
use palisade_store::Row;

/// A client of a sandbox's keeper, and where the sandbox's places are.
#[derive(Debug)]
pub struct Connection {
    pub row: Row,
    pub client: Client,
    pub layout: Layout,
}

impl Engine {
    pub async fn connect(&self, name: &str) -> Result<Connection, EngineError> {
        let row = self.recovered(self.row(name)?).await?;
        let not_running = |row: &Row| EngineError::WrongState {
            name: row.name.clone(),
            state: row.state,
            verb: "this",
            hint: format!("start it with: palisade start {}", row.name),
        };
        if row.state != State::Running {
            return Err(not_running(&row));
        }
        let backend = self.backend(row.spec.method)?;
        let dir = row.spec.dir.as_ref().ok_or_else(|| not_running(&row))?;
        let stream = socket::connect(dir.path(), SOCKET)
            .await
            .map_err(EngineError::io(format!("reach the keeper of sandbox '{}'", row.name)))?;
        let (client, _) = Client::connect(stream).await?;
        Ok(Connection { layout: backend.layout(&row.spec), client, row })
    }
}
