//! How an old configuration is finished: what a member declares of it, and what those that go along
//! compute from their declarations.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use groupcast_core::mech::closing::{Closing, Holding};
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{Event, MemberId};

use super::config::OrderRule;
use super::numbers::{Number, Packets};
use super::order::{Order, Site};
use super::repair::{add_packet, runs};
use super::wire::{Declared, Inventory, Nack};

/// What the members that finish a configuration together hold of it between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Together {
    /// All of them hold everything up to here.
    pub(super) low: Seq,
    /// The positions above that one of them holds, ascending.
    pub(super) held: Vec<Seq>,
    /// What they know of each member of the old configuration.
    pub(super) members: Vec<Declared>,
}

impl Together {
    pub(super) fn has(&self, seq: Seq) -> bool {
        seq <= self.low || self.held.binary_search(&seq).is_ok()
    }
}

/// How an old configuration is finished.
#[derive(Clone, Hash, Debug)]
pub(super) struct Plan {
    pub(super) closing: Closing,
    pub(super) together: Together,
    /// For each position that somebody lacks, the members that declared it.
    pub(super) holders: BTreeMap<Seq, Vec<MemberId>>,
    /// For each member of the old configuration, those that declared the most of its early
    /// messages.
    pub(super) early_holders: Vec<Vec<MemberId>>,
}

impl Plan {
    /// How `local` and those of `inventories`, which come from `old` too, finish it. First delivers
    /// what one of them knows to be held by all members of `old`, and forgets it: there must be
    /// room here for what another one kept that knew of it before.
    pub(super) fn new(
        inventories: &BTreeMap<MemberId, Inventory>,
        local: MemberId,
        old: &mut Order,
        emit: &mut dyn FnMut(Event),
    ) -> Self {
        let holdings: Vec<(MemberId, Holding)> = inventories
            .iter()
            .map(|(member, inventory)| {
                // All come from it: some have passed a list meanwhile.
                let config = old.id;
                (
                    *member,
                    Holding {
                        config,
                        ..inventory.holding
                    },
                )
            })
            .collect();
        let mut closing = Closing::new(&holdings, local, &old.roster);
        // Nobody knows that all hold what one of these lacks: a member that says so is wrong, and
        // what the other lacks must not be forgotten.
        closing.safe = closing.safe.min(closing.low);
        old.plants.safe_shared(&mut closing.safe, old);
        old.deliver_safe(closing.safe, emit);
        old.discard();
        // A position above the room here is a peer's bug, and nobody holds it. What is forgotten
        // here was held here, whatever another member says that it lacks.
        closing.high = closing.high.min(old.room().before());
        closing.low = closing.low.max(Seq(old.places.base()).before());
        let members = members(inventories, old);
        let mut together = Together {
            low: closing.low,
            held: Vec::new(),
            members,
        };
        let mut holders = BTreeMap::new();
        for seq in closing.low.up_to(closing.high) {
            let has = inventories.iter().filter(|(_, it)| it.has(seq));
            let has: Vec<MemberId> = has.map(|(member, _)| *member).collect();
            if !has.is_empty() {
                together.held.push(seq);
                holders.insert(seq, has);
            }
        }
        old.plants.recovery_planned(&mut together, old);
        Self {
            early_holders: early_holders(inventories, &together.members),
            closing,
            together,
            holders,
        }
    }

    /// The positions that `old` still lacks.
    pub(super) fn lacks(&self, old: &Order) -> Vec<Seq> {
        let held = self.together.held.iter().copied();
        held.filter(|seq| !old.holds(*seq)).collect()
    }

    /// The packets of each member that `old` still lacks, up to the last one in which a message
    /// ends that comes early.
    pub(super) fn lacks_early(&self, old: &Order) -> Vec<Packets> {
        let mut lacks = Vec::new();
        for (origin, (site, known)) in old.sites.iter().zip(&self.together.members).enumerate() {
            let missing = site.packets.missing(known.early.0).map(Number);
            missing.for_each(|number| add_packet(&mut lacks, origin as u8, number));
        }
        lacks
    }

    /// Requests for what `old` lacks, after `tries` others: each time to another one of those that
    /// declared it.
    pub(super) fn requests(&self, old: &Order, tries: u32) -> Vec<Nack> {
        let turn = |holders: &[MemberId]| {
            let index = (tries as usize).checked_rem(holders.len())?;
            holders.get(index).copied()
        };
        let mut wanted: BTreeMap<MemberId, (Vec<Seq>, Vec<Packets>)> = BTreeMap::new();
        for seq in self.lacks(old) {
            if let Some(holder) = self.holders.get(&seq).and_then(|all| turn(all)) {
                wanted.entry(holder).or_default().0.push(seq);
            }
        }
        for run in self.lacks_early(old) {
            let holders = self.early_holders.get(usize::from(run.origin));
            if let Some(holder) = holders.and_then(|all| turn(all)) {
                wanted.entry(holder).or_default().1.push(run);
            }
        }
        let request = |(holder, (positions, packets)): (MemberId, (Vec<Seq>, Vec<Packets>))| {
            Some(Nack {
                whole: true,
                tag: old.tag,
                asked: old.index_of(holder)?,
                again: tries.min(u32::from(u8::MAX)) as u8,
                positions: runs(positions.into_iter()),
                packets,
            })
        };
        wanted.into_iter().filter_map(request).collect()
    }
}

/// What those that go along know of each member of the old configuration.
fn members(inventories: &BTreeMap<MemberId, Inventory>, old: &Order) -> Vec<Declared> {
    let mut members = vec![Declared::default(); old.roster.len()];
    for inventory in inventories.values() {
        for (all, one) in members.iter_mut().zip(&inventory.members) {
            all.known = all.known.max(one.known);
            all.ready = all.ready.max(one.ready);
            all.early = all.early.max(one.early);
        }
    }
    for (member, site) in members.iter_mut().zip(&old.sites) {
        member.early = member.early.min(Number(site.packets.room() - 1));
    }
    members
}

/// For each member of the old configuration, those that declared `members`' last early packet.
fn early_holders(
    inventories: &BTreeMap<MemberId, Inventory>,
    members: &[Declared],
) -> Vec<Vec<MemberId>> {
    let of = |(index, all): (usize, &Declared)| {
        let has = inventories.iter().filter(|(_, inventory)| {
            let one = inventory.members.get(index);
            one.is_some_and(|one| one.early >= all.early)
        });
        has.map(|(member, _)| *member).collect()
    };
    members.iter().enumerate().map(of).collect()
}

impl Order {
    /// No position above is known here to be given out.
    pub(super) fn high(&self) -> Seq {
        Seq(self.places.high()).max(self.top.last)
    }

    /// What this member holds, for others to know. From now on until the next configuration is
    /// installed, or fails, nothing is added to it but what recovery brings.
    pub(super) fn inventory(&self) -> Inventory {
        let high = self.high();
        let mut inventory = Inventory {
            holding: Holding {
                config: self.id,
                aru: self.held,
                high,
                safe: self.safe().min(self.held),
                obligations: self.obligations,
            },
            max_n: self.own_max_n as u16,
            members: self.declared(),
            passed: self.lists.passed.clone(),
            size: (self.lists.newest() > 0).then_some(self.members.len() as u16),
            held: Vec::new(),
        };
        for seq in self.held.up_to(high) {
            if self.holds(seq) {
                inventory.insert(seq);
            }
        }
        inventory
    }

    fn declared(&self) -> Vec<Declared> {
        // What others said that they sent before a list counts as far as it is here: a member that
        // declares it is asked for it.
        let cut = |index: usize| {
            let passed = self.lists.passed.as_ref();
            let cut = passed.and_then(|passed| passed.cuts.get(index).copied());
            let held = Number(self.sites[index].packets.aru());
            cut.unwrap_or_default().min(held)
        };
        let of = |index: usize| Declared {
            known: self.known(index as u8),
            ready: self.sites[index].marks.ready,
            early: match index == self.me.at() {
                true => self.own_early.max(cut(index)),
                false => self.streams[index].early().max(cut(index)),
            },
        };
        (0..self.roster.len()).map(of).collect()
    }

    /// Others may rely from now on on what those that go along know `together`, on what is `safe`,
    /// on the messages of `bound`, and on that this member sends again what had no settled place
    /// when they declared what they hold.
    pub(super) fn oblige(&mut self, bound: Indices, together: &Together, safe: Seq) {
        self.obligations = self.obligations.union(bound);
        self.plants.obliged(&mut self.obligations);
        for (site, declared) in self.sites.iter_mut().zip(&together.members) {
            site.marks.known = site.marks.known.max(declared.known);
            site.marks.ready = site.marks.ready.max(declared.ready);
        }
        let settled = self.settled(together).get(self.me.at()).copied();
        let end = settled.unwrap_or_default();
        self.places_end = Some(self.places_end.map_or(end, |before| before.min(end)));
        self.note_safe(safe);
        if self.rule == OrderRule::Heard {
            // What came in recovery was delivered by none of them in the regular configuration.
            self.heard_end = self.heard_end.min(self.heard_to(together));
            self.ready = self.ready.min(self.heard_end);
            self.advance();
        }
    }

    /// Up to where an ACK settles places, with `order = heard`, for those that finish the
    /// configuration `together`: where one of its members was ready, and so may have delivered all
    /// before. By what they declared, so that it is the same at all.
    fn heard_to(&self, together: &Together) -> Seq {
        let ready = |index: usize| {
            let member = together.members.get(index);
            member.map(|it| it.ready).unwrap_or_default()
        };
        let highest = (0..self.roster.len()).map(ready).max();
        let to = self.lists.heard_settles_to(ready);
        to.min(highest.unwrap_or_default())
    }

    /// Of each member, up to which packet all have places that ACKs settle, and are held by one of
    /// those that finish the configuration `together`. With `order = settled` no ACK settles any.
    ///
    /// The same at all of them, once each holds what one of them declared. A packet behind one that
    /// has no such place has none, either: its messages would come before earlier ones.
    pub(super) fn heard_in(&self, together: &Together) -> Vec<Number> {
        if self.rule == OrderRule::Settled {
            return vec![Number::default(); self.sites.len()];
        }
        let forgotten = |site: &Site| Number(site.placed.base() - 1);
        let mut heard: Vec<Number> = self.sites.iter().map(forgotten).collect();
        // A list that nobody has passed comes to nothing, and all behind it.
        let end = self.lists.pending().map_or(Seq::MAX, Seq::before);
        let last = self.heard_to(together).min(end);
        let last = last.min(Seq(self.places.high()));
        for seq in Seq(self.places.base()).before().up_to(last) {
            let place = self.places.get(seq.0).filter(|place| !place.is_list());
            if let Some(place) = place.filter(|_| together.has(seq))
                && let Some(heard) = heard.get_mut(usize::from(place.origin))
                && place.number == heard.next()
            {
                *heard = place.number;
            }
        }
        heard
    }

    /// Up to which packet of each member the order is settled for those that finish the
    /// configuration `together`: those above have no place, and are sent again by their sender.
    pub(super) fn settled(&self, together: &Together) -> Vec<Number> {
        let mut settled = self.heard_in(together);
        for (settled, member) in settled.iter_mut().zip(&together.members) {
            *settled = (*settled).max(member.known);
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::rmp::RmpConfig;
    use crate::rmp::fixtures::{config, member};
    use crate::rmp::numbers::{Marks, Stamp};
    use crate::rmp::order::{Heard, Packet};
    use crate::rmp::wire::Ack;

    /// The ACK of `issuer` that orders this member's packet `number`.
    fn ack(order: &Order, issuer: u8, number: u64) -> Ack {
        Ack {
            again: false,
            issuer,
            next: issuer + 1,
            tag: order.tag,
            stamp: Stamp(number),
            first: Seq(100 + number),
            marks: Marks::default(),
            packets: vec![Packets {
                origin: 2,
                first: Number(number),
                count: 1,
            }],
        }
    }

    #[test]
    fn who_has_accepted_knows_no_place_of_its_own_packets_that_it_did_not_declare() {
        let members = (0..3).map(member).collect();
        let lan = RmpConfig::lan();
        let mut order = Order::new(config(1), members, member(2), Seq(100), 1431, &lan);
        for number in 1..=2 {
            let packet = Packet {
                version: 0,
                body: Bytes::from_static(b"packet"),
            };
            order.insert(2, Number(number), packet);
        }
        let known = |order: &Order| order.inventory().members[2].known;
        assert_eq!(order.take_ack(&ack(&order, 0, 1)), Heard::Newest);
        assert_eq!(known(&order), Number(1));
        let declared = order.inventory();
        // Another one's answer brings the place of the second.
        assert_eq!(order.take_ack(&ack(&order, 1, 2)), Heard::Newest);
        assert_eq!(known(&order), Number(2), "nobody relies on anything yet");
        let together = Together {
            low: Seq(101),
            held: Vec::new(),
            members: declared.members,
        };
        order.oblige(Indices::default(), &together, Seq(100));
        assert_eq!(known(&order), Number(1));
        assert_eq!(order.acknowledged(), Number(2));
    }
}
