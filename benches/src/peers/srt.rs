//! Anthropic's sandbox-runtime, with a settings file of its own that asks for the least: no network, no write.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use crate::scene::Scene;

const SETTINGS: &str = r#"{
  "network": { "allowedDomains": [], "deniedDomains": [] },
  "filesystem": { "denyRead": [], "allowRead": [], "allowWrite": [], "denyWrite": [] }
}
"#;

pub(crate) fn program(scene: &Scene, command: &str) -> Result<Program> {
    let srt = scene.built("bench/node/node_modules/.bin/srt")?;
    let settings = scene.path("srt.json");
    std::fs::write(&settings, SETTINGS).map_err(Failure::io("write the settings of srt"))?;
    Ok(scene.program(srt).args(["--settings".as_ref(), settings.as_os_str(), command.as_ref()]))
}
