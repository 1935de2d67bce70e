//! Finds out that a guest does not answer: it is asked for a sign of life now and then, and when none comes, the
//! connection ends, so that whatever waits for the guest learns why it waits in vain.

use super::{Client, ClientError, Handle};
use crate::Open;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a guest is asked, and how long it may take to answer.
#[derive(Debug, Clone, Copy)]
pub struct SignsOfLife {
    pub interval: Duration,
    pub answer: Duration,
}

impl SignsOfLife {
    /// For people and programs that wait for a sandbox: at the latest 30 seconds after its last sign of life they know.
    /// Documented in docs/guides/methods.md.
    pub const USUAL: Self = Self { interval: Duration::from_secs(5), answer: Duration::from_secs(25) };

    fn silence(self) -> Duration {
        self.interval + self.answer
    }
}

/// A process that was stopped itself finds every deadline behind it when it goes on; then there is still this much time.
const SECOND_LOOK: Duration = Duration::from_secs(1);

impl Client {
    /// Ends the connection when the guest gives no sign of life. It does not keep the connection open.
    pub fn watch(&self, sandbox: Option<&str>, signs: SignsOfLife) {
        let handle = Arc::downgrade(&self.handle);
        let sandbox = sandbox.map(str::to_owned);
        tokio::spawn(async move {
            while has_sign(&handle, signs).await {}
            if let Some(handle) = handle.upgrade() {
                let silent = ClientError::Silent { sandbox, seconds: signs.silence().as_secs() };
                handle.shared.end(silent);
            }
        });
    }

    /// Waits until the guest has answered a question, whatever the answer is. A lost connection counts as one: it is
    /// reported on every stream.
    pub async fn sign_of_life(&self) {
        if let Ok((_sender, mut receiver)) = self.open(Open::Sessions).await {
            let _ = receiver.next().await;
        }
    }
}

/// Whether to go on watching.
async fn has_sign(handle: &Weak<Handle>, signs: SignsOfLife) -> bool {
    tokio::time::sleep(signs.interval).await;
    let Some(handle) = handle.upgrade() else { return false };
    if handle.shared.table().end.is_some() {
        return false;
    }
    let client = Client { handle };
    let mut sign = std::pin::pin!(client.sign_of_life());
    let first = signs.answer.saturating_sub(SECOND_LOOK);
    tokio::time::timeout(first, sign.as_mut()).await.is_ok()
        || tokio::time::timeout(SECOND_LOOK, sign).await.is_ok()
}
