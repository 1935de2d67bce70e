//! Streams that a hostile guest sends, against the rules of a working tree. The control of each is the same stream without
//! those rules, or an honest file beside the hostile one.

use super::*;
use palisade_engine::{Anything, CopyLimits, Landing, Top, extract};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use tar::EntryType;

struct Scene {
    home: tempfile::TempDir,
    tracked: Vec<&'static str>,
}

fn scene() -> Scene {
    let home = tempfile::tempdir().unwrap();
    for name in ["tree", "plain", "outside"] {
        fs::create_dir(home.path().join(name)).unwrap();
    }
    Scene { home, tracked: Vec::new() }
}

impl Scene {
    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// Brings a stream as the item `build` of the tree.
    fn bring(&self, stream: &[u8]) -> (Brought, Vec<(String, String)>) {
        let memory = Memory::open(&self.at("memory"), "box").unwrap().unwrap();
        let mut guarded = Guarded::new(self.tracked.iter().copied().collect(), memory);
        guarded.begin(ArtifactPath::new(Path::new("build")).unwrap());
        let mut landing = self.landing("tree", guarded);
        extract(stream, &mut landing).unwrap();
        let (brought, memory) = landing.reception.end();
        memory.settle(&self.at("tree")).unwrap();
        let left = landing.report.skipped.into_iter().map(|left| (left.path, left.why));
        (Brought { files: landing.report.files, ..brought }, left.collect())
    }

    /// The same without any rule.
    fn bring_plainly(&self, stream: &[u8]) {
        extract(stream, &mut self.landing("plain", Anything { top: 1 })).unwrap();
    }

    fn landing<R: Reception>(&self, place: &str, reception: R) -> Landing<R> {
        let directory = fs::File::open(self.at(place)).unwrap();
        Landing::new(directory, Top::Names(vec!["build".into()]), CopyLimits::NONE, reception)
    }
}

struct Stream(tar::Builder<Vec<u8>>);

impl Stream {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn entry(mut self, path: &[u8], kind: EntryType, link: &str, text: &str) -> Self {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path);
        header.set_entry_type(kind);
        if !link.is_empty() {
            header.set_link_name(link).unwrap();
        }
        header.set_mode(0o6777);
        header.set_size(text.len() as u64);
        header.set_cksum();
        self.0.append(&header, text.as_bytes()).unwrap();
        self
    }

    fn file(self, path: &str, text: &str) -> Self {
        self.entry(path.as_bytes(), EntryType::Regular, "", text)
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

#[test]
fn nothing_lands_under_any_name_that_stands_for_git() {
    let spellings =
        [".git", ".GIT", ".git.", ".git ", "git~1", "GIT~2", ".git::$INDEX_ALLOCATION", ".g\u{200c}it"];
    for spelling in spellings {
        let scene = scene();
        let hook = format!("b/{spelling}/hooks/post-checkout");
        let stream = Stream::new().file(&hook, "evil").file("b/.gitkeep", "honest").bytes();
        let (brought, left) = scene.bring(&stream);
        let why = "git would take it for its own directory";
        assert_eq!((brought.files, left), (1, vec![(hook, why.to_owned())]), "{spelling:?}");
        assert_eq!(fs::read_dir(scene.at("tree/build")).unwrap().count(), 1);
        scene.bring_plainly(&stream);
        assert_eq!(fs::read_dir(scene.at("plain/build")).unwrap().count(), 2, "the control");
    }
}

#[test]
fn what_git_carries_and_what_the_user_made_stay() {
    let mut scene = scene();
    scene.tracked = vec!["build/tracked", "build/gone", "build/sub/deep"];
    let stream = Stream::new()
        .file("b/tracked", "theirs")
        .file("b/gone", "theirs")
        .file("b/gone/below", "theirs")
        .file("b/own", "theirs")
        .file("b/new", "theirs")
        .file("b/sub", "theirs")
        .file("b/dir", "theirs")
        .bytes();
    for name in ["tree", "plain"] {
        scene.write(&format!("{name}/build/tracked"), "mine");
        scene.write(&format!("{name}/build/own"), "mine");
        fs::create_dir(scene.at(&format!("{name}/build/dir"))).unwrap();
    }
    let (brought, left) = scene.bring(&stream);
    assert_eq!((brought.files, brought.tracked, left), (1, 4, vec![]));
    assert_eq!((brought.kept, brought.kept_in_all), (vec!["build/own".into(), "build/dir".into()], 2));
    assert_eq!(
        (scene.read("tree/build/tracked"), scene.read("tree/build/own")),
        ("mine".into(), "mine".into())
    );
    assert_eq!(scene.read("tree/build/new"), "theirs");
    assert!(!scene.at("tree/build/gone").exists() && !scene.at("tree/build/sub").exists());
    scene.bring_plainly(&stream);
    assert_eq!(scene.read("plain/build/tracked"), "theirs", "the control");
}

#[test]
fn the_next_time_replaces_what_it_brought_and_only_that() {
    let scene = scene();
    let stream =
        |text: &str| Stream::new().file("b/one", text).file("b/two", text).file("b/three", "same").bytes();
    assert_eq!(scene.bring(&stream("first")).0.files, 3);
    scene.write("tree/build/two", "the user's");
    let (brought, _) = scene.bring(&stream("second"));
    assert_eq!((brought.files, brought.same, brought.kept), (1, 1, vec!["build/two".into()]));
    let read = |name: &str| scene.read(&format!("tree/build/{name}"));
    assert_eq!((read("one"), read("two")), ("second".into(), "the user's".into()));
    // Out of the way, it comes.
    fs::remove_file(scene.at("tree/build/two")).unwrap();
    let (brought, _) = scene.bring(&stream("second"));
    assert_eq!((brought.files, brought.same, brought.kept), (1, 2, vec![]));
}

#[test]
fn only_links_within_what_is_brought_are_made() {
    let scene = scene();
    scene.write("outside/secret", "mine");
    let link = |stream: Stream, path: &str, target: &str| {
        stream.entry(path.as_bytes(), EntryType::Symlink, target, "")
    };
    let mut stream = Stream::new().file("b/lib/tool", "honest");
    for (path, target) in [
        ("b/bin/tool", "../lib/tool"),
        ("b/up", "../code"),
        ("b/away", "/etc"),
        ("b/sly", "lib/../../.."),
        ("b/config", "x/.git/config"),
    ] {
        stream = link(stream, path, target);
    }
    let stream = stream.file("b/away/passwd", "evil").bytes();
    let (brought, left) = scene.bring(&stream);
    let why = "a link that leads out of what is brought";
    let expected = ["b/up", "b/away", "b/sly", "b/config"].map(|path| (path.to_owned(), why.to_owned()));
    assert_eq!((brought.files, left), (2, expected.to_vec()));
    assert_eq!(scene.read("tree/build/bin/tool"), "honest");
    // The name was free again, so it is an ordinary directory.
    assert_eq!(scene.read("tree/build/away/passwd"), "evil");

    // A link of ours is replaced, one of the user's is not.
    let again = |target: &str| link(Stream::new(), "b/bin/tool", target).bytes();
    scene.bring(&again("../lib/other"));
    assert_eq!(fs::read_link(scene.at("tree/build/bin/tool")).unwrap(), Path::new("../lib/other"));
    fs::remove_file(scene.at("tree/build/bin/tool")).unwrap();
    symlink("../../../outside/secret", scene.at("tree/build/bin/tool")).unwrap();
    assert_eq!(scene.bring(&again("../lib/tool")).0.kept, [Path::new("build/bin/tool")]);
    let over = Stream::new().file("b/bin/tool", "evil").bytes();
    assert_eq!(scene.bring(&over).0.kept, [Path::new("build/bin/tool")]);
    assert_eq!(scene.read("outside/secret"), "mine");
    fs::write(scene.at("tree/build/bin/tool"), "evil").unwrap();
    assert_eq!(scene.read("outside/secret"), "evil", "the control: a plain write follows it");
}

#[test]
fn only_files_arrive_and_nowhere_else() {
    let scene = scene();
    let outside = scene.at("outside/hit").display().to_string();
    let stream = Stream::new()
        .entry(b"b/fifo", EntryType::Fifo, "", "")
        .entry(b"b/char", EntryType::Char, "", "")
        .entry(b"b/block", EntryType::Block, "", "")
        .entry(b"b/hard", EntryType::Link, "/etc/passwd", "")
        .file("../outside/hit", "evil")
        .file("b/../../outside/hit", "evil")
        .file(&outside, "evil")
        .entry(b"b/odd\xff\n", EntryType::Regular, "", "honest")
        .bytes();
    let (brought, left) = scene.bring(&stream);
    let left: Vec<&str> = left.iter().map(|(path, _)| path.as_str()).collect();
    let expected =
        ["b/fifo", "b/char", "b/block", "b/hard", "../outside/hit", "b/../../outside/hit", outside.as_str()];
    assert_eq!((brought.files, left), (1, expected.to_vec()));
    assert_eq!(fs::read_dir(scene.at("outside")).unwrap().count(), 0);
    let odd = scene.at("tree/build").join(OsStr::from_bytes(b"odd\xff\n"));
    let mode = fs::metadata(&odd).unwrap().permissions().mode();
    assert_eq!((fs::read_to_string(&odd).unwrap().as_str(), mode & 0o7777), ("honest", 0o755));
}

#[test]
fn a_directory_that_became_a_link_on_the_host_leads_nowhere() {
    let scene = scene();
    let stream = Stream::new().file("b/deep/file", "theirs").bytes();
    assert_eq!(scene.bring(&stream).0.files, 1);
    fs::rename(scene.at("tree/build/deep"), scene.at("outside/deep")).unwrap();
    symlink("../../outside/deep", scene.at("tree/build/deep")).unwrap();
    let changed = Stream::new().file("b/deep/file", "evil").bytes();
    let (brought, left) = scene.bring(&changed);
    let why = "its place is or lies behind something that is no directory".to_owned();
    assert_eq!((brought.files, left), (0, vec![("b/deep/file".to_owned(), why)]));
    assert_eq!(scene.read("outside/deep/file"), "theirs");
    fs::write(scene.at("tree/build/deep/file"), "evil").unwrap();
    assert_eq!(scene.read("outside/deep/file"), "evil", "the control: a plain write follows it");
}

#[test]
fn what_runs_by_itself_is_told() {
    let scene = scene();
    let stream = Stream::new().file("b/.envrc", "evil").file("b/a.out", "").bytes();
    let told = scene.bring(&stream).0.autorun;
    let paths: Vec<&Path> = told.iter().map(|file| file.path.as_path()).collect();
    assert_eq!(paths, [Path::new("build/.envrc")]);
    assert_eq!(scene.bring(&stream).0.autorun, [], "nothing is new");
}
