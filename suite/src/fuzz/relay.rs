//! The accounts of two relays on their way to a sender, under a network that the script controls:
//! every datagram delivered, lost, repeated, held back, damaged or invented by choice, words that
//! make sense and words that do not, time that goes on, a transfer that is closed in the middle.
//!
//! Whatever happens: no panic, bounded answers, no more rows than there is room for, and only words
//! of admitted relays. As long as no datagram was damaged or invented, the sender was told what
//! each relay said: in order, each word once, and every word if the relay's report counts as
//! delivered.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, NodeId, Time, TransmitBuf};
use groupcast_protocols::bulk::{Outcome, TransferId};
use groupcast_protocols::relay::{Account, Accounts, ReportState, Said, Word};

use super::wire::Wire;
use super::{Script, member};

/// The sender, two relays, and one that was never a receiver of the transfer.
const MEMBERS: usize = 4;
const SENDER: usize = 0;
const RELAYS: [usize; 2] = [1, 2];
/// Rows that the sender keeps, and that a relay says.
const ROWS_MAX: usize = 12;
/// Datagrams under way; more are lost, as in a full queue.
const WIRE_MAX: usize = 256;
/// More than a member may answer to one input.
const ANSWERS_MAX: usize = 4096;
const NUMBER: u32 = 7;

/// Plays `script` to a sender and two relays.
///
/// # Panics
/// If one of them breaks a promise.
pub fn relay(script: &[u8]) {
    let mut script = Script(script);
    let mut stage = FuzzStage::new();
    while let Some(step) = script.step() {
        stage.play(step, &mut script);
        stage.settle();
    }
    stage.check();
}

struct FuzzStage {
    members: Vec<Accounts>,
    now: Time,
    wire: Wire,
    said: BTreeMap<usize, Vec<Word>>,
    told: BTreeMap<usize, Vec<Word>>,
    /// No datagram was damaged or invented so far.
    honest: bool,
    is_closed: bool,
}

fn id() -> TransferId {
    TransferId {
        sender: member(SENDER),
        number: NUMBER,
    }
}

impl FuzzStage {
    fn new() -> Self {
        let mut members: Vec<Accounts> = (0..MEMBERS).map(|_| Accounts::new(ROWS_MAX)).collect();
        members[SENDER].open(NUMBER);
        for relay in RELAYS {
            members[SENDER].admit(NUMBER, member(relay));
        }
        Self {
            members,
            now: Time::from_millis(1),
            wire: Wire::new(WIRE_MAX),
            said: BTreeMap::new(),
            told: BTreeMap::new(),
            honest: true,
            is_closed: false,
        }
    }

    fn play(&mut self, step: u8, script: &mut Script<'_>) {
        match step % 16 {
            // Most scripts should get somewhere: the network works most of the time.
            0..=3 => {
                for _ in 0..=step >> 4 {
                    self.deliver_next();
                    self.settle();
                }
            }
            4 | 5 => self.run(Duration::from_millis(1 + 8 * u64::from(script.u8()))),
            6 => drop(self.wire.next()),
            7 => self.wire.repeat(),
            8 => self.wire.hold_back(),
            9 => self.damage(script),
            10..=14 => self.say(script),
            // Once in a while: otherwise every script would end early.
            _ if step == 0xff => self.close(),
            _ => {}
        }
    }

    fn deliver_next(&mut self) {
        if let Some((from, to, body)) = self.wire.next() {
            self.members[to].handle_datagram(self.now, member(from), &body);
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        for turns in 0.. {
            assert!(turns < ANSWERS_MAX, "time stands still");
            let timeouts = self.members.iter().filter_map(Accounts::poll_timeout);
            let Some(due) = timeouts.min().filter(|due| *due <= end) else {
                break;
            };
            self.now = self.now.max(due);
            for accounts in &mut self.members {
                accounts.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    /// A datagram is damaged, or one is invented.
    fn damage(&mut self, script: &mut Script<'_>) {
        self.honest = false;
        if let Some((from, to, body)) = self.wire.damage(MEMBERS, script) {
            self.members[to].handle_datagram(self.now, member(from), &body);
        }
    }

    /// A relay says something, which may make no sense; or somebody who is no receiver does.
    fn say(&mut self, script: &mut Script<'_>) {
        let index = 1 + script.index(MEMBERS - 1);
        let kind = script.u8();
        let row = u32::from(script.u8()) % 16;
        let outcome = match kind >> 4 {
            0..=5 => Outcome::Complete,
            6 => Outcome::Failed("its disk is full".into()),
            7 => Outcome::Refused("no".repeat(400)),
            8 => Outcome::Vanished,
            _ => Outcome::Late,
        };
        let word = match kind % 8 {
            0..=2 => Word::Registered {
                node: NodeId(u64::from(row)),
                name: Bytes::copy_from_slice(script.bytes()),
            },
            3..=5 => Word::Settled { row, outcome },
            6 => Word::Aside { row },
            _ => Word::Final,
        };
        self.said.entry(index).or_default().push(word.clone());
        self.members[index].say(self.now, id(), word);
    }

    fn close(&mut self) {
        let kept = self.members[SENDER].close(NUMBER);
        assert!(is_within_limit(
            kept.values().map(|account| account.rows().len())
        ));
        self.is_closed = true;
    }

    /// Takes what all have to send and to tell.
    fn settle(&mut self) {
        let mut buf = TransmitBuf::new(1, 0, 0);
        for index in 0..MEMBERS {
            for events in 0.. {
                assert!(events < ANSWERS_MAX, "one input has endless events");
                let Some(event) = self.members[index].poll_event() else {
                    break;
                };
                let known = RELAYS.iter().copied();
                let relay = known.into_iter().find(|it| member(*it) == event.relay);
                let relay = relay.expect("nobody but a receiver of the transfer is believed");
                assert_eq!((index, event.number), (SENDER, NUMBER));
                match event.said {
                    Said::Word(word) => self.told.entry(relay).or_default().push(word),
                    // Who came late is in no account.
                    said => assert!(!self.honest, "nobody has said {said:?}"),
                }
            }
            for answers in 0.. {
                assert!(answers < ANSWERS_MAX, "one input has endless answers");
                buf.clear();
                let Some(transmit) = self.members[index].poll_transmit(&mut buf) else {
                    break;
                };
                let Destination::Member(to) = transmit.destination else {
                    panic!("an account is for one member");
                };
                let to = (0..MEMBERS).find(|it| member(*it) == to);
                let to = to.expect("it answers whom it knows");
                self.wire.send(index, to, &buf);
            }
        }
        let kept = self.members[SENDER].accounts(NUMBER);
        assert!(is_within_limit(
            kept.map(|(_, account)| account.rows().len())
        ));
    }

    fn check(&self) {
        if !self.honest {
            return;
        }
        for (relay, told) in &self.told {
            let said = &self.said[relay];
            let first: Vec<Word> = said.iter().take(told.len()).map(as_read).collect();
            assert_eq!(*told, first, "in order, each word once");
            let state = self.members[*relay].state(self.now, id());
            if state == ReportState::Delivered {
                let account = self.members[SENDER].account(NUMBER, member(*relay));
                let is_final = account.is_some_and(Account::is_final);
                assert!(self.is_closed || is_final, "it has the last word");
            }
        }
    }
}

/// Whether the accounts have no more rows together than there is room for.
fn is_within_limit(counts: impl Iterator<Item = usize>) -> bool {
    counts.sum::<usize>() <= ROWS_MAX
}

/// A word as it comes out of a datagram, which bounds reasons.
fn as_read(word: &Word) -> Word {
    let short = |reason: &String| reason.chars().take(512).collect();
    match word {
        Word::Settled {
            row,
            outcome: Outcome::Refused(reason),
        } => Word::Settled {
            row: *row,
            outcome: Outcome::Refused(short(reason)),
        },
        word => word.clone(),
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Rng;

    use super::*;

    #[test]
    fn scripts_end_in_whole_accounts_and_in_none() {
        // Two receivers, one of them complete and one set aside, and the last word.
        let say = [10, 0, 0, 1, 2, b'a', b'b', 10, 0, 0, 2, 1, b'c'];
        let settle = [10, 0, 3, 0, 10, 0, 6, 1, 10, 0, 7, 0];
        let go_on = [0xf0, 4, 20, 0xf0].repeat(4);
        let script = [&say[..], &settle, &go_on].concat();
        let mut script = Script(&script);
        let mut stage = FuzzStage::new();
        while let Some(step) = script.step() {
            stage.play(step, &mut script);
            stage.settle();
        }
        stage.check();
        assert_eq!(stage.told[&1], stage.said[&1]);
        let state = stage.members[1].state(stage.now, id());
        assert_eq!(state, ReportState::Delivered);
        // Any bytes are a script.
        let mut rng = Rng::new(5);
        for _ in 0..1000 {
            let noise: Vec<u8> = (0..300).map(|_| rng.below(256) as u8).collect();
            relay(&noise);
        }
    }
}
