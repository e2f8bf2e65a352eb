//! What every transfer of an endpoint works with: settings, known members, randomness, and where
//! results go.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::trace::Transition;
use groupcast_core::{Destination, MemberId, Rng, SocketClass, Time, Transmit, TransmitBuf};

use super::config::BulkConfig;
use super::counters::Counters;
use super::farewells::Farewells;
use super::known::KnownMembers;
use super::responses::Responses;
use super::transfer::Notice;
use super::wire::Message;
use crate::xgm::Subgroups;

/// What the transfers of one endpoint share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) local: MemberId,
    pub(super) config: BulkConfig,
    /// When the host had the datagram that is or was handled last.
    pub(super) arrived: Time,
    /// Those that this endpoint is in as a receiver.
    pub(super) subgroups: Subgroups,
    /// Hosts that receive, as group management has counted.
    pub(super) group_size: Option<usize>,
    pub(super) known: KnownMembers,
    /// The members that multicasts do not reach.
    pub(super) without: Vec<MemberId>,
    pub(super) rng: Rng,
    pub(super) outbox: Outbox,
    pub(super) responses: Responses,
    pub(super) farewells: Farewells,
    pub(super) notices: VecDeque<Notice>,
    pub(super) transitions: VecDeque<Transition>,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn new(local: MemberId, config: BulkConfig, rng: Rng) -> Self {
        let responses = Responses::new(config.response_contexts);
        Self {
            local,
            config,
            arrived: Time::ZERO,
            subgroups: Subgroups::ALL,
            group_size: None,
            known: KnownMembers::default(),
            without: Vec::new(),
            rng,
            outbox: Outbox::default(),
            responses,
            farewells: Farewells::default(),
            notices: VecDeque::new(),
            transitions: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The context of an input at `now`.
    pub(super) fn at(&mut self, now: Time) -> Context<'_> {
        Context {
            now,
            arrived: self.arrived,
            local: self.local,
            config: &self.config,
            subgroups: self.subgroups,
            group_size: self.group_size,
            known: &mut self.known,
            without: &self.without,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            responses: &mut self.responses,
            farewells: &mut self.farewells,
            notices: &mut self.notices,
            transitions: &mut self.transitions,
            counters: &mut self.counters,
        }
    }
}

/// What a transfer works on an input with. The settings cannot be changed through it.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) now: Time,
    /// When the host had the datagram that is handled, if one is: no later than `now`.
    pub(super) arrived: Time,
    pub(super) local: MemberId,
    pub(super) config: &'a BulkConfig,
    pub(super) subgroups: Subgroups,
    pub(super) group_size: Option<usize>,
    pub(super) known: &'a mut KnownMembers,
    /// The members that multicasts do not reach.
    pub(super) without: &'a [MemberId],
    pub(super) rng: &'a mut Rng,
    pub(super) outbox: &'a mut Outbox,
    pub(super) responses: &'a mut Responses,
    pub(super) farewells: &'a mut Farewells,
    notices: &'a mut VecDeque<Notice>,
    transitions: &'a mut VecDeque<Transition>,
    pub(super) counters: &'a mut Counters,
}

impl Context<'_> {
    /// Transitions that wait for [`poll_transition`](groupcast_core::Protocol::poll_transition);
    /// older ones are dropped.
    const TRANSITIONS_MAX: usize = 64;

    /// Has the user learn `notice`.
    pub(super) fn notify(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    /// Whether that bug is planted.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(super) fn plants_stale_answers(&self) -> bool {
        use super::config::{PlantedInBuckets, Policy};
        let planted = Some(PlantedInBuckets::StaleDamps);
        matches!(self.config.policy, Policy::Xtp(xtp) if xtp.planted == planted)
    }

    /// Records that a transfer went along one of the `legal` edges.
    ///
    /// # Panics
    /// If there is no such edge: that is a bug of this module.
    pub(super) fn record(&mut self, legal: &[(&str, &str)], transition: Transition) {
        let Transition {
            from, to, cause, ..
        } = transition;
        let is_legal = legal.contains(&(from, to));
        assert!(is_legal, "no edge from {from} to {to} ({cause})");
        if self.transitions.len() == Self::TRANSITIONS_MAX {
            self.transitions.pop_front();
        }
        self.transitions.push_back(transition);
    }
}

/// Encoded control messages, in the order in which they leave.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<(Transmit, Bytes)>,
}

impl Outbox {
    /// Messages that wait at most. Each input adds few, and every driver drains between inputs;
    /// what a flood of inputs adds beyond is dropped, and asked for again.
    const QUEUE_MAX: usize = 16_384;

    /// To one member: it arrives on the socket for control messages.
    pub(super) fn unicast(&mut self, to: MemberId, transfer: u32, message: &Message) {
        let destination = Destination::Member(to);
        self.push(destination, SocketClass::Control, transfer, message);
    }

    /// To all: it arrives on the socket for data, in order with the data.
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
