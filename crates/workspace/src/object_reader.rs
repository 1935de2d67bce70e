//! Questions about objects that one git process answers, one batch after the other: a sync has several, and the start of
//! a process takes longer than the answer.

use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use palisade_core::printable;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::Mutex;

const WHAT: &str = "cat-file";
/// What one batch may take, on the largest repository.
const BATCH_TIMEOUT: Duration = Duration::from_secs(120);
/// More than any commit has that is worth reading. An archive has a parent for everything in it.
const MAX_COMMIT: u64 = 64 << 20;

/// The process, started when it is first needed and shared by all copies of a [`Repository`]. It ends with the last of
/// them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectReader(Arc<Mutex<Option<Process>>>);

#[derive(Debug)]
struct Process {
    /// Killed when it is dropped.
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What git says of an object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectInfo {
    pub(crate) id: ObjectId,
    pub(crate) kind: String,
    pub(crate) size: u64,
}

/// The parts of a commit that say where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitLinks {
    pub(crate) tree: ObjectId,
    pub(crate) parents: Vec<ObjectId>,
}

impl Repository {
    /// What git has under each of these names, in their order; `None` for what is not there.
    pub(crate) async fn objects<T: std::fmt::Display>(
        &self,
        names: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Option<ObjectInfo>>, GitError> {
        let mut count = 0;
        let mut questions = String::new();
        for name in names {
            count += 1;
            questions += &format!("info {name}\n");
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        questions += "flush\n";
        self.with_reader(async |process| {
            let Process { input, output, .. } = process;
            // It may answer before it has read everything.
            let write = async {
                input.write_all(questions.as_bytes()).await?;
                input.flush().await
            };
            let read = async {
                let mut answers = Vec::with_capacity(count);
                let mut line = String::new();
                for _ in 0..count {
                    line.clear();
                    read_line(output, &mut line).await?;
                    answers.push(parse_info(&line));
                }
                Ok(answers)
            };
            tokio::try_join!(write, read).map(|((), answers)| answers)
        })
        .await
    }

    /// The tree and the parents of a commit. `None` where it cannot be told, and another way is needed.
    pub(crate) async fn commit_links(&self, commit: &ObjectId) -> Result<Option<CommitLinks>, GitError> {
        let text = self.commit_texts(&[commit]).await?.into_iter().next().flatten();
        Ok(text.and_then(|text| parse_links(&text)))
    }

    /// What commits consist of, in their order; `None` for what is not a commit.
    pub(crate) async fn commit_texts(&self, commits: &[&ObjectId]) -> Result<Vec<Option<String>>, GitError> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let questions = commits.iter().map(|id| format!("contents {id}\n")).chain(["flush\n".to_owned()]);
        let questions: String = questions.collect();
        self.with_reader(async |process| {
            let Process { input, output, .. } = process;
            // It may answer before it has read everything.
            let write = async {
                input.write_all(questions.as_bytes()).await?;
                input.flush().await
            };
            let read = async {
                let mut texts = Vec::with_capacity(commits.len());
                for _ in commits {
                    texts.push(read_commit(output).await?);
                }
                Ok(texts)
            };
            tokio::try_join!(write, read).map(|((), texts)| texts)
        })
        .await
    }

    /// Starts the process while something else is looked at.
    pub(crate) async fn start_reader(&self) -> Result<(), GitError> {
        self.with_reader(async |_| Ok(())).await
    }

    async fn with_reader<T>(
        &self,
        ask: impl AsyncFnOnce(&mut Process) -> std::io::Result<T>,
    ) -> Result<T, GitError> {
        let io = |source| GitError::Io { what: WHAT.into(), source };
        let mut running = self.reader().0.lock().await;
        // One that failed, or whose question was given up, is not asked again.
        let mut process = match running.take() {
            Some(process) => process,
            None => Process::start(self)?,
        };
        match tokio::time::timeout(BATCH_TIMEOUT, ask(&mut process)).await {
            Ok(answer) => {
                let answer = answer.map_err(io)?;
                *running = Some(process);
                Ok(answer)
            }
            Err(_) => Err(GitError::Slow { what: WHAT.into(), limit: BATCH_TIMEOUT }),
        }
    }
}

impl Process {
    fn start(repository: &Repository) -> Result<Self, GitError> {
        const WORDS: [&str; 3] =
            ["cat-file", "--batch-command=%(objectname) %(objecttype) %(objectsize)", "--buffer"];
        let mut child = repository.git(WORDS).start()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self { _child: child, input, output: BufReader::new(output) }),
            _ => Err(GitError::Answer { what: WHAT.into(), answer: printable("no pipe") }),
        }
    }
}

async fn read_line(output: &mut BufReader<ChildStdout>, line: &mut String) -> std::io::Result<()> {
    match output.read_line(line).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn read_commit(output: &mut BufReader<ChildStdout>) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    read_line(output, &mut line).await?;
    let Some(info) = parse_info(&line) else { return Ok(None) };
    let mut rest = output.take(info.size + 1);
    if info.kind != "commit" || info.size > MAX_COMMIT {
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        return Ok(None);
    }
    let mut content = Vec::new();
    rest.read_to_end(&mut content).await?;
    Ok(Some(String::from_utf8_lossy(&content).into_owned()))
}

/// `ID TYPE SIZE`; anything else is about an object that is not there, or not named clearly.
fn parse_info(line: &str) -> Option<ObjectInfo> {
    let mut words = line.trim_end().split(' ');
    let (id, kind, size) = (words.next()?, words.next()?, words.next()?);
    let is_kind = matches!(kind, "commit" | "tag" | "tree" | "blob");
    let info = ObjectInfo { id: ObjectId::parse(id)?, kind: kind.to_owned(), size: size.parse().ok()? };
    (is_kind && words.next().is_none()).then_some(info)
}

/// The first lines of a commit.
pub(crate) fn parse_links(content: &str) -> Option<CommitLinks> {
    let mut lines = content.lines();
    let tree = ObjectId::parse(lines.next()?.strip_prefix("tree ")?)?;
    let parents = lines.map_while(|line| line.strip_prefix("parent ")).map(ObjectId::parse);
    Some(CommitLinks { tree, parents: parents.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(letter: char) -> ObjectId {
        ObjectId::parse(&letter.to_string().repeat(40)).unwrap()
    }

    #[test]
    fn an_answer_is_read_or_means_that_nothing_is_there() {
        let line = format!("{} commit 17\n", id('a'));
        let info = ObjectInfo { id: id('a'), kind: "commit".into(), size: 17 };
        assert_eq!(parse_info(&line), Some(info));
        for other in ["x missing\n", "abc ambiguous\n", "", "x commit 1 2\n"] {
            assert_eq!(parse_info(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_links_of_a_commit_are_read() {
        let text =
            format!("tree {}\nparent {}\nparent {}\nauthor a\n\nparent x\n", id('a'), id('b'), id('c'));
        let links = CommitLinks { tree: id('a'), parents: vec![id('b'), id('c')] };
        assert_eq!(parse_links(&text), Some(links));
        assert_eq!(parse_links("author a"), None);
    }
}
