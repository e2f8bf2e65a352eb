//! What a member does about another process with its own name.
//!
//! Each tells the other how long it has run ([`NameMessage::InUse`]). The one that has run for less
//! time gives way, if two things hold:
//!
//! - It is *new*: it began less than [`NEW_FOR`] ago, and is in no configuration with others. So
//!   nobody's word ends a member that works.
//! - The other one *proves* that it holds the name: it answers a question with a fresh nonce, which
//!   goes to its own address alone. So no single message ends anything, and no recording.
//!
//! What the other one says of its time is as old as the message: of two that began within one delay
//! of the network, each takes itself for the older one. If both still claim the name after
//! [`CLAIM_FOR`], their incarnations decide instead.
//!
//! Otherwise neither gives way: the name is *contested*, which the user is told. Members of one
//! configuration take no part in this; a second process with the name of one of them is not let in.
//!
//! All holders of the key can do what a member can. So one that takes a name first, and goes on
//! answering for it, keeps others from starting under it; and no more than that.

use core::time::Duration;

use crate::id::{Incarnation, MemberId};
use crate::mech::allowance::Allowance;
use crate::rng::Rng;
use crate::time::Time;

/// A member that began longer ago than this gives way to nobody.
pub const NEW_FOR: Duration = Duration::from_secs(10);
/// Two processes that claim a name for this long are told apart by their incarnations, no more by
/// their ages.
pub const CLAIM_FOR: Duration = Duration::from_secs(2);
/// How often a contested name is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Messages of each kind a second.
const RATE: u32 = 100;

/// What processes of one name say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameMessage {
    /// The sender has the name, and has run for this many milliseconds.
    InUse {
        /// Since its start.
        uptime_ms: u64,
    },
    /// Asks the sender of an `InUse` for a proof.
    Question {
        /// Drawn for this question.
        nonce: u64,
    },
    /// The answer to a question.
    Proof {
        /// That of the question.
        nonce: u64,
        /// How long the sender has run, in milliseconds.
        uptime_ms: u64,
    },
}

/// What follows from a message of a namesake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// Nothing.
    Nothing,
    /// This goes to the other one.
    Say(NameMessage),
    /// This member gives way: it ends.
    GiveWay,
    /// Neither gives way: the user is told.
    Contested,
}

/// What a member knows of others with its name.
#[derive(Clone, Hash, Debug)]
pub struct Namesakes {
    started: Time,
    /// Whom this member asked, and the nonce.
    asked: Option<(MemberId, u64)>,
    /// Who claims the name although it is younger, as it seems here, and since when.
    claims: Option<(MemberId, Time)>,
    /// Statements, questions and proofs have an allowance each, so that none keeps back another.
    allowed: [Allowance; 3],
    reported: Option<Time>,
}

impl Namesakes {
    /// Of a member that began at `started`.
    pub fn new(started: Time) -> Self {
        Self {
            started,
            asked: None,
            claims: None,
            allowed: [Allowance::per_second(RATE, 1); 3],
            reported: None,
        }
    }

    /// `from`, another process with the name of this one, whose incarnation is `local`, sent a
    /// datagram: `message`, or something else. `alone` says that this member is in no configuration
    /// with others.
    pub fn handle(
        &mut self,
        now: Time,
        local: Incarnation,
        alone: bool,
        (from, message): (MemberId, Option<NameMessage>),
        rng: &mut Rng,
    ) -> Reaction {
        let uptime_ms = self.uptime_ms(now);
        let younger = |theirs| gives_way((uptime_ms, local), (theirs, from.incarnation));
        let insists = self.insists(now, from);
        // It does not matter for how long each has run if that is known so badly.
        let yields = |theirs| match insists {
            true => gives_way((0, local), (0, from.incarnation)),
            false => younger(theirs),
        };
        let is_new = alone && now.since(self.started) < NEW_FOR;
        match message {
            None => self.say(now, NameMessage::InUse { uptime_ms }),
            Some(NameMessage::InUse { uptime_ms: theirs }) if !yields(theirs) => {
                if self.claims.is_none_or(|(who, _)| who != from) {
                    self.claims = Some((from, now));
                }
                match insists {
                    true => self.report(now),
                    false => Reaction::Nothing,
                }
            }
            Some(NameMessage::InUse { .. }) if !is_new => self.report(now),
            Some(NameMessage::InUse { .. }) => {
                // A question that is out keeps its nonce: what comes meanwhile does not make its
                // answer void.
                let nonce = match self.asked {
                    Some((asked, nonce)) if asked == from => nonce,
                    _ => rng.next_u64(),
                };
                let reaction = self.say(now, NameMessage::Question { nonce });
                if reaction != Reaction::Nothing {
                    self.asked = Some((from, nonce));
                }
                reaction
            }
            Some(NameMessage::Question { nonce }) => {
                self.say(now, NameMessage::Proof { nonce, uptime_ms })
            }
            Some(NameMessage::Proof {
                nonce,
                uptime_ms: theirs,
            }) => {
                let proved = self.asked == Some((from, nonce));
                match proved && is_new && yields(theirs) {
                    true => Reaction::GiveWay,
                    false => Reaction::Nothing,
                }
            }
        }
    }

    /// Whether `from` has claimed the name for long although it should have given way.
    fn insists(&self, now: Time, from: MemberId) -> bool {
        self.claims
            .is_some_and(|(who, since)| who == from && now.since(since) >= CLAIM_FOR)
    }

    fn uptime_ms(&self, now: Time) -> u64 {
        u64::try_from(now.since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    fn say(&mut self, now: Time, message: NameMessage) -> Reaction {
        let kind = match message {
            NameMessage::InUse { .. } => 0,
            NameMessage::Question { .. } => 1,
            NameMessage::Proof { .. } => 2,
        };
        match self.allowed[kind].take(now) {
            true => Reaction::Say(message),
            false => Reaction::Nothing,
        }
    }

    fn report(&mut self, now: Time) -> Reaction {
        let due = self
            .reported
            .is_none_or(|at| now.since(at) >= REPORT_INTERVAL);
        if !due {
            return Reaction::Nothing;
        }
        self.reported = Some(now);
        Reaction::Contested
    }
}

/// Whether the local process gives way to another of its name: it has run for less time. Each is
/// told by its uptime in milliseconds and its incarnation.
fn gives_way(local: (u64, Incarnation), other: (u64, Incarnation)) -> bool {
    (other.0, local.1) > (local.0, other.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NodeId;

    const LOCAL: Incarnation = Incarnation(1);

    struct Bed {
        namesakes: Namesakes,
        rng: Rng,
        now: Time,
        alone: bool,
    }

    impl Bed {
        fn new() -> Self {
            Self {
                namesakes: Namesakes::new(Time::ZERO),
                rng: Rng::new(7),
                now: Time::from_millis(500),
                alone: true,
            }
        }

        fn hears(&mut self, from: MemberId, message: NameMessage) -> Reaction {
            self.now += Duration::from_millis(20);
            let said = (from, Some(message));
            self.namesakes
                .handle(self.now, LOCAL, self.alone, said, &mut self.rng)
        }

        /// The nonce with which this member asks `from`.
        fn asks(&mut self, from: MemberId) -> u64 {
            match self.hears(from, OLDER) {
                Reaction::Say(NameMessage::Question { nonce }) => nonce,
                other => panic!("{other:?}"),
            }
        }
    }

    fn other(incarnation: u64) -> MemberId {
        MemberId {
            node: NodeId(9),
            incarnation: Incarnation(incarnation),
        }
    }

    const OLDER: NameMessage = NameMessage::InUse {
        uptime_ms: u64::MAX,
    };

    fn proof(nonce: u64) -> NameMessage {
        NameMessage::Proof {
            nonce,
            uptime_ms: u64::MAX,
        }
    }

    #[test]
    fn a_new_member_gives_way_to_a_proof_and_to_nothing_less() {
        let mut bed = Bed::new();
        assert_eq!(
            bed.hears(other(2), proof(0)),
            Reaction::Nothing,
            "not asked"
        );
        let nonce = bed.asks(other(2));
        assert_eq!(bed.asks(other(2)), nonce, "the question is still out");
        assert_eq!(bed.hears(other(2), proof(nonce ^ 1)), Reaction::Nothing);
        assert_eq!(bed.hears(other(3), proof(nonce)), Reaction::Nothing);
        assert_eq!(bed.hears(other(2), proof(nonce)), Reaction::GiveWay);
    }

    #[test]
    fn a_member_that_works_gives_way_to_nobody_and_says_so_once_a_minute() {
        for works in [
            |bed: &mut Bed| bed.alone = false,
            |bed: &mut Bed| bed.now = Time::ZERO + NEW_FOR,
        ] {
            let mut bed = Bed::new();
            let nonce = bed.asks(other(2));
            works(&mut bed);
            assert_eq!(bed.hears(other(2), proof(nonce)), Reaction::Nothing);
            assert_eq!(bed.hears(other(2), OLDER), Reaction::Contested);
            assert_eq!(bed.hears(other(2), OLDER), Reaction::Nothing);
            bed.now += REPORT_INTERVAL;
            assert_eq!(bed.hears(other(2), OLDER), Reaction::Contested);
        }
    }

    #[test]
    fn the_older_one_says_so_and_proves_it() {
        let mut bed = Bed::new();
        let reaction = bed
            .namesakes
            .handle(bed.now, LOCAL, true, (other(2), None), &mut bed.rng);
        let in_use = NameMessage::InUse { uptime_ms: 500 };
        assert_eq!(reaction, Reaction::Say(in_use));
        let younger = NameMessage::InUse { uptime_ms: 3 };
        assert_eq!(bed.hears(other(2), younger), Reaction::Nothing);
        let question = NameMessage::Question { nonce: 11 };
        let proof = NameMessage::Proof {
            nonce: 11,
            uptime_ms: 540,
        };
        assert_eq!(bed.hears(other(2), question), Reaction::Say(proof));
    }

    /// Started 10 ms apart, 40 ms away from each other: each takes itself for the older one.
    #[test]
    fn of_two_that_take_each_other_for_younger_one_gives_way() {
        let started = [Time::ZERO, Time::from_millis(10)];
        let members = [other(4), other(5)];
        let mut both = started.map(Namesakes::new);
        let mut rng = Rng::new(3);
        let mut ended = [None; 2];
        // Each says every 100 ms that it has the name; what follows is told at once.
        for at in (100..5_000).step_by(100).map(Time::from_millis) {
            let arrives = at + Duration::from_millis(40);
            for (me, them) in [(0, 1), (1, 0)] {
                let uptime_ms = both[them].uptime_ms(at);
                let (mut from, mut to) = (them, me);
                let mut next = Some(NameMessage::InUse { uptime_ms });
                while let Some(message) = next.take() {
                    let said = (members[from], Some(message));
                    let local = members[to].incarnation;
                    let reaction = both[to].handle(arrives, local, true, said, &mut rng);
                    match reaction {
                        Reaction::Say(message) => next = Some(message),
                        Reaction::GiveWay => ended[to] = ended[to].or(Some(arrives)),
                        Reaction::Nothing | Reaction::Contested => {}
                    }
                    (from, to) = (to, from);
                }
            }
        }
        assert_eq!(ended[0], None);
        let end = ended[1].expect("one gives way");
        assert!(end < Time::ZERO + CLAIM_FOR * 2, "{end:?}");
    }

    #[test]
    fn of_two_that_began_together_one_gives_way() {
        let (young, old) = ((5, Incarnation(1)), (9, Incarnation(2)));
        assert!(gives_way(young, old) && !gives_way(old, young));
        let twin = (9, Incarnation(3));
        assert_ne!(gives_way(twin, old), gives_way(old, twin));
    }
}
