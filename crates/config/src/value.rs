//! From a written value to a checked one. A refusal says what is possible.

use crate::ceiling::{Ceiling, SAME};
use crate::detach::DetachKeys;
use crate::logging::{LogFormat, LogLevel};
use palisade_core::policy::parse_mount;
use palisade_core::{
    AllowRule, ByteSize, CpuCount, FilePattern, HostPath, HostPort, Method, Mount, Network, SecretReference,
    SyncMode, TimeSpan,
};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

const PIDS: RangeInclusive<u32> = 1..=4_194_304;
/// Above the uids that people and system accounts have, and far from the last ones, which mean "nobody".
const UID_BASE: RangeInclusive<u32> = 65_536..=4_000_000_000;

/// Longer than a mount of two of the longest paths there are; what is longer would only be shown in a refusal.
const LONGEST: usize = 10_000;

/// A value as it was written. Text given in a variable or a flag has no type of its own and may be a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Written<'a> {
    Text(&'a str),
    Untyped(&'a str),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// Something no setting takes, by the name of its type.
    Other(&'static str),
}

pub(crate) type Checked<T> = Result<T, String>;

impl Written<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Written::Text(_) | Written::Untyped(_) => "a string",
            Written::Integer(_) => "a whole number",
            Written::Float(_) => "a number with a fraction",
            Written::Boolean(_) => "true or false",
            Written::Other(name) => name,
        }
    }

    pub(crate) fn text(&self, expected: &str) -> Checked<&str> {
        match self {
            Written::Text("") | Written::Untyped("") => Err(format!("is empty; write {expected}")),
            Written::Text(text) | Written::Untyped(text) if text.len() > LONGEST => {
                Err(format!("is longer than {LONGEST} bytes; write {expected}"))
            }
            Written::Text(text) | Written::Untyped(text) => Ok(text),
            other => Err(format!("is {}; write {expected}", other.type_name())),
        }
    }

    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, expected: &str) -> Checked<T> {
        self.text(expected)?.parse().map_err(|error: T::Err| error.to_string())
    }

    fn number(&self, range: &RangeInclusive<u32>, expected: &str) -> Checked<u32> {
        let number = match self {
            Written::Integer(number) => u32::try_from(*number).ok(),
            Written::Untyped(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            Written::Untyped(_) => None,
            other => return Err(format!("is {}; write {expected}", other.type_name())),
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("is out of range; write {expected}"))
    }

    pub(crate) fn method(&self, expected: &str) -> Checked<Method> {
        self.parsed(expected)
    }

    pub(crate) fn network(&self, expected: &str) -> Checked<Network> {
        self.parsed(expected)
    }

    pub(crate) fn allow(&self, expected: &str) -> Checked<AllowRule> {
        self.parsed(expected)
    }

    pub(crate) fn host_port(&self, expected: &str) -> Checked<HostPort> {
        match self {
            Written::Integer(port) => Written::Untyped(&port.to_string()).parsed(expected),
            other => other.parsed(expected),
        }
    }

    pub(crate) fn log_level(&self, expected: &str) -> Checked<LogLevel> {
        self.parsed(expected)
    }

    pub(crate) fn log_format(&self, expected: &str) -> Checked<LogFormat> {
        self.parsed(expected)
    }

    pub(crate) fn detach_keys(&self, expected: &str) -> Checked<DetachKeys> {
        self.parsed(expected)
    }

    pub(crate) fn size(&self, expected: &str) -> Checked<ByteSize> {
        match self {
            Written::Integer(bytes) => Written::Untyped(&bytes.to_string()).parsed(expected),
            other => other.parsed(expected),
        }
    }

    pub(crate) fn span(&self, expected: &str) -> Checked<TimeSpan> {
        self.parsed(expected)
    }

    pub(crate) fn pattern(&self, expected: &str) -> Checked<FilePattern> {
        self.parsed(expected)
    }

    pub(crate) fn file(&self, expected: &str) -> Checked<FilePattern> {
        let pattern = self.pattern(expected)?;
        if pattern.is_name() {
            Ok(pattern)
        } else {
            Err(format!("'{pattern}' is a pattern; write {expected}"))
        }
    }

    /// What was written may be a secret, so no refusal repeats it.
    pub(crate) fn reference(&self, expected: &str) -> Checked<SecretReference> {
        SecretReference::parse(self.text(expected)?).map_err(|error| error.to_string())
    }

    pub(crate) fn cpus(&self, expected: &str) -> Checked<CpuCount> {
        match self {
            Written::Integer(number) => Written::Untyped(&number.to_string()).parsed(expected),
            Written::Float(number) => Written::Untyped(&number.to_string()).parsed(expected),
            other => other.parsed(expected),
        }
    }

    pub(crate) fn files(&self, expected: &str) -> Checked<u32> {
        self.number(&(1..=4_000_000_000), expected)
    }

    pub(crate) fn pids(&self, expected: &str) -> Checked<u32> {
        self.number(&PIDS, expected)
    }

    pub(crate) fn sync_mode(&self, expected: &str) -> Checked<SyncMode> {
        self.parsed(expected)
    }

    pub(crate) fn uid_base(&self, expected: &str) -> Checked<u32> {
        self.number(&UID_BASE, expected)
    }

    pub(crate) fn boolean(&self, expected: &str) -> Checked<bool> {
        match self {
            Written::Boolean(value) => Ok(*value),
            Written::Untyped("true") => Ok(true),
            Written::Untyped("false") => Ok(false),
            other => Err(format!("is {}; write {expected}", other.type_name())),
        }
    }

    /// The word that stands for the setting itself, or what `read` takes.
    pub(crate) fn ceiling<T>(
        &self,
        expected: &str,
        read: impl Fn(&Self, &str) -> Checked<T>,
    ) -> Checked<Ceiling<T>> {
        match self {
            Written::Text(SAME) | Written::Untyped(SAME) => Ok(Ceiling::Same),
            other => read(other, expected).map(Ceiling::UpTo),
        }
    }

    pub(crate) fn host_path(&self, expected: &str) -> Checked<HostPath> {
        HostPath::new(self.text(expected)?).map_err(|error| error.to_string())
    }

    pub(crate) fn mount(&self) -> Checked<Mount> {
        parse_mount(self.text("HOST:GUEST or HOST:GUEST:ro")?).map_err(|error| error.to_string())
    }

    /// A tool directory is a read-only mount at its own path, so the rules for mounts are its rules.
    pub(crate) fn tool(&self) -> Checked<HostPath> {
        let path = self.text("an absolute path")?;
        let refused =
            |error: &dyn Display| format!("'{}' cannot be shown inside: {error}", path.escape_debug());
        HostPath::new(path).map_err(|error| refused(&error))?;
        let mount = parse_mount(&format!("{path}:{path}:ro")).map_err(|error| refused(&error))?;
        Ok(mount.host)
    }
}
