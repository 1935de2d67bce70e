//! What was found out about an engine, kept in a file so that the next process need not ask again: in which volume
//! something is, or whom its containers run as.
//!
//! Only a saving of time: a memory that cannot be read or written, or is of something else, is none.

use palisade_core::HostPath;
use palisade_host::private_file;

#[derive(Debug, Clone)]
pub(crate) struct Memory {
    file: HostPath,
}

impl Memory {
    pub(crate) fn at(file: HostPath) -> Self {
        Self { file }
    }

    /// The volume or other answer, if `identity` is what was remembered with it. Both are one line.
    pub(crate) fn recall(&self, identity: &str) -> Option<String> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        read(&text).filter(|(known, _)| *known == identity).map(|(_, volume)| volume.to_owned())
    }

    pub(crate) fn keep(&self, identity: &str, volume: &str) {
        let name = self.file.as_path().file_name().unwrap_or_default().to_string_lossy();
        let fresh = self.file.as_path().with_file_name(format!(".{name}-{}", std::process::id()));
        let written = private_file::write(&fresh, format!("{identity}\n{volume}\n").as_bytes());
        if written.and_then(|()| std::fs::rename(&fresh, &self.file)).is_err() {
            let _ = std::fs::remove_file(fresh);
        }
    }

    pub(crate) fn forget(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The identity and the volume.
pub(crate) fn read(text: &str) -> Option<(&str, &str)> {
    let (identity, volume) = text.strip_suffix('\n')?.split_once('\n')?;
    (!volume.is_empty() && !volume.contains('\n')).then_some((identity, volume))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_for_the_same_thing_counts() {
        let directory = tempfile::tempdir().unwrap();
        let memory = Memory::at(HostPath::new(directory.path().join("file")).unwrap());
        assert_eq!(memory.recall("identity"), None);
        memory.keep("identity", "volume");
        assert_eq!(memory.recall("identity").as_deref(), Some("volume"));
        assert_eq!(memory.recall("another"), None);
        memory.forget();
        assert_eq!(memory.recall("identity"), None);
        for text in ["", "identity", "identity\n", "identity\n\n", "identity\nvol", "identity\na\nb\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
