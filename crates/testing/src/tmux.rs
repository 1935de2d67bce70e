//! A tmux server of the test's own: a terminal whose screen can be looked at as a person would.

use crate::{Instance, Outcome, eventually};
use std::process::Command;

#[derive(Debug)]
pub struct Tmux<'a> {
    instance: &'a Instance,
}

impl<'a> Tmux<'a> {
    /// With the surroundings of the instance; its socket lies in the instance's directory.
    pub fn new(instance: &'a Instance) -> Self {
        Self { instance }
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        let surroundings = self.instance.command(["ls"]);
        let mut tmux = Command::new("tmux");
        tmux.env_clear()
            .env("TMUX_TMPDIR", self.instance.work())
            .env("SHELL", "/bin/sh")
            .args(["-f", "/dev/null"])
            .args(arguments);
        tmux.envs(surroundings.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Instance::finish(tmux.current_dir(self.instance.work()))
    }

    /// Text as it is, then Enter.
    pub fn type_line(&self, line: &str) {
        self.run(&["send-keys", "-l", line]).ok();
        self.press("Enter");
    }

    /// A key by tmux's name for it.
    pub fn press(&self, key: &str) {
        self.run(&["send-keys", key]).ok();
    }

    /// What the screen shows now.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"]).stdout
    }

    /// Waits for a line that is exactly this.
    #[track_caller]
    pub fn wait_for(&self, line: &str) {
        eventually(line, || self.screen().lines().any(|shown| shown == line));
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
