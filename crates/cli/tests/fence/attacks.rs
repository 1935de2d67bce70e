//! What a sandbox plants in a directory that it shares with the host must not run when the host uses git there. Every
//! attack comes with a control: bound without protection it works.

use crate::canary::Canary;
use crate::place::{Place, make_template, on_host, open_to_all};
use crate::support::{Repository, tree};
use crate::table::{ATTACKS, Attack, WORDS};
use palisade_testing::probe::naive_bwrap;
use palisade_testing::{Instance, Outcome, requires};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

palisade_testing::on_isolating_methods!(
    nothing_that_a_sandbox_plants_runs_when_the_host_uses_git,
    a_repository_under_a_path_that_is_recorded_as_one_keeps_its_commit_waiting,
    a_directory_that_is_no_repository_is_not_made_one,
);

const AS_AGENT: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n";

/// What a user's shell does at every prompt, and the user now and then.
fn use_git_on_the_host(home: &Path, directory: &Path) {
    Canary::new(home, &[directory.to_owned()]).round();
}

/// What the user does after an attack.
fn pull_the_trigger(attack: &Attack, place: &Place) {
    if attack.trigger.is_empty() {
        return;
    }
    let mut shell = on_host("bash", &place.home, &place.path);
    shell.args(["-c", &place.filled(attack.trigger)]).output().unwrap();
}

/// The control: in a directory that is simply bound, every attack works.
#[test]
fn every_attack_works_without_protection() {
    requires!(bwrap, git);
    let root = tempfile::Builder::new().prefix("pt-").tempdir_in("/tmp").unwrap();
    make_template(&root.path().join("template"), &root.path().join("home"));
    let attempt = |(number, attack): (usize, &Attack)| {
        let at = |name: &str| root.path().join(format!("{name}-{number}"));
        std::fs::create_dir(at("home")).unwrap();
        std::fs::copy(root.path().join("home/.gitconfig"), at("home").join(".gitconfig")).unwrap();
        let place = Place::copy_of(&root.path().join("template"), at("repo"), at("home"), at("mark"));
        (attack.prepare)(&place);
        let script = place.filled(&format!("{AS_AGENT}{WORDS}{}", attack.script));
        let path = place.path.to_str().unwrap();
        let options = ["--bind", path, path, "--chdir", path];
        let output = naive_bwrap(&options, &["sh", "-c", &script]).stdin(Stdio::null()).output().unwrap();
        use_git_on_the_host(&place.home, &place.path);
        pull_the_trigger(attack, &place);
        (!place.mark.exists()).then(|| format!("{}: {output:?}", attack.name))
    };
    let numbered: Vec<(usize, &Attack)> = ATTACKS.iter().enumerate().collect();
    let (some, others) = numbered.split_at(numbered.len() / 2);
    let failed = std::thread::scope(|scope| {
        let parts =
            [some, others].map(|part| scope.spawn(|| part.iter().copied().filter_map(attempt).collect()));
        parts.map(|part| -> Vec<String> { part.join().unwrap() }).concat()
    });
    assert_eq!(failed, [""; 0], "these must work without protection");
}

/// Repositories that are all attacked by one sandbox.
struct Scene {
    instance: Instance,
    places: Vec<Place>,
}

impl Scene {
    fn new(method: &'static str) -> Self {
        let instance = Instance::with_method(method);
        let work = instance.work();
        make_template(&work.join("template"), &instance.home());
        std::fs::create_dir(work.join("marks")).unwrap();
        let mut places = Vec::new();
        for (number, attack) in ATTACKS.iter().enumerate() {
            let (path, mark) = (work.join(format!("{number}")), work.join(format!("marks/{number}")));
            let place = Place::copy_of(&work.join("template"), path, instance.home(), mark);
            (attack.prepare)(&place);
            places.push(place);
        }
        instance.give(&work);
        // Palisade of root's reads the settings of the repositories' owner as that user.
        open_to_all(work.parent().unwrap());
        open_to_all(&instance.home());
        Self { instance, places }
    }

    /// All attacks, one after the other, until the user says that it is enough. The first directory is the workspace.
    fn script(&self) -> String {
        let mut script = format!("{AS_AGENT}until test -e /workspace/enough; do\n");
        for (number, (attack, place)) in ATTACKS.iter().zip(&self.places).enumerate() {
            let directory = if number == 0 { "/workspace".into() } else { format!("/r/{number}") };
            let words = place.filled(&format!("{WORDS}{}", attack.script));
            script += &format!("( cd {directory}; {words}\n ) </dev/null >/dev/null 2>&1\n");
        }
        // In subdirectories it is only reported.
        let inner = self.places[0].filled(&format!("{WORDS} repository inner/.git; mkdir -p deep; cd deep"));
        script += &format!("( {inner}; mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD; bare )\n");
        script + "test $up || echo up; up=1; done"
    }

    fn marks(&self) -> Vec<&'static str> {
        let marked = ATTACKS.iter().zip(&self.places).filter(|(_, place)| place.mark.exists());
        marked.map(|(attack, _)| attack.name).collect()
    }
}

/// The host's git data, but for commits that come back and what git's looking around and Palisade's notes change.
fn git_data(place: &Place) -> Vec<(PathBuf, (u32, Vec<u8>))> {
    let mut found: Vec<_> = tree(&place.path.join(".git")).into_iter().collect();
    let moves = ["objects", "refs", "logs", "HEAD", "ORIG_HEAD", "packed-refs", "index", "palisade"];
    found.retain(|(path, _)| !path.iter().any(|part| moves.iter().any(|name| part == *name)));
    found.retain(|(path, _)| path != Path::new("palisade.lock"));
    found
}

/// A sandbox attacks again and again for as long as it takes the user to look at every directory. After its end and the sync
/// back the user looks again, and does what each attack waits for.
fn nothing_that_a_sandbox_plants_runs_when_the_host_uses_git(method: &'static str) {
    let scene = Scene::new(method);
    let directories: Vec<PathBuf> = scene.places.iter().map(|place| place.path.clone()).collect();
    let mut canary = Canary::new(&scene.instance.home(), &directories);
    let before: Vec<_> = scene.places.iter().map(git_data).collect();
    let mut words: Vec<String> = ["run", "-w", "0"].map(str::to_owned).to_vec();
    for number in 1..scene.places.len() {
        words.extend(["--mount".into(), format!("{}:/r/{number}", scene.places[number].path.display())]);
    }
    words.extend(["--".into(), "sh".into(), "-c".into(), scene.script()]);
    let mut run = scene.instance.command(&words);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = run.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "up\n" {
        panic!("the attacks did not begin: {}", said.join().unwrap());
    }
    canary.round();
    std::fs::write(scene.places[0].path.join("enough"), "").unwrap();
    let rounds = canary.rounds_until_end_of(&mut run);
    let (status, said) = (run.wait().unwrap(), said.join().unwrap());
    assert_eq!(scene.marks(), [""; 0], "while the sandbox ran, in {rounds} rounds; {said}");
    assert_eq!(status.code(), Some(0), "{said}");
    for (place, (before, attack)) in scene.places.iter().zip(before.iter().zip(ATTACKS)) {
        assert_eq!(&git_data(place), before, "{}", attack.name);
        let mut git = on_host("git", &place.home, &place.path);
        let status = Outcome::from(git.args(["status", "--porcelain"]).output().unwrap());
        assert_eq!(status.code, 0, "{}: the host's repository still works: {status:?}", attack.name);
        pull_the_trigger(attack, place);
    }
    assert_eq!(scene.marks(), [""; 0], "after the sandbox ended; {said}");
    let line = said.lines().find(|line| line.contains("host's own tools")).expect("a report");
    let top = &scene.places[0];
    for (found, subdirectory) in [("deep (is a repository", "deep"), ("inner/.git (is a rep", "inner")] {
        assert!(line.contains(found), "{found}: {line}");
        // The control: what is reported does run, for a user who goes there.
        use_git_on_the_host(&top.home, &top.path.join(subdirectory));
        assert!(top.mark.exists(), "{subdirectory}");
        std::fs::remove_file(&top.mark).unwrap();
    }
}

impl Repository {
    fn look(&self) {
        use_git_on_the_host(&self.instance.home(), &self.path);
    }

    fn mark(&self) -> PathBuf {
        self.instance.work().join("it-ran-on-the-host")
    }
}

fn a_repository_under_a_path_that_is_recorded_as_one_keeps_its_commit_waiting(method: &'static str) {
    let repository = Repository::with_method(method);
    repository.give();
    let mark = repository.mark();
    let script = format!(
        "git init -q evil; cd evil; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
         git config core.fsmonitor 'touch {}; false'; cd ..
         git add evil; git -c user.name=a -c user.email=a@b commit -qm 'with evil'",
        mark.display()
    );
    let outcome = repository.inside(&script).ok();
    assert!(outcome.stderr.contains("record evil as another repository"), "{}", outcome.stderr);
    repository.look();
    assert!(!mark.exists());
    // The control: with that commit checked out, git on the host looks into it.
    let waiting = repository.git(&["for-each-ref", "--format=%(refname)", "refs/heads/palisade"]).ok().stdout;
    repository.git(&["reset", "-q", waiting.trim_end()]).ok();
    repository.look();
    assert!(mark.exists());
}

fn a_directory_that_is_no_repository_is_not_made_one(method: &'static str) {
    for script in [
        "ln -s refs/heads/main HEAD; for f in objects refs; do echo > $f; chmod +x $f; done; bare",
        "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD; bare",
        "rm -rf .git; repository .git",
        "rm -f .git; mv .git x; repository .git",
    ] {
        let repository = Repository::with_method(method);
        std::fs::remove_dir_all(repository.path.join(".git")).unwrap();
        repository.give();
        let script = format!("{WORDS}{script}").replace("MARK", repository.mark().to_str().unwrap());
        let outcome = repository.inside(&script);
        repository.look();
        assert!(!repository.mark().exists(), "{script}");
        let is_planted = repository.path.join("HEAD").symlink_metadata().is_ok();
        assert_eq!(
            outcome.stderr.contains("now looks like a git repository"),
            is_planted,
            "{}",
            outcome.stderr
        );
        assert_eq!(
            repository.path.join(".git").exists(),
            is_planted,
            "the file stays until the user has looked"
        );
        if is_planted {
            // The control: it is this file that keeps git from it.
            std::fs::remove_file(repository.path.join(".git")).unwrap();
            repository.look();
            assert!(repository.mark().exists(), "{script}");
        }
    }
}

#[test]
fn repositories_below_are_read_only_and_cannot_be_moved_away() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["init", "-q", "a/nested"]).ok();
    for attempt in [
        "echo x >> a/nested/.git/config",
        "mv a/nested x",
        "mv a x",
        "rm -rf a",
        "mv a/nested/.git x",
        "rm a/nested/.git/HEAD",
    ] {
        assert_ne!(repository.inside(attempt).code, 0, "{attempt}");
        assert!(repository.path.join("a/nested/.git/HEAD").exists(), "{attempt}");
    }
    repository.inside("echo x > a/nested/file && git -C a/nested status").ok();
}
