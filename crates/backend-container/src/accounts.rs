//! The accounts that a sandbox finds in `/etc/passwd` and `/etc/group` when its uid is not the one that images know.
//!
//! Engines take uids without names, and a good many programs do not work for one that has none. The files lie in the state
//! directory only until the container has started: what is mounted stays when its name is gone.

use crate::ContainerConfig;
use crate::client::Client;
use crate::labels;
use crate::plan::{ACCOUNT_FILES, Dialect, User};
use palisade_core::policy::{HOME, USER};
use palisade_core::{BackendError, HostPath, SandboxId};
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};

/// In the state directory; what is in it is named after the process it belongs to.
const DIRECTORY: &str = "accounts";

/// The accounts that every Debian has. What an image adds to them has no name inside.
const USERS: &str = "root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";
const GROUPS: &str = "root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
mail:x:8:
man:x:12:
www-data:x:33:
shadow:x:42:
utmp:x:43:
staff:x:50:
users:x:100:
nogroup:x:65534:
";

/// The files of one start, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Accounts {
    pub(crate) directory: HostPath,
}

impl Accounts {
    /// Writes the files for a user whom the images do not know.
    pub(crate) fn for_start(
        client: &Client,
        config: &ContainerConfig,
        sandbox: &SandboxId,
        user: User,
    ) -> Result<Option<Self>, BackendError> {
        let is_known = user.uid == User::default().uid;
        if is_known || client.dialect == Dialect::RootlessPodman || !client.endpoint.is_local() {
            return Ok(None);
        }
        sweep(config);
        let (_, mark) = labels::of_this_process();
        let directory = config.state.join(DIRECTORY).join(format!("{mark}.{sandbox}"));
        let accounts = Self { directory };
        let written = accounts.write(user);
        written.map_err(BackendError::io(format!("write {}", accounts.directory)))?;
        Ok(Some(accounts))
    }

    fn write(&self, user: User) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        for ((name, _), text) in ACCOUNT_FILES.into_iter().zip(texts(user)) {
            let path = self.directory.join(name);
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())?;
            // The user inside is another one. The directories above are closed to everybody else.
            file.set_permissions(Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    /// Whether the engine could not start a container because of these files: it may have another file system than this
    /// process, or no right to look into this directory.
    pub(crate) fn are_amiss(&self, error: &BackendError) -> bool {
        matches!(error, BackendError::EngineRefused { reason, .. }
            if reason.contains(&self.directory.to_string()))
    }
}

impl Drop for Accounts {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            tracing::debug!(%error, "account files of a start were not removed");
        }
    }
}

/// Removes what processes have left that were killed.
pub(crate) fn sweep(config: &ContainerConfig) {
    let entries = std::fs::read_dir(config.state.join(DIRECTORY)).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let mark = name.to_str().and_then(|name| name.rsplit_once('.'));
        if mark.is_some_and(|(mark, _)| !labels::process_lives(mark)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The contents of the files, in their order.
fn texts(User { uid, gid }: User) -> [String; 2] {
    [format!("{USERS}{USER}:x:{uid}:{gid}:{USER}:{HOME}:/bin/bash\n"), format!("{GROUPS}{USER}:x:{gid}:\n")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EndpointConfig;
    use palisade_core::{ImageReference, Method};

    fn config(state: &std::path::Path) -> ContainerConfig {
        ContainerConfig {
            guest: HostPath::new("/guest").unwrap(),
            state: HostPath::new(state).unwrap(),
            image: ImageReference::new("image:latest").unwrap(),
            endpoints: EndpointConfig::default(),
            tell: |_| {},
        }
    }

    #[test]
    fn the_user_has_a_name_and_a_home() {
        let [users, groups] = texts(User { uid: 1_910_000_007, gid: 1_910_000_008 });
        assert_eq!(users.lines().last(), Some("agent:x:1910000007:1910000008:agent:/home/agent:/bin/bash"));
        assert_eq!(groups.lines().last(), Some("agent:x:1910000008:"));
        assert!(users.lines().all(|line| line.split(':').count() == 7), "{users}");
        assert!(groups.lines().all(|line| line.split(':').count() == 4), "{groups}");
    }

    #[test]
    fn what_the_killed_have_left_is_swept_and_what_the_living_use_is_not() {
        let state = tempfile::tempdir().unwrap();
        let config = config(state.path());
        let (_, mine) = labels::of_this_process();
        for name in [format!("{mine}.id"), "1-1.00000000.id".into(), "another-form".into()] {
            std::fs::create_dir_all(state.path().join(DIRECTORY).join(name)).unwrap();
        }
        sweep(&config);
        let entries = std::fs::read_dir(state.path().join(DIRECTORY)).unwrap().flatten();
        let mut left: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        left.sort();
        let mut expected = vec![format!("{mine}.id"), "another-form".into()];
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn files_are_gone_with_the_start_and_a_refusal_because_of_them_is_known() {
        let state = tempfile::tempdir().unwrap();
        let directory = HostPath::new(state.path().join("accounts/x")).unwrap();
        let accounts = Accounts { directory: directory.clone() };
        accounts.write(User { uid: 7, gid: 8 }).unwrap();
        let mode = std::fs::metadata(directory.join("passwd")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let refused = |reason: String| BackendError::EngineRefused {
            engine: Method::Docker,
            what: "make the container".into(),
            reason,
        };
        assert!(accounts.are_amiss(&refused(format!("bind source path does not exist: {directory}/passwd"))));
        assert!(!accounts.are_amiss(&refused("no space left on device".into())));
        drop(accounts);
        assert!(!directory.as_path().exists());
    }
}
