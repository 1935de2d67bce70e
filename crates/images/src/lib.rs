//! The built-in images: their recipes, and how they are made locally through a container engine.
//!
//! A recipe is a Dockerfile in `images/`, embedded, because an installed program has no checkout beside it. What an image
//! was made from is told by a digest in its label, so an image is made again only when its recipe, its parent or the
//! host's certificates have changed. Planning is pure ([`recipe`], [`context`], [`root`]); [`make`] carries it out
//! through the seam [`ImageEngine`], which the room of the container methods fills.
//!
//! Invariant: nothing secret reaches a layer, a label or an argv. Of the host only public certificates and the address
//! of its proxy go into a build, the latter as the arguments that engines keep out of an image's history.

pub mod context;
pub mod engine;
mod error;
mod making;
pub mod recipe;
pub mod root;

pub use context::Certificates;
pub use engine::{Build, BuildFailure, FoundImage, ImageEngine};
pub use error::ImageError;
pub use making::{Event, Made, Outcome, Request, Reuse, make};
pub use recipe::{RECIPES, Recipe, of_image, recipe, with_parents};
