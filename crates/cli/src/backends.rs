//! The methods of this build. Each backend is cheap to make and looks at nothing before it is asked.

use palisade_backend_container::{ContainerBackend, ContainerConfig};
use palisade_backend_process::{BwrapBackend, NoopBackend, ProcessConfig};
use palisade_core::{Backend, BackendError, Method};
use palisade_engine::BackendProvider;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Backends {
    bwrap: Arc<BwrapBackend>,
    noop: Arc<NoopBackend>,
    docker: Arc<ContainerBackend>,
    podman: Arc<ContainerBackend>,
}

impl Backends {
    pub(crate) fn new(process: ProcessConfig, container: ContainerConfig) -> Self {
        Self {
            bwrap: Arc::new(BwrapBackend::new(process.clone())),
            noop: Arc::new(NoopBackend::new(process)),
            docker: Arc::new(ContainerBackend::docker(container.clone())),
            podman: Arc::new(ContainerBackend::podman(container)),
        }
    }
}

impl BackendProvider for Backends {
    fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, BackendError> {
        match method {
            Method::Bwrap => Ok(self.bwrap.clone()),
            Method::Noop => Ok(self.noop.clone()),
            Method::Docker => Ok(self.docker.clone()),
            Method::Podman => Ok(self.podman.clone()),
            Method::Microvm | Method::Kubernetes => Err(BackendError::Unavailable {
                method,
                reason: "not available in this build".into(),
                fix: "choose another method with --method or SANDBOX_METHOD: bwrap isolates on every Linux"
                    .into(),
            }),
        }
    }

    fn all(&self) -> Vec<Arc<dyn Backend>> {
        vec![self.bwrap.clone(), self.noop.clone(), self.docker.clone(), self.podman.clone()]
    }
}
