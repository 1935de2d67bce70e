//! `git fetch`, `git pull` and `git push` inside a sandbox: git's side of a remote that only the host can reach.
//!
//! Git starts this program in the place of a transport (see gitremote-helpers). A fetch finds what the host has brought
//! and says that the host brings updates. A push is written down, and `palisade agent sync` prints the command that does
//! it.

use super::git::Git;
use super::records::{Records, is_id};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

/// Where pushes are written down, in the common git directory.
pub(crate) const PUSHES: &str = "palisade/pushes";
/// The host itself, as a remote.
const HOST: &str = "host";

/// Answers git until it has no more to ask. `remote` is the remote's name, or its address when it has none.
pub(crate) fn serve(remote: &str) -> io::Result<()> {
    let git = Git::at(&std::env::current_dir()?);
    let (input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut pushes = Vec::new();
    let mut fetches = false;
    for line in input.lines() {
        let line = line?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("capabilities", _) => output.write_all(b"fetch\npush\noption\n\n")?,
            ("option", _) => output.write_all(b"unsupported\n")?,
            ("list", purpose) => {
                if purpose != "for-push" {
                    say("the host brings updates; they come with the next `palisade agent start`");
                }
                for (name, id) in listed(&git, remote) {
                    writeln!(output, "{id} {name}")?;
                }
                output.write_all(b"\n")?;
            }
            ("fetch", _) => fetches = true,
            ("push", refspec) => pushes.push(refspec.to_owned()),
            // The end of a batch, or of everything.
            ("", _) if !pushes.is_empty() => {
                for refspec in pushes.drain(..) {
                    let (source, target) = refspec.rsplit_once(':').unwrap_or((&refspec, ""));
                    match record(&git, remote, source, target) {
                        Ok(()) => writeln!(output, "ok {target}")?,
                        Err(error) => writeln!(output, "error {target} {error}")?,
                    }
                }
                output.write_all(b"\n")?;
                say(
                    "this push is recorded; `palisade agent sync` on the host prints the command that does it",
                );
            }
            ("", _) if fetches => {
                fetches = false;
                output.write_all(b"\n")?;
            }
            ("", _) => break,
            _ => output.write_all(b"\n")?,
        }
        output.flush()?;
    }
    output.flush()
}

fn say(message: &str) {
    let _ = writeln!(io::stderr(), "palisade: {message}");
}

/// The refs of a remote, as the host has brought them.
fn listed(git: &Git, remote: &str) -> BTreeMap<String, String> {
    let directory = format!("refs/remotes/{remote}/");
    let format = "--format=%(objectname) %(refname)";
    let Ok(answer) = git.run(&["for-each-ref", format, &directory, "refs/tags/"]) else {
        return BTreeMap::new();
    };
    let text = String::from_utf8_lossy(&answer.output).into_owned();
    let mut refs = BTreeMap::new();
    for (id, name) in text.lines().filter_map(|line| line.split_once(' ')) {
        let name = match name.strip_prefix(&directory) {
            Some("HEAD") => continue,
            Some(branch) => format!("refs/heads/{branch}"),
            None => name.to_owned(),
        };
        refs.insert(name, id.to_owned());
    }
    refs
}

/// Writes a push down: `REMOTE TARGET ID FORCE`, each word ended by a NUL; the id is empty when the target is deleted.
fn record(git: &Git, remote: &str, source: &str, target: &str) -> Result<(), String> {
    if remote == HOST {
        return Err("the host takes commits with `palisade agent sync`".into());
    }
    let (force, source) = match source.strip_prefix('+') {
        Some(source) => ("force", source),
        None => ("", source),
    };
    let id = match source {
        "" => String::new(),
        source => {
            git.line(&["rev-parse", "--verify", "--quiet", source]).map_err(|error| error.to_string())?
        }
    };
    let directory = git.line(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let file = PathBuf::from(directory.map_err(|error| error.to_string())?).join(PUSHES);
    let mut records = Records::default();
    records.add(&[remote.as_bytes(), target.as_bytes(), id.as_bytes(), force.as_bytes()]);
    append(&file, &records.into_bytes()).map_err(|error| error.to_string())
}

fn append(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    OpenOptions::new().create(true).append(true).open(file)?.write_all(bytes)
}

/// A push that was asked for inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedPush {
    pub(crate) remote: String,
    pub(crate) target: String,
    pub(crate) id: String,
    pub(crate) force: String,
}

/// The last push to each target.
pub(crate) fn recorded(common: &Path) -> Vec<RecordedPush> {
    let bytes = std::fs::read(common.join(PUSHES)).unwrap_or_default();
    let words: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let mut last = BTreeMap::new();
    for push in words.chunks_exact(4) {
        let [remote, target, id, force] = push else { continue };
        if id.is_empty() || is_id(id) {
            let push = RecordedPush {
                remote: remote.clone(),
                target: target.clone(),
                id: id.clone(),
                force: force.clone(),
            };
            last.insert((remote.clone(), target.clone()), push);
        }
    }
    last.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_push_to_each_target_counts() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let mut records = Records::default();
        for [target, id, force] in [
            ["refs/heads/x", &a, ""],
            ["refs/heads/y", &a, ""],
            ["refs/heads/x", &b, "force"],
            ["z", "bad", ""],
        ] {
            records.add(&[b"origin", target.as_bytes(), id.as_bytes(), force.as_bytes()]);
        }
        append(&directory.path().join(PUSHES), &records.into_bytes()).unwrap();
        let found: Vec<(String, String, String)> =
            recorded(directory.path()).into_iter().map(|push| (push.target, push.id, push.force)).collect();
        assert_eq!(
            found,
            [("refs/heads/x".into(), b, "force".into()), ("refs/heads/y".into(), a, String::new())]
        );
    }
}
