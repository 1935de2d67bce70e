//! Credit: a sender may have at most so many bytes under way per stream and channel; the receiver grants more as
//! it consumes. Both sides start from [`INITIAL`], so nothing needs to be said when a stream opens.

use crate::{StreamId, Violation};

/// Bytes a sender may send on a fresh channel before the first grant.
pub const INITIAL: u32 = 256 * 1024;
/// The most credit a channel can ever hold.
pub const LIMIT: u32 = 16 * 1024 * 1024;

/// The sender's side of one channel.
#[derive(Debug)]
pub struct SendCredit {
    left: u32,
}

impl Default for SendCredit {
    fn default() -> Self {
        Self { left: INITIAL }
    }
}

impl SendCredit {
    pub fn available(&self) -> usize {
        self.left as usize
    }

    /// Takes up to `wanted` bytes of credit; says how many may be sent.
    pub fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.left as usize);
        self.left -= taken as u32;
        taken
    }

    pub fn grant(&mut self, stream: StreamId, bytes: u32) -> Result<(), Violation> {
        match self.left.checked_add(bytes) {
            Some(sum) if sum <= LIMIT => {
                self.left = sum;
                Ok(())
            }
            _ => Err(Violation::CreditOverflow(stream)),
        }
    }
}

/// The receiver's side of one channel: checks what arrives and says when to grant more.
#[derive(Debug)]
pub struct RecvCredit {
    left: u32,
    consumed: u32,
}

impl Default for RecvCredit {
    fn default() -> Self {
        Self { left: INITIAL, consumed: 0 }
    }
}

impl RecvCredit {
    pub fn receive(&mut self, stream: StreamId, bytes: usize) -> Result<(), Violation> {
        let bytes = u32::try_from(bytes).map_err(|_| Violation::CreditExceeded(stream))?;
        self.left = self.left.checked_sub(bytes).ok_or(Violation::CreditExceeded(stream))?;
        Ok(())
    }

    /// Notes that `bytes` were consumed; the grant to send, once it is worth a frame.
    pub fn consume(&mut self, bytes: usize) -> Option<u32> {
        self.consumed = self.consumed.saturating_add(bytes as u32);
        if self.consumed < INITIAL / 2 {
            return None;
        }
        let grant = std::mem::take(&mut self.consumed);
        self.left = self.left.saturating_add(grant);
        Some(grant)
    }

    /// Notes a grant that somebody else made on this channel, when only checking what passes through.
    pub fn granted(&mut self, stream: StreamId, bytes: u32) -> Result<(), Violation> {
        match self.left.checked_add(bytes) {
            Some(sum) if sum <= LIMIT => {
                self.left = sum;
                Ok(())
            }
            _ => Err(Violation::CreditOverflow(stream)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_interleaving_no_more_than_the_window_is_under_way_and_nothing_stalls(
            steps in proptest::collection::vec((any::<bool>(), 1usize..100_000), 1..400)
        ) {
            let (mut send, mut receive) = (SendCredit::default(), RecvCredit::default());
            let mut unread = 0usize;
            for (sending, amount) in steps {
                if sending {
                    let sent = send.take(amount);
                    receive.receive(1, sent).unwrap();
                    unread += sent;
                } else {
                    let read = amount.min(unread);
                    unread -= read;
                    if let Some(grant) = receive.consume(read) {
                        send.grant(1, grant).unwrap();
                    }
                }
                prop_assert!(unread <= INITIAL as usize);
            }
            // Once everything is read, at least half the window is free again.
            if let Some(grant) = receive.consume(unread) {
                send.grant(1, grant).unwrap();
            }
            prop_assert!(send.available() >= (INITIAL / 2) as usize);
        }
    }

    #[test]
    fn a_peer_that_sends_beyond_its_credit_is_found_out() {
        let mut receive = RecvCredit::default();
        receive.receive(3, INITIAL as usize).unwrap();
        assert_eq!(receive.receive(3, 1), Err(Violation::CreditExceeded(3)));
    }

    #[test]
    fn credit_cannot_be_driven_over_its_limit() {
        let mut send = SendCredit::default();
        assert_eq!(send.grant(5, u32::MAX), Err(Violation::CreditOverflow(5)));
        assert_eq!(send.grant(5, LIMIT), Err(Violation::CreditOverflow(5)));
    }
}
