//! A socket's receive buffer: bounded in datagrams and in bytes, drops when it is full, remembers
//! how full it was.

use std::collections::VecDeque;

use super::Received;
use super::config::BufferLimit;

/// How full a receive buffer has been.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SocketUse {
    /// The most datagrams that waited at once.
    pub datagrams_max: usize,
    /// The most bytes that waited at once, overhead included.
    pub bytes_max: usize,
    /// Datagrams that found it full.
    pub dropped: u64,
}

/// Datagrams that wait to be received.
#[derive(Debug, Default)]
pub(crate) struct SocketBuffer {
    queue: VecDeque<Received>,
    bytes: usize,
    pub(crate) used: SocketUse,
}

impl SocketBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Puts a datagram in, if there is room.
    pub(crate) fn push(&mut self, limit: &BufferLimit, received: Received) {
        if self.queue.len() >= limit.datagrams || self.bytes >= limit.bytes {
            self.used.dropped += 1;
            return;
        }
        self.bytes += received.datagram.bytes.len() + limit.overhead;
        self.queue.push_back(received);
        self.used.datagrams_max = self.used.datagrams_max.max(self.queue.len());
        self.used.bytes_max = self.used.bytes_max.max(self.bytes);
    }

    /// Takes the datagram out that waits longest.
    pub(crate) fn pop(&mut self, limit: &BufferLimit) -> Option<Received> {
        let received = self.queue.pop_front()?;
        let bytes = received.datagram.bytes.len() + limit.overhead;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(received)
    }

    /// The datagram that waits longest.
    pub(crate) fn front(&self) -> Option<&Received> {
        self.queue.front()
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use groupcast_core::SocketClass;

    use super::super::{Datagram, address};
    use super::*;

    fn received(len: usize) -> Received {
        let datagram = Datagram::new(0, address(0), SocketClass::Data, vec![0; len].into());
        Received {
            datagram: Rc::new(datagram),
            flipped: None,
            arrived: groupcast_core::Time::ZERO,
        }
    }

    #[test]
    fn it_is_full_by_datagrams_or_by_bytes() {
        let by_count = BufferLimit::datagrams(2);
        let by_bytes = BufferLimit {
            overhead: 100,
            ..BufferLimit::bytes(500)
        };
        for (limit, len, held, bytes) in [(by_count, 1_000, 2, 2_000), (by_bytes, 150, 2, 500)] {
            let mut buffer = SocketBuffer::default();
            (0..5).for_each(|_| buffer.push(&limit, received(len)));
            assert_eq!(buffer.len(), held);
            let expected = SocketUse {
                datagrams_max: held,
                bytes_max: bytes,
                dropped: 5 - held as u64,
            };
            assert_eq!(buffer.used, expected);
        }
    }

    #[test]
    fn room_comes_back_as_datagrams_are_taken() {
        let limit = BufferLimit::bytes(300);
        let mut buffer = SocketBuffer::default();
        for _ in 0..50 {
            buffer.push(&limit, received(300));
            buffer.push(&limit, received(300));
            assert!(buffer.pop(&limit).is_some() && buffer.pop(&limit).is_none());
        }
        assert_eq!((buffer.used.bytes_max, buffer.used.dropped), (300, 50));
    }
}
