//! Three nodes with a ring on each, joined by memory: what one sends, the others have at once, in
//! the order of sending.
//!
//! Time passes by a microsecond a datagram, and by leaps where nothing moves. Tokens and data wait
//! in queues of their own, read by the ring's priority, as sockets are.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use groupcast_core::node::{AdmissionConfig, NodeConfig, Reach, Route};
use groupcast_core::seal::Sealer;
use groupcast_core::{
    ConfigurationKind, Event, Incarnation, MemberId, Node, NodeId, Ordered as _, Rng, Service,
    SocketClass, SubmitError, Time, TransmitBuf,
};
use groupcast_net::{AesGcmSealer, InsecureSealer, Key, Purpose};
use groupcast_protocols::channel::RING;
use groupcast_protocols::ring::{Ring, RingConfig};

const HOSTS: usize = 3;
/// What one send holds at most, as the driver's.
const SEGMENTS: usize = 48;
/// Between two datagrams.
const STEP: Duration = Duration::from_micros(1);
/// No order after this much simulated time: something is wrong.
const PATIENCE: Time = Time::from_millis(60_000);

/// Orders `count` messages of each of the hosts, and delivers them everywhere.
pub(crate) fn order(count: u64, size: usize, sealed: bool) {
    let mut network = Network::new(size, sealed);
    network.run(|host| host.in_ring);
    for host in &mut network.hosts {
        host.wanted = count;
    }
    let all = count * HOSTS as u64;
    network.run(|host| host.delivered >= all);
}

struct Host {
    node: Node<Ring>,
    address: SocketAddr,
    token: VecDeque<(SocketAddr, BytesMut)>,
    data: VecDeque<(SocketAddr, BytesMut)>,
    payload: Vec<u8>,
    in_ring: bool,
    /// Messages that it is to submit, and how many it has.
    wanted: u64,
    submitted: u64,
    full: bool,
    delivered: u64,
}

struct Network {
    hosts: Vec<Host>,
    now: Time,
    buf: TransmitBuf,
}

impl Network {
    fn new(size: usize, sealed: bool) -> Self {
        let key = Key::from_bytes([7; Key::LEN]);
        let mut hosts: Vec<Host> = (0..HOSTS)
            .map(|index| Host::new(index, size, sealed.then_some(&key)))
            .collect();
        let known: Vec<_> = hosts
            .iter()
            .map(|host| (host.node.local(), host.address))
            .collect();
        for host in &mut hosts {
            for (member, address) in &known {
                if *member != host.node.local() {
                    host.node.trust(Time::ZERO, *member, *address);
                }
            }
        }
        let buf = hosts[0].node.transmit_buf(SEGMENTS);
        Self {
            hosts,
            now: Time::ZERO,
            buf,
        }
    }

    /// Lets time pass until it is `done` at every host.
    fn run(&mut self, done: impl Fn(&Host) -> bool) {
        while !self.hosts.iter().all(&done) {
            let mut moved = false;
            for index in 0..HOSTS {
                moved |= self.turn(index);
            }
            if !moved {
                let due = self
                    .hosts
                    .iter()
                    .filter_map(|host| host.node.poll_timeout());
                self.now = due
                    .min()
                    .expect("a ring always waits for something")
                    .max(self.now);
            }
            assert!(
                self.now < PATIENCE,
                "no order in a minute of simulated time"
            );
        }
    }

    /// One host takes a datagram, its timers and what it may submit, and sends; whether there was
    /// anything.
    fn turn(&mut self, index: usize) -> bool {
        let host = &mut self.hosts[index];
        let mut moved = host.submit(self.now);
        if let Some((from, datagram)) = host.next_datagram() {
            self.now += STEP;
            host.node
                .handle_datagram(self.now, from, datagram)
                .expect("nobody forges in memory");
            moved = true;
        }
        if host.node.poll_timeout().is_some_and(|due| due <= self.now) {
            host.node.handle_timeout(self.now);
            moved = true;
        }
        host.take_events();
        let from = host.address;
        while let Some(outgoing) = self.hosts[index]
            .node
            .poll_transmit(self.now, &mut self.buf)
        {
            for (receiver, host) in self.hosts.iter_mut().enumerate() {
                let reached = match outgoing.route {
                    Route::Unicast(to) => to.address == host.address,
                    Route::Multicast | Route::Mesh => receiver != index,
                };
                if reached {
                    host.receive(from, outgoing.class, &self.buf);
                }
            }
        }
        self.hosts[index].take_events();
        moved
    }
}

impl Host {
    fn new(index: usize, size: usize, key: Option<&Key>) -> Self {
        let local = MemberId {
            node: NodeId::from_name(&format!("host-{index}")),
            incarnation: Incarnation(index as u64 + 1),
        };
        let rng = Rng::new(index as u64);
        let sealer: Box<dyn Sealer> = match key {
            Some(key) => Box::new(AesGcmSealer::new(key, Purpose::Group, local.incarnation)),
            None => Box::new(InsecureSealer),
        };
        let config = NodeConfig {
            local,
            reach: Reach::Multicast,
            invited: Vec::new(),
            admission: AdmissionConfig::default(),
        };
        let mut node = Node::new(config, sealer, &rng.fork("node"));
        let ring = Ring::new(RingConfig::lan(), local, rng.fork("ring"), Time::ZERO)
            .expect("the preset is valid");
        node.open(RING, ring);
        Self {
            node,
            address: (Ipv4Addr::new(10, 79, 0, index as u8 + 1), 4810).into(),
            token: VecDeque::new(),
            data: VecDeque::new(),
            payload: vec![b'.'; size],
            in_ring: false,
            wanted: 0,
            submitted: 0,
            full: false,
            delivered: 0,
        }
    }

    /// Submits what the ring takes; whether it took any.
    fn submit(&mut self, now: Time) -> bool {
        let before = self.submitted;
        while self.submitted < self.wanted && !self.full {
            let payload = Bytes::copy_from_slice(&self.payload);
            let ring = self.node.instance_mut(RING).expect("opened at the start");
            match ring.submit(now, Service::Agreed, payload) {
                Ok(_) => self.submitted += 1,
                Err(SubmitError::Full { .. }) => self.full = true,
                Err(error) => panic!("the ring refuses a message: {error}"),
            }
        }
        self.submitted > before
    }

    fn next_datagram(&mut self) -> Option<(SocketAddr, BytesMut)> {
        match self.node.read_first() {
            SocketClass::Control => self.token.pop_front().or_else(|| self.data.pop_front()),
            SocketClass::Data => self.data.pop_front().or_else(|| self.token.pop_front()),
        }
    }

    /// The segments of one send, in one slab, as the driver reads them.
    fn receive(&mut self, from: SocketAddr, class: SocketClass, buf: &TransmitBuf) {
        let queue = match class {
            SocketClass::Control => &mut self.token,
            SocketClass::Data => &mut self.data,
        };
        let mut slab = BytesMut::from(buf.as_bytes());
        while !slab.is_empty() {
            let len = buf.segment_size().min(slab.len());
            queue.push_back((from, slab.split_to(len)));
        }
    }

    fn take_events(&mut self) {
        while let Some((_, event)) = self.node.poll_event() {
            match event {
                Event::Deliver(_) => self.delivered += 1,
                Event::Writable => self.full = false,
                Event::Configuration(configuration) => {
                    self.in_ring = configuration.kind == ConfigurationKind::Regular
                        && configuration.members.len() == HOSTS;
                }
                _ => {}
            }
        }
        while self.node.poll_transition().is_some() {}
    }
}
