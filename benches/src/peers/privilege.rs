//! Root's hands, where a peer needs them: our own when we are root, else sudo's without a password.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use crate::scene::Scene;
use std::ffi::OsStr;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub(super) struct Privilege {
    sudo: Option<PathBuf>,
}

impl Privilege {
    pub(super) fn find(scene: &Scene, what: &'static str) -> Result<Self> {
        if rustix::process::geteuid().is_root() {
            return Ok(Self { sudo: None });
        }
        let sudo = scene.find("sudo").map_err(|_| Failure::NeedsRoot { what })?;
        scene.program(&sudo).args(["-n", "true"]).check().map_err(|_| Failure::NeedsRoot { what })?;
        Ok(Self { sudo: Some(sudo) })
    }

    pub(super) fn program(&self, scene: &Scene, path: PathBuf) -> Program {
        match &self.sudo {
            None => scene.program(path),
            Some(sudo) => scene.program(sudo).args([OsStr::new("-n"), path.as_os_str()]),
        }
    }
}
