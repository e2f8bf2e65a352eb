//! The state of one client: its connection, the requests that wait, the acceptance of its messages,
//! and the reports that it still has to get.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use groupcast_core::Time;
use groupcast_core::text::printable;

use super::access::Origin;
use super::bimodal::MissedRanges;
use super::clients::place_of;
use super::fact::Whence;
use super::guests::{AsGuest, GuestRequest};
use super::orders::{OrderIndex, PerOrder};
use super::output::Output;
use super::turns::Mark;
use crate::frame::{BusRequest, ClientKind, FrameDecoder, HELLO_MAX, Hello, Publish, credit_cost};
use crate::when_slow::WhenSlow;

/// The number of a client's connection, never used twice in a daemon's life. Messages of an order
/// name the client by it, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

/// The kind of socket by which a client is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A Unix socket.
    Unix,
    /// TCP, with or without TLS.
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

/// To whom is charged what stays when a client is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Owner {
    /// The user at the other end of a Unix socket.
    User(u32),
    /// The host from which it comes, over TCP.
    Host(IpAddr),
    /// The system does not say who it is.
    Unknown,
}

/// The phases of a client, from its connection to its end.
#[derive(Debug)]
pub(super) enum ClientPhase {
    /// Connected; its hello has not come.
    Greeting,
    /// Its hello has come, but another client, which is leaving, still has the name that it asks
    /// for.
    AwaitingName(Hello),
    /// The client is welcomed, and makes requests.
    Open,
    /// It makes no more requests. Its last ones are carried out, then it leaves all groups.
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
    /// A request of the bus, with its token.
    Bus(u64, BusRequest),
    /// A request to a group, an answer, or a claim to a role.
    Guest(GuestRequest),
    Disconnect,
}

impl Pending {
    /// The bytes that it counts for while it waits.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Join(group) | Self::Leave(group) => credit_cost(group.len()),
            Self::Publish(publish) => credit_cost(publish.stream_len()),
            Self::Bus(_, request) => credit_cost(request.len()),
            Self::Guest(request) => request.cost(),
            Self::Disconnect => 0,
        }
    }

    /// Whether it concerns membership or roles, rather than a message.
    pub(super) fn is_of_groups(&self) -> bool {
        match self {
            Self::Join(_) | Self::Leave(_) | Self::Bus(..) => true,
            Self::Guest(request) => request.is_of_roles(),
            Self::Publish(_) | Self::Disconnect => false,
        }
    }
}

/// The progress of a published message that is not accepted yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// It waits here.
    Waiting,
    /// The order has it, under this number.
    Placed(OrderIndex, u64),
    /// Its own promise is kept, but messages before it are not accepted yet.
    Done,
}

/// What has come of a client's input and is held in front of the engine: text of the bus, a TLS
/// record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InputAhead {
    /// Bytes of memory; 0 where a small buffer of fixed size holds it.
    pub bytes: usize,
    /// The number of the message or record that cannot be read before its rest has come, if that
    /// is to come in time; a later one has another number.
    pub unfinished: Option<u64>,
    /// The client's program has said nothing yet: its host has said hello for it.
    pub is_silent: bool,
}

/// The connection of a client.
#[derive(Debug)]
pub(super) struct ClientLink {
    pub(super) decoder: FrameDecoder,
    pub(super) output: Output,
    /// Nothing more is read, and the connection ends once the socket has taken the output.
    pub(super) closing: bool,
    /// When the unfinished frame began.
    pub(super) frame_since: Option<Time>,
    /// What has come of its input and not reached the decoder.
    pub(super) ahead: InputAhead,
    /// The share of this client in the sum of all clients' output memory.
    pub(super) counted: usize,
    /// What it had on a disk when that was last counted.
    pub(super) counted_on_disk: u64,
    /// Bytes that its socket has taken since its deadline as a slow client was last extended.
    pub(super) taken: usize,
    /// The log has said that what comes for it goes to a disk.
    pub(super) spill_told: bool,
    /// When it was last told that it is behind.
    pub(super) warned_at: Option<Time>,
    /// How many of the messages in [`Client::dropped`] it was told of.
    pub(super) dropped_told: u64,
    pub(super) publish_window: u64,
    /// Credit that its messages have used and that was not returned.
    pub(super) publish_outstanding: u64,
    /// Credit that the next output returns.
    pub(super) publish_returned: u64,
    /// The client's message number up to which acceptance was reported.
    pub(super) accepted_reported: u64,
}

/// A change of a client's share in the sum of all output memory.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct MemoryChange {
    pub(super) before: usize,
    pub(super) after: usize,
}

impl ClientLink {
    /// Bytes that have come and are not a frame yet.
    pub(super) fn unfinished(&self) -> usize {
        self.decoder.buffered() + self.ahead.bytes
    }

    /// Counts the memory of the output anew. A connection that is closing counts for nothing: its
    /// last output is short, and goes soon.
    pub(super) fn count_memory(&mut self) -> MemoryChange {
        let after = match self.closing {
            true => 0,
            false => self.output.memory(),
        };
        let before = std::mem::replace(&mut self.counted, after);
        MemoryChange { before, after }
    }
}

/// One client, connected or leaving.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) transport: Transport,
    /// The user at the other end, if the system says who that is.
    pub(super) user: Option<u32>,
    /// The address at the other end, over TCP.
    pub(super) address: Option<SocketAddr>,
    /// When it connected.
    pub(super) since: Time,
    /// The DNS names of the certificate that it showed.
    pub(super) certificate: Vec<String>,
    /// It has one of the places that are kept for tools of operators.
    pub(super) reserved: bool,
    pub(super) kind: ClientKind,
    /// The features that both sides support.
    pub(super) features: u64,
    pub(super) phase: ClientPhase,
    /// Its name, without `@host`.
    pub(super) name: Arc<str>,
    pub(super) private: Arc<str>,
    pub(super) link: Option<ClientLink>,
    /// Its state in each order.
    pub(super) orders: PerOrder<ClientOrder>,
    /// How many of its waiting requests concern membership or roles.
    pub(super) group_requests: usize,
    /// Cost of the waiting requests.
    pub(super) queued: usize,
    /// Bytes that have come and are not a frame yet.
    pub(super) unfinished: usize,
    /// Groups that it asked to be in; true where it does not want its own messages.
    pub(super) wanted: BTreeMap<Arc<str>, bool>,
    /// Those of them that it accepts with patterns, and its patterns.
    pub(super) patterns: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Groups for which it was told that a ring made by a join carries them.
    pub(super) told: BTreeSet<Arc<str>>,
    /// The number of its last published message.
    pub(super) last_number: u64,
    /// Its messages that are not accepted yet, ascending by number.
    undecided: VecDeque<(u64, Progress)>,
    /// The client's message number up to which all messages are accepted.
    pub(super) accepted: u64,
    /// How many of its messages for bimodal groups wait.
    pub(super) bimodal_waiting: usize,
    /// Messages of bimodal groups that it missed as a slow client and that no report has named yet.
    pub(super) missed: MissedRanges,
    /// Its identity as a guest, once it has said it.
    pub(super) guest: Option<AsGuest>,
    /// Unreliable messages that it missed.
    pub(super) dropped: u64,
    /// The policy that it asked for, should it be slow.
    pub(super) when_slow: WhenSlow,
}

/// The state of a client in one order.
#[derive(Debug, Default)]
pub(super) struct ClientOrder {
    pub(super) requests: VecDeque<Pending>,
    /// Whether it is in the order's queue of clients that submit in turn.
    pub(super) in_turn: bool,
    /// How far it is in sharing the order with others.
    pub(super) mark: Mark,
    /// Whether the order knows the client's name by its number.
    pub(super) bound: bool,
    /// How many group names its requests have bound to numbers.
    pub(super) bindings: usize,
    /// The order's message number up to which this client's messages have come back.
    back: u64,
    /// The destinations of its last message: most messages go where the one before them went.
    pub(super) addressed: Addressed,
}

impl ClientOrder {
    /// The daemon joins the order anew, as another member. Keeps the waiting requests and forgets
    /// everything else.
    pub(super) fn begin_anew(&mut self) {
        *self = Self {
            requests: std::mem::take(&mut self.requests),
            in_turn: self.in_turn,
            mark: self.mark,
            ..Self::default()
        };
    }
}

/// Checked destinations of a message, and the encoded envelope head that names them.
#[derive(Debug, Default)]
pub(super) struct Addressed {
    /// Label and destinations as they came from the client; empty before the first message.
    pub(super) address: Vec<u8>,
    /// Whether there is a label in `address`.
    pub(super) labelled: bool,
    /// The envelope up to its payload. Groups and clients keep their numbers, so it stays valid
    /// until the rings change.
    pub(super) head: Vec<u8>,
}

impl Addressed {
    /// Whether `publish` goes where the message before it went.
    pub(super) fn is_of(&self, publish: &Publish) -> bool {
        self.labelled == publish.label().is_some() && self.address == publish.address_bytes()
    }
}

impl Client {
    pub(super) fn owner(&self) -> Owner {
        match (self.user, self.address) {
            (Some(user), _) => Owner::User(user),
            (None, Some(address)) => Owner::Host(place_of(address.ip())),
            (None, None) => Owner::Unknown,
        }
    }

    /// The number of its patterns, in all groups.
    pub(super) fn pattern_count(&self) -> usize {
        self.patterns.values().map(BTreeSet::len).sum()
    }

    /// A client that has just connected, to a daemon with this many orders.
    pub(super) fn new(transport: Transport, orders: usize) -> Self {
        Self {
            transport,
            user: None,
            address: None,
            since: Time::ZERO,
            certificate: Vec::new(),
            reserved: false,
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
                ahead: InputAhead::default(),
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

    /// Its identity, for access rules.
    /// Where it connects from and who it is, for the log.
    pub(super) fn whence(&self) -> Whence {
        let name = self.certificate.first();
        Whence {
            address: self.address,
            user: self.user,
            certificate: name.map(|name| printable(name.as_bytes())),
        }
    }

    pub(super) fn origin(&self) -> Origin<'_> {
        Origin {
            transport: self.transport,
            user: self.user,
            certificate: &self.certificate,
        }
    }

    /// Forgets where its last messages went: other orders may carry their destinations now.
    pub(super) fn forget_addresses(&mut self) {
        for of_order in self.orders.iter_mut() {
            of_order.addressed = Addressed::default();
        }
    }

    /// Whether the engine still reads its requests.
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

    /// An order, or gossip, took the client's message `number`. `placed` is the order and its
    /// number for the message, if the message will come back.
    pub(super) fn handed_over(&mut self, number: u64, placed: Option<(OrderIndex, u64)>) {
        if let Some(at) = self.find(number) {
            let placed = placed.map(|(on, number)| Progress::Placed(on, number));
            self.undecided[at].1 = placed.unwrap_or(Progress::Done);
        }
        self.settle();
    }

    /// The client's message `number` was rejected after all.
    pub(super) fn turned_away(&mut self, number: u64) {
        if let Some(at) = self.find(number) {
            self.undecided.remove(at);
        }
        self.settle();
    }

    /// The order's message `placed` came back, and with it all before it: messages of one daemon
    /// come back in the order of their submission.
    pub(super) fn came_back(&mut self, on: OrderIndex, placed: u64) {
        let back = &mut self.orders[on].back;
        *back = (*back).max(placed);
        self.settle();
    }

    /// The order's message `placed` came back without a place, which says nothing about others.
    pub(super) fn came_back_alone(&mut self, on: OrderIndex, placed: u64) {
        let is_it = |progress: &Progress| *progress == Progress::Placed(on, placed);
        let mut undecided = self.undecided.iter_mut();
        if let Some((_, progress)) = undecided.find(|(_, progress)| is_it(progress)) {
            *progress = Progress::Done;
        }
        self.settle();
    }

    /// The client's numbers of its messages that the order has under the numbers `placed`.
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

    /// Whether a message of the client is on its way in the order.
    pub(super) fn awaits(&self, on: OrderIndex) -> bool {
        let mut undecided = self.undecided.iter();
        undecided.any(|(_, progress)| matches!(progress, Progress::Placed(at, _) if *at == on))
    }

    /// Whether requests of the client wait.
    pub(super) fn has_requests(&self) -> bool {
        self.orders.iter().any(|of| !of.requests.is_empty())
    }

    /// How many of its published messages are not accepted yet.
    pub(super) fn unaccepted(&self) -> usize {
        self.undecided.len()
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.undecided
            .binary_search_by_key(&number, |(number, _)| *number)
            .ok()
    }

    /// Accepts messages from the front of the list, as far as each is done with.
    fn settle(&mut self) {
        let orders = &self.orders;
        let is_done = |progress: &Progress| match progress {
            Progress::Waiting => false,
            Progress::Placed(on, placed) => *placed <= orders[*on].back,
            Progress::Done => true,
        };
        while let Some((number, _)) = self
            .undecided
            .pop_front_if(|(_, progress)| is_done(progress))
        {
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
