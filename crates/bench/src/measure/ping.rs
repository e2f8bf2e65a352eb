//! What a round trip costs here: a blocking UDP ping-pong between two hosts of the bed, without any
//! protocol.
//!
//! It holds what every datagram pays on this machine: two system calls, the network, and the waking
//! of a sleeping thread, which makes most of it. Latencies of the ring are compared to it, because
//! that carries over to other machines.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{self, Window};
use super::tally::Latencies;
use super::{
    Assignment, BenchError, Said, assign, await_ready, await_result, await_window, open_window, say,
};
use crate::testbed::Testbed;

/// A ping is sent this often: both sides have gone to sleep meanwhile.
const INTERVAL: Duration = Duration::from_millis(3);
/// Pings that count, as far as [`LENGTH`] allows.
const ROUNDS: u32 = 330;
/// They are sent for no longer than this.
const LENGTH: Duration = Duration::from_secs(2);
/// Pings before those.
const WARM_UP: Duration = Duration::from_millis(100);
/// A ping without an answer for this long is given up, and does not count.
const PATIENCE: Duration = Duration::from_millis(100);
const PORT: u16 = 7912;
/// As large as a token is.
const SIZE: usize = 100;

/// One side of a ping-pong.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ping {
    address: Ipv4Addr,
    /// Whom it asks; without, it answers.
    peer: Option<Ipv4Addr>,
    /// From one ping to the next.
    interval: Duration,
}

/// Round trips between hosts 1 and 2.
pub(super) fn round_trips(bed: &Testbed, executable: &Path) -> Result<Latencies, BenchError> {
    round_trips_after(bed, executable, INTERVAL)
}

/// The same with a ping after each `interval`.
pub(super) fn round_trips_after(
    bed: &Testbed,
    executable: &Path,
    interval: Duration,
) -> Result<Latencies, BenchError> {
    let start = |host, peer| {
        let part = Ping {
            address: bed.address(host),
            peer,
            interval,
        };
        let label = format!("ping-{host}");
        assign(bed, host, &label, executable, &Assignment::Ping(part))
    };
    let mut pong = start(2, None)?;
    let mut ping = start(1, Some(bed.address(2)))?;
    await_ready(&mut pong)?;
    await_ready(&mut ping)?;
    let window = Window::after(WARM_UP, LENGTH.min(interval * ROUNDS));
    open_window(&mut pong, window)?;
    open_window(&mut ping, window)?;
    let latencies: Latencies = await_result(&mut ping, window)?;
    let _: Latencies = await_result(&mut pong, window)?;
    if latencies.count() == 0 {
        return Err(BenchError::process(&ping, "had no answer"));
    }
    Ok(latencies)
}

impl Ping {
    /// Asks or answers until the window's end; the result are the round trips, none of who answers.
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let socket = UdpSocket::bind(SocketAddrV4::new(self.address, PORT))
            .map_err(BenchError::io("open a socket"))?;
        socket
            .set_read_timeout(Some(PATIENCE))
            .map_err(BenchError::io("set a time-out"))?;
        let window = await_window()?;
        let latencies = match self.peer {
            Some(peer) => ask(
                &socket,
                SocketAddrV4::new(peer, PORT),
                self.interval,
                window,
            ),
            None => answer(&socket, window).map(|()| Latencies::default()),
        };
        say(&Said::Result(
            latencies.map_err(BenchError::io("ping another host"))?,
        ))
    }
}

fn ask(
    socket: &UdpSocket,
    peer: SocketAddrV4,
    interval: Duration,
    window: Window,
) -> io::Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut datagram = [0; SIZE];
    let mut due = clock::now();
    loop {
        // A round trip that took longer than the interval is followed by a whole one.
        due = (due + clock::nanos(interval)).max(clock::now());
        clock::sleep_until(due);
        let sent = clock::now();
        if sent >= window.until {
            return Ok(latencies);
        }
        datagram[..8].copy_from_slice(&sent.to_be_bytes());
        socket.send_to(&datagram, peer)?;
        // An answer that came too late for its own ping is not this one's.
        while let Some(answer) = receive(socket)? {
            if answer[..8] == datagram[..8] {
                if window.contains(sent) {
                    latencies.add(clock::now() - sent);
                }
                break;
            }
        }
    }
}

fn answer(socket: &UdpSocket, window: Window) -> io::Result<()> {
    let mut datagram = [0; SIZE];
    while clock::now() < window.until {
        match socket.recv_from(&mut datagram) {
            Ok((len, from)) => {
                socket.send_to(&datagram[..len], from)?;
            }
            Err(error) if is_silence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The next datagram of full size; `None` if none comes in time.
fn receive(socket: &UdpSocket) -> io::Result<Option<[u8; SIZE]>> {
    let mut datagram = [0; SIZE];
    loop {
        match socket.recv(&mut datagram) {
            Ok(SIZE) => return Ok(Some(datagram)),
            Ok(_) => {}
            Err(error) if is_silence(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ping_of_the_window_is_answered_once() {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (asking, answering) = (bind(), bind());
        for socket in [&asking, &answering] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        let std::net::SocketAddr::V4(peer) = answering.local_addr().unwrap() else {
            panic!("bound to an IPv4 address");
        };
        let window = Window::after(Duration::from_millis(10), Duration::from_millis(300));
        let thread = std::thread::spawn(move || answer(&answering, window));
        let latencies = ask(&asking, peer, INTERVAL, window).unwrap();
        thread.join().unwrap().unwrap();
        assert!((1..=100).contains(&latencies.count()));
        assert!(latencies.percentile_us(50.0) > 0.0);
    }
}
