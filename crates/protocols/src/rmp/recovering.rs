//! Recovering: the members of the next configuration exchange what some of them lack of the old one
//! and accept; then it is installed (000 ch. 8's two phases; EVS).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use groupcast_core::mech::closing::{Closing, Holding};
use groupcast_core::mech::peers::Attempt;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, Configuration, ConfigurationKind, Event, MemberId, Time};

use super::config::OrderRule;
use super::delivery::Together;
use super::numbers::{Number, Tag};
use super::operational::Operational;
use super::order::Order;
use super::polling::Polling;
use super::repair::runs;
use super::wire::{Answer, Inventory, Message, Nack, Proposal};
use super::{Rmp, State, Timer};

/// The next configuration, and what is fetched before it.
#[derive(Debug)]
pub(super) struct Recovering {
    /// The order that was: what others hold of it is added.
    pub(super) old: Option<Order>,
    proposal: Proposal,
    /// What the members that come from the same configuration declared, as far as it is known here.
    inventories: BTreeMap<MemberId, Inventory>,
    /// How the old configuration is finished, once all have declared.
    plan: Option<Box<Plan>>,
    /// Requests so far.
    tries: u32,
    /// This member holds all that it must.
    complete: bool,
    /// Who has accepted; at the proposer.
    accepted: BTreeSet<MemberId>,
    /// Who did not accept an earlier proposal, how many times in a row; at the proposer.
    pub(super) unaccepted: BTreeMap<MemberId, u32>,
    /// Who said good-bye meanwhile.
    pub(super) gone: BTreeSet<MemberId>,
}

/// How an old configuration is finished.
#[derive(Debug)]
struct Plan {
    closing: Closing,
    together: Together,
    /// For each position that somebody lacks, who declared it.
    holders: BTreeMap<Seq, Vec<MemberId>>,
}

/// A member that did not accept this many proposals in a row is left out: polls reach it, other
/// datagrams do not.
const UNACCEPTED_MAX: u32 = 2;

impl Recovering {
    pub(super) fn new(
        proposal: Proposal,
        local: MemberId,
        inventories: BTreeMap<MemberId, Inventory>,
        before: State,
    ) -> Self {
        let own = inventories
            .get(&local)
            .map(|inventory| inventory.holding.config);
        let same = |member: MemberId| {
            let mut members = proposal.members.iter();
            members.any(|(other, config)| *other == member && Some(*config) == own)
        };
        let inventories = inventories
            .into_iter()
            .filter(|(member, inventory)| same(*member) && Some(inventory.holding.config) == own)
            .collect();
        Self {
            old: before.into_installed(),
            proposal,
            inventories,
            plan: None,
            tries: 0,
            complete: false,
            accepted: BTreeSet::new(),
            unaccepted: BTreeMap::new(),
            gone: BTreeSet::new(),
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

    pub(super) fn is_proposer(&self, member: MemberId) -> bool {
        self.proposal.config.representative == member
    }

    pub(super) fn is_of(&self, poller: MemberId, attempt: Attempt) -> bool {
        self.is_proposer(poller) && self.proposal.attempt == attempt
    }

    /// What this member declared.
    pub(super) fn declared(&self, local: MemberId) -> &Inventory {
        &self.inventories[&local]
    }

    /// The configuration that `local` comes from.
    fn comes_from(&self, local: MemberId) -> ConfigId {
        self.declared(local).holding.config
    }

    /// The members that come from the same configuration as `local`.
    fn along(&self, local: MemberId) -> Vec<MemberId> {
        let from = self.comes_from(local);
        let members = self.proposal.members.iter();
        members
            .filter(|(_, config)| *config == from)
            .map(|(member, _)| *member)
            .collect()
    }

    /// Another member's declaration: whether it is one that is needed.
    pub(super) fn note_answer(&mut self, from: MemberId, answer: Answer) -> bool {
        let config = answer.inventory.holding.config;
        let needed = self.is_of(answer.poller, answer.attempt)
            && self.proposal.members.contains(&(from, config))
            && self.old.as_ref().is_some_and(|old| old.id == config);
        if needed {
            self.inventories.entry(from).or_insert(answer.inventory);
        }
        needed
    }

    /// Makes the plan once all have declared.
    fn plan(&mut self, local: MemberId, rule: OrderRule) {
        let along = self.along(local);
        let Some(old) = &self.old else { return };
        let declared = along
            .iter()
            .all(|member| self.inventories.contains_key(member));
        if self.plan.is_some() || !declared {
            return;
        }
        let holdings: Vec<(MemberId, Holding)> = self
            .inventories
            .iter()
            .map(|(member, inventory)| (*member, inventory.holding))
            .collect();
        let mut closing = Closing::new(&holdings, local, &old.members);
        // More than anybody can keep is a peer's bug, and is held by nobody.
        closing.high = closing.high.min(old.room_above(closing.safe));
        let mut together = Together {
            known: known(&self.inventories, old.members.len(), rule),
            low: closing.low,
            held: Vec::new(),
        };
        let mut holders = BTreeMap::new();
        for seq in closing.low.up_to(closing.high) {
            let has = self.inventories.iter().filter(|(_, it)| it.has(seq));
            let has: Vec<MemberId> = has.map(|(member, _)| *member).collect();
            if !has.is_empty() {
                together.held.push(seq);
                holders.insert(seq, has);
            }
        }
        old.plants
            .recovery_planned(&mut together, &mut closing.safe, old);
        self.plan = Some(Box::new(Plan {
            closing,
            together,
            holders,
        }));
    }

    /// The positions that this member still lacks.
    fn lacks(&self) -> Vec<Seq> {
        let (Some(plan), Some(old)) = (&self.plan, &self.old) else {
            return Vec::new();
        };
        let held = plan.together.held.iter().copied();
        held.filter(|seq| !old.holds(*seq)).collect()
    }
}

/// Of each member of the old configuration, up to which number it knows its places, as those that go
/// along know together.
fn known(
    inventories: &BTreeMap<MemberId, Inventory>,
    members: usize,
    rule: OrderRule,
) -> Vec<Number> {
    if rule == OrderRule::Heard {
        return alloc::vec![Number(u64::MAX); members];
    }
    let mut known = alloc::vec![Number::default(); members];
    for inventory in inventories.values() {
        for (all, one) in known.iter_mut().zip(&inventory.known) {
            *all = (*all).max(*one);
        }
    }
    known
}

impl Rmp {
    /// A configuration is proposed, by this member or another.
    pub(super) fn begin_recovery(&mut self, now: Time) {
        let wait = self.config.recover_wait;
        self.timers.set(Timer::Deadline, now + wait);
        self.recover(now);
        if matches!(self.state, State::Recovering(_)) {
            self.repeat_recovery(now);
        }
    }

    /// Something came that may complete what this member must hold.
    pub(super) fn recover(&mut self, now: Time) {
        let (local, rule) = (self.local, self.config.order);
        let recovering = self.state.expect_recovering();
        recovering.plan(local, rule);
        if let (Some(plan), Some(old)) = (&recovering.plan, &mut recovering.old) {
            // Another member may have known more of what all hold, and so have kept what does not fit
            // here before the same is forgotten.
            let events = &mut self.events;
            old.deliver_safe(plan.closing.safe, &mut |it| events.push_back(it));
            old.discard();
        }
        let planned = recovering.plan.is_some() || recovering.old.is_none();
        if recovering.complete || !planned || !recovering.lacks().is_empty() {
            return;
        }
        recovering.complete = true;
        if let (Some(plan), Some(old)) = (&recovering.plan, &mut recovering.old) {
            // From now on others may install relying on this member (Totem's obligation set).
            let known = match rule {
                OrderRule::Settled => &plan.together.known[..],
                OrderRule::Heard => &[],
            };
            old.oblige(plan.closing.bound, known, plan.closing.safe);
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
            let answer = Answer {
                inventory: recovering.declared(local).clone(),
                ..self.answer(local, proposal.attempt)
            };
            self.outbox.multicast(&Message::Proposal(proposal));
            self.outbox.multicast(&Message::Answer(answer));
        }
        self.accept_again();
        self.fetch();
        self.plan_repeat(now);
    }

    /// Asks for declarations, and for what others declared and this member lacks.
    fn fetch(&mut self) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        let Some(old) = &recovering.old else { return };
        let tries = recovering.tries;
        recovering.tries += 1;
        let Some(plan) = &recovering.plan else {
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
            return;
        };
        let mut from: BTreeMap<MemberId, Vec<Seq>> = BTreeMap::new();
        for seq in recovering.lacks() {
            let holders = plan.holders.get(&seq);
            let holder = holders.and_then(|all| all.get(tries as usize % all.len()));
            if let Some(holder) = holder {
                from.entry(*holder).or_default().push(seq);
            }
        }
        let tag = old.tag;
        let nacks: Vec<Nack> = from
            .into_iter()
            .filter_map(|(holder, positions)| {
                Some(Nack {
                    whole: true,
                    tag,
                    asked: old.index_of(holder)?,
                    again: tries.min(u32::from(u8::MAX)) as u8,
                    positions: runs(positions.into_iter()),
                    packets: Vec::new(),
                })
            })
            .collect();
        for nack in nacks {
            self.send_nack(nack);
        }
    }

    pub(super) fn handle_accept(&mut self, now: Time, from: MemberId, config: ConfigId) {
        let local = self.local;
        match &mut self.state {
            State::Recovering(recovering) => {
                if recovering.id() == config && recovering.is_proposer(local) {
                    recovering.accepted.insert(from);
                    self.install_if_all_accepted(now);
                }
            }
            // It has not heard that all accepted.
            State::Operational(operational) => {
                if operational.order.id == config && config.representative == local {
                    self.outbox.unicast(from, &Message::Install { config });
                }
            }
            State::Polling(_) | State::Standby(_) | State::Left(_) => {}
        }
    }

    fn install_if_all_accepted(&mut self, now: Time) {
        let local = self.local;
        let recovering = self.state.expect_recovering();
        let all = recovering
            .members()
            .all(|member| recovering.accepted.contains(&member));
        if recovering.is_proposer(local) && recovering.complete && all {
            let config = recovering.id();
            self.outbox.multicast(&Message::Install { config });
            self.install(now);
        }
    }

    /// The second phase: all have accepted.
    pub(super) fn handle_install(&mut self, now: Time, config: ConfigId) {
        if let State::Recovering(recovering) = &self.state
            && recovering.id() == config
            && recovering.complete
        {
            self.install(now);
        }
    }

    /// A datagram of the proposed configuration came: it was installed.
    pub(super) fn install_if_begun(&mut self, now: Time, tag: Tag) {
        if let State::Recovering(recovering) = &self.state
            && Tag::from(recovering.id()) == tag
        {
            self.handle_install(now, recovering.id());
        }
    }

    /// Finishes the old configuration and begins the new one (EVS): the rest of the regular one,
    /// the transitional one and its messages, the next regular one.
    fn install(&mut self, now: Time) {
        let (local, config) = (self.local, &self.config);
        let recovering = self.state.expect_recovering();
        let events = &mut self.events;
        let mut excluded: Vec<MemberId> = Vec::new();
        let proposal = &recovering.proposal;
        let members: Vec<MemberId> = proposal.members.iter().map(|(member, _)| *member).collect();
        if let (Some(old), Some(plan)) = (&mut recovering.old, &recovering.plan) {
            let Plan {
                closing, together, ..
            } = &**plan;
            old.deliver_regular_end(together, closing.safe, &mut |it| events.push_back(it));
            events.push_back(Event::Configuration(Configuration {
                kind: ConfigurationKind::Transitional,
                id: old.id,
                members: closing.members.clone(),
                left: proposal.left.clone(),
            }));
            let (bound, high) = (closing.bound, closing.high);
            old.deliver_transitional(together, bound, high, &mut |it| events.push_back(it));
            old.plants.old_finished(events);
            let declared = recovering.inventories.get(&local);
            let declared = declared.and_then(|it| it.known.get(old.me.at()).copied());
            let known = match config.order {
                OrderRule::Settled => declared.unwrap_or_default(),
                OrderRule::Heard => old.marks().known,
            };
            self.queue.settle(known);
            let here =
                |member: &&MemberId| !members.contains(member) && !proposal.left.contains(member);
            excluded.extend(old.members.iter().filter(here));
        }
        events.push_back(Event::Configuration(Configuration {
            kind: ConfigurationKind::Regular,
            id: proposal.config,
            members: members.clone(),
            left: proposal.left.clone(),
        }));
        let order = Order::new(
            proposal.config,
            members,
            local,
            proposal.start,
            usize::from(proposal.body_max),
            config,
        );
        config.plants().restart(&mut self.queue);
        let (min, max) = (config.quarantine_min, config.quarantine_max);
        for member in excluded {
            self.peers.quarantine(now, member, min, max);
        }
        self.peers.note_installed(order.id.counter);
        self.flow.restart();
        self.timers.cancel_all_but(&[Timer::Leave]);
        self.counters.configurations += 1;
        let gone = core::mem::take(&mut recovering.gone);
        self.transition("all have accepted", |_| {
            let mut operational = Operational::new(order);
            operational.left = gone;
            State::Operational(operational.into())
        });
        self.plan_silence(now);
        self.plan_announcement(now);
        self.flush_unordered();
        self.act(now);
    }

    /// The proposal came to nothing: the proposer polls at once, without those who did not accept
    /// twice; the others after a random delay.
    pub(super) fn recovery_failed(&mut self, now: Time) {
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
