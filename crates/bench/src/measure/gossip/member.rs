//! A member of the group: a thread with an endpoint and a protocol, which sends, receives, or
//! sleeps now and then.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::node::Channel;
use groupcast_core::{Event, Instrumented, Ordered as _, Rng, SubmitError};
use groupcast_net::{Endpoint, EndpointConfig};

use super::{Bench, Carrier, SLEEP, carrier};
use crate::measure::BenchError;
use crate::measure::clock::{self, Instant, Window};
use crate::measure::endpoint::{self, Driver};
use crate::measure::stamp::Stamp;
use crate::measure::tally::Latencies;

const CHANNEL: Channel = Channel::SOLE;
/// A member that waits for the others looks around this often.
pub(super) const LOOK_UP: Duration = Duration::from_millis(50);

/// What a member counted in the window.
pub(super) struct Counts {
    /// Messages delivered; at the sender, sent.
    pub(super) delivered: u64,
    /// Messages reported as lost.
    pub(super) lost: u64,
    pub(super) latencies: Latencies,
    pub(super) kernel_drops: u64,
}

/// A member at work.
pub(super) struct Member<'a> {
    bench: &'a Bench,
    endpoint: Endpoint<Box<dyn Instrumented>>,
    counts: Counts,
    window: Option<Window>,
    together: bool,
}

impl<'a> Member<'a> {
    pub(super) fn run(bench: &'a Bench, index: usize) -> Result<Counts, BenchError> {
        let mut member = Self {
            bench,
            endpoint: open(bench, index)?,
            counts: Counts {
                delivered: 0,
                lost: 0,
                latencies: Latencies::default(),
                kernel_drops: 0,
            },
            window: None,
            together: false,
        };
        bench.opened.fetch_add(1, Ordering::Relaxed);
        while bench.opened.load(Ordering::Relaxed) < bench.options.members {
            if bench.failed.load(Ordering::Relaxed) {
                return Ok(member.counts);
            }
            thread::sleep(LOOK_UP);
        }
        member.begin(index)?;
        let Some(window) = member.await_window()? else {
            return Ok(member.counts);
        };
        match (index, bench.is_perturbed(index)) {
            (0, _) => member.send(window)?,
            (_, perturbed) => member.receive(window, perturbed, index)?,
        }
        let counters = member.endpoint.counters();
        member.counts.kernel_drops = counters.control.kernel_drops + counters.data.kernel_drops;
        Ok(member.counts)
    }

    /// Begins the protocol, once everybody's sockets are open.
    fn begin(&mut self, index: usize) -> Result<(), BenchError> {
        let now = self.endpoint.now();
        let (local, _) = self.bench.roster[index];
        let rng = Rng::new(self.bench.seed).fork(&format!("protocol {index}"));
        let mut protocol = carrier::protocol(&self.bench.options, local, rng, now)?;
        let node = self.endpoint.node_mut();
        for (peer, address) in &self.bench.roster {
            if *peer != local {
                node.trust(now, *peer, SocketAddr::V4(*address));
                protocol.introduce(now, *peer);
            }
        }
        node.open(CHANNEL, protocol);
        if self.bench.options.carrier == Carrier::Pbcast {
            self.is_together();
        }
        Ok(())
    }

    fn is_together(&mut self) {
        if !std::mem::replace(&mut self.together, true) {
            self.bench.together.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps the protocol going until all are together; `None` if they never were.
    fn await_window(&mut self) -> Result<Option<Window>, BenchError> {
        loop {
            if let Some(window) = self.bench.window.get() {
                self.window = Some(*window);
                return Ok(Some(*window));
            }
            if self.bench.failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.turn(LOOK_UP)?;
        }
    }

    /// Sends at the rate from now until the window ends.
    fn send(&mut self, window: Window) -> Result<(), BenchError> {
        let options = self.bench.options;
        let start = clock::now();
        let mut payload = vec![b'.'; options.size];
        let mut index = 0;
        loop {
            let now = clock::now();
            if now >= window.until {
                return Ok(());
            }
            let due = start + (index as f64 * 1e9 / options.rate) as Instant;
            if due > now {
                self.turn(Duration::from_nanos(due.min(window.until) - now))?;
                continue;
            }
            let stamp = Stamp {
                sender: 1,
                index,
                sent: due,
            };
            stamp.write(&mut payload);
            let bytes = Bytes::copy_from_slice(&payload);
            let at = self.endpoint.now();
            let service = options.carrier.service();
            let protocol = self.endpoint.node_mut().instance_mut(CHANNEL);
            let protocol = protocol.expect("begun before the window");
            match protocol.submit(at, service, bytes) {
                Ok(_) => self.counts.delivered += u64::from(window.contains(now)),
                // A source does not wait: what cannot be sent when it is due never is.
                Err(SubmitError::Full { .. }) => {}
                Err(error) => return Err(BenchError::client("submit", error)),
            }
            index += 1;
        }
    }

    /// Receives until the window ends; a perturbed member sleeps now and then.
    fn receive(&mut self, window: Window, perturbed: bool, index: usize) -> Result<(), BenchError> {
        let mut rng = Rng::new(self.bench.seed).fork(&format!("sleep {index}"));
        // Members decide at different times.
        let mut decide = clock::now() + rng.below(clock::nanos(SLEEP));
        loop {
            let now = clock::now();
            if now >= window.until {
                return Ok(());
            }
            let mut until = window.until;
            if perturbed {
                if now >= decide {
                    decide = now.max(decide + clock::nanos(SLEEP));
                    if rng.chance(self.bench.options.sleep) {
                        clock::sleep_until(decide.min(window.until));
                        continue;
                    }
                }
                until = until.min(decide);
            }
            self.turn(Duration::from_nanos(until.saturating_sub(now)))?;
        }
    }
}

impl Driver for Member<'_> {
    type Protocol = Box<dyn Instrumented>;

    fn endpoint(&mut self) -> &mut Endpoint<Self::Protocol> {
        &mut self.endpoint
    }

    fn take(&mut self, now: Instant, event: Event) -> Result<(), BenchError> {
        let counts = self.window.is_some_and(|window| window.contains(now));
        let local = self.endpoint.node().local();
        match event {
            Event::Deliver(delivery) if counts && delivery.id.sender != local => {
                let stamp = Stamp::read(&delivery.payload)
                    .ok_or_else(|| BenchError::client("receive", "a message without a stamp"))?;
                self.counts.delivered += 1;
                self.counts.latencies.add(now.saturating_sub(stamp.sent));
            }
            Event::Gap(gap) if counts => self.counts.lost += gap.last - gap.first + 1,
            Event::Configuration(config) if config.members.len() == self.bench.roster.len() => {
                self.is_together();
            }
            _ => {}
        }
        Ok(())
    }
}

/// The sockets of member `index`, without a protocol yet.
fn open(bench: &Bench, index: usize) -> Result<Endpoint<Box<dyn Instrumented>>, BenchError> {
    let (local, listen) = bench.roster[index];
    let config = EndpointConfig::multicast(listen, bench.group);
    let rng = Rng::new(bench.seed).fork(&format!("node {index}"));
    endpoint::open(local, config, bench.key.as_ref(), &rng)
}
