//! The stage: members called A, B, C …, messages that arrive at once and in order, and a log of
//! what was said.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Incarnation, MemberId, MessageId, NodeId, Ordered, Protocol, Rng, Service,
    Time, TransmitBuf,
};

use super::super::wire::Message;
use super::super::{Gossip, GossipConfig};

/// The member called `name`.
pub(super) fn id(name: char) -> MemberId {
    let number = u64::from(u32::from(name));
    MemberId {
        node: NodeId(number),
        incarnation: Incarnation(number + 1),
    }
}

/// Message `number` of `sender`.
pub(super) fn message(sender: char, number: u64) -> MessageId {
    MessageId {
        sender: id(sender),
        number,
    }
}

fn name(member: MemberId) -> char {
    char::from_u32(member.node.0 as u32).unwrap_or('?')
}

type Filter = dyn FnMut(char, char, &str) -> bool;

/// Members and the messages between them.
pub(super) struct Script {
    pub(super) members: BTreeMap<char, Gossip>,
    /// Whether what one says to another arrives: from, to, what (as in the log).
    pub(super) arrives: alloc::boxed::Box<Filter>,
    pub(super) log: Vec<String>,
    pub(super) events: BTreeMap<char, Vec<Event>>,
    now: Time,
    on_way: VecDeque<(char, char, Bytes)>,
}

impl Script {
    /// Members of these names who know each other, with `settings` each. Rounds begin when the
    /// script says so.
    pub(super) fn new(names: &str, settings: impl Fn(char) -> GossipConfig) -> Self {
        let mut members = BTreeMap::new();
        for name in names.chars() {
            let config = GossipConfig {
                first_round: Some(Duration::ZERO),
                ..settings(name)
            };
            let rng = Rng::new(u64::from(u32::from(name)));
            let mut member =
                Gossip::new(config, id(name), rng, Time::ZERO).expect("settings of a test");
            for other in names.chars().filter(|other| *other != name) {
                member.meet(id(other));
            }
            members.insert(name, member);
        }
        Self {
            members,
            arrives: alloc::boxed::Box::new(|_, _, _| true),
            log: Vec::new(),
            events: BTreeMap::new(),
            now: Time::ZERO,
            on_way: VecDeque::new(),
        }
    }

    pub(super) fn member(&mut self, name: char) -> &mut Gossip {
        self.members.get_mut(&name).expect("a name of the script")
    }

    /// `who` sends a message.
    pub(super) fn submit(&mut self, who: char, text: &'static str) -> MessageId {
        let now = self.now;
        let payload = Bytes::from_static(text.as_bytes());
        let id = self.member(who).submit(now, Service::Fifo, payload);
        self.settle(who);
        id.expect("the queue has room")
    }

    /// `who` begins its next round; whatever follows from it happens before anything else.
    pub(super) fn round(&mut self, who: char) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        let member = self.member(who);
        member.round.due = now;
        member.handle_timeout(now);
        self.settle(who);
    }

    /// As [`round`](Self::round), but what follows waits until [`run`](Self::run).
    pub(super) fn begin_round(&mut self, who: char) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        let member = self.member(who);
        member.round.due = now;
        member.handle_timeout(now);
        self.drain(who);
    }

    /// All begin their next round, in the order of their names.
    pub(super) fn round_of_all(&mut self) {
        let names: Vec<char> = self.members.keys().copied().collect();
        names.into_iter().for_each(|name| self.round(name));
    }

    /// `to` gets `message` of `from`, who never said it.
    pub(super) fn forge(&mut self, from: char, to: char, message: &Message) {
        let now = self.now;
        self.member(to)
            .handle_datagram(now, id(from), message.encode());
        self.settle(to);
    }

    fn settle(&mut self, who: char) {
        self.drain(who);
        self.run();
    }

    /// Everything that is on its way arrives, in order.
    pub(super) fn run(&mut self) {
        while let Some((from, to, body)) = self.on_way.pop_front() {
            let said = describe(&body);
            if !(self.arrives)(from, to, &said) {
                continue;
            }
            let now = self.now;
            if let Some(member) = self.members.get_mut(&to) {
                member.handle_datagram(now, id(from), body);
                self.drain(to);
            }
        }
    }

    fn drain(&mut self, who: char) {
        let now = self.now;
        let mut buf = TransmitBuf::new(8, 0, 0);
        let names: Vec<char> = self.members.keys().copied().collect();
        let member = self.members.get_mut(&who).expect("a name of the script");
        while let Some(transmit) = member.poll_transmit(now, &mut buf) {
            for segment in buf.iter() {
                let body = Bytes::copy_from_slice(segment);
                let said = describe(&body);
                let (to, whom) = match transmit.destination {
                    Destination::Member(to) => (alloc::vec![name(to)], format!("{}", name(to))),
                    Destination::Group => (
                        names.iter().copied().filter(|to| *to != who).collect(),
                        String::from("all"),
                    ),
                };
                self.log.push(format!("{who} -> {whom}: {said}"));
                for to in to {
                    self.on_way.push_back((who, to, body.clone()));
                }
            }
            buf.clear();
        }
        let events = self.events.entry(who).or_default();
        events.extend(core::iter::from_fn(|| member.poll_event()));
    }

    /// What `who` was told, since the last time: numbers delivered, and gaps.
    pub(super) fn told(&mut self, who: char) -> Vec<String> {
        let events = core::mem::take(self.events.entry(who).or_default());
        let told = events.iter().map(|event| match event {
            Event::Deliver(delivery) => {
                format!("{}{}", name(delivery.id.sender), delivery.id.number)
            }
            Event::Gap(gap) => format!("gap {}{}..{}", name(gap.sender), gap.first, gap.last),
            Event::Stable { sender, number } => format!("stable {}{number}", name(*sender)),
            other => format!("{other:?}"),
        });
        told.collect()
    }

    /// The log since the last time, without gossip that led to nothing.
    pub(super) fn said(&mut self) -> Vec<String> {
        core::mem::take(&mut self.log)
    }
}

fn describe(body: &Bytes) -> String {
    let of = |id: MessageId| format!("{}{}", name(id.sender), id.number);
    match Message::decode(body).expect("members say what can be read") {
        Message::Data { header, .. } => {
            let kind = ["", "data", "repair", "multicast repair"][header.carries as usize];
            format!("{kind} {}", of(header.id))
        }
        Message::Gossip(gossip) => {
            let mut text = format!("gossip {}", gossip.round.0);
            for holding in &gossip.digest {
                for run in holding.runs.iter().rev() {
                    text += &format!(" {}{}..{}", name(holding.origin), run.first, run.last);
                    let repaired = run.repaired_within().map(|(first, last)| first..=last);
                    for number in repaired.into_iter().flatten().rev() {
                        if run.is_repaired(number) {
                            text += &format!(" !{number}");
                        }
                    }
                }
                for gap in holding.gaps.iter().rev() {
                    text += &format!(" -{}{}..{}", name(holding.origin), gap.first, gap.last);
                }
            }
            text
        }
        Message::Request { round, id } => format!("request {} {}", round.0, of(id)),
        Message::Special { requestor, id } => {
            format!("special request for {} {}", name(requestor), of(id))
        }
        Message::Info { gossiper, id } => format!("info {} {}", name(gossiper), of(id)),
        Message::Mcast { id } => format!("mcast {}", of(id)),
        Message::MulticastRequest { id } => format!("multicast request {}", of(id)),
        Message::Join { .. } => String::from("join"),
        Message::Leave => String::from("leave"),
        Message::Prove { .. } => String::from("prove"),
        Message::Proof { .. } => String::from("proof"),
    }
}
