//! The measuring processes of a calibration: the network driver itself with the least protocol on it.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::{Destination, Incarnation, MemberId, Node, NodeId, Rng, SocketClass};
use groupcast_net::{Endpoint, EndpointConfig, Key, Sealing, random_u64};
use serde::{Deserialize, Serialize};

use super::drum::{BEAT, Drum, Heard, Roll};
use super::fit::deciles;
use crate::measure::clock::{self, Window};
use crate::measure::{BenchError, Said, await_window, say};

const DRUM: Channel = Channel::SOLE;
/// How long everybody may take to hear everybody.
const JOINING: Duration = Duration::from_secs(10);
/// How often they say that they are there.
const HELLO: Duration = Duration::from_millis(20);
/// Between two bursts: the token buckets fill, the receivers read.
const PAUSE: Duration = Duration::from_millis(2);
/// So long bursts stay of one kind: what a receiver finds in its buffer is then of one size.
const KIND: Duration = Duration::from_millis(200);
/// A receiver lets so much time pass before it looks: awake, because a processor that slept is slow at first, and what
/// that costs belongs to waking up.
const GATHERING: Duration = Duration::from_micros(2_500);
/// How long whoever follows waits at a time.
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
    /// Sends bursts of each of these counts and lengths of bodies to the group, and times the sends.
    Send(Vec<(u32, usize)>),
    /// Lets datagrams gather, and times their receipt.
    Receive,
    /// Sends a baton through the hands of all others and times how long it is away.
    Baton,
    /// Sleeps, and takes what comes.
    Follow,
}

/// How long something took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// So many datagrams,
    pub datagrams: u64,
    /// each of so many bytes (UDP's payload).
    pub len: usize,
    /// The median, in nanoseconds.
    pub nanos: u64,
    /// From the first decile to the last.
    pub spread: u64,
    /// Of so many.
    pub of: usize,
}

/// Times by number of datagrams and length of their bodies.
type Times = BTreeMap<(u64, usize), Vec<u64>>;

impl Probe {
    /// Bytes that a datagram has beyond its body: prefix, channel, seal.
    const FRAMING: usize = Node::<Drum>::HEADROOM + 16;

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
                Part::Baton => baton(&mut endpoint, &mut times)?,
                Part::Follow => turn(&mut endpoint, PATIENCE)?,
            }
        }
        say(&Said::Result(samples(times)))
    }

    fn open(&self) -> Result<Endpoint<Drum>, BenchError> {
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
        endpoint.node_mut().open(DRUM, Drum::new(local));
        Ok(endpoint)
    }

    /// Says hello until everybody is heard, and for a while longer, so that everybody else hears this one.
    fn await_others(&self, endpoint: &mut Endpoint<Drum>) -> Result<(), BenchError> {
        let deadline = clock::now() + clock::nanos(JOINING);
        let mut complete_since = None;
        loop {
            let now = clock::now();
            if drum(endpoint).peers.len() + 1 >= self.members {
                let since = *complete_since.get_or_insert(now);
                if now - since > 20 * clock::nanos(HELLO) {
                    drum(endpoint).heard();
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
            beat(endpoint, 1, 8);
            turn(endpoint, HELLO)?;
        }
    }
}

fn drum(endpoint: &mut Endpoint<Drum>) -> &mut Drum {
    endpoint
        .node_mut()
        .instance_mut(DRUM)
        .expect("opened with the endpoint")
}

fn turn(endpoint: &mut Endpoint<Drum>, patience: Duration) -> Result<(), BenchError> {
    let mut ready = Vec::new();
    endpoint
        .turn(Some(patience), &mut ready)
        .map_err(BenchError::io("drive the network"))
}

/// A burst to the group, at the next draining.
fn beat(endpoint: &mut Endpoint<Drum>, count: u32, len: usize) {
    drum(endpoint).roll(Roll {
        to: Destination::Group,
        class: SocketClass::Data,
        count,
        body: vec![BEAT; len].into(),
    });
}

/// One burst, of the kind whose time it is.
fn send(
    endpoint: &mut Endpoint<Drum>,
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
    beat(endpoint, 1, len);
    let now = endpoint.now();
    endpoint.flush(now);
    beat(endpoint, count, len);
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

/// Everything that gathered while nobody looked; nothing, too, has its time.
fn receive(endpoint: &mut Endpoint<Drum>, times: &mut Times) -> Result<(), BenchError> {
    let end = clock::now() + clock::nanos(GATHERING);
    while clock::now() < end {
        std::hint::spin_loop();
    }
    drum(endpoint).heard();
    let before = clock::now();
    turn(endpoint, Duration::ZERO)?;
    let after = clock::now();
    match drum(endpoint).heard() {
        Heard { datagrams: 0, .. } => note(times, 0, 0, after - before),
        Heard {
            datagrams,
            len: Some(len),
        } => note(times, datagrams, len, after - before),
        Heard { len: None, .. } => {}
    }
    Ok(())
}

/// The baton once through all hands; of a body of 64 bytes, as long as a small token.
fn baton(endpoint: &mut Endpoint<Drum>, times: &mut Times) -> Result<(), BenchError> {
    const LEN: usize = 64;
    const AWAY_MAX: Duration = Duration::from_millis(20);
    drum(endpoint).heard();
    let others = drum(endpoint).peers.len();
    let hands = u8::try_from(others).unwrap_or(u8::MAX);
    drum(endpoint).pass(hands, vec![BEAT; LEN]);
    let begun = clock::now();
    let now = endpoint.now();
    endpoint.flush(now);
    loop {
        turn(endpoint, AWAY_MAX)?;
        let after = clock::now();
        if drum(endpoint).heard().len == Some(LEN) {
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
