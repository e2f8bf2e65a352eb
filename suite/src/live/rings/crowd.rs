//! The clients of a round: what they do at their daemons, and what they have against it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use groupcast_client::{Address, Client, Options};
use groupcast_core::{Incarnation, MemberId, NodeId, Rng};

use crate::AskTally;
use crate::asking::judge_roles;
use crate::live::Outcome;
use crate::live::chaos::site::Site;
use crate::names::Seen;
use crate::names::seen::{Act, Probes};

/// Three trees of names, which are in use one after the other: rings of a tree end while others are
/// made, and are made again.
const TREES: [[&str; 4]; 3] = [
    ["cb", "wb.cb", "p1.wb.cb", "ed.cb"],
    ["x", "y.x", "z.y.x", "w.x"],
    ["lab", "a.lab", "b.a.lab", "c.lab"],
];
/// Clients of each host.
const CLIENTS: usize = 3;
/// Of 100 acts, this many are the end of a client without a word.
const VANISH: u64 = 4;
/// A daemon may take this long to take a client.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// All names of all trees.
pub(super) fn names() -> Vec<&'static str> {
    TREES.concat()
}

/// The clients.
pub(super) struct Crowd {
    rng: Rng,
    members: Vec<Member>,
    /// The tree in use.
    tree: usize,
    /// Names and texts so far.
    count: usize,
    /// What is wrong.
    found: Vec<String>,
    /// What they asked.
    pub(super) asked: AskTally,
    /// What they did.
    pub(super) acts: u64,
    /// Messages that they got.
    pub(super) messages: u64,
}

struct Member {
    host: usize,
    client: Client,
    seen: Seen,
    /// Its daemon has been ended.
    may_end: bool,
}

impl Member {
    fn act(&mut self, act: Act, group: &str, text: &str) {
        let client = &mut self.client;
        let waits = matches!(act, Act::Ask(_) | Act::Publish(_)) && !client.has_credit();
        if waits {
            return;
        }
        // An end of the connection shows where it is read.
        match act {
            Act::JoinOnRing => drop(client.join_on_ring(group)),
            Act::Join => drop(client.join(group)),
            Act::Leave => drop(client.leave(group)),
            Act::Claim(role, may_wait) => {
                drop(client.join(group));
                drop(client.claim(group, role, may_wait));
            }
            Act::Release(role) => {
                drop(client.release(group, role));
                self.seen.asking.releases(group, role);
            }
            Act::Ask(ask) => {
                if let Ok(number) = client.ask(group, ask, text.as_bytes()) {
                    self.seen.asking.asks(number, ask);
                }
            }
            Act::Publish(service) => {
                drop(client.publish(&[group], service, text.as_bytes()));
            }
        }
    }

    /// Takes what has come, and answers what it is asked.
    fn read(&mut self) {
        loop {
            match self.client.next_event(Some(Duration::ZERO)) {
                Ok(Some(event)) => self.seen.see(event),
                Ok(None) => break,
                Err(error) => {
                    self.seen.end.get_or_insert_with(|| error.to_string());
                    return;
                }
            }
        }
        for asked in self.seen.asking.answerable() {
            drop(self.client.answer(&asked, &asked.payload));
        }
    }
}

impl Crowd {
    /// Nobody is connected yet.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed).fork("crowd"),
            members: Vec::new(),
            tree: 0,
            count: 0,
            found: Vec::new(),
            asked: AskTally::default(),
            acts: 0,
            messages: 0,
        }
    }

    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    /// From now on the names of this tree are in use: all leave those of the others.
    pub(super) fn use_tree(&mut self, number: usize) {
        let tree = number % TREES.len();
        let former = std::mem::replace(&mut self.tree, tree);
        if former == tree {
            return;
        }
        for member in &mut self.members {
            for group in TREES[former] {
                member.act(Act::Leave, group, "");
            }
        }
    }

    /// A client connects, if its daemon takes one.
    fn connect(&mut self, site: &Site, host: usize) {
        let number = self.next();
        let name = format!("c{number}");
        let options = Options {
            name: Some(name.clone()),
            connect_within: CONNECT_WITHIN,
            ..Options::default()
        };
        let address = Address::Unix(Path::new(&site.cluster.socket(host)).into());
        // A daemon that has just been started takes none.
        if let Ok(client) = Client::connect(&address, options) {
            let stay = MemberId {
                node: NodeId(host as u64),
                incarnation: Incarnation(number as u64),
            };
            self.members.push(Member {
                host,
                client,
                seen: Seen::new(&name, stay),
                may_end: false,
            });
        }
    }

    /// The daemon of a host is ended.
    pub(super) fn daemon_ends(&mut self, host: usize) {
        let members = self.members.iter_mut();
        members
            .filter(|member| member.host == host)
            .for_each(|member| member.may_end = true);
    }

    /// Somebody does something, and all take what has come.
    pub(super) fn tick(&mut self, site: &Site) {
        let hosts = site.hosts();
        let host = self.rng.pick(&hosts).copied().unwrap_or(1);
        let of_host = self.members.iter().filter(|it| it.host == host).count();
        if of_host < CLIENTS && site.answers(host) {
            self.connect(site, host);
        }
        let act = Act::draw(&mut self.rng);
        let group = *self.rng.pick(&TREES[self.tree]).unwrap_or(&TREES[0][0]);
        let text = format!("{} of {group}", self.next());
        let vanishes = self.rng.below(100) < VANISH;
        if !self.members.is_empty() {
            let index = self.rng.below(self.members.len() as u64) as usize;
            self.acts += 1;
            match vanishes {
                true => {
                    let member = self.members.swap_remove(index);
                    self.part_with(member);
                }
                false if site.answers(self.members[index].host) => {
                    self.members[index].act(act, group, &text);
                }
                false => {}
            }
        }
        self.read();
    }

    /// All take what has come; those whose connection has ended go.
    pub(super) fn read(&mut self) {
        self.members.iter_mut().for_each(Member::read);
        let (ended, open) = std::mem::take(&mut self.members)
            .into_iter()
            .partition(|member| member.seen.end.is_some());
        self.members = open;
        let ended: Vec<Member> = ended;
        for member in ended {
            if !member.may_end {
                let (name, host) = (&member.seen.name, member.host);
                let why = member.seen.end.as_deref().unwrap_or_default();
                self.found
                    .push(format!("{name} at host {host}, whose daemon runs: {why}"));
            }
            self.part_with(member);
        }
    }

    /// What a client that goes has seen is judged.
    fn part_with(&mut self, member: Member) {
        let Seen {
            name,
            asking,
            messages,
            ..
        } = &member.seen;
        asking.judge(name, &mut self.found);
        self.asked.add(asking);
        self.messages += messages.values().sum::<usize>() as u64;
    }

    /// What keeps the clients from being at rest, with rings of these `tops`: an open request, or
    /// views of which there should be one.
    pub(super) fn apart(&mut self, tops: &[String]) -> Option<String> {
        let (names, mut views) = (names(), BTreeMap::new());
        for member in &mut self.members {
            let open = member.client.open_requests();
            if open > 0 {
                let name = &member.seen.name;
                return Some(format!("{name} waits for {open} requests"));
            }
            if let Err(apart) = member.seen.agrees(&names, tops, &mut views) {
                return Some(apart);
            }
        }
        None
    }

    /// Who does not have each of the probes once.
    pub(super) fn misses(&self, probes: &Probes<'_>) -> Option<String> {
        let mut members = self.members.iter();
        members.find_map(|member| member.seen.got_once(probes).err())
    }

    /// All go without a word. What they had against it.
    pub(super) fn end(&mut self) -> Outcome {
        let members = self.members.iter();
        let all = members.map(|member| (member.seen.name.as_str(), &member.seen.asking));
        judge_roles(all, &mut self.found);
        for member in std::mem::take(&mut self.members) {
            self.part_with(member);
        }
        match self.found.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} faults, first {first}", self.found.len()).into()),
        }
    }
}
