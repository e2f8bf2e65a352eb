//! Whom a member hears, and how far away they are (004 5.4.1).
//!
//! A sends session message s at t1; B hears it, and in a session message of its own says for how
//! long it has held s; A hears that at t4: the distance is (t4 − t1 − held) / 2. No clocks are
//! compared; paths are taken for symmetric.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::config::SrmConfig;
use super::wire::{Echo, Session, SessionNumber};

/// The members that are heard.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: BTreeMap<MemberId, Peer>,
    /// Own session messages of late: their numbers and when they went out.
    sent: VecDeque<(SessionNumber, Time)>,
    sessions: SessionNumber,
    /// Whose echo was the last in the session message before.
    echoed: Option<MemberId>,
}

#[derive(Debug)]
struct Peer {
    /// Its last session message, and when it was heard.
    session: SessionNumber,
    heard: Time,
    distance: Option<Duration>,
}

impl Peers {
    /// Own session messages that an echo can still name.
    const SENT_MAX: usize = 64;

    /// Takes a session message of `from`.
    pub(super) fn hear(
        &mut self,
        config: &SrmConfig,
        now: Time,
        local: MemberId,
        from: MemberId,
        session: &Session,
    ) {
        if !self.peers.contains_key(&from) && self.peers.len() >= config.members_max {
            return;
        }
        let peer = self.peers.entry(from).or_insert(Peer {
            session: SessionNumber::default(),
            heard: now,
            distance: None,
        });
        if session.number >= peer.session {
            peer.session = session.number;
            peer.heard = now;
        }
        let echo = session.echoes.iter().find(|echo| echo.member == local);
        let Some(Echo { number, held, .. }) = echo else {
            return;
        };
        let sent = self.sent.iter().find(|(sent, _)| sent == number);
        if let Some((_, sent)) = sent {
            let round_trip = (now - *sent).saturating_sub(*held);
            let distance = (round_trip / 2).clamp(config.distance_min, config.distance_max);
            peer.distance = Some(distance);
        }
    }

    /// Forgets who was not heard of for long.
    pub(super) fn forget_silent(&mut self, config: &SrmConfig, now: Time) {
        self.peers
            .retain(|_, peer| now - peer.heard < config.member_timeout);
    }

    /// How many members there are, oneself included.
    pub(super) fn group(&self) -> u32 {
        u32::try_from(self.peers.len() + 1).unwrap_or(u32::MAX)
    }

    /// How far away `member` is.
    pub(super) fn distance(&self, config: &SrmConfig, member: MemberId) -> Duration {
        let known = self.peers.get(&member).and_then(|peer| peer.distance);
        known.unwrap_or(config.distance_initial)
    }

    /// How many members could be echoed.
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// The number of the last own session message.
    pub(super) fn sessions(&self) -> SessionNumber {
        self.sessions
    }

    /// Numbers the next session message, which goes out now.
    pub(super) fn begin_session(&mut self, now: Time) -> SessionNumber {
        self.sessions = SessionNumber(self.sessions.0 + 1);
        if self.sent.len() == Self::SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((self.sessions, now));
        self.sessions
    }

    /// Echoes of `count` members, those after the last that was echoed.
    pub(super) fn echoes(&mut self, now: Time, count: usize) -> Vec<Echo> {
        let after = self.echoed.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.peers.range((after, Bound::Unbounded));
        let from_start = self.peers.iter();
        let chosen = rest.chain(from_start).take(count.min(self.peers.len()));
        let echoes: Vec<Echo> = chosen
            .map(|(member, peer)| Echo {
                member: *member,
                number: peer.session,
                held: now - peer.heard,
            })
            .collect();
        self.echoed = echoes.last().map(|echo| echo.member).or(self.echoed);
        echoes
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    fn millis(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn the_distance_is_half_the_round_trip_without_the_time_held() {
        let config = SrmConfig::ns2();
        let (mut a, mut b) = (Peers::default(), Peers::default());
        let number = a.begin_session(millis(100));
        let first = Session {
            number,
            ..Session::default()
        };
        b.hear(&config, millis(107), member(2), member(1), &first);
        let answer = Session {
            number: b.begin_session(millis(900)),
            echoes: b.echoes(millis(900), 10),
            ..Session::default()
        };
        assert_eq!(a.distance(&config, member(2)), Duration::from_secs(1));
        a.hear(&config, millis(907), member(1), member(2), &answer);
        assert_eq!(a.distance(&config, member(2)), Duration::from_millis(7));
        assert_eq!((a.group(), b.group()), (2, 2));
        a.forget_silent(&config, millis(20_000));
        assert_eq!(a.group(), 1);
    }

    #[test]
    fn an_absurd_echo_gives_a_distance_within_the_bounds() {
        let config = SrmConfig::lan();
        let mut peers = Peers::default();
        let number = peers.begin_session(millis(0));
        for (held, expected) in [
            (Duration::MAX, config.distance_min),
            (Duration::ZERO, config.distance_max),
        ] {
            let echo = Echo {
                member: member(1),
                number,
                held,
            };
            let session = Session {
                echoes: alloc::vec![echo],
                ..Session::default()
            };
            peers.hear(&config, millis(60_000), member(1), member(2), &session);
            assert_eq!(peers.distance(&config, member(2)), expected);
        }
    }

    #[test]
    fn everybody_is_echoed_by_turns() {
        let config = SrmConfig::lan();
        let mut peers = Peers::default();
        for node in 2..9 {
            peers.hear(
                &config,
                millis(1),
                member(1),
                member(node),
                &Session::default(),
            );
        }
        let mut names = Vec::new();
        for _ in 0..7 {
            let echoes = peers.echoes(millis(2), 3);
            assert_eq!(echoes.len(), 3);
            names.extend(echoes.iter().map(|echo| echo.member));
        }
        names.sort();
        assert_eq!(names.len(), 21);
        assert!((2..9).all(|node| names.iter().filter(|it| **it == member(node)).count() == 3));
    }
}
