//! The settings of a repository that shares its working tree with a sandbox: which of them go inside, and which make git
//! on the host run or read a file of the working tree.

use crate::remotes::without_credentials;
use palisade_core::{HostPath, ReadOnlyPath, WhenAbsent};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// One setting, as `git config --list -z --show-origin` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// The file that it is from; `None` for the command line.
    pub(super) file: Option<PathBuf>,
    /// `section.key` or `section.name.key`, the outer parts in lower case.
    pub(super) key: String,
    pub(super) value: String,
}

/// Reads git's list; a relative file is relative to `directory`.
pub(super) fn parse(listing: &[u8], directory: &Path) -> Vec<Setting> {
    let listing = String::from_utf8_lossy(listing);
    let mut words = listing.split('\0');
    let mut settings = Vec::new();
    while let (Some(origin), Some(entry)) = (words.next(), words.next()) {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        let file = origin.strip_prefix("file:").map(|path| directory.join(path));
        settings.push(Setting { file, key: key.to_owned(), value: value.to_owned() });
    }
    settings
}

impl Setting {
    /// Section, name in the middle, and key.
    fn parts(&self) -> (&str, Option<&str>, &str) {
        let (section, rest) = self.key.split_once('.').unwrap_or((&self.key, ""));
        match rest.rsplit_once('.') {
            Some((middle, key)) => (section, Some(middle), key),
            None => (section, None, rest),
        }
    }
}

/// Sections whose settings without a name in the middle say how git behaves, and name no program and no credential.
const PLAIN_SECTIONS: [&str; 26] = [
    "add", "advice", "am", "apply", "blame", "branch", "checkout", "clean", "color", "column", "commit",
    "diff", "feature", "fetch", "i18n", "index", "init", "log", "merge", "pull", "push", "rebase", "rerere",
    "stash", "status", "tag",
];
/// Of these, what names a program or a file of the host's, or needs a key.
const NOT_PLAIN: [&str; 9] = [
    "blame.ignorerevsfile",
    "commit.gpgsign",
    "commit.template",
    "diff.external",
    "diff.orderfile",
    "init.templatedir",
    "log.showsignature",
    "push.gpgsign",
    "tag.gpgsign",
];
const CORE: [&str; 16] = [
    "abbrev",
    "autocrlf",
    "bigfilethreshold",
    "commentchar",
    "compression",
    "eol",
    "filemode",
    "ignorecase",
    "precomposeunicode",
    "protecthfs",
    "protectntfs",
    "quotepath",
    "safecrlf",
    "symlinks",
    "sparsecheckout",
    "sparsecheckoutcone",
];

/// Whether a setting goes inside, and with which value. Everything that is not known to be harmless stays out: tools keep
/// tokens under names of their own.
fn inside(setting: &Setting) -> Option<String> {
    let (section, middle, key) = setting.parts();
    let same = || Some(setting.value.clone());
    match (section, middle, key) {
        ("core", None, key) if CORE.contains(&key) => same(),
        ("core", None, "whitespace" | "logallrefupdates") => same(),
        ("extensions", None, "objectformat" | "partialclone" | "compatobjectformat") => same(),
        ("user", None, "name" | "email") => same(),
        ("remote", Some(_), "url" | "pushurl") => Some(without_credentials(&setting.value)),
        ("remote", Some(_), "fetch" | "push" | "tagopt" | "prune" | "promisor" | "partialclonefilter") => {
            same()
        }
        ("branch", Some(_), "remote" | "merge" | "rebase" | "description" | "pushremote") => same(),
        ("submodule", Some(_), "url") => Some(without_credentials(&setting.value)),
        ("submodule", Some(_), "active" | "path" | "branch" | "ignore") => same(),
        // Without its filter git would take the converted content of a file for a change.
        ("filter", Some(_), "clean" | "smudge" | "process" | "required") => same(),
        ("merge", Some(_), "name" | "driver") | ("diff", Some(_), "xfuncname" | "binary" | "wordregex") => {
            same()
        }
        (section, None, _) if PLAIN_SECTIONS.contains(&section) => {
            (!NOT_PLAIN.contains(&setting.key.as_str())).then(|| setting.value.clone())
        }
        _ => None,
    }
}

/// The configuration of the git directory inside.
pub(super) fn text_inside(settings: &[Setting]) -> String {
    let has_format = settings.iter().any(|setting| setting.key.starts_with("extensions."));
    let format = if has_format { 1 } else { 0 };
    let mut text = format!(
        "[core]\n\trepositoryformatversion = {format}\n\tbare = false\n\tlogallrefupdates = true\n\
         \t# Files have another owner inside than the index says.\n\tcheckStat = minimal\n\ttrustctime = false\n\
         [gc]\n\tauto = 0\n"
    );
    for setting in settings {
        let Some(value) = inside(setting) else { continue };
        let (section, middle, key) = setting.parts();
        let header = match middle {
            Some(middle) => format!("[{section} \"{}\"]", escaped(middle)),
            None => format!("[{section}]"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{header}\n\t{key} = \"{}\"", escaped(&value));
    }
    text
}

/// The settings that hold for an empty repository: none that are about another one.
pub(super) fn without_repository(settings: &[Setting]) -> Vec<Setting> {
    let is_general = |setting: &&Setting| {
        let (section, middle, key) = setting.parts();
        match section {
            "remote" | "submodule" | "extensions" => false,
            "branch" => middle.is_none(),
            "core" => !key.starts_with("sparsecheckout"),
            _ => true,
        }
    };
    settings.iter().filter(is_general).cloned().collect()
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n").replace('\t', "\\t")
}

/// The last value of a setting.
pub(super) fn last<'a>(settings: &'a [Setting], key: &str) -> Option<&'a str> {
    settings.iter().rev().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
}

/// Whether the value of a setting is a program, or a file with more settings, that git uses without being asked.
fn what_it_runs(setting: &Setting) -> Option<WhenAbsent> {
    let (section, middle, key) = setting.parts();
    match (section, middle, key) {
        ("core", None, "hookspath") | ("init", None, "templatedir") => Some(WhenAbsent::Directory),
        ("core", None, "attributesfile") | ("include" | "includeif", _, "path") => Some(WhenAbsent::File),
        (
            "core",
            None,
            "fsmonitor" | "sshcommand" | "editor" | "pager" | "askpass" | "gitproxy" | "alternaterefscommand",
        )
        | ("sequence", None, "editor")
        | ("filter", Some(_), "clean" | "smudge" | "process")
        | ("diff", Some(_), "command" | "textconv")
        | ("diff", None, "external")
        | ("merge", Some(_), "driver")
        | ("difftool" | "mergetool" | "man" | "browser", Some(_), "cmd" | "path")
        | ("credential", _, "helper")
        | ("gpg", _, "program" | "defaultkeycommand")
        | ("interactive", None, "difffilter")
        | ("remote", Some(_), "uploadpack" | "receivepack" | "vcs")
        | ("uploadpack", None, "packobjectshook")
        | ("trailer", Some(_), "command" | "cmd")
        | ("hook", Some(_), "command")
        | ("tar", Some(_), "command")
        | ("submodule", Some(_), "update")
        | ("gc", None, "recentobjectshook")
        | ("guitool", Some(_), "cmd")
        | ("imap", None, "tunnel")
        | ("lfs", Some(_), "path" | "clean" | "smudge")
        | ("pager", None, _)
        | ("sendemail", _, "smtpserver" | "tocmd" | "cccmd" | "headercmd" | "sendmailcmd") => {
            Some(WhenAbsent::Program)
        }
        _ => None,
    }
}

/// Files of the directory that git on the host runs or reads settings from by itself, relative to it.
/// `top` is the top of the working tree, which relative paths start from.
pub(super) fn read_only(settings: &[Setting], top: &Path, directory: &HostPath) -> Vec<ReadOnlyPath> {
    let mut found: Vec<ReadOnlyPath> = Vec::new();
    let mut add = |path: PathBuf, when_absent: WhenAbsent| {
        let real = std::fs::canonicalize(&path).ok();
        for path in [Some(normal(&path)), real].into_iter().flatten() {
            let Ok(relative) = path.strip_prefix(directory) else { continue };
            // What is in `.git` is not the sandbox's to write in any case.
            let in_git = relative.components().next() == Some(Component::Normal(".git".as_ref()));
            let is_whole = relative.as_os_str().is_empty() && when_absent != WhenAbsent::Directory;
            if !is_whole && !in_git && !found.iter().any(|it| it.path == relative) {
                found.push(ReadOnlyPath { path: relative.to_owned(), when_absent });
            }
        }
    };
    for setting in settings {
        if let Some(file) = &setting.file {
            add(file.clone(), WhenAbsent::File);
        }
        let Some(when_absent) = what_it_runs(setting) else { continue };
        let (section, _, _) = setting.parts();
        let base = match (section, &setting.file) {
            ("include" | "includeif", Some(file)) => file.parent().unwrap_or(top),
            _ => top,
        };
        let is_path = when_absent != WhenAbsent::Program;
        let values = match is_path {
            true => vec![CommandWord { text: setting.value.clone(), is_program: true }],
            false => words(&setting.value),
        };
        for word in values.into_iter().filter(|word| !word.text.is_empty()) {
            for path in places(&word.text, base, directory) {
                if word.is_program || std::fs::symlink_metadata(&path).is_ok() {
                    let path =
                        if when_absent == WhenAbsent::Directory { with_husky(path, top) } else { path };
                    add(path, when_absent);
                }
            }
        }
    }
    found
}

/// Where a path may lead. Whose home `~` is does not matter: to lead into the directory, it must be one of those above.
/// An absolute path may also be the end of one that a variable or another command begins, such as `$(pwd)/tools/clean`.
fn places(word: &str, base: &Path, directory: &HostPath) -> Vec<PathBuf> {
    match word.strip_prefix('~') {
        Some(rest) => {
            let rest = rest.split_once('/').map_or("", |(_, rest)| rest);
            directory.as_path().ancestors().skip(1).map(|home| home.join(rest)).collect()
        }
        None if word.starts_with('/') => {
            let ending = base.join(word.trim_start_matches('/'));
            let is_there = std::fs::symlink_metadata(&ending).is_ok_and(|meta| !meta.is_dir());
            [Some(PathBuf::from(word)), is_there.then_some(ending)].into_iter().flatten().collect()
        }
        None => vec![base.join(word)],
    }
}

/// A word of a command line that may name a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CommandWord {
    text: String,
    /// Whether it is certainly a program of the working tree, also when there is no such file now: it may be on another
    /// branch. Other words that name no file are options and the like.
    is_program: bool,
}

/// Programs whose first argument is the file that they run.
const INTERPRETERS: [&str; 9] = ["sh", "bash", "dash", "zsh", "python", "python3", "perl", "ruby", "node"];

/// The words of a command line that may name a file, without quotes and shell characters.
fn words(value: &str) -> Vec<CommandWord> {
    let is_separator = |c: char| c.is_whitespace() || "\"'`;|&()<>=!${}".contains(c);
    let texts: Vec<&str> = value.split(is_separator).filter(|word| !word.is_empty()).collect();
    // A shell computes the beginning of a path: only what is there says where it leads.
    let is_plain = !value.contains(['$', '`']);
    let mut words = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let is_first = at == 0 && text.contains('/');
        let is_script = at == 1 && INTERPRETERS.contains(&texts[0].rsplit('/').next().unwrap_or(texts[0]));
        let is_named = is_first || is_script || text.starts_with("./") || text.starts_with("../");
        let is_option = text.starts_with(['-', '%', '~']);
        words.push(CommandWord { text: (*text).to_owned(), is_program: is_plain && is_named && !is_option });
    }
    // A path with a blank in it.
    if words.len() > 1 {
        words.push(CommandWord { text: value.to_owned(), is_program: false });
    }
    words
}

/// Included files that a list does not have the settings of: their condition does not hold now, and may later.
/// `home` is what `~` stands for.
pub(super) fn unlisted_includes(settings: &[Setting], top: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for setting in settings {
        let ("include" | "includeif", _, "path") = setting.parts() else { continue };
        let base = setting.file.as_deref().and_then(Path::parent).unwrap_or(top);
        let path = match (setting.value.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(&setting.value),
        };
        let is_same = |file: &Path| normal(file) == normal(&path);
        let is_listed = settings.iter().filter_map(|it| it.file.as_deref()).any(is_same);
        if !is_listed && path.is_file() && !found.iter().any(|it| is_same(it)) {
            found.push(path);
        }
    }
    found
}

/// Files of the directory that hooks of the host's are links to. Git on the host runs them.
pub(super) fn linked_hooks(hooks: &Path, directory: &HostPath) -> Vec<ReadOnlyPath> {
    let entries = std::fs::read_dir(hooks).into_iter().flatten().flatten();
    let links = entries.map(|entry| entry.path()).filter(|path| path.is_symlink());
    let mut found: Vec<ReadOnlyPath> = Vec::new();
    for link in links {
        let Ok(target) = std::fs::read_link(&link) else { continue };
        let named = hooks.join(target);
        for path in [Some(normal(&named)), std::fs::canonicalize(&link).ok()].into_iter().flatten() {
            let Ok(relative) = path.strip_prefix(directory) else { continue };
            let in_git = relative.starts_with(".git");
            if !in_git && !relative.as_os_str().is_empty() && !found.iter().any(|it| it.path == relative) {
                found.push(ReadOnlyPath { path: relative.to_owned(), when_absent: WhenAbsent::Program });
            }
        }
    }
    found
}

/// Husky's generated directory calls the scripts beside it.
fn with_husky(path: PathBuf, top: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if path.ends_with("_") && parent != top => parent.to_owned(),
        _ => path,
    }
}

/// Folds `.` and `..` by name, as git does for these settings.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, value: &str) -> Setting {
        Setting { file: Some("/home/u/.gitconfig".into()), key: key.into(), value: value.into() }
    }

    #[test]
    fn credentials_and_programs_of_the_host_stay_out() {
        let settings = [
            setting("user.name", "A \"B\""),
            setting("remote.origin.url", "https://u:secret@example.com/x"),
            setting("http.https://example.com/.extraheader", "Authorization: secret"),
            setting("credential.helper", "store"),
            setting("github.token", "secret"),
            setting("core.fsmonitor", "./watch"),
            setting("core.sshcommand", "ssh -i secret"),
            setting("url.https://secret@example.com/.insteadof", "https://example.com/"),
            setting("commit.template", "/home/u/secret"),
            setting("pull.rebase", "true"),
        ];
        let text = text_inside(&settings);
        assert!(!text.contains("secret") && !text.contains("watch"), "{text}");
        for kept in ["name = \"A \\\"B\\\"\"", "url = \"https://example.com/x\"", "rebase = \"true\""] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn a_program_in_the_working_tree_is_found_in_a_command_line() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        for file in ["watch.sh", "clean.py", "editor"] {
            std::fs::write(top.join(file), "").unwrap();
        }
        let settings = [
            setting("core.fsmonitor", "./watch.sh"),
            setting("filter.x.clean", "python3 'clean.py' --opt %f"),
            setting("core.hookspath", "hooks/_"),
            setting("include.path", "/elsewhere/file"),
            setting("alias.x", "!./editor"),
            setting("user.name", "editor"),
        ];
        let found = read_only(&settings, &top, &HostPath::new(&top).unwrap());
        let paths: Vec<&str> = found.iter().map(|it| it.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["watch.sh", "clean.py", "hooks"]);
        assert_eq!(found[2].when_absent, WhenAbsent::Directory);
    }

    #[test]
    fn a_program_that_is_absent_or_named_by_a_command_is_found() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("tools")).unwrap();
        std::fs::write(top.join("tools/there.sh"), "").unwrap();
        let settings = [
            setting("core.fsmonitor", "./watch.sh --fast"),
            setting("filter.a.clean", "scripts/clean %f"),
            setting("filter.b.clean", "python3 later.py"),
            setting("filter.c.clean", "\"$(git rev-parse --show-toplevel)/tools/there.sh\" %f"),
            setting("gc.recentobjectshook", &format!("{}/recent", top.display())),
            // None of these names a file of the working tree.
            setting("filter.d.clean", "sed s/a/b/ -e ${x}/y"),
            setting("core.editor", "vim"),
            setting("core.pager", "/usr/bin/less -R"),
            setting("credential.helper", "!/usr/bin/gh auth git-credential"),
            setting("core.sshcommand", "ssh -i ~/.ssh/key"),
        ];
        let found = read_only(&settings, &top, &HostPath::new(&top).unwrap());
        let paths: Vec<&str> = found.iter().map(|it| it.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["watch.sh", "scripts/clean", "later.py", "tools/there.sh", "recent"]);
        assert!(found.iter().all(|it| it.when_absent == WhenAbsent::Program));
    }

    #[test]
    fn included_files_whose_settings_are_not_listed_are_named() {
        let root = tempfile::tempdir().unwrap();
        for file in ["listed", "for-a-branch", "in-the-home"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        let of = |file: &str, key: &str, value: &str| Setting {
            file: Some(root.path().join(file)),
            key: key.into(),
            value: value.into(),
        };
        let settings = [
            of("main", "include.path", "listed"),
            of("listed", "user.name", "x"),
            of("main", "includeif.onbranch:x.path", "./for-a-branch"),
            of("main", "includeif.onbranch:y.path", "for-a-branch"),
            of("main", "includeif.onbranch:z.path", "absent"),
            of("main", "includeif.gitdir:/x/.path", "~/in-the-home"),
        ];
        let found = unlisted_includes(&settings, Path::new("/"), Some(root.path()));
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["for-a-branch", "in-the-home"]);
    }

    #[test]
    fn hooks_that_are_links_into_the_directory_are_found() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        let hooks = top.join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        std::fs::create_dir(top.join("scripts")).unwrap();
        std::fs::write(top.join("scripts/check"), "").unwrap();
        std::fs::write(hooks.join("post-commit"), "").unwrap();
        symlink("../../scripts/check", hooks.join("pre-commit")).unwrap();
        symlink("../../scripts/absent", hooks.join("pre-push")).unwrap();
        symlink("/usr/bin/true", hooks.join("pre-rebase")).unwrap();
        symlink("post-commit", hooks.join("post-merge")).unwrap();
        let mut found = linked_hooks(&hooks, &HostPath::new(&top).unwrap());
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let paths: Vec<&str> = found.iter().map(|it| it.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["scripts/absent", "scripts/check"]);
    }

    #[test]
    fn paths_of_hooks_and_included_files_are_found_however_they_are_written() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        let top = real.join("home/me/repo");
        std::fs::create_dir_all(top.join("through-a-link")).unwrap();
        std::os::unix::fs::symlink(&top, real.join("alias")).unwrap();
        let alias = real.join("alias/through-a-link").display().to_string();
        let of = |file: &str, key: &str, value: &str| Setting {
            file: Some(top.join(file)),
            key: key.into(),
            value: value.into(),
        };
        let settings = [
            of(".git/config", "core.hookspath", "~/repo/from-home"),
            of(".git/config", "core.hookspath", &alias),
            of(".git/config", "include.path", "../included"),
            of(".git/config", "includeif.onbranch:x.path", "../for a branch"),
            of("included", "user.name", "x"),
        ];
        let found = read_only(&settings, &top, &HostPath::new(&top).unwrap());
        let mut paths: Vec<&str> = found.iter().map(|it| it.path.to_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["for a branch", "from-home", "included", "through-a-link"]);
        let whole =
            read_only(&[of(".git/config", "core.hookspath", ".")], &top, &HostPath::new(&top).unwrap());
        assert_eq!(whole[0].path, Path::new(""), "it cannot be closed, which is for the caller to refuse");
    }

    #[test]
    fn gits_list_is_read_with_its_origins() {
        let list = b"file:.git/config\0core.bare\nfalse\0command line:\0user.name\nx\0file:/a\0core.x\0";
        let found = parse(list, Path::new("/top"));
        assert_eq!(found[0].file.as_deref(), Some(Path::new("/top/.git/config")));
        assert_eq!((found[1].file.as_deref(), found[1].value.as_str()), (None, "x"));
        assert_eq!(found[2].value, "true");
    }
}
