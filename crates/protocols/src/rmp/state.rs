//! The states of a member, and which may follow which.

use alloc::boxed::Box;

use groupcast_core::MemberId;

use super::joining::Joining;
use super::operational::Operational;
use super::order::Order;
use super::polling::Polling;
use super::recovering::Recovering;
use super::standby::Standby;

/// Where a member is between configurations. Each variant owns that state's data, the last
/// installed order included: the user is in its regular configuration until the next one is
/// installed.
#[derive(Clone, Hash, Debug)]
pub(super) enum State {
    /// Asks who is there.
    Polling(Polling),
    /// Has answered another's poll, or waits before it polls.
    Standby(Standby),
    /// Knows the next configuration, and fetches what others hold of the old one.
    Recovering(Box<Recovering>),
    /// Asks to be let in by a list.
    Joining(Box<Joining>),
    /// In a configuration, in which the token sites order messages.
    Operational(Box<Operational>),
    /// The member has left; the last order is kept for its status.
    Left(Option<Order>),
}

impl State {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Polling(_) => "polling",
            Self::Standby(_) => "standby",
            Self::Recovering(_) => "recovering",
            Self::Joining(_) => "joining",
            Self::Operational(_) => "operational",
            Self::Left(_) => "left",
        }
    }

    /// The last installed order; `None` before the first.
    pub(super) fn installed(&self) -> Option<&Order> {
        match self {
            Self::Polling(polling) => polling.old.as_ref(),
            Self::Standby(standby) => standby.old.as_ref(),
            Self::Recovering(recovering) => recovering.old.as_ref(),
            Self::Joining(joining) => joining.old.as_ref(),
            Self::Operational(operational) => Some(&operational.order),
            Self::Left(old) => old.as_ref(),
        }
    }

    pub(super) fn into_installed(self) -> Option<Order> {
        match self {
            Self::Polling(polling) => polling.old,
            Self::Standby(standby) => standby.old,
            Self::Recovering(recovering) => recovering.old,
            Self::Joining(joining) => joining.old,
            Self::Operational(operational) => Some(operational.order),
            Self::Left(old) => old,
        }
    }

    /// Whether `member` is of the last configuration, or wanted in the next.
    pub(super) fn knows(&self, member: MemberId) -> bool {
        let of_old = |order: &Order| order.index_of(member).is_some();
        let wanted = match self {
            Self::Polling(polling) => polling.wanted.contains(&member),
            Self::Standby(standby) => standby.wanted.contains(&member),
            Self::Recovering(recovering) => recovering.has(member),
            Self::Joining(joining) => joining.members.contains(&member),
            Self::Operational(_) | Self::Left(_) => false,
        };
        wanted || self.installed().is_some_and(of_old)
    }

    /// For what happens in the operational state alone.
    ///
    /// # Panics
    /// In any other state: a bug of ours, since timers are cancelled when a state is left.
    #[track_caller]
    pub(super) fn expect_operational(&mut self) -> &mut Operational {
        match self {
            Self::Operational(operational) => operational,
            other => unreachable!("not operational, but {}", other.name()),
        }
    }

    /// For what happens while polling alone. Panics as
    /// [`expect_operational`](Self::expect_operational).
    #[track_caller]
    pub(super) fn expect_polling(&mut self) -> &mut Polling {
        match self {
            Self::Polling(polling) => polling,
            other => unreachable!("not polling, but {}", other.name()),
        }
    }

    /// For what happens in recovery alone. Panics as
    /// [`expect_operational`](Self::expect_operational).
    #[track_caller]
    pub(super) fn expect_recovering(&mut self) -> &mut Recovering {
        match self {
            Self::Recovering(recovering) => recovering,
            other => unreachable!("not recovering, but {}", other.name()),
        }
    }

    /// The edges of the diagram, and no others.
    pub(super) fn may_follow(&self, before: &str) -> bool {
        match self {
            Self::Left(_) | Self::Polling(_) | Self::Standby(_) => before != "left",
            Self::Recovering(_) => matches!(before, "polling" | "standby"),
            Self::Joining(_) => matches!(before, "polling" | "operational"),
            Self::Operational(_) => matches!(before, "polling" | "recovering" | "joining"),
        }
    }
}
