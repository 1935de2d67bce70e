//! `create`: a record and an intent first, then the backend's own resources.

use crate::description;
use crate::engine::{Engine, new_id, now};
use crate::error::EngineError;
use crate::observe::{about, observe, verb_span};
use palisade_core::{Backend, Foundation, Method, Policy, SandboxDir, SandboxName, SandboxSpec, spans};
use palisade_host::fault::Step;
use palisade_host::process;
use palisade_store::{NewSandbox, Row};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct CreateRequest {
    pub name: SandboxName,
    pub method: Method,
    pub policy: Policy,
    pub foundation: Foundation,
}

impl Engine {
    pub async fn create(&self, request: CreateRequest) -> Result<Row, EngineError> {
        observe(verb_span!(spans::CREATE), self.create_observed(request)).await
    }

    async fn create_observed(&self, request: CreateRequest) -> Result<Row, EngineError> {
        let backend = self.backend(request.method)?;
        let id = new_id().map_err(EngineError::io("make an id"))?;
        let store = self.store()?;
        let _lease = self.lease(None);
        let mut spec = SandboxSpec {
            dir: Some(SandboxDir::of(&self.config.state, &id)),
            id,
            name: Some(request.name),
            method: request.method,
            policy: request.policy,
            foundation: request.foundation,
            paths: Vec::new(),
            identity: self.identity(),
            owner: self.owner()?.to_owned(),
            git: Vec::new(),
        };
        about(&spec);
        backend.admit(&spec).await?;
        spec.paths = self.record_paths(&spec.policy, &spec.foundation)?;
        self.note_missing_handles(&spec.paths);
        let new = NewSandbox { spec, uids: self.uids(backend.as_ref()).await?, at: now() };
        // Nobody can know the id yet, so nobody else has its turn.
        let _turn = self.turn_within(&new.spec.id, Duration::ZERO).await?;
        let inserted = store.insert(&new, &process::this_process())?;
        if let Err(error) = self.make(&inserted.spec, new.at, &backend).await {
            // What cannot be taken back now keeps its record and its intent, and is left to gc.
            if let Err(failure) = self.finish_removal(&inserted.spec).await {
                tracing::warn!(%failure, "a failed create was not undone");
            }
            return Err(error);
        }
        store.end_intent(inserted.intent)?;
        store.fill_reserve();
        tracing::info!("created");
        self.row(inserted.spec.id.as_str())
    }

    async fn make(
        &self,
        spec: &SandboxSpec,
        created_at: i64,
        backend: &Arc<dyn Backend>,
    ) -> Result<(), EngineError> {
        EngineError::step(Step::CreateRecorded)?;
        backend.create(spec).await?;
        description::write(spec, created_at)?;
        EngineError::step(Step::CreateDescribed)?;
        EngineError::step(Step::CreateMade)
    }

    pub(crate) fn row(&self, text: &str) -> Result<Row, EngineError> {
        Ok(self.store()?.find(text)?)
    }
}
