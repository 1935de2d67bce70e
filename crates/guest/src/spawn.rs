//! Starting a child: what it is, how it is wired, and how a failed start is told.
//!
//! A child reports through a pipe that closes by itself on exec: closed empty, the program runs; else it holds
//! the step that failed and why. The guest waits for it in its loop like for anything else.

use crate::system;
use palisade_protocol::{ExecRequest, Refusal, RefusalCode};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Children are killed for memory before the guest is.
const OUT_OF_MEMORY_SCORE: i32 = 500;
/// Where to look when the given environment has no `PATH`: what the system's own `execvp` does.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// A program to run, in the form the system wants it.
#[derive(Debug)]
pub(crate) struct Image {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
}

impl Image {
    pub(crate) fn new(request: &ExecRequest) -> Result<Self, Refusal> {
        let name = request.argv.first().ok_or_else(|| failure(RefusalCode::Exec, libc::EINVAL))?;
        let strings = |code, list: &[Vec<u8>]| {
            list.iter().map(|bytes| c_string(code, bytes)).collect::<Result<Vec<_>, _>>()
        };
        let path = request.env.iter().find_map(|entry| entry.strip_prefix(b"PATH="));
        Ok(Self {
            candidates: strings(RefusalCode::Exec, &candidates(name, path.unwrap_or(DEFAULT_PATH)))?,
            argv: strings(RefusalCode::Exec, &request.argv)?,
            env: strings(RefusalCode::Exec, &request.env)?,
            cwd: c_string(RefusalCode::Cwd, &request.cwd)?,
        })
    }

    /// In the child: becomes the program, or says which step failed and why.
    fn become_it(&self) -> (RefusalCode, i32) {
        if let Err(error) = rustix::process::chdir(&self.cwd) {
            return (RefusalCode::Cwd, error.raw_os_error());
        }
        let mut outcome = libc::ENOENT;
        for candidate in &self.candidates {
            match system::execute(candidate, &self.argv, &self.env) {
                libc::ENOENT | libc::ENOTDIR => {}
                // Another directory may have one that can be executed; if none does, this is the reason.
                libc::EACCES => outcome = libc::EACCES,
                other => return (RefusalCode::Exec, other),
            }
        }
        (RefusalCode::Exec, outcome)
    }
}

/// Every path the name may stand for; relative ones are seen from the working directory, as a shell does.
fn candidates(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    let join = |directory: &[u8]| {
        let directory = if directory.is_empty() { b".".as_slice() } else { directory };
        [directory, b"/", name].concat()
    };
    path.split(|byte| *byte == b':').map(join).collect()
}

fn c_string(code: RefusalCode, bytes: &[u8]) -> Result<CString, Refusal> {
    CString::new(bytes).map_err(|_| failure(code, libc::EINVAL))
}

pub(crate) fn failure(code: RefusalCode, errno: i32) -> Refusal {
    Refusal::new(code, errno, io::Error::from_raw_os_error(errno).to_string())
}

/// What the child finds on its standard descriptors.
#[derive(Debug)]
pub(crate) struct Wiring {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
    /// Whether its input is a terminal that it is to be controlled by.
    pub(crate) terminal: bool,
}

impl Wiring {
    /// In the child: a session of its own, on these descriptors, with signals as a program expects them.
    fn apply(self) -> io::Result<()> {
        rustix::process::setsid()?;
        system::reset_signals();
        for (fd, standard) in [(&self.input, 0), (&self.output, 1), (&self.error, 2)] {
            system::replace_standard(fd.as_fd(), standard)?;
        }
        if self.terminal {
            rustix::process::ioctl_tiocsctty(self.input.as_fd())?;
        }
        Ok(())
    }
}

/// A child on its way.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    pub(crate) status: StartStatus,
}

/// The reading end of the pipe on which a child tells that it could not start.
#[derive(Debug)]
pub(crate) struct StartStatus(OwnedFd);

impl StartStatus {
    /// `None` while it is not known yet.
    pub(crate) fn poll(&self) -> Option<Result<(), Refusal>> {
        let mut report = [0; 5];
        match rustix::io::read(&self.0, &mut report) {
            Ok(5) => {
                let [code, errno @ ..] = report;
                let code = if code == RefusalCode::Cwd as u8 { RefusalCode::Cwd } else { RefusalCode::Exec };
                Some(Err(failure(code, i32::from_ne_bytes(errno))))
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            _ => Some(Ok(())),
        }
    }
}

impl AsFd for StartStatus {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes children.
#[derive(Debug)]
pub(crate) struct Spawner {
    score: Option<(File, i32)>,
    /// How many descriptors children may have, once the guest itself has taken more.
    descriptors: Option<Rlimit>,
}

impl Spawner {
    pub(crate) fn open() -> Self {
        let open = || -> io::Result<(File, i32)> {
            let mut file = File::options().read(true).write(true).open("/proc/self/oom_score_adj")?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok((file, text.trim().parse().unwrap_or(0)))
        };
        Self { score: open().ok(), descriptors: None }
    }

    /// Lets the guest have as many descriptors as it may, which its children do not notice.
    pub(crate) fn take_descriptors(&mut self) {
        let limit = getrlimit(Resource::Nofile);
        let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if self.descriptors.is_none() && setrlimit(Resource::Nofile, most).is_ok() {
            self.descriptors = Some(limit);
        }
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.score.as_ref().map(|(file, _)| file.as_raw_fd())
    }

    pub(crate) fn program(&mut self, image: &Image, wiring: Wiring) -> io::Result<Started> {
        self.child(wiring, |status| {
            let (code, errno) = image.become_it();
            report(&status, code, errno);
            127
        })
    }

    /// Runs a function of this program in a child; the guest has one thread, so its copy is whole.
    pub(crate) fn function(&mut self, wiring: Wiring, body: impl FnOnce() -> u8) -> io::Result<Started> {
        self.child(wiring, |status| {
            // Not only the report ends here: a copy of another command's input would keep that input open.
            let _ = std::os::fd::IntoRawFd::into_raw_fd(status);
            system::close_range(3, RawFd::MAX);
            body()
        })
    }

    fn child(&mut self, wiring: Wiring, body: impl FnOnce(OwnedFd) -> u8) -> io::Result<Started> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        set_nonblocking(&reader)?;
        // Inherited by the child. It could not set its own: its /proc files are not its own before it executes.
        self.set_score(|own| own.max(OUT_OF_MEMORY_SCORE));
        let forked = system::fork();
        if let Ok(None) = forked {
            if let Some(limit) = self.descriptors.take() {
                let _ = setrlimit(Resource::Nofile, limit);
            }
            let code = match wiring.apply() {
                Ok(()) => body(writer),
                Err(error) => {
                    report(&writer, RefusalCode::Exec, error.raw_os_error().unwrap_or(libc::EIO));
                    127
                }
            };
            system::exit_now(code);
        }
        self.set_score(|own| own);
        match forked? {
            Some(pid) => Ok(Started { pid, status: StartStatus(reader) }),
            // The child left above.
            None => system::exit_now(127),
        }
    }

    fn set_score(&mut self, score: impl FnOnce(i32) -> i32) {
        if let Some((file, own)) = &mut self.score {
            // Without it children merely compete with the guest on equal terms.
            let _ = file.rewind().and_then(|()| file.write_all(score(*own).to_string().as_bytes()));
        }
    }
}

fn report(status: &OwnedFd, code: RefusalCode, errno: i32) {
    let [a, b, c, d] = errno.to_ne_bytes();
    let _ = rustix::io::write(status, &[code as u8, a, b, c, d]);
}

/// A pipe of which the guest keeps one, nonblocking, end.
pub(crate) fn pipe(kept: Kept) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (ours, theirs) = match kept {
        Kept::Reader => (reader, writer),
        Kept::Writer => (writer, reader),
    };
    set_nonblocking(&ours)?;
    Ok((ours, theirs))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Reader,
    Writer,
}

pub(crate) fn null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

pub(crate) fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_looked_for_along_the_given_path() {
        let expected: Vec<Vec<u8>> = vec![b"/a/ls".to_vec(), b"./ls".to_vec(), b"b/ls".to_vec()];
        assert_eq!(candidates(b"ls", b"/a::b"), expected);
        assert_eq!(candidates(b"./ls", b"/a"), vec![b"./ls".to_vec()]);
        assert_eq!(candidates(b"", b"/a"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn an_empty_command_and_a_nul_byte_are_refused() {
        let empty = Image::new(&ExecRequest { cwd: b"/".to_vec(), ..Default::default() });
        assert_eq!(empty.map(drop), Err(failure(RefusalCode::Exec, libc::EINVAL)));
        let nul = ExecRequest { argv: vec![b"a\0b".to_vec()], cwd: b"/".to_vec(), ..Default::default() };
        assert_eq!(Image::new(&nul).map(drop), Err(failure(RefusalCode::Exec, libc::EINVAL)));
        let nul = ExecRequest { argv: vec![b"a".to_vec()], cwd: b"/\0".to_vec(), ..Default::default() };
        assert_eq!(Image::new(&nul).map(drop), Err(failure(RefusalCode::Cwd, libc::EINVAL)));
    }
}
