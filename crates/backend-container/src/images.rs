//! Images, as far as an engine makes them: the seam of `palisade-images`, over the connection that sandboxes use.

use crate::backend::ContainerBackend;
use crate::client::{Client, LONGEST};
use crate::trouble::Failure;
use crate::upload::Pieces;
use bollard::errors::Error;
use bollard::models::ImageInspect;
use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder, RemoveImageOptions};
use bytes::Bytes;
use futures_core::Stream;
use palisade_core::{BackendError, Method};
use palisade_images::{Build, BuildFailure, FoundImage, ImageEngine};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::Read;
use std::path::Path;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::sync::mpsc;

/// For pulls, imports and builds, between two signs of life.
const SLOWEST: Duration = Duration::from_secs(15 * 60);
/// How the names of images begin that this program builds.
const BUILT_HERE: &str = "palisade-";
/// How much of an archive is on its way at once: a few pieces of this size.
const PIECE: usize = 1 << 18;

/// The names under which an engine may know an image, the likeliest first. Podman files what it has built itself under
/// `localhost`, and looks for a name without a host elsewhere.
pub(crate) fn names(method: Method, image: &str) -> Vec<String> {
    let local = || format!("localhost/{image}");
    match method {
        Method::Podman if image.starts_with(BUILT_HERE) => vec![local(), image.to_owned()],
        Method::Podman => vec![image.to_owned(), local()],
        _ => vec![image.to_owned()],
    }
}

/// The name under which an engine knows an image, and what it knows.
pub(crate) async fn inspect(
    client: &Client,
    image: &str,
) -> Result<Option<(String, ImageInspect)>, BackendError> {
    const LOOK: &str = "look for the image";
    let patience = client.busy_with_images(client.quick());
    for name in names(client.method, image) {
        let found = client.call(LOOK, patience, |docker| {
            let (docker, name) = (docker.with_timeout(patience), &name);
            async move { docker.inspect_image(name).await }
        });
        match client.persist(LOOK, found).await {
            Ok(found) => return Ok(Some((name, found))),
            Err(Failure::Missing(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

impl ImageEngine for ContainerBackend {
    async fn find(&self, image: &str) -> Result<Option<FoundImage>, BackendError> {
        let found = inspect(self.client().await?, image).await?;
        Ok(found.map(|(_, inspected)| FoundImage {
            id: inspected.id.unwrap_or_default(),
            labels: inspected.config.and_then(|config| config.labels).unwrap_or_default(),
        }))
    }

    async fn pull(&self, image: &str) -> Result<(), BackendError> {
        let client = self.client().await?;
        let docker = client.patient(SLOWEST);
        let options = CreateImageOptionsBuilder::default().from_image(image).build();
        drain(client, &format!("pull {image}"), docker.create_image(Some(options), None, None)).await
    }

    async fn import(&self, root: &Path, image: &str) -> Result<(), BackendError> {
        let client = self.client().await?;
        let docker = client.patient(SLOWEST);
        let (repository, tag) = image.split_once(':').unwrap_or((image, "latest"));
        let options = CreateImageOptionsBuilder::default().from_src("-").repo(repository).tag(tag).build();
        let file = std::fs::File::open(root).map_err(BackendError::io(format!("read {}", root.display())))?;
        let body = bollard::body_try_stream(pieces(file));
        drain(client, &format!("import {image}"), docker.create_image(Some(options), Some(body), None)).await
    }

    async fn build(&self, build: Build, said: &mut dyn FnMut(&str)) -> Result<(), BuildFailure> {
        let client = self.client().await.map_err(BuildFailure::Engine)?;
        let what = format!("build {}", build.image);
        let mut arguments: HashMap<String, String> =
            build.proxies.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
        arguments.insert("BASE".into(), self.named(client, build.base).await.map_err(BuildFailure::Engine)?);
        let options = BuildImageOptionsBuilder::default()
            .dockerfile("Dockerfile")
            .t(&build.image)
            .buildargs(&arguments)
            .labels(&build.labels)
            .networkmode("host")
            .nocache(!build.reuse)
            .rm(true)
            .forcerm(true)
            .build();
        let docker = client.patient(SLOWEST);
        let context = bollard::body_full(Bytes::from(build.context));
        let mut answers = pin!(docker.build_image(options, None, Some(context)));
        let mut lines = Lines::default();
        while let Some(answer) = next(client, &what, answers.as_mut()).await.map_err(BuildFailure::Engine)? {
            match answer {
                Ok(info) => lines.add(&info.stream.or(info.status).unwrap_or_default(), said),
                Err(Error::DockerStreamError { error }) => {
                    lines.finish(said);
                    return Err(BuildFailure::Step(error));
                }
                Err(error) => {
                    return Err(BuildFailure::Engine(client.engine().failure(&what, &error).into()));
                }
            }
        }
        lines.finish(said);
        Ok(())
    }

    async fn discard(&self, id: &str) {
        let Ok(client) = self.client().await else { return };
        let removed = client.call("remove the old image", LONGEST, |docker| async move {
            docker.remove_image(id, None::<RemoveImageOptions>, None).await.map(drop)
        });
        if let Err(error) = removed.await {
            tracing::debug!(error = %BackendError::from(error), "an old image stays");
        }
    }
}

impl ContainerBackend {
    /// The name by which a recipe can build on an image.
    async fn named(&self, client: &Client, image: String) -> Result<String, BackendError> {
        Ok(inspect(client, &image).await?.map_or(image, |(name, _)| name))
    }
}

/// The next answer, if there is one. An engine that says nothing for long hangs.
async fn next<T>(
    client: &Client,
    what: &str,
    mut answers: Pin<&mut impl Stream<Item = T>>,
) -> Result<Option<T>, BackendError> {
    let answer = poll_fn(|context| answers.as_mut().poll_next(context));
    let answered = tokio::time::timeout(SLOWEST, answer).await;
    answered.map_err(|_| client.engine().silent(what, SLOWEST.as_secs()))
}

/// Waits until the engine has said all; only how it ends counts.
async fn drain<T>(
    client: &Client,
    what: &str,
    answers: impl Stream<Item = Result<T, Error>>,
) -> Result<(), BackendError> {
    let mut answers = pin!(answers);
    while let Some(answer) = next(client, what, answers.as_mut()).await? {
        answer.map_err(|error| match error {
            // Said in the middle of an answer that had begun well.
            Error::DockerStreamError { error: message } => {
                let refused = Error::DockerResponseServerError { status_code: 500, message };
                BackendError::from(client.engine().failure(what, &refused))
            }
            other => client.engine().failure(what, &other).into(),
        })?;
    }
    Ok(())
}

/// What a file holds, piece by piece, read on a thread that may block.
fn pieces(mut file: std::fs::File) -> Pieces {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE];
            let read = match file.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    Ok(Bytes::from(piece))
                }
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    Pieces(receiver)
}

/// Puts together the lines that an engine sends in pieces.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, piece: &str, said: &mut dyn FnMut(&str)) {
        self.0.push_str(piece);
        while let Some(end) = self.0.find('\n') {
            let line: String = self.0.drain(..=end).collect();
            said(line.trim_end());
        }
    }

    fn finish(&mut self, said: &mut dyn FnMut(&str)) {
        if !self.0.is_empty() {
            said(std::mem::take(&mut self.0).trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_come_in_pieces_are_told_whole() {
        let mut told = Vec::new();
        let mut lines = Lines::default();
        for piece in ["Step 1", "/2\n", "Get:1 pack", "ages\r\nGet:2\n", "Done"] {
            lines.add(piece, &mut |line| told.push(line.to_owned()));
        }
        lines.finish(&mut |line| told.push(line.to_owned()));
        assert_eq!(told, ["Step 1/2", "Get:1 packages", "Get:2", "Done"]);
    }

    #[tokio::test]
    async fn a_file_is_told_in_pieces_that_make_the_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let contents: Vec<u8> = (0..PIECE * 3 + 17).map(|place| (place % 251) as u8).collect();
        std::fs::write(file.path(), &contents).unwrap();
        let mut stream = pieces(file.reopen().unwrap());
        let mut read = Vec::new();
        while let Some(piece) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
            read.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(read, contents);
    }
}
