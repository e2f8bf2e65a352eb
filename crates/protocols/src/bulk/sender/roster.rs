//! The roster of a pass on its way to the receivers: to all, in pages; to one that has missed it,
//! its place alone; and an empty page of it, which keeps a transfer alive that rests.

use alloc::vec::Vec;
use core::ops::Range;

use groupcast_core::MemberId;

use super::super::config::BulkConfig;
use super::super::context::Context;
use super::super::wire::{Message, Start};
use super::chains::is_empty;
use super::registration::AFTERWARDS;
use super::{Sender, State, Timer};

/// Members that fit into a Start, collectors included.
const PAGE: usize = BulkConfig::CONTROL_MAX / 16 - 2;

impl Sender {
    /// Tells the receivers of a pass who they are.
    pub(super) fn send_roster(&self, context: &mut Context<'_>) {
        for page in pages(self.roster(), self.page_size()) {
            let start = self.start_with(context, page);
            context
                .outbox
                .multicast(self.id.number, &Message::Start(start));
        }
    }

    /// Tells one receiver of the pass its place and its neighbours, and no other: it has missed
    /// that the pass has begun. If many have missed it, each asks.
    pub(super) fn tell_place(&self, context: &mut Context<'_>, receiver: MemberId) {
        let roster = self.roster();
        let Some(at) = roster.iter().position(|member| *member == receiver) else {
            return;
        };
        let start = self.start_with(context, around(roster, at, self.page_size()));
        context
            .outbox
            .unicast(receiver, self.id.number, &Message::Start(start));
    }

    /// Nobody may come any more, so nothing is announced. But receivers have a patience of their
    /// own, which may be shorter than this sender's: if nothing has been sent for as long as lies
    /// between two announcements, a page of nobody tells them that it is there. Nobody answers it.
    pub(super) fn keep_alive(&mut self, context: &mut Context<'_>) {
        let stamp = self.stream.last_stamp();
        let rests = core::mem::replace(&mut self.kept_alive, stamp) == stamp;
        if rests && self.state.pass().is_some() {
            let nobody = Message::Start(self.start_with(context, 0..0));
            context.outbox.multicast(self.id.number, &nobody);
        }
        let again = context.now + context.config.announce_interval * AFTERWARDS;
        self.timers.set(Timer::Announce, again);
    }

    fn page_size(&self) -> usize {
        let collectors = self.state.pass().and_then(|pass| pass.collectors.list());
        PAGE - collectors.map_or(0, |list| list.members.len())
    }

    /// A Start with this page of the roster.
    fn start_with(&self, context: &Context<'_>, page: Range<usize>) -> Start {
        let roster = self.roster();
        let starting = matches!(self.state, State::Starting(_));
        let collectors = self.state.pass().and_then(|pass| pass.collectors.list());
        Start {
            pass: self.pass_number(),
            answer: self.asks_to_be_ready(context.config) && starting,
            asks_where_restored: starting && self.may_replace_blocks(),
            receivers: roster.len() as u16,
            first: page.start as u16,
            members: roster[page].to_vec(),
            collectors: collectors.cloned(),
        }
    }
}

/// Pages of at most `size` places that make up a roster. Each begins with the last two receivers of
/// the one before that have not left their places, so that each receiver finds its neighbours on
/// one page, if they are fewer than `size` places apart. Places that were left cost no more pages
/// than others.
fn pages(roster: &[MemberId], size: usize) -> Vec<Range<usize>> {
    let mut pages = Vec::new();
    let mut first = 0;
    loop {
        let end = (first + size).min(roster.len());
        pages.push(first..end);
        if end == roster.len() {
            return pages;
        }
        let are_there = (first + 1..end).rev().filter(|at| !is_empty(&roster[*at]));
        first = are_there.take(2).last().unwrap_or(end);
    }
}

/// The places from the neighbour before place `at` to the one behind it, at most `size`.
fn around(roster: &[MemberId], at: usize, size: usize) -> Range<usize> {
    let is_there = |place: &MemberId| !is_empty(place);
    let before = roster[..at].iter().rposition(is_there).unwrap_or(0);
    let behind = roster[at + 1..].iter().position(is_there);
    let end = behind.map_or(roster.len(), |behind| at + 1 + behind + 1);
    let first = before.max((at + 1).saturating_sub(size));
    first..end.min(first + size)
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId, Rng};

    use super::super::super::wire::EMPTY_PLACE;
    use super::*;

    const SIZE: usize = 10;

    fn place(number: usize, is_left: bool) -> MemberId {
        MemberId {
            node: NodeId(number as u64),
            incarnation: match is_left {
                true => EMPTY_PLACE,
                false => Incarnation(1),
            },
        }
    }

    /// A roster in which places were left in runs.
    fn roster(rng: &mut Rng) -> Vec<MemberId> {
        let mut roster = Vec::new();
        let (places, run) = (rng.range(1..200) as usize, rng.range(1..40));
        while roster.len() < places {
            let is_left = rng.chance(0.5);
            for _ in 0..rng.range(1..run + 1) {
                roster.push(place(roster.len(), is_left));
            }
        }
        roster
    }

    #[test]
    fn pages_cover_a_roster_and_have_all_neighbours_and_are_few() {
        for seed in 0..500 {
            let roster = roster(&mut Rng::new(seed));
            let pages = pages(&roster, SIZE);
            assert_eq!(pages[0].start, 0, "{seed}");
            assert_eq!(pages[pages.len() - 1].end, roster.len(), "{seed}");
            let follows = |pair: &[Range<usize>]| {
                pair[0].start < pair[1].start && pair[1].start <= pair[0].end
            };
            assert!(pages.windows(2).all(follows), "{seed}: {pages:?}");
            assert!(pages.iter().all(|page| page.len() <= SIZE), "{seed}");
            let most = 3 * roster.len() / (SIZE - 2) + 1;
            assert!(pages.len() <= most, "{seed}: {} of {most}", pages.len());
            let there: Vec<usize> = (0..roster.len())
                .filter(|at| !is_empty(&roster[*at]))
                .collect();
            for pair in there.windows(2) {
                let has_both =
                    |page: &Range<usize>| page.contains(&pair[0]) && page.contains(&pair[1]);
                let are_near = pair[1] - pair[0] < SIZE;
                assert!(!are_near || pages.iter().any(has_both), "{seed}: {pair:?}");
            }
        }
    }

    #[test]
    fn a_roster_without_places_that_were_left_has_pages_that_overlap_by_two() {
        let roster: Vec<MemberId> = (0..25).map(|number| place(number, false)).collect();
        assert_eq!(pages(&roster, SIZE), [0..10, 8..18, 16..25]);
        assert_eq!(pages(&roster[..1], SIZE).len(), 1);
    }

    #[test]
    fn a_receiver_is_told_its_place_with_its_neighbours() {
        let left = [1, 2, 5, 6, 7];
        let roster: Vec<MemberId> = (0..30).map(|it| place(it, left.contains(&it))).collect();
        let around = |at| around(&roster, at, 4);
        assert_eq!(around(0), 0..4);
        assert_eq!(around(12), 11..14);
        assert_eq!(around(29), 28..30);
        assert_eq!(around(4), 3..7, "as far as there is room");
        assert_eq!(around(8), 5..9, "as far as there is room");
    }
}
