//! `palisade attach`: from the command to what the session has on its screen.

use crate::comparison::{Result, Sides};
use crate::pty::OnTerminal;
use crate::scene::{Sandbox, Scene};
use std::time::Instant;

/// What the session shows; only it has this text.
const SCREEN: &str = "the first screen";
/// Ctrl-\ and d.
const DETACH: &[u8] = b"\x1cd";

pub(super) fn first_screen(scene: &Scene) -> Result<Sides> {
    let sandbox = Sandbox::start(scene, "bench")?;
    let script = format!("printf '{SCREEN}'; exec sleep infinity");
    let palisade = scene.palisade()?;
    palisade
        .clone()
        .args(["exec", "bench", "--session", "main", "--detach", "--", "sh", "-c", &script])
        .check()?;
    let attach = palisade.args(["attach", "bench"]);
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            let begin = Instant::now();
            let mut terminal = OnTerminal::start(&attach)?;
            terminal.wait_for(SCREEN)?;
            let took = begin.elapsed();
            terminal.end_with(DETACH)?;
            Ok(took.as_secs_f64() * 1000.0)
        }),
        peer: None,
    })
}
