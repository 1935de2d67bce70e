//! The connection to an engine: made when first needed, every call with a deadline and a typed failure.

use crate::endpoint::{Endpoint, candidates};
use crate::persistence::Persistence;
use crate::plan::Dialect;
use crate::rootless;
use crate::trouble::{Engine, Failure};
use crate::{ContainerConfig, EndpointConfig};
use bollard::errors::Error;
use bollard::models::ContainerInspectResponse;
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use palisade_core::{BackendError, Method};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

/// For questions, which an engine answers from memory.
const QUICK: Duration = Duration::from_secs(10);
/// For work on containers and volumes, also when many are at it.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
/// For an engine that has just been silent for one of these: what is still to be asked, as to clean up, does not make a
/// command wait as long again.
const SILENT: Duration = Duration::from_secs(1);

/// For an ordinary user's Podman, which at times copies the image first. Silence is found out as soon as with others.
const COPYING: Persistence = Persistence {
    look: Duration::from_secs(10),
    sign: Duration::from_secs(20),
    end: Duration::from_secs(15 * 60),
};

const BUSY: &str =
    "Podman is busy: the first container of an image takes its time, because the image is copied";

/// How often to ask again for a container that is in between.
const PAUSE: Duration = Duration::from_millis(20);

/// What every engine of the last years speaks. Asking for the version first would cost more than the calls themselves:
/// Podman takes half a second to tell it. An engine that is too new for this says so, and is then asked.
const OLDEST: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) method: Method,
    pub(crate) endpoint: Endpoint,
    pub(crate) dialect: Dialect,
    docker: Mutex<Docker>,
    tell: fn(&str),
    told: Once,
    /// Whether the last question was not answered in time.
    is_silent: AtomicBool,
}

impl Client {
    /// Asks the engine nothing, unless it is a Podman behind a network.
    pub(crate) async fn open(method: Method, config: &ContainerConfig) -> Result<Self, BackendError> {
        let endpoint = find(method, &config.endpoints)?;
        let docker = connect(method, &endpoint, &OLDEST)?;
        let dialect = match method {
            Method::Podman if is_rootless(method, &endpoint).await? => Dialect::RootlessPodman,
            Method::Podman => Dialect::Podman,
            _ => Dialect::Docker,
        };
        Ok(Self {
            method,
            endpoint,
            dialect,
            docker: Mutex::new(docker),
            tell: config.tell,
            told: Once::new(),
            is_silent: AtomicBool::new(false),
        })
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine { method: self.method, endpoint: &self.endpoint }
    }

    /// How long a question may take. Podman answers none while it copies an image for the first container that has other
    /// ids than the image: ten seconds and more for an ordinary user's first sandbox.
    pub(crate) fn quick(&self) -> Duration {
        match self.method {
            Method::Podman => LONGEST,
            _ => QUICK,
        }
    }

    fn docker(&self) -> Docker {
        self.docker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection for what may take long; the caller sees to deadlines.
    pub(crate) fn patient(&self, patience: Duration) -> Docker {
        self.docker().with_timeout(patience)
    }

    /// Asks the engine for something. `what` completes "cannot …"; the question may be put twice.
    pub(crate) async fn call<T, F>(
        &self,
        what: &str,
        patience: Duration,
        ask: impl Fn(Docker) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match self.within(what, patience, ask(self.docker())).await? {
            Err(error) if is_too_old(&error) => {
                self.negotiate(what).await?;
                let again = self.within(what, patience, ask(self.docker())).await?;
                again.map_err(|error| self.engine().failure(what, &error))
            }
            other => other.map_err(|error| self.engine().failure(what, &error)),
        }
    }

    /// How long something may take that waits for images to be copied, [given](Self::persist) signs of life; `otherwise`
    /// where none are.
    pub(crate) fn busy_with_images(&self, otherwise: Duration) -> Duration {
        match self.dialect {
            Dialect::RootlessPodman => COPYING.end,
            Dialect::Podman | Dialect::Docker => otherwise,
        }
    }

    /// Waits for work that may take as long as [`Self::busy_with_images`] says.
    pub(crate) async fn persist<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if self.dialect != Dialect::RootlessPodman {
            return work.await;
        }
        let lives = || async { self.docker().ping().await.is_ok() };
        let slow = || self.told.call_once(|| (self.tell)(BUSY));
        match COPYING.wait(work, lives, slow).await {
            Ok(done) => done,
            Err(after) => Err(Failure::Trouble(self.engine().silent(what, after.as_secs()))),
        }
    }

    /// What the engine knows of a container.
    pub(crate) async fn inspect(&self, container: &str) -> Result<ContainerInspectResponse, Failure> {
        self.look(
            "look at the container",
            |docker| async move { docker.inspect_container(container, None).await },
        )
        .await
    }

    /// Asks about containers. Around the end of one, Podman answers with a state of its own, or fails to look at a process
    /// that is gone; it is asked again.
    pub(crate) async fn look<T, F>(&self, what: &str, ask: impl Fn(Docker) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let deadline = tokio::time::Instant::now() + self.quick();
        loop {
            match self.call(what, self.quick(), &ask).await {
                Err(Failure::Unclear(_)) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }

    async fn within<T>(
        &self,
        what: &str,
        patience: Duration,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Failure> {
        let known = self.is_silent.load(Ordering::Relaxed);
        let allowed = if known { patience.min(SILENT) } else { patience };
        let answered = tokio::time::timeout(allowed, asked).await;
        // The library has a deadline of its own, which may be as long as ours.
        let is_silent = matches!(answered, Err(_) | Ok(Err(Error::RequestTimeoutError)));
        self.is_silent.store(is_silent, Ordering::Relaxed);
        answered.map_err(|_| Failure::Trouble(self.engine().silent(what, patience.as_secs())))
    }

    /// Agrees with the engine on the newest version both know.
    async fn negotiate(&self, what: &str) -> Result<(), Failure> {
        let newest = connect(self.method, &self.endpoint, API_DEFAULT_VERSION).map_err(Failure::Trouble)?;
        let agreed = self.within(what, self.quick(), newest.negotiate_version()).await?;
        let agreed = agreed.map_err(|error| self.engine().failure(what, &error))?;
        *self.docker.lock().unwrap_or_else(PoisonError::into_inner) = agreed;
        Ok(())
    }
}

fn is_too_old(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 400, message }
        if message.contains("client version") && message.contains("too old"))
}

fn connect(method: Method, endpoint: &Endpoint, version: &ClientVersion) -> Result<Docker, BackendError> {
    let seconds = LONGEST.as_secs();
    let made = match endpoint {
        Endpoint::Socket(path) => Docker::connect_with_unix(&path.to_string_lossy(), seconds, version),
        Endpoint::Tcp(address) => Docker::connect_with_http(&format!("tcp://{address}"), seconds, version),
    };
    made.map_err(|error| Engine { method, endpoint }.failure("reach the engine", &error).into())
}

/// The first place where there is something, else the first there could be.
pub(crate) fn find(method: Method, config: &EndpointConfig) -> Result<Endpoint, BackendError> {
    let places = candidates(method, config, rustix::process::geteuid().is_root())?;
    let exists = |endpoint: &&Endpoint| match endpoint {
        Endpoint::Socket(path) => path.exists(),
        Endpoint::Tcp(_) => true,
    };
    let chosen = places.iter().find(exists).or(places.first()).cloned();
    chosen.ok_or_else(|| BackendError::Unavailable {
        method,
        reason: "XDG_RUNTIME_DIR is not set, so nobody knows where its service listens".into(),
        fix: "log in with a session of your own, or set CONTAINER_HOST".into(),
    })
}

/// Whoever owns the socket runs the service; an engine behind a network is asked.
async fn is_rootless(method: Method, endpoint: &Endpoint) -> Result<bool, BackendError> {
    use std::os::unix::fs::MetadataExt;
    const WHAT: &str = "tell whether it is an ordinary user's";
    let engine = Engine { method, endpoint };
    match endpoint {
        Endpoint::Socket(path) => Ok(std::fs::metadata(path).is_ok_and(|meta| meta.uid() != 0)),
        Endpoint::Tcp(address) => match tokio::time::timeout(QUICK, rootless::ask(address)).await {
            Ok(told) => told.map_err(|err| engine.failure(WHAT, &Error::IOError { err }).into()),
            Err(_) => Err(engine.silent(WHAT, QUICK.as_secs())),
        },
    }
}
