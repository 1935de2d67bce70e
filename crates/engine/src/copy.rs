//! `cp`: files in and out of a sandbox as a tar stream. What comes out was made by hostile code: see [`extract`].

mod extract;
mod landing;
mod meter;
mod pack;
mod paths;
mod pipe;

pub use extract::extract;
pub use landing::{Anything, Arrived, CopyLimits, CopyStop, Fate, Landing, Reception, Refusal, Tally, Top};
pub use paths::{CopySource, CopyTarget};

use crate::error::EngineError;
use palisade_core::{printable, printable_lines};
use palisade_protocol::client::{Client, StreamEvent, StreamReceiver, StreamSender};
use palisade_protocol::{Channel, Exit, Open, Refusal as Refused, RefusalCode};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

/// How long a sandbox may say nothing in the middle of a copy.
const SILENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// Files, directories and links.
    pub entries: u64,
    pub files: u64,
    pub links: u64,
    pub bytes: u64,
    /// What was left out, the first thousand of it.
    pub skipped: Vec<Skipped>,
    /// How much was left out.
    pub left_out: u64,
}

impl CopyReport {
    /// Whether nothing was left out.
    pub fn is_complete(&self) -> bool {
        self.left_out == 0 && self.skipped.is_empty()
    }
}

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skipped {
    /// As the sandbox named it, made printable.
    pub path: String,
    pub why: String,
}

/// Copies a host file or tree into the sandbox. A target that is a directory receives it under its own name; any
/// other target is the new name.
pub async fn copy_in(client: &Client, copied: CopySource, target: &str) -> Result<CopyReport, EngineError> {
    let CopySource { source, name, shown } = copied;
    let failed = |reason: String| EngineError::Copy { path: shown.clone(), reason };
    let (streams, name) = open_target(client, target, Some(name)).await?;
    send(streams, target, &failed, move |writer| pack::pack(source, &name, writer)).await
}

/// Copies the content of an open file into the sandbox. The target is its name, in a directory that must exist.
pub async fn copy_in_file(client: &Client, file: File, target: &str) -> Result<CopyReport, EngineError> {
    let failed = |reason: String| EngineError::Copy { path: printable(target), reason };
    let (streams, name) = open_target(client, target, None).await?;
    send(streams, target, &failed, move |writer| pack::pack_file(file, &name, writer)).await
}

/// Opens the directory that a copy goes to, and the name that it gets there. A target that is a directory receives it
/// under its own name, where it has one.
async fn open_target(
    client: &Client,
    target: &str,
    own_name: Option<OsString>,
) -> Result<(Streams, OsString), EngineError> {
    let trimmed = if target.len() > 1 { target.trim_end_matches('/') } else { target };
    let directory = open_in(client, trimmed).await?;
    match (directory, own_name) {
        (Ok(streams), Some(name)) => return Ok((streams, name)),
        (Ok(_), None) => {
            let reason = "is a directory in the sandbox; name a file in it".into();
            return Err(EngineError::Copy { path: printable(target), reason });
        }
        // Not a directory that exists, so it is the new name, in a directory that must.
        (Err(_), _) => {}
    }
    let (parent, name) = trimmed.rsplit_once('/').unwrap_or((".", trimmed));
    let parent = if parent.is_empty() { "/" } else { parent };
    match open_in(client, parent).await? {
        Ok(streams) => Ok((streams, OsString::from(name))),
        Err(refusal) => Err(refused(target, &refusal)),
    }
}

/// Sends what `pack` writes, and waits until the sandbox has all of it.
async fn send(
    (sender, mut receiver): Streams,
    target: &str,
    failed: &dyn Fn(String) -> EngineError,
    pack: impl FnOnce(pipe::PipeWriter) -> std::io::Result<CopyReport> + Send + 'static,
) -> Result<CopyReport, EngineError> {
    let (writer, mut chunks) = pipe::writer();
    let packing = tokio::task::spawn_blocking(move || pack(writer));
    let feed = async {
        while let Some(chunk) = chunks.recv().await {
            // A guest that has given up says why on its own stream.
            if sender.send(&chunk).await.is_err() {
                break;
            }
        }
        let _ = sender.eof().await;
    };
    let ((), outcome) = tokio::join!(feed, finish(&mut receiver, target));
    drop(chunks);
    let packed = packing.await.map_err(|error| failed(error.to_string()))?;
    outcome?;
    packed.map_err(|error| failed(error.to_string()))
}

type Streams = (StreamSender, StreamReceiver);

async fn open_in(client: &Client, directory: &str) -> Result<Result<Streams, Refused>, EngineError> {
    let (sender, mut receiver) = client.open(Open::TarIn { path: directory.as_bytes().to_vec() }).await?;
    match receiver.next().await? {
        Some(StreamEvent::Refused(refusal)) => Ok(Err(refusal)),
        Some(StreamEvent::Accepted) => Ok(Ok((sender, receiver))),
        _ => {
            Err(EngineError::Copy { path: printable(directory), reason: "the sandbox ended the copy".into() })
        }
    }
}

/// Waits for the end of a copy into the sandbox.
async fn finish(receiver: &mut StreamReceiver, target: &str) -> Result<(), EngineError> {
    let mut said = Vec::new();
    while let Some(event) = receiver.next().await? {
        match event {
            StreamEvent::Data { channel: Channel::Error, bytes } => remember(&mut said, &bytes),
            StreamEvent::Exit(Exit::Code(0)) => return Ok(()),
            StreamEvent::Exit(_) | StreamEvent::Reset => break,
            _ => {}
        }
    }
    Err(EngineError::Copy { path: printable(target), reason: complaint(&said) })
}

/// Copies a file or tree out of the sandbox. A target that is an existing directory receives it under its own name;
/// any other target is the new name, in a directory that must exist.
pub async fn copy_out(
    client: &Client,
    source: &str,
    target: CopyTarget,
    limits: CopyLimits,
) -> Result<CopyReport, EngineError> {
    let contents = source.ends_with("/.");
    let source = source.trim_end_matches("/.");
    let top = match target.name {
        Some(name) => Top::Names(vec![name]),
        None if contents => Top::Names(Vec::new()),
        None => Top::Keep,
    };
    let place = target.directory;
    let path = if source.is_empty() { "/" } else { source };
    let reception = Anything { top: top.names() };
    let landing = Landing::new(place, top, limits, reception);
    let (landing, received) = receive(client, path.as_bytes(), landing, |_| {}).await?;
    let failed = |reason: String| EngineError::Copy { path: printable(source), reason };
    let mut report = landing.report;
    match received {
        Received::Whole { said } => {
            report.skipped.extend(said.into_iter().map(|why| Skipped { path: String::new(), why }));
        }
        Received::InPart { said } if said.is_empty() => {
            return Err(failed("the copy failed inside the sandbox".into()));
        }
        Received::InPart { said } => return Err(failed(printable_lines(&said.join("\n")))),
    }
    if let (0, Some(first)) = (report.entries, report.skipped.first()) {
        return Err(failed(format!("nothing was copied: {}", first.why)));
    }
    Ok(report)
}

/// How much of a tree the sandbox could read, and what it said of the rest: its own words, tamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    Whole { said: Vec<String> },
    InPart { said: Vec<String> },
}

/// Brings the tree at `path` down in `landing`. `watch` is called now and then while it comes.
pub async fn receive<R: Reception + 'static>(
    client: &Client,
    path: &[u8],
    mut landing: Landing<R>,
    mut watch: impl FnMut(&Tally),
) -> Result<(Landing<R>, Received), EngineError> {
    let tally = std::sync::Arc::clone(&landing.tally);
    let take = move |reader| {
        extract(reader, &mut landing)?;
        Ok(landing)
    };
    receive_stream(client, path, take, || watch(&tally)).await
}

/// Writes the content of a plain file in the sandbox to `sink`.
pub async fn read_file(
    client: &Client,
    path: &str,
    sink: impl std::io::Write + Send + 'static,
    limits: CopyLimits,
) -> Result<CopyReport, EngineError> {
    let take = move |reader| extract::read_file(reader, sink, limits);
    match receive_stream(client, path.as_bytes(), take, || ()).await? {
        (report, Received::Whole { .. }) => Ok(report),
        (_, Received::InPart { said }) => {
            Err(EngineError::Copy { path: printable(path), reason: complaint(said.join("\n").as_bytes()) })
        }
    }
}

/// Hands the tar stream of the tree at `path` to `take`.
async fn receive_stream<T: Send + 'static>(
    client: &Client,
    path: &[u8],
    take: impl FnOnce(pipe::PipeReader) -> Result<T, CopyStop> + Send + 'static,
    mut watch: impl FnMut(),
) -> Result<(T, Received), EngineError> {
    let shown = printable(&String::from_utf8_lossy(path));
    let failed = |reason: &str| EngineError::Copy { path: shown.clone(), reason: reason.into() };
    let (_sender, mut receiver) = client.open(Open::TarOut { path: path.to_vec() }).await?;
    match next(&mut receiver, &shown).await? {
        Some(StreamEvent::Accepted) => {}
        Some(StreamEvent::Refused(refusal)) => return Err(refused(&shown, &refusal)),
        _ => return Err(failed("the sandbox ended the copy")),
    }
    let (reader, chunks) = pipe::reader();
    let taking = tokio::task::spawn_blocking(move || take(reader));
    let mut said = Vec::new();
    let mut exit = None;
    while let Some(event) = next(&mut receiver, &shown).await? {
        match event {
            StreamEvent::Data { channel: Channel::Main, bytes } => {
                // The extractor stops listening when it fails; its own result tells why.
                if chunks.send(bytes).await.is_err() {
                    break;
                }
                watch();
            }
            StreamEvent::Data { channel: Channel::Error, bytes } => remember(&mut said, &bytes),
            StreamEvent::Exit(code) => exit = Some(code),
            _ => {}
        }
    }
    drop(chunks);
    let taken = taking.await.map_err(|error| failed(&error.to_string()))?;
    let taken = taken.map_err(|stop| stop.told(&shown))?;
    let said = String::from_utf8_lossy(&said).lines().map(printable).collect();
    let received = match exit {
        Some(Exit::Code(0)) => Received::Whole { said },
        _ => Received::InPart { said },
    };
    Ok((taken, received))
}

/// What comes next, if it comes before long.
async fn next(receiver: &mut StreamReceiver, path: &str) -> Result<Option<StreamEvent>, EngineError> {
    match tokio::time::timeout(SILENCE, receiver.next()).await {
        Ok(event) => Ok(event?),
        Err(_) => Err(EngineError::Copy {
            path: path.to_owned(),
            reason: format!("nothing came from the sandbox for {} s", SILENCE.as_secs()),
        }),
    }
}

fn refused(path: &str, refusal: &Refused) -> EngineError {
    let reason = match refusal.code {
        RefusalCode::NotFound => "no such file or directory in the sandbox".to_owned(),
        _ if refusal.errno > 0 => std::io::Error::from_raw_os_error(refusal.errno).to_string(),
        _ => printable_lines(&refusal.text),
    };
    EngineError::Copy { path: printable(path), reason }
}

/// Keeps what the guest's side complains of, up to a bound.
fn remember(said: &mut Vec<u8>, bytes: &[u8]) {
    const MOST: usize = 64 * 1024;
    let room = MOST.saturating_sub(said.len());
    said.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn complaint(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    match text.trim() {
        "" => "the copy failed inside the sandbox".into(),
        text => printable_lines(text),
    }
}
