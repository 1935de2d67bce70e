//! What a project's services need, and giving it to them: discovery in compose files, ports, secrets, files.
//!
//! Invariants this room keeps:
//! - Planning is pure: what is found in a compose file and what is changed in it are functions of its text.
//! - A file is edited in place, at the bytes of the value that changes; all other bytes stay.

mod action;
mod child;
mod compose;
mod copying;
mod discovery;
mod env_file;
mod examples;
mod feature;
mod files;
mod foreign;
mod health;
mod interpolation;
mod onboarding;
mod overriding;
mod parameterise;
mod ports;
mod project;
mod reach;
mod role;
mod secrets;
mod slots;
mod stack;
mod suggestion;
mod yaml;

pub use action::{
    Answer, Collected, Collecting, Collection, Content, Counts, Doing, Event, Force, HealthState,
    HealthStatus, Options, ProvisionError, ProvisionedFile, Provisioner, Question, ReportedSecret,
    SandboxState, SandboxStatus, SlotSummary, Surface,
};
pub use compose::{ComposeError, ComposeFile, Elsewhere, Need, Service, ServiceNetwork, Variable};
pub use copying::{Changed, CopyOutcome, DeclaredFile, Digests, FileFailure, FileFailureCause, copy};
pub use discovery::{Collision, Findings, MissingFile, ProjectTree, discover, discover_all};
pub use env_file::{LONGEST_VALUE, UnwritableValue, write as write_variable};
pub use examples::siblings as examples_of;
pub use feature::{Feature, InvalidFeature};
pub use files::{FileKind, FileUse};
pub use health::{Attempt, HealthError, HealthGate, HealthProgress};
pub use interpolation::{Otherwise, Reference, references};
pub use onboarding::{
    COMPOSE_FILES, Change, Given, Onboarding, OnboardingError, ProjectKind, ProposedHealth,
    write as write_changes,
};
pub use overriding::{
    CollisionChoice, NewPort, OverrideInput, ScopedSecret, SlotCollision, SlotPort, UnknownServices,
    collisions as slot_collisions, plan as plan_override,
};
pub use parameterise::{Parameterised, PortVariable, Untouched, parameterise};
pub use ports::{Port, Protocol, Published};
pub use project::usable_name;
pub use reach::{
    HostRequest, HostRequests, HostVariables, NotAgreed, RemoteFiles, SourceScan, VariableValue,
    host_requests, not_agreed, scan_sources, trust_prefixes,
};
pub use role::Role;
pub use secrets::{DeclaredSecret, OnePassword, ResolvedSecret, SecretFailure, SecretFailureCause, resolve};
pub use slots::{Claim, MOST_SLOTS, Slot, SlotError, SlotNumber, SlotRecord, SlotTurn, Slots, Stage};
pub use stack::{
    Build, ComposeEnvironment, ContainerHealth, ContainerState, FailedService, LogRange, Model, ModelNetwork,
    ModelService, ModelSource, ModelVolume, OLDEST_COMPOSE, Progress, PublishedPort, PublishedState,
    Recreate, Redactor, Rendered, ScopeCheckError, ScopeError, ScopeViolation, ServiceMount, ServiceState,
    Stack, StackError, StackPatience, Volumes,
};
pub use suggestion::{Additions, Heading, How, Provided};
pub use yaml::YamlError;
