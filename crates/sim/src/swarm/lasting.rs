//! A fault that lasts: nobody repairs it for more than a minute, and the group has to live with it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use groupcast_core::{Rng, SocketClass, Time};

use super::fault::{Effect, Fault, FaultKind, close, ways};

/// One fault that begins when all is well, and lasts.
#[derive(Clone, PartialEq, Debug)]
pub struct Lasting {
    /// What goes wrong.
    pub fault: Fault,
    /// The hosts that it does not touch, in ascending order. Each of them hears all the others of
    /// them.
    pub untouched: Vec<usize>,
}

impl Lasting {
    /// The longest that a slow host takes for a datagram. One that takes longer falls behind bursts
    /// by more than the shortest time-out for a token: the ring tries it again, each time later.
    const SLOWEST: Duration = Duration::from_millis(3);

    /// A random one: a direction between two hosts is closed, or a class of datagrams in it; a
    /// host hears nothing, or is not heard, in both classes or in one; a host is slow.
    pub(crate) fn random(hosts: usize, rng: &mut Rng) -> Self {
        let host = rng.below(hosts as u64) as usize;
        let other = (host + 1 + rng.below(hosts as u64 - 1) as usize) % hosts;
        let both = [SocketClass::Data, SocketClass::Control];
        let one = if rng.chance(0.5) { both[0] } else { both[1] };
        let deaf: Vec<_> = ways(hosts).filter(|(_, to)| *to == host).collect();
        let mute: Vec<_> = ways(hosts).filter(|(from, _)| *from == host).collect();
        let way = [(host, other)];
        let cut = |ways: &[(usize, usize)], classes: &[SocketClass]| match classes {
            [_] => (FaultKind::OneClass, Effect::Cut(close(ways, classes))),
            _ => (FaultKind::OneWay, Effect::Cut(close(ways, classes))),
        };
        let ((kind, effect), touched) = match rng.below(7) {
            0 => (cut(&way, &both), vec![host, other]),
            1 => (cut(&way, &[one]), vec![host, other]),
            2 => (cut(&deaf, &both), vec![host]),
            3 => (cut(&deaf, &[one]), vec![host]),
            4 => (cut(&mute, &both), vec![host]),
            5 => (cut(&mute, &[one]), vec![host]),
            _ => {
                let takes = Self::SLOWEST.mul_f64(rng.unit().powi(3));
                ((FaultKind::Slow, Effect::Slow(host, takes)), vec![host])
            }
        };
        let touched: BTreeSet<usize> = touched.into_iter().collect();
        Self {
            fault: Fault {
                kind,
                at: Time::ZERO,
                until: None,
                effect,
                moment: None,
            },
            untouched: (0..hosts).filter(|host| !touched.contains(host)).collect(),
        }
    }
}

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lasting: {}", self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_drawn_and_who_is_untouched_hears_all_others_that_are() {
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let lasting = Lasting::random(5, &mut Rng::new(seed));
            kinds.insert(lasting.fault.kind);
            assert!(lasting.untouched.len() >= 3);
            let Effect::Cut(blocks) = &lasting.fault.effect else {
                continue;
            };
            let among = |host| lasting.untouched.contains(&host);
            let apart = blocks.iter().any(|it| among(it.from) && among(it.to));
            assert!(!apart, "{lasting}");
        }
        let all = [FaultKind::OneWay, FaultKind::OneClass, FaultKind::Slow];
        assert!(kinds.into_iter().eq(all));
    }
}
