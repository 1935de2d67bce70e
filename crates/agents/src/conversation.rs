//! The last conversation of an agent, however it was begun: on a terminal, or with a task.

use crate::error::AgentError;
use crate::inside::run_inside;
use crate::profile::Profile;
use palisade_core::{Layout, printable};
use palisade_engine::Connection;

impl Profile {
    /// The agent's own id for the last conversation in a directory; `None` when there is none, or when the agent finds it
    /// by itself.
    pub async fn last_conversation(
        &self,
        connection: &Connection,
        layout: &Layout,
    ) -> Result<Option<String>, AgentError> {
        let Some(pattern) = &self.conversations else { return Ok(None) };
        let words = [pattern.clone(), layout.directory.clone()];
        let script = include_str!("conversation.sh");
        let answer =
            run_inside(connection, layout, "looking for the last conversation", script, &words, &[]).await?;
        let id = String::from_utf8_lossy(&answer).trim().to_owned();
        // It becomes an argument of the agent's.
        let is_id = |text: &str| {
            text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        };
        if id.is_empty() || is_id(&id) {
            return Ok(Some(id).filter(|id| !id.is_empty()));
        }
        Err(AgentError::NoConversation { agent: self.name.clone(), directory: printable(&layout.directory) })
    }
}
