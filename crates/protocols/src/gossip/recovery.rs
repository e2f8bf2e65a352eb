//! The two-phase anti-entropy protocol (004 3.6.2): who misses something asks, who has it answers,
//! within limits.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use groupcast_core::{Destination, MemberId, MessageId};

use super::Gossip;
use super::config::Variant;
use super::round::RoundNumber;
use super::senders::Met;
use super::wire::{self, Carries, DataHeader, Holding, Message, NO_TREE};

/// The members of a group in which two requests say that many miss a message: 004's are not larger.
/// If a share p misses it and each member gossips to k others in a round, about n · (k · p)^t / t!
/// members are asked t times in the first rounds; with p = 5 %, less than one for t = 2 here, and
/// for one more with ten times the members.
const SMALL_GROUP: usize = 100;

/// In which way a message was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// A solicitation: the answer to gossip of this round.
    Round(RoundNumber),
    /// On behalf of another (004 Fig. 7.3): no round test.
    Special,
    /// By a neighbour of who misses it (004 Fig. 5.9): a multicast or nothing.
    Mcast,
    /// By one of two who share a gap (004 7.4): a multicast at once.
    Multicast,
}

impl Gossip {
    /// Somebody says what it holds: asks for what is missing here.
    pub(super) fn handle_gossip(&mut self, from: MemberId, gossip: &wire::Gossip) {
        self.described(from, gossip.about);
        for (member, heartbeat) in &gossip.alive {
            let round = &self.round;
            self.view
                .beat(*member, *heartbeat, round.number, round.steps);
        }
        let limit = self.config.limit_requests;
        let mut origins = BTreeSet::new();
        for holding in &gossip.digest {
            // A sender is in a digest once; what is said again costs time and tells nothing.
            if !origins.insert(holding.origin) {
                continue;
            }
            let left = limit.saturating_sub(self.round.requests) as usize;
            let (missing, shared) = self.compare(from, holding, left);
            for id in missing {
                self.request(from, gossip.round, id);
            }
            for id in shared {
                if self.round.requests < limit && id.sender != self.local {
                    self.count_request();
                    self.outbox
                        .tell(id.sender, &Message::MulticastRequest { id });
                }
            }
            self.deliver(holding.origin);
        }
    }

    /// Takes in what somebody holds of one sender. Returns what is missing here of it, and what is
    /// missing at both, at most `left` each, most recent first.
    fn compare(
        &mut self,
        from: MemberId,
        holding: &Holding,
        left: usize,
    ) -> (Vec<MessageId>, Vec<MessageId>) {
        let sender = holding.origin;
        let (round, doubted) = (self.round.number, self.doubted_for());
        if !self.streams.contains_key(&sender) {
            let met = match (holding.runs.first(), holding.runs.last()) {
                (Some(highest), Some(lowest)) => Met::Hearsay {
                    lowest: lowest.first,
                    highest: highest.last,
                },
                _ => return (Vec::new(), Vec::new()),
            };
            if self.follow(sender, met).is_none() {
                return (Vec::new(), Vec::new());
            }
        }
        let Some(stream) = self.streams.get_mut(&sender) else {
            return (Vec::new(), Vec::new());
        };
        let begins = stream.first();
        let mut unbelieved = false;
        for run in &holding.runs {
            if sender != self.local {
                let last = match from == sender {
                    true => run.last,
                    false => stream.believable(run.last, round, doubted),
                };
                unbelieved |= last < run.last;
                stream.claimed(run.first, last, round);
            }
            stream.flag(run);
        }
        // The source holds all that is recent; who reaches further back than this member was there
        // before.
        if from == sender || stream.first() < begins {
            stream.close();
        }
        let gaps: &[wire::Run] = match &self.config.hash {
            Some(hash) if hash.gaps => &holding.gaps,
            _ => &[],
        };
        let [missing, shared] = [&holding.runs[..], gaps].map(|runs| {
            let numbers = runs
                .iter()
                .flat_map(|run| stream.missing(run.first, run.last));
            let ids = numbers.map(|number| MessageId { sender, number });
            ids.take(left).collect::<Vec<_>>()
        });
        if unbelieved {
            self.ask_if_known(sender);
        }
        (missing, shared)
    }

    /// Asks `sender` how many messages it has sent, if it is in the view: in a hierarchy others may
    /// be out of reach.
    pub(super) fn ask_if_known(&mut self, sender: MemberId) {
        if self.view.knows(sender) {
            self.ask_for_proof(sender);
        }
    }

    /// For how many rounds others are not believed what a sender has denied: half of those for
    /// which a message is kept, so that it can be had still if the denial was an old word.
    pub(super) fn doubted_for(&self) -> u64 {
        u64::from(self.config.stable_threshold) / 2
    }

    /// Asks `gossiper` for a message in its round, or whoever should have it.
    fn request(&mut self, gossiper: MemberId, round: RoundNumber, id: MessageId) {
        if self.round.requests >= self.config.limit_requests {
            return;
        }
        self.count_request();
        if let Some(bufferer) = self.bufferer_instead_of(gossiper, id) {
            let requestor = self.local;
            self.outbox
                .tell(bufferer, &Message::Special { requestor, id });
            return;
        }
        self.outbox.tell(gossiper, &Message::Request { round, id });
        if self.config.variant == Variant::Local {
            let zone = self.config.zone;
            let neighbours = self
                .view
                .draw(1, |peer| peer.is_in(zone) && peer.member != gossiper);
            for neighbour in neighbours {
                self.outbox.tell(neighbour, &Message::Info { gossiper, id });
            }
        }
    }

    /// Whom to ask at once because the gossiper is no bufferer, where that is wanted (004 Fig.
    /// 7.1).
    fn bufferer_instead_of(&mut self, gossiper: MemberId, id: MessageId) -> Option<MemberId> {
        let rule = self.buffering.as_ref()?;
        if !rule.config.ask_bufferers || rule.is_bufferer(id, gossiper, &self.view) {
            return None;
        }
        let bufferers = rule.bufferers(id, &self.view, self.local);
        self.rng.pick(&bufferers).copied()
    }

    pub(super) fn count_request(&mut self) {
        self.round.requests += 1;
        self.counters.requests += 1;
    }

    /// A neighbour misses a message that `gossiper` has (004 Fig. 5.9, PT_PBCAST_INFO).
    pub(super) fn handle_info(&mut self, gossiper: MemberId, id: MessageId) {
        let stream = self.streams.get(&id.sender);
        let lacks = stream.is_none_or(|stream| stream.lacks(id.number));
        let may = self.round.requests < self.config.limit_requests && gossiper != self.local;
        if lacks && may {
            self.count_request();
            self.outbox.tell(gossiper, &Message::Mcast { id });
        }
    }

    /// How much more often than in a small group a message has to be asked for, and repaired by
    /// others, before many are taken to miss it; `None` if nothing tells, because nobody knows how
    /// large the group is.
    fn doubt(&self) -> Option<u32> {
        if !self.config.threshold_grows {
            return Some(0);
        }
        let known = self.view.len();
        if known >= self.config.view_max {
            return None;
        }
        let (mut doubt, mut members) = (0, SMALL_GROUP);
        while known + 1 > members {
            doubt += 1;
            members *= 10;
        }
        Some(doubt)
    }

    /// Somebody asks for a message, to be sent to `to` or to all.
    pub(super) fn serve(&mut self, to: MemberId, id: MessageId, ask: Ask) {
        let round = self.round.number;
        let doubt = self.doubt();
        let config = &self.config;
        let slot = self
            .streams
            .get_mut(&id.sender)
            .and_then(|stream| stream.slot_mut(id.number));
        let Some((slot, payload)) = slot.and_then(|slot| {
            let payload = slot.payload.clone()?;
            Some((slot, payload))
        }) else {
            return self.pass_on(to, id, ask);
        };
        if config.multicasts() {
            slot.requests += 1;
        }
        // 004 Fig. 5.4 and Fig. 5.7, where there is no doubt.
        let least = |count: u32| doubt.map_or(u32::MAX, |doubt| count.saturating_add(doubt));
        let asked_often = config.multicasts() && slot.requests >= least(config.threshold);
        let repaired_often = config.flags() && slot.retransmitted && slot.flagged >= least(1);
        let multicast = ask == Ask::Multicast || asked_often || repaired_often;
        if !multicast && ask == Ask::Mcast {
            return;
        }
        if !multicast && matches!(ask, Ask::Round(of) if of != round) {
            // 004 3.7, soft-failure detection.
            self.counters.refused_round += 1;
            return;
        }
        let in_flight = slot.multicast.is_some_and(|at| at.is_recent(round));
        let sent = slot
            .sent
            .iter()
            .any(|(who, at)| *who == to && at.is_recent(round));
        let again = in_flight || (sent && !multicast);
        if again && (config.cyclic || ask == Ask::Multicast) {
            self.counters.refused_cyclic += 1;
            return;
        }
        let full = self.round.repairs >= config.limit_retrans
            || self.round.repair_bytes + payload.len() > config.limit_retrans_bytes;
        if full && !(multicast && config.multicast_exempt) {
            self.counters.refused_limit += 1;
            return;
        }
        self.round.repairs += 1;
        self.round.repair_bytes += payload.len();
        let (carries, destination) = if multicast {
            slot.requests = 0;
            slot.retransmitted = false;
            slot.flagged = 0;
            slot.multicast = Some(round);
            self.counters.multicast_repairs += 1;
            (Carries::MulticastRepair, Destination::Group)
        } else {
            slot.retransmitted = true;
            slot.sent.retain(|(_, at)| at.is_recent(round));
            slot.sent.push((to, round));
            self.counters.repairs += 1;
            (Carries::Repair, Destination::Member(to))
        };
        let header = DataHeader {
            carries,
            tree: NO_TREE,
            id,
        };
        self.outbox.data(destination, header, payload);
    }

    /// A message that is not kept here is asked of somebody who should keep it, for `to` (004 Fig.
    /// 7.3).
    fn pass_on(&mut self, to: MemberId, id: MessageId, ask: Ask) {
        self.counters.refused_absent += 1;
        let Some(rule) = &self.buffering else {
            return;
        };
        let limit = self.config.limit_requests;
        // Looking through the view costs time even where it finds nobody.
        let spent = self.round.requests >= limit || self.round.searches >= limit;
        if !matches!(ask, Ask::Round(_)) || spent {
            return;
        }
        self.round.searches += 1;
        let bufferers = rule.bufferers(id, &self.view, to);
        if let Some(bufferer) = self.rng.pick(&bufferers).copied() {
            self.count_request();
            let requestor = to;
            self.outbox
                .tell(bufferer, &Message::Special { requestor, id });
        }
    }
}
