//! What can be computed of gossip, against the protocol as it is: how an epidemic spreads round by
//! round (004 3.8), how long it takes (004 7.1: O(log n)), and how likely all bufferers miss a
//! message (004 7.2). The worst case of what a member sends again is in `shape`.
//!
//! Method: members in lockstep without a network; whatever one says to another is lost with a given
//! probability. Everybody's round begins before anything arrives, so a round is one step of a
//! Markov chain. False alarms: frequencies may lie 4.5 standard deviations off, one in 150,000 a
//! comparison, and the seeds are fixed.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Incarnation, MemberId, MessageId, NodeId, Ordered, Protocol, Rng, Service,
    Time, TransmitBuf,
};
use groupcast_protocols::gossip::{Gossip, GossipConfig, HashConfig, HashPlace};

const STEP: Duration = Duration::from_millis(100);

/// Members whose rounds begin together.
struct Lockstep {
    members: Vec<Gossip>,
    /// How many messages each has delivered.
    delivered: Vec<usize>,
    rng: Rng,
    now: Time,
}

/// What is lost on the way.
#[derive(Clone, Copy)]
struct Losses {
    /// Of the first multicast, for each receiver.
    first: f64,
    /// Of what one says to another.
    unicast: f64,
}

impl Lockstep {
    fn new(size: usize, seed: u64, config: &GossipConfig) -> Self {
        let ids: Vec<MemberId> = (1..=size as u64)
            .map(|node| MemberId {
                node: NodeId(node),
                incarnation: Incarnation(seed << 16 | node),
            })
            .collect();
        let rng = Rng::new(seed);
        let member = |local: &MemberId| {
            let config = GossipConfig {
                first_round: Some(STEP),
                ..config.clone()
            };
            let rng = rng.fork_index(local.node.0);
            let mut member = Gossip::new(config, *local, rng, Time::ZERO).unwrap();
            for other in ids.iter().filter(|other| *other != local) {
                member.meet(*other);
            }
            member
        };
        Self {
            members: ids.iter().map(member).collect(),
            delivered: vec![0; size],
            rng: rng.fork("losses"),
            now: Time::ZERO,
        }
    }

    /// The first member sends a message.
    fn submit(&mut self, losses: Losses) -> MessageId {
        let payload = Bytes::from_static(b"small");
        let id = self.members[0].submit(self.now, Service::Fifo, payload);
        let said = self.drain(0);
        self.exchange(said.into(), losses);
        id.unwrap()
    }

    /// Everybody's next round.
    fn round(&mut self, losses: Losses) {
        self.now += STEP;
        let mut said = VecDeque::new();
        for index in 0..self.members.len() {
            self.members[index].handle_timeout(self.now);
            said.extend(self.drain(index));
        }
        self.exchange(said, losses);
    }

    /// What is said arrives, or is lost, and so does what is said to it.
    fn exchange(&mut self, mut said: VecDeque<(usize, usize, Bytes)>, losses: Losses) {
        while let Some((from, to, body)) = said.pop_front() {
            // Kind 1 is a message that is sent for the first time.
            let lost = match body[0] {
                1 => losses.first,
                _ => losses.unicast,
            };
            if !self.rng.chance(lost) {
                let from = self.members[from].local();
                self.members[to].handle_datagram(self.now, from, body);
                said.extend(self.drain(to));
            }
        }
    }

    /// What a member has to say, to each whom it concerns.
    fn drain(&mut self, index: usize) -> Vec<(usize, usize, Bytes)> {
        let size = self.members.len();
        let member = &mut self.members[index];
        let mut buf = TransmitBuf::new(8, 0, 0);
        let mut said = Vec::new();
        while let Some(transmit) = member.poll_transmit(self.now, &mut buf) {
            let to = match transmit.destination {
                Destination::Member(to) => to.node.0 as usize - 1..to.node.0 as usize,
                Destination::Group => 0..size,
            };
            for segment in buf.iter() {
                let body = Bytes::copy_from_slice(segment);
                let others = to.clone().filter(|to| *to != index);
                said.extend(others.map(|to| (index, to, body.clone())));
            }
            buf.clear();
        }
        while let Some(event) = member.poll_event() {
            self.delivered[index] += usize::from(matches!(event, Event::Deliver(_)));
        }
        said
    }

    /// How many have delivered a message.
    fn have(&self) -> usize {
        self.delivered.iter().filter(|count| **count > 0).count()
    }
}

/// Gossip that goes on for longer than anybody looks.
fn long() -> GossipConfig {
    GossipConfig {
        stable_threshold: 60,
        ..GossipConfig::paper()
    }
}

/// The probabilities that 0, 1, …, `size` members have the message after each round, from the start
/// on, when only its sender had it: every member gossips to one other, and a contact works with
/// probability `works`.
///
/// The contacts of a round fall one after the other: with k that have the message, each meets one
/// of the k' that do not have it yet with k' / (size − 1).
fn recurrence(size: usize, works: f64, rounds: usize) -> Vec<Vec<f64>> {
    let mut now = vec![0.0; size + 1];
    now[1] = 1.0;
    let mut all = vec![now.clone()];
    for _ in 0..rounds {
        let mut after = vec![0.0; size + 1];
        for have in 1..=size {
            let mut new = vec![0.0; size - have + 1];
            new[0] = now[have];
            for _ in 0..have {
                for count in (0..new.len()).rev() {
                    let hits =
                        |count: usize| works * (size - have - count) as f64 / (size - 1) as f64;
                    let from_below = match count {
                        0 => 0.0,
                        _ => new[count - 1] * hits(count - 1),
                    };
                    new[count] = new[count] * (1.0 - hits(count)) + from_below;
                }
            }
            for (count, probability) in new.into_iter().enumerate() {
                after[have + count] += probability;
            }
        }
        now = after;
        all.push(now.clone());
    }
    all
}

fn is_near(counted: u32, plays: u32, probability: f64) -> bool {
    let expected = f64::from(plays) * probability;
    let deviation = (expected * (1.0 - probability)).sqrt();
    (f64::from(counted) - expected).abs() <= 4.5 * deviation + 1.0
}

#[test]
fn an_epidemic_spreads_round_by_round_as_the_recurrence_says() {
    const SIZE: usize = 12;
    const ROUNDS: usize = 10;
    const PLAYS: u32 = 1_500;
    let losses = Losses {
        first: 1.0,
        unicast: 0.1,
    };
    let mut counted = vec![vec![0u32; SIZE + 1]; ROUNDS + 1];
    for seed in 0..u64::from(PLAYS) {
        let mut group = Lockstep::new(SIZE, seed, &long());
        group.submit(losses);
        counted[0][group.have()] += 1;
        for after in &mut counted[1..] {
            group.round(losses);
            after[group.have()] += 1;
        }
    }
    // Digest, request and repair have to arrive.
    let works = (1.0 - losses.unicast).powi(3);
    for (round, probabilities) in recurrence(SIZE, works, ROUNDS).iter().enumerate() {
        for (have, probability) in probabilities.iter().enumerate() {
            let count = counted[round][have];
            assert!(
                is_near(count, PLAYS, *probability),
                "{have} have it after {round} rounds: {count} of {PLAYS}, computed {probability}"
            );
        }
    }
}

#[test]
fn rounds_until_all_have_a_message_grow_with_the_logarithm_of_the_group() {
    const PLAYS: u32 = 120;
    let losses = Losses {
        first: 1.0,
        unicast: 0.0,
    };
    for size in [8usize, 16, 32, 64] {
        let (mut sum, mut squares) = (0.0, 0.0);
        for seed in 0..u64::from(PLAYS) {
            let mut group = Lockstep::new(size, seed, &long());
            group.submit(losses);
            let mut rounds = 0.0;
            while group.have() < size {
                group.round(losses);
                rounds += 1.0;
            }
            sum += rounds;
            squares += rounds * rounds;
        }
        let plays = f64::from(PLAYS);
        let mean = sum / plays;
        let error = ((squares / plays - mean * mean) / plays).sqrt();
        // The mean of a waiting time is the sum of the probabilities that it is not over yet.
        let chain = recurrence(size, 1.0, 60);
        let computed: f64 = chain.iter().map(|after| 1.0 - after[size]).sum();
        assert!(
            (mean - computed).abs() < 4.5 * error,
            "{size} members: {mean} rounds, computed {computed}"
        );
        // Pittel (1987): log2 n + ln n and a constant.
        let members = size as f64;
        let bound = members.log2() + members.ln() + 1.2;
        assert!(
            computed < bound,
            "{size} members: {computed}, bound {bound}"
        );
    }
}

/// A fair H: a good mixing function of all that names a message and a member.
fn fair(id: MessageId, member: MemberId) -> u32 {
    let mut word = id.sender.incarnation.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^= id.number << 40 ^ member.node.0;
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        word = (word ^ word >> 29).wrapping_mul(factor);
    }
    (word >> 32) as u32
}

#[test]
fn a_message_is_lost_for_good_as_often_as_p_fail_says() {
    const SIZE: usize = 16;
    const PLAYS: u32 = 1_200;
    let config = |bufferers| GossipConfig {
        hash: Some(HashConfig {
            bufferers,
            short_term: 0,
            place: HashPlace::Given(fair),
            gaps: false,
            ..HashConfig::default()
        }),
        sub_gsize: 2,
        stable_threshold: 12,
        ..GossipConfig::paper()
    };
    for (bufferers, first) in [(1, 0.2), (2, 0.2), (3, 0.4)] {
        let losses = Losses {
            first,
            unicast: 0.0,
        };
        let mut failed = 0;
        for seed in 0..u64::from(PLAYS) {
            let mut group = Lockstep::new(SIZE, seed, &config(bufferers));
            group.submit(losses);
            for _ in 0..14 {
                group.round(losses);
            }
            failed += u32::from(group.have() < SIZE);
        }
        // 004 7.2's P_fail among those who can miss it; and the sender, which cannot, must not be a
        // bufferer.
        let receivers = SIZE as i32 - 1;
        let buffers = f64::from(bufferers) / SIZE as f64;
        let nobody_buffers_it = (1.0 - buffers * (1.0 - first)).powi(receivers);
        let all_have_it_unbuffered = ((1.0 - buffers) * (1.0 - first)).powi(receivers);
        let p_fail = (1.0 - buffers) * (nobody_buffers_it - all_have_it_unbuffered);
        assert!(
            is_near(failed, PLAYS, p_fail),
            "C = {bufferers}, loss {first}: {failed} of {PLAYS}, computed {p_fail}"
        );
    }
}
