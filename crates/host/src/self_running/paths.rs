//! A map by path as JSON. A path that is not text is written as its bytes.

use super::SelfRunningEntry;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

type Entries = BTreeMap<PathBuf, SelfRunningEntry>;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) fn serialize<S: Serializer>(entries: &Entries, serializer: S) -> Result<S::Ok, S::Error> {
    let name = |path: &PathBuf| match path.to_str() {
        Some(text) => Name::Text(text.into()),
        None => Name::Bytes(path.as_os_str().as_bytes().into()),
    };
    serializer.collect_seq(entries.iter().map(|(path, entry)| (name(path), entry)))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
    let entries = Vec::<(Name, SelfRunningEntry)>::deserialize(deserializer)?;
    let path = |name| match name {
        Name::Text(text) => PathBuf::from(text),
        Name::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
    };
    Ok(entries.into_iter().map(|(name, entry)| (path(name), entry)).collect())
}
