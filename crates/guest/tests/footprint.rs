//! The promises of the program as it is shipped: static, small on disk, small in memory.

#![allow(unsafe_code, reason = "the support module prepares a descriptor between fork and exec")]

mod support;

use support::{Guest, code, memory_of};

const DISK: u64 = 2 * 1024 * 1024;
const MEMORY_KIB: u64 = 2 * 1024;

#[test]
fn the_shipped_program_is_static_and_small() {
    let Some(program) = std::env::var_os("PALISADE_GUEST") else {
        println!(
            "skipped: PALISADE_GUEST does not name the program as shipped; scripts/build-guest makes it"
        );
        return;
    };
    let bytes = std::fs::read(&program).unwrap();
    assert!(bytes.len() as u64 <= DISK, "{} bytes on disk", bytes.len());
    assert!(!has_interpreter(&bytes), "it asks for an interpreter, so it is not static");
    let mut guest = Guest::of(program.to_str().unwrap(), &[]);
    guest.greet();
    let idle = memory_of(guest.pid(), "VmRSS");
    assert!(idle <= MEMORY_KIB, "{idle} KiB in memory before the first command");
    assert_eq!(guest.sh("seq 1 1000000; exit 3").exit, code(3));
    let idle = memory_of(guest.pid(), "VmRSS");
    assert!(idle <= MEMORY_KIB, "{idle} KiB in memory after a command with much output");
}

/// Whether an ELF program header is of the kind that names an interpreter.
fn has_interpreter(elf: &[u8]) -> bool {
    let number = |at: usize, len: usize| {
        elf[at..at + len].iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01", "a 64-bit little-endian program");
    let (start, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    (0..count).any(|index| number(start + index * size, 4) == 3)
}
