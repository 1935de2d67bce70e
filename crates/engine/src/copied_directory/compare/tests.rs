use super::*;
use crate::copied_directory::entry::ManifestEntry;
use crate::wrapper::Word;

fn stamp(kind: EntryKind, inode: u64) -> Stamp {
    Stamp { kind, mode: 0o644, size: 5, modified: 100, changed: 200, inode, target: None }
}

fn link(target: &str, inode: u64) -> Stamp {
    Stamp { target: Some(Word::Text(target.into())), ..stamp(EntryKind::Link, inode) }
}

/// The same entries on the host and in the copy, but for the inodes.
fn manifest(entries: &[(&str, Stamp)]) -> Manifest {
    let entry = |(path, copy): &(&str, Stamp)| {
        let host = Stamp { inode: copy.inode + 1000, ..copy.clone() };
        (PathBuf::from(path), ManifestEntry { host, copy: copy.clone() })
    };
    Manifest { entries: entries.iter().map(entry).collect() }
}

fn listing(entries: &[(&str, Stamp)]) -> Listing {
    let entries = entries.iter().map(|(path, stamp)| (PathBuf::from(path), stamp.clone())).collect();
    Listing { entries, ..Listing::default() }
}

fn kinds(changes: &[Change]) -> Vec<(String, ChangeKind)> {
    changes.iter().map(|change| (change.path.display().to_string(), change.kind)).collect()
}

const FILE: EntryKind = EntryKind::File;
const DIRECTORY: EntryKind = EntryKind::Directory;

#[test]
fn what_is_as_it_was_copied_is_no_change() {
    let before = [("d", stamp(DIRECTORY, 1)), ("d/f", stamp(FILE, 2)), ("l", link("f", 3))];
    // A directory changes with what is made in it, and a link that was made again leads to the same.
    let now = [
        ("d", Stamp { modified: 7, changed: 8, ..stamp(DIRECTORY, 1) }),
        ("d/f", stamp(FILE, 2)),
        ("l", Stamp { changed: 9, ..link("f", 4) }),
    ];
    assert_eq!(compare(&manifest(&before), &listing(&now)), []);
}

#[test]
fn every_kind_of_change_is_found() {
    let before = [
        ("d", stamp(DIRECTORY, 1)),
        ("deleted", stamp(FILE, 2)),
        ("linked", link("a", 3)),
        ("mode", stamp(FILE, 4)),
        ("replaced", stamp(FILE, 5)),
        ("time-set-back", stamp(FILE, 6)),
        ("turned-link", stamp(FILE, 7)),
        ("written", stamp(FILE, 8)),
    ];
    let now = [
        ("added", stamp(FILE, 20)),
        ("d", Stamp { mode: 0o700, ..stamp(DIRECTORY, 1) }),
        ("linked", link("b", 21)),
        ("mode", Stamp { mode: 0o755, changed: 300, ..stamp(FILE, 4) }),
        ("replaced", stamp(FILE, 22)),
        ("time-set-back", Stamp { changed: 300, ..stamp(FILE, 6) }),
        ("turned-link", link("x", 23)),
        ("written", Stamp { size: 6, modified: 300, changed: 300, ..stamp(FILE, 8) }),
    ];
    use ChangeKind::{Added, Changed, Deleted, Mode};
    let expected = [
        ("added", Added),
        ("d", Mode),
        ("deleted", Deleted),
        ("linked", Changed),
        ("mode", Mode),
        ("replaced", Changed),
        ("time-set-back", Changed),
        ("turned-link", Changed),
        ("written", Changed),
    ];
    let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
    assert_eq!(kinds(&compare(&manifest(&before), &listing(&now))), expected);
}

#[test]
fn a_file_that_became_a_directory_goes_before_the_directory_comes() {
    let before = [("a", stamp(FILE, 1)), ("b", stamp(DIRECTORY, 2)), ("b/f", stamp(FILE, 3))];
    let now = [("a", stamp(DIRECTORY, 4)), ("a/f", stamp(FILE, 5)), ("b", stamp(FILE, 6))];
    use ChangeKind::{Added, Deleted};
    let expected =
        [("a", Deleted), ("a", Added), ("a/f", Added), ("b", Deleted), ("b", Added), ("b/f", Deleted)];
    let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
    assert_eq!(kinds(&compare(&manifest(&before), &listing(&now))), expected);
}

#[test]
fn what_could_not_be_looked_at_was_not_deleted() {
    let before = [("closed", stamp(DIRECTORY, 1)), ("closed/f", stamp(FILE, 2)), ("pipe", stamp(FILE, 3))];
    let mut now = listing(&[("closed", stamp(DIRECTORY, 1))]);
    now.unread.push(("closed".into(), "permission denied".into()));
    now.special.push("pipe".into());
    assert_eq!(compare(&manifest(&before), &now), []);
}
