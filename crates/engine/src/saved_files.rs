//! The files of a sandbox as one archive beside the state, for a sandbox that is removed while git in it is of no use.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::session::Connection;
use palisade_protocol::client::{ClientError, StreamEvent};
use palisade_protocol::{Channel, Exit, Open};
use palisade_store::Row;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// The directory of such archives, in the state directory.
const DIRECTORY: &str = "saved";

impl Engine {
    /// Saves everything in the workspace, whatever it is; where to.
    pub(crate) async fn save_files(
        &self,
        row: &Row,
        connection: &Connection,
    ) -> Result<PathBuf, EngineError> {
        let directory = self.config.state.join(DIRECTORY);
        let failed = || EngineError::io(format!("save the files of sandbox '{}' in {directory}", row.name));
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed())?;
        let path = directory.join(format!("{}-{}-{}.tar", row.name, row.id().short(), now()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path).map_err(failed())?;
        let written = write_workspace(connection, &mut file).await;
        let written = written.and_then(|()| file.sync_all().map_err(failed()));
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        written.map(|()| path.into())
    }
}

async fn write_workspace(connection: &Connection, file: &mut File) -> Result<(), EngineError> {
    let path = connection.layout.workspace.clone();
    let failed = |reason: String| EngineError::Copy { path: path.clone(), reason };
    let open = Open::TarOut { path: connection.layout.workspace.clone().into_bytes() };
    let (_sender, mut receiver) = connection.client.open(open).await?;
    let mut message = Vec::new();
    loop {
        match receiver.next().await? {
            Some(StreamEvent::Data { channel: Channel::Main, bytes }) => {
                file.write_all(&bytes).map_err(EngineError::io("save the files"))?;
            }
            Some(StreamEvent::Data { channel: Channel::Error, bytes }) => message.extend_from_slice(&bytes),
            Some(StreamEvent::Exit(Exit::Code(0))) if message.is_empty() => return Ok(()),
            Some(StreamEvent::Exit(_)) => {
                let message = palisade_core::printable_lines(&String::from_utf8_lossy(&message));
                return Err(failed(format!("not all of it can be read: {message}")));
            }
            Some(StreamEvent::Refused(refusal)) => {
                return Err(failed(palisade_core::printable_lines(&refusal.text)));
            }
            Some(StreamEvent::Reset) | None => return Err(ClientError::Closed.into()),
            Some(_) => {}
        }
    }
}
