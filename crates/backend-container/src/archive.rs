//! The archives that are uploaded into volumes. Ownership and modes are what the headers say, so that nothing has to be
//! changed inside afterwards.

use std::io;
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// Who owns what an archive brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    pub(crate) const ROOT: Owner = Owner { uid: 0, gid: 0 };
}

fn header(kind: EntryType, mode: u32, owner: Owner, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.uid.into());
    header.set_gid(owner.gid.into());
    header.set_size(size);
    header.set_mtime(0);
    header
}

/// Directories of one owner; where they exist already, they become that owner's.
pub(crate) fn directories(names: &[&str], mode: u32, owner: Owner) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for name in names {
        let mut header = header(EntryType::Directory, mode, owner, 0);
        archive.append_data(&mut header, format!("{name}/"), io::empty())?;
    }
    archive.into_inner()
}

/// One program that everybody may run and nobody may change.
pub(crate) fn program(name: &str, contents: &[u8]) -> io::Result<Vec<u8>> {
    file(name, contents, 0o555)
}

/// One file of root's.
pub(crate) fn file(name: &str, contents: &[u8], mode: u32) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::with_capacity(contents.len() + 4096));
    let mut header = header(EntryType::Regular, mode, Owner::ROOT, contents.len() as u64);
    archive.append_data(&mut header, Path::new(name), contents)?;
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_who_owns_what_and_how() {
        let told = |bytes: Vec<u8>| -> Vec<(String, u64, u64, u32)> {
            let mut archive = tar::Archive::new(bytes.as_slice());
            let entries = archive.entries().unwrap();
            let tell = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.uid().unwrap(), header.gid().unwrap(), header.mode().unwrap())
            };
            entries.map(tell).collect()
        };
        let owner = Owner { uid: 1000, gid: 1001 };
        let made = directories(&["home", "workspace"], 0o755, owner).unwrap();
        assert_eq!(
            told(made),
            [("home/".into(), 1000, 1001, 0o755), ("workspace/".into(), 1000, 1001, 0o755)]
        );
        assert_eq!(told(program("guest", b"bytes").unwrap()), [("guest".into(), 0, 0, 0o555)]);
    }
}
