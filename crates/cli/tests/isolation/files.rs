//! Nothing of the host's files is inside.

use palisade_testing::probe::{Differences, SEARCH, Users, everywhere, nonce, on_host, under_naive_bwrap};
use palisade_testing::{is_root, requires};
use serde_json::json;
use std::path::{Path, PathBuf};

palisade_testing::on_isolating_methods!(
    secrets_of_the_host_are_found_by_no_way_in,
    no_socket_of_the_host_is_inside_and_no_variable_tells_of_one,
    the_root_holds_only_what_is_listed_and_etc_tells_nothing_of_the_hosts_users,
);

/// Files with a secret in them, gone at the end.
struct Canaries {
    files: Vec<PathBuf>,
}

impl Canaries {
    /// In the home directory where people keep secrets and, for root, in places of the system.
    fn plant(home: &Path, nonce: &str) -> Self {
        let mut places: Vec<PathBuf> = [".ssh", ".aws", ".config/tool"].map(|place| home.join(place)).into();
        if is_root() {
            places.extend(["/", "/root", "/etc", "/var/lib", "/opt", "/mnt"].map(PathBuf::from));
        }
        let mut planted = Self { files: Vec::new() };
        for place in places.into_iter().filter(|place| !place.exists() || place.is_dir()) {
            // In a directory of its own, so that the control need not search all of the host.
            let directory = place.join(format!(".{nonce}"));
            std::fs::create_dir_all(&directory).unwrap();
            let file = directory.join("secret");
            std::fs::write(&file, format!("secret {nonce}\n")).unwrap();
            planted.files.push(file);
        }
        planted
    }

    fn directories(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.parent().unwrap().to_str().unwrap()).collect()
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        for file in &self.files {
            // Both are ours; a failure shows as a stray file with a telling name.
            let _ = std::fs::remove_file(file);
            let _ = file.parent().map(std::fs::remove_dir);
        }
    }
}

fn secrets_of_the_host_are_found_by_no_way_in(method: &'static str) {
    requires!(python3);
    everywhere(method, &[], |inside| {
        let nonce = nonce();
        let canaries = Canaries::plant(&inside.instance.home(), &nonce);
        let mut arguments = vec![nonce.as_str(), "/"];
        arguments.extend(canaries.directories());
        assert_eq!(
            inside.python(SEARCH, &arguments),
            json!({"found": [], "sockets": [], "saw_something": true}),
            "{:?}",
            inside.entry()
        );
        // Each of them is there for a sandbox that shows the host's files, and for the same search.
        let mut arguments = vec![nonce.as_str()];
        arguments.extend(canaries.directories());
        let seen = under_naive_bwrap(SEARCH, &arguments);
        assert_eq!(seen["found"].as_array().unwrap().len(), canaries.files.len(), "{seen}");
    });
}

fn no_socket_of_the_host_is_inside_and_no_variable_tells_of_one(method: &'static str) {
    requires!(python3);
    everywhere(method, &[], |inside| {
        let home = inside.instance.home();
        let sockets = ["docker.sock", "bus", "agent.sock"].map(|name| home.join(name));
        let _listeners: Vec<_> =
            sockets.iter().map(|path| std::os::unix::net::UnixListener::bind(path).unwrap()).collect();
        let mut command = inside.command(&["/usr/bin/env"]);
        // That of an engine which is not the one in use.
        let engine = if method == "docker" { "CONTAINER_HOST" } else { "DOCKER_HOST" };
        command.env("SSH_AUTH_SOCK", &sockets[2]).env(engine, &sockets[0]).env("SECRET_TOKEN", "x");
        command.env("DBUS_SESSION_BUS_ADDRESS", &sockets[1]);
        let environment = palisade_testing::Instance::finish(&mut command).ok().stdout;
        let mut names: Vec<&str> =
            environment.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        names.sort_unstable();
        let own = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"];
        let mut expected = [&own, Differences::of(method).variables].concat();
        expected.sort_unstable();
        assert_eq!(names, expected);

        let state = inside.instance.state();
        let places = ["no-such-needle", "/", home.to_str().unwrap(), state.to_str().unwrap()];
        assert_eq!(inside.python(SEARCH, &places)["sockets"], json!([]));
        // The same search finds ours and the keeper's on the host.
        let seen = on_host(SEARCH, &["no-such-needle", home.to_str().unwrap(), state.to_str().unwrap()]);
        let seen = seen["sockets"].as_array().unwrap();
        let keeper = usize::from(inside.entry() == palisade_testing::probe::Entry::Exec);
        assert_eq!(seen.len(), sockets.len() + keeper, "{seen:?}");
    });
}

/// What a hosts file names, but for what every machine calls itself.
fn host_names(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.flat_map(|line| line.split_whitespace().skip(1));
    names.filter(|name| !name.contains("local") && !name.starts_with("ip6-")).map(str::to_owned).collect()
}

/// The one that scripts/setup makes on every machine that runs these tests.
const ACCOUNT: &str = "palisade-test";

fn the_root_holds_only_what_is_listed_and_etc_tells_nothing_of_the_hosts_users(method: &'static str) {
    everywhere(method, &[], |inside| {
        let differences = Differences::of(method);
        let known = [
            ".palisade",
            "bin",
            "dev",
            "etc",
            "home",
            "lib",
            "lib32",
            "lib64",
            "libexec",
            "libx32",
            "proc",
            "run",
            "sbin",
            "tmp",
            "usr",
            "var",
            "workspace",
        ];
        let listed = inside.shell("ls -A /").ok().stdout;
        let unknown: Vec<&str> = listed.lines().filter(|name| !known.contains(name)).collect();
        assert_eq!(unknown, differences.root);
        let users = inside.shell("cut -d: -f1 /etc/passwd /etc/group; ls -A /home").ok().stdout;
        match differences.users {
            Users::OursAlone => {
                assert_eq!(users.lines().collect::<Vec<_>>(), ["root", "agent", "root", "agent", "agent"]);
            }
            // An account that only the host has is not among the image's.
            Users::OfTheImage => assert!(!users.contains(ACCOUNT), "{users}"),
        }
        assert_eq!(inside.shell("cat /etc/shadow /etc/machine-id /etc/sudoers").code, 1);
        let names = inside.shell("cat /etc/hosts").ok().stdout;
        for name in host_names(&std::fs::read_to_string("/etc/hosts").unwrap()) {
            let shown = host_names(&names).contains(&name);
            assert_eq!(shown, differences.names_of_the_host, "{name} in {names}");
        }
    });
}
