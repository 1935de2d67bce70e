//! What host git must not do while it handles a sandbox's content. The user's own configuration names programs
//! (filters, merge drivers, hooks); a sandbox chooses, through `.gitattributes`, on which files they would run. So
//! all of them are off, by name, and the ways out of the repository are closed but ours.

/// Settings that hold whatever the user's own configuration says.
const ALWAYS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.gitProxy", ""),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", "true"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("core.sshCommand", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("fetch.fsckObjects", "true"),
    ("transfer.fsckObjects", "true"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("push.recurseSubmodules", "no"),
    ("fetch.prune", "false"),
    // Else the other side could name addresses to download from, and we would.
    ("fetch.uriProtocols", ""),
    ("transfer.bundleURI", "false"),
    ("promisor.acceptFromServer", "none"),
    ("commit.gpgSign", "false"),
    ("merge.verifySignatures", "false"),
    ("push.gpgSign", "false"),
    ("submodule.recurse", "false"),
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("log.showSignature", "false"),
    ("advice.detachedHead", "false"),
];

/// What git itself does with text, under the name of the user's own driver.
const PLAIN_MERGE: &str = "git merge-file --marker-size=%L %A %O %B";

/// The settings to lay over a configuration that has these names.
pub(crate) fn settings<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let always = ALWAYS.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let mut settings: Vec<_> = always.collect();
    for name in names {
        if let Some(value) = harmless(name) {
            settings.push((name.to_owned(), value.to_owned()));
        }
    }
    settings.sort();
    settings.dedup();
    settings
}

/// Whether a setting closes a way to the user's remotes, or judges what comes from there.
pub(crate) fn concerns_remotes(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "core.gitProxy",
        "core.askPass",
        "core.sshCommand",
        "credential.helper",
        "fetch.fsckObjects",
        "transfer.fsckObjects",
        "protocol.allow",
    ];
    let section = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    NAMES.contains(&name) || section == "protocol" || section == "credential"
}

/// What a setting that names a program is replaced with.
fn harmless(name: &str) -> Option<&'static str> {
    // `section.middle.key`, where the middle may hold dots and anything else.
    let (section, rest) = name.split_once('.')?;
    let (middle, key) = rest.rsplit_once('.')?;
    let section = section.to_ascii_lowercase();
    let key = key.to_ascii_lowercase();
    if middle.is_empty() {
        return None;
    }
    match (section.as_str(), key.as_str()) {
        ("filter", "clean" | "smudge" | "process") => Some(""),
        ("filter", "required") => Some("false"),
        ("merge", "driver") => Some(PLAIN_MERGE),
        ("diff", "command" | "textconv") => Some(""),
        ("credential", "helper") => Some(""),
        ("hook", "command") => Some("true"),
        // What is wrong with an object of the sandbox's is never excused.
        ("fetch", _) if middle.eq_ignore_ascii_case("fsck") && key != "skiplist" => Some("error"),
        ("protocol", "allow") => Some("never"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_over(names: &[&str]) -> Vec<(String, String)> {
        let plain = settings([]);
        settings(names.iter().copied()).into_iter().filter(|setting| !plain.contains(setting)).collect()
    }

    #[test]
    fn every_program_that_content_could_choose_is_off() {
        let expected = [
            ("Filter.LFS.Clean", ""),
            ("diff.a.b.textconv", ""),
            ("diff.word.command", ""),
            ("fetch.fsck.hasDotgit", "error"),
            ("filter.lfs.process", ""),
            ("filter.lfs.required", "false"),
            ("filter.lfs.smudge", ""),
            ("filter.with.dots and blanks.clean", ""),
            ("hook.check.command", "true"),
            ("merge.ours.driver", PLAIN_MERGE),
            ("protocol.file.allow", "never"),
        ];
        let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
        let expected: Vec<_> =
            expected.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(laid_over(&names), expected);
    }

    #[test]
    fn the_users_other_settings_stay() {
        assert_eq!(
            laid_over(&[
                "user.name",
                "core.autocrlf",
                "merge.conflictStyle",
                "filter.clean",
                "fetch.fsck.skipList",
                "x"
            ]),
            []
        );
    }
}
