//! Which uids there are here: in a container's user namespace not all of them.

/// Whether a uid exists here: in a container it may lie outside what the user namespace maps.
pub fn uid_is_mapped(uid: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map_has(&map, uid)
}

fn map_has(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [first, _, count] = numbers[..] else { return false };
        (first..first + count).contains(&u64::from(uid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_looked_up_in_the_namespaces_map() {
        let container = "         0     100000      65536\n";
        assert!(map_has(container, 65535));
        assert!(!map_has(container, 1_910_000_000));
        assert!(map_has("         0          0 4294967295\n", 1_910_000_000));
    }
}
