//! A tar stream from a hostile guest, unpacked on the host; and the same stream into a hostile tree, unpacked by the
//! guest. Nothing outside the one directory is created, changed or linked to, no link is followed, nothing but files
//! and directories without set-id bits appears, and no more is written than was sent.
//!
//! Memory is watched from outside: by the fuzzer's limit on one allocation, and by the test that replays the corpus.

mod guest;
mod headers;
mod scene;

use palisade_core::printable;
use palisade_engine::{Anything, CopyLimits, CopyReport, Landing, Top, extract};
use scene::{Found, Kind, Scene};
use std::io::{self, Read};

/// What follows a stream that goes on after the input: enough that keeping it in memory would be seen.
const TAIL: u64 = 6 << 20;

/// What the first byte of an input chooses.
struct Options {
    top: Top,
    checksums: Checksums,
    piece: usize,
    tail: u64,
    reader: Reader,
}

enum Reader {
    Host,
    Guest,
}

#[derive(PartialEq, Eq)]
enum Checksums {
    /// As they are, which is nearly always wrong and ends the reading at once.
    Kept,
    /// Made right, so that what a header says is acted on.
    Repaired,
}

impl Options {
    fn of(byte: u8) -> Self {
        Self {
            top: match byte & 3 {
                0 | 1 => Top::Keep,
                2 => Top::Names(vec!["renamed".into()]),
                _ => Top::Names(Vec::new()),
            },
            checksums: if byte & 4 == 0 { Checksums::Repaired } else { Checksums::Kept },
            tail: if byte & 8 == 0 { 0 } else { TAIL },
            reader: if byte & 16 == 0 { Reader::Host } else { Reader::Guest },
            // A long tail in small pieces would only take time.
            piece: match byte >> 6 {
                _ if byte & 8 != 0 => usize::MAX,
                0 => usize::MAX,
                1 => 512,
                2 => 100,
                _ => 1,
            },
        }
    }
}

/// The first byte chooses how, the rest is the stream.
pub fn check(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let options = Options::of(first);
    let mut bytes = bytes.to_vec();
    if options.checksums == Checksums::Repaired {
        headers::repair(&mut bytes);
    }
    match options.reader {
        Reader::Host => on_the_host(&bytes, &options),
        Reader::Guest if headers::swells(&bytes) => {}
        // Its sender is the host, which it must trust; what it keeps of a name in memory is no question there.
        Reader::Guest => in_the_guest(&bytes, &Options { tail: 0, ..options }),
    }
}

fn on_the_host(bytes: &[u8], options: &Options) {
    let scene = Scene::set();
    let place = std::fs::File::open(scene.place()).unwrap();
    let mut landing =
        Landing::new(place, options.top.clone(), CopyLimits::NONE, Anything { top: options.top.names() });
    let outcome = extract(stream(bytes, options), &mut landing);
    scene.assert_outside_untouched();
    let sent = bytes.len() as u64 + options.tail;
    let mut files = 0;
    let mut size = 0;
    for found in scene.found() {
        match &found.kind {
            Kind::Directory => {}
            Kind::File => {
                assert_eq!(found.mode & 0o7222, 0o200, "{found:?}");
                files += 1;
                size += found.size;
            }
            // Replaced by files or left alone, but never made.
            Kind::Link(_) | Kind::Fifo => assert!(scene.planted(&found), "{found:?}"),
            Kind::Other => panic!("{found:?}"),
        }
        assert_named_by_the_stream(&found, bytes);
    }
    assert!(size <= sent, "{size} bytes written of {sent} sent");
    if outcome.is_ok() {
        assert_told(&landing.report, files, size);
    }
}

/// A file written over is counted each time, so the report has at least what is there.
fn assert_told(report: &CopyReport, files: u64, size: u64) {
    assert!(report.files >= files && report.bytes >= size && report.entries >= report.files, "{report:?}");
    assert!(report.skipped.len() <= 1000);
    for skipped in &report.skipped {
        assert_eq!(printable(&skipped.path), skipped.path);
        assert_eq!(printable(&skipped.why), skipped.why);
        assert!(skipped.path.len() + skipped.why.len() <= 64 * 1024, "a long story about one entry");
    }
}

/// No name of our own stays behind, unless the sender chose it.
fn assert_named_by_the_stream(found: &Found, bytes: &[u8]) {
    const OURS: &[u8] = b".palisade-";
    if found.name.starts_with(OURS) {
        assert!(bytes.windows(OURS.len()).any(|window| window == OURS), "left behind: {found:?}");
    }
}

fn in_the_guest(bytes: &[u8], options: &Options) {
    let scene = Scene::set();
    let _ = guest::unpack(&scene.place(), stream(bytes, options));
    scene.assert_outside_untouched();
    for found in scene.found() {
        match &found.kind {
            Kind::Directory | Kind::File => assert_eq!(found.mode & 0o7000, 0, "{found:?}"),
            // The user's own links are carried inside; they lead nowhere but there.
            Kind::Link(_) => {}
            Kind::Fifo => assert!(scene.planted(&found), "{found:?}"),
            Kind::Other => panic!("{found:?}"),
        }
        assert_named_by_the_stream(&found, bytes);
    }
}

/// The input in pieces, then the tail, in which no name ends.
fn stream<'a>(bytes: &'a [u8], options: &Options) -> impl Read + use<'a> {
    Pieces { inner: bytes.chain(io::repeat(b'a').take(options.tail)), piece: options.piece }
}

/// Gives at most `piece` bytes at a time, as a connection would.
struct Pieces<R> {
    inner: R,
    piece: usize,
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.piece);
        self.inner.read(&mut buffer[..most])
    }
}
