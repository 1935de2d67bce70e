//! How much is logged and in which form.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

impl LogLevel {
    pub const ALL: [LogLevel; 6] =
        [LogLevel::Off, LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

impl LogFormat {
    pub const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} '{given}'; possible are {possible}")]
pub struct UnknownLogWord {
    what: &'static str,
    given: String,
    possible: String,
}

fn unknown(what: &'static str, given: &str, possible: &[&str]) -> UnknownLogWord {
    UnknownLogWord { what, given: given.escape_debug().to_string(), possible: possible.join(", ") }
}

impl FromStr for LogLevel {
    type Err = UnknownLogWord;
    fn from_str(text: &str) -> Result<Self, UnknownLogWord> {
        let found = Self::ALL.into_iter().find(|level| level.as_str() == text);
        found.ok_or_else(|| unknown("log level", text, &Self::ALL.map(Self::as_str)))
    }
}

impl FromStr for LogFormat {
    type Err = UnknownLogWord;
    fn from_str(text: &str) -> Result<Self, UnknownLogWord> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| unknown("log format", text, &Self::ALL.map(Self::as_str)))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
