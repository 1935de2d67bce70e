//! Sandbox ids: 120 random bits as 24 characters, so that nobody can guess another one's.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Lower-case letters and digits without the look-alikes; 32 of them, so five bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const LEN: usize = 24;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a sandbox id")]
pub struct InvalidId;

impl SandboxId {
    /// Makes an id of random bytes. The caller brings the randomness: this crate does no I/O.
    pub fn from_random(bytes: [u8; 15]) -> Self {
        let mut text = String::with_capacity(LEN);
        for chunk in bytes.chunks_exact(5) {
            let bits = chunk.iter().fold(0u64, |acc, &byte| (acc << 8) | u64::from(byte));
            for position in (0..8).rev() {
                let index = (bits >> (position * 5)) & 31;
                text.push(char::from(ALPHABET[index as usize]));
            }
        }
        Self(text)
    }

    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let well_formed = text.len() == LEN && text.bytes().all(|byte| ALPHABET.contains(&byte));
        if well_formed { Ok(Self(text.to_owned())) } else { Err(InvalidId) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first characters, for people.
    pub fn short(&self) -> &str {
        &self.0[..8]
    }
}

impl TryFrom<String> for SandboxId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        Self::parse(&text)
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> String {
        id.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_randomness_reaches_the_id() {
        let base = SandboxId::from_random([0; 15]);
        for bit in 0..120 {
            let mut bytes = [0u8; 15];
            bytes[bit / 8] |= 1 << (bit % 8);
            assert_ne!(SandboxId::from_random(bytes), base, "bit {bit}");
        }
    }

    #[test]
    fn an_id_reads_back_and_nothing_else_does() {
        let id = SandboxId::from_random([0x5a; 15]);
        assert_eq!(SandboxId::parse(id.as_str()), Ok(id.clone()));
        assert_eq!(id.as_str().len(), LEN);
        for bad in [
            "",
            "../../etc",
            "aaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaa",
            "Aaaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert_eq!(SandboxId::parse(bad), Err(InvalidId), "{bad}");
        }
    }
}
