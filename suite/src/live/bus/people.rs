//! People at the bus while much else goes through it: eight users act in one domain, ten times a
//! second each, and 50 MB go through another (000 ch. 3).
//!
//! An action is due at a fixed time, whatever became of the one before it, and its latency runs
//! from there until a user's program has read it. Everybody must get every action, in one order.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use groupcast_bench::Link;

use super::super::cluster::{Cluster, MULTICAST};
use super::super::{Outcome, until};
use super::program::Program;
use super::{LIMIT, rows};

/// Daemons, each on a host of its own.
const HOSTS: usize = 5;
/// Users, spread over the hosts in turn.
pub const USERS: usize = 8;
/// From one action of a user to the next.
const EVERY: Duration = Duration::from_millis(100);
/// How long they act before anything else goes on.
const BEFORE: Duration = Duration::from_secs(5);
/// What goes through the other domain, and the messages that it goes in.
const VOLUME: usize = 50_000_000;
const PIECE: usize = 32_000;
/// It is given up after this long.
const VOLUME_WITHIN: Duration = Duration::from_secs(300);

/// How long actions took, in a user's eyes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Latencies {
    /// How many there were.
    pub actions: usize,
    /// The median.
    pub median: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The longest.
    pub worst: Duration,
}

impl Latencies {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |part: usize| all.get(all.len() * part / 100).copied();
        Self {
            actions: all.len(),
            median: at(50).unwrap_or_default(),
            p99: at(99).unwrap_or_default(),
            worst: all.last().copied().unwrap_or_default(),
        }
    }
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct PeopleReport {
    /// Of each user: before, and while the volume went through.
    pub users: Vec<(Latencies, Latencies)>,
    /// How long the volume took.
    pub took: Duration,
    /// The first and the last action, from when the volume began, that took longer than a quarter
    /// of the slowest.
    pub slow: Option<(Duration, Duration)>,
}

impl PeopleReport {
    /// The largest p99 of a user while the volume went through.
    pub fn worst_p99(&self) -> Duration {
        let all = self.users.iter().map(|(_, busy)| busy.p99);
        all.max().unwrap_or_default()
    }
}

impl fmt::Display for PeopleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |it: Duration| it.as_secs_f64() * 1e3;
        writeln!(
            f,
            "{} MB in {:.1} s; latencies in ms, before / meanwhile",
            VOLUME / 1_000_000,
            self.took.as_secs_f64()
        )?;
        if let Some((first, last)) = self.slow {
            let (first, last) = (millis(first), millis(last));
            writeln!(
                f,
                "the slow ones were due {first:.0} to {last:.0} ms after it began"
            )?;
        }
        for (number, (before, busy)) in self.users.iter().enumerate() {
            writeln!(
                f,
                "user {number}: {} / {} actions, median {:.2} / {:.2}, p99 {:.2} / {:.2}, worst {:.2} / {:.2}",
                before.actions,
                busy.actions,
                millis(before.median),
                millis(busy.median),
                millis(before.p99),
                millis(busy.p99),
                millis(before.worst),
                millis(busy.worst)
            )?;
        }
        Ok(())
    }
}

/// Runs it over such links, where `queue_max` of the daemons' ring is told or what it is by itself.
///
/// # Errors
/// Somebody missed an action, or got it in another order; the volume did not arrive.
pub fn run(link: Link, queue_max: Option<usize>) -> Outcome<PeopleReport> {
    let mut cluster = Cluster::new(HOSTS, link)?;
    let settings = queue_max.map(|bytes| format!("[ring]\nqueue_max = {bytes}\n"));
    cluster.write_text("settings.toml", &settings.unwrap_or_default())?;
    let settings = cluster.path("settings.toml");
    let path = |cluster: &Cluster, host: usize| cluster.path(&format!("host-{host}.bus"));
    for host in 1..=HOSTS {
        let bus = format!("unix:{}", path(&cluster, host));
        let options = ["-c", &settings, "--multicast", MULTICAST, "--bus", &bus];
        cluster.start_without_history(host, &options)?;
    }
    cluster.await_members(&(1..=HOSTS).collect::<Vec<_>>())?;
    let mut users = Vec::new();
    for number in 0..USERS {
        let mut user = Program::connect(&path(&cluster, 1 + number % HOSTS))?;
        user.say("accept * board.people")?;
        user.await_replies(LIMIT)?;
        users.push(user);
    }
    let mut receiver = Program::connect(&path(&cluster, HOSTS))?;
    receiver.say("accept * volume.files")?;
    receiver.await_replies(LIMIT)?;
    let mut sender = Program::connect(&path(&cluster, 1))?;

    let mut acted = Acted::default();
    acted.go_on(&mut users, |began| began.elapsed() >= BEFORE)?;
    let begun = Instant::now();
    let pieces = VOLUME.div_ceil(PIECE);
    let sending = thread::spawn(move || -> Outcome {
        let piece = vec![b'x'; PIECE];
        for _ in 0..pieces {
            let head = format!("msg piece volume.files raw {PIECE}\n");
            sender.say_bytes(&[head.as_bytes(), &piece, b"\n"].concat())?;
        }
        sender.await_replies(VOLUME_WITHIN)
    });
    acted.go_on(&mut users, |began| {
        receiver.delivered() >= pieces || began.elapsed() >= VOLUME_WITHIN
    })?;
    let took = begun.elapsed();
    sending.join().map_err(|_| "the sender panicked")??;
    if receiver.delivered() < pieces {
        return Err(format!("{} of {pieces} pieces have come", receiver.delivered()).into());
    }
    for user in &mut users {
        user.await_replies(LIMIT)?;
        until(LIMIT, "all actions", || {
            Ok((user.delivered() >= acted.due.len()).then_some(()))
        })?;
    }
    let report = PeopleReport {
        users: acted.judge(&users, begun)?,
        took,
        slow: acted.slow_for(&users, begun),
    };
    cluster.pass();
    Ok(report)
}

/// What users have done.
#[derive(Default)]
struct Acted {
    /// When each action was due.
    due: Vec<Instant>,
}

impl Acted {
    /// They act, one after the other, until `is_over`.
    fn go_on(
        &mut self,
        users: &mut [Program],
        mut is_over: impl FnMut(Instant) -> bool,
    ) -> Outcome {
        let (began, each) = (Instant::now(), EVERY / USERS as u32);
        let mut due = began;
        while !is_over(began) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let number = self.due.len();
            let action = format!("msg act board.people act {number} of a user\n");
            users[number % USERS].say_bytes(action.as_bytes())?;
            self.due.push(due);
            due += each;
        }
        Ok(())
    }

    /// When the slow actions were due, see [`PeopleReport::slow`].
    fn slow_for(&self, users: &[Program], begun: Instant) -> Option<(Duration, Duration)> {
        let mut slow = Vec::new();
        for user in users {
            for (delivery, at) in user.deliveries().iter().zip(user.arrivals()) {
                let due = delivery.number().and_then(|it| self.due.get(it));
                if let Some(due) = due.filter(|due| **due >= begun) {
                    slow.push((at.saturating_duration_since(*due), *due - begun));
                }
            }
        }
        let worst = slow.iter().map(|(took, _)| *took).max()?;
        slow.retain(|(took, _)| *took > worst / 4);
        let due = slow.iter().map(|(_, due)| *due);
        Some((due.clone().min()?, due.max()?))
    }

    /// What each user saw, before `begun` and after it.
    fn judge(&self, users: &[Program], begun: Instant) -> Outcome<Vec<(Latencies, Latencies)>> {
        let mut all = Vec::new();
        let mut report = Vec::new();
        for user in users {
            let mut row = Vec::new();
            let (mut before, mut meanwhile) = (Vec::new(), Vec::new());
            let deliveries = user.deliveries();
            let came: BTreeMap<usize, Instant> = deliveries
                .iter()
                .zip(user.arrivals())
                .filter_map(|(delivery, at)| Some((delivery.number()?, at)))
                .inspect(|(number, _)| row.push(*number))
                .collect();
            if row.len() != self.due.len() || came.len() != row.len() {
                let (got, of) = (row.len(), self.due.len());
                return Err(format!("{} got {got} of {of} actions", user.name()).into());
            }
            for (due, came) in self.due.iter().zip(came.values()) {
                let took = came.saturating_duration_since(*due);
                match *due < begun {
                    true => before.push(took),
                    false => meanwhile.push(took),
                }
            }
            all.push(row);
            report.push((Latencies::of(before), Latencies::of(meanwhile)));
        }
        match rows::are_one_order(&all) {
            true => Ok(report),
            false => Err("the users saw different orders".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_latencies_the_middle_and_the_end_are_told() {
        let all = (1..=200).rev().map(Duration::from_millis).collect();
        let told = Latencies::of(all);
        assert_eq!(told.actions, 200);
        assert_eq!(told.median, Duration::from_millis(101));
        assert_eq!(told.p99, Duration::from_millis(199));
        assert_eq!(told.worst, Duration::from_millis(200));
        assert_eq!(Latencies::of(Vec::new()).worst, Duration::ZERO);
    }
}
