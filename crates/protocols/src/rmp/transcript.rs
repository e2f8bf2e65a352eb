//! Sites beside each other, for the figures of the paper: a network without delay that loses what a
//! test says, and a transcript of all datagrams in the order in which they are sent.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{
    ConfigId, ConfigurationKind, Destination, Event, Incarnation, MemberId, NodeId, Ordered as _,
    Protocol as _, Rng, Service, Time, TransmitBuf,
};

use super::config::{NackTo, RmpConfig};
use super::operational::Operational;
use super::order::Order;
use super::wire::Message;
use super::{Rmp, State};

const NAMES: [char; 5] = ['A', 'B', 'C', 'D', 'E'];

pub(super) fn member(site: usize) -> MemberId {
    MemberId {
        node: NodeId(site as u64),
        incarnation: Incarnation(site as u64),
    }
}

/// Sites and what was sent and delivered.
pub(super) struct Group {
    pub(super) sites: Vec<Rmp>,
    pub(super) now: Time,
    pub(super) transcript: Vec<String>,
    /// Drop the next ACK or list on its way to this site.
    pub(super) loses: Option<usize>,
}

impl Group {
    /// This many sites with the paper's constants and unicast NACKs in one configuration, in which
    /// A has the token.
    pub(super) fn new(sites: usize) -> Self {
        let config = paper();
        let now = Time::from_millis(1);
        let id = ConfigId {
            counter: 1,
            representative: member(0),
        };
        let count = sites;
        let sites = (0..count).map(|site| {
            let rng = Rng::new(site as u64);
            let mut rmp = Rmp::new(config.clone(), member(site), rng, now).unwrap();
            let members = (0..count).map(member).collect();
            let order = Order::new(id, members, member(site), Seq::ZERO, 1431, &config);
            rmp.timers.cancel_all();
            rmp.peers.note_installed(1);
            rmp.outbox = super::outbox::Outbox::default();
            rmp.state = State::Operational(Operational::new(order).into());
            rmp.act(now);
            rmp
        });
        Self {
            sites: sites.collect(),
            now,
            transcript: Vec::new(),
            loses: None,
        }
    }

    /// Sends and delivers until nobody has anything to say at this time.
    pub(super) fn settle(&mut self) {
        let mut buf = TransmitBuf::new(16, 0, 0);
        let mut sent: Vec<(usize, Destination, Bytes)> = Vec::new();
        loop {
            for (from, site) in self.sites.iter_mut().enumerate() {
                while let Some(transmit) = site.poll_transmit(self.now, &mut buf) {
                    let bodies = buf.iter().map(Bytes::copy_from_slice);
                    sent.extend(bodies.map(|body| (from, transmit.destination, body)));
                    buf.clear();
                }
                while let Some(event) = site.poll_event() {
                    let what = match event {
                        Event::Deliver(delivery) => {
                            let of = name(delivery.id.sender);
                            format!("delivers ({of},{})", delivery.id.number)
                        }
                        Event::Configuration(it) => {
                            let kind = match it.kind {
                                ConfigurationKind::Regular => "is in",
                                ConfigurationKind::Transitional => "goes on with",
                            };
                            format!(
                                "{kind} {}",
                                it.members.into_iter().map(name).collect::<String>()
                            )
                        }
                        Event::Left => "has left".to_string(),
                        _ => continue,
                    };
                    self.transcript.push(format!("  {} {what}", NAMES[from]));
                }
            }
            if sent.is_empty() {
                return;
            }
            let (from, destination, body) = sent.remove(0);
            let to: Vec<usize> = match destination {
                Destination::Group => {
                    let all = 0..self.sites.len();
                    all.filter(|site| *site != from).collect()
                }
                Destination::Member(to) => vec![to.node.0 as usize],
            };
            let message = Message::decode(&body).unwrap();
            let lost = match message {
                Message::Ack(_) | Message::List(_) => self.loses.take(),
                _ => None,
            };
            self.note(from, destination, &message, lost);
            for site in to.into_iter().filter(|site| Some(*site) != lost) {
                let (now, from) = (self.now, member(from));
                self.sites[site].handle_datagram(now, from, body.clone());
            }
        }
    }

    /// Tells of a datagram: not of polls and announcements, which the figures do not have.
    fn note(&mut self, from: usize, to: Destination, message: &Message, lost: Option<usize>) {
        let to = match to {
            Destination::Group => "all".to_string(),
            Destination::Member(to) => NAMES[to.node.0 as usize].to_string(),
        };
        let what = match message {
            Message::Data(data) => {
                format!(
                    "data ({},{})",
                    NAMES[usize::from(data.origin)],
                    data.number.0
                )
            }
            Message::Ack(ack) => {
                let next = NAMES[usize::from(ack.next)];
                let packets = ack.packets.iter().map(|run| {
                    let origin = NAMES[usize::from(run.origin)];
                    format!("({origin},{})", run.first.0)
                });
                let packets = packets.collect::<String>();
                let packets = if packets.is_empty() {
                    "null".into()
                } else {
                    packets
                };
                format!("ACK({packets},{},{next})", ack.stamp.0)
            }
            Message::Nack(nack) => {
                let run = nack.positions[0];
                match run.count {
                    1 => format!("NACK({})", run.first.0),
                    count => format!(
                        "NACK({}-{})",
                        run.first.0,
                        run.first.0 + u64::from(count) - 1
                    ),
                }
            }
            Message::Settle { marks, .. } => format!("ready for {}", marks.ready.0),
            Message::Confirm { stamp, .. } => format!("Confirm({})", stamp.0),
            Message::Poll(_) | Message::Announcement(_) => return,
            Message::Join(_) => "wants to join".to_string(),
            Message::Leave { .. } => "wants to leave".to_string(),
            Message::Listed(listed) => format!("has heard list {}", listed.version),
            Message::List(it) => {
                let ring = it.list.ring.iter().map(|index| NAMES[usize::from(*index)]);
                let next = NAMES[usize::from(it.ack.next)];
                format!(
                    "ACK(list {},{},{next})",
                    ring.collect::<String>(),
                    it.ack.stamp.0
                )
            }
            other => format!("{other:?}"),
        };
        let lost = lost.map_or(String::new(), |site| format!(", not to {}", NAMES[site]));
        self.transcript
            .push(format!("{} to {to}: {what}{lost}", NAMES[from]));
    }

    pub(super) fn submit(&mut self, site: usize) {
        self.submit_as(site, Service::Agreed);
    }

    /// A message of this service.
    pub(super) fn submit_as(&mut self, site: usize, service: Service) {
        let now = self.now;
        self.sites[site]
            .submit(now, service, Bytes::from_static(b"message"))
            .unwrap();
        self.settle();
    }

    /// Time passes until `span` is over, with every timer on time.
    pub(super) fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let due = self.sites.iter().filter_map(Rmp::poll_timeout);
            match due.min() {
                Some(due) if due <= end => self.now = self.now.max(due),
                _ => break,
            }
            for site in &mut self.sites {
                site.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    pub(super) fn frame(&mut self, number: u32) {
        self.transcript.push(format!("frame {number}"));
    }

    /// One more site starts, and looks for others.
    pub(super) fn start(&mut self) {
        let site = self.sites.len();
        let config = paper();
        let rmp = Rmp::new(config, member(site), Rng::new(site as u64), self.now);
        self.sites.push(rmp.expect("the preset is valid"));
        self.settle();
    }

    /// The transcript as a text.
    pub(super) fn text(&self) -> String {
        self.transcript.join("\n")
    }
}

fn name(member: MemberId) -> char {
    NAMES[member.node.0 as usize]
}

fn paper() -> RmpConfig {
    RmpConfig {
        nack: NackTo::Unicast,
        ..RmpConfig::paper()
    }
}
