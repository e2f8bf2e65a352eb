//! Reed–Solomon over GF(2^8) with a Cauchy matrix: sums of packets with coefficients, and the
//! inverse.
//!
//! A code for few losses: what it costs to restore grows with the packets that are missing, from
//! microseconds on, where transforms over larger fields pay for all that could be missing
//! (reed-solomon-simd: 300 µs for a block of 64 packets, and here 16 for three of them). A sum is
//! made bit by bit of the coefficients, highest first (Horner): the packets whose coefficient has
//! the bit are added, and the sum is doubled. So all the work is exclusive-or over whole packets,
//! which compilers turn into vector instructions by themselves.
//!
//! [`parity`](super::parity) knows what blocks and packets are.

use alloc::vec;
use alloc::vec::Vec;

/// The most data packets of a block, and the most parity packets: their numbers are different
/// elements of the field.
pub(super) const SIDE: usize = 128;

/// x^8 = x^4 + x^3 + x^2 + 1.
const REDUCTION: u8 = 0x1d;

/// Powers of x, twice over, and the exponent of each.
const POWERS: ([u8; 512], [u8; 256]) = {
    let (mut powers, mut exponents) = ([0; 512], [0; 256]);
    let (mut power, mut exponent) = (1u8, 0);
    while exponent < 255 {
        powers[exponent] = power;
        powers[exponent + 255] = power;
        exponents[power as usize] = exponent as u8;
        power = double(power);
        exponent += 1;
    }
    (powers, exponents)
};

const fn double(element: u8) -> u8 {
    (element << 1) ^ (REDUCTION & (element >> 7).wrapping_neg())
}

fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let (powers, exponents) = &POWERS;
    powers[usize::from(exponents[usize::from(a)]) + usize::from(exponents[usize::from(b)])]
}

/// Of an element that is not 0.
fn inverse(element: u8) -> u8 {
    let (powers, exponents) = &POWERS;
    powers[255 - usize::from(exponents[usize::from(element)])]
}

/// With what packet `data` counts in parity packet `parity`; both below [`SIDE`].
pub(super) fn coefficient(parity: usize, data: usize) -> u8 {
    inverse((SIDE + parity) as u8 ^ data as u8)
}

/// The sum of packets of at most `len` bytes, each with its coefficient. Shorter ones count as if
/// zeros followed.
pub(super) fn sum(terms: &[(u8, &[u8])], len: usize) -> Vec<u8> {
    let mut sum = vec![0; len];
    let mut chosen: Vec<&[u8]> = Vec::with_capacity(terms.len());
    for bit in (0..8).rev() {
        if bit < 7 {
            sum.iter_mut().for_each(|byte| *byte = double(*byte));
        }
        chosen.clear();
        let with_bit = terms.iter().filter(|(factor, _)| factor >> bit & 1 == 1);
        chosen.extend(with_bit.map(|(_, bytes)| *bytes));
        add_all(&mut sum, &chosen);
    }
    sum
}

/// Adds all of `packets` to `sum`: four at a time, so that the sum is loaded and stored a quarter
/// as often.
pub(super) fn add_all(sum: &mut [u8], packets: &[&[u8]]) {
    let len = sum.len();
    for group in packets.chunks(4) {
        match group {
            [a, b, c, d] if group.iter().all(|packet| packet.len() == len) => {
                let four = a.iter().zip(*b).zip(c.iter().zip(*d));
                for (sum, ((a, b), (c, d))) in sum.iter_mut().zip(four) {
                    *sum ^= a ^ b ^ c ^ d;
                }
            }
            _ => {
                for packet in group {
                    for (sum, byte) in sum.iter_mut().zip(*packet) {
                        *sum ^= byte;
                    }
                }
            }
        }
    }
}

/// The inverse of a square matrix, by Gauss and Jordan. Any square part of a Cauchy matrix has one;
/// `None` if this is none.
pub(super) fn inverted(mut matrix: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let size = matrix.len();
    for (index, row) in matrix.iter_mut().enumerate() {
        row.resize(2 * size, 0);
        row[size + index] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|row| matrix[*row][column] != 0)?;
        matrix.swap(column, pivot);
        let factor = inverse(matrix[column][column]);
        matrix[column]
            .iter_mut()
            .for_each(|element| *element = product(*element, factor));
        let pivot = matrix[column].clone();
        for (index, row) in matrix.iter_mut().enumerate() {
            let factor = row[column];
            if index != column && factor != 0 {
                for (element, above) in row.iter_mut().zip(&pivot) {
                    *element ^= product(factor, *above);
                }
            }
        }
    }
    for row in &mut matrix {
        row.drain(..size);
    }
    Some(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_inverse_and_doubling_is_a_product() {
        for element in 1..=255 {
            assert_eq!(product(element, inverse(element)), 1);
            assert_eq!(product(element, 2), double(element));
        }
    }

    #[test]
    fn a_sum_is_the_sum_of_products() {
        let packets: Vec<Vec<u8>> = (0..7u8)
            .map(|at| {
                (0..40u8)
                    .map(|byte| byte.wrapping_mul(37) ^ at.wrapping_mul(91))
                    .collect()
            })
            .collect();
        let factors = [0, 1, 2, 255, 128, 77, 200];
        let terms: Vec<(u8, &[u8])> = factors
            .iter()
            .zip(&packets)
            .enumerate()
            .map(|(at, (factor, packet))| (*factor, &packet[..40 - at % 3]))
            .collect();
        for (at, byte) in sum(&terms, 40).into_iter().enumerate() {
            let expected = terms.iter().fold(0, |sum, (factor, packet)| {
                sum ^ product(*factor, packet.get(at).copied().unwrap_or(0))
            });
            assert_eq!(byte, expected);
        }
    }

    #[test]
    fn a_matrix_times_its_inverse_is_one_and_a_singular_one_has_none() {
        for (first, size) in [(0, 1), (3, 2), (10, 9), (1, 64)] {
            let row = |at| {
                (0..size)
                    .map(|data| coefficient(first + 2 * at, data + 64))
                    .collect()
            };
            let matrix: Vec<Vec<u8>> = (0..size).map(row).collect();
            let inverse = inverted(matrix.clone()).expect("any part of a Cauchy matrix has one");
            for (at, row) in matrix.iter().enumerate() {
                let mut line = vec![0; size];
                for (factor, other) in row.iter().zip(&inverse) {
                    for (entry, element) in line.iter_mut().zip(other) {
                        *entry ^= product(*factor, *element);
                    }
                }
                let one = (0..size).map(|column| u8::from(column == at));
                assert!(one.eq(line));
            }
        }
        assert_eq!(inverted(vec![vec![1, 2], vec![1, 2]]), None);
    }
}
