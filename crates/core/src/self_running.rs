//! Files that run by themselves: nobody calls them, and yet a tool of the user's runs or obeys them as soon as somebody
//! enters the directory, opens it in an editor, installs packages, commits or pushes.
//!
//! One table for everything that brings a sandbox's files to the host: the report after a run with a bound directory, and
//! the lists of `agent sync`. It is read by name alone; nothing is run or opened here.
//!
//! What counts:
//! - Repositories of any version control: their configuration and hooks name programs, and a prompt or an editor runs
//!   `git status` without being asked.
//! - What a shell hook, an editor, a version manager, a package manager or a hook manager reads by itself.
//! - Code that every build or test runs although no command names it: `build.rs`, `conftest.py`, `.cargo/config.toml`.
//! - Instructions for coding agents (`AGENTS.md`). They are text and not programs, but an agent on the host obeys them.
//!
//! What does not count, since a person calls it by its name: `Makefile`, `justfile`, scripts, and the configuration of
//! tools that is itself a program, such as `eslint.config.js`. Nor do the programs that a build has made.

use std::path::Path;
use std::sync::LazyLock;

/// When a file runs, or what obeys it. The order is that of a report: what needs the least of a person comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunTrigger {
    Repository,
    Git,
    GitSettings,
    Entering,
    Opening,
    Agents,
    Installing,
    Building,
    Pipeline,
    LinkOutside,
}

impl RunTrigger {
    /// For people, after the file's name.
    pub fn description(self) -> &'static str {
        match self {
            Self::Repository => "is a repository, whose settings and hooks name programs that run",
            Self::Git => "runs when you use git",
            Self::GitSettings => "tells git what to run or where to fetch from",
            Self::Entering => "runs when you enter the directory",
            Self::Opening => "may run when an editor opens the directory",
            Self::Agents => "is obeyed by coding agents",
            Self::Installing => "runs when packages are installed",
            Self::Building => "runs with every build or test",
            Self::Pipeline => "runs in the pipeline when it is pushed",
            Self::LinkOutside => "is a link that leads out of the repository",
        }
    }
}

/// `name` is a file of that name wherever it lies, `name/` a directory with everything below it, `above/name` one that lies
/// directly in a directory of that name. Letters of either case are the same: some file systems take them for it.
const TABLE: &[(&str, RunTrigger)] = &[
    // What version control takes for a repository, whether it is a directory, a file or a link.
    (".git/", RunTrigger::Repository),
    (".hg/", RunTrigger::Repository),
    (".jj/", RunTrigger::Repository),
    (".svn/", RunTrigger::Repository),
    (".husky/", RunTrigger::Git),
    (".githooks/", RunTrigger::Git),
    (".lefthook/", RunTrigger::Git),
    (".huskyrc", RunTrigger::Git),
    ("lefthook.yml", RunTrigger::Git),
    ("lefthook.yaml", RunTrigger::Git),
    (".lefthook.yml", RunTrigger::Git),
    (".lefthook.yaml", RunTrigger::Git),
    (".pre-commit-config.yaml", RunTrigger::Git),
    (".pre-commit-config.yml", RunTrigger::Git),
    // Filters and drivers of the user's are chosen by attributes.
    (".gitattributes", RunTrigger::GitSettings),
    (".gitmodules", RunTrigger::GitSettings),
    (".gitconfig", RunTrigger::GitSettings),
    (".lfsconfig", RunTrigger::GitSettings),
    // These run once they are allowed; a change asks again, and is easily waved through.
    (".envrc", RunTrigger::Entering),
    (".autoenv.zsh", RunTrigger::Entering),
    (".autoenv", RunTrigger::Entering),
    (".mise.toml", RunTrigger::Entering),
    ("mise.toml", RunTrigger::Entering),
    (".mise.local.toml", RunTrigger::Entering),
    ("mise.local.toml", RunTrigger::Entering),
    (".mise/", RunTrigger::Entering),
    ("mise/config.toml", RunTrigger::Entering),
    (".config/mise.toml", RunTrigger::Entering),
    (".config/mise/", RunTrigger::Entering),
    (".tool-versions", RunTrigger::Entering),
    (".vscode/", RunTrigger::Opening),
    (".idea/", RunTrigger::Opening),
    (".fleet/", RunTrigger::Opening),
    (".zed/", RunTrigger::Opening),
    (".devcontainer/", RunTrigger::Opening),
    (".devcontainer.json", RunTrigger::Opening),
    (".exrc", RunTrigger::Opening),
    (".nvim.lua", RunTrigger::Opening),
    (".nvimrc", RunTrigger::Opening),
    (".vimrc", RunTrigger::Opening),
    (".lvimrc", RunTrigger::Opening),
    (".dir-locals.el", RunTrigger::Opening),
    (".dir-locals-2.el", RunTrigger::Opening),
    (".claude/", RunTrigger::Agents),
    (".codex/", RunTrigger::Agents),
    (".gemini/", RunTrigger::Agents),
    (".cursor/", RunTrigger::Agents),
    (".kiro/", RunTrigger::Agents),
    (".mcp.json", RunTrigger::Agents),
    ("AGENTS.md", RunTrigger::Agents),
    ("CLAUDE.md", RunTrigger::Agents),
    ("CLAUDE.local.md", RunTrigger::Agents),
    ("GEMINI.md", RunTrigger::Agents),
    (".cursorrules", RunTrigger::Agents),
    (".npmrc", RunTrigger::Installing),
    (".yarnrc", RunTrigger::Installing),
    (".yarnrc.yml", RunTrigger::Installing),
    (".yarn/releases/", RunTrigger::Installing),
    (".yarn/plugins/", RunTrigger::Installing),
    (".pnpmfile.cjs", RunTrigger::Installing),
    ("pnpm-workspace.yaml", RunTrigger::Installing),
    ("bunfig.toml", RunTrigger::Installing),
    ("setup.py", RunTrigger::Installing),
    ("binding.gyp", RunTrigger::Installing),
    ("conftest.py", RunTrigger::Building),
    ("sitecustomize.py", RunTrigger::Building),
    ("usercustomize.py", RunTrigger::Building),
    ("build.rs", RunTrigger::Building),
    (".cargo/config.toml", RunTrigger::Building),
    (".cargo/config", RunTrigger::Building),
    // It may name a directory whose programs then run in the place of the compiler.
    ("rust-toolchain.toml", RunTrigger::Building),
    ("rust-toolchain", RunTrigger::Building),
    (".mvn/", RunTrigger::Building),
    (".bazelrc", RunTrigger::Building),
    (".github/workflows/", RunTrigger::Pipeline),
    (".github/actions/", RunTrigger::Pipeline),
    (".gitlab-ci.yml", RunTrigger::Pipeline),
    ("Jenkinsfile", RunTrigger::Pipeline),
    (".travis.yml", RunTrigger::Pipeline),
    ("azure-pipelines.yml", RunTrigger::Pipeline),
    (".circleci/", RunTrigger::Pipeline),
    (".buildkite/", RunTrigger::Pipeline),
];

/// Directories within those of the table in which nothing counts for where it lies: Claude Code keeps whole work trees there.
const ORDINARY: &[(&str, &str)] = &[(".claude", "worktrees")];

/// A manifest counts for what it says, see [`lifecycle_scripts`], and not for its name.
pub const MANIFEST: &str = "package.json";

/// Packages that were installed. Their manifests do not count: their scripts ran when they were installed, and run again
/// only from a fresh copy.
pub const INSTALLED_PACKAGES: &str = "node_modules";

/// What an entry of a directory is, as far as the table goes by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Directory,
    /// Also a link, which may stand for either.
    Other,
}

/// One row of [`TABLE`], taken apart.
struct Pattern {
    above: Option<&'static str>,
    name: &'static str,
    is_directory: bool,
    trigger: RunTrigger,
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let pattern = |&(text, trigger): &(&'static str, RunTrigger)| {
        let (path, is_directory) = text.strip_suffix('/').map_or((text, false), |path| (path, true));
        let (above, name) = path.rsplit_once('/').map_or((None, path), |(above, name)| (Some(above), name));
        Pattern { above, name, is_directory, trigger }
    };
    TABLE.iter().map(pattern).collect()
});

/// By the first byte of a name in small letters: the lengths that names in the table have, as bits. Nearly every name of a
/// large tree is told by this alone.
static LENGTHS: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut lengths = [0; 256];
    for pattern in PATTERNS.iter() {
        lengths[usize::from(pattern.name.as_bytes()[0].to_ascii_lowercase())] |= 1 << pattern.name.len();
    }
    lengths
});

/// What the table says of one entry of a directory: of the file itself, or of everything below the directory.
pub fn of_entry(above: &[u8], name: &[u8], kind: EntryKind) -> Option<RunTrigger> {
    let first = usize::from(name.first()?.to_ascii_lowercase());
    if name.len() >= 64 || LENGTHS[first] & (1 << name.len()) == 0 {
        return None;
    }
    let same = |known: &str, given: &[u8]| known.as_bytes().eq_ignore_ascii_case(given);
    let is_it = |pattern: &&Pattern| {
        same(pattern.name, name)
            && pattern.above.is_none_or(|known| same(known, above))
            && (pattern.is_directory || kind == EntryKind::Other)
    };
    PATTERNS.iter().find(is_it).map(|pattern| pattern.trigger)
}

/// Whether nothing counts for lying in this directory, although it lies in one that counts as a whole.
pub fn is_ordinary(above: &[u8], name: &[u8]) -> bool {
    ORDINARY.iter().any(|(first, second)| {
        first.as_bytes().eq_ignore_ascii_case(above) && second.as_bytes().eq_ignore_ascii_case(name)
    })
}

/// Whether a file runs by itself, as far as its path tells.
pub fn by_path(path: &Path) -> Option<RunTrigger> {
    let names: Vec<&[u8]> = path.components().map(|part| part.as_os_str().as_encoded_bytes()).collect();
    let (last, directories) = names.split_last()?;
    let mut above: &[u8] = b"";
    let mut inherited = None;
    for name in directories {
        inherited = match inherited {
            Some(_) if is_ordinary(above, name) => None,
            Some(trigger) => Some(trigger),
            None => of_entry(above, name, EntryKind::Directory),
        };
        above = name;
    }
    let own = || {
        // A directory with such a file may be a repository for git, whose settings it then obeys.
        let head = || (*last == b"HEAD" && !directories.is_empty()).then_some(RunTrigger::GitSettings);
        of_entry(above, last, EntryKind::Other).or_else(head)
    };
    inherited.or_else(own)
}

/// What of a `package.json` runs when packages are installed, by name and command. Empty when there is nothing.
pub fn lifecycle_scripts(manifest: &[u8]) -> Vec<(&'static str, String)> {
    const SCRIPTS: [&str; 9] = [
        "preinstall",
        "install",
        "postinstall",
        "prepublish",
        "preprepare",
        "prepare",
        "postprepare",
        "dependencies",
        "postdependencies",
    ];
    /// Corepack fetches and runs what it names.
    const MANAGER: &str = "packageManager";
    /// For a manifest that is not JSON. Some package managers read more than that, so all of it counts.
    const UNPARSED: &str = "(not JSON)";
    let manifest = manifest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(manifest);
    let Ok(parsed) = serde_json::from_slice::<serde_json::Value>(manifest) else {
        return vec![(UNPARSED, String::from_utf8_lossy(manifest).into_owned())];
    };
    let scripts = parsed.get("scripts");
    let script = |name: &'static str| Some((name, scripts?.get(name)?.to_string()));
    let manager = parsed.get(MANAGER).map(|manager| (MANAGER, manager.to_string()));
    SCRIPTS.into_iter().filter_map(script).chain(manager).collect()
}

#[cfg(test)]
mod tests;
