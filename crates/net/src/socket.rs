//! The sockets of an endpoint: which there are, and how each is set up.
//!
//! - *Control*: bound to the listen address. Tokens and all other unicast arrive here, and every
//!   datagram, multicast too, is sent from here, so that its source is the address to answer to.
//! - *Data*: with multicast, bound to the group's address and joined on the listen address's
//!   interface; all multicasts arrive here, whatever their class. Without multicast, bound to the
//!   port after the listen port: a datagram's class chooses between the two ports of such a peer.
//!
//! What a member without multicast sends to one that has it, copies of data too, arrives at the
//! latter's control socket. So it comes in the order in which it was sent: the data before the
//! token.
//!
//! Datagrams may be fragmented by IP (tokens and joins of large groups), so "don't fragment" is off
//! everywhere.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use bytes::BytesMut;
use socket2::{Domain, Protocol, Socket, Type};

use groupcast_core::Time;

use crate::clock::Clock;
use crate::config::{EndpointConfig, Group};
use crate::error::NetError;
use crate::sys;

/// Tokens and unicast need less buffer than data.
const CONTROL_BUFFER_MAX: usize = 1 << 20;

/// Both sockets, and what the kernel granted.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) control: Socket,
    pub(crate) data: Socket,
    pub(crate) buffer: BufferReport,
}

/// What became of the wish for a large receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferReport {
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes that the kernel gave.
    pub granted: usize,
}

impl BufferReport {
    /// What to tell the operator if the kernel gave less than was asked for.
    pub fn warning(&self) -> Option<String> {
        let Self { asked, granted } = self;
        (granted < asked).then(|| {
            format!(
                "the receive buffer is {granted} bytes, {asked} were asked for: under load datagrams will be lost \
                 and repeated; run `sysctl -w net.core.rmem_max={asked}` as root (and put net.core.rmem_max = {asked} \
                 into /etc/sysctl.d/ to keep it), then start this program again"
            )
        })
    }
}

impl Sockets {
    pub(crate) fn open(config: &EndpointConfig) -> Result<Self, NetError> {
        let listen = config.listen;
        let control = bound(listen)?;
        set_up_sending(&control, *listen.ip(), config.multicast_ttl, config.loops())?;
        // The upper six bits of the byte; the lower two are the network's (ECN).
        control
            .set_tos_v4(u32::from(config.dscp) << 2)
            .map_err(NetError::system("set the DSCP"))?;
        ask_receive_buffer(&control, config.receive_buffer.min(CONTROL_BUFFER_MAX))?;
        ask_send_buffer(&control, config.send_buffer)?;
        set_up_receiving(&control, config);
        let (data, buffer) = Self::open_data(config)?;
        Ok(Self {
            control,
            data,
            buffer,
        })
    }

    /// The data socket alone.
    pub(crate) fn open_data(config: &EndpointConfig) -> Result<(Socket, BufferReport), NetError> {
        let listen = config.listen;
        let data = match config.group {
            Group::Multicast(group) => joined(group, *listen.ip())?,
            Group::Mesh(_) => bound(SocketAddrV4::new(*listen.ip(), listen.port() + 1))?,
        };
        let buffer = ask_receive_buffer(&data, config.receive_buffer)?;
        set_up_receiving(&data, config);
        Ok((data, buffer))
    }
}

/// What the configuration asks of the kernel for datagrams that arrive, as far as it can.
fn set_up_receiving(socket: &Socket, config: &EndpointConfig) {
    if config.offload
        // Kernels before 5.0 cannot coalesce: then every datagram comes by itself.
        && let Err(error) = sys::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
    {
        tracing::debug!(%error, "no receive offload");
    }
    if config.stamps
        // Without, what datagrams wait in the host counts as if the network delayed them.
        && let Err(error) =
            sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
    {
        tracing::debug!(%error, "no receive stamps");
    }
}

fn create() -> Result<Socket, NetError> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
        .map_err(NetError::system("create a UDP socket"))?;
    socket
        .set_nonblocking(true)
        .map_err(NetError::system("make a socket non-blocking"))?;
    sys::set_option(
        socket.as_fd(),
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_DONT,
    )
    .map_err(NetError::system("allow fragmentation"))?;
    Ok(socket)
}

/// A socket bound to a unicast address of this host.
fn bound(address: SocketAddrV4) -> Result<Socket, NetError> {
    let socket = create()?;
    bind(&socket, address)?;
    Ok(socket)
}

fn bind(socket: &Socket, address: SocketAddrV4) -> Result<(), NetError> {
    socket
        .bind(&address.into())
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EADDRINUSE) => NetError::InUse { address },
            Some(libc::EADDRNOTAVAIL) => NetError::NotLocal {
                address: *address.ip(),
            },
            Some(libc::EACCES) => NetError::Forbidden { address },
            _ => NetError::System {
                what: "bind a UDP socket",
                source,
            },
        })
}

/// A socket that receives what is sent to `group`, on the interface of `listen` only. Several
/// processes of a host may have one each, and each gets a copy.
fn joined(group: SocketAddrV4, listen: Ipv4Addr) -> Result<Socket, NetError> {
    let socket = create()?;
    socket
        .set_reuse_address(true)
        .map_err(NetError::system("share the multicast port"))?;
    // Without this, the kernel also delivers groups that other sockets joined on other interfaces.
    socket
        .set_multicast_all_v4(false)
        .map_err(NetError::system("restrict multicasts to one interface"))?;
    bind(&socket, group)?;
    socket
        .join_multicast_v4(group.ip(), &listen)
        .map_err(|source| NetError::NoMulticast {
            listen,
            group: *group.ip(),
            source,
        })?;
    Ok(socket)
}

fn set_up_sending(
    socket: &Socket,
    interface: Ipv4Addr,
    ttl: u8,
    loops: bool,
) -> Result<(), NetError> {
    socket
        .set_multicast_if_v4(&interface)
        .map_err(NetError::system("choose the interface for multicasts"))?;
    socket
        .set_multicast_ttl_v4(ttl.into())
        .map_err(NetError::system("set the multicast TTL"))?;
    socket
        .set_multicast_loop_v4(loops)
        .map_err(NetError::system("set the multicast loop"))
}

fn ask_receive_buffer(socket: &Socket, asked: usize) -> Result<BufferReport, NetError> {
    let (fd, level) = (socket.as_fd(), libc::SOL_SOCKET);
    let granted = ask_buffer(fd, asked, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
        .and_then(|()| sys::option(fd, level, libc::SO_RCVBUF))
        .map_err(NetError::system("set the receive buffer"))?;
    Ok(BufferReport {
        asked,
        // The kernel doubles what it grants, for its own book-keeping.
        granted: usize::try_from(granted).unwrap_or(0) / 2,
    })
}

fn ask_send_buffer(socket: &Socket, asked: usize) -> Result<(), NetError> {
    ask_buffer(socket.as_fd(), asked, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
        .map_err(NetError::system("set the send buffer"))
}

/// Asks with privilege (past the system's limit), then without.
pub(crate) fn ask_buffer(
    socket: BorrowedFd<'_>,
    asked: usize,
    force: libc::c_int,
    plain: libc::c_int,
) -> io::Result<()> {
    let asked = libc::c_int::try_from(asked).unwrap_or(libc::c_int::MAX / 2);
    sys::set_option(socket, libc::SOL_SOCKET, force, asked)
        .or_else(|_| sys::set_option(socket, libc::SOL_SOCKET, plain, asked))
}

/// The largest datagram that reaches `to` from `listen` in one piece (its UDP payload), if the
/// kernel can tell.
pub(crate) fn datagram_max(listen: Ipv4Addr, to: SocketAddrV4) -> Option<usize> {
    const IP_AND_UDP_HEADER: usize = 28;
    let socket = bound(SocketAddrV4::new(listen, 0)).ok()?;
    socket.set_multicast_if_v4(&listen).ok()?;
    socket.connect(&to.into()).ok()?;
    let mtu = sys::option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU).ok()?;
    usize::try_from(mtu).ok()?.checked_sub(IP_AND_UDP_HEADER)
}

/// Whether a multicast to `group`, sent from the interface of `listen` with the loop on, comes back
/// to this host within 200 ms. False says that this machine (or container) has no working multicast
/// there.
pub fn probe_multicast(listen: Ipv4Addr, group: Ipv4Addr) -> bool {
    match try_probe(listen, group) {
        Ok(heard) => heard,
        Err(error) => {
            tracing::debug!(%error, %listen, %group, "no multicast");
            false
        }
    }
}

fn try_probe(listen: Ipv4Addr, group: Ipv4Addr) -> Result<bool, NetError> {
    const PATIENCE: Duration = Duration::from_millis(200);
    let receiver = joined(SocketAddrV4::new(group, 0), listen)?;
    let port = receiver
        .local_addr()
        .ok()
        .and_then(|address| address.as_socket_ipv4())
        .map_or(0, |address| address.port());
    let sender = bound(SocketAddrV4::new(listen, 0))?;
    set_up_sending(&sender, listen, 1, true)?;
    let mut nonce = [0; 16];
    aws_lc_rs::rand::fill(&mut nonce)
        .map_err(|_| NetError::system("get random bytes")(io::ErrorKind::Other.into()))?;
    let to = SocketAddrV4::new(group, port);
    sys::send(sender.as_fd(), to, &nonce, None).map_err(NetError::system("send a multicast"))?;

    let clock = Clock::start();
    let mut received = BytesMut::with_capacity(nonce.len());
    loop {
        let waited = clock.now() - Time::ZERO;
        let Some(left) = PATIENCE.checked_sub(waited) else {
            return Ok(false);
        };
        sys::wait_readable(&receiver, left).map_err(NetError::system("wait for a multicast"))?;
        while sys::receive(receiver.as_fd(), &mut received).is_ok() {
            if received == nonce[..] {
                return Ok(true);
            }
            received.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(tweak: impl Fn(&mut EndpointConfig)) -> Sockets {
        let port = || 20_000 + (crate::random_u64().unwrap() % 12_000) as u16;
        let listen = SocketAddrV4::new(Ipv4Addr::new(127, 79, 3, 7), port());
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 79, 3, 7), port());
        let mut config = EndpointConfig::multicast(listen, group);
        tweak(&mut config);
        Sockets::open(&config).unwrap()
    }

    #[test]
    fn the_kernel_says_when_a_datagram_came_if_it_is_asked() {
        for asked in [false, true] {
            let sockets = opened(|config| config.stamps = asked);
            let to = sockets.control.local_addr().unwrap();
            let clock = || {
                let now = std::time::SystemTime::now();
                now.duration_since(std::time::UNIX_EPOCH).unwrap()
            };
            let sent = clock();
            sockets.control.send_to(b"now", &to).unwrap();
            let mut room = BytesMut::with_capacity(64 << 10);
            let received = loop {
                match sys::receive(sockets.control.as_fd(), &mut room) {
                    Ok(received) => break received,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            };
            assert_eq!(&room[..], b"now");
            assert_eq!(received.stamp.is_some(), asked);
            if let Some(stamp) = received.stamp {
                assert!(sent <= stamp && stamp <= clock(), "{sent:?} {stamp:?}");
            }
        }
    }

    #[test]
    fn options_follow_the_configuration() {
        let sockets = opened(|_| {});
        let control = &sockets.control;
        assert!(
            control.multicast_loop_v4().unwrap(),
            "the listen address is a loopback one"
        );
        assert_eq!(control.multicast_ttl_v4().unwrap(), 1);
        assert_eq!(
            control.multicast_if_v4().unwrap(),
            Ipv4Addr::new(127, 79, 3, 7)
        );
        assert!(!sockets.data.multicast_all_v4().unwrap());
        for socket in [control, &sockets.data] {
            let option = |level, name| sys::option(socket.as_fd(), level, name).unwrap();
            let discovery = option(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
            assert_eq!(discovery, libc::IP_PMTUDISC_DONT);
            assert_eq!(option(libc::SOL_UDP, libc::UDP_GRO), 1);
        }

        let sockets = opened(|config| {
            config.multicast_loop = Some(false);
            config.multicast_ttl = 3;
            config.dscp = 8;
            config.offload = false;
        });
        assert!(!sockets.control.multicast_loop_v4().unwrap());
        assert_eq!(sockets.control.multicast_ttl_v4().unwrap(), 3);
        assert_eq!(sockets.control.tos_v4().unwrap(), 8 << 2);
        let coalesces = sys::option(sockets.data.as_fd(), libc::SOL_UDP, libc::UDP_GRO);
        assert_eq!(coalesces.unwrap(), 0);
    }

    #[test]
    fn a_receive_buffer_that_is_too_small_is_reported_with_the_remedy() {
        let granted = opened(|config| config.receive_buffer = 100 << 10).buffer;
        assert_eq!((granted.asked, granted.granted), (100 << 10, 100 << 10));
        assert_eq!(granted.warning(), None);
        let less = BufferReport {
            asked: 8 << 20,
            granted: 212_992,
        };
        let warning = less.warning().unwrap();
        assert!(
            warning.contains("212992") && warning.contains("net.core.rmem_max=8388608"),
            "{warning}"
        );
    }
}
