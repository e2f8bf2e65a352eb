//! A request of bulk to two members that reply, or a connection for messages to them, with every
//! opening, under a network that the script controls: every datagram delivered, lost, repeated,
//! held back or damaged by choice, time that goes on, users that say more, end, give up or read
//! nothing.
//!
//! Whatever happens: no panic, bounded answers, and no more bytes of replies wait for the sender's
//! user than the budget allows. In a connection that is unanswered the sender learns of no member.
//!
//! As long as no datagram was damaged or invented, the sender's user was told what the members'
//! users said: every byte once and in its place, and the code at the end. Each member is given the
//! messages that were offered, in order, from the first that both ends were told. It has a message
//! before the sender is told that all have it, and it has all messages if its outcome says so.

mod connections;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Protocol as _, Rng, Time, TransmitBuf};
use groupcast_protocols::bulk::{
    Acceptance, Bulk, DeliverTo, Notice, Opening, Outcome, Policy, Transfer, TransferId, Wanted,
};
use groupcast_protocols::xgm::Subgroups;

use self::connections::{CONNECTION, Connection};
use super::wire::Wire;
use super::{Script, member};

const MEMBERS: usize = 3;
/// Datagrams under way; more are lost, as in a full queue.
const WIRE_MAX: usize = 1024;
/// More than a member may answer to one input.
const ANSWERS_MAX: usize = 4096;
/// The most bytes of all replies together that may wait for the sender's user.
const BUDGET: usize = 6_000;

/// Plays `script` to a sender and two members.
///
/// # Panics
/// If one of them breaks a promise.
pub fn replies(script: &[u8]) {
    FuzzStage::after(script);
}

/// What one member's user has said, and what the sender's user was told of it.
#[derive(Default)]
struct Reply {
    said: Vec<u8>,
    code: Option<u32>,
    told: usize,
}

/// What a member's user was given of the connection since it was announced to it.
struct Given {
    /// The number of its first message, as it was told.
    first: u64,
    /// The number of the last message that it was given; `first` - 1 if it was given none.
    last: u64,
    /// What has come of the next message.
    part: Vec<u8>,
}

struct FuzzStage {
    connection: &'static Connection,
    members: Vec<Bulk>,
    now: Time,
    id: TransferId,
    request: Bytes,
    /// Messages that were offered, if it is a connection, and what each member was given: once for
    /// each time that it was announced to it.
    messages: Option<Vec<Bytes>>,
    given: Vec<Vec<Given>>,
    /// The members whose outcome is known.
    settled: BTreeSet<MemberId>,
    wire: Wire,
    replies: BTreeMap<MemberId, Reply>,
    /// Bytes that the sender's user was told and is not done with.
    unread: u64,
    /// No datagram was damaged or invented so far.
    honest: bool,
}

impl FuzzStage {
    fn new(choice: u8) -> Self {
        let connection = Connection::of(choice);
        let endpoint = |index| {
            let (settings, rng) = (connection.settings(choice), Rng::new(index as u64));
            Bulk::new(member(index), settings, rng).expect("the settings fit each other")
        };
        let mut members: Vec<Bulk> = (0..MEMBERS).map(endpoint).collect();
        let now = Time::from_millis(1);
        let request = Bytes::from(vec![7; usize::from(choice) * 4]);
        let is_connection = choice & CONNECTION != 0;
        let transfer = Transfer {
            about: Bytes::new(),
            length: (!is_connection).then_some(request.len() as u64),
            rewindable: choice & 2 != 0 && !is_connection,
            receivers: Wanted::Count(match connection.opening {
                // Somebody may come late.
                Opening::AtAnyTime => 1,
                Opening::AtStart | Opening::Unanswered => MEMBERS - 1,
            }),
            subgroups: Subgroups::ALL,
            confirm: false,
            deliver_to: match choice & 4 != 0 && !is_connection {
                true => DeliverTo::UpTo {
                    first: 0,
                    step: None,
                },
                false => DeliverTo::AtOnce,
            },
            replies: connection.replies,
            strict: false,
        };
        let id = match is_connection {
            true => members[0].open(now, transfer, connection.opening),
            false => members[0].send(now, transfer),
        };
        Self {
            connection,
            members,
            now,
            id: id.expect("it is the first, and within the limits"),
            request,
            messages: is_connection.then(Vec::new),
            given: (0..MEMBERS).map(|_| Vec::new()).collect(),
            settled: BTreeSet::new(),
            wire: Wire::new(WIRE_MAX),
            replies: BTreeMap::new(),
            unread: 0,
            honest: true,
        }
    }

    /// The stage after all of `script`.
    fn after(script: &[u8]) -> Self {
        let mut script = Script(script);
        let mut stage = Self::new(script.u8());
        stage.settle();
        while let Some(step) = script.step() {
            stage.play(step, &mut script);
            stage.settle();
        }
        stage
    }

    fn play(&mut self, step: u8, script: &mut Script<'_>) {
        match step % 16 {
            // Most scripts should get somewhere: the network works most of the time.
            0..=4 => {
                for _ in 0..=step >> 4 {
                    self.deliver_next();
                    self.settle();
                }
            }
            5 | 6 => self.run(Duration::from_millis(1 + u64::from(script.u8()))),
            7 => drop(self.wire.next()),
            8 => self.wire.repeat(),
            9 => self.wire.hold_back(),
            10 => self.damage(script),
            11 | 12 => self.say(script),
            13 => self.end(script),
            14 if self.messages.is_some() && step & 0x30 != 0 => self.offer_message(script),
            14 => {
                let bytes = self.unread / (1 + u64::from(script.u8() % 4));
                self.members[0].reply_consumed(self.now, self.id, bytes);
                self.unread -= bytes;
            }
            _ => self.give_up(step, script),
        }
    }

    fn deliver_next(&mut self) {
        if let Some((from, to, body)) = self.wire.next() {
            self.members[to].handle_datagram(self.now, member(from), body);
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        for turns in 0.. {
            assert!(turns < ANSWERS_MAX, "time stands still");
            let timeouts = self.members.iter().filter_map(Bulk::poll_timeout);
            let Some(due) = timeouts.min().filter(|due| *due <= end) else {
                break;
            };
            self.now = self.now.max(due);
            for endpoint in &mut self.members {
                endpoint.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    /// A datagram is damaged, or one is invented.
    fn damage(&mut self, script: &mut Script<'_>) {
        self.honest = false;
        if let Some((from, to, body)) = self.wire.damage(MEMBERS, script) {
            self.members[to].handle_datagram(self.now, member(from), body);
        }
    }

    /// A member's user says something.
    fn say(&mut self, script: &mut Script<'_>) {
        let index = 1 + script.index(MEMBERS - 1);
        let bytes = vec![script.u8(); 1 + usize::from(script.u8()) * 8];
        let taken = self.members[index].reply(self.now, self.id, &bytes);
        let reply = self.replies.entry(member(index)).or_default();
        assert!(reply.code.is_none() || taken == 0, "it had ended");
        reply.said.extend_from_slice(&bytes[..taken]);
    }

    /// The sender's user says something to all.
    fn offer_message(&mut self, script: &mut Script<'_>) {
        let bytes = Bytes::from(vec![script.u8(); usize::from(script.u8()) * 3]);
        let offered = self.members[0].offer_message(self.now, self.id, bytes.clone());
        if let (Ok(number), Some(messages)) = (offered, &mut self.messages) {
            messages.push(bytes);
            assert_eq!(number, messages.len() as u64);
        }
    }

    fn end(&mut self, script: &mut Script<'_>) {
        let (index, code) = (1 + script.index(MEMBERS - 1), u32::from(script.u8()));
        if !self.members[index].wants_reply(self.id) {
            // It has not heard of the request, or it is over.
            return;
        }
        self.members[index].finish_reply(self.now, self.id, code);
        let reply = self.replies.entry(member(index)).or_default();
        reply.code.get_or_insert(code);
    }

    /// Once in a while: otherwise every script would end early.
    fn give_up(&mut self, step: u8, script: &mut Script<'_>) {
        match step {
            0xdf if self.messages.is_some() => self.members[0].finish(self.now, self.id),
            0xff => self.members[0].cancel(self.now, self.id, "enough"),
            0xef => {
                let index = 1 + script.index(MEMBERS - 1);
                self.members[index].conclude(self.now, self.id, Err("enough"));
            }
            _ => {}
        }
    }

    /// Takes what all have to send and to tell.
    fn settle(&mut self) {
        let mut buf = TransmitBuf::new(16, 0, 0);
        for index in 0..MEMBERS {
            for events in 0.. {
                assert!(events < ANSWERS_MAX, "one input has endless events");
                let Some(notice) = self.members[index].poll_event() else {
                    break;
                };
                self.take(index, &notice);
            }
            self.offer();
            for answers in 0.. {
                assert!(answers < ANSWERS_MAX, "one input has endless answers");
                buf.clear();
                let Some(transmit) = self.members[index].poll_transmit(self.now, &mut buf) else {
                    break;
                };
                let may_talk = index == 0 || !self.connection.is_unanswered();
                assert!(may_talk || !self.honest, "nobody was asked");
                let reached = (0..MEMBERS).filter(|to| match transmit.destination {
                    Destination::Group => *to != index,
                    Destination::Member(only) => member(*to) == only,
                });
                for to in reached {
                    self.wire.send(index, to, &buf);
                }
            }
        }
    }

    fn offer(&mut self) {
        if self.messages.is_some() {
            return;
        }
        while let Some(wanted) = self.members[0].wanted(self.id) {
            let part = self
                .request
                .slice(wanted.start as usize..wanted.end as usize);
            let offered = self.members[0].offer(self.now, self.id, part);
            offered.expect("it is wanted");
        }
    }

    fn take(&mut self, index: usize, notice: &Notice) {
        match notice {
            Notice::Announced { id, .. } => {
                let acceptance = Acceptance::in_order(Bytes::new());
                let accepted = self.members[index].accept(self.now, *id, &acceptance);
                accepted.expect("it was announced just now");
                if *id == self.id {
                    // A member that had lost the sender begins anew, and so does its reply, of
                    // which the sender's user knows nothing, nor ever will.
                    let reply = self.replies.entry(member(index)).or_default();
                    assert!(reply.told == 0 || !self.honest, "its former reply was told");
                    if reply.told == 0 {
                        *reply = Reply::default();
                    }
                    self.given[index].push(Given {
                        first: 1,
                        last: 0,
                        part: Vec::new(),
                    });
                }
            }
            Notice::Data { id, bytes, .. } => {
                self.members[index].consumed(self.now, *id, bytes.len() as u64);
                if let Some(given) = self.given_of(index, *id) {
                    given.part.extend_from_slice(bytes);
                }
            }
            Notice::Joined {
                id,
                receiver: None,
                number,
            } => {
                if let Some(given) = self.given_of(index, *id) {
                    let is_first = given.last == 0 && given.part.is_empty() && *number > 1;
                    assert!(is_first, "it is told before its first message");
                    (given.first, given.last) = (*number, *number - 1);
                }
            }
            Notice::Joined {
                receiver: Some(joined),
                number,
                ..
            } => {
                let was_told = self.lives(*joined).any(|given| given.first == *number);
                assert!(!self.honest || was_told, "both ends are told the same");
            }
            Notice::MessageEnded { id, number } => self.end_message(index, *id, *number),
            Notice::AllHave { number, .. } => {
                assert!(!self.connection.is_unanswered(), "nobody was asked");
                // Under XTP the sender speaks of those that answer.
                let is_known = !matches!(self.members[0].config().policy, Policy::Xtp(_));
                for to in (1..MEMBERS).filter(|_| is_known) {
                    let is_settled = self.settled.contains(&member(to));
                    let has = self.lives(member(to)).any(|given| given.last >= *number);
                    assert!(!self.honest || is_settled || has, "all have it");
                }
            }
            Notice::Reply {
                receiver,
                offset,
                bytes,
                ..
            } => {
                self.unread += bytes.len() as u64;
                assert!(self.unread <= BUDGET as u64, "more than the budget waits");
                let reply = self.replies.entry(*receiver).or_default();
                assert_eq!(*offset, reply.told as u64, "in order, each byte once");
                reply.told += bytes.len();
                if self.honest {
                    let said = reply.said.get(*offset as usize..reply.told);
                    assert_eq!(said, Some(&bytes[..]), "as it was said");
                }
            }
            Notice::ReplyEnded {
                receiver,
                code,
                length,
                ..
            } => {
                let reply = self.replies.entry(*receiver).or_default();
                assert_eq!(*length, reply.told as u64, "all was told before");
                if self.honest {
                    assert_eq!(
                        (Some(*code), *length),
                        (reply.code, reply.said.len() as u64)
                    );
                }
            }
            Notice::Settled {
                receiver, outcome, ..
            } => {
                assert!(!self.connection.is_unanswered(), "nobody was asked");
                self.settled.insert(*receiver);
                if self.honest {
                    self.check_outcome(*receiver, outcome);
                }
            }
            _ => {}
        }
    }

    /// A message has come whole.
    fn end_message(&mut self, index: usize, id: TransferId, number: u64) {
        let (may_lose, honest) = (self.connection.is_unanswered(), self.honest);
        let Some(given) = self.given_of(index, id) else {
            return;
        };
        let follows = match may_lose {
            // Where nothing is repeated, the sender alone says which message it is.
            true => number > given.last || !honest,
            false => number == given.last + 1,
        };
        assert!(
            follows,
            "in order, each once: {number} after {}",
            given.last
        );
        given.last = number;
        let message = std::mem::take(&mut given.part);
        let offered = self.messages.iter().flatten().nth(number as usize - 1);
        assert!(!honest || offered.is_some_and(|it| *it == message));
    }

    /// Checks that a receiver has what its outcome says.
    fn check_outcome(&self, receiver: MemberId, outcome: &Outcome) {
        let first = match outcome {
            Outcome::Complete => 1,
            Outcome::Joined { number } => *number,
            _ => return,
        };
        if let Some(messages) = &self.messages {
            let end = messages.len() as u64;
            let has_all = |given: &Given| given.first == first && given.last == end;
            let has_all = self.lives(receiver).any(has_all);
            assert!(has_all, "it has every message from {first} to {end}");
        }
        let reply = self.replies.get(&receiver);
        let whole = reply.is_some_and(|it| it.code.is_some() && it.told == it.said.len());
        let wants_none = !self.connection.replies;
        assert!(wants_none || whole, "none is complete without its reply");
    }

    /// What a member's user was given since the connection was last announced to it.
    fn given_of(&mut self, index: usize, id: TransferId) -> Option<&mut Given> {
        let is_it = id == self.id && self.messages.is_some();
        self.given[index].last_mut().filter(|_| is_it)
    }

    /// What a member's user was given, for each time that the connection was announced to it.
    fn lives(&self, receiver: MemberId) -> impl Iterator<Item = &Given> {
        let is_it = move |index: &usize| member(*index) == receiver;
        let indices = (0..MEMBERS).filter(is_it);
        indices.flat_map(|index| &self.given[index])
    }
}
