//! The raw multicast limit: what one sender gets through to the slowest receiver, without any
//! protocol.
//!
//! The sender keeps a window of datagrams open and the receivers say how far they are, eight times
//! a window; it never runs ahead, so nothing is lost but what the network itself cannot carry, and
//! what is measured is the receivers' goodput, not how fast a sender can overrun them. A window
//! whose datagrams or acknowledgements were lost is given up after a while.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use groupcast_net::raw::{RawSocket, ReceiveBatch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::clock::{self, Window};
use super::{
    Assignment, BenchError, Said, assign, await_ready, await_result, await_window, open_window, say,
};
use crate::testbed::Testbed;

/// Payload of every datagram: what fits an Ethernet frame beside headers and some protocol's own.
pub const PAYLOAD: usize = 1350;
/// Datagrams on their way.
const WINDOW: u64 = 512;
/// Datagrams in one call without offload.
const BATCH: usize = 32;
/// Datagrams in one call with offload.
const SEGMENTS: usize = 47;
/// How long the sender waits for the slowest receiver before it gives the window up.
const PATIENCE: Duration = Duration::from_millis(20);
/// Warm-up: processes start, queues fill.
const WARM_UP: Duration = Duration::from_millis(500);
const SEND_PORT: u16 = 7911;
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 79, 0, 1), 7910);
/// A receiver's report: which one it is, and the highest number that it has.
const REPORT: usize = 16;

/// The sender's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Send {
    address: Ipv4Addr,
    receivers: usize,
    offload: bool,
}

/// A receiver's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Receive {
    address: Ipv4Addr,
    index: u64,
    sender: Ipv4Addr,
    offload: bool,
}

/// Payload that the slowest receiver gets, in Mb/s: host 1 sends to all others for `length`. With
/// `offload`, the kernel cuts and coalesces segments; without, every datagram travels alone.
pub fn limit(
    bed: &Testbed,
    executable: &Path,
    offload: bool,
    length: Duration,
) -> Result<f64, BenchError> {
    let receivers = bed.hosts() - 1;
    let kind = if offload { "offload" } else { "plain" };
    let mut processes = (0..receivers)
        .map(|index| {
            let host = index + 2;
            let part = Receive {
                address: bed.address(host),
                index: index as u64,
                sender: bed.address(1),
                offload,
            };
            let label = format!("raw-{kind}-{host}");
            assign(bed, host, &label, executable, &Assignment::RawReceive(part))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let part = Send {
        address: bed.address(1),
        receivers,
        offload,
    };
    let label = format!("raw-{kind}-1");
    let mut sender = assign(bed, 1, &label, executable, &Assignment::RawSend(part))?;
    for process in processes.iter_mut().chain([&mut sender]) {
        await_ready(process)?;
    }
    let window = Window::after(WARM_UP, length);
    for process in processes.iter_mut().chain([&mut sender]) {
        open_window(process, window)?;
    }
    let mut slowest = f64::INFINITY;
    for process in &mut processes {
        let bytes: u64 = await_result(process, window)?;
        slowest = slowest.min(window.mbps(bytes));
    }
    let _: u64 = await_result(&mut sender, window)?;
    Ok(if slowest.is_finite() { slowest } else { 0.0 })
}

impl Send {
    /// Multicasts until the window's end.
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let address = SocketAddrV4::new(self.address, SEND_PORT);
        let socket =
            RawSocket::sender(address).map_err(BenchError::io("open the sending socket"))?;
        let window = await_window()?;
        let mut sending = Sending {
            socket,
            offload: self.offload,
            reported: vec![0; self.receivers],
            reports: ReceiveBatch::new(REPORT, false),
            sent: 0,
            datagrams: vec![0; PAYLOAD * BATCH.max(SEGMENTS)],
        };
        while clock::now() < window.until {
            sending.turn().map_err(BenchError::io("multicast"))?;
        }
        say(&Said::Result(sending.sent))
    }
}

struct Sending {
    socket: RawSocket,
    offload: bool,
    /// The highest number that each receiver has.
    reported: Vec<u64>,
    reports: ReceiveBatch,
    sent: u64,
    datagrams: Vec<u8>,
}

impl Sending {
    /// Sends a batch, or waits for the receivers.
    fn turn(&mut self) -> io::Result<()> {
        let batch = if self.offload { SEGMENTS } else { BATCH };
        let slowest = self.reported.iter().copied().min().unwrap_or(self.sent);
        if self.sent + batch as u64 > slowest + WINDOW {
            if !self.read_reports(PATIENCE)? {
                self.reported.fill(self.sent);
            }
            return Ok(());
        }
        let bytes = &mut self.datagrams[..batch * PAYLOAD];
        for (datagram, number) in bytes.chunks_mut(PAYLOAD).zip(self.sent + 1..) {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
        }
        match self.socket.send(GROUP, bytes, PAYLOAD, self.offload) {
            Ok(count) => {
                self.sent += count as u64;
                self.read_reports(Duration::ZERO).map(|_| ())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&self.socket, PollFlags::OUT, PATIENCE)
            }
            // The interface's queue is full.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
            {
                wait(&self.socket, PollFlags::IN, Duration::from_micros(100))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a report came within `patience`.
    fn read_reports(&mut self, patience: Duration) -> io::Result<bool> {
        if !patience.is_zero() {
            wait(&self.socket, PollFlags::IN, patience)?;
        }
        match self.socket.receive(&mut self.reports) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        for report in self.reports.datagrams(REPORT) {
            let (index, number) = (number_at(report, 0), number_at(report, 8));
            if let (Some(index), Some(number)) = (index, number)
                && let Some(reported) = self.reported.get_mut(index as usize)
            {
                *reported = number.max(*reported);
            }
        }
        Ok(true)
    }
}

impl Receive {
    /// Receives until the window's end; the result is how many bytes came within it.
    pub(super) fn run(&self) -> Result<(), BenchError> {
        let socket = RawSocket::receiver(self.address, GROUP, self.offload)
            .map_err(BenchError::io("open the receiving socket"))?;
        let reports = RawSocket::sender(SocketAddrV4::new(self.address, 0))
            .map_err(BenchError::io("open the reporting socket"))?;
        let window = await_window()?;
        let mut batch = ReceiveBatch::new(PAYLOAD, self.offload);
        let (mut highest, mut reported, mut bytes) = (0, 0, 0);
        while clock::now() < window.until {
            match socket.receive(&mut batch) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&socket, PollFlags::IN, PATIENCE).map_err(BenchError::io("wait"))?;
                    continue;
                }
                Err(error) => return Err(BenchError::io("receive")(error)),
            }
            let counts = window.contains(clock::now());
            for datagram in batch.datagrams(PAYLOAD) {
                highest = number_at(datagram, 0).unwrap_or(0).max(highest);
                bytes += if counts { datagram.len() as u64 } else { 0 };
            }
            if highest >= reported + WINDOW / 8 {
                reported = highest;
                let mut report = [0; REPORT];
                report[..8].copy_from_slice(&self.index.to_be_bytes());
                report[8..].copy_from_slice(&highest.to_be_bytes());
                let to = SocketAddrV4::new(self.sender, SEND_PORT);
                // A report that cannot be sent is made good by the next one.
                let _ = reports.send(to, &report, REPORT, false);
            }
        }
        say(&Said::Result(bytes))
    }
}

fn number_at(datagram: &[u8], offset: usize) -> Option<u64> {
    let bytes = datagram.get(offset..offset + 8)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn wait(socket: &RawSocket, flags: PollFlags, patience: Duration) -> io::Result<()> {
    let limit = Timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    match poll(&mut [PollFd::new(socket, flags)], Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
