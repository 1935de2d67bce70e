//! The seam to a container engine: what making images asks of one.

use palisade_core::{BackendError, Secret};
use std::collections::HashMap;
use std::path::Path;

/// An image that an engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundImage {
    pub id: String,
    pub labels: HashMap<String, String>,
}

/// One build, as an engine is asked for it. Builds use the network of the engine's host, so that a proxy on its loopback
/// is reached, and an engine without a network for containers can build, too.
#[derive(Debug)]
pub struct Build {
    /// What the result is called.
    pub image: String,
    /// The archive with the recipe in it.
    pub context: Vec<u8>,
    pub base: String,
    /// `http_proxy` and its like: names that engines know and keep out of an image's history.
    pub proxies: Vec<(String, Secret)>,
    pub labels: HashMap<String, String>,
    /// Whether what the engine remembers of earlier builds may be used.
    pub reuse: bool,
}

#[derive(Debug)]
pub enum BuildFailure {
    /// The engine could not be asked.
    Engine(BackendError),
    /// A step of the recipe failed, in the engine's words.
    Step(String),
}

/// A container engine, as far as images go.
pub trait ImageEngine {
    fn find(&self, image: &str) -> impl Future<Output = Result<Option<FoundImage>, BackendError>>;

    /// Fetches an image from a registry.
    fn pull(&self, image: &str) -> impl Future<Output = Result<(), BackendError>>;

    /// Makes an image of an archive that holds a whole system.
    fn import(&self, root: &Path, image: &str) -> impl Future<Output = Result<(), BackendError>>;

    /// Builds an image, and hands on what the engine says meanwhile, line by line.
    fn build(
        &self,
        build: Build,
        said: &mut dyn FnMut(&str),
    ) -> impl Future<Output = Result<(), BuildFailure>>;

    /// Removes an image that has lost its name; one in use stays.
    fn discard(&self, id: &str) -> impl Future<Output = ()>;
}
