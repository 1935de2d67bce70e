//! `run`: a sandbox for one command, kept by this very process. No record, no keeper process, nothing left behind;
//! what a `kill -9` leaves is found by name, see `gc`.

use crate::bound_commits::{bring_back, with_hints};
use crate::bound_paths::Writing;
use crate::copied_directory::{CopyOutcome, CopySurvey, RunCopy};
use crate::engine::{Engine, new_id};
use crate::error::EngineError;
use crate::lease::Lease;
use crate::observe::{about, observe, verb_span};
use crate::self_running::BoundDirectories;
use crate::way_out;
use palisade_core::{
    Access, Backend, BoundPath, CopiedDirectory, Foundation, HostIdentity, Layout, Method, Policy, SandboxId,
    SandboxSpec, Sharing, Workspace, spans,
};
use palisade_egress::Gate;
use palisade_host::fault::Step;
use palisade_host::fence;
use palisade_protocol::client::{
    Client, ClientError, SignsOfLife, StreamEvent, StreamReceiver, StreamSender,
};
use palisade_protocol::{ExecRequest, Open};
use std::sync::Arc;
use std::time::Duration;

const HANDSHAKE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub struct OneOffRequest {
    pub method: Method,
    pub policy: Policy,
    pub foundation: Foundation,
    /// What the paths of the policy lead to, where that was recorded before; empty for paths that are given now.
    pub paths: Vec<BoundPath>,
    /// Whom it runs as on the host; without one, a uid of this process's own when root starts it.
    pub identity: Option<HostIdentity>,
    /// The directory that the sandbox gets a copy of, in the place of the one that the policy binds as its workspace.
    pub copied: Option<CopySurvey>,
}

/// What a run has left when it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OneOffEnd {
    /// What the user should know.
    pub warnings: Vec<String>,
    /// The copy of its directory, if there are changes in it.
    pub copy: Option<CopyOutcome>,
}

/// A running one-off sandbox. It must be ended with [`OneOff::end`]; should its process die instead, everything
/// inside dies with it.
pub struct OneOff {
    pub client: Client,
    pub layout: Layout,
    spec: SandboxSpec,
    backend: Arc<dyn Backend>,
    bound: BoundDirectories,
    lease: Lease,
    gate: Option<Arc<Gate>>,
    writing: Option<Writing>,
    copy: Option<RunCopy>,
}

impl std::fmt::Debug for OneOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneOff").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the sandbox and, with it, what `first` asks for: the two travel together.
    pub async fn one_off(
        &self,
        request: OneOffRequest,
        first: impl FnOnce(&Layout) -> Open,
    ) -> Result<(OneOff, (StreamSender, StreamReceiver)), EngineError> {
        observe(verb_span!(spans::START), self.bring_up_here(request, first)).await
    }

    async fn bring_up_here(
        &self,
        request: OneOffRequest,
        first: impl FnOnce(&Layout) -> Open,
    ) -> Result<(OneOff, (StreamSender, StreamReceiver)), EngineError> {
        let OneOffRequest { method, mut policy, foundation, paths, identity, copied } = request;
        let backend = self.backend(method)?;
        let id = new_id().map_err(EngineError::io("make an id"))?;
        let identity = match identity {
            Some(identity) => identity,
            None => self.one_off_identity(backend.as_ref()).await,
        };
        let lease = self.lease(None);
        if policy.writes_host() {
            self.bring_left_behind(method, &policy).await;
        }
        let mut copy = match &copied {
            Some(survey) => Some(self.begin_copy(&id, method, identity, survey)?),
            None => None,
        };
        let own_copy = copy.as_ref().map(RunCopy::copied);
        if let Some(CopiedDirectory { tree, .. }) = &own_copy {
            policy.workspace = Workspace::Bound { host: tree.clone(), access: Access::ReadWrite };
        }
        let paths = match paths.is_empty() {
            true => self.record_paths(&policy, &foundation)?,
            false => paths,
        };
        let mut spec = SandboxSpec {
            id,
            name: None,
            method,
            policy,
            foundation,
            paths,
            dir: None,
            identity,
            owner: self.owner()?.to_owned(),
            git: Vec::new(),
        };
        about(&spec);
        tracing::debug!(sandbox.select = %method, sandbox.id = %spec.id, "one-off run");
        let gate = way_out::gate(backend.as_ref(), &spec)?;
        // A copy is no directory that another path could lead to.
        let shared = match &own_copy {
            Some(_) => Policy { workspace: Workspace::Scratch, ..spec.policy.clone() },
            None => spec.policy.clone(),
        };
        let writing = self.begin_writing(&spec.id, &shared, &spec.paths)?;
        // Together: both take long. Nothing runs inside before both are done.
        let baselines = self.take_baselines(&spec, &shared);
        let (git, bound) =
            tokio::join!(self.private_git(backend.as_ref(), &spec, own_copy.as_ref()), baselines);
        spec.git = git.inspect_err(|_| self.forget_baselines(&spec.id))?;
        bound.name_repositories(&mut spec.git);
        if let (Some(copy), Some(survey)) = (&mut copy, &copied) {
            let git = spec.git.iter().find(|git| git.sharing == Sharing::OwnCopy);
            let left_out = self.fill_copy(copy, survey, identity, git).await?;
            left_out.iter().for_each(|text| (self.config.tell)(text));
        }
        let started = match backend.start(&spec).await {
            Ok(()) => {
                // Only now: what it is made from may have a say in it.
                let layout = backend.layout(&spec);
                let first = first(&layout);
                let greeted =
                    match !spec.git.is_empty() && self.config.bound_repositories.needs_check(&spec.id) {
                        false => greet(&backend, &spec, first, gate.as_ref()).await,
                        true => self.greet_checked(&backend, &spec, (first, &layout), gate.as_ref()).await,
                    };
                greeted.map(|greeted| (greeted, layout))
            }
            Err(error) => Err(error.into()),
        };
        match started {
            Ok(((client, streams), layout)) => {
                client.watch(None, SignsOfLife::USUAL);
                if let Some(copy) = &mut copy {
                    copy.keep();
                }
                Ok((OneOff { client, layout, spec, backend, bound, lease, gate, writing, copy }, streams))
            }
            Err(error) => {
                if let Err(failure) = backend.stop(&spec).await {
                    tracing::warn!(%failure, "a run that did not come up was not put away");
                    lease.leave();
                }
                self.forget_baselines(&spec.id);
                if let Err(failure) = self.config.bound_repositories.put_away(&spec.id, None).await {
                    tracing::warn!(%failure, "git data of a run that did not come up was not put away");
                }
                Err(error)
            }
        }
    }
}

impl Engine {
    /// Looks for what repositories need inside before the first request travels.
    async fn greet_checked(
        &self,
        backend: &Arc<dyn Backend>,
        spec: &SandboxSpec,
        (first, layout): (Open, &Layout),
        gate: Option<&Arc<Gate>>,
    ) -> Result<Greeted, EngineError> {
        let (client, _streams) = greet(backend, spec, self_check(layout), gate).await?;
        let checked = self.config.bound_repositories.check_inside(spec, &client, layout).await;
        checked.map_err(EngineError::Work)?;
        let streams = client.open(first).await?;
        Ok((client, streams))
    }
}

/// A request that has no effect, for a sandbox that is asked something else first.
pub(crate) fn self_check(layout: &Layout) -> Open {
    Open::Exec(ExecRequest {
        argv: vec![layout.guest.clone().into_bytes(), b"selfcheck".to_vec()],
        ..ExecRequest::default()
    })
}

pub(crate) type Greeted = (Client, (StreamSender, StreamReceiver));

pub(crate) async fn greet(
    backend: &Arc<dyn Backend>,
    spec: &SandboxSpec,
    first: Open,
    gate: Option<&Arc<Gate>>,
) -> Result<Greeted, EngineError> {
    EngineError::step(Step::RunStarted)?;
    let stream = backend.connect(spec).await?;
    let greeting = async {
        let Some(gate) = gate else {
            let (client, _, streams) = Client::connect_and_open(stream, first).await?;
            return Ok(Ok((client, streams)));
        };
        way_out::make_room();
        let (request, door) = (Open::Egress(gate.request()), Arc::clone(gate).door());
        let (client, _, (_, mut answer)) = Client::connect_with_door(stream, request, door).await?;
        // The command must not find the way still closed.
        if let Some(StreamEvent::Refused(refusal)) = answer.next().await? {
            return Ok(Err(refusal));
        }
        let streams = client.open(first).await?;
        Ok(Ok((client, streams)))
    };
    match tokio::time::timeout(HANDSHAKE, greeting).await {
        Ok(Ok(Ok(greeted))) => EngineError::step(Step::RunGreeted).map(|()| greeted),
        Ok(Ok(Err(refusal))) => Err(way_out::refused(&refusal)),
        Ok(Err(error @ ClientError::TooLarge { .. })) => Err(error.into()),
        Ok(Err(_)) | Err(_) => Err(backend.explain(spec).await.into()),
    }
}

impl OneOff {
    pub fn id(&self) -> &SandboxId {
        &self.spec.id
    }

    /// Which limits hold, and how.
    pub async fn limits(&self) -> Result<Vec<palisade_core::Enforcement>, EngineError> {
        Ok(self.backend.inspect(&self.spec).await?.limits)
    }

    /// How many processes inside the kernel has killed because of the memory limit.
    pub async fn memory_kills(&self) -> u64 {
        self.backend.memory_kills(&self.spec, std::process::id()).await
    }

    /// Ends everything inside and gives back what the run held; what the user should know of what it left.
    pub async fn end(self, engine: &Engine) -> Result<OneOffEnd, EngineError> {
        let Self { client, layout, spec, backend, bound, lease, gate, writing, copy } = self;
        let repositories = engine.config.bound_repositories.as_ref();
        let stop = async {
            about(&spec);
            let passed = EngineError::step(Step::RunEnding);
            let has_git = !spec.git.is_empty();
            let mut warnings = match has_git {
                true => bring_back(repositories, &spec, &client, &layout).await,
                false => Vec::new(),
            };
            // The guest leaves when its stream is closed.
            drop(client);
            if let Err(error) = backend.stop(&spec).await {
                lease.leave();
                return Err(error.into());
            }
            drop(writing);
            if has_git {
                let settled = match repositories.settle(&spec.id).await {
                    Ok(lines) => {
                        warnings.extend(lines);
                        repositories.put_away(&spec.id, None).await
                    }
                    Err(error) => Err(error),
                };
                warnings.extend(settled.err().map(|error| with_hints(error.as_ref())));
            }
            warnings.extend(engine.report_changes(&spec, &bound));
            let mut outcome = None;
            match copy.map(|copy| engine.finish_copy(copy)) {
                None => warnings.extend(fence::still_closed(&spec.policy)),
                Some(Ok(changed)) => outcome = changed,
                Some(Err(error)) => warnings.push(format!("the copy stays and was not compared: {error}")),
            }
            drop(lease);
            warnings.extend(gate.iter().flat_map(|gate| way_out::told(gate.ledger())));
            passed.map(|()| OneOffEnd { warnings, copy: outcome })
        };
        observe(verb_span!(spans::STOP), stop).await
    }
}
