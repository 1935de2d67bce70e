//! Words that people and files give: names, paths, mounts, variables, sizes. Whatever is accepted stays in its
//! alphabet, which is spelled out here once more and apart from the parsers, and reads back as the same value.

use palisade_core::policy::parse_mount;
use palisade_core::{
    Access, AllowRule, Assignment, ByteSize, CpuCount, GuestPath, HostName, HostPath, HostPort, Method,
    Mount, Network, SandboxId, SandboxName, printable,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The input is one word, given to every parser.
pub fn check(input: &[u8]) {
    variable(input);
    host_path(Path::new(OsStr::from_bytes(input)));
    let Ok(text) = std::str::from_utf8(input) else { return };
    name(text);
    id(text);
    words(text);
    guest_path(text);
    mount(text);
    size(text);
    processors(text);
    reach(text);
    shown(text);
}

fn name(text: &str) {
    let Ok(name) = SandboxName::new(text) else { return };
    let bytes = text.as_bytes();
    assert_eq!(name.as_str(), text);
    assert!((1..=63).contains(&bytes.len()) && bytes[0] != b'-');
    assert!(bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')));
    assert_eq!(String::from(name.clone()).parse(), Ok(name));
}

fn id(text: &str) {
    let Ok(id) = SandboxId::parse(text) else { return };
    assert_eq!(id.as_str(), text);
    assert!(text.len() == 24 && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'9')));
    assert_eq!(id.short(), &text[..8]);
}

fn words(text: &str) {
    if let Ok(method) = text.parse::<Method>() {
        assert_eq!(method.as_str(), text);
    }
    if let Ok(network) = text.parse::<Network>() {
        assert_eq!(network.as_str(), text);
    }
}

fn host_path(path: &Path) {
    let Ok(host) = HostPath::new(path) else { return };
    assert!(path.is_absolute() && !path.as_os_str().as_bytes().contains(&0), "{path:?}");
    assert_eq!(host.as_path().as_os_str(), path.as_os_str());
    assert_eq!(HostPath::try_from(PathBuf::from(host.clone())), Ok(host));
}

fn guest_path(text: &str) {
    let Ok(path) = GuestPath::new(text) else { return };
    assert_plain(&path);
    assert_eq!(GuestPath::new(path.as_str()), Ok(path.clone()), "not normal yet");
    assert!(path.is_within(&path) && GuestPath::new("/").is_ok_and(|root| path.is_within(&root)));
}

/// Absolute, and every step goes down.
fn assert_plain(path: &GuestPath) {
    let text = path.as_str();
    let mut steps = text.split('/');
    assert_eq!(steps.next(), Some(""), "{text:?}");
    let plain = |step: &str| !matches!(step, "" | "." | "..") && !step.chars().any(char::is_control);
    assert!(text == "/" || steps.all(plain), "{text:?}");
}

fn mount(text: &str) {
    let Ok(mount) = parse_mount(text) else { return };
    let Mount { host, guest, access } = &mount;
    assert_plain(guest);
    host_path(host.as_path());
    for own in ["/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/.palisade", "/var/tmp"]
    {
        assert!(!Path::new(guest.as_str()).starts_with(own), "{text:?} lies in {own}");
    }
    for own in ["/", "/etc", "/home", "/home/agent", "/workspace", "/run", "/var"] {
        assert_ne!(guest.as_str(), own, "{text:?}");
    }
    let ending = match access {
        Access::ReadOnly => ":ro",
        Access::ReadWrite => "",
    };
    let written = format!("{}:{guest}{ending}", host.as_path().to_str().expect("it was text"));
    assert_eq!(parse_mount(&written), Ok(mount));
}

fn size(text: &str) {
    let Ok(size) = text.parse::<ByteSize>() else { return };
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => ByteSize::KIB,
        "m" | "mb" | "mib" => ByteSize::MIB,
        "g" | "gb" | "gib" => ByteSize::GIB,
        "t" | "tb" | "tib" => 1024 * ByteSize::GIB,
        other => panic!("{other:?} was taken for a unit"),
    };
    let number: u64 = digits.parse().expect("a size starts with a number");
    assert_eq!(number.checked_mul(scale), Some(size.0));
    assert!(size.0 > 0);
    assert_eq!(size.to_string().parse(), Ok(size));
}

fn processors(text: &str) {
    let Ok(count) = text.parse::<CpuCount>() else { return };
    assert!(text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{text:?}");
    assert!((10..=1_024_000).contains(&count.milli()), "{text:?}");
    assert_eq!(count.to_string().parse(), Ok(count));
}

fn variable(word: &[u8]) {
    let Ok(Assignment { name, value }) = Assignment::parse(OsStr::from_bytes(word)) else { return };
    let letters = name.as_str().as_bytes();
    assert!(matches!(letters[0], b'A'..=b'Z' | b'a'..=b'z' | b'_'));
    assert!(letters.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_')));
    let mut again = letters.to_vec();
    if let Some(value) = value {
        assert!(!value.as_bytes().contains(&0));
        again.push(b'=');
        again.extend_from_slice(value.as_bytes());
    }
    assert_eq!(again, word);
}

fn reach(text: &str) {
    if let Ok(name) = HostName::new(text) {
        let normal = name.as_str();
        assert_eq!(HostName::new(normal).as_ref(), Ok(&name), "not normal yet");
        assert!(matches!(normal.len(), 1..=253), "{text:?}");
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        let label = |label: &str| {
            matches!(label.len(), 1..=63) && label.bytes().all(plain) && !label.starts_with('-')
        };
        assert!(normal.split('.').all(label), "{text:?}");
        assert!(normal.parse::<std::net::IpAddr>().is_err(), "{text:?} is an address");
        assert!(!name.is_below(&name));
    }
    if let Ok(rule) = text.parse::<AllowRule>() {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    if let Ok(port) = text.parse::<HostPort>() {
        assert_eq!(port.to_string().parse(), Ok(port));
    }
}

/// Nothing in it drives a terminal, and what is shown can be shown again.
fn shown(text: &str) {
    let shown = printable(text);
    assert!(!shown.chars().any(char::is_control));
    assert_eq!(printable(&shown), shown);
}
