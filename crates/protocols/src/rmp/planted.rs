//! Bugs planted on purpose, for the swarm to find: each breaks one rule of RMP
//! ([`crate::planted`]).

use alloc::collections::VecDeque;

use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigurationKind, Event, Service};

use super::config::RmpConfig;
use super::numbers::Number;
use super::order::Order;
use super::outgoing::Outgoing;
use super::plan::Together;
use crate::planted::planted;

planted! {
    /// A member says that it is ready for every position that it has heard of.
    ReadyForAll = "ready-for-all",
    /// A packet is delivered before its sender is known to know its place.
    SettledAtOnce = "settled-at-once",
    /// Safe messages are delivered like agreed ones.
    SafeIsAgreed = "safe-is-agreed",
    /// A message that was partly sent when the configuration changed is not begun anew.
    NoRestart = "no-restart",
    /// After a gap, messages of members outside the transitional configuration are delivered too.
    DeliverAllAfterGap = "deliver-all-after-gap",
    /// The transitional configuration is not delivered.
    NoTransitional = "no-transitional",
    /// Positions begin anew in a new configuration.
    SeqFromZero = "seq-from-zero",
    /// A configuration is installed without recovering what others held.
    NoRecovery = "no-recovery",
    /// What is safe is judged by the member's own knowledge at the end of a configuration.
    OwnSafeBorder = "own-safe-border",
    /// Obligations are forgotten when a reformation fails.
    NoObligations = "no-obligations",
    /// What came early to one member is not carried through a reformation.
    EarlyNotCarried = "early-not-carried",
    /// A FIFO message does not wait for earlier messages of its sender.
    FifoWaitsForNothing = "fifo-waits-for-nothing",
    /// A list is passed without what came early before it.
    CutsIgnored = "cuts-ignored",
    /// A member says that it knows places behind a list that it has not passed.
    KnownAcrossList = "known-across-list",
    /// A member says that it is ready for positions behind a list that it has not passed.
    ReadyAcrossList = "ready-across-list",
    /// A newcomer delivers early messages of the configuration before its own.
    NewcomerReadsOld = "newcomer-reads-old",
    /// A newcomer counts as ready for what follows its list before it says so.
    NewcomerReadyAtOnce = "newcomer-ready-at-once",
    /// The border of resilient messages is drawn by the member's own marks.
    OwnMarks = "own-marks",
    /// Resilient messages are delivered when one member fewer holds them.
    OneHolderFewer = "one-holder-fewer",
}

impl Planted {
    /// Those that the swarm finds within 2,000 seeds.
    pub const ALL: [Self; 17] = [
        Self::ReadyForAll,
        Self::SettledAtOnce,
        Self::SafeIsAgreed,
        Self::NoRestart,
        Self::DeliverAllAfterGap,
        Self::NoTransitional,
        Self::SeqFromZero,
        Self::NoRecovery,
        Self::OwnSafeBorder,
        Self::EarlyNotCarried,
        Self::FifoWaitsForNothing,
        Self::OwnMarks,
        Self::CutsIgnored,
        Self::KnownAcrossList,
        Self::ReadyAcrossList,
        Self::NewcomerReadsOld,
        Self::NewcomerReadyAtOnce,
    ];

    /// The others: [`NoObligations`](Self::NoObligations) needs a cut between two datagrams of one
    /// reformation; [`OneHolderFewer`](Self::OneHolderFewer) needs crashes of just those that hold
    /// a message, and has a scenario of its own.
    pub const RARE: [Self; 2] = [Self::NoObligations, Self::OneHolderFewer];
}

/// What is planted in one member: at most one bug, and none in a released binary. Its methods are
/// the seams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Plants {
    #[cfg(feature = "planted-bugs")]
    bug: Option<Planted>,
}

impl RmpConfig {
    /// What is planted.
    pub(super) fn plants(&self) -> Plants {
        Plants {
            #[cfg(feature = "planted-bugs")]
            bug: self.planted,
        }
    }
}

impl Plants {
    #[inline]
    fn has(self, bug: Planted) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }

    /// A member is about to say that it is `ready`; it has heard of positions up to `last`.
    #[inline]
    pub(super) fn ready_told(self, ready: &mut Seq, last: Seq) {
        if self.has(Planted::ReadyForAll) {
            *ready = last;
        }
    }

    /// Whether the order of a packet counts as settled as soon as it is held.
    #[inline]
    pub(super) fn settles_at_once(self) -> bool {
        self.has(Planted::SettledAtOnce)
    }

    /// Up to where safe messages are delivered in `order`.
    #[inline]
    pub(super) fn safe_horizon(self, order: &Order) -> Seq {
        if self.has(Planted::SafeIsAgreed) {
            Seq::MAX
        } else {
            order.safe()
        }
    }

    /// Messages of the members in `bound` are about to be delivered behind a gap.
    #[inline]
    pub(super) fn bound_behind_gap(self, bound: &mut Indices) {
        if self.has(Planted::DeliverAllAfterGap) {
            *bound = Indices::ALL;
        }
    }

    /// The members that finish `old` know together what is `safe`.
    #[inline]
    pub(super) fn safe_shared(self, safe: &mut Seq, old: &Order) {
        if self.has(Planted::OwnSafeBorder) {
            *safe = old.safe().min(old.held);
        }
    }

    /// What is to be recovered was computed from what the members declared.
    #[inline]
    pub(super) fn recovery_planned(self, together: &mut Together, old: &Order) {
        if self.has(Planted::NoRecovery) {
            together.held.retain(|seq| old.holds(*seq));
        }
        for (member, site) in together.members.iter_mut().zip(&old.sites) {
            if self.has(Planted::EarlyNotCarried) {
                member.early = Number::default();
            }
            if self.has(Planted::OwnMarks) {
                member.ready = site.marks.ready;
            }
        }
    }

    /// Messages of `service` are about to be delivered up to their horizon.
    #[inline]
    pub(super) fn held_by(self, service: Service) -> Service {
        match service {
            Service::KResilient(k) if self.has(Planted::OneHolderFewer) => {
                Service::KResilient(k.saturating_sub(1))
            }
            other => other,
        }
    }

    /// A member waits for what came early before the `cut` of another, to pass a list.
    #[inline]
    pub(super) fn cut(self, cut: Option<Number>) -> Option<Number> {
        match self.has(Planted::CutsIgnored) {
            true => Some(Number::default()),
            false => cut,
        }
    }

    /// A member is about to say that it knows the places of its packets up to `known`, and no more
    /// because of a list; it knows all up to `acknowledged`.
    #[inline]
    pub(super) fn known_told(self, known: &mut Number, acknowledged: Number) {
        if self.has(Planted::KnownAcrossList) {
            *known = acknowledged;
        }
    }

    /// A member may be ready up to `end`, because of a list; it holds all up to `held`.
    #[inline]
    pub(super) fn ready_to(self, end: &mut Seq, held: Seq) {
        if self.has(Planted::ReadyAcrossList) {
            *end = held;
        }
    }

    /// Whether a packet is of a configuration before that of the newcomer who reads it.
    #[inline]
    pub(super) fn is_stale(self, stale: bool) -> bool {
        stale && !self.has(Planted::NewcomerReadsOld)
    }

    /// A newcomer is taken into the list; it is `ready`.
    #[inline]
    pub(super) fn newcomer(self, ready: &mut Seq) {
        if self.has(Planted::NewcomerReadyAtOnce) {
            *ready = ready.plus(64);
        }
    }

    /// Whether a FIFO message waits for earlier messages of its sender.
    #[inline]
    pub(super) fn fifo_waits(self) -> bool {
        !self.has(Planted::FifoWaitsForNothing)
    }

    /// The positions of a new configuration are to begin above `start`.
    #[inline]
    pub(super) fn positions_start(self, start: &mut Seq) {
        if self.has(Planted::SeqFromZero) {
            *start = Seq::ZERO;
        }
    }

    /// This member has taken obligations on.
    #[inline]
    pub(super) fn obliged(self, obligations: &mut Indices) {
        if self.has(Planted::NoObligations) {
            *obligations = Indices::default();
        }
    }

    /// The old configuration is finished in `events`.
    #[inline]
    pub(super) fn old_finished(self, events: &mut VecDeque<Event>) {
        if self.has(Planted::NoTransitional) {
            events.retain(|event| !is_transitional(event));
        }
    }

    /// A new configuration begins: what is not settled is packed anew.
    #[inline]
    pub(super) fn restart(self, outgoing: &mut Outgoing, delivered: &[u64]) {
        if self.has(Planted::NoRestart) {
            outgoing.forget();
        }
        outgoing.restart(delivered);
    }
}

fn is_transitional(event: &Event) -> bool {
    matches!(event, Event::Configuration(it) if it.kind == ConfigurationKind::Transitional)
}
