//! Bugs planted on purpose, for the swarm to find: each breaks one rule of the ring
//! ([`crate::planted`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::mech::indices::Indices;
use groupcast_core::{ConfigurationKind, Event, OrderPlace, Service, Time};

use super::config::RingConfig;
use super::numbers::{Hop, Seq};
use super::ordering::{Limits, Ordering};
use super::recovery::Recovery;
use super::wire::{Data, Token};
use super::{Ring, State};
use crate::packing::{Packer, Unpacker};
use crate::planted::planted;

planted! {
    /// Safe messages are delivered after one round of aru instead of the minimum of two.
    SafeAfterOneRound = "safe-after-one-round",
    /// Safe messages are delivered like agreed ones.
    SafeIsAgreed = "safe-is-agreed",
    /// A message behind a gap is delivered, and the gap skipped, while the ring is whole.
    DeliverPastGap = "deliver-past-gap",
    /// Old-ring packets that arrive after the holding was declared are kept.
    NoFreeze = "no-freeze",
    /// A message that was partly sent when the configuration changed is not begun anew.
    NoRewind = "no-rewind",
    /// After a gap, messages of members outside the transitional configuration are delivered too.
    DeliverAllAfterGap = "deliver-all-after-gap",
    /// The border of the transitional configuration is drawn by the member's own knowledge of what
    /// is safe.
    OwnSafeBorder = "own-safe-border",
    /// The transitional configuration is not delivered.
    NoTransitional = "no-transitional",
    /// Sequence numbers begin anew in a new ring.
    SeqFromZero = "seq-from-zero",
    /// A ring is installed without recovering what others held.
    NoRecovery = "no-recovery",
    /// Members are not reset to a common aru: the token's aru is never lowered.
    AruNeverLowered = "aru-never-lowered",
    /// A token that was seen before is handled again.
    StaleToken = "stale-token",
    /// Obligations are forgotten when a recovery fails.
    NoObligations = "no-obligations",
    /// A packet that is answered to a request is delivered again.
    DeliverTwice = "deliver-twice",
    /// A member drops every token that it called for.
    CallDropped = "call-dropped",
    /// After a call the token rests until the others take it for lost.
    RestsAfterCall = "rests-after-call",
    /// No rotation confirms what was sent by calls before the token has rested for as long as it
    /// may.
    NoConfirmation = "no-confirmation",
    /// Packets are sent however far they are above what all members hold.
    SeqGapIgnored = "seq-gap-ignored",
    /// A call advances the token's aru, as if it were a visit.
    CallAdvancesAru = "call-advances-aru",
    /// Resilient messages are delivered when one member fewer holds them.
    OneHolderFewer = "one-holder-fewer",
    /// A member that wakes for the token alone does so however long none comes.
    DozesOn = "dozes-on",
    /// A member also wakes for the token alone when that is about to rest.
    DozesAtRest = "dozes-at-rest",
    /// The border of resilient messages is drawn by the member's own marks.
    OwnMarks = "own-marks",
}

impl Planted {
    /// Those that the swarm finds within 2,000 seeds.
    pub const ALL: [Self; 15] = [
        Self::SafeAfterOneRound,
        Self::SafeIsAgreed,
        Self::DeliverPastGap,
        Self::NoRewind,
        Self::DeliverAllAfterGap,
        Self::OwnSafeBorder,
        Self::NoTransitional,
        Self::SeqFromZero,
        Self::NoRecovery,
        Self::AruNeverLowered,
        Self::StaleToken,
        Self::DeliverTwice,
        Self::CallDropped,
        Self::RestsAfterCall,
        Self::OwnMarks,
    ];

    /// The others.
    ///
    /// - [`NoFreeze`](Self::NoFreeze) needs a packet on its way between two moments of a recovery;
    ///   none of the first 500 seeds has one.
    /// - [`NoObligations`](Self::NoObligations) needs a cut in one instant, and has a scenario of
    ///   its own.
    /// - [`NoConfirmation`](Self::NoConfirmation) and [`CallAdvancesAru`](Self::CallAdvancesAru)
    ///   break no promise. A lost message is found later, by the rotation that ends the token's
    ///   rest; before anything is taken for held by all, every member can still lower aru. Tests
    ///   that measure that time find both.
    /// - [`SeqGapIgnored`](Self::SeqGapIgnored) costs time and memory, both bounded: a member
    ///   claims no more than its own window holds, twice the gap, and what is beyond another
    ///   member's window is sent again.
    /// - [`OneHolderFewer`](Self::OneHolderFewer) needs crashes of just those that hold a message,
    ///   and has a scenario of its own.
    /// - [`DozesOn`](Self::DozesOn) and [`DozesAtRest`](Self::DozesAtRest) cost time, as long as
    ///   the token may rest. Scenarios that measure it find both.
    pub const RARE: [Self; 8] = [
        Self::NoFreeze,
        Self::NoObligations,
        Self::NoConfirmation,
        Self::SeqGapIgnored,
        Self::CallAdvancesAru,
        Self::OneHolderFewer,
        Self::DozesOn,
        Self::DozesAtRest,
    ];
}

/// What is planted in one member: at most one bug, and none in a released binary. Its methods are
/// the seams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Plants {
    #[cfg(feature = "planted-bugs")]
    bug: Option<Planted>,
}

impl RingConfig {
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

    /// A visit has updated the aru of `token`.
    #[inline]
    pub(super) fn aru_updated(self, token: &mut Token) {
        if self.has(Planted::AruNeverLowered) {
            token.aru = token.seq;
            token.aru_by = None;
        }
    }

    /// A visit has computed what is safe from `token`.
    #[inline]
    pub(super) fn safe_computed(self, safe: &mut Seq, token: &Token) {
        if self.has(Planted::SafeAfterOneRound) {
            *safe = token.aru.max(*safe);
        }
    }

    /// Safe messages are about to be delivered up to `horizon`.
    #[inline]
    pub(super) fn safe_horizon(self, horizon: &mut Seq) {
        if self.has(Planted::SafeIsAgreed) {
            *horizon = Seq::MAX;
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

    /// The marks that all members of an old ring have declared are about to be merged.
    #[inline]
    pub(super) fn marks_shared(self, marks: &mut Vec<Seq>) {
        if self.has(Planted::OwnMarks) {
            marks.clear();
        }
    }

    /// What could be delivered of a whole ring was delivered: whether to go on behind the gap.
    #[inline]
    pub(super) fn skips_gap(self, ordering: &mut Ordering) -> bool {
        if !self.has(Planted::DeliverPastGap) {
            return false;
        }
        let seq = ordering.cursor.delivered().next();
        let gap = ordering.window.get(seq).is_none() && seq < ordering.window.high();
        if gap {
            ordering.cursor.step();
        }
        gap
    }

    /// Messages of the members in `bound` are about to be delivered behind a gap.
    #[inline]
    pub(super) fn bound_behind_gap(self, bound: &mut Indices) {
        if self.has(Planted::DeliverAllAfterGap) {
            *bound = Indices::ALL;
        }
    }

    /// What recovery has to do was decided from what the members declared.
    #[inline]
    pub(super) fn recovery_planned(self, recovery: &mut Recovery) {
        if self.has(Planted::NoRecovery) {
            recovery.queue.clear();
        }
        if self.has(Planted::OwnSafeBorder) {
            recovery.closing.safe = recovery.old.as_ref().map_or(Seq::ZERO, |old| old.safe);
        }
    }

    /// The numbers of a new ring are to begin above `start`.
    #[inline]
    pub(super) fn ring_starts(self, start: &mut Seq) {
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
    pub(super) fn old_ring_finished(self, events: &mut VecDeque<Event>) {
        if self.has(Planted::NoTransitional) {
            events.retain(|event| !is_transitional(event));
        }
    }

    /// A new ring is installed: what was partly sent is begun anew.
    #[inline]
    pub(super) fn rewind(self, queue: &mut Packer) {
        if !self.has(Planted::NoRewind) {
            queue.rewind();
        }
    }

    /// `token` came for this member: whether it gets lost here.
    #[inline]
    pub(super) fn loses(self, token: &Token, ordering: &Ordering) -> bool {
        token.called && !ordering.is_representative() && self.has(Planted::CallDropped)
    }

    /// After a call the token is to rest until `rest_until`; until `longest` if nothing had been
    /// sent.
    #[inline]
    pub(super) fn rest_planned(self, rest_until: &mut Time, longest: Time) {
        if self.has(Planted::NoConfirmation) {
            *rest_until = longest;
        }
        if self.has(Planted::RestsAfterCall) {
            *rest_until = longest + Duration::from_secs(3_600);
        }
    }

    /// After a visit a member wakes for the token alone until then, if at all.
    #[inline]
    pub(super) fn dozes(self, until: &mut Option<Time>) {
        if self.has(Planted::DozesOn) && until.is_some() || self.has(Planted::DozesAtRest) {
            *until = Some(Time::MAX);
        }
    }

    /// A visit or a call may send as much as `limits` say.
    #[inline]
    pub(super) fn limits_set(self, limits: &mut Limits) {
        if self.has(Planted::SeqGapIgnored) {
            limits.seq_gap = u32::MAX;
        }
    }

    /// A call has claimed numbers from `token`.
    #[inline]
    pub(super) fn claimed(self, token: &mut Token, held: Seq) {
        if self.has(Planted::CallAdvancesAru) {
            token.aru = held.min(token.seq);
            token.aru_by = None;
        }
    }

    /// `token` came, before anything is known of it.
    #[inline]
    pub(super) fn token_came(self, ordering: &mut Ordering, token: &Token) {
        if self.has(Planted::StaleToken) {
            ordering.hop = ordering.hop.min(Hop(token.hop.0.saturating_sub(1)));
        }
    }

    /// A data packet came, before anything is known of it.
    #[inline]
    pub(super) fn data_came(self, ring: &mut Ring, data: &Data) {
        if self.has(Planted::NoFreeze) {
            ring.keep_late(data);
        }
    }

    /// A data packet came that was here before.
    #[inline]
    pub(super) fn duplicate_came(self, ring: &mut Ring, data: &Data) {
        if self.has(Planted::DeliverTwice) {
            ring.deliver_again(data);
        }
    }
}

fn is_transitional(event: &Event) -> bool {
    matches!(event, Event::Configuration(it) if it.kind == ConfigurationKind::Transitional)
}

impl Ring {
    /// [`Planted::NoFreeze`]: keeps an old-ring packet although the holding was declared.
    fn keep_late(&mut self, data: &Data) {
        let commit = matches!(self.state, State::Commit(_));
        let recovery = matches!(self.state, State::Recovery(_));
        let old = self.state.installed_mut();
        let old = old.filter(|old| old.tag() == data.ring && (commit || recovery));
        let Some(old) = old else {
            return;
        };
        old.handle_data(data);
        if commit {
            self.deliver();
        }
    }

    /// [`Planted::DeliverTwice`]: delivers a packet again that was delivered.
    fn deliver_again(&mut self, data: &Data) {
        let delivered = |ring: &&Ordering| ring.cursor.delivered() >= data.seq;
        let Some(ring) = self.state.installed().filter(delivered) else {
            return;
        };
        let sender = ring.members[data.packet.origin.at()];
        let place = OrderPlace::new(ring.id, data.seq.0, 0);
        let (mut unpacker, mut at) = (Unpacker::default(), 0);
        if data.packet.recovered.is_none()
            && let Ok(Some(record)) =
                unpacker.next(&data.packet.body, &mut at, self.config.message_max)
        {
            self.events.push_back(record.delivered(sender, Some(place)));
        }
    }
}
