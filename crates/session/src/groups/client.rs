//! What an engine keeps for one client: its connection, its requests, and what has to be reported
//! to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use groupcast_core::Time;

use super::access::Origin;
use super::bimodal::MissedRanges;
use super::guests::{AsGuest, GuestRequest};
use super::orders::{OrderIndex, PerOrder};
use super::output::Output;
use crate::frame::{BusRequest, ClientKind, FrameDecoder, HELLO_MAX, Hello, Publish, credit_cost};
use crate::when_slow::WhenSlow;

/// A connection of a client, never used twice in a daemon's life. Also the client's number on the
/// ring.
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

/// How far a client has come between connecting and being gone.
#[derive(Debug)]
pub(super) enum ClientPhase {
    /// Connected; its hello has not come.
    Greeting,
    /// Its hello has come, but a client that is leaving still has the name that it wants.
    AwaitingName(Hello),
    /// It makes requests.
    Open,
    /// It makes no more requests; what it asked for is carried out, then it is gone from all
    /// groups.
    Leaving,
    /// It is in no group and has no name; its connection may still have to take the last frames.
    Gone,
}

/// A request that waits for the order.
#[derive(Debug)]
pub(super) enum Pending {
    Join(Arc<str>),
    Leave(Arc<str>),
    Publish(Publish),
    /// Of the bus, with its token.
    Bus(u64, BusRequest),
    /// About requests and roles.
    Guest(GuestRequest),
    Disconnect,
}

impl Pending {
    /// What it counts for while it waits.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Join(group) | Self::Leave(group) => credit_cost(group.len()),
            Self::Publish(publish) => credit_cost(publish.stream_len()),
            Self::Bus(_, request) => credit_cost(request.len()),
            Self::Guest(request) => request.cost(),
            Self::Disconnect => 0,
        }
    }

    /// Whether it concerns groups, rather than a message.
    pub(super) fn is_of_groups(&self) -> bool {
        match self {
            Self::Join(_) | Self::Leave(_) | Self::Bus(..) => true,
            Self::Guest(request) => request.is_of_roles(),
            Self::Publish(_) | Self::Disconnect => false,
        }
    }
}

/// How far a published message has come that is not accepted yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// It waits here.
    Waiting,
    /// The order has it, under this number.
    Placed(OrderIndex, u64),
    /// Nothing more is promised of it, but others before it are not accepted.
    Done,
}

/// The connection of a client.
#[derive(Debug)]
pub(super) struct ClientLink {
    pub(super) decoder: FrameDecoder,
    pub(super) output: Output,
    /// No more is read, and the connection ends once the output is taken.
    pub(super) closing: bool,
    /// When the frame that has not come whole began.
    pub(super) frame_since: Option<Time>,
    /// More of it has come than can be read yet.
    pub(super) in_record: bool,
    /// What its output was last counted for among that of all clients.
    pub(super) counted: usize,
    /// What it had on a disk when that was last counted.
    pub(super) counted_on_disk: u64,
    /// Bytes that its socket has taken since it got more time to take what holds publishers back.
    pub(super) taken: usize,
    /// The log has said that what comes for it goes to a disk.
    pub(super) spill_told: bool,
    /// When it was last told that it is behind.
    pub(super) warned_at: Option<Time>,
    /// How many missed messages it was told of.
    pub(super) dropped_told: u64,
    pub(super) publish_window: u64,
    /// Cost of what was published and not given back.
    pub(super) publish_outstanding: u64,
    /// Cost of what is done with and will be given back with the next output.
    pub(super) publish_returned: u64,
    /// The number up to which acceptance was reported.
    pub(super) accepted_reported: u64,
}

/// A change of what a client's output counts for.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct MemoryChange {
    pub(super) before: usize,
    pub(super) after: usize,
}

impl ClientLink {
    /// Counts the memory of the output anew. A connection that ends counts for nothing: what is
    /// left of it is little, and goes soon.
    pub(super) fn count_memory(&mut self) -> MemoryChange {
        let after = match self.closing {
            true => 0,
            false => self.output.memory(),
        };
        let before = std::mem::replace(&mut self.counted, after);
        MemoryChange { before, after }
    }
}

/// What the engine knows of a client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) transport: Transport,
    /// The user at the other end, if the system says who that is.
    pub(super) user: Option<u32>,
    /// The DNS names of the certificate that it showed.
    pub(super) certificate: Vec<String>,
    pub(super) kind: ClientKind,
    /// Features that both sides have.
    pub(super) features: u64,
    pub(super) phase: ClientPhase,
    /// Its name, without `@host`.
    pub(super) name: Arc<str>,
    pub(super) private: Arc<str>,
    pub(super) link: Option<ClientLink>,
    /// What it has to do with each order.
    pub(super) orders: PerOrder<ClientOrder>,
    /// Of its requests, how many join or leave.
    pub(super) group_requests: usize,
    /// Cost of the requests.
    pub(super) queued: usize,
    /// Bytes of a frame that has not come whole.
    pub(super) unfinished: usize,
    /// Questions that were not answered.
    pub(super) questions: usize,
    /// Groups that it asked to be in, and whether it does not want its own messages of them.
    pub(super) wanted: BTreeMap<Arc<str>, bool>,
    /// Of them, those for which it asked by patterns, and these.
    pub(super) patterns: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Groups of which it was told that a ring carries them that a join has made.
    pub(super) told: BTreeSet<Arc<str>>,
    /// The last number that it published.
    pub(super) last_number: u64,
    /// Messages that were published and are not accepted, in ascending order.
    undecided: VecDeque<(u64, Progress)>,
    /// The client's number up to which all is accepted.
    pub(super) accepted: u64,
    /// Messages for bimodal groups that wait.
    pub(super) bimodal_waiting: usize,
    /// Messages of bimodal groups that it missed because it was slow, and that were not reported to
    /// it yet.
    pub(super) missed: MissedRanges,
    /// Which guest it is, once it has said so.
    pub(super) guest: Option<AsGuest>,
    /// Unreliable messages that it missed.
    pub(super) dropped: u64,
    /// What it wants the daemon to do when it is slow.
    pub(super) when_slow: WhenSlow,
}

/// What a client has to do with one order.
#[derive(Debug, Default)]
pub(super) struct ClientOrder {
    pub(super) requests: VecDeque<Pending>,
    /// Whether it is among those that take turns at the order.
    pub(super) in_turn: bool,
    /// Whether its name was bound there.
    pub(super) bound: bool,
    /// Numbers that were bound to group names for its requests.
    pub(super) bindings: usize,
    /// The order's number up to which this daemon's messages have come back.
    back: u64,
    /// Where its last message went: most go where the one before them went.
    pub(super) addressed: Addressed,
}

impl ClientOrder {
    /// The daemon is another member of the order from now on. What the client asks for still waits.
    pub(super) fn begin_anew(&mut self) {
        *self = Self {
            requests: std::mem::take(&mut self.requests),
            in_turn: self.in_turn,
            ..Self::default()
        };
    }
}

/// Destinations of a message that was checked, and what they became in the order.
#[derive(Debug, Default)]
pub(super) struct Addressed {
    /// Label and destinations as they came from the client; empty before the first.
    pub(super) address: Vec<u8>,
    /// Whether there is a label among them.
    pub(super) labelled: bool,
    /// The envelope up to its payload. Groups and clients keep their numbers, so it stays right.
    pub(super) head: Vec<u8>,
}

impl Addressed {
    /// Whether `publish` goes where the message before it went.
    pub(super) fn is_of(&self, publish: &Publish) -> bool {
        self.labelled == publish.label().is_some() && self.address == publish.address_bytes()
    }
}

impl Client {
    /// How many patterns it has.
    pub(super) fn pattern_count(&self) -> usize {
        self.patterns.values().map(BTreeSet::len).sum()
    }

    /// One that just connected, to a daemon with so many orders.
    pub(super) fn new(transport: Transport, orders: usize) -> Self {
        Self {
            transport,
            user: None,
            certificate: Vec::new(),
            kind: ClientKind::Application,
            features: 0,
            phase: ClientPhase::Greeting,
            name: "".into(),
            private: "".into(),
            link: Some(ClientLink {
                decoder: FrameDecoder::new(HELLO_MAX),
                output: Output::new(),
                closing: false,
                frame_since: None,
                in_record: false,
                counted: 0,
                counted_on_disk: 0,
                taken: 0,
                spill_told: false,
                warned_at: None,
                dropped_told: 0,
                publish_window: 0,
                publish_outstanding: 0,
                publish_returned: 0,
                accepted_reported: 0,
            }),
            orders: PerOrder::new(orders, ClientOrder::default),
            group_requests: 0,
            queued: 0,
            unfinished: 0,
            questions: 0,
            wanted: BTreeMap::new(),
            patterns: BTreeMap::new(),
            told: BTreeSet::new(),
            last_number: 0,
            undecided: VecDeque::new(),
            accepted: 0,
            bimodal_waiting: 0,
            missed: MissedRanges::new(),
            guest: None,
            dropped: 0,
            when_slow: WhenSlow::default(),
        }
    }

    /// Who it is, for rules.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin {
            transport: self.transport,
            user: self.user,
            certificate: &self.certificate,
        }
    }

    /// Whether its requests are still read.
    pub(super) fn is_reading(&self) -> bool {
        let phase = matches!(
            self.phase,
            ClientPhase::Greeting | ClientPhase::AwaitingName(_) | ClientPhase::Open
        );
        phase && self.link.as_ref().is_some_and(|link| !link.closing)
    }

    /// The client published message `number`, which waits here.
    pub(super) fn published(&mut self, number: u64) {
        self.undecided.push_back((number, Progress::Waiting));
    }

    /// The message `number` of the client was handed over, as `placed` if it will come back in an
    /// order.
    pub(super) fn handed_over(&mut self, number: u64, placed: Option<(OrderIndex, u64)>) {
        if let Some(at) = self.find(number) {
            let placed = placed.map(|(on, number)| Progress::Placed(on, number));
            self.undecided[at].1 = placed.unwrap_or(Progress::Done);
        }
        self.settle();
    }

    /// The message `number` of the client was rejected after all.
    pub(super) fn turned_away(&mut self, number: u64) {
        if let Some(at) = self.find(number) {
            self.undecided.remove(at);
        }
        self.settle();
    }

    /// The order's message `placed` came back; messages of one daemon come back in the order of
    /// their submission.
    pub(super) fn came_back(&mut self, on: OrderIndex, placed: u64) {
        let back = &mut self.orders[on].back;
        *back = (*back).max(placed);
        self.settle();
    }

    /// The order's message `placed` came back without a place: that says nothing of others.
    pub(super) fn came_back_alone(&mut self, on: OrderIndex, placed: u64) {
        let is_it = |fate: &Progress| *fate == Progress::Placed(on, placed);
        let mut undecided = self.undecided.iter_mut();
        if let Some((_, fate)) = undecided.find(|(_, fate)| is_it(fate)) {
            *fate = Progress::Done;
        }
        self.settle();
    }

    /// The client's numbers of messages that the order has under the numbers `placed`.
    pub(super) fn placed(
        &self,
        on: OrderIndex,
        placed: RangeInclusive<u64>,
    ) -> impl Iterator<Item = u64> {
        let undecided = self.undecided.iter();
        undecided.filter_map(move |(number, progress)| match progress {
            Progress::Placed(order, at) if *order == on && placed.contains(at) => Some(*number),
            _ => None,
        })
    }

    /// Whether a message of it is on its way in the order.
    pub(super) fn awaits(&self, on: OrderIndex) -> bool {
        let mut undecided = self.undecided.iter();
        undecided.any(|(_, progress)| matches!(progress, Progress::Placed(at, _) if *at == on))
    }

    /// Whether requests of it wait.
    pub(super) fn has_requests(&self) -> bool {
        self.orders.iter().any(|of| !of.requests.is_empty())
    }

    /// How many messages were published and are not accepted.
    pub(super) fn unaccepted(&self) -> usize {
        self.undecided.len()
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.undecided
            .binary_search_by_key(&number, |(number, _)| *number)
            .ok()
    }

    /// Accepts what stands first and is done with.
    fn settle(&mut self) {
        let orders = &self.orders;
        let is_done = |fate: &Progress| match fate {
            Progress::Waiting => false,
            Progress::Placed(on, placed) => *placed <= orders[*on].back,
            Progress::Done => true,
        };
        while let Some((number, _)) = self.undecided.pop_front_if(|(_, fate)| is_done(fate)) {
            self.accepted = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: OrderIndex = OrderIndex::OWN;

    #[test]
    fn acceptance_covers_only_what_came_back() {
        let mut client = Client::new(Transport::Unix, 1);
        for number in [1, 2, 3, 5] {
            client.published(number);
        }
        client.handed_over(1, None);
        assert_eq!(client.accepted, 1);
        client.handed_over(2, Some((OWN, 10)));
        client.handed_over(3, None);
        client.handed_over(5, Some((OWN, 12)));
        assert_eq!(client.accepted, 1);
        client.came_back(OWN, 11);
        assert_eq!(client.accepted, 3);
        client.came_back(OWN, 12);
        assert_eq!(client.accepted, 5);
        assert_eq!(client.unaccepted(), 0);
    }

    #[test]
    fn what_overtakes_another_way_waits_for_those_before_it() {
        let mut client = Client::new(Transport::Unix, 1);
        for number in 1..=4 {
            client.published(number);
        }
        client.handed_over(3, None);
        client.handed_over(2, Some((OWN, 7)));
        client.came_back(OWN, 7);
        assert_eq!(client.accepted, 0);
        client.turned_away(1);
        assert_eq!((client.accepted, client.unaccepted()), (3, 1));
    }
}
