//! `palisade env ls`.

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use palisade_config::manifest::{Catalogue, Environment, Provenance};
use palisade_core::{ImageReference, Method, printable};
use serde::Serialize;

/// List the environments
///
/// The built-in ones, those in $XDG_CONFIG_HOME/palisade/environments, and a trusted project's. A file that is wrong is
/// told after the others, with exit code 3.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    /// Whose manifest it is, and where it lies.
    pub(crate) from: &'a Provenance,
    /// The methods that can make a sandbox of it.
    pub(crate) methods: Vec<Method>,
    pub(crate) image: Option<&'a ImageReference>,
}

fn listed(environment: &Environment) -> Listed<'_> {
    let manifest = &environment.manifest;
    Listed {
        name: manifest.name.value.as_str(),
        description: &manifest.description,
        from: &environment.provenance,
        methods: manifest.methods(),
        image: manifest.image.as_ref(),
    }
}

pub(super) fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let catalogue = context.catalogue(None)?;
    let listed: Vec<Listed<'_>> = catalogue.environments().iter().map(listed).collect();
    if arguments.json {
        output::json(&listed)?;
    } else {
        let rows: Vec<Vec<String>> = listed
            .iter()
            .map(|environment| {
                vec![
                    environment.name.to_owned(),
                    environment.from.shown(),
                    words(&environment.methods),
                    environment.description.to_owned(),
                ]
            })
            .collect();
        output::data(&output::table(&["NAME", "FROM", "METHODS", "DESCRIPTION"], &rows))?;
    }
    tell_untrusted(&catalogue);
    Ok(catalogue.whole()?)
}

/// What a project brings and nobody has agreed to is left out, and said.
fn tell_untrusted(catalogue: &Catalogue) {
    for untrusted in &catalogue.untrusted {
        let name =
            untrusted.name.as_ref().map(|name| format!("environment '{name}' of ")).unwrap_or_default();
        output::warning(&format!(
            "{name}this project is left out: {} is not trusted as it is now; read it, then: palisade trust",
            printable(&untrusted.file.to_string_lossy())
        ));
    }
}

pub(super) fn words(methods: &[Method]) -> String {
    methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(" ")
}
