//! Filters that git cannot do without in a working tree: those that its attributes name and its settings require.
//!
//! Git inside has the settings, and fails on every such file when the program is not there. So the program is looked for
//! inside before anything else runs.

use super::BoundError;
use super::config::{Setting, last};
use super::contents::small_file;
use crate::host_tree::HostTree;
use crate::sandbox::{SandboxError, SandboxRepository};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A filter, and the program that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededFilter {
    pub name: String,
    pub program: String,
}

/// The filters that a working tree needs.
pub(super) async fn needed(tree: &HostTree, settings: &[Setting]) -> Result<Vec<NeededFilter>, BoundError> {
    let required: Vec<NeededFilter> =
        names(settings).into_iter().filter_map(|name| of(settings, name)).collect();
    if required.is_empty() {
        return Ok(Vec::new());
    }
    let mut texts = vec![small_file(&tree.repository.places().common.join("info/attributes"))];
    if let Some(file) = last(settings, "core.attributesfile") {
        texts.push(small_file(PathBuf::from(file).as_path()));
    }
    let list = ["ls-files", "-z", "--", ":(glob)**/.gitattributes"];
    let list = tree.repository.git(list).env("GIT_OPTIONAL_LOCKS", "0").bytes().await?;
    let files = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    texts.extend(files.map(|path| small_file(tree.root.join(OsStr::from_bytes(path)).as_path())));
    let is_named = |filter: &NeededFilter| texts.iter().any(|text| names_filter(text, &filter.name));
    Ok(required.into_iter().filter(is_named).collect())
}

/// The names of all filters that are required.
fn names(settings: &[Setting]) -> BTreeSet<&str> {
    let keys = settings.iter().map(|setting| setting.key.as_str());
    keys.filter_map(|key| key.strip_prefix("filter.")?.strip_suffix(".required")).collect()
}

fn of(settings: &[Setting], name: &str) -> Option<NeededFilter> {
    let value = |key: &str| last(settings, &format!("filter.{name}.{key}")).filter(|value| !value.is_empty());
    let is_required = matches!(value("required")?.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
    let program = first_word(value("process").or_else(|| value("clean"))?)?;
    is_required.then(|| NeededFilter { name: name.to_owned(), program })
}

/// Whether a file of attributes gives a filter to some path.
fn names_filter(text: &[u8], name: &str) -> bool {
    let wanted = format!("filter={name}");
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).any(|word| word == wanted)
}

/// The program of a command line, as a shell reads it: without quotes, and behind variables that are set for it.
fn first_word(command: &str) -> Option<String> {
    let mut rest = command.trim_start();
    while !rest.is_empty() {
        let (mut word, mut quote, mut end) = (String::new(), None, rest.len());
        let mut characters = rest.char_indices();
        while let Some((at, c)) = characters.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None | Some('"'), '\\') => word.extend(characters.next().map(|(_, c)| c)),
                (None, c) if c.is_whitespace() => {
                    end = at;
                    break;
                }
                (_, c) => word.push(c),
            }
        }
        let is_variable = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        if !is_variable {
            return Some(word).filter(|word| !word.is_empty());
        }
        rest = rest[end..].trim_start();
    }
    None
}

/// The filters whose programs are not in the sandbox, as its own shell finds them: git starts filters by a shell.
pub async fn missing_filters(
    sandbox: &SandboxRepository<'_>,
    filters: &[NeededFilter],
) -> Result<Vec<NeededFilter>, SandboxError> {
    const SCRIPT: &str = "for program do case $program in '~/'*) program=$HOME/${program#'~/'};; esac
        if command -v \"$program\" >/dev/null 2>&1; then echo found; else echo missing; fi; done";
    let words = ["sh", "-c", SCRIPT, "sh"].into_iter().chain(filters.iter().map(|it| it.program.as_str()));
    let answer = sandbox.command("looking for filters", words).await?;
    let answer = String::from_utf8_lossy(&answer);
    let answers = answer.lines().chain(std::iter::repeat("missing"));
    let all = filters.iter().zip(answers);
    Ok(all.filter(|(_, answer)| *answer != "found").map(|(filter, _)| filter.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_command_line_is_found() {
        for (command, program) in [
            ("git-lfs filter-process", Some("git-lfs")),
            ("  \"/opt/my tool/clean\" %f", Some("/opt/my tool/clean")),
            ("A=1 B='x y' sh ./clean.sh", Some("sh")),
            ("a\\ b c", Some("a b")),
            ("", None),
            ("X=1", None),
        ] {
            assert_eq!(first_word(command).as_deref(), program, "{command}");
        }
    }

    #[test]
    fn only_required_filters_with_a_program_count() {
        let setting = |key: &str, value: &str| Setting { file: None, key: key.into(), value: value.into() };
        let settings = [
            setting("filter.lfs.required", "true"),
            setting("filter.lfs.clean", "git-lfs clean -- %f"),
            setting("filter.lfs.process", "git-lfs filter-process"),
            setting("filter.loose.clean", "tidy"),
            setting("filter.off.required", "false"),
            setting("filter.off.clean", "tidy"),
            setting("filter.smudged.required", "true"),
        ];
        let found: Vec<_> = names(&settings).into_iter().filter_map(|name| of(&settings, name)).collect();
        assert_eq!(found, [NeededFilter { name: "lfs".into(), program: "git-lfs".into() }]);
    }

    #[test]
    fn a_filter_is_needed_where_attributes_name_it() {
        assert!(names_filter(b"*.bin filter=lfs diff=lfs -text\n", "lfs"));
        for text in ["# *.bin filter=lfs\n", "*.bin filter=lfs2\n", "*.bin -filter\n", ""] {
            assert!(!names_filter(text.as_bytes(), "lfs"), "{text}");
        }
    }
}
