//! The datagrams of a flood, and the process that sends them from a host of a test bed.
//!
//! What an attacker would have recorded is made here with the cluster's key, which is the same and
//! takes no hours of listening: the datagrams of lives that have ended.

use std::net::{SocketAddrV4, UdpSocket};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::Process;
use groupcast_core::node::{Channel, Cookie, Hello};
use groupcast_core::seal::{AssociatedData, Sealer as _};
use groupcast_core::wire::{Prefix, VERSION};
use groupcast_core::{Incarnation, Rng};
use groupcast_net::{AesGcmSealer, Key, Purpose};
use serde_json::{Value, json};

use super::super::Outcome;
use super::super::cluster::Cluster;

/// The hidden word with which the soak program starts itself as a flood.
pub const STORM: &str = "storm";
/// Sockets that send in turn: a receiver sees this many sources.
const SOURCES: usize = 16;
/// Datagrams that are sent back to back between two looks at the rate.
const BURST: u32 = 32;
/// Lives that have ended, and what of each was recorded.
const LIVES: u64 = 400;
const OF_EACH: u64 = 8;
/// Recordings, or inventions, of a kind without lives.
const POOL: usize = 20_000;
/// Bytes of a datagram's body.
const BODY: usize = 64;

/// What a flood is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// In the name of a member, and not sealed by it.
    Forged,
    /// Data of lives that have ended.
    Former,
    /// Hellos of such lives to the daemons that live.
    Hellos,
    /// In the name of a life that never was, another each time.
    Unknown,
    /// In the name of the receiver itself.
    Own,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Forged,
        Self::Former,
        Self::Hellos,
        Self::Unknown,
        Self::Own,
    ];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forged => "forged",
            Self::Former => "former",
            Self::Hellos => "hellos",
            Self::Unknown => "unknown",
            Self::Own => "own",
        }
    }

    /// The kind of that word.
    pub fn named(word: &str) -> Outcome<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| format!("no kind of flood: {word}").into())
    }
}

/// Starts a flood of `rate` datagrams a second at `to`, from a host. `lives` are the daemons that
/// it is to have to do with: those that listen there, or for [`Kind::Forged`] those in whose names
/// it comes.
pub fn start(
    cluster: &Cluster,
    host: usize,
    kind: Kind,
    to: SocketAddrV4,
    lives: &[Incarnation],
    length: Duration,
    rate: f64,
) -> Outcome<Process> {
    let mut command = cluster.bed.command(host, std::env::current_exe()?);
    command
        .args([STORM, kind.name(), &to.to_string()])
        .args([rate, length.as_secs_f64()].map(|number| number.to_string()))
        .arg(cluster.path("cluster.key"))
        .args(lives.iter().map(|life| format!("{:x}", life.0)));
    Ok(cluster.bed.launch("storm", command)?)
}

/// Datagrams a second, of what a flood printed.
pub fn rate(printed: &str) -> Outcome<f64> {
    let said: Value = serde_json::from_str(printed)?;
    let rate = said["rate"].as_f64();
    rate.ok_or_else(|| format!("the flood did not say its rate: {printed}").into())
}

/// A flood, in its process: prints how many datagrams it sent.
pub fn main(words: &[&str]) -> Outcome {
    let [kind, to, rate, seconds, key, lives @ ..] = words else {
        return Err("usage: storm KIND ADDRESS RATE SECONDS KEY LIFE...".into());
    };
    let lives: Vec<Incarnation> = lives
        .iter()
        .map(|life| u64::from_str_radix(life, 16).map(Incarnation))
        .collect::<Result<_, _>>()?;
    let key = Key::load(Path::new(key))?;
    let pool = pool(Kind::named(kind)?, &key, &lives);
    let (rate, length) = (rate.parse()?, Duration::from_secs_f64(seconds.parse()?));
    let (sent, took) = send(&pool, to.parse()?, rate, length)?;
    println!(
        "{}",
        json!({"sent": sent, "rate": sent as f64 / took.as_secs_f64()})
    );
    Ok(())
}

/// Sends the datagrams of `pool` in turn; how many, and how long that took.
fn send(
    pool: &[Vec<u8>],
    to: SocketAddrV4,
    rate: f64,
    length: Duration,
) -> Outcome<(u64, Duration)> {
    let mut sockets = Vec::new();
    for _ in 0..SOURCES {
        sockets.push(UdpSocket::bind("0.0.0.0:0")?);
    }
    let begun = Instant::now();
    let (mut sent, mut tried) = (0, 0_usize);
    let burst = Duration::from_secs_f64(f64::from(BURST) / rate);
    let mut due = begun;
    while begun.elapsed() < length {
        for _ in 0..BURST {
            let datagram = &pool[tried % pool.len()];
            let socket = &sockets[tried % SOURCES];
            sent += u64::from(socket.send_to(datagram, to).is_ok());
            tried += 1;
        }
        due += burst;
        let early = due.saturating_duration_since(Instant::now());
        // Sleeping takes longer than asked: what is lost is caught up with.
        if early > Duration::from_micros(100) {
            sleep(early);
        }
    }
    Ok((sent, begun.elapsed()))
}

/// The datagrams of `kind` for daemons whose lives are `lives`.
fn pool(kind: Kind, key: &Key, lives: &[Incarnation]) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(7).fork(kind.name());
    let cluster = AesGcmSealer::new(key, Purpose::Group, Incarnation(1)).cluster();
    let prefix = |sender: Incarnation, counter: u64, addressed: bool| Prefix {
        version: VERSION,
        cluster,
        sender,
        addressed,
        counter,
    };
    let in_turn = |index: usize| lives[index % lives.len()];
    match kind {
        Kind::Forged | Kind::Own | Kind::Unknown => (0..POOL)
            .map(|index| {
                let sender = match kind {
                    Kind::Unknown => Incarnation(rng.next_u64()),
                    _ => in_turn(index),
                };
                // Ahead of what its sender has sent.
                let counter = (1 << 40) + rng.below(1 << 40);
                let mut datagram = prefix(sender, counter, false).encode().to_vec();
                datagram.extend(noise(&mut rng, BODY + AesGcmSealer::OVERHEAD));
                datagram
            })
            .collect(),
        Kind::Former => (0..LIVES)
            .flat_map(|_| {
                let sender = Incarnation(rng.next_u64());
                let mut sealer = AesGcmSealer::new(key, Purpose::Group, sender);
                let bodies: Vec<_> = (0..OF_EACH).map(|_| noise(&mut rng, BODY)).collect();
                bodies.into_iter().zip(0..).map(move |(mut body, counter)| {
                    body[0] = Channel::SOLE.0;
                    sealed(&mut sealer, prefix(sender, counter, false), None, &body)
                })
            })
            .collect(),
        Kind::Hellos => (0..LIVES * OF_EACH)
            .map(|index| {
                let sender = Incarnation(rng.next_u64());
                let mut sealer = AesGcmSealer::new(key, Purpose::Group, sender);
                let hello = Hello {
                    challenge: Some(Cookie::from_bits(rng.next_u64())),
                    echo: None,
                };
                let body = [&[Channel::NODE.0][..], &hello.encode()].concat();
                let addressee = Some(in_turn(index as usize));
                sealed(&mut sealer, prefix(sender, 0, true), addressee, &body)
            })
            .collect(),
    }
}

/// A whole datagram.
fn sealed(
    sealer: &mut AesGcmSealer,
    prefix: Prefix,
    addressee: Option<Incarnation>,
    body: &[u8],
) -> Vec<u8> {
    let clear = prefix.encode();
    let associated = AssociatedData::new(&clear, addressee);
    let (mut body, mut tag) = (body.to_vec(), [0; AesGcmSealer::OVERHEAD]);
    sealer.seal(prefix.nonce(), &associated, &mut body, &mut tag);
    [&clear[..], &body, &tag].concat()
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_open_and_inventions_do_not() {
        let key = Key::from_bytes([7; Key::LEN]);
        let live = Incarnation(99);
        for kind in Kind::ALL {
            for datagram in pool(kind, &key, &[live]).iter().take(50) {
                let prefix = Prefix::decode(datagram).unwrap();
                let (clear, body) = datagram.split_at(groupcast_core::wire::PREFIX_LEN);
                let mut sealer = AesGcmSealer::new(&key, Purpose::Group, live);
                assert!(sealer.takes(prefix.cluster));
                let addressee = prefix.addressed.then_some(live);
                let associated = AssociatedData::new(clear.try_into().unwrap(), addressee);
                let mut body = body.to_vec();
                let opened = sealer.open(prefix.sender, prefix.nonce(), &associated, &mut body);
                let recorded = matches!(kind, Kind::Former | Kind::Hellos);
                assert_eq!(opened.is_ok(), recorded, "{}", kind.name());
                assert_eq!(
                    prefix.sender == live,
                    matches!(kind, Kind::Forged | Kind::Own)
                );
            }
        }
    }
}
