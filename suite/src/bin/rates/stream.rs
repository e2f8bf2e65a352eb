//! A member that sends one transfer without end, or takes what others send and keeps none of it: a
//! file to many hosts, for as long as the world runs.

use std::collections::VecDeque;

use bytes::Bytes;
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service, SubmitError, Time,
    Transmit, TransmitBuf, Uplink,
};
use groupcast_protocols::bulk::{
    Acceptance, Bulk, BulkConfig, DeliverTo, Notice, RateControl, SlowPolicy, Transfer, TransferId,
    Wanted,
};
use groupcast_protocols::xgm::Subgroups;

/// Bytes that are offered at a time.
const PIECE: usize = 256 << 10;

pub(crate) struct Stream {
    bulk: Bulk,
    /// How many receivers a transfer of its own waits for.
    receivers: usize,
    sending: Option<TransferId>,
    zeros: Bytes,
    events: VecDeque<Event>,
}

impl Stream {
    pub(crate) fn new(local: MemberId, rate: RateControl, receivers: usize, rng: Rng) -> Self {
        let config = BulkConfig {
            rate,
            announce_interval: std::time::Duration::from_millis(20),
            // Left to a later pass, who is behind the shared link would share nothing.
            slow: SlowPolicy::Wait,
            ..BulkConfig::lan()
        };
        Self {
            bulk: Bulk::new(local, config, rng).expect("settings of a preset fit"),
            receivers,
            sending: None,
            zeros: vec![0; PIECE].into(),
            events: VecDeque::new(),
        }
    }

    /// Packets that came for the first time.
    pub(crate) fn received(&self) -> u64 {
        let counters = self.bulk.counters();
        counters.packets_received + counters.packets_restored
            - counters.duplicates
            - counters.refused
    }

    fn work(&mut self, now: Time) {
        while let Some(notice) = self.bulk.poll_event() {
            match notice {
                Notice::Announced { id, .. } => {
                    let acceptance = Acceptance::in_order(Bytes::new());
                    let accepted = self.bulk.accept(now, id, &acceptance);
                    debug_assert!(accepted.is_ok(), "it was announced just now");
                }
                Notice::Data { id, bytes, .. } => self.bulk.consumed(now, id, bytes.len() as u64),
                _ => {}
            }
        }
        while let Some(id) = self.sending
            && let Some(wanted) = self.bulk.wanted(id)
        {
            let len = (wanted.end - wanted.start).min(PIECE as u64) as usize;
            if len == 0 || self.bulk.offer(now, id, self.zeros.slice(..len)).is_err() {
                break;
            }
        }
    }
}

impl Protocol for Stream {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.handle_arrival(now, now, from, body);
    }

    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        self.bulk.handle_arrival(now, arrived, from, body);
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.bulk.handle_timeout(now);
        self.work(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.bulk.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.bulk.poll_timeout()
    }

    fn listens(&self) -> bool {
        self.bulk.listens()
    }

    fn wants_uplink(&self, now: Time) -> bool {
        self.bulk.wants_uplink(now)
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        self.bulk.handle_uplink(now, uplink);
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        self.bulk.handle_copies(now, members);
    }

    fn copies_to(&self, member: MemberId) -> bool {
        self.bulk.copies_to(member)
    }
}

impl Instrumented for Stream {}

impl Ordered for Stream {
    /// Begins the transfer; the message itself says nothing.
    fn submit(&mut self, now: Time, _: Service, _: Bytes) -> Result<MessageId, SubmitError> {
        let transfer = Transfer {
            about: Bytes::new(),
            length: None,
            rewindable: true,
            receivers: Wanted::Count(self.receivers),
            subgroups: Subgroups::ALL,
            deliver_to: DeliverTo::AtOnce,
            confirm: false,
            replies: false,
            strict: false,
        };
        self.sending = self.bulk.send(now, transfer).ok();
        self.work(now);
        let sender = self.local();
        Ok(MessageId { sender, number: 1 })
    }

    fn services(&self) -> &'static [Service] {
        &[Service::Reliable]
    }

    fn leave(&mut self, _: Time) {
        self.events.push_back(Event::Left);
    }

    fn local(&self) -> MemberId {
        self.bulk.local()
    }
}
