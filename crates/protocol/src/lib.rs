//! The guest protocol: what the host and the program inside a sandbox say to each other over one byte stream.
//!
//! Layers, lowest first: [`frame`] cuts the byte stream into frames; [`message`] gives each frame its meaning;
//! [`flow`] keeps a slow reader from growing anyone's memory. With the feature `host`, [`client`] drives it all
//! over an asynchronous stream.
//!
//! Everything a guest sends is untrusted: every decoder here returns an error on bytes it does not expect, and
//! none of them allocates more than the bytes it was given.
//!
//! The handshake, exec and tar are frozen for ever (see `tests/frozen.rs`), so that a newer host can still reach
//! the unsynced work in an old sandbox.

pub mod expected_mount;
pub mod fields;
pub mod flow;
pub mod frame;
pub mod message;

#[cfg(feature = "host")]
pub mod client;
#[cfg(feature = "host")]
pub mod outbox;

pub use expected_mount::{EXPECT_MOUNT, ExpectedMount, MOUNTS_DIFFER};
pub use flow::{RecvCredit, SendCredit};
pub use frame::{Decoder, Frame, FrameRef, Kind, StreamId};
pub use message::{
    Changes, ChangesRequest, Channel, EgressRequest, ExecRequest, Exit, Hello, KeeperVerb, Open, Refusal,
    RefusalCode, Report, SessionInfo, Size, Welcome, is_session_name,
};

/// The version this build speaks, and the oldest it still understands.
pub const VERSION: u16 = 1;
pub const OLDEST_VERSION: u16 = 1;

/// What a peer did wrong. The connection ends: after a broken frame nothing that follows can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    #[error("a frame of {len} bytes exceeds the limit of {limit}")]
    TooLong { len: usize, limit: usize },
    #[error("malformed {0}")]
    Malformed(&'static str),
    #[error("more data than the receiver allowed on stream {0}")]
    CreditExceeded(StreamId),
    #[error("credit beyond the limit on stream {0}")]
    CreditOverflow(StreamId),
    #[error("a frame for stream {0}, which nobody opened")]
    UnknownStream(StreamId),
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    #[error(
        "the peer speaks protocol {theirs_min} to {theirs_max}, this build {OLDEST_VERSION} to {VERSION}"
    )]
    Version { theirs_min: u16, theirs_max: u16 },
}
