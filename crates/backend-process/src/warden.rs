//! Starts the process that holds a sandbox and waits for its end, on a thread that lives as long as the process:
//! parent-death signals follow the thread that spawned, and a thread can have a mount namespace of its own.
#![allow(
    unsafe_code,
    reason = "steps between fork and exec: joining cgroups, dropping privileges, passing descriptors"
)]

use palisade_core::{BackendError, HostIdentity};
use rustix::fd::{AsRawFd, OwnedFd};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The program to start. Descriptors are handed over as 3, 4, 5 … in order; nothing else is inherited.
#[derive(Debug)]
pub(crate) struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub descriptors: Vec<OwnedFd>,
    /// Files to write `0` to in order to join the sandbox's cgroups.
    pub cgroups: Vec<PathBuf>,
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
                if let Some(mut pipe) = pipe {
                    collect(&mut pipe, &kept);
                }
                let how = child.wait().map_or_else(|error| error.to_string(), describe);
                end.send_replace(Some(how));
            })
            .map_err(BackendError::io("start the warden's thread"))?;
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

/// Keeps the first bytes and lets the rest go by, so that a talkative program never blocks.
fn collect(pipe: &mut impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0u8; 1024];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = (STDERR_LIMIT as usize).saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
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

fn spawn(launch: Launch) -> Result<std::process::Child, BackendError> {
    const FIRST: i32 = 3;
    // Sources are moved out of the way first, so that putting one into its place never overwrites another.
    let sources = launch
        .descriptors
        .iter()
        .map(|descriptor| rustix::io::fcntl_dupfd_cloexec(descriptor, 64))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| BackendError::Io { what: "pass descriptors".into(), source: error.into() })?;
    let numbers: Vec<i32> = sources.iter().map(AsRawFd::as_raw_fd).collect();
    let cgroups = launch
        .cgroups
        .iter()
        .map(|path| std::fs::OpenOptions::new().write(true).open(path))
        .collect::<io::Result<Vec<_>>>()
        .map_err(BackendError::io("open the sandbox's cgroup"))?;
    let cgroup_numbers: Vec<i32> = cgroups.iter().map(AsRawFd::as_raw_fd).collect();
    let identity = launch.identity;
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // SAFETY: only system calls on numbers prepared above; no allocation and no lock between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for &number in &cgroup_numbers {
                check(libc::write(number, c"0".as_ptr().cast(), 1) as libc::c_long)?;
            }
            for (offset, &number) in numbers.iter().enumerate() {
                check(libc::c_long::from(libc::dup2(number, FIRST + offset as i32)))?;
            }
            // Whatever our own caller had leaked into us ends here.
            let beyond = FIRST + numbers.len() as i32;
            check(libc::syscall(libc::SYS_close_range, beyond, libc::c_int::MAX, libc::CLOSE_RANGE_CLOEXEC))?;
            check(libc::c_long::from(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)))?;
            if let Some(HostIdentity { uid, gid }) = identity {
                // Directly, since the library's versions would try to reach threads that a fork does not have.
                check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
                check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
                check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
                // Changing ids clears it.
                check(libc::c_long::from(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)))?;
            }
            Ok(())
        });
    }
    let program = launch.program.display().to_string();
    command.spawn().map_err(BackendError::io(format!("start {program}")))
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(script: &str) -> Launch {
        Launch {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            descriptors: Vec::new(),
            cgroups: Vec::new(),
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
            let prepare = move || {
                let mut launch = launch("ls /proc/self/fd | tr '\\n' ' ' >&3");
                launch.descriptors = vec![write];
                Ok(launch)
            };
            let warden = Warden::start(prepare).await.unwrap();
            let mut text = String::new();
            std::fs::File::from(read).read_to_string(&mut text).unwrap();
            warden.end().await;
            // 4 is the directory that `ls` itself opened.
            assert_eq!(text, "0 1 2 3 4 ");
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
