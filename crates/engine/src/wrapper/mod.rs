//! Wrappers: executables that look like a command and run it in a sandbox, for programs that can only be told a path.
//!
//! A wrapper is a script of three lines and a record. The script names this program and the record and nothing else;
//! the record holds the method, the whole policy and the command as they were settled when the wrapper was made, so no
//! variable, setting or working directory of a later caller makes the sandbox another one.
//!
//! Invariants: a wrapper is complete or not there (it is made under another name and renamed); only what a record of
//! ours names is ever removed; a record holds names of variables, and values only where somebody wrote them on the
//! command line.

mod error;
mod making;
mod paths;
mod program;
mod record;
mod relocation;
mod removal;
mod running;
mod script;
mod trial;
mod word;

pub use error::WrapperError;
pub use making::WrapRequest;
pub(crate) use paths::WrapperPaths;
pub use program::{Host, Reach, reach};
pub use record::{Home, Record, Surroundings, Variable};
pub(crate) use relocation::Relocation;
pub use removal::{Listed, Listing, ScriptState};
pub use running::Wrapper;
pub use running::searched_first;
pub use word::Word;

use palisade_core::HostPath;

/// In the state directory.
const DIRECTORY: &str = "wrappers";
/// In a wrapper's own directory.
const RECORD: &str = "wrapper.json";
const PATHS: &str = "paths.json";
const HOME: &str = "home";
/// Names of directories that are not wrappers: being made, or being removed, by the process that the name tells.
const MAKING: &str = ".making-";
const REMOVING: &str = ".removing-";

/// All wrappers of an installation.
fn directory(state: &HostPath) -> HostPath {
    state.join(DIRECTORY)
}
