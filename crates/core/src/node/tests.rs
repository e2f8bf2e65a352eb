//! Nodes that carry datagrams between one another: who takes what, and what a redirected or altered
//! one changes.

mod copies;
mod strangers;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

use super::*;
use crate::event::Event;
use crate::id::{Incarnation, NodeId, fnv1a};
use crate::seal::OpenError;

const CHANNEL: Channel = Channel(1);
const TAG_LEN: usize = 8;
/// Where a prefix has the bit that says *addressed*.
const ADDRESSED: (usize, u8) = (16, 0x80);

/// A checksum of all that a seal must bind. Everybody holds the key: there is none.
struct Checksum(Incarnation);

impl Checksum {
    fn of(sender: Incarnation, nonce: u64, associated: &AssociatedData, body: &[u8]) -> [u8; 8] {
        let mut all = Vec::new();
        all.extend_from_slice(&sender.0.to_be_bytes());
        all.extend_from_slice(&nonce.to_be_bytes());
        all.extend_from_slice(&(associated.as_bytes().len() as u64).to_be_bytes());
        all.extend_from_slice(associated.as_bytes());
        all.extend_from_slice(body);
        fnv1a(&all).to_be_bytes()
    }
}

impl Sealer for Checksum {
    fn overhead(&self) -> usize {
        TAG_LEN
    }

    fn cluster(&self) -> ClusterTag {
        ClusterTag(1)
    }

    fn seal(&mut self, nonce: u64, associated: &AssociatedData, body: &mut [u8], tag: &mut [u8]) {
        tag.copy_from_slice(&Self::of(self.0, nonce, associated, body));
    }

    fn open(
        &mut self,
        sender: Incarnation,
        nonce: u64,
        associated: &AssociatedData,
        sealed: &mut [u8],
    ) -> Result<(), OpenError> {
        let (body, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(OpenError)?;
        if *tag == Self::of(sender, nonce, associated, body) {
            Ok(())
        } else {
            Err(OpenError)
        }
    }

    fn has_key_of(&self, _: Incarnation) -> bool {
        false
    }

    fn keep(&mut self, _: Incarnation) {}

    fn forget(&mut self, _: Incarnation) {}
}

/// Sends what it is given and keeps what arrives.
#[derive(Default)]
struct Courier {
    outbox: VecDeque<(Destination, &'static str)>,
    inbox: Vec<(MemberId, Bytes)>,
    /// Who gets copies, as it was told last, and who of them is to get none.
    told: Vec<MemberId>,
    leaves_out: Option<MemberId>,
    /// Whether it wants to know how its host's link is, and what it was told.
    wants_uplink: bool,
    uplink: Option<Uplink>,
}

impl Protocol for Courier {
    type Event = Event;

    fn handle_datagram(&mut self, _: Time, from: MemberId, body: Bytes) {
        self.inbox.push((from, body));
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, _: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (destination, body) = self.outbox.pop_front()?;
        buf.push(&[body.as_bytes()]);
        Some(Transmit {
            destination,
            class: SocketClass::Control,
        })
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn wants_uplink(&self, _: Time) -> bool {
        self.wants_uplink
    }

    fn handle_uplink(&mut self, _: Time, uplink: Uplink) {
        self.uplink = Some(uplink);
    }

    fn handle_copies(&mut self, _: Time, members: &[MemberId]) {
        self.told = members.to_vec();
    }

    fn copies_to(&self, member: MemberId) -> bool {
        self.leaves_out != Some(member)
    }
}

/// A datagram on the wire.
#[derive(Clone)]
struct Sent {
    from: SocketAddr,
    route: Route,
    /// Where copies of it go, if it is for the group.
    copies: Vec<SocketAddr>,
    bytes: Vec<u8>,
}

/// Node `n` has address `n`; each has an instance in its first life.
struct Nodes(Vec<Node<Courier>>);

impl Nodes {
    /// `count` nodes that have admitted one another.
    fn introduced(count: usize) -> Self {
        let mut nodes = Self((0..count).map(|index| node(index, 1)).collect());
        for index in 0..count {
            nodes.submit(index, Destination::Group, "hello");
        }
        nodes.settle();
        for node in &mut nodes.0 {
            assert_eq!(node.peers().count(), count - 1);
            courier(node).inbox.clear();
        }
        nodes
    }

    fn submit(&mut self, index: usize, destination: Destination, body: &'static str) {
        courier(&mut self.0[index])
            .outbox
            .push_back((destination, body));
    }

    /// The datagram that node `index` sends next.
    fn sent(&mut self, index: usize) -> Option<Sent> {
        self.sent_at(Time::ZERO, index)
    }

    fn sent_at(&mut self, now: Time, index: usize) -> Option<Sent> {
        let node = &mut self.0[index];
        let mut buf = node.transmit_buf(1);
        let outgoing = node.poll_transmit(now, &mut buf)?;
        let mut copies: Vec<SocketAddr> = match outgoing.route {
            Route::Multicast | Route::Mesh => node.copied().iter().map(|it| it.address).collect(),
            Route::Unicast(_) => Vec::new(),
        };
        copies.sort();
        Some(Sent {
            from: address(index),
            route: outgoing.route,
            copies,
            bytes: buf.as_bytes().to_vec(),
        })
    }

    /// The datagram in which node `index` sends `body` to `destination`.
    fn seal(&mut self, index: usize, destination: Destination, body: &'static str) -> Sent {
        self.submit(index, destination, body);
        self.sent(index).expect("it was submitted")
    }

    fn deliver(&mut self, to: usize, sent: &Sent) -> Result<(), Rejected> {
        self.deliver_at(Time::ZERO, to, sent)
    }

    fn deliver_at(&mut self, now: Time, to: usize, sent: &Sent) -> Result<(), Rejected> {
        self.0[to].handle_datagram(now, sent.from, BytesMut::from(&sent.bytes[..]))
    }

    /// Carries every datagram to its addressees, until no node has anything to send.
    fn settle(&mut self) {
        self.settle_at(Time::ZERO);
    }

    fn settle_at(&mut self, now: Time) {
        while let Some(sent) = (0..self.0.len()).find_map(|index| self.sent_at(now, index)) {
            for to in 0..self.0.len() {
                let has_multicast = self.0[to].config.reach == Reach::Multicast;
                let meant = match sent.route {
                    Route::Unicast(at) => at.address == address(to),
                    Route::Multicast => sent.from != address(to) && has_multicast,
                    Route::Mesh => false,
                };
                if meant || sent.copies.contains(&address(to)) {
                    // First contact is refused until the hellos are through.
                    let _ = self.deliver_at(now, to, &sent);
                }
            }
        }
    }

    fn member(&self, index: usize) -> Destination {
        Destination::Member(self.0[index].local())
    }
}

fn node(index: usize, life: u64) -> Node<Courier> {
    node_with(index, life, Reach::Multicast, AdmissionConfig::default())
}

fn node_with(index: usize, life: u64, reach: Reach, admission: AdmissionConfig) -> Node<Courier> {
    inviting(index, life, (reach, &[]), admission)
}

/// A node that invites those at the addresses `invited`.
fn inviting(
    index: usize,
    life: u64,
    (reach, invited): (Reach, &[usize]),
    admission: AdmissionConfig,
) -> Node<Courier> {
    let local = MemberId {
        node: NodeId(index as u64),
        incarnation: Incarnation(1000 * life + index as u64),
    };
    let config = NodeConfig {
        local,
        reach,
        invited: invited.iter().map(|index| address(*index)).collect(),
        admission,
    };
    let rng = Rng::new(local.incarnation.0);
    let mut node = Node::new(config, Box::new(Checksum(local.incarnation)), &rng);
    node.open(CHANNEL, Courier::default());
    node
}

fn courier(node: &mut Node<Courier>) -> &mut Courier {
    node.instance_mut(CHANNEL).expect("it was opened")
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 79, 0, index as u8], 7000))
}

/// To node `index` alone, which has multicast.
fn unicast(index: usize) -> Route {
    Route::Unicast(Recipient::plain(address(index)))
}

/// That `rejected` datagrams were forged, and nothing else happened at `node` since `before`.
fn assert_only_forged(node: &mut Node<Courier>, before: NodeCounters, rejected: u64) {
    let expected = NodeCounters {
        forged: before.forged + rejected,
        ..before
    };
    assert_eq!(node.counters(), expected);
    let mut buf = node.transmit_buf(1);
    assert_eq!(node.poll_transmit(Time::ZERO, &mut buf), None, "no answer");
}

#[test]
fn the_hosts_link_is_asked_for_if_an_instance_wants_it() {
    let mut nodes = Nodes::introduced(2);
    let node = &mut nodes.0[0];
    assert!(!node.wants_uplink(Time::ZERO));
    courier(node).wants_uplink = true;
    assert!(node.wants_uplink(Time::ZERO));
    let uplink = Uplink {
        waits: 1400,
        carried: Some(9000),
    };
    node.handle_uplink(Time::ZERO, uplink);
    assert_eq!(courier(node).uplink, Some(uplink));
}

#[test]
fn what_is_for_one_member_is_forged_to_every_other() {
    let mut nodes = Nodes::introduced(3);
    let to_one = nodes.member(1);
    let token = nodes.seal(0, to_one, "token");
    let before = nodes.0[2].counters();
    assert_eq!(nodes.deliver(2, &token), Err(Rejected::Forged));
    assert_only_forged(&mut nodes.0[2], before, 1);
    assert!(courier(&mut nodes.0[2]).inbox.is_empty());

    // The very same bytes are good where they belong, once.
    assert_eq!(nodes.deliver(1, &token), Ok(()));
    assert_eq!(nodes.deliver(1, &token), Err(Rejected::Replayed));
    let zero = nodes.0[0].local();
    assert_eq!(
        courier(&mut nodes.0[1]).inbox,
        [(zero, Bytes::from_static(b"token"))]
    );
}

#[test]
fn what_is_for_the_group_is_taken_by_each_of_it() {
    let mut nodes = Nodes::introduced(3);
    let data = nodes.seal(0, Destination::Group, "data");
    assert_eq!(nodes.deliver(1, &data), Ok(()));
    assert_eq!(nodes.deliver(2, &data), Ok(()));
    assert_eq!(nodes.deliver(2, &data), Err(Rejected::Replayed));
}

#[test]
fn whether_a_datagram_is_addressed_cannot_be_changed() {
    let mut nodes = Nodes::introduced(3);
    let to_one = nodes.member(1);
    let (at, bit) = ADDRESSED;
    let mut token = nodes.seal(0, to_one, "token");
    let mut data = nodes.seal(0, Destination::Group, "data");
    assert_eq!((token.bytes[at] & bit, data.bytes[at] & bit), (bit, 0));
    token.bytes[at] ^= bit;
    data.bytes[at] ^= bit;
    for to in [1, 2] {
        assert_eq!(nodes.deliver(to, &token), Err(Rejected::Forged));
        assert_eq!(nodes.deliver(to, &data), Err(Rejected::Forged));
    }
}

#[test]
fn what_was_for_a_former_life_is_forged_to_the_next() {
    let mut nodes = Nodes::introduced(2);
    let to_one = nodes.member(1);
    let token = nodes.seal(0, to_one, "token");
    nodes.0[1] = node(1, 2);
    let before = nodes.0[1].counters();
    assert_eq!(nodes.deliver(1, &token), Err(Rejected::Forged));
    assert_only_forged(&mut nodes.0[1], before, 1);
}

#[test]
fn a_hello_says_nothing_to_any_but_its_addressee() {
    let mut nodes = Nodes::introduced(2);
    nodes.0.push(node(2, 1));
    // Node 2 has met no other: its datagram makes node 0 challenge it, and its answer is a
    // challenge too.
    let first = nodes.seal(2, Destination::Group, "here I am");
    assert_eq!(nodes.deliver(0, &first), Err(Rejected::Unadmitted));
    let challenge = nodes.sent(0).expect("a challenge");
    assert_eq!(challenge.route, unicast(2));
    let before = nodes.0[1].counters();
    assert_eq!(nodes.deliver(1, &challenge), Err(Rejected::Forged));
    assert_only_forged(&mut nodes.0[1], before, 1);

    assert_eq!(nodes.deliver(2, &challenge), Ok(()));
    let answer = nodes.sent(2).expect("an echo and a challenge");
    assert_eq!(nodes.deliver(1, &answer), Err(Rejected::Forged));
    assert_only_forged(&mut nodes.0[1], before, 2);
    assert_eq!(nodes.deliver(0, &answer), Ok(()));
    assert_eq!(nodes.0[0].peers().count(), 2);
    assert_eq!(nodes.0[1].peers().count(), 1);
}

#[test]
fn no_counter_is_used_twice_whatever_it_is_used_for() {
    let mut nodes = Nodes::introduced(2);
    let to_one = nodes.member(1);
    let destinations = [to_one, Destination::Group, Destination::Group, to_one];
    let counters = destinations.map(|destination| {
        let sent = nodes.seal(0, destination, "x");
        let prefix = Prefix::decode(&sent.bytes).expect("a node's own prefix");
        assert_eq!(prefix.addressed, destination == to_one);
        prefix.counter
    });
    assert!(counters.is_sorted_by(|one, next| next - one == 1));
}

#[test]
fn a_trusted_peer_is_heard_and_reached_without_a_handshake() {
    let mut nodes = Nodes((0..2).map(|index| node(index, 1)).collect());
    for (index, other) in [(0, 1), (1, 0)] {
        let member = nodes.0[other].local();
        nodes.0[index].trust(Time::ZERO, member, address(other));
    }
    let first = nodes.seal(0, nodes.member(1), "at once");
    assert_eq!(first.route, unicast(1));
    assert_eq!(nodes.deliver(1, &first), Ok(()));
    assert_eq!(nodes.deliver(1, &first), Err(Rejected::Replayed));
    assert_eq!(courier(&mut nodes.0[1]).inbox.len(), 1);
    assert!(nodes.sent(1).is_none(), "nothing is asked");
}

#[test]
fn a_copied_machine_is_noticed_by_the_one_that_has_sent_less() {
    let (mut one, mut copy) = (node(0, 1), node(0, 1));
    let said = |node: &mut Node<Courier>| {
        courier(node).outbox.push_back((Destination::Group, "x"));
        let mut buf = node.transmit_buf(1);
        node.poll_transmit(Time::ZERO, &mut buf).unwrap();
        buf.as_bytes().to_vec()
    };
    let heard = |node: &mut Node<Courier>, bytes: &[u8]| {
        node.handle_datagram(Time::ZERO, address(5), BytesMut::from(bytes))
    };
    let (first, _) = (said(&mut one), said(&mut copy));
    assert_eq!(
        heard(&mut copy, &first),
        Err(Rejected::Own),
        "a number of both"
    );
    let second = said(&mut one);
    assert_eq!(heard(&mut copy, &second), Err(Rejected::Twin));
    let third = said(&mut copy);
    assert_eq!(heard(&mut one, &third), Err(Rejected::Own), "it is ahead");
    let mut forged = said(&mut one);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(heard(&mut copy, &forged), Err(Rejected::Forged));
    assert_eq!((copy.counters().twin, copy.counters().own), (1, 1));
}
