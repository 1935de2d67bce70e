//! A panic in the middle of it all, on a terminal of its own.

use super::*;
use palisade_testing::Pty;

/// Set for the process that is to panic.
const PANIC: &str = "PALISADE_TEST_PANIC";

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    if std::env::var_os(PANIC).is_some() {
        restore_on_panic();
        let _raw = RawMode::enter().unwrap();
        follow(b"\x1b[?1049h\x1b[?25l");
        panic!("on purpose");
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "terminal::tests::a_panic_leaves_the_terminal_as_it_was", "--nocapture"]);
    let mut terminal = Pty::start(command.env(PANIC, "1"), 24, 80);
    // First the screen, then the words, or they would be lost with the other screen.
    terminal.wait_for("\x1b[?25h\x1b[?1049l");
    terminal.wait_for("on purpose");
    assert_eq!(terminal.wait(), i32::from(palisade_core::ExitCode::Internal as u8));
    assert!(terminal.is_as_before());
}
