//! Why something could not be measured.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{what}: {source}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is missing; {fix}", path.display())]
    Missing { path: PathBuf, fix: &'static str },
    #[error("`{command}` ended with {how}{}", after_colon(said))]
    Ended { command: String, how: String, said: String },
    #[error("`{command}` did not end within {} s", patience.as_secs())]
    Hangs { command: String, patience: Duration },
    #[error("{variable} names no engine; scripts/bench starts one, for which it needs root or sudo")]
    NoEngine { variable: &'static str },
    #[error("the plan of the sandbox could not be made: {0}")]
    Plan(String),
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}
