//! The network between the hosts: one switch, a full-duplex link to each host, and everything that
//! goes wrong.
//!
//! A datagram leaves through its sender's egress link, crosses the switch, and goes down the
//! ingress link of each receiver: `Network::leave` and `Network::deliver` are the only two ways
//! through, and another topology replaces what is between them. Links serialise at their bandwidth.
//! The switch drops the tail beyond the queue of a port; a host whose send buffer is full waits,
//! and drops when its patience is over. What is random (loss, duplication, jitter, reordering,
//! corruption) is drawn for each copy on its own.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::wire::PREFIX_LEN;
use groupcast_core::{Rng, SocketClass, Time};

use crate::host::Datagram;
use crate::seal::TAG_LEN;

/// The settings of the network. The default is a quiet gigabit LAN.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkConfig {
    /// Bits per second of every link, each way. Default 1 Gbit/s.
    pub bandwidth: u64,
    /// Propagation from host to host, the switch included. Default 30 µs.
    pub latency: Duration,
    /// The most by which a copy is late at random; more than the gap between datagrams reorders
    /// them. Default 0.
    pub jitter: Duration,
    /// Bytes that wait for an egress link before the host itself waits: its send buffer. Default
    /// 512 KiB.
    pub egress_queue: usize,
    /// How long a host waits for room in its send buffer before it drops what it wanted to send.
    /// Default 50 ms.
    pub send_patience: Duration,
    /// Bytes that wait for an ingress link before the tail is dropped. Default 512 KiB (a switch's
    /// port).
    pub ingress_queue: usize,
    /// Probability that a copy is lost. Default 0.
    pub loss: f64,
    /// Probability that a copy arrives twice. Default 0.
    pub duplication: f64,
    /// Probability that a copy is held back by up to [`reordering_delay`](Self::reordering_delay).
    /// Default 0.
    pub reordering: f64,
    /// Default 2 ms.
    pub reordering_delay: Duration,
    /// Probability that a bit of a copy is flipped. Default 0.
    pub corruption: f64,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            bandwidth: 1_000_000_000,
            latency: Duration::from_micros(30),
            jitter: Duration::ZERO,
            egress_queue: 512 << 10,
            send_patience: Duration::from_millis(50),
            ingress_queue: 512 << 10,
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            reordering_delay: Duration::from_millis(2),
            corruption: 0.0,
        }
    }
}

/// A way from one host to another that is closed, for one class of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The index of the sending host.
    pub from: usize,
    /// The index of the receiving host.
    pub to: usize,
    /// What does not pass.
    pub class: SocketClass,
}

impl Block {
    /// Both classes, from `from` to `to`.
    pub fn one_way(from: usize, to: usize) -> [Self; 2] {
        [SocketClass::Data, SocketClass::Control].map(|class| Self { from, to, class })
    }

    /// Everything between hosts of different `components`, both ways. Hosts of `0..hosts` that are
    /// in none of them form one more component.
    pub fn partition(hosts: usize, components: &[&[usize]]) -> Vec<Self> {
        let component = |host: usize| components.iter().position(|part| part.contains(&host));
        (0..hosts)
            .flat_map(|from| (0..hosts).map(move |to| (from, to)))
            .filter(|(from, to)| component(*from) != component(*to))
            .flat_map(|(from, to)| Self::one_way(from, to))
            .collect()
    }
}

/// What a filter of a test sees of a copy on its way from one host to another.
#[derive(Clone, Copy, Debug)]
pub struct DatagramInfo<'a> {
    /// The index of the sending host.
    pub from: usize,
    /// The index of the receiving host.
    pub to: usize,
    /// Data or token.
    pub class: SocketClass,
    /// Whether it was sent to the group's address; else to this host alone.
    pub multicast: bool,
    /// How many copies of this class went this way before it.
    pub index: u64,
    /// All bytes of the datagram: prefix, channel, the protocol's body (in clear), tag.
    pub bytes: &'a [u8],
}

impl<'a> DatagramInfo<'a> {
    /// The protocol's own bytes; empty if the datagram is too short to have any.
    pub fn body(&self) -> &'a [u8] {
        body_of(self.bytes)
    }

    /// Whether the node itself sent it, to admit a peer, and no protocol.
    pub fn is_admission(&self) -> bool {
        is_admission(self.bytes)
    }
}

/// Whether the node itself sent a datagram, to admit a peer, and no protocol.
pub(crate) fn is_admission(datagram: &[u8]) -> bool {
    datagram.get(PREFIX_LEN) == Some(&Channel::NODE.0)
}

/// The protocol's bytes of a datagram that the fake sealer sealed.
pub(crate) fn body_of(datagram: &[u8]) -> &[u8] {
    let end = datagram.len().saturating_sub(TAG_LEN);
    datagram.get(PREFIX_LEN + 1..end).unwrap_or(&[])
}

/// What the network did so far, in copies (one a receiver).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkCounters {
    /// Datagrams that left a host.
    pub sent: u64,
    /// Bytes of them on the wire, framing included.
    pub sent_bytes: u64,
    /// Datagrams that their host dropped because the send buffer stayed full.
    pub egress_dropped: u64,
    /// Dropped at a full ingress queue.
    pub ingress_dropped: u64,
    /// Lost at random.
    pub lost: u64,
    /// Stopped by a block.
    pub blocked: u64,
    /// Dropped by a test's filter.
    pub filtered: u64,
    /// Sent on twice.
    pub duplicated: u64,
    /// Copies that were held back, so that others overtook them.
    pub reordered: u64,
    /// Copies of which a bit was flipped.
    pub corrupted: u64,
    /// Handed to a host.
    pub delivered: u64,
}

/// A datagram that left its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    /// When it is at the switch.
    pub(crate) at_switch: Time,
    /// When the send buffer has room again: until then the host waits.
    pub(crate) room: Time,
}

/// A copy that reaches its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    /// The bit that is flipped, if any.
    pub(crate) flipped: Option<u32>,
}

type Filter = Box<dyn FnMut(&DatagramInfo<'_>) -> bool>;

/// The switch, the links and the faults.
pub struct Network {
    config: NetworkConfig,
    hosts: usize,
    egress: Vec<Link>,
    ingress: Vec<Link>,
    /// Extra loss of what goes to a host.
    ingress_loss: Vec<f64>,
    /// How many blocks stand, by way and class: faults may overlap.
    blocks: Vec<u16>,
    /// How many copies were judged, by way and class.
    judged: Vec<u64>,
    drop_once: Vec<Filter>,
    drop_all: Vec<Filter>,
    rng: Rng,
    counters: NetworkCounters,
}

impl Network {
    /// A healthy network of `hosts` hosts.
    pub(crate) fn new(config: NetworkConfig, hosts: usize, rng: Rng) -> Self {
        Self {
            config,
            hosts,
            egress: vec![Link::default(); hosts],
            ingress: vec![Link::default(); hosts],
            ingress_loss: vec![0.0; hosts],
            blocks: vec![0; hosts * hosts * 2],
            judged: vec![0; hosts * hosts * 2],
            drop_once: Vec::new(),
            drop_all: Vec::new(),
            rng,
            counters: NetworkCounters::default(),
        }
    }

    /// Sends `len` bytes from `from`, or drops them if the host has no patience left.
    pub(crate) fn leave(&mut self, now: Time, from: usize, len: usize) -> Option<Departure> {
        let bytes = on_the_wire(len);
        let (config, counters) = (&self.config, &mut self.counters);
        let queue = config.egress_queue as u64;
        let patience = config.send_patience.as_nanos() as u64;
        let patience = patience.saturating_mul(config.bandwidth) / BIT_NANOS_PER_BYTE;
        let link = &mut self.egress[from];
        let Some(left) = link.pass(now, bytes, config.bandwidth, queue + patience) else {
            counters.egress_dropped += 1;
            return None;
        };
        counters.sent += 1;
        counters.sent_bytes += bytes;
        Some(Departure {
            at_switch: left + config.latency,
            room: link.room(config.bandwidth, queue),
        })
    }

    /// When a host will have sent all that left it.
    pub(crate) fn left_by(&self, host: usize) -> Time {
        self.egress[host].free_at
    }

    /// Takes a datagram from the switch down to host `to`: none, one or two arrivals.
    pub(crate) fn deliver(
        &mut self,
        now: Time,
        datagram: &Datagram,
        to: usize,
        multicast: bool,
    ) -> [Option<Arrival>; 2] {
        if !self.passes(datagram, to, multicast) {
            return [None; 2];
        }
        let bytes = &datagram.bytes;
        let first = self.descend(now, to, bytes.len());
        let second = (first.is_some() && self.rng.chance(self.config.duplication))
            .then(|| {
                self.counters.duplicated += 1;
                self.descend(now, to, bytes.len())
            })
            .flatten();
        [first, second]
    }

    fn passes(&mut self, datagram: &Datagram, to: usize, multicast: bool) -> bool {
        let (from, class) = (datagram.from, datagram.class);
        let way = self.way(from, to, class);
        let index = self.judged[way];
        self.judged[way] += 1;
        if !(self.drop_once.is_empty() && self.drop_all.is_empty()) {
            let info = DatagramInfo {
                from,
                to,
                class,
                multicast,
                index,
                bytes: &datagram.bytes,
            };
            if self.is_filtered(&info) {
                self.counters.filtered += 1;
                return false;
            }
        }
        if self.blocks[way] > 0 {
            self.counters.blocked += 1;
            return false;
        }
        if self.rng.chance(self.config.loss) || self.rng.chance(self.ingress_loss[to]) {
            self.counters.lost += 1;
            return false;
        }
        true
    }

    fn is_filtered(&mut self, info: &DatagramInfo<'_>) -> bool {
        if self.drop_all.iter_mut().any(|filter| filter(info)) {
            return true;
        }
        match self.drop_once.iter_mut().position(|filter| filter(info)) {
            Some(spent) => {
                drop(self.drop_once.remove(spent));
                true
            }
            None => false,
        }
    }

    /// Down the ingress link. Jitter comes after it: a late copy does not hold up those behind it.
    fn descend(&mut self, now: Time, to: usize, len: usize) -> Option<Arrival> {
        let (config, counters) = (&self.config, &mut self.counters);
        let bytes = on_the_wire(len);
        let queue = config.ingress_queue as u64;
        let passed = self.ingress[to].pass(now, bytes, config.bandwidth, queue);
        let Some(mut at) = passed else {
            counters.ingress_dropped += 1;
            return None;
        };
        if !config.jitter.is_zero() {
            at += self.rng.duration(Duration::ZERO, config.jitter);
        }
        if self.rng.chance(config.reordering) {
            counters.reordered += 1;
            at += self.rng.duration(Duration::ZERO, config.reordering_delay);
        }
        let flipped = self.rng.chance(config.corruption).then(|| {
            counters.corrupted += 1;
            self.rng.below(8 * len as u64) as u32
        });
        counters.delivered += 1;
        Some(Arrival { at, flipped })
    }

    /// Closes a way. Two blocks of one way must both be removed.
    pub fn block(&mut self, block: Block) {
        let way = self.way(block.from, block.to, block.class);
        self.blocks[way] += 1;
    }

    /// Takes one block away; nothing if there is none (because everything was healed in between).
    pub fn unblock(&mut self, block: Block) {
        let way = self.way(block.from, block.to, block.class);
        self.blocks[way] = self.blocks[way].saturating_sub(1);
    }

    /// Takes away all blocks, filters and extra losses of hosts. The settings of the network stay.
    pub fn heal(&mut self) {
        self.blocks.fill(0);
        self.ingress_loss.fill(0.0);
        self.drop_once.clear();
        self.drop_all.clear();
    }

    /// Loses a part of what goes to `host`, on top of the loss of the whole network.
    pub fn set_ingress_loss(&mut self, host: usize, loss: f64) {
        self.ingress_loss[host] = loss;
    }

    /// Drops the first copy that `filter` chooses.
    pub fn drop_once(&mut self, filter: impl FnMut(&DatagramInfo<'_>) -> bool + 'static) {
        self.drop_once.push(Box::new(filter));
    }

    /// Drops every copy that `filter` chooses, until [`heal`](Self::heal).
    pub fn drop_all(&mut self, filter: impl FnMut(&DatagramInfo<'_>) -> bool + 'static) {
        self.drop_all.push(Box::new(filter));
    }

    /// The settings of the network.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// The settings of the network; changes hold from now on.
    pub fn config_mut(&mut self) -> &mut NetworkConfig {
        &mut self.config
    }

    /// What it did so far.
    pub fn counters(&self) -> NetworkCounters {
        self.counters
    }

    fn way(&self, from: usize, to: usize, class: SocketClass) -> usize {
        (from * self.hosts + to) * 2 + usize::from(class == SocketClass::Control)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("config", &self.config)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// One direction of a cable, with the queue before it.
#[derive(Clone, Copy, Default, Debug)]
struct Link {
    /// When the last byte that waits will have left.
    free_at: Time,
}

impl Link {
    /// When the last of `bytes` is through, or `None` if they find more than `queue` bytes before
    /// them.
    ///
    /// The queue is not kept: its length follows from when the link will be free.
    fn pass(&mut self, now: Time, bytes: u64, bandwidth: u64, queue: u64) -> Option<Time> {
        let ahead = self.free_at.as_nanos().saturating_sub(now.as_nanos());
        if ahead.saturating_mul(bandwidth) > queue.saturating_mul(BIT_NANOS_PER_BYTE) {
            return None;
        }
        let nanos = (bytes * BIT_NANOS_PER_BYTE).div_ceil(bandwidth.max(1));
        self.free_at = self.free_at.max(now) + Duration::from_nanos(nanos);
        Some(self.free_at)
    }

    /// When no more than `queue` bytes wait.
    fn room(&self, bandwidth: u64, queue: u64) -> Time {
        let nanos = queue * BIT_NANOS_PER_BYTE / bandwidth.max(1);
        Time::from_nanos(self.free_at.as_nanos().saturating_sub(nanos))
    }
}

const BIT_NANOS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// Bytes that a datagram of `len` bytes takes on an Ethernet of 1,500-byte frames.
fn on_the_wire(len: usize) -> u64 {
    // Preamble 8, Ethernet 18, gap 12, IP 20 for each frame; UDP 8 once.
    let frames = (len + 8).div_ceil(1480).max(1);
    (len + 8 + frames * 58) as u64
}
