//! Changes of the cluster's key among four daemons, as the script has it: keys given, statements
//! ordered and delivered, configurations that come and go, and statements that a member invents.
//!
//! Whatever happens: no panic, and what a daemon keeps stays bounded. As long as no statement was
//! invented, all daemons of a configuration open what the others seal, after every step. And at the
//! end a change that every daemon is given is completed everywhere, whatever was said before.

use std::collections::VecDeque;

use groupcast_core::MemberId;
use groupcast_session::rekey::{Act, Fingerprint, KeyChange, Statement, Step};

use super::{Script, member};

const DAEMONS: usize = 4;
/// Keys that there are; all daemons begin with the first.
const KEYS: u8 = 4;
/// Statements under way to a daemon; more are lost, as when a configuration ends.
const AHEAD_MAX: usize = 256;
/// Turns after which daemons that were left alone have nothing more to say.
const TURNS_MAX: usize = 10_000;

/// Plays `script` to the daemons.
///
/// # Panics
/// If a daemon breaks a promise.
pub fn rekey(script: &[u8]) {
    let mut script = Script(script);
    let mut stage = FuzzStage::new();
    while let Some(step) = script.step() {
        stage.play(step, &mut script);
        stage.check();
    }
    stage.recover();
}

fn key(choice: u8) -> Fingerprint {
    Fingerprint([choice % KEYS; 16])
}

struct Daemon {
    change: KeyChange,
    seals: Fingerprint,
    opens: Vec<Fingerprint>,
    /// The ordered statements of its configuration that were not delivered to it yet.
    ahead: VecDeque<(MemberId, Statement)>,
    /// Its configuration, by number.
    part: usize,
}

struct FuzzStage {
    daemons: Vec<Daemon>,
    /// No statement was invented so far.
    honest: bool,
}

impl FuzzStage {
    fn new() -> Self {
        let daemon = |index| Daemon {
            change: KeyChange::new(member(index), key(0)),
            seals: key(0),
            opens: vec![key(0)],
            ahead: VecDeque::new(),
            part: 0,
        };
        let mut stage = Self {
            daemons: (0..DAEMONS).map(daemon).collect(),
            honest: true,
        };
        stage.configure([0; DAEMONS]);
        stage
    }

    fn play(&mut self, step: u8, script: &mut Script<'_>) {
        let index = script.index(DAEMONS);
        match step % 8 {
            0..=3 => {
                for _ in 0..=step >> 4 {
                    self.go_on(index);
                    self.go_on((index + usize::from(step >> 4)) % DAEMONS);
                }
            }
            4 | 5 => self.begin(index, key(script.u8())),
            6 => {
                let parts = script.u8();
                self.configure(std::array::from_fn(|at| usize::from(parts >> (2 * at)) % 2));
            }
            _ => {
                self.honest = false;
                let steps = [Step::Known, Step::Used, Step::Done, Step::GivenUp];
                let statement = Statement {
                    key: key(script.u8()),
                    step: steps[script.index(steps.len())],
                };
                self.order(index, statement);
            }
        }
    }

    /// The operator gives a daemon a key, which it may refuse.
    fn begin(&mut self, index: usize, next: Fingerprint) {
        let daemon = &mut self.daemons[index];
        if daemon.change.begin(next).is_ok() && !daemon.opens.contains(&next) {
            daemon.opens.push(next);
        }
    }

    /// Installs new configurations: daemons with the same number in `parts` are together if each
    /// opens what the others seal. A daemon that does not is alone.
    fn configure(&mut self, parts: [usize; DAEMONS]) {
        let mut together: Vec<Vec<usize>> = vec![Vec::new(); DAEMONS];
        for (index, part) in parts.into_iter().enumerate() {
            let fits = together[part].iter().all(|other| self.hear(index, *other));
            match fits {
                true => together[part].push(index),
                false => together.push(vec![index]),
            }
        }
        for (number, part) in together.iter().enumerate() {
            let members: Vec<MemberId> = part.iter().map(|index| member(*index)).collect();
            for index in part {
                let daemon = &mut self.daemons[*index];
                daemon.part = number;
                daemon.ahead.clear();
                daemon.change.handle_transitional();
                daemon.change.handle_regular(&members);
            }
        }
    }

    /// Whether two daemons open what the other seals.
    fn hear(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|index| &self.daemons[index]);
        one.opens.contains(&other.seals) && other.opens.contains(&one.seals)
    }

    /// Delivers the next statement to a daemon; if there is none, orders the next statement of the
    /// daemon itself. Returns whether there was one.
    fn go_on(&mut self, index: usize) -> bool {
        let daemon = &mut self.daemons[index];
        if let Some((from, statement)) = daemon.ahead.pop_front() {
            daemon.change.handle_statement(from, statement);
            while let Some(act) = daemon.change.poll_act() {
                match act {
                    Act::Use(key) => daemon.seals = key,
                    Act::Finish(key) => daemon.opens = vec![key],
                    Act::GiveUp { ours, .. } => daemon.opens.retain(|key| *key != ours),
                }
            }
            return true;
        }
        match daemon.change.next_statement() {
            Some(statement) => {
                daemon.change.said();
                self.order(index, statement);
                true
            }
            None => false,
        }
    }

    /// Orders a statement of a daemon among those of its configuration.
    fn order(&mut self, from: usize, statement: Statement) {
        let part = self.daemons[from].part;
        for daemon in self.daemons.iter_mut().filter(|daemon| daemon.part == part) {
            if daemon.ahead.len() < AHEAD_MAX {
                daemon.ahead.push_back((member(from), statement));
            } else {
                // Not all daemons are delivered the same, as if a statement had been invented.
                self.honest = false;
            }
        }
    }

    fn check(&self) {
        for daemon in &self.daemons {
            let progress = daemon.change.progress();
            let waits_for = progress.map_or(0, |progress| progress.waits_for.len());
            assert!(waits_for <= DAEMONS, "{waits_for} members are waited for");
            assert!(daemon.opens.len() <= 2, "{:?}", daemon.opens);
            assert!(
                daemon.opens.contains(&daemon.seals),
                "it cannot open its own"
            );
        }
        if !self.honest {
            return;
        }
        for (index, daemon) in self.daemons.iter().enumerate() {
            let others = self.daemons.iter().enumerate();
            for (other, _) in others.filter(|(_, other)| other.part == daemon.part) {
                assert!(
                    self.hear(index, other),
                    "{index} and {other} do not hear each other"
                );
            }
        }
    }

    /// Brings all daemons into one configuration and gives all of them the key of the change that
    /// is under way: then it ends everywhere.
    fn recover(&mut self) {
        self.configure([0; DAEMONS]);
        let one = self.daemons.iter().all(|daemon| daemon.part == 0);
        // A member that was alone with a new key needs the operator; a member that invents can do
        // anything.
        if !one || !self.honest {
            return;
        }
        self.settle();
        let mut under_way = self
            .daemons
            .iter()
            .filter_map(|daemon| daemon.change.progress());
        let Some(next) = under_way.next().map(|progress| progress.next) else {
            return;
        };
        for index in 0..DAEMONS {
            self.begin(index, next);
        }
        self.settle();
        for daemon in &self.daemons {
            assert_eq!(daemon.opens, [next], "the change did not end");
            assert_eq!((daemon.seals, daemon.change.current()), (next, next));
        }
    }

    /// Goes on until no daemon has a statement to say or to be delivered.
    fn settle(&mut self) {
        for turn in 0.. {
            assert!(turn < TURNS_MAX, "the daemons never stop talking");
            let mut moved = false;
            for index in 0..DAEMONS {
                moved |= self.go_on(index);
                self.check();
            }
            if !moved {
                return;
            }
        }
    }
}
