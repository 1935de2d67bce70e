//! Our standard input, read on a thread of its own, since it cannot be waited for in any other way without changing
//! a file description that we share with others. The thread is left behind at the end of the program.

use crate::output;
use crate::writer::NO_THREAD;
use std::io::Read;
use tokio::sync::mpsc;

/// Pieces that may wait for a sandbox that does not read.
const PIECES: usize = 8;
const PIECE: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Keyboard {
    pieces: mpsc::Receiver<Vec<u8>>,
}

impl Keyboard {
    pub(crate) fn listen() -> Self {
        let (sender, pieces) = mpsc::channel::<Vec<u8>>(PIECES);
        let read = move || {
            let mut stdin = std::io::stdin().lock();
            let mut buffer = vec![0u8; PIECE];
            while let Ok(count @ 1..) = stdin.read(&mut buffer) {
                if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("stdin".into()).stack_size(128 * 1024).spawn(read);
        if started.is_err() {
            // To the receiver it is the end of the input.
            output::warning(&format!("standard input cannot be read: {NO_THREAD}"));
        }
        Self { pieces }
    }

    /// What was typed next; `None` at the end. Loses nothing when cancelled.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        self.pieces.recv().await
    }
}
