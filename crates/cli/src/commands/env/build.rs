//! `palisade env build`: makes the images of environments, locally.

use crate::context::{self, Context};
use crate::failure::Failure;
use crate::output;
use palisade_core::ExitCode;
use palisade_images::context::ADDED_CERTIFICATES;
use palisade_images::{
    Certificates, Event, ImageError, Made, Outcome, RECIPES, Recipe, Request, Reuse, make, of_image, recipe,
    with_parents,
};
use std::collections::VecDeque;
use std::path::Path;

/// How much of what a build said is told when it fails.
const LAST_LINES: usize = 20;

/// Build the images of environments, for the methods docker and podman
///
/// Images are made on this machine, from the recipes in the program; a registry is not needed. An image is built when it
/// is not there, or when its recipe, what it builds on, or the certificates that were added to this host have changed.
/// The steps of a recipe fetch packages, over the host's network and through the proxy that http_proxy and https_proxy
/// name.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Environments whose images to build; also base and agent, which are images without an environment
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// Every image there is a recipe for
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// The Debian to begin with; otherwise one is pulled or, where that fails, made with mmdebstrap
    #[arg(long, value_name = "IMAGE")]
    pub(crate) base: Option<String>,
    /// Build everything anew, with today's packages
    #[arg(long)]
    pub(crate) fresh: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let method = context.method();
    let Some(engine) = context.container_engine(method)? else { return Err(Failure::no_images(method)) };
    let wanted = match arguments.all {
        true => RECIPES.iter().collect(),
        false => arguments.names.iter().map(|name| named(context, name)).collect::<Result<Vec<_>, _>>()?,
    };
    let certificates = Certificates::of_directory(Path::new(ADDED_CERTIFICATES))
        .map_err(|error| Failure::failed("io", format!("cannot read {ADDED_CERTIFICATES}: {error}")))?;
    let request = Request {
        recipes: with_parents(&wanted),
        base: arguments.base.clone(),
        certificates,
        proxies: context::proxies(),
        cache: context::cache_directory()?.join("palisade/images"),
        reuse: if arguments.fresh { Reuse::Never } else { Reuse::Allowed },
    };
    let mut progress = Progress::default();
    let made = make(&engine, &request, &mut |event| progress.tell(&event)).await;
    progress.end(made.as_ref().err());
    let made = made.map_err(Failure::from)?;
    if arguments.json { output::json(&made) } else { output::data(&table(&made)) }
}

/// The recipe that a name means: an environment's image, or one that no environment has.
fn named(context: &Context, name: &str) -> Result<&'static Recipe, Failure> {
    let catalogue = context.catalogue(None)?;
    let environment = match catalogue.find(name) {
        Ok(environment) => environment,
        Err(error) => return recipe(name).ok_or_else(|| error.into()),
    };
    let image = environment.manifest.image.as_ref();
    image.and_then(of_image).ok_or_else(|| Failure::Told {
        code: "no-recipe",
        exit: ExitCode::NotFound,
        message: match image {
            Some(image) => format!("there is no recipe for {image}, the image of environment '{name}'"),
            None => format!("environment '{name}' has no image"),
        },
        hints: vec![
            "pull or build it with the engine's own tools; recipes: palisade env build --help".into(),
        ],
    })
}

fn table(made: &[Made]) -> String {
    let row = |made: &Made| {
        let outcome = match made.outcome {
            Outcome::Current => "current".to_owned(),
            Outcome::Built => format!("built in {}", seconds(made.milliseconds)),
        };
        vec![made.image.clone(), outcome, made.recipe.chars().take(12).collect()]
    };
    output::table(&["IMAGE", "OUTCOME", "RECIPE"], &made.iter().map(row).collect::<Vec<_>>())
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

/// What is shown meanwhile: a line per image, and on a terminal what is being said, in one line that moves.
#[derive(Debug, Default)]
struct Progress {
    last: VecDeque<String>,
    moving: bool,
}

impl Progress {
    fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Building { image } => self.headline(&format!("building {image}")),
            Event::Pulling { image } => self.headline(&format!("pulling {image}")),
            Event::MakingRoot { because } => {
                self.headline("it cannot be pulled; a Debian of our own is used, made with mmdebstrap");
                tracing::debug!(%because, "not pulled");
            }
            Event::Said { line } => self.said(line),
            Event::Done { .. } => self.still(),
        }
    }

    fn headline(&mut self, text: &str) {
        self.still();
        self.last.clear();
        output::note(text);
    }

    fn said(&mut self, line: &str) {
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        if output::stderr_is_terminal() {
            self.moving = true;
            let width = usize::from(crate::terminal::size().columns);
            output::moving(&format!("  {line}").chars().take(width.saturating_sub(1)).collect::<String>());
        }
    }

    fn still(&mut self) {
        if std::mem::take(&mut self.moving) {
            output::moving("");
        }
    }

    fn end(&mut self, error: Option<&ImageError>) {
        self.still();
        if matches!(
            error,
            Some(ImageError::Step { .. } | ImageError::Network { .. } | ImageError::Root { .. })
        ) {
            for line in &self.last {
                output::note(&format!("  {line}"));
            }
        }
    }
}
