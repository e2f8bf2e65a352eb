//! The send queue of a member: which messages its user may submit, and when a refused user may try
//! again.
//!
//! A message is refused while the member leaves, if its service is not carried, if it is too long,
//! or if the queue is full. A single message is never too long for an empty queue: `message_max`
//! alone bounds it. After a refusal for want of room the user is told once, when no more than half
//! of the limit is in use: earlier, it would be refused again.
//!
//! What the queue consists of is the protocol's own, see [`Backlog`]; [`Fifo`] is the plain one.
//! Sending is left to the protocol: it takes what it sends out of the backlog, to which the queue
//! dereferences.

use core::ops::{Deref, DerefMut};

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::queue_limit::QueueLimit;
use crate::protocol::SubmitError;
use crate::service::Service;

/// What waits to be sent, in whatever form a protocol keeps it.
pub trait Backlog {
    /// The bytes that wait, as they count against the limit.
    fn bytes(&self) -> usize;

    /// Whether nothing waits; messages without a payload wait too.
    fn is_empty(&self) -> bool;
}

/// What a send queue accepts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SendLimits {
    /// The services that the protocol carries.
    pub services: &'static [Service],
    /// The most payload bytes of a message.
    pub message_max: usize,
    /// The most bytes that may wait. A single longer message is accepted when nothing waits.
    pub queue_max: usize,
}

/// Numbers the messages of a member's user, and holds them until they are sent.
///
/// ```
/// use bytes::Bytes;
/// use groupcast_core::mech::send_queue::{Fifo, SendLimits, SendQueue};
/// use groupcast_core::{Service, SubmitError};
///
/// let limits = SendLimits { services: &[Service::Fifo], message_max: 8, queue_max: 8 };
/// let mut queue = SendQueue::new(limits, Fifo::default());
/// assert_eq!(queue.submit(Service::Fifo, Bytes::from_static(b"hello")), Ok(1));
/// let refused = queue.submit(Service::Fifo, Bytes::from_static(b"world"));
/// assert_eq!(refused, Err(SubmitError::Full { queued: 5 }));
/// assert!(!queue.take_writable());
/// queue.pop();
/// assert!(queue.take_writable());
/// ```
#[derive(Clone, Hash, Debug)]
pub struct SendQueue<Q> {
    limits: SendLimits,
    /// The bytes that may wait now.
    limit: QueueLimit,
    backlog: Q,
    /// The number of the last message that was accepted.
    submitted: u64,
    /// A message was refused since the queue last had room.
    refused: bool,
    closed: bool,
}

impl<Q: Backlog> SendQueue<Q> {
    /// A queue around an empty `backlog`, in which `queue_max` bytes may wait.
    pub fn new(limits: SendLimits, backlog: Q) -> Self {
        Self {
            limits,
            limit: QueueLimit::fixed(limits.queue_max),
            backlog,
            submitted: 0,
            refused: false,
            closed: false,
        }
    }

    /// The same empty queue, in which, if it is `measured`, no more may wait than the protocol
    /// needs to send without a pause: [`took`](Self::took) tells that. `queue_max` stays the most.
    #[must_use]
    pub fn measured(self, measured: bool) -> Self {
        let limit = match measured {
            true => QueueLimit::measured,
            false => QueueLimit::fixed,
        };
        Self {
            limit: limit(self.limits.queue_max),
            ..self
        }
    }

    /// The protocol took out of the backlog what it could send at this time, before which `before`
    /// bytes waited.
    pub fn took(&mut self, before: usize) {
        let starved = self.refused && self.is_empty();
        self.limit.taken(before - self.bytes(), starved);
    }

    /// Accepts a message of `len` payload bytes and returns its number, which the caller then puts
    /// into the backlog.
    ///
    /// # Errors
    /// Why it is not accepted. No number is used up.
    pub fn admit(&mut self, service: Service, len: usize) -> Result<u64, SubmitError> {
        let SendLimits {
            services,
            message_max: max,
            ..
        } = self.limits;
        if self.closed {
            return Err(SubmitError::Leaving);
        }
        if !service.is_among(services) {
            return Err(SubmitError::Unsupported { service });
        }
        if len > max {
            return Err(SubmitError::TooLarge { len, max });
        }
        let queued = self.bytes();
        if !self.is_empty() && queued + len > self.limit.bytes() {
            self.refused = true;
            return Err(SubmitError::Full { queued });
        }
        self.submitted += 1;
        Ok(self.submitted)
    }

    /// The services that it accepts.
    pub fn services(&self) -> &'static [Service] {
        self.limits.services
    }

    /// Accepts no more messages: the member leaves. What waits stays.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether to tell the user now that there is room again. Says so once after a refusal.
    pub fn take_writable(&mut self) -> bool {
        let has_room = self.bytes() <= self.limit.bytes() / 2;
        has_room && core::mem::take(&mut self.refused)
    }

    /// The bytes that may wait now.
    pub fn room_max(&self) -> usize {
        self.limit.bytes()
    }

    /// The bytes that wait.
    pub fn bytes(&self) -> usize {
        self.backlog.bytes()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// How many messages were accepted, which is the number of the last.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }
}

impl<Q> Deref for SendQueue<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.backlog
    }
}

impl<Q> DerefMut for SendQueue<Q> {
    fn deref_mut(&mut self) -> &mut Q {
        &mut self.backlog
    }
}

/// An accepted message that waits to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Its number, from 1 on without a gap.
    pub number: u64,
    /// What it is promised.
    pub service: Service,
    /// The bytes that were submitted.
    pub payload: Bytes,
}

/// Messages in the order in which they were accepted. Payload bytes count against the limit.
#[derive(Debug, Default)]
pub struct Fifo {
    queue: VecDeque<Outgoing>,
    bytes: usize,
}

impl Fifo {
    /// The message that is next.
    pub fn front(&self) -> Option<&Outgoing> {
        self.queue.front()
    }

    /// Takes the message that is next.
    pub fn pop(&mut self) -> Option<Outgoing> {
        let message = self.queue.pop_front()?;
        self.bytes -= message.payload.len();
        Some(message)
    }
}

impl Backlog for Fifo {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl SendQueue<Fifo> {
    /// Accepts a message, appends it and returns its number.
    ///
    /// # Errors
    /// As of [`admit`](Self::admit).
    pub fn submit(&mut self, service: Service, payload: Bytes) -> Result<u64, SubmitError> {
        let number = self.admit(service, payload.len())?;
        self.backlog.bytes += payload.len();
        self.backlog.queue.push_back(Outgoing {
            number,
            service,
            payload,
        });
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const LIMITS: SendLimits = SendLimits {
        services: &[Service::Reliable, Service::Fifo],
        message_max: 12,
        queue_max: 10,
    };

    /// The rules once more, over a list of lengths.
    #[derive(Default)]
    struct Model {
        waiting: Vec<usize>,
        accepted: u64,
        refused: bool,
        closed: bool,
    }

    impl Model {
        fn submit(&mut self, service: Service, len: usize) -> Result<u64, SubmitError> {
            let queued: usize = self.waiting.iter().sum();
            let (max, carried) = (12, [Service::Reliable, Service::Fifo]);
            match () {
                () if self.closed => Err(SubmitError::Leaving),
                () if !carried.contains(&service) => Err(SubmitError::Unsupported { service }),
                () if len > 12 => Err(SubmitError::TooLarge { len, max }),
                () if queued + len > 10 && !self.waiting.is_empty() => {
                    self.refused = true;
                    Err(SubmitError::Full { queued })
                }
                () => {
                    self.waiting.push(len);
                    self.accepted += 1;
                    Ok(self.accepted)
                }
            }
        }

        fn writable(&mut self) -> bool {
            let writable = self.refused && self.waiting.iter().sum::<usize>() <= 5;
            self.refused &= !writable;
            writable
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_naive_model(steps in prop::collection::vec((0u8..20, 0usize..14), 1..200)) {
            let mut queue = SendQueue::new(LIMITS, Fifo::default());
            let mut model = Model::default();
            for (step, len) in steps {
                match step {
                    0 => {
                        queue.close();
                        model.closed = true;
                    }
                    1..8 => {
                        let popped = queue.pop().map(|message| message.payload.len());
                        let expected = (!model.waiting.is_empty()).then(|| model.waiting.remove(0));
                        prop_assert_eq!(popped, expected);
                    }
                    _ => {
                        let service = Service::ALL[usize::from(step) % 3];
                        let payload = Bytes::from(alloc::vec![step; len]);
                        prop_assert_eq!(queue.submit(service, payload), model.submit(service, len));
                    }
                }
                prop_assert_eq!(queue.take_writable(), model.writable());
                prop_assert_eq!(queue.bytes(), model.waiting.iter().sum::<usize>());
                prop_assert_eq!(queue.is_empty(), model.waiting.is_empty());
                prop_assert_eq!(queue.submitted(), model.accepted);
                let front = queue.front().map(|message| message.number);
                let first = model.accepted + 1 - model.waiting.len() as u64;
                prop_assert_eq!(front, (!model.waiting.is_empty()).then_some(first));
            }
        }
    }

    #[test]
    fn a_measured_queue_has_room_for_what_is_taken_twice() {
        let limits = SendLimits {
            message_max: 100_000,
            queue_max: 1 << 20,
            ..LIMITS
        };
        let mut queue = SendQueue::new(limits, Fifo::default()).measured(true);
        let message = || Bytes::from_static(&[0; 1_000]);
        let fill = |queue: &mut SendQueue<Fifo>| {
            while queue.submit(Service::Fifo, message()).is_ok() {}
            queue.bytes()
        };
        assert_eq!(fill(&mut queue), 8_000);
        for _ in 0..2 {
            queue.pop();
        }
        queue.took(8_000);
        assert_eq!(fill(&mut queue), 8_000);
        while queue.pop().is_some() {}
        queue.took(8_000);
        assert!(queue.take_writable());
        assert_eq!(fill(&mut queue), 16_000);
        let long = Bytes::from_static(&[0; 100_000]);
        let next = queue.submit(Service::Fifo, long);
        assert_eq!(next, Err(SubmitError::Full { queued: 16_000 }));
    }

    #[test]
    fn a_message_longer_than_the_queue_is_accepted_alone() {
        let mut queue = SendQueue::new(LIMITS, Fifo::default());
        let long = Bytes::from_static(&[0; 12]);
        assert_eq!(queue.submit(Service::Fifo, long), Ok(1));
        let next = queue.submit(Service::Fifo, Bytes::new());
        assert_eq!(next, Err(SubmitError::Full { queued: 12 }));
    }
}
