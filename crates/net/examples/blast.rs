//! What an endpoint costs per datagram on loopback, beside a bare pair of sockets: with and without
//! offload and seal.
//!
//! `cargo run --release -p groupcast-net --example blast [-- SECONDS]`. Sender and receiver take
//! turns in one thread (so nothing is lost and no wake-up is measured): the figures are the cost of
//! sending *and* receiving one datagram of 1350 bytes. On loopback the sender hears (and drops) its
//! own multicasts, so an endpoint's figures contain two copies, the bare ones one. Decide by the
//! ratios: machines and days differ.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_core::node::Channel;
use groupcast_core::{
    Destination, Event, MemberId, Protocol, SocketClass, Time, Transmit, TransmitBuf,
};
use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing, Spin, new_member, random_u64};

const LEN: usize = 1350;
const BATCH: usize = 48;
const CHANNEL: Channel = Channel::SOLE;

/// Sends batches when told to, counts what arrives.
#[derive(Default)]
struct Blaster {
    batches: usize,
    received: usize,
}

impl Protocol for Blaster {
    type Event = Event;

    fn handle_datagram(&mut self, _: Time, _: MemberId, _: Bytes) {
        self.received += 1;
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, _: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.batches = self.batches.checked_sub(1)?;
        for _ in 0..BATCH {
            if buf.accepts(LEN) {
                buf.push(&[&[0x2a; LEN]]);
            }
        }
        Some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Data,
        })
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

struct Pair {
    endpoints: [Endpoint<Blaster>; 2],
}

impl Pair {
    fn open(offload: bool, key: Option<&Key>) -> Result<Self, Box<dyn Error>> {
        let [a, b, c, d, ..] = random_u64()?.to_ne_bytes();
        let port = 20_000 + u16::from_ne_bytes([c, d]) % 12_000;
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 79, a, b), port);
        let open = |port| -> Result<Endpoint<Blaster>, Box<dyn Error>> {
            let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
            let mut config = EndpointConfig::multicast(listen, group);
            config.offload = offload;
            config.spin = Spin::Off;
            let local = new_member(&format!("blaster {port}"))?;
            let sealing = key.map_or(Sealing::Insecure, |key| Sealing::Key(key.clone()));
            let mut endpoint = Endpoint::builder(config, local, sealing).open()?;
            endpoint.node_mut().open(CHANNEL, Blaster::default());
            Ok(endpoint)
        };
        Ok(Self {
            endpoints: [open(port)?, open(port + 1)?],
        })
    }

    fn blaster(&mut self, index: usize) -> &mut Blaster {
        self.endpoints[index]
            .node_mut()
            .instance_mut(CHANNEL)
            .expect("opened with the endpoint")
    }

    /// One batch from the first to the second, and all that comes of it.
    fn exchange(&mut self) -> Result<(), Box<dyn Error>> {
        self.blaster(0).batches += 1;
        for endpoint in &mut self.endpoints {
            endpoint.turn(Some(Duration::ZERO), &mut Vec::new())?;
        }
        Ok(())
    }

    /// Nanoseconds for each datagram that arrived.
    fn measure(&mut self, duration: Duration) -> Result<f64, Box<dyn Error>> {
        while self.blaster(1).received == 0 {
            self.exchange()?;
        }
        let before = self.blaster(1).received;
        let start = Instant::now();
        while start.elapsed() < duration {
            self.exchange()?;
        }
        let elapsed = start.elapsed();
        let received = self.blaster(1).received - before;
        Ok(elapsed.as_nanos() as f64 / received.max(1) as f64)
    }
}

/// The same exchange with nothing around the sockets.
fn bare(duration: Duration) -> Result<f64, Box<dyn Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let mut room = [0; 2048];
    let mut received = 0usize;
    let start = Instant::now();
    while start.elapsed() < duration {
        for _ in 0..BATCH {
            sender.send(&[0x2a; LEN])?;
        }
        for _ in 0..BATCH {
            receiver.recv(&mut room)?;
            received += 1;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / received.max(1) as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = match std::env::args().nth(1) {
        Some(text) => text
            .parse()
            .map_err(|_| format!("`{text}` is not a number of seconds"))?,
        None => 1.0,
    };
    let duration = Duration::try_from_secs_f64(seconds)?;
    let key = Key::random()?;
    let reference = bare(duration)?;
    println!("{LEN} B, ns per datagram sent and received, and relative to bare sockets");
    println!("{:<32} {reference:>6.0}  1.00", "bare unicast send + recv");
    for offload in [false, true] {
        for key in [None, Some(&key)] {
            let nanos = Pair::open(offload, key)?.measure(duration)?;
            let name = format!(
                "endpoint, {}, {}",
                if offload { "offload" } else { "no offload" },
                if key.is_some() { "sealed" } else { "in clear" }
            );
            println!("{name:<32} {nanos:>6.0}  {:.2}", nanos / reference);
        }
    }
    Ok(())
}
