//! Looks around from inside and says what is not isolated. The host's preflight runs it with a sandbox's own plan:
//! it proves that the plan holds on this machine, not only that a program started.

use std::fs;

/// Everything that is not as it should be in an isolated sandbox.
pub(crate) fn faults() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut faults = Vec::new();
    let mut expect = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    expect(std::process::id() == 1, "it shares a process namespace");
    expect(!rustix::process::getuid().is_root(), "it runs as root");
    expect(field(&status, "CapEff") == Some("0000000000000000"), "it has capabilities");
    expect(field(&status, "CapBnd") == Some("0000000000000000"), "it could gain capabilities");
    expect(field(&status, "NoNewPrivs") == Some("1"), "it could gain privileges");
    expect(field(&status, "Seccomp") == Some("2"), "no system call filter is installed");
    expect(only_loopback(), "it has a network interface besides loopback");
    for file in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"] {
        expect(fs::OpenOptions::new().write(true).open(file).is_err(), &format!("{file} can be written"));
    }
    faults
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn only_loopback() -> bool {
    let Ok(table) = fs::read_to_string("/proc/net/dev") else { return false };
    table.lines().skip(2).filter_map(|line| line.split(':').next()).all(|name| name.trim() == "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_bare_host_it_finds_fault() {
        let faults = faults();
        assert!(faults.contains(&"it shares a process namespace".to_owned()), "{faults:?}");
        assert!(faults.contains(&"no system call filter is installed".to_owned()), "{faults:?}");
    }
}
