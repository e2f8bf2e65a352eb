//! Goal: nothing that one member sends keeps the others from going on together once it is gone.
//! Method: a member that is real, and that sends beside what it should mutations of one kind of
//! message, with fields at their limits; then it dies.

use super::honest;
use crate::insider::mutating::is_outlived;

/// The kinds of RMP's messages.
const KINDS: std::ops::RangeInclusive<u8> = 33..=59;

#[test]
fn nothing_that_one_member_sends_keeps_the_others_apart_when_it_is_gone() {
    for kind in KINDS {
        (0..2).for_each(|seed| is_outlived(honest, kind..=kind, seed));
    }
    for seed in 0..12 {
        is_outlived(honest, KINDS, seed);
        is_outlived(honest, 34..=34, seed);
    }
}

/// ACKs place packets: after these, members hold different packets at one position.
#[test]
fn members_that_lack_what_cannot_be_brought_come_together_again() {
    for seed in [32, 58, 75, 88, 111] {
        is_outlived(honest, 34..=34, seed);
    }
}
