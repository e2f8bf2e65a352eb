//! Bimodal groups: gossip carries their messages instead of an order. A lost message is reported as
//! a gap, and nobody waits for a slow member (004).
//!
//! Each such group has a gossip instance of its own, which the daemon runs. Its index is that of
//! the group in [`EngineConfig::bimodal_groups`](super::EngineConfig::bimodal_groups). One instance
//! for several groups could not report gaps exactly: a lost message cannot say for which group it
//! was.
//!
//! **Messages.** A client's message goes to the gossip as soon as there is room, whether an order
//! is steady or not, and is accepted then. Delivered messages go to the subscribers here in their
//! sender's order; in the place of a message that the gossip reports as lost they get a gap.
//! Numbers count all messages that one daemon sent to the group, its announcements included.
//!
//! **Slow subscribers.** No publisher is held back for a slow subscriber. From
//! [`drop_unreliable_at`](super::EngineConfig::drop_unreliable_at) bytes of output on it misses
//! messages, and gets gaps in their place when it has taken half of its output.
//!
//! **Members** are approximate; `members` has the rules, and `envelope` the bytes. What clients of
//! the bus accept: `bus`.

mod bus;
mod envelope;
mod members;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::{
    Delivery, Event, Gap, MemberId, MessageId, NodeId, Service, SubmitError, Time,
};

use self::envelope::Envelope;
use self::members::Members;
use super::chain::Payload;
use super::filters::Filters;
use super::orders::OrderIndex;
use super::output::ForSlow;
use super::patterns::Patterns;
use super::spread::{HAND_OVER, Stage};
use super::submit::Published;
use super::{BimodalStatus, ClientId, Engine, Fact, GroupStatus};
use crate::frame::{
    BUS, DaemonFrame, Disconnect, Label, MessageHead, Publish, Reject, credit_cost,
    encode_message_head,
};

/// The most bimodal groups of a daemon.
pub const BIMODAL_GROUPS_MAX: usize = 64;
/// The longest payload in a bimodal group: a message and its envelope are one datagram.
pub const BIMODAL_MESSAGE_MAX: usize = 63_000;

/// The most senders of which one client may have missed messages that were not reported to it yet.
const MISSED_MAX: usize = 4_096;

/// The messages that a client missed: by group and sender, the first number and the last.
pub(super) type MissedRanges = BTreeMap<(usize, MemberId), (u64, u64)>;

/// All bimodal groups.
#[derive(Debug)]
pub(super) struct Bimodal {
    groups: Vec<Group>,
    /// What clients of this daemon accept in them.
    filters: Filters,
    /// Hashes of the names of groups that are bimodal at other daemons, and not here.
    elsewhere: BTreeSet<NodeId>,
}

#[derive(Debug)]
struct Group {
    name: Arc<str>,
    /// Clients of this daemon that are in the group.
    subscribers: BTreeSet<ClientId>,
    members: Members,
    queue: VecDeque<Waiting>,
    /// The gossip takes nothing until it says that it is writable.
    full: bool,
    /// Clients in an agreed group of this name.
    agreed_elsewhere: usize,
}

/// A client's message that waits for the gossip.
#[derive(Debug)]
struct Waiting {
    message: Published,
    payload: Bytes,
}

impl Bimodal {
    pub(super) fn new(names: &[String]) -> Self {
        let groups = names.iter().map(|name| Group {
            name: name.as_str().into(),
            subscribers: BTreeSet::new(),
            members: Members::default(),
            queue: VecDeque::new(),
            full: false,
            agreed_elsewhere: 0,
        });
        Self {
            groups: groups.collect(),
            filters: Filters::default(),
            elsewhere: BTreeSet::new(),
        }
    }

    /// How many groups there are: their indices are below it.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The index of the group called `name`, if it is bimodal.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| *group.name == *name)
    }

    /// What the clients here accept in these groups, compiled.
    pub(super) fn patterns(&mut self) -> &mut Patterns {
        &mut self.filters.compiled
    }

    /// Whether the group called `name` is bimodal at other daemons, and not here.
    pub(super) fn is_elsewhere(&self, name: &str) -> bool {
        !self.elsewhere.is_empty()
            && self.elsewhere.contains(&NodeId::from_name(name))
            && self.find(name).is_none()
    }
}

impl Engine {
    /// Tells the engine which groups are bimodal at other daemons and not here, by the hashes of
    /// their names ([`NodeId::from_name`]). A join of one of them is refused here: it would be
    /// another group.
    pub fn bimodal_elsewhere(&mut self, groups: impl IntoIterator<Item = NodeId>) {
        self.bimodal.elsewhere = groups.into_iter().collect();
    }

    /// Checks whether an agreed group has the name of the bimodal group `index`, and logs that
    /// once.
    fn look_for_namesake(&mut self, index: usize) {
        let group = &mut self.bimodal.groups[index];
        let namesakes = self.orders[OrderIndex::OWN].table.members(&group.name);
        let before = std::mem::replace(&mut group.agreed_elsewhere, namesakes.len());
        if before == 0
            && let Some(client) = namesakes.first()
        {
            let fact = Fact::TwoGroups {
                group: group.name.clone(),
                client: client.clone(),
                clients: namesakes.len(),
            };
            self.journal.fact(fact);
        }
    }

    /// Handles an event of the gossip of the bimodal group `index`.
    pub(super) fn handle_gossip_event(&mut self, now: Time, index: usize, event: Event) {
        if index >= self.bimodal.len() {
            return;
        }
        // Of a host that hands over an event although there is no time for it.
        let has_to_follow = matches!(event, Event::Deliver(_) | Event::Gap(_));
        if has_to_follow && self.orders[OrderIndex::OWN].spread.is_some() {
            self.finish_spreading(OrderIndex::OWN, now);
        }
        match event {
            Event::Deliver(delivery) => self.apply_bimodal(now, index, &delivery),
            Event::Gap(gap) => self.apply_gap(now, index, gap),
            Event::Writable => self.bimodal.groups[index].full = false,
            _ => {}
        }
        self.check_output(now);
    }

    /// The error of a message whose service does not fit its destinations: bimodal groups, and only
    /// they, have the service bimodal.
    pub(super) fn misdirected(&self, publish: &Publish) -> Option<(Reject, String)> {
        let mut bimodal = publish
            .destinations()
            .filter(|name| self.bimodal.find(name).is_some());
        let text = if publish.service != Service::Bimodal {
            let name = bimodal.next()?;
            format!("the group {name:?} is bimodal: publish to it with the service bimodal")
        } else if publish.destinations().count() > 1 {
            "a bimodal message goes to one group: publish it to each by itself".to_owned()
        } else if bimodal.next().is_none() {
            let name = publish.destinations().next().unwrap_or_default();
            format!(
                "the group {name:?} is not bimodal at the daemon {}: name it in bimodal.groups of every daemon that is to \
                 carry it, or publish with another service",
                self.host
            )
        } else {
            let (len, max) = (publish.payload().len(), self.config.bimodal_message_max);
            if len <= max {
                return None;
            }
            let text = format!(
                "the message has {len} bytes, at most {max} are allowed in a bimodal group: split it"
            );
            return Some((Reject::TooLarge, text));
        };
        Some((Reject::Unsupported, text))
    }

    /// Queues a message for the gossip of the group `index`.
    pub(super) fn queue_bimodal(&mut self, id: ClientId, index: usize, publish: Publish) {
        let cost = credit_cost(publish.stream_len());
        let message = Published {
            client: id,
            number: publish.number,
            cost: cost as u64,
        };
        let Some(client) = self.clients.queued(id, cost) else {
            return;
        };
        client.bimodal_waiting += 1;
        let mut head = std::mem::take(&mut self.scratch);
        head.clear();
        let label = publish.label().filter(|label| *label != Label::NONE);
        envelope::encode_data_head(&mut head, id.0, &client.private, label);
        self.bimodal.groups[index].queue.push_back(Waiting {
            message,
            payload: publish.into_payload_after(&head),
        });
        self.scratch = head;
    }

    /// Drops the messages of a client that wait for gossip; whether there were any.
    pub(super) fn drop_bimodal(&mut self, id: ClientId) -> bool {
        let mut dropped = Vec::new();
        for group in &mut self.bimodal.groups {
            group.queue.retain(|waiting| {
                let is_its = waiting.message.client == id;
                if is_its {
                    dropped.push(waiting.message);
                }
                !is_its
            });
        }
        for message in &dropped {
            if let Some(client) = self.clients.unqueued(id, message.cost as usize) {
                client.bimodal_waiting -= 1;
                client.turned_away(message.number);
            }
        }
        !dropped.is_empty()
    }

    /// The bimodal groups with their members.
    pub(super) fn bimodal_groups(&self) -> impl Iterator<Item = GroupStatus> {
        let groups = self.bimodal.groups.iter().enumerate();
        groups.map(|(index, group)| GroupStatus {
            ring: None,
            name: group.name.clone(),
            approximate: true,
            members: self.bimodal_members(index),
        })
    }

    pub(super) fn bimodal_status(&self) -> Vec<BimodalStatus> {
        let groups = self.bimodal.groups.iter();
        groups
            .map(|group| BimodalStatus {
                name: group.name.clone(),
                subscribers: group.subscribers.len(),
                members: group.subscribers.len() + group.members.others(),
                agreed_elsewhere: group.agreed_elsewhere,
                waiting: group.queue.len(),
            })
            .collect()
    }

    /// The next message for the gossip. It stays the next one until
    /// [`submitted_to_gossip`](Self::submitted_to_gossip).
    pub(super) fn next_for_gossip(&mut self, now: Time, index: usize) -> Option<Bytes> {
        if self.bimodal.groups[index].full {
            return None;
        }
        self.presence_due(now, index).or_else(|| {
            let front = self.bimodal.groups[index].queue.front()?;
            Some(front.payload.clone())
        })
    }

    /// The answer of the gossip to the next message.
    pub(super) fn submitted_to_gossip(
        &mut self,
        now: Time,
        index: usize,
        result: Result<MessageId, SubmitError>,
    ) {
        let group = &mut self.bimodal.groups[index];
        if let Err(SubmitError::Full { .. }) = result {
            group.full = true;
            return;
        }
        if group.members.is_announcing() {
            // An announcement that was refused for good is made again with the next change.
            return group.members.announced(now);
        }
        let Some(Waiting { message, .. }) = group.queue.pop_front() else {
            return;
        };
        let id = message.client;
        if let Some(client) = self.clients.unqueued(id, message.cost as usize) {
            client.bimodal_waiting -= 1;
        }
        self.handed_over(now, message, result.map(|_| None));
        self.go_on_leaving(now, id);
    }

    /// A message of the gossip has come, or is gone on with.
    pub(super) fn apply_bimodal(&mut self, now: Time, index: usize, delivery: &Delivery) {
        let from = delivery.id.sender;
        match Envelope::decode(&delivery.payload) {
            Ok(Some(Envelope::Data {
                client,
                sender,
                label,
                payload_at,
            })) => {
                self.heard_of(now, index, from, sender);
                if !self.try_bimodal(index, label.tag) {
                    return self.put_off(OrderIndex::OWN, delivery, Stage::Bimodal { index });
                }
                let payload = (&delivery.payload, payload_at);
                self.show_message(now, index, delivery.id, (client, sender), label, payload);
            }
            Ok(Some(Envelope::Presence { host, clients })) => {
                if from != self.local {
                    self.take_presence(now, index, from, host, &clients);
                }
            }
            Ok(None) => self.nonsense(from, "an unknown kind of envelope in a bimodal group"),
            Err(error) => self.nonsense(from, error),
        }
    }

    /// Tries a tag on the patterns of the group's clients; returns false if this turn has no time
    /// for all.
    fn try_bimodal(&mut self, index: usize, tag: &str) -> bool {
        let Bimodal {
            groups, filters, ..
        } = &mut self.bimodal;
        // It shares the turns of the daemon's own order.
        let work = &mut self.orders[OrderIndex::OWN].work;
        filters.try_some(&groups[index].name, tag, |it| work.spend_some(it))
    }

    /// Puts a message into the output of the group's subscribers.
    fn show_message(
        &mut self,
        now: Time,
        index: usize,
        id: MessageId,
        (number, sender): (u64, &str),
        label: Label<'_>,
        (piece, payload_at): (&Bytes, usize),
    ) {
        let Bimodal {
            groups, filters, ..
        } = &mut self.bimodal;
        let group = &groups[index];
        let work = &mut self.orders[OrderIndex::OWN].work;
        work.spend(group.subscribers.len());
        let subscribers = group.subscribers.iter().map(|id| &id.0);
        let passing = filters.passes(subscribers, &group.name, label.tag);
        let passing: Vec<ClientId> = passing.map(|id| ClientId(*id)).collect();
        work.spend(HAND_OVER * passing.len());
        let payload = Payload::new(piece, payload_at, passing.len());
        let head = MessageHead {
            service: Service::Bimodal,
            place: None,
            number: Some(id.number),
            sender,
            label: None,
        };
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        encode_message_head(&mut bytes, &head, 0, &[&*group.name], payload.len());
        // As far as this daemon has heard what its sender is called.
        let called = self.orders[OrderIndex::OWN].table.id_of(id.sender, number);
        let mut labelled = Vec::new();
        if label != Label::NONE || called.is_some() {
            let head = MessageHead {
                label: Some((called.map_or("", |it| it), label)),
                ..head
            };
            encode_message_head(&mut labelled, &head, 0, &[&*group.name], payload.len());
        }
        let own = (id.sender == self.local).then_some(ClientId(number));
        for client in passing {
            if own == Some(client) && self.discards_own_bimodal(client, index) {
                continue;
            }
            self.report_missed_of(client, index, id.sender);
            let head = match !labelled.is_empty() && self.knows(client, BUS) {
                true => &labelled,
                false => &bytes,
            };
            if self.offer(client, head, payload) {
                self.journal.counters.delivered += 1;
            } else {
                self.miss(now, client, index, id.sender, (id.number, id.number));
            }
        }
        self.scratch = bytes;
    }

    /// Reports lost messages to the group's subscribers.
    fn apply_gap(&mut self, now: Time, index: usize, gap: Gap) {
        let subscribers: Vec<ClientId> = {
            let group = &self.bimodal.groups[index];
            group.subscribers.iter().copied().collect()
        };
        for client in subscribers {
            self.report_missed_of(client, index, gap.sender);
            if !self.report_gap(client, index, gap) {
                self.miss(now, client, index, gap.sender, (gap.first, gap.last));
            }
        }
    }

    /// Notes that a slow client misses messages: the gaps are reported to it later.
    fn miss(
        &mut self,
        now: Time,
        id: ClientId,
        index: usize,
        sender: MemberId,
        (first, last): (u64, u64),
    ) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.link.as_ref().is_none_or(|link| link.closing) {
            return;
        }
        self.journal.counters.bimodal_missed += last - first + 1;
        client.dropped += last - first + 1;
        let known = client.missed.len();
        // A sender's numbers come in order and without a hole, so one range is enough.
        let range = client
            .missed
            .entry((index, sender))
            .or_insert((first, last));
        range.1 = last;
        if known >= MISSED_MAX {
            let text = format!(
                "too slow: messages of {known} senders were missed; read messages as they come"
            );
            self.disconnect(now, id, Disconnect::TooSlow, text);
        }
    }

    /// Reports to a client the messages that it missed, once it has taken half of its output.
    pub(super) fn report_missed(&mut self, id: ClientId) {
        let limit = self.config.drop_unreliable_at / 2;
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let slow = client
            .link
            .as_ref()
            .is_none_or(|link| link.output.backlog() > limit);
        if slow || client.missed.is_empty() {
            return;
        }
        let keys: Vec<_> = client.missed.keys().copied().collect();
        for (index, sender) in keys {
            self.report_missed_of(id, index, sender);
        }
    }

    /// Reports to a client the messages of one sender that it missed, if there is room.
    fn report_missed_of(&mut self, id: ClientId, index: usize, sender: MemberId) {
        let key = (index, sender);
        let missed = self.clients.get(id);
        let Some((first, last)) = missed.and_then(|client| client.missed.get(&key).copied()) else {
            return;
        };
        let gap = Gap {
            sender,
            first,
            last,
        };
        if self.report_gap(id, index, gap)
            && let Some(client) = self.clients.get_mut(id)
        {
            client.missed.remove(&key);
        }
    }

    /// Puts a gap into a client's output; returns false if too much waits there.
    fn report_gap(&mut self, id: ClientId, index: usize, gap: Gap) -> bool {
        let Gap {
            sender,
            first,
            last,
        } = gap;
        let group = &self.bimodal.groups[index];
        let frame = DaemonFrame::Gap {
            group: group.name.to_string(),
            sender: match group.members.host(sender) {
                _ if sender == self.local => self.host.to_string(),
                Some(host) => host.to_string(),
                None => sender.to_string(),
            },
            first,
            last,
        };
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let nothing = Bytes::new();
        let reported = self.offer(id, &bytes, Payload::new(&nothing, 0, 1));
        self.journal.counters.gaps += u64::from(reported);
        reported
    }

    /// Puts a frame into a client's output; returns false if so much waits there that the client
    /// misses messages.
    fn offer(&mut self, id: ClientId, head: &[u8], payload: Payload<'_>) -> bool {
        let limit = self.config.drop_unreliable_at;
        let Some(link) = self.clients.link_mut(id).filter(|link| !link.closing) else {
            return false;
        };
        if link.output.backlog() >= limit {
            return false;
        }
        link.output.deliver(head, payload, ForSlow::Keep);
        let memory = link.count_memory();
        self.clients.output_changed(memory);
        self.schedule.ready.insert(id);
        self.go_on_spilling(id);
        true
    }

    fn discards_own_bimodal(&self, id: ClientId, index: usize) -> bool {
        let name = &self.bimodal.groups[index].name;
        let client = self.clients.get(id);
        client.is_some_and(|client| client.wanted.get(name) == Some(&true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::spread::tests::{LOCAL, crowd, got};
    use super::*;
    use crate::groups::Carrier;

    const COUNT: u64 = 100;
    const PATTERNS: usize = 50;

    /// A message with a tag that nobody has seen.
    fn tagged(number: u64) -> Event {
        let tag = format!("{}{number}", "x".repeat(254));
        let label = Label {
            tag: &tag,
            ..Label::NONE
        };
        let mut bytes = Vec::new();
        envelope::encode_data_head(&mut bytes, 1, "c1@h", Some(label));
        bytes.extend(format!("text{number}").as_bytes());
        Event::Deliver(Delivery {
            id: MessageId {
                sender: LOCAL,
                number,
            },
            service: Service::Bimodal,
            place: None,
            payload: bytes.into(),
        })
    }

    /// Clients may change what they accept meanwhile: nobody can keep a message by that.
    #[test]
    fn a_tag_that_is_tried_on_very_many_patterns_keeps_no_turn_long() {
        let (mut engine, group) = (crowd(COUNT, 0), Arc::from("ticks"));
        engine.bimodal = Bimodal::new(&["ticks".to_owned()]);
        for client in 1..=COUNT {
            let bimodal = &mut engine.bimodal;
            bimodal.groups[0].subscribers.insert(ClientId(client));
            for number in 0..PATTERNS {
                let pattern = format!("x*Z{number}");
                bimodal.filters.accept(client, &group, &pattern);
            }
        }
        engine.bimodal.filters.accept(7, &group, "x+[0-9]");
        let (work, mut turns) = (10_000, Vec::new());
        let mut events = (1..=5).map(tagged).peekable();
        while events.peek().is_some() || engine.orders[OrderIndex::OWN].spread.is_some() {
            let before = engine.orders[OrderIndex::OWN].work.done();
            engine.begin_turn(Time::ZERO, work);
            while engine.has_time_for(Carrier::Order)
                && let Some(event) = events.next()
            {
                engine.handle_event(Time::ZERO, Carrier::Bimodal(0), event);
            }
            turns.push(engine.orders[OrderIndex::OWN].work.done() - before);
            if turns.len() == 5 {
                engine.bimodal.filters.accept(8, &group, "x+[0-9]");
                engine.bimodal.filters.reject(7, &group, "x+[0-9]");
                engine.bimodal.filters.leave(9, &group);
            }
        }
        let one_client = (PATTERNS + 1) * 20;
        let most = work + one_client + 2 * COUNT as usize + HAND_OVER;
        assert!(turns.iter().all(|work| *work <= most), "{turns:?}");
        assert!((30..=70).contains(&turns.len()), "{} turns", turns.len());
        let texts = ["text1", "text2", "text3", "text4", "text5"];
        assert_eq!(got(&mut engine, 8, &texts), texts);
        assert_eq!(
            got(&mut engine, 9, &texts),
            texts,
            "it has no patterns any more"
        );
        assert!(got(&mut engine, 7, &texts).is_empty());
    }

    #[test]
    fn a_host_that_does_not_ask_for_time_gets_all_messages_in_their_order() {
        let (mut engine, group) = (crowd(COUNT, 0), Arc::from("ticks"));
        engine.bimodal = Bimodal::new(&["ticks".to_owned()]);
        for client in 1..=COUNT {
            let bimodal = &mut engine.bimodal;
            bimodal.groups[0].subscribers.insert(ClientId(client));
            bimodal.filters.accept(client, &group, "x+[0-9]");
        }
        engine.begin_turn(Time::ZERO, 1);
        let texts = ["text1", "text2", "text3"];
        for number in 1..=3 {
            engine.handle_event(Time::ZERO, Carrier::Bimodal(0), tagged(number));
        }
        engine.handle_event(Time::ZERO, Carrier::Order, Event::Left);
        assert_eq!(got(&mut engine, COUNT, &texts), texts);
    }
}
