//! The link on which an endpoint sends: what waits for it of the endpoint's own, and what it has
//! carried of all, as the kernel counts (`rtnetlink(7)`).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use groupcast_core::{Time, Uplink};
use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

/// The counters of the interface that has an address, asked for through a socket of their own.
#[derive(Default, Debug)]
pub(crate) struct Counters {
    /// The socket, and the number of the interface.
    asked: Option<(Socket, u32)>,
    /// Before this time they are not looked for again, because that has failed.
    look_at: Time,
}

impl Counters {
    /// They are looked for so often where they are not found.
    const LOOK_EVERY: Duration = Duration::from_secs(1);

    /// What the host says of the link, where it sends what `sender` sends: `None`, it does not say.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        address: Ipv4Addr,
        sender: BorrowedFd<'_>,
    ) -> Option<Uplink> {
        Some(Uplink {
            waits: sys::host_queue(sender)?,
            carried: self.carried(now, address),
        })
    }

    /// Bytes that the interface with this address has sent.
    fn carried(&mut self, now: Time, address: Ipv4Addr) -> Option<u64> {
        if self.asked.is_none() && now >= self.look_at {
            self.look_at = now + Self::LOOK_EVERY;
            self.asked = find(address)
                .inspect_err(|error| tracing::debug!(%error, "cannot read an interface's counters"))
                .ok();
        }
        let (socket, index) = self.asked.as_ref()?;
        let sent = bytes_sent(socket, *index);
        if sent.is_err() {
            self.forget();
        }
        sent.ok()
    }

    /// The address is, or may be, at another interface.
    pub(crate) fn forget(&mut self) {
        self.asked = None;
    }
}

/// A socket that asks the kernel, and the number of the interface with `address`.
fn find(address: Ipv4Addr) -> io::Result<(Socket, u32)> {
    let up = sys::interfaces()?;
    let interface = up.into_iter().find(|it| it.address == address);
    let index = interface.and_then(|it| sys::interface_index(&it.name));
    let index = index.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let protocol = Protocol::from(libc::NETLINK_ROUTE);
    let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok((socket, index))
}

/// Bytes of the header that begins each message (`nlmsghdr`), of what says whose counters follow
/// (`if_stats_msg`), and of what begins an attribute (`nlattr`).
const HEADER: usize = 16;
const STATS: usize = 12;
const ATTRIBUTE: usize = 4;
/// The question, and its answer; a request.
const ASK: u16 = 94;
const ANSWER: u16 = 92;
const REQUEST: u16 = 1;
/// The attribute with the counters (`rtnl_link_stats64`), and where in it the bytes sent are.
const LINK_64: u16 = 1;
const BYTES_SENT: usize = 24;

/// Asks for the bytes that an interface has sent. The kernel answers within the call that asks.
fn bytes_sent(socket: &Socket, index: u32) -> io::Result<u64> {
    socket.send(&question(index))?;
    let mut answer = [0; 1024];
    let len = io::Read::read(&mut &*socket, &mut answer)?;
    read(&answer[..len], index).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The question for the counters of interface `index`, in the kernel's byte order.
fn question(index: u32) -> [u8; HEADER + STATS] {
    let mut question = [0; HEADER + STATS];
    let mut put = |at: usize, bytes: &[u8]| question[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &((HEADER + STATS) as u32).to_ne_bytes());
    put(4, &ASK.to_ne_bytes());
    put(6, &REQUEST.to_ne_bytes());
    put(HEADER + 4, &index.to_ne_bytes());
    put(HEADER + 8, &(1_u32 << (LINK_64 - 1)).to_ne_bytes());
    question
}

/// The bytes sent in an answer that is of interface `index`.
fn read(answer: &[u8], index: u32) -> Option<u64> {
    let number = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 2)?;
        Some(u16::from_ne_bytes(bytes.try_into().ok()?))
    };
    let of = answer.get(HEADER + 4..HEADER + 8)?;
    if number(answer, 4)? != ANSWER || of != index.to_ne_bytes() {
        return None;
    }
    let mut rest = answer.get(HEADER + STATS..)?;
    loop {
        let len = usize::from(number(rest, 0)?);
        if number(rest, 2)? == LINK_64 {
            let sent = rest.get(ATTRIBUTE + BYTES_SENT..ATTRIBUTE + BYTES_SENT + 8)?;
            return Some(u64::from_ne_bytes(sent.try_into().ok()?));
        }
        rest = rest.get(len.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_the_loopback_interface_carries_is_counted() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let to = socket.local_addr().expect("it is bound");
        let mut counters = Counters::default();
        let mut carried = || {
            let uplink = counters.ask(Time::ZERO, Ipv4Addr::LOCALHOST, socket.as_fd());
            uplink.and_then(|it| it.carried)
        };
        let before = carried().expect("the kernel tells");
        for _ in 0..10 {
            socket.send_to(&[0; 1000], to).expect("loopback takes it");
        }
        let after = carried().expect("the kernel tells");
        assert!(after >= before + 10_000, "{before} and {after}");
    }

    #[test]
    fn an_address_that_is_nowhere_has_no_counters_and_is_not_looked_for_at_once() {
        let mut counters = Counters::default();
        let nowhere = Ipv4Addr::new(192, 0, 2, 1);
        assert_eq!(counters.carried(Time::ZERO, nowhere), None);
        assert_eq!(counters.carried(Time::ZERO, Ipv4Addr::LOCALHOST), None);
        let later = Time::ZERO + Counters::LOOK_EVERY;
        assert!(counters.carried(later, Ipv4Addr::LOCALHOST).is_some());
    }

    #[test]
    fn answers_that_are_cut_short_or_of_another_kind_say_nothing() {
        let mut answer = [0; HEADER + STATS + 4 + ATTRIBUTE + BYTES_SENT + 8];
        let mut put = |at: usize, bytes: &[u8]| answer[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &ANSWER.to_ne_bytes());
        put(HEADER + 4, &7_u32.to_ne_bytes());
        // An attribute that only aligns the next.
        put(HEADER + STATS, &4_u16.to_ne_bytes());
        let at = HEADER + STATS + 4;
        put(at, &((ATTRIBUTE + BYTES_SENT + 8) as u16).to_ne_bytes());
        put(at + 2, &LINK_64.to_ne_bytes());
        put(at + ATTRIBUTE + BYTES_SENT, &123_456_u64.to_ne_bytes());
        assert_eq!(read(&answer, 7), Some(123_456));
        assert_eq!(read(&answer, 8), None);
        for len in 0..answer.len() {
            assert_eq!(read(&answer[..len], 7), None, "{len}");
        }
        answer[4] = 2;
        assert_eq!(read(&answer, 7), None);
    }
}
