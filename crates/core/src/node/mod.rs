//! A node: many protocol instances behind one surface of sealed datagrams.
//!
//! The node is what the simulator and the network driver host. On the way in it checks the prefix,
//! opens the seal, holds each sender to its replay window and admits only peers that proved to be
//! alive (`admission.rs`); on the way out it seals every segment in place and turns members into
//! addresses. What goes to one member is sealed for that member alone: to every other member, and
//! to a later incarnation of the same node, it is forged. Whatever fails is counted and dropped.
//!
//! Body of a datagram, under the seal: one byte *channel*, then the channel's own format. Channel 0
//! is the node's own (admission); every protocol instance has another.

mod admission;
mod cookie;
mod copies;
mod hello;
mod limits;
mod peer;
mod rejected;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::{Buf as _, BytesMut};

pub use self::admission::AdmissionConfig;
use self::admission::{Admission, Admitted, Arrival, OutgoingHello, Refusal};
pub use self::hello::{Cookie, Echo, Hello};
pub use self::peer::Recipient;
pub use self::rejected::{NodeCounters, Rejected};
use crate::id::{Incarnation, MemberId};
use crate::protocol::{Protocol, Uplink};
use crate::rng::Rng;
use crate::seal::{AssociatedData, SameTag, Sealer};
use crate::time::Time;
use crate::trace::{Observable as _, Observation, Observer, Transition};
use crate::transmit::{Destination, SocketClass, Transmit, TransmitBuf};
use crate::wire::{ClusterTag, PREFIX_LEN, Prefix, VERSION};

/// Which protocol instance of a node a datagram belongs to. 0 is the node itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Channel(pub u8);

impl Channel {
    /// The node's own.
    pub const NODE: Self = Self(0);
    /// That of the only protocol on a node, for hosts that run one of any kind: the simulator,
    /// tests, measurements.
    pub const SOLE: Self = Self(1);
}

/// Where the driver sends a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// To the group's multicast address, and the same bytes to each of [`Node::copied`]: peers that
    /// have no multicast. Of those, [`Node::copied_before`] come first.
    Multicast,
    /// The same bytes to each of [`Node::copied`], because this node has no multicast.
    Mesh,
    /// To this one alone.
    Unicast(Recipient),
}

/// How this node reaches the group. Nodes of both kinds can be in one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// By IP multicast, and by a unicast copy to each admitted peer that has none.
    Multicast,
    /// By a unicast copy to each of these addresses, and to every peer that makes itself known;
    /// multicasts do not reach this node, as the others learn when they admit it.
    Mesh(Vec<SocketAddr>),
}

/// A datagram (or several segments) ready for the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Where it goes: to the group, or to one address.
    pub route: Route,
    /// Which socket of the receiver takes it.
    pub class: SocketClass,
}

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Who this is.
    pub local: MemberId,
    /// How the group is reached.
    pub reach: Reach,
    /// Where there is multicast, the addresses of members that have none and need not know this
    /// one: they are invited until they have proved that they are there. Default: none.
    pub invited: Vec<SocketAddr>,
    /// How many peers are admitted, and how they are challenged.
    pub admission: AdmissionConfig,
}

/// Hosts protocol instances, one a channel: seals what they send and gives them what was
/// authenticated and admitted. The order in which to drain it is that of [`Protocol`].
pub struct Node<P> {
    config: NodeConfig,
    sealer: Box<dyn Sealer>,
    /// The next datagram's: at ten million a second, 63 bits last for 29,000 years.
    counter: u64,
    admission: Admission,
    /// Who gets a copy of what was polled last.
    copied: Vec<Recipient>,
    /// How many of them get it before the multicast address does.
    copied_before: usize,
    /// How often something went to the multicast address and in copies.
    turn: usize,
    /// The list of peers without multicast that the instances were told last.
    told: u64,
    instances: Vec<(Channel, P)>,
    observer: Option<Box<dyn Observer>>,
    counters: NodeCounters,
}

impl<P: Protocol> Node<P> {
    /// Bytes before a body: the prefix and the channel.
    pub const HEADROOM: usize = PREFIX_LEN + 1;

    /// A node without instances. `rng` makes challenges unpredictable: seed it from the operating
    /// system.
    pub fn new(config: NodeConfig, sealer: Box<dyn Sealer>, rng: &Rng) -> Self {
        let admission = Admission::new(
            config.local,
            config.reach.clone(),
            config.invited.clone(),
            config.admission,
            &rng.fork("admission"),
        );
        Self {
            config,
            sealer,
            counter: 0,
            copied: Vec::new(),
            copied_before: 0,
            turn: 0,
            told: admission.copied_members().1,
            admission,
            instances: Vec::new(),
            observer: None,
            counters: NodeCounters::default(),
        }
    }

    /// Opens `channel`: its datagrams go to `instance` from now on.
    ///
    /// # Panics
    /// If the channel is the node's own or open already: the caller's bug.
    pub fn open(&mut self, channel: Channel, instance: P) {
        assert!(
            channel != Channel::NODE && self.instance(channel).is_none(),
            "{channel:?} is taken"
        );
        self.instances.push((channel, instance));
    }

    /// From now on `observer` sees what happens here, beginning with [`Observation::Start`].
    pub fn observe_with(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
        self.observe(&Observation::Start);
    }

    /// Tells the observer of something that no event shows: submissions and group views.
    pub fn observe(&mut self, observation: &Observation) {
        if let Some(observer) = &mut self.observer {
            observer.observe(self.config.local, observation);
        }
    }

    /// Whether there is an observer. Without one, payloads need not be hashed.
    pub fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// A buffer for [`poll_transmit`](Self::poll_transmit), with room for this node's framing.
    pub fn transmit_buf(&self, segments_max: usize) -> TransmitBuf {
        TransmitBuf::new(segments_max, Self::HEADROOM, self.sealer.overhead())
    }

    /// A datagram arrived from `from`. Whatever is wrong with it is counted and returned, for the
    /// log.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: BytesMut,
    ) -> Result<(), Rejected> {
        self.handle_arrival(now, now, from, datagram)
    }

    /// The same, where the host had the datagram at `arrived`, before the process read it.
    pub fn handle_arrival(
        &mut self,
        now: Time,
        arrived: Time,
        from: SocketAddr,
        datagram: BytesMut,
    ) -> Result<(), Rejected> {
        let result = self.accept(now, arrived.min(now), from, datagram);
        match &result {
            Ok(()) => {}
            Err(rejected) => self.counters.count(rejected),
        }
        result
    }

    fn accept(
        &mut self,
        now: Time,
        arrived: Time,
        from: SocketAddr,
        datagram: BytesMut,
    ) -> Result<(), Rejected> {
        let prefix = Prefix::decode(&datagram)?;
        if !self.sealer.takes(prefix.cluster) {
            return Err(self.other_cluster(prefix.cluster));
        }
        if prefix.sender == self.config.local.incarnation {
            return Err(self.own_or_twin(now, from, &prefix, datagram));
        }
        let mut body = datagram;
        let mut clear = [0; PREFIX_LEN];
        body.copy_to_slice(&mut clear);
        if body.len() < self.sealer.overhead() + 1 {
            return Err(Rejected::TooShort);
        }
        // A key costs far more than a look at the prefix.
        let at_hand = self.sealer.has_key_of(prefix.sender);
        if !at_hand && !self.admission.may_open(now, from, prefix.sender) {
            return Err(Rejected::Unexamined);
        }
        let addressee = prefix.addressed.then_some(self.config.local.incarnation);
        let associated = AssociatedData::new(&clear, addressee);
        self.sealer
            .open(prefix.sender, prefix.nonce(), &associated, &mut body)
            .map_err(|_| Rejected::Forged)?;
        body.truncate(body.len() - self.sealer.overhead());
        let channel = Channel(body.get_u8());
        let arrival = Arrival {
            now,
            from,
            prefix,
            len: body.len(),
        };
        if channel == Channel::NODE {
            if !prefix.addressed {
                // A hello that goes to all would have all of them answer at once.
                return match Hello::is_invitation(&body) {
                    true => self
                        .admission
                        .handle_invitation(arrival)
                        .judged()
                        .map(|_| ()),
                    false => Err(Rejected::Channel),
                };
            }
            let hello = Hello::decode(&body).map_err(|_| Rejected::Channel)?;
            let admitted = self.admission.handle_hello(arrival, hello);
            let admitted = admitted.map_err(|refusal| match refusal {
                Refusal::Replayed => Rejected::Replayed,
                Refusal::TooManyCopies => Rejected::TooManyCopies,
            })?;
            if let Some(admitted) = admitted {
                self.admitted(prefix.sender, admitted);
            }
            return Ok(());
        }
        let sender = self.admission.handle_counter(arrival).judged()?;
        let (_, instance) = self
            .instances
            .iter_mut()
            .find(|(open, _)| *open == channel)
            .ok_or(Rejected::Channel)?;
        self.counters.accepted += 1;
        instance.handle_arrival(now, arrived, sender, body.freeze());
        Ok(())
    }

    /// Why a datagram that is sealed under a key which this node does not use is rejected.
    fn other_cluster(&self, theirs: ClusterTag) -> Rejected {
        match self.sealer.was_used(theirs) {
            true => Rejected::OldKey,
            false => Rejected::Cluster {
                theirs,
                ours: self.sealer.cluster(),
            },
        }
    }

    /// Opens datagrams under the cluster's key `secret` too, from now on.
    ///
    /// # Errors
    /// It cannot be told from the one in use; nothing has changed.
    pub fn learn_key(&mut self, secret: &[u8; 32]) -> Result<(), SameTag> {
        self.sealer.learn(secret)
    }

    /// Seals under the key that was learned. All peers must have learned it.
    pub fn use_learned_key(&mut self) {
        self.sealer.switch();
    }

    /// Opens nothing any more under the key that is not in use; `was_used` says that it was before,
    /// so that who still uses it can be told.
    pub fn drop_other_key(&mut self, was_used: bool) {
        self.sealer.drop_other(was_used);
    }

    /// Judges a datagram that carries this process's own incarnation: its own, or that of a twin (a
    /// copied machine). The twin that has sent fewer datagrams notices, because the other's counter
    /// is ahead of its own; recordings of this process have counters that it has used.
    fn own_or_twin(
        &mut self,
        now: Time,
        from: SocketAddr,
        prefix: &Prefix,
        datagram: BytesMut,
    ) -> Rejected {
        // What a twin sends to one member is not for this process to open.
        let is_new = prefix.counter >= self.counter && !prefix.addressed;
        if !is_new || datagram.len() < PREFIX_LEN + self.sealer.overhead() {
            return Rejected::Own;
        }
        if !self.admission.may_open(now, from, prefix.sender) {
            return Rejected::Unexamined;
        }
        let mut body = datagram;
        let mut clear = [0; PREFIX_LEN];
        body.copy_to_slice(&mut clear);
        let associated = AssociatedData::new(&clear, None);
        let nonce = prefix.nonce();
        match self
            .sealer
            .open(prefix.sender, nonce, &associated, &mut body)
        {
            Ok(()) => Rejected::Twin,
            Err(_) => Rejected::Forged,
        }
    }

    /// Admits `member` at `address` without the handshake, because the host vouches for it: for
    /// members that have multicast and are known to be new, as a simulator's are. A replay of what
    /// it sent before is not detected.
    pub fn trust(&mut self, now: Time, member: MemberId, address: SocketAddr) {
        if let Some(admitted) = self.admission.trust(now, member, address) {
            self.admitted(member.incarnation, admitted);
        }
    }

    fn admitted(&mut self, peer: Incarnation, admitted: Admitted) {
        self.counters.admitted += 1;
        self.sealer.keep(peer);
        if let Some(evicted) = admitted.evicted {
            self.sealer.forget(evicted);
        }
    }

    /// Lets the instances whose timers are due by `now` act. A call that is early or late does no
    /// harm.
    pub fn handle_timeout(&mut self, now: Time) {
        for (_, instance) in &mut self.instances {
            if instance.poll_timeout().is_some_and(|due| due <= now) {
                instance.handle_timeout(now);
            }
        }
    }

    /// Fills `buf` (cleared first) with the next sealed segments, all for one route.
    pub fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Outgoing> {
        buf.clear();
        self.copied.clear();
        self.copied_before = 0;
        self.tell_of_copies(now);
        if let Some(OutgoingHello {
            to,
            addressee,
            hello,
            len,
        }) = self.admission.poll_transmit()
        {
            buf.push(&[&hello.encode()[..len]]);
            self.seal(Channel::NODE, addressee, buf);
            return Some(Outgoing {
                route: Route::Unicast(Recipient::plain(to)),
                class: SocketClass::Control,
            });
        }
        for index in 0..self.instances.len() {
            loop {
                let (channel, instance) = &mut self.instances[index];
                let channel = *channel;
                let Some(transmit) = instance.poll_transmit(now, buf) else {
                    break;
                };
                match self.route(transmit) {
                    Some(route) => {
                        if transmit.destination == Destination::Group {
                            self.admission.ask_quiet(now);
                            self.admission.invite(now);
                        }
                        self.choose_copied(route, index);
                        self.take_turns(route);
                        let addressee = match transmit.destination {
                            Destination::Group => None,
                            Destination::Member(member) => Some(member.incarnation),
                        };
                        self.seal(channel, addressee, buf);
                        return Some(Outgoing {
                            route,
                            class: transmit.class,
                        });
                    }
                    None => {
                        self.counters.unroutable += 1;
                        buf.clear();
                    }
                }
            }
        }
        None
    }

    /// Tells the instances which members get copies, if that has changed.
    fn tell_of_copies(&mut self, now: Time) {
        let (members, version) = self.admission.copied_members();
        if version == self.told {
            return;
        }
        self.told = version;
        let members: Vec<MemberId> = members.iter().map(|(member, _)| *member).collect();
        for (_, instance) in &mut self.instances {
            instance.handle_copies(now, &members);
        }
    }

    /// Who gets a copy of what instance `index` has just written, each address once.
    fn choose_copied(&mut self, route: Route, index: usize) {
        let Self {
            admission,
            instances,
            copied,
            ..
        } = self;
        match route {
            Route::Unicast(_) => {}
            Route::Mesh => copied.extend_from_slice(admission.copies()),
            Route::Multicast => {
                let (members, _) = admission.copied_members();
                for (member, recipient) in members {
                    let is_listed = copied.iter().any(|it| it.address == recipient.address);
                    if !is_listed && instances[index].1.copies_to(*member) {
                        copied.push(*recipient);
                    }
                }
            }
        }
    }

    /// Each time another is first, of the multicast address and those that get copies: where the
    /// way to all is full, what leaves last is lost, and it must not always be lost to one.
    fn take_turns(&mut self, route: Route) {
        if route != Route::Multicast || self.copied.is_empty() {
            return;
        }
        let places = self.copied.len() + 1;
        // The multicast address is the first, then come the copies.
        let first = self.turn % places;
        self.turn = self.turn.wrapping_add(1);
        self.copied.rotate_left(first.saturating_sub(1));
        self.copied_before = (places - first) % places;
    }

    fn route(&self, transmit: Transmit) -> Option<Route> {
        match (transmit.destination, &self.config.reach) {
            (Destination::Group, Reach::Multicast) => Some(Route::Multicast),
            (Destination::Group, Reach::Mesh(_)) => Some(Route::Mesh),
            (Destination::Member(member), _) => {
                self.admission.recipient(member).map(Route::Unicast)
            }
        }
    }

    /// Frames and seals every segment for `addressee`, or for the group.
    fn seal(&mut self, channel: Channel, addressee: Option<Incarnation>, buf: &mut TransmitBuf) {
        let overhead = self.sealer.overhead();
        for segment in buf.segments_mut() {
            let prefix = Prefix {
                version: VERSION,
                cluster: self.sealer.cluster(),
                sender: self.config.local.incarnation,
                addressed: addressee.is_some(),
                counter: self.counter,
            };
            let clear = prefix.encode();
            self.counter += 1;
            self.counters.sealed += 1;
            let (head, rest) = segment.split_at_mut(PREFIX_LEN);
            head.copy_from_slice(&clear);
            let (body, tag) = rest.split_at_mut(rest.len() - overhead);
            body[0] = channel.0;
            let associated = AssociatedData::new(&clear, addressee);
            self.sealer.seal(prefix.nonce(), &associated, body, tag);
        }
    }

    /// The next event of any instance. The observer sees it first.
    // Events are large: a call of its own would copy each once more.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(Channel, P::Event)> {
        for (channel, instance) in &mut self.instances {
            let Some(event) = instance.poll_event() else {
                continue;
            };
            if let Some(observer) = &mut self.observer
                && let Some(observation) = event.observation()
            {
                observer.observe(self.config.local, &observation);
            }
            return Some((*channel, event));
        }
        None
    }

    /// The next change of any instance's state machine.
    pub fn poll_transition(&mut self) -> Option<(Channel, Transition)> {
        self.instances
            .iter_mut()
            .find_map(|(channel, instance)| Some((*channel, instance.poll_transition()?)))
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if ever.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.instances
            .iter()
            .filter_map(|(_, instance)| instance.poll_timeout())
            .min()
    }

    /// Which socket to read first: data if any instance asks for it.
    pub fn read_first(&self) -> SocketClass {
        if self
            .instances
            .iter()
            .any(|(_, instance)| instance.read_first() == SocketClass::Data)
        {
            SocketClass::Data
        } else {
            SocketClass::Control
        }
    }

    /// Until when a host need wake for its control socket alone: as long as every instance says so
    /// ([`Protocol::dozes_until`]).
    pub fn dozes_until(&self) -> Option<Time> {
        // `None` is less than any time: who wants everything decides.
        let each = self.instances.iter().map(|(_, it)| it.dozes_until());
        each.min().flatten()
    }

    /// Whether any instance wants to know how the link is on which the host sends
    /// ([`Protocol::wants_uplink`]).
    pub fn wants_uplink(&self, now: Time) -> bool {
        self.instances.iter().any(|(_, it)| it.wants_uplink(now))
    }

    /// What the host says of the link on which it sends.
    pub fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        for (_, instance) in &mut self.instances {
            instance.handle_uplink(now, uplink);
        }
    }

    /// Whether the host is to be in the multicast group: unless no instance needs it
    /// ([`Protocol::listens`]).
    pub fn listens(&self) -> bool {
        self.instances.is_empty() || self.instances.iter().any(|(_, it)| it.listens())
    }

    /// Who this is.
    pub fn local(&self) -> MemberId {
        self.config.local
    }

    /// The instance of `channel`.
    pub fn instance(&self, channel: Channel) -> Option<&P> {
        self.instances
            .iter()
            .find(|(open, _)| *open == channel)
            .map(|(_, instance)| instance)
    }

    /// The instance of `channel`, for commands.
    pub fn instance_mut(&mut self, channel: Channel) -> Option<&mut P> {
        self.instances
            .iter_mut()
            .find(|(open, _)| *open == channel)
            .map(|(_, instance)| instance)
    }

    /// All instances and their channels, for a host that carries something from one to another.
    pub fn instances_mut(&mut self) -> impl Iterator<Item = (Channel, &mut P)> {
        let instances = self.instances.iter_mut();
        instances.map(|(channel, instance)| (*channel, instance))
    }

    /// Who gets a copy of each datagram for the group, each address once: where there is multicast,
    /// the admitted peers that have none, but for those that are gone; where there is none, the
    /// configured peers, and those that were admitted since.
    pub fn copies(&self) -> &[Recipient] {
        self.admission.copies()
    }

    /// Who gets a copy of the datagrams that [`poll_transmit`](Self::poll_transmit) wrote last:
    /// those of [`copies`](Self::copies) whom the protocol has not left out, in the order in which
    /// they are to leave.
    pub fn copied(&self) -> &[Recipient] {
        &self.copied
    }

    /// How many of [`copied`](Self::copied) leave before the multicast, if it is one.
    pub fn copied_before(&self) -> usize {
        self.copied_before
    }

    /// Admitted peers and their addresses.
    pub fn peers(&self) -> impl Iterator<Item = (MemberId, SocketAddr)> {
        self.admission.peers()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> NodeCounters {
        self.counters
    }
}
