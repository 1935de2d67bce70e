//! A name that a program inside looks up. Names that have an address already are answered here; for others the host
//! is asked whether they may have one.

use super::dns::{self, A, Answer as Reading, Question};
use super::{Ask, Egress};
use crate::stream::{Answer, Progress, Shared, Stream};
use palisade_protocol::{Open, RefusalCode, StreamId};
use rustix::event::PollFd;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Where the answer goes.
#[derive(Debug)]
pub(super) enum Reply {
    Packet(SocketAddr),
    Connection(Rc<OwnedFd>),
}

#[derive(Debug)]
struct Asked {
    question: Question,
    reply: Reply,
}

/// Answers a packet at once, or asks the host first.
pub(super) fn ask(egress: &mut Egress, packet: &[u8], reply: Reply) -> Option<Ask> {
    let question = match dns::parse(packet) {
        Ok(question) => question,
        Err(refusal) => {
            if let Some(packet) = refusal {
                reply.send(egress, &packet);
            }
            return None;
        }
    };
    let local = is_localhost(&question.name).then_some(Ipv4Addr::LOCALHOST);
    if let Some(address) = local.or_else(|| egress.names.known(&question.name)) {
        reply.send(egress, &dns::answer(&question, reading(&question, address)));
        return None;
    }
    let open = Open::Name { host: question.name.clone() };
    Some(Ask { open, stream: Box::new(Asked { question, reply }) })
}

/// There are only addresses of version 4.
fn reading(question: &Question, address: Ipv4Addr) -> Reading {
    if question.kind == A { Reading::Address(address) } else { Reading::Nothing }
}

/// It means this sandbox, whoever is asked.
fn is_localhost(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

impl Reply {
    fn send(&self, egress: &Egress, packet: &[u8]) {
        match self {
            Reply::Packet(to) => egress.send(packet, *to),
            Reply::Connection(socket) => {
                let mut framed = (packet.len() as u16).to_be_bytes().to_vec();
                framed.extend_from_slice(packet);
                // Into an empty buffer, so whole or to nobody.
                let _ = rustix::io::write(socket, &framed);
            }
        }
    }
}

impl Stream for Asked {
    fn interests<'a>(&'a self, _congested: bool, _into: &mut Vec<PollFd<'a>>) {}

    fn progress(&mut self, _stream: StreamId, _shared: &mut Shared) -> Progress {
        Progress::Open
    }

    fn answered(&mut self, answer: Answer, _stream: StreamId, shared: &mut Shared) -> Progress {
        let Some(egress) = &mut shared.egress else { return Progress::Done };
        let reading = match answer {
            Answer::Accepted => reading(&self.question, egress.names.add(&self.question.name)),
            Answer::Refused(refusal) if refusal.code == RefusalCode::Limit => Reading::Failure,
            Answer::Refused(_) => Reading::NoSuchName,
            Answer::Ended => Reading::Failure,
        };
        self.reply.send(egress, &dns::answer(&self.question, reading));
        Progress::Done
    }
}
