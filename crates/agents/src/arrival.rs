//! `agent start` up to the agent itself: the repository is checked, the sandbox is there and running, and holds the
//! code, the files and the identity that an agent needs.

use crate::error::AgentError;
use crate::profile::Profile;
use crate::record::Record;
use crate::workshop::{AgentSandbox, Workshop, tree};
use palisade_core::{Foundation, HostPath, Method, Policy, SandboxName};
use palisade_engine::{Connection, CreateRequest, EngineError, Started, copy_in};
use palisade_protocol::{ExecRequest, Exit};
use palisade_store::StoreError;
use palisade_workspace::{Arrival, Facts, Identity, Progress};
use std::path::{Path, PathBuf};

/// What to start from.
#[derive(Debug, Clone)]
pub struct StartRequest {
    pub directory: HostPath,
    /// Else the repository's own.
    pub name: Option<SandboxName>,
    pub allow_dirty: bool,
    pub method: Method,
    pub policy: Policy,
    pub foundation: Foundation,
    /// Shell patterns of files beside the code that the agent needs.
    pub env_files: Vec<String>,
}

/// What happened on the way, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Repository {
        root: PathBuf,
        branch: String,
        commit: String,
    },
    /// Something will not come along.
    Limit(&'static str),
    LeftBehind {
        changes: usize,
    },
    Created(SandboxName),
    Reused(SandboxName),
    Running {
        already: bool,
    },
    Sending(Progress),
    Arrived(Arrival),
    EnvFiles(Vec<String>),
    /// A file that matches, but is a link or a directory.
    NotSent(String),
    Key {
        made: bool,
    },
}

/// A sandbox with everything in place.
#[derive(Debug)]
pub struct Ready {
    pub sandbox: AgentSandbox,
    pub connection: Connection,
}

impl Workshop<'_> {
    /// `variable` gives the login variables of the host's environment.
    pub async fn arrive(
        &self,
        request: StartRequest,
        profile: &Profile,
        variable: &dyn Fn(&str) -> Option<String>,
        tell: &mut dyn FnMut(Step),
    ) -> Result<Ready, AgentError> {
        let facts = Facts::gather(&self.git, &request.directory).await?;
        tell(Step::Repository {
            root: facts.root.as_path().to_owned(),
            branch: facts.branch.to_string(),
            commit: facts.head.short().to_owned(),
        });
        facts.limits.iter().for_each(|limit| tell(Step::Limit(limit.told())));
        if !facts.changes.is_empty() {
            if !request.allow_dirty {
                return Err(AgentError::Uncommitted { root: facts.root, changes: facts.changes });
            }
            tell(Step::LeftBehind { changes: facts.changes.len() });
        }
        let sandbox = self.create_or_reuse(&request, profile, &facts, tell).await?;
        let started = self.engine.start(sandbox.row.id().as_str()).await?;
        tell(Step::Running { already: started == Started::Already });
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        self.send(&sandbox, &connection, &facts, tell).await?;
        send_env_files(&connection, &facts, &request.env_files, tell).await?;
        furnish(&connection, profile, variable, tell).await?;
        Ok(Ready { sandbox, connection })
    }

    /// The sandbox of an earlier start, if it is this repository's.
    pub async fn earlier(&self, request: &StartRequest) -> Result<Option<AgentSandbox>, AgentError> {
        let facts = Facts::gather(&self.git, &request.directory).await?;
        let name = self.name(request, &facts)?;
        match self.engine.store()?.find(name.as_str()) {
            Ok(row) => self.of_repository(row.id().as_str(), &facts).map(Some),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    fn name(&self, request: &StartRequest, facts: &Facts) -> Result<SandboxName, AgentError> {
        let given = request.name.clone();
        given
            .or_else(|| name_for(facts.root.as_path()))
            .ok_or_else(|| AgentError::NoName { root: facts.root.clone() })
    }

    fn of_repository(&self, id: &str, facts: &Facts) -> Result<AgentSandbox, AgentError> {
        let known = self.find(id)?;
        if known.record.repository != facts.root {
            return Err(AgentError::OtherRepository { name: known.row.name, other: known.record.repository });
        }
        Ok(known)
    }

    async fn create_or_reuse(
        &self,
        request: &StartRequest,
        profile: &Profile,
        facts: &Facts,
        tell: &mut dyn FnMut(Step),
    ) -> Result<AgentSandbox, AgentError> {
        let name = self.name(request, facts)?;
        let record = Record::new(facts.root.clone(), &facts.branch, &profile.name);
        let row = match self.engine.store()?.find(name.as_str()) {
            Ok(row) => {
                self.of_repository(row.id().as_str(), facts)?;
                tell(Step::Reused(name));
                row
            }
            Err(StoreError::NotFound { .. }) => {
                let wanted = CreateRequest {
                    name: name.clone(),
                    method: request.method,
                    policy: request.policy.clone(),
                    foundation: request.foundation.clone(),
                };
                let row = self.engine.create(wanted).await?;
                tell(Step::Created(name));
                row
            }
            Err(error) => return Err(EngineError::from(error).into()),
        };
        if let Some(dir) = &row.spec.dir {
            record.write(dir).map_err(AgentError::io("record the agent's sandbox"))?;
        }
        Ok(AgentSandbox { row, record })
    }

    /// The host's branch goes in; the working branch follows where nothing is in the way.
    async fn send(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        facts: &Facts,
        tell: &mut dyn FnMut(Step),
    ) -> Result<(), AgentError> {
        let tree = tree(connection, &connection.layout.workspace);
        let Identity { name, email } = &facts.identity;
        tree.prepare(&facts.branch, name, email).await?;
        let link = self.link(&sandbox.row, &connection.layout);
        facts.repository.push_to(&link, &facts.branch, |progress| tell(Step::Sending(progress))).await?;
        tell(Step::Arrived(tree.arrive(&facts.branch).await?));
        Ok(())
    }
}

/// Whether a program is found inside.
pub async fn has_program(connection: &Connection, program: &str) -> Result<bool, AgentError> {
    let script = "command -v -- \"$1\" >/dev/null && echo yes || echo no";
    Ok(run_inside(connection, "looking for the agent", script, &[program.to_owned()]).await?.trim() == "yes")
}

/// The repository's directory as a name, with what a name cannot have left out.
fn name_for(root: &Path) -> Option<SandboxName> {
    let directory = root.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut text = String::new();
    for c in directory.chars() {
        match c {
            'a'..='z' | '0'..='9' => text.push(c),
            _ if text.ends_with('-') || text.is_empty() => {}
            _ => text.push('-'),
        }
    }
    text.truncate(40);
    SandboxName::new(text.trim_end_matches('-')).ok()
}

/// Files such as `.env` that git does not carry. They are counted and named; what is in them is nobody's business.
async fn send_env_files(
    connection: &Connection,
    facts: &Facts,
    patterns: &[String],
    tell: &mut dyn FnMut(Step),
) -> Result<(), AgentError> {
    let mut arguments: Vec<String> =
        ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"].map(str::to_owned).into();
    let specs = || patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
    arguments.extend(specs());
    let ignored = facts.repository.git(arguments).text().await?;
    let others = ["ls-files", "-z", "--others", "--exclude-standard", "--"].map(str::to_owned);
    let others = facts.repository.git(others.into_iter().chain(specs())).text().await?;
    let mut names: Vec<&str> =
        ignored.split('\0').chain(others.split('\0')).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let mut sent = Vec::new();
    for name in names {
        let path = facts.root.join(name);
        let is_file = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if !is_file {
            tell(Step::NotSent(palisade_core::printable(name)));
            continue;
        }
        copy_in(&connection.client, path.as_path(), &format!("{}/{name}", connection.layout.workspace))
            .await?;
        sent.push(name.to_owned());
    }
    if !sent.is_empty() {
        run_inside(connection, "keeping them out of commits", include_str!("exclude.sh"), &sent).await?;
    }
    tell(Step::EnvFiles(sent));
    Ok(())
}

/// A key of the sandbox's own, and the files that keep the agent from asking at its first start.
async fn furnish(
    connection: &Connection,
    profile: &Profile,
    variable: &dyn Fn(&str) -> Option<String>,
    tell: &mut dyn FnMut(Step),
) -> Result<(), AgentError> {
    let said = run_inside(connection, "making a key", include_str!("key.sh"), &[]).await?;
    tell(Step::Key { made: said.trim() == "made" });
    for file in &profile.home {
        let words = [file.path.clone(), file.rendered(variable)];
        run_inside(connection, "writing the agent's settings", include_str!("home.sh"), &words).await?;
    }
    Ok(())
}

async fn run_inside(
    connection: &Connection,
    what: &'static str,
    script: &str,
    words: &[String],
) -> Result<String, AgentError> {
    let layout = &connection.layout;
    let mut argv: Vec<Vec<u8>> = ["sh", "-c", script, "palisade"].map(|word| word.as_bytes().to_vec()).into();
    argv.extend(words.iter().map(|word| word.as_bytes().to_vec()));
    let variables = layout.environment.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
    let request = ExecRequest {
        argv,
        env: variables.collect(),
        cwd: layout.workspace.clone().into_bytes(),
        ..ExecRequest::default()
    };
    let failed = |said: String| palisade_workspace::InsideError::Failed { what, said };
    let output = connection.client.exec_collect(request, 1 << 20).await;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.exit != Exit::Code(0) {
        return Err(failed(palisade_core::printable(String::from_utf8_lossy(&output.stderr).trim())).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_a_name() {
        for (directory, name) in
            [("/src/My Project!", "my-project"), ("/src/web_app", "web-app"), ("/src/-x-", "x")]
        {
            assert_eq!(name_for(Path::new(directory)).unwrap().as_str(), name, "{directory}");
        }
        assert_eq!((name_for(Path::new("/src/日本")), name_for(Path::new("/"))), (None, None));
        assert_eq!(name_for(Path::new(&format!("/{}", "x".repeat(99)))).unwrap().as_str().len(), 40);
    }
}
