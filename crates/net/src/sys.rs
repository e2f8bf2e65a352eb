//! The system calls that the safe crates do not offer: segmented sends, coalesced receives, a
//! nanosecond wait.
//!
//! All unsafe code of the endpoint is here (the bare path for measurements, `raw`, has its own).
//! IPv4 only. Every call is non-blocking but [`wait_readable`].

use std::ffi::{CStr, CString};
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use bytes::BytesMut;
use libc::{c_int, c_void, socklen_t};

use crate::interface::Interface;

/// The most datagrams in one system call, segmented or not.
pub(crate) const BATCH_MAX: usize = 64;

/// Room for the one control message that we send and the two that we receive (16 bytes of header
/// each, up to 8 and 16 of data), and to spare.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// What one call received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes appended.
    pub(crate) len: usize,
    /// Length of every datagram in them but perhaps the last; `None` if there is only one datagram.
    pub(crate) stride: Option<usize>,
    /// Who sent them.
    pub(crate) from: SocketAddrV4,
    /// When the kernel got the first of them, by the system's clock, if the socket asks for that.
    pub(crate) stamp: Option<Duration>,
}

/// How many bytes of what was sent with this socket have not left the host; `None` where the system
/// does not say. The kernel counts its buffers, which are about twice as large as what they hold:
/// so it sizes send buffers, too.
pub(crate) fn host_queue(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: SIOCOUTQ (TIOCOUTQ) writes one `int`, to which the pointer is valid.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } as isize)
        .ok()?;
    Some(u64::try_from(bytes).ok()? / 2)
}

/// Receives a datagram, or several of one sender that the kernel coalesced, and appends them to
/// `buffer` within its capacity. What does not fit is lost.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut BytesMut) -> io::Result<Received> {
    let room = buffer.spare_capacity_mut();
    let mut from = address_of(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut control = Control([0; 64]);
    let mut vector = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut header = header(&raw mut from, &raw mut vector);
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `header` points to `from`, `vector` (which describes `room`) and `control`, all alive
    // and exclusively borrowed during the call, each with its true length.
    let len =
        check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) })?;
    let len = len.min(room.len());
    // SAFETY: the kernel has written the first `len` bytes of the spare capacity, which directly
    // follow the buffer's own, and `len` does not exceed it.
    unsafe { buffer.set_len(buffer.len() + len) };
    let (stride, stamp) = told(&header);
    Ok(Received {
        len,
        stride,
        stamp,
        from: SocketAddrV4::new(
            Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes()),
            u16::from_be(from.sin_port),
        ),
    })
}

/// What the control messages say: the length of a datagram, and when the kernel got it.
fn told(header: &libc::msghdr) -> (Option<usize>, Option<Duration>) {
    let (mut stride, mut stamp) = (None, None);
    // SAFETY: `header` was filled by a successful `recvmsg` and its control buffer is still alive,
    // so the macros walk over well-formed messages within it; a UDP_GRO message carries one
    // `c_int` and an SCM_TIMESTAMPNS message one `timespec`, both read unaligned.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let len: c_int = ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    stride = usize::try_from(len).ok().filter(|len| *len > 0);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    let parts = u64::try_from(at.tv_sec)
                        .ok()
                        .zip(u32::try_from(at.tv_nsec).ok());
                    stamp = parts.map(|(seconds, nanos)| {
                        Duration::from_secs(seconds) + Duration::from_nanos(nanos.into())
                    });
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    (stride, stamp)
}

/// Sends `bytes` to `to`: one datagram, or with `segment` several of that many bytes (the last may
/// be shorter).
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    to: SocketAddrV4,
    bytes: &[u8],
    segment: Option<u16>,
) -> io::Result<()> {
    let mut address = address_of(to);
    let mut control = Control([0; 64]);
    let mut vector = vector_of(bytes);
    let mut header = header(&raw mut address, &raw mut vector);
    if let Some(size) = segment {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: plain arithmetic on a length; the room of one `u16` message is below that of
        // `Control`, and the first message of a buffer large enough for it is never null.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_UDP;
            (*message).cmsg_type = libc::UDP_SEGMENT;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            ptr::write_unaligned(libc::CMSG_DATA(message).cast(), size);
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `header` points to `address`, `vector` (which describes `bytes`; the kernel only
    // reads it) and `control`, all alive during the call, each with its true length.
    check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) }).map(|_| ())
}

/// Sends `bytes` to `to` as separate datagrams of `size` bytes (the last may be shorter), at most
/// [`BATCH_MAX`] of them; how many were sent. An error after the first is reported by the next
/// call.
pub(crate) fn send_each(
    socket: BorrowedFd<'_>,
    to: SocketAddrV4,
    bytes: &[u8],
    size: usize,
) -> io::Result<usize> {
    let mut address = address_of(to);
    let mut vectors = [const { vector_of(&[]) }; BATCH_MAX];
    let mut count = 0;
    for (vector, datagram) in vectors.iter_mut().zip(bytes.chunks(size.max(1))) {
        *vector = vector_of(datagram);
        count += 1;
    }
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH_MAX];
    for (slot, vector) in headers.iter_mut().zip(&mut vectors[..count]) {
        slot.write(libc::mmsghdr {
            msg_hdr: header(&raw mut address, vector),
            msg_len: 0,
        });
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the first `count` headers are initialised just above and point to `address` and to
    // one vector each, which describes a part of `bytes` (only read); all of them are alive during
    // the call.
    check(unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as _,
            flags as _,
        )
    } as isize)
}

/// Waits until `descriptor` is readable or `timeout` has passed, to the kernel's timer slack (50 µs
/// by default). A signal ends the wait early.
pub(crate) fn wait_readable(descriptor: &impl AsRawFd, timeout: Duration) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos() as _,
    };
    // SAFETY: one `pollfd` and one `timespec`, both alive during the call; no signal mask.
    let result = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, ptr::null()) };
    match check(result as isize) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Waits until `epoll` has an event or `timeout` has passed, to the kernel's timer slack, and puts
/// the events into the capacity of `events`, which is emptied before.
///
/// # Errors
/// `Unsupported` on kernels before 5.11 and where a filter of system calls does not know the call.
pub(crate) fn wait_events(
    epoll: &impl AsRawFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Duration,
) -> io::Result<()> {
    /// The kernel's own, of the same size everywhere.
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanos: i64,
    }
    events.clear();
    let timeout = Timespec {
        seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        nanos: timeout.subsec_nanos().into(),
    };
    // SAFETY: the kernel writes at most as many events as there is capacity for, which is
    // exclusively borrowed, and reads one `Timespec`; both are alive during the call. No signal
    // mask.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.capacity() as c_int,
            &raw const timeout,
            ptr::null::<c_void>(),
            0_usize,
        )
    };
    match check(result as isize) {
        Ok(count) => {
            // SAFETY: the kernel has written the first `count` events, no more than the capacity.
            unsafe { events.set_len(count.min(events.capacity())) };
            Ok(())
        }
        Err(error) => match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::ENOSYS | libc::EPERM) => Err(io::ErrorKind::Unsupported.into()),
            _ => Err(error),
        },
    }
}

/// How many datagrams the kernel has dropped at this socket's receive buffer, modulo 2^32.
pub(crate) fn receive_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = [0u32; 9];
    let mut len = size_of_val(&info) as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the true size of `info`, to which every bit
    // pattern is valid.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    } as isize)?;
    Ok(info[libc::SK_MEMINFO_DROPS as usize])
}

/// Sets an integer option.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads one `c_int`, which is alive during the call, and is told its size.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as socklen_t,
        )
    } as isize)
    .map(|_| ())
}

/// Reads an integer option.
pub(crate) fn option(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the true size of `value`, to which every bit
    // pattern is valid.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast::<c_void>(),
            &raw mut len,
        )
    } as isize)?;
    Ok(value)
}

/// Fills `bytes`, at most 256, with the kernel's randomness. Waits only where the system has none
/// yet, early at boot.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: `bytes` is exclusively borrowed during the call, and given with its true length.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(filled) {
        Ok(filled) if filled == bytes.len() => Ok(()),
        // Up to 256 bytes come at once, or none.
        _ => Err(io::Error::last_os_error()),
    }
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn address_of(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

/// A vector over `bytes`, for sending: the kernel does not write through it.
const fn vector_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// A header without control messages. It only holds both pointers; the caller that passes it on
/// keeps what they point to alive.
fn header(address: *mut libc::sockaddr_in, vector: *mut libc::iovec) -> libc::msghdr {
    // SAFETY: `msghdr` is plain old data (it has private padding on some targets, hence no
    // literal): zero is valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = address.cast();
    header.msg_namelen = size_of::<libc::sockaddr_in>() as socklen_t;
    header.msg_iov = vector;
    header.msg_iovlen = 1;
    header
}

/// The interfaces that are up and have an IPv4 address, in the system's order.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    interfaces_with(libc::IFF_UP | libc::IFF_RUNNING)
}

/// The same, with those that are down.
pub(crate) fn all_interfaces() -> io::Result<Vec<Interface>> {
    interfaces_with(0)
}

fn interfaces_with(wanted: c_int) -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call only writes the pointer to the list that it allocates.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is the system's, its elements are valid until it is freed below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let flags = entry.ifa_flags as c_int;
        if entry.ifa_addr.is_null() || flags & wanted != wanted {
            continue;
        }
        // SAFETY: an address that is not null is at least a `sockaddr`, and one of this family a
        // `sockaddr_in`; it may not be aligned as one.
        let (address, name) = unsafe {
            if c_int::from((*entry.ifa_addr).sa_family) != libc::AF_INET {
                continue;
            }
            let address = ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>());
            (address.sin_addr.s_addr, CStr::from_ptr(entry.ifa_name))
        };
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            address: Ipv4Addr::from(u32::from_be(address)),
            is_loopback: flags & libc::IFF_LOOPBACK != 0,
            carries_multicast: flags & libc::IFF_MULTICAST != 0,
        });
    }
    // SAFETY: the list came from `getifaddrs` and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The number of the interface called `name`: another one if it was removed and made anew.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a NUL and lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index > 0).then_some(index)
}

/// Lets the calling thread, and threads that it starts later, run before all that has no real-time
/// priority (SCHED_FIFO).
pub(crate) fn run_in_real_time(priority: i32) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sched_param`.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the parameters live through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps all memory of this process, now and later, from being swapped out.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: no memory of ours is touched.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the system knows of a TCP connection.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: it is numbers alone, to which zero is valid.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the true size of `info`, to which every bit
    // pattern is valid.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast::<c_void>(),
            &raw mut len,
        )
    } as isize)?;
    Ok(info)
}
