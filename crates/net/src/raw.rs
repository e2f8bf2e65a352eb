//! The bare multicast path: no protocol, no sealing, no event loop. What the network itself can
//! carry is measured with it, and everything else is compared to that. Nothing but measurements
//! uses it.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::ptr;

use groupcast_core::TransmitBuf;
use socket2::{Domain, Protocol, Socket, Type};

use crate::socket::ask_buffer;
use crate::sys;

/// Bytes of socket buffer asked for, each way: enough for any window that a measurement keeps open.
const BUFFER: usize = 8 << 20;
/// Datagrams, or coalesced runs of them, in one receiving call.
const RECEIVE_MAX: usize = 32;
/// The largest UDP payload over IPv4.
const DATAGRAM_MAX: usize = TransmitBuf::BYTES_MAX;

/// A socket that sends or receives datagrams as fast as the kernel takes or gives them.
#[derive(Debug)]
pub struct RawSocket {
    socket: Socket,
}

impl RawSocket {
    /// A socket bound to `address`, for sending multicasts on that interface and for unicast both
    /// ways. Port 0 leaves the choice to the kernel.
    pub fn sender(address: SocketAddrV4) -> io::Result<Self> {
        let socket = create()?;
        socket.bind(&address.into())?;
        socket.set_multicast_if_v4(address.ip())?;
        socket.set_multicast_loop_v4(false)?;
        Ok(Self { socket })
    }

    /// A socket that receives what is sent to `group` on `interface`; with `coalesce`, several
    /// datagrams at a time.
    pub fn receiver(interface: Ipv4Addr, group: SocketAddrV4, coalesce: bool) -> io::Result<Self> {
        let socket = create()?;
        socket.bind(&group.into())?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        if coalesce {
            sys::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
        }
        Ok(Self { socket })
    }

    /// Where this socket receives unicast.
    pub fn address(&self) -> io::Result<SocketAddrV4> {
        self.socket
            .local_addr()?
            .as_socket_ipv4()
            .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Sends `bytes` to `to` as datagrams of `size` bytes, in one call: with `offload` the kernel
    /// cuts them. How many were sent; [`io::ErrorKind::WouldBlock`] if the send buffer is full.
    pub fn send(
        &self,
        to: SocketAddrV4,
        bytes: &[u8],
        size: usize,
        offload: bool,
    ) -> io::Result<usize> {
        if !offload {
            return sys::send_each(self.socket.as_fd(), to, bytes, size);
        }
        let segment = u16::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
        sys::send(self.socket.as_fd(), to, bytes, Some(segment))?;
        Ok(bytes.len().div_ceil(size))
    }

    /// Receives what is there into `batch`, which is overwritten; [`io::ErrorKind::WouldBlock`] if
    /// nothing is.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        batch.count = 0;
        let mut vectors = [libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        }; RECEIVE_MAX];
        for (vector, room) in vectors.iter_mut().zip(batch.bytes.chunks_mut(batch.room)) {
            vector.iov_base = room.as_mut_ptr().cast();
            vector.iov_len = room.len();
        }
        // SAFETY: `mmsghdr` is plain old data, to which zero is valid: no name, no vectors, no
        // control messages.
        let mut headers: [libc::mmsghdr; RECEIVE_MAX] = unsafe { mem::zeroed() };
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header points to one vector, each vector describes its own part of
        // `batch.bytes`, which is exclusively borrowed; all are alive during the call. A null
        // time-out is allowed.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                RECEIVE_MAX as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        batch.count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (len, header) in batch.lens.iter_mut().zip(&headers[..batch.count]) {
            *len = (header.msg_len as usize).min(batch.room);
        }
        Ok(())
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for what one call receives.
#[derive(Debug)]
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    room: usize,
    lens: [usize; RECEIVE_MAX],
    count: usize,
}

impl ReceiveBatch {
    /// Room for datagrams of up to `size` bytes, or with `coalesce` for as many as the kernel puts
    /// together.
    pub fn new(size: usize, coalesce: bool) -> Self {
        let room = if coalesce { DATAGRAM_MAX } else { size.max(1) };
        Self {
            bytes: vec![0; room * RECEIVE_MAX],
            room,
            lens: [0; RECEIVE_MAX],
            count: 0,
        }
    }

    /// The datagrams, if all are of `size` bytes: coalesced ones are taken apart.
    pub fn datagrams(&self, size: usize) -> impl Iterator<Item = &[u8]> {
        self.bytes
            .chunks(self.room)
            .zip(&self.lens[..self.count])
            .flat_map(move |(room, len)| room[..*len].chunks(size.max(1)))
    }
}

fn create() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    for (force, plain) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        ask_buffer(socket.as_fd(), BUFFER, force, plain)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_one_call_arrives_as_separate_datagrams_either_way() {
        for offload in [false, true] {
            let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
            let sender = RawSocket::sender(any).unwrap();
            let receiver = RawSocket::sender(any).unwrap();
            let bytes: Vec<u8> = (0..10u8).flat_map(|index| [index; 100]).collect();
            let to = receiver.address().unwrap();
            assert_eq!(sender.send(to, &bytes, 100, offload).unwrap(), 10);

            let mut batch = ReceiveBatch::new(100, offload);
            let mut received = Vec::new();
            while received.len() < 10 && receiver.receive(&mut batch).is_ok() {
                received.extend(batch.datagrams(100).map(|datagram| datagram[0]));
            }
            assert_eq!(received, (0..10).collect::<Vec<u8>>());
            let error = receiver.receive(&mut batch).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }
}
