//! The endpoint: a node, its sockets, its clock and its loop, one turn at a time.
//!
//! One thread owns it all. A turn waits (for the network, for the node's timers, for the caller's
//! own sources), reads the sockets in the order that the protocol asks for, runs the timers and
//! sends. Between turns the caller serves its clients and takes the node's events.

mod following;
mod membership;

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use groupcast_core::node::{Outgoing, Recipient, Rejected, Route};
use groupcast_core::{MemberId, Node, Protocol, SocketClass, Time};
use mio::Token;

pub use self::following::Moved;
use self::following::Seat;
use self::membership::Trouble;
use crate::clock::Clock;
use crate::config::{EndpointConfig, Group};
use crate::counters::{Counters, SendCounters};
use crate::error::NetError;
use crate::open::{EndpointBuilder, Sealing};
use crate::receive::{Receiver, Slabs};
use crate::report::{RejectionLog, Stranger};
use crate::send::Sender;
use crate::socket::{BufferReport, Sockets, datagram_max};
use crate::uplink;
use crate::wait::{Readiness, Waiter};

/// Which senders' datagrams are kept: those of the addresses for which it returns true.
pub type Filter = Box<dyn Fn(SocketAddr) -> bool>;

/// A [`Node`] on the network. See the [crate's example](crate).
///
/// Drain order: commands (through [`node_mut`](Self::node_mut)), then [`turn`](Self::turn), then
/// the node's `poll_event` and `poll_transition` until both are empty.
pub struct Endpoint<P> {
    config: EndpointConfig,
    node: Node<P>,
    clock: Clock,
    waiter: Waiter,
    control: Receiver,
    data: Receiver,
    slabs: Slabs,
    sender: Sender,
    /// What the link has carried on which it sends.
    uplink: uplink::Counters,
    filter: Option<Filter>,
    log: RejectionLog,
    buffer: BufferReport,
    /// When the clock was last read.
    seen: Option<Time>,
    /// Since when the sockets have not been empty at the end of a turn.
    backlog: Option<Time>,
    /// Receives in a row, from the preferred socket, that brought nothing acceptable.
    junk: usize,
    /// Whether the node may have more to send than the last flush took.
    unsent: bool,
    /// Whether the control socket is registered for room in its send buffer.
    watches_room: bool,
    may_doze: bool,
    /// Whether the data socket is in the multicast group.
    is_member: bool,
    /// Before this time the membership is not tried to change, because that has failed.
    rejoin_at: Time,
    /// Whether it cannot be where it should be, or in the group.
    trouble: Trouble,
    /// The interface that is followed, once it is known.
    seat: Option<Seat>,
    /// When it is looked at next.
    look_at: Time,
    /// Times that timers of the node were due.
    timers: u64,
    gaps: u64,
    gap_longest: Duration,
}

impl<P: Protocol> Endpoint<P> {
    /// The caller's tokens are below this one; this and all above are the endpoint's.
    pub const RESERVED_FROM: Token = Token(usize::MAX - 7);
    /// A longer time between two looks at the clock than was asked for is logged and counted as a
    /// scheduling gap.
    pub const GAP: Duration = Duration::from_millis(250);

    const CONTROL: Token = Self::RESERVED_FROM;
    const DATA: Token = Token(Self::RESERVED_FROM.0 + 1);
    /// No wait is longer, so that a gap cannot hide in it.
    const WAIT_MAX: Duration = Self::GAP;
    /// Timers wait for unread datagrams for at most this long: time to read a full receive buffer.
    const BACKLOG_MAX: Duration = Duration::from_millis(50);
    /// Batches that one flush sends at most.
    const BATCHES_MAX: usize = 1024;
    /// After this many receives of nothing but junk, the other socket has its turn: a flood must
    /// not starve it.
    const JUNK_MAX: usize = 8;

    /// Opens the endpoint of the member `local`, whose datagrams are sealed as `sealing` says.
    pub fn builder(
        config: EndpointConfig,
        local: MemberId,
        sealing: Sealing,
    ) -> EndpointBuilder<P> {
        EndpointBuilder::new(config, local, sealing)
    }

    /// Opens the sockets of `config` for `node`, whose own configuration says
    /// [`EndpointConfig::reach`].
    pub(crate) fn open(config: EndpointConfig, node: Node<P>) -> Result<Self, NetError> {
        config.check()?;
        let sockets = Sockets::open(&config)?;
        let waiter = Waiter::new(config.spin).map_err(NetError::system("create an epoll"))?;
        for (socket, token) in [
            (&sockets.control, Self::CONTROL),
            (&sockets.data, Self::DATA),
        ] {
            waiter
                .register(socket, token)
                .map_err(NetError::system("register a socket"))?;
        }
        let buf = node.transmit_buf(config.segments_max);
        Ok(Self {
            sender: Sender::new(buf, config.offload, config.send_patience),
            config,
            node,
            clock: Clock::start(),
            waiter,
            control: Receiver::new(sockets.control, Self::CONTROL),
            data: Receiver::new(sockets.data, Self::DATA),
            slabs: Slabs::new(),
            uplink: uplink::Counters::default(),
            filter: None,
            log: RejectionLog::default(),
            buffer: sockets.buffer,
            seen: None,
            backlog: None,
            junk: 0,
            unsent: false,
            watches_room: false,
            may_doze: true,
            is_member: true,
            rejoin_at: Time::ZERO,
            trouble: Trouble::default(),
            seat: None,
            look_at: Time::ZERO,
            timers: 0,
            gaps: 0,
            gap_longest: Duration::ZERO,
        })
    }

    /// Before the first turn: its time is that of `clock`.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// One turn: sends what is waiting, waits, reads, runs the timers, sends again.
    ///
    /// It waits until there is a datagram, a timer is due, a source of the caller's is ready or
    /// `max_wait` has passed (and not at all if there is work already), at most 250 ms. `ready` is
    /// cleared, then filled with the caller's ready sources; a token may appear more than once.
    /// While the node dozes (`Protocol::dozes_until`) only control and timers end the wait; what
    /// else there is, is taken then. The work is bounded by
    /// [`receive_max`](EndpointConfig::receive_max).
    ///
    /// # Errors
    /// Only what the network cannot cause: the system takes the epoll or a socket for unusable.
    pub fn turn(
        &mut self,
        max_wait: Option<Duration>,
        ready: &mut Vec<(Token, Readiness)>,
    ) -> io::Result<()> {
        self.await_work(max_wait, ready)?;
        self.work()
    }

    /// The first half of a turn: sends what is waiting, and waits. What the caller submits between
    /// the halves goes with what comes of the second: with a token that has arrived meanwhile.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn await_work(
        &mut self,
        max_wait: Option<Duration>,
        ready: &mut Vec<(Token, Readiness)>,
    ) -> io::Result<()> {
        ready.clear();
        let now = self.tick(Duration::ZERO);
        self.flush(now);
        self.watch_room()?;

        let wait = self.patience(now, max_wait);
        let left = self.doze(now, wait)?;
        self.wait(now, left, ready)?;
        let now = self.tick(wait);
        if self.sender.is_blocked() {
            self.flush(now);
        }
        Ok(())
    }

    /// The second half of a turn: reads, runs the timers, sends what comes of it. What was
    /// submitted before leaves at the latest with the next turn, or a [`flush`](Self::flush).
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn work(&mut self) -> io::Result<()> {
        self.receive()?;
        self.run_timers();
        Ok(())
    }

    /// Sends what the node has to send, without waiting: after commands that should not wait for
    /// the next turn.
    pub fn flush(&mut self, now: Time) {
        self.follow_membership(now);
        if self.node.wants_uplink(now) {
            let (address, sender) = (*self.config.listen.ip(), self.control.socket.as_fd());
            if let Some(uplink) = self.uplink.ask(now, address, sender) {
                self.node.handle_uplink(now, uplink);
            }
        }
        if self.sender.is_blocked() && !self.sender.drive(now, self.control.socket.as_fd()) {
            return;
        }
        self.unsent = false;
        for _ in 0..Self::BATCHES_MAX {
            let Some(outgoing) = self.node.poll_transmit(now, &mut self.sender.buf) else {
                return;
            };
            self.address(outgoing);
            self.sender.begin();
            if !self.sender.drive(now, self.control.socket.as_fd()) {
                return;
            }
        }
        self.unsent = true;
    }

    /// From now on drops the datagrams of all senders but those that `filter` keeps; `None` keeps
    /// all. Senders are known by their control addresses. For demonstrations and tests: a partition
    /// inside one process.
    pub fn set_filter(&mut self, filter: Option<Filter>) {
        self.filter = filter;
    }

    /// Whether it may doze when the node lets it, as it does at first: not while other sources of
    /// the caller's are as urgent as the node's control.
    pub fn set_may_doze(&mut self, may: bool) {
        self.may_doze = may;
    }

    /// The next turn is due after this long, unless its sockets have something before: for a caller
    /// whose thread waits elsewhere, for [`as_raw_fd`](Self::as_raw_fd) among others, and turns
    /// without waiting.
    pub fn due_within(&self) -> Duration {
        self.patience(self.clock.now(), None)
    }

    /// The caller has waited elsewhere since the last turn, as [`due_within`](Self::due_within)
    /// allows it: that time is no scheduling gap.
    pub fn waited_elsewhere(&mut self) {
        self.seen = None;
    }

    /// Where the caller registers its own sources, with tokens below
    /// [`RESERVED_FROM`](Self::RESERVED_FROM).
    pub fn registry(&self) -> &mio::Registry {
        self.waiter.registry()
    }

    /// The time, as the node knows it.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock, for other parts of the program that need the node's time.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The node that the endpoint hosts.
    pub fn node(&self) -> &Node<P> {
        &self.node
    }

    /// The node, for commands and to take its events.
    pub fn node_mut(&mut self) -> &mut Node<P> {
        &mut self.node
    }

    /// The configuration that it was opened with.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Whether the kernel granted the receive buffer: its [`warning`](BufferReport::warning) is for
    /// the log.
    pub fn receive_buffer(&self) -> BufferReport {
        self.buffer
    }

    /// The largest datagram that reaches the group and all that are invited (in a mesh, the first
    /// peer) unfragmented: its UDP payload in bytes, seal and prefix included, by the MTU of the
    /// interface and the ways as they are now; `None` if the system cannot tell. On loopback
    /// 65,507, the most that UDP carries.
    pub fn datagram_max(&self) -> Option<usize> {
        let to = match &self.config.group {
            Group::Multicast(group) => Some(*group),
            Group::Mesh(peers) => peers
                .iter()
                .find(|peer| **peer != self.config.listen)
                .copied(),
        };
        let all = to.into_iter().chain(self.config.invited.iter().copied());
        all.filter_map(|to| datagram_max(*self.config.listen.ip(), to))
            .min()
    }

    /// The largest body of a protocol that reaches the group unfragmented:
    /// [`datagram_max`](Self::datagram_max) less the prefix, the channel and the seal.
    pub fn body_max(&self) -> Option<usize> {
        let buf = self.node.transmit_buf(1);
        let framing = buf.headroom() + buf.tailroom();
        self.datagram_max().map(|max| max.saturating_sub(framing))
    }

    /// Who has sent datagrams here in the last ten minutes that do not belong to the group, the
    /// last of each kind; the node counts them.
    pub fn strangers(&self) -> impl Iterator<Item = Stranger> {
        self.log.strangers(self.now())
    }

    /// What was counted of sends since the start.
    pub fn sent(&self) -> SendCounters {
        self.sender.counters
    }

    /// How many bytes of datagrams were read since the start, for a caller that reads no more than
    /// it has time for.
    pub fn bytes_read(&self) -> u64 {
        self.control.counters.bytes + self.data.counters.bytes
    }

    /// What was counted since the start; asks the kernel for its drops (two system calls).
    pub fn counters(&mut self) -> Counters {
        self.control.count_drops();
        self.data.count_drops();
        Counters {
            control: self.control.counters,
            data: self.data.counters,
            sent: self.sender.counters,
            waits: self.waiter.calls,
            timers: self.timers,
            gaps: self.gaps,
            gap_longest: self.gap_longest,
        }
    }

    /// Reads the clock; `asked` is how long this thread wanted to sleep since the last time.
    fn tick(&mut self, asked: Duration) -> Time {
        let now = self.clock.now();
        let seen = self.seen.replace(now).unwrap_or(now);
        let gap = (now - seen).saturating_sub(asked);
        self.gap_longest = self.gap_longest.max(gap);
        if gap > Self::GAP {
            self.gaps += 1;
            tracing::warn!(
                "scheduling gap of {} ms: this process did not run, or was busy, for that long",
                gap.as_millis()
            );
        }
        now
    }

    fn patience(&self, now: Time, max_wait: Option<Duration>) -> Duration {
        let blocked = self.sender.is_blocked();
        if self.control.readable || self.data.readable || (self.unsent && !blocked) {
            return Duration::ZERO;
        }
        let max_wait = max_wait.map_or(Self::WAIT_MAX, |wait| wait.min(Self::WAIT_MAX));
        [self.node.poll_timeout(), self.sender.deadline()]
            .into_iter()
            .flatten()
            .min()
            .map_or(max_wait, |due| max_wait.min(due - now))
    }

    /// Waits for the control socket alone, while the node asks for no more; what is left of `wait`
    /// then, for everything. Nothing is, if it dozed: what has gathered is to be taken.
    fn doze(&mut self, now: Time, wait: Duration) -> io::Result<Duration> {
        let may = self.may_doze && !self.sender.is_blocked() && self.waiter.sleeps();
        let until = self.node.dozes_until().filter(|until| *until > now);
        let Some(until) = until.filter(|_| may && !wait.is_zero()) else {
            return Ok(wait);
        };
        self.waiter
            .wait_for(&self.control.socket, wait.min(until - now))?;
        Ok(Duration::ZERO)
    }

    fn wait(
        &mut self,
        now: Time,
        wait: Duration,
        ready: &mut Vec<(Token, Readiness)>,
    ) -> io::Result<()> {
        let (control, data) = (&mut self.control, &mut self.data);
        self.waiter.wait(self.clock, now, wait, |token, readiness| {
            sort(control, data, ready, token, readiness);
        })
    }

    /// Reads the sockets and sends what comes of it, until both are empty or the turn is long
    /// enough.
    fn receive(&mut self) -> io::Result<()> {
        let mut taken = 0;
        while taken < self.config.receive_max {
            let Some(class) = self.choose() else {
                break;
            };
            taken += self.receive_from(class)?;
        }
        Ok(())
    }

    /// Which socket to read next: the preferred one for as long as it has something (002 III-C).
    fn choose(&mut self) -> Option<SocketClass> {
        let (first, second) = match (self.node.read_first(), self.junk < Self::JUNK_MAX) {
            (SocketClass::Control, true) | (SocketClass::Data, false) => {
                (SocketClass::Control, SocketClass::Data)
            }
            (SocketClass::Data, true) | (SocketClass::Control, false) => {
                (SocketClass::Data, SocketClass::Control)
            }
        };
        [first, second]
            .into_iter()
            .find(|class| self.receiver(*class).readable)
    }

    fn receiver(&mut self, class: SocketClass) -> &mut Receiver {
        match class {
            SocketClass::Control => &mut self.control,
            SocketClass::Data => &mut self.data,
        }
    }

    /// Receives once; how many datagrams, at least 1 for the attempt.
    fn receive_from(&mut self, class: SocketClass) -> io::Result<usize> {
        let receiver = match class {
            SocketClass::Control => &mut self.control,
            SocketClass::Data => &mut self.data,
        };
        let Some(batch) = receiver.receive(&mut self.slabs)? else {
            // An empty socket is the other one's chance as well.
            self.junk = 0;
            return Ok(1);
        };
        // Either may have got something meanwhile. To try is as cheap as to ask, and brings it at
        // once.
        self.control.readable = true;
        self.data.readable = true;
        let now = self.tick(Duration::ZERO);
        self.waiter.traffic = now;
        let from = SocketAddr::V4(batch.received.from);
        let waited = batch.received.stamp.map_or(Duration::ZERO, waited_since);
        let arrived = Time::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos() as u64));
        if let Some(keep) = &self.filter
            && !keep(from)
        {
            self.receiver(class).counters.filtered += batch.count() as u64;
            return Ok(1);
        }
        let (mut taken, mut accepted) = (0, false);
        for datagram in batch {
            taken += 1;
            match self.node.handle_arrival(now, arrived, from, datagram) {
                Ok(()) => accepted = true,
                Err(rejected) => {
                    // Its own multicasts are no junk: they come as often as it sends.
                    accepted |= rejected == Rejected::Own;
                    self.log.note(now, from, &rejected);
                }
            }
        }
        self.junk = match (accepted, self.junk < Self::JUNK_MAX) {
            (false, true) => self.junk + 1,
            _ => 0,
        };
        self.flush(now);
        Ok(taken)
    }

    /// Runs the timers, unless what they wait for may lie unread in a socket: a process that was
    /// not scheduled for a while would otherwise take a token that has long arrived for lost. A
    /// socket that never empties does not hold them up for longer than
    /// [`BACKLOG_MAX`](Self::BACKLOG_MAX).
    fn run_timers(&mut self) {
        let now = self.tick(Duration::ZERO);
        if self.control.readable || self.data.readable {
            let since = *self.backlog.get_or_insert(now);
            if now - since < Self::BACKLOG_MAX {
                return;
            }
        } else {
            self.backlog = None;
        }
        if self.node.poll_timeout().is_some_and(|due| due <= now) {
            self.timers += 1;
            self.node.handle_timeout(now);
            self.flush(now);
        }
    }

    /// Turns the node's route into the addresses that the batch goes to.
    fn address(&mut self, outgoing: Outgoing) {
        let Self {
            config,
            node,
            sender,
            ..
        } = self;
        let is_data = outgoing.class == SocketClass::Data;
        let targets = &mut sender.targets;
        targets.clear();
        let of = |to: &Recipient| {
            let next_port = u16::from(is_data && to.data_apart);
            match to.address {
                SocketAddr::V4(address) => address
                    .port()
                    .checked_add(next_port)
                    .map(|port| SocketAddrV4::new(*address.ip(), port)),
                SocketAddr::V6(_) => None,
            }
        };
        sender.original = match (outgoing.route, &config.group) {
            (Route::Unicast(to), _) => {
                targets.extend(of(&to));
                Some(0)
            }
            (Route::Multicast, Group::Multicast(group)) => {
                let (before, after) = node.copied().split_at(node.copied_before());
                targets.extend(before.iter().filter_map(of));
                let original = targets.len();
                targets.push(*group);
                targets.extend(after.iter().filter_map(of));
                Some(original)
            }
            (Route::Mesh, _) => {
                targets.extend(node.copied().iter().filter_map(of));
                None
            }
            (Route::Multicast, Group::Mesh(_)) => {
                sender.counters.unroutable += 1;
                None
            }
        };
    }

    fn watch_room(&mut self) -> io::Result<()> {
        let blocked = self.sender.is_blocked();
        if blocked != self.watches_room {
            self.waiter
                .watch_room(&self.control.socket, Self::CONTROL, blocked)?;
            self.watches_room = blocked;
        }
        Ok(())
    }
}

impl<P: Protocol> AsRawFd for Endpoint<P> {
    /// Readable when one of its sockets is: for a caller that waits for several endpoints.
    fn as_raw_fd(&self) -> RawFd {
        self.waiter.as_raw_fd()
    }
}

/// Keeps what an event says of the endpoint's own sockets, and gives the rest to the caller.
fn sort(
    control: &mut Receiver,
    data: &mut Receiver,
    ready: &mut Vec<(Token, Readiness)>,
    token: Token,
    readiness: Readiness,
) {
    if let Some(receiver) = [control, data]
        .into_iter()
        .find(|receiver| receiver.token == token)
    {
        // An error is read like a datagram.
        receiver.readable |= readiness.readable || readiness.closed;
    } else {
        ready.push((token, readiness));
    }
}

/// How long a datagram has waited that the kernel got at `stamp`, by the system's clock. A clock
/// that was set meanwhile is wrong by as much, so that long waits are not believed.
fn waited_since(stamp: Duration) -> Duration {
    const MOST: Duration = Duration::from_secs(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let waited = now.unwrap_or_default().saturating_sub(stamp);
    if waited > MOST {
        Duration::ZERO
    } else {
        waited
    }
}
