//! Turns: the members of a configuration announce it one after the other, so that another one that
//! can reach it again finds it.
//!
//! A member's turns are about as many intervals apart as there are members. In a large
//! configuration that is long, and at first nobody would have a turn for most of it: the first
//! members begin soon, and the others follow in their order.

use core::time::Duration;

use crate::id::MemberId;
use crate::rng::Rng;

/// A configuration announces itself for the first time after this many intervals at the latest.
const FIRST: u32 = 8;

/// How long `local`, one of these `members`, waits for its first turn.
pub fn first(rng: &mut Rng, interval: Duration, members: &[MemberId], local: MemberId) -> Duration {
    let lower = members.iter().filter(|it| **it < local);
    let in_order = interval * (FIRST + lower.count() as u32);
    next(rng, interval, members.len()).min(in_order)
}

/// How long one of so many `members` waits for its next turn.
pub fn next(rng: &mut Rng, interval: Duration, members: usize) -> Duration {
    let turn = interval * members as u32;
    rng.duration(turn * 3 / 4, turn * 5 / 4)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::id::{Incarnation, NodeId};

    const INTERVAL: Duration = Duration::from_millis(200);

    fn firsts(count: u64) -> Vec<Duration> {
        let member = |node| MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        };
        let members: Vec<MemberId> = (0..count).map(member).collect();
        let mut rng = Rng::new(9);
        let of = |local: &MemberId| first(&mut rng, INTERVAL, &members, *local);
        members.iter().map(of).collect()
    }

    /// Each member's first turn used to come only when as many intervals had passed as there are
    /// members, or three quarters of that.
    #[test]
    fn a_large_configuration_announces_itself_soon_and_its_members_in_their_order() {
        let large = firsts(100);
        assert_eq!((large[0], large[5]), (INTERVAL * 8, INTERVAL * 13));
        assert!(large[99] <= INTERVAL * 107 && large[99] >= INTERVAL * 75);
    }

    #[test]
    fn in_a_small_configuration_chance_decides_who_is_first() {
        for first in firsts(5) {
            assert!(first >= INTERVAL * 15 / 4 && first <= INTERVAL * 25 / 4);
        }
    }
}
