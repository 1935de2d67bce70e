//! Making a wrapper: all of it under a name that tells who is at it, then one rename.

use super::error::WrapperError;
use super::paths::write_paths;
use super::record::{Home, Record, Surroundings, VERSION, Variable};
use super::removal::discard;
use super::script::script;
use super::word::Word;
use super::{HOME, MAKING, RECORD, directory};
use crate::engine::{Engine, new_id, now};
use crate::error::EngineError;
use palisade_core::{BoundPath, Foundation, HostIdentity, HostPath, Method, Origin, Policy, SandboxId};
use palisade_host::fault::Step;
use palisade_host::process;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// In a wrapper's own directory: the script, unless it stands elsewhere.
pub(super) const SCRIPT: &str = "bin";

#[derive(Debug, Clone)]
pub struct WrapRequest {
    pub method: Method,
    pub origin: Origin,
    pub policy: Policy,
    pub foundation: Foundation,
    /// The command as it is called inside.
    pub command: Vec<Word>,
    /// The name of the script, which is the command's own.
    pub name: OsString,
    pub variables: Vec<Variable>,
    pub search: Vec<String>,
    pub home: Home,
    /// Where the script shall stand, when not in the state directory.
    pub output: Option<HostPath>,
    /// This program.
    pub launcher: HostPath,
    pub surroundings: Surroundings,
}

impl Engine {
    pub fn make_wrapper(&self, request: WrapRequest) -> Result<Record, EngineError> {
        // Makes the state directory, too.
        self.owner()?;
        let _lease = self.lease(None);
        let id = new_id().map_err(EngineError::io("make an id"))?;
        let wrappers = directory(&self.config.state);
        make_directory(wrappers.as_path())?;
        let wrappers = canonical(wrappers.as_path())?;
        let place = wrappers.join(id.as_str());
        let label = process::label(&process::this_process());
        let making = wrappers.join(format!("{MAKING}{label}.{id}"));
        let record = self.record(request, id, &place)?;
        let paths = self.record_paths(&record.policy, &record.foundation)?;
        self.note_missing_handles(&paths);
        let made = make(&record, &paths, &making, &place);
        if made.is_err()
            && let Err(failure) = discard(&making)
        {
            tracing::warn!(%failure, "a failed wrapper was not undone");
        }
        made?;
        let path = record.path.lossy();
        tracing::debug!(sandbox.select = %record.method, origin = %record.origin, path, "wrapper made");
        Ok(record)
    }

    fn record(&self, request: WrapRequest, id: SandboxId, place: &HostPath) -> Result<Record, EngineError> {
        let path = match &request.output {
            Some(output) => output_path(output)?,
            None => place.join(SCRIPT).join(&request.name),
        };
        let mut policy = request.policy;
        policy.kept_home = (request.home == Home::Kept).then(|| place.join(HOME));
        Ok(Record {
            version: VERSION,
            identity: self.uid_base().filter(|_| request.home == Home::Kept).map(|base| identity(base, &id)),
            id,
            directory: Word::from(place.as_path().as_os_str()),
            path: Word::from(path.as_path().as_os_str()),
            launcher: Word::from(request.launcher.as_path().as_os_str()),
            method: request.method,
            origin: request.origin,
            policy,
            foundation: request.foundation,
            command: request.command,
            variables: request.variables,
            search: request.search,
            home: request.home,
            surroundings: request.surroundings,
            created_at: now(),
        })
    }
}

/// One of the uids above those of one-off runs, which have one for every process number. Should two wrappers share one,
/// each still has its home behind a directory that only root can enter.
fn identity(base: u32, id: &SandboxId) -> HostIdentity {
    const PROCESS_NUMBERS: u32 = 1 << 22;
    let mixed = id.as_str().bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let uid = base
        .saturating_add(crate::engine::ONE_OFF_UIDS)
        .saturating_add(PROCESS_NUMBERS + 1)
        .saturating_add(mixed % PROCESS_NUMBERS);
    HostIdentity { uid, gid: uid }
}

fn make(
    record: &Record,
    paths: &[BoundPath],
    making: &HostPath,
    place: &HostPath,
) -> Result<(), EngineError> {
    make_directory(making.as_path())?;
    let json = serde_json::to_vec_pretty(record)
        .map_err(|error| EngineError::io("write a wrapper's record")(error.into()))?;
    write(making.join(RECORD).as_path(), &json, 0o600)?;
    write_paths(making, paths)?;
    EngineError::step(Step::WrapRecorded)?;
    if record.home == Home::Kept {
        let home = making.join(HOME);
        make_directory(home.as_path())?;
        if let Some(owner) = record.identity {
            std::os::unix::fs::chown(&home, Some(owner.uid), Some(owner.gid))
                .map_err(EngineError::io(format!("give {home} to the sandbox's uid")))?;
        }
    }
    let text = script_of(record);
    let path = PathBuf::from(record.path.clone());
    match path.strip_prefix(place) {
        Ok(relative) => {
            make_directory(making.join(SCRIPT).as_path())?;
            write(making.join(relative).as_path(), &text, 0o700)?;
        }
        Err(_) => put(&path, &aside(&path, record), &text)?,
    }
    EngineError::step(Step::WrapWritten)?;
    std::fs::rename(making, place).map_err(EngineError::io(format!("rename {making}")))
}

/// The script of a record, byte for byte.
pub(super) fn script_of(record: &Record) -> Vec<u8> {
    script(&OsString::from(record.launcher.clone()), &OsString::from(record.directory.clone()))
}

/// The name under which a script is written beside its place.
pub(super) fn aside(path: &Path, record: &Record) -> PathBuf {
    path.with_file_name(format!(".palisade-{}", record.id))
}

/// A file that is there whole or not at all, and never in the place of another.
fn put(path: &Path, aside: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    write(aside, bytes, 0o700)?;
    let linked = std::fs::hard_link(aside, path);
    let cleared = std::fs::remove_file(aside);
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(WrapperError::Exists(path.display().to_string()).into())
        }
        other => other.and(cleared).map_err(EngineError::io(format!("write {}", path.display()))),
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), EngineError> {
    let written = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(bytes)?;
        file.sync_data()
    };
    written().map_err(EngineError::io(format!("write {}", path.display())))
}

fn make_directory(path: &Path) -> Result<(), EngineError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(EngineError::io(format!("make {}", path.display())))
}

fn canonical(path: &Path) -> Result<HostPath, EngineError> {
    let failed = || EngineError::io(format!("open {}", path.display()));
    let real = std::fs::canonicalize(path).map_err(failed())?;
    HostPath::new(real).map_err(|error| failed()(std::io::Error::other(error)))
}

/// With the directory part free of links, so that it is found again by the same path.
fn output_path(output: &HostPath) -> Result<HostPath, EngineError> {
    match (output.parent(), output.as_path().file_name()) {
        (Some(parent), Some(name)) if name != OsStr::new("..") => Ok(canonical(parent.as_path())?.join(name)),
        _ => Err(WrapperError::Exists(output.to_string()).into()),
    }
}
