//! A directory as the root of a sandbox: its programs run, nothing of the host's is there, and nothing that somebody put
//! into it leads out.

use crate::support::{outcome, plugin, redacted, user_config};
use palisade_testing::{Instance, Outcome, requires};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A small system: these programs of the host's with the libraries they need, at the paths where they look for them.
fn system(root: &Path) {
    for program in ["sh", "cat", "ls", "touch", "pwd"] {
        let found = ["/usr/bin", "/bin"].map(|directory| Path::new(directory).join(program));
        let found = found.iter().find(|path| path.exists()).expect("a program of every Linux");
        copy(found, &root.join("usr/bin").join(program));
        let listed = std::process::Command::new("ldd").arg(found).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
        paths.for_each(|library| copy(Path::new(library), &root.join(library.trim_start_matches('/'))));
    }
    symlink("usr/bin", root.join("bin")).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}

/// An environment `small` on a system of its own, below a root that the user allows.
fn small(instance: &Instance) -> PathBuf {
    let roots = instance.work().join("roots");
    let root = roots.join("small");
    system(&root);
    user_config(instance, &format!("[environments]\nroots = [\"{}\"]\n", roots.display()));
    named(instance, &root);
    root
}

fn named(instance: &Instance, root: &Path) {
    let text = format!(
        "name = \"small\"\ndescription = \"d\"\nroot = \"{}\"\nrequires = [\"sh\"]\ncommand = \"/bin/sh\"\n",
        root.display()
    );
    plugin(instance, "small", &text);
}

fn shell(instance: &Instance, script: &str) -> Outcome {
    let words = ["run", "--environment", "small", "--", "sh", "-c", script];
    redacted(instance, instance.run(words))
}

#[test]
fn its_programs_run_and_nothing_of_the_hosts_is_there() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let root = small(&instance);
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::write(root.join("etc/os-release"), "ID=small\n").unwrap();
    let seen = shell(&instance, "cat /etc/os-release; ls /usr; pwd; cat /etc/hostname").ok();
    let usr: Vec<String> = {
        let mut names: Vec<String> = std::fs::read_dir(root.join("usr"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(seen.stdout, format!("ID=small\n{}\n/workspace\nsandbox\n", usr.join("\n")));
    for path in ["/usr/x", "/etc/x", "/x", "/bin/x"] {
        let written = shell(&instance, &format!("touch {path}"));
        assert_ne!(written.code, 0, "{path} can be written");
    }
    shell(&instance, "touch /workspace/x /tmp/x /home/agent/x").ok();
    assert!(!root.join("usr/x").exists());

    // The control: with the host's own root, the host's programs are there.
    let host = instance.run(["run", "--", "sh", "-c", "ls /usr"]).ok();
    assert_ne!(host.stdout.lines().map(str::to_owned).collect::<Vec<_>>(), usr);
}

#[test]
fn links_in_it_lead_nowhere_but_inside() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let root = small(&instance);
    let outside = instance.work().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "the secret outside").unwrap();
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::create_dir_all(root.join("var")).unwrap();
    let spellings = [
        outside.display().to_string(),
        format!("/oldroot{}", outside.display()),
        format!("../../../../../../../..{}", outside.display()),
    ];
    for (number, target) in spellings.iter().enumerate() {
        for place in ["", "etc/", "var/", "usr/"] {
            symlink(target, root.join(format!("{place}link{number}"))).unwrap();
        }
    }
    // Where every sandbox has a place of its own, a link does not count.
    for own in ["home", "tmp", "run", "workspace", "proc", "dev", ".palisade"] {
        symlink(&spellings[1], root.join(own)).unwrap();
    }
    let read =
        shell(&instance, "for link in /link* /etc/link* /var/link* /usr/link*; do cat $link/secret; done");
    assert_eq!((read.stdout.as_str(), read.code), ("", 1), "{}", read.stderr);
    shell(&instance, "echo x > /home/agent/x; echo x > /workspace/x; echo x > /tmp/x").ok();
    let left: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["secret"], "something was made outside");
}

#[test]
fn nothing_is_mounted_on_what_it_brings() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let root = small(&instance);
    let outside = instance.work().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(format!("/oldroot{}", outside.display()), root.join("data")).unwrap();
    std::fs::create_dir(root.join("opt")).unwrap();
    symlink(format!("/oldroot{}", outside.display()), root.join("opt/deep")).unwrap();
    std::fs::create_dir(instance.work().join("shown")).unwrap();
    for target in ["/data", "/data/below", "/opt/deep/below"] {
        let mount = format!("shown:{target}:ro");
        let words = ["run", "--environment", "small", "--mount", &mount, "--", "true"];
        let told = format!(
            "error: cannot use {target} in a sandbox: the environment's root has something of its own there\n\
             hint: show it at another place with --mount HOST:GUEST, or leave it out\n"
        );
        assert_eq!(redacted(&instance, instance.run(words)), outcome("", &told, 1));
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "something was made outside");
    let elsewhere =
        ["run", "--environment", "small", "--mount", "shown:/elsewhere:ro", "--", "ls", "/elsewhere"];
    instance.run(elsewhere).ok();
}

#[test]
fn a_root_behind_a_link_or_without_a_system_is_refused() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let root = small(&instance);
    let roots = root.parent().unwrap();
    symlink(&root, roots.join("link")).unwrap();
    symlink(roots, roots.join("back")).unwrap();
    std::fs::create_dir(roots.join("empty")).unwrap();
    std::fs::write(roots.join("file"), "").unwrap();
    for (name, reason) in [
        ("link", "a symbolic link leads to it"),
        ("back/small", "a symbolic link leads to it"),
        ("file", "it is not a directory"),
        ("none", "No such file or directory"),
    ] {
        let place = roots.join(name);
        let text = format!("name = \"small\"\ndescription = \"d\"\nroot = \"{}\"\n", place.display());
        plugin(&instance, "small", &text);
        let refused = shell(&instance, "true");
        let told = format!("error: cannot use WORK/roots/{name} in a sandbox: {reason}");
        assert!(refused.stderr.starts_with(&told) && refused.code == 1, "{name}: {refused:?}");
    }
    let text =
        format!("name = \"small\"\ndescription = \"d\"\nroot = \"{}\"\n", roots.join("empty").display());
    plugin(&instance, "small", &text);
    let refused = shell(&instance, "true");
    let told = "it holds no system: there is neither a bin nor a usr in it";
    assert!(refused.stderr.contains(told), "{refused:?}");
}

#[test]
fn a_tool_must_be_in_the_root_and_not_on_the_host() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let root = small(&instance);
    symlink("/usr/bin/git", root.join("usr/bin/git")).unwrap();
    let text = format!(
        "name = \"small\"\ndescription = \"d\"\nroot = \"{}\"\nrequires = [\"git\"]\n",
        root.display()
    );
    plugin(&instance, "small", &text);
    let told = "error: environment 'small' needs git, which WORK/roots/small does not have\n\
                hint: add git to WORK/roots/small\n";
    assert_eq!(shell(&instance, "true"), outcome("", told, 4));
}
