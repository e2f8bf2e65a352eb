//! TCP-like flows: what a protocol meets on a link that it does not have for itself.
//!
//! A flow sends from one host to another for as long as it may, through the same links and
//! queues as everything else, and adapts as TCP does: windows in bytes, selective
//! acknowledgements, delayed acknowledgements, timeouts, and one of three ways to control
//! congestion ([`Congestion`]). It is a value like a protocol: segments and times in, segments and
//! times out. The world carries them.
//!
//! What it leaves out of TCP: connections are open from the start, all segments are full, the
//! receiver always has room and reads at once, its host's processor costs nothing, and slow start
//! ends with the first loss (no HyStart). At a full queue of its own host a segment is dropped like
//! anywhere else.
//!
//! - `sender`: windows, losses, timeouts.
//! - `receiver`: what has arrived, and when that is acknowledged.
//! - `control`: how large the window is, after Reno, CUBIC and BBR.

mod control;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use std::time::Duration;

use groupcast_core::Time;
use serde::Serialize;

use self::receiver::Receiver;
use self::sender::Sender;

/// How a flow controls congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// RFC 5681: a segment more each round trip, half the window after a loss.
    Reno,
    /// RFC 9438: what Linux, Windows and macOS do unless told otherwise.
    Cubic,
    /// The first version of BBR: at the rate that went through, whatever is lost.
    Bbr,
}

/// A flow between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowConfig {
    /// The host that sends, and the one that receives.
    pub hosts: [usize; 2],
    /// How it controls congestion.
    pub congestion: Congestion,
    /// When it begins.
    pub start: Time,
    /// From then on it sends nothing new.
    pub stop: Time,
    /// Bytes of the stream in a segment. Default 1,448: a full Ethernet frame.
    pub segment: u32,
    /// The most bytes that are on their way or wait for those before them. Default 6 MiB, as on
    /// Linux.
    pub window_max: u64,
}

impl FlowConfig {
    /// A flow that sends all the time.
    pub fn new(hosts: [usize; 2], congestion: Congestion) -> Self {
        Self {
            hosts,
            congestion,
            start: Time::ZERO,
            stop: Time::MAX,
            segment: 1_448,
            window_max: 6 << 20,
        }
    }
}

/// What a flow did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct FlowUse {
    /// Bytes that its receiver has without a gap.
    pub delivered_bytes: u64,
    /// Segments sent, repeated ones included.
    pub segments: u64,
    /// Segments sent again.
    pub repeated: u64,
    /// How often nothing came back for so long that all was sent again.
    pub timeouts: u64,
}

impl FlowUse {
    /// What it did since it had done `before`.
    pub(crate) fn since(self, before: &Self) -> Self {
        Self {
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
            segments: self.segments - before.segments,
            repeated: self.repeated - before.repeated,
            timeouts: self.timeouts - before.timeouts,
        }
    }
}

/// What crosses the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segment {
    /// A part of the stream, by its number from 0, and when it was sent.
    Data { number: u64, sent: Time },
    /// What has arrived.
    Ack(Ack),
}

/// What a receiver says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    /// All before this one are there.
    next: u64,
    /// Of those behind: from, and to below. The last that grew is first; empty ones say nothing.
    blocks: [(u64, u64); 3],
    /// When the segment was sent for which this is due.
    echo: Time,
}

/// A segment that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    pub(crate) segment: Segment,
    /// From which host to which.
    pub(crate) hosts: [usize; 2],
    /// Bytes of the IP packet that are not IP's or UDP's, to which the fabric adds those.
    pub(crate) len: u32,
}

/// IP and TCP headers with time stamps, beyond the 28 bytes that the fabric adds to everything.
const HEADERS: u32 = 24;

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    config: FlowConfig,
    sender: Sender,
    receiver: Receiver,
}

impl Flow {
    /// A flow of which nothing was sent yet.
    pub(crate) fn new(config: FlowConfig) -> Self {
        Self {
            config,
            sender: Sender::new(&config),
            receiver: Receiver::default(),
        }
    }

    /// A segment has arrived where it was to go.
    pub(crate) fn handle_segment(&mut self, now: Time, segment: Segment) {
        match segment {
            Segment::Data { number, sent } => self.receiver.arrived(now, number, sent),
            Segment::Ack(ack) => self.sender.acknowledged(now, &ack),
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now);
        self.receiver.handle_timeout(now);
    }

    /// The next segment to send.
    pub(crate) fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        let [from, to] = self.config.hosts;
        if let Some(ack) = self.receiver.poll() {
            return Some(Outgoing {
                segment: Segment::Ack(ack),
                hosts: [to, from],
                len: HEADERS,
            });
        }
        let number = self.sender.poll(now)?;
        Some(Outgoing {
            segment: Segment::Data { number, sent: now },
            hosts: [from, to],
            len: HEADERS + self.config.segment,
        })
    }

    /// When something is to happen without a segment.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let due = [self.sender.due(), self.receiver.due()];
        due.into_iter().flatten().min()
    }

    /// What it did so far.
    pub(crate) fn used(&self) -> FlowUse {
        FlowUse {
            delivered_bytes: self.receiver.next() * u64::from(self.config.segment),
            ..self.sender.used()
        }
    }
}

/// How long an acknowledgement may wait for a second segment.
const ACK_DELAY: Duration = Duration::from_millis(40);
