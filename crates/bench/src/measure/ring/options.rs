//! What `groupcast bench ring` can be told, and what of it a daemon is told.

use std::time::Duration;

use groupcast_core::Service;
use groupcast_core::family::OrderFamily;
use groupcast_net::Spin;
use groupcast_protocols::ring::ORDER;
use serde::{Deserialize, Serialize};

use super::super::report::Rate;
use super::super::stamp::Stamp;
use crate::testbed::Link;

/// The shortest payload: what a message is measured by.
pub const SIZE_MIN: usize = Stamp::LEN;
/// The longest payload that is measured: 16 MiB.
pub const SIZE_MAX: usize = 16 << 20;

/// How the measured messages reach the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Through a daemon on every host: one client sends, another receives.
    Daemon,
    /// The ring is in the one process of every host, which sends and receives.
    Library,
}

impl Mode {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Library => "library",
        }
    }
}

/// Which clients a daemon has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClientsOf {
    /// One that sends and one that receives.
    #[default]
    Two,
    /// One that does both, as other systems are measured.
    One,
}

impl ClientsOf {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Two => "two",
            Self::One => "one",
        }
    }
}

/// Windows of the ring that do not tune themselves, and when the token gets its priority back (002
/// III-A.1, III-C).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Windows {
    /// Most new packets a visit; tuned without.
    pub personal: Option<u32>,
    /// Most packets of all members a rotation; tuned without.
    pub global: Option<u32>,
    /// Most packets after the token; three quarters of the personal window without.
    pub accelerated: Option<u32>,
    /// When the token gets its priority back.
    pub method: Method,
}

/// When the token gets its priority back (002 III-C).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// On any data of the predecessor's next round.
    First,
    /// On data that the predecessor sent after its token.
    #[default]
    Second,
}

/// Whether the members poll their sockets before they sleep.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spinning {
    /// As the driver decides by itself ([`Spin::Auto`]): not on four cores or fewer.
    #[default]
    Auto,
    /// For up to [`SPIN`] at every wait, also where other processes want the processor.
    On,
    /// It never spins.
    Off,
}

/// How long a member polls at every wait, if it is told to: longer than a token takes to come back.
pub const SPIN: Duration = Duration::from_millis(1);

impl Spinning {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// The driver's setting.
    pub(in super::super) const fn setting(self) -> Spin {
        match self {
            Self::Auto => Spin::Auto,
            Self::On => Spin::For(SPIN),
            Self::Off => Spin::Off,
        }
    }

    /// The table of a daemon's configuration file that says the same.
    fn table(self) -> String {
        let spin = match self {
            Self::Auto | Self::Off => self.name().to_owned(),
            Self::On => format!("{} us", SPIN.as_micros()),
        };
        format!("[net]\nspin = \"{spin}\"\n")
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Hosts, 2 to 64.
    pub hosts: usize,
    /// Payload of a message in bytes, [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: usize,
    /// The service of every message.
    pub service: Service,
    /// How much is offered.
    pub rate: Rate,
    /// The wires.
    pub link: Link,
    /// How long to count.
    pub duration: Duration,
    /// Whether the members have a key.
    pub encrypt: bool,
    /// How messages reach the ring.
    pub mode: Mode,
    /// What orders messages.
    pub order: &'static OrderFamily,
    /// The ring's windows; without a meaning for another order.
    pub windows: Windows,
    /// Whether one host sends alone, in each run the next one.
    pub is_lone: bool,
    /// Whether members poll before they sleep.
    pub spin: Spinning,
    /// Of 1,000 frames that reach a host so many are lost, at random, from when the ring stands.
    /// The raw limit is that of the whole network.
    pub loss_permille: u16,
    /// The clients of a daemon; without a meaning for members without daemons.
    pub clients: ClientsOf,
    /// Whether to count what the processes do for a message.
    pub wakes: bool,
}

impl RingOptions {
    /// Nanoseconds between two messages of one sender; `None` if it sends as fast as it may.
    pub(in super::super) fn interval(&self) -> Option<u64> {
        let senders = if self.is_lone { 1 } else { self.hosts };
        match self.rate {
            Rate::Max => None,
            Rate::Mbps(rate) => Some(interval(self.size, rate / senders as f64)),
        }
    }

    /// Whether `host`, from 1, sends in run `run`, from 0.
    pub(in super::super) fn sends(&self, host: usize, run: usize) -> bool {
        !self.is_lone || host == run % self.hosts + 1
    }

    /// The name of the order, and of the ring's two forms: whether members send after the token
    /// (`accelerated`), or only before it (`original`).
    pub(in super::super) fn protocol(&self) -> &'static str {
        match (self.is_ring(), self.windows.accelerated) {
            (true, Some(0)) => "original",
            (true, _) => "accelerated",
            (false, _) => self.order.name(),
        }
    }

    fn is_ring(&self) -> bool {
        *self.order == ORDER
    }

    /// The beginning of a daemon's configuration file that says the same.
    pub(in super::super) fn configuration(&self) -> String {
        let mut text = format!("protocol = \"{}\"\n", self.order.name());
        if self.is_ring() {
            text += &self.windows.table();
        }
        text + &self.spin.table()
    }
}

impl Windows {
    /// The table of a daemon's configuration file that says the same.
    fn table(&self) -> String {
        let method = match self.method {
            Method::First => "first",
            Method::Second => "second",
        };
        let mut table = format!("[ring]\npriority = \"{method}\"\n");
        for (key, window) in [
            ("personal_window", self.personal),
            ("global_window", self.global),
            ("accelerated_window", self.accelerated),
        ] {
            if let Some(window) = window {
                table += &format!("{key} = {window}\n");
            }
        }
        table
    }
}

/// Nanoseconds between messages of `size` bytes at `mbps`.
pub(in super::super) fn interval(size: usize, mbps: f64) -> u64 {
    (size as f64 * 8.0 * 1000.0 / mbps) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_megabit_of_125_byte_messages_is_one_a_millisecond() {
        assert_eq!(interval(125, 1.0), 1_000_000);
    }

    #[test]
    fn spinning_is_told_to_a_daemon_by_its_own_key() {
        assert_eq!(Spinning::Auto.table(), "[net]\nspin = \"auto\"\n");
        assert_eq!(Spinning::On.table(), "[net]\nspin = \"1000 us\"\n");
    }

    #[test]
    fn windows_are_told_to_a_daemon_by_its_own_keys() {
        let original = Windows {
            personal: Some(20),
            accelerated: Some(0),
            ..Windows::default()
        };
        assert_eq!(
            original.table(),
            "[ring]\npriority = \"second\"\npersonal_window = 20\naccelerated_window = 0\n"
        );
    }
}
