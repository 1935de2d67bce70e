//! The remotes of the host's repository, as a sandbox may see them: addresses without credentials.

use crate::git::{GitError, Repository};
use crate::refs::BranchName;
use palisade_core::RefScope;

/// A setting for the repository inside.
pub(crate) type Setting = (String, String);

impl Repository {
    /// Settings that give the sandbox's repository the host's remotes, and a branch its upstream. Inside, our program
    /// takes the place of the transport: nothing there can reach them, or has to.
    pub(crate) async fn remote_settings(
        &self,
        branch: Option<&BranchName>,
        scope: RefScope,
    ) -> Result<Vec<Setting>, GitError> {
        let pattern = r"^(remote\..*\.(url|fetch)|branch\..*\.(remote|merge)|submodule\..*\.(url|active))$";
        let listing = self.git(["config", "-z", "--get-regexp", pattern]).answers().await?;
        Ok(settings(&String::from_utf8_lossy(&listing), branch, scope))
    }
}

fn settings(listing: &str, branch: Option<&BranchName>, scope: RefScope) -> Vec<Setting> {
    let mut settings = vec![
        ("remote.host.url".to_owned(), "palisade:host".to_owned()),
        ("remote.host.fetch".to_owned(), "+refs/heads/*:refs/remotes/host/*".to_owned()),
        ("remote.host.vcs".to_owned(), "palisade".to_owned()),
        ("checkout.defaultRemote".to_owned(), "host".to_owned()),
    ];
    let upstream = branch.map(|branch| format!("branch.{branch}."));
    let mut remotes = Vec::new();
    for (key, value) in listing.split('\0').filter_map(|entry| entry.split_once('\n')) {
        let Some((section, name)) = key.rsplit_once('.') else { continue };
        if section == "remote.host" {
            continue;
        }
        // The ref that it names is sent only with all the others.
        let is_upstream =
            scope == RefScope::All && upstream.as_ref().is_some_and(|upstream| key.starts_with(upstream));
        match name {
            "url" if section.starts_with("submodule.") => {
                settings.push((key.to_owned(), without_credentials(value)));
            }
            "active" => settings.push((key.to_owned(), value.to_owned())),
            "url" if !remotes.contains(&section) => {
                settings.push((key.to_owned(), without_credentials(value)));
                settings.push((format!("{section}.vcs"), "palisade".to_owned()));
                remotes.push(section);
            }
            // The first of several: each is its own line, and one is enough to find refs by.
            "fetch" if !settings.iter().any(|(known, _)| known == key) => {
                settings.push((key.to_owned(), value.to_owned()));
            }
            "remote" | "merge" if is_upstream => settings.push((key.to_owned(), value.to_owned())),
            _ => {}
        }
    }
    // So that `git pull` finds something, and `git status` says how far the branch is.
    if let (Some(upstream), Some(branch)) = (upstream, branch) {
        let (remote, merge) = (format!("{upstream}remote"), format!("{upstream}merge"));
        if !settings.iter().any(|(key, _)| *key == remote) {
            settings.push((remote, "host".to_owned()));
            settings.push((merge, branch.full()));
        }
    }
    settings
}

/// An address without a password, and without a user name where that may be a token.
pub(crate) fn without_credentials(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) =
        rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
    let Some((user, host)) = authority.rsplit_once('@') else { return address.to_owned() };
    let user = user.split(':').next().unwrap_or_default();
    let path = path.map(|path| format!("/{path}")).unwrap_or_default();
    match scheme {
        "ssh" | "git+ssh" | "ssh+git" => format!("{scheme}://{user}@{host}{path}"),
        _ => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out_of_addresses() {
        for (address, expected) in [
            ("https://github.com/a/b.git", "https://github.com/a/b.git"),
            ("https://token@github.com/a/b.git", "https://github.com/a/b.git"),
            ("https://user:p@ss@github.com/a/b.git", "https://github.com/a/b.git"),
            ("https://token@github.com", "https://github.com"),
            ("ssh://git:secret@example.org:22/a", "ssh://git@example.org:22/a"),
            ("git@github.com:a/b.git", "git@github.com:a/b.git"),
            ("/srv/git/a@b", "/srv/git/a@b"),
        ] {
            assert_eq!(without_credentials(address), expected, "{address}");
        }
    }

    #[test]
    fn remotes_and_the_upstream_of_the_branch_go_in() {
        let listing = "remote.origin.url\nhttps://t@h/x\0remote.origin.fetch\n+refs/heads/*:refs/remotes/origin/*\0\
                       branch.main.remote\norigin\0branch.main.merge\nrefs/heads/main\0branch.other.remote\norigin\0\
                       remote.host.url\n/elsewhere\0";
        let found = settings(listing, BranchName::new("main").ok().as_ref(), RefScope::All);
        let rest: Vec<(&str, &str)> =
            found[4..].iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            rest,
            [
                ("remote.origin.url", "https://h/x"),
                ("remote.origin.vcs", "palisade"),
                ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
                ("branch.main.remote", "origin"),
                ("branch.main.merge", "refs/heads/main"),
            ]
        );
    }
}
