//! Whom a sender waits for before the first byte: those whom the transfer names or counts, or whoever is there.

use alloc::vec::Vec;

use groupcast_core::{Incarnation, MemberId, Time};

use super::super::outbox::Context;
use super::super::receiver::Life;
use super::super::transfer::{Outcome, PhaseKind, Wanted};
use super::{Sender, Timer};

impl Sender {
    /// Whether everybody that is wanted is there.
    pub(super) fn is_complete(&self, context: &Context<'_>) -> bool {
        match &self.transfer.receivers {
            Wanted::Count(count) => self.peers.len() >= *count,
            Wanted::Members(nodes) => nodes.iter().all(|node| {
                let known = self.peers.keys().chain(self.settled.keys());
                known.into_iter().any(|member| member.node == *node)
            }),
            Wanted::Open => false,
            Wanted::Present => self.counted && self.silent_until(context).is_none(),
        }
    }

    /// When the last of those who were heard of late, and have not answered, is to be given up.
    fn silent_until(&self, context: &Context<'_>) -> Option<Time> {
        let answered = |member: &MemberId| {
            self.peers.contains_key(member) || self.settled.contains_key(member)
        };
        let silence = context.config.vanish_after;
        let present = context.others.present(context.now, silence);
        let silent = present.filter(|(member, _)| !answered(member));
        // Who is heard, but does not hear, holds up nobody for longer.
        let limit = self.announced + silence;
        let until = silent.map(|(_, until)| until.min(limit)).max();
        until.filter(|until| *until > context.now)
    }

    /// The time to register is over: begins, unless somebody is to be waited for who was heard of late, or nobody is there
    /// yet.
    pub(super) fn begin_with_present(&mut self, context: &mut Context<'_>) -> Life {
        let config = context.config;
        let waits = if self.peers.is_empty() && self.settled.is_empty() {
            let alone = context
                .others
                .alone_from(config.vanish_after, config.register_within);
            let limit = self.announced + config.register_within;
            Some(alone.min(limit)).filter(|until| *until > context.now)
        } else {
            self.counted = true;
            self.silent_until(context)
        };
        match waits {
            Some(until) => {
                self.timers.set(Timer::Begin, until);
                Life::Goes
            }
            None => self.begin(context),
        }
    }

    /// The user does not want to wait any longer.
    pub(in crate::bulk) fn begin(&mut self, context: &mut Context<'_>) -> Life {
        if self.phase != PhaseKind::Announcing {
            return Life::Goes;
        }
        if let Wanted::Members(nodes) = &self.transfer.receivers {
            let here = |node: &_| {
                let mut known = self.peers.keys().chain(self.settled.keys());
                known.any(|member| member.node == *node)
            };
            let absent: Vec<_> = nodes.iter().filter(|node| !here(node)).copied().collect();
            for node in absent {
                let incarnation = Incarnation(0);
                self.settle(context, MemberId { node, incarnation }, Outcome::Absent);
            }
        }
        self.timers.cancel(Timer::Begin);
        self.begin_pass(context);
        self.advance(context)
    }
}
