//! What goes into the git directory of a sandbox's own. The host's repository is only read here.

use super::BoundError;
use super::config::{self, Setting};
use super::filters::{self, NeededFilter};
use super::head::{Base, Head, HostSide};
use super::plain::SettingsOf;
use crate::git::{Git, GitError, Repository};
use crate::host_tree::HostTree;
use crate::loose_ref::{self, LooseRef};
use crate::place::NotUsable;
use crate::refs::{ObjectId, SandboxRefs};
use crate::transaction::{Expected, RefTransaction};
use palisade_core::{HostPath, PrivateGit, ReadOnlyPath, Sharing, WhenAbsent};
use palisade_host::fence;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How far alternates of alternates are followed, as in git.
const MAX_DEPTH_OF_ALTERNATES: usize = 5;
/// How far files that included files include are followed, as in git.
const MAX_DEPTH_OF_INCLUDES: usize = 10;
/// More than any of git's small files needs.
const MAX_SMALL_FILE: u64 = 16 << 20;

pub(super) const REF_FORMAT: &str =
    "--format=%(objectname) %(objecttype) %(*objectname) %(refname) %(symref)";

/// A file of a git directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// Git compares the index's own time with those of files.
    pub modified: Option<SystemTime>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitContents {
    pub directories: Vec<PathBuf>,
    pub files: Vec<FileContent>,
}

impl GitContents {
    /// Where the host's objects are inside, each with a directory to be mounted on.
    pub(super) fn add_alternates(&mut self, places: &[String]) {
        for at in 0..places.len() {
            self.directories.push(format!("host-objects/{at}").into());
        }
        self.text(
            "objects/info/alternates",
            places.iter().map(|place| format!("{place}\n")).collect::<String>(),
        );
    }

    pub(super) fn text(&mut self, path: &str, text: impl Into<Vec<u8>>) {
        self.files.push(FileContent { path: path.into(), bytes: text.into(), modified: None });
    }
}

/// A repository with its working tree in the bound directory.
#[derive(Debug, Clone)]
pub struct BoundRepository {
    /// The working tree, relative to the bound directory; empty for itself.
    pub path: PathBuf,
    /// Whether `.git` is a file there, as in a worktree or a submodule.
    pub has_git_file: bool,
    pub contents: GitContents,
    /// The host's directories of objects: its own, and the alternates of that.
    pub objects: Vec<HostPath>,
    pub hooks: Option<HostPath>,
    pub base: Base,
    /// Where its commits go on the host.
    pub host: HostSide,
    /// Filters that git cannot do without here.
    pub filters: Vec<NeededFilter>,
    /// The host's working tree, where there is one.
    pub(crate) tree: Option<HostTree>,
    /// The commits that refs lead to.
    commits: Vec<ObjectId>,
}

/// A directory that a sandbox may write.
#[derive(Debug, Clone)]
pub struct BoundTree {
    /// The directory's own repository and those of its submodules. A directory that is not a repository has an empty one.
    pub repositories: Vec<BoundRepository>,
    /// What must not change in the working trees while a sandbox runs.
    pub read_only: Vec<ReadOnlyPath>,
    /// What stands at `.git` on the host where nothing is.
    pub git_when_absent: WhenAbsent,
}

impl Default for BoundTree {
    fn default() -> Self {
        Self { repositories: Vec::new(), read_only: Vec::new(), git_when_absent: WhenAbsent::File }
    }
}

impl BoundTree {
    /// Reads what a sandbox needs. There are no repositories where git cannot be used.
    pub async fn read(git: &Git, directory: &HostPath, settings_of: SettingsOf) -> Result<Self, BoundError> {
        let tree = match std::fs::symlink_metadata(directory.join(".git")) {
            Ok(_) if !fence::leads_nowhere(directory) => HostTree::find_again(git, directory).await,
            _ => Err(NotUsable::NoRepository(directory.clone())),
        };
        let tree = match tree {
            Err(NotUsable::NoRepository(_) | NotUsable::Bare(_)) => {
                return Self::without_repository(git, directory, settings_of).await;
            }
            // Nothing of git's runs here, inside or outside.
            Err(NotUsable::Git(GitError::NotStarted { .. })) => return Ok(Self::default()),
            found => found?,
        };
        let (populated, empty) = submodules(git, &tree).await?;
        let (first, mut read_only) = BoundRepository::read(PathBuf::new(), tree).await?;
        let mut repositories = vec![first];
        for (path, tree) in populated {
            let (repository, named) = BoundRepository::read(path.clone(), tree).await?;
            read_only.extend(named.into_iter().map(|it| ReadOnlyPath { path: path.join(it.path), ..it }));
            repositories.push(repository);
        }
        read_only
            .extend(empty.into_iter().map(|path| ReadOnlyPath { path, when_absent: WhenAbsent::Directory }));
        Ok(Self { repositories, read_only, git_when_absent: WhenAbsent::File })
    }

    /// Keeps the commits that a sandbox starts from.
    pub async fn pin(&self, refs: &SandboxRefs) -> Result<(), BoundError> {
        for repository in &self.repositories {
            repository.pin(refs).await?;
        }
        Ok(())
    }

    /// For a directory in which git is not used.
    pub fn without_git_data(self, directory: HostPath) -> PrivateGit {
        PrivateGit {
            directory,
            binds: Vec::new(),
            trees: Vec::new(),
            read_only: self.read_only,
            git_when_absent: self.git_when_absent,
            notice: None,
            sharing: Sharing::WithHost,
            nested: None,
        }
    }
}

/// The submodules whose files are here, and the directories of those whose files are not.
type Submodules = (Vec<(PathBuf, HostTree)>, Vec<PathBuf>);

async fn submodules(git: &Git, top: &HostTree) -> Result<Submodules, BoundError> {
    let (mut populated, mut empty) = (Vec::new(), Vec::new());
    let mut pending = vec![(PathBuf::new(), top.clone())];
    while let Some((prefix, tree)) = pending.pop() {
        for path in tree.recorded_repositories().await? {
            let (whole, place) = (prefix.join(&path), tree.root.join(&path));
            if std::fs::symlink_metadata(place.join(".git")).is_err() {
                empty.push(whole);
                continue;
            }
            let inner = HostTree::find_again(git, &place).await?;
            populated.push((whole.clone(), inner.clone()));
            pending.push((whole, inner));
        }
    }
    Ok((populated, empty))
}

impl BoundRepository {
    /// Without a commit and without objects of the host's.
    pub(super) fn empty(contents: GitContents, base: Base, host: HostSide, has_git_file: bool) -> Self {
        Self {
            path: PathBuf::new(),
            has_git_file,
            contents,
            objects: Vec::new(),
            hooks: None,
            base,
            host,
            filters: Vec::new(),
            tree: None,
            commits: Vec::new(),
        }
    }

    async fn read(path: PathBuf, tree: HostTree) -> Result<(Self, Vec<ReadOnlyPath>), BoundError> {
        let unfinished = [("rebase-merge", "rebase"), ("rebase-apply", "rebase"), ("sequencer", "sequence")];
        let own = tree.repository.places().own.clone();
        let is_open = |(file, _): &&(&str, &'static str)| own.join(file).exists();
        if let Some((_, operation)) = unfinished.iter().find(is_open) {
            return Err(BoundError::Unfinished { directory: tree.root.clone(), operation });
        }
        let common = tree.repository.places().common.clone();
        let git = tree.root.join(".git");
        let is_apart = |path: &Path| path.starts_with(&tree.root) && !path.starts_with(&git);
        if path.as_os_str().is_empty() && (is_apart(&own) || is_apart(&common)) {
            return Err(BoundError::GitDataInTree { directory: tree.root.clone(), git: own });
        }
        let (refs, settings) = tokio::try_join!(
            tree.repository.git(["for-each-ref", REF_FORMAT]).bytes(),
            tree.repository.own_settings()
        )?;
        let mut read_only = config::read_only(&settings.all(), tree.root.as_path(), &tree.root);
        for linked in config::linked_hooks(&common.join("hooks"), &tree.root) {
            if !read_only.iter().any(|it| it.path == linked.path) {
                read_only.push(linked);
            }
        }
        let refs = parse_refs(&refs);
        let head = read_head(&tree.repository, &own).await?;
        let stash_log = small_file(&common.join("logs/refs/stash"));
        let base = Base {
            head,
            refs: refs.iter().filter(|it| it.symbolic.is_none()).map(Ref::pair).collect(),
            stashes: stash_ids(&stash_log),
        };
        let mut contents = GitContents::default();
        fill(&mut contents, &settings.in_force, &base, &refs, (&own, &common))?;
        exclude_absent(&mut contents, &read_only, &tree.root);
        if !stash_log.is_empty() {
            contents.text("logs/refs/stash", stash_log);
        }
        let hooks = HostPath::new(common.join("hooks")).ok().filter(|path| path.as_path().is_dir());
        let objects = object_directories(&common.join("objects"));
        let has_git_file = std::fs::symlink_metadata(tree.root.join(".git")).is_ok_and(|meta| meta.is_file());
        let mut commits: Vec<ObjectId> = refs.iter().filter_map(|it| it.commit.clone()).collect();
        if let Head::Detached(id) = &base.head {
            commits.extend(ObjectId::parse(id));
        }
        commits.sort_unstable();
        commits.dedup();
        let filters = filters::needed(&tree, &settings.in_force).await?;
        let (host, tree) = (HostSide::Repository, Some(tree));
        let repository =
            Self { path, has_git_file, contents, objects, hooks, base, host, filters, tree, commits };
        Ok((repository, read_only))
    }

    async fn pin(&self, refs: &SandboxRefs) -> Result<(), BoundError> {
        match &self.tree {
            Some(tree) => Ok(pin(&tree.repository, refs, &self.commits).await?),
            None => Ok(()),
        }
    }
}

/// Keeps the commits that the sandbox starts from, whatever the user deletes while it runs: they are the parents of one
/// commit, and a ref leads to that.
pub(super) async fn pin(
    repository: &Repository,
    refs: &SandboxRefs,
    commits: &[ObjectId],
) -> Result<(), GitError> {
    let Some(first) = commits.first() else { return Ok(()) };
    let pinned = match commits.len() {
        1 => first.clone(),
        _ => {
            let tree = repository.trees_of(&[first]).await?.remove(0);
            let parents: String = commits.iter().map(|id| format!("parent {id}\n")).collect();
            let person = "palisade <palisade> 0 +0000";
            repository
                .write_own_commit(&format!(
                    "tree {tree}\n{parents}author {person}\ncommitter {person}\n\nwhat a sandbox starts from\n"
                ))
                .await?
        }
    };
    let common = &repository.places().common;
    if repository.has_loose_refs()
        && loose_ref::create(common, &refs.start(), &pinned).is_ok_and(|made| made == LooseRef::Done)
    {
        return Ok(());
    }
    let mut transaction = RefTransaction::default();
    transaction.set(&refs.start(), &pinned, Expected::Anything);
    transaction.commit(repository, "palisade: start").await
}

/// Forgets what was remembered of a sandbox in a working tree's repository. Its archives stay.
pub async fn unpin(git: &Git, tree: &HostPath, refs: &SandboxRefs) -> Result<(), BoundError> {
    // Of a worktree or submodule, only git knows where the refs are.
    let own = tree.join(".git");
    if own.as_path().is_dir()
        && loose_ref::remove(own.as_path(), &refs.start()).is_ok_and(|gone| gone == LooseRef::Done)
    {
        return Ok(());
    }
    let repository = HostTree::find_again(git, tree).await?.repository;
    let known = repository.refs_alone().await?;
    let mut transaction = RefTransaction::default();
    known.below(&refs.base()).for_each(|(name, id)| transaction.delete(name, Expected::At(id)));
    Ok(transaction.commit(&repository, "palisade: end").await?)
}

/// The settings of a user in a repository.
#[derive(Debug)]
pub(super) struct UserSettings {
    pub(super) in_force: Vec<Setting>,
    /// Of files that are included under a condition which does not hold now.
    conditional: Vec<Setting>,
}

impl UserSettings {
    pub(super) fn all(&self) -> Vec<Setting> {
        self.in_force.iter().chain(&self.conditional).cloned().collect()
    }
}

impl Repository {
    /// The user's settings with the files that they are from, also those of files that are included only on another
    /// branch or in another place. Git runs nothing to list them.
    pub(super) async fn own_settings(&self) -> Result<UserSettings, GitError> {
        let here = self.program().unguarded(self.directory());
        let top = self.directory().as_path();
        let listing = here.git(["config", "--list", "-z", "--show-origin"]).bytes().await?;
        let mut settings = UserSettings { in_force: config::parse(&listing, top), conditional: Vec::new() };
        let home = std::env::home_dir();
        let mut known = std::collections::BTreeSet::new();
        for _ in 0..MAX_DEPTH_OF_INCLUDES {
            let more = config::unlisted_includes(&settings.all(), top, home.as_deref());
            let more: Vec<PathBuf> = more.into_iter().filter(|file| known.insert(file.clone())).collect();
            if more.is_empty() {
                break;
            }
            for file in more {
                let words = ["config", "--no-includes", "--list", "-z", "--show-origin", "--file"];
                let words = words.into_iter().map(std::ffi::OsStr::new).chain([file.as_os_str()]);
                // One that git cannot read is closed all the same.
                let listing = here.git(words).answers().await?;
                settings.conditional.extend(config::parse(&listing, top));
            }
        }
        Ok(settings)
    }
}

impl HostTree {
    /// The paths in the index that are other repositories, whether there are settings for them or not.
    async fn recorded_repositories(&self) -> Result<Vec<PathBuf>, BoundError> {
        // As the index stores that mode. To look for it costs less than to have git list everything.
        const STORED: [u8; 4] = 0o160_000_u32.to_be_bytes();
        let own = &self.repository.places().own;
        let holds = |bytes: &[u8]| memchr::memmem::find(bytes, &STORED).is_some();
        let is_shared = |name: &std::ffi::OsStr| name.as_bytes().starts_with(b"sharedindex.");
        let shared = std::fs::read_dir(own).into_iter().flatten().flatten();
        let mut files = shared.filter(|entry| is_shared(&entry.file_name())).map(|entry| entry.path());
        let mut all = files.by_ref().chain([own.join("index")]);
        if !all.any(|path| std::fs::read(path).is_ok_and(|bytes| holds(&bytes))) {
            return Ok(Vec::new());
        }
        let list = self.repository.git(["ls-files", "--stage", "-z"]).env("GIT_OPTIONAL_LOCKS", "0");
        let list = list.bytes().await?;
        let entries = list.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
        let paths = entries.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
        Ok(paths.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path))).collect())
    }
}

/// One ref of the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ref {
    id: String,
    /// The commit that it leads to, also by way of a tag.
    pub(super) commit: Option<ObjectId>,
    pub(super) name: String,
    /// The ref that it stands for.
    pub(super) symbolic: Option<String>,
}

impl Ref {
    pub(super) fn pair(&self) -> (String, String) {
        (self.name.clone(), self.id.clone())
    }
}

/// Our own refs, and those of a bisection, are nothing for the sandbox.
pub(super) fn parse_refs(listing: &[u8]) -> Vec<Ref> {
    let text = String::from_utf8_lossy(listing);
    let mut refs = Vec::new();
    for line in text.lines() {
        let mut words = line.splitn(5, ' ');
        let (Some(id), Some(kind), Some(tagged), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let symbolic = words.next().filter(|target| !target.is_empty()).map(str::to_owned);
        let commit = match kind {
            "commit" => ObjectId::parse(id),
            "tag" => ObjectId::parse(tagged),
            _ => None,
        };
        if !name.starts_with("refs/palisade/") && !name.starts_with("refs/bisect/") {
            refs.push(Ref { id: id.to_owned(), commit, name: name.to_owned(), symbolic });
        }
    }
    refs.sort_by(|a, b| a.name.cmp(&b.name));
    refs
}

pub(super) async fn read_head(repository: &Repository, own: &Path) -> Result<Head, BoundError> {
    let text = std::fs::read_to_string(own.join("HEAD")).map_err(BoundError::io("read HEAD"))?;
    let unusual = || BoundError::io("read HEAD")(std::io::Error::other("it names nothing that is known"));
    // What is there when git keeps refs in a table.
    if text.trim_end() != "ref: refs/heads/.invalid" {
        return Head::parse(&text).ok_or_else(unusual);
    }
    let branch = repository.git(["symbolic-ref", "--quiet", "HEAD"]).answers().await?;
    let answer = match branch.is_empty() {
        false => format!("ref: {}", String::from_utf8_lossy(&branch)),
        true => repository.git(["rev-parse", "HEAD"]).text().await?,
    };
    Head::parse(&answer).ok_or_else(unusual)
}

/// Files that are the same inside, from the working tree's own git directory.
const OWN_FILES: [&str; 9] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
    "info/sparse-checkout",
    "logs/HEAD",
];
/// And from the one that all working trees share.
const COMMON_FILES: [&str; 2] = ["info/attributes", "shallow"];

/// What git needs of a git directory, besides files.
pub(super) const DIRECTORIES: [&str; 6] =
    ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "logs/refs"];

fn fill(
    contents: &mut GitContents,
    settings: &[Setting],
    base: &Base,
    refs: &[Ref],
    (own, common): (&Path, &Path),
) -> Result<(), BoundError> {
    contents.directories.extend(DIRECTORIES.map(PathBuf::from));
    contents.text("HEAD", base.head.text());
    contents.text("config", config::text_inside(settings));
    let mut packed = String::from("# pack-refs with: sorted \n");
    for reference in refs {
        match &reference.symbolic {
            None => {
                let _ = writeln!(packed, "{} {}", reference.id, reference.name);
            }
            Some(target) => contents.text(&reference.name, format!("ref: {target}\n")),
        }
    }
    contents.text("packed-refs", packed);
    let mut exclude = small_file(&common.join("info/exclude"));
    exclude.extend(users_excludes(settings));
    contents.text("info/exclude", exclude);
    for (directory, names) in [(own, OWN_FILES.as_slice()), (common, COMMON_FILES.as_slice())] {
        for name in names {
            let bytes = small_file(&directory.join(name));
            if !bytes.is_empty() {
                contents.text(name, bytes);
            }
        }
    }
    copy_index(contents, own)
}

/// What stands in for absent files while the sandbox runs must not get into its commits.
fn exclude_absent(contents: &mut GitContents, read_only: &[ReadOnlyPath], top: &HostPath) {
    let Some(exclude) = contents.files.iter_mut().find(|file| file.path == Path::new("info/exclude")) else {
        return;
    };
    for absent in read_only.iter().filter(|it| std::fs::symlink_metadata(top.join(&it.path)).is_err()) {
        exclude.bytes.extend_from_slice(b"\n/");
        exclude.bytes.extend_from_slice(&escaped_pattern(absent.path.as_os_str().as_bytes()));
        exclude.bytes.push(b'\n');
    }
}

/// A path as a pattern that matches only itself.
fn escaped_pattern(path: &[u8]) -> Vec<u8> {
    path.iter()
        .flat_map(|byte| if b"\\*?[ ".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] })
        .collect()
}

/// What the user's git ignores everywhere.
pub(super) fn users_excludes(settings: &[Setting]) -> Vec<u8> {
    let users = config::last(settings, "core.excludesfile").map(PathBuf::from);
    let users = users.or_else(|| Some(std::env::home_dir()?.join(".config/git/ignore")));
    users.map(|path| small_file(&path)).unwrap_or_default()
}

/// The index, with the file that a split one relies on.
fn copy_index(contents: &mut GitContents, own: &Path) -> Result<(), BoundError> {
    let entries = std::fs::read_dir(own).map_err(BoundError::io("look at the git directory"))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name != "index" && !name.as_bytes().starts_with(b"sharedindex.") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).map_err(BoundError::io("read the index"))?;
        let modified = entry.metadata().and_then(|meta| meta.modified()).ok();
        contents.files.push(FileContent { path: name.into(), bytes, modified });
    }
    Ok(())
}

/// What is in a file; nothing where there is none, or something else than a file.
pub(super) fn small_file(path: &Path) -> Vec<u8> {
    use std::io::Read;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::open(path, flags, rustix::fs::Mode::empty()) else { return Vec::new() };
    let mut bytes = Vec::new();
    // A directory cannot be read.
    let _ = std::fs::File::from(file).take(MAX_SMALL_FILE).read_to_end(&mut bytes);
    bytes
}

/// The ids in the log of the stash: the second word of each line.
pub(super) fn stash_ids(log: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(log);
    let ids = text.lines().filter_map(|line| line.split(' ').nth(1));
    ids.filter(|id| ObjectId::parse(id).is_some()).map(str::to_owned).collect()
}

/// A directory of objects, and all alternates that it leads to.
fn object_directories(first: &Path) -> Vec<HostPath> {
    let mut found: Vec<HostPath> = Vec::new();
    let mut pending = vec![(first.to_owned(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let Ok(real) = std::fs::canonicalize(&directory) else { continue };
        let Ok(path) = HostPath::new(&real) else { continue };
        if found.contains(&path) {
            continue;
        }
        found.push(path);
        if depth < MAX_DEPTH_OF_ALTERNATES {
            let text = small_file(&real.join("info/alternates"));
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
            pending.extend(lines.map(|line| (real.join(std::ffi::OsStr::from_bytes(line)), depth + 1)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_are_listed_without_our_own() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let listing = format!(
            "{id} commit  refs/heads/main \n{id} commit  refs/palisade/archive/x/1 \n\
             {id} commit  refs/remotes/o/HEAD refs/remotes/o/main\n{id} tag {id} refs/tags/v1 \n"
        );
        let refs = parse_refs(listing.as_bytes());
        assert_eq!(refs.len(), 3);
        assert!(refs.iter().all(|it| it.commit.is_some()));
        assert_eq!(refs[0].name, "refs/heads/main");
        assert_eq!(refs[1].symbolic.as_deref(), Some("refs/remotes/o/main"));
    }

    #[test]
    fn alternates_of_alternates_are_found_once() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::create_dir_all(root.path().join(name).join("info")).unwrap();
        }
        let absolute = root.path().join("b");
        std::fs::write(root.path().join("a/info/alternates"), format!("# x\n{}\n", absolute.display()))
            .unwrap();
        std::fs::write(root.path().join("b/info/alternates"), "../c\n../a\n../missing\n").unwrap();
        let found = object_directories(&root.path().join("a"));
        let names: Vec<_> = found.iter().map(|path| path.as_path().file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
