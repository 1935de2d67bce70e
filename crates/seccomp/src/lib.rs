//! The system calls a sandbox may not make. A deny-list over the kernel's own checks: it takes away the large,
//! rarely needed and often broken parts of the kernel, and the ways to gain new namespaces or reach a terminal.
//!
//! bwrap is handed the filter as bytes and installs it last, before the guest starts. In a container the guest takes it
//! upon itself, since engines differ in what theirs denies, and some of it reaches beyond the sandbox.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// Beyond the rules for everyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetIdBits {
    Allowed,
    /// Where a host directory is writable from inside: a set-uid file there would be one on the host, too.
    Denied,
}

#[derive(Debug)]
pub struct FilterError(String);

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the system call filter could not be had: {}", self.0)
    }
}

impl std::error::Error for FilterError {}

const DENIED: [i64; 53] = [
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // Kernel subsystems with a large surface.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // Keys are not namespaced.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // File handles go round directories.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    // Other processes' memory beyond what a debugger of one's own children needs.
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_pidfd_getfd,
    libc::SYS_personality,
];

/// Of the x86 family only.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: [i64; 7] = [
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: [i64; 0] = [];

const NEW_NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;
/// Not in libc's constants; shares its bit with the exit signal of `clone`, so it only counts for `unshare`.
const CLONE_NEWTIME: u64 = 0x80;

/// The program for the kernel, as bytes for `bwrap --seccomp`.
pub fn program(set_id_bits: SetIdBits) -> Result<Vec<u8>, FilterError> {
    Ok(instructions(set_id_bits)?.iter().flat_map(encode).collect())
}

/// Takes the filter upon this process and whatever it starts. It cannot be given back.
pub fn confine(set_id_bits: SetIdBits) -> Result<(), FilterError> {
    let program = instructions(set_id_bits)?;
    seccompiler::apply_filter(&program).map_err(|error| FilterError(error.to_string()))
}

fn instructions(set_id_bits: SetIdBits) -> Result<BpfProgram, FilterError> {
    let failed = |error: seccompiler::BackendError| FilterError(error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let filter = SeccompFilter::new(
        rules(set_id_bits).map_err(failed)?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        arch,
    )
    .map_err(failed)?;
    let body: BpfProgram = filter.try_into().map_err(failed)?;
    let mut program = prologue(set_id_bits);
    program.extend(body);
    Ok(program)
}

fn rules(set_id_bits: SetIdBits) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.into_iter().chain(DENIED_HERE).map(|call| (call, Vec::new())).collect();
    let any_bit = |argument: u8, bits: u64| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        // One rule a bit: the comparison is "these bits equal this value", so "any of them" needs several.
        (0..64)
            .map(|bit| 1u64 << bit)
            .filter(|bit| bits & bit != 0)
            .map(|bit| {
                SeccompRule::new(vec![Condition::new(argument, Width::Qword, Op::MaskedEq(bit), bit)?])
            })
            .collect()
    };
    rules.insert(libc::SYS_clone, any_bit(0, NEW_NAMESPACES)?);
    rules.insert(libc::SYS_unshare, any_bit(0, NEW_NAMESPACES | CLONE_NEWTIME)?);
    // The kernel reads the request of an ioctl as 32 bits, so a caller could hide it behind high bits.
    let request = |value: u64| SeccompRule::new(vec![Condition::new(1, Width::Dword, Op::Eq, value)?]);
    rules.insert(libc::SYS_ioctl, vec![request(libc::TIOCSTI)?, request(TIOCLINUX)?]);
    // vsock knows no network namespaces and would reach the hypervisor and its other guests.
    let families = SOCKET_FAMILIES
        .map(|family| Condition::new(0, Width::Dword, Op::Ne, family as u64))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(families)?]);
    for (call, conditions) in ON_THE_GUEST {
        let conditions = conditions
            .iter()
            .map(|(argument, value)| Condition::new(*argument, Width::Dword, Op::Eq, *value));
        let mut conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        if call == libc::SYS_prlimit64 {
            // Without new limits it only asks for the old ones.
            conditions.push(Condition::new(2, Width::Qword, Op::Ne, 0)?);
        }
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    }
    if set_id_bits == SetIdBits::Denied {
        const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;
        for (call, argument) in MODE_ARGUMENT {
            rules.insert(call, any_bit(argument, SET_ID)?);
        }
    }
    Ok(rules)
}

/// The guest is the first process, and of the same user as what it starts, so that the kernel would let any command change
/// its limits, its priority or its processors, and so bring it to a standstill. By the user's id it would be changed, too.
/// Each with the arguments that a call must have to be refused.
const ON_THE_GUEST: [(i64, &[(u8, u64)]); 11] = [
    (libc::SYS_prlimit64, &[(0, 1)]),
    (libc::SYS_sched_setaffinity, &[(0, 1)]),
    (libc::SYS_sched_setscheduler, &[(0, 1)]),
    (libc::SYS_sched_setparam, &[(0, 1)]),
    (libc::SYS_sched_setattr, &[(0, 1)]),
    (libc::SYS_setpriority, &[(0, libc::PRIO_PROCESS as u64), (1, 1)]),
    (libc::SYS_setpriority, &[(0, libc::PRIO_PGRP as u64), (1, 1)]),
    (libc::SYS_setpriority, &[(0, libc::PRIO_USER as u64)]),
    (libc::SYS_ioprio_set, &[(0, IOPRIO_WHO_PROCESS), (1, 1)]),
    (libc::SYS_ioprio_set, &[(0, IOPRIO_WHO_PGRP), (1, 1)]),
    (libc::SYS_ioprio_set, &[(0, IOPRIO_WHO_USER)]),
];
const IOPRIO_WHO_PROCESS: u64 = 1;
const IOPRIO_WHO_PGRP: u64 = 2;
const IOPRIO_WHO_USER: u64 = 3;

const TIOCLINUX: u64 = 0x541C;
/// The only kinds of sockets there are inside: each of them ends at the sandbox's own network namespace.
const SOCKET_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Not yet in libc's constants for every target.
const SYS_FCHMODAT2: i64 = 452;

/// Calls that set a file's mode, and which argument it is.
#[cfg(target_arch = "x86_64")]
const MODE_ARGUMENT: [(i64, u8); 11] = [
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
    (libc::SYS_creat, 1),
];
#[cfg(not(target_arch = "x86_64"))]
const MODE_ARGUMENT: [(i64, u8); 6] = [
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
    (libc::SYS_openat, 3),
];

const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
#[cfg(target_arch = "x86_64")]
const JUMP_GREATER_EQUAL: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const RETURN_ENOSYS: u32 = 0x0005_0000 | libc::ENOSYS as u32; // SECCOMP_RET_ERRNO

/// What seccompiler cannot say: calls that answer "not implemented", so that libraries fall back to older ones
/// whose arguments a filter can see; and the whole x32 range, which shares the architecture's number.
fn prologue(set_id_bits: SetIdBits) -> Vec<sock_filter> {
    let op = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let mut program = vec![op(LOAD_NUMBER, 0, 0, 0)];
    #[cfg(target_arch = "x86_64")]
    program.extend([op(JUMP_GREATER_EQUAL, 0, 1, 0x4000_0000), op(RETURN, 0, 0, RETURN_ENOSYS)]);
    let mut not_implemented = vec![libc::SYS_clone3];
    if set_id_bits == SetIdBits::Denied {
        // Its mode lies behind a pointer; openat is there instead.
        not_implemented.push(libc::SYS_openat2);
    }
    for call in not_implemented {
        program.extend([op(JUMP_EQUAL, 0, 1, call as u32), op(RETURN, 0, 0, RETURN_ENOSYS)]);
    }
    program
}

fn encode(instruction: &sock_filter) -> [u8; 8] {
    let [a, b] = instruction.code.to_ne_bytes();
    let [c, d, e, f] = instruction.k.to_ne_bytes();
    [a, b, instruction.jt, instruction.jf, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_whole_instructions_within_the_kernels_limit() {
        for bits in [SetIdBits::Allowed, SetIdBits::Denied] {
            let bytes = program(bits).unwrap();
            assert_eq!(bytes.len() % 8, 0);
            assert!(bytes.len() / 8 < 4096, "{} instructions", bytes.len() / 8);
        }
    }

    #[test]
    fn clone3_answers_not_implemented_so_that_libc_falls_back() {
        let prologue = prologue(SetIdBits::Allowed);
        let at =
            prologue.iter().position(|op| op.code == JUMP_EQUAL && op.k == libc::SYS_clone3 as u32).unwrap();
        assert_eq!(prologue[at + 1].k, RETURN_ENOSYS);
    }
}
