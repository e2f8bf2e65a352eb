//! Blocks that miss packets: what is here of them, data and parity, until it is enough to restore
//! the rest.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::numbers::PacketNumber;
use super::super::parity;
use super::store::PACKET_COST;

/// The blocks of a stream that something is kept of.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Packets in a block.
    size: u64,
    packet: usize,
    /// Blocks that are kept at most: of others, data is not kept, and nothing restored.
    kept_max: usize,
    kept: BTreeMap<PacketNumber, Block>,
}

#[derive(Debug, Default)]
struct Block {
    /// By their place in the block, and how many of them are here.
    data: Vec<Option<Bytes>>,
    held: usize,
    /// Of Reed–Solomon, by index.
    parity: BTreeMap<u16, Bytes>,
    /// The sum of all packets.
    sum: Option<Bytes>,
}

impl Blocks {
    pub(super) fn new(size: u64, packet: usize, buffer_max: usize) -> Self {
        Self {
            size,
            packet,
            kept_max: buffer_max / (packet.max(PACKET_COST) * size as usize) + 2,
            kept: BTreeMap::new(),
        }
    }

    fn block(&mut self, number: PacketNumber) -> Option<&mut Block> {
        let first = number.block_start(self.size);
        if self.kept.len() >= self.kept_max && !self.kept.contains_key(&first) {
            return None;
        }
        Some(self.kept.entry(first).or_default())
    }

    /// Keeps a packet for as long as its block misses others.
    pub(super) fn keep(&mut self, number: PacketNumber, body: Bytes) {
        let size = self.size as usize;
        let at = number.index_in_block(self.size) as usize;
        if let Some(block) = self.block(number) {
            block.data.resize(size, None);
            let before = block.data[at].replace(body);
            block.held += usize::from(before.is_none());
        }
    }

    /// Keeps parity packet `index` of the block that begins with `first` and has `count` packets.
    pub(super) fn keep_parity(&mut self, first: PacketNumber, index: u16, body: Bytes) {
        let known = index == parity::XOR || u64::from(index) < self.size;
        let fits = first.starts_block(self.size) && body.len() == self.packet;
        if known
            && fits
            && let Some(block) = self.block(first)
        {
            match index {
                parity::XOR => block.sum = Some(body),
                index => _ = block.parity.insert(index, body),
            }
        }
    }

    /// Forgets the blocks that lie wholly below `next`, and the one of `number` if nothing of it is
    /// missing.
    pub(super) fn forget(&mut self, next: PacketNumber, complete: Option<PacketNumber>) {
        while let Some(entry) = self.kept.first_entry() {
            if *entry.key() + self.size > next {
                break;
            }
            entry.remove();
        }
        if let Some(number) = complete {
            let first = number.block_start(self.size);
            self.kept.remove(&first);
        }
    }

    /// The packets of the block that begins with `first` and has `count` packets which can be
    /// restored now.
    pub(super) fn restore(
        &self,
        first: PacketNumber,
        count: usize,
    ) -> Option<Vec<(PacketNumber, Bytes)>> {
        let block = self.kept.get(&first)?;
        let (held, parity) = (block.held, &block.parity);
        let data = block.data.iter().enumerate();
        let mut data = data.filter_map(|(at, body)| Some((at, body.as_deref()?)));
        if let Some(sum) = &block.sum
            && held + 1 == count
        {
            let is_missing = |at: &usize| block.data.get(*at).is_none_or(Option::is_none);
            let missing = first + (0..count).find(is_missing)? as u64;
            let others = data.by_ref().map(|(_, body)| body).chain([&sum[..]]);
            return Some(vec![(missing, parity::xor(others, self.packet))]);
        }
        if held + parity.len() < count || held >= count {
            return None;
        }
        let extra = parity
            .iter()
            .map(|(index, body)| (usize::from(*index), &body[..]));
        let restored = parity::restore(count, self.packet, data, extra)?;
        let restored = restored.into_iter();
        Some(
            restored
                .map(|(index, body)| (first + index as u64, body))
                .collect(),
        )
    }

    /// The blocks that have parity for several losses: their first packets, and how many packets of
    /// each are here, parity included.
    pub(super) fn with_parity(&self) -> impl Iterator<Item = (PacketNumber, usize)> + '_ {
        let blocks = self.kept.iter();
        blocks.filter_map(|(first, block)| {
            let count = block.parity.len();
            (count > 0).then_some((*first, block.held + count))
        })
    }

    /// How many packets of the block that begins with `first` are here.
    pub(super) fn held_of(&self, first: PacketNumber) -> u64 {
        self.kept.get(&first).map_or(0, |block| block.held as u64)
    }

    /// Packets in a block.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of parity that are kept: data belongs to the user's share.
    pub(super) fn buffered(&self) -> u64 {
        let of_block = |block: &Block| block.parity.len() + usize::from(block.sum.is_some());
        let parity = self.kept.values().map(of_block);
        (parity.sum::<usize>() * self.packet) as u64
    }
}
