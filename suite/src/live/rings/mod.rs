//! Rings that joins make at live daemons, while daemons are killed, stopped and cut off.
//!
//! A run has rounds. In each, clients at all daemons join names with and without asking for a ring,
//! leave, vanish, publish, ask, answer, and claim and release roles; the names in use change, so
//! that rings end and are made again; and faults come and go (`chaos`). At its end all faults end.
//! Within some seconds the daemons must know the same rings, and each ring must have a daemon in
//! it; all members of a group must see one view of it on its ring, and get what every host
//! publishes there, once; no request may be open, carried out twice or answered by two handlers,
//! and a role may have one holder only. Then all clients go, and soon no daemon may know a ring,
//! and no host listen to an address of the pool. At the end of the run `groupcast check` judges the
//! histories of all orders, and the memory and open files of a daemon that was never ended must not
//! have grown.
//!
//! [`cost`] is another run: what a ring and a name take of a daemon's memory.

mod cost;
mod crowd;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_bench::Link;
use groupcast_client::{Address, Client, Options, Service};
use serde_json::Value;

pub use self::cost::{MemoryCost, cost};
use self::crowd::{Crowd, names};
use super::chaos::plan::{Fault, Planned, draw};
use super::chaos::site::{Site, events, with_plan};
use super::cluster::{Cluster, MULTICAST};
use super::memory::Memory;
use super::{BrokenPromise, Outcome};
use crate::AskTally;
use crate::names::seen::Probes;

/// The addresses for rings, and the first digits of those in the kernel's list of joined groups:
/// the last three bytes of 239.192.80.0/24 in the byte order of this machine.
const POOL: &str = "ring_pool = { network = \"239.192.80.0/24\", port = 4812 }\n";
const IN_POOL: &str = "50C0EF";
/// How often a client does something.
const TICK: Duration = Duration::from_millis(15);
/// How often the names in use change: within the time for which a daemon stays in an unused ring.
const FASHION: Duration = Duration::from_secs(7);
/// The longest time after a round until all daemons are one group again.
const TOGETHER_WITHIN: Duration = Duration::from_secs(20);
/// The longest time after that until rings, groups, requests and roles are as they should be.
const REST_WITHIN: Duration = Duration::from_secs(20);
/// For how long they must stay so.
const STILL: Duration = Duration::from_millis(500);
/// The longest time for a message then.
const PROBES_WITHIN: Duration = Duration::from_secs(10);
/// The longest time until the last ring has gone without clients: daemons stay for 10 s, and leave.
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// How long judging the histories may take.
const JUDGE_WITHIN: Duration = Duration::from_secs(600);
/// How many more files than after the first round a daemon that was never ended may have open.
const FILES_MAX: usize = 4;

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Making<'a> {
    /// How many hosts.
    pub hosts: usize,
    /// What orders the daemons' own messages.
    pub protocol: &'a str,
    /// How long, without the last judgement; the last round is not cut short.
    pub length: Duration,
    /// How long faults come and go in a round.
    pub round: Duration,
    /// The seed of the first round; each further one's is one more.
    pub seed: u64,
}

/// What a run showed.
pub struct RingsReport {
    /// How many rounds.
    pub rounds: u64,
    /// How often each fault came.
    pub faults: BTreeMap<&'static str, u64>,
    /// What clients did.
    pub acts: u64,
    /// How often a daemon joined a ring.
    pub stays: usize,
    /// Messages that clients got.
    pub messages: u64,
    /// What clients asked.
    pub asked: AskTally,
    /// How long all took to come to rest after each round.
    pub rest: Vec<Duration>,
    /// Memory of the daemon that lived through all of it, in bytes: in the first third of the
    /// rounds and in the last, the most at the end of a round.
    pub memory: (u64, u64),
    /// Files that it had open after the first round and after the last.
    pub files: (usize, usize),
    /// What `groupcast check` said.
    pub verdict: String,
}

impl fmt::Display for RingsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.iter();
        let faults: Vec<String> = faults
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        let (median, worst) = super::failover::median_and_max(&self.rest);
        write!(
            f,
            "{} rounds: {}; {} acts of clients, daemons joined rings {} times; {} messages, {} requests answered as \
             wanted and {} ended otherwise; at rest after {:.1} s in the median, {:.1} s at worst; memory {:.1} MB, \
             then {:.1} MB; {} files open, then {}\n{}",
            self.rounds,
            faults.join(", "),
            self.acts,
            self.stays,
            self.messages,
            self.asked.complete(),
            self.asked.otherwise,
            median.as_secs_f64(),
            worst.as_secs_f64(),
            self.memory.0 as f64 * 1e-6,
            self.memory.1 as f64 * 1e-6,
            self.files.0,
            self.files.1,
            self.verdict
        )
    }
}

/// Runs rounds until the time is up; `tell` gets a line a round.
pub fn run(making: Making<'_>, mut tell: impl FnMut(String)) -> Outcome<RingsReport> {
    let mut cluster = Cluster::new(making.hosts, Link::Gbit1)?;
    cluster.set_protocol(making.protocol);
    cluster.write_text("rings.toml", POOL)?;
    let file = cluster.path("rings.toml");
    let mut site = Site::new(
        cluster,
        Vec::new(),
        &["--multicast", MULTICAST, "-c", &file],
    );
    site.start_all()?;
    site.cluster.await_members(&site.hosts())?;
    let mut report = RingsReport {
        rounds: 0,
        faults: BTreeMap::new(),
        acts: 0,
        stays: 0,
        messages: 0,
        asked: AskTally::default(),
        rest: Vec::new(),
        memory: (0, 0),
        files: (0, 0),
        verdict: String::new(),
    };
    let mut memory = Memory::default();
    let begun = Instant::now();
    while begun.elapsed() < making.length {
        let seed = making.seed + report.rounds;
        let plan = plan(making, seed);
        let outcome = round(&mut site, (&plan, making.round), seed, &mut report);
        outcome.map_err(|error| with_plan(error, seed, &plan))?;
        let daemon = site.cluster.daemon(1)?;
        memory.sample(daemon.usage()?.resident);
        let files = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()))?.count();
        report.files.1 = files;
        if report.rounds == 0 {
            report.files.0 = files;
        }
        report.rounds += 1;
        let rest = report.rest.last().copied().unwrap_or_default();
        tell(format!(
            "seed {seed}: {} faults, at rest after {:.2} s, then without rings; {:.1} MB, {files} files",
            plan.len(),
            rest.as_secs_f64(),
            memory.last() as f64 * 1e-6
        ));
        if files > report.files.0 + FILES_MAX {
            return Err(format!("{files} files open, {} at first", report.files.0).into());
        }
    }
    report.memory = memory.judge()?;
    let verdict = site.cluster.judge_histories(JUDGE_WITHIN)?;
    // 3: the histories of daemons that were killed end within a line.
    if !matches!(verdict.code, Some(0 | 3)) {
        return Err(BrokenPromise(verdict.text).into());
    }
    report.verdict = verdict.text;
    report.stays = site.cluster.count_in_histories("\"event\":\"joined\"")?;
    site.cluster.pass();
    Ok(report)
}

/// Daemons that are killed, stopped and asked to stop, and hosts that are cut off.
fn plan(making: Making<'_>, seed: u64) -> Vec<Planned> {
    let mut plan = draw(making.hosts, making.round, seed);
    let is_wanted = |fault: &Fault| {
        matches!(
            fault,
            Fault::Kill | Fault::Restart | Fault::Stop | Fault::Cut
        )
    };
    plan.retain(|planned| is_wanted(&planned.fault));
    plan
}

fn round(
    site: &mut Site,
    (plan, length): (&[Planned], Duration),
    seed: u64,
    report: &mut RingsReport,
) -> Outcome {
    let mut crowd = Crowd::new(seed);
    let begun = Instant::now();
    for (at, begins, planned) in events(plan) {
        pass_until(site, &mut crowd, begun, at)?;
        if !begins {
            site.end(planned)?;
            continue;
        }
        if matches!(planned.fault, Fault::Kill | Fault::Restart) {
            crowd.daemon_ends(planned.host);
        }
        site.inflict(planned)?;
        *report.faults.entry(planned.fault.name()).or_default() += 1;
    }
    pass_until(site, &mut crowd, begun, length)?;
    let healed = Instant::now();
    let all = site.hosts();
    site.cluster.await_members_within(TOGETHER_WITHIN, &all)?;
    let mut watch = Watch::new(site)?;
    watch.rest(&mut crowd)?;
    report.rest.push(healed.elapsed());
    watch.probe(&mut crowd)?;
    crowd.end()?;
    report.acts += crowd.acts;
    report.messages += crowd.messages;
    report.asked.merge(&crowd.asked);
    watch.await_end(site)
}

/// Clients act until `at` of the round.
fn pass_until(site: &mut Site, crowd: &mut Crowd, begun: Instant, at: Duration) -> Outcome {
    while begun.elapsed() < at {
        sleep(TICK.min(at.saturating_sub(begun.elapsed())));
        crowd.use_tree((begun.elapsed().as_secs() / FASHION.as_secs()) as usize);
        crowd.tick(site);
        for host in site.hosts() {
            site.look_after(host)?;
        }
    }
    Ok(())
}

/// What keeps the daemons that are in a ring from being together there.
fn ring_apart(top: &str, all: &[Vec<Value>]) -> Option<String> {
    let of_it = all.iter().flatten().filter(|ring| ring["top"] == top);
    let stays: Vec<&Value> = of_it.filter(|ring| ring["stay"] != "out").collect();
    let Some(first) = stays.first() else {
        return Some(format!("nobody is in the ring {top}"));
    };
    let config = &first["configuration"];
    let members = config["members"].as_array().map_or(0, Vec::len);
    let together = stays.iter().all(|ring| {
        let is_steady = ring["stay"] == "in" && ring["groups_state"] == "steady";
        is_steady && ring["configuration"]["id"] == config["id"]
    });
    let is_whole = together && members == stays.len();
    (!is_whole).then(|| format!("the ring {top} is not whole: {stays:?}"))
}

/// Who looks at all daemons.
struct Watch {
    clients: Vec<Client>,
    texts: usize,
}

impl Watch {
    fn new(site: &Site) -> Outcome<Self> {
        let connect = |host: usize| -> Outcome<Client> {
            let address = Address::Unix(Path::new(&site.cluster.socket(host)).into());
            Ok(Client::connect(&address, Options::default())?)
        };
        let clients = site.hosts().into_iter().map(connect);
        Ok(Self {
            clients: clients.collect::<Outcome<_>>()?,
            texts: 0,
        })
    }

    /// What each daemon says of the rings that joins have made.
    fn rings(&mut self) -> Outcome<Vec<Vec<Value>>> {
        let mut all = Vec::new();
        for client in &mut self.clients {
            // Nothing that comes here is for anybody.
            while client.next_event(Some(Duration::ZERO))?.is_some() {}
            let status: Value = serde_json::from_slice(&client.status(REST_WITHIN)?)?;
            let rings = status["rings"].as_array().cloned().unwrap_or_default();
            all.push(rings);
        }
        Ok(all)
    }

    /// What keeps the daemons from being at rest; else the tops of the rings.
    fn tops(&mut self) -> Outcome<Result<Vec<String>, String>> {
        let all = self.rings()?;
        let name = |ring: &Value| {
            let texts = ["top", "number", "multicast"].map(|key| ring[key].to_string());
            texts.join(" ")
        };
        let known = |rings: &[Value]| -> BTreeSet<String> { rings.iter().map(name).collect() };
        let first = known(&all[0]);
        if let Some(other) = all.iter().find(|rings| known(rings) != first) {
            let other = known(other);
            return Ok(Err(format!("daemons know {first:?} and {other:?}")));
        }
        let mut tops = BTreeSet::new();
        for ring in &all[0] {
            let top = ring["top"].as_str().unwrap_or_default().to_owned();
            if let Some(apart) = ring_apart(&top, &all) {
                return Ok(Err(apart));
            }
            if !tops.insert(top.clone()) || ring["ends"] == true {
                return Ok(Err(format!("there are two rings {top}, or it ends")));
            }
        }
        Ok(Ok(tops.into_iter().collect()))
    }

    /// Waits until all is at rest, and stays so.
    fn rest(&mut self, crowd: &mut Crowd) -> Outcome {
        let end = Instant::now() + REST_WITHIN;
        let mut since = None;
        loop {
            crowd.read();
            let apart = match self.tops()? {
                Ok(tops) => crowd.apart(&tops),
                Err(apart) => Some(apart),
            };
            let now = Instant::now();
            match apart {
                None if since.is_some_and(|since| now >= since + STILL) => return Ok(()),
                None => _ = since.get_or_insert(now),
                Some(apart) if now >= end => {
                    return Err(format!("not at rest within {REST_WITHIN:?}: {apart}").into());
                }
                Some(_) => since = None,
            }
            sleep(TICK);
        }
    }

    /// Every host publishes to every name; who is in it gets that once.
    fn probe(&mut self, crowd: &mut Crowd) -> Outcome {
        let mut probes = Probes::new();
        for client in &mut self.clients {
            for name in names() {
                self.texts += 1;
                let text = format!("probe {} of {name}", self.texts);
                client.publish(&[name], Service::Agreed, text.as_bytes())?;
                probes.entry(name).or_default().push(text);
            }
            client.flush()?;
        }
        let end = Instant::now() + PROBES_WITHIN;
        loop {
            crowd.read();
            match crowd.misses(&probes) {
                None => break,
                Some(misses) if Instant::now() >= end => return Err(misses.into()),
                Some(_) => sleep(TICK),
            }
        }
        for client in &mut self.clients {
            if !client.flush_accepted(Some(PROBES_WITHIN))? {
                return Err("a message is not accepted".into());
            }
        }
        // What comes twice comes soon.
        sleep(STILL);
        crowd.read();
        crowd.misses(&probes).map_or(Ok(()), |it| Err(it.into()))
    }

    /// Without clients no daemon knows a ring any more, and no host listens to one.
    fn await_end(mut self, site: &Site) -> Outcome {
        let end = Instant::now() + GONE_WITHIN;
        loop {
            let left: Vec<Value> = self.rings()?.concat();
            if left.is_empty() {
                break;
            }
            if Instant::now() >= end {
                return Err(format!("rings are left behind: {left:?}").into());
            }
            sleep(20 * TICK);
        }
        for host in site.hosts() {
            let joined = site.cluster.bed.command(host, "cat");
            let joined = { joined }.arg("/proc/net/igmp").output()?;
            let joined = String::from_utf8_lossy(&joined.stdout).into_owned();
            let mut words = joined.split_whitespace();
            if words.any(|word| word.len() == 8 && word.ends_with(IN_POOL)) {
                return Err(format!("host {host} still listens to a ring:\n{joined}").into());
            }
        }
        Ok(())
    }
}
