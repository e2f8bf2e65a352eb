//! The bimodal groups of a daemon: a gossip instance each, behind one channel of the node.
//!
//! The groups share a channel because daemons need not have the same ones: every body begins with the *label* of its
//! group, eight bytes that follow from its name, and what is for a group that is not here is counted and dropped before
//! any gossip sees it. Groups take turns at sending.
//!
//! Events are not the node's: they belong to a group, and [`Bimodal::poll_group_event`] says to which.

use bytes::{Buf as _, Bytes};
use groupcast_core::{
    Event, MemberId, MessageId, NodeId, Ordered as _, Protocol, Rng, Service, SubmitError, Time,
    Transmit, TransmitBuf,
};
use groupcast_protocols::gossip::{ConfigError, Gossip, GossipConfig};

/// Bytes of a label.
const LABEL: usize = 8;

/// All bimodal groups of a daemon.
pub(crate) struct Bimodal {
    groups: Vec<Group>,
    /// Which group is asked first for something to send.
    turn: usize,
    /// Datagrams for groups that are not here, or too short for a label.
    foreign: u64,
}

struct Group {
    name: String,
    label: [u8; LABEL],
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
        })
    }

    /// How many groups there are: they are called by their index.
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

    /// The next event of any group, with the group's index.
    pub(crate) fn poll_group_event(&mut self) -> Option<(usize, Event)> {
        for (index, group) in self.groups.iter_mut().enumerate() {
            if let Some(event) = group.gossip.poll_event() {
                group.left |= event == Event::Left;
                return Some((index, event));
            }
        }
        None
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

    /// What group `index` holds and has counted, by name.
    pub(crate) fn report_of(&self, index: usize, each: &mut dyn FnMut(&'static str, u64)) {
        self.groups[index].gossip.report(each);
    }

    /// The round that group `index` is in.
    pub(crate) fn round(&self, index: usize) -> u64 {
        self.groups[index].gossip.round()
    }

    /// Datagrams for groups that are not here.
    pub(crate) fn foreign(&self) -> u64 {
        self.foreign
    }
}

/// The label of the group called `name`: the hash that daemons are called by. Two names that share one are as unlikely.
fn label(name: &str) -> [u8; LABEL] {
    NodeId::from_name(name).0.to_be_bytes()
}

impl Protocol for Bimodal {
    fn handle_datagram(&mut self, now: Time, from: MemberId, mut body: Bytes) {
        let group = body.first_chunk::<LABEL>().and_then(|label| {
            let mut groups = self.groups.iter_mut();
            groups.find(|group| group.label == *label)
        });
        match group {
            Some(group) => {
                body.advance(LABEL);
                group.gossip.handle_datagram(now, from, body);
            }
            None => self.foreign += 1,
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
        // The buffer is the node's; others put no label into it.
        buf.set_label(&[]);
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.groups
            .iter()
            .filter_map(|group| group.gossip.poll_timeout())
            .min()
    }
}
