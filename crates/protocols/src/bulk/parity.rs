//! Parity: packets from which any lost packets of a block can be restored.
//!
//! A block of k packets has up to k parity packets (Reed–Solomon), each made when it is needed; any
//! k of the 2 k restore the block. So one parity packet repairs a different loss at each receiver.
//! Shorter packets count as if zeros followed.
//!
//! Where no receiver misses more than one packet of a block, their sum ([`XOR`]) does as well, and
//! costs each end a fifth of the work. It belongs to no other code: a receiver that misses two
//! packets of the block cannot use it.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;

use super::cauchy::{add_all, coefficient, inverted, sum};

/// The index of the parity packet that is the sum of all packets of its block.
pub(super) const XOR: u16 = u16::MAX;

/// The sum of some packets: of a whole block, its parity packet [`XOR`]; of that and all packets
/// but one, the one.
pub(super) fn xor<'a>(packets: impl Iterator<Item = &'a [u8]>, packet: usize) -> Bytes {
    let mut sum = vec![0; packet];
    let packets: Vec<&[u8]> = packets.collect();
    add_all(&mut sum, &packets);
    sum.into()
}

/// The Reed–Solomon parity packets `indices` of a block, whose packets are of at most `packet`
/// bytes.
pub(super) fn encode(block: &[&[u8]], indices: Range<usize>, packet: usize) -> Vec<Bytes> {
    let parity = |index| {
        let terms = block.iter().enumerate();
        let terms: Vec<(u8, &[u8])> = terms
            .map(|(at, bytes)| (coefficient(index, at), *bytes))
            .collect();
        sum(&terms, packet).into()
    };
    indices.map(parity).collect()
}

/// The packets of a block of `count` that are missing among `data`, by their index, padded to
/// `packet` bytes; `None` if there is not enough, or it does not fit together.
pub(super) fn restore<'a>(
    count: usize,
    packet: usize,
    data: impl Iterator<Item = (usize, &'a [u8])>,
    parity: impl Iterator<Item = (usize, &'a [u8])>,
) -> Option<Vec<(usize, Bytes)>> {
    let mut here: Vec<Option<&[u8]>> = vec![None; count];
    for (index, bytes) in data.filter(|(_, bytes)| bytes.len() <= packet) {
        *here.get_mut(index)? = Some(bytes);
    }
    let missing: Vec<usize> = (0..count).filter(|at| here[*at].is_none()).collect();
    let parity: Vec<(usize, &[u8])> = parity
        .filter(|(index, bytes)| *index < count && bytes.len() == packet)
        .take(missing.len())
        .collect();
    if parity.len() < missing.len() {
        return None;
    }
    // Each parity packet less what is here of it: so many equations as packets are missing.
    let equation = |(index, bytes): &(usize, &[u8])| -> Vec<u8> {
        let known = here.iter().enumerate();
        let known = known.filter_map(|(at, bytes)| Some((coefficient(*index, at), (*bytes)?)));
        let terms: Vec<(u8, &[u8])> = known.chain([(1, *bytes)]).collect();
        sum(&terms, packet)
    };
    let right: Vec<Vec<u8>> = parity.iter().map(equation).collect();
    let left = parity.iter().map(|(index, _)| {
        let row = missing.iter().map(|at| coefficient(*index, *at));
        row.collect()
    });
    let solution = inverted(left.collect())?;
    let restored = missing.iter().zip(&solution).map(|(at, row)| {
        let terms = row.iter().zip(&right);
        let terms: Vec<(u8, &[u8])> = terms.map(|(factor, bytes)| (*factor, &bytes[..])).collect();
        (*at, sum(&terms, packet).into())
    });
    Some(restored.collect())
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn any_k_of_a_block_and_its_parity_restore_it() {
        let mut rng = Rng::new(3);
        for (count, packet) in [(1, 10), (2, 7), (20, 100), (64, 33), (128, 9)] {
            let block: Vec<Vec<u8>> = (0..count)
                .map(|index| {
                    let len = if index + 1 == count {
                        packet / 2
                    } else {
                        packet
                    };
                    (0..len).map(|_| rng.next_u64() as u8).collect()
                })
                .collect();
            let packets: Vec<&[u8]> = block.iter().map(Vec::as_slice).collect();
            let mut parity = encode(&packets, 0..count / 2, packet);
            parity.extend(encode(&packets, count / 2..count, packet));
            for _ in 0..20 {
                let mut shards: Vec<usize> = (0..2 * count).collect();
                while shards.len() > count {
                    shards.swap_remove(rng.below(shards.len() as u64) as usize);
                }
                let data = shards.iter().filter(|at| **at < count);
                let data = data.map(|at| (*at, block[*at].as_slice()));
                let extra = shards.iter().filter(|at| **at >= count);
                let extra = extra.map(|at| (*at - count, &parity[*at - count][..]));
                let restored = restore(count, packet, data, extra).expect("there is enough");
                assert!(restored.len() <= count);
                for (index, bytes) in &restored {
                    let original = &block[*index];
                    assert_eq!(bytes[..original.len()], original[..]);
                }
                let held = shards.iter().filter(|at| **at < count).count();
                assert_eq!(held + restored.len(), count);
            }
        }
    }

    #[test]
    fn the_sum_of_a_block_and_all_packets_but_one_is_the_one() {
        let block: [&[u8]; 4] = [b"first", b"second.", b"", b"4th"];
        let sum = xor(block.into_iter(), 7);
        assert_eq!(sum.len(), 7);
        for missing in 0..block.len() {
            let others = (0..block.len()).filter(|at| *at != missing);
            let others = others.map(|at| block[at]).chain([&sum[..]]);
            let restored = xor(others, 7);
            let (bytes, padding) = restored.split_at(block[missing].len());
            assert_eq!(bytes, block[missing]);
            assert!(padding.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn too_little_or_what_does_not_fit_restores_nothing() {
        let block = [[1u8; 10], [2; 10], [3; 10]];
        let packets: Vec<&[u8]> = block.iter().map(<[u8; 10]>::as_slice).collect();
        let parity = encode(&packets, 0..3, 10);
        let data = || core::iter::once((0, &block[0][..]));
        let one = core::iter::once((0, &parity[0][..]));
        assert_eq!(restore(3, 10, data(), one), None);
        let short = [(0, &parity[0][..4]), (1, &parity[1][..])];
        assert_eq!(restore(3, 10, data(), short.into_iter()), None);
        let beyond = [(0, &parity[0][..]), (9, &parity[1][..])];
        assert_eq!(restore(3, 10, data(), beyond.into_iter()), None);
    }
}
