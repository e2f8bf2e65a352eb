//! Control messages that wait to be sent, in order, and what every part of an endpoint works with.

use alloc::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Rng, SocketClass, Time, Transmit, TransmitBuf};

use super::config::BulkConfig;
use super::counters::Counters;
use super::others::Others;
use super::transfer::Notice;
use super::wire::Message;

/// Encoded messages in the order in which they leave.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<(Transmit, Bytes)>,
}

impl Outbox {
    /// Messages that wait at most. Each input adds few, and every driver drains between inputs; what a flood of inputs
    /// adds beyond is dropped, and asked for again.
    const QUEUE_MAX: usize = 16_384;

    /// To one member: it arrives where control messages do.
    pub(super) fn unicast(&mut self, to: MemberId, transfer: u32, message: &Message) {
        let destination = Destination::Member(to);
        self.push(destination, SocketClass::Token, transfer, message);
    }

    /// To all: it arrives where data does.
    pub(super) fn multicast(&mut self, transfer: u32, message: &Message) {
        self.push(Destination::Group, SocketClass::Data, transfer, message);
    }

    fn push(
        &mut self,
        destination: Destination,
        class: SocketClass,
        transfer: u32,
        message: &Message,
    ) {
        if self.queue.len() < Self::QUEUE_MAX {
            let transmit = Transmit { destination, class };
            self.queue.push_back((transmit, message.encode(transfer)));
        }
    }

    pub(super) fn poll_transmit(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (transmit, body) = self.queue.pop_front()?;
        buf.push(&[&body]);
        Some(transmit)
    }
}

/// What an input is worked on with: the time, the settings, and where results go.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) now: Time,
    pub(super) local: MemberId,
    pub(super) config: &'a BulkConfig,
    pub(super) others: &'a mut Others,
    pub(super) rng: &'a mut Rng,
    pub(super) outbox: &'a mut Outbox,
    pub(super) notices: &'a mut VecDeque<Notice>,
    pub(super) counters: &'a mut Counters,
}

impl Context<'_> {
    /// Tells the user.
    pub(super) fn notify(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }
}
