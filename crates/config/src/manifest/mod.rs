//! Environment manifests: small files that say what a sandbox is made from and how narrow it is.
//!
//! The built-in ones lie in `environments/` of the repository and are read by the same reader as those of the user and
//! of a project. A manifest is data: reading one runs nothing and looks at nothing of the host.

mod catalogue;
mod fields;
mod init;
mod read;
mod settle;
mod time_limit;

pub(crate) use catalogue::manifests_in;
pub use catalogue::{
    BUILT_IN, Catalogue, CatalogueSources, Environment, EnvironmentError, Fault, Provenance, Untrusted,
};
pub use fields::{FIELDS, Field, FieldDoc};
pub use init::{Init, InitMode, Pattern, Refusal, Rule};
pub use read::{check_file, read};
pub use settle::{foundation, settle};
pub use time_limit::{InvalidTimeLimit, TimeLimit};

use palisade_core::{
    ByteSize, CpuCount, EnvironmentName, GuestPath, ImageReference, Method, Network, Root, ToolName,
};

/// A value and the line it was written in, so that what is wrong with it later can still be told with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    /// From 1.
    pub line: usize,
}

/// What one file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub name: Located<EnvironmentName>,
    pub description: String,
    pub image: Option<ImageReference>,
    pub root: Option<Located<Root>>,
    pub requires: Vec<ToolName>,
    /// The program and its arguments; empty for a login shell.
    pub command: Vec<String>,
    pub workdir: Option<GuestPath>,
    pub timeout: Option<TimeLimit>,
    pub init: Init,
    pub security: Security,
}

/// What a manifest says about the policy; what it leaves out stays as the settings have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    pub network: Option<Located<Network>>,
    pub read_only_root: Option<Located<bool>>,
    pub memory: Option<Located<ByteSize>>,
    pub cpus: Option<Located<CpuCount>>,
    pub pids: Option<Located<u32>>,
}

impl Manifest {
    /// The methods of this build that can make a sandbox from it, in the order in which methods are told.
    pub fn methods(&self) -> Vec<Method> {
        Method::ALL.into_iter().filter(|method| method.is_in_this_build() && self.serves(*method)).collect()
    }

    pub fn serves(&self, method: Method) -> bool {
        match method {
            Method::Bwrap => self.root.is_some(),
            // It has the host's own files and no other ones.
            Method::Noop => self.root.as_ref().is_some_and(|root| root.value == Root::Host),
            Method::Docker | Method::Podman | Method::Microvm | Method::Kubernetes => self.image.is_some(),
        }
    }
}
