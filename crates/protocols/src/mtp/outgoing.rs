//! A message on its way out: packets in windows, one a heartbeat at least, kept for as long as
//! others may ask for them.

use alloc::collections::BTreeSet;
use core::ops::Range;

use bytes::Bytes;
use groupcast_core::Time;

use super::Mtp;
use super::config::MtpConfig;
use super::statuses::Statuses;
use super::wire::Data;

/// A message that has its token.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: u64,
    pub(super) number: u64,
    pub(super) payload: Bytes,
    /// Packets with bytes, and packets in all: as many as heartbeats of the retention at least.
    content: u32,
    total: u32,
    next: u32,
    /// Packets that others miss.
    repairs: BTreeSet<u32>,
    /// Until when it is kept, once all was sent.
    pub(super) until: Option<Time>,
}

impl Outgoing {
    pub(super) fn new(config: &MtpConfig, message: u64, number: u64, payload: Bytes) -> Self {
        let content = payload.len().div_ceil(Mtp::PACKET).max(1) as u32;
        Self {
            message,
            number,
            payload,
            content,
            total: content.max(config.retention),
            next: 0,
            repairs: BTreeSet::new(),
            until: None,
        }
    }

    /// Whether all of it was sent once.
    pub(super) fn is_sent(&self) -> bool {
        self.next == self.total
    }

    /// Others miss these.
    pub(super) fn nack(&mut self, missing: &Range<u32>) {
        let sent = missing.start..missing.end.min(self.next);
        self.repairs.extend(sent);
    }

    /// The next packet of a heartbeat in which `credit` packets are left, `sent` of this message
    /// before it.
    pub(super) fn next(&mut self, statuses: Statuses, credit: u32, sent: u32) -> Option<Data> {
        let (packet, again) = match self.repairs.pop_first() {
            Some(packet) => (packet, true),
            // What has no bytes is there to be heard: once a heartbeat.
            None if self.next < self.content || self.next < self.total && sent == 0 => {
                self.next += 1;
                (self.next - 1, false)
            }
            None => return None,
        };
        let start = (packet as usize * Mtp::PACKET).min(self.payload.len());
        let end = (start + Mtp::PACKET).min(self.payload.len());
        let is_last = self.repairs.is_empty() && self.next >= self.content;
        Some(Data {
            statuses,
            message: self.message,
            packet,
            ends: packet + 1 == self.content,
            ends_window: credit == 1 || is_last,
            again,
            number: self.number,
            bytes: self.payload.slice(start..end),
        })
    }
}
