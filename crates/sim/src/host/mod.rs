//! A host: one process at a time, two bounded receive buffers, a processor that takes its time, and
//! a clock of its own; perhaps client processes beside it.
//!
//! What a host is like is its [`HostConfig`] ([`config`]); named ones are in `presets`. What it
//! does, and when, is the world's: `world::process` for the network's side, `world::user` for its
//! user's.

pub mod config;
mod machine;
mod presets;
mod socket;

use std::cell::OnceCell;
use std::collections::{BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Configuration, Delivery, Gap, MemberId, MessageId, Node, Rng, Service, SocketClass, Time,
    Uplink,
};

use self::config::HostConfig;
pub(crate) use self::machine::Machine;
use self::socket::SocketBuffer;
pub use self::socket::SocketUse;
use crate::clock::{Clock, ClockRate};
use crate::flow::Segment;
use crate::measure::Reading;

/// What a host is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Its process runs.
    Up,
    /// Its process is stopped: nothing is handled, queues fill, timeouts come late.
    Paused,
    /// No process: not started yet, or crashed.
    Down,
    /// Its process left the group gracefully and ended.
    Left,
}

/// A datagram on its way.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// The host that sent it.
    pub(crate) from: usize,
    /// The address that it claims to come from.
    pub(crate) source: SocketAddr,
    pub(crate) class: SocketClass,
    pub(crate) bytes: Box<[u8]>,
    /// It belongs to this flow, and no process gets it.
    pub(crate) segment: Option<(usize, Segment)>,
    /// Bytes of UDP's payload: those of `bytes`, or of the segment, which is not written out.
    pub(crate) len: u32,
    /// What a meter reads in it, once for all who receive it.
    pub(crate) reading: OnceCell<Reading>,
}

impl Datagram {
    /// A datagram that no meter has read yet.
    pub(crate) fn new(
        from: usize,
        source: SocketAddr,
        class: SocketClass,
        bytes: Box<[u8]>,
    ) -> Self {
        Self {
            from,
            source,
            class,
            len: bytes.len() as u32,
            bytes,
            segment: None,
            reading: OnceCell::new(),
        }
    }

    /// A segment of a flow, `len` bytes beyond IP's header and UDP's.
    pub(crate) fn of_flow(from: usize, flow: usize, segment: Segment, len: u32) -> Self {
        Self {
            segment: Some((flow, segment)),
            len,
            ..Self::new(from, address(from), SocketClass::Data, Box::default())
        }
    }
}

/// A datagram in a receive queue.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) datagram: Rc<Datagram>,
    /// The bit that the network flipped in this copy.
    pub(crate) flipped: Option<u32>,
    /// When it came to the host.
    pub(crate) arrived: Time,
}

/// What the user of a host's current process saw.
#[derive(Clone, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) deliveries: Vec<Delivery>,
    /// Of which messages those are: tests ask for each of them after every event.
    pub(crate) delivered: BTreeSet<MessageId>,
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) name_in_use: bool,
}

impl Seen {
    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        self.delivered.insert(delivery.id);
        self.deliveries.push(delivery);
    }
}

/// How much of its processor and buffers a host has used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostLoad {
    /// Processor time of the process; and of its clients, unless they have cores of their own.
    pub processor: Duration,
    /// The receive buffer for data.
    pub data: SocketUse,
    /// The receive buffer for tokens and control.
    pub token: SocketUse,
    /// The most bytes of messages from the user that waited at once.
    pub offered_max: usize,
    /// The most messages that waited for a client at once.
    pub inbox_max: usize,
    /// Messages that were dropped because too many waited for a client.
    pub inbox_dropped: u64,
    /// How often the process was forced to sleep.
    pub sleeps: u64,
}

/// A message from the user that waits for the process.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) service: Service,
    pub(crate) payload: Bytes,
}

/// What a process is working on, until the work takes effect.
#[derive(Debug)]
pub(crate) enum Task {
    /// Receiving these datagrams with one call.
    Receive(Vec<Received>),
    /// Taking these messages of the user.
    Submit(Vec<Offered>),
    /// Giving these messages to the clients.
    Deliver(Vec<Delivery>),
}

/// The client processes of a host, seen as one: they do the same at the same time.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Messages that wait for them.
    pub(crate) inbox: VecDeque<Delivery>,
    /// What they are taking just now.
    pub(crate) hand: Vec<Delivery>,
    /// Whether they are awake, and take the next ones when they have those in hand.
    pub(crate) receiving: bool,
    /// When the sending client has done what it was given to send.
    pub(crate) sending_until: Time,
}

/// What a process has sent and its host has not: known from when the process first asks for it.
#[derive(Default, Debug)]
pub(crate) struct HostQueue {
    is_asked: bool,
    /// When each datagram will have left, and its bytes.
    leaving: VecDeque<(Time, usize)>,
    bytes: usize,
    /// Bytes that have left.
    carried: u64,
}

impl HostQueue {
    /// A datagram of this many bytes leaves, at the time that `at` says.
    pub(crate) fn note(&mut self, now: Time, bytes: usize, at: impl FnOnce() -> Time) {
        if self.is_asked {
            self.settle(now);
            self.leaving.push_back((at(), bytes));
            self.bytes += bytes;
        }
    }

    /// What the host says of its link, which carries nothing else.
    pub(crate) fn uplink(&mut self, now: Time) -> Uplink {
        self.is_asked = true;
        self.settle(now);
        Uplink {
            waits: self.bytes as u64,
            carried: Some(self.carried),
        }
    }

    fn settle(&mut self, now: Time) {
        while let Some((_, bytes)) = self.leaving.pop_front_if(|(at, _)| *at <= now) {
            self.bytes -= bytes;
            self.carried += bytes as u64;
        }
    }
}

/// A host: its process, sockets, processor and clock.
pub(crate) struct Host<P> {
    /// What of its process's datagrams waits for its link.
    pub(crate) queue: HostQueue,
    pub(crate) config: Rc<HostConfig>,
    pub(crate) status: Status,
    /// The process, also after it left or crashed, for inspection.
    pub(crate) node: Option<Node<P>>,
    /// How many processes have run here.
    pub(crate) lives: u64,
    pub(crate) seen: Seen,
    pub(crate) clock: Clock,
    pub(crate) rate: ClockRate,
    pub(crate) data: SocketBuffer,
    pub(crate) token: SocketBuffer,
    pub(crate) load: HostLoad,
    pub(crate) busy_until: Time,
    /// What takes effect at [`busy_until`](Self::busy_until).
    pub(crate) task: Option<Task>,
    /// Whether the process runs or at least is about to; otherwise it sleeps and must be woken.
    pub(crate) awake: bool,
    /// Datagrams received since the user had its turn.
    pub(crate) received_in_turn: u32,
    /// Messages from the user that wait for the process, and their bytes; those on their way from a
    /// client count too.
    pub(crate) offered: VecDeque<Offered>,
    pub(crate) offered_bytes: usize,
    /// Whether one of them came while the process slept for all but control: it reads its users
    /// before the control that it wakes for.
    pub(crate) offers_left: bool,
    /// Whether the protocol refused the first of them for want of room, and has not said yet that
    /// there is some.
    pub(crate) submit_blocked: bool,
    /// Whether the user was refused, and wants to know when there is room.
    pub(crate) wants_room: bool,
    /// Messages for the clients that the process has not given them yet.
    pub(crate) outbox: VecDeque<Delivery>,
    pub(crate) clients: Clients,
    /// Decides when the process is forced to sleep, if it ever is.
    pub(crate) perturbation_rng: Option<Rng>,
    /// Draws by how much longer each waking takes.
    pub(crate) wake_up_rng: Option<Rng>,
    /// Perturbations with another number are void: the process or its configuration has changed.
    pub(crate) perturbation: u64,
    /// Whether an event waits that takes the next piece of work.
    pub(crate) work_scheduled: bool,
    /// When the next timer event happens; earlier ones are void.
    pub(crate) timer: Option<Time>,
    pub(crate) timer_generation: u64,
    /// Timeouts handled in a row that left the next one due at once.
    pub(crate) spinning: u32,
}

impl<P> Host<P> {
    pub(crate) fn new(config: Rc<HostConfig>) -> Self {
        Self {
            config,
            status: Status::Down,
            node: None,
            lives: 0,
            seen: Seen::default(),
            clock: Clock::new(Time::ZERO, ClockRate::TRUE),
            rate: ClockRate::TRUE,
            data: SocketBuffer::default(),
            token: SocketBuffer::default(),
            queue: HostQueue::default(),
            load: HostLoad::default(),
            busy_until: Time::ZERO,
            task: None,
            awake: false,
            received_in_turn: 0,
            offered: VecDeque::new(),
            offered_bytes: 0,
            offers_left: false,
            submit_blocked: false,
            wants_room: false,
            outbox: VecDeque::new(),
            clients: Clients::default(),
            perturbation_rng: None,
            wake_up_rng: None,
            perturbation: 0,
            work_scheduled: false,
            timer: None,
            timer_generation: 0,
            spinning: 0,
        }
    }

    /// Whether a process exists, stopped or not: its sockets take datagrams.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.status, Status::Up | Status::Paused)
    }

    pub(crate) fn queues_are_empty(&self) -> bool {
        self.data.is_empty() && self.token.is_empty()
    }

    /// Whether there is anything to do but to wait for timeouts.
    pub(crate) fn has_work(&self) -> bool {
        !self.queues_are_empty()
            || self.task.is_some()
            || !self.outbox.is_empty()
            || (!self.offered.is_empty() && !self.submit_blocked)
    }

    /// Puts a datagram into its buffer, if there is room.
    pub(crate) fn enqueue(&mut self, buffer: SocketClass, received: Received) {
        match buffer {
            SocketClass::Data => self.data.push(&self.config.data_buffer, received),
            SocketClass::Control => self.token.push(&self.config.token_buffer, received),
        }
    }

    /// The next datagram, from the buffer `first` if it has one.
    pub(crate) fn dequeue(&mut self, first: SocketClass) -> Option<Received> {
        match first {
            SocketClass::Data => self
                .take(SocketClass::Data)
                .or_else(|| self.take(SocketClass::Control)),
            SocketClass::Control => self
                .take(SocketClass::Control)
                .or_else(|| self.take(SocketClass::Data)),
        }
    }

    fn take(&mut self, class: SocketClass) -> Option<Received> {
        match class {
            SocketClass::Data => self.data.pop(&self.config.data_buffer),
            SocketClass::Control => self.token.pop(&self.config.token_buffer),
        }
    }

    /// What one receiving call takes: at least a datagram if there is any, from the buffer `first`
    /// if it has one.
    pub(crate) fn dequeue_batch(&mut self, first: SocketClass) -> Vec<Received> {
        let Some(head) = self.dequeue(first) else {
            return Vec::new();
        };
        let (class, from, len) = (
            head.datagram.class,
            head.datagram.from,
            head.datagram.bytes.len(),
        );
        let mut batch = vec![head];
        while batch.len() < self.config.receive_batch as usize {
            let buffer = match class {
                SocketClass::Data => &self.data,
                SocketClass::Control => &self.token,
            };
            let Some(next) = buffer.front() else { break };
            let next_len = next.datagram.bytes.len();
            if self.config.coalesces && (next.datagram.from != from || next_len > len) {
                break;
            }
            let Some(next) = self.take(class) else { break };
            batch.push(next);
            if self.config.coalesces && next_len < len {
                break;
            }
        }
        batch
    }

    /// What it costs to do.
    pub(crate) fn task_cost(&self, task: &Task) -> Duration {
        let config = &self.config;
        match task {
            Task::Receive(batch) => {
                config.receive_cost(batch.iter().map(|received| received.datagram.bytes.len()))
            }
            Task::Submit(offers) => {
                let bytes: usize = offers.iter().map(|offered| offered.payload.len()).sum();
                config.submit.of(1, offers.len() as u64, bytes as u64)
            }
            Task::Deliver(deliveries) => {
                let receivers = config.clients.map_or(1, |clients| clients.receivers.max(1));
                let bytes: usize = deliveries.iter().map(|it| it.payload.len()).sum();
                let each = config.deliver.of(1, deliveries.len() as u64, bytes as u64);
                each * receivers
            }
        }
    }

    /// How much of its processor and buffers it has used.
    pub(crate) fn load(&self) -> HostLoad {
        HostLoad {
            data: self.data.used,
            token: self.token.used,
            ..self.load
        }
    }

    /// The process ended: its sockets and timers are gone, and what waited for it.
    pub(crate) fn close(&mut self, status: Status) {
        self.status = status;
        self.data.clear();
        self.token.clear();
        self.queue = HostQueue::default();
        self.task = None;
        self.awake = false;
        self.received_in_turn = 0;
        self.offered.clear();
        self.offered_bytes = 0;
        self.offers_left = false;
        self.submit_blocked = false;
        self.outbox.clear();
        self.clients = Clients::default();
        self.timer = None;
        self.timer_generation += 1;
    }
}

impl<P: groupcast_core::Protocol> Host<P> {
    /// The buffer that the node wants to be read first.
    pub(crate) fn read_first(&self) -> SocketClass {
        self.node
            .as_ref()
            .map_or(SocketClass::Control, Node::read_first)
    }

    /// Until when the process sleeps for all but control, as its node wants; `None` if it is awake,
    /// or wakes for everything.
    pub(crate) fn dozes_until(&self, now: Time) -> Option<Time> {
        let sleeps = self.busy_until <= now && !self.awake && !self.work_scheduled;
        let until = self.node.as_ref().filter(|_| sleeps)?.dozes_until()?;
        Some(self.clock.world(until)).filter(|until| *until > now)
    }

    /// The next thing to do, if there is any: datagrams first, as long as the user has a turn now
    /// and then.
    pub(crate) fn next_task(&mut self) -> Option<Task> {
        let receives = !self.queues_are_empty();
        let waited_enough = self.received_in_turn >= self.config.turn_max;
        let users_turn = !receives || waited_enough || self.offers_come_first();
        if users_turn || (self.config.deliver_first && !self.outbox.is_empty()) {
            if let Some(task) = self.next_for_user() {
                return Some(task);
            }
            self.received_in_turn = 0;
        }
        let first = self.read_first();
        receives.then(|| Task::Receive(self.dequeue_batch(first)))
    }

    /// Whether users wait that are read before any datagram.
    pub(crate) fn offers_come_first(&self) -> bool {
        self.offers_left && !self.offered.is_empty() && !self.submit_blocked
    }

    /// The next thing to do for the user, if there is any.
    pub(crate) fn next_for_user(&mut self) -> Option<Task> {
        if !self.outbox.is_empty() {
            return Some(Task::Deliver(self.outbox.drain(..).collect()));
        }
        if self.offered.is_empty() || self.submit_blocked {
            return None;
        }
        let most = self
            .config
            .clients
            .map_or(1, |clients| clients.batch.max(1));
        let count = self.offered.len().min(most as usize);
        self.received_in_turn = 0;
        self.offers_left = false;
        Some(Task::Submit(self.offered.drain(..count).collect()))
    }

    pub(crate) fn member(&self) -> Option<MemberId> {
        self.node.as_ref().map(Node::local)
    }
}

const PORT: u16 = 4810;

/// The invented address of host number `index`.
pub(crate) fn address(index: usize) -> SocketAddr {
    let last = u32::from(Ipv4Addr::new(10, 0, 0, 1)) + index as u32;
    SocketAddrV4::new(Ipv4Addr::from(last), PORT).into()
}

/// The host behind an address, if it is one of `hosts`.
pub(crate) fn host_at(address: SocketAddr, hosts: usize) -> Option<usize> {
    let SocketAddr::V4(address) = address else {
        return None;
    };
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 1));
    let index = u32::from(*address.ip()).checked_sub(first)? as usize;
    (index < hosts).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_left_waits_no_more_and_is_counted_for_who_asks() {
        let mut queue = HostQueue::default();
        let at = Time::from_millis;
        queue.note(at(0), 100, || at(5));
        assert_eq!(queue.uplink(at(0)).waits, 0, "nobody had asked");
        queue.note(at(1), 100, || at(6));
        queue.note(at(1), 1000, || at(8));
        let told = [1, 5, 6, 7, 8].map(|millis| queue.uplink(at(millis)));
        let waits = told.map(|it| it.waits);
        assert_eq!(waits, [1100, 1100, 1000, 1000, 0]);
        let carried = told.map(|it| it.carried.unwrap_or_default());
        assert_eq!(carried, [0, 0, 100, 100, 1100]);
    }

    #[test]
    fn addresses_and_hosts_belong_together() {
        for index in [0, 1, 8, 300] {
            assert_eq!(host_at(address(index), 301), Some(index));
        }
        assert_eq!(host_at(address(3), 3), None);
        assert_eq!(address(0).to_string(), "10.0.0.1:4810");
    }
}
