//! What a sandbox is: names, ids, methods, states, policy, resources, events, errors and the seam every
//! backend fills. Nothing here touches a file, a process or a socket.

pub mod backend;
pub mod bound_path;
pub mod description;
pub mod dot_git;
pub mod environment;
pub mod error;
pub mod event;
pub mod id;
pub mod method;
pub mod name;
pub mod names;
pub mod objects;
pub mod path;
pub mod pattern;
pub mod policy;
pub mod preflight;
pub mod private_git;
pub mod process;
pub mod reach;
pub mod resources;
pub mod sanitize;
pub mod secret;
pub mod self_running;
pub mod shell;
pub mod spans;
pub mod spec;
pub mod state;
pub mod sync;
pub mod time;
pub mod trouble;
pub mod variable;

pub use backend::{
    Backend, BackendError, BoxFuture, ByteStream, Capabilities, Capability, HostUsers, Lasting, Layout,
    Leftover, LeftoverLabels, Liveness, Stream,
};
pub use bound_path::{BoundPath, IdentityMatch, PathIdentity, given_paths};
pub use description::{DescriptionError, SandboxDescription};
pub use dot_git::stands_for_git;
pub use environment::{EnvironmentName, Foundation, ImageReference, InvalidReference, Root, ToolName};
pub use error::{Diagnostic, ErrorCode, ExitCode};
pub use event::Event;
pub use id::SandboxId;
pub use method::{Method, Origin, Selection};
pub use name::SandboxName;
pub use objects::{InvalidObjectStoreName, ObjectStoreName};
pub use path::{GuestPath, HostPath, ProjectPath};
pub use pattern::{FilePattern, InvalidPattern};
pub use policy::{Access, Mount, Network, Policy, Workspace};
pub use preflight::{Check, CheckStatus, Preflight};
pub use private_git::{
    CopiedDirectory, GIT_DIRECTORIES, GitBind, PrivateGit, ReadOnlyPath, Sharing, WhenAbsent,
};
pub use process::ProcessIdentity;
pub use reach::{AllowRule, HostName, HostPort};
pub use resources::{ByteSize, CpuCount, Enforcement, Limit, LimitSource, Resources};
pub use sanitize::{one_line, printable, printable_lines};
pub use secret::{InvalidSecretReference, Provider, Secret, SecretReference};
pub use spec::{HIGHEST_CONTAINER_UID, HostIdentity, SANDBOXES, SandboxDir, SandboxSpec};
pub use state::{IllegalTransition, State};
pub use sync::{MovedRef, RefScope, SyncMode, SyncTrigger, UnknownSyncWord};
pub use time::{InvalidSpan, TimeSpan};
pub use trouble::HostTrouble;
pub use variable::{Assignment, InvalidVariable, VariableName};
