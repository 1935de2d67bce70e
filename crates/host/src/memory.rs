//! Memory that only a start needed, given back by a process that then lives long.
#![allow(
    unsafe_code,
    reason = "madvise(2) on the program's own code, which no crate offers for a mapping it did not make"
)]

use std::ops::Range;

/// Lets go of the pages of the program's own code: whatever runs next is mapped again from the page cache. A keeper
/// comes up through nearly all of the program and then waits in a small part of it. Where it fails nothing is lost.
pub fn give_back_start_up_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let here = give_back_start_up_code as fn() as usize;
    let Some(code) = code_around(&maps, here) else { return };
    // SAFETY: the range is one mapping of the program file that is executable and cannot be written, so every page
    // of it is as in the file and is read from there again when it is next used.
    unsafe { libc::madvise(code.start as *mut libc::c_void, code.len(), libc::MADV_DONTNEED) };
}

/// The mapping that holds an address, if it is private code that cannot have been changed.
fn code_around(maps: &str, address: usize) -> Option<Range<usize>> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        (rest.starts_with("r-xp ") && range.contains(&address)).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unwritable_code_around_the_address_counts() {
        let maps = "1000-3000 r--p 00000000 fe:00 1 /p\n3000-9000 r-xp 00002000 fe:00 1 /p\n9000-a000 rw-p 0 fe:00 1 /p\n";
        assert_eq!(code_around(maps, 0x3000), Some(0x3000..0x9000));
        assert_eq!((code_around(maps, 0x2fff), code_around(maps, 0x9000)), (None, None));
        assert_eq!(code_around("3000-9000 rwxp 0 fe:00 1 /p", 0x4000), None);
    }

    #[test]
    fn the_program_goes_on_afterwards_with_less() {
        let resident = || {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let here = give_back_start_up_code as fn() as usize;
            let code = code_around(&std::fs::read_to_string("/proc/self/maps").unwrap(), here).unwrap();
            let heading = format!("{:x}-{:x} ", code.start, code.end);
            let of_code = smaps.lines().skip_while(|line| !line.starts_with(&heading));
            let line = of_code.filter_map(|line| line.strip_prefix("Rss:")).next().unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        give_back_start_up_code();
        let after = resident();
        assert!(after < before, "{after} KiB after, {before} KiB before");
    }
}
