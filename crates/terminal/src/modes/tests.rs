//! What programs really send, and what undoes it.

use super::*;
use proptest::prelude::*;

fn after(output: &[u8]) -> Modes {
    let mut modes = Modes::default();
    modes.see(output);
    modes
}

#[track_caller]
fn undone(output: &[u8], undo: &str) {
    assert_eq!(after(output).undo().escape_ascii().to_string(), undo.as_bytes().escape_ascii().to_string());
}

#[test]
fn text_and_what_was_put_back_need_nothing() {
    undone("plain, \u{1b}[31mred\u{1b}[m and Übergröße\r\n".as_bytes(), "");
    undone(b"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", "");
    undone(b"\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "");
    undone(b"\x1b[2J\x1b[10;20H\x1b[6n\x1b[c", "");
}

#[test]
fn what_a_program_leaves_on_is_switched_off() {
    // vim, killed.
    undone(
        b"\x1b[?1049h\x1b[22;0;0t\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[1;24r\x1b[?12h\x1b[?25l\x1b[27m",
        "\x1b[?2004l\x1b[?1004l\x1b[?25h\x1b[?1l\x1b[?1049l\x1b7\x1b[r\x1b8\x1b>\x1b[0m\x1b[>4;0m",
    );
    // An agent with the keyboard protocol and the mouse.
    undone(
        b"\x1b[?2004h\x1b[>7u\x1b[?1000;1002;1006h\x1b[?25l\x1b[1;31mx",
        "\x1b[?2004l\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[?25h\x1b[<1u\x1b[0m",
    );
    // Each screen has flags of its own.
    undone(b"\x1b[>1u\x1b[?1049h\x1b[>5u\x1b[>3u", "\x1b[<2u\x1b[?1049l\x1b[<1u");
    undone(b"\x1b[=5;1u\x1b(0\x0e\x1b[4h\x1b[5 q", "\x1b[=0;1u\x1b[4l\x1b(B\x0f\x1b[0 q");
}

#[test]
fn a_sequence_that_was_cut_is_cancelled_first() {
    for cut in [&b"\x1b"[..], b"\x1b[?10", b"\x1b]52;c;AAAA", b"\x1bPq", b"\xe2\x82", b"\x1b("] {
        undone(&[b"\x1b[?25l", cut].concat(), "\x18\x1b[?25h");
    }
}

#[test]
fn a_reset_is_a_reset() {
    undone(b"\x1b[?1049h\x1b[?2004h\x1b[>1u\x1bc", "");
    undone(b"\x1b[?25l\x1b[?1h\x1b=\x1b[4h\x1b[2;5r\x1b[?2004h\x1b[!p", "\x1b[?2004l");
}

#[test]
fn nonsense_and_endless_sequences_change_nothing() {
    undone(&[b"\x1b[?".to_vec(), b"25;".repeat(30), b"l".to_vec()].concat(), "");
    undone(b"\x1b[?99999999999l\x1b[?;;l\x1b[<u\x1b[<99999u\x1b[?l\x1b[h", "");
    let deep = after(&b"\x1b[>1u".repeat(100));
    assert_eq!(deep.undo(), b"\x1b[<8u\x1b[=0;1u");
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    let numbers =
        prop::sample::select(vec![1, 4, 6, 7, 25, 47, 66, 1000, 1006, 1047, 1049, 2004, 2026, 31337]);
    let sequence = prop_oneof![
        (numbers, any::<bool>())
            .prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into_bytes()),
        (0u8..32).prop_map(|flags| format!("\x1b[>{flags}u").into_bytes()),
        (0u8..4).prop_map(|count| format!("\x1b[<{count}u").into_bytes()),
        (0u8..32, 1u8..4).prop_map(|(flags, how)| format!("\x1b[={flags};{how}u").into_bytes()),
        prop::sample::select(vec![
            "\x1b=",
            "\x1b>",
            "\x1b(0",
            "\x1b(B",
            "\x0e",
            "\x0f",
            "\x1b[4h",
            "\x1b[4l",
            "\x1b[2;9r",
            "\x1b[r",
            "\x1b[1m",
            "\x1b[0m",
            "\x1b[3 q",
            "\x1b[>4;2m",
            "\x1bc",
            "\x1b[!p",
            "\u{20ac}",
            "\x1b]0;x\x07"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(sequence, 0..30).prop_map(|sequences| sequences.concat())
}

proptest! {
    #[test]
    fn undoing_leaves_a_terminal_as_it_was(output in output()) {
        let mut modes = after(&output);
        modes.see(&modes.undo());
        prop_assert_eq!(modes.undo(), Vec::<u8>::new());
        prop_assert!(modes.between_characters());
    }

    #[test]
    fn repeating_brings_a_fresh_terminal_to_the_same_modes(output in output()) {
        let modes = after(&output);
        let again = after(&modes.redo());
        // The other screen's flags are only reached on the other screen, and margins and colours are not repeated.
        let mut expected = Modes { parser: Parser::default(), margins: false, styled: false, ..modes };
        if !modes.on_other_screen() {
            expected.keyboards[1] = Keyboard::default();
        }
        prop_assert_eq!(again.redo(), expected.redo());
        prop_assert_eq!(again.undo(), expected.undo());
    }

    #[test]
    fn how_the_output_is_cut_does_not_matter(output in output(), at in any::<prop::sample::Index>()) {
        let at = at.index(output.len() + 1);
        let mut modes = after(&output[..at]);
        modes.see(&output[at..]);
        prop_assert_eq!(modes, after(&output));
    }
}
