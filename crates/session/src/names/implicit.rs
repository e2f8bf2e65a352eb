//! Names without a name server: the daemons ask each other, in their own order.
//!
//! A daemon that wants a ring *asks*. The questions wait in the order in which they came, and the
//! first has the lock: every daemon *answers* it, with a group at or below the name that has
//! clients there, or that there is none. With the last answer all daemons know what comes of it, at
//! one place in the order: the ring is made, at the address of the pool that its name's hash says,
//! or it is refused; and the next question has the lock. A ring that there is already is told to
//! who asks.
//!
//! A ring has *sites*, the daemons that are in it or about to join: who made it, who *adds* itself,
//! until it *removes* itself. With the last it has ended, at one place for all.
//!
//! After a change of the configuration each daemon's state names the rings that it is a site of,
//! and all of them together are the rings that there are: a ring whose sites are gone is gone, and
//! of two of one name the earlier stands. Questions without an outcome are asked again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{ConfigId, MemberId, OrderPlace, Rng};

use super::service::{InUse, NameEvent, NameService, Pool, RINGS_MADE_MAX, Refusal, RingAddress};
use super::{DomainName, Planted};
use crate::frame::text::{put_name, take_name};
use crate::name::GROUP_NAME_MAX;

/// The most questions of one daemon that wait.
pub const QUESTIONS_MAX: usize = 64;

const ASK: u8 = 1;
const ANSWER: u8 = 2;
const ADD: u8 = 3;
const REMOVE: u8 = 4;

/// A ring, and who is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ring {
    address: RingAddress,
    sites: BTreeSet<MemberId>,
}

/// A question on its way to an outcome.
#[derive(Debug)]
struct Question {
    by: MemberId,
    number: u64,
    top: DomainName,
    pool: Pool,
    answers: BTreeMap<MemberId, Option<InUse>>,
}

/// What daemons say to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// Is there a ring of this name, and if not, may there be one?
    Ask {
        number: u64,
        pool: Pool,
        top: DomainName,
    },
    /// To the question of this number.
    Answer {
        number: u64,
        in_use: Option<InUse>,
    },
    Add {
        top: DomainName,
    },
    Remove {
        top: DomainName,
    },
}

/// The name service of a daemon.
#[derive(Debug)]
pub struct Implicit {
    local: MemberId,
    rng: Rng,
    members: Vec<MemberId>,
    rings: BTreeMap<DomainName, Ring>,
    /// The first has the lock.
    questions: VecDeque<Question>,
    /// What this daemon asks, until the outcome.
    own: BTreeMap<DomainName, (u64, Pool)>,
    /// The rings that this daemon is adding itself to (true), or removing itself from.
    changing: BTreeMap<DomainName, bool>,
    words: VecDeque<Word>,
    events: VecDeque<NameEvent>,
    planted: Option<Planted>,
}

impl Implicit {
    /// That of the daemon `local`, before its first configuration.
    pub fn new(local: MemberId) -> Self {
        Self {
            local,
            // An incarnation is random, and no two are equal.
            rng: Rng::new(local.incarnation.0).fork("rings"),
            members: Vec::new(),
            rings: BTreeMap::new(),
            questions: VecDeque::new(),
            own: BTreeMap::new(),
            changing: BTreeMap::new(),
            words: VecDeque::new(),
            events: VecDeque::new(),
            planted: None,
        }
    }

    /// The same with a bug.
    #[must_use]
    pub(crate) fn planted(mut self, bug: Option<Planted>) -> Self {
        self.planted = bug;
        self
    }

    fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    /// Does what a word says; what its daemon may not say changes nothing.
    fn handle(&mut self, from: MemberId, at: OrderPlace, word: Word) -> Result<(), String> {
        match word {
            Word::Ask { number, pool, top } => {
                let question = Question {
                    by: from,
                    number,
                    top,
                    pool,
                    answers: BTreeMap::new(),
                };
                let of_it = self.questions.iter().filter(|it| it.by == from).count();
                if of_it >= QUESTIONS_MAX {
                    return Err(format!("more than {QUESTIONS_MAX} questions for rings"));
                }
                self.questions.push_back(question);
                if self.questions.len() == 1 {
                    self.lock_next();
                }
            }
            Word::Answer { number, in_use } => {
                let locked = self.questions.front_mut();
                let Some(locked) = locked.filter(|it| it.number == number) else {
                    return Err("an answer about a ring that nobody asks for".into());
                };
                locked.answers.insert(from, in_use);
                let answered = |member: &MemberId| locked.answers.contains_key(member);
                if self.members.iter().all(answered) || self.has(Planted::FirstAnswers) {
                    self.decide(at);
                }
            }
            Word::Add { top } => {
                if from == self.local {
                    self.changing.remove(&top);
                }
                if self.has(Planted::NotAdded) && from != self.local {
                    return Ok(());
                }
                if let Some(ring) = self.rings.get_mut(&top) {
                    ring.sites.insert(from);
                }
            }
            Word::Remove { top } => {
                if from == self.local {
                    self.changing.remove(&top);
                }
                self.remove(&top, from);
            }
        }
        Ok(())
    }

    fn remove(&mut self, top: &DomainName, site: MemberId) {
        let Some(ring) = self.rings.get_mut(top) else {
            return;
        };
        ring.sites.remove(&site);
        if ring.sites.is_empty() && !self.has(Planted::RingStays) {
            self.rings.remove(top);
            self.events.push_back(NameEvent::Changed);
        }
    }

    /// All daemons have answered the question that has the lock.
    fn decide(&mut self, at: OrderPlace) {
        let Some(question) = self.questions.pop_front() else {
            return;
        };
        let outcome = match self.verdict(&question) {
            Ok(multicast) => {
                let address = RingAddress {
                    top: question.top.clone(),
                    number: question.number,
                    multicast,
                    since: at,
                };
                let sites = BTreeSet::from([question.by]);
                self.rings
                    .insert(question.top.clone(), Ring { address, sites });
                self.events.push_back(NameEvent::Changed);
                Ok(())
            }
            Err(refusal) => Err(refusal),
        };
        self.settle(&question, outcome);
        self.lock_next();
    }

    /// The address of the ring, if it may be made.
    fn verdict(&self, question: &Question) -> Result<SocketAddrV4, Refusal> {
        let top = &question.top;
        // In the order of the daemons, so that all name the same.
        let in_use = question.answers.values().flatten().next();
        if let Some(in_use) = in_use.filter(|_| !self.has(Planted::Fragments)) {
            return Err(Refusal::Fragments {
                top: top.clone(),
                in_use: in_use.clone(),
            });
        }
        if self.rings.len() >= RINGS_MADE_MAX {
            return Err(Refusal::Full);
        }
        let taken = |address| {
            let mut rings = self.rings.values();
            rings.any(|ring| ring.address.multicast == address) && !self.has(Planted::AddressTwice)
        };
        question.pool.address(top, taken).ok_or(Refusal::NoAddress)
    }

    /// The next question has the lock, after those for which there is no need to ask anybody.
    fn lock_next(&mut self) {
        while let Some(next) = self.questions.front() {
            let (top, by) = (next.top.clone(), next.by);
            let mut below = self.rings.range(&top..).map(|(below, _)| below);
            let below = below.next().filter(|it| top.covers(it)).cloned();
            let outcome = if let Some(ring) = self.rings.get_mut(&top) {
                ring.sites.insert(by);
                Ok(())
            } else if let Some(below) = below {
                Err(Refusal::Below { top, below })
            } else {
                return self.events.push_back(NameEvent::IsFree(top));
            };
            let Some(question) = self.questions.pop_front() else {
                return;
            };
            self.settle(&question, outcome);
        }
    }

    fn settle(&mut self, question: &Question, outcome: Result<(), Refusal>) {
        if question.by == self.local && self.own.remove(&question.top).is_some() {
            let top = question.top.clone();
            self.events.push_back(NameEvent::Settled(top, outcome));
        }
    }

    fn say_all(&mut self) {
        self.words.clear();
        for (top, (number, pool)) in &self.own {
            self.words.push_back(Word::Ask {
                number: *number,
                pool: *pool,
                top: top.clone(),
            });
        }
        for (top, adds) in &self.changing {
            let top = top.clone();
            self.words.push_back(match adds {
                true => Word::Add { top },
                false => Word::Remove { top },
            });
        }
    }
}

impl NameService for Implicit {
    fn reformed(&mut self, members: &[MemberId], said: &[(MemberId, Vec<u8>)]) {
        self.members = members.to_vec();
        self.questions.clear();
        let is_question = |event: &NameEvent| matches!(event, NameEvent::IsFree(_));
        self.events.retain(|event| !is_question(event));
        let before = self.rings();
        let mut rings: BTreeMap<DomainName, Ring> = match self.has(Planted::TableStays) {
            true => self.rings.clone(),
            false => BTreeMap::new(),
        };
        for (daemon, said) in said {
            if self.has(Planted::OwnForgotten) && *daemon == self.local {
                continue;
            }
            // What makes no sense says nothing, at all daemons alike.
            for address in take_said(said).unwrap_or_default() {
                let sites = BTreeSet::new();
                let ring = rings.entry(address.top.clone()).or_insert_with(|| Ring {
                    address: address.clone(),
                    sites,
                });
                ring.sites.insert(*daemon);
                if address.is_before(&ring.address) && !self.has(Planted::OwnStands)
                    || self.has(Planted::OwnStands) && *daemon == self.local
                {
                    ring.address = address;
                }
            }
        }
        while rings.len() > RINGS_MADE_MAX {
            let last = rings.values().max_by_key(|ring| ring.address.rank());
            let Some(top) = last.map(|ring| ring.address.top.clone()) else {
                break;
            };
            rings.remove(&top);
        }
        self.rings = rings;
        if self.rings() != before {
            self.events.push_back(NameEvent::Changed);
        }
        let (rings, local) = (&self.rings, self.local);
        let is_site = |top: &DomainName| {
            let ring = rings.get(top);
            ring.is_some_and(|ring| ring.sites.contains(&local))
        };
        // What has come about, or cannot any more, needs no word.
        self.changing
            .retain(|top, adds| rings.contains_key(top) && is_site(top) != *adds);
        self.say_all();
    }

    fn said(&self) -> Vec<u8> {
        let own = self.rings.values();
        let own = own.filter(|ring| ring.sites.contains(&self.local));
        let mut bytes = Vec::new();
        for Ring { address, .. } in own {
            put_address(&mut Writer::new(&mut bytes), address);
        }
        bytes
    }

    fn ask(&mut self, top: &DomainName, pool: Pool) {
        if self.own.contains_key(top) {
            return;
        }
        let number = self.rng.next_u64();
        self.own.insert(top.clone(), (number, pool));
        let top = top.clone();
        if self.has(Planted::NobodyAsked) && !self.rings.contains_key(&top) {
            let question = Question {
                by: self.local,
                number,
                top,
                pool,
                answers: BTreeMap::new(),
            };
            self.questions.push_front(question);
            let config = ConfigId {
                counter: 0,
                representative: self.local,
            };
            return self.decide(OrderPlace::new(config, 0, 0));
        }
        self.words.push_back(Word::Ask { number, pool, top });
    }

    fn add_site(&mut self, top: &DomainName) {
        if !self.changing.contains_key(top) && !self.is_site(top) {
            self.changing.insert(top.clone(), true);
            self.words.push_back(Word::Add { top: top.clone() });
        }
    }

    fn remove_site(&mut self, top: &DomainName) {
        if !self.changing.contains_key(top) && self.is_site(top) {
            self.changing.insert(top.clone(), false);
            self.words.push_back(Word::Remove { top: top.clone() });
        }
    }

    fn handle_word(&mut self, from: MemberId, at: OrderPlace, word: &[u8]) -> Result<(), String> {
        let word = Word::decode(word).map_err(|error| error.to_string())?;
        self.handle(from, at, word)
    }

    fn poll_word(&mut self) -> Option<Vec<u8>> {
        let word = self.words.pop_front()?;
        let mut bytes = Vec::new();
        word.encode(&mut Writer::new(&mut bytes));
        Some(bytes)
    }

    fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    fn poll_event(&mut self) -> Option<NameEvent> {
        self.events.pop_front()
    }

    fn answer(&mut self, top: &DomainName, in_use: Option<InUse>) {
        let locked = self.questions.front().filter(|it| it.top == *top);
        if let Some(locked) = locked {
            let number = locked.number;
            self.words.push_back(Word::Answer { number, in_use });
        }
    }

    fn rings(&self) -> Vec<RingAddress> {
        let rings = self.rings.values();
        rings.map(|ring| ring.address.clone()).collect()
    }

    fn is_site(&self, top: &DomainName) -> bool {
        let ring = self.rings.get(top);
        ring.is_some_and(|ring| ring.sites.contains(&self.local))
    }

    fn is_changing(&self, top: &DomainName) -> bool {
        self.changing.contains_key(top)
    }
}

impl Word {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Ask { number, pool, top } => {
                let (network, prefix, port) = pool.parts();
                writer.u8(ASK).u64(*number).put(&network.octets());
                put_top(writer.u8(prefix).u16(port), top);
            }
            Self::Answer { number, in_use } => {
                writer.u8(ANSWER).u64(*number);
                let Some(InUse { group, ring }) = in_use else {
                    writer.u8(0);
                    return;
                };
                put_name(writer.u8(1), group);
                put_name(writer, ring);
            }
            Self::Add { top } => put_top(writer.u8(ADD), top),
            Self::Remove { top } => put_top(writer.u8(REMOVE), top),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(bytes);
        let word = match reader.u8("word")? {
            ASK => Self::Ask {
                number: reader.u64("number")?,
                pool: take_pool(reader)?,
                top: take_top(reader)?,
            },
            ANSWER => Self::Answer {
                number: reader.u64("number")?,
                in_use: match reader.u8("in use")? {
                    0 => None,
                    _ => Some(InUse {
                        group: take_name(reader, "group")?.into(),
                        ring: take_name(reader, "ring")?.into(),
                    }),
                },
            },
            ADD => Self::Add {
                top: take_top(reader)?,
            },
            REMOVE => Self::Remove {
                top: take_top(reader)?,
            },
            other => return Err(reader.invalid("word", u64::from(other))),
        };
        reader.finish()?;
        Ok(word)
    }
}

fn put_top(writer: &mut Writer<'_>, top: &DomainName) {
    put_name(writer, &top.to_string());
}

fn take_top(reader: &mut Reader<'_>) -> Result<DomainName, DecodeError> {
    let name = take_name(reader, "top")?;
    let len = name.len().min(GROUP_NAME_MAX) as u64;
    name.parse().map_err(|_| reader.invalid("top", len))
}

fn take_ip(reader: &mut Reader<'_>) -> Result<Ipv4Addr, DecodeError> {
    Ok(Ipv4Addr::from_bits(reader.u32("address")?))
}

fn take_pool(reader: &mut Reader<'_>) -> Result<Pool, DecodeError> {
    let (network, prefix, port) = (take_ip(reader)?, reader.u8("prefix")?, reader.u16("port")?);
    Pool::new(network, prefix, port).ok_or_else(|| reader.invalid("prefix", u64::from(prefix)))
}

fn put_address(writer: &mut Writer<'_>, address: &RingAddress) {
    put_top(writer, &address.top);
    let multicast = address.multicast;
    writer.u64(address.number).put(&multicast.ip().octets());
    writer.u16(multicast.port());
    writer.config(address.since.config).u64(address.since.seq);
}

/// The rings in a daemon's state.
fn take_said(bytes: &[u8]) -> Result<Vec<RingAddress>, DecodeError> {
    let reader = &mut Reader::new(bytes);
    let mut said = Vec::new();
    while reader.remaining() > 0 && said.len() < RINGS_MADE_MAX {
        let (top, number) = (take_top(reader)?, reader.u64("number")?);
        let (ip, port) = (take_ip(reader)?, reader.u16("port")?);
        if !ip.is_multicast() || port == 0 {
            return Err(reader.invalid("port", u64::from(port)));
        }
        said.push(RingAddress {
            top,
            number,
            multicast: SocketAddrV4::new(ip, port),
            since: OrderPlace {
                config: reader.config("since")?,
                seq: reader.u64("since")?,
            },
        });
    }
    reader.finish()?;
    Ok(said)
}

#[cfg(test)]
mod tests;
