//! What a simulator or a laboratory does with a protocol, beyond hosting it. No product does.

use alloc::boxed::Box;

use crate::id::MemberId;
use crate::protocol::Ordered;
use crate::time::Time;
use crate::trace::Observation;

/// A protocol that experiments can set up and measure.
pub trait Instrumented: Ordered {
    /// Lets the member know, without a datagram, that `peer` is in the group. It does nothing for a
    /// protocol whose members have to find each other.
    fn introduce(&mut self, now: Time, peer: MemberId) {
        let _ = (now, peer);
    }

    /// What else an observer sees of the member, of an instance that is more than a protocol: what
    /// the protocol under it accepted, what its own users saw. It stands in the history before the
    /// event that is polled next. Nothing by default.
    fn poll_observation(&mut self) -> Option<Observation> {
        None
    }

    /// Lists what the member counts and holds, by name, from its typed counters. `buffered` is the
    /// bytes or packets that it keeps for others; all other names are the protocol's own. Nothing
    /// by default.
    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let _ = each;
    }
}

impl<P: Instrumented + ?Sized> Instrumented for Box<P> {
    fn introduce(&mut self, now: Time, peer: MemberId) {
        (**self).introduce(now, peer);
    }

    fn poll_observation(&mut self) -> Option<Observation> {
        (**self).poll_observation()
    }

    fn measure(&self, each: &mut dyn FnMut(&'static str, u64)) {
        (**self).measure(each);
    }
}
