//! A family of the registry under a network that the script controls: three real members, every
//! datagram delivered, lost, repeated, held back or damaged by choice, time that goes on or jumps,
//! submissions and leaves at any moment.
//!
//! Whatever happens: no panic and bounded answers. As long as no datagram was damaged or invented
//! (which the seal prevents unless a member itself is at fault), the judge must find no broken
//! promise either.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use groupcast_check::{Checker, Contract, Outcome};
use groupcast_core::family::Build;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{Destination, Instrumented, Rng, Service, Time, TransmitBuf};
use groupcast_protocols::registry;

use super::{Script, member};

const MEMBERS: usize = 3;
/// Datagrams under way; more are lost, as in a full queue.
const WIRE_MAX: usize = 2048;
/// More than a member may answer to one input: several full windows.
const ANSWERS_MAX: usize = 16_384;

/// Plays `script` to three members of the family called `name`. If the family has several variants,
/// the first byte chooses one.
///
/// # Panics
/// If the registry has no such family, and if a member breaks a promise.
pub fn family(name: &str, script: &[u8]) {
    let family = registry::family(name).expect("the registry has a family of this name");
    let (variant, script) = match family.variants {
        [only] => (only, script),
        variants => {
            let (choice, script) = script.split_first().unwrap_or((&0, &[]));
            (&variants[usize::from(*choice) % variants.len()], script)
        }
    };
    let mut script = Script(script);
    let mut stage = FuzzStage::new(variant.build, family.contract);
    while let Some(step) = script.step() {
        stage.play(step, &mut script);
        stage.settle();
    }
    stage.judge();
}

/// A datagram under way.
struct Datagram {
    from: usize,
    to: usize,
    body: Bytes,
}

struct FuzzStage {
    members: Vec<Box<dyn Instrumented>>,
    now: Time,
    buf: TransmitBuf,
    wire: VecDeque<Datagram>,
    checker: Checker,
    /// No datagram was damaged or invented so far.
    honest: bool,
}

impl FuzzStage {
    fn new(build: Build, contract: Contract) -> Self {
        let rng = Rng::new(1);
        let mut checker = Checker::new().under(contract);
        let members = (0..MEMBERS)
            .map(|index| {
                checker.observe(member(index), &Observation::Start);
                build(member(index), rng.fork_index(index as u64), Time::ZERO)
            })
            .collect();
        let mut stage = Self {
            members,
            now: Time::ZERO,
            buf: TransmitBuf::new(16, 0, 0),
            wire: VecDeque::new(),
            checker,
            honest: true,
        };
        stage.settle();
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
            5 => self.run(Duration::from_micros(250) * (1 + u32::from(script.u8()))),
            6 => {
                self.wire.pop_front();
            }
            7 => {
                let copy = self.wire.front().map(|datagram| Datagram {
                    body: datagram.body.clone(),
                    ..*datagram
                });
                self.wire.extend(copy);
            }
            8 => {
                let held_back = self.wire.pop_front();
                self.wire.extend(held_back);
            }
            9 => self.damage(script),
            10 => {
                self.honest = false;
                let (from, to) = (script.index(MEMBERS), script.index(MEMBERS));
                let body = Bytes::copy_from_slice(script.bytes());
                self.members[to].handle_datagram(self.now, member(from), body);
            }
            11 => self.jump(script.index(MEMBERS)),
            12 => {
                let index = script.index(MEMBERS);
                self.members[index].handle_timeout(self.now);
            }
            13 | 14 => self.submit(script),
            _ => {
                // One byte in 256: otherwise every script would end without members.
                if step == u8::MAX {
                    let index = script.index(MEMBERS);
                    self.members[index].leave(self.now);
                }
            }
        }
    }

    fn deliver_next(&mut self) {
        if let Some(Datagram { from, to, body }) = self.wire.pop_front() {
            self.members[to].handle_datagram(self.now, member(from), body);
        }
    }

    /// A network that works, for `span`: every datagram arrives, timers fire when they are due.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..ANSWERS_MAX {
            if !self.wire.is_empty() {
                self.now += Duration::from_micros(20);
                self.deliver_next();
            } else {
                let due = self.members.iter().filter_map(|m| m.poll_timeout()).min();
                self.now = due.unwrap_or(end).max(self.now).min(end);
            }
            self.fire();
            self.settle();
            if self.now >= end {
                return;
            }
        }
    }

    /// To the next timer of member `index`, with everything else late.
    fn jump(&mut self, index: usize) {
        if let Some(due) = self.members[index].poll_timeout() {
            self.now = self.now.max(due);
            self.members[index].handle_timeout(self.now);
        }
    }

    fn fire(&mut self) {
        for member in &mut self.members {
            if member.poll_timeout().is_some_and(|due| due <= self.now) {
                member.handle_timeout(self.now);
            }
        }
    }

    fn damage(&mut self, script: &mut Script<'_>) {
        let (at, change) = (usize::from(script.u16()), script.u8());
        if let Some(datagram) = self.wire.front_mut()
            && !datagram.body.is_empty()
        {
            self.honest = false;
            let mut body = datagram.body.to_vec();
            let at = at % body.len();
            body[at] ^= change;
            if change == 0 {
                body.truncate(at);
            }
            datagram.body = body.into();
        }
    }

    fn submit(&mut self, script: &mut Script<'_>) {
        let index = script.index(MEMBERS);
        let service = Service::ALL[script.index(Service::ALL.len())];
        let payload = Bytes::from(vec![script.u8(); usize::from(script.u16() % 8192)]);
        let digest = digest(&payload);
        if let Ok(id) = self.members[index].submit(self.now, service, payload) {
            let observation = Observation::Submit {
                id,
                service,
                digest,
            };
            self.checker.observe(member(index), &observation);
        }
    }

    /// Drains all members: what they send is under way, what they deliver is observed.
    fn settle(&mut self) {
        for index in 0..MEMBERS {
            for answers in 0.. {
                assert!(answers < ANSWERS_MAX, "one input has endless answers");
                self.buf.clear();
                let Some(transmit) = self.members[index].poll_transmit(self.now, &mut self.buf)
                else {
                    break;
                };
                self.send(index, transmit.destination);
            }
            for events in 0.. {
                assert!(events < ANSWERS_MAX, "one input has endless events");
                let Some(event) = self.members[index].poll_event() else {
                    break;
                };
                if let Some(observation) = Observation::of(&event) {
                    self.checker.observe(member(index), &observation);
                }
            }
        }
    }

    fn send(&mut self, from: usize, destination: Destination) {
        let receivers = (0..MEMBERS).filter(|to| match destination {
            Destination::Group => *to != from,
            Destination::Member(receiver) => member(*to) == receiver,
        });
        for to in receivers {
            for segment in self.buf.iter() {
                if self.wire.len() < WIRE_MAX {
                    let body = Bytes::copy_from_slice(segment);
                    self.wire.push_back(Datagram { from, to, body });
                }
            }
        }
    }

    fn judge(&self) {
        if self.honest {
            let violations = self.checker.finish(&Outcome::default());
            assert!(violations.is_empty(), "{violations:?}");
        }
    }
}
