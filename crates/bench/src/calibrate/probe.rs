//! The measuring processes of a calibration: the network driver itself with the least protocol on
//! it.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::{Destination, Incarnation, MemberId, Node, NodeId, Rng, SocketClass};
use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing, random_u64};
use serde::{Deserialize, Serialize};

use super::fit::deciles;
use super::traffic::{Burst, PLAIN, Received, Traffic};
use crate::measure::clock::{self, Window};
use crate::measure::{BenchError, Said, await_window, say};

const TRAFFIC: Channel = Channel::SOLE;
/// How long it may take until every process has received from every other.
const JOINING: Duration = Duration::from_secs(10);
/// How often a process announces itself.
const HELLO: Duration = Duration::from_millis(20);
/// Between two bursts: the token buckets fill, the receivers read.
const PAUSE: Duration = Duration::from_millis(2);
/// Bursts stay of one kind for this long: what a receiver finds in its buffer is then of one size.
const KIND: Duration = Duration::from_millis(200);
/// A receiver lets this much time pass before it looks: awake, because a processor that slept is
/// slow at first, and what that costs belongs to waking up.
const GATHERING: Duration = Duration::from_micros(2_500);
/// How long a process that only follows waits at a time.
const PATIENCE: Duration = Duration::from_millis(5);
/// The most samples of one kind that are kept.
const SAMPLES_MAX: usize = 20_000;
/// Fewer samples of a kind say nothing.
const SAMPLES_MIN: usize = 15;

/// A process's part in a calibration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// Its host, from 1.
    pub host: usize,
    /// Its address.
    pub listen: SocketAddrV4,
    /// The group's address.
    pub multicast: SocketAddrV4,
    /// How many processes there are.
    pub members: usize,
    /// The file with the key.
    pub key: String,
    /// What it does.
    pub part: Part,
}

/// What a process of a calibration does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Sends bursts of each of these counts and lengths of bodies to the group, and times the
    /// sends.
    Send(Vec<(u32, usize)>),
    /// Lets datagrams gather, and times their receipt.
    Receive,
    /// Sends a datagram that all others relay in turn, and times how long it is away.
    Relay,
    /// Sleeps, and takes what comes.
    Follow,
}

/// How long something took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// This many datagrams,
    pub datagrams: u64,
    /// each of this many bytes (UDP's payload).
    pub len: usize,
    /// The median, in nanoseconds.
    pub nanos: u64,
    /// From the first decile to the last.
    pub spread: u64,
    /// Of this many.
    pub of: usize,
}

/// Times by number of datagrams and length of their bodies.
type Times = BTreeMap<(u64, usize), Vec<u64>>;

impl Probe {
    /// Bytes that a datagram has beyond its body: prefix, channel, seal.
    const FRAMING: usize = Node::<Traffic>::HEADROOM + 16;

    /// Does its part until the window's end; the result is a list of [`Sample`]s.
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        let mut endpoint = self.open()?;
        self.await_others(&mut endpoint)?;
        say::<()>(&Said::Ready)?;
        // Hellos that come meanwhile wait in the socket.
        let window = await_window()?;
        let mut times = Times::new();
        clock::sleep_until(window.from);
        while clock::now() < window.until {
            match &self.part {
                Part::Send(kinds) => send(&mut endpoint, kinds, window, &mut times)?,
                Part::Receive => receive(&mut endpoint, &mut times)?,
                Part::Relay => relay(&mut endpoint, &mut times)?,
                Part::Follow => turn(&mut endpoint, PATIENCE)?,
            }
        }
        say(&Said::Result(samples(times)))
    }

    fn open(&self) -> Result<Endpoint<Traffic>, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::client("start a probe", error);
        let rng = Rng::new(random_u64().map_err(|error| failed(&error))?);
        let local = MemberId {
            node: NodeId(self.host as u64),
            incarnation: Incarnation(rng.fork("incarnation").next_u64()),
        };
        let key = Key::load(Path::new(&self.key)).map_err(|error| failed(&error))?;
        let config = EndpointConfig::multicast(self.listen, self.multicast);
        let mut endpoint = Endpoint::builder(config, local, Sealing::Key(key))
            .rng(rng.fork("node"))
            .open()
            .map_err(|error| failed(&error))?;
        endpoint.node_mut().open(TRAFFIC, Traffic::new(local));
        Ok(endpoint)
    }

    /// Announces itself until it has received from all others, and for a while longer, so that all
    /// others receive too.
    fn await_others(&self, endpoint: &mut Endpoint<Traffic>) -> Result<(), BenchError> {
        let deadline = clock::now() + clock::nanos(JOINING);
        let mut complete_since = None;
        loop {
            let now = clock::now();
            if traffic(endpoint).peers.len() + 1 >= self.members {
                let since = *complete_since.get_or_insert(now);
                if now - since > 20 * clock::nanos(HELLO) {
                    traffic(endpoint).received();
                    return Ok(());
                }
            } else if now > deadline {
                return Err(BenchError::client(
                    "start a probe",
                    format!(
                        "the {} others were not heard in {JOINING:?}",
                        self.members - 1
                    ),
                ));
            }
            burst(endpoint, 1, 8);
            turn(endpoint, HELLO)?;
        }
    }
}

fn traffic(endpoint: &mut Endpoint<Traffic>) -> &mut Traffic {
    endpoint
        .node_mut()
        .instance_mut(TRAFFIC)
        .expect("opened with the endpoint")
}

fn turn(endpoint: &mut Endpoint<Traffic>, patience: Duration) -> Result<(), BenchError> {
    let mut ready = Vec::new();
    endpoint
        .turn(Some(patience), &mut ready)
        .map_err(BenchError::io("drive the network"))
}

/// A burst to the group, sent when the endpoint is flushed next.
fn burst(endpoint: &mut Endpoint<Traffic>, count: u32, len: usize) {
    traffic(endpoint).send(Burst {
        to: Destination::Group,
        class: SocketClass::Data,
        count,
        body: vec![PLAIN; len].into(),
    });
}

/// One burst, of the kind that is due.
fn send(
    endpoint: &mut Endpoint<Traffic>,
    kinds: &[(u32, usize)],
    window: Window,
    times: &mut Times,
) -> Result<(), BenchError> {
    let begun = clock::now();
    let kind = (begun.saturating_sub(window.from) / clock::nanos(KIND)) as usize;
    let Some((count, len)) = kinds.get(kind % kinds.len().max(1)).copied() else {
        return Err(BenchError::client("send", "nothing was given to send"));
    };
    // The first finds caches cold, and is not timed.
    burst(endpoint, 1, len);
    let now = endpoint.now();
    endpoint.flush(now);
    burst(endpoint, count, len);
    let now = endpoint.now();
    let before = clock::now();
    endpoint.flush(now);
    let after = clock::now();
    note(times, u64::from(count), len, after - before);
    let end = after + clock::nanos(PAUSE);
    while clock::now() < end {
        turn(
            endpoint,
            Duration::from_nanos(end.saturating_sub(clock::now())),
        )?;
    }
    Ok(())
}

/// Receives all that has gathered; a turn that receives nothing takes time too.
fn receive(endpoint: &mut Endpoint<Traffic>, times: &mut Times) -> Result<(), BenchError> {
    let end = clock::now() + clock::nanos(GATHERING);
    while clock::now() < end {
        std::hint::spin_loop();
    }
    traffic(endpoint).received();
    let before = clock::now();
    turn(endpoint, Duration::ZERO)?;
    let after = clock::now();
    match traffic(endpoint).received() {
        Received { datagrams: 0, .. } => note(times, 0, 0, after - before),
        Received {
            datagrams,
            len: Some(len),
        } => note(times, datagrams, len, after - before),
        Received { len: None, .. } => {}
    }
    Ok(())
}

/// One round of a relayed datagram through all members; its body has 64 bytes, as a small token
/// has.
fn relay(endpoint: &mut Endpoint<Traffic>, times: &mut Times) -> Result<(), BenchError> {
    const LEN: usize = 64;
    const AWAY_MAX: Duration = Duration::from_millis(20);
    traffic(endpoint).received();
    let others = traffic(endpoint).peers.len();
    let hops = u8::try_from(others).unwrap_or(u8::MAX);
    traffic(endpoint).relay(hops, vec![PLAIN; LEN]);
    let begun = clock::now();
    let now = endpoint.now();
    endpoint.flush(now);
    loop {
        turn(endpoint, AWAY_MAX)?;
        let after = clock::now();
        if traffic(endpoint).received().len == Some(LEN) {
            note(times, others as u64 + 1, LEN, after - begun);
            return Ok(());
        }
        if after - begun > clock::nanos(AWAY_MAX) {
            return Ok(());
        }
    }
}

fn note(times: &mut Times, datagrams: u64, len: usize, nanos: u64) {
    let samples = times.entry((datagrams, len)).or_default();
    if samples.len() < SAMPLES_MAX {
        samples.push(nanos);
    }
}

/// The medians of what was seen often enough.
fn samples(times: Times) -> Vec<Sample> {
    times
        .into_iter()
        .filter(|(_, nanos)| nanos.len() >= SAMPLES_MIN)
        .map(|((datagrams, len), mut nanos)| {
            let [low, middle, high] = deciles(&mut nanos);
            Sample {
                datagrams,
                len: if datagrams == 0 {
                    0
                } else {
                    len + Probe::FRAMING
                },
                nanos: middle,
                spread: high - low,
                of: nanos.len(),
            }
        })
        .collect()
}
