//! The test bed: a protocol that only carries datagrams, and several endpoints that take turns.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_core::node::Channel;
use groupcast_core::{
    Destination, Event, Incarnation, MemberId, NodeId, Protocol, Rng, SocketClass, Time, Transmit,
    TransmitBuf,
};
use groupcast_net::{Endpoint, EndpointConfig, Group, Key, NetError, Sealing, random_u64};

pub(crate) const CHANNEL: Channel = Channel::SOLE;

/// Everything ends within this time, or the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Carries what it is given, keeps what arrives, and counts its timer.
pub(crate) struct Courier {
    pub(crate) outbox: VecDeque<(Transmit, Vec<Vec<u8>>)>,
    pub(crate) inbox: Vec<(MemberId, Bytes)>,
    pub(crate) first: SocketClass,
    pub(crate) due: Option<Time>,
    pub(crate) dozes_until: Option<Time>,
    pub(crate) listens: bool,
    /// When the timer went off, and how much was in the inbox then.
    pub(crate) fired: Vec<(Time, usize)>,
}

impl Courier {
    pub(crate) fn new() -> Self {
        Self {
            outbox: VecDeque::new(),
            inbox: Vec::new(),
            first: SocketClass::Control,
            due: None,
            dozes_until: None,
            listens: true,
            fired: Vec::new(),
        }
    }

    /// Sends `datagrams`, of equal size but perhaps the last, in one batch.
    pub(crate) fn send(
        &mut self,
        destination: Destination,
        class: SocketClass,
        datagrams: Vec<Vec<u8>>,
    ) {
        let transmit = Transmit { destination, class };
        self.outbox.push_back((transmit, datagrams));
    }

    /// Sends `datagrams` to the group as data.
    pub(crate) fn send_data(&mut self, datagrams: Vec<Vec<u8>>) {
        self.send(Destination::Group, SocketClass::Data, datagrams);
    }

    /// What arrived from `member`.
    pub(crate) fn from(&self, member: MemberId) -> Vec<&[u8]> {
        self.inbox
            .iter()
            .filter(|(from, _)| *from == member)
            .map(|(_, body)| &body[..])
            .collect()
    }
}

impl Protocol for Courier {
    type Event = Event;

    fn handle_datagram(&mut self, _: Time, from: MemberId, body: Bytes) {
        self.inbox.push((from, body));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.due = None;
        self.fired.push((now, self.inbox.len()));
    }

    fn poll_transmit(&mut self, _: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (transmit, datagrams) = self.outbox.pop_front()?;
        for datagram in datagrams {
            buf.push(&[&datagram]);
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    fn read_first(&self) -> SocketClass {
        self.first
    }

    fn dozes_until(&self) -> Option<Time> {
        self.dozes_until
    }

    fn listens(&self) -> bool {
        self.listens
    }
}

/// Endpoints of one group, in one thread.
pub(crate) struct Bed {
    pub(crate) endpoints: Vec<Endpoint<Courier>>,
    pub(crate) members: Vec<MemberId>,
}

pub(crate) fn key() -> Key {
    Key::from_bytes([0x79; 32])
}

pub(crate) fn random_member() -> MemberId {
    let incarnation = Incarnation(random_u64().unwrap());
    MemberId {
        node: NodeId(incarnation.0 ^ 0xf00d),
        incarnation,
    }
}

/// A port below the ephemeral ones, with a free one after it as likely as not.
fn random_port() -> u16 {
    20_000 + (random_u64().unwrap() % 12_000) as u16
}

pub(crate) fn random_group() -> SocketAddrV4 {
    let [a, b, ..] = random_u64().unwrap().to_ne_bytes();
    SocketAddrV4::new(Ipv4Addr::new(239, 79, a, b), random_port())
}

pub(crate) fn random_listen() -> SocketAddrV4 {
    let [a, b, ..] = random_u64().unwrap().to_ne_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, 79, a, b.clamp(1, 254)), random_port())
}

/// With the key that all members have unless a test says otherwise.
pub(crate) fn sealing() -> Sealing {
    Sealing::Key(key())
}

pub(crate) fn open(
    config: EndpointConfig,
    member: MemberId,
    sealing: Sealing,
) -> Result<Endpoint<Courier>, NetError> {
    let mut endpoint = Endpoint::builder(config, member, sealing).open()?;
    endpoint.node_mut().open(CHANNEL, Courier::new());
    Ok(endpoint)
}

impl Bed {
    /// Members that reach each other by multicast, each configured by `tweak`.
    pub(crate) fn multicast(count: usize, tweak: impl Fn(usize, &mut EndpointConfig)) -> Self {
        let group = random_group();
        let configs = (0..count).map(|_| EndpointConfig::multicast(random_listen(), group));
        Self::open(configs.collect(), tweak)
    }

    /// Members that know each other's addresses.
    pub(crate) fn mesh(count: usize, tweak: impl Fn(usize, &mut EndpointConfig)) -> Self {
        let listen: Vec<SocketAddrV4> = (0..count).map(|_| random_listen()).collect();
        let configs = listen
            .iter()
            .map(|own| EndpointConfig::mesh(*own, listen.clone()));
        Self::open(configs.collect(), tweak)
    }

    /// `with` members that reach each other by multicast, and `without` more that have none and
    /// know the addresses of all.
    pub(crate) fn mixed(with: usize, without: usize) -> Self {
        let group = random_group();
        let listen: Vec<SocketAddrV4> = (0..with + without).map(|_| random_listen()).collect();
        let configs = listen.iter().enumerate().map(|(index, own)| {
            if index < with {
                EndpointConfig::multicast(*own, group)
            } else {
                EndpointConfig::mesh(*own, listen.clone())
            }
        });
        Self::open(configs.collect(), |_, _| {})
    }

    fn open(configs: Vec<EndpointConfig>, tweak: impl Fn(usize, &mut EndpointConfig)) -> Self {
        let members: Vec<MemberId> = configs.iter().map(|_| random_member()).collect();
        let endpoints = configs
            .into_iter()
            .zip(&members)
            .enumerate()
            .map(|(index, (mut config, member))| {
                tweak(index, &mut config);
                open(config, *member, sealing()).unwrap()
            })
            .collect();
        Self { endpoints, members }
    }

    /// Members that have admitted one another; their inboxes are empty.
    pub(crate) fn introduced(mut self) -> Self {
        let others = self.members.len() - 1;
        let all_know_all = |bed: &mut Self| {
            bed.endpoints
                .iter()
                .all(|endpoint| endpoint.node().peers().count() == others)
        };
        self.drive(|bed| {
            if all_know_all(bed) {
                return true;
            }
            for index in 0..bed.endpoints.len() {
                bed.courier(index).send_data(vec![b"hello".to_vec()]);
            }
            false
        });
        self.settle();
        for index in 0..self.endpoints.len() {
            self.courier(index).inbox.clear();
        }
        self
    }

    pub(crate) fn courier(&mut self, index: usize) -> &mut Courier {
        self.endpoints[index]
            .node_mut()
            .instance_mut(CHANNEL)
            .unwrap()
    }

    pub(crate) fn turn(&mut self, index: usize) {
        let mut ready = Vec::new();
        self.endpoints[index]
            .turn(Some(Duration::ZERO), &mut ready)
            .unwrap();
        assert!(ready.is_empty());
    }

    /// Lets every member take turns until `done` says so.
    pub(crate) fn drive(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "not done within {PATIENCE:?}");
            for index in 0..self.endpoints.len() {
                self.turn(index);
            }
        }
    }

    /// Lets every member take turns until all is quiet: nothing is under way on loopback once all
    /// have read.
    pub(crate) fn settle(&mut self) {
        let received = |bed: &mut Self| -> u64 {
            bed.endpoints
                .iter_mut()
                .map(|endpoint| {
                    let counters = endpoint.counters();
                    counters.control.datagrams + counters.data.datagrams
                })
                .sum()
        };
        let mut before = None;
        self.drive(|bed| {
            let now = Some(received(bed));
            std::mem::replace(&mut before, now) == now
        });
    }

    /// The multicast group's address.
    pub(crate) fn group(&self) -> SocketAddrV4 {
        match &self.endpoints[0].config().group {
            Group::Multicast(group) => *group,
            Group::Mesh(_) => panic!("a mesh has no multicast address"),
        }
    }
}

/// `count` datagrams of `len` bytes that differ in every byte position from one another, the last
/// one shorter.
pub(crate) fn batch(seed: u64, count: usize, len: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    (0..count)
        .map(|index| {
            let len = if index + 1 < count { len } else { len / 3 + 1 };
            (0..len).map(|_| rng.next_u64() as u8).collect()
        })
        .collect()
}
