//! Recovering: the members of the next configuration exchange what some of them lack of the old one
//! and accept; then it is installed (000 ch. 8's two phases; EVS).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use groupcast_core::mech::peers::Attempt;
use groupcast_core::{ConfigId, Event, MemberId, Time};

use super::hearsay::Hearsay;
use super::order::Order;
use super::plan::Plan;
use super::polling::Polling;
use super::wire::{Answer, Inventory, Message, Nack, Proposal};
use super::{Rmp, State, Timer};

/// The next configuration, and what is fetched before it.
#[derive(Clone, Hash, Debug)]
pub(super) struct Recovering {
    /// The order that was: what others hold of it is added.
    pub(super) old: Option<Order>,
    pub(super) proposal: Proposal,
    /// What the members that come from the same configuration declared, as far as it is known here.
    pub(super) inventories: BTreeMap<MemberId, Inventory>,
    /// How the old configuration is finished, once all have declared.
    pub(super) plan: Option<Box<Plan>>,
    /// How many times this member has repeated what it waits to be answered.
    pub(super) tries: u32,
    /// What others told of members that are not heard here.
    pub(super) hearsay: Hearsay,
    /// When the recovery began.
    pub(super) begun: Time,
    /// This member holds all that it must.
    pub(super) complete: bool,
    /// The members that have accepted, as far as it was heard here.
    pub(super) accepted: BTreeSet<MemberId>,
    /// At the proposer: how many times in a row a member did not accept an earlier proposal.
    pub(super) unaccepted: BTreeMap<MemberId, u32>,
    /// At the proposer: how many times in a row a member went along with another proposal.
    pub(super) turned_away: BTreeMap<MemberId, u32>,
    /// The members that said good-bye meanwhile.
    pub(super) gone: BTreeSet<MemberId>,
    /// The members that should have been in this configuration, as far as was known here, and are
    /// not.
    left_behind: BTreeSet<MemberId>,
    /// The members that had parted from this one before.
    pub(super) parted: BTreeSet<MemberId>,
}

/// A member that did not accept this many proposals in a row is left out: polls reach it, other
/// datagrams do not.
const UNACCEPTED_MAX: u32 = 2;
/// A member that accepted another one's proposal this many times in a row is left out: it says so,
/// and goes along with nobody.
pub(super) const TURNED_AWAY_MAX: u32 = 8;

impl Recovering {
    pub(super) fn new(
        proposal: Proposal,
        local: MemberId,
        inventories: BTreeMap<MemberId, Inventory>,
        mut before: State,
    ) -> Self {
        let take = core::mem::take;
        let (mut left_behind, parted) = match &mut before {
            State::Polling(polling) => (take(&mut polling.wanted), take(&mut polling.parted)),
            State::Standby(standby) => (take(&mut standby.wanted), take(&mut standby.parted)),
            _ => Default::default(),
        };
        left_behind.retain(|it| config_of(&proposal, *it).is_none());
        let own = config_of(&proposal, local);
        let inventories = inventories
            .into_iter()
            .filter(|(member, inventory)| {
                own.is_some() && config_of(&proposal, *member) == own && fits(inventory, own)
            })
            .collect();
        Self {
            old: before.into_installed(),
            proposal,
            inventories,
            plan: None,
            tries: 0,
            hearsay: Hearsay::default(),
            begun: Time::ZERO,
            complete: false,
            accepted: BTreeSet::new(),
            unaccepted: BTreeMap::new(),
            turned_away: BTreeMap::new(),
            gone: BTreeSet::new(),
            left_behind,
            parted,
        }
    }

    pub(super) fn id(&self) -> ConfigId {
        self.proposal.config
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.proposal.members.iter().map(|(member, _)| *member)
    }

    pub(super) fn has(&self, member: MemberId) -> bool {
        self.members().any(|other| other == member)
    }

    /// The members of the old configuration, and those that were wanted here, that are neither in
    /// the next one nor said good-bye.
    pub(super) fn excluded(&self) -> BTreeSet<MemberId> {
        let old = self.old.iter().flat_map(|old| &old.members);
        let all = old.chain(&self.left_behind).copied();
        all.filter(|it| !self.has(*it) && !self.proposal.left.contains(it))
            .collect()
    }

    pub(super) fn is_proposer(&self, member: MemberId) -> bool {
        self.proposal.config.representative == member
    }

    pub(super) fn is_of(&self, poller: MemberId, attempt: Attempt) -> bool {
        self.is_proposer(poller) && self.proposal.attempt == attempt
    }

    /// The poll that this follows from.
    pub(super) fn attempt(&self) -> Attempt {
        self.proposal.attempt
    }

    /// `member` has accepted. Whether that is news, after which all may have.
    pub(super) fn note_accepted(&mut self, member: MemberId) -> bool {
        self.has(member) && self.accepted.insert(member)
    }

    /// `member` accepts another proposal than this one.
    pub(super) fn note_turned_away(&mut self, member: MemberId) {
        *self.turned_away.entry(member).or_default() += 1;
    }

    /// What this member declared; `None` if it does not come from where the proposal says.
    pub(super) fn declared(&self, local: MemberId) -> Option<&Inventory> {
        self.inventories.get(&local)
    }

    /// The configuration that `local` comes from.
    fn comes_from(&self, local: MemberId) -> ConfigId {
        let declared = || self.declared(local).map(|it| it.holding.config);
        let from = config_of(&self.proposal, local).or_else(declared);
        from.unwrap_or(self.id())
    }

    /// The members that come from the same configuration as `local`.
    pub(super) fn along(&self, local: MemberId) -> Vec<MemberId> {
        let from = self.comes_from(local);
        let members = self.proposal.members.iter();
        members
            .filter(|(_, config)| *config == from)
            .map(|(member, _)| *member)
            .collect()
    }

    /// Another member's declaration: whether it is one that is needed.
    pub(super) fn note_answer(&mut self, local: MemberId, from: MemberId, answer: Answer) -> bool {
        let own = config_of(&self.proposal, local);
        let needed = self.is_of(answer.poller, answer.attempt)
            && self.old.is_some()
            && config_of(&self.proposal, from) == own
            && fits(&answer.inventory, own);
        if needed {
            self.inventories.entry(from).or_insert(answer.inventory);
        }
        needed
    }

    /// Makes the plan once all have declared. What that delivers goes to `emit`.
    fn plan(&mut self, local: MemberId, emit: &mut dyn FnMut(Event)) {
        let (along, from) = (self.along(local), self.comes_from(local));
        let Some(old) = &mut self.old else { return };
        if old.id != from {
            // Behind a list that another has passed: this member passes it first.
            let answers = self.inventories.values();
            let mut passed = answers.filter_map(|it| it.passed.as_ref());
            if !passed.any(|passed| old.catch_up(passed, emit)) || old.id != from {
                return;
            }
        }
        // A member that was never in it does not come from it, whatever it says.
        let is_of_old = |member: &MemberId| old.roster.contains(member);
        self.inventories.retain(|member, _| is_of_old(member));
        let mut declared = along.iter().filter(|member| is_of_old(member));
        let declared = declared.all(|member| self.inventories.contains_key(member));
        if self.plan.is_none() && declared {
            let plan = Plan::new(&self.inventories, local, old, emit);
            self.plan = Some(Box::new(plan));
        }
    }

    /// Whether this member lacks something that it must hold.
    fn lacks(&self) -> bool {
        let (Some(plan), Some(old)) = (&self.plan, &self.old) else {
            return self.old.is_some();
        };
        !plan.lacks(old).is_empty() || !plan.lacks_early(old).is_empty()
    }

    /// What is missing to pass a list that a member which goes along has passed: that one is asked,
    /// or, in turn, another one that has passed it.
    fn request_to_list(&self, old: &Order, tries: u32) -> Option<Nack> {
        let ahead = self.inventories.iter().filter_map(|(member, it)| {
            let passed = it.passed.as_ref().filter(|passed| old.may_be(passed))?;
            Some((old.index_of(*member)?, passed))
        });
        let ahead: Vec<_> = ahead.collect();
        let turn = (tries as usize).checked_rem(ahead.len())?;
        let (asked, passed) = ahead.get(turn)?;
        Some(old.request_to_list(passed, *asked, tries))
    }
}

/// The configuration that `member` comes from, as `proposal` says.
fn config_of(proposal: &Proposal, member: MemberId) -> Option<ConfigId> {
    let mut members = proposal.members.iter();
    let found = members.find(|(other, _)| *other == member);
    found.map(|(_, config)| *config)
}

/// Whether a member that declares `inventory` may come from `config`: or from one before a list.
fn fits(inventory: &Inventory, config: Option<ConfigId>) -> bool {
    let declared = inventory.holding.config;
    config.is_some_and(|config| declared == config || declared.counter < config.counter)
}

impl Rmp {
    /// A configuration is proposed, by this member or another.
    pub(super) fn begin_recovery(&mut self, now: Time) {
        self.answered.spend();
        let wait = self.config.recover_wait;
        self.timers.set(Timer::Deadline, now + wait);
        self.state.expect_recovering().begin(now);
        self.recover(now);
        if matches!(self.state, State::Recovering(_)) {
            self.repeat_recovery(now);
        }
    }

    /// Something came that may complete what this member must hold.
    pub(super) fn recover(&mut self, now: Time) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        let events = &mut self.events;
        recovering.plan(local, &mut |it| events.push_back(it));
        if recovering.complete || recovering.lacks() {
            return;
        }
        recovering.complete = true;
        if let (Some(plan), Some(old)) = (&recovering.plan, &mut recovering.old) {
            // From now on others may install relying on this member (Totem's obligation set).
            old.oblige(plan.closing.bound, &plan.together, plan.closing.safe);
        }
        self.accept_again();
        self.install_if_all_accepted(now);
    }

    /// Says that this member holds all that it must.
    pub(super) fn accept_again(&mut self) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        if !recovering.complete {
            return;
        }
        if recovering.is_proposer(local) {
            recovering.accepted.insert(local);
        } else {
            let config = recovering.id();
            self.outbox.multicast(&Message::Accept { config });
        }
    }

    /// Repeats what this member waits to be answered.
    pub(super) fn repeat_recovery(&mut self, now: Time) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        if recovering.is_proposer(local) {
            let proposal = recovering.proposal.clone();
            let declared = recovering.declared(local).cloned();
            let answer = declared.map(|inventory| Answer {
                inventory,
                ..self.answer(local, proposal.attempt)
            });
            self.outbox.multicast(&Message::Proposal(proposal));
            if let Some(answer) = answer {
                self.outbox.multicast(&Message::Answer(answer));
            }
        }
        self.accept_again();
        self.fetch();
        self.ask_others();
        self.state.expect_recovering().tries += 1;
        self.plan_repeat(now);
    }

    /// Asks for declarations, and for what others declared and this member lacks.
    fn fetch(&mut self) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        let Some(old) = &recovering.old else { return };
        let tries = recovering.tries;
        let Some(plan) = &recovering.plan else {
            let nack = recovering.request_to_list(old, tries);
            let poller = recovering.id().representative;
            let ask = Message::Ask {
                poller,
                attempt: recovering.proposal.attempt.0,
            };
            for member in recovering.along(local) {
                if !recovering.inventories.contains_key(&member) {
                    self.outbox.unicast(member, &ask);
                }
            }
            if let Some(nack) = nack {
                self.send_nack(nack);
            }
            return;
        };
        let nacks = plan.requests(old, tries);
        for nack in nacks {
            self.send_nack(nack);
        }
    }

    /// The proposal came to nothing: the proposer polls at once, without those that did not accept
    /// twice; the others after a random delay.
    pub(super) fn recovery_failed(&mut self, now: Time) {
        if self.ends_stranded(now) {
            return;
        }
        let local = self.local;
        let recovering = self.state.expect_recovering();
        let mut seed = Polling::default();
        if recovering.is_proposer(local) {
            let mut counts = core::mem::take(&mut recovering.unaccepted);
            for member in recovering.members() {
                if recovering.accepted.contains(&member) {
                    counts.remove(&member);
                    continue;
                }
                let count = counts.entry(member).or_insert(0);
                *count += 1;
                if *count >= UNACCEPTED_MAX && member != local {
                    seed.failed.insert(member);
                }
            }
            seed.unaccepted = counts;
            self.poll(now, "not all accepted", seed);
        } else {
            let longest = self.config.abort_delay_max;
            let delay = self.rng.duration(longest / 4, longest);
            self.wait(now, "not installed", delay, None);
        }
    }
}
