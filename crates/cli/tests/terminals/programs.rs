//! vim, less and top over `attach`, on a screen that is looked at as a person would.

use palisade_testing::{Instance, Tmux, eventually, palisade_binary, requires};

/// A shell in a session, on the screen of a tmux window of 100 by 30; when it is left, the screen says `left`.
fn attached<'a>(instance: &'a Instance) -> Tmux<'a> {
    instance.started("box");
    let tmux = Tmux::new(instance);
    let line = again();
    tmux.run(&["new-session", "-d", "-x", "100", "-y", "30", &format!("{line}; exec sh")]).ok();
    tmux.wait_for("$");
    tmux
}

fn again() -> String {
    format!("{} attach box -e PS1='$ ' -- bash --norc; echo left with $?", palisade_binary().display())
}

#[track_caller]
fn shows(tmux: &Tmux<'_>, text: &str) {
    eventually(&format!("{text:?} on the screen"), || tmux.screen().contains(text));
}

fn detach(tmux: &Tmux<'_>) {
    tmux.press("C-\\");
    tmux.press("d");
    shows(tmux, "left with 0");
}

#[test]
fn vim_edits_a_file_and_survives_a_detach() {
    requires!(bwrap, tmux, vim);
    let instance = Instance::with_method("bwrap");
    let tmux = attached(&instance);
    tmux.type_line("vim -u NONE --noplugin notes");
    shows(&tmux, "notes");
    tmux.run(&["send-keys", "-l", "ihello from vim"]).ok();
    shows(&tmux, "hello from vim");
    tmux.press("Escape");
    detach(&tmux);
    // Outside, the screen is the one from before, and lines are edited as always.
    assert!(!tmux.screen().contains("hello from vim"), "{}", tmux.screen());
    tmux.type_line("stty -a | grep -o ' echo ' ; clear");
    tmux.type_line(&again());
    shows(&tmux, "hello from vim");
    // Another size is drawn anew.
    tmux.run(&["resize-window", "-x", "70", "-y", "20"]).ok();
    eventually("the status line is where the new last line is", || {
        let screen = tmux.screen();
        screen.lines().count() <= 20 && screen.contains("hello from vim")
    });
    tmux.press("Escape");
    tmux.type_line(":wq");
    tmux.wait_for("$");
    assert_eq!(instance.shell("box", "cat notes").ok().stdout, "hello from vim\n");
}

#[test]
fn less_pages_searches_and_is_drawn_again() {
    requires!(bwrap, tmux, less);
    let instance = Instance::with_method("bwrap");
    let tmux = attached(&instance);
    instance.shell("box", "seq 1 500 > numbers").ok();
    tmux.type_line("less numbers");
    tmux.wait_for("29");
    tmux.press("Space");
    tmux.wait_for("58");
    tmux.run(&["send-keys", "-l", "/^333$"]).ok();
    tmux.press("Enter");
    tmux.wait_for("333");
    detach(&tmux);
    tmux.type_line("clear");
    tmux.type_line(&again());
    tmux.wait_for("333");
    tmux.press("q");
    eventually("the prompt is back", || tmux.screen().lines().any(|line| line == "$"));
}

#[test]
fn top_draws_itself_and_ends() {
    requires!(bwrap, tmux, top);
    let instance = Instance::with_method("bwrap");
    let tmux = attached(&instance);
    tmux.type_line("top -d 0.5");
    shows(&tmux, "%Cpu");
    shows(&tmux, "bash");
    detach(&tmux);
    tmux.type_line("clear");
    tmux.type_line(&again());
    shows(&tmux, "%Cpu");
    tmux.press("q");
    eventually("the prompt is back", || tmux.screen().lines().any(|line| line == "$"));
    tmux.type_line("exit 6");
    shows(&tmux, "left with 6");
}
