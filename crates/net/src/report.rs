//! Limits the log lines about rejected datagrams: one a minute for each kind of rejection.

use std::net::SocketAddr;
use std::time::Duration;

use groupcast_core::Time;
use groupcast_core::node::Rejected;
use groupcast_core::wire::PrefixError;

/// What kinds of rejection are told apart in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Not of this protocol, or cut short.
    Malformed,
    Version,
    Cluster,
    OldKey,
    Twin,
    Forged,
    Channel,
    Copies,
    Unexamined,
    /// Happens in any healthy group: replays, first contacts.
    Ordinary,
}

impl Kind {
    const COUNT: usize = 10;

    /// The kinds that show a sender outside the group, with the names of their counters.
    const OF_STRANGERS: [(Self, &'static str); 6] = [
        (Self::Cluster, "other_cluster"),
        (Self::OldKey, "old_key"),
        (Self::Twin, "twin"),
        (Self::Forged, "forged"),
        (Self::Version, "other_version"),
        (Self::Malformed, "malformed"),
    ];

    fn of(rejected: &Rejected) -> Self {
        match rejected {
            Rejected::Prefix(PrefixError::Version(_)) => Self::Version,
            Rejected::Prefix(_) | Rejected::TooShort => Self::Malformed,
            Rejected::Cluster { .. } => Self::Cluster,
            Rejected::OldKey => Self::OldKey,
            Rejected::Twin => Self::Twin,
            Rejected::Forged => Self::Forged,
            Rejected::Channel => Self::Channel,
            Rejected::TooManyCopies => Self::Copies,
            Rejected::Unexamined => Self::Unexamined,
            _ => Self::Ordinary,
        }
    }

    /// What the operator can do about it.
    fn hint(self) -> &'static str {
        match self {
            Self::Malformed => "another program uses this address and port",
            Self::Version => {
                "the other daemon runs another release; those of one cluster must speak one version"
            }
            Self::Cluster => {
                "another cluster, with another key, uses this address and port, or a transfer does; if the cluster's key \
                 was changed while this daemon was away, give it the new one: `groupcast rekey NEWFILE`"
            }
            Self::OldKey => {
                "the daemon there was away while the key was changed: run `groupcast rekey NEWFILE` on its host"
            }
            Self::Twin => {
                "a machine was copied or set back while this process ran, and both seal with the same key and numbers, \
                 which gives messages away: end this process and start it again"
            }
            Self::Forged => {
                "somebody without the key sends here, the network damages datagrams, or (after a restart, for a moment) \
                 they were meant for this daemon's former life"
            }
            Self::Channel => {
                "the other side carries a protocol that this one does not, or runs another release"
            }
            Self::Copies => {
                "every member without multicast costs a copy of each multicast: raise `net.copies_max` at all daemons that \
                 have multicast, or give that host multicast"
            }
            Self::Unexamined => {
                "more datagrams of unknown senders come than are examined, so newcomers are let in later: look who sends"
            }
            Self::Ordinary => "",
        }
    }
}

/// A sender whose datagrams do not belong to the group: it has another key, is of another release,
/// or is another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stranger {
    /// What is wrong with them, by the name of the counter that counts them.
    pub kind: &'static str,
    /// Who sent the last one.
    pub last: SocketAddr,
    /// How long ago that was.
    pub age: Duration,
    /// What it means.
    pub hint: &'static str,
}

/// When each kind was last logged, how many went by in silence since, and who sent the last one.
#[derive(Debug, Default)]
pub(crate) struct RejectionLog {
    kinds: [(Option<Time>, u64); Kind::COUNT],
    last: [Option<(SocketAddr, Time)>; Kind::COUNT],
}

impl RejectionLog {
    const INTERVAL: Duration = Duration::from_secs(60);
    /// A sender that was not heard for this long is gone, or was told what to do.
    const KEPT_FOR: Duration = Duration::from_secs(600);

    /// Logs that a datagram from `from` was rejected, unless its kind was logged less than a minute
    /// ago.
    pub(crate) fn note(&mut self, now: Time, from: SocketAddr, rejected: &Rejected) {
        if *rejected == Rejected::Own {
            return;
        }
        let kind = Kind::of(rejected);
        self.last[kind as usize] = Some((from, now));
        let Some(muted) = self.due(now, kind) else {
            return;
        };
        if kind == Kind::Ordinary {
            tracing::debug!(%from, muted, "datagram dropped: {rejected}");
        } else {
            tracing::warn!(
                %from,
                muted,
                "datagram dropped: {rejected}; {} (the next ones of this kind are counted, and logged once a minute)",
                kind.hint()
            );
        }
    }

    /// The senders whose datagrams do not belong to the group, as far as they were heard lately.
    pub(crate) fn strangers(&self, now: Time) -> impl Iterator<Item = Stranger> {
        Kind::OF_STRANGERS
            .into_iter()
            .filter_map(move |(kind, name)| {
                let (last, at) = self.last[kind as usize]?;
                let age = now.since(at);
                (age < Self::KEPT_FOR).then_some(Stranger {
                    kind: name,
                    last,
                    age,
                    hint: kind.hint(),
                })
            })
    }

    /// How many went by since the last line if a line is due, else counts this one.
    fn due(&mut self, now: Time, kind: Kind) -> Option<u64> {
        let (last, muted) = &mut self.kinds[kind as usize];
        if last.is_some_and(|last| now - last < Self::INTERVAL) {
            *muted += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(muted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_a_minute() {
        let mut log = RejectionLog::default();
        assert_eq!(log.due(Time::ZERO, Kind::Forged), Some(0));
        assert_eq!(log.due(Time::from_millis(1), Kind::Cluster), Some(0));
        for second in 1..60 {
            assert_eq!(
                log.due(Time::from_millis(second * 1000), Kind::Forged),
                None
            );
        }
        assert_eq!(log.due(Time::from_millis(60_000), Kind::Forged), Some(59));
        assert_eq!(log.due(Time::from_millis(120_000), Kind::Forged), Some(0));
    }

    #[test]
    fn the_last_source_of_each_kind_of_stranger_is_kept() {
        let mut log = RejectionLog::default();
        let from = |last: u8| SocketAddr::from(([10, 0, 0, last], 4810));
        for last in 1..=3 {
            log.note(Time::ZERO, from(last), &Rejected::Forged);
        }
        log.note(Time::ZERO, from(9), &Rejected::Own);
        let now = Time::from_millis(1_500);
        let strangers: Vec<_> = log.strangers(now).collect();
        assert_eq!(strangers.len(), 1);
        assert_eq!((strangers[0].kind, strangers[0].last), ("forged", from(3)));
        assert_eq!(strangers[0].age, Duration::from_millis(1_500));
        let later = Time::ZERO + RejectionLog::KEPT_FOR;
        assert_eq!(log.strangers(later).count(), 0, "it is gone");
    }
}
