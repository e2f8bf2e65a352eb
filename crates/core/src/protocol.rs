//! The contract of a protocol: bytes and times in, bytes and times out.

use alloc::boxed::Box;

use bytes::Bytes;

use crate::event::Event;
use crate::id::{MemberId, MessageId};
use crate::service::Service;
use crate::status::{GroupStatus, Hearing};
use crate::time::Time;
use crate::trace::{Observable, Transition};
use crate::transmit::{SocketClass, Transmit, TransmitBuf};

/// What a host says of the link on which it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uplink {
    /// Bytes of what this process sent that have not left the host: they wait in its own queue.
    pub waits: u64,
    /// Bytes that the link has carried, whoever sent them, since some moment; `None` where the host
    /// does not tell.
    pub carried: Option<u64>,
}

/// A sans-IO protocol instance: no sockets, threads, clock, files or globals.
///
/// Drain order: one input (`handle_*`) or command, then [`poll_transmit`](Self::poll_transmit) and
/// [`poll_event`](Self::poll_event) until both are empty, then
/// [`poll_timeout`](Self::poll_timeout). Several inputs may come before the draining; the protocol
/// bounds what they can pile up. Every call does bounded work. Times never go back; a timeout may
/// be handled late, early or without need.
pub trait Protocol {
    /// What it tells its user: [`Event`] of a protocol that carries messages
    /// in a group. Another protocol has a type of its own.
    type Event: Observable;

    /// A datagram of an admitted peer: its body, authenticated. Junk is counted and dropped, never
    /// an error.
    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes);

    /// The same, where the host had the datagram at `arrived`, before the process read it: what it
    /// waited in the host is no delay of the network. Not after `now`.
    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        let _ = arrived;
        self.handle_datagram(now, from, body);
    }

    /// Time has passed: acts on every timer that is due.
    fn handle_timeout(&mut self, now: Time);

    /// Writes the next segments to send, all to one destination, into the empty `buf`; `None` if
    /// there are none.
    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit>;

    /// The next thing that the user should know.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// The next change of the protocol's state machine since the last call, for logs and for the
    /// swarm's coverage. It is no event: nothing is lost by not asking, and at most a few are kept.
    fn poll_transition(&mut self) -> Option<Transition> {
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    fn poll_timeout(&self) -> Option<Time>;

    /// Which socket to read first when both have something (002 III-C). It may change with every
    /// datagram. A protocol to which the order makes no difference leaves it as it is.
    fn read_first(&self) -> SocketClass {
        SocketClass::Control
    }

    /// Until when a host need not wake for anything but its control socket: what comes meanwhile,
    /// from others or from its users, is taken with the next datagram of control, or then. `None`:
    /// it wakes for all. A waking is dear where processors are few; a host may always wake earlier.
    fn dozes_until(&self) -> Option<Time> {
        None
    }

    /// Whether it needs what is sent to the group. While nothing on a host does, the host leaves
    /// the multicast group, so that the network does not carry it there; what is sent to the host
    /// alone reaches it all the same. It may change with every input, and before what comes of
    /// that input is sent.
    fn listens(&self) -> bool {
        true
    }

    /// Whether it wants to know how the link is on which its host sends: the host is asked for
    /// [`handle_uplink`](Self::handle_uplink) then.
    fn wants_uplink(&self, now: Time) -> bool {
        let _ = now;
        false
    }

    /// What its host says of the link on which it sends. Called before
    /// [`poll_transmit`](Self::poll_transmit), where the host can tell.
    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        let _ = (now, uplink);
    }

    /// Multicasts do not reach these members: from now on what is sent to the group goes to each of
    /// them as a copy of its own, besides the multicast. Called by a host that has multicast, at
    /// first and whenever they change.
    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        let _ = (now, members);
    }

    /// Whether `member`, one of those, is to get a copy of the segments that
    /// [`poll_transmit`](Self::poll_transmit) wrote last.
    fn copies_to(&self, member: MemberId) -> bool {
        let _ = member;
        true
    }
}

/// A protocol that carries the messages of a group: the ring, gossip.
pub trait Ordered: Protocol<Event = Event> {
    /// Accepts a message for the group, or says why not; nothing changes in that case.
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError>;

    /// The services that it carries: [`submit`](Self::submit) refuses all others.
    fn services(&self) -> &'static [Service];

    /// How it is doing, for status and logs. A protocol without configurations has nothing to say.
    fn status(&self) -> GroupStatus {
        GroupStatus::default()
    }

    /// Who is left out, and from whom nothing comes, as far as this member knows, for status and
    /// logs.
    fn hearing(&self, _now: Time) -> Hearing {
        Hearing::default()
    }

    /// Begins a graceful leave: what was accepted is delivered first. [`Event::Left`] says when it
    /// is done.
    fn leave(&mut self, now: Time);

    /// Who this is.
    fn local(&self) -> MemberId;
}

/// Why a message was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The queue is full: wait for [`Event::Writable`].
    #[error("the send queue is full ({queued} bytes wait): wait until there is room")]
    Full {
        /// How many bytes wait.
        queued: usize,
    },
    /// Longer than any message may be.
    #[error("a message of {len} bytes exceeds the limit of {max} bytes: send it in parts")]
    TooLarge {
        /// Its length in bytes.
        len: usize,
        /// The most bytes.
        max: usize,
    },
    /// This member is leaving or has left.
    #[error("the member is leaving the group: join again to send")]
    Leaving,
    /// The members that are here are no majority: a message that a majority must hold is not
    /// delivered among them.
    #[error(
        "the {members} members here are no majority of {of}: wait for the others, or use another \
         service"
    )]
    Minority {
        /// How many members the configuration has.
        members: usize,
        /// MaxN: a majority of this many is needed.
        of: usize,
    },
    /// The protocol does not carry this service.
    #[error(
        "what orders this group's messages does not carry the service {service}: choose another"
    )]
    Unsupported {
        /// The service asked for.
        service: Service,
    },
}

impl<P: Protocol + ?Sized> Protocol for Box<P> {
    type Event = P::Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        (**self).handle_datagram(now, from, body);
    }

    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        (**self).handle_arrival(now, arrived, from, body);
    }

    fn handle_timeout(&mut self, now: Time) {
        (**self).handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        (**self).poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<P::Event> {
        (**self).poll_event()
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        (**self).poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        (**self).poll_timeout()
    }

    fn read_first(&self) -> SocketClass {
        (**self).read_first()
    }

    fn dozes_until(&self) -> Option<Time> {
        (**self).dozes_until()
    }

    fn listens(&self) -> bool {
        (**self).listens()
    }

    fn wants_uplink(&self, now: Time) -> bool {
        (**self).wants_uplink(now)
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        (**self).handle_uplink(now, uplink);
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        (**self).handle_copies(now, members);
    }

    fn copies_to(&self, member: MemberId) -> bool {
        (**self).copies_to(member)
    }
}

impl<P: Ordered + ?Sized> Ordered for Box<P> {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        (**self).submit(now, service, payload)
    }

    fn services(&self) -> &'static [Service] {
        (**self).services()
    }

    fn status(&self) -> GroupStatus {
        (**self).status()
    }

    fn hearing(&self, now: Time) -> Hearing {
        (**self).hearing(now)
    }

    fn leave(&mut self, now: Time) {
        (**self).leave(now);
    }

    fn local(&self) -> MemberId {
        (**self).local()
    }
}
