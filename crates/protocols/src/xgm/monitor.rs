//! The connection monitor (003 4.5.2), the source's side: it keeps the members of a connection and
//! how far each has come, finds out which have gone, and judges whether the required membership
//! still holds.
//!
//! ```text
//!   source                                members
//!     │ ask all                   ──────▶            every interval
//!     │        ◀── told, told, told ──────           each at a random time within 3/10 of it
//!     │ ask one                   ──────▶            members silent after 2/5: every 1/5
//!     │  …
//!     │                                              too many asks without an answer: gone
//! ```
//!
//! The last word of a member counts, and an end is final: a word that is repeated, late or older
//! changes nothing. A member is taken for gone when it has not answered
//! [`watch_asks`](super::XgmConfig::watch_asks) asks in a row. Asks are counted and not time, so a
//! source that was paused blames no member.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{Incarnation, MemberId, NodeId, Time};

use super::config::XgmConfig;
use super::membership::{Membership, Rule, Violation};
use super::types::{Departure, MonitorError, WatchFrom};
use super::wire::{Ask, PLACES_MAX};
use super::{Account, Accounted, Holding, Standing, Subgroups, XgmEvent};

/// An interval has this many steps; after each, the monitor looks for silent members.
const STEPS: u32 = 5;

/// A member that is watched.
#[derive(Debug)]
struct Watched {
    name: Bytes,
    subgroups: Subgroups,
    /// The last standing that the member told; `None`: nothing yet.
    said: Option<Standing>,
    is_silent: bool,
    /// The member is not taken for gone before its first word.
    has_to_begin: bool,
    progress: u64,
    /// The last ask that the member answered, and how many it has not answered since.
    round: u32,
    asked: u32,
}

impl Watched {
    /// Whether the member takes part, as far as the source knows.
    fn is_within(&self) -> bool {
        !self.is_silent && matches!(self.said, None | Some(Standing::Within))
    }

    /// Whether the member takes part, or has everything.
    fn is_present(&self) -> bool {
        self.is_within() || self.said == Some(Standing::Complete)
    }

    /// The subgroups that the member may be in: any, before it has said which.
    fn covered(&self) -> Subgroups {
        match self.subgroups.is_empty() {
            true => Subgroups::ALL,
            false => self.subgroups,
        }
    }

    fn holding(&self, place: u64) -> Holding {
        match self.said {
            Some(Standing::Complete) => Holding::Has,
            _ if self.progress >= place => Holding::Has,
            Some(Standing::Left | Standing::Closed) => Holding::HasNot,
            Some(Standing::Stranger) => Holding::Unknown,
            _ if self.is_silent => Holding::Unknown,
            _ => Holding::Open,
        }
    }
}

/// What a member says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// The ask that the word answers; 0: none.
    pub(super) round: u32,
    pub(super) standing: Standing,
    pub(super) subgroups: Subgroups,
    pub(super) progress: u64,
}

/// What the monitor has the entity send and tell.
#[derive(Default, Debug)]
pub(super) struct Effects {
    /// Asks, to all or to one.
    pub(super) asks: Vec<(Option<MemberId>, Ask)>,
    pub(super) events: Vec<XgmEvent>,
}

/// A connection that is monitored at its source.
#[derive(Debug)]
pub(super) struct Monitor {
    number: u32,
    membership: Membership,
    is_begun: bool,
    is_violated: bool,
    has_ended: bool,
    members: BTreeMap<MemberId, Watched>,
    /// The words of members that are not watched yet.
    early: BTreeMap<MemberId, Word>,
    /// The places of the open checkpoints, and the members that each waits for.
    checkpoints: BTreeMap<u64, BTreeSet<MemberId>>,
    /// The number of asks so far.
    round: u32,
    asked_all_at: Time,
    ask_all_at: Time,
    step_at: Time,
}

impl Monitor {
    pub(super) fn new(number: u32, membership: Membership, now: Time) -> Self {
        Self {
            number,
            membership,
            is_begun: false,
            is_violated: false,
            has_ended: false,
            members: BTreeMap::new(),
            early: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            round: 0,
            asked_all_at: now,
            ask_all_at: now,
            step_at: now,
        }
    }

    /// Why a new member may not be watched, if so.
    pub(super) fn refuses(&self, config: &XgmConfig) -> Option<MonitorError> {
        if self.is_begun && !self.membership.may_join {
            Some(MonitorError::NoJoins)
        } else if self.members.len() >= config.hosts_max {
            Some(MonitorError::TooManyMembers)
        } else {
            None
        }
    }

    pub(super) fn watches(&self, member: MemberId) -> bool {
        self.members.contains_key(&member)
    }

    /// Keeps the word of a member that is not watched: the entity may hear of it before the
    /// transport counts it in.
    pub(super) fn hear_early(&mut self, from: MemberId, word: Word, config: &XgmConfig) {
        let has_room = self.early.len() < config.hosts_max;
        match self.early.get_mut(&from) {
            Some(before) if before.standing == Standing::Within => *before = word,
            Some(_) => {}
            None if has_room => {
                self.early.insert(from, word);
            }
            None => {}
        }
    }

    /// Watches `member` from now on; its earlier word counts.
    pub(super) fn watch(
        &mut self,
        member: MemberId,
        name: Bytes,
        from: WatchFrom,
        effects: &mut Effects,
    ) {
        for waits_for in self.checkpoints.values_mut() {
            waits_for.insert(member);
        }
        let watched = Watched {
            name,
            subgroups: Subgroups::NONE,
            said: None,
            is_silent: false,
            has_to_begin: from == WatchFrom::FirstWord,
            progress: 0,
            round: 0,
            asked: 0,
        };
        self.members.entry(member).or_insert(watched);
        if let Some(word) = self.early.remove(&member) {
            self.hear(member, word, effects);
        }
    }

    /// From now on the required membership has to hold.
    pub(super) fn begin(&mut self, effects: &mut Effects) {
        self.is_begun = true;
        self.judge(None, effects);
    }

    /// The transport is done: only checkpoints are left. They do not wait for a member watched
    /// [from its first word](WatchFrom::FirstWord) that has said none.
    pub(super) fn end(&mut self, effects: &mut Effects) {
        self.has_ended = true;
        let members = self.members.iter_mut();
        let mute = members.filter(|(_, watched)| watched.has_to_begin);
        let mute = mute.map(|(member, watched)| {
            watched.is_silent = true;
            *member
        });
        let mute: Vec<MemberId> = mute.collect();
        for member in mute {
            self.settle(member, effects);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn is_open(&self, place: u64) -> bool {
        self.checkpoints.contains_key(&place)
    }

    /// Sets a checkpoint, and has the members asked soon.
    pub(super) fn set_checkpoint(&mut self, now: Time, place: u64, config: &XgmConfig) {
        let members = self.members.iter();
        let open = members.filter(|(_, watched)| watched.holding(place) == Holding::Open);
        let open = open.map(|(member, _)| *member).collect();
        self.checkpoints.insert(place, open);
        let soon = self.asked_all_at + config.watch_interval / STEPS;
        self.ask_all_at = self.ask_all_at.min(soon.max(now));
    }

    pub(super) fn checkpoints(&self) -> usize {
        self.checkpoints.len()
    }

    pub(super) fn account(&self, place: u64) -> Account {
        let members = self.members.iter().map(|(member, watched)| Accounted {
            member: *member,
            name: watched.name.clone(),
            holding: watched.holding(place),
            progress: watched.progress,
        });
        Account {
            number: self.number,
            place,
            members: members.collect(),
        }
    }

    /// Takes in a word of a member; returns whether it says anything new.
    pub(super) fn hear(&mut self, from: MemberId, word: Word, effects: &mut Effects) -> bool {
        let last = self.round;
        let Some(watched) = self.members.get_mut(&from) else {
            return false;
        };
        let is_answer = word.round > watched.round && word.round <= last;
        let is_news = word.progress > watched.progress || watched.said != Some(word.standing);
        let is_over = !matches!(watched.said, None | Some(Standing::Within));
        // The entity of a member that has said nothing yet may not have heard of the connection
        // yet.
        let is_early = word.standing == Standing::Stranger && watched.said.is_none();
        let is_heard = if word.round == 0 { is_news } else { is_answer };
        if !is_heard || is_over || is_early {
            return false;
        }
        watched.has_to_begin = false;
        watched.round = watched.round.max(word.round);
        watched.asked = 0;
        watched.progress = watched.progress.max(word.progress);
        let has_moved = !word.subgroups.is_empty() && watched.subgroups != word.subgroups;
        if has_moved {
            watched.subgroups = word.subgroups;
        }
        let was_present = watched.is_present();
        watched.said = Some(word.standing);
        let how = match word.standing {
            Standing::Within | Standing::Complete => None,
            Standing::Left => Some(Departure::Left),
            Standing::Closed => Some(Departure::Closed),
            Standing::Stranger => Some(Departure::Lost),
        };
        if let Some(how) = how.filter(|_| was_present) {
            self.depart(from, how, effects);
        } else if has_moved {
            self.judge(None, effects);
        }
        self.settle(from, effects);
        true
    }

    /// When [`step`](Self::step) is due.
    pub(super) fn due(&self) -> Option<Time> {
        let waits = self.members.values().any(Watched::is_within);
        waits.then(|| self.step_at.min(self.ask_all_at))
    }

    /// Sends the asks that are due, and gives up members that have not answered enough of them.
    pub(super) fn step(&mut self, now: Time, config: &XgmConfig, effects: &mut Effects) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let step = config.watch_interval / STEPS;
        if self.step_at <= now {
            self.step_at = now + step;
            let asks = config.plants().patience(config.watch_asks.max(1));
            let members = self.members.iter();
            let gone = members.filter(|(_, it)| it.is_within() && it.asked >= asks);
            let gone: Vec<MemberId> = gone.map(|(member, _)| *member).collect();
            for member in gone {
                if let Some(watched) = self.members.get_mut(&member) {
                    watched.is_silent = true;
                }
                self.depart(member, Departure::Silent, effects);
                self.settle(member, effects);
            }
        }
        let asks_all = self.ask_all_at <= now;
        if asks_all {
            self.asked_all_at = now;
            self.ask_all_at = now + config.watch_interval;
        }
        // Earlier, the answer may still be on its way.
        let are_due = now - self.asked_all_at >= step * 2;
        let is_asked = |it: &Watched| asks_all || it.asked > 1 || it.asked == 1 && are_due;
        let members = self.members.iter_mut();
        let asked = members.filter(|(_, it)| it.is_within() && is_asked(it));
        let mut silent = Vec::new();
        for (member, watched) in asked {
            if !watched.has_to_begin {
                watched.asked = watched.asked.saturating_add(1);
            }
            silent.push(*member);
        }
        if silent.is_empty() {
            return;
        }
        self.round = self.round.saturating_add(1);
        let ask = Ask {
            number: self.number,
            round: self.round,
            only: Incarnation(0),
            spread: step * 3 / 2,
            places: self.checkpoints.keys().copied().take(PLACES_MAX).collect(),
        };
        if asks_all {
            effects.asks.push((None, ask));
            return;
        }
        for member in silent {
            let ask = Ask {
                only: member.incarnation,
                spread: Duration::ZERO,
                ..ask.clone()
            };
            effects.asks.push((Some(member), ask));
        }
    }

    /// Tells that a member has gone.
    fn depart(&mut self, member: MemberId, how: Departure, effects: &mut Effects) {
        let Some(watched) = self.members.get(&member).filter(|_| !self.has_ended) else {
            return;
        };
        effects.events.push(XgmEvent::Departed {
            number: self.number,
            member,
            name: watched.name.clone(),
            how,
        });
        self.judge(Some(member), effects);
    }

    /// Tells once that the membership does not hold; `gone` is the member that has just gone, if
    /// one has.
    fn judge(&mut self, gone: Option<MemberId>, effects: &mut Effects) {
        if !self.is_begun || self.is_violated || self.has_ended {
            return;
        }
        let present = self.members.iter().filter(|(_, it)| it.is_present());
        let present = present.map(|(member, it)| (member.node, it.covered()));
        let leaves = gone.filter(|_| !self.membership.may_leave);
        let rule = match leaves {
            Some(_) => Some(Rule::Leaves),
            None => self.membership.judge(present),
        };
        let Some(rule) = rule else {
            return;
        };
        self.is_violated = true;
        let names = match leaves.and_then(|member| self.members.get(&member)) {
            Some(watched) => [watched.name.clone()].into(),
            None => self.names_of_gone(rule),
        };
        effects.events.push(XgmEvent::Violated {
            number: self.number,
            violation: Violation { rule, names },
        });
    }

    /// The names of the members whose going breaks `rule`.
    fn names_of_gone(&self, rule: Rule) -> Vec<Bytes> {
        let present = || self.members.iter().filter(|(_, it)| it.is_present());
        let is_here = |node: &NodeId| present().any(|(member, _)| member.node == *node);
        let gone = self.members.iter().filter(|(_, it)| !it.is_present());
        let breaks = |member: &MemberId, watched: &Watched| match rule {
            Rule::Count | Rule::Leaves => true,
            Rule::Nodes => self.membership.nodes.contains(&member.node) && !is_here(&member.node),
            Rule::Subgroups => watched.subgroups.matches(self.membership.subgroups),
        };
        let gone = gone.filter(|(member, watched)| breaks(member, watched));
        let names = gone.map(|(_, watched)| watched.name.clone());
        let is_known = |node: &NodeId| self.members.keys().any(|member| member.node == *node);
        let absent = self.membership.nodes.iter();
        let absent = absent.filter(|node| rule == Rule::Nodes && !is_known(node));
        let absent = absent.map(|node| Bytes::from(alloc::format!("{node:?}")));
        names.chain(absent).collect()
    }

    /// Settles the checkpoints that waited for `member` alone, if it is not open there any more.
    fn settle(&mut self, member: MemberId, effects: &mut Effects) {
        let Some(watched) = self.members.get(&member) else {
            return;
        };
        for (place, waits_for) in &mut self.checkpoints {
            if watched.holding(*place) != Holding::Open {
                waits_for.remove(&member);
            }
        }
        self.tell_settled(effects);
    }

    /// Tells the accounts of the checkpoints that are left, with open members as unknown.
    pub(super) fn close(&mut self, effects: &mut Effects) {
        for place in core::mem::take(&mut self.checkpoints).into_keys() {
            let mut account = self.account(place);
            let members = account.members.iter_mut();
            for open in members.filter(|it| it.holding == Holding::Open) {
                open.holding = Holding::Unknown;
            }
            effects.events.push(XgmEvent::Checkpoint(account));
        }
    }

    /// Tells the accounts of the checkpoints that wait for no member any more.
    pub(super) fn tell_settled(&mut self, effects: &mut Effects) {
        let checkpoints = self.checkpoints.iter();
        let settled = checkpoints.filter(|(_, waits_for)| waits_for.is_empty());
        let settled: Vec<u64> = settled.map(|(place, _)| *place).collect();
        for place in settled {
            self.checkpoints.remove(&place);
            let account = self.account(place);
            effects.events.push(XgmEvent::Checkpoint(account));
        }
    }
}
