//! Members on both sides of a list finish their configuration together: those that have not passed
//! it do so first, with what the others say (ours). If nobody that goes along has passed it, it
//! comes to nothing.

use alloc::vec::Vec;

use groupcast_core::{ConfigId, Event, MemberId};

use super::delivery::note_early;
use super::numbers::{Number, Packets};
use super::order::{Order, Site};
use super::repair::{add_packet, runs};
use super::wire::{Inventory, Nack, Passed};

/// The configuration that a member comes from that declares `inventory`, where the others declare
/// `all`: the one behind a list, if one of them has passed that.
pub(super) fn comes_from<'a>(
    member: MemberId,
    inventory: &Inventory,
    all: impl IntoIterator<Item = &'a Inventory>,
) -> ConfigId {
    let own = inventory.holding.config;
    let ahead = all.into_iter().find(|other| {
        let passed = other.passed.as_ref();
        passed.is_some_and(|passed| passed.from == own && passed.gone != Some(member))
    });
    ahead.map_or(own, |other| other.holding.config)
}

impl Order {
    /// Whether a member that comes from this configuration may have `passed` this: it lies where
    /// positions and packets can be kept here. A false claim is not looked for.
    pub(super) fn may_be(&self, passed: &Passed) -> bool {
        let kept = |(site, cut): (&Site, &Number)| cut.0 < site.packets.room();
        passed.from == self.id
            && passed.at < self.room()
            && self.sites.iter().zip(&passed.cuts).all(kept)
    }

    /// Passes the list that others have `passed`, which go along: what they delivered before it may
    /// be delivered here. False if something is missing.
    pub(super) fn catch_up(&mut self, passed: &Passed, emit: &mut dyn FnMut(Event)) -> bool {
        if self.lists.pending() != Some(passed.at) || self.held < passed.at {
            return false;
        }
        if !self.may_be(passed) || !self.lacks_cut(&passed.cuts).is_empty() {
            return false;
        }
        let mut own = Vec::new();
        let local = self.roster[self.me.at()];
        self.deliver_to_list(&passed.cuts, &mut |event| {
            note_early(local, &mut own, &event);
            emit(event);
        });
        self.lists.own_early.append(&mut own);
        self.take_cuts(&passed.cuts);
        self.pass(emit);
        true
    }

    /// Packets whose early messages belong to the configuration before the list, and that are
    /// missing.
    fn lacks_cut(&self, cuts: &[Number]) -> Vec<Packets> {
        let mut lacks = Vec::new();
        for (origin, (site, cut)) in self.sites.iter().zip(cuts).enumerate() {
            let missing = site.packets.missing(cut.0).map(Number);
            missing.for_each(|number| add_packet(&mut lacks, origin as u8, number));
        }
        lacks
    }

    /// A request of what this member needs to pass the list that `asked` has `passed`.
    pub(super) fn request_to_list(&self, passed: &Passed, asked: u8, tries: u32) -> Nack {
        let positions = self.held.up_to(passed.at);
        let positions = positions.filter(|seq| !self.holds(*seq));
        Nack {
            whole: true,
            tag: self.tag,
            asked,
            again: tries.min(u32::from(u8::MAX)) as u8,
            positions: runs(positions),
            packets: self.lacks_cut(&passed.cuts),
        }
    }
}
