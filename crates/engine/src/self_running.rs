//! The report of what a sandbox has left in the host's directories that the host's own tools run by themselves.
//!
//! A baseline of each directory is taken while the sandbox comes up and is on disk, as `baselines/<id>.json`, before its
//! first command runs. When the sandbox has ended, the directories are compared with it; whoever puts a dead process's
//! sandbox in order does the same. The whole list is kept as `reports/*.txt`.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::gc::{GcAction, GcItem};
use crate::whole_file;
use palisade_core::{
    Access, HostPath, Method, Policy, PrivateGit, ProcessIdentity, SandboxId, SandboxSpec, Sharing,
    Workspace, printable,
};
use palisade_host::self_running::{Baseline, Report};
use palisade_host::{marked, process};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

const BASELINES: &str = "baselines";
const REPORTS: &str = "reports";
/// How long a report is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What is written down of a sandbox that can write directories of the host's.
#[derive(Debug, Serialize, Deserialize)]
struct BaselineRecord {
    owner: ProcessIdentity,
    method: Method,
    /// Its name, or that of a run without one.
    name: String,
    directories: Vec<Baseline>,
}

impl BoundDirectories {
    /// Tells the method which other repositories are in the directories: it would walk them again.
    pub(crate) fn name_repositories(&self, git: &mut [PrivateGit]) {
        for git in git.iter_mut().filter(|git| git.sharing == Sharing::WithHost) {
            let baseline = self.baselines.iter().find(|baseline| *baseline.directory() == git.directory);
            git.nested = baseline.map(Baseline::repositories);
        }
    }
}

/// The directories of a sandbox as they were before its first command.
#[derive(Debug, Default)]
pub(crate) struct BoundDirectories {
    baselines: Vec<Baseline>,
}

impl Engine {
    /// Looks at the directories that a sandbox will be able to write, on a thread of its own: large ones take as long as
    /// the rest of a start. `shared` is the policy without directories that are the sandbox's alone. `noop` isolates nothing, so
    /// there is nothing to compare.
    pub(crate) async fn take_baselines(&self, spec: &SandboxSpec, shared: &Policy) -> BoundDirectories {
        let directories = writable(shared);
        if directories.is_empty() || spec.method == Method::Noop {
            return BoundDirectories::default();
        }
        let (state, spec) = (self.config.state.join(BASELINES), spec.clone());
        let look = move || {
            let mut record = BaselineRecord {
                owner: process::this_process(),
                method: spec.method,
                name: name_of(&spec),
                directories: directories.iter().map(Baseline::take).collect(),
            };
            let written = write(&state, &spec.id, &record);
            (std::mem::take(&mut record.directories), written)
        };
        match tokio::task::spawn_blocking(look).await {
            Ok((baselines, written)) => {
                if let Err(error) = written {
                    (self.config.tell)(&format!(
                        "what this sandbox leaves will not be reported should Palisade be killed: {error}"
                    ));
                }
                BoundDirectories { baselines }
            }
            Err(error) => {
                (self.config.tell)(&format!("what this sandbox leaves will not be reported: {error}"));
                BoundDirectories::default()
            }
        }
    }

    /// What the user should know of the directories of a sandbox that has ended, by this process's own baselines.
    pub(crate) fn report_changes(&self, spec: &SandboxSpec, directories: &BoundDirectories) -> Vec<String> {
        if directories.baselines.is_empty() {
            return Vec::new();
        }
        self.finish_report(&spec.id, &name_of(spec), &directories.baselines)
    }

    /// As [`Engine::report_changes`], by what is written down: of a sandbox that ran long, or whose process has died.
    pub(crate) fn report_recorded_changes(&self, id: &SandboxId) -> Vec<String> {
        match read(&self.config.state.join(BASELINES), id) {
            Ok(None) => Vec::new(),
            Ok(Some(record)) => self.finish_report(id, &record.name, &record.directories),
            Err(error) => {
                self.forget_baselines(id);
                vec![format!("what sandbox {id} left in bound directories cannot be compared: {error}")]
            }
        }
    }

    fn finish_report(&self, id: &SandboxId, name: &str, baselines: &[Baseline]) -> Vec<String> {
        let reports: Vec<Report> =
            baselines.iter().map(Baseline::compare).filter(|report| !report.is_empty()).collect();
        let mut warnings = Vec::new();
        if !reports.is_empty() {
            let list = self.keep_report(name, id, &reports);
            if let Err(error) = &list {
                warnings.push(format!("the whole report cannot be kept: {error}"));
            }
            let list = list.ok();
            warnings.extend(reports.iter().flat_map(|report| report.warnings(list.as_deref())));
        }
        self.forget_baselines(id);
        warnings
    }

    fn keep_report(&self, name: &str, id: &SandboxId, reports: &[Report]) -> io::Result<PathBuf> {
        let directory = self.config.state.join(REPORTS);
        make_directory(&directory)?;
        let path = directory.join(format!("{name}-{}-{}.txt", id.short(), now()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        for report in reports {
            file.write_all(report.render().as_bytes())?;
        }
        Ok(path.into())
    }

    pub(crate) fn forget_baselines(&self, id: &SandboxId) {
        // Should it stay, the next collection compares once more.
        let _ = std::fs::remove_file(self.config.state.join(BASELINES).join(file_name(id)));
    }

    /// For a collection: reports on sandboxes whose process has died and that nothing else puts in order. Those of a
    /// method that could not be asked may still run, and wait.
    pub(crate) fn report_for_the_dead(
        &self,
        unasked: &[Method],
        dry_run: bool,
    ) -> Result<Vec<GcItem>, EngineError> {
        let mut items = Vec::new();
        let baselines = self.config.state.join(BASELINES);
        for id in recorded(&baselines) {
            let kept = matches!(self.store()?.by_id(&id), Ok(Some(row)) if row.state.has_keeper());
            let waits = match read(&baselines, &id) {
                Ok(Some(record)) => {
                    // What a dead process had started may be at work for another moment.
                    process::is_alive(&record.owner)
                        || unasked.contains(&record.method)
                        || !(dry_run || marked::end_launcher(&record.owner))
                }
                Ok(None) => true,
                Err(_) => false,
            };
            if kept || waits {
                continue;
            }
            items.push(GcItem::new(
                format!("missing report on directories that run {} could write", id.short()),
                GcAction::Finished,
            ));
            if !dry_run {
                self.report_recorded_changes(&id).iter().for_each(|text| (self.config.tell)(text));
            }
        }
        items.extend(self.remove_old_reports(dry_run));
        Ok(items)
    }

    fn remove_old_reports(&self, dry_run: bool) -> Vec<GcItem> {
        let Ok(files) = std::fs::read_dir(self.config.state.join(REPORTS)) else { return Vec::new() };
        let is_old = |file: &std::fs::DirEntry| {
            let written = file.metadata().and_then(|meta| meta.modified()).ok();
            written.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|age| age > KEPT)
        };
        let old = files.flatten().filter(is_old);
        old.filter(|file| dry_run || std::fs::remove_file(file.path()).is_ok())
            .map(|file| {
                let name = printable(&file.file_name().to_string_lossy());
                GcItem::new(format!("old report {name}"), GcAction::Removed)
            })
            .collect()
    }
}

/// The directories of the host's that code inside can write.
fn writable(policy: &Policy) -> Vec<HostPath> {
    let bound = match &policy.workspace {
        Workspace::Bound { host, access: Access::ReadWrite } => Some(host),
        _ => None,
    };
    let mounts =
        policy.mounts.iter().filter(|mount| mount.access == Access::ReadWrite).map(|mount| &mount.host);
    let directories = bound.into_iter().chain(mounts);
    // By their real paths: a link that is given may lead elsewhere later. One that leads nowhere is refused by the method.
    let real = |path: &HostPath| HostPath::new(std::fs::canonicalize(path).ok()?).ok();
    directories.filter_map(real).filter(|path| path.as_path().is_dir()).collect()
}

fn name_of(spec: &SandboxSpec) -> String {
    spec.name.as_ref().map_or_else(|| "run".to_owned(), ToString::to_string)
}

fn file_name(id: &SandboxId) -> String {
    format!("{id}.json")
}

fn make_directory(directory: &HostPath) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn write(directory: &HostPath, id: &SandboxId, record: &BaselineRecord) -> io::Result<()> {
    make_directory(directory)?;
    whole_file::write(directory, &file_name(id), &serde_json::to_vec(record)?)
}

fn read(directory: &HostPath, id: &SandboxId) -> io::Result<Option<BaselineRecord>> {
    match std::fs::read(directory.join(file_name(id))) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Those that have a baseline. One that was being written when its process died was of a sandbox that never ran.
fn recorded(directory: &HostPath) -> Vec<SandboxId> {
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let id =
        |file: std::fs::DirEntry| SandboxId::parse(file.file_name().to_str()?.strip_suffix(".json")?).ok();
    files.flatten().filter_map(id).collect()
}
