//! Whether a Podman behind a network is an ordinary user's: a socket says so by its owner, an address does not, so the
//! engine is asked. Its answer is not in the API's own model, so the question is put by hand.

use serde_json::Value;
use std::io::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Far more than an engine tells of itself.
const MOST: u64 = 1 << 20;

/// Asks the engine at `HOST:PORT`; the caller sees to the deadline.
pub(crate) async fn ask(address: &str) -> Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    // The older version of HTTP: the answer ends with the connection and comes in one piece.
    let request = format!("GET /v1.41/info HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    read(&answer).ok_or_else(|| Error::other("it does not tell whether it is an ordinary user's"))
}

fn read(answer: &[u8]) -> Option<bool> {
    let (head, body) = std::str::from_utf8(answer).ok()?.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    let told: Value = serde_json::from_str(body).ok()?;
    if status == "200" { told["Rootless"].as_bool() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_that_says_so_counts() {
        let answer = |body: &str| read(format!("HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{body}").as_bytes());
        assert_eq!(answer(r#"{"Rootless": true, "NCPU": 2}"#), Some(true));
        assert_eq!(answer(r#"{"Rootless": false}"#), Some(false));
        for other in ["", "{}", r#"{"Rootless": "yes"}"#, r#"{"Rootless": tr"#] {
            assert_eq!(answer(other), None, "{other}");
        }
        assert_eq!(read(b"HTTP/1.0 500 No\r\n\r\n{\"Rootless\": true}"), None);
        assert_eq!(read(b"\xff"), None);
    }
}
