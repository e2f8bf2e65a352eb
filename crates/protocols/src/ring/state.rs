//! Where a member is between rings, and what it has there.

use alloc::boxed::Box;

use groupcast_core::MemberId;

use super::commit::CommitState;
use super::gather::Gather;
use super::numbers::Attempt;
use super::operational::Operational;
use super::ordering::Ordering;
use super::recovery::Recovery;

/// Where a member is between rings. Each variant owns that state's data, the last installed ring
/// included: the user is in its regular configuration until the next one is installed.
#[derive(Debug)]
pub(super) enum State {
    /// Finding out who is there.
    Gather(Gather),
    /// The commit token is on its way.
    Commit(CommitState),
    /// Exchanging what members hold of their old rings.
    Recovery(Box<Recovery>),
    /// In a ring, in which the token orders messages.
    Operational(Operational),
    /// The member has left; the last ring is kept for its status.
    Left(Option<Ordering>),
}

impl State {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Gather(_) => "gather",
            Self::Commit(_) => "commit",
            Self::Recovery(_) => "recovery",
            Self::Operational(_) => "operational",
            Self::Left(_) => "left",
        }
    }

    /// The last installed ring; `None` before the first.
    pub(super) fn installed(&self) -> Option<&Ordering> {
        match self {
            Self::Gather(gather) => gather.old.as_ref(),
            Self::Commit(commit) => commit.old.as_ref(),
            Self::Recovery(recovery) => recovery.old.as_ref(),
            Self::Operational(operational) => Some(&operational.ordering),
            Self::Left(old) => old.as_ref(),
        }
    }

    pub(super) fn installed_mut(&mut self) -> Option<&mut Ordering> {
        match self {
            Self::Gather(gather) => gather.old.as_mut(),
            Self::Commit(commit) => commit.old.as_mut(),
            Self::Recovery(recovery) => recovery.old.as_mut(),
            Self::Operational(operational) => Some(&mut operational.ordering),
            Self::Left(old) => old.as_mut(),
        }
    }

    pub(super) fn into_installed(self) -> Option<Ordering> {
        match self {
            Self::Gather(gather) => gather.old,
            Self::Commit(commit) => commit.old,
            Self::Recovery(recovery) => recovery.old,
            Self::Operational(operational) => Some(operational.ordering),
            Self::Left(old) => old,
        }
    }

    /// Whether the ring that forms, or that is there, is formed by this attempt of `member`, or a
    /// later one: a join of it that is still to be read says nothing new. A slow host may find it
    /// behind the commit token. What the commit token tells counts for its ring only, since its
    /// first member could write any attempt.
    pub(super) fn is_formed_by(&self, member: MemberId, attempt: Attempt) -> bool {
        match self {
            Self::Commit(commit) => commit.is_formed_by(member, attempt),
            Self::Recovery(recovery) => recovery.ordering.is_formed_by(member, attempt),
            Self::Operational(operational) => operational.ordering.is_formed_by(member, attempt),
            Self::Gather(_) | Self::Left(_) => false,
        }
    }

    /// Whether `member` is of the last ring, or a candidate for the next.
    pub(super) fn knows(&self, member: MemberId) -> bool {
        let of_ring = |ring: &Ordering| ring.members.contains(&member);
        let candidate = matches!(self, Self::Gather(gather) if gather.proc.contains(&member));
        candidate || self.installed().is_some_and(of_ring)
    }

    /// For what happens in the operational state alone.
    ///
    /// # Panics
    /// In any other state: a bug of ours, since every timer but one is cancelled when a state is
    /// left.
    #[track_caller]
    pub(super) fn expect_operational(&mut self) -> &mut Operational {
        match self {
            Self::Operational(operational) => operational,
            other => unreachable!("not operational, but in {}", other.name()),
        }
    }

    /// For what happens in recovery alone. Panics as
    /// [`expect_operational`](Self::expect_operational).
    #[track_caller]
    pub(super) fn expect_recovery(&mut self) -> &mut Recovery {
        match self {
            Self::Recovery(recovery) => recovery,
            other => unreachable!("not in recovery, but in {}", other.name()),
        }
    }

    /// For what happens in commit alone. Panics as
    /// [`expect_operational`](Self::expect_operational).
    #[track_caller]
    pub(super) fn expect_commit(&mut self) -> &mut CommitState {
        match self {
            Self::Commit(commit) => commit,
            other => unreachable!("not in commit, but in {}", other.name()),
        }
    }

    /// For what happens in gather alone. Panics as
    /// [`expect_operational`](Self::expect_operational).
    #[track_caller]
    pub(super) fn expect_gather(&mut self) -> &mut Gather {
        match self {
            Self::Gather(gather) => gather,
            other => unreachable!("not in gather, but in {}", other.name()),
        }
    }

    /// The edges of the diagram, and no others.
    pub(super) fn may_follow(&self, before: &str) -> bool {
        match self {
            Self::Left(_) | Self::Gather(_) => before != "left",
            Self::Commit(_) => before == "gather",
            Self::Recovery(_) => before == "commit",
            Self::Operational(_) => before == "recovery",
        }
    }
}
