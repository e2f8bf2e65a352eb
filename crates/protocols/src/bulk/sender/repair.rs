//! Repairs: which packets are sent again, and when parity takes their place.
//!
//! A parity packet restores one packet of its block at every receiver, whichever each misses. So
//! where several receivers lose different packets, a block gets as many parity packets as the
//! receiver that misses most of it, once all of it was sent; and where they lose much, as many as
//! are to be expected before any has asked. As long as one is enough, it is the block's sum.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::MemberId;

use super::super::config::Repair;
use super::super::context::Context;
use super::super::numbers::{PacketNumber, Packets, Stamp, each};
use super::super::parity;
use super::super::wire::ReceiverReport;
use super::{Peer, Sender};

/// Transmissions that may overtake each other on the way without being taken for lost.
const REORDERED_MAX: u64 = 3;
/// Receivers that lose less than this share of transmissions are not worth parity.
const PARITY_MIN: f64 = 0.005;
/// From this share on, parity goes out before any receiver has asked.
pub(super) const PROACTIVE_MIN: f64 = 0.03;

/// The parity of the blocks that are kept.
#[derive(Debug, Default)]
pub(super) struct Parities {
    blocks: BTreeMap<PacketNumber, Block>,
    /// The blocks that are sent as parity alone, by their first packets, and how many parity
    /// packets that takes.
    replaced: BTreeMap<PacketNumber, usize>,
    /// Whether parity pays for the blocks that receivers miss packets of, by their first packets,
    /// and the last stamp when that was found.
    pays: BTreeMap<PacketNumber, (Stamp, bool)>,
}

#[derive(Debug, Default)]
struct Block {
    /// Parity packets of the Reed–Solomon code that have been made, by index.
    parity: Vec<Bytes>,
    /// Stamps of those that were sent, by index.
    sent: Vec<Stamp>,
    /// How many more are to be sent.
    due: usize,
    /// The sum of all packets, and its stamp once it was sent.
    sum: Option<(Bytes, Option<Stamp>)>,
    /// Whether its last packet is to ask every receiver for a report.
    asks: bool,
}

impl Block {
    /// The next of its packets to be sent.
    fn next(&self) -> Option<(u16, &Bytes)> {
        match &self.sum {
            Some((body, None)) => Some((parity::XOR, body)),
            _ if self.due > 0 => {
                let index = self.sent.len();
                Some((index as u16, self.parity.get(index)?))
            }
            _ => None,
        }
    }

    /// How many of its packets are to be sent.
    fn left(&self) -> usize {
        self.due + usize::from(matches!(self.sum, Some((_, None))))
    }

    /// Whether nothing was asked of it yet.
    fn is_untouched(&self) -> bool {
        self.sent.is_empty() && self.due == 0 && self.sum.is_none()
    }
}

impl Parities {
    /// For a pass in which these blocks go as this many parity packets.
    pub(super) fn replacing(replaced: BTreeMap<PacketNumber, usize>) -> Self {
        Self {
            replaced,
            ..Self::default()
        }
    }

    /// Forgets all below `base`, which is the start of a block.
    pub(super) fn release(&mut self, base: PacketNumber) {
        self.blocks = self.blocks.split_off(&base);
        self.replaced = self.replaced.split_off(&base);
        self.pays = self.pays.split_off(&base);
    }

    /// The first block with parity to be sent, and the packet.
    pub(super) fn next(&self) -> Option<(PacketNumber, u16, Bytes)> {
        self.blocks.iter().find_map(|(first, block)| {
            let (index, body) = block.next()?;
            Some((*first, index, body.clone()))
        })
    }

    /// Whether just one is to be sent.
    pub(super) fn is_one_due(&self) -> bool {
        let mut left = self.blocks.values().map(Block::left);
        left.find(|left| *left > 0) == Some(1) && left.all(|left| left == 0)
    }

    /// Whether the next parity packet of a block is to ask for reports.
    pub(super) fn asks_next(&self, first: PacketNumber) -> bool {
        let block = self.blocks.get(&first);
        block.is_some_and(|block| block.asks && block.left() == 1)
    }

    /// It was sent.
    pub(super) fn sent(&mut self, first: PacketNumber, index: u16, stamp: Stamp) {
        let Some(block) = self.blocks.get_mut(&first) else {
            return;
        };
        if index != parity::XOR {
            block.sent.push(stamp);
            block.due -= 1;
        } else if let Some((_, sent)) = &mut block.sum {
            *sent = Some(stamp);
        }
        block.asks &= block.left() > 0;
    }

    /// How many parity packets a block goes as, if it does.
    pub(super) fn replaces(&self, first: PacketNumber) -> Option<usize> {
        self.replaced.get(&first).copied()
    }

    /// Whether any block goes as parity.
    pub(super) fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// The last packet of a block is to ask for reports.
    pub(super) fn ask_with(&mut self, first: PacketNumber) {
        if let Some(block) = self.blocks.get_mut(&first) {
            block.asks = true;
        }
    }

    /// Parity packets that are kept.
    pub(super) fn kept(&self) -> usize {
        let of_block = |block: &Block| block.parity.len() + usize::from(block.sum.is_some());
        self.blocks.values().map(of_block).sum()
    }
}

impl Sender {
    /// Has what `from` reports as missing sent again, or parity for it.
    pub(super) fn repair(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
    ) {
        if context.config.repair == Repair::GoBackN {
            return self.go_back(context, report);
        }
        let pays = self.different_losses();
        if pays.is_some() || self.has_replaced() {
            return self.repair_blocks(context, from, report, pays);
        }
        let limit = self.limit();
        for gap in &report.missing {
            self.repeat(context, report, gap.start..gap.end.min(limit));
        }
    }

    fn go_back(&mut self, context: &Context<'_>, report: &ReceiverReport) {
        let is_due = due(context, report);
        let first = self.stream.first_sent();
        let misses = !report.missing.is_empty();
        if misses && first.is_some_and(|(first, slot)| report.next <= first && is_due(slot)) {
            self.stream.go_back();
        }
    }

    fn repeat(&mut self, context: &Context<'_>, report: &ReceiverReport, gap: Packets) {
        self.stream.repair(gap, due(context, report));
    }

    /// Whether there are blocks, and two of them fit into the window.
    pub(super) fn has_room_for_blocks(&self) -> bool {
        let fits = |block: u16| usize::from(block) * 2 <= self.stream.window();
        self.block.is_some_and(fits)
    }

    /// The largest share that a receiver loses, if receivers lose different packets, and enough of
    /// them.
    fn different_losses(&self) -> Option<f64> {
        if !self.has_room_for_blocks() || self.buckets().is_some() {
            return None;
        }
        let (mut sum, mut most) = (0.0, 0.0_f64);
        for peer in self.gating() {
            sum += peer.loss;
            most = most.max(peer.loss);
        }
        (most > PARITY_MIN && sum > 1.5 * most).then_some(most)
    }

    /// Whether parity for a block pays, where the largest share that any receiver loses is `most`:
    /// several of those that may need it lose different packets. What one loses of a block that it
    /// holds, or cannot restore, is no loss.
    fn parity_pays(&self, block: &Packets, most: f64) -> bool {
        let (mut sum, mut worst) = (0.0, 0.0_f64);
        for peer in self.gating() {
            if peer.loss > 0.0 && peer.may_need(block, None) {
                sum += peer.loss;
                worst = worst.max(peer.loss);
            }
            if worst > PARITY_MIN && sum > 1.5 * most {
                // The others change nothing: not each of many has to be asked.
                return true;
            }
        }
        worst > PARITY_MIN && sum > 1.5 * worst
    }

    /// The same for a report. What was found for another report stays for as many transmissions as
    /// the block has packets: not each NAK asks each of many receivers.
    fn parity_pays_still(&mut self, block: &Packets, most: f64) -> bool {
        let now = self.stream.last_stamp();
        let known = self
            .sending()
            .and_then(|sending| sending.parities.pays.get(&block.start));
        let is_fresh = |found: Stamp| {
            let passed = now.since(found);
            passed.is_some_and(|passed| passed < block.end - block.start)
        };
        if let Some((found, pays)) = known
            && is_fresh(*found)
        {
            return *pays;
        }
        let pays = self.parity_pays(block, most);
        if let Some(sending) = self.sending_mut() {
            sending.parities.pays.insert(block.start, (now, pays));
        }
        pays
    }

    /// Repairs block by block: by parity where that pays, as it may if receivers have
    /// [different losses](Self::different_losses), or where a block goes as parity.
    fn repair_blocks(
        &mut self,
        context: &mut Context<'_>,
        from: MemberId,
        report: &ReceiverReport,
        pays: Option<f64>,
    ) {
        let (size, limit) = (self.block.map_or(1, u64::from), self.limit());
        let base = self
            .sending()
            .map_or(PacketNumber::ZERO, |sending| sending.base);
        let mut missing: BTreeMap<PacketNumber, Vec<Packets>> = BTreeMap::new();
        for gap in &report.missing {
            let mut at = gap.start.max(base);
            let end = gap.end.min(self.stream.top()).min(limit);
            while at < end {
                let first = at.block_start(size);
                let piece = at..end.min(first + size);
                at = piece.end;
                missing.entry(first).or_default().push(piece);
            }
        }
        for (first, gaps) in missing {
            let block = first..self.stream.block_end(first);
            let whole = self.stream.top() >= block.end;
            let restores = |peer: &Peer| peer.can_restore(&block);
            let restores = self.peers.get(&from).is_some_and(restores)
                && pays.is_some_and(|most| self.parity_pays_still(&block, most));
            if whole && (restores || self.is_replaced(first)) {
                self.repair_block(context, report, first, gaps);
            } else if whole || report.answers {
                for gap in gaps {
                    self.repeat(context, report, gap);
                }
            }
        }
    }

    fn repair_block(
        &mut self,
        context: &mut Context<'_>,
        report: &ReceiverReport,
        first: PacketNumber,
        gaps: Vec<Packets>,
    ) {
        let is_due = due(context, report);
        let past = |number: PacketNumber| self.stream.get(number).is_some_and(&is_due);
        let lost = gaps
            .iter()
            .cloned()
            .flat_map(each)
            .filter(|number| past(*number))
            .count();
        // Before the end of the block has arrived there may be more to come. A later pass need not
        // send its last packet.
        let last = self.stream.last_of_block(first);
        let ended = last.is_some_and(|slot| slot.stamp <= report.seen);
        if lost == 0 || !ended {
            return;
        }
        let Some(sending) = self.sending_mut() else {
            return;
        };
        let block = sending.parities.blocks.entry(first).or_default();
        let margin = if report.answers { 0 } else { REORDERED_MAX };
        let coming = |stamp: &Stamp| stamp.after(margin) > report.seen;
        let unseen = block.sent.iter().copied().filter(coming).count();
        if lost <= unseen {
            return;
        }
        if lost == 1 {
            // The sum is enough for a receiver that misses nothing else.
            let sum_comes = match &block.sum {
                Some((_, sent)) => sent.as_ref().is_none_or(coming),
                None => false,
            };
            if sum_comes || block.is_untouched() && self.sum_up(first) {
                return;
            }
        }
        if !self.demand(first, lost - unseen) {
            for gap in gaps {
                self.repeat(context, report, gap);
            }
        }
    }

    /// Has the sum of a block sent; false if that cannot be.
    pub(super) fn sum_up(&mut self, first: PacketNumber) -> bool {
        let Some(bodies) = self.whole_block(first) else {
            return false;
        };
        let sum = parity::xor(bodies.into_iter(), self.packet);
        let Some(sending) = self.sending_mut() else {
            return false;
        };
        let block = sending.parities.blocks.entry(first).or_default();
        block.sum = Some((sum, None));
        true
    }

    /// The packets of a block, if parity can be made of them.
    fn whole_block(&self, first: PacketNumber) -> Option<Vec<&[u8]>> {
        let bodies = self.stream.block(first)?;
        // A receiver that does not know yet where the stream ends takes a block for one of as many
        // packets as any, all of them full.
        let size = self.block.map_or(1, usize::from);
        let is_full = || bodies.len() >= size && bodies.iter().all(|it| it.len() == self.packet);
        (self.transfer.length.is_some() || is_full()).then_some(bodies)
    }

    /// Has `count` more parity packets of a block sent; false if there are not as many.
    pub(super) fn demand(&mut self, first: PacketNumber, count: usize) -> bool {
        let known = self
            .sending()
            .and_then(|sending| sending.parities.blocks.get(&first));
        let (made, sent) = known.map_or((0, 0), |block| (block.parity.len(), block.sent.len()));
        let end = sent + count;
        let Some(bodies) = self.whole_block(first).filter(|all| end <= all.len()) else {
            return false;
        };
        let more = parity::encode(&bodies, made..end.max(made), self.packet);
        let Some(sending) = self.sending_mut() else {
            return false;
        };
        let block = sending.parities.blocks.entry(first).or_default();
        block.parity.extend(more);
        if let Some((_, None)) = block.sum {
            // A receiver misses more than the sum restores.
            block.sum = None;
        }
        block.due = block.due.max(count);
        true
    }

    /// Packet `number` was sent in its turn: if its block ends with it and much is lost, parity
    /// follows at once.
    pub(super) fn foresee(&mut self, number: PacketNumber) {
        let Some(size) = self.block.map(u64::from) else {
            return;
        };
        let first = number.block_start(size);
        let block = first..self.stream.block_end(first);
        if number + 1 != block.end {
            return;
        }
        let most = self.different_losses();
        if !most.is_some_and(|most| self.parity_pays(&block, most)) {
            return;
        }
        // A receiver that has all of it already, or cannot restore the rest, loses nothing that
        // parity brings.
        let restores = self.gating().filter(|peer| peer.may_need(&block, None));
        let worst = restores.map(|peer| peer.loss).fold(0.0, f64::max);
        if worst >= PROACTIVE_MIN {
            self.demand(
                first,
                expected_lost(self.stream.block_end(first) - first, worst),
            );
        }
    }
}

/// How many of `packets` and of the parity for them are lost where the share `loss` is.
pub(super) fn expected_lost(packets: u64, loss: f64) -> usize {
    // This many are lost, and of the parity the same share.
    let lost = packets as f64 * loss;
    (lost / (1.0 - loss).max(0.5)) as usize
}

/// Whether the last transmission of a packet is past, as far as a report can tell.
fn due<'a>(
    context: &Context<'_>,
    report: &'a ReceiverReport,
) -> impl Fn(&super::stream::Slot) -> bool + use<'a> {
    let margin = if report.answers { 0 } else { REORDERED_MAX };
    let (now, suppression) = (context.now, context.config.suppression);
    move |slot| match suppression {
        Some(period) => now - slot.sent >= period,
        None => slot.stamp.after(margin) <= report.seen,
    }
}
