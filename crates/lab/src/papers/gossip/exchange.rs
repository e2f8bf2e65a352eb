//! Gossip members in an exchange: a script says who gossips to whom and which copies are lost; what
//! they then send to each other is theirs, and is recorded.
//!
//! No network but a delay, no randomness but where the script ends. For the exchanges that 004
//! draws (Fig. 3.1, 5.5, 5.8, 7.1).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::trace::Role;
use groupcast_core::{
    Destination, Event, Incarnation, MemberId, MessageId, NodeId, Ordered as _, Protocol as _, Rng,
    Service, SocketClass, Time, TransmitBuf,
};
use groupcast_protocols::gossip::{self, Gossip, GossipConfig};

use super::super::RunError;
use super::super::data::Table;

/// One way, for every datagram.
const DELAY: Duration = Duration::from_millis(5);

/// What happens in an exchange.
pub(super) struct Script {
    /// The members' names; a member's node is its place, from 1.
    pub(super) members: &'static [&'static str],
    /// Their zones: neighbours share one (004 5.3.3).
    pub(super) zones: &'static [u32],
    /// Whom each member gossips to in rounds 1, 2, …, by place; later rounds are random.
    pub(super) partners: &'static [&'static [&'static [usize]]],
    /// The messages, each a sender's next.
    pub(super) messages: &'static [Sending],
    /// The settings of all.
    pub(super) config: GossipConfig,
    /// When it ends, in milliseconds.
    pub(super) until: u64,
}

/// A message of a script.
pub(super) struct Sending {
    pub(super) name: &'static str,
    /// When, in milliseconds.
    pub(super) at: u64,
    /// The sender's place.
    pub(super) by: usize,
    /// Whose copies of the first multicast are lost.
    pub(super) lost_by: &'static [usize],
}

/// A datagram that one member sent to another, or to all.
pub(super) struct SentDatagram {
    /// When it was sent, in milliseconds.
    at: u64,
    from: usize,
    /// All members, if `None`.
    to: Option<usize>,
    kind: &'static str,
    /// Which message it carries or is about.
    about: &'static str,
    /// The members that did not get it.
    lost_by: String,
}

/// What happened in an exchange.
pub(super) struct Exchange {
    pub(super) said: Vec<SentDatagram>,
    /// Deliveries: when (milliseconds), at whom, what.
    pub(super) delivered: Vec<(u64, usize, &'static str)>,
    /// At the end, who still holds what.
    pub(super) holds: Vec<(usize, &'static str)>,
}

impl Exchange {
    /// The columns of a table of all that was sent.
    pub(super) const SAID: [(&'static str, &'static str); 7] = [
        ("variant", ""),
        ("at", "ms"),
        ("from", ""),
        ("to", ""),
        ("kind", ""),
        ("message", ""),
        ("lost by", ""),
    ];
    /// The columns of a table of deliveries.
    pub(super) const DELIVERED: [(&'static str, &'static str); 4] = [
        ("variant", ""),
        ("at", "ms"),
        ("member", ""),
        ("message", ""),
    ];
    /// The columns of a table of who holds what at the end.
    pub(super) const HOLDS: [(&'static str, &'static str); 3] =
        [("variant", ""), ("member", ""), ("message", "")];

    /// Appends what happened to tables with these columns.
    pub(super) fn write(&self, script: &Script, variant: &str, tables: &mut [Table; 3]) {
        let name = |place: usize| script.members[place];
        let [said, delivered, holds] = tables;
        for it in &self.said {
            said.row([
                variant.into(),
                it.at.into(),
                name(it.from).into(),
                it.to.map_or("all", name).into(),
                it.kind.into(),
                it.about.into(),
                it.lost_by.as_str().into(),
            ]);
        }
        for (at, member, message) in &self.delivered {
            delivered.row([
                variant.into(),
                (*at).into(),
                name(*member).into(),
                (*message).into(),
            ]);
        }
        for (member, message) in &self.holds {
            holds.row([variant.into(), name(*member).into(), (*message).into()]);
        }
    }
}

/// The id of the member at a place of the script.
fn member(place: usize) -> MemberId {
    MemberId {
        node: NodeId(place as u64 + 1),
        incarnation: Incarnation(place as u64 + 1),
    }
}

fn place(member: MemberId) -> usize {
    member.node.0 as usize - 1
}

/// Runs `script`.
pub(super) fn run_script(script: &Script) -> Result<Exchange, RunError> {
    let mut run = ExchangeRun::new(script)?;
    for at in 0..=script.until {
        run.pass(at)?;
    }
    Ok(run.end())
}

struct ExchangeRun<'a> {
    script: &'a Script,
    members: Vec<Gossip>,
    /// Datagrams under way, by when they arrive and in which order they were sent.
    flying: BTreeMap<(u64, u64), (usize, usize, Bytes)>,
    sent: u64,
    names: BTreeMap<MessageId, &'static str>,
    exchange: Exchange,
}

impl<'a> ExchangeRun<'a> {
    fn new(script: &'a Script) -> Result<Self, RunError> {
        let rng = Rng::new(1).fork("stage");
        let mut members = Vec::new();
        for index in 0..script.members.len() {
            let rounds = script.partners.get(index).copied().unwrap_or(&[]);
            let nodes = |places: &&[usize]| places.iter().map(|it| member(*it).node).collect();
            let config = GossipConfig {
                zone: script.zones.get(index).copied().unwrap_or(0),
                partners: rounds.iter().map(nodes).collect(),
                ..script.config.clone()
            };
            let rng = rng.fork_index(index as u64);
            let gossip = Gossip::new(config, member(index), rng, Time::ZERO)
                .map_err(|error| RunError::Failed(error.to_string()))?;
            members.push(gossip);
        }
        for (index, one) in members.iter_mut().enumerate() {
            for other in (0..script.members.len()).filter(|other| *other != index) {
                one.meet(member(other));
            }
        }
        Ok(Self {
            script,
            members,
            flying: BTreeMap::new(),
            sent: 0,
            names: BTreeMap::new(),
            exchange: Exchange {
                said: Vec::new(),
                delivered: Vec::new(),
                holds: Vec::new(),
            },
        })
    }

    /// A millisecond: what arrives, what is sent, whose round begins.
    fn pass(&mut self, at: u64) -> Result<(), RunError> {
        let now = Time::from_millis(at);
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= at
        {
            let (from, to, body) = entry.remove();
            self.members[to].handle_datagram(now, member(from), body);
            self.drain(at, to);
        }
        for sending in self.script.messages.iter().filter(|it| it.at == at) {
            let payload = Bytes::from_static(sending.name.as_bytes());
            let id = self.members[sending.by]
                .submit(now, Service::Fifo, payload)
                .map_err(|error| RunError::Failed(error.to_string()))?;
            self.names.insert(id, sending.name);
            self.drain(at, sending.by);
        }
        for index in 0..self.members.len() {
            if self.members[index]
                .poll_timeout()
                .is_some_and(|due| due <= now)
            {
                self.members[index].handle_timeout(now);
                self.drain(at, index);
            }
        }
        Ok(())
    }

    fn drain(&mut self, at: u64, from: usize) {
        let now = Time::from_millis(at);
        let mut buf = TransmitBuf::new(1, 0, 0);
        loop {
            buf.clear();
            let Some(transmit) = self.members[from].poll_transmit(now, &mut buf) else {
                break;
            };
            let body = Bytes::copy_from_slice(buf.as_bytes());
            self.say(at, from, transmit.destination, &body);
        }
        while let Some(event) = self.members[from].poll_event() {
            if let Event::Deliver(delivery) = event {
                let name = self.names.get(&delivery.id).copied();
                // A sender delivers before its message has a name here.
                let name = name.unwrap_or_else(|| self.name_of(&delivery.payload));
                self.exchange.delivered.push((at, from, name));
            }
        }
    }

    fn name_of(&self, payload: &[u8]) -> &'static str {
        let found = self
            .script
            .messages
            .iter()
            .find(|it| it.name.as_bytes() == payload);
        found.map_or("", |it| it.name)
    }

    fn say(&mut self, at: u64, from: usize, destination: Destination, body: &Bytes) {
        let mut carried = "";
        let inspected = gossip::inspect(SocketClass::Data, body, &mut |payload| {
            carried = self.name_of(payload);
        });
        let about = gossip::subject(body).and_then(|id| self.names.get(&id).copied());
        let about = about.unwrap_or(carried);
        let sending = self.script.messages.iter().find(|it| it.name == about);
        let lost: BTreeSet<usize> = match (inspected.role, sending) {
            (Role::Data, Some(sending)) => sending.lost_by.iter().copied().collect(),
            _ => BTreeSet::new(),
        };
        let to = match destination {
            Destination::Group => None,
            Destination::Member(member) => Some(place(member)),
        };
        let others = (0..self.members.len()).filter(|it| *it != from);
        let receivers = others.filter(|it| to.is_none_or(|to| to == *it));
        let arrives = at + DELAY.as_millis() as u64;
        for receiver in receivers
            .filter(|it| !lost.contains(it))
            .collect::<Vec<_>>()
        {
            self.sent += 1;
            let datagram = (from, receiver, body.clone());
            self.flying.insert((arrives, self.sent), datagram);
        }
        let names: Vec<_> = lost.iter().map(|it| self.script.members[*it]).collect();
        self.exchange.said.push(SentDatagram {
            at,
            from,
            to,
            kind: inspected.kind,
            about,
            lost_by: names.join(" "),
        });
    }

    fn end(mut self) -> Exchange {
        for (index, gossip) in self.members.iter().enumerate() {
            for (id, name) in &self.names {
                if gossip.holds(*id) {
                    self.exchange.holds.push((index, name));
                }
            }
        }
        self.exchange
    }
}
