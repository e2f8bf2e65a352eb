//! What an engine keeps for one client: its connection, its requests, and what it has to be told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use groupcast_core::Time;

use super::output::Output;
use crate::frame::{ClientKind, FRAME_MAX, FrameDecoder, Hello, Publish, credit_cost};

/// A connection of a client, never used twice in a daemon's life. Also the client's number on the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

/// How a client is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// By a Unix socket.
    Unix,
    /// By TCP.
    Tcp,
}

impl Transport {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        }
    }
}

/// Where a client is in its life.
#[derive(Debug)]
pub(super) enum Stage {
    /// Connected; its hello has not come.
    Greeting,
    /// Its hello has come, but a client that is leaving still has its name.
    Parked(Hello),
    /// It makes requests.
    Open,
    /// It makes no more requests; what it asked for is carried out, then it is gone from all groups.
    Leaving,
    /// It is in no group and has no name; its connection may still have to take the last words.
    Gone,
}

/// A request that waits for the ring.
#[derive(Debug)]
pub(super) enum Pending {
    Join(Arc<str>),
    Leave(Arc<str>),
    Publish(Publish),
    Disconnect,
}

impl Pending {
    /// What it counts for while it waits.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Join(group) | Self::Leave(group) => credit_cost(group.len()),
            Self::Publish(publish) => credit_cost(publish.stream_len()),
            Self::Disconnect => 0,
        }
    }
}

/// The connection of a client.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) decoder: FrameDecoder,
    pub(super) output: Output,
    /// No more is read, and the connection ends once the output is taken.
    pub(super) closing: bool,
    /// When to act if nothing has happened: see `Engine::handle_timeout`.
    pub(super) deadline: Option<Time>,
    pub(super) publish_window: u64,
    /// Cost of what was published and not given back.
    pub(super) publish_outstanding: u64,
    /// Cost of what is done with and will be given back with the next output.
    pub(super) publish_returned: u64,
    /// The number up to which acceptance was reported.
    pub(super) accepted_reported: u64,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) transport: Transport,
    pub(super) kind: ClientKind,
    pub(super) stage: Stage,
    /// Without `@host`.
    pub(super) name: Arc<str>,
    pub(super) private: Arc<str>,
    pub(super) link: Option<Link>,
    pub(super) requests: VecDeque<Pending>,
    /// Of them, how many join or leave.
    pub(super) group_requests: usize,
    /// Cost of the requests.
    pub(super) queued: usize,
    /// Bytes of a frame that has not come whole.
    pub(super) unfinished: usize,
    /// Whether it is among those that take turns at the ring.
    pub(super) in_turn: bool,
    /// Whether its name was bound on the ring.
    pub(super) bound: bool,
    /// Groups that it asked to be in, and whether it does not want its own messages of them.
    pub(super) wanted: BTreeMap<Arc<str>, bool>,
    /// The last number that it published.
    pub(super) last_number: u64,
    /// What was handed to the ring and has not come back: (the client's number, the ring's).
    pub(super) unaccepted: VecDeque<(u64, u64)>,
    /// The client's number up to which all is accepted.
    pub(super) accepted: u64,
    /// Unreliable messages that it missed.
    pub(super) dropped: u64,
    /// Where its last message went: most go where the one before them went.
    pub(super) addressed: Addressed,
}

/// Destinations of a message that was checked, and what they became on the ring.
#[derive(Debug, Default)]
pub(super) struct Addressed {
    /// As they came from the client; empty before the first.
    pub(super) destinations: Vec<u8>,
    /// The envelope up to its payload. Groups and clients keep their numbers, so it stays right.
    pub(super) head: Vec<u8>,
}

impl Client {
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            transport,
            kind: ClientKind::Application,
            stage: Stage::Greeting,
            name: "".into(),
            private: "".into(),
            link: Some(Link {
                decoder: FrameDecoder::new(FRAME_MAX),
                output: Output::new(),
                closing: false,
                deadline: None,
                publish_window: 0,
                publish_outstanding: 0,
                publish_returned: 0,
                accepted_reported: 0,
            }),
            requests: VecDeque::new(),
            group_requests: 0,
            queued: 0,
            unfinished: 0,
            in_turn: false,
            bound: false,
            wanted: BTreeMap::new(),
            last_number: 0,
            unaccepted: VecDeque::new(),
            accepted: 0,
            dropped: 0,
            addressed: Addressed::default(),
        }
    }

    /// Whether its requests are still read.
    pub(super) fn is_reading(&self) -> bool {
        let stage = matches!(self.stage, Stage::Greeting | Stage::Parked(_) | Stage::Open);
        stage && self.link.as_ref().is_some_and(|link| !link.closing)
    }

    /// The message `number` of the client was handed to the ring, as `placed` there if it will come back in the order.
    pub(super) fn handed_over(&mut self, number: u64, placed: Option<u64>) {
        match (placed, self.unaccepted.back_mut()) {
            (Some(placed), _) => self.unaccepted.push_back((number, placed)),
            // An unreliable message is accepted with those before it.
            (None, Some((before, _))) => *before = number,
            (None, None) => self.accepted = number,
        }
    }

    /// The ring's message `placed` came back; messages of one daemon come back in the order of their submission.
    pub(super) fn came_back(&mut self, placed: u64) {
        while let Some((number, _)) = self.unaccepted.pop_front_if(|(_, at)| *at <= placed) {
            self.accepted = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_covers_only_what_came_back() {
        let mut client = Client::new(Transport::Unix);
        client.handed_over(1, None);
        assert_eq!(client.accepted, 1);
        client.handed_over(2, Some(10));
        client.handed_over(3, None);
        client.handed_over(5, Some(12));
        assert_eq!(client.accepted, 1);
        client.came_back(11);
        assert_eq!(client.accepted, 3);
        client.came_back(12);
        assert_eq!(client.accepted, 5);
        assert!(client.unaccepted.is_empty());
    }
}
