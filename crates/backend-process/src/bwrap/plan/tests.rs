use super::*;

fn host(path: &str) -> HostPath {
    HostPath::new(path).unwrap()
}

fn facts() -> HostFacts {
    HostFacts {
        root: vec![
            RootEntry::Link { name: "bin".into(), target: "usr/bin".into() },
            RootEntry::Shown { name: "lib64".into() },
        ],
        etc: vec![
            EtcEntry::Bound { path: "/etc/ssl/certs".into() },
            EtcEntry::Directory { path: "/etc/ld.so.conf.d".into() },
            EtcEntry::Link { path: "/etc/ld.so.conf.d/x.conf".into(), target: "../x.conf".into() },
            EtcEntry::Copied { path: "/etc/ld.so.conf.d/libc.conf".into(), mode: 0o644 },
        ],
        localtime: Some("/usr/share/zoneinfo/Etc/UTC".into()),
        opt: true,
        proc_read_only: vec!["/proc/sys".into(), "/proc/sysrq-trigger".into()],
        proc_masked_files: vec!["/proc/kcore".into()],
        proc_masked_directories: vec!["/proc/scsi".into()],
    }
}

/// One option with its operands a line, as a person would want to read it.
fn lines(options: &[OsString]) -> String {
    let mut text = String::new();
    for word in options {
        let word = word.to_string_lossy();
        let separator = if word.starts_with("--") && !text.is_empty() { "\n" } else { " " };
        text.push_str(separator);
        text.push_str(&word);
    }
    text.trim_start().to_owned()
}

fn input<'a>(facts: &'a HostFacts, guest: &'a HostPath) -> PlanInput<'a> {
    let own = |from: &str, at: &str| Place::Directory(Bind::named(host(from), at, Access::ReadWrite));
    PlanInput {
        facts,
        guest_binary: guest,
        hostname: "box",
        home: own("/state/home", HOME),
        workspace: own("/state/workspace", WORKSPACE),
        root: None,
        binds: Vec::new(),
        fence: Vec::new(),
        opt: false,
        network: Network::None,
        tmp: ByteSize(ByteSize::GIB),
    }
}

#[test]
fn the_files_with_text_of_our_own_are_those_that_nothing_is_mounted_on() {
    let files = text_files("box", Network::None);
    let names: Vec<&str> = files.iter().map(|file| file.guest.as_str()).collect();
    assert_eq!(names, palisade_core::policy::OWN_FILES);
}

#[test]
fn a_persistent_sandbox() {
    let (facts, guest) = (facts(), host("/opt/palisade/palisade-guest"));
    let plan = plan(&input(&facts, &guest));
    insta::assert_snapshot!(
        "persistent",
        format!("{}\n== closing\n{}", lines(&plan.options), lines(&plan.closing))
    );
}

#[test]
fn a_one_off_run_with_a_fenced_directory() {
    let (facts, guest) = (facts(), host("/g"));
    let bind = |from: &str, at: &str, access| Bind::named(host(from), at, access);
    let mut input = input(&facts, &guest);
    input.home = Place::Memory;
    input.workspace = Place::Directory(bind("/src/app", WORKSPACE, Access::ReadWrite));
    input.binds = vec![bind("/srv/data", "/data", Access::ReadOnly)];
    input.fence = vec![
        bind("/src/app/.git", "/workspace/.git", Access::ReadWrite),
        bind("/src/app/.git/config", "/workspace/.git/config", Access::ReadOnly),
    ];
    input.opt = true;
    insta::assert_snapshot!("fenced", lines(&plan(&input).options));
}

#[test]
fn a_root_of_its_own_shows_nothing_of_the_hosts() {
    let (mut facts, guest) = (facts(), host("/g"));
    facts.root = vec![
        RootEntry::Link { name: "bin".into(), target: "usr/bin".into() },
        RootEntry::Shown { name: "usr".into() },
        RootEntry::Link { name: "srv".into(), target: "/oldroot/etc".into() },
        RootEntry::Shown { name: "etc/ssl".into() },
    ];
    (facts.etc, facts.localtime, facts.opt) = (Vec::new(), None, false);
    let mut input = input(&facts, &guest);
    input.root = Some(host("/srv/roots/ruby"));
    insta::assert_snapshot!("root_of_its_own", lines(&plan(&input).options));
}

#[test]
fn the_files_inside_know_one_user_and_nothing_of_the_host() {
    let (facts, guest) = (facts(), host("/g"));
    let files = plan(&input(&facts, &guest)).files;
    let content = |file: &PlannedFile| match &file.content {
        FileContent::Text(text) => text.clone(),
        FileContent::Host(path) => format!("(as {path})\n"),
    };
    let text: String = files.iter().map(|file| format!("== {}\n{}", file.guest, content(file))).collect();
    insta::assert_snapshot!("files", text);
}

#[test]
fn carve_outs_come_after_what_they_carve() {
    let (facts, guest) = (facts(), host("/g"));
    let mut input = input(&facts, &guest);
    let hooks = "/workspace/.git/hooks";
    input.fence = vec![Bind::named(host("/x/.git/hooks"), hooks, Access::ReadOnly)];
    let options = plan(&input).options;
    let position = |wanted: &str| options.iter().position(|word| word == wanted).unwrap();
    assert!(position(hooks) > position(WORKSPACE));
    assert!(position("/proc/sys") > position("--proc"));
}

#[test]
fn arguments_with_odd_bytes_stay_one_argument() {
    let words = [OsString::from("--bind"), OsString::from("/a b\n--share-net"), OsString::from("/c")];
    assert_eq!(nul_separated(&words), b"--bind\0/a b\n--share-net\0/c\0");
}
