//! `groupcast bench gossip`: one sender, many members in one process with sockets of their own,
//! some of them perturbed.
//!
//! The real-socket counterpart of 004 ch. 4: every member has a thread, an endpoint and a protocol
//! instance, and is reached by multicast on the loopback interface; a perturbed one sleeps through
//! intervals of 100 ms, each with a given probability. What counts is what the healthy members get:
//! by gossip the sender's rate, whatever the others do; on the ring and in the windowed group,
//! which wait for everybody, less. The members know each other from the start, so that no admission
//! is measured.
//!
//! - [`carrier`]: the protocols, as 004 sets them up. `member.rs`: what a member does. [`report`]:
//!   the result.

pub mod carrier;
mod member;
pub mod report;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use groupcast_core::{Incarnation, MemberId, NodeId, Rng};
use groupcast_net::Key;
use rustix::time::{ClockId, clock_gettime};

pub use self::carrier::Carrier;
use self::member::{Counts, LOOK_UP, Member};
pub use self::report::GossipReport;
use super::BenchError;
use super::clock::{self, Window};
use super::endpoint::failed;
use super::stamp::Stamp;

/// The most members: each has an address of one loopback network.
pub const MEMBERS_MAX: usize = 250;
/// The least and the greatest payload: a stamp, and what one datagram of every protocol here takes.
pub const SIZE_MIN: usize = Stamp::LEN;
/// See [`SIZE_MIN`].
pub const SIZE_MAX: usize = 60_000;

const PORT: u16 = 4810;
/// A perturbed member decides this often whether it sleeps for as long (004 4.2).
const SLEEP: Duration = Duration::from_millis(100);
/// How long the members may take to find each other.
const FORMING: Duration = Duration::from_secs(60);

/// What to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GossipOptions {
    /// Members, the sender included: 2 to [`MEMBERS_MAX`].
    pub members: usize,
    /// Messages a second.
    pub rate: f64,
    /// Payload of a message in bytes: [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: usize,
    /// The share of the members that is perturbed, 0 to 1; never the sender.
    pub perturbed: f64,
    /// The probability with which a perturbed member sleeps through an interval of 100 ms.
    pub sleep: f64,
    /// What carries the messages.
    pub carrier: Carrier,
    /// From the moment when all are together until it counts: the perturbed sleep already.
    pub warm_up: Duration,
    /// How long to count.
    pub duration: Duration,
    /// Whether datagrams are encrypted.
    pub encrypt: bool,
}

impl GossipOptions {
    /// How many members are perturbed.
    fn perturbed_members(&self) -> usize {
        let share = (self.members as f64 * self.perturbed).round() as usize;
        share.min(self.members - 1)
    }
}

/// Runs it.
///
/// # Errors
/// If sockets cannot be opened, or not all members are together within a minute.
pub fn run(options: &GossipOptions) -> Result<GossipReport, BenchError> {
    let bench = Bench::new(options)?;
    thread::scope(|scope| {
        let members: Vec<_> = (0..options.members)
            .map(|index| {
                let bench = &bench;
                scope.spawn(move || {
                    let result = Member::run(bench, index);
                    // The others need not wait for one that has failed.
                    if result.is_err() {
                        bench.failed.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        let (processors, formed) = bench.conduct();
        let results: Result<Vec<Counts>, BenchError> = members
            .into_iter()
            .map(|member| {
                member
                    .join()
                    .unwrap_or_else(|_| Err(BenchError::client("be a member", "its thread ended")))
            })
            .collect();
        let results = results?;
        formed?;
        Ok(GossipReport::new(&bench, &results, processors))
    })
}

/// What all members share.
struct Bench {
    options: GossipOptions,
    roster: Vec<(MemberId, SocketAddrV4)>,
    group: SocketAddrV4,
    key: Option<Key>,
    seed: u64,
    /// Members whose sockets are open, and who are together with all others.
    opened: AtomicUsize,
    together: AtomicUsize,
    window: OnceLock<Window>,
    /// A member failed, or not all were together in time.
    failed: AtomicBool,
}

impl Bench {
    fn new(options: &GossipOptions) -> Result<Self, BenchError> {
        let seed = groupcast_net::random_u64().map_err(failed)?;
        let network = 1 + (seed % 250) as u8;
        let roster = (1..=options.members).map(|host| {
            let member = MemberId {
                node: NodeId(host as u64),
                incarnation: Incarnation(Rng::new(seed).fork(&format!("{host}")).next_u64()),
            };
            let address = Ipv4Addr::new(127, 79, network, host as u8);
            (member, SocketAddrV4::new(address, PORT))
        });
        let key = match options.encrypt {
            true => Some(Key::random().map_err(failed)?),
            false => None,
        };
        Ok(Self {
            options: *options,
            roster: roster.collect(),
            group: SocketAddrV4::new(Ipv4Addr::new(239, 79, network, 1), PORT + 1),
            key,
            seed,
            opened: AtomicUsize::new(0),
            together: AtomicUsize::new(0),
            window: OnceLock::new(),
            failed: AtomicBool::new(false),
        })
    }

    /// Waits until all members are together, then has them measure; how many processors they kept
    /// busy.
    fn conduct(&self) -> (f64, Result<(), BenchError>) {
        let deadline = clock::now() + clock::nanos(FORMING);
        while self.together.load(Ordering::Relaxed) < self.options.members {
            if clock::now() > deadline || self.failed.load(Ordering::Relaxed) {
                self.failed.store(true, Ordering::Relaxed);
                let together = self.together.load(Ordering::Relaxed);
                let problem = format!(
                    "{together} of {} members were together after {FORMING:?}",
                    self.options.members
                );
                return (0.0, Err(BenchError::client("form the group", problem)));
            }
            thread::sleep(LOOK_UP);
        }
        let window = *self
            .window
            .get_or_init(|| Window::after(self.options.warm_up, self.options.duration));
        clock::sleep_until(window.from);
        let before = processor_seconds();
        clock::sleep_until(window.until);
        let used = processor_seconds() - before;
        (used / window.seconds(), Ok(()))
    }

    /// Whether member `index` is perturbed: one in this many, the sender (the first) excepted.
    fn is_perturbed(&self, index: usize) -> bool {
        let (perturbed, others) = (self.options.perturbed_members(), self.options.members - 1);
        index > 0 && (index * perturbed) / others > ((index - 1) * perturbed) / others
    }
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(members: usize, perturbed: f64) -> GossipOptions {
        GossipOptions {
            members,
            rate: 50.0,
            size: 200,
            perturbed,
            sleep: 0.5,
            carrier: Carrier::Pbcast,
            warm_up: Duration::from_millis(100),
            duration: Duration::from_millis(400),
            encrypt: true,
        }
    }

    #[test]
    fn as_many_are_perturbed_as_the_share_says_and_never_the_sender() {
        for (members, share, perturbed) in [(128, 0.25, 32), (8, 0.5, 4), (2, 1.0, 1), (9, 0.0, 0)]
        {
            let bench = Bench::new(&options(members, share)).unwrap();
            let count = (0..members).filter(|index| bench.is_perturbed(*index));
            assert_eq!(count.count(), perturbed, "{members} {share}");
            assert!(!bench.is_perturbed(0));
        }
    }

    #[test]
    fn a_small_group_delivers_what_is_sent_by_every_carrier() {
        for carrier in [Carrier::Pbcast, Carrier::Ring, Carrier::Windowed] {
            let report = run(&GossipOptions {
                carrier,
                sleep: 0.0,
                ..options(4, 0.25)
            })
            .unwrap();
            assert!(report.sent_per_s > 10.0, "{report}");
            assert!(report.healthy.mean > 10.0, "{report}");
            assert_eq!((report.healthy.members, report.perturbed.members), (2, 1));
        }
    }
}
