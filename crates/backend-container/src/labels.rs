//! The names and labels of what we make in an engine, and how to read them again. What carries none of them, or another
//! installation's owner, is none of our business.

use crate::plan::User;
use palisade_core::{SandboxDescription, SandboxId, SandboxSpec};
use palisade_host::process;
use std::collections::HashMap;

/// Which installation made it.
pub const OWNER: &str = "dev.palisade.owner";
/// What it is for, see [`Kind`].
pub const KIND: &str = "dev.palisade.kind";
/// The id of the sandbox it belongs to.
pub const SANDBOX: &str = "dev.palisade.sandbox";
/// That sandbox's name, for people who list containers.
pub const NAME: &str = "dev.palisade.name";
/// The whole sandbox, on the volumes with its files: what is needed to record it again when the record and its directory
/// are lost. It holds no secret: every user of the engine can read it.
pub const DESCRIPTION: &str = "dev.palisade.description";
/// Whom the files of a sandbox belong to, as `UID:GID`. Volumes of an earlier version do not say it; theirs belong to the
/// user that every sandbox had then.
pub const USER: &str = "dev.palisade.user";
/// The process that it must not outlive, where it has one.
pub const PROCESS: &str = "dev.palisade.process";

/// What a container or a volume of ours is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The container of a sandbox with a record.
    Sandbox,
    /// The container of a one-off run.
    Run,
    /// A container that is never started: volumes are filled through it.
    Helper,
    /// A helper that stands as long as the volume after which it is named is being filled.
    Filler,
    Home,
    Workspace,
    /// The volume with the guest program, for every sandbox of its version.
    Guest,
    /// A volume with tools of the host's, for an engine that cannot see them.
    Tools,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Sandbox,
        Kind::Run,
        Kind::Helper,
        Kind::Filler,
        Kind::Home,
        Kind::Workspace,
        Kind::Guest,
        Kind::Tools,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Sandbox => "sandbox",
            Kind::Run => "run",
            Kind::Helper => "helper",
            Kind::Filler => "filler",
            Kind::Home => "home",
            Kind::Workspace => "workspace",
            Kind::Guest => "guest",
            Kind::Tools => "tools",
        }
    }
}

pub type Labels = HashMap<String, String>;

/// The labels of what is made for one sandbox.
pub fn of(spec: &SandboxSpec, kind: Kind) -> Labels {
    let mut labels = of_owner(&spec.owner, kind);
    labels.insert(SANDBOX.into(), spec.id.to_string());
    if let Some(name) = &spec.name {
        labels.insert(NAME.into(), name.to_string());
    }
    labels
}

/// The labels of a volume with a sandbox's files, which belong to `user`. `created_at` is in unix milliseconds.
pub fn of_files(spec: &SandboxSpec, kind: Kind, user: User, created_at: i64) -> Labels {
    let mut labels = of(spec, kind);
    labels.insert(USER.into(), format!("{}:{}", user.uid, user.gid));
    labels.insert(DESCRIPTION.into(), SandboxDescription::new(spec.clone(), created_at).to_json());
    labels
}

/// Reads whom a volume with a sandbox's files belongs to; nothing of one that does not say it. Nothing inside is root.
pub fn user_of(labels: &Labels) -> Option<User> {
    let (uid, gid) = labels.get(USER)?.split_once(':')?;
    let user = User { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
    (user.uid != 0).then_some(user)
}

/// The labels of what is made for an installation.
pub fn of_owner(owner: &str, kind: Kind) -> Labels {
    [(OWNER, owner), (KIND, kind.as_str())].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Marks something that this process must put away, so that it can be judged when the process is gone. The boot is part
/// of it: an engine keeps containers over a restart of the machine, and process numbers begin anew.
pub fn of_this_process() -> (String, String) {
    let process = process::this_process();
    (PROCESS.into(), format!("{}.{}", process::label(&process), short(&process.boot)))
}

/// Whether the process of such a mark is alive. What cannot be read is not judged.
pub fn process_lives(mark: &str) -> bool {
    let Some((label, boot)) = mark.split_once('.') else { return true };
    boot == short(&process::boot_id()) && process::label_is_alive(label) != Some(false)
}

fn short(boot: &str) -> &str {
    boot.get(..8).unwrap_or(boot)
}

/// What the labels of something say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub kind: Kind,
    pub sandbox: Option<SandboxId>,
    pub name: Option<String>,
    pub description: Option<SandboxDescription>,
    pub process: Option<String>,
}

/// Reads what we wrote; nothing when it is not this owner's, or not as we write it.
pub fn read(labels: &Labels, owner: &str) -> Option<Known> {
    if labels.get(OWNER).map(String::as_str) != Some(owner) {
        return None;
    }
    let kind = labels.get(KIND)?;
    Some(Known {
        kind: Kind::ALL.into_iter().find(|known| known.as_str() == kind)?,
        sandbox: labels.get(SANDBOX).and_then(|id| SandboxId::parse(id).ok()),
        name: labels.get(NAME).cloned(),
        description: labels.get(DESCRIPTION).and_then(|text| SandboxDescription::parse(text.as_bytes()).ok()),
        process: labels.get(PROCESS).cloned(),
    })
}

/// Whether something belongs to this sandbox of this installation, or says nothing of whose it is: an engine makes a
/// volume that was removed by hand again by itself, without labels.
pub fn may_be_of(labels: &Labels, spec: &SandboxSpec) -> bool {
    match labels.get(OWNER) {
        None => true,
        Some(_) => read(labels, &spec.owner).is_some_and(|known| known.sandbox.as_ref() == Some(&spec.id)),
    }
}

/// Whether something was made for this, by whichever installation.
pub fn are_of(labels: &Labels, kind: Kind) -> bool {
    labels.get(KIND).map(String::as_str) == Some(kind.as_str())
}

pub fn container(id: &SandboxId) -> String {
    format!("palisade-{id}")
}

pub fn home_volume(id: &SandboxId) -> String {
    format!("palisade-{id}-home")
}

pub fn workspace_volume(id: &SandboxId) -> String {
    format!("palisade-{id}-workspace")
}

pub fn helper(id: &SandboxId) -> String {
    format!("palisade-{id}-helper")
}

/// `digest` is of what is in it.
pub fn guest_volume(digest: &str) -> String {
    format!("palisade-guest-{digest}")
}

/// `digest` is of what is in it. Each installation has its own: whether a process that fills one is alive can only be
/// told on the machine it runs on.
pub fn tools_volume(owner: &str, digest: &str) -> String {
    format!("palisade-tools-{owner}-{digest}")
}

const FILLER: &str = "-filler";

/// The container through which such a volume is filled.
pub fn filling_helper(volume: &str) -> String {
    format!("{volume}-helper")
}

/// The container that stands as long as a volume is being filled.
pub fn filler(volume: &str) -> String {
    format!("{volume}{FILLER}")
}

/// The volume that such a container was to fill.
pub fn filled_by(filler: &str) -> Option<&str> {
    filler.strip_suffix(FILLER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_carries_this_owner_and_a_kind_of_ours_is_known() {
        let labels = of_owner("me", Kind::Helper);
        let known = Known { kind: Kind::Helper, sandbox: None, name: None, description: None, process: None };
        assert_eq!(read(&labels, "me"), Some(known));
        assert_eq!(read(&labels, "you"), None);
        let foreign = Labels::from([(OWNER.into(), "me".into()), (KIND.into(), "else".into())]);
        assert_eq!(read(&foreign, "me"), None);
        assert_eq!(read(&Labels::from([(KIND.into(), "sandbox".into())]), "me"), None);
    }

    #[test]
    fn a_mark_tells_whether_its_process_is_alive_in_this_boot() {
        let (_, mine) = of_this_process();
        assert!(process_lives(&mine));
        let (label, boot) = mine.split_once('.').unwrap();
        assert!(!process_lives(&format!("{label}.00000000")), "another boot's");
        assert!(!process_lives(&format!("4000000-1.{boot}")), "a dead one's");
        assert!(process_lives("something else"), "what nobody can read is left alone");
    }
}
