//! Every way a command can fail, and how it is told: `error:`, the causes, and a `hint:` each.

use crate::commands::sandbox::{last_words, unmet};
use crate::{Status, output};
use palisade_agents::AgentError;
use palisade_config::ConfigError;
use palisade_config::manifest::EnvironmentError;
use palisade_core::{BackendError, Diagnostic, ExitCode, Method, SandboxName};
use palisade_engine::EngineError;
use palisade_images::ImageError;
use palisade_provision::{OnboardingError, ProvisionError};
use palisade_store::StoreError;

#[derive(Debug)]
pub(crate) enum Failure {
    /// From the parser, which renders itself; also asks for help or the version.
    Usage(clap::Error),
    Engine(EngineError),
    Config(ConfigError),
    Environment(Box<EnvironmentError>),
    Agent(Box<AgentError>),
    /// An error about a sandbox that its hints call `NAME`.
    AgentIn(SandboxName, Box<AgentError>),
    Image(Box<ImageError>),
    Onboarding(Box<OnboardingError>),
    Provision(Box<ProvisionError>),
    /// Found by this program itself.
    Told {
        code: &'static str,
        exit: ExitCode,
        message: String,
        hints: Vec<String>,
    },
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Told { code: "usage", exit: ExitCode::Usage, message: message.into(), hints: vec![hint.into()] }
    }

    pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self::Told { code, exit: ExitCode::Failed, message: message.into(), hints: Vec::new() }
    }

    /// An image was asked for, or named, for a method that starts from none.
    pub(crate) fn no_images(method: Method) -> Self {
        Self::Told {
            code: "no-images",
            exit: ExitCode::Usage,
            message: format!("method '{method}' needs no image; images are for docker and podman"),
            hints: vec!["name the engine: --method docker or podman, or set SANDBOX_METHOD".into()],
        }
    }

    /// A mistake of ours.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let hints = vec!["this is a defect of Palisade; please report it".into()];
        Self::Told { code: "internal", exit: ExitCode::Internal, message: message.into(), hints }
    }

    /// Says which sandbox an agent's error is about, so that its hints name it.
    pub(crate) fn in_sandbox(name: &SandboxName) -> impl FnOnce(AgentError) -> Self {
        |error| Self::AgentIn(name.clone(), Box::new(error))
    }

    /// The stable code of the error.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Engine(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Environment(error) => error.code(),
            Self::Agent(error) | Self::AgentIn(_, error) => error.code(),
            Self::Image(error) => error.code(),
            Self::Onboarding(error) => error.code(),
            Self::Provision(error) => error.code(),
            Self::Told { code, .. } => code,
        }
    }

    /// Tells the user, and gives the exit status.
    pub(crate) fn report(self) -> Status {
        match self {
            Self::Usage(error) => {
                // Help and version go to stdout with status 0; the parser knows which is which.
                let _ = error.print();
                u8::try_from(error.exit_code()).unwrap_or(ExitCode::Usage as u8)
            }
            Self::Engine(error) => tell(&error),
            Self::Config(error) => tell(&error),
            Self::Environment(error) => tell(error.as_ref()),
            Self::Agent(error) => tell(error.as_ref()),
            Self::AgentIn(name, error) => {
                let hints = error.hints().iter().map(|hint| hint.replace("NAME", name.as_str())).collect();
                tell_with(error.as_ref(), &[], hints)
            }
            Self::Image(error) => tell(error.as_ref()),
            Self::Onboarding(error) => tell(error.as_ref()),
            Self::Provision(error) => {
                // Many things may be missing at once, each with its own remedy.
                if let ProvisionError::Unmet { files, secrets } = error.as_ref() {
                    unmet(files, secrets).iter().for_each(|line| output::note(line));
                    tracing::debug!(code = error.code(), "failed");
                    return error.exit() as Status;
                }
                let words = last_words(error.services());
                tell_with(error.as_ref(), &words, error.hints())
            }
            Self::Told { code, exit, message, hints } => {
                output::error(&message, &[], &[], &hints);
                tracing::debug!(code, "failed");
                exit as Status
            }
        }
    }
}

fn tell(error: &dyn Diagnostic) -> Status {
    tell_with(error, &[], error.hints())
}

/// `details` stand between what failed and what to do.
fn tell_with(error: &dyn Diagnostic, details: &[String], hints: Vec<String>) -> Status {
    let mut causes = Vec::new();
    let message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Most messages already end in their cause.
        if !message.contains(&text) {
            causes.push(text);
        }
        source = cause.source();
    }
    output::error(&message, &causes, details, &hints);
    tracing::debug!(code = error.code(), "failed");
    error.exit() as Status
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        Self::Agent(Box::new(error))
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Self::Image(Box::new(error))
    }
}

impl From<OnboardingError> for Failure {
    fn from(error: OnboardingError) -> Self {
        Self::Onboarding(Box::new(error))
    }
}

impl From<ProvisionError> for Failure {
    fn from(error: ProvisionError) -> Self {
        Self::Provision(Box::new(error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<EnvironmentError> for Failure {
    fn from(error: EnvironmentError) -> Self {
        Self::Environment(Box::new(error))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
