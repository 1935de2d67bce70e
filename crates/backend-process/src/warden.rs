//! Starts the process that holds a sandbox and waits for its end, on a thread that lives as long as the process:
//! parent-death signals follow the thread that spawned, and a thread can have a mount namespace and credentials of
//! its own. So the thread itself prepares the mounts, gives up root, and only then spawns.
#![allow(
    unsafe_code,
    reason = "credentials of one thread, which the library's calls would change for all of them"
)]

use crate::cgroup::Detour;
use palisade_core::{BackendError, HostIdentity};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The program to start. The descriptors are handed over under their own numbers; nothing else is inherited.
#[derive(Debug)]
pub(crate) struct Launch {
    pub program: PathBuf,
    /// What the program is to call itself, when not by its own name.
    pub name: Option<OsString>,
    pub arguments: Vec<OsString>,
    pub descriptors: Vec<OwnedFd>,
    /// The way through the sandbox's cgroups, sent when they are made. Nothing comes when they could not be.
    pub detour: Option<Receiver<Detour>>,
    /// Become this user first; only when started by root.
    pub identity: Option<HostIdentity>,
}

/// A started process. When its warden's process dies, so does it.
#[derive(Debug, Clone)]
pub(crate) struct Warden {
    pid: u32,
    ended: watch::Receiver<Option<String>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

/// What a sandbox's own start program may say before it is cut off.
const STDERR_LIMIT: u64 = 16 * 1024;

impl Warden {
    /// `prepare` runs on the warden's own thread first and gives what to launch.
    pub(crate) async fn start<F>(prepare: F) -> Result<Self, BackendError>
    where
        F: FnOnce() -> Result<Launch, BackendError> + Send + 'static,
    {
        let (started, wait) = tokio::sync::oneshot::channel();
        let (end, ended) = watch::channel(None);
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&stderr);
        std::thread::Builder::new()
            .name("warden".into())
            .stack_size(256 * 1024)
            .spawn(move || {
                let mut child = match prepare().and_then(spawn) {
                    Ok(child) => child,
                    Err(error) => {
                        // The receiver waits for exactly this.
                        let _ = started.send(Err(error));
                        return;
                    }
                };
                let pipe = child.stderr.take();
                let _ = started.send(Ok(child.id()));
                attend(&child, pipe, &kept);
                let how = child.wait().map_or_else(|error| error.to_string(), describe);
                end.send_replace(Some(how));
            })
            .map_err(BackendError::start("start a thread for the sandbox"))?;
        let pid = wait.await.map_err(|_| BackendError::Io {
            what: "start the sandbox".into(),
            source: io::Error::other("the warden's thread ended early"),
        })??;
        Ok(Self { pid, ended, stderr })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, once it has.
    pub(crate) fn outcome(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits for the end and tells how it came.
    pub(crate) async fn end(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "its warden ended".into(),
        }
    }

    pub(crate) fn kill(&self) {
        if self.outcome().is_none()
            && let Some(pid) = rustix::process::Pid::from_raw(self.pid as i32)
        {
            // The warden has not reaped it, so the number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// What the process said on standard error so far.
    pub(crate) fn stderr(&self) -> String {
        let bytes = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// Reads what the process says until it has ended, and then ends whatever is left of its process group: a bwrap that
/// dies early can leave a child behind that waits for it. The process is not reaped yet, so the group is still its own.
fn attend(child: &std::process::Child, pipe: Option<std::process::ChildStderr>, kept: &Mutex<Vec<u8>>) {
    let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) else { return };
    let held = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    if let (Ok(held), Some(mut pipe)) = (held, pipe) {
        let mut open = true;
        loop {
            let mut waited = [PollFd::new(&held, PollFlags::IN), PollFd::new(&pipe, PollFlags::IN)];
            // A pipe whose writers are gone is always ready, whatever one waits for, so it is not asked again.
            let asked = if open { &mut waited[..] } else { &mut waited[..1] };
            match poll(asked, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
            let (ended, readable) = (!waited[0].revents().is_empty(), !waited[1].revents().is_empty());
            if open && readable {
                open = collect(&mut pipe, kept);
            } else if ended {
                break;
            }
        }
    } else {
        // Without a handle on it, waiting for its end is all that can be done; the caller does.
        return;
    }
    // There may be nothing left in it, which is how it should be.
    let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
}

/// Reads once, keeps the first bytes of all and lets the rest go by; says whether more may come.
fn collect(pipe: &mut impl Read, kept: &Mutex<Vec<u8>>) -> bool {
    let mut buffer = [0u8; 1024];
    match pipe.read(&mut buffer) {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = (STDERR_LIMIT as usize).saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..count.min(room)]);
            true
        }
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Descriptors are inheritable for the moment of a spawn, in which no other warden may spawn as well.
static SPAWNING: Mutex<()> = Mutex::new(());

fn spawn(launch: Launch) -> Result<std::process::Child, BackendError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| BackendError::io(what)(error)
    };
    let detour =
        match launch.detour {
            Some(made) => Some(made.recv().map_err(|_| {
                failed("start the sandbox")(io::Error::other("its limits could not be set up"))
            })?),
            None => None,
        };
    if let Some(identity) = launch.identity {
        become_user(identity).map_err(failed("give up root"))?;
    }
    let _alone = SPAWNING.lock().unwrap_or_else(PoisonError::into_inner);
    // Whatever our own caller had leaked into us ends here.
    palisade_host::descriptors::keep_to_ourselves().map_err(failed("keep descriptors from the sandbox"))?;
    for descriptor in &launch.descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())
            .map_err(|error| failed("pass descriptors")(error.into()))?;
    }
    if let Some(detour) = &detour {
        detour.enter().map_err(failed("join the sandbox's cgroup"))?;
    }
    let mut command = Command::new(&launch.program);
    if let Some(name) = &launch.name {
        command.arg0(name);
    }
    let child = command
        .args(&launch.arguments)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(BackendError::start(format!("start {}", launch.program.display())));
    if let Some(detour) = &detour {
        // Should it fail, this thread counts as one of the sandbox's until it ends with it.
        let _ = detour.leave();
    }
    child
}

/// Gives up root for this thread and what it spawns. The rest of the process stays who it is, which is why these are
/// the bare system calls: the library's own would change every thread.
fn become_user(HostIdentity { uid, gid }: HostIdentity) -> io::Result<()> {
    // SAFETY: no memory is involved; the thread uses no shared state that depends on who it is.
    let results = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()),
            libc::syscall(libc::SYS_setresgid, gid, gid, gid),
            libc::syscall(libc::SYS_setresuid, uid, uid, uid),
        ]
    };
    if results.contains(&-1) { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    fn launch(script: &str) -> Launch {
        Launch {
            program: "/bin/sh".into(),
            name: None,
            arguments: vec!["-c".into(), script.into()],
            descriptors: Vec::new(),
            detour: None,
            identity: None,
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn it_tells_how_the_process_ended_and_what_it_said() {
        run(async {
            let warden = Warden::start(|| Ok(launch("echo no luck >&2; exit 7"))).await.unwrap();
            assert_eq!(warden.end().await, "exit code 7");
            assert_eq!(warden.stderr(), "no luck");
            let warden = Warden::start(|| Ok(launch("kill -9 $$"))).await.unwrap();
            assert_eq!(warden.end().await, "signal 9");
        });
    }

    #[test]
    fn a_talkative_process_is_not_blocked_and_only_its_first_words_are_kept() {
        run(async {
            let warden = Warden::start(|| Ok(launch("head -c 1000000 /dev/zero >&2"))).await.unwrap();
            assert_eq!(warden.end().await, "exit code 0");
            assert_eq!(warden.stderr.lock().unwrap().len(), STDERR_LIMIT as usize);
        });
    }

    #[test]
    fn only_the_given_descriptors_arrive() {
        run(async {
            let (read, write) = rustix::pipe::pipe().unwrap();
            let leaked = std::fs::File::open("/dev/null").unwrap();
            rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
            let number = write.as_raw_fd();
            let prepare = move || {
                let script = format!("ls /proc/self/fd >&{number}");
                Ok(Launch { descriptors: vec![write], ..launch(&script) })
            };
            let warden = Warden::start(prepare).await.unwrap();
            let mut text = String::new();
            std::fs::File::from(read).read_to_string(&mut text).unwrap();
            warden.end().await;
            let given = ["0", "1", "2", &number.to_string()];
            let others: Vec<&str> = text.lines().filter(|line| !given.contains(line)).collect();
            // One is the directory that `ls` itself opened.
            assert_eq!(others.len(), 1, "{text}");
        });
    }

    #[test]
    fn a_child_left_behind_neither_delays_the_end_nor_outlives_it() {
        run(async {
            let (read, write) = rustix::pipe::pipe().unwrap();
            let number = write.as_raw_fd();
            let prepare = move || {
                // It holds our pipe and standard error open, as a bwrap that dies in its start does.
                let script = format!("sleep 1000 >&{number} & exit 3");
                Ok(Launch { descriptors: vec![write], ..launch(&script) })
            };
            let warden = Warden::start(prepare).await.unwrap();
            assert_eq!(warden.end().await, "exit code 3");
            // The end of the pipe is the end of the child.
            assert_eq!(std::fs::File::from(read).read(&mut [0]).unwrap(), 0);
        });
    }

    #[test]
    fn a_process_that_has_closed_its_standard_error_is_waited_for_at_rest() {
        fn ticks() -> u64 {
            let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        }
        run(async {
            let before = ticks();
            let warden = Warden::start(|| Ok(launch("exec 2>&-; sleep 1"))).await.unwrap();
            assert_eq!(warden.end().await, "exit code 0");
            let used = ticks() - before;
            assert!(used < 20, "{used} hundredths of a second of work for waiting");
        });
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        run(async {
            let prepare = || Ok(Launch { program: "/nonexistent/bwrap".into(), ..launch("") });
            let error = Warden::start(prepare).await.unwrap_err().to_string();
            assert!(error.starts_with("start /nonexistent/bwrap: "), "{error}");
        });
    }
}
