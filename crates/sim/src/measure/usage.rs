//! What each link and each host did in a run, as the results have it.

use std::time::Duration;

use serde::Serialize;

use super::seconds;

/// What one direction of a link did.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LinkUse {
    /// Its name `A>B`, from vertex A to vertex B.
    pub name: String,
    /// Its number in the topology.
    pub way: u32,
    /// Packets that left.
    pub packets: u64,
    /// Bytes of them on the wire, framing included.
    pub bytes: u64,
    /// Packets dropped at a full queue or switch.
    pub dropped: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Packets that the link doubled.
    pub duplicated: u64,
    /// Packets that the link damaged.
    pub corrupted: u64,
    /// How long it transmitted. `None` if its bandwidth is unlimited.
    #[serde(rename = "busy_s", serialize_with = "seconds::optional")]
    pub busy: Option<Duration>,
    /// The most bytes that waited.
    pub queue_max_bytes: u64,
    /// The most packets that waited.
    pub queue_max_packets: u32,
}

impl LinkUse {
    /// What it did since it had done `before`. High-water marks are of the whole time.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        let fields = [
            (&mut self.packets, before.packets),
            (&mut self.bytes, before.bytes),
            (&mut self.dropped, before.dropped),
            (&mut self.lost, before.lost),
            (&mut self.duplicated, before.duplicated),
            (&mut self.corrupted, before.corrupted),
        ];
        for (now, before) in fields {
            *now = now.saturating_sub(before);
        }
        self.busy = self
            .busy
            .map(|busy| busy.saturating_sub(before.busy.unwrap_or_default()));
        self
    }

    /// The share of `measured` in which it transmitted. `None` if its bandwidth is unlimited.
    pub fn utilisation(&self, measured: Duration) -> Option<f64> {
        (!measured.is_zero())
            .then_some(self.busy?)
            .map(|busy| busy.as_secs_f64() / measured.as_secs_f64())
    }
}

/// What one host used.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct HostUse {
    /// How long its processor worked.
    #[serde(rename = "cpu_busy_s", serialize_with = "seconds::serialize")]
    pub cpu_busy: Duration,
    /// The most bytes in the receive buffer for data.
    pub data_buffer_max_bytes: u64,
    /// The most datagrams in it.
    pub data_buffer_max_datagrams: u64,
    /// The most bytes in the receive buffer for the token and control.
    pub token_buffer_max_bytes: u64,
    /// The most datagrams in it.
    pub token_buffer_max_datagrams: u64,
    /// Datagrams dropped at a full receive buffer.
    pub overflowed: u64,
    /// What the protocol itself counts, by name
    /// ([`Instrumented::measure`](groupcast_core::Instrumented::measure)).
    pub counters: Vec<(&'static str, u64)>,
}

impl HostUse {
    /// What it used since it had used `before`. High-water marks and the protocol's counters are of
    /// the whole time.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.cpu_busy = self.cpu_busy.saturating_sub(before.cpu_busy);
        self.overflowed = self.overflowed.saturating_sub(before.overflowed);
        self
    }

    /// A counter of the protocol.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let found = self.counters.iter().find(|(counter, _)| *counter == name);
        found.map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_taken_off_what_adds_up_and_not_off_high_water_marks() {
        let before = LinkUse {
            packets: 10,
            bytes: 1_000,
            busy: Some(Duration::from_millis(10)),
            queue_max_bytes: 500,
            ..LinkUse::default()
        };
        let after = LinkUse {
            packets: 30,
            bytes: 4_000,
            busy: Some(Duration::from_millis(260)),
            queue_max_bytes: 600,
            ..LinkUse::default()
        };
        let since = after.since(&before);
        assert_eq!(
            (since.packets, since.bytes, since.queue_max_bytes),
            (20, 3_000, 600)
        );
        assert_eq!(since.utilisation(Duration::from_secs(1)), Some(0.25));
        assert_eq!(since.utilisation(Duration::ZERO), None);
        assert_eq!(LinkUse::default().utilisation(Duration::from_secs(1)), None);
    }
}
