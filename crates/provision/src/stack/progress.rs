//! What Compose says while it works, read from its plain output.

/// A step of Compose's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A thing of the project's has come to a state: `Container shop-1-api-1`, `Started`.
    Step { what: String, state: String },
    /// Anything else: what a build or a pull says, and warnings.
    Line(String),
}

impl Progress {
    /// Lines such as ` Container shop-1-api-1  Started`: two blanks stand before the state.
    pub(super) fn read(line: &str) -> Self {
        let trimmed = line.trim();
        let step = trimmed.split_once("  ").map(|(what, state)| (what.trim(), state.trim()));
        match step {
            Some((what, state)) if is_thing(what) && !state.is_empty() => {
                Self::Step { what: what.replace('"', ""), state: state.to_owned() }
            }
            _ => Self::Line(trimmed.to_owned()),
        }
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step { what, state } => write!(f, "{what} {}", state.to_lowercase()),
            Self::Line(line) => f.write_str(line),
        }
    }
}

fn is_thing(what: &str) -> bool {
    ["Container ", "Network ", "Volume ", "Image "].iter().any(|kind| what.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_from_other_lines() {
        let read = |line: &str| Progress::read(line).to_string();
        assert_eq!(read(" Container shop-1-api-1  Started "), "Container shop-1-api-1 started");
        assert_eq!(read(" Volume \"shop-1_data\"  Creating"), "Volume shop-1_data creating");
        assert_eq!(Progress::read("#5 RUN  apt-get"), Progress::Line("#5 RUN  apt-get".into()));
    }
}
