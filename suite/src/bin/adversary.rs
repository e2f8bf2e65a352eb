//! An adversary on a host of a test bed: sends datagrams that no daemon would send, at a given
//! rate.
//!
//! `adversary KIND COUNT RATE SEED CAPTURE TARGET...` sends COUNT datagrams, RATE a second, to the
//! targets in turn. CAPTURE (a file of `tcpdump -w`) is what it has overheard; `-` if nothing.
//! Kinds: `random` (any bytes of any length), `version` (well formed, of a version to come),
//! `replayed`, `flipped` (one bit), `truncated`, `forged` (a prefix overheard, with a counter ahead
//! of its sender's, before random bytes), `mixed` (all in turn). With a capture, datagrams go to
//! the port that they were overheard at, if a target has it.
//!
//! The last line is how many were sent.

use std::error::Error;
use std::net::{SocketAddrV4, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_core::Incarnation;
use groupcast_core::Rng;
use groupcast_core::wire::{ClusterTag, PREFIX_LEN, Prefix, VERSION, Version};
use groupcast_suite::live::pcap::{self, Datagram};

/// Datagrams that are sent back to back between two looks at the rate.
const BURST: u64 = 32;
/// Where a prefix has *addressed* and its counter.
const NONCE: std::ops::Range<usize> = 16..24;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, count, rate, seed, capture, targets @ ..] = &arguments[..] else {
        return Err("usage: adversary KIND COUNT RATE SEED CAPTURE|- TARGET...".into());
    };
    let overheard = match capture.as_str() {
        "-" => Vec::new(),
        path => pcap::datagrams(&std::fs::read(path)?)?,
    };
    let adversary = Adversary {
        overheard,
        targets: targets
            .iter()
            .map(|target| target.parse())
            .collect::<Result<_, _>>()?,
        kinds: Kind::of(kind)?,
        rng: Rng::new(seed.parse()?),
    };
    let sent = adversary.run(count.parse()?, rate.parse()?)?;
    println!("{sent}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Random,
    Version,
    Replayed,
    Flipped,
    Truncated,
    Forged,
}

impl Kind {
    fn of(word: &str) -> Result<Vec<Self>, String> {
        Ok(match word {
            "random" => vec![Self::Random],
            "version" => vec![Self::Version],
            "replayed" => vec![Self::Replayed],
            "flipped" => vec![Self::Flipped],
            "truncated" => vec![Self::Truncated],
            "forged" => vec![Self::Forged],
            "mixed" => vec![
                Self::Random,
                Self::Version,
                Self::Replayed,
                Self::Flipped,
                Self::Truncated,
                Self::Forged,
            ],
            other => return Err(format!("no kind {other}")),
        })
    }
}

struct Adversary {
    overheard: Vec<Datagram>,
    targets: Vec<SocketAddrV4>,
    kinds: Vec<Kind>,
    rng: Rng,
}

impl Adversary {
    fn run(mut self, count: u64, rate: u64) -> Result<u64, Box<dyn Error>> {
        if self.targets.is_empty() || rate == 0 {
            return Err("needs a target and a rate".into());
        }
        let invented = [Kind::Random, Kind::Version];
        if self.overheard.is_empty() && !self.kinds.iter().all(|kind| invented.contains(kind)) {
            return Err("overheard nothing: only what can be invented is possible".into());
        }
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let begun = Instant::now();
        let mut sent = 0;
        for index in 0..count {
            if index % BURST == 0 {
                let due = begun + Duration::from_nanos(index * 1_000_000_000 / rate);
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let (to, datagram) = self.datagram(index as usize);
            // An unreachable port answers at the next send; the attack goes on.
            sent += u64::from(socket.send_to(&datagram, to).is_ok());
        }
        Ok(sent)
    }

    fn datagram(&mut self, index: usize) -> (SocketAddrV4, Vec<u8>) {
        let target = self.targets[index / self.kinds.len() % self.targets.len()];
        let kind = self.kinds[index % self.kinds.len()];
        if matches!(kind, Kind::Random | Kind::Version) {
            let len = self.rng.below(1473) as usize;
            let mut datagram = match kind {
                Kind::Version => self.prefix_of_a_version_to_come().to_vec(),
                _ => Vec::new(),
            };
            datagram.extend(self.noise(len.saturating_sub(datagram.len())));
            return (target, datagram);
        }
        let chosen = self.rng.below(self.overheard.len() as u64) as usize;
        let Datagram { to, mut payload } = self.overheard[chosen].clone();
        let to = if self.targets.contains(&to) {
            to
        } else {
            target
        };
        match kind {
            Kind::Random | Kind::Version | Kind::Replayed => {}
            Kind::Flipped => {
                let bit = self.rng.below(payload.len().max(1) as u64 * 8);
                if let Some(byte) = payload.get_mut((bit / 8) as usize) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Kind::Truncated => {
                payload.truncate(self.rng.below(payload.len().max(1) as u64) as usize);
            }
            Kind::Forged => {
                let len = payload.len().saturating_sub(PREFIX_LEN);
                payload.truncate(PREFIX_LEN);
                payload.extend(self.noise(len));
                if let Some(nonce) = payload.get_mut(NONCE) {
                    let addressed = nonce[0] & 0x80;
                    let ahead = (1 << 40) + self.rng.below(1 << 40);
                    nonce.copy_from_slice(&ahead.to_be_bytes());
                    nonce[0] |= addressed;
                }
            }
        }
        (to, payload)
    }

    fn prefix_of_a_version_to_come(&mut self) -> [u8; PREFIX_LEN] {
        Prefix {
            version: Version {
                major: VERSION.major + 1,
                minor: 0,
            },
            cluster: ClusterTag(self.rng.next_u64() as u32),
            sender: Incarnation(self.rng.next_u64()),
            addressed: self.rng.chance(0.5),
            counter: self.rng.below(Prefix::COUNTER_MAX),
        }
        .encode()
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.rng.next_u64().to_be_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
