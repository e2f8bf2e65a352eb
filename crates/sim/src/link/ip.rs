//! What IP does to a datagram that is larger than a frame: cut on the way out, put together again
//! at its receiver.
//!
//! Sizes only: a [`Reassembly`] says when all fragments of a datagram have come, and the caller
//! still has the datagram that they are of. A datagram whose fragment is lost never completes (RFC
//! 791), which is what makes large datagrams fragile: of k fragments, each lost with probability p,
//! the whole is lost with 1 − (1 − p)^k.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use groupcast_core::Time;

/// Bytes of an IPv4 header without options.
pub const IP_HEADER: u32 = 20;
/// Bytes of a UDP header.
pub const UDP_HEADER: u32 = 8;
/// The largest payload of a UDP datagram over IPv4.
pub const UDP_PAYLOAD_MAX: u32 = 65_507;
/// The smallest MTU of a link that carries IPv4 (RFC 791).
pub const MTU_MIN: u32 = 68;

/// The IP packets that carry a UDP datagram of `udp_payload` bytes over links of `mtu` bytes: the
/// size of each, its header included, in order. An MTU below [`MTU_MIN`] counts as that.
pub fn fragments(udp_payload: u32, mtu: u32) -> Fragments {
    let remaining = udp_payload.saturating_add(UDP_HEADER);
    let fits = mtu.max(MTU_MIN) - IP_HEADER;
    // All fragments but the last carry a multiple of eight bytes: offsets count in eights.
    let step = if remaining <= fits { fits } else { fits & !7 };
    Fragments { remaining, step }
}

/// The sizes of the IP packets of one datagram.
#[derive(Clone, Debug)]
pub struct Fragments {
    /// Bytes still to be carried.
    remaining: u32,
    /// Bytes that a fragment before the last carries.
    step: u32,
}

impl Iterator for Fragments {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.remaining == 0 {
            return None;
        }
        let carried = self.remaining.min(self.step);
        self.remaining -= carried;
        Some(IP_HEADER + carried)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.remaining.div_ceil(self.step) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Fragments {}

/// The bit of the UDP payload that bit `bit` of IP packet number `index` of a datagram is; `None`
/// for one of a header.
///
/// For links that flip bits: a receiver drops what has a flipped header, and the payload is the
/// protocol's to check.
pub fn payload_bit(index: u32, mtu: u32, bit: u32) -> Option<u32> {
    let step = (mtu.max(MTU_MIN) - IP_HEADER) & !7;
    let in_fragment = (bit / 8).checked_sub(IP_HEADER)?;
    let byte = (index.checked_mul(step)?)
        .checked_add(in_fragment)?
        .checked_sub(UDP_HEADER)?;
    Some(byte * 8 + bit % 8)
}

/// What a receiver remembers of datagrams that have not come wholly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReassemblyConfig {
    /// Incomplete datagrams remembered; one more, and the oldest is given up. Default 64: 4 MiB of
    /// the largest, which is what Linux gives.
    pub datagrams_max: usize,
    /// After this an incomplete datagram is given up. Default 30 s, as Linux.
    pub timeout: Duration,
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        Self {
            datagrams_max: 64,
            timeout: Duration::from_secs(30),
        }
    }
}

/// What became of the datagrams of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReassemblyCounters {
    /// Datagrams of more than one fragment that came wholly.
    pub completed: u64,
    /// Incomplete datagrams given up because their time was over.
    pub timed_out: u64,
    /// Incomplete datagrams given up because there were too many.
    pub evicted: u64,
    /// Fragments that came again.
    pub repeated: u64,
    /// Fragments that cannot be of the datagram that they claim to be of.
    pub impossible: u64,
}

/// Puts the fragments of datagrams together; a `K` names a datagram, as (sender, identification)
/// does.
#[derive(Clone, Debug)]
pub struct Reassembly<K> {
    config: ReassemblyConfig,
    partial: BTreeMap<K, Partial>,
    /// Every partial datagram in order of its first fragment; those that have completed since are
    /// here too.
    order: VecDeque<(u64, K)>,
    begun: u64,
    counters: ReassemblyCounters,
}

#[derive(Clone, Debug)]
struct Partial {
    /// Its number in the order of beginning: a key may come back.
    number: u64,
    gives_up: Time,
    total: u32,
    missing: u32,
    /// A bit a fragment.
    seen: Box<[u64]>,
}

impl<K: Ord + Clone> Reassembly<K> {
    /// Nothing has come.
    pub fn new(config: ReassemblyConfig) -> Self {
        Self {
            config,
            partial: BTreeMap::new(),
            order: VecDeque::new(),
            begun: 0,
            counters: ReassemblyCounters::default(),
        }
    }

    /// Fragment number `index` of the `total` of datagram `key` has come. True if that completes
    /// the datagram.
    pub fn arrived(&mut self, now: Time, key: K, index: u32, total: u32) -> bool {
        if total == 1 && index == 0 {
            return true;
        }
        self.expire(now);
        if index >= total || total > FRAGMENTS_MAX {
            self.counters.impossible += 1;
            return false;
        }
        let Some(partial) = self.partial.get_mut(&key) else {
            self.begin(now, key, index, total);
            return false;
        };
        if partial.total != total {
            self.counters.impossible += 1;
            return false;
        }
        if !partial.mark(index) {
            self.counters.repeated += 1;
            return false;
        }
        if partial.missing > 0 {
            return false;
        }
        self.partial.remove(&key);
        self.counters.completed += 1;
        true
    }

    /// How many datagrams have come in part.
    pub fn len(&self) -> usize {
        self.partial.len()
    }

    /// Whether none has come in part.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// What became of all datagrams so far.
    pub fn counters(&self) -> ReassemblyCounters {
        self.counters
    }

    fn begin(&mut self, now: Time, key: K, index: u32, total: u32) {
        while self.partial.len() >= self.config.datagrams_max.max(1) {
            if self.give_up_oldest() {
                self.counters.evicted += 1;
            }
        }
        self.begun += 1;
        let mut partial = Partial {
            number: self.begun,
            gives_up: now + self.config.timeout,
            total,
            missing: total,
            seen: vec![0; total.div_ceil(64) as usize].into(),
        };
        partial.mark(index);
        self.partial.insert(key.clone(), partial);
        self.order.push_back((self.begun, key));
        self.forget_completed();
    }

    fn expire(&mut self, now: Time) {
        while let Some((number, key)) = self.order.front() {
            let partial = self.partial.get(key).filter(|it| it.number == *number);
            if partial.is_some_and(|it| it.gives_up > now) {
                return;
            }
            if self.give_up_oldest() {
                self.counters.timed_out += 1;
            }
        }
    }

    /// Takes the first of `order` away; whether it was still incomplete.
    fn give_up_oldest(&mut self) -> bool {
        let Some((number, key)) = self.order.pop_front() else {
            return false;
        };
        let is_partial = self.partial.get(&key).is_some_and(|it| it.number == number);
        if is_partial {
            self.partial.remove(&key);
        }
        is_partial
    }

    /// Keeps `order` in proportion: one datagram that never completes would hold all that came
    /// after it.
    fn forget_completed(&mut self) {
        if self.order.len() > 2 * self.config.datagrams_max.max(16) {
            let partial = &self.partial;
            self.order
                .retain(|(number, key)| partial.get(key).is_some_and(|it| it.number == *number));
        }
    }
}

/// Fragments of the largest datagram over the smallest MTU.
const FRAGMENTS_MAX: u32 = (UDP_PAYLOAD_MAX + UDP_HEADER).div_ceil((MTU_MIN - IP_HEADER) & !7);

impl Partial {
    /// Whether fragment `index` is new.
    fn mark(&mut self, index: u32) -> bool {
        let Some(word) = self.seen.get_mut(index as usize / 64) else {
            return false;
        };
        let bit = 1 << (index % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        self.missing -= u32::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(payload: u32, mtu: u32) -> Vec<u32> {
        fragments(payload, mtu).collect()
    }

    #[test]
    fn fragments_are_those_of_the_rfc() {
        assert_eq!(sizes(0, 1500), [28]);
        assert_eq!(sizes(1_472, 1500), [1500]);
        assert_eq!(sizes(1_473, 1500), [1500, 21]);
        // An MTU that leaves no multiple of eight: 556 is 552 + 4, and a whole packet may still use
        // all of it.
        assert_eq!(sizes(548, 576), [576]);
        assert_eq!(sizes(549, 576), [572, 25]);
        assert_eq!(sizes(8_192, 1500), [1500, 1500, 1500, 1500, 1500, 820]);
        assert_eq!(fragments(UDP_PAYLOAD_MAX, 1500).len(), 45);
        assert_eq!(fragments(UDP_PAYLOAD_MAX, 0).len() as u32, FRAGMENTS_MAX);
    }

    #[test]
    fn fragments_carry_everything_once_for_every_size() {
        for mtu in [68, 576, 1_006, 1_500, 9_000] {
            for payload in (0..=UDP_PAYLOAD_MAX).step_by(97) {
                let all = fragments(payload, mtu);
                assert_eq!(all.len(), all.clone().count());
                assert!(all.clone().all(|size| size > IP_HEADER && size <= mtu));
                let carried: u32 = all.map(|size| size - IP_HEADER).sum();
                assert_eq!(carried, payload + UDP_HEADER);
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_found_in_the_payload() {
        assert_eq!(payload_bit(0, 1500, 0), None, "the IP header");
        assert_eq!(payload_bit(0, 1500, 27 * 8 + 7), None, "the UDP header");
        assert_eq!(payload_bit(0, 1500, 28 * 8 + 3), Some(3));
        assert_eq!(payload_bit(1, 1500, 159), None, "the second IP header");
        assert_eq!(payload_bit(1, 1500, 160), Some(1_472 * 8));
    }

    #[test]
    fn a_datagram_completes_with_its_last_fragment_in_any_order_once() {
        let mut receiver = Reassembly::new(ReassemblyConfig::default());
        let mut arrived = |key, index, total| receiver.arrived(Time::ZERO, key, index, total);
        assert!(arrived(1, 0, 1));
        for index in (1..100).rev() {
            assert!(!arrived(2, index, 100));
            assert!(!arrived(2, index, 100), "again");
        }
        assert!(!arrived(2, 0, 99), "another length");
        assert!(!arrived(2, 100, 100), "beyond the end");
        assert!(arrived(2, 0, 100));
        let expected = ReassemblyCounters {
            completed: 1,
            repeated: 99,
            impossible: 2,
            ..ReassemblyCounters::default()
        };
        assert_eq!(receiver.counters(), expected);
        assert!(receiver.is_empty());
    }

    #[test]
    fn incomplete_datagrams_are_given_up_after_their_time_or_when_there_are_too_many() {
        let mut receiver = Reassembly::new(ReassemblyConfig {
            datagrams_max: 3,
            timeout: Duration::from_secs(1),
        });
        for key in 0..5 {
            assert!(!receiver.arrived(Time::ZERO, key, 0, 2));
        }
        assert_eq!((receiver.len(), receiver.counters().evicted), (3, 2));
        assert!(!receiver.arrived(Time::ZERO, 0, 1, 2), "0 was forgotten");
        assert!(
            receiver.arrived(Time::from_millis(999), 4, 1, 2),
            "4 was not"
        );
        assert!(
            !receiver.arrived(Time::from_millis(1_000), 3, 1, 2),
            "too late"
        );
        assert_eq!((receiver.len(), receiver.counters().timed_out), (1, 2));
    }

    #[test]
    fn what_it_remembers_stays_bounded_behind_a_datagram_that_never_completes() {
        let mut receiver = Reassembly::new(ReassemblyConfig::default());
        receiver.arrived(Time::ZERO, 0, 0, 2);
        for key in 1..10_000 {
            assert!(!receiver.arrived(Time::ZERO, key, 0, 2));
            assert!(receiver.arrived(Time::ZERO, key, 1, 2));
        }
        assert!(receiver.order.len() <= 129);
        assert_eq!(receiver.len(), 1);
    }
}
