//! Messages from one host to many, one after the other: what the figures of 001 measure, on real
//! sockets.
//!
//! Host 1 sends, hosts 2 to N + 1 receive; each has a process of its own. The time of a message is
//! from its offer until its sender knows that every receiver has it. A first message of one byte is
//! not counted. As in 001 nothing is encrypted, and the members know each other from the start, so
//! that no admission is measured. What comes out of the figures is judged in the lab.
//!
//! - `member.rs`: a member of one of the four protocols. `tcp.rs`: TCP to one after the other,
//!   which 001 compares ACK with.

pub mod member;
pub mod tcp;

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use groupcast_protocols::bulk::Policy;
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::member::Member;
use self::tcp::Unicast;
use super::clock::{self, Instant, Window};
use super::endpoint::failed;
use super::{Assignment, BenchError, assign, await_ready, await_result, open_window};
use crate::process::Process;
use crate::testbed::Testbed;

/// A message that has not come to its end by then never does.
const LIMIT: Duration = Duration::from_secs(8);
/// The message that comes before those that count: memory is touched, round trips are known.
const WARM_UP: u64 = 1;

/// Who brings a message to all receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Every receiver acknowledges every packet.
    Ack,
    /// NAK with polling.
    Nak {
        /// Packets from one that is flagged to the next.
        poll: u32,
    },
    /// Receivers acknowledge in turn.
    Ring,
    /// A flat tree.
    Tree {
        /// Receivers in a chain.
        height: u32,
    },
    /// Multicast without repair; receivers answer the last packet. In the simulator only.
    Udp,
    /// TCP to one receiver after the other.
    Tcp,
}

impl System {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Nak { .. } => "nak",
            Self::Ring => "ring",
            Self::Tree { .. } => "tree",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// The policy of those that are 001's own.
    pub fn policy(self) -> Option<Policy> {
        match self {
            Self::Ack => Some(Policy::Ack),
            Self::Nak { poll } => Some(Policy::Nak { poll }),
            Self::Ring => Some(Policy::Ring),
            Self::Tree { height } => Some(Policy::Tree { height }),
            Self::Udp | Self::Tcp => None,
        }
    }
}

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    /// Who carries it.
    pub system: System,
    /// To how many: 1 to one less than the bed has hosts.
    pub receivers: usize,
    /// Bytes of a message.
    pub size: u64,
    /// Bytes of it in a packet.
    pub packet: usize,
    /// Packets of the window.
    pub window: u32,
    /// Messages that count.
    pub messages: usize,
}

/// What was measured of the messages that count, together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Carried {
    /// Of each message, in seconds; `None` if it did not come to its end within 8 s, and of all
    /// after it.
    pub seconds: Vec<Option<f64>>,
    /// Data packets sent for the first time.
    pub packets: u64,
    /// Data packets sent again.
    pub repairs: u64,
    /// Acknowledgements that all receivers sent.
    pub sent: u64,
    /// Acknowledgements that came to the sender.
    pub arrived: u64,
    /// The most bytes that the sender kept at once.
    pub buffered: u64,
    /// The share of the time in which the sender's processor worked for it.
    pub processor: f64,
    /// The share of the time in which the processors of this machine worked, for whatever; `None`
    /// if it was too short to tell, less than a tick.
    pub machine: Option<f64>,
}

/// Whether the protocol takes these settings; 001's refuse some, and one of its figures is about
/// that.
pub fn is_possible(course: &Course) -> bool {
    let settings = |policy| member::settings(course, policy);
    course
        .system
        .policy()
        .is_none_or(|policy| member::is_possible(settings(policy)))
}

/// Carries the messages of `course` over `bed`.
///
/// # Errors
/// If a process fails; not if a message does not come to its end.
pub fn carry(bed: &Testbed, executable: &Path, course: &Course) -> Result<Carried, BenchError> {
    let seed = groupcast_net::random_u64().map_err(failed)?;
    let start = |host: usize, label: &str| {
        let part = part(bed, host, course, seed);
        assign(bed, host, label, executable, &part)
    };
    let mut receivers = (2..=course.receivers + 1)
        .map(|host| start(host, &format!("receiver-{host}")))
        .collect::<Result<Vec<Process>, BenchError>>()?;
    for receiver in &mut receivers {
        await_ready(receiver)?;
    }
    let mut sender = start(1, "sender")?;
    await_ready(&mut sender)?;
    // The window says when a sender may begin at once, and a receiver that all is over.
    let mut carried: Carried = dismiss(&mut sender, LIMIT * (course.messages as u32 + 1))?;
    for receiver in &mut receivers {
        let sent: u64 = dismiss(receiver, Duration::ZERO)?;
        carried.sent += sent;
    }
    Ok(carried)
}

/// Tells a worker its window, and waits for its result.
fn dismiss<T: DeserializeOwned>(process: &mut Process, length: Duration) -> Result<T, BenchError> {
    let window = Window::after(Duration::ZERO, length);
    open_window(process, window)?;
    await_result(process, window)
}

/// What `host` does: host 1 sends. From `seed` all know who the others are.
fn part(bed: &Testbed, host: usize, course: &Course, seed: u64) -> Assignment {
    let mut messages = vec![course.size; course.messages];
    messages.insert(0, WARM_UP);
    let messages = if host == 1 { messages } else { Vec::new() };
    let address = bed.address(host);
    match course.system {
        System::Tcp => Assignment::LanTcp(Unicast {
            address,
            receivers: addresses(bed, 2, course),
            messages,
        }),
        system => Assignment::LanMember(Member {
            seed,
            host,
            hosts: addresses(bed, 1, course),
            system,
            receivers: course.receivers,
            packet: course.packet,
            window: course.window,
            messages,
        }),
    }
}

/// The addresses of the hosts from `first` on.
fn addresses(bed: &Testbed, first: usize, course: &Course) -> Vec<Ipv4Addr> {
    let hosts = first..=course.receivers + 1;
    hosts.map(|host| bed.address(host)).collect()
}

/// How long something took, and what the processors did meanwhile.
struct Watch {
    begun: Instant,
    own: f64,
    machine: Option<(u64, u64)>,
}

impl Watch {
    fn start() -> Self {
        Self {
            begun: clock::now(),
            own: processor_seconds(),
            machine: machine_ticks(),
        }
    }

    /// Writes down what this process and the machine used since the start.
    fn note(&self, carried: &mut Carried) {
        let seconds = (clock::now() - self.begun) as f64 / 1e9;
        carried.processor = (processor_seconds() - self.own) / seconds;
        carried.machine = match (self.machine, machine_ticks()) {
            (Some((busy, all)), Some((busy_now, all_now))) if all_now > all => {
                Some((busy_now - busy) as f64 / (all_now - all) as f64)
            }
            _ => None,
        };
    }
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Ticks in which processors worked, and all ticks; since the machine started.
fn machine_ticks() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    ticks(stat.lines().next()?)
}

/// Of the first line of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq,
/// steal.
fn ticks(line: &str) -> Option<(u64, u64)> {
    let fields = line.strip_prefix("cpu ")?.split_whitespace().take(8);
    let fields: Vec<u64> = fields
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let all: u64 = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((all - idle, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_waiting_are_not_of_work() {
        let line = "cpu  10 1 20 300 5 2 3 4 50 60";
        assert_eq!(ticks(line), Some((40, 345)));
        assert_eq!(ticks("cpu0 1 2 3 4"), None);
        assert_eq!(ticks("cpu  1 2 x 4 5"), None);
    }

    #[test]
    fn a_ring_needs_more_packets_than_receivers() {
        let course = |window| Course {
            system: System::Ring,
            receivers: 30,
            size: 1,
            packet: 8_000,
            window,
            messages: 1,
        };
        assert!(!is_possible(&course(30)));
        assert!(is_possible(&course(31)));
    }
}
