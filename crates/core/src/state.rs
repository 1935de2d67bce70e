//! The lifecycle: which state may follow which. Everything that changes a state goes through `State::to`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where in its life a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    Created,
    Starting,
    Running,
    Stopping,
    Stopped,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox that is {from} cannot become {to}")]
pub struct IllegalTransition {
    pub from: State,
    pub to: State,
}

impl State {
    pub const ALL: [State; 6] =
        [State::Created, State::Starting, State::Running, State::Stopping, State::Stopped, State::Error];

    /// The move to `next`, or why there is none.
    pub fn to(self, next: State) -> Result<State, IllegalTransition> {
        use State::{Created, Error, Running, Starting, Stopped, Stopping};
        let legal = matches!(
            (self, next),
            (Created | Stopped | Error, Starting)
                | (Starting, Running | Stopping | Stopped | Error)
                | (Running, Stopping | Stopped | Error)
                | (Stopping, Stopped | Error)
                | (Created | Error, Stopped | Error)
        );
        if legal { Ok(next) } else { Err(IllegalTransition { from: self, to: next }) }
    }

    /// Whether a keeper should be alive for a sandbox in this state.
    pub fn has_keeper(self) -> bool {
        matches!(self, State::Starting | State::Running | State::Stopping)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            State::Created => "created",
            State::Starting => "starting",
            State::Running => "running",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
            State::Error => "error",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown state '{0}'")]
pub struct UnknownState(String);

impl FromStr for State {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| UnknownState(text.escape_debug().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::State::{Created, Error, Running, Starting, Stopped, Stopping};
    use super::*;

    #[test]
    fn the_whole_table_of_transitions() {
        let legal = [
            (Created, Starting),
            (Created, Stopped),
            (Created, Error),
            (Starting, Running),
            (Starting, Stopping),
            (Starting, Stopped),
            (Starting, Error),
            (Running, Stopping),
            (Running, Stopped),
            (Running, Error),
            (Stopping, Stopped),
            (Stopping, Error),
            (Stopped, Starting),
            (Error, Starting),
            (Error, Stopped),
            (Error, Error),
        ];
        for from in State::ALL {
            for to in State::ALL {
                let expected =
                    if legal.contains(&(from, to)) { Ok(to) } else { Err(IllegalTransition { from, to }) };
                assert_eq!(from.to(to), expected, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn the_error_names_both_states() {
        assert_eq!(
            Stopped.to(Running).unwrap_err().to_string(),
            "a sandbox that is stopped cannot become running"
        );
    }
}
