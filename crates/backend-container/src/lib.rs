//! Sandboxes made by a container engine: `docker` and `podman`, one implementation, two endpoints.
//!
//! Everything goes through the engine's API, never through its command-line program, so nothing secret reaches an
//! argv. Planning is pure ([`plan`]); the rest is the thin I/O around it. The guest is the first process of any image:
//! it comes in a read-only volume ([`filling`]), and the attachment to it is the stream ([`stream`]).
//!
//! Invariants: every container and volume carries our labels ([`labels`]) and nothing without them is touched; every
//! call has a deadline ([`client`]); a container holds no state of its own, so that a stop may remove it.

mod accounts;
mod archive;
mod attach;
mod backend;
mod client;
pub mod endpoint;
mod environment;
mod filling;
mod guest;
mod host_paths;
mod host_users;
mod images;
pub mod labels;
mod launch;
mod leftovers;
pub mod limits;
mod memory;
mod persistence;
pub mod plan;
mod preflight;
mod rootless;
mod stream;
mod tools;
mod tree;
mod trouble;
mod turns;
mod upload;
mod volumes;

pub use backend::ContainerBackend;

use palisade_core::{HostPath, ImageReference};
use std::path::PathBuf;

/// What the program that hosts these backends knows of its surroundings.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// The static guest binary.
    pub guest: HostPath,
    /// Palisade's state directory.
    pub state: HostPath,
    /// What a sandbox is made from when its own record does not say.
    pub image: ImageReference,
    pub endpoints: EndpointConfig,
    /// Tells the user of something that takes long.
    pub tell: fn(&str),
}

/// What of the environment says where engines listen.
#[derive(Debug, Clone, Default)]
pub struct EndpointConfig {
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `CONTAINER_HOST`.
    pub container_host: Option<String>,
    /// `XDG_RUNTIME_DIR`, where the services of an ordinary user listen.
    pub runtime_dir: Option<PathBuf>,
    pub home: Option<PathBuf>,
}
