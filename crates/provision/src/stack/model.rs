//! The services as Compose rendered them: what this program looks at by name, and the rest as it is.
//!
//! The text is kept as well, so that what was looked at is what is started, whatever becomes of the files.
//!
//! Values of variables are left where they are read, since they are secrets as often as not; only names stay. `Debug`
//! shows names alone, for the rest may hold what was interpolated.

use super::StackError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Deserialize)]
pub struct Model {
    pub name: String,
    #[serde(default)]
    pub services: BTreeMap<String, ModelService>,
    #[serde(default)]
    pub networks: BTreeMap<String, ModelNetwork>,
    #[serde(default)]
    pub volumes: BTreeMap<String, ModelVolume>,
    #[serde(default)]
    pub secrets: BTreeMap<String, ModelSource>,
    #[serde(default)]
    pub configs: BTreeMap<String, ModelSource>,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
    #[serde(skip)]
    text: Rendered,
}

/// The rendered services as Compose wrote them, and as it reads them again. Holds secrets.
#[derive(Clone, Default)]
pub struct Rendered(Vec<u8>);

impl Rendered {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[derive(Deserialize)]
pub struct ModelService {
    #[serde(default)]
    pub container_name: Option<String>,
    #[serde(default)]
    pub image: Option<String>,
    #[serde(default)]
    pub network_mode: Option<String>,
    /// The names of the variables that it gets.
    #[serde(default, deserialize_with = "names")]
    pub environment: BTreeSet<String>,
    /// By key, with how it is joined; `Null` when nothing is said.
    #[serde(default)]
    pub networks: BTreeMap<String, Value>,
    #[serde(default)]
    pub ports: Vec<PublishedPort>,
    #[serde(default)]
    pub volumes: Vec<ServiceMount>,
    #[serde(default)]
    pub build: Option<Build>,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublishedPort {
    pub target: u16,
    /// A port, or a range of which the engine takes one; none when the engine chooses.
    #[serde(default)]
    pub published: Option<String>,
    #[serde(default)]
    pub host_ip: Option<String>,
    #[serde(default = "tcp")]
    pub protocol: String,
    #[serde(default)]
    pub mode: Option<String>,
}

#[derive(Deserialize)]
pub struct ServiceMount {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub target: Option<String>,
    #[serde(default)]
    pub read_only: bool,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub struct Build {
    #[serde(default)]
    pub context: Option<String>,
    #[serde(default)]
    pub dockerfile: Option<String>,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub struct ModelNetwork {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub external: bool,
    #[serde(default)]
    pub driver: Option<String>,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub struct ModelVolume {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub external: bool,
    #[serde(default)]
    pub driver: Option<String>,
    #[serde(default)]
    pub driver_opts: BTreeMap<String, Value>,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
}

/// A secret or a config of the file's own, and where it comes from.
#[derive(Deserialize)]
pub struct ModelSource {
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default)]
    pub environment: Option<String>,
    #[serde(default)]
    pub external: bool,
    #[serde(flatten)]
    /// What is not looked at by name, by its key.
    pub rest: BTreeMap<String, Value>,
}

impl Model {
    pub(super) fn read(rendered: Vec<u8>) -> Result<Self, StackError> {
        let mut model: Self = serde_json::from_slice(&rendered).map_err(|error| StackError::Unreadable {
            reason: palisade_core::one_line(&error.to_string()),
        })?;
        model.text = Rendered(rendered);
        Ok(model)
    }

    pub fn rendered(&self) -> &Rendered {
        &self.text
    }
}

fn tcp() -> String {
    "tcp".into()
}

fn names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    let written = Option::<BTreeMap<String, serde::de::IgnoredAny>>::deserialize(deserializer)?;
    Ok(written.unwrap_or_default().into_keys().collect())
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("services", &self.services)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ModelService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelService").field("environment", &self.environment).finish_non_exhaustive()
    }
}

/// What may hold interpolated values shows nothing of itself.
macro_rules! reticent {
    ($($name:ident),+) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        })+
    };
}

reticent!(Rendered, ServiceMount, Build, ModelNetwork, ModelVolume, ModelSource);
