//! What 001's figures are measured on: systems, their parameters, and what the paper leaves open.

pub(super) use groupcast_bench::measure::lan::System;

use super::points::Key;

/// The most receivers (001 section 5: 31 machines, one of which sends).
pub(super) const RECEIVERS: u32 = 30;
/// "500KB".
pub(super) const KB500: u64 = 500_000;
/// "2MB".
pub(super) const MB2: u64 = 2_000_000;

/// One point of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LanPoint {
    pub(super) system: System,
    pub(super) receivers: u32,
    /// Bytes of a message.
    pub(super) size: u64,
    /// Bytes of it in a packet.
    pub(super) packet: u32,
    /// Packets.
    pub(super) window: u32,
    pub(super) open: Open,
}

/// What 001 does not print.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Open {
    /// Nanoseconds a byte of the copy from the user's memory into the protocol's, which the sender
    /// makes before it sends a packet; 0 is "the protocol without the copy" (001 Fig. 9).
    pub(super) copy: u64,
    /// What of a message may wait in the sender's kernel, in KiB: Linux 2.2 has 64 unless asked.
    pub(super) send_buffer: u64,
    /// What everything costs the processor, in percent of the preset's estimate.
    pub(super) costs: u64,
    /// What a link between a machine and its switch is.
    pub(super) duplex: Duplex,
}

/// Whether both ends of a link may send at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Duplex {
    /// They may.
    Full,
    /// They share the cable, as on 10BASE-T: carrier sense, collisions, back-off (CSMA/CD).
    Half,
}

impl Duplex {
    /// The word for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Half => "half",
        }
    }
}

impl Open {
    /// What the figures are measured with. 4 ns a byte is what memory of such machines copies at.
    /// With twice the preset's costs ACK's 426,502 B take about 4 ms more to 30 receivers than to
    /// one, as in Fig. 8.
    pub(super) const DEFAULT: Self = Self {
        copy: 4,
        send_buffer: 64,
        costs: 200,
        duplex: Duplex::Full,
    };
}

impl Open {
    /// Whether a point was measured with it; one without the copy may be.
    pub(super) fn is_of(&self, key: &Key) -> bool {
        let Self {
            copy,
            send_buffer,
            costs,
            duplex,
        } = *self;
        (key.copy == copy as f64 || key.copy == 0.0)
            && key.send_buffer == send_buffer as f64
            && key.costs == costs as f64
            && key.duplex == duplex.name()
    }

    /// How it differs from the default, in words.
    pub(super) fn name(&self) -> String {
        let default = Self::DEFAULT;
        let mut words = Vec::new();
        if self.copy != default.copy {
            words.push(format!("a copy of {} ns a byte", self.copy));
        }
        if self.send_buffer != default.send_buffer {
            words.push(format!("{} KiB to send", self.send_buffer));
        }
        if self.costs != default.costs {
            words.push(format!("costs of {} %", self.costs));
        }
        if self.duplex != default.duplex {
            words.push(format!("{} duplex links", self.duplex.name()));
        }
        words.join(", ")
    }
}

impl LanPoint {
    /// 500 KB to all 30 in 8 KB packets.
    pub(super) fn new(system: System, packet: u32, window: u32) -> Self {
        Self {
            system,
            receivers: RECEIVERS,
            size: KB500,
            packet,
            window,
            open: Open::DEFAULT,
        }
    }

    /// The same with a message of this many bytes.
    pub(super) fn size(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// The same with this many receivers.
    pub(super) fn to(self, receivers: u32) -> Self {
        Self { receivers, ..self }
    }

    /// What its point is of.
    pub(super) fn key(&self) -> Key {
        Key {
            system: self.system.name().to_owned(),
            receivers: f64::from(self.receivers),
            size: self.size as f64,
            packet: f64::from(self.packet),
            window: f64::from(self.window),
            poll: match self.system {
                System::Nak { poll } => f64::from(poll),
                _ => f64::NAN,
            },
            height: match self.system {
                System::Tree { height } => f64::from(height),
                _ => f64::NAN,
            },
            copy: self.open.copy as f64,
            send_buffer: self.open.send_buffer as f64,
            costs: self.open.costs as f64,
            duplex: self.open.duplex.name().to_owned(),
        }
    }
}

/// The poll interval of which 001 found that it is best: 80 to 90 % of the window.
pub(super) fn best_poll(window: u32) -> u32 {
    (window * 17 / 20).max(1)
}
