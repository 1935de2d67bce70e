//! What is passed on and when it detaches, whole and cut into every kind of pieces.

use super::*;
use proptest::prelude::*;

/// The pieces, then nothing more: what was passed on, and the verdict.
fn typed(pieces: &[&[u8]]) -> (Vec<u8>, Verdict) {
    let (mut matcher, mut pass) = (Matcher::new(DetachKeys::default()), Vec::new());
    for piece in pieces {
        if matcher.feed(piece, &mut pass) == Verdict::Detach {
            return (pass, Verdict::Detach);
        }
    }
    matcher.settle(&mut pass);
    (pass, Verdict::Stay)
}

fn stays(input: &[u8], passed: &[u8]) {
    assert_eq!(typed(&[input]), (passed.to_vec(), Verdict::Stay), "{}", input.escape_ascii());
}

fn detaches(input: &[u8], passed: &[u8]) {
    assert_eq!(typed(&[input]), (passed.to_vec(), Verdict::Detach), "{}", input.escape_ascii());
}

#[test]
fn the_two_keys_detach_and_nothing_of_them_is_passed_on() {
    detaches(b"\x1cd", b"");
    detaches(b"ls\r\x1cdrm", b"ls\r");
}

#[test]
fn the_first_key_is_typed_by_typing_it_twice_or_before_any_other() {
    stays(b"\x1c\x1c", b"\x1c");
    stays(b"\x1c\x1cd", b"\x1cd");
    detaches(b"\x1c\x1c\x1cd", b"\x1c");
    stays(b"\x1cx", b"\x1cx");
    stays(b"\x1c\x0e", b"\x1c\x0e");
    stays(b"\x1cxd", b"\x1cxd");
    stays(b"\x1c\xc3\xa4d", b"\x1c\xc3\xa4d");
    stays(b"\x1c\x1b[A", b"\x1c\x1b[A");
    stays(b"\x1c\x1bd", b"\x1c\x1bd");
    // Held back: nothing has followed.
    stays(b"\x1c", b"");
}

#[test]
fn the_keys_are_recognised_in_every_form_that_programs_ask_for() {
    for first in [
        &b"\x1c"[..],
        b"\x1b[92;5u",
        b"\x1b[92::92;5u",
        b"\x1b[92;5:1u",
        b"\x1b[92;69u",
        b"\x1b[92;133u",
        b"\x1b[27;5;92~",
        b"\x1b[223:92;6u",
        // Its release, and that of the control key, come before the second key.
        b"\x1b[92;5:1u\x1b[92;5:3u\x1b[57442;1:3u",
    ] {
        let released: Vec<u8> = first
            .windows(2)
            .position(|pair| pair == b"u\x1b")
            .map_or(Vec::new(), |at| first[at + 1..].to_vec());
        for second in [&b"d"[..], b"\x1b[100u", b"\x1b[100;1u", b"\x1b[100;1:1u", b"\x1b[100;65u"] {
            detaches(&[first, second].concat(), &released);
        }
        let twice = [first, first].concat();
        assert_eq!(typed(&[&twice]).1, Verdict::Stay);
    }
    for other in [&b"\x1b[92;7u"[..], b"\x1b[92;6u", b"\x1b[92;1u", b"\x1b[27;7;92~", b"\x1b[92;5:3u"] {
        stays(&[other, b"d"].concat(), &[other, b"d"].concat());
    }
    stays(b"\x1b[92;5u\x1b[100;3u", b"\x1b[92;5u\x1b[100;3u");
}

#[test]
fn what_the_terminal_says_by_itself_does_not_come_between() {
    for report in [&b"\x1b[<35;10;20M"[..], b"\x1b[M d\x1c", b"\x1b[I", b"\x1b[?62;22c", b"\x1b[>0;276;0c"] {
        detaches(&[b"\x1c", report, b"d"].concat(), report);
        stays(&[report, b"d"].concat(), &[report, b"d"].concat());
    }
}

#[test]
fn a_paste_never_detaches() {
    let paste = b"\x1b[200~text \x1cd \x1b[92;5ud \x1b[201\x1b[201~";
    stays(paste, paste);
    detaches(&[&paste[..], b"\x1cd"].concat(), paste);
    stays(b"\x1c\x1b[200~d\x1b[201~", b"\x1c\x1b[200~d\x1b[201~");
}

#[test]
fn escape_by_itself_is_passed_on_once_nothing_follows() {
    let (mut matcher, mut pass) = (Matcher::new(DetachKeys::default()), Vec::new());
    assert_eq!(
        (matcher.feed(b"\x1b", &mut pass), pass.len(), matcher.is_unsettled()),
        (Verdict::Stay, 0, true)
    );
    matcher.settle(&mut pass);
    assert_eq!((pass.as_slice(), matcher.is_unsettled()), (&b"\x1b"[..], false));
    matcher.feed(b"[A", &mut pass);
    assert_eq!(pass, b"\x1b[A");
}

#[test]
fn a_sequence_without_end_is_not_held_back_without_end() {
    let endless = [b"\x1b[".to_vec(), b"1;".repeat(1000)].concat();
    let (mut matcher, mut pass) = (Matcher::new(DetachKeys::default()), Vec::new());
    matcher.feed(&endless, &mut pass);
    assert_eq!(pass, endless);
}

#[test]
fn other_keys_can_be_chosen() {
    let keys = "ctrl-p,ctrl-q".parse().unwrap();
    for (input, verdict) in [
        (&b"\x10\x11"[..], Verdict::Detach),
        (b"\x1b[112;5u\x1b[113;5u", Verdict::Detach),
        (b"\x1cd", Verdict::Stay),
    ] {
        assert_eq!(Matcher::new(keys).feed(input, &mut Vec::new()), verdict);
    }
}

/// Input from the pieces that matter, in any order.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"\x1c",
        b"d",
        b"a",
        b"\x1b",
        b"[",
        b"\x1b[92;5u",
        b"\x1b[100u",
        b"\x1b[92;5:3u",
        b"\x1b[200~",
        b"\x1b[201~",
        b"\x1b[<0;1;1M",
        b"\x1b[M \x1c!",
        b"\x1b[A",
        b"\xe2\x82\xac",
        b"1;5",
        b"u",
        b"~",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn how_the_input_is_cut_does_not_matter(input in input(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &input[pair[0]..pair[1]]).collect();
        prop_assert_eq!(typed(&pieces), typed(&[&input]));
    }

    #[test]
    fn without_the_first_key_everything_is_passed_on_as_it_came(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let input: Vec<u8> = input.into_iter().map(|byte| if byte == 0x1c || byte == b'9' { b' ' } else { byte }).collect();
        prop_assert_eq!(typed(&[&input]), (input.clone(), Verdict::Stay));
    }
}
