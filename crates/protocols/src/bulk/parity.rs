//! Parity: packets from which any lost packets of a block can be restored.
//!
//! A block of k packets has k parity packets (Reed–Solomon), made when the first is needed; any k of the 2 k restore the
//! block. So one parity packet repairs a different loss at each receiver. Shorter packets count as if zeros followed.
//!
//! Where nobody misses more than one packet of a block, their sum ([`XOR`]) does as well, and costs each end a tenth of
//! the work. It belongs to no other code: whoever misses two packets of the block cannot use it.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// The index of the parity packet that is the sum of all packets of its block.
pub(super) const XOR: u16 = u16::MAX;

/// Bytes of a parity packet for packets of `packet` bytes: the code works on pairs of bytes.
pub(super) fn shard_len(packet: usize) -> usize {
    packet.next_multiple_of(2)
}

/// The sum of some packets: of a whole block, its parity packet [`XOR`]; of that and all packets but one, the one.
pub(super) fn xor<'a>(packets: impl Iterator<Item = &'a [u8]>, packet: usize) -> Bytes {
    let mut sum = vec![0; shard_len(packet)];
    for bytes in packets {
        for (sum, byte) in sum.iter_mut().zip(bytes) {
            *sum ^= byte;
        }
    }
    sum.into()
}

/// The Reed–Solomon parity packets of a block; none if the block is empty.
pub(super) fn encode<'a>(
    packets: impl ExactSizeIterator<Item = &'a [u8]>,
    packet: usize,
) -> Vec<Bytes> {
    let (count, len) = (packets.len(), shard_len(packet));
    let Ok(mut encoder) = ReedSolomonEncoder::new(count, count, len) else {
        return Vec::new();
    };
    let mut padded = vec![0; len];
    for bytes in packets {
        let added = if bytes.len() == len {
            encoder.add_original_shard(bytes)
        } else {
            padded.fill(0);
            padded[..bytes.len()].copy_from_slice(bytes);
            encoder.add_original_shard(&padded)
        };
        if added.is_err() {
            return Vec::new();
        }
    }
    let Ok(parity) = encoder.encode() else {
        return Vec::new();
    };
    parity.recovery_iter().map(Bytes::copy_from_slice).collect()
}

/// The packets of a block of `count` that are missing among `data`, by their index, padded to a parity packet's length;
/// `None` if there is not enough, or it does not fit together.
pub(super) fn restore<'a>(
    count: usize,
    packet: usize,
    data: impl Iterator<Item = (usize, &'a [u8])>,
    parity: impl Iterator<Item = (usize, &'a [u8])>,
) -> Option<Vec<(usize, Bytes)>> {
    let len = shard_len(packet);
    let mut decoder = ReedSolomonDecoder::new(count, count, len).ok()?;
    let mut padded = vec![0; len];
    for (index, bytes) in data {
        padded.fill(0);
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        decoder.add_original_shard(index, &padded).ok()?;
    }
    for (index, bytes) in parity {
        decoder.add_recovery_shard(index, bytes).ok()?;
    }
    let restored = decoder.decode().ok()?;
    let restored = restored.restored_original_iter();
    Some(
        restored
            .map(|(index, bytes)| (index, Bytes::copy_from_slice(bytes)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn any_k_of_a_block_and_its_parity_restore_it() {
        let mut rng = Rng::new(3);
        for (count, packet) in [(1, 10), (2, 7), (20, 100), (64, 33)] {
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
            let parity = encode(block.iter().map(Vec::as_slice), packet);
            assert_eq!(parity.len(), count);
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
        assert_eq!(sum.len(), shard_len(7));
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
        let parity = encode(block.iter().map(<[u8; 10]>::as_slice), 10);
        let data = || core::iter::once((0, &block[0][..]));
        let one = core::iter::once((0, &parity[0][..]));
        assert_eq!(restore(3, 10, data(), one), None);
        let short = [(0, &parity[0][..4]), (1, &parity[1][..])];
        assert_eq!(restore(3, 10, data(), short.into_iter()), None);
        let beyond = [(0, &parity[0][..]), (9, &parity[1][..])];
        assert_eq!(restore(3, 10, data(), beyond.into_iter()), None);
    }
}
