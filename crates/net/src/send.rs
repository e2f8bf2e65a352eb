//! Sending: one batch of equal segments at a time, segmented by the kernel or the device where that
//! works.
//!
//! A batch goes out in one system call with segmentation offload, else in one `sendmmsg`. Where the
//! kernel refuses to segment, the batch is sent again without, and the socket remembers. A full
//! send buffer keeps the batch, and with it everything behind it, until there is room: the
//! protocols feel a slow link, and nothing queues here. Every other error drops the batch for that
//! receiver and counts: interfaces come and go, and the protocols recover losses anyway.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use groupcast_core::{Time, TransmitBuf};

use crate::counters::SendCounters;
use crate::sys;

/// The batch under way, and what was learned about the socket.
#[derive(Debug)]
pub(crate) struct Sender {
    /// The datagrams of the batch.
    pub(crate) buf: TransmitBuf,
    /// Where it goes.
    pub(crate) targets: Vec<SocketAddrV4>,
    /// Which of the targets gets the original: the group's address, or the only one. All others get
    /// copies of what goes to the group.
    pub(crate) original: Option<usize>,
    /// How many targets have got their copy.
    served: usize,
    /// Segments that the target under way has got.
    sent: usize,
    /// Since when the send buffer has been full.
    blocked: Option<Time>,
    /// Whether the kernel segments for this socket.
    offload: bool,
    /// The largest segment that it was not seen to refuse.
    segment_max: usize,
    patience: Duration,
    pub(crate) counters: SendCounters,
}

/// What to do about a refused segmented send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// Segments of this size do not fit the device: smaller ones may.
    Size,
    /// Segmentation does not work here.
    Offload,
}

impl Sender {
    /// The payload of a full Ethernet frame: a kernel that refuses to segment into datagrams of at
    /// most this size with the ambiguous EINVAL refuses segmentation as such.
    const ETHERNET_PAYLOAD: usize = 1472;

    pub(crate) fn new(buf: TransmitBuf, offload: bool, patience: Duration) -> Self {
        Self {
            buf,
            targets: Vec::new(),
            original: Some(0),
            served: 0,
            sent: 0,
            blocked: None,
            offload,
            segment_max: usize::from(u16::MAX),
            patience,
            counters: SendCounters::default(),
        }
    }

    /// Whether a batch waits for room in the send buffer.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// When to give up on the batch that waits.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.blocked.map(|since| since + self.patience)
    }

    /// Begins a batch: the caller has filled [`buf`](Self::buf) and [`targets`](Self::targets).
    pub(crate) fn begin(&mut self) {
        self.served = 0;
        self.sent = 0;
    }

    /// Sends what is left of the batch; false if the send buffer is full.
    pub(crate) fn drive(&mut self, now: Time, socket: BorrowedFd<'_>) -> bool {
        while let Some(target) = self.targets.get(self.served).copied() {
            if self.serve(socket, target) {
                self.served += 1;
                self.sent = 0;
                continue;
            }
            if self.stall(now) {
                return false;
            }
            break;
        }
        self.blocked = None;
        self.targets.clear();
        true
    }

    /// The send buffer is full: whether the batch shall wait. If not, what is left of it is counted
    /// as dropped.
    fn stall(&mut self, now: Time) -> bool {
        if self.blocked.is_none() {
            self.counters.blocked += 1;
        }
        let since = *self.blocked.get_or_insert(now);
        if now - since < self.patience {
            return true;
        }
        let unserved = self.targets.len() - self.served;
        self.counters.dropped_blocked += (unserved * self.buf.segments() - self.sent) as u64;
        false
    }

    /// Sends what is left of the batch to one target, or drops it there; false if the send buffer
    /// is full.
    fn serve(&mut self, socket: BorrowedFd<'_>, target: SocketAddrV4) -> bool {
        while self.sent < self.buf.segments() {
            let size = self.buf.segment_size();
            let left = self.buf.segments() - self.sent;
            let bytes = &self.buf.as_bytes()[self.sent * size..];
            let segmented = left > 1 && self.offload && size <= self.segment_max;
            let result = match u16::try_from(size) {
                Ok(segment) if segmented => {
                    sys::send(socket, target, bytes, Some(segment)).map(|()| left)
                }
                _ if left == 1 => sys::send(socket, target, bytes, None).map(|()| 1),
                _ => sys::send_each(socket, target, bytes, size),
            };
            match result {
                Ok(count) => {
                    let bytes = bytes.len().min(count * size);
                    self.count(count, bytes, segmented);
                    self.sent += count;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => return false,
                    Some(code) if segmented && refusal(code, size).is_some() => {
                        self.learn(refusal(code, size), size, &error);
                    }
                    _ => {
                        self.drop_rest(target, left, &error);
                        return true;
                    }
                },
            }
        }
        true
    }

    fn count(&mut self, datagrams: usize, bytes: usize, segmented: bool) {
        self.counters.datagrams += datagrams as u64;
        self.counters.bytes += bytes as u64;
        self.counters.calls += 1;
        self.counters.segmented += u64::from(segmented);
        if self.original != Some(self.served) {
            self.counters.copies += datagrams as u64;
        }
    }

    fn learn(&mut self, refusal: Option<Refusal>, size: usize, error: &io::Error) {
        self.counters.offload_refused += 1;
        match refusal {
            Some(Refusal::Size) => {
                self.segment_max = size - 1;
                tracing::info!(%error, size, "no segmentation offload for datagrams of this size or more");
            }
            Some(Refusal::Offload) => {
                self.offload = false;
                tracing::warn!(%error, "segmentation offload does not work here: sending each datagram by itself");
            }
            None => {}
        }
    }

    fn drop_rest(&mut self, target: SocketAddrV4, datagrams: usize, error: &io::Error) {
        let counters = &mut self.counters;
        let counter = match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::ENOMEM) => &mut counters.no_buffers,
            Some(
                libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::EADDRNOTAVAIL
                | libc::ENODEV
                | libc::ENXIO,
            ) => &mut counters.unreachable,
            Some(libc::EPERM | libc::EACCES | libc::ECONNREFUSED) => &mut counters.refused,
            Some(libc::EMSGSIZE) => &mut counters.too_large,
            _ => &mut counters.other_errors,
        };
        *counter += datagrams as u64;
        tracing::debug!(%error, %target, datagrams, "a send failed");
    }
}

/// What it says about offload that a segmented send of segments of `size` bytes failed with `code`;
/// `None` if nothing.
fn refusal(code: i32, size: usize) -> Option<Refusal> {
    match code {
        libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT => Some(Refusal::Offload),
        libc::EINVAL if size <= Sender::ETHERNET_PAYLOAD => Some(Refusal::Offload),
        // Older kernels say EINVAL where later ones say EMSGSIZE.
        libc::EINVAL | libc::EMSGSIZE => Some(Refusal::Size),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket, SocketAddrV4) {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let Ok(std::net::SocketAddr::V4(to)) = receiver.local_addr() else {
            panic!("an IPv4 socket has an IPv4 address");
        };
        (sender, receiver, to)
    }

    fn filled(sender: &mut Sender, to: SocketAddrV4) -> Vec<Vec<u8>> {
        sender.buf.clear();
        for index in 0..5u8 {
            sender
                .buf
                .push(&[&vec![index; if index < 4 { 700 } else { 90 }]]);
        }
        sender.targets.push(to);
        sender.begin();
        sender.buf.iter().map(<[u8]>::to_vec).collect()
    }

    fn received(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
        let mut room = [0; 2048];
        (0..count)
            .map(|_| {
                let len = socket.recv(&mut room).unwrap();
                room[..len].to_vec()
            })
            .collect()
    }

    #[test]
    fn a_kernel_that_refuses_to_segment_gets_each_datagram_by_itself() {
        let (from, receiver, to) = pair();
        // The kernel segments only where it computes checksums: without them, EINVAL.
        sys::set_option(from.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let mut sender = Sender::new(TransmitBuf::new(8, 0, 0), true, Duration::ZERO);
        for round in 1..=2 {
            let batch = filled(&mut sender, to);
            assert!(sender.drive(Time::ZERO, from.as_fd()));
            assert_eq!(received(&receiver, 5), batch);
            assert_eq!(sender.counters.offload_refused, 1, "only the first time");
            assert_eq!(sender.counters.datagrams, 5 * round);
            assert_eq!(sender.counters.bytes, (4 * 700 + 90) * round);
        }
        assert_eq!(sender.counters.segmented, 0);
    }

    #[test]
    fn a_segmented_batch_arrives_as_separate_datagrams() {
        let (from, receiver, to) = pair();
        let mut sender = Sender::new(TransmitBuf::new(8, 0, 0), true, Duration::ZERO);
        let batch = filled(&mut sender, to);
        assert!(sender.drive(Time::ZERO, from.as_fd()));
        assert_eq!(received(&receiver, 5), batch);
        assert_eq!((sender.counters.calls, sender.counters.segmented), (1, 1));
    }

    #[test]
    fn a_batch_that_was_interrupted_goes_on_where_it_stopped() {
        for offload in [false, true] {
            let (from, receiver, to) = pair();
            let mut sender = Sender::new(TransmitBuf::new(8, 0, 0), offload, Duration::ZERO);
            let batch = filled(&mut sender, to);
            sender.sent = 2;
            assert!(sender.drive(Time::ZERO, from.as_fd()));
            assert_eq!(received(&receiver, 3), batch[2..]);
            assert_eq!(sender.counters.datagrams, 3);
            assert_eq!(sender.counters.bytes, 2 * 700 + 90);
        }
    }

    #[test]
    fn what_a_refusal_means() {
        assert_eq!(refusal(libc::EIO, 9000), Some(Refusal::Offload));
        assert_eq!(refusal(libc::EINVAL, 1400), Some(Refusal::Offload));
        assert_eq!(refusal(libc::EINVAL, 8850), Some(Refusal::Size));
        assert_eq!(refusal(libc::EMSGSIZE, 1400), Some(Refusal::Size));
        assert_eq!(refusal(libc::ENOBUFS, 1400), None);
    }

    #[test]
    fn errors_of_the_network_are_counted_and_not_fatal() {
        let (from, _, _) = pair();
        let mut sender = Sender::new(TransmitBuf::new(8, 0, 0), true, Duration::ZERO);
        // A socket on a loopback address cannot send to the outside; broadcast is refused.
        filled(&mut sender, "255.255.255.255:9".parse().unwrap());
        assert!(sender.drive(Time::ZERO, from.as_fd()));
        let counters = sender.counters;
        assert_eq!(counters.datagrams, 0);
        assert_eq!(
            counters.refused + counters.unreachable + counters.other_errors,
            5
        );
    }

    #[test]
    fn a_batch_waits_for_room_in_the_send_buffer_for_a_while() {
        let patience = Duration::from_millis(50);
        let (from, receiver, to) = pair();
        let mut sender = Sender::new(TransmitBuf::new(8, 0, 0), false, patience);
        let batch = filled(&mut sender, to);
        sender.targets.push(to);
        assert!(sender.stall(Time::ZERO) && sender.stall(Time::from_millis(49)));
        assert_eq!(sender.deadline(), Some(Time::from_millis(50)));
        assert!(!sender.stall(Time::from_millis(50)));
        assert_eq!(sender.counters.blocked, 1);
        assert_eq!(sender.counters.dropped_blocked, 10, "five for each target");

        // Room again: the rest goes out as if nothing had been.
        assert!(sender.drive(Time::from_millis(51), from.as_fd()));
        assert_eq!(received(&receiver, 5), batch);
        assert!(!sender.is_blocked());
    }
}
