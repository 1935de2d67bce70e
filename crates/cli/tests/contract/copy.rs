//! `cp`: files in and out.

use crate::support::{outcome, said};
use palisade_testing::Instance;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

contracts!(
    a_tree_comes_back_as_it_went,
    what_is_left_out_is_a_failure_unless_that_was_asked_for,
    a_link_or_a_pipe_of_the_hosts_stays,
    standard_input_and_output_are_copied,
    a_directory_receives_and_any_other_name_is_new,
    the_contents_of_a_directory_can_be_meant,
    what_is_not_there_is_told,
    exactly_one_side_is_a_sandbox,
);

/// Names that a shell, a terminal or a careless parser would trip over.
const ODD_NAMES: [&str; 7] = ["with space", "-rf", "a:b", "quote'\"", "new\nline", "dollar$(id)", "ünïcödé"];

fn binary() -> Vec<u8> {
    // Not compressible and without a pattern a lost piece could hide in.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take((5 << 20) / 8)
    .flatten()
    .collect()
}

fn make_tree(root: &Path) {
    std::fs::create_dir_all(root.join("deep/er")).unwrap();
    std::fs::create_dir(root.join("empty")).unwrap();
    for name in ODD_NAMES {
        std::fs::write(root.join(name), name).unwrap();
    }
    std::fs::write(root.join("deep/er/binary"), binary()).unwrap();
    std::fs::write(root.join("program"), "#!/bin/sh\necho ran\n").unwrap();
    std::fs::set_permissions(root.join("program"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("program", root.join("link")).unwrap();
}

/// Every path below, with its contents and whether it is executable; directories have none.
fn contents(root: &Path) -> BTreeMap<String, Option<(Vec<u8>, bool)>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if meta.is_dir() {
                pending.push(path);
                found.insert(name, None);
            } else if meta.is_file() {
                let executable = meta.permissions().mode() & 0o111 != 0;
                found.insert(name, Some((std::fs::read(path).unwrap(), executable)));
            } else {
                found.insert(format!("{name} (a link)"), None);
            }
        }
    }
    found
}

fn a_tree_comes_back_as_it_went(method: &'static str) {
    let instance = Instance::with_method(method);
    let (sent, back) = (instance.work().join("tree"), instance.work().join("back"));
    make_tree(&sent);
    instance.started("box");
    instance.run(["cp", "tree", "box:tree"]).ok();
    let inside = "cd tree && ./link && readlink link && ls -A empty && wc -c < deep/er/binary && ls | wc -l";
    // A name with a line break counts as two lines.
    assert_eq!(instance.shell("box", inside), outcome("ran\nprogram\n5242880\n12\n", "", 0));

    let copied = instance.run(["cp", "box:tree", "back"]);
    let bytes: u64 = ODD_NAMES.iter().map(|name| name.len() as u64).sum::<u64>()
        + (5 << 20)
        + "#!/bin/sh\necho ran\n".len() as u64;
    let told = format!("copied {} files, {bytes} bytes\n", ODD_NAMES.len() + 2);
    assert_eq!(copied, outcome("", &told, 0));
    assert!(contents(&back) == contents(&sent), "{:?}", contents(&back).keys());
    assert_eq!(std::fs::read_link(back.join("link")).unwrap(), Path::new("program"));
    // Permissions and times are kept, also those of directories.
    let script = "mkdir -p kept/private && echo x > kept/private/file && chmod 700 kept/private && chmod 640 kept/private/file \
                  && touch -d @1000000000 kept/private/file && touch -d @1000000001 kept/private";
    instance.shell("box", script).ok();
    instance.run(["cp", "box:kept", "kept"]).ok();
    let look = |path: &str| {
        let meta = std::fs::metadata(instance.work().join(path)).unwrap();
        (meta.permissions().mode() & 0o7777, meta.mtime())
    };
    assert_eq!(look("kept/private"), (0o700, 1_000_000_001));
    assert_eq!(look("kept/private/file"), (0o640, 1_000_000_000));
}

fn what_is_left_out_is_a_failure_unless_that_was_asked_for(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance
        .shell("box", "mkdir tree && echo x > tree/file && ln -s /etc/passwd tree/out && mkfifo tree/pipe")
        .ok();
    let copied = instance.run(["cp", "box:tree", "back"]);
    assert_eq!(copied.code, 1);
    for line in [
        "warning: left out tree/out: a link that leads out of the copy\n",
        "warning: \"tree/pipe\": skipped: neither a file nor a directory nor a link\n",
        "copied 1 file, 2 bytes\n",
        "error: not everything was copied; see the warnings above\nhint: pass --skip-unsafe to accept that\n",
    ] {
        assert!(copied.stderr.contains(line), "{}", copied.stderr);
    }
    let accepted = instance.run(["cp", "--skip-unsafe", "box:tree", "again"]).ok();
    assert!(accepted.stderr.contains("left out tree/out"), "{}", accepted.stderr);
    // In, too: a socket of the host's is nothing that can be copied.
    let _socket = std::os::unix::net::UnixListener::bind(instance.work().join("back/socket")).unwrap();
    assert_eq!(instance.run(["cp", "back", "box:in"]).code, 1);
    instance.run(["cp", "--skip-unsafe", "back", "box:in-again"]).ok();
}

/// As root, a copy to /dev/stdout replaced the device.
fn a_link_or_a_pipe_of_the_hosts_stays(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance.shell("box", "echo theirs > file").ok();
    let (link, pipe) = (instance.work().join("link"), instance.work().join("pipe"));
    symlink("/dev/null", &link).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (target, what) in [("link", "link"), ("pipe", "pipe")] {
        let told = format!(
            "error: /workspace/file: nothing was copied: there is a {what} of that name, which stays; remove it first\n"
        );
        let refused = instance.run(["cp", "box:/workspace/file", target]);
        // Without isolation the workspace lies elsewhere.
        assert!(method == "noop" || refused.stderr == told, "{}", refused.stderr);
        assert_eq!(refused.code, 1);
    }
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/dev/null"));
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(&pipe).unwrap().file_type()));
}

fn standard_input_and_output_are_copied(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let bytes: Vec<u8> = binary();
    let copied = instance.run_with_input(["cp", "-", "box:from-input"], &bytes);
    assert_eq!(copied, outcome("", &format!("copied 1 file, {} bytes\n", bytes.len()), 0));
    let back = instance.command(["cp", "box:from-input", "-"]).output().unwrap();
    assert!(back.status.success() && back.stdout == bytes, "{}", String::from_utf8_lossy(&back.stderr));
    assert!(back.stderr.is_empty());
    instance.shell("box", "mkdir directory").ok();
    for arguments in [["cp", "box:directory", "-"], ["cp", "-", "box:directory"]] {
        assert_eq!(instance.run(arguments).code, 1, "{arguments:?}");
    }
    assert_eq!(instance.run(["cp", "-", "-"]).code, 2);
}

fn a_directory_receives_and_any_other_name_is_new(method: &'static str) {
    let instance = Instance::with_method(method);
    std::fs::write(instance.work().join("file"), "text").unwrap();
    instance.started("box");
    instance.shell("box", "mkdir there").ok();
    for target in ["box:", "box:there", "box:there/", "box:new", "box:there/other"] {
        let copied = instance.run(["cp", "file", target]);
        assert_eq!((target, said(&copied).as_str(), copied.code), (target, "copied 1 file, 4 bytes\n", 0));
    }
    let found = instance.shell("box", "find . -type f | sort; cat file there/file new there/other");
    let files = "./file\n./new\n./there/file\n./there/other\n";
    assert_eq!(found, outcome(&format!("{files}texttexttexttext"), "", 0));

    std::fs::create_dir(instance.work().join("out")).unwrap();
    for target in ["out", "out/named", "./plain"] {
        instance.run(["cp", "box:there/file", target]).ok();
    }
    for path in ["out/file", "out/named", "plain"] {
        assert_eq!(std::fs::read_to_string(instance.work().join(path)).unwrap(), "text", "{path}");
    }
    // A second copy replaces what is there.
    instance.shell("box", "printf changed > there/file").ok();
    instance.run(["cp", "box:there/file", "plain"]).ok();
    assert_eq!(std::fs::read_to_string(instance.work().join("plain")).unwrap(), "changed");
}

fn the_contents_of_a_directory_can_be_meant(method: &'static str) {
    let instance = Instance::with_method(method);
    std::fs::create_dir(instance.work().join("tree")).unwrap();
    std::fs::write(instance.work().join("tree/file"), "text").unwrap();
    instance.started("box");
    instance.run(["cp", "tree/.", "box:"]).ok();
    assert_eq!(instance.shell("box", "find . -mindepth 1"), outcome("./file\n", "", 0));
}

fn what_is_not_there_is_told(method: &'static str) {
    let instance = Instance::with_method(method);
    std::fs::write(instance.work().join("file"), "text").unwrap();
    instance.started("box");
    let cases = [
        (["cp", "missing", "box:"], "error: missing: No such file or directory (os error 2)\n"),
        (["cp", "box:/no/missing", "."], "error: /no/missing: no such file or directory in the sandbox\n"),
        (
            ["cp", "file", "box:/no/dir/name"],
            "error: /no/dir/name: no such file or directory in the sandbox\n",
        ),
        (
            ["cp", "box:/etc/passwd", "no/dir/name"],
            "error: no/dir/name: No such file or directory (os error 2)\n",
        ),
    ];
    for (arguments, told) in cases {
        assert_eq!(instance.run(arguments), outcome("", told, 1), "{arguments:?}");
    }
    assert_eq!(instance.run(["cp", "file", "other:"]).code, 6);
}

fn exactly_one_side_is_a_sandbox(method: &'static str) {
    let instance = Instance::with_method(method);
    assert_eq!(
        instance.run(["cp", "one", "./a:b"]),
        outcome(
            "",
            "error: neither path is in a sandbox\n\
             hint: name the sandbox: palisade cp file NAME:/workspace, or palisade cp NAME:file .\n",
            2
        )
    );
    assert_eq!(
        instance.run(["cp", "one:a", "two:b"]),
        outcome(
            "",
            "error: both paths are in a sandbox\nhint: copy out of the one, then into the other\n",
            2
        )
    );
}
