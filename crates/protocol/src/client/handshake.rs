//! The first exchange: a hello with a random nonce, and the welcome that repeats it. Whoever answers has read this
//! very connection; old bytes in a pipe or another process's output cannot pass for an answer.

use super::ClientError;
use crate::frame::{HEADER, RESYNC};
use crate::{Decoder, Hello, Kind, OLDEST_VERSION, VERSION, Violation, Welcome};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest welcome looked for among unknown bytes; ours are below a hundred.
const MAX_WELCOME: usize = 1024;

fn nonce() -> Result<[u8; 16], ClientError> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(nonce)
}

fn check(welcome: Welcome, nonce: [u8; 16]) -> Result<Welcome, Violation> {
    if welcome.nonce != nonce {
        return Err(Violation::Unexpected("nonce in the welcome"));
    }
    if !(OLDEST_VERSION..=VERSION).contains(&welcome.version) {
        return Err(Violation::Version { theirs_min: welcome.version, theirs_max: welcome.version });
    }
    Ok(welcome)
}

/// On a stream that nobody used before, where anything but the welcome is a violation. The decoder holds what
/// came behind the welcome.
pub async fn fresh<S>(stream: &mut S, decoder: &mut Decoder) -> Result<Welcome, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    fresh_with(stream, decoder, &[]).await
}

/// As [`fresh`], with frames that go out right behind the hello.
pub(super) async fn fresh_with<S>(
    stream: &mut S,
    decoder: &mut Decoder,
    behind: &[u8],
) -> Result<Welcome, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let nonce = nonce()?;
    let mut hello = Vec::new();
    Hello::new(nonce).frame().encode(&mut hello);
    hello.extend_from_slice(behind);
    stream.write_all(&hello).await?;
    stream.flush().await?;
    loop {
        if let Some(frame) = decoder.next_ref()? {
            if (frame.kind, frame.stream) != (Kind::Welcome, 0) {
                return Err(Violation::Unexpected(frame.kind.name()).into());
            }
            return Ok(check(Welcome::decode(frame.payload)?, nonce)?);
        }
        if stream.read_buf(decoder.spare()).await? == 0 {
            return Err(ClientError::Closed);
        }
    }
}

/// On a stream in the middle of an unknown conversation: completes whatever frame the guest was reading, and drops
/// everything up to the welcome.
pub async fn resync<S>(stream: &mut S, decoder: &mut Decoder) -> Result<Welcome, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let nonce = nonce()?;
    let mut opening = vec![0; RESYNC];
    Hello::new(nonce).frame().encode(&mut opening);
    let (mut reader, mut writer) = tokio::io::split(stream);
    // Both at once: a guest that is blocked on its own output reads nothing until we do.
    let write = async {
        writer.write_all(&opening).await?;
        writer.flush().await?;
        Ok::<(), ClientError>(())
    };
    let read = async {
        let mut window = Vec::new();
        loop {
            if reader.read_buf(&mut window).await? == 0 {
                return Err(ClientError::Closed);
            }
            if let Some((welcome, end)) = find_welcome(&window, nonce) {
                decoder.push(&window[end..]);
                return Ok(check(welcome, nonce)?);
            }
            window.drain(..window.len().saturating_sub(HEADER + MAX_WELCOME));
            window.reserve(HEADER + MAX_WELCOME);
        }
    };
    tokio::try_join!(write, read).map(|((), welcome)| welcome)
}

/// The welcome with our nonce and the offset behind it. Every offset is tried: what looks like the start of a
/// frame may be somebody's data.
fn find_welcome(window: &[u8], nonce: [u8; 16]) -> Option<(Welcome, usize)> {
    (0..window.len()).find_map(|start| {
        let (head, body) = window[start..].split_first_chunk::<HEADER>()?;
        let [kind, 0, 0, 0, 0, a, b, c, d] = *head else { return None };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if kind != Kind::Welcome as u8 || len > MAX_WELCOME {
            return None;
        }
        let welcome = Welcome::decode(body.get(..len)?).ok()?;
        (welcome.nonce == nonce).then_some((welcome, start + HEADER + len))
    })
}
