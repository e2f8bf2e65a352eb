//! A member of one of 001's four protocols: ACK, NAK with polling, ring or tree.
//!
//! One thread drives an endpoint with the settings of 001, go-back-N and a window and nothing else.
//! A sender has messages to send; a receiver receives until it is told that all is over.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::node::Channel;
use groupcast_core::{Event, Incarnation, MemberId, MessageId, NodeId, Ordered as _, Rng, Service};
use groupcast_net::{Endpoint, EndpointConfig};
use groupcast_protocols::bulk::{BulkConfig, Counters, Messages, MessagesConfig, Policy, Wanted};
use serde::{Deserialize, Serialize};

use super::{Carried, Course, LIMIT, System, Watch};
use crate::measure::clock::{self, Instant};
use crate::measure::endpoint::{self, Driver, failed, window_in_time};
use crate::measure::{BenchError, Said, say};

const CHANNEL: Channel = Channel::SOLE;
const PORT: u16 = 7940;
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 79, 0, 2), 7941);
/// A receiver looks this often whether all is over.
const LOOK_UP: Duration = Duration::from_millis(50);

/// A member's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Who the members are is made of it.
    pub(super) seed: u64,
    /// Which one it is, from 1.
    pub(super) host: usize,
    /// All hosts' addresses, the sender's first.
    pub(super) hosts: Vec<Ipv4Addr>,
    pub(super) system: System,
    pub(super) receivers: usize,
    pub(super) packet: usize,
    pub(super) window: u32,
    /// Bytes of the messages that it sends; the first does not count. A receiver has none.
    pub(super) messages: Vec<u64>,
}

/// The settings of a course.
pub(super) fn settings(course: &Course, policy: Policy) -> MessagesConfig {
    paper(policy, course.packet, course.window, course.receivers)
}

/// 001's settings.
fn paper(policy: Policy, packet: usize, window: u32, receivers: usize) -> MessagesConfig {
    MessagesConfig {
        bulk: BulkConfig {
            // The announcement says how long the message is, and who registers has room for it:
            // that is the paper's exchange before the data, and there is no other.
            reserve: false,
            ..BulkConfig::paper(policy, packet, window)
        },
        receivers: Wanted::Count(receivers),
        ..MessagesConfig::default()
    }
}

/// Whether the protocol takes them.
pub(super) fn is_possible(settings: MessagesConfig) -> bool {
    let nobody = MemberId {
        node: NodeId(0),
        incarnation: Incarnation(0),
    };
    Messages::new(nobody, settings, Rng::new(0)).is_ok()
}

impl Member {
    /// Sends its messages, or receives until it is told to end. A sender's result is a [`Carried`],
    /// a receiver's how many acknowledgements it has sent since the first message.
    pub(in crate::measure) fn run(&self) -> Result<(), BenchError> {
        let mut actor = Actor {
            endpoint: self.open()?,
            receivers: self.receivers,
            awaited: None,
            whole: None,
            before: Counters::default(),
            first: Counters::default(),
        };
        let told = window_in_time();
        loop {
            match told.try_recv() {
                Ok(window) => break window.map(|_| ())?,
                Err(TryRecvError::Empty) => {
                    actor.before = actor.counters();
                    actor.turn(LOOK_UP)?;
                }
                Err(TryRecvError::Disconnected) => {
                    return Err(BenchError::client("read the window", "nobody tells it"));
                }
            }
        }
        if self.messages.is_empty() {
            let sent = actor.counters().reports_sent - actor.first.reports_sent;
            return say(&Said::Result(sent));
        }
        say(&Said::Result(actor.send(&self.messages)?))
    }

    fn open(&self) -> Result<Endpoint<Messages>, BenchError> {
        let policy = self.system.policy();
        let policy =
            policy.ok_or_else(|| failed("raw UDP and TCP are none of the four protocols"))?;
        let settings = paper(policy, self.packet, self.window, self.receivers);
        let local = self.member(self.host);
        let rng = Rng::new(self.seed).fork(&format!("host {}", self.host));
        let messages = Messages::new(local, settings, rng.fork("messages")).map_err(failed)?;
        let address = self.hosts.get(self.host - 1);
        let address = address.ok_or_else(|| failed("it has no address"))?;
        let config = EndpointConfig::multicast(SocketAddrV4::new(*address, PORT), GROUP);
        let mut endpoint = endpoint::open(local, config, None, &rng.fork("node"))?;
        let now = endpoint.now();
        let node = endpoint.node_mut();
        for (host, address) in (1..).zip(&self.hosts) {
            if host != self.host {
                let address = SocketAddrV4::new(*address, PORT);
                node.trust(now, self.member(host), SocketAddr::V4(address));
            }
        }
        node.open(CHANNEL, messages);
        Ok(endpoint)
    }

    /// The member on a host.
    fn member(&self, host: usize) -> MemberId {
        let mut rng = Rng::new(self.seed).fork(&format!("member {host}"));
        MemberId {
            node: NodeId::from_name(&format!("host-{host}")),
            incarnation: Incarnation(rng.next_u64()),
        }
    }
}

/// The member at work.
struct Actor {
    endpoint: Endpoint<Messages>,
    receivers: usize,
    /// The message on its way, of a sender.
    awaited: Option<MessageId>,
    /// Whether all receivers have it, once that is known.
    whole: Option<bool>,
    /// A receiver's counts before the turn that it is in.
    before: Counters,
    /// Those before the first message that counts.
    first: Counters,
}

impl Actor {
    fn send(&mut self, messages: &[u64]) -> Result<Carried, BenchError> {
        let mut carried = Carried::default();
        let Some((first, rest)) = messages.split_first() else {
            return Ok(carried);
        };
        let mut ended = self.send_one(*first)?.is_some();
        let before = self.counters();
        let watch = Watch::start();
        for size in rest {
            // What comes after one that is stuck would be measured with it.
            let seconds = if ended { self.send_one(*size)? } else { None };
            ended = seconds.is_some();
            carried.seconds.push(seconds);
        }
        watch.note(&mut carried);
        let now = self.counters();
        let sent = now.packets_sent - before.packets_sent;
        carried.repairs = now.packets_repeated - before.packets_repeated;
        carried.packets = sent - carried.repairs;
        carried.arrived = now.reports_received - before.reports_received;
        carried.buffered = self.messages().bulk().status().unacknowledged_max;
        Ok(carried)
    }

    /// Sends one message; how long it took until all receivers had it, in seconds.
    fn send_one(&mut self, size: u64) -> Result<Option<f64>, BenchError> {
        let payload = Bytes::from(vec![b'.'; size as usize]);
        let begun = clock::now();
        let limit = begun + clock::nanos(LIMIT);
        let now = self.endpoint.now();
        let submitted = self.messages().submit(now, Service::Reliable, payload);
        let id = submitted.map_err(|error| BenchError::client("submit", error))?;
        (self.awaited, self.whole) = (Some(id), None);
        while self.whole.is_none() {
            let now = clock::now();
            if now >= limit {
                return Ok(None);
            }
            self.turn(Duration::from_nanos(limit - now))?;
        }
        let seconds = (clock::now() - begun) as f64 / 1e9;
        Ok(self.whole.filter(|whole| *whole).map(|_| seconds))
    }

    fn messages(&mut self) -> &mut Messages {
        let instance = self.endpoint.node_mut().instance_mut(CHANNEL);
        instance.expect("opened with the endpoint")
    }

    fn counters(&mut self) -> Counters {
        self.messages().bulk().counters()
    }
}

impl Driver for Actor {
    type Protocol = Messages;

    fn endpoint(&mut self) -> &mut Endpoint<Messages> {
        &mut self.endpoint
    }

    fn take(&mut self, _now: Instant, event: Event) -> Result<(), BenchError> {
        match event {
            Event::Account(account) if Some(account.id) == self.awaited => {
                self.whole = Some(account.complete.len() == self.receivers);
            }
            // The first message does not count; of the second, some may have been acknowledged in
            // this turn already.
            Event::Enrolled { id } if id.number == 2 => self.first = self.before,
            _ => {}
        }
        Ok(())
    }
}
