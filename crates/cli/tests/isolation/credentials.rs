//! Whatever gives its holder a right is out of an agent's reach, by every way into its sandbox: each kind of credential
//! is planted once, and the very search that finds all of them on the host finds none inside.

use palisade_testing::probe::{CREDENTIALS, Differences, Files, nonce};
use palisade_testing::{Instance, Outcome, Pty, requires};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

palisade_testing::on_isolating_methods!(no_credential_of_the_user_is_within_an_agents_reach,);

/// Files below the user's home, with the label of what is in them.
const HOME: [(&str, &str); 24] = [
    ("ssh-key", ".ssh/id_ed25519"),
    ("ssh-config", ".ssh/config"),
    ("aws", ".aws/credentials"),
    ("azure", ".azure/accessTokens.json"),
    ("gcloud", ".config/gcloud/application_default_credentials.json"),
    ("github", ".config/gh/hosts.yml"),
    ("netrc", ".netrc"),
    ("git-credentials", ".git-credentials"),
    ("git-credentials-xdg", ".config/git/credentials"),
    ("npm", ".npmrc"),
    ("pypi", ".pypirc"),
    ("cargo", ".cargo/credentials.toml"),
    ("maven", ".m2/settings.xml"),
    ("docker", ".docker/config.json"),
    ("kubernetes", ".kube/config"),
    ("terraform", ".terraform.d/credentials.tfrc.json"),
    ("vault", ".vault-token"),
    ("gpg-key", ".gnupg/private-keys-v1.d/key.key"),
    ("keyring", ".local/share/keyrings/login.keyring"),
    ("history", ".bash_history"),
    ("claude", ".claude/.credentials.json"),
    ("claude-settings", ".claude.json"),
    ("codex", ".codex/auth.json"),
    ("gemini", ".gemini/oauth_creds.json"),
];
/// Sockets below the user's home, each of which gives its secret to whoever connects.
const SOCKETS: [(&str, &str); 4] = [
    ("ssh-agent", "run/ssh-agent"),
    ("gpg-agent", ".gnupg/S.gpg-agent"),
    ("session-bus", "run/bus"),
    ("docker-socket", "run/docker.sock"),
];
/// Variables in the environment of whoever calls.
const VARIABLES: [(&str, &str); 8] = [
    ("env-anthropic", "ANTHROPIC_API_KEY"),
    ("env-openai", "OPENAI_API_KEY"),
    ("env-gemini", "GEMINI_API_KEY"),
    ("env-aws", "AWS_SECRET_ACCESS_KEY"),
    ("env-github", "GITHUB_TOKEN"),
    ("env-npm", "NPM_TOKEN"),
    ("env-database", "DATABASE_URL"),
    ("env-proxy", "HTTPS_PROXY"),
];

const START: [&str; 6] = ["agent", "start", "--agent", "shell", "--name", "box"];

/// A repository of a user who has every credential there is, and two sandboxes.
struct Scene {
    instance: Instance,
    mark: String,
    planted: Vec<String>,
    /// What is tried by name.
    paths: Vec<PathBuf>,
    ports: Vec<u16>,
    abstract_name: String,
    process: Child,
}

impl Scene {
    fn new(method: &'static str) -> Self {
        let instance = Instance::with_python(method);
        let mark = nonce();
        let process = Command::new("/bin/sh")
            .args(["-c", "read line", &format!("{mark}-process-arguments")])
            .env("SECRET", format!("{mark}-process-environment"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let planted = ["process-arguments", "process-environment"].map(str::to_owned).into();
        let abstract_name = format!("palisade-test-{}", std::process::id());
        let mut scene =
            Self { instance, mark, planted, paths: Vec::new(), ports: Vec::new(), abstract_name, process };
        let home = scene.instance.home();
        HOME.iter().for_each(|(label, path)| scene.file(label, &home.join(path)));
        // Other branches are there by default, as the user's own history is; here they are a secret.
        let settings = scene.instance.user_config();
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(settings, "[agent]\nrefs = \"branch\"\n").unwrap();
        scene.services();
        scene.repository();
        scene.sandboxes();
        scene
    }

    /// The secret of this label, from now on among those that are searched for.
    fn secret(&mut self, label: &str) -> String {
        self.planted.push(label.to_owned());
        format!("{}-{label}", self.mark)
    }

    fn file(&mut self, label: &str, path: &Path) {
        let secret = self.secret(label);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("token = {secret}\n")).unwrap();
        self.paths.push(path.to_owned());
    }

    fn services(&mut self) {
        let home = self.instance.home();
        std::fs::create_dir_all(home.join("run")).unwrap();
        for (label, path) in SOCKETS {
            let listener = UnixListener::bind(home.join(path)).unwrap();
            let secret = self.secret(label);
            std::thread::spawn(move || {
                listener.incoming().flatten().for_each(|stream| tell(stream, &secret))
            });
            self.paths.push(home.join(path));
        }
        let address = SocketAddr::from_abstract_name(&self.abstract_name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let secret = self.secret("abstract-socket");
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| tell(stream, &secret)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.ports.push(listener.local_addr().unwrap().port());
        let secret = self.secret("loopback-service");
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| tell(stream, &secret)));
    }

    /// With secrets in the user's and the repository's own configuration, on another branch, in a stash, and beside it.
    fn repository(&mut self) {
        let work = self.instance.work();
        // In two halves, so that the file by itself gives nothing away.
        let mark = self.mark.clone();
        let (first, second) = mark.split_at(20);
        let text = format!(
            "[user]\nname = Ada\nemail = ada@example.org\n[github]\ntoken = {}\n[credential]\n\
             helper = \"!f() {{ printf 'username=a\\\\npassword=%s%s\\\\n' {first} {second}-git-helper; }}; f\"\n",
            self.secret("git-settings"),
        );
        self.planted.push("git-helper".into());
        std::fs::write(self.instance.home().join(".gitconfig"), text).unwrap();
        self.git("init --quiet --initial-branch=main");
        std::fs::write(work.join("code"), "public\n").unwrap();
        self.git("add -A");
        self.git("commit --quiet -m first");
        self.git("checkout --quiet -b private");
        self.file("other-branch", &work.join("code"));
        self.git("commit --quiet -a -m private");
        self.git("checkout --quiet main");
        self.file("stash", &work.join("code"));
        self.git("stash --quiet");
        // Only what git keeps of them is a secret.
        self.paths.retain(|path| !path.ends_with("code"));
        let remote = format!("https://ada:{}@example.org/code.git", self.secret("remote"));
        self.git(&format!("remote add upstream {remote}"));
        let header = self.secret("extra-header");
        self.git(&format!("config http.https://example.org/.extraheader {header}"));
        std::fs::write(work.join(".git/info/exclude"), "local.key\n").unwrap();
        self.file("hook", &work.join(".git/hooks/pre-push.sample"));
        self.file("ignored", &work.join("local.key"));
        self.file("beside-the-repository", &work.with_file_name("beside").join("notes"));
    }

    /// The agent's own, and another one, with what it and the program keep.
    fn sandboxes(&mut self) {
        self.run(&["create", "--start", "other"]);
        let [at_home, at_work, variable] =
            ["other-home", "other-workspace", "other-environment"].map(|label| self.secret(label));
        let script =
            format!("mkdir ~/.claude && echo {at_home} > ~/.claude/key && echo {at_work} > /workspace/key");
        self.run(&["exec", "other", "--", "sh", "-c", &script]);
        let variable = format!("SECRET={variable}");
        self.run(&["exec", "other", "--session", "s", "--detach", "-e", &variable, "--", "sleep", "1000"]);
        self.run(&[&START[..], &["--allow", "example.org", "--task", "true"]].concat());
        let state = self.instance.state();
        let entries = std::fs::read_dir(state.join("sandboxes")).unwrap();
        for (number, entry) in entries.flatten().enumerate() {
            self.file(&format!("sandbox-directory-{number}"), &entry.path().join("keys"));
        }
        self.file("state", &state.join("keys"));
        self.file("settings", &self.instance.user_config().with_file_name("keys"));
        self.hand_in("search.py", CREDENTIALS);
        self.hand_in("scene.json", &self.plan(Path::new("/")).to_string());
    }

    fn hand_in(&self, name: &str, text: &str) {
        let words = ["exec", "-i", "box", "--", "sh", "-c", &format!("cat > ~/{name}")];
        self.instance.run_with_input(words, text.as_bytes()).ok();
    }

    /// What the search is told.
    fn plan(&self, root: &Path) -> Value {
        json!({
            "mark": self.mark.chars().rev().collect::<String>(), "roots": [root], "paths": self.paths,
            "abstract": [self.abstract_name], "ports": self.ports,
        })
    }

    /// The program as a user calls it who has all of the variables.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.instance.command(words);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command.env("SSH_AUTH_SOCK", self.instance.home().join(SOCKETS[0].1));
        for (label, name) in VARIABLES {
            command.env(name, format!("{}-{label}", self.mark));
        }
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Outcome {
        Instance::finish(&mut self.command(words)).ok()
    }

    #[track_caller]
    fn git(&self, line: &str) {
        let mut command = Command::new("git");
        command.args(line.split(' ')).current_dir(self.instance.work()).env("HOME", self.instance.home());
        Outcome::from(command.output().unwrap()).ok();
    }

    /// What the search finds on the host, where nothing protects, in the places that are this test's own.
    fn outside(&self) -> Value {
        let base = self.instance.home().parent().unwrap().to_owned();
        let [search, plan, result] = ["search.py", "plan.json", "result.json"].map(|name| base.join(name));
        std::fs::write(&search, CREDENTIALS).unwrap();
        std::fs::write(&plan, self.plan(&base).to_string()).unwrap();
        let mut command = Command::new("/usr/bin/python3");
        command.arg("-IS").args([&search, &plan, &result]);
        command.current_dir(self.instance.work()).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.instance.home());
        self.surround(&mut command);
        Outcome::from(command.output().unwrap()).ok();
        serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // It waits for a line that never comes.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn tell(mut stream: impl Write, secret: &str) {
    // Whoever hangs up early has had his chance.
    let _ = stream.write_all(secret.as_bytes());
}

fn no_credential_of_the_user_is_within_an_agents_reach(method: &'static str) {
    requires!(git, python3);
    let scene = Scene::new(method);
    let search = |way: &str| format!("/usr/bin/python3 -IS ~/search.py ~/scene.json ~/{way}");
    scene.run(&[&START[..], &["--task", &search("task")]].concat());
    scene.run(&[&START[..], &["--worktree", "side", "--task", &search("worktree")]].concat());
    scene.run(&["agent", "exec", "box", "--", "sh", "-c", &search("exec")]);
    for (way, words) in [("shell", &["shell", "box"][..]), ("terminal", &START)] {
        let mut terminal = Pty::start(&mut scene.command(words), 24, 120);
        terminal.type_keys(&format!("{}; exit\r", search(way)));
        terminal.wait_for("the search is over");
        assert_eq!(terminal.wait(), 0);
    }
    let looked = json!({ "files": true, "variables": true, "processes": true, "objects": true });
    for way in ["task", "worktree", "exec", "shell", "terminal"] {
        let seen = scene.run(&["exec", "box", "--", "sh", "-c", &format!("cat ~/{way}")]).json();
        assert_eq!(seen, json!({ "found": [], "looked": looked }), "{way}");
    }
    let mut planted = scene.planted.clone();
    if Differences::of(method).files == Files::InVolumes {
        // What another sandbox has is there, but no file of the host's.
        let seen = scene.run(&["exec", "other", "--", "sh", "-c", "cat ~/.claude/key /workspace/key"]).stdout;
        let kept = ["other-home", "other-workspace"];
        assert_eq!(seen, kept.map(|label| format!("{}-{label}\n", scene.mark)).concat());
        planted.retain(|label| !kept.contains(&label.as_str()));
    }
    planted.extend(VARIABLES.map(|(label, _)| label.to_owned()));
    planted.sort();
    assert_eq!(scene.outside(), json!({ "found": planted, "looked": looked }));
}
