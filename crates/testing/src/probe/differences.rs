//! Where methods that isolate differ by design. Everything else is the same on all of them; what is in this table is
//! asserted by the isolation suite like the rest, so that neither side changes unseen.

/// How a method does what each does in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differences {
    /// What stands in the root besides what every sandbox has. A container has all that its image has.
    pub root: &'static [&'static str],
    /// Whom `/etc/passwd` and `/etc/group` name. An image brings accounts of its own, none of the host's.
    pub users: Users,
    /// Which uid the user inside has. Engines of root's map no uid to another.
    pub uid: Uid,
    /// Variables besides those of every sandbox: what our images say themselves.
    pub variables: &'static [&'static str],
    /// Whether `/etc/hosts` has the names that the host's own has. Podman copies them, unless its containers.conf has
    /// `base_hosts_file = "none"`, and takes no word about it with a container.
    pub names_of_the_host: bool,
    /// Places that can be written besides those of every sandbox; each is the sandbox's own, in memory.
    pub writable: &'static [&'static str],
    /// What a program is told that makes a file in `/dev`: a read-only file system, or a directory of root's.
    pub closed_dev: &'static str,
    /// Whether the system's programs lie on a file system without set-uid bits. They gain nothing anywhere: no process
    /// inside may get new privileges.
    pub without_set_uid: bool,
    /// What happens to a mount whose place a sandbox has made a link of.
    pub link_in_the_way: LinkInTheWay,
    /// Characters in a directory's name with which the method refuses it.
    pub refused_in_names: &'static [char],
    /// Where home and workspace lie: where the host's own user finds them, or in the engine's keeping.
    pub files: Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    OursAlone,
    OfTheImage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uid {
    /// 1000, which is another one on the host.
    Usual,
    /// The uid that the host gave to the sandbox, which no other sandbox has.
    OfTheHost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkInTheWay {
    /// The sandbox does not start.
    Refused,
    /// The engine looks for the place with the container's own root as the end of all paths. What it makes on the way
    /// there is root's, so that nobody inside can put a link in its stead.
    LeadsInside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    InState,
    InVolumes,
}

const BWRAP: Differences = Differences {
    root: &[],
    users: Users::OursAlone,
    uid: Uid::Usual,
    variables: &[],
    names_of_the_host: false,
    writable: &[],
    closed_dev: "EROFS",
    without_set_uid: true,
    link_in_the_way: LinkInTheWay::Refused,
    refused_in_names: &[],
    files: Files::InState,
};

const DOCKER: Differences = Differences {
    root: &[".dockerenv", "boot", "media", "mnt", "opt", "root", "srv", "sys"],
    users: Users::OfTheImage,
    uid: Uid::OfTheHost,
    variables: &["NODE_EXTRA_CA_CERTS"],
    names_of_the_host: false,
    writable: &["/run", "/dev/mqueue"],
    closed_dev: "EACCES",
    without_set_uid: false,
    link_in_the_way: LinkInTheWay::LeadsInside,
    refused_in_names: &[],
    files: Files::InVolumes,
};

const PODMAN: Differences = Differences {
    root: &["boot", "media", "mnt", "opt", "root", "srv", "sys"],
    names_of_the_host: true,
    // It writes mounts down in a line of options, and reads that again.
    refused_in_names: &[',', '"', '\n', '\r'],
    ..DOCKER
};

impl Differences {
    pub fn of(method: &str) -> Self {
        match method {
            "bwrap" => BWRAP,
            "docker" => DOCKER,
            "podman" if crate::is_root() => PODMAN,
            "podman" => Differences { uid: Uid::Usual, ..PODMAN },
            other => panic!("{other} does not isolate"),
        }
    }
}
