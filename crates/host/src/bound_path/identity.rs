//! The identity of an open directory: its file handle, or its inode where the file system has no handles that last.
#![allow(unsafe_code, reason = "name_to_handle_at(2), which neither std nor rustix wraps")]

use crate::process;
use palisade_core::PathIdentity;
use rustix::fd::BorrowedFd;
use std::io;

pub(super) fn of(directory: BorrowedFd<'_>) -> io::Result<PathIdentity> {
    if let Some(handle) = lasting_handle(directory)? {
        return Ok(PathIdentity::Handle { handle, file_system: file_system_id(directory)? });
    }
    let stat = rustix::fs::fstat(directory)?;
    Ok(PathIdentity::Inode { device: stat.st_dev, inode: stat.st_ino, boot: process::boot_id() })
}

/// The numbers by which file systems are known to the kernel.
#[cfg(target_os = "linux")]
mod magic {
    pub(super) const EXT: i64 = 0xEF53;
    pub(super) const BTRFS: i64 = 0x9123_683E;
    pub(super) const TMPFS: i64 = 0x0102_1994;
    pub(super) const FUSE: i64 = 0x6573_5546;
}

/// The id that `statfs` reports, from file systems that derive it from their UUID. Others, such as XFS, derive it from
/// the number of the device, which another disk may have after a restart; of those the handle alone must do.
#[cfg(target_os = "linux")]
fn file_system_id(directory: BorrowedFd<'_>) -> io::Result<Option<String>> {
    let kind = rustix::fs::fstatfs(directory)?.f_type;
    if ![magic::EXT, magic::BTRFS, magic::TMPFS].contains(&kind) {
        return Ok(None);
    }
    Ok(Some(format!("{:016x}", rustix::fs::fstatvfs(directory)?.f_fsid)))
}

/// The file handle, as text. A FUSE server numbers its files anew whenever it forgets them, so its handles do not count.
#[cfg(target_os = "linux")]
fn lasting_handle(directory: BorrowedFd<'_>) -> io::Result<Option<String>> {
    use rustix::fd::AsRawFd;

    /// `struct file_handle` of the kernel, with the most bytes that one has.
    #[repr(C)]
    struct Handle {
        length: u32,
        kind: i32,
        bytes: [u8; MOST_BYTES],
    }
    const MOST_BYTES: usize = 128;

    if rustix::fs::fstatfs(directory)?.f_type == magic::FUSE {
        return Ok(None);
    }
    let mut handle = Handle { length: MOST_BYTES as u32, kind: 0, bytes: [0; MOST_BYTES] };
    let mut mount: libc::c_int = 0;
    // SAFETY: the descriptor is open, the name is empty and ends in a NUL, and the kernel writes no more bytes than the
    // structure says it has.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            // The file system has none, or the call is filtered, as in some containers.
            Some(libc::EOPNOTSUPP | libc::EOVERFLOW | libc::ENOSYS | libc::EPERM) => Ok(None),
            _ => Err(error),
        };
    }
    let length = (handle.length as usize).min(MOST_BYTES);
    let bytes: String = handle.bytes[..length].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(format!("{:x}:{bytes}", handle.kind)))
}

#[cfg(not(target_os = "linux"))]
fn file_system_id(_directory: BorrowedFd<'_>) -> io::Result<Option<String>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn lasting_handle(_directory: BorrowedFd<'_>) -> io::Result<Option<String>> {
    Ok(None)
}
