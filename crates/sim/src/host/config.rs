//! The model of a host: what its processor's time is spent on, how much its sockets hold, and which
//! client processes run beside the protocol's.
//!
//! The cost model has one price list ([`Cost`]: a system call, a packet, a kibibyte) for each thing
//! that a host does: receive, send, take a message from its user, give one to it, and copy a
//! datagram for an emulated network. One processor does it all, one thing after the other; what
//! comes meanwhile waits in socket buffers that are bounded in datagrams and in bytes. So
//! acknowledgement implosion, copies and saturation appear by themselves. Sets of numbers for known
//! machines are in `presets`.

use std::time::Duration;

/// A price in processor time: for each call, each packet and each kibibyte. Default: free.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// A system call, however much it moves.
    pub call: Duration,
    /// An IP packet of it (a fragment of a datagram that exceeds the [`mtu`](HostConfig::mtu));
    /// where messages are handed over and no datagrams, a message.
    pub packet: Duration,
    /// 1,024 bytes: copies, checksums, encryption.
    pub kibibyte: Duration,
}

impl Cost {
    /// No cost at all.
    pub const FREE: Self = Self::nanos(0, 0, 0);

    /// So many nanoseconds a call, a packet and a kibibyte.
    pub const fn nanos(call: u64, packet: u64, kibibyte: u64) -> Self {
        Self {
            call: Duration::from_nanos(call),
            packet: Duration::from_nanos(packet),
            kibibyte: Duration::from_nanos(kibibyte),
        }
    }

    /// `call` a call, and nothing else.
    pub const fn per_call(call: Duration) -> Self {
        Self {
            call,
            ..Self::nanos(0, 0, 0)
        }
    }

    /// Whether only calls cost anything: then nothing needs to be counted.
    fn is_per_call(&self) -> bool {
        self.packet.is_zero() && self.kibibyte.is_zero()
    }

    /// Whether all of it is nothing.
    pub fn is_free(&self) -> bool {
        *self == Self::FREE
    }

    /// The time for so many of each, rounded down to a nanosecond.
    pub fn of(&self, calls: u64, packets: u64, bytes: u64) -> Duration {
        let nanos = calls * nanos(self.call)
            + packets * nanos(self.packet)
            + (u128::from(bytes) * self.kibibyte.as_nanos() / 1_024) as u64;
        Duration::from_nanos(nanos)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a datagram of a kind costs beyond what every datagram does: the work on what it says, such
/// as the crossings between the parts of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KindPrice {
    /// The kind.
    pub kind: &'static str,
    /// For sending one.
    pub send: Duration,
    /// For receiving one.
    pub receive: Duration,
}

/// How much a socket's receive buffer holds; what comes when it is full is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferLimit {
    /// The most datagrams.
    pub datagrams: usize,
    /// The most bytes, where each datagram counts with [`overhead`](Self::overhead). As in a
    /// kernel, the last datagram that is let in may exceed it.
    pub bytes: usize,
    /// Bytes that a datagram takes beyond its own: what the kernel keeps about it.
    pub overhead: usize,
}

impl BufferLimit {
    /// Limited in datagrams only.
    pub const fn datagrams(datagrams: usize) -> Self {
        Self {
            datagrams,
            bytes: usize::MAX,
            overhead: 0,
        }
    }

    /// Limited in bytes only, without overhead.
    pub const fn bytes(bytes: usize) -> Self {
        Self {
            datagrams: usize::MAX,
            bytes,
            overhead: 0,
        }
    }
}

/// When what a process does takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effect {
    /// As it begins: a datagram is handled, and what follows from it sent, at the moment at which
    /// the processor takes it up; the cost only keeps the processor from the next one. Latencies
    /// lack the work itself, and there is no waking up. Cheapest to simulate; the swarm's.
    #[default]
    Begin,
    /// As it ends: first the work, then the effect, as on a real host. An event more for each call.
    End,
}

/// Whose processor a host computes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Processors {
    /// A processor of its own.
    #[default]
    Own,
    /// That of a machine which it shares with all hosts that name the same one: namespaces or
    /// containers of a test bed. Work goes to the core that is free first, in the order in which it
    /// is begun, and is never interrupted.
    Shared {
        /// The number of the machine.
        machine: u32,
        /// Its cores, at least 1; the largest that any of its hosts says.
        cores: u32,
    },
}

/// Client processes beside the process of the protocol, which is then a daemon: a message enters at
/// a client and is delivered when a client has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// A client's own processor time for a message that it submits: a call, a message (`packet`),
    /// its bytes.
    pub submit: Cost,
    /// A client's own processor time for what it receives: a call takes up to
    /// [`batch`](Self::batch) messages.
    pub deliver: Cost,
    /// How long a client that sleeps takes to wake up when something comes.
    pub wake_up: Duration,
    /// The most messages that a client takes with one call.
    pub batch: u32,
    /// How many clients of a host get each message. At least 1; the first one's deliveries are
    /// those that are measured.
    pub receivers: u32,
    /// Whether every client has a core of its own. Without, and with [`Processors::Own`], clients
    /// and daemon share the host's one processor. Of no meaning with [`Processors::Shared`].
    pub own_core: bool,
    /// The most messages that wait for a client; more are dropped and counted, where a real daemon
    /// would disconnect the client.
    pub inbox_max: usize,
}

impl Default for ClientConfig {
    /// One client, with a core of its own, that costs nothing and is always awake; 65,536 messages
    /// may wait for it.
    fn default() -> Self {
        Self {
            submit: Cost::FREE,
            deliver: Cost::FREE,
            wake_up: Duration::ZERO,
            batch: 64,
            receivers: 1,
            own_core: true,
            inbox_max: 65_536,
        }
    }
}

/// A process that is forced to sleep now and then (004 ch. 4: "perturbed"): at the beginning of
/// each interval it falls asleep for the whole of it, with a probability. Its sockets stay open and
/// fill.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Perturbation {
    /// How probable it is in each interval, 0 to 1 (004's perturb rate).
    pub probability: f64,
    /// How long an interval is, and a sleep. 004: 100 ms.
    pub interval: Duration,
}

/// What a host is like.
#[derive(Clone, PartialEq, Debug)]
pub struct HostConfig {
    /// Receiving: a call, a packet, its bytes; the protocol's own work on a datagram included.
    /// Default 2 µs a call.
    pub receive: Cost,
    /// Sending, likewise. Default 1 µs a call.
    pub send: Cost,
    /// What each *copy* of a sent datagram costs its sender, where the network itself runs on the
    /// host's processors (a bridge of namespaces): as many copies as there are other hosts for a
    /// multicast, one for a unicast. Default free.
    pub copy: Cost,
    /// What datagrams of some kinds cost on top, as [`inspect`] names kinds; of a kind that is
    /// named twice both. Only in an [experiment](crate::experiment::Experiment), which reads
    /// datagrams. Default none.
    ///
    /// [`inspect`]: groupcast_core::trace::Inspect
    pub kinds: Vec<KindPrice>,
    /// Taking messages from the user: a call takes one from a user in the same process, all that
    /// wait from clients. Default free.
    pub submit: Cost,
    /// Giving messages to the user or to each client: a call gives all that are ready. Default
    /// free.
    pub deliver: Cost,
    /// Going to sleep when there is nothing to do and coming back: the calls that wait for the
    /// network. Only with [`Effect::End`]. Default free.
    pub wait: Duration,
    /// How long it takes until the process runs after something has come while it slept, on top of
    /// [`wait`](Self::wait); its processor is not busy meanwhile. Timeouts come late by it too.
    /// Only with [`Effect::End`]. Default zero: it spins.
    pub wake_up: Duration,
    /// What it takes beyond [`wake_up`](Self::wake_up) in the mean, exponentially distributed: what
    /// a hypervisor and a scheduler add now and then. Default zero.
    pub wake_up_jitter: Duration,
    /// The most datagrams that one receiving call takes; 1 with [`Effect::Begin`]. Default 1.
    pub receive_batch: u32,
    /// Whether a receiving call takes only datagrams that follow each other from one sender in one
    /// size (the last may be shorter), as UDP_GRO does; otherwise any, as recvmmsg does. Default
    /// false.
    pub coalesces: bool,
    /// The most datagrams that one sending call takes, as UDP_SEGMENT does. Default 1.
    pub send_batch: u32,
    /// The most datagrams that the protocol hands over at once, to one destination. Default 32.
    pub segments_max: usize,
    /// The data socket's receive buffer. Default 2,048 datagrams.
    pub data_buffer: BufferLimit,
    /// The token socket's receive buffer. Default 256 datagrams.
    pub token_buffer: BufferLimit,
    /// The largest IP packet of the host's link, in bytes: a larger datagram counts as several
    /// packets. Default 1,500.
    pub mtu: u32,
    /// About how many datagrams are received in a row before messages to and from the user have
    /// their turn, if there are any. Default 512.
    pub turn_max: u32,
    /// Whether messages for clients are written to them before the next datagram is received:
    /// delivery is then on the token's path, as in 002's prototypes. Otherwise they wait until
    /// nothing is left to receive (or for [`turn_max`](Self::turn_max)), as in our daemon. Of no
    /// meaning without clients. Default false.
    pub deliver_first: bool,
    /// Bytes of messages from the user that may wait before more are refused. Default 256 KiB.
    pub offered_max: usize,
    /// When what it does takes effect. Default [`Effect::Begin`].
    pub effect: Effect,
    /// Whose processor it computes on. Default its own.
    pub processors: Processors,
    /// Client processes beside it. Default none: the user is in the same process.
    pub clients: Option<ClientConfig>,
    /// Whether it is forced to sleep now and then. Default not.
    pub perturbation: Option<Perturbation>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            receive: Cost::per_call(Duration::from_micros(2)),
            send: Cost::per_call(Duration::from_micros(1)),
            copy: Cost::FREE,
            kinds: Vec::new(),
            submit: Cost::FREE,
            deliver: Cost::FREE,
            wait: Duration::ZERO,
            wake_up: Duration::ZERO,
            wake_up_jitter: Duration::ZERO,
            receive_batch: 1,
            coalesces: false,
            send_batch: 1,
            segments_max: 32,
            data_buffer: BufferLimit::datagrams(2_048),
            token_buffer: BufferLimit::datagrams(256),
            mtu: 1_500,
            turn_max: 512,
            deliver_first: false,
            offered_max: 256 << 10,
            effect: Effect::Begin,
            processors: Processors::Own,
            clients: None,
            perturbation: None,
        }
    }
}

impl HostConfig {
    /// How many IP packets a datagram of `len` bytes (UDP's payload) takes.
    pub(crate) fn packets(&self, len: usize) -> u64 {
        const IP_HEADER: u64 = 20;
        const UDP_HEADER: u64 = 8;
        // Every fragment but the last carries a multiple of eight bytes.
        let carried = (u64::from(self.mtu).saturating_sub(IP_HEADER) & !7).max(8);
        (len as u64 + UDP_HEADER).div_ceil(carried)
    }

    /// What it costs to receive datagrams of these lengths with one call.
    pub(crate) fn receive_cost(&self, lens: impl Iterator<Item = usize>) -> Duration {
        if self.receive.is_per_call() {
            return self.receive.call;
        }
        let (packets, bytes) = self.total(lens);
        self.receive.of(1, packets, bytes)
    }

    /// What it costs to send datagrams of these lengths with one call, which the network copies
    /// `copies` times.
    pub(crate) fn send_cost(&self, lens: impl Iterator<Item = usize>, copies: u64) -> Duration {
        if self.send.is_per_call() && self.copy.is_free() {
            return self.send.call;
        }
        let (packets, bytes) = self.total(lens);
        let sent = self.send.of(1, packets, bytes);
        sent + self.copy.of(copies, packets * copies, bytes * copies)
    }

    fn total(&self, lens: impl Iterator<Item = usize>) -> (u64, u64) {
        lens.fold((0, 0), |(packets, bytes), len| {
            (packets + self.packets(len), bytes + len as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_sum_of_its_parts() {
        let cost = Cost::nanos(1_000, 200, 1_024);
        assert_eq!(cost.of(2, 3, 500), Duration::from_nanos(2_000 + 600 + 500));
        assert_eq!(Cost::FREE.of(9, 9, 9_000), Duration::ZERO);
        assert!(Cost::default().is_free());
    }

    #[test]
    fn a_datagram_that_exceeds_the_mtu_is_several_packets() {
        let config = HostConfig::default();
        let packets: Vec<u64> = [0, 1_472, 1_473, 8_850, 65_507]
            .map(|len| config.packets(len))
            .to_vec();
        assert_eq!(packets, [1, 1, 2, 6, 45]);
    }

    #[test]
    fn a_copy_is_paid_for_each_receiver_and_a_call_once() {
        let config = HostConfig {
            send: Cost::nanos(1_000, 100, 0),
            copy: Cost::nanos(10, 50, 0),
            ..HostConfig::default()
        };
        let two = || [1_000, 1_000].into_iter();
        assert_eq!(config.send_cost(two(), 3).as_nanos(), 1_200 + 30 + 300);
        assert_eq!(config.receive_cost(two()), Duration::from_micros(2));
    }
}
