//! Which system calls can leave a trace on the machine, and of what kind.

/// What a system call works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Makes, changes, renames or removes files, or makes them last.
    Files,
    Locks,
    /// Starts, ends, signals or changes processes.
    Processes,
    /// Mounts, namespaces, roots.
    Mounts,
    /// Sockets, pipes, terminals: everything that carries bytes.
    Streams,
    Other,
}

/// Calls that only look, only wait, or only touch what dies with the process anyway. A kill before one of them and a
/// kill after it leave the same machine behind, so they are not points of their own.
const TRACELESS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchdir,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_pidfd_open,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_prlimit64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_uname,
];

/// Traceless calls in the forms that only older architectures have.
#[cfg(target_arch = "x86_64")]
const TRACELESS_OLD: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getpgrp,
    libc::SYS_lstat,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
];
#[cfg(not(target_arch = "x86_64"))]
const TRACELESS_OLD: &[libc::c_long] = &[];

/// Calls that change files, in the same forms.
#[cfg(target_arch = "x86_64")]
const FILES_OLD: &[libc::c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_symlink,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const FILES_OLD: &[libc::c_long] = &[];

/// Calls that make processes, in the same forms.
#[cfg(target_arch = "x86_64")]
const PROCESSES_OLD: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const PROCESSES_OLD: &[libc::c_long] = &[];

impl Step {
    /// The step that a call is, or `None` when it can leave no trace.
    pub(super) fn of(number: u64, arguments: &[u64; 6]) -> Option<Self> {
        let number = number as libc::c_long;
        if TRACELESS.contains(&number) || TRACELESS_OLD.contains(&number) {
            return None;
        }
        match number {
            libc::SYS_openat => {
                let making = (libc::O_CREAT | libc::O_TRUNC) as u64;
                (arguments[2] & making != 0).then_some(Self::Files)
            }
            libc::SYS_fcntl => {
                const LOCKING: [i32; 4] =
                    [libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
                LOCKING.contains(&(arguments[1] as i32)).then_some(Self::Locks)
            }
            libc::SYS_flock => Some(Self::Locks),
            libc::SYS_pwrite64
            | libc::SYS_mkdirat
            | libc::SYS_unlinkat
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_linkat
            | libc::SYS_symlinkat
            | libc::SYS_mknodat
            | libc::SYS_fchmod
            | libc::SYS_fchmodat
            | libc::SYS_fchown
            | libc::SYS_fchownat
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fsync
            | libc::SYS_fdatasync => Some(Self::Files),
            libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_execve
            | libc::SYS_exit
            | libc::SYS_exit_group
            | libc::SYS_kill
            | libc::SYS_tgkill
            | libc::SYS_pidfd_send_signal
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_setsid
            | libc::SYS_setpgid
            | libc::SYS_setgroups
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_capset
            | libc::SYS_seccomp
            | libc::SYS_prctl => Some(Self::Processes),
            libc::SYS_mount
            | libc::SYS_umount2
            | libc::SYS_pivot_root
            | libc::SYS_chroot
            | libc::SYS_unshare
            | libc::SYS_setns
            | libc::SYS_open_tree
            | libc::SYS_move_mount
            | libc::SYS_mount_setattr
            | libc::SYS_fsmount => Some(Self::Mounts),
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_bind
            | libc::SYS_listen
            | libc::SYS_connect
            | libc::SYS_accept4
            | libc::SYS_shutdown
            | libc::SYS_ioctl => Some(Self::Streams),
            old if FILES_OLD.contains(&old) => Some(Self::Files),
            old if PROCESSES_OLD.contains(&old) => Some(Self::Processes),
            _ => Some(Self::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_no_step_and_making_is_one() {
        let open = |flags: i32| Step::of(libc::SYS_openat as u64, &[0, 0, flags as u64, 0, 0, 0]);
        assert_eq!(open(libc::O_RDONLY | libc::O_CLOEXEC), None);
        assert_eq!(open(libc::O_WRONLY | libc::O_CREAT), Some(Step::Files));
        assert_eq!(Step::of(libc::SYS_read as u64, &[0; 6]), None);
        assert_eq!(Step::of(libc::SYS_mount as u64, &[0; 6]), Some(Step::Mounts));
    }
}
