//! What is about to be made in a user's directory, written down before it is made and struck out after it was
//! taken away: one small file per fenced directory and run, in a directory of our own.

use super::placeholder::{Placeholder, PlaceholderKind};
use crate::fault::{self, Step};
use crate::{marked, process};
use palisade_core::{BackendError, HostPath, ProcessIdentity};
use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    owner: ProcessIdentity,
    directory: HostPath,
    placeholders: Vec<Placeholder>,
}

/// The placeholders of one fenced directory, and the journal's entry for them.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    entry: Entry,
}

impl Journal {
    /// Writes the entry, then makes the placeholders. Nothing to make, nothing to write.
    pub fn begin(
        journals: &HostPath,
        name: &str,
        directory: &HostPath,
        placeholders: Vec<Placeholder>,
    ) -> Result<Option<Self>, BackendError> {
        if placeholders.is_empty() {
            return Ok(None);
        }
        let io = BackendError::io;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(journals)
            .map_err(io(format!("make {journals}")))?;
        let entry = Entry { owner: process::this_process(), directory: directory.clone(), placeholders };
        let file = journals.join(format!("{name}.json")).as_path().to_owned();
        let text = serde_json::to_vec(&entry).map_err(|error| BackendError::Io {
            what: "write the fence's journal".into(),
            source: error.into(),
        })?;
        // Complete or not there at all: to anybody else a torn entry would be one that nobody owns.
        let fresh = journals.join(format!("{name}.{}.new", process::label(&entry.owner)));
        crate::private_file::write(&fresh, &text)
            .and_then(|()| std::fs::rename(&fresh, &file))
            .map_err(io(format!("write {}", file.display())))?;
        let journal = Self { file, entry };
        match fault::at(Step::FenceJournal)
            .map_err(BackendError::io("carry on"))
            .and_then(|()| journal.make())
        {
            Ok(()) => Ok(Some(journal)),
            Err(error) => {
                journal.end();
                Err(error)
            }
        }
    }

    fn make(&self) -> Result<(), BackendError> {
        let directory = &self.entry.directory;
        let root = super::open_directory(directory)?;
        let stat = rustix::fs::fstat(&root).map_err(|error| BackendError::Io {
            what: format!("look at {directory}"),
            source: error.into(),
        })?;
        for placeholder in &self.entry.placeholders {
            placeholder.make(root.as_fd(), (stat.st_uid, stat.st_gid)).map_err(|error| {
                BackendError::HostDirectory {
                    path: directory.to_string(),
                    reason: format!(
                        "{} must be protected but cannot be made there: {}",
                        placeholder.path.display(),
                        std::io::Error::from(error)
                    ),
                    fix: "make the directory writable for yourself, or bind it read-only with :ro".into(),
                }
            })?;
        }
        Ok(())
    }

    /// Takes the placeholders away, inner ones first, and strikes the entry out.
    pub fn end(&self) {
        if let Ok(root) = super::open_directory(&self.entry.directory) {
            for placeholder in self.entry.placeholders.iter().rev() {
                // It keeps git from what the sandbox has made there, until the user has looked.
                let stops_git = placeholder.path == std::path::Path::new(super::GIT)
                    && matches!(placeholder.kind, PlaceholderKind::File { .. })
                    && super::is_bare(root.as_fd());
                if !stops_git {
                    placeholder.remove(root.as_fd());
                }
            }
        }
        // Should this fail, `sweep` finds the entry again and does the same.
        let _ = std::fs::remove_file(&self.file);
    }

    /// As [`Journal::end`], for a process that is gone. What it had started may still be at work for a moment, and
    /// would make a placeholder again that is taken away under it. An entry that stays is found the next time.
    fn end_of_the_dead(&self) {
        if marked::end_launcher(&self.entry.owner) {
            self.end();
        }
    }

    /// Finishes entries whose process is gone; each is described.
    pub fn sweep(journals: &HostPath, dry_run: bool) -> Vec<String> {
        let mut found = Vec::new();
        for file in unfinished(journals) {
            found.push(format!("unfinished journal entry {}", file.display()));
            if !dry_run {
                let _ = std::fs::remove_file(&file);
            }
        }
        for journal in Self::dead(journals) {
            found.push(format!("placeholders in {}", journal.entry.directory));
            if !dry_run {
                journal.end_of_the_dead();
            }
        }
        found
    }

    /// Finishes the dead entries of one directory, for whoever holds its lock.
    pub fn settle(journals: &HostPath, directory: &HostPath) {
        let dead = Self::dead(journals).into_iter();
        dead.filter(|journal| journal.entry.directory == *directory)
            .for_each(|journal| journal.end_of_the_dead());
    }

    /// Entries whose process is gone.
    fn dead(journals: &HostPath) -> Vec<Self> {
        let Ok(files) = std::fs::read_dir(journals) else { return Vec::new() };
        let mut dead = Vec::new();
        let is_entry = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "json");
        for file in files.flatten().map(|entry| entry.path()).filter(is_entry) {
            let text = std::fs::read(&file).ok();
            if let Some(entry) = text.and_then(|text| serde_json::from_slice::<Entry>(&text).ok())
                && !process::is_alive(&entry.owner)
            {
                dead.push(Self { file, entry });
            }
        }
        dead
    }
}

/// Entries that were cut off while being written, when nothing was made yet, by a process that is gone.
fn unfinished(journals: &HostPath) -> Vec<PathBuf> {
    let Ok(files) = std::fs::read_dir(journals) else { return Vec::new() };
    let dead = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let label = name.strip_suffix(".new").and_then(|name| name.split_once('.')).map(|(_, label)| label);
        label.and_then(process::label_is_alive) == Some(false)
    };
    files.flatten().map(|entry| entry.path()).filter(dead).collect()
}
