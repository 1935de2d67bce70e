//! An environment laid over the settings: a pure function, and the one place that decides who wins.
//!
//! - What the user says for this call, with a flag or a variable, wins over everything and may widen.
//! - A manifest may be narrower than the settings freely.
//! - It may be wider only up to what `environments.max_*`, `environments.writable_root` and `environments.roots` in
//!   the user's or the system's file allow. Beyond that it is refused; nothing is quietly made smaller.

use super::{Environment, Located, Provenance};
use crate::ceiling::Ceiling;
use crate::error::{ConfigError, Problem};
use crate::keys::Setting;
use crate::manifest::fields::Field;
use crate::settings::{Settings, Valued};
use palisade_core::{Access, Foundation, Origin, Root};
use std::fmt::Display;

/// The settings with which a sandbox of this environment is made.
pub fn settle(settings: &Settings, environment: &Environment) -> Result<Settings, ConfigError> {
    let security = &environment.manifest.security;
    let mut settled = settings.clone();
    let mut scale = Scale { provenance: &environment.provenance, problems: Vec::new() };
    settled.memory =
        scale.weigh(Field::Memory, &settings.memory, security.memory, &settings.max_memory.value);
    settled.cpus = scale.weigh(Field::Cpus, &settings.cpus, security.cpus, &settings.max_cpus.value);
    settled.pids = scale.weigh(Field::Pids, &settings.pids, security.pids, &settings.max_pids.value);
    // What was only allowed, and not said, counts as said: it is the user's word as well.
    let network = Valued { value: settings.network(), origin: settings.network.origin.clone() };
    let weighed = scale.weigh(Field::Network, &network, security.network, &settings.max_network.value);
    if weighed != network {
        settled.network = weighed;
    }
    if let Some(closed) = security.read_only_root.filter(|closed| !closed.value) {
        match settings.writable_root.value {
            true => settled.root = Access::ReadWrite,
            false => scale.refuse(
                Field::ReadOnlyRoot,
                closed.line,
                &closed.value,
                "programs could change the system they run on".into(),
                "writable_root = true",
            ),
        }
    }
    if let Some(Located { value: Root::Directory { path }, line }) = &environment.manifest.root
        && !settings.roots.iter().any(|root| path.as_path().starts_with(&root.value))
    {
        let parent = path.parent().unwrap_or_else(|| path.clone());
        let reason = "it shows a directory of the host's that is no root in your settings".into();
        scale.refuse(Field::Root, *line, path, reason, &format!("roots = [\"{parent}\"]"));
    }
    ConfigError::unless_empty(scale.problems)?;
    Ok(settled)
}

/// What a sandbox of this environment is made from.
pub fn foundation(environment: &Environment) -> Foundation {
    let manifest = &environment.manifest;
    Foundation {
        environment: Some(manifest.name.value.clone()),
        image: manifest.image.clone(),
        root: manifest.root.as_ref().map(|root| root.value.clone()).unwrap_or_default(),
        requires: manifest.requires.clone(),
        command: manifest.command.clone(),
        workdir: manifest.workdir.clone(),
    }
}

struct Scale<'a> {
    provenance: &'a Provenance,
    problems: Vec<Problem>,
}

impl Scale<'_> {
    fn weigh<T: Clone + PartialOrd + Display>(
        &mut self,
        field: Field,
        setting: &Valued<T>,
        asked: Option<Located<T>>,
        ceiling: &Ceiling<T>,
    ) -> Valued<T> {
        let Some(Located { value: asked, line }) = asked else { return setting.clone() };
        if matches!(setting.origin, Origin::Environment { .. } | Origin::Flag { .. }) {
            return setting.clone();
        }
        if asked > setting.value && !ceiling.admits(&asked) {
            let limit = match ceiling {
                Ceiling::UpTo(most) if *most > setting.value => most,
                _ => &setting.value,
            };
            let reason = format!("your settings allow {limit}");
            self.refuse(field, line, &asked, reason, &format!("{} = {}", ceiling_key(field), quoted(&asked)));
            return setting.clone();
        }
        Valued { value: asked, origin: self.origin(line) }
    }

    /// What a built-in one says is a default of the program's.
    fn origin(&self, line: usize) -> Origin {
        match self.provenance {
            Provenance::BuiltIn => Origin::Default,
            other => Origin::Manifest { file: other.shown(), line },
        }
    }

    fn refuse(&mut self, field: Field, line: usize, value: &dyn Display, reason: String, allow: &str) {
        self.problems.push(Problem::TooWide {
            place: format!("{}:{line}", self.provenance.shown()),
            key: field.key(),
            value: value.to_string(),
            reason,
            allow: allow.to_owned(),
        });
    }
}

/// The last part of the setting that bounds a field.
fn ceiling_key(field: Field) -> &'static str {
    let setting = match field {
        Field::Memory => Setting::MaxMemory,
        Field::Cpus => Setting::MaxCpus,
        Field::Pids => Setting::MaxPids,
        _ => Setting::MaxNetwork,
    };
    let key = setting.doc().key;
    key.rsplit('.').next().unwrap_or(key)
}

/// As TOML would have it.
fn quoted(value: &dyn Display) -> String {
    let text = value.to_string();
    if text.parse::<f64>().is_ok() { text } else { format!("\"{text}\"") }
}
