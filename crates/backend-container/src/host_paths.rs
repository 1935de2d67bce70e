//! What a sandbox is shown of the host's own files. An engine on another machine has none of them: tools are sent to
//! it, and what is meant to be this machine's own is refused.
//!
//! A directory that it may write belongs to somebody, and that is whom everything inside runs as; never root, since an
//! engine maps no owner to another. Who it is otherwise is decided in [`crate::host_users`]. The directory is locked and fenced as for every method, and both last only as long
//! as the process that has them: such a sandbox ends with its keeper.

use crate::ContainerConfig;
use crate::client::Client;
use crate::environment::Variables;
use crate::labels;
use crate::plan::{Bind, Dialect, Place, User};
use crate::stream::FarEnd;
use crate::tree::Tree;
use palisade_core::backend::require_objects;
use palisade_core::objects::OBJECTS;
use palisade_core::policy::WORKSPACE;
use palisade_core::{Access, BackendError, GuestPath, HostPath, SandboxSpec, Workspace};
use palisade_host::bound_path::{self, OpenedPath};
use palisade_host::fence::{self, DirectoryLock, Journal};
use palisade_protocol::ExpectedMount;
use std::cell::RefCell;
use std::io;
use std::os::unix::fs::MetadataExt;

/// A sandbox's places as they are mounted.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) home: Place,
    pub(crate) workspace: Place,
    /// Tools and mounts, and after them the fences' carve-outs.
    pub(crate) binds: Vec<Bind>,
    /// Tools that must be sent to the engine.
    pub(crate) trees: Vec<Tree>,
    /// Who owns what can be written.
    pub(crate) owner: Option<User>,
    /// Who owns what is only shown, where others cannot read it.
    pub(crate) reader: Option<User>,
    /// Whom everything inside runs as, once that was decided.
    pub(crate) user: User,
    /// What the user's paths lead to.
    pub(crate) opened: Vec<OpenedPath>,
}

impl Places {
    /// What the guest must find mounted. An engine mounts by name, and a name can lead elsewhere by then.
    pub(crate) fn expected_mounts(&self) -> Vec<ExpectedMount> {
        let workspace = match &self.workspace {
            Place::Host(host, _) => Some((host, WORKSPACE)),
            Place::Volume(_) | Place::Memory => None,
        };
        let binds = self.binds.iter().map(|bind| (&bind.host, bind.guest.as_str()));
        let expected = |(host, guest): (&HostPath, &str)| {
            let opened = self.opened.iter().find(|opened| opened.real == *host)?;
            Some(ExpectedMount { device: opened.device, inode: opened.inode, path: guest.to_owned() })
        };
        workspace.into_iter().chain(binds).filter_map(expected).collect()
    }
}

/// What is held while the sandbox runs and given back when it ends.
#[derive(Debug, Default)]
pub(crate) struct Held {
    locks: Vec<DirectoryLock>,
    journals: Vec<Journal>,
    /// The guest at the other end of the attachment, once there is one.
    pub(crate) guest: Option<FarEnd>,
    /// What the image says its programs find.
    pub(crate) image_environment: Variables,
}

impl Held {
    pub(crate) fn release(&mut self) {
        for journal in self.journals.drain(..) {
            journal.end();
        }
        self.locks.clear();
    }
}

/// Checks and resolves everything of the host that the policy names, and changes nothing.
pub(crate) fn resolve(
    client: &Client,
    config: &ContainerConfig,
    spec: &SandboxSpec,
) -> Result<Places, BackendError> {
    let policy = &spec.policy;
    let host = Host { client, config, spec, opened: RefCell::default() };
    let own = |volume: String| if spec.dir.is_some() { Place::Volume(volume) } else { Place::Memory };
    let home = match &policy.kept_home {
        // In our own state, so it is looked at no further.
        Some(home) => {
            host.require_sight_of(home)?;
            Place::Host(home.clone(), Access::ReadWrite)
        }
        None => own(labels::home_volume(&spec.id)),
    };
    let workspace = match &policy.workspace {
        Workspace::Own => own(labels::workspace_volume(&spec.id)),
        Workspace::Scratch => Place::Memory,
        Workspace::Bound { host: path, access } => Place::Host(host.directory(path)?, *access),
    };
    let (mut binds, mut trees) = (Vec::new(), Vec::new());
    let opt = policy.opt.then(|| HostPath::new("/opt").ok()).flatten();
    for shown in policy.tools.iter().chain(&policy.programs).chain(&opt) {
        let guest = host.own_path_inside(shown)?;
        if client.endpoint.is_local() {
            binds.push(Bind { host: host.real(shown)?, guest, access: Access::ReadOnly });
        } else {
            trees.push(Tree { root: host.sendable(shown, &guest)?, guest });
        }
    }
    for mount in &policy.mounts {
        if let Some(reason) = policy.obstacle_at(&mount.guest) {
            return Err(Host::refuse(&mount.host, reason, "choose another mount target"));
        }
        host.require_sight_of(&mount.host)?;
        let guest = mount.guest.to_string();
        binds.push(Bind { host: host.real(&mount.host)?, guest, access: mount.access });
    }
    if let Some(host) = require_objects(spec, &config.state)? {
        if client.endpoint.is_local() {
            binds.push(Bind { host, guest: OBJECTS.into(), access: Access::ReadOnly });
        } else {
            let real =
                std::fs::canonicalize(&host).and_then(|real| HostPath::new(real).map_err(io::Error::other));
            let root = real.map_err(BackendError::io(format!("open {host}")))?;
            trees.push(Tree { root, guest: OBJECTS.into() });
        }
    }
    let opened = host.opened.take();
    let user = User::default();
    let mut places = Places { home, workspace, binds, trees, owner: None, reader: None, user, opened };
    if client.dialect != Dialect::RootlessPodman {
        places.owner = host.owner(&places)?;
        places.reader = reader(&places);
    }
    Ok(places)
}

/// The owner of something of the user's that is shown and that others cannot read. Of several, the first: nothing that
/// can be read is refused.
fn reader(places: &Places) -> Option<User> {
    let closed = |opened: &OpenedPath| {
        let meta = std::fs::metadata(&opened.real).ok()?;
        let needed = if meta.is_dir() { 0o005 } else { 0o004 };
        let is_closed = meta.uid() != 0 && meta.mode() & needed != needed;
        is_closed.then(|| User { uid: meta.uid(), gid: meta.gid() })
    };
    places.opened.iter().find_map(closed)
}

/// Makes the directory of a home that is kept the user's. What is in it was made by the same user.
fn hand_over(home: &HostPath, user: User) -> Result<(), BackendError> {
    let what = || format!("give {home} to the sandbox's user");
    let meta = std::fs::symlink_metadata(home).map_err(BackendError::io(what()))?;
    if (meta.uid(), meta.gid()) == (user.uid, user.gid) || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    std::os::unix::fs::lchown(home, Some(user.uid), Some(user.gid)).map_err(BackendError::io(what()))
}

/// Locks and fences what can be written, and adds the carve-outs.
pub(crate) fn fence(
    config: &ContainerConfig,
    spec: &SandboxSpec,
    places: &mut Places,
    held: &mut Held,
) -> Result<(), BackendError> {
    if let Place::Host(home, _) = &places.home {
        hand_over(home, places.user)?;
    }
    let workspace = match &places.workspace {
        Place::Host(host, Access::ReadWrite) => Some((host.clone(), WORKSPACE.to_owned())),
        _ => None,
    };
    let mounted = places.binds.iter().filter(|bind| bind.access == Access::ReadWrite);
    let mounted = mounted.map(|bind| (bind.host.clone(), bind.guest.clone()));
    let written: Vec<(HostPath, String)> = workspace.into_iter().chain(mounted).collect();
    for (host, guest) in written.into_iter().filter(|(host, _)| host.as_path().is_dir()) {
        held.locks.push(DirectoryLock::take(&host)?);
        let journals = config.state.join("fences");
        Journal::settle(&journals, &host);
        let private = spec.git.iter().find(|git| git.directory == host);
        let plan = fence::survey(&host, private)?;
        let name = format!("{}-{}", spec.id, held.journals.len());
        held.journals.extend(Journal::begin(&journals, &name, &host, plan.placeholders)?);
        for (relative, access) in plan.binds {
            let guest = format!("{guest}/{}", relative.display());
            places.binds.push(Bind { host: host.join(relative), guest, access });
        }
        let binds = private.iter().flat_map(|git| &git.binds);
        places.binds.extend(binds.map(|bind| Bind {
            host: bind.host.clone(),
            guest: bind.guest.clone(),
            access: bind.access,
        }));
    }
    Ok(())
}

struct Host<'a> {
    client: &'a Client,
    config: &'a ContainerConfig,
    spec: &'a SandboxSpec,
    opened: RefCell<Vec<OpenedPath>>,
}

impl Host<'_> {
    fn refuse(path: &HostPath, reason: String, fix: &str) -> BackendError {
        let path = palisade_core::printable(&path.to_string());
        BackendError::HostDirectory { path, reason, fix: fix.into() }
    }

    /// Refuses what only an engine on this machine can show.
    fn require_sight_of(&self, path: &HostPath) -> Result<(), BackendError> {
        if self.client.endpoint.is_local() {
            return Ok(());
        }
        Err(BackendError::Unsupported {
            method: self.client.method,
            what: format!("{path} is on this host, and the engine at {} is not", self.client.endpoint),
            fix: "copy what the sandbox needs with palisade cp, or use an engine on this machine".into(),
        })
    }

    /// The real path of a directory that can be sent to the engine.
    fn sendable(&self, path: &HostPath, guest: &str) -> Result<HostPath, BackendError> {
        let real = self.real(path)?;
        if !real.as_path().is_dir() {
            let what = format!("{path} is one file, and only directories are sent to the engine");
            let fix = format!(
                "put it into a directory of its own and show that with --tool, or use an engine on this machine instead of {}",
                self.client.endpoint
            );
            return Err(BackendError::Unsupported { method: self.client.method, what, fix });
        }
        // Podman writes such a volume down in a line with colons.
        if self.client.dialect != Dialect::Docker && guest.contains(':') {
            let reason = "podman would read what follows its colon as options".into();
            return Err(Self::refuse(path, reason, "give it a plain name"));
        }
        Ok(real)
    }

    /// Opens the place that is recorded for a path of the user's; its path without links.
    fn real(&self, path: &HostPath) -> Result<HostPath, BackendError> {
        let refuse = |reason: String, fix: &str| Self::refuse(path, reason, fix);
        let place = bound_path::open(self.spec, path)?;
        let real = place.real.as_path();
        // Podman writes mounts down in a line of options, and reads that again.
        if self.client.dialect != Dialect::Docker && real.to_string_lossy().contains([',', '"', '\n', '\r']) {
            let reason = "podman would read what follows its comma, quote or line break as options".into();
            return Err(refuse(reason, "give it a plain name, or use --method bwrap or docker"));
        }
        let state = self.config.state.as_path();
        let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
        let is_in_state = real.starts_with(&state) && !self.spec.is_own_copy(&place.real);
        if state.starts_with(real) || is_in_state {
            let reason = format!("Palisade's own state in {} would be visible inside", state.display());
            return Err(refuse(reason, "bind the project's directory itself, not one above it"));
        }
        let real = place.real.clone();
        self.opened.borrow_mut().push(place);
        Ok(real)
    }

    fn directory(&self, path: &HostPath) -> Result<HostPath, BackendError> {
        self.require_sight_of(path)?;
        let real = self.real(path)?;
        if real.as_path().is_dir() {
            return Ok(real);
        }
        let fix = "give a directory with -w, or a file with --mount";
        Err(Self::refuse(path, "it is not a directory".into(), fix))
    }

    /// Where something of the host's stands inside when it keeps its path.
    fn own_path_inside(&self, path: &HostPath) -> Result<String, BackendError> {
        let fix = "give it a plain path, or show it under another one with --mount";
        let text =
            path.as_path().to_str().ok_or_else(|| Self::refuse(path, "its path is not text".into(), fix))?;
        let inside = GuestPath::new(text).map_err(|error| Self::refuse(path, error.to_string(), fix))?;
        Ok(inside.to_string())
    }

    /// The one who owns everything of the host's that can be written inside, if there is something. A home that is kept is
    /// our own, and becomes whosever the rest is.
    fn owner(&self, places: &Places) -> Result<Option<User>, BackendError> {
        let written = |place: &Place| match place {
            Place::Host(host, Access::ReadWrite) => Some(host.clone()),
            _ => None,
        };
        let mounted = places.binds.iter().filter(|bind| bind.access == Access::ReadWrite);
        let mounted = mounted.map(|bind| bind.host.clone());
        let all = written(&places.workspace).into_iter().chain(mounted);
        let mut found: Option<User> = None;
        for path in all {
            let meta = std::fs::metadata(&path).map_err(BackendError::io(format!("look at {path}")))?;
            let owner = User { uid: meta.uid(), gid: meta.gid() };
            if owner.uid == 0 {
                let reason =
                    format!("it belongs to root, and nothing in a container of {} does", self.client.method);
                let fix = "give it to an ordinary user (chown), give the sandbox a copy with -w DIR:copy, bind it read-only with :ro, or use --method bwrap";
                return Err(Self::refuse(&path, reason, fix));
            }
            if found.is_some_and(|known| known.uid != owner.uid) {
                let fix = "bind directories of one owner, or all but one owner's read-only with :ro";
                return Err(Self::refuse(
                    &path,
                    "another directory that is bound has another owner".into(),
                    fix,
                ));
            }
            found.get_or_insert(owner);
        }
        Ok(found)
    }
}
