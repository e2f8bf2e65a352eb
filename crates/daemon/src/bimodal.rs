//! The bimodal groups of a daemon: one gossip instance for each, behind one channel of the node.
//!
//! The groups share a channel because daemons need not have the same ones: every body begins with
//! the *label* of its group, eight bytes that follow from its name. A body for a group that this
//! daemon does not have is counted and dropped before any gossip instance sees it. Its label is
//! remembered for a minute, so that a client that joins an agreed group of that name here is
//! refused. Groups take turns at sending.
//!
//! Each event names its group by the group's index.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use groupcast_core::{
    Event, MemberId, MessageId, NodeId, Ordered as _, Protocol, Rng, Service, SubmitError, Time,
    Transmit, TransmitBuf,
};
use groupcast_protocols::gossip::{ConfigError, Gossip, GossipConfig};
use groupcast_session::groups::{BIMODAL_GROUPS_MAX, Carrier};

use crate::instance::CarrierEvent;
use crate::label::{LABEL_LEN, Label, label};

/// A bimodal group of other daemons counts as present for this long after it was heard: its members
/// announce themselves about every two seconds.
const ELSEWHERE: Duration = Duration::from_secs(60);

/// All bimodal groups of a daemon.
pub(crate) struct Bimodal {
    groups: Vec<Group>,
    /// The group that is asked first for a datagram to send.
    turn: usize,
    /// How many datagrams were for groups that are not here, or too short for a label.
    foreign: u64,
    /// Labels of groups that only other daemons have, and when they were last heard.
    elsewhere: BTreeMap<Label, Time>,
}

struct Group {
    name: String,
    label: Label,
    gossip: Gossip,
    left: bool,
}

impl Bimodal {
    /// The groups called `names`, each with the settings `config`, beginning at `now`.
    pub(crate) fn new(
        names: &[String],
        config: &GossipConfig,
        local: MemberId,
        rng: &Rng,
        now: Time,
    ) -> Result<Self, ConfigError> {
        let groups = names.iter().map(|name| {
            Ok(Group {
                name: name.clone(),
                label: label(name),
                gossip: Gossip::new(config.clone(), local, rng.fork(name), now)?,
                left: false,
            })
        });
        Ok(Self {
            groups: groups.collect::<Result<_, _>>()?,
            turn: 0,
            foreign: 0,
            elsewhere: BTreeMap::new(),
        })
    }

    /// How many groups there are: their indices are below it.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The name of group `index`.
    pub(crate) fn name(&self, index: usize) -> &str {
        &self.groups[index].name
    }

    /// Accepts a message for group `index`.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        index: usize,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        let group = self.groups.get_mut(index).ok_or(SubmitError::Leaving)?;
        group.gossip.submit(now, Service::Fifo, payload)
    }

    /// The daemons that group `index` has heard of lately, this one excluded.
    pub(crate) fn daemons(&self, index: usize) -> impl Iterator<Item = MemberId> {
        self.groups[index].gossip.view()
    }

    /// Begins to leave all groups.
    pub(crate) fn leave(&mut self, now: Time) {
        for group in &mut self.groups {
            group.gossip.leave(now);
        }
    }

    /// Whether all groups have been left.
    pub(crate) fn has_left(&self) -> bool {
        self.groups.iter().all(|group| group.left)
    }

    /// Passes the figures and counters of group `index` to `each`, by name.
    pub(crate) fn report_of(&self, index: usize, each: &mut dyn FnMut(&'static str, u64)) {
        self.groups[index].gossip.status().list(each);
    }

    /// The round that group `index` is in.
    pub(crate) fn round(&self, index: usize) -> u64 {
        self.groups[index].gossip.round()
    }

    /// How many datagrams were for groups that are not here.
    pub(crate) fn foreign(&self) -> u64 {
        self.foreign
    }

    /// The groups that were heard within the last minute and that only other daemons have, as
    /// hashes of their names ([`NodeId::from_name`]).
    pub(crate) fn elsewhere(&self, now: Time) -> impl Iterator<Item = NodeId> {
        let lately = self
            .elsewhere
            .iter()
            .filter(move |(_, heard)| now - **heard < ELSEWHERE);
        lately.map(|(label, _)| NodeId(u64::from_be_bytes(*label)))
    }

    /// Whether a group was heard that is not here.
    pub(crate) fn hears_others(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Notes that a body came for the group with this label, which is not here.
    fn note_elsewhere(&mut self, now: Time, label: Label) {
        self.elsewhere.insert(label, now);
        if self.elsewhere.len() > BIMODAL_GROUPS_MAX {
            let oldest = self.elsewhere.iter().min_by_key(|(_, heard)| **heard);
            if let Some(oldest) = oldest.map(|(label, _)| *label) {
                self.elsewhere.remove(&oldest);
            }
        }
    }
}

impl Protocol for Bimodal {
    type Event = CarrierEvent;

    fn handle_datagram(&mut self, now: Time, from: MemberId, mut body: Bytes) {
        let group = body.first_chunk::<LABEL_LEN>().and_then(|label| {
            let mut groups = self.groups.iter_mut();
            groups.find(|group| group.label == *label)
        });
        match group {
            Some(group) => {
                body.advance(LABEL_LEN);
                group.gossip.handle_datagram(now, from, body);
            }
            None => {
                self.foreign += 1;
                if let Some(label) = body.first_chunk::<LABEL_LEN>() {
                    self.note_elsewhere(now, *label);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for group in &mut self.groups {
            group.gossip.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let count = self.groups.len();
        let turn = self.turn;
        let transmit = (0..count).find_map(|step| {
            let index = (turn + step) % count;
            let group = &mut self.groups[index];
            buf.set_label(&group.label);
            let transmit = group.gossip.poll_transmit(now, buf)?;
            self.turn = index + 1;
            Some(transmit)
        });
        // The buffer belongs to the node, whose other instances send without a label.
        buf.set_label(&[]);
        transmit
    }

    fn poll_event(&mut self) -> Option<CarrierEvent> {
        let (index, mut event) = self
            .groups
            .iter_mut()
            .enumerate()
            .find_map(|(index, group)| Some((index, group.gossip.poll_event()?)))?;
        match &mut event {
            // The gossip delivers with the service fifo; a group's service is called bimodal.
            Event::Deliver(delivery) => delivery.service = Service::Bimodal,
            Event::Left => self.groups[index].left = true,
            _ => {}
        }
        Some(CarrierEvent {
            carrier: Carrier::Bimodal(index),
            event,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.groups
            .iter()
            .filter_map(|group| group.gossip.poll_timeout())
            .min()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use groupcast_core::wire::Writer;
    use groupcast_core::{Destination, Incarnation};

    use super::*;

    fn member(number: u64) -> MemberId {
        MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number),
        }
    }

    fn groups(local: u64, names: &[&str], config: &GossipConfig) -> Bimodal {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Bimodal::new(&names, config, member(local), &Rng::new(1), Time::ZERO).unwrap()
    }

    fn body(name: &str, write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
        let mut bytes = label(name).to_vec();
        write(&mut Writer::new(&mut bytes));
        bytes.into()
    }

    /// A solicitation, as `gossip::wire` lays it out.
    fn request(name: &str, round: u64, number: u64) -> Bytes {
        body(name, |writer| {
            writer.u8(5).u64(round).u64(1).u64(1).u64(number);
        })
    }

    /// The highest number that a message can have.
    const NUMBER_MAX: u64 = u64::MAX >> 2;

    /// A digest that claims messages of `origin` from `first` to the last there can be.
    fn digest(name: &str, origin: u64, first: u64) -> Bytes {
        body(name, |writer| {
            // Round, heartbeat, zone, link, sent, no signs of life; then one origin with one run.
            writer.u8(4).u64(1).varint(1).u32(0).u8(0).varint(0).u8(0);
            writer.u64(origin).u64(origin).u8(0).u8(1);
            writer.varint(NUMBER_MAX).varint(NUMBER_MAX - first);
        })
    }

    fn reported(groups: &Bimodal, index: usize) -> BTreeMap<&'static str, u64> {
        let mut report = BTreeMap::new();
        groups.report_of(index, &mut |name, value| {
            report.insert(name, value);
        });
        report
    }

    /// Bytes of everything that waits to be sent, to one member and to all.
    fn sent(groups: &mut Bimodal, now: Time) -> (usize, usize) {
        let (mut one, mut all) = (0, 0);
        let mut buf = TransmitBuf::new(8, 0, 0);
        while let Some(transmit) = groups.poll_transmit(now, &mut buf) {
            match transmit.destination {
                Destination::Member(_) => one += buf.as_bytes().len(),
                Destination::Group => all += buf.as_bytes().len(),
            }
            buf.clear();
        }
        (one, all)
    }

    #[test]
    fn groups_are_told_apart_by_their_labels() {
        let config = GossipConfig::lan();
        let mut here = groups(1, &["ticks", "news"], &config);
        let mut there = groups(2, &["news", "other"], &config);
        let payload = Bytes::from_static(b"hello");
        for index in 0..2 {
            here.submit(Time::ZERO, index, payload.clone()).unwrap();
        }
        let mut buf = TransmitBuf::new(8, 0, 0);
        while here.poll_transmit(Time::ZERO, &mut buf).is_some() {
            let sent = Bytes::copy_from_slice(buf.as_bytes());
            there.handle_datagram(Time::ZERO, member(1), sent);
            buf.clear();
        }
        // Too short for a label.
        there.handle_datagram(Time::ZERO, member(1), Bytes::from_static(b"short"));
        assert_eq!(there.foreign(), 2);
        assert_eq!(reported(&there, 0)["messages"], 1);
        assert_eq!(reported(&there, 1)["messages"], 0);
        let own: Vec<Carrier> = std::iter::from_fn(|| here.poll_event())
            .map(|event| event.carrier)
            .collect();
        assert_eq!(own, [Carrier::Bimodal(0), Carrier::Bimodal(1)]);
    }

    #[test]
    fn forged_solicitations_and_digests_cost_no_more_than_the_settings_say() {
        let config = GossipConfig {
            queue_max: 1 << 20,
            view_max: 100,
            ..GossipConfig::lan()
        };
        let mut groups = groups(1, &["ticks"], &config);
        let now = Time::ZERO;
        const SIZE: usize = 20_000;
        for _ in 0..100 {
            groups.submit(now, 0, Bytes::from(vec![0; SIZE])).unwrap();
            sent(&mut groups, now);
        }
        // From 500 forged members, for every message, a hundred thousand in one round: a million
        // bytes of repairs at most.
        let round = groups.round(0);
        let mut asked = 0;
        for forger in 2..502 {
            for number in 1..=100 {
                let body = request("ticks", round, number);
                asked += body.len();
                groups.handle_datagram(now, member(forger), body);
            }
            for origin in 0..20 {
                let origin = forger * 1_000 + origin;
                groups.handle_datagram(now, member(forger), digest("ticks", origin, 1));
                let high = digest("ticks", origin, NUMBER_MAX - 9);
                groups.handle_datagram(now, member(forger), high);
            }
            let report = reported(&groups, 0);
            assert!(report["queued"] <= 2 * config.queue_max as u64);
        }
        let report = reported(&groups, 0);
        let repairs = report["repairs"] + report["multicast repairs"];
        assert!(
            repairs as usize * SIZE <= config.limit_retrans_bytes,
            "{report:?}"
        );
        assert!(report["refused limit"] > 40_000, "{report:?}");
        assert!(report["senders"] <= config.senders_max as u64);
        assert!(report["view"] <= config.view_max as u64);
        assert!(report["requests"] <= u64::from(config.limit_requests));
        assert_eq!(report["junk"], 0, "what was forged is read: {report:?}");
        assert!(report["buffered"] <= config.buffer_max as u64);
        let (one, all) = sent(&mut groups, now);
        // Repairs, with their headers, and at most `limit_requests` requests of this daemon's own.
        let most = config.limit_retrans_bytes + 100 * 64 + 100 * 64;
        assert!(one + all <= most, "{one} and {all} bytes for {asked}");
    }
}
