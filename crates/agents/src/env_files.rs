//! Files beside the code that git does not carry, `.env` above all: into the sandbox, out of the agent's commits, and on
//! to direnv. They are counted and named; their contents are never shown.

use crate::error::AgentError;
use crate::inside::run_inside;
use crate::start::Step;
use palisade_core::{FilePattern, HostPath, Layout, printable};
use palisade_engine::{Connection, CopySource, copy_in};
use palisade_workspace::{GitError, HostTree};
use std::ffi::OsStr;

/// The files of the host that match, by their paths from the top: those that git neither carries nor is about to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EnvFiles {
    pub(crate) plain: Vec<String>,
    /// What matches and is a link, or lies behind one.
    pub(crate) others: Vec<String>,
}

impl EnvFiles {
    pub(crate) async fn find(host: &HostTree, patterns: &[FilePattern]) -> Result<Self, GitError> {
        let names = matching(host, patterns).await?;
        let (plain, others) = names.into_iter().partition(|name| is_plain(&host.root, name));
        Ok(Self { plain, others })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.plain.iter().chain(&self.others).cloned().collect()
    }
}

/// Sends the files into the sandbox, and keeps them out of the agent's commits.
pub(crate) async fn send(
    connection: &Connection,
    root: &HostPath,
    files: &EnvFiles,
    tell: &mut (dyn FnMut(Step) + Send),
) -> Result<(), AgentError> {
    files.others.iter().for_each(|name| tell(Step::NotSent(printable(name))));
    if !files.plain.is_empty() {
        let script = include_str!("exclude.sh");
        run_inside(connection, &connection.layout, "keeping them out of commits", script, &files.plain, &[])
            .await?;
    }
    for name in &files.plain {
        let target = format!("{}/{name}", connection.layout.workspace);
        copy_in(&connection.client, CopySource::open(root.join(name).as_path())?, &target).await?;
    }
    tell(Step::EnvFiles(files.plain.clone()));
    Ok(())
}

/// What git does not carry, whether it is ignored or only not added.
async fn matching(host: &HostTree, patterns: &[FilePattern]) -> Result<Vec<String>, GitError> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    let kinds: [&[&str]; 2] = [&["--others", "--ignored"], &["--others"]];
    for kind in kinds {
        let options = ["ls-files", "-z"].iter().chain(kind).chain(&["--exclude-standard", "--"]);
        let specs = patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
        let arguments = options.map(|word| (*word).to_owned()).chain(specs);
        let listed = host.repository.git(arguments).text().await?;
        names.extend(listed.split('\0').filter(|name| !name.is_empty()).map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Whether a name leads to a file without passing a link.
fn is_plain(root: &HostPath, name: &str) -> bool {
    let mut path = root.as_path().to_owned();
    let (directories, file) =
        name.rsplit_once('/').map_or((None, name), |(before, file)| (Some(before), file));
    for part in directories.into_iter().flat_map(|directories| directories.split('/')) {
        path.push(part);
        if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            return false;
        }
    }
    path.push(file);
    std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file())
}

/// Lets direnv load the files in every working tree of the sandbox, for whoever opens a shell there.
pub(crate) async fn furnish(connection: &Connection, load: &[FilePattern]) -> Result<(), AgentError> {
    let layout = &connection.layout;
    let names: Vec<String> = load
        .iter()
        .map(|file| palisade_core::shell::quoted(OsStr::new(file.as_str())).to_string_lossy().into_owned())
        .collect();
    let text = include_str!("direnv-library.sh").replace("FILES", &names.join(" "));
    let words = [layout.workspace.clone()];
    let script = include_str!("direnv.sh");
    run_inside(connection, layout, "setting up direnv", script, &words, &[("palisade_text", &text)]).await?;
    anchor(connection, layout, load.iter().map(ToString::to_string)).await
}

/// Where a worktree is new, it has neither the files nor a place for direnv to begin at.
pub(crate) async fn share(
    connection: &Connection,
    worktree: &Layout,
    sent: &[String],
    load: &[String],
) -> Result<(), AgentError> {
    let words: Vec<String> = std::iter::once(&connection.layout.workspace).chain(sent).cloned().collect();
    run_inside(connection, worktree, "copying the env files", include_str!("share.sh"), &words, &[]).await?;
    anchor(connection, worktree, load.iter().cloned()).await
}

async fn anchor(
    connection: &Connection,
    tree: &Layout,
    load: impl Iterator<Item = String>,
) -> Result<(), AgentError> {
    let words: Vec<String> = load.collect();
    run_inside(connection, tree, "setting up direnv", include_str!("anchor.sh"), &words, &[]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_is_followed_on_the_way_to_a_file() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("real/sub")).unwrap();
        std::fs::write(at("real/sub/.env"), "").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        std::os::unix::fs::symlink("real/sub/.env", at(".env")).unwrap();
        let root = HostPath::new(place.path()).unwrap();
        assert!(is_plain(&root, "real/sub/.env"));
        for name in ["link/sub/.env", ".env", "real/sub", "none"] {
            assert!(!is_plain(&root, name), "{name}");
        }
    }
}
