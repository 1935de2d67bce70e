//! bwrap with the very plan that `palisade run` makes, the system call filter and the files included, but with
//! the command where the guest would be. What is left out is all that Palisade adds: its own start, the guest, the
//! stream, the limits, and root's staging of mounts. And bwrap as somebody types it by hand.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use crate::scene::Scene;
use palisade_backend_process::bwrap::facts::HostFacts;
use palisade_backend_process::bwrap::open_file;
use palisade_backend_process::bwrap::plan::{Place, PlanInput, nul_separated, plan};
use palisade_core::{HostPath, Network, Resources};
use palisade_seccomp::{self as seccomp, SetIdBits};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::ffi::OsString;
use std::io::Write;

/// Started by root, Palisade never runs bwrap as root, and neither does the bench.
const UNPRIVILEGED: u32 = 65534;

#[derive(Debug)]
pub(crate) struct RawBwrap {
    program: Program,
    /// Read to their ends by every run, by the numbers they have here.
    descriptors: Vec<OwnedFd>,
}

impl RawBwrap {
    pub(crate) fn new(scene: &Scene, command: &str) -> Result<Self> {
        // A copy in a place that everybody can walk to: the unprivileged bwrap could not reach a checkout of root's.
        let guest = scene.path("guest");
        std::fs::copy(scene.built("release/palisade-guest")?, &guest)
            .map_err(Failure::io("copy the guest"))?;
        let guest = HostPath::new(guest).map_err(|error| Failure::Plan(error.to_string()))?;
        let plan = plan(&PlanInput {
            facts: &HostFacts::gather(),
            root: None,
            guest_binary: &guest,
            hostname: "sandbox",
            home: Place::Memory,
            workspace: Place::Memory,
            binds: Vec::new(),
            fence: Vec::new(),
            opt: false,
            network: Network::None,
            tmp: Resources::default().tmp,
        });
        let filter =
            seccomp::program(SetIdBits::Allowed).map_err(|error| Failure::Plan(error.to_string()))?;

        let mut descriptors = Vec::new();
        let mut pass = |file: OwnedFd| -> OsString {
            let number = file.as_raw_fd().to_string();
            descriptors.push(file);
            number.into()
        };
        let memory = |bytes: &[u8]| memory_file(bytes).map_err(Failure::io("make a file in memory"));
        let mut options = plan.options;
        options.extend(["--seccomp".into(), pass(memory(&filter)?)]);
        for file in &plan.files {
            let opened = open_file(file).map_err(|error| Failure::Plan(error.to_string()))?;
            let Some(number) = opened.map(&mut pass) else { continue };
            options.extend([
                "--perms".into(),
                format!("{:04o}", file.mode).into(),
                "--file".into(),
                number,
                file.guest.clone().into(),
            ]);
        }
        options.extend(plan.closing);
        let arguments = pass(memory(&nul_separated(&options))?);
        let program = Program::new(scene.find("bwrap")?, "/").args([
            "--args".into(),
            arguments,
            "--".into(),
            OsString::from(command),
        ]);
        let mut peer = Self { program, descriptors };
        peer.run(Program::check)?;
        Ok(peer)
    }

    pub(crate) fn time(&mut self) -> Result<f64> {
        self.run(Program::time)
    }

    fn run<T: Send>(&mut self, how: fn(&Program) -> Result<T>) -> Result<T> {
        let failed = |error: rustix::io::Errno| Failure::Io {
            what: "hand files to bwrap".into(),
            source: error.into(),
        };
        for file in &self.descriptors {
            rustix::fs::seek(file, rustix::fs::SeekFrom::Start(0)).map_err(failed)?;
            // Only while bwrap starts, so that no other program of the bench inherits them.
            fcntl_setfd(file.as_fd(), FdFlags::empty()).map_err(failed)?;
        }
        let result = as_unprivileged(|| how(&self.program));
        for file in &self.descriptors {
            fcntl_setfd(file.as_fd(), FdFlags::CLOEXEC).map_err(failed)?;
        }
        result
    }
}

/// The line that a user would type, with nothing in it that a program could do without.
#[derive(Debug)]
pub(crate) struct ByHand {
    program: Program,
}

impl ByHand {
    pub(crate) fn new(scene: &Scene, command: &str) -> Result<Self> {
        const LINE: &str = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
             --proc /proc --dev /dev --tmpfs /tmp --unshare-all --die-with-parent";
        let program =
            scene.program(scene.find("bwrap")?).at("/").args(LINE.split_whitespace()).args([command]);
        let peer = Self { program };
        as_unprivileged(|| peer.program.check())?;
        Ok(peer)
    }

    pub(crate) fn time(&self) -> Result<f64> {
        as_unprivileged(|| self.program.time())
    }
}

/// Ids belong to a thread and are inherited from it. So the process is started in the same way, and at the same
/// cost, as ours; changing ids between fork and exec would take the slower way through `fork`.
fn as_unprivileged<T: Send>(act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if !rustix::process::geteuid().is_root() {
        return act();
    }
    let in_thread = || {
        let (uid, gid) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
        set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid))
            .map_err(|error| Failure::Io { what: "leave root's ids".into(), source: error.into() })?;
        act()
    };
    std::thread::scope(|scope| scope.spawn(in_thread).join())
        .unwrap_or_else(|_| Err(Failure::Plan("the thread that starts bwrap ended early".into())))
}

fn memory_file(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let descriptor = rustix::fs::memfd_create("bench", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(descriptor);
    file.write_all(bytes)?;
    Ok(file.into())
}
