//! A node under attack: datagrams of strangers and of peers that hold the key, true and false
//! echoes, time that passes.
//!
//! Whatever comes: no panic, bounded tables, bounded answers, few members that get copies. And an
//! instance sees only datagrams of peers that proved themselves, each under the peer's own name and
//! once, even if the peer was forgotten and admitted again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use groupcast_core::event::Event;
use groupcast_core::node::{
    AdmissionConfig, Channel, Cookie, Echo, Hello, NodeConfig, Reach, Route,
};
use groupcast_core::seal::{AssociatedData, Sealer as _};
use groupcast_core::wire::{PREFIX_LEN, Prefix, VERSION};
use groupcast_core::{
    Incarnation, MemberId, Node, NodeId, Protocol, Rng, Time, Transmit, TransmitBuf,
};
use groupcast_sim::seal::{FakeSealer, TAG_LEN};

use super::Script;

const CLUSTER_KEY: u64 = 7;
const LOCAL: MemberId = MemberId {
    node: NodeId(1),
    incarnation: Incarnation(1),
};
const CHANNEL: Channel = Channel(1);
/// One more sender than the node admits, so that peers are evicted too.
const SENDERS: u64 = 4;
const ADMISSION: AdmissionConfig = AdmissionConfig {
    peers_max: 3,
    copies_max: 2,
    openings_max: 1_000,
    source_openings_max: 100,
    answers_max: 200,
    challenge_interval: Duration::from_millis(5),
    challenge_lifetime: Duration::from_secs(1),
};

/// Plays `script` to a node and its instance.
pub fn node(script: &[u8]) {
    let mut script = Script(script);
    let mut stage = FuzzStage::new();
    while let Some(step) = script.step() {
        stage.play(step, &mut script);
        stage.settle();
    }
}

/// An instance that remembers what it got.
#[derive(Default)]
struct Sink(Vec<(MemberId, Bytes)>);

impl Protocol for Sink {
    type Event = Event;

    fn handle_datagram(&mut self, _now: Time, from: MemberId, body: Bytes) {
        self.0.push((from, body));
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_transmit(&mut self, _now: Time, _buf: &mut TransmitBuf) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

struct FuzzStage {
    node: Node<Sink>,
    now: Time,
    buf: TransmitBuf,
    /// The last challenge that went to each address.
    challenges: BTreeMap<SocketAddr, Cookie>,
    /// Every sender's next counter: an honest one never uses one twice.
    counters: BTreeMap<Incarnation, u64>,
    /// The incarnations that echoed a challenge of the node, and as which nodes.
    proved: BTreeMap<Incarnation, BTreeSet<NodeId>>,
    /// Datagrams of honest senders, which the script may play again.
    recorded: Vec<(SocketAddr, BytesMut)>,
    accepted: u64,
    /// Which datagrams were taken, by sender and counter.
    taken: BTreeSet<(Incarnation, u64)>,
}

impl FuzzStage {
    fn new() -> Self {
        let config = NodeConfig {
            local: LOCAL,
            reach: Reach::Multicast,
            invited: Vec::new(),
            admission: ADMISSION,
        };
        let sealer = FakeSealer::new(CLUSTER_KEY, LOCAL.incarnation);
        let mut node = Node::new(config, Box::new(sealer), &Rng::new(1));
        node.open(CHANNEL, Sink::default());
        let buf = node.transmit_buf(16);
        Self {
            node,
            now: Time::ZERO,
            buf,
            challenges: BTreeMap::new(),
            counters: BTreeMap::new(),
            proved: BTreeMap::new(),
            recorded: Vec::new(),
            accepted: 0,
            taken: BTreeSet::new(),
        }
    }

    fn play(&mut self, step: u8, script: &mut Script<'_>) {
        match step % 6 {
            // Anything from anywhere.
            0 => {
                let from = address(script.u8());
                self.arrive(from, BytesMut::from(script.bytes()));
            }
            // Data of a sender that holds the key: to the group, to this node, to another.
            1 => {
                let (sender, how) = (sender(script), script.u8());
                let body = [&[how % 3], script.bytes()].concat();
                let addressee = match how >> 6 {
                    0 | 1 => None,
                    2 => Some(LOCAL.incarnation),
                    _ => Some(Incarnation(99)),
                };
                self.send(address(script.u8()), sender, addressee, &body);
            }
            // A hello of such a sender: perhaps a challenge, perhaps the true echo, perhaps
            // another.
            2 => {
                let (sender, from) = (sender(script), address(script.u8()));
                let how = script.u8();
                let asked = self.challenges.get(&from).copied();
                let cookie = match how % 3 {
                    0 => None,
                    1 => asked,
                    _ => Some(Cookie::from_bits(u64::from(script.u16()))),
                };
                let node = NodeId(u64::from(how >> 6));
                let challenge = Cookie::from_bits(u64::from(how));
                let hello = Hello {
                    challenge: (how & 4 != 0).then_some(challenge),
                    echo: cookie.map(|cookie| Echo {
                        node,
                        cookie,
                        multicast: how & 8 == 0,
                    }),
                };
                if cookie.is_some() && cookie == asked {
                    self.proved.entry(sender).or_default().insert(node);
                }
                let body = [&[Channel::NODE.0][..], &hello.encode()].concat();
                self.send(from, sender, Some(LOCAL.incarnation), &body);
            }
            // A recording.
            3 => {
                if !self.recorded.is_empty() {
                    let index = script.index(self.recorded.len());
                    let (from, datagram) = self.recorded[index].clone();
                    let moved = script.u8();
                    let from = if moved < 128 { from } else { address(moved) };
                    self.arrive(from, datagram);
                }
            }
            // A counter at the end of its range: the sender skips what is before.
            4 => {
                let sender = sender(script);
                let counter = Prefix::COUNTER_MAX - u64::from(script.u8() % 4);
                let next = self.counters.entry(sender).or_default();
                *next = counter.max(*next);
            }
            _ => {
                self.now += Duration::from_millis(u64::from(script.u16()));
                self.node.handle_timeout(self.now);
            }
        }
    }

    /// An honest sender seals `body` and sends it, unless it has used up its counters.
    fn send(
        &mut self,
        from: SocketAddr,
        sender: Incarnation,
        addressee: Option<Incarnation>,
        body: &[u8],
    ) {
        let next = self.counters.entry(sender).or_default();
        let counter = *next;
        if counter > Prefix::COUNTER_MAX {
            return;
        }
        *next = counter + 1;
        let mut sealer = FakeSealer::new(CLUSTER_KEY, sender);
        let prefix = Prefix {
            version: VERSION,
            cluster: sealer.cluster(),
            sender,
            addressed: addressee.is_some(),
            counter,
        };
        let clear = prefix.encode();
        let associated = AssociatedData::new(&clear, addressee);
        let mut datagram = BytesMut::from(&clear[..]);
        datagram.extend_from_slice(body);
        datagram.extend_from_slice(&[0; TAG_LEN]);
        let (_, sealed) = datagram.split_at_mut(PREFIX_LEN);
        let (body, tag) = sealed.split_at_mut(body.len());
        sealer.seal(prefix.nonce(), &associated, body, tag);
        if self.recorded.len() < 64 {
            self.recorded.push((from, datagram.clone()));
        }
        let before = self.node.counters().accepted;
        self.arrive(from, datagram);
        assert!(
            addressee.is_none_or(|it| it == LOCAL.incarnation)
                || self.node.counters().accepted == before,
            "a datagram to another was taken"
        );
    }

    fn arrive(&mut self, from: SocketAddr, datagram: BytesMut) {
        let prefix = Prefix::decode(&datagram);
        let before = self.node.counters().accepted;
        // Whether it is taken or rejected is seen in the counter and in what the instance got.
        let _ = self.node.handle_datagram(self.now, from, datagram);
        if self.node.counters().accepted > before {
            let prefix = prefix.expect("what was taken has a prefix");
            let new = self.taken.insert((prefix.sender, prefix.counter));
            assert!(new, "{prefix:?} was taken again");
        }
    }

    /// Drains the node and checks what holds after every step.
    fn settle(&mut self) {
        for sent in 0.. {
            assert!(sent < 512, "one input has endless answers");
            let Some(outgoing) = self.node.poll_transmit(self.now, &mut self.buf) else {
                break;
            };
            let Route::Unicast(to) = outgoing.route else {
                panic!("a hello goes to one address, not to {:?}", outgoing.route);
            };
            let segment = self.buf.as_bytes();
            let hello = Hello::decode(&segment[PREFIX_LEN + 1..]).expect("a node's own hello");
            if let Some(challenge) = hello.challenge {
                self.challenges.insert(to.address, challenge);
            }
        }
        assert!(self.node.peers().count() <= ADMISSION.peers_max);
        let copies = self.node.copies();
        assert!(copies.len() <= ADMISSION.copies_max);
        for copy in copies {
            let mut peers = self.node.peers();
            let is_peer = peers.any(|(_, address)| address == copy.address);
            assert!(is_peer, "a copy would go to {copy:?}");
        }
        let counted = self.node.counters().accepted;
        let got = std::mem::take(&mut self.node.instance_mut(CHANNEL).expect("it was opened").0);
        assert_eq!(self.accepted + got.len() as u64, counted);
        assert!(got.len() <= 1, "one datagram is handed over at most once");
        self.accepted = counted;
        for (from, _) in got {
            let names = self.proved.get(&from.incarnation);
            assert!(
                names.is_some_and(|names| names.contains(&from.node)),
                "{from} was believed without proof"
            );
        }
    }
}

fn sender(script: &mut Script<'_>) -> Incarnation {
    // Never the node's own.
    Incarnation(LOCAL.incarnation.0 + 1 + u64::from(script.u8()) % SENDERS)
}

fn address(choice: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000 + u16::from(choice % 8)))
}
