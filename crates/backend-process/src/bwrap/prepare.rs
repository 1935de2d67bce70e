//! From a sandbox's specification to a launch of bwrap: the I/O between the policy and the pure plan.

use super::facts::{HostFacts, may_be_copied};
use super::opened::OpenedPaths;
use super::plan::{
    Bind, FileContent, GUEST, Place, PlanInput, PlannedFile, is_system_path, nul_separated, plan,
};
use crate::ProcessConfig;
use crate::stage::{Source, stage};
use crate::warden::Launch;
use palisade_core::backend::require_objects;
use palisade_core::objects::OBJECTS;
use palisade_core::policy::{HOME, WORKSPACE};
use palisade_core::{Access, BackendError, GitBind, GuestPath, HostPath, Root, SandboxSpec, Workspace};
use palisade_host::bound_path;
use palisade_host::fault::Step;
use palisade_host::fence::{self, DirectoryLock, Journal};
use palisade_host::marked;
use palisade_host::process;
use palisade_host::tree::{Target, make_target};
use palisade_seccomp::{self as seccomp, SetIdBits};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is held while the sandbox runs and given back when it ends.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub locks: Vec<DirectoryLock>,
    pub journals: Vec<Journal>,
}

impl Held {
    pub(super) fn release(&mut self) {
        for journal in self.journals.drain(..) {
            journal.end();
        }
        self.locks.clear();
    }
}

/// A sandbox's binds, resolved and checked on the host.
#[derive(Debug)]
pub(super) struct Resolved {
    home: Place,
    workspace: Place,
    /// A system other than the host's.
    root: Option<HostPath>,
    binds: Vec<Bind>,
    fence: Vec<Bind>,
    /// Hosts paths whose owner is to be mapped to the sandbox's when started by root.
    foreign: Vec<HostPath>,
    /// What the user's paths lead to.
    opened: OpenedPaths,
}

/// Checks and resolves everything of the host that the policy names; takes locks and makes the fences.
pub(super) fn resolve(
    config: &ProcessConfig,
    spec: &SandboxSpec,
    held: &mut Held,
) -> Result<Resolved, BackendError> {
    let policy = &spec.policy;
    let own = |name: &str, guest: &str| match &spec.dir {
        Some(dir) => Place::Directory(Bind::named(dir.path().join(name), guest, Access::ReadWrite)),
        None => Place::Memory,
    };
    let home = match &policy.kept_home {
        Some(home) => Place::Directory(Bind::named(home.clone(), HOME, Access::ReadWrite)),
        None => own("home", HOME),
    };
    let mut opened = OpenedPaths::default();
    let mut resolved = Resolved {
        home,
        workspace: own("workspace", WORKSPACE),
        root: root(config, spec, &mut opened)?,
        binds: Vec::new(),
        fence: Vec::new(),
        foreign: Vec::new(),
        opened,
    };
    if let Workspace::Bound { host, access } = &policy.workspace {
        let host = host_path(config, spec, host, &mut resolved.opened)?;
        require_directory(&host)?;
        if *access == Access::ReadWrite {
            guard(config, spec, &host, WORKSPACE, held, &mut resolved)?;
        }
        resolved.foreign.push(host.clone());
        resolved.workspace = Place::Directory(Bind::named(host, WORKSPACE, *access));
    } else if policy.workspace == Workspace::Scratch {
        resolved.workspace = Place::Memory;
    }
    for shown in policy.tools.iter().chain(&policy.programs) {
        let host = host_path(config, spec, shown, &mut resolved.opened)?;
        let guest = own_path_inside(shown)?;
        prepare_target(spec, &resolved, &host, &guest)?;
        resolved.binds.push(Bind::named(host, guest.as_str(), Access::ReadOnly));
    }
    for mount in &policy.mounts {
        let host = host_path(config, spec, &mount.host, &mut resolved.opened)?;
        if let Some(reason) = policy.obstacle_at(&mount.guest) {
            let fix = "choose another mount target".into();
            return Err(BackendError::HostDirectory { path: host.to_string(), reason, fix });
        }
        prepare_target(spec, &resolved, &host, &mount.guest)?;
        if mount.access == Access::ReadWrite && host.as_path().is_dir() {
            guard(config, spec, &host, mount.guest.as_str(), held, &mut resolved)?;
        }
        resolved.foreign.push(host.clone());
        resolved.binds.push(Bind::named(host, mount.guest.as_str(), mount.access));
    }
    if let Some(host) = require_objects(spec, &config.state)? {
        resolved.binds.push(Bind::named(host, OBJECTS, Access::ReadOnly));
    }
    Ok(resolved)
}

/// Opens the place that is recorded for a path of the user's, which may be shown; its path without links.
fn host_path(
    config: &ProcessConfig,
    spec: &SandboxSpec,
    path: &HostPath,
    opened: &mut OpenedPaths,
) -> Result<HostPath, BackendError> {
    let refuse = |reason: String, fix: &str| BackendError::HostDirectory {
        path: path.to_string(),
        reason,
        fix: fix.into(),
    };
    let place = bound_path::open(spec, path)?;
    let real = place.real.clone();
    let state = std::fs::canonicalize(&config.state).unwrap_or_else(|_| config.state.as_path().to_owned());
    let is_in_state = real.as_path().starts_with(&state) && !spec.is_own_copy(&real);
    if state.starts_with(&real) || is_in_state {
        return Err(refuse(
            format!("Palisade's own state in {} would be visible inside", state.display()),
            "bind the project's directory itself, not one above it",
        ));
    }
    opened.push(place);
    Ok(real)
}

/// The directory that stands as the root, when it is not the host's own. It is named by its real path: a link on the
/// way could lead elsewhere by the time it is used.
fn root(
    config: &ProcessConfig,
    spec: &SandboxSpec,
    opened: &mut OpenedPaths,
) -> Result<Option<HostPath>, BackendError> {
    let Root::Directory { path } = &spec.foundation.root else { return Ok(None) };
    let refuse = |reason: &str, fix: &str| BackendError::HostDirectory {
        path: path.to_string(),
        reason: reason.into(),
        fix: fix.into(),
    };
    let real = host_path(config, spec, path, opened)?;
    if real != *path {
        return Err(refuse("a symbolic link leads to it", "name the directory itself in the environment"));
    }
    if !real.as_path().is_dir() {
        return Err(refuse("it is not a directory", "name a directory that holds a whole system"));
    }
    Ok(Some(real))
}

/// Where something of the host's stands inside when it keeps its path.
fn own_path_inside(path: &HostPath) -> Result<GuestPath, BackendError> {
    let refuse = |reason: String| BackendError::HostDirectory {
        path: palisade_core::printable(&path.to_string()),
        reason,
        fix: "give it a plain path, or show it under another one with --mount".into(),
    };
    let text = path.as_path().to_str().ok_or_else(|| refuse("its path is not text".into()))?;
    GuestPath::new(text).map_err(|error| refuse(error.to_string()))
}

fn require_directory(host: &HostPath) -> Result<(), BackendError> {
    if host.as_path().is_dir() {
        return Ok(());
    }
    Err(BackendError::HostDirectory {
        path: host.to_string(),
        reason: "it is not a directory".into(),
        fix: "give a directory with -w, or a file with --mount".into(),
    })
}

/// Lock and fence for a writable host directory.
fn guard(
    config: &ProcessConfig,
    spec: &SandboxSpec,
    host: &HostPath,
    guest: &str,
    held: &mut Held,
    resolved: &mut Resolved,
) -> Result<(), BackendError> {
    held.locks.push(DirectoryLock::take(host)?);
    crate::step(Step::FenceLocked)?;
    // What a killed run left there would pass for the user's own, and could not be told from it later.
    let journals = config.state.join("fences");
    Journal::settle(&journals, host);
    let private = spec.git.iter().find(|git| git.directory == *host);
    let plan = fence::survey(host, private)?;
    let name = format!("{}-{}", spec.id, held.journals.len());
    held.journals.extend(Journal::begin(&journals, &name, host, plan.placeholders)?);
    crate::step(Step::FenceMade)?;
    for (relative, access) in plan.binds {
        let inside = format!("{guest}/{}", relative.display());
        let host = host.join(relative);
        resolved.foreign.push(host.clone());
        resolved.fence.push(Bind::named(host, inside, access));
    }
    for GitBind { host, guest, access, of_owner } in private.iter().flat_map(|git| git.binds.clone()) {
        if of_owner {
            resolved.foreign.push(host.clone());
        }
        resolved.fence.push(Bind::named(host, guest, access));
    }
    Ok(())
}

/// bwrap makes what it mounts on, and follows links there while the host is still in reach. So nothing may be shown at
/// or below what comes from a root that somebody else has made.
fn require_free_places(
    facts: &HostFacts,
    resolved: &Resolved,
    spec: &SandboxSpec,
) -> Result<(), BackendError> {
    if resolved.root.is_none() {
        return Ok(());
    }
    let opt = spec.policy.opt.then_some("/opt");
    let places = resolved.binds.iter().map(|bind| bind.guest.as_str()).chain(opt);
    match places.into_iter().find(|place| facts.covers(place)) {
        None => Ok(()),
        Some(place) => Err(BackendError::HostDirectory {
            path: place.to_owned(),
            reason: "the environment's root has something of its own there".into(),
            fix: "show it at another place with --mount HOST:GUEST, or leave it out".into(),
        }),
    }
}

/// A mount's target below the sandbox's own directories is made by us, link-free; below a bound directory it would
/// have to be made in the user's own files, so it is refused.
fn prepare_target(
    spec: &SandboxSpec,
    resolved: &Resolved,
    source: &HostPath,
    target: &GuestPath,
) -> Result<(), BackendError> {
    let refuse = |reason: String| BackendError::HostDirectory {
        path: source.to_string(),
        reason,
        fix: "choose a mount target outside /workspace and /home/agent".into(),
    };
    for (place, base) in [(&resolved.home, HOME), (&resolved.workspace, WORKSPACE)] {
        let Ok(relative) = Path::new(target.as_str()).strip_prefix(base) else { continue };
        let Place::Directory(bind) = place else { continue };
        let in_sandbox = spec.dir.as_ref().is_some_and(|dir| bind.host.as_path().starts_with(dir.path()));
        if !in_sandbox && spec.policy.kept_home.as_ref() != Some(&bind.host) {
            return Err(refuse(format!(
                "its target {target} lies in a directory of the host's that is bound at {base}"
            )));
        }
        let kind = if source.as_path().is_dir() { Target::Directory } else { Target::File };
        make_target(bind.host.as_path(), relative, kind, (spec.identity.uid, spec.identity.gid))
            .map_err(|error| refuse(format!("its target {target} cannot be made: {error}")))?;
    }
    Ok(())
}

/// What the guest is started for.
#[derive(Debug)]
pub(super) enum Role {
    /// To look around and leave.
    Check,
    /// To serve at a stream; bwrap tells at `info`, when it is asked to, which process it became.
    Serve { stream: OwnedFd, info: Option<OwnedFd> },
}

/// The launch of bwrap. Runs on the warden's thread, since it may take a private mount namespace.
pub(super) fn launch(
    config: &ProcessConfig,
    bwrap: PathBuf,
    spec: &SandboxSpec,
    mut resolved: Resolved,
    role: Role,
) -> Result<Launch, BackendError> {
    let root = rustix::process::geteuid().is_root();
    let mut guest = config.guest.clone();
    let expectations = resolved.opened.expectations(&resolved.workspace, &resolved.binds);
    if root {
        stage_all(&mut resolved, &mut guest, spec)?;
    }
    let workspace = match &mut resolved.workspace {
        Place::Directory(bind) => Some(bind),
        Place::Memory => None,
    };
    let binds = workspace.into_iter().chain(&mut resolved.binds);
    let mut descriptors = resolved.opened.name_descriptors(config, &bwrap, binds)?;
    let facts = match &resolved.root {
        None => HostFacts::gather(),
        Some(root) => HostFacts::of_root(root.as_path()).map_err(|error| BackendError::HostDirectory {
            path: spec.foundation.root.shown(),
            reason: error.to_string(),
            fix: "name a directory that holds a whole system, such as mmdebstrap makes".into(),
        })?,
    };
    require_free_places(&facts, &resolved, spec)?;
    let hostname = spec.name.as_ref().map_or("sandbox", |name| name.as_str());
    let plan = plan(&PlanInput {
        facts: &facts,
        guest_binary: &guest,
        hostname,
        home: resolved.home,
        workspace: resolved.workspace,
        root: resolved.root,
        binds: resolved.binds,
        fence: resolved.fence,
        opt: spec.policy.opt,
        network: spec.policy.network,
        tmp: spec.policy.resources.tmp,
    });
    let bits = if spec.policy.writes_host() { SetIdBits::Denied } else { SetIdBits::Allowed };
    let filter = seccomp::program(bits).map_err(|error| BackendError::Io {
        what: "prepare the sandbox".into(),
        source: std::io::Error::other(error),
    })?;

    let mut pass = |descriptor: OwnedFd| -> OsString {
        let number = descriptor.as_raw_fd().to_string();
        descriptors.push(descriptor);
        number.into()
    };
    let mut options = plan.options;
    let command: Vec<OsString> = match role {
        Role::Check => vec!["selfcheck".into()],
        Role::Serve { stream, info } => {
            if let Some(info) = info {
                options.extend(["--info-fd".into(), pass(info)]);
            }
            let mut words = vec!["serve".into(), "--fd".into(), pass(stream)];
            words.extend(expectations);
            words
        }
    };
    options.extend(["--seccomp".into(), pass(memory_file("seccomp", &filter)?)]);
    for file in &plan.files {
        let Some(number) = open_file(file)?.map(&mut pass) else { continue };
        options.extend([
            "--perms".into(),
            format!("{:04o}", file.mode).into(),
            "--file".into(),
            number,
            OsString::from(&file.guest),
        ]);
    }
    options.extend(plan.closing);
    let arguments = pass(memory_file("arguments", &nul_separated(&options))?);
    let mut words: Vec<OsString> = vec!["--args".into(), arguments, "--".into(), GUEST.into()];
    words.extend(command);
    Ok(Launch {
        program: bwrap,
        name: Some(marked::launcher_name(&process::this_process()).into()),
        arguments: words,
        descriptors,
        detour: None,
        identity: root.then_some(spec.identity),
    })
}

/// Replaces each host path by a staged one that the sandbox's uid can reach.
fn stage_all(resolved: &mut Resolved, guest: &mut HostPath, spec: &SandboxSpec) -> Result<(), BackendError> {
    let foreign = resolved.foreign.clone();
    let mut slots: Vec<&mut HostPath> = vec![guest];
    for place in [&mut resolved.home, &mut resolved.workspace] {
        if let Place::Directory(bind) = place {
            slots.push(&mut bind.host);
        }
    }
    slots.extend(&mut resolved.root);
    slots.extend(resolved.binds.iter_mut().chain(&mut resolved.fence).map(|bind| &mut bind.host));
    slots.retain(|path| {
        !is_system_path(path.as_path()) && (foreign.contains(path) || !is_public(path.as_path()))
    });
    // A one-off run of an installed Palisade needs nothing of the kind, and a mount namespace less to make and end.
    if slots.is_empty() {
        return Ok(());
    }
    let sources: Vec<Source> = slots
        .iter()
        .map(|path| Source {
            host: (**path).clone(),
            map_owner: foreign.contains(path),
            opened: resolved.opened.find(path).map(|opened| (opened.device, opened.inode)),
        })
        .collect();
    for (slot, staged) in slots.into_iter().zip(stage(&sources, spec.identity)?) {
        *slot = staged;
    }
    Ok(())
}

/// Whether any user can reach and execute a file: then bwrap can, whoever it runs as.
fn is_public(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const READ_AND_EXECUTE: u32 = 0o005;
    const SEARCH: u32 = 0o001;
    let has = |path: &Path, bits: u32| {
        std::fs::symlink_metadata(path)
            .is_ok_and(|meta| !meta.is_symlink() && meta.permissions().mode() & bits == bits)
    };
    path.is_file() && has(path, READ_AND_EXECUTE) && path.ancestors().skip(1).all(|above| has(above, SEARCH))
}

/// What bwrap reads a file's content from. A file of the host's that has gone meanwhile, or that not everybody may read any
/// more, is left out: we may be root, and read nothing for the sandbox that it could not read itself.
pub fn open_file(file: &PlannedFile) -> Result<Option<OwnedFd>, BackendError> {
    let path = match &file.content {
        FileContent::Text(text) => return memory_file("file", text.as_bytes()).map(Some),
        FileContent::Host(path) => path,
    };
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path.as_path(), flags, Mode::empty()) {
        Ok(opened) => std::fs::File::from(opened),
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(BackendError::io(format!("open {path}"))(error.into())),
    };
    let meta = opened.metadata().map_err(BackendError::io(format!("look at {path}")))?;
    Ok(may_be_copied(&meta).then(|| opened.into()))
}

fn memory_file(name: &str, bytes: &[u8]) -> Result<OwnedFd, BackendError> {
    use std::io::{Seek, Write};
    let make = || -> std::io::Result<OwnedFd> {
        let mut file = std::fs::File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(file.into())
    };
    make().map_err(BackendError::io("prepare a file for the sandbox"))
}
