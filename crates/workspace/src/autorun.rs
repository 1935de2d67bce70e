//! Files that run by themselves: nobody calls them, and yet they run as soon as somebody enters the directory, opens it in
//! an editor, installs, commits or pushes. After a sync they are the agent's, so they are listed; a user who reads the list
//! has looked where it matters. A table, and nothing is run or written here.

use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use crate::tree_diff::{EntryMode, TreeChange, TreeEntry};
use std::path::{Component, Path, PathBuf};

/// A changed file that runs by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autorun {
    pub path: PathBuf,
    pub runs: Runs,
}

/// When it runs, or who obeys it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    Entering,
    Opening,
    Git,
    GitSettings,
    Installing,
    Tests,
    Agents,
    Pipeline,
    Elsewhere,
}

impl Runs {
    /// For people.
    pub fn told(self) -> &'static str {
        match self {
            Runs::Entering => "runs when you enter the directory",
            Runs::Opening => "may run when an editor opens the directory",
            Runs::Git => "runs when you use git",
            Runs::GitSettings => "tells git what to run or where to fetch from",
            Runs::Installing => "runs when packages are installed",
            Runs::Tests => "runs with every build or test",
            Runs::Agents => "is obeyed by coding agents",
            Runs::Pipeline => "runs in the pipeline when it is pushed",
            Runs::Elsewhere => "is a link that leads out of the repository",
        }
    }
}

/// Files by name, in whatever directory.
const FILES: &[(&str, Runs)] = &[
    // direnv and its like run them once they are allowed; a change asks again, and is easily waved through.
    (".envrc", Runs::Entering),
    (".autoenv.zsh", Runs::Entering),
    (".mise.toml", Runs::Entering),
    ("mise.toml", Runs::Entering),
    (".exrc", Runs::Opening),
    (".nvim.lua", Runs::Opening),
    (".nvimrc", Runs::Opening),
    (".vimrc", Runs::Opening),
    (".dir-locals.el", Runs::Opening),
    (".devcontainer.json", Runs::Opening),
    ("lefthook.yml", Runs::Git),
    ("lefthook.yaml", Runs::Git),
    (".lefthook.yml", Runs::Git),
    (".pre-commit-config.yaml", Runs::Git),
    (".huskyrc", Runs::Git),
    // Filters and drivers of the user's are chosen by attributes.
    (".gitattributes", Runs::GitSettings),
    (".gitmodules", Runs::GitSettings),
    (".gitconfig", Runs::GitSettings),
    (".lfsconfig", Runs::GitSettings),
    (".npmrc", Runs::Installing),
    (".yarnrc", Runs::Installing),
    (".yarnrc.yml", Runs::Installing),
    (".pnpmfile.cjs", Runs::Installing),
    ("bunfig.toml", Runs::Installing),
    ("setup.py", Runs::Installing),
    ("binding.gyp", Runs::Installing),
    ("conftest.py", Runs::Tests),
    ("sitecustomize.py", Runs::Tests),
    ("build.rs", Runs::Tests),
    (".mcp.json", Runs::Agents),
    ("AGENTS.md", Runs::Agents),
    ("CLAUDE.md", Runs::Agents),
    ("GEMINI.md", Runs::Agents),
    (".cursorrules", Runs::Agents),
    (".gitlab-ci.yml", Runs::Pipeline),
    ("Jenkinsfile", Runs::Pipeline),
    (".travis.yml", Runs::Pipeline),
    ("azure-pipelines.yml", Runs::Pipeline),
];

/// Directories, with everything in them.
const DIRECTORIES: &[(&str, Runs)] = &[
    (".husky", Runs::Git),
    (".githooks", Runs::Git),
    (".lefthook", Runs::Git),
    (".vscode", Runs::Opening),
    (".idea", Runs::Opening),
    (".fleet", Runs::Opening),
    (".zed", Runs::Opening),
    (".devcontainer", Runs::Opening),
    (".claude", Runs::Agents),
    (".codex", Runs::Agents),
    (".gemini", Runs::Agents),
    (".cursor", Runs::Agents),
    (".kiro", Runs::Agents),
    (".cargo", Runs::Tests),
    (".yarn", Runs::Installing),
    (".circleci", Runs::Pipeline),
    (".buildkite", Runs::Pipeline),
];

/// Whether a changed file runs by itself, as far as its name tells.
pub fn by_name(path: &Path) -> Option<Runs> {
    let names: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let (last, above) = names.split_last()?;
    let same = |known: &&(&str, Runs), name: &str| known.0.eq_ignore_ascii_case(name);
    let directory = |name: &&str| DIRECTORIES.iter().find(|known| same(known, name)).map(|known| known.1);
    if names.windows(2).any(|pair| pair[0] == ".github" && matches!(pair[1], "workflows" | "actions")) {
        return Some(Runs::Pipeline);
    }
    above.iter().find_map(directory).or_else(|| {
        let named = FILES.iter().find(|known| same(known, last)).map(|known| known.1);
        // A directory with such a file is a repository for git, whose settings it then obeys.
        named.or_else(|| (*last == "HEAD" && !above.is_empty()).then_some(Runs::GitSettings))
    })
}

/// What of a `package.json` runs at an installation, byte by byte as it is written there.
fn lifecycle(manifest: &[u8]) -> Vec<(&'static str, String)> {
    const SCRIPTS: [&str; 8] = [
        "preinstall",
        "install",
        "postinstall",
        "prepare",
        "preprepare",
        "postprepare",
        "prepublish",
        "dependencies",
    ];
    let text = String::from_utf8_lossy(manifest);
    let value = |name: &str| {
        let (_, rest) = text.split_once(&format!("\"{name}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = rest.find(['\n', '}']).unwrap_or(rest.len());
        Some(rest[..end].trim_end_matches([',', ' ', '\r']).to_owned())
    };
    SCRIPTS.into_iter().filter_map(|name| Some((name, value(name)?))).collect()
}

/// Whether a link at `path` leads out of the directory that everything is in.
fn leads_out(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
        }
    }
    false
}

/// What the content of a changed file says, for those whose name does not decide.
fn by_content(path: &Path, mode: EntryMode, before: Option<&[u8]>, after: &[u8]) -> Option<Runs> {
    use std::os::unix::ffi::OsStrExt;
    if mode == EntryMode::Link {
        let target = Path::new(std::ffi::OsStr::from_bytes(after));
        return leads_out(path, target).then_some(Runs::Elsewhere);
    }
    let changed = lifecycle(after) != before.map(lifecycle).unwrap_or_default();
    (changed && !lifecycle(after).is_empty()).then_some(Runs::Installing)
}

impl Repository {
    /// The files that run by themselves among those in which `to` differs from `from`.
    pub async fn autorun(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<Autorun>, GitError> {
        let mut found = Vec::new();
        for change in self.tree_diff(from, to).await?.iter() {
            let Some(after) = &change.after else { continue };
            let runs = match by_name(&change.path) {
                Some(runs) => Some(runs),
                None => self.look_into(change, after).await?,
            };
            found.extend(runs.map(|runs| Autorun { path: change.path.clone(), runs }));
        }
        Ok(found)
    }

    async fn look_into(&self, change: &TreeChange, after: &TreeEntry) -> Result<Option<Runs>, GitError> {
        let is_manifest = change.path.file_name().is_some_and(|name| name == "package.json");
        if after.mode == EntryMode::Gitlink || (!is_manifest && after.mode != EntryMode::Link) {
            return Ok(None);
        }
        let content =
            async |entry: &TreeEntry| self.git(["cat-file", "blob", entry.id.as_str()]).bytes().await;
        let before = match &change.before {
            Some(entry) if entry.mode != EntryMode::Gitlink => Some(content(entry).await?),
            _ => None,
        };
        let after_content = content(after).await?;
        Ok(by_content(&change.path, after.mode, before.as_deref(), &after_content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_by_itself_is_known_by_its_name_wherever_it_lies() {
        for (path, runs) in [
            (".envrc", Runs::Entering),
            ("deep/er/.envrc", Runs::Entering),
            (".vscode/tasks.json", Runs::Opening),
            (".VSCode/settings.json", Runs::Opening),
            (".idea/runConfigurations/x.xml", Runs::Opening),
            (".devcontainer/devcontainer.json", Runs::Opening),
            (".husky/_/pre-commit", Runs::Git),
            (".githooks/post-merge", Runs::Git),
            (".gitattributes", Runs::GitSettings),
            ("vendor/x/HEAD", Runs::GitSettings),
            (".npmrc", Runs::Installing),
            ("crates/a/build.rs", Runs::Tests),
            (".claude/settings.json", Runs::Agents),
            ("claude.md", Runs::Agents),
            (".github/workflows/ci.yml", Runs::Pipeline),
        ] {
            assert_eq!(by_name(Path::new(path)), Some(runs), "{path}");
        }
        for path in
            ["src/main.rs", "HEAD", "vscode/tasks.json", ".github/CODEOWNERS", "envrc", "package.json"]
        {
            assert_eq!(by_name(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_manifest_is_told_when_its_lifecycle_scripts_change() {
        let manifest =
            |scripts: &str| format!("{{\n  \"name\": \"x\",\n  \"scripts\": {{\n{scripts}\n  }}\n}}\n");
        let told = |before: Option<&str>, after: &str| {
            let before = before.map(|scripts| manifest(scripts).into_bytes());
            by_content(
                Path::new("package.json"),
                EntryMode::File,
                before.as_deref(),
                manifest(after).as_bytes(),
            )
        };
        let prepare = "    \"prepare\": \"husky\"";
        assert_eq!(told(None, prepare), Some(Runs::Installing));
        assert_eq!(told(Some(prepare), "    \"prepare\": \"curl x | sh\""), Some(Runs::Installing));
        assert_eq!(told(Some(prepare), &format!("    \"test\": \"jest\",\n{prepare}")), None);
        assert_eq!(told(Some(prepare), ""), None);
    }

    #[test]
    fn a_link_is_told_when_it_leads_out() {
        let told =
            |path: &str, target: &str| by_content(Path::new(path), EntryMode::Link, None, target.as_bytes());
        for (path, target) in [("a", "/etc/passwd"), ("a", "../x"), ("d/a", "../../x"), ("a", "b/../../x")] {
            assert_eq!(told(path, target), Some(Runs::Elsewhere), "{path} -> {target}");
        }
        for (path, target) in [("a", "b"), ("d/a", "../b"), ("a", "./b/../c")] {
            assert_eq!(told(path, target), None, "{path} -> {target}");
        }
    }
}
