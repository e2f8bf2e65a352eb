//! The world: hosts, network and agenda, and the rules by which one event leads to the next.
//!
//! A datagram crosses it in up to four events: it reaches the switch, it arrives at each host, it
//! is handled when the host's processor is free. After every event only the host that it touched is
//! drained, and one timer event a host waits at a time; it may come early, when the timeout has
//! been moved; then it does nothing.
//!
//! - `traffic`: datagrams from a process that sends to the hosts that they reach.
//! - `process`: what a host's processor does, and in what order.
//! - `user`: messages between a process and its user, which may be a client process.
//! - `flows`: TCP-like flows beside the protocol.
//! - `life`: starts, crashes, pauses, clocks; the adversary.

mod flows;
mod life;
mod measuring;
mod medium;
mod process;
mod traffic;
mod user;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use groupcast_check::{Contract, HeardBefore};
use groupcast_core::node::{Channel, Recipient};
use groupcast_core::trace::Transition;
use groupcast_core::{
    Configuration, Delivery, Instrumented, MemberId, MessageId, Rng, Time, TransmitBuf,
};

pub(crate) use self::measuring::Measuring;
pub(crate) use self::medium::Medium;
use crate::adversary::Adversary;
use crate::engine::Agenda;
use crate::fabric::{Effects, Hop, Target};
use crate::host::config::{HostConfig, Processors};
use crate::host::{Datagram, Host, Machine, Offered, Received};
use crate::record::{Record, TraceHash};
use crate::trace::Trace;

/// Makes the protocol instance of a new process: who it is, its randomness, and what its clock
/// shows.
pub type Factory<P> = Arc<dyn Fn(MemberId, Rng, Time) -> P + Send + Sync>;

/// The channel of the one protocol instance of each node.
pub(crate) const CHANNEL: Channel = Channel::SOLE;

/// The key of the only cluster there is.
const CLUSTER_KEY: u64 = 0x6772_6f75_7063_6173;

/// A protocol that leaves its next timeout due this often in a row would hang a host.
const SPINNING_MAX: u32 = 10_000;

#[derive(Debug)]
enum Step {
    /// A datagram is at the switch.
    Switch {
        datagram: Rc<Datagram>,
        target: Target,
    },
    /// A packet is at the end of a link of the fabric.
    Hop(Hop),
    /// A copy is at a host.
    Arrive { host: usize, received: Received },
    /// A host's processor takes the next datagram.
    Work { host: usize },
    /// A host that slept for all but control has done so for long enough.
    DozeEnds { host: usize },
    /// A datagram leaves its host: the call that sends it is done.
    Leave {
        datagram: Rc<Datagram>,
        target: Target,
    },
    /// A message of a client is at its daemon.
    Offered {
        host: usize,
        life: u64,
        offered: Box<Offered>,
    },
    /// The clients of a host take what waits for them.
    Clients { host: usize, life: u64 },
    /// The clients of a host have what they took.
    Delivered { host: usize, life: u64 },
    /// An interval begins in which a host's process may be forced to sleep.
    Perturb { host: usize, generation: u64 },
    /// A host's timeout may be due.
    Timer { host: usize, generation: u64 },
    /// A flow may have something to do.
    Flow { number: usize, generation: u64 },
    /// The adversary sends its next datagram.
    Attack { generation: u64 },
}

/// A transition of a host's protocol, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedTransition {
    /// The world's time.
    pub at: Time,
    /// The host whose protocol it is.
    pub host: usize,
    /// The change of state, with its cause.
    pub transition: Transition,
}

/// What a world reports to the measurement of an experiment, in the order in which it happens.
#[derive(Debug)]
pub(crate) enum WorldNotice {
    /// A process took a message of its user.
    Accepted {
        host: usize,
        id: MessageId,
        payload: Bytes,
    },
    /// A process refused a message of its user for good.
    Refused { host: usize },
    /// A message reached the user: the client, where there are clients.
    Delivered { host: usize, delivery: Delivery },
    /// A process installed a configuration.
    Configured {
        host: usize,
        configuration: Configuration,
    },
    /// A user whose message was not taken ([`Offer::Full`]) can try again.
    Room { host: usize },
}

/// What became of a message that a user offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// It is on its way to the process, which will accept or refuse it.
    Taken,
    /// Too much waits already; [`WorldNotice::Room`] says when there is room again.
    Full,
    /// No process runs there.
    Down,
}

pub(crate) struct World<P> {
    pub(crate) medium: Medium,
    pub(crate) hosts: Vec<Host<P>>,
    pub(crate) record: Rc<RefCell<Record>>,
    /// The number of the last message that each process submitted.
    pub(crate) submitted: BTreeMap<MemberId, u64>,
    /// From which message on each member must deliver or report what each sender sends.
    heard_before: Vec<HeardBefore>,
    pub(crate) transitions: Vec<RecordedTransition>,
    pub(crate) trace: Option<Trace>,
    agenda: Agenda<Step>,
    /// The machines that hosts share.
    machines: BTreeMap<u32, Machine>,
    /// What happened to messages, for a measurement that takes it out after every step; `None`
    /// without one, and then [`Seen`](crate::host::Seen) keeps the deliveries.
    pub(crate) told: Option<VecDeque<WorldNotice>>,
    /// Which hosts multicasts reach, and which so send some.
    multicast: Vec<bool>,
    /// Whether hosts with multicast know the addresses of those without, and invite them.
    pub(crate) invites: bool,
    /// Which hosts are in the multicast group, as far as their processes want
    /// ([`listens`](groupcast_core::Protocol::listens)).
    listening: Vec<bool>,
    /// Whether the payloads of deliveries are kept for inspection.
    keep_payloads: bool,
    /// Whether the record keeps what processes do, and the checker judges it.
    pub(crate) judged: bool,
    /// What the checker judges by.
    contract: Contract,
    /// TCP-like flows, by number.
    flows: Vec<flows::Placed>,
    factory: Factory<P>,
    rng: Rng,
    incarnations: Rng,
    adversary: Option<Adversary>,
    attacks: u64,
    attacking: bool,
    hash: TraceHash,
    /// Taken only while a node writes into it.
    buf: Option<TransmitBuf>,
    /// How many segments it takes.
    buf_segments: usize,
    /// Who gets copies of a datagram, while it is sent.
    copies: Vec<Recipient>,
    /// What the fabric's last call led to, empty between calls.
    effects: Effects,
    pub(crate) measuring: Option<Measuring>,
}

impl<P: Instrumented> World<P> {
    pub(crate) fn new(
        hosts: usize,
        medium: Medium,
        host_config: HostConfig,
        multicast: bool,
        keep_payloads: bool,
        factory: Factory<P>,
        rng: Rng,
    ) -> Self {
        let config = Rc::new(host_config);
        let mut world = Self {
            medium,
            hosts: (0..hosts).map(|_| Host::new(Rc::clone(&config))).collect(),
            record: Record::new(Contract::default()),
            submitted: BTreeMap::new(),
            heard_before: Vec::new(),
            transitions: Vec::new(),
            trace: None,
            agenda: Agenda::new(),
            machines: BTreeMap::new(),
            told: None,
            multicast: vec![multicast; hosts],
            invites: false,
            listening: vec![true; hosts],
            keep_payloads,
            judged: true,
            contract: Contract::default(),
            flows: Vec::new(),
            factory,
            incarnations: rng.fork("incarnations"),
            rng: rng.fork("hosts"),
            adversary: None,
            attacks: 0,
            attacking: false,
            hash: TraceHash::new(),
            buf: None,
            buf_segments: 0,
            copies: Vec::new(),
            effects: Effects::default(),
            measuring: None,
        };
        world.join_machine(&config);
        world
    }

    /// The checker holds what happens against `contract`. Before anything does.
    pub(crate) fn judge_by(&mut self, contract: Contract) {
        self.contract = contract;
        self.record = Record::new(contract);
    }

    /// No multicast reaches a host, and its processes send none. Before any begins there.
    pub(crate) fn without_multicast(&mut self, index: usize) {
        self.multicast[index] = false;
        if let Medium::Fabric(fabric) = &mut self.medium {
            fabric.set_joined(index, false);
        }
    }

    /// A host is like this from now on. Its process, if one runs, goes on.
    pub(crate) fn set_host(&mut self, index: usize, config: HostConfig) {
        self.join_machine(&config);
        self.hosts[index].config = Rc::new(config);
        self.perturb(index);
    }

    fn join_machine(&mut self, config: &HostConfig) {
        if let Processors::Shared { machine, cores } = config.processors {
            self.machines.entry(machine).or_default().grow(cores);
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.agenda.now()
    }

    pub(crate) fn events(&self) -> u64 {
        self.agenda.happened()
    }

    pub(crate) fn hash(&self) -> u64 {
        let mut hash = self.hash;
        hash.absorb(self.record.borrow().hash.value());
        hash.value()
    }

    /// Lets the next event happen, if it is due by `limit`; otherwise moves the clock there and
    /// returns false.
    pub(crate) fn step(&mut self, limit: Time) -> bool {
        let Some(step) = self.agenda.pop_until(limit) else {
            self.agenda.advance(limit);
            self.record.borrow_mut().now = limit;
            return false;
        };
        self.record.borrow_mut().now = self.agenda.now();
        match step {
            Step::Switch { datagram, target } => self.switch(&datagram, target),
            Step::Hop(hop) => self.hop(hop),
            Step::Arrive { host, received } => self.arrive(host, received),
            Step::Work { host } => self.work(host),
            Step::DozeEnds { host } => self.doze_ends(host),
            Step::Leave { datagram, target } => {
                self.depart(&datagram, target);
            }
            Step::Offered {
                host,
                life,
                offered,
            } => self.take_offer(host, life, *offered),
            Step::Clients { host, life } => self.wake_clients(host, life),
            Step::Delivered { host, life } => self.clients_have(host, life),
            Step::Perturb { host, generation } => self.may_sleep(host, generation),
            Step::Timer { host, generation } => self.time_out(host, generation),
            Step::Flow { number, generation } => self.flow_due(number, generation),
            Step::Attack { generation } => self.attack(generation),
        }
        true
    }
}
