//! The few bytes of DNS that a resolver inside needs: one question in, one answer out. Pure.
//!
//! What a resolver inside asks is as hostile as everything else in there, so the parser takes nothing on trust: no
//! compression, no second question, no length beyond the packet.

use std::net::Ipv4Addr;

const HEADER: usize = 12;
/// How long an answer may be kept by whoever asked, in seconds.
const KEEP: u32 = 60;
pub(crate) const A: u16 = 1;
const INTERNET: u16 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    id: [u8; 2],
    /// Whether recursion was desired, to be repeated in the answer.
    recursion: u8,
    /// Without the trailing dot; bytes that are no text are replaced, and such a name is nobody's.
    pub(crate) name: String,
    pub(crate) kind: u16,
    /// The question as it was written, which the answer repeats.
    asked: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Address(Ipv4Addr),
    /// The name exists, and has nothing of the kind.
    Nothing,
    NoSuchName,
    /// Try again later.
    Failure,
}

/// A packet as a question, or the answer to one that cannot be read; `None` for what is no question at all.
pub(crate) fn parse(packet: &[u8]) -> Result<Question, Option<Vec<u8>>> {
    const FORMAT_ERROR: u8 = 1;
    const NOT_IMPLEMENTED: u8 = 4;
    let Some((header, body)) = packet.split_first_chunk::<HEADER>() else { return Err(None) };
    let [id_high, id_low, flags, _, count_high, count_low, ..] = *header;
    let is_answer = flags & 0x80 != 0;
    if is_answer {
        return Err(None);
    }
    let id = [id_high, id_low];
    let recursion = flags & 1;
    let refuse =
        |code: u8| Err(Some(vec![id[0], id[1], 0x80 | recursion, 0x80 | code, 0, 0, 0, 0, 0, 0, 0, 0]));
    if flags & 0x78 != 0 {
        return refuse(NOT_IMPLEMENTED);
    }
    if [count_high, count_low] != [0, 1] {
        return refuse(FORMAT_ERROR);
    }
    let Some((name, length)) = name(body) else { return refuse(FORMAT_ERROR) };
    let Some(&[kind_high, kind_low, class_high, class_low]) = body.get(length..length + 4) else {
        return refuse(FORMAT_ERROR);
    };
    if u16::from_be_bytes([class_high, class_low]) != INTERNET {
        return refuse(NOT_IMPLEMENTED);
    }
    let kind = u16::from_be_bytes([kind_high, kind_low]);
    Ok(Question { id, recursion, name, kind, asked: body[..length + 4].to_vec() })
}

/// The name at the start of `body` and the length of its encoding.
fn name(body: &[u8]) -> Option<(String, usize)> {
    let (mut text, mut at) = (Vec::new(), 0);
    loop {
        let length = usize::from(*body.get(at)?);
        at += 1;
        match length {
            0 => break,
            1..=63 => {
                if !text.is_empty() {
                    text.push(b'.');
                }
                text.extend_from_slice(body.get(at..at + length)?);
                at += length;
            }
            // A pointer, or a kind of label that nobody uses.
            _ => return None,
        }
        if at > 255 {
            return None;
        }
    }
    Some((String::from_utf8_lossy(&text).into_owned(), at))
}

pub(crate) fn answer(question: &Question, answer: Answer) -> Vec<u8> {
    let (code, address) = match answer {
        Answer::Address(address) => (0, Some(address)),
        Answer::Nothing => (0, None),
        Answer::Failure => (2, None),
        Answer::NoSuchName => (3, None),
    };
    let [a, b] = question.id;
    let mut packet =
        vec![a, b, 0x80 | question.recursion, 0x80 | code, 0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0];
    packet.extend_from_slice(&question.asked);
    if let Some(address) = address {
        // The name, as a pointer to the question's.
        packet.extend_from_slice(&[0xc0, HEADER as u8]);
        packet.extend_from_slice(&A.to_be_bytes());
        packet.extend_from_slice(&INTERNET.to_be_bytes());
        packet.extend_from_slice(&KEEP.to_be_bytes());
        packet.extend_from_slice(&[0, 4]);
        packet.extend_from_slice(&address.octets());
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(name: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut packet = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name {
            packet.push(label.len() as u8);
            packet.extend_from_slice(label);
        }
        packet.push(0);
        packet.extend_from_slice(&kind.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        packet
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let packet = packet(&[b"Example", b"org"], A);
        let question = parse(&packet).unwrap();
        assert_eq!((question.name.as_str(), question.kind), ("Example.org", A));
        let answered = answer(&question, Answer::Address(Ipv4Addr::new(127, 64, 0, 1)));
        assert_eq!(answered[..12], [7, 9, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answered[12..12 + 17], packet[12..]);
        assert_eq!(answered[29..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 64, 0, 1]);
        assert_eq!(answer(&question, Answer::NoSuchName)[3], 0x83);
        assert_eq!(answer(&question, Answer::Nothing)[3..8], [0x80, 0, 1, 0, 0]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_what_is_no_question_is_passed_over() {
        assert_eq!(parse(&[]), Err(None));
        let mut reply = packet(&[b"a"], A);
        reply[2] = 0x80;
        assert_eq!(parse(&reply), Err(None));
        let code = |packet: &[u8]| parse(packet).unwrap_err().map(|answer| answer[3] & 15);
        let mut two = packet(&[b"a"], A);
        two[5] = 2;
        assert_eq!(code(&two), Some(1));
        let mut update = packet(&[b"a"], A);
        update[2] = 5 << 3;
        assert_eq!(code(&update), Some(4));
        let mut pointer = packet(&[], A);
        pointer[12] = 0xc0;
        assert_eq!(code(&pointer), Some(1));
        let whole = packet(&[b"example", b"org"], A);
        for cut in 12..whole.len() {
            assert_eq!(code(&whole[..cut]), Some(1), "cut at {cut}");
        }
        let long: Vec<&[u8]> = vec![&[b'a'; 63]; 5];
        assert_eq!(code(&packet(&long, A)), Some(1));
    }

    #[test]
    fn no_bytes_whatever_bring_the_parser_down() {
        let mut noise = crate::egress::tests::Noise::default();
        for _ in 0..20_000 {
            let bytes = noise.bytes(80);
            // With a header that lets it get as far as the name.
            let question = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &bytes].concat();
            for packet in [&bytes, &question] {
                if let Ok(question) = parse(packet) {
                    assert!(question.name.len() <= 3 * 255);
                    answer(&question, Answer::NoSuchName);
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_name_stay_none() {
        assert_eq!(parse(&packet(&[b"a\0b", b"org"], A)).unwrap().name, "a\0b.org");
        assert_eq!(parse(&packet(&[b"\xff"], A)).unwrap().name, "\u{fffd}");
    }
}
