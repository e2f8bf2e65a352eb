//! Limits the lines of the log that clients and other daemons can cause: a client that connects and
//! breaks the protocol again and again, or a holder of the key that sends nonsense, would fill a
//! disk.

use std::time::Duration;

use groupcast_core::Time;
use groupcast_session::groups::Fact;

/// The most lines of one kind in each [`SPAN`].
const LINES: u32 = 50;
/// The time after which lines are counted anew.
const SPAN: Duration = Duration::from_secs(10);

/// Who outside of the daemon can cause a line of the log again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineCause {
    /// Clients, of this daemon or of others.
    Clients,
    /// Whoever has the key of the cluster.
    Daemons,
}

impl LineCause {
    /// Who can cause the line about `fact`; `None` of a line that comes once for each
    /// configuration, or once in a daemon's life.
    pub(crate) fn of(fact: &Fact) -> Option<Self> {
        match fact {
            Fact::Refused { .. }
            | Fact::Disconnected { .. }
            | Fact::HeldBack { .. }
            | Fact::Misses { .. }
            | Fact::Spills { .. }
            | Fact::TwoGroups { .. }
            | Fact::RingMade { .. }
            | Fact::RingEnded { .. }
            | Fact::Moved { .. } => Some(Self::Clients),
            Fact::Nonsense { .. } => Some(Self::Daemons),
            Fact::InRing { fact, .. } => Self::of(fact),
            _ => None,
        }
    }
}

/// The limits of the lines that clients, and other daemons, can cause: neither takes the lines of
/// the other.
#[derive(Debug, Default)]
pub(crate) struct LineLimits {
    pub(crate) clients: LineLimit,
    pub(crate) daemons: LineLimit,
}

impl LineLimits {
    /// Whether the line about `fact` may be written now.
    pub(crate) fn admit(&mut self, now: Time, fact: &Fact) -> bool {
        match LineCause::of(fact) {
            Some(LineCause::Clients) => self.clients.admit(now),
            Some(LineCause::Daemons) => self.daemons.admit(now),
            None => true,
        }
    }

    /// What to say of the lines that were left out, once their span is over.
    pub(crate) fn take_left_out(&mut self, now: Time) -> impl Iterator<Item = String> {
        let of = [
            (&mut self.clients, "clients"),
            (&mut self.daemons, "messages of daemons that make no sense"),
        ];
        of.into_iter().filter_map(move |(limit, subject)| {
            let count = limit.take_left_out(now)?;
            Some(format!("{count} more lines about {subject} were left out"))
        })
    }
}

/// Lets lines into the log, up to a limit, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LineLimit {
    since: Time,
    lines: u32,
    left_out: u64,
}

impl LineLimit {
    /// Whether another line may be written now.
    pub(crate) fn admit(&mut self, now: Time) -> bool {
        if now - self.since >= SPAN {
            self.since = now;
            self.lines = 0;
        }
        let admitted = self.lines < LINES;
        if admitted {
            self.lines += 1;
        } else {
            self.left_out += 1;
        }
        admitted
    }

    /// How many lines were left out, once their span is over.
    pub(crate) fn take_left_out(&mut self, now: Time) -> Option<u64> {
        if self.left_out == 0 || now - self.since < SPAN {
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_their_number() {
        let mut log = LineLimit::default();
        let written =
            |log: &mut LineLimit, now: Time| (0..30_000).filter(|_| log.admit(now)).count();
        assert_eq!(written(&mut log, Time::from_millis(1)), 50);
        assert_eq!(log.take_left_out(Time::from_millis(9_000)), None);
        assert_eq!(log.take_left_out(Time::from_millis(10_000)), Some(29_950));
        assert_eq!(log.take_left_out(Time::from_millis(30_000)), None);
        assert!(log.admit(Time::from_millis(30_000)));
    }

    #[test]
    fn what_daemons_cause_takes_no_lines_of_what_clients_cause() {
        let nonsense = Fact::Nonsense {
            from: groupcast_core::MemberId {
                node: groupcast_core::NodeId(1),
                incarnation: groupcast_core::Incarnation(1),
            },
            error: "no kind".into(),
        };
        let in_ring = |fact: &Fact| Fact::InRing {
            ring: "cb".into(),
            fact: Box::new(fact.clone()),
        };
        let ended = Fact::RingEnded { ring: "cb".into() };
        let moved = Fact::Moved { count: 1 };
        let mut limits = LineLimits::default();
        let mut written = |facts: [&Fact; 2]| {
            let facts = facts.into_iter().cycle().take(10_000);
            let admitted = facts.filter(|fact| limits.admit(Time::from_millis(1), fact));
            admitted.count()
        };
        assert_eq!(written([&nonsense, &in_ring(&nonsense)]), 50);
        assert_eq!(written([&ended, &in_ring(&moved)]), 50);
        let said: Vec<String> = limits.take_left_out(Time::from_millis(20_000)).collect();
        assert_eq!(
            said,
            [
                "9950 more lines about clients were left out",
                "9950 more lines about messages of daemons that make no sense were left out"
            ]
        );
    }
}
