//! Many clients of the bus against a naive model of what they accept.
//!
//! A run has rounds. In the first part of a round some clients change what they accept, change
//! their ids, leave and come, while others send. In the second part every client sends and asks,
//! and no client changes anything. Then each client must have got exactly the messages that the
//! model says, in its own syntax, and all clients must have got them in one order; of messages that
//! were sent during the first part this is asked of clients only that did not change. Each `ping`
//! must have named the clients that the model names.
//!
//! If the machine does not let a daemon run, the others exclude it for a moment. Messages that are
//! sent then reach only the sender's part, and the model knows no parts: such a round is counted
//! and not judged.
//!
//! This file has the run; [`model`] the model, [`program`] a client, [`rows`] the test of the
//! order. [`people`] is another run.

pub mod model;
pub mod people;
pub mod program;
pub mod rows;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use groupcast_bench::Link;
use groupcast_core::Rng;

use self::model::{Form, Member, Message, domain, pattern, tag, wildcard};
use self::program::Program;
use super::cluster::{Cluster, MULTICAST};
use super::memory::Memory;
use super::{BrokenPromise, Outcome, until};

/// How long a client may wait for a reply.
const LIMIT: Duration = Duration::from_secs(60);
/// Domains that a client accepts beside its first.
const MORE: usize = 6;
/// How long daemons that have parted may take to be together again.
const TOGETHER: Duration = Duration::from_secs(120);
/// If nothing was judged in this many rounds, there is nothing to wait for.
const UNJUDGED_MAX: usize = 20;
/// A run longer than this keeps no histories.
const HISTORIES_UP_TO: Duration = Duration::from_secs(60);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Hosts with a daemon each.
    pub hosts: usize,
    /// Clients at all daemons together.
    pub clients: usize,
    /// Domains that they use.
    pub domains: usize,
    /// For how long new rounds begin; one is run in any case.
    pub length: Duration,
    /// The seed of all that is random.
    pub seed: u64,
}

/// What a run showed.
#[derive(Clone, Copy, Default, Debug)]
pub struct BusReport {
    /// Rounds that were judged.
    pub rounds: usize,
    /// Rounds that were not, as daemons parted meanwhile.
    pub parted: usize,
    /// Messages that were sent.
    pub messages: usize,
    /// Deliveries that were compared with the model.
    pub deliveries: usize,
    /// Questions that were answered as the model does.
    pub pings: usize,
    /// Clients that left, and as many that came.
    pub replaced: usize,
    /// Resident memory of all daemons without clients, in bytes.
    pub memory_alone: u64,
    /// With all clients, each with a domain and an id, before they say anything else.
    pub memory_idle: u64,
    /// The most of the daemons' resident memory after a round.
    pub memory_busy: u64,
    /// How many clients that was.
    pub clients: usize,
}

impl BusReport {
    /// By how much a client that only waits increases the memory of all daemons together, in bytes.
    pub fn idle_each(&self) -> u64 {
        self.memory_idle.saturating_sub(self.memory_alone) / self.clients.max(1) as u64
    }

    /// The same for a client that sends and gets messages: the most after any round.
    pub fn busy_each(&self) -> u64 {
        self.memory_busy.saturating_sub(self.memory_alone) / self.clients.max(1) as u64
    }
}

impl fmt::Display for BusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds ({} more in which daemons parted), {} messages, {} deliveries and {} pings as the model says, \
             {} clients replaced; of {} clients, {} KiB each while they wait, {} KiB at most while they work",
            self.rounds,
            self.parted,
            self.messages,
            self.deliveries,
            self.pings,
            self.replaced,
            self.clients,
            self.idle_each() >> 10,
            self.busy_each() >> 10
        )
    }
}

/// Runs it.
///
/// # Errors
/// Something was not as the model says, or the daemons parted so often that less than half of the
/// rounds could be judged.
pub fn run(crowd: Crowd, mut tell: impl FnMut(&str)) -> Outcome<BusReport> {
    let mut cluster = Cluster::new(crowd.hosts, Link::Unlimited)?;
    for host in 1..=crowd.hosts {
        let bus = format!("unix:{}", cluster.path(&format!("host-{host}.bus")));
        let options = ["--multicast", MULTICAST, "--bus", &bus];
        match crowd.length <= HISTORIES_UP_TO {
            true => cluster.start_with(host, &options)?,
            false => cluster.start_without_history(host, &options)?,
        }
    }
    cluster.await_members(&(1..=crowd.hosts).collect::<Vec<_>>())?;
    let mut report = BusReport {
        clients: crowd.clients,
        memory_alone: resident(&mut cluster, crowd.hosts)?.iter().sum(),
        ..BusReport::default()
    };
    let mut world = World {
        crowd,
        cluster,
        rng: Rng::new(crowd.seed),
        clients: BTreeMap::new(),
        next: 0,
        sent: 0,
        partings: 0,
    };
    for _ in 0..crowd.clients {
        world.connect()?;
    }
    world.settle()?;
    report.memory_idle = resident(&mut world.cluster, crowd.hosts)?.iter().sum();
    for number in world.numbers() {
        world.accept_more(number)?;
    }
    let deadline = Instant::now() + crowd.length;
    let mut memory: Vec<Memory> = (0..crowd.hosts).map(|_| Memory::default()).collect();
    loop {
        world.round(&mut report)?;
        let resident = resident(&mut world.cluster, crowd.hosts)?;
        for (memory, resident) in memory.iter_mut().zip(&resident) {
            memory.sample(*resident);
        }
        report.memory_busy = report.memory_busy.max(resident.iter().sum());
        tell(&format!("{report}"));
        let is_over = report.rounds > 0 || report.parted >= UNJUDGED_MAX;
        if Instant::now() >= deadline && is_over {
            break;
        }
    }
    if report.parted > report.rounds {
        return Err(format!("the daemons parted too often: {report}").into());
    }
    // Each new id is a name more that daemons bind to a number: what that takes has its limit
    // (`bindings_max`), which no run reaches.
    for memory in &memory {
        memory.judge()?;
    }
    drop(world.clients);
    match crowd.length <= HISTORIES_UP_TO {
        true => world.cluster.check_histories()?,
        false => world.cluster.pass(),
    }
    Ok(report)
}

/// The resident memory of each daemon, in bytes.
fn resident(cluster: &mut Cluster, hosts: usize) -> Outcome<Vec<u64>> {
    let of = |host| Ok(cluster.daemon(host)?.usage()?.resident);
    (1..=hosts).map(of).collect()
}

/// How often a daemon has lost another one, as the logs say.
fn partings(cluster: &mut Cluster, hosts: usize) -> Outcome<usize> {
    let mut sum = 0;
    for host in 1..=hosts {
        let log = cluster.daemon(host)?.stderr()?;
        for words in ["crashed or cut off", "crashed and restarted"] {
            sum += log.matches(words).count();
        }
    }
    Ok(sum)
}

/// A client, and what the model knows of it.
struct Client {
    program: Program,
    member: Member,
}

struct World {
    crowd: Crowd,
    cluster: Cluster,
    rng: Rng,
    clients: BTreeMap<usize, Client>,
    /// The number of the next client.
    next: usize,
    /// Messages so far.
    sent: usize,
    /// How often daemons have parted up to the last round.
    partings: usize,
}

impl World {
    fn below(&mut self, count: usize) -> usize {
        self.rng.below(count as u64) as usize
    }

    /// Connects one more client, at a random daemon, in a random syntax, with an id and one domain.
    fn connect(&mut self) -> Outcome<usize> {
        let number = self.next;
        self.next += 1;
        let host = 1 + self.below(self.crowd.hosts);
        let path = self.cluster.path(&format!("host-{host}.bus"));
        let mut program = Program::connect(&path)?;
        let form = [Form::Sexp, Form::Cstream, Form::Raw][self.below(3)];
        let mut member = Member::new(program.name(), form);
        member.id = format!("id-{number}.people");
        program.say(&format!("syntax {}\nid {}", form.name(), member.id))?;
        let (pattern, domain) = (pattern(self.below(5)), self.domain());
        program.say(&format!("accept {pattern} {domain}"))?;
        member.accepted.insert((pattern, domain));
        self.clients.insert(number, Client { program, member });
        Ok(number)
    }

    /// A client accepts some more domains.
    fn accept_more(&mut self, number: usize) -> Outcome {
        for _ in 0..MORE {
            let (pattern, domain) = (pattern(self.below(5)), self.accepted_domain());
            let Client { program, member } = self.client(number);
            program.say(&format!("accept {pattern} {domain}"))?;
            member.accepted.insert((pattern, domain));
        }
        Ok(())
    }

    /// A domain to send to.
    fn domain(&mut self) -> String {
        domain(self.below(self.crowd.domains))
    }

    /// A domain to accept; one of ten stands for all domains below a name.
    fn accepted_domain(&mut self) -> String {
        match self.below(10) {
            0 => wildcard(self.below(11)),
            _ => self.domain(),
        }
    }

    fn numbers(&self) -> Vec<usize> {
        self.clients.keys().copied().collect()
    }

    /// Waits until all clients have their replies, all daemons know all clients, and no message is
    /// on its way.
    fn settle(&mut self) -> Outcome {
        for client in self.clients.values_mut() {
            client.program.await_replies(LIMIT)?;
        }
        let mut expected: Vec<_> = self
            .clients
            .values()
            .map(|it| it.member.name.clone())
            .collect();
        expected.sort();
        let mut asked = std::collections::BTreeSet::new();
        for client in self.clients.values_mut() {
            let daemon = client.member.name.rsplit('@').next().unwrap_or_default();
            if !asked.insert(daemon.to_owned()) {
                continue;
            }
            until(LIMIT, format!("{daemon} knows who is there"), || {
                let reply = client.program.ask("clients", LIMIT)?;
                let mut names: Vec<_> = reply.lines().skip(1).filter_map(first_word).collect();
                names.sort_unstable();
                Ok((names == expected).then_some(()))
            })?;
        }
        // A client gets all messages that were ordered before its question before the reply to it.
        for client in self.clients.values_mut() {
            client.program.say("ping x nowhere")?;
        }
        for client in self.clients.values_mut() {
            client.program.await_replies(LIMIT)?;
        }
        Ok(())
    }

    fn round(&mut self, report: &mut BusReport) -> Outcome {
        for client in self.clients.values_mut() {
            client.program.await_replies(LIMIT)?;
            client.program.forget();
        }
        let mut messages = Vec::new();
        let changed = self.change(&mut messages, report)?;
        let during_changes = messages.len();
        self.settle()?;
        let everybody = self.numbers();
        for _ in 0..3 {
            for number in &everybody {
                messages.push(self.send(*number)?);
            }
        }
        let mut questions = Vec::new();
        for number in &everybody {
            let (tag, domain) = (tag(self.below(4)), self.domain());
            let client = self.client(*number);
            let place = client.program.say(&format!("ping {tag} {domain}"))?;
            questions.push((*number, place, tag, domain));
        }
        self.settle()?;
        let partings = partings(&mut self.cluster, self.crowd.hosts)?;
        if partings > self.partings {
            let hosts: Vec<usize> = (1..=self.crowd.hosts).collect();
            self.cluster.await_members_within(TOGETHER, &hosts)?;
            self.settle()?;
            self.partings = partings;
            report.parted += 1;
            return Ok(());
        }
        for (number, place, tag, domain) in &questions {
            let mut named: Vec<_> = self
                .clients
                .values()
                .filter(|it| it.member.accepts(tag, domain))
                .map(|it| it.member.called())
                .collect();
            named.sort_unstable();
            let reply = self.clients[number].program.reply(*place);
            let mut told: Vec<_> = reply.split(' ').skip(1).collect();
            told.sort_unstable();
            if !reply.starts_with("ok") || named != told {
                return broken(format!(
                    "ping {tag} {domain}: {reply:?}, expected {named:?}"
                ));
            }
        }
        report.pings += questions.len();
        report.rounds += 1;
        report.messages += messages.len();
        self.judge(&messages, during_changes, &changed, report)
    }

    /// Lets a tenth of the clients change something, while the others send. Returns those that have
    /// changed.
    fn change(
        &mut self,
        messages: &mut Vec<Message>,
        report: &mut BusReport,
    ) -> Outcome<Vec<usize>> {
        let mut numbers = self.numbers();
        let count = (numbers.len() / 10).max(2);
        let mut drawn = Vec::new();
        for _ in 0..count {
            let which = self.below(numbers.len());
            drawn.push(numbers.swap_remove(which));
        }
        let mut changed = Vec::new();
        for number in drawn {
            let sender = numbers[self.below(numbers.len())];
            messages.push(self.send(sender)?);
            if self.below(4) > 0 {
                self.change_one(number)?;
                changed.push(number);
                continue;
            }
            if let Some(mut client) = self.clients.remove(&number) {
                client.program.say("quit")?;
                client.program.await_end(LIMIT)?;
            }
            let number = self.connect()?;
            self.accept_more(number)?;
            changed.push(number);
            report.replaced += 1;
        }
        Ok(changed)
    }

    fn change_one(&mut self, number: usize) -> Outcome {
        let (pattern, domain) = (pattern(self.below(5)), self.accepted_domain());
        let (choice, which) = (self.below(8), self.below(100));
        let Client { program, member } = self.client(number);
        match choice {
            0..=3 => {
                program.say(&format!("accept {pattern} {domain}"))?;
                member.accepted.insert((pattern, domain));
            }
            4 | 5 => {
                let which = which % member.accepted.len().max(1);
                if let Some(one) = member.accepted.iter().nth(which).cloned() {
                    program.say(&format!("reject {} {}", one.0, one.1))?;
                    member.accepted.remove(&one);
                }
            }
            6 => {
                // Ids may be shared.
                member.id = format!("id-{}.people", which % 7);
                program.say(&format!("id {}", member.id))?;
            }
            _ => {
                member.loop_back = !member.loop_back;
                let word = if member.loop_back { "on" } else { "off" };
                program.say(&format!("loop-back {word}"))?;
            }
        }
        Ok(())
    }

    fn client(&mut self, number: usize) -> &mut Client {
        self.clients
            .get_mut(&number)
            .expect("only clients that are there are asked for")
    }

    /// A client sends a message in its syntax, to one to three domains, sometimes to an id.
    fn send(&mut self, sender: usize) -> Outcome<Message> {
        let number = self.sent;
        self.sent += 1;
        let mut domains = Vec::new();
        for _ in 0..1 + self.below(3) {
            domains.push(self.domain());
        }
        if self.below(5) == 0 {
            domains.push(format!("id-{}.people", self.below(self.next)));
        }
        let tag = tag(self.below(4));
        let client = self.client(sender);
        let message = Message {
            number,
            sender,
            tag,
            domains,
            form: client.member.form,
        };
        client.program.say_bytes(&message.command())?;
        Ok(message)
    }

    /// Fails unless every client has what the model says, and all have it in one order.
    fn judge(
        &self,
        messages: &[Message],
        during_changes: usize,
        changed: &[usize],
        report: &mut BusReport,
    ) -> Outcome {
        let by_number: BTreeMap<usize, &Message> = messages
            .iter()
            .map(|message| (message.number, message))
            .collect();
        let mut all = Vec::new();
        for (number, client) in &self.clients {
            let mut row = Vec::new();
            for delivery in client.program.deliveries() {
                let message = delivery.number().and_then(|it| by_number.get(&it));
                let Some(message) = message else {
                    return broken(format!("client {number} got {delivery:?}"));
                };
                let expected = message.delivery(client.member.form);
                if delivery != expected {
                    return broken(format!(
                        "client {number} got {delivery:?}, not {expected:?}"
                    ));
                }
                row.push(message.number);
            }
            // A client that changed may have got the messages that were sent meanwhile, or not.
            let skipped = if changed.contains(number) {
                during_changes
            } else {
                0
            };
            let wanted = messages[skipped..].iter().filter(|message| {
                let own = message.sender == *number && !client.member.loop_back;
                !own && client.member.gets(message)
            });
            let wanted: Vec<usize> = wanted.map(|message| message.number).collect();
            let first = messages.get(skipped).map_or(usize::MAX, |it| it.number);
            let mut got: Vec<usize> = row.iter().copied().filter(|it| *it >= first).collect();
            got.sort_unstable();
            if got != wanted {
                let (name, member) = (&client.member.name, &client.member);
                return broken(format!("{name} got {got:?}, not {wanted:?}: {member:?}"));
            }
            report.deliveries += row.len();
            all.push(row);
        }
        match rows::are_one_order(&all) {
            true => Ok(()),
            false => broken("the rows of the clients are in no one order".into()),
        }
    }
}

fn broken<T>(text: String) -> Outcome<T> {
    Err(BrokenPromise(text).into())
}

fn first_word(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().next()
}
