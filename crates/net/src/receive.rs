//! Receiving into slabs: many datagrams share one allocation, and none is copied.
//!
//! The kernel writes up to 64 KiB at a time into the slab in use; each datagram becomes a slice of
//! it. Small datagrams follow one another, so a slab holds hundreds of them. A slab's memory lives
//! as long as any slice of it: protocols discard in about the order of arrival, so slabs come free
//! one after the other and are used again (warm in the cache, no allocation). A small payload that
//! is kept for long keeps the 256 KiB of its slab alive, and should be copied instead.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;

use bytes::BytesMut;
use mio::Token;
use socket2::Socket;

use crate::counters::ReceiveCounters;
use crate::sys::{self, Received};

/// Where the next datagrams go.
#[derive(Debug)]
pub(crate) struct Slabs {
    current: BytesMut,
    /// Full slabs, oldest first: each is used again once no slice of it is left.
    retired: VecDeque<BytesMut>,
}

impl Slabs {
    /// Bytes of a slab: four of the largest receives, so that little is wasted at its end.
    const SIZE: usize = 4 * Self::ROOM;
    /// The most bytes that one call receives.
    const ROOM: usize = 64 << 10;
    /// Slabs kept for use again; with more in use, their memory goes back to the allocator. At most
    /// 4 MiB lie idle.
    const RETIRED_MAX: usize = 16;

    pub(crate) fn new() -> Self {
        Self {
            current: BytesMut::with_capacity(Self::SIZE),
            retired: VecDeque::with_capacity(Self::RETIRED_MAX + 1),
        }
    }

    /// An empty buffer with room for one receive.
    fn room(&mut self) -> &mut BytesMut {
        if self.current.capacity() < Self::ROOM {
            let free = self
                .retired
                .iter_mut()
                .position(|slab| slab.try_reclaim(Self::SIZE));
            let next = free
                .and_then(|at| self.retired.remove(at))
                .unwrap_or_else(|| BytesMut::with_capacity(Self::SIZE));
            let full = std::mem::replace(&mut self.current, next);
            self.retired.push_back(full);
            if self.retired.len() > Self::RETIRED_MAX {
                self.retired.pop_front();
            }
        }
        &mut self.current
    }
}

/// One receive: a datagram, or several of equal size from one sender.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: BytesMut,
    pub(crate) received: Received,
    first: bool,
}

impl Iterator for Batch {
    type Item = BytesMut;

    fn next(&mut self) -> Option<BytesMut> {
        // A datagram without any bytes is one, too.
        if self.bytes.is_empty() && !self.first {
            return None;
        }
        self.first = false;
        let stride = self.received.stride.unwrap_or(self.received.len);
        Some(self.bytes.split_to(stride.min(self.bytes.len())))
    }
}

/// A receiving socket.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) socket: Socket,
    pub(crate) token: Token,
    /// Whether there may be something: set by the poll (edge-triggered), cleared when the socket
    /// says there is not.
    pub(crate) readable: bool,
    pub(crate) counters: ReceiveCounters,
    /// The kernel's count of drops when it was last asked, modulo 2^32.
    drops: u32,
}

impl Receiver {
    /// Reading a socket's pending error clears it; more than a few in a row are not transient.
    const ERRORS_MAX: usize = 3;

    pub(crate) fn new(socket: Socket, token: Token) -> Self {
        Self {
            socket,
            token,
            readable: true,
            counters: ReceiveCounters::default(),
            drops: 0,
        }
    }

    /// From now on receives from `socket`; what was counted stays.
    pub(crate) fn replace(&mut self, socket: Socket) {
        self.socket = socket;
        self.readable = true;
        self.drops = 0;
    }

    /// Receives once; `None` (and no longer readable) if there is nothing.
    ///
    /// # Errors
    /// Only what no network can cause: the socket itself is unusable.
    pub(crate) fn receive(&mut self, slabs: &mut Slabs) -> io::Result<Option<Batch>> {
        let room = slabs.room();
        for _ in 0..Self::ERRORS_MAX {
            match sys::receive(self.socket.as_fd(), room) {
                Ok(received) => {
                    let batch = Batch {
                        bytes: room.split(),
                        received,
                        first: true,
                    };
                    self.count(received);
                    return Ok(Some(batch));
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.counters.empty += 1;
                        break;
                    }
                    Some(libc::EINTR) => {}
                    Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL) => {
                        return Err(error);
                    }
                    _ => {
                        self.counters.errors += 1;
                        tracing::debug!(%error, "a receive failed");
                    }
                },
            }
        }
        self.readable = false;
        Ok(None)
    }

    fn count(&mut self, received: Received) {
        let datagrams = match received.stride {
            Some(stride) => received.len.div_ceil(stride).max(1) as u64,
            None => 1,
        };
        self.counters.calls += 1;
        self.counters.datagrams += datagrams;
        self.counters.bytes += received.len as u64;
        self.counters.coalesced += u64::from(datagrams > 1);
    }

    /// Asks the kernel what it dropped since it was last asked.
    pub(crate) fn count_drops(&mut self) {
        if let Ok(drops) = sys::receive_drops(self.socket.as_fd()) {
            self.counters.kernel_drops += u64::from(drops.wrapping_sub(self.drops));
            self.drops = drops;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slabs: &mut Slabs, len: usize) -> BytesMut {
        let room = slabs.room();
        assert!(room.is_empty() && room.capacity() >= Slabs::ROOM);
        room.resize(len, 0);
        room.split()
    }

    #[test]
    fn small_datagrams_share_a_slab() {
        let mut slabs = Slabs::new();
        let held: Vec<BytesMut> = (0..130).map(|_| take(&mut slabs, 1400)).collect();
        assert!(slabs.retired.is_empty());
        assert_eq!(held.len(), 130);
    }

    #[test]
    fn slabs_are_used_again_once_nobody_holds_a_slice() {
        let mut slabs = Slabs::new();
        let mut addresses = std::collections::BTreeSet::new();
        let mut window = VecDeque::new();
        for _ in 0..100_000 {
            let datagram = take(&mut slabs, 1400);
            addresses.insert(datagram.as_ptr() as usize / Slabs::SIZE);
            window.push_back(datagram.freeze());
            if window.len() > 500 {
                window.pop_front();
            }
        }
        assert!(slabs.retired.len() <= Slabs::RETIRED_MAX);
        // 500 slices of 1,400 bytes span at most five slabs; each touches at most two aligned
        // ranges.
        assert!(addresses.len() <= 16, "{} ranges", addresses.len());
    }

    #[test]
    fn slices_that_are_held_for_long_do_not_stop_reception() {
        let mut slabs = Slabs::new();
        let held: Vec<BytesMut> = (0..200).map(|_| take(&mut slabs, 60_000)).collect();
        assert!(slabs.retired.len() <= Slabs::RETIRED_MAX);
        assert!(held.iter().all(|datagram| datagram.len() == 60_000));
    }

    #[test]
    fn a_batch_is_cut_at_the_stride() {
        let cut = |len: usize, stride: Option<usize>| -> Vec<usize> {
            Batch {
                bytes: BytesMut::zeroed(len),
                received: Received {
                    len,
                    stride,
                    from: "127.0.0.1:1".parse().unwrap(),
                    stamp: None,
                },
                first: true,
            }
            .map(|datagram| datagram.len())
            .collect()
        };
        assert_eq!(cut(25, Some(10)), [10, 10, 5]);
        assert_eq!(cut(20, Some(10)), [10, 10]);
        assert_eq!(cut(5, Some(10)), [5]);
        assert_eq!(cut(25, None), [25]);
        assert_eq!(cut(0, None), [0]);
    }
}
