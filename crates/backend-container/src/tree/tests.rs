use super::*;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};

fn scene() -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().unwrap();
    let root = HostPath::new(directory.path()).unwrap();
    (directory, Tree { root, guest: "/opt/tool".into() })
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Each entry in a line: kind, mode, owner, name, and where it leads or what is in it.
fn listed(bytes: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap();
    let line = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        if let Some(target) = entry.link_name().unwrap() {
            text = format!("-> {}", target.display());
        }
        let header = entry.header();
        let (mode, owner) = (header.mode().unwrap(), (header.uid().unwrap(), header.gid().unwrap()));
        let name = entry.path().unwrap().display().to_string();
        format!("{mode:o} {owner:?} {name} {text}").trim_end().to_owned()
    };
    entries.map(line).collect()
}

#[test]
fn a_tree_arrives_whole_readable_for_all_and_writable_for_none() {
    let (directory, tree) = scene();
    let at = |name: &str| directory.path().join(name);
    let long = "d".repeat(120);
    write(&at("bin/tool"), "#!/bin/sh\n", 0o775);
    write(&at("lib/data"), "data", 0o664);
    write(&at(&format!("lib/{long}/{long}")), "far", 0o644);
    symlink("../lib/data", at("bin/near")).unwrap();
    symlink("/etc/hosts", at("bin/absolute")).unwrap();
    symlink("../../other/x", at("bin/out")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let mut bytes = Vec::new();
    let digest = tree.write_for(Reader::Ordinary, &mut bytes).unwrap();
    assert_eq!(
        listed(&bytes),
        [
            "555 (0, 0) bin/".to_owned(),
            "777 (0, 0) bin/absolute -> /etc/hosts".into(),
            "777 (0, 0) bin/near -> ../lib/data".into(),
            "777 (0, 0) bin/out -> /opt/other/x".into(),
            "555 (0, 0) bin/tool #!/bin/sh".into(),
            "555 (0, 0) lib/".into(),
            "444 (0, 0) lib/data data".into(),
            format!("555 (0, 0) lib/{long}/"),
            format!("444 (0, 0) lib/{long}/{long} far"),
        ]
    );
    assert_eq!(digest, Digest::of_bytes(&bytes));
    assert_eq!(tree.write_for(Reader::Ordinary, io::sink()).unwrap(), digest, "the same each time");
    write(&at("lib/data"), "DATA", 0o664);
    assert_ne!(tree.write_for(Reader::Ordinary, io::sink()).unwrap(), digest);
}

#[test]
fn of_what_only_root_may_read_nothing_is_carried() {
    let (directory, tree) = scene();
    write(&directory.path().join("tool"), "x", 0o755);
    write(&directory.path().join("token"), "secret", 0o600);
    write(&directory.path().join("private/file"), "secret", 0o644);
    let private = directory.path().join("private");
    std::fs::set_permissions(private, PermissionsExt::from_mode(0o700)).unwrap();
    let mut bytes = Vec::new();
    tree.write_for(Reader::Root, &mut bytes).unwrap();
    assert_eq!(listed(&bytes), ["555 (0, 0) tool x"]);
}

#[test]
fn a_link_that_leads_out_is_said_from_the_top() {
    let told = |place: &str, target: &str| {
        carried_target(Path::new("/opt/tool"), Path::new(place), Path::new(target)).display().to_string()
    };
    assert_eq!(told("a", "b"), "b");
    assert_eq!(told("a/b/c", "../../d"), "../../d");
    assert_eq!(told("a", "../next/x"), "/opt/next/x");
    assert_eq!(told("a/b", "../../../../../../x"), "/x");
    assert_eq!(told("a/b", "../../tool/x"), "/opt/tool/x");
    assert_eq!(told("a", "/../x"), "/../x", "an absolute one is nobody's business");
}
