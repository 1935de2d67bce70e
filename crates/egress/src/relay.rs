//! Bytes between a stream of the sandbox and a connection of the host's. Each direction ends by itself; an idle
//! connection holds no buffer.

use palisade_protocol::Channel;
use palisade_protocol::client::{StreamEvent, StreamReceiver, StreamSender};
use palisade_protocol::frame::MAX_DATA;
use std::io::{self, ErrorKind};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

/// Until both directions have ended, or either breaks: then dropping the halves tells both sides.
pub(crate) async fn relay(connection: TcpStream, sender: StreamSender, receiver: StreamReceiver) {
    let (reader, writer) = connection.into_split();
    let all_sent = Notify::new();
    let regular = async {
        inward(reader, &sender).await?;
        all_sent.notified().await;
        io::Result::Ok(())
    };
    let ended = tokio::select! {
        ended = regular => ended,
        broken = outward(receiver, writer, &all_sent) => Err(broken),
    };
    if ended.is_ok() {
        sender.end();
    }
}

/// Says when everything was sent, and goes on listening: the sandbox may drop the stream at any time.
async fn outward(mut from: StreamReceiver, mut to: OwnedWriteHalf, all_sent: &Notify) -> io::Error {
    loop {
        let done = match from.next().await {
            Ok(Some(StreamEvent::Data { channel: Channel::Main, bytes })) => to.write_all(&bytes).await,
            Ok(Some(StreamEvent::Eof(Channel::Main))) => {
                all_sent.notify_one();
                to.shutdown().await
            }
            Ok(_) => Err(ErrorKind::ConnectionAborted.into()),
            Err(error) => Err(io::Error::other(error)),
        };
        if let Err(error) = done {
            return error;
        }
    }
}

async fn inward(from: OwnedReadHalf, to: &StreamSender) -> io::Result<()> {
    loop {
        from.readable().await?;
        let mut buffer = Vec::with_capacity(MAX_DATA);
        loop {
            buffer.clear();
            match from.try_read_buf(&mut buffer) {
                Ok(0) => return to.eof().await.map_err(io::Error::other),
                Ok(_) => to.send(&buffer).await.map_err(io::Error::other)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
}
