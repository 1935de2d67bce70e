//! A host tree as a tar stream. Links stay links; what is neither file, directory nor link is named and left out.
//!
//! The tree may lie in a directory that a sandbox writes to. It is walked by open directories and no link is followed, so
//! that a directory which becomes a link meanwhile leads nowhere else.

use super::{CopyReport, Skipped};
use palisade_host::exact_read::ExactReader;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What is to be packed: a name in an open directory, or the contents of a directory itself.
#[derive(Debug)]
pub(super) struct Source {
    parent: OwnedFd,
    name: OsString,
    /// For people.
    shown: PathBuf,
}

impl Source {
    /// Opens a name in an open directory; `.` means the contents of the directory itself.
    pub(super) fn open(parent: OwnedFd, name: OsString, shown: PathBuf) -> io::Result<Self> {
        let source = Self { parent, name, shown };
        source.handle()?;
        Ok(source)
    }

    fn handle(&self) -> io::Result<File> {
        handle(self.parent.as_fd(), &self.name)
    }
}

/// A hold on whatever has a name in a directory. It cannot be read by this, only looked at.
fn handle(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?))
}

/// A directory whose entries are being packed.
struct OpenDirectory {
    directory: OwnedFd,
    inside: PathBuf,
    shown: PathBuf,
    names: Vec<OsString>,
}

impl OpenDirectory {
    fn read(directory: OwnedFd, inside: PathBuf, shown: PathBuf) -> io::Result<Self> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(Self { directory, inside, shown, names })
    }
}

pub(super) fn pack(source: Source, name: &OsStr, writer: impl Write) -> io::Result<CopyReport> {
    let mut packer = Packer::new(writer);
    let mut open: Vec<OpenDirectory> = Vec::new();
    open.extend(packer.add(source.parent.as_fd(), &source.name, PathBuf::from(name), source.shown)?);
    // Depth first without recursion; parents before children.
    while let Some(last) = open.last_mut() {
        let Some(name) = last.names.pop() else {
            open.pop();
            continue;
        };
        let (inside, shown) = (last.inside.join(&name), last.shown.join(&name));
        let below = packer.add(last.directory.as_fd(), &name, inside, shown)?;
        open.extend(below);
    }
    packer.finish()
}

struct Packer<W: Write> {
    archive: tar::Builder<W>,
    report: CopyReport,
}

impl<W: Write> Packer<W> {
    fn new(writer: W) -> Self {
        Self { archive: tar::Builder::new(writer), report: CopyReport::default() }
    }

    fn finish(self) -> io::Result<CopyReport> {
        self.archive.into_inner()?.flush()?;
        Ok(self.report)
    }

    /// Adds one entry. Returns a directory, whose entries are to follow.
    fn add(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        inside: PathBuf,
        shown: PathBuf,
    ) -> io::Result<Option<OpenDirectory>> {
        let found = handle(parent, name)?;
        let metadata = found.metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_metadata(&metadata);
        self.report.entries += 1;
        let kind = metadata.file_type();
        if kind.is_dir() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(&found, ".", flags, Mode::empty())?;
            header.set_size(0);
            self.archive.append_data(&mut header, &inside, io::empty())?;
            return OpenDirectory::read(directory, inside, shown).map(Some);
        }
        if kind.is_symlink() {
            let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
            header.set_size(0);
            self.archive.append_link(
                &mut header,
                &inside,
                Path::new(OsStr::from_bytes(target.to_bytes())),
            )?;
            self.report.files += 1;
            return Ok(None);
        }
        if kind.is_file() {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
            let metadata = file.metadata()?;
            if metadata.is_file() {
                self.add_file(&inside, &metadata, file)?;
                return Ok(None);
            }
        }
        let why = "neither a file, a directory nor a link".into();
        self.report.skipped.push(Skipped { path: shown.display().to_string(), why });
        self.report.left_out += 1;
        Ok(None)
    }

    fn add_file(&mut self, inside: &Path, metadata: &std::fs::Metadata, file: File) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_metadata(metadata);
        self.archive.append_data(&mut header, inside, ExactReader::new(file, metadata.len()))?;
        self.report.files += 1;
        self.report.bytes += metadata.len();
        Ok(())
    }
}

/// A plain file whose whole content is there already, as one entry with a name.
pub(super) fn pack_file(file: File, name: &OsStr, writer: impl Write) -> io::Result<CopyReport> {
    let mut packer = Packer::new(writer);
    packer.report.entries = 1;
    packer.add_file(Path::new(name), &file.metadata()?, file)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn source(path: &Path) -> io::Result<Source> {
        crate::copy::CopySource::open(path).map(|copy| copy.source).map_err(io::Error::other)
    }

    fn entries(bytes: &[u8]) -> Vec<(PathBuf, tar::EntryType, String)> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let (path, kind) = (entry.path().unwrap().into_owned(), entry.header().entry_type());
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (path, kind, text)
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries
    }

    /// Runs something as soon as a text has been written.
    struct When<'a> {
        written: &'a mut Vec<u8>,
        text: &'a str,
        act: Option<Box<dyn FnOnce() + 'a>>,
    }

    impl Write for When<'_> {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            self.written.extend_from_slice(buffer);
            if buffer.windows(self.text.len()).any(|window| window == self.text.as_bytes())
                && let Some(act) = self.act.take()
            {
                act();
            }
            Ok(buffer.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_directory_that_becomes_a_link_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("tree/sub")).unwrap();
        std::fs::create_dir(at("secret")).unwrap();
        std::fs::write(at("tree/sub/file"), "own").unwrap();
        std::fs::write(at("secret/file"), "secret").unwrap();
        let mut written = Vec::new();
        let swap = || {
            std::fs::rename(at("tree/sub"), at("moved")).unwrap();
            symlink(at("secret"), at("tree/sub")).unwrap();
        };
        // At this moment the directory has been looked at, and its entries have not.
        let writer = When { written: &mut written, text: "tree/sub", act: Some(Box::new(swap)) };
        pack(source(&at("tree")).unwrap(), OsStr::new("tree"), writer).unwrap();
        assert!(at("tree/sub").is_symlink(), "the swap was made");
        let contents: Vec<String> = entries(&written).into_iter().map(|(_, _, text)| text).collect();
        assert_eq!(contents, ["", "", "own"]);
    }

    #[test]
    fn a_link_that_is_given_is_copied_as_a_link_and_its_contents_by_a_dot() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("real")).unwrap();
        std::fs::write(root.path().join("real/file"), "x").unwrap();
        symlink("real", root.path().join("link")).unwrap();
        let packed = |path: &str, name: &str| {
            let mut bytes = Vec::new();
            let source = source(&root.path().join(path)).unwrap();
            let report = pack(source, OsStr::new(name), &mut bytes).unwrap();
            (
                entries(&bytes).into_iter().map(|(path, kind, _)| (path, kind)).collect::<Vec<_>>(),
                report.files,
            )
        };
        assert_eq!(packed("link", "l"), (vec![("l".into(), tar::EntryType::Symlink)], 1));
        let (found, files) = packed("link/.", ".");
        let kinds: Vec<tar::EntryType> = found.into_iter().map(|(_, kind)| kind).collect();
        assert_eq!((kinds, files), (vec![tar::EntryType::Directory, tar::EntryType::Regular], 1));
        assert!(source(&root.path().join("missing")).is_err());
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_and_not_a_broken_stream() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        let mut written = Vec::new();
        let shrink = || std::fs::write(&path, "short").unwrap();
        let writer = When { written: &mut written, text: "file", act: Some(Box::new(shrink)) };
        let error = pack(source(&path).unwrap(), OsStr::new("file"), writer).unwrap_err();
        assert_eq!(error.to_string(), "a file became shorter while it was read");
    }
}
