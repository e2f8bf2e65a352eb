//! Connections on which nobody answers (003 5.3.2: `X_Mopen` for unreliable transmission). The
//! sender begins at once, asks nobody, and keeps nothing that it has sent; who hears it, takes what
//! comes. It repeats its announcement for those that come later, and says now and then that it is
//! there.

use alloc::boxed::Box;
use core::time::Duration;

use super::super::context::Context;
use super::super::numbers::{PacketNumber, PassNumber, Stamp};
use super::super::ranges::RangeSet;
use super::super::transfer::{Notice, Opening};
use super::super::wire::DataHeader;
use super::gate::Gate;
use super::state::{Pass, Sending, Starting, State};
use super::{Sender, Timer};

impl Sender {
    /// Whether nobody answers.
    pub(in super::super) fn is_unanswered(&self) -> bool {
        self.opening == Opening::Unanswered
    }

    /// Begins without receivers.
    pub(super) fn begin_unanswered(&mut self, context: &mut Context<'_>) {
        if !matches!(self.state, State::Announcing(_)) {
            return;
        }
        self.timers.cancel(Timer::Begin);
        let pass = Pass {
            number: PassNumber::FIRST,
            ..Pass::default()
        };
        let since = context.now;
        self.transition(context, "nobody is asked", |_| {
            State::Starting(Starting {
                pass,
                listed_below: PacketNumber::ZERO,
                since,
                asked: 0,
                backoff: 0,
            })
        });
        let mut all = RangeSet::default();
        all.insert(PacketNumber::ZERO..PacketNumber::END);
        self.stream.begin(all);
        self.transition(context, "nobody is asked", |before| {
            State::Sending(Sending {
                pass: before.into_pass(),
                gate: Gate::Known,
                base: PacketNumber::ZERO,
                parities: Box::default(),
                backoff: 0,
                awaits_reports: false,
                asks: false,
            })
        });
        let (id, receivers) = (self.id, 0);
        context.notify(Notice::Started { id, receivers });
        self.advance(context);
    }

    /// Keeps nothing of what was sent.
    pub(super) fn release_sent(&mut self) {
        let sent = self.stream.top();
        if matches!(self.state, State::Sending(_)) {
            self.release(sent);
            while self.stream.next_held().is_some() {}
        }
    }

    /// Whether everything was sent that will be.
    fn has_sent_all(&self) -> bool {
        self.stream.top() >= self.stream.pass_end()
    }

    /// It has said nothing for a while, or everything.
    pub(super) fn act_unanswered(&mut self, context: &mut Context<'_>) {
        if !self.has_sent_all() {
            // So that receivers know that it is there. None answers.
            self.poll(context);
        }
        self.advance(context);
    }

    /// Sets the timer for that.
    pub(super) fn arm_unanswered(&mut self, context: &Context<'_>) {
        let patience = match self.has_sent_all() {
            true => Duration::ZERO,
            false => context.config.vanish_after / 8,
        };
        self.timers.set(Timer::Retransmit, context.now + patience);
    }

    /// The header of a packet: it asks nobody, and says of which message the packet is, and how
    /// many packets of that go before.
    pub(super) fn number_unanswered(&self, header: DataHeader) -> DataHeader {
        let (message, index) = self.stream.message_of(header.number);
        DataHeader {
            answer: false,
            stamp: Stamp(message),
            kept: u16::try_from(index).unwrap_or(u16::MAX),
            ..header
        }
    }

    /// Whether its only pass is over.
    pub(super) fn has_passed(&self) -> bool {
        matches!(self.state, State::Concluding(_))
    }
}
