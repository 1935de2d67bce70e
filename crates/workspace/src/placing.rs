//! Puts files into the host's working tree, each in one step, and only where what stands there is what was seen before.
//!
//! A new file is exchanged with the old one. If what came out is not what was expected, the user has changed it in the
//! meantime: it goes back, and the path is a conflict. Nothing is followed on the way, and everything is undone that is
//! not kept by [`Placement::finish`].

use crate::host_files::Stamp;
use palisade_host::beneath::{self, Missing};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// One change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    /// What was found there; `None` for nothing.
    pub(crate) expected: Option<Stamp>,
    /// The file that is to be there, whole and on the same file system if possible; `None` removes what is there.
    pub(crate) new: Option<PathBuf>,
}

/// Changes of a working tree that are undone unless they are finished.
#[derive(Debug)]
pub(crate) struct Placement {
    root: OwnedFd,
    /// Where the old files are kept meanwhile.
    parked: PathBuf,
    done: Vec<Done>,
}

/// A change that was made, with the place of the old file if there was one.
#[derive(Debug)]
struct Done {
    path: PathBuf,
    /// The new file is there.
    placed: bool,
    old: Option<PathBuf>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    Done,
    /// Something else stands there than was seen.
    Unexpected,
}

impl Placement {
    /// `parked` is an empty directory of our own.
    pub(crate) fn begin(root: &Path, parked: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&parked)?;
        Ok(Self { root: beneath::root(root)?, parked, done: Vec::new() })
    }

    pub(crate) fn place(&mut self, change: &Change) -> io::Result<Placed> {
        let number = self.done.len();
        let parked = self.parked.join(number.to_string());
        match &change.new {
            None => self.remove(change, parked),
            Some(new) => self.write(change, new, parked),
        }
    }

    /// Gives a directory that is not there yet its name, with everything in it: one step for all its files, which stay as
    /// the index knows them. `files` are their paths, for the way back. When something stands in the way, nothing was
    /// done.
    pub(crate) fn place_directory<'f>(
        &mut self,
        directory: &Path,
        new: &Path,
        files: impl Iterator<Item = &'f Path>,
    ) -> Placed {
        let renamed = self.parent(directory, Missing::Fail).and_then(|(parent, name)| {
            rename(CWD, new.as_os_str(), parent.as_fd(), Path::new(name), RenameFlags::NOREPLACE)
        });
        if renamed.is_err() {
            return Placed::Unexpected;
        }
        let done = |path: &Path| Done { path: path.to_owned(), placed: true, old: None };
        self.done.extend(files.map(done));
        Placed::Done
    }

    /// The directory of a path, and its name there.
    fn parent<'p>(&self, path: &'p Path, missing: Missing) -> rustix::io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((beneath::enter(self.root.as_fd(), above, missing)?, name))
    }

    fn remove(&mut self, change: &Change, parked: PathBuf) -> io::Result<Placed> {
        let (parent, name) = match self.parent(&change.path, Missing::Fail) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Placed::Unexpected),
            Err(error) => return Err(error.into()),
        };
        let old = match rename(parent.as_fd(), name, CWD, &parked, RenameFlags::NOREPLACE) {
            Ok(()) => parked,
            Err(Errno::NOENT) => return Ok(Placed::Unexpected),
            // Another file system is mounted there.
            Err(Errno::XDEV) => match self.park_beside(&change.path, parent.as_fd(), name)? {
                Some(beside) => beside,
                None => return Ok(Placed::Unexpected),
            },
            Err(error) => return Err(error.into()),
        };
        if stamp(&old).as_ref() != change.expected.as_ref() {
            put_back(&old, parent.as_fd(), name)?;
            return Ok(Placed::Unexpected);
        }
        self.done.push(Done { path: change.path.clone(), placed: false, old: Some(old) });
        self.remove_empty_directories(&change.path);
        Ok(Placed::Done)
    }

    /// A place for an old file in its own directory.
    fn park_beside(
        &self,
        path: &Path,
        parent: rustix::fd::BorrowedFd<'_>,
        name: &OsStr,
    ) -> io::Result<Option<PathBuf>> {
        let beside = passing_name(self.done.len());
        match rename(parent, name, parent, Path::new(&beside), RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Some(self.absolute(&path.with_file_name(beside))?)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd;
        let root = std::fs::read_link(format!("/proc/self/fd/{}", self.root.as_raw_fd()))?;
        Ok(root.join(path))
    }

    fn write(&mut self, change: &Change, new: &Path, parked: PathBuf) -> io::Result<Placed> {
        let (parent, name) = match self.parent(&change.path, Missing::Make) {
            Ok(found) => found,
            // A file or a link stands where a directory is needed.
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Placed::Unexpected),
            Err(error) => return Err(error.into()),
        };
        if change.expected.is_none() {
            let placed =
                match rename(CWD, new.as_os_str(), parent.as_fd(), Path::new(name), RenameFlags::NOREPLACE) {
                    Err(Errno::XDEV) => {
                        let copy = self.copy_beside(&change.path, new)?;
                        let placed = rename(
                            CWD,
                            copy.as_os_str(),
                            parent.as_fd(),
                            Path::new(name),
                            RenameFlags::NOREPLACE,
                        );
                        if placed.is_err() {
                            let _ = std::fs::remove_file(&copy);
                        }
                        placed
                    }
                    other => other,
                };
            return match placed {
                Ok(()) => {
                    self.done.push(Done { path: change.path.clone(), placed: true, old: None });
                    Ok(Placed::Done)
                }
                Err(Errno::EXIST) => Ok(Placed::Unexpected),
                Err(error) => Err(error.into()),
            };
        }
        let mut staged = new.to_owned();
        let exchanged = loop {
            match rename(CWD, staged.as_os_str(), parent.as_fd(), Path::new(name), RenameFlags::EXCHANGE) {
                Err(Errno::XDEV) if staged == new => staged = self.copy_beside(&change.path, new)?,
                other => break other,
            }
        };
        match exchanged {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Placed::Unexpected),
            // This file system cannot exchange: the old one is moved away first.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self.replace(change, &staged, parked);
            }
            Err(error) => return Err(error.into()),
        }
        // What was there is now where the new file was.
        if stamp(&staged).as_ref() != change.expected.as_ref() {
            rename(CWD, staged.as_os_str(), parent.as_fd(), Path::new(name), RenameFlags::EXCHANGE)?;
            return Ok(Placed::Unexpected);
        }
        self.done.push(Done { path: change.path.clone(), placed: true, old: Some(staged) });
        Ok(Placed::Done)
    }

    /// Without an exchange: the old file is moved away, and the new one takes its name if nothing has it by then.
    fn replace(&mut self, change: &Change, new: &Path, parked: PathBuf) -> io::Result<Placed> {
        let removal = Change { new: None, ..change.clone() };
        if self.remove(&removal, parked)? == Placed::Unexpected {
            return Ok(Placed::Unexpected);
        }
        let written = self.write(&Change { expected: None, ..change.clone() }, new, PathBuf::new())?;
        if written == Placed::Unexpected {
            // The old file stays undone: something new has its name.
            self.undo_last()?;
        }
        Ok(written)
    }

    /// A copy of a new file in the directory that it is for, which is on another file system.
    fn copy_beside(&self, path: &Path, new: &Path) -> io::Result<PathBuf> {
        let copy = self.absolute(&path.with_file_name(passing_name(self.done.len())))?;
        let _ = std::fs::remove_file(&copy);
        if new.is_symlink() {
            symlink(std::fs::read_link(new)?, &copy)?;
        } else {
            std::fs::copy(new, &copy)?;
        }
        Ok(copy)
    }

    /// Removes directories that a removal has left empty, as git does.
    fn remove_empty_directories(&self, path: &Path) {
        for directory in path.ancestors().skip(1) {
            let Ok((parent, name)) = self.parent(directory, Missing::Fail) else { return };
            if rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }

    /// Takes back everything, the last first.
    pub(crate) fn undo(mut self) -> io::Result<()> {
        while !self.done.is_empty() {
            self.undo_last()?;
        }
        Ok(())
    }

    fn undo_last(&mut self) -> io::Result<()> {
        let Some(Done { path, placed, old }) = self.done.pop() else { return Ok(()) };
        let (parent, name) = self.parent(&path, Missing::Make)?;
        match (placed, old) {
            (true, Some(old)) => {
                rename(CWD, old.as_os_str(), parent.as_fd(), Path::new(name), RenameFlags::EXCHANGE)?;
            }
            (true, None) => {
                rustix::fs::unlinkat(&parent, name, AtFlags::empty())?;
                self.remove_empty_directories(&path);
            }
            (false, Some(old)) => put_back(&old, parent.as_fd(), name)?,
            (false, None) => {}
        }
        Ok(())
    }

    /// Keeps the changes. What the old files held is in git.
    pub(crate) fn finish(mut self) {
        for old in std::mem::take(&mut self.done).into_iter().filter_map(|done| done.old) {
            let _ = std::fs::remove_file(old);
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        while !self.done.is_empty() {
            // The others go back all the same.
            let _ = self.undo_last();
        }
    }
}

fn passing_name(number: usize) -> String {
    format!(".palisade-{}-{number}", std::process::id())
}

fn stamp(path: &Path) -> Option<Stamp> {
    std::fs::symlink_metadata(path).ok().map(|found| Stamp::of(&found))
}

/// Gives an old file its name again, unless something else has it by now.
fn put_back(old: &Path, parent: rustix::fd::BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match rename(CWD, old.as_os_str(), parent, Path::new(name), RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => {
            // Both are the user's. The older one stays beside it.
            let mut saved = name.to_owned();
            saved.push(".palisade-saved");
            Ok(rename(CWD, old.as_os_str(), parent, Path::new(&saved), RenameFlags::empty())?)
        }
        Err(error) => Err(error.into()),
    }
}

fn rename(
    from: impl AsFd,
    old: &OsStr,
    to: impl AsFd,
    new: &Path,
    flags: RenameFlags,
) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(from, Path::new(old), to, new, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Scene {
        directory: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            for name in ["tree", "new"] {
                fs::create_dir(directory.path().join(name)).unwrap();
            }
            Self { directory }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn begin(&self) -> Placement {
            Placement::begin(&self.at("tree"), self.at("parked")).unwrap()
        }

        /// A change of what is there now to a text, or to nothing.
        fn change(&self, path: &str, text: Option<&str>) -> Change {
            let expected = stamp(&self.at("tree").join(path));
            let new = text.map(|text| {
                let new = self.at("new").join(path.replace('/', "-"));
                fs::write(&new, text).unwrap();
                new
            });
            Change { path: path.into(), expected, new }
        }

        fn read(&self, path: &str) -> Option<String> {
            fs::read_to_string(self.at("tree").join(path)).ok()
        }
    }

    #[test]
    fn files_are_written_replaced_and_removed() {
        let scene = Scene::new();
        fs::create_dir(scene.at("tree/d")).unwrap();
        for name in ["old", "d/gone"] {
            fs::write(scene.at("tree").join(name), "before").unwrap();
        }
        let mut placement = scene.begin();
        for (path, text) in [("d/gone", None), ("old", Some("after")), ("a/b/new", Some("new"))] {
            assert_eq!(placement.place(&scene.change(path, text)).unwrap(), Placed::Done, "{path}");
        }
        placement.finish();
        assert_eq!(
            (scene.read("old").as_deref(), scene.read("a/b/new").as_deref()),
            (Some("after"), Some("new"))
        );
        assert!(!scene.at("tree/d").exists(), "a directory that is empty goes");
        assert_eq!(fs::read_dir(scene.at("parked")).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_comes_as_a_whole() {
        let scene = Scene::new();
        for name in ["new/d/e", "new/f", "tree/f"] {
            fs::create_dir_all(scene.at(name)).unwrap();
        }
        for name in ["new/d/one", "new/d/e/two", "new/f/three", "tree/f/own"] {
            fs::write(scene.at(name), "text").unwrap();
        }
        let files = ["d/e/two", "d/one"].map(Path::new);
        let mut placement = scene.begin();
        let placed = placement.place_directory(Path::new("d"), &scene.at("new/d"), files.into_iter());
        assert_eq!((placed, scene.read("d/e/two").as_deref()), (Placed::Done, Some("text")));
        let placed =
            placement.place_directory(Path::new("f"), &scene.at("new/f"), [Path::new("f/three")].into_iter());
        assert_eq!((placed, scene.read("f/three")), (Placed::Unexpected, None), "the user has one");
        fs::write(scene.at("tree/d/own"), "the user's").unwrap();
        placement.undo().unwrap();
        assert_eq!((scene.read("d/one"), scene.at("tree/d/e").exists()), (None, false));
        assert_eq!(scene.read("d/own").as_deref(), Some("the user's"), "what the user adds stays");
    }

    #[test]
    fn what_the_user_changed_meanwhile_stays() {
        let scene = Scene::new();
        for name in ["edited", "removed", "deleted"] {
            fs::write(scene.at("tree").join(name), "before").unwrap();
        }
        let changes = [
            scene.change("edited", Some("ours")),
            scene.change("removed", Some("ours")),
            scene.change("deleted", None),
            scene.change("created", Some("ours")),
            scene.change("edited/below", Some("ours")),
        ];
        fs::write(scene.at("tree/edited"), "the user's").unwrap();
        fs::remove_file(scene.at("tree/removed")).unwrap();
        fs::write(scene.at("tree/deleted"), "the user's").unwrap();
        fs::write(scene.at("tree/created"), "the user's").unwrap();
        let mut placement = scene.begin();
        for change in &changes {
            assert_eq!(placement.place(change).unwrap(), Placed::Unexpected, "{change:?}");
        }
        placement.finish();
        for name in ["edited", "deleted", "created"] {
            assert_eq!(scene.read(name).as_deref(), Some("the user's"), "{name}");
        }
        assert_eq!(scene.read("removed"), None);
    }

    #[test]
    fn everything_can_be_taken_back() {
        let scene = Scene::new();
        fs::create_dir(scene.at("tree/d")).unwrap();
        for name in ["old", "d/gone"] {
            fs::write(scene.at("tree").join(name), "before").unwrap();
        }
        let mut placement = scene.begin();
        for (path, text) in
            [("d/gone", None), ("d", Some("file")), ("old", Some("after")), ("a/b", Some("new"))]
        {
            assert_eq!(placement.place(&scene.change(path, text)).unwrap(), Placed::Done, "{path}");
        }
        placement.undo().unwrap();
        assert_eq!(
            (scene.read("old").as_deref(), scene.read("d/gone").as_deref()),
            (Some("before"), Some("before"))
        );
        assert!(!scene.at("tree/a").exists());
    }

    #[test]
    fn what_fails_half_way_is_taken_back() {
        let scene = Scene::new();
        fs::write(scene.at("tree/old"), "before").unwrap();
        let mut placement = scene.begin();
        assert_eq!(placement.place(&scene.change("old", Some("after"))).unwrap(), Placed::Done);
        let lost = Change { path: "new".into(), expected: None, new: Some(scene.at("new/lost")) };
        placement.place(&lost).unwrap_err();
        drop(placement);
        assert_eq!(scene.read("old").as_deref(), Some("before"));
    }

    #[test]
    fn no_link_is_followed() {
        let scene = Scene::new();
        fs::create_dir(scene.at("outside")).unwrap();
        symlink("../outside", scene.at("tree/link")).unwrap();
        let mut placement = scene.begin();
        let through = Change { expected: None, ..scene.change("link/file", Some("ours")) };
        assert_eq!(placement.place(&through).unwrap(), Placed::Unexpected);
        assert_eq!(fs::read_dir(scene.at("outside")).unwrap().count(), 0);
    }
}
