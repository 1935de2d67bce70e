use super::*;
use crate::copied_directory::entry::Stamp;
use crate::wrapper::Word;

fn stamp(kind: EntryKind) -> Stamp {
    Stamp { kind, mode: 0o644, size: 5, modified: 100, changed: 200, inode: 1, target: None }
}

fn change(path: &str, kind: ChangeKind, of: EntryKind) -> Change {
    let host = (kind != ChangeKind::Added).then(|| stamp(of));
    let copy = (kind != ChangeKind::Deleted).then(|| stamp(of));
    Change { path: path.into(), kind, host, copy }
}

fn added(path: &str) -> Change {
    change(path, ChangeKind::Added, EntryKind::File)
}

fn new_link(path: &str, target: &str) -> Change {
    let copy = Stamp { target: Some(Word::Text(target.into())), ..stamp(EntryKind::Link) };
    Change { copy: Some(copy), ..added(path) }
}

fn paths(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| change.path.display().to_string()).collect()
}

#[test]
fn deletions_come_first_and_directories_before_what_is_in_them() {
    use ChangeKind::{Added, Deleted, Mode};
    use EntryKind::{Directory, File};
    let mut changes = vec![
        change("a", Mode, Directory),
        change("a/b", Mode, Directory),
        change("new", Added, Directory),
        change("new/deep", Added, Directory),
        change("new/deep/file", Added, File),
        change("old", Deleted, Directory),
        change("old/deep", Deleted, Directory),
        change("old/deep/file", Deleted, File),
    ];
    order(&mut changes);
    let expected = ["old/deep/file", "old/deep", "old", "new", "new/deep", "new/deep/file", "a/b", "a"];
    assert_eq!(paths(&changes), expected);
}

#[test]
fn a_path_selects_what_is_below_it_and_the_new_directories_it_needs() {
    let directory = |path| change(path, ChangeKind::Added, EntryKind::Directory);
    let turned = change("was-file", ChangeKind::Deleted, EntryKind::File);
    let changes = [
        added("a"),
        directory("new"),
        directory("new/deep"),
        added("new/deep/one"),
        added("new/deep/two"),
        turned,
        directory("was-file"),
        added("was-file/below"),
    ];
    let select = |names: &[&str]| {
        let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        select(&changes, &names).map(|selected| paths(&selected))
    };
    assert_eq!(select(&[]).unwrap().len(), changes.len());
    assert_eq!(select(&["new/deep/one"]).unwrap(), ["new", "new/deep", "new/deep/one"]);
    assert_eq!(select(&["new"]).unwrap(), ["new", "new/deep", "new/deep/one", "new/deep/two"]);
    assert_eq!(select(&["was-file/below"]).unwrap(), ["was-file", "was-file", "was-file/below"]);
    assert_eq!(select(&["a", "ne"]).unwrap_err(), Path::new("ne"));
}

#[test]
fn what_belongs_to_a_repository_is_never_laid() {
    let found = Listing::default();
    for path in
        [".git", "sub/.git", "sub/.git/config", "sub/.GIT/hooks/x", "git~1/config", ".hg/hgrc", "a/.jj/x"]
    {
        assert!(is_of_repository(&added(path), &found), "{path}");
    }
    for path in [".gitignore", "git/config", "a.git/config", "HEAD"] {
        assert!(!is_of_repository(&added(path), &found), "{path}");
    }
    // A directory becomes a repository by its contents; without the HEAD it does not.
    let entries = ["sub/HEAD", "sub/objects", "sub/refs", "other/HEAD"];
    let entries = entries.map(|path| (PathBuf::from(path), stamp(EntryKind::File))).into();
    let found = Listing { entries, ..Listing::default() };
    assert!(is_of_repository(&added("sub/HEAD"), &found));
    assert!(!is_of_repository(&added("other/HEAD"), &found));
    let gone = change("sub/HEAD", ChangeKind::Deleted, EntryKind::File);
    assert!(!is_of_repository(&gone, &found));
}

#[test]
fn files_that_run_by_themselves_and_links_that_lead_out_are_named() {
    assert_eq!(trigger(&added(".envrc")), Some(RunTrigger::Entering));
    assert_eq!(trigger(&change(".envrc", ChangeKind::Mode, EntryKind::File)), Some(RunTrigger::Entering));
    assert_eq!(trigger(&change(".envrc", ChangeKind::Deleted, EntryKind::File)), None);
    assert_eq!(trigger(&change(".vscode", ChangeKind::Added, EntryKind::Directory)), None);
    assert_eq!(trigger(&added("src/main.rs")), None);
    assert_eq!(trigger(&new_link("a/link", "../b")), None);
    assert_eq!(trigger(&new_link("a/link", "../../b")), Some(RunTrigger::LinkOutside));
    assert_eq!(trigger(&new_link("link", "/etc/passwd")), Some(RunTrigger::LinkOutside));
}
