//! The world: hosts, network and agenda, and the rules by which one event leads to the next.
//!
//! A datagram crosses it in up to four events: it reaches the switch, it arrives at each host, it is handled when the
//! host's processor is free. After every event only the host that it touched is drained, and one timer event a host
//! waits at a time; it may come early (the timeout moved on), which costs a glance.

mod life;
mod process;
mod traffic;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use groupcast_core::node::Channel;
use groupcast_core::trace::Transition;
use groupcast_core::{MemberId, Node, Ordered, Rng, Time, TransmitBuf};

use crate::adversary::Adversary;
use crate::engine::Agenda;
use crate::host::{Datagram, Host, HostConfig, Received};
use crate::network::Network;
use crate::record::{Record, TraceHash};
use crate::trace::Trace;

/// Makes the protocol instance of a new process: who it is, its randomness, and what its clock shows.
pub type Factory<P> = Arc<dyn Fn(MemberId, Rng, Time) -> P + Send + Sync>;

/// The channel of the one protocol instance of each node.
pub(crate) const CHANNEL: Channel = Channel(1);

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
    /// A copy is at a host.
    Arrive { host: usize, received: Received },
    /// A host's processor takes the next datagram.
    Work { host: usize },
    /// A host's timeout may be due.
    Timer { host: usize, generation: u64 },
    /// The adversary strikes.
    Attack { generation: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Target {
    All,
    Host(usize),
}

/// A transition of a host's protocol, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transited {
    /// The world's time.
    pub at: Time,
    /// Whose.
    pub host: usize,
    /// What.
    pub transition: Transition,
}

pub(crate) struct World<P> {
    pub(crate) network: Network,
    pub(crate) hosts: Vec<Host<P>>,
    pub(crate) record: Rc<RefCell<Record>>,
    pub(crate) transitions: Vec<Transited>,
    pub(crate) trace: Option<Trace>,
    agenda: Agenda<Step>,
    host_config: HostConfig,
    /// Whether the network has multicast.
    multicast: bool,
    /// Whether the payloads of deliveries are kept for inspection.
    keep_payloads: bool,
    factory: Factory<P>,
    rng: Rng,
    incarnations: Rng,
    adversary: Option<Adversary>,
    attacks: u64,
    attacking: bool,
    hash: TraceHash,
    /// Taken only while a node writes into it.
    buf: Option<TransmitBuf>,
    mesh: Vec<SocketAddr>,
}

impl<P: Ordered> World<P> {
    pub(crate) fn new(
        hosts: usize,
        network: Network,
        host_config: HostConfig,
        multicast: bool,
        keep_payloads: bool,
        factory: Factory<P>,
        rng: Rng,
    ) -> Self {
        let buf = TransmitBuf::new(
            host_config.segments_max,
            Node::<P>::HEADROOM,
            crate::seal::TAG_LEN,
        );
        Self {
            network,
            hosts: (0..hosts).map(|_| Host::new()).collect(),
            record: Record::new(),
            transitions: Vec::new(),
            trace: None,
            agenda: Agenda::new(),
            host_config,
            multicast,
            keep_payloads,
            factory,
            incarnations: rng.fork("incarnations"),
            rng: rng.fork("hosts"),
            adversary: None,
            attacks: 0,
            attacking: false,
            hash: TraceHash::new(),
            buf: Some(buf),
            mesh: Vec::new(),
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

    /// Lets the next event happen, if it is due by `limit`; otherwise moves the clock there and returns false.
    pub(crate) fn step(&mut self, limit: Time) -> bool {
        let Some(step) = self.agenda.pop_until(limit) else {
            self.agenda.advance(limit);
            self.record.borrow_mut().now = limit;
            return false;
        };
        self.record.borrow_mut().now = self.agenda.now();
        match step {
            Step::Switch { datagram, target } => self.switch(&datagram, target),
            Step::Arrive { host, received } => self.arrive(host, received),
            Step::Work { host } => self.work(host),
            Step::Timer { host, generation } => self.time_out(host, generation),
            Step::Attack { generation } => self.attack(generation),
        }
        true
    }
}
