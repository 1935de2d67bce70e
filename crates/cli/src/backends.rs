//! The methods of this build.

use palisade_backend_process::{BwrapBackend, NoopBackend, ProcessConfig};
use palisade_core::{Backend, BackendError, Method};
use palisade_engine::BackendProvider;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Backends {
    bwrap: Arc<BwrapBackend>,
    noop: Arc<NoopBackend>,
}

impl Backends {
    pub(crate) fn new(config: ProcessConfig) -> Self {
        Self { bwrap: Arc::new(BwrapBackend::new(config.clone())), noop: Arc::new(NoopBackend::new(config)) }
    }
}

impl BackendProvider for Backends {
    fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, BackendError> {
        match method {
            Method::Bwrap => Ok(self.bwrap.clone()),
            Method::Noop => Ok(self.noop.clone()),
            Method::Docker | Method::Podman | Method::Microvm | Method::Kubernetes => {
                Err(BackendError::Unavailable {
                    method,
                    reason: "not available in this build".into(),
                    fix:
                        "choose another method with --method or SANDBOX_METHOD: bwrap isolates on every Linux"
                            .into(),
                })
            }
        }
    }

    fn all(&self) -> Vec<Arc<dyn Backend>> {
        vec![self.bwrap.clone(), self.noop.clone()]
    }
}
