//! Whom a sender waits for before the first byte: those whom the transfer names or counts, or whoever is there.

use alloc::vec::Vec;

use groupcast_core::{Incarnation, MemberId};

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
            Wanted::Present => self.counted && !self.is_anybody_silent(context),
        }
    }

    /// Whether somebody who is known has not answered yet.
    fn is_anybody_silent(&self, context: &Context<'_>) -> bool {
        let answered =
            |member| self.peers.contains_key(member) || self.settled.contains_key(member);
        !context.others.known().all(answered)
    }

    /// The time to register is over: begins, unless somebody is to be waited for who is known, or nobody ever was.
    pub(super) fn begin_with_present(&mut self, context: &mut Context<'_>) -> Life {
        let config = context.config;
        self.counted = !self.peers.is_empty() || !self.settled.is_empty();
        let until = if self.is_anybody_silent(context) {
            Some(self.announced + config.vanish_after)
        } else if self.counted {
            None
        } else {
            context.others.lonely_until(config.register_within)
        };
        let waits = until.filter(|until| *until > context.now);
        if waits.is_none() && until.is_some() {
            context.others.forget_silent(self.announced);
        }
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
