//! Just enough of git's configuration format to find the paths it makes git execute or include.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// `core.hooksPath`, relative to the work tree.
    HooksPath(String),
    /// `include.path` and `includeIf.*.path`, relative to the file, that is to `.git`.
    Include(String),
}

pub(super) fn executed_paths(text: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        let rest = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((header, rest)) => {
                section = header.split([' ', '\t', '"', '.']).next().unwrap_or_default().to_ascii_lowercase();
                rest.trim()
            }
            None => line,
        };
        let Some((key, value)) = rest.split_once('=') else { continue };
        let value = unquote(value.trim());
        match (section.as_str(), key.trim().to_ascii_lowercase().as_str()) {
            ("core", "hookspath") => found.push(Named::HooksPath(value)),
            ("include" | "includeif", "path") => found.push(Named::Include(value)),
            _ => {}
        }
    }
    found
}

/// A value without its quotes and its trailing comment.
fn unquote(value: &str) -> String {
    let mut plain = String::new();
    let mut quoted = false;
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => plain.extend(characters.next()),
            '#' | ';' if !quoted => break,
            other => plain.push(other),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_and_includes_are_found_in_every_spelling() {
        let text = "
[core]
\tbare = false
\thooksPath = .husky/_ # husky
[Include]
path = \"../shared config\"
[includeIf \"gitdir:~/work/\"] path=../work.inc
[user]
\tname = path = nothing
[CORE] HOOKSPATH=x
";
        assert_eq!(
            executed_paths(text),
            [
                Named::HooksPath(".husky/_".into()),
                Named::Include("../shared config".into()),
                Named::Include("../work.inc".into()),
                Named::HooksPath("x".into()),
            ]
        );
    }
}
