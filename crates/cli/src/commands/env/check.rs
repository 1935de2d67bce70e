//! `palisade env check`: whether a file is a good manifest, and whether it takes these init commands.

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use palisade_config::manifest::{Refusal, check_file};
use palisade_core::{ExitCode, printable};
use serde::Serialize;
use std::path::PathBuf;

/// Check an environment's file, and tell everything that is wrong with it at once
///
/// The file is read as it would be from one of the directories of environments; nothing is started, and nothing of it is
/// kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file, such as ruby.toml
    pub(crate) file: PathBuf,
    /// Ask, too, whether it takes this init command
    #[arg(long = "init", value_name = "COMMAND")]
    pub(crate) init: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Verdict {
    /// The environment's name, when the file is good.
    pub(crate) name: Option<String>,
    /// What is wrong with the file, each with its line.
    pub(crate) problems: Vec<String>,
    /// The init commands that it does not take.
    pub(crate) refused: Vec<Refusal>,
}

pub(super) fn run(_context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let read = check_file(&arguments.file);
    let verdict = match &read {
        Ok(manifest) => Verdict {
            name: Some(manifest.name.value.to_string()),
            problems: Vec::new(),
            refused: manifest.init.refusals(&arguments.init),
        },
        Err(error) => Verdict {
            name: None,
            problems: error.problems().iter().map(ToString::to_string).collect(),
            refused: Vec::new(),
        },
    };
    if arguments.json {
        output::json(&verdict)?;
    }
    let manifest = read?;
    if !verdict.refused.is_empty() {
        let told = |refusal: &Refusal| format!("{}: {}", printable(&refusal.command), refusal.message);
        return Err(Failure::Told {
            code: "init-refused",
            exit: ExitCode::Configuration,
            message: verdict.refused.iter().map(told).collect::<Vec<_>>().join("\n"),
            hints: Vec::new(),
        });
    }
    if !arguments.json {
        output::data(&format!("environment '{}' is good\n", manifest.name.value))?;
    }
    Ok(())
}
