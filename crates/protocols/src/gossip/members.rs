//! Whom a member knows: its view, who in it is alive, and whom it gossips with.
//!
//! A view is what this member heard of itself: joins, gossip, anything. It need not be the same at
//! any two members, nor whole: a view that is full replaces a random member, so that it stays a
//! sample. Signs of life are heartbeats that grow with every round and travel with gossip (004 7.1
//! asks for such a membership); who gives none for long has failed and is forgotten until it is
//! heard again. What a forgotten member had sent when it was first heard of stays known for long:
//! all that it sends after that is owed an account.

use alloc::vec::Vec;

use groupcast_core::mech::bookmarks::Bookmarks;
use groupcast_core::{MemberId, NodeId, Rng};

use super::round::{RoundNumber, Steps};
use super::wire::{Heartbeat, SelfDescription};

/// What is known of a member.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) member: MemberId,
    heartbeat: Heartbeat,
    /// Its own word: its heartbeat, and when it said so.
    own_word: Option<(Heartbeat, Steps)>,
    /// The round in which it last gave a sign of life.
    heard: RoundNumber,
    /// What it said of itself last.
    about: Option<SelfDescription>,
    /// How many messages it had sent when it was first heard to, or were accounted for since.
    /// `None`: it has not said so, or has to prove it first.
    before: Option<u64>,
}

/// The members that this one knows, itself excluded, in ascending order.
#[derive(Debug)]
pub(super) struct View {
    local: MemberId,
    peers: Vec<Peer>,
    /// Of those that were forgotten, as failed or for another: how many messages they had sent when
    /// they were first heard of. Whoever comes back is asked for all since then, whether its own
    /// word comes first or a message.
    forgotten: Bookmarks,
    max: usize,
    /// Grows with every change of who is in it.
    generation: u64,
    rng: Rng,
}

impl View {
    /// Members that were forgotten and of which something is known, for each that there is room
    /// for: as many as the bookmarks of streams.
    const FORGOTTEN: usize = 16;

    pub(super) fn new(local: MemberId, max: usize, rng: Rng) -> Self {
        Self {
            local,
            peers: Vec::new(),
            forgotten: Bookmarks::new(Self::FORGOTTEN * max),
            max,
            generation: 0,
            rng,
        }
    }

    /// `member` gave a sign of life. It does not enter the view for that.
    pub(super) fn refresh(&mut self, member: MemberId, round: RoundNumber) {
        if let Ok(index) = self.find(member) {
            self.peers[index].heard = round;
        }
    }

    /// `member` gave a sign of life, and is in the view from now on. Returns whether it is new
    /// there.
    pub(super) fn heard(&mut self, member: MemberId, round: RoundNumber) -> bool {
        if member == self.local {
            return false;
        }
        match self.find(member) {
            Ok(index) => {
                self.peers[index].heard = round;
                false
            }
            Err(mut index) => {
                if self.peers.len() >= self.max {
                    let victim = self.rng.below(self.peers.len() as u64) as usize;
                    self.peers.remove(victim).note_in(&mut self.forgotten);
                    index -= usize::from(victim < index);
                }
                let peer = Peer {
                    member,
                    heartbeat: Heartbeat::default(),
                    own_word: None,
                    heard: round,
                    about: None,
                    before: None,
                };
                self.peers.insert(index, peer);
                self.generation += 1;
                true
            }
        }
    }

    /// `member`, heard just now, said this of itself. Its messages up to `floor` are accounted for;
    /// without that it may have been followed, and its word does not tell how far.
    pub(super) fn described(
        &mut self,
        member: MemberId,
        about: SelfDescription,
        floor: Option<u64>,
        now: Steps,
    ) {
        if let Ok(index) = self.find(member) {
            let peer = &mut self.peers[index];
            peer.said(about.heartbeat, now);
            let forgotten = self.forgotten.take(member);
            let first = forgotten.or(floor.map(|floor| about.sent.max(floor)));
            peer.before = peer.before.or(first);
            peer.about = Some(about);
        }
    }

    /// Somebody says that `member`'s heart has beaten this often. More often than it can have is no
    /// sign of life.
    pub(super) fn beat(
        &mut self,
        member: MemberId,
        heartbeat: Heartbeat,
        round: RoundNumber,
        now: Steps,
    ) {
        if let Ok(index) = self.find(member) {
            let peer = &mut self.peers[index];
            if heartbeat > peer.heartbeat && peer.may_have(heartbeat, now) {
                peer.heartbeat = heartbeat;
                peer.heard = round;
            }
        }
    }

    /// Whether `member` is in the view.
    pub(super) fn knows(&self, member: MemberId) -> bool {
        self.find(member).is_ok()
    }

    /// Forgets `member`.
    pub(super) fn remove(&mut self, member: MemberId) {
        if let Ok(index) = self.find(member) {
            self.peers.remove(index);
            self.generation += 1;
        }
    }

    /// Forgets who gave no sign of life for more than `rounds`. Returns how many that were.
    pub(super) fn expire(&mut self, round: RoundNumber, rounds: u64) -> usize {
        let before = self.peers.len();
        let forgotten = &mut self.forgotten;
        self.peers.retain(|peer| {
            let lives = round.since(peer.heard) <= rounds;
            if !lives {
                peer.note_in(forgotten);
            }
            lives
        });
        let failed = before - self.peers.len();
        self.generation += failed as u64;
        failed
    }

    /// All messages of `member` up to `number` are accounted for, and its stream is forgotten: it
    /// does not begin behind.
    pub(super) fn accounted(&mut self, member: MemberId, number: u64) {
        if let Ok(index) = self.find(member) {
            let peer = &mut self.peers[index];
            if peer.about.is_some() {
                peer.before = peer.before.max(Some(number));
            }
        } else if let Some(sent) = self.forgotten.get(member) {
            self.forgotten.set(member, number.max(sent));
        }
    }

    /// Rounds without a sign of life after which a member has failed: `least`, but long enough that
    /// a living one is taken for dead with a probability of e^-16 a span, if gossip carries `signs`
    /// others' signs of life.
    pub(super) fn patience(&self, least: u32, signs: u32) -> u64 {
        // A view that is full is a sample: what others say is mostly of members that are not in it.
        let signs = if self.peers.len() >= self.max {
            0
        } else {
            signs
        };
        let needed = 16 * self.peers.len() as u64 / (u64::from(signs) + 1);
        needed.max(u64::from(least))
    }

    /// At most `count` different members drawn at random among those that `eligible` admits.
    pub(super) fn draw(
        &mut self,
        count: usize,
        mut eligible: impl FnMut(&Peer) -> bool,
    ) -> Vec<MemberId> {
        let mut drawn: Vec<MemberId> = Vec::with_capacity(count.min(self.peers.len()));
        // Mostly everybody is eligible: a few tries are cheaper than a list.
        for _ in 0..count * 4 {
            if drawn.len() == count {
                return drawn;
            }
            if let Some(peer) = self.rng.pick(&self.peers)
                && !drawn.contains(&peer.member)
                && eligible(peer)
            {
                drawn.push(peer.member);
            }
        }
        let mut rest: Vec<MemberId> = self
            .peers
            .iter()
            .filter(|peer| !drawn.contains(&peer.member) && eligible(peer))
            .map(|peer| peer.member)
            .collect();
        while drawn.len() < count && !rest.is_empty() {
            let index = self.rng.below(rest.len() as u64) as usize;
            drawn.push(rest.swap_remove(index));
        }
        drawn
    }

    /// Signs of life of at most `count` members.
    pub(super) fn signs(&mut self, count: u32) -> Vec<(MemberId, Heartbeat)> {
        let drawn = self.draw(count as usize, |peer| peer.heartbeat > Heartbeat::default());
        drawn
            .into_iter()
            .filter_map(|member| Some((member, self.peers[self.find(member).ok()?].heartbeat)))
            .collect()
    }

    /// The member called `node`, in its latest life.
    pub(super) fn named(&self, node: NodeId) -> Option<MemberId> {
        let at = self.peers.partition_point(|peer| peer.member.node <= node);
        let peer = self.peers[..at].last()?;
        (peer.member.node == node).then_some(peer.member)
    }

    /// How many messages `member` had sent when it was first heard of, if it said so and that is
    /// not too long ago.
    pub(super) fn sent_before(&self, member: MemberId) -> Option<u64> {
        let peer = self.find(member).ok().map(|index| &self.peers[index]);
        let before = peer.and_then(|peer| peer.before);
        before.or_else(|| self.forgotten.get(member))
    }

    /// `member` has proved that it lives, and has sent this many messages.
    pub(super) fn proved(&mut self, member: MemberId, sent: u64) {
        match self.find(member) {
            Ok(index) => self.peers[index].before = Some(sent),
            Err(_) => self.forgotten.set(member, sent),
        }
    }

    /// All members, in ascending order.
    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.peers.iter().map(|peer| peer.member)
    }

    /// How many there are, without this one.
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Grows with every change of who is in it.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    fn find(&self, member: MemberId) -> Result<usize, usize> {
        self.peers.binary_search_by_key(&member, |peer| peer.member)
    }
}

impl Peer {
    /// Heartbeats by which a member may be ahead of its own word for what that took on its way.
    const ON_ITS_WAY: u64 = 16;

    /// It says itself how often its heart has beaten: that counts, whatever others have said. A
    /// word that is older than another of it tells nothing.
    fn said(&mut self, heartbeat: Heartbeat, now: Steps) {
        if self.own_word.is_none_or(|(last, _)| last <= heartbeat) {
            self.own_word = Some((heartbeat, now));
            self.heartbeat = heartbeat;
        }
    }

    /// Whether its heart can have beaten this often since its own word: its rounds last as long as
    /// this member's, or half as long at least.
    fn may_have(&self, heartbeat: Heartbeat, now: Steps) -> bool {
        self.own_word.is_none_or(|(last, then)| {
            let beats = now.0.saturating_sub(then.0).saturating_mul(2);
            let most = last
                .0
                .saturating_add(beats)
                .saturating_add(Self::ON_ITS_WAY);
            heartbeat.0 <= most
        })
    }

    /// It is forgotten, but for how many messages it had sent when it was first heard of.
    fn note_in(&self, forgotten: &mut Bookmarks) {
        if let Some(before) = self.before {
            forgotten.set(self.member, before);
        }
    }

    /// Whether it is in `zone`, as far as is known.
    pub(super) fn is_in(&self, zone: u32) -> bool {
        self.about.is_some_and(|about| about.zone == zone)
    }

    /// Whether nothing says that it is not in `zone`.
    pub(super) fn may_be_in(&self, zone: u32) -> bool {
        self.about.is_none_or(|about| about.zone == zone)
    }

    /// Whether it is a link of another zone than `zone`.
    pub(super) fn is_link_beyond(&self, zone: u32) -> bool {
        self.about
            .is_some_and(|about| about.zone != zone && about.link)
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    fn view(max: usize, members: u64) -> View {
        let mut view = View::new(member(0), max, Rng::new(1));
        for node in 0..=members {
            view.heard(member(node), RoundNumber(0));
        }
        view
    }

    #[test]
    fn a_view_is_bounded_sorted_and_without_oneself() {
        let view = view(16, 500);
        let members: Vec<_> = view.members().collect();
        assert_eq!(members.len(), 16);
        assert!(members.is_sorted() && !members.contains(&member(0)));
    }

    #[test]
    fn what_a_forgotten_member_had_sent_stays_known_within_bounds() {
        let about = |sent| SelfDescription {
            heartbeat: Heartbeat::default(),
            zone: 0,
            link: false,
            sent,
        };
        let mut view = View::new(member(0), 2, Rng::new(1));
        for node in 1..=40 {
            view.heard(member(node), RoundNumber(0));
            view.described(member(node), about(node), Some(0), Steps(0));
        }
        let known = |node: &u64| view.sent_before(member(*node)).is_some();
        assert_eq!((1..=40).filter(known).count(), 2 + 32, "there, remembered");
        assert_eq!(view.sent_before(member(30)), Some(30));
        view.accounted(member(30), 35);
        assert_eq!(view.expire(RoundNumber(200), 100), 2);
        assert_eq!(view.sent_before(member(30)), Some(35));
        view.heard(member(30), RoundNumber(200));
        view.described(member(30), about(50), Some(0), Steps(0));
        assert_eq!(view.sent_before(member(30)), Some(35));
    }

    #[test]
    fn the_word_of_a_member_that_may_have_been_followed_counts_when_it_is_proved() {
        let about = |sent| SelfDescription {
            heartbeat: Heartbeat::default(),
            zone: 0,
            link: false,
            sent,
        };
        let mut view = view(8, 3);
        view.described(member(1), about(7), None, Steps(0));
        assert_eq!(view.sent_before(member(1)), None);
        view.proved(member(1), 9);
        view.described(member(1), about(12), None, Steps(0));
        assert_eq!(view.sent_before(member(1)), Some(9));
        view.described(member(2), about(7), Some(20), Steps(0));
        assert_eq!(
            view.sent_before(member(2)),
            Some(20),
            "all up to there is accounted for"
        );
        view.proved(member(40), 5);
        assert_eq!(
            view.sent_before(member(40)),
            Some(5),
            "it need not be in the view"
        );
    }

    #[test]
    fn draws_are_different_members_and_as_many_as_there_are() {
        let mut view = view(64, 20);
        let mut drawn = view.draw(30, |_| true);
        drawn.sort();
        assert_eq!(drawn, (1..=20).map(member).collect::<Vec<_>>());
        let odd = view.draw(5, |peer| peer.member.node.0 % 2 == 1);
        assert!(odd.len() == 5 && odd.iter().all(|member| member.node.0 % 2 == 1));
    }

    #[test]
    fn who_gives_no_sign_of_life_is_forgotten_and_hearsay_counts_if_it_is_new() {
        let mut view = view(64, 3);
        view.beat(member(1), Heartbeat(5), RoundNumber(90), Steps(90));
        view.beat(member(1), Heartbeat(5), RoundNumber(95), Steps(95));
        view.heard(member(2), RoundNumber(80));
        assert_eq!(view.expire(RoundNumber(101), 100), 1);
        assert_eq!(view.expire(RoundNumber(185), 100), 1);
        assert_eq!(view.members().collect::<Vec<_>>(), [member(1)]);
        assert_eq!(view.expire(RoundNumber(191), 100), 1);
    }

    #[test]
    fn a_members_own_word_counts_and_hearsay_only_as_far_as_its_heart_can_have_beaten() {
        let about = |heartbeat| SelfDescription {
            heartbeat: Heartbeat(heartbeat),
            zone: 0,
            link: false,
            sent: 0,
        };
        let mut view = view(8, 1);
        let mut heartbeat = |own: Option<u64>, said: &[u64], now| {
            if let Some(own) = own {
                view.described(member(1), about(own), None, Steps(now));
            }
            for said in said {
                view.beat(member(1), Heartbeat(*said), RoundNumber(now), Steps(now));
            }
            view.peers[0].heartbeat.0
        };
        // As long as it has said nothing itself, whatever others say is believed.
        assert_eq!(heartbeat(None, &[u64::MAX], 10), u64::MAX);
        assert_eq!(heartbeat(Some(500), &[], 11), 500);
        assert_eq!(heartbeat(None, &[u64::MAX, 700, 505], 11), 505);
        assert_eq!(heartbeat(None, &[701, 700], 103), 700);
        // Its own word, which was on its way for some rounds; then one that is older than that.
        assert_eq!(heartbeat(Some(690), &[], 104), 690);
        assert_eq!(heartbeat(Some(689), &[], 105), 690);
        assert_eq!(heartbeat(Some(u64::MAX), &[], 106), u64::MAX);
    }
}
