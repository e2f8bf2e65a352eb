//! The meter: hooks for what happens, cheap enough for every datagram.

use std::collections::BTreeMap;
use std::time::Duration;

use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{MessageId, Time};

use super::MeterConfig;
use super::host::{HostMeter, Installed, Ran};
use super::measures::Measures;
use super::stamp::Stamp;
use super::stream::Sight;
use super::traffic::count_of;
use super::usage::{HostUse, LinkUse};

/// Runs of successive ids that are remembered of each host: one a life, as a rule.
const RUNS_MAX: usize = 64;

/// The ordinal of a host that never offered a message.
const NO_ORDINAL: u32 = u32::MAX;

/// Messages of successive ids and numbers, known by the first.
#[derive(Clone, Copy, Debug)]
struct Run {
    host: u32,
    number: u32,
    len: u64,
}

/// A message that was recognised.
#[derive(Clone, Copy)]
struct Known {
    host: usize,
    number: u32,
    /// When it was offered, unless that is forgotten.
    at: Option<Time>,
}

/// Counts what a world tells it. Hosts are named by their index, times are the world's.
///
/// For each message of a source: [`offer`](Self::offer), then [`refused`](Self::refused), or else
/// [`submitted`](Self::submitted) once the protocol took it, or [`rejected`](Self::rejected). A
/// message that was never offered is offered by being submitted.
///
/// ```
/// use groupcast_core::{Incarnation, MemberId, MessageId, NodeId, Time};
/// use groupcast_sim::measure::{Meter, MeterConfig};
///
/// let mut meter = Meter::new(2, MeterConfig::default());
/// for host in 0..2 {
///     meter.started(Time::ZERO, host);
/// }
/// let payload = meter.offer(Time::ZERO, 0).payload(210);
/// let sender = MemberId { node: NodeId(1), incarnation: Incarnation(1) };
/// let id = MessageId { sender, number: 1 };
/// meter.submitted(Time::ZERO, 0, id, &payload);
/// meter.arrived(Time::from_millis(5), 1, &payload);
/// meter.delivered(Time::from_millis(8), 1, id, &payload);
///
/// let measures = meter.finish(Time::from_millis(2_000), Vec::new(), Vec::new());
/// assert_eq!(measures.hosts[1].arrival.mean(), Some(0.005));
/// assert_eq!(measures.hosts[1].latency.mean(), Some(0.008));
/// assert_eq!(measures.hosts[1].missing, Some(0));
/// ```
#[derive(Debug)]
pub struct Meter {
    pub(super) config: MeterConfig,
    pub(super) hosts: Vec<HostMeter>,
    /// Hosts that offered a message, in the order in which they began: streams are kept for these
    /// only.
    pub(super) senders: Vec<usize>,
    ordinals: Vec<u32>,
    runs: BTreeMap<MessageId, Run>,
    warm: Time,
}

impl Meter {
    /// A meter of `hosts` hosts.
    pub fn new(hosts: usize, config: MeterConfig) -> Self {
        Self {
            hosts: (0..hosts).map(|_| HostMeter::new(&config)).collect(),
            senders: Vec::new(),
            ordinals: vec![NO_ORDINAL; hosts],
            runs: BTreeMap::new(),
            warm: Time::ZERO + config.warm_up,
            config,
        }
    }

    /// What it measures.
    pub fn config(&self) -> &MeterConfig {
        &self.config
    }

    // What it must know beforehand.

    /// The sources of `host` send at this rate, in messages a second, all together. For the
    /// interference.
    pub fn set_rate(&mut self, host: usize, rate: f64) {
        let period = (rate > 0.0).then(|| Duration::from_nanos((1e9 / rate).round() as u64));
        self.hosts[host].issued.period = period;
    }

    /// From `from` to `to`, the links take `delay`, transmission not included. For the
    /// interference: only pairs of which this was said, and whose sender has a rate, are judged.
    pub fn set_path(&mut self, from: usize, to: usize, delay: Duration) {
        let ordinal = self.ordinal(from);
        self.hosts[to].stream(ordinal).path = Some(delay);
    }

    // Lives.

    /// A process starts on `host`.
    pub fn started(&mut self, now: Time, host: usize) {
        let ran = &mut self.hosts[host].ran;
        *ran = if *ran == Ran::Never {
            Ran::Since(now)
        } else {
            Ran::Partly
        };
    }

    /// The process of `host` ends, or leaves: it is no longer expected to deliver everything, what
    /// it was given and its protocol has not taken is void, and the time until the next process
    /// delivers is no gap.
    pub fn stopped(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.ran = Ran::Partly;
        host.issued.reject_all();
        host.last_delivery = None;
        host.last_arrival = None;
    }

    /// `host` installed a configuration of `members` members.
    pub fn configured(&mut self, now: Time, host: usize, members: usize) {
        let host = &mut self.hosts[host];
        host.configurations += u64::from(now >= self.warm);
        if host.installed.len() < self.config.installed_max {
            let at = now - Time::ZERO;
            host.installed.push(Installed { at, members });
        }
    }

    // Messages.

    /// A source hands a message over at `host`: the stamp that its payload should begin with.
    pub fn offer(&mut self, now: Time, host: usize) -> Stamp {
        self.ordinal(host);
        let issued = &mut self.hosts[host].issued;
        let number = issued.issue(now, now >= self.warm, self.config.pending_max);
        Stamp {
            host: host as u32,
            number,
            at: now,
        }
    }

    /// The message offered last at `host` was turned away at once: there was no room.
    pub fn refused(&mut self, now: Time, host: usize) {
        let host = &mut self.hosts[host];
        host.issued.withdraw();
        host.refused += u64::from(now >= self.warm);
    }

    /// The protocol turned down the message of `host` that had waited longest.
    pub fn rejected(&mut self, now: Time, host: usize) {
        let host = &mut self.hosts[host];
        host.issued.reject();
        host.refused += u64::from(now >= self.warm);
    }

    /// The protocol took a message at `host` and named it `id`: the one that its stamp says, or
    /// without a stamp the one that waited longest.
    pub fn submitted(&mut self, now: Time, host: usize, id: MessageId, payload: &[u8]) {
        let next = self.hosts[host].issued.next();
        let number = Stamp::read(payload)
            .filter(|stamp| stamp.host as usize == host && stamp.number < next)
            .map(|stamp| stamp.number);
        if number.is_none() && !self.hosts[host].issued.has_waiting() {
            self.offer(now, host);
        }
        let meter = &mut self.hosts[host];
        let number = meter.issued.take(now, number);
        if now >= self.warm {
            meter.submitted += 1;
            meter.submitted_bytes += payload.len() as u64;
        }
        self.note_id(host, id, number);
    }

    /// A datagram that `host` handles holds all of a message, in order or not.
    #[inline]
    pub fn arrived(&mut self, now: Time, host: usize, payload: &[u8]) {
        if let Some(stamp) = Stamp::read(payload) {
            self.saw(now, host, stamp);
        }
    }

    /// The same of a message whose stamp is read already.
    #[inline]
    pub(crate) fn saw(&mut self, now: Time, host: usize, stamp: Stamp) {
        let Some(known) = self.known(stamp) else {
            return;
        };
        if known.host == host {
            return;
        }
        match self.see(host, known) {
            Sight::First => self.receive_first(now, host, known),
            Sight::Again => {
                let counts = self.counts(known);
                self.hosts[host].duplicates += u64::from(counts);
            }
            Sight::Forgotten => {}
        }
    }

    /// The user of `host` has the message.
    #[inline]
    pub fn delivered(&mut self, now: Time, host: usize, id: MessageId, payload: &[u8]) {
        let known = self.read(payload).or_else(|| self.look_up(id));
        let is_own = known.is_some_and(|known| known.host == host);
        if is_own && !self.config.own {
            return;
        }
        if let Some(known) = known {
            if !is_own && self.see(host, known) == Sight::First {
                // It came in pieces, or in a datagram that could not be read: its delivery is the
                // first sign of it.
                self.hosts[host].unseen += u64::from(self.counts(known));
                self.receive_first(now, host, known);
            }
            if !self.take(host, known) {
                self.hosts[host].redelivered += u64::from(self.counts(known));
                return;
            }
            if let Some(at) = known.at.filter(|at| *at >= self.warm) {
                self.hosts[host].latency.record(now - at);
            }
        }
        if now >= self.warm {
            self.count_delivery(now, host, payload.len());
        }
    }

    /// The host that submitted a message, if it is known by its stamp or its id.
    pub fn origin(&self, id: MessageId, payload: &[u8]) -> Option<usize> {
        let known = self.read(payload).or_else(|| self.look_up(id))?;
        Some(known.host)
    }

    // Datagrams.

    /// `host` sent a datagram of `len` bytes, to however many.
    #[inline]
    pub fn sent(&mut self, now: Time, host: usize, inspected: Inspected, len: usize) {
        if now < self.warm {
            return;
        }
        let host = &mut self.hosts[host];
        let count = count_of(&mut host.kinds, inspected);
        count.sent += 1;
        count.sent_bytes += len as u64;
        if matches!(inspected.role, Role::Request | Role::Repair)
            && let Some(window) = host.window(now, &self.config)
        {
            window.requests_sent += u32::from(inspected.role == Role::Request);
            window.repairs_sent += u32::from(inspected.role == Role::Repair);
        }
    }

    /// The process of `host` handles a datagram of `len` bytes.
    #[inline]
    pub fn received(&mut self, now: Time, host: usize, inspected: Inspected, len: usize) {
        if now < self.warm {
            return;
        }
        let host = &mut self.hosts[host];
        let count = count_of(&mut host.kinds, inspected);
        count.received += 1;
        count.received_bytes += len as u64;
        if matches!(inspected.role, Role::Request | Role::Repair)
            && let Some(window) = host.window(now, &self.config)
        {
            window.requests_received += u32::from(inspected.role == Role::Request);
            window.repairs_received += u32::from(inspected.role == Role::Repair);
        }
    }

    /// The end: all that was measured until `now`. `hosts` has one for each host, in order, or is
    /// empty.
    pub fn finish(self, now: Time, links: Vec<LinkUse>, hosts: Vec<HostUse>) -> Measures {
        Measures::of(self, now, links, hosts)
    }

    // Finding a message out.

    fn ordinal(&mut self, host: usize) -> u32 {
        if self.ordinals[host] == NO_ORDINAL {
            self.ordinals[host] = self.senders.len() as u32;
            self.senders.push(host);
        }
        self.ordinals[host]
    }

    fn note_id(&mut self, host: usize, id: MessageId, number: u32) {
        let issued = &mut self.hosts[host].issued;
        let last = issued.last_id.replace(id);
        let follows = |last: MessageId| last.sender == id.sender && last.number + 1 == id.number;
        if last.is_some_and(follows)
            && let Some(begin) = issued.runs.back()
            && let Some(run) = self.runs.get_mut(begin)
            && u64::from(run.number) + run.len == u64::from(number)
        {
            run.len += 1;
            return;
        }
        if issued.runs.len() == RUNS_MAX
            && let Some(oldest) = issued.runs.pop_front()
        {
            self.runs.remove(&oldest);
        }
        issued.runs.push_back(id);
        let host = host as u32;
        let len = 1;
        self.runs.insert(id, Run { host, number, len });
    }

    /// The message whose stamp this payload begins with, if one was offered.
    #[inline]
    fn read(&self, payload: &[u8]) -> Option<Known> {
        self.known(Stamp::read(payload)?)
    }

    /// The message of a stamp, if it was offered.
    #[inline]
    fn known(&self, stamp: Stamp) -> Option<Known> {
        let host = stamp.host as usize;
        let sender = self.hosts.get(host)?;
        (stamp.number < sender.issued.next()).then_some(Known {
            host,
            number: stamp.number,
            at: Some(stamp.at),
        })
    }

    fn look_up(&self, id: MessageId) -> Option<Known> {
        let (begin, run) = self.runs.range(..=id).next_back()?;
        let ahead = id.number.checked_sub(begin.number)?;
        if begin.sender != id.sender || ahead >= run.len {
            return None;
        }
        let (host, number) = (run.host as usize, run.number + ahead as u32);
        let at = self.hosts[host].issued.at(number);
        Some(Known { host, number, at })
    }

    /// Whether the message was offered after the warm-up.
    fn counts(&self, known: Known) -> bool {
        known.at.is_some_and(|at| at >= self.warm)
    }

    /// Notes that `host` has seen the message, delivered or not.
    #[inline]
    fn see(&mut self, host: usize, known: Known) -> Sight {
        let (ordinal, first) = (
            self.ordinals[known.host],
            self.hosts[known.host].issued.first(),
        );
        let stream = self.hosts[host].stream(ordinal);
        let pending_max = self.config.pending_max;
        stream.arrived.insert(known.number, first, pending_max)
    }

    /// Notes that `host` has delivered the message; false if it had before.
    #[inline]
    fn take(&mut self, host: usize, known: Known) -> bool {
        let (ordinal, first) = (
            self.ordinals[known.host],
            self.hosts[known.host].issued.first(),
        );
        let stream = self.hosts[host].stream(ordinal);
        let pending_max = self.config.pending_max;
        stream.delivered.insert(known.number, first, pending_max) != Sight::Again
    }

    fn receive_first(&mut self, now: Time, host: usize, known: Known) {
        let Some(at) = known.at.filter(|at| *at >= self.warm) else {
            return;
        };
        let period = self.hosts[known.host].issued.period;
        let receiver = &mut self.hosts[host];
        let path = receiver.stream(self.ordinals[known.host]).path;
        let normal = path.zip(period).map(|(path, period)| path + period);
        receiver.receive_first(now, at, normal);
    }

    fn count_delivery(&mut self, now: Time, host: usize, len: usize) {
        let host = &mut self.hosts[host];
        host.delivered += 1;
        host.delivered_bytes += len as u64;
        if let Some(last) = host.last_delivery.replace(now) {
            host.gap.record(now - last);
        }
        if let Some(window) = host.window(now, &self.config) {
            window.delivered += 1;
            window.delivered_bytes += len as u64;
        }
    }
}
