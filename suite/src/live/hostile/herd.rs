//! Clients that behave: many of them in one process, each a member of a group of a few, each
//! publishing at a steady pace.
//!
//! The latency of a message is counted from the time at which it was due, not from the time at
//! which it was sent: otherwise a publisher that the daemon holds up would hide the delay.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_bench::Process;
use groupcast_client::{Address, Client, ClientEvent, Options, Service};
use serde_json::{Value, json};

use super::super::Outcome;
use super::super::cluster::Cluster;

/// The hidden word: with it the soak program plays a herd.
pub const HERD: &str = "herd";
/// How long clients may take to find all members of their groups.
const MEETING_LIMIT: Duration = Duration::from_secs(60);
/// How long the last messages may take.
const GRACE: Duration = Duration::from_secs(5);
/// Memory for the stack of a client's thread.
const STACK: usize = 256 << 10;
/// Of each message: publisher (4 bytes), then the time at which it was due (8).
const HEADER: usize = 12;

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many there are.
    pub clients: usize,
    /// Members of a group.
    pub group: usize,
    /// Messages a second of each.
    pub rate: f64,
    /// Bytes of a message.
    pub size: usize,
    /// How long they publish.
    pub length: Duration,
}

/// What they saw.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tally {
    /// Messages that were published.
    pub published: u64,
    /// Deliveries that follow from them.
    pub expected: u64,
    /// Deliveries that came.
    pub delivered: u64,
    /// Clients whose connection ended.
    pub disconnected: u64,
    /// The median latency.
    pub median: Duration,
    /// The latency that one delivery of a hundred exceeds.
    pub p99: Duration,
    /// The longest latency.
    pub worst: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{} of {} deliveries, {} clients lost; median {:.2} ms, p99 {:.2} ms, worst {:.1} ms",
            self.delivered,
            self.expected,
            self.disconnected,
            millis(self.median),
            millis(self.p99),
            millis(self.worst)
        )
    }
}

impl Tally {
    /// Reads the last line that a herd printed.
    pub fn parse(printed: &str) -> Outcome<Self> {
        let line = printed.lines().last().ok_or("the herd printed nothing")?;
        let said: Value = serde_json::from_str(line)?;
        let number = |key: &str| {
            let number = said[key].as_u64();
            number.ok_or_else(|| format!("the herd did not say `{key}`: {line}"))
        };
        let time = |key: &str| number(key).map(Duration::from_micros);
        Ok(Self {
            published: number("published")?,
            expected: number("expected")?,
            delivered: number("delivered")?,
            disconnected: number("disconnected")?,
            median: time("median_us")?,
            p99: time("p99_us")?,
            worst: time("worst_us")?,
        })
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "published": self.published,
            "expected": self.expected,
            "delivered": self.delivered,
            "disconnected": self.disconnected,
            "median_us": self.median.as_micros() as u64,
            "p99_us": self.p99.as_micros() as u64,
            "worst_us": self.worst.as_micros() as u64,
        })
    }
}

/// Starts a herd in a process of its own, at the daemons of `hosts` in turn. It begins to publish
/// once it has printed its first line.
pub fn start(cluster: &Cluster, label: &str, plan: &Plan, hosts: &[usize]) -> Outcome<Process> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .arg(HERD)
        .args([plan.clients, plan.group, plan.size].map(|number| number.to_string()))
        .args([plan.rate, plan.length.as_secs_f64()].map(|number| number.to_string()))
        .args(hosts.iter().map(|host| cluster.socket(*host)));
    Ok(cluster.bed.launch(label, command)?)
}

/// How long a herd may take in all.
pub fn limit(plan: &Plan) -> Duration {
    MEETING_LIMIT + plan.length + GRACE * 4
}

/// The herd, in its process: prints a line when it begins to publish, and its [`Tally`] at the end.
pub fn main(words: &[&str]) -> Outcome {
    let [clients, group, size, rate, seconds, sockets @ ..] = words else {
        return Err("usage: herd CLIENTS GROUP SIZE RATE SECONDS SOCKET...".into());
    };
    let plan = Plan {
        clients: clients.parse()?,
        group: group.parse()?,
        size: size.parse::<usize>()?.max(HEADER),
        rate: rate.parse()?,
        length: Duration::from_secs_f64(seconds.parse()?),
    };
    let ready = Arc::new(Barrier::new(plan.clients + 1));
    let base = Instant::now();
    let mut threads = Vec::new();
    for index in 0..plan.clients {
        let socket = sockets[index % sockets.len()].to_owned();
        let ready = Arc::clone(&ready);
        let thread = thread::Builder::new().stack_size(STACK);
        threads.push(thread.spawn(move || {
            let met = Member::meet(&plan, index, Path::new(&socket), base);
            ready.wait();
            met.and_then(Member::run)
        })?);
    }
    ready.wait();
    println!("{}", json!({"ready": plan.clients}));
    let mut sum = Seen::default();
    for thread in threads {
        let seen = thread.join().map_err(|_| "a client panicked")??;
        sum.add(seen);
    }
    println!("{}", sum.tally(&plan).json());
    Ok(())
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    published: u64,
    disconnected: u64,
    /// Microseconds of each delivery.
    latencies: Vec<u32>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.published += other.published;
        self.disconnected += other.disconnected;
        self.latencies.extend(other.latencies);
    }

    fn tally(mut self, plan: &Plan) -> Tally {
        self.latencies.sort_unstable();
        let len = self.latencies.len();
        let at = |share: f64| {
            let index = (len as f64 * share) as usize;
            let micros = self.latencies.get(index.min(len.saturating_sub(1)));
            Duration::from_micros(micros.copied().unwrap_or(u32::MAX).into())
        };
        Tally {
            published: self.published,
            expected: self.published * plan.group as u64,
            delivered: len as u64,
            disconnected: self.disconnected,
            median: at(0.5),
            p99: at(0.99),
            worst: at(1.0),
        }
    }
}

/// A client whose group is complete.
struct Member {
    plan: Plan,
    index: usize,
    group: String,
    client: Client,
    base: Instant,
    seen: Seen,
}

impl Member {
    /// Joins, and waits for the other members of the group.
    fn meet(plan: &Plan, index: usize, socket: &Path, base: Instant) -> Outcome<Self> {
        let options = Options {
            name: Some(format!("herd-{index}")),
            connect_within: MEETING_LIMIT,
            ..Options::default()
        };
        let mut client = Client::connect(&Address::Unix(socket.into()), options)?;
        let group = format!("herd/{}", index / plan.group);
        client.join(&group)?;
        let first = index / plan.group * plan.group;
        let members = plan.group.min(plan.clients - first);
        let deadline = Instant::now() + MEETING_LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match client.next_event(Some(left))? {
                Some(ClientEvent::View(view)) if view.members.len() == members => break,
                Some(ClientEvent::Disconnected { text, .. }) => return Err(text.into()),
                Some(_) => {}
                None => return Err(format!("{group} did not meet").into()),
            }
        }
        Ok(Self {
            plan: *plan,
            index,
            group,
            client,
            base,
            seen: Seen::default(),
        })
    }

    /// Publishes and takes deliveries until the end.
    fn run(mut self) -> Outcome<Seen> {
        let begun = Instant::now();
        let interval = Duration::from_secs_f64(1.0 / self.plan.rate);
        // Spread over the interval, so that not all publish at once.
        let phase = interval.mul_f64(self.index as f64 / self.plan.clients as f64);
        let (end, mut due) = (begun + self.plan.length, begun + phase);
        loop {
            let now = Instant::now();
            if now >= end + GRACE {
                return Ok(self.seen);
            }
            let step = if due < end && now >= due {
                let published = self.publish(due);
                due += interval;
                published
            } else {
                let next = if due < end { due } else { end + GRACE };
                self.listen(next - now)
            };
            if let Err(error) = step {
                eprintln!("herd-{}: {error}", self.index);
                self.seen.disconnected = 1;
                return Ok(self.seen);
            }
        }
    }

    /// Takes what comes within `patience`.
    fn listen(&mut self, patience: Duration) -> Outcome {
        match self.client.next_event(Some(patience))? {
            Some(ClientEvent::Message(message)) => self.take(&message.payload),
            Some(ClientEvent::Disconnected { text, .. }) => return Err(text.into()),
            _ => {}
        }
        Ok(())
    }

    fn publish(&mut self, due: Instant) -> Outcome {
        let mut payload = vec![0; self.plan.size];
        payload[..4].copy_from_slice(&(self.index as u32).to_be_bytes());
        let nanos = (due - self.base).as_nanos() as u64;
        payload[4..HEADER].copy_from_slice(&nanos.to_be_bytes());
        self.client
            .publish(&[&self.group], Service::Agreed, &payload)?;
        self.client.flush()?;
        self.seen.published += 1;
        Ok(())
    }

    fn take(&mut self, payload: &[u8]) {
        let Some(nanos) = payload.get(4..HEADER) else {
            return;
        };
        let nanos = nanos.try_into().map(u64::from_be_bytes).unwrap_or_default();
        let latency = self
            .base
            .elapsed()
            .saturating_sub(Duration::from_nanos(nanos));
        let micros = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        self.seen.latencies.push(micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_comes_back_from_its_line() {
        let plan = Plan {
            clients: 4,
            group: 2,
            rate: 1.0,
            size: 100,
            length: Duration::from_secs(1),
        };
        let seen = Seen {
            published: 50,
            disconnected: 1,
            latencies: (1..=100).rev().collect(),
        };
        let tally = seen.tally(&plan);
        let times = [tally.median, tally.p99, tally.worst];
        assert_eq!(times.map(|time| time.as_micros()), [51, 100, 100]);
        assert_eq!((tally.expected, tally.delivered), (100, 100));
        let printed = format!("{{\"ready\":4}}\n{}\n", tally.json());
        assert_eq!(Tally::parse(&printed).unwrap(), tally);
    }
}
