//! Fingerprints by which states are told apart: 64 bits, fast, and the same in every run.

use std::hash::{Hash, Hasher};

use crate::seal::fold;

/// Hashes words as they come. Among 10^8 states two share a fingerprint with odds of 1 in 4,000.
#[derive(Debug)]
pub(super) struct Fingerprint(u64);

const SEED: u64 = 0x2d35_8dcc_aa6c_78a5;
const MIX: u64 = 0x8bb8_4b93_962e_acc9;

/// The fingerprint of `value`.
pub(super) fn of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut fingerprint = Fingerprint(SEED);
    value.hash(&mut fingerprint);
    fingerprint.finish()
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        fold(self.0 ^ SEED, MIX)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_usize(bytes.len());
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0.rotate_left(17) ^ word, MIX) ^ word;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}
