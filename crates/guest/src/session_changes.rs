//! Which sessions there are, told now and whenever one starts or ends.

use crate::stream::{Progress, Shared, Stream};
use palisade_protocol::message::accepted_frame;
use palisade_protocol::{Exit, Report, StreamId};
use rustix::event::PollFd;

#[derive(Debug, Default)]
pub(crate) struct SessionChanges {
    /// What the host knows: names, and how those that ended did.
    told: Option<Vec<(String, Option<Exit>)>>,
}

impl Stream for SessionChanges {
    fn interests<'a>(&'a self, _congested: bool, _into: &mut Vec<PollFd<'a>>) {}

    fn always_due(&self) -> bool {
        true
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        if shared.link.congested() {
            return Progress::Open;
        }
        let sessions = shared.sessions.list();
        let now = sessions.iter().map(|session| (session.name.clone(), session.exit)).collect();
        if self.told.is_none() {
            shared.link.send(&accepted_frame(stream));
        }
        if self.told.as_ref() != Some(&now) {
            shared.link.send(&Report::Sessions(sessions).frame(stream));
            self.told = Some(now);
        }
        Progress::Open
    }
}
