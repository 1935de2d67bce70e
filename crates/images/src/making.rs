//! Making images: parents first, each only when it is not there as its recipe says.

use crate::context::{self, Certificates};
use crate::engine::{Build, BuildFailure, FoundImage, ImageEngine};
use crate::error::ImageError;
use crate::recipe::{DEBIAN, PARENT_LABEL, RECIPE_LABEL, Recipe, recipe};
use crate::root::{self, RootFailure, RootPlan, Sources};
use palisade_core::{Secret, printable, printable_lines};
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

/// What is to be made, and of what.
#[derive(Debug)]
pub struct Request {
    /// Parents first, as [`crate::with_parents`] gives them.
    pub recipes: Vec<&'static Recipe>,
    /// The Debian that the user wants the first image to be made of, instead of the one that we find.
    pub base: Option<String>,
    pub certificates: Certificates,
    pub proxies: Vec<(String, Secret)>,
    /// Where a Debian of our own is kept.
    pub cache: PathBuf,
    pub reuse: Reuse,
}

/// Whether what was made before may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    Allowed,
    /// Everything anew, with today's packages.
    Never,
}

/// What happens meanwhile, for whoever watches.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An image is being built.
    Building {
        image: &'a str,
    },
    /// A Debian is being fetched.
    Pulling {
        image: &'a str,
    },
    /// It could not be fetched, so one is made.
    MakingRoot {
        because: &'a str,
    },
    /// What the engine or mmdebstrap said.
    Said {
        line: &'a str,
    },
    Done {
        made: &'a Made,
    },
}

/// What became of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Made {
    pub image: String,
    pub outcome: Outcome,
    /// The digest of its recipe, as its label says.
    pub recipe: String,
    pub milliseconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was there, from the same recipe.
    Current,
    Built,
}

/// Makes what is not there. Stops at the first failure: what comes later builds on it.
pub async fn make(
    engine: &impl ImageEngine,
    request: &Request,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Made>, ImageError> {
    let mut made = Vec::new();
    for recipe in &request.recipes {
        let one = make_one(engine, request, recipe, tell).await?;
        tell(Event::Done { made: &one });
        made.push(one);
    }
    Ok(made)
}

async fn make_one(
    engine: &impl ImageEngine,
    request: &Request,
    recipe: &'static Recipe,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Made, ImageError> {
    let began = Instant::now();
    let image = recipe.image();
    let digest = recipe.digest(request.base.as_deref().unwrap_or(DEBIAN), &request.certificates);
    let parent = match recipe.parent {
        Some(name) => Some(parent(engine, name).await?),
        None => None,
    };
    let before = engine.find(&image).await?;
    let done = |outcome| Made {
        image: image.clone(),
        outcome,
        recipe: digest.clone(),
        milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    let current = before.as_ref().is_some_and(|before| is_current(before, &digest, parent.as_ref()));
    if current && request.reuse == Reuse::Allowed {
        return Ok(done(Outcome::Current));
    }
    let (base, parent_id) = match parent {
        Some(parent) => (parent.0, parent.1.id),
        None => debian(engine, request, tell).await?,
    };
    tell(Event::Building { image: &image });
    let build = Build {
        image: image.clone(),
        context: context::archive(recipe, &request.certificates)
            .map_err(|error| ImageError::io("pack the recipe", error))?,
        base,
        proxies: request.proxies.clone(),
        labels: HashMap::from([
            (RECIPE_LABEL.to_owned(), digest.clone()),
            (PARENT_LABEL.to_owned(), parent_id),
        ]),
        reuse: request.reuse == Reuse::Allowed,
    };
    let mut lines = Vec::new();
    let built = engine
        .build(build, &mut |line| {
            let line = printable(line.trim_end());
            tell(Event::Said { line: &line });
            lines.push(line);
        })
        .await;
    built.map_err(|failure| match failure {
        BuildFailure::Engine(error) => error.into(),
        BuildFailure::Step(error) => ImageError::of_step(&image, &printable_lines(&error), &lines),
    })?;
    // An engine's word is not enough: Podman has been seen to end a failed build like a good one.
    let after = engine.find(&image).await?;
    let after = after.filter(|after| after.labels.get(RECIPE_LABEL) == Some(&digest));
    let Some(after) = after else {
        let last = lines.iter().rfind(|line| !line.is_empty()).cloned().unwrap_or_default();
        return Err(ImageError::of_step(&image, &last, &lines));
    };
    // The name now belongs to the new image; the old one is of no use, unless a container still is made of it.
    if let Some(before) = before
        && before.id != after.id
        && before.labels.contains_key(RECIPE_LABEL)
    {
        engine.discard(&before.id).await;
    }
    Ok(done(Outcome::Built))
}

type Parent = (String, FoundImage);

/// The image to build on, which was made before this one.
async fn parent(engine: &impl ImageEngine, name: &str) -> Result<Parent, ImageError> {
    let image = recipe(name).map(Recipe::image).unwrap_or_default();
    match engine.find(&image).await? {
        Some(found) => Ok((image, found)),
        None => Err(ImageError::Step { said: format!("{image} is gone"), image }),
    }
}

/// Whether an image is what building it again would give.
fn is_current(image: &FoundImage, digest: &str, parent: Option<&Parent>) -> bool {
    let label = |name: &str| image.labels.get(name).map(String::as_str);
    label(RECIPE_LABEL) == Some(digest)
        && parent.is_none_or(|(_, parent)| label(PARENT_LABEL) == Some(parent.id.as_str()))
}

/// The Debian to begin with, by name and id: the user's, one that can be pulled, or one of our own making.
async fn debian(
    engine: &impl ImageEngine,
    request: &Request,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<(String, String), ImageError> {
    let wanted = request.base.as_deref().unwrap_or(DEBIAN);
    let there = engine.find(wanted).await?;
    let anew = request.reuse == Reuse::Never && request.base.is_none();
    if let (Some(found), false) = (&there, anew) {
        return Ok((wanted.to_owned(), found.id.clone()));
    }
    tell(Event::Pulling { image: wanted });
    let pull = match engine.pull(wanted).await {
        Ok(()) => match engine.find(wanted).await? {
            Some(found) => return Ok((wanted.to_owned(), found.id)),
            None => "the engine does not have it afterwards".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    if request.base.is_some() {
        return Err(ImageError::Step { image: wanted.into(), said: pull });
    }
    tell(Event::MakingRoot { because: &pull });
    let plan = RootPlan::new(&Sources::of_machine().await);
    let reuse = request.reuse == Reuse::Allowed;
    let mut said = |line: &str| tell(Event::Said { line: &printable(line) });
    let file =
        root::make(&plan, &request.cache, reuse, &mut said).await.map_err(|failure| match failure {
            RootFailure::NotInstalled => ImageError::NoRoot { image: wanted.into(), pull },
            RootFailure::Failed(error) => error,
        })?;
    engine.import(&file, root::IMAGE).await?;
    match engine.find(root::IMAGE).await? {
        Some(found) => Ok((root::IMAGE.to_owned(), found.id)),
        None => {
            Err(ImageError::Step { image: root::IMAGE.into(), said: "the engine does not have it".into() })
        }
    }
}

#[cfg(test)]
mod tests;
