//! `run`: a sandbox for one command, kept by this very process. No record, no keeper process, nothing left behind;
//! what a `kill -9` leaves is found by name, see `gc`.

use crate::engine::{Engine, new_id};
use crate::error::EngineError;
use crate::lease::Lease;
use crate::observe::{about, observe, verb_span};
use crate::way_out;
use palisade_core::{
    Backend, Foundation, HostIdentity, Layout, Method, Policy, SandboxId, SandboxSpec, spans,
};
use palisade_egress::Gate;
use palisade_host::fault::Step;
use palisade_protocol::Open;
use palisade_protocol::client::{Client, ClientError, StreamEvent, StreamReceiver, StreamSender};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const HANDSHAKE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub struct OneOffRequest {
    pub method: Method,
    pub policy: Policy,
    pub foundation: Foundation,
    /// Whom it runs as on the host; without one, a uid of this process's own when root starts it.
    pub identity: Option<HostIdentity>,
}

/// A running one-off sandbox. It must be ended with [`OneOff::end`]; should its process die instead, everything
/// inside dies with it.
pub struct OneOff {
    pub client: Client,
    pub layout: Layout,
    spec: SandboxSpec,
    backend: Arc<dyn Backend>,
    since: SystemTime,
    lease: Lease,
    gate: Option<Arc<Gate>>,
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
        let OneOffRequest { method, policy, foundation, identity } = request;
        let backend = self.backend(method)?;
        let spec = SandboxSpec {
            id: new_id().map_err(EngineError::io("make an id"))?,
            name: None,
            method,
            policy,
            foundation,
            dir: None,
            identity: identity.unwrap_or_else(|| self.identity()),
            owner: self.owner()?.to_owned(),
        };
        about(&spec);
        tracing::debug!(sandbox.select = %method, sandbox.id = %spec.id, "one-off run");
        let lease = self.lease(None);
        let since = SystemTime::now();
        let gate = way_out::gate(backend.as_ref(), &spec)?;
        let started = match backend.start(&spec).await {
            Ok(()) => {
                // Only now: what it is made from may have a say in it.
                let layout = backend.layout(&spec);
                let greeted = greet(&backend, &spec, first(&layout), gate.as_ref()).await;
                greeted.map(|greeted| (greeted, layout))
            }
            Err(error) => Err(error.into()),
        };
        match started {
            Ok(((client, streams), layout)) => {
                Ok((OneOff { client, layout, spec, backend, since, lease, gate }, streams))
            }
            Err(error) => {
                if let Err(failure) = backend.stop(&spec).await {
                    tracing::warn!(%failure, "a run that did not come up was not put away");
                }
                Err(error)
            }
        }
    }
}

type Greeted = (Client, (StreamSender, StreamReceiver));

async fn greet(
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

    /// Ends everything inside and gives back what the run held; what the user should know of what it left.
    pub async fn end(self) -> Result<Vec<String>, EngineError> {
        let Self { client, spec, backend, since, lease, gate, .. } = self;
        let stop = async {
            about(&spec);
            let passed = EngineError::step(Step::RunEnding);
            // The guest leaves when its stream is closed.
            drop(client);
            backend.stop(&spec).await?;
            drop(lease);
            let mut warnings = backend.warnings(&spec, since);
            warnings.extend(gate.iter().flat_map(|gate| way_out::told(gate.ledger())));
            passed.map(|()| warnings)
        };
        observe(verb_span!(spans::STOP), stop).await
    }
}
