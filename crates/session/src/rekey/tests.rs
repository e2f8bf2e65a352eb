//! Changes of the key among a few daemons: statements in one order for each configuration, keys as
//! the daemons have them, and after every step that all whom a daemon talks to can open what it
//! seals.

use std::collections::BTreeMap;

use groupcast_core::{Incarnation, NodeId, Rng};

use super::*;

const OLD: Fingerprint = Fingerprint([0; 16]);
const NEW: Fingerprint = Fingerprint([1; 16]);
const OTHER: Fingerprint = Fingerprint([2; 16]);

fn member(index: u64) -> MemberId {
    MemberId {
        node: NodeId(index),
        incarnation: Incarnation(index),
    }
}

struct Daemon {
    change: KeyChange,
    seals: Fingerprint,
    opens: Vec<Fingerprint>,
    /// The statements of the order of its configuration that it has not been delivered.
    ahead: VecDeque<(MemberId, Statement)>,
}

struct Bed {
    daemons: BTreeMap<MemberId, Daemon>,
    /// The components: each has one order.
    parts: Vec<Vec<MemberId>>,
}

impl Bed {
    fn new(count: u64) -> Self {
        let daemons = (0..count).map(|index| (member(index), Self::daemon(index, OLD)));
        let mut bed = Self {
            daemons: daemons.collect(),
            parts: Vec::new(),
        };
        bed.configure(&[&(0..count).collect::<Vec<_>>()]);
        bed
    }

    fn daemon(index: u64, key: Fingerprint) -> Daemon {
        Daemon {
            change: KeyChange::new(member(index), key),
            seals: key,
            opens: vec![key],
            ahead: VecDeque::new(),
        }
    }

    /// These configurations are installed; what was not delivered before is lost.
    fn configure(&mut self, parts: &[&[u64]]) {
        let members = |part: &&[u64]| part.iter().map(|index| member(*index)).collect();
        self.parts = parts.iter().map(members).collect();
        for part in &self.parts {
            for id in part {
                let daemon = self.daemons.get_mut(id).unwrap();
                daemon.change.handle_transitional();
                daemon.ahead.clear();
                daemon.change.handle_regular(part);
            }
        }
        self.check();
    }

    fn begin(&mut self, index: u64, key: Fingerprint) -> Result<(), Refused> {
        let daemon = self.daemons.get_mut(&member(index)).unwrap();
        daemon.change.begin(key)?;
        if !daemon.opens.contains(&key) {
            daemon.opens.push(key);
        }
        Ok(())
    }

    /// One daemon has its next statement ordered, or is delivered one; false if it has neither.
    fn step(&mut self, index: u64) -> bool {
        let id = member(index);
        let daemon = self.daemons.get_mut(&id).unwrap();
        if let Some((from, statement)) = daemon.ahead.pop_front() {
            daemon.change.handle_statement(from, statement);
            while let Some(act) = daemon.change.poll_act() {
                match act {
                    Act::Use(key) => daemon.seals = key,
                    Act::Finish(key) => daemon.opens = vec![key],
                    Act::GiveUp { ours, .. } => daemon.opens.retain(|key| *key != ours),
                }
            }
        } else if let Some(statement) = daemon.change.next_statement() {
            daemon.change.said();
            let part = self.parts.iter().find(|part| part.contains(&id)).unwrap();
            for other in part.clone() {
                let other = self.daemons.get_mut(&other).unwrap();
                other.ahead.push_back((id, statement));
            }
        } else {
            return false;
        }
        self.check();
        true
    }

    fn settle(&mut self, rng: &mut Rng) {
        let count = self.daemons.len() as u64;
        let mut quiet = 0;
        while quiet < 200 {
            let moved = self.step(rng.below(count));
            quiet = if moved { 0 } else { quiet + 1 };
        }
    }

    /// What a member seals, all members of its configuration open.
    fn check(&self) {
        for part in &self.parts {
            for from in part {
                let seals = self.daemons[from].seals;
                for to in part {
                    let opens = &self.daemons[to].opens;
                    assert!(
                        opens.contains(&seals),
                        "{from:?} seals {seals}, {to:?} {opens:?}"
                    );
                }
            }
        }
    }

    fn keys(&self, index: u64) -> (Fingerprint, Vec<Fingerprint>) {
        let daemon = &self.daemons[&member(index)];
        (daemon.seals, daemon.opens.clone())
    }

    fn has_only(&self, indices: &[u64], key: Fingerprint) {
        for index in indices {
            assert_eq!(self.keys(*index), (key, vec![key]), "daemon {index}");
            assert_eq!(self.change(*index).current(), key);
            assert_eq!(self.change(*index).progress(), None);
        }
    }

    fn change(&self, index: u64) -> &KeyChange {
        &self.daemons[&member(index)].change
    }
}

#[test]
fn a_key_is_known_to_all_then_used_and_then_the_old_one_is_dropped() {
    for seed in 0..200 {
        let (mut bed, mut rng) = (Bed::new(5), Rng::new(seed));
        for index in 0..4 {
            bed.begin(index, NEW).unwrap();
        }
        bed.settle(&mut rng);
        let progress = bed.change(2).progress().unwrap();
        assert_eq!(progress.own, Some(Step::Known));
        assert_eq!(progress.waits_for, [member(4)]);
        assert_eq!(bed.change(4).progress().unwrap().own, None);
        assert_eq!(bed.keys(0).0, OLD, "one does not know it");
        bed.begin(4, NEW).unwrap();
        bed.settle(&mut rng);
        bed.has_only(&[0, 1, 2, 3, 4], NEW);
    }
}

#[test]
fn a_daemon_alone_changes_at_once() {
    let mut bed = Bed::new(1);
    bed.begin(0, NEW).unwrap();
    bed.settle(&mut Rng::new(1));
    bed.has_only(&[0], NEW);
    assert_eq!(bed.begin(0, NEW), Err(Refused::InUse(NEW)));
}

#[test]
fn a_second_change_is_refused_everywhere_until_the_first_is_done() {
    let (mut bed, mut rng) = (Bed::new(3), Rng::new(3));
    bed.begin(0, NEW).unwrap();
    assert_eq!(bed.begin(0, OTHER), Err(Refused::Another(NEW)));
    bed.settle(&mut rng);
    assert_eq!(bed.begin(1, OTHER), Err(Refused::Another(NEW)));
    bed.begin(0, NEW).expect("the same again");
    for index in 1..3 {
        bed.begin(index, NEW).unwrap();
    }
    bed.settle(&mut rng);
    bed.has_only(&[0, 1, 2], NEW);
    for index in 0..3 {
        bed.begin(index, OTHER).unwrap();
    }
    bed.settle(&mut rng);
    bed.has_only(&[0, 1, 2], OTHER);
}

#[test]
fn of_two_changes_that_begin_together_the_first_in_the_order_goes_on() {
    for seed in 0..100 {
        let (mut bed, mut rng) = (Bed::new(3), Rng::new(seed));
        bed.begin(0, NEW).unwrap();
        bed.begin(1, OTHER).unwrap();
        bed.settle(&mut rng);
        let winner = bed.change(2).progress().unwrap().next;
        let loser = if winner == NEW { 1 } else { 0 };
        assert_eq!(bed.keys(loser), (OLD, vec![OLD]));
        bed.begin(loser, winner).unwrap();
        bed.begin(2, winner).unwrap();
        bed.settle(&mut rng);
        bed.has_only(&[0, 1, 2], winner);
    }
}

#[test]
fn a_daemon_that_was_cut_off_on_the_way_follows_by_itself() {
    for seed in 0..300 {
        let (mut bed, mut rng) = (Bed::new(3), Rng::new(seed));
        for index in 0..3 {
            bed.begin(index, NEW).unwrap();
        }
        // The cut comes anywhere on the way.
        for _ in 0..rng.below(60) {
            bed.step(rng.below(3));
        }
        bed.configure(&[&[0, 1], &[2]]);
        bed.settle(&mut rng);
        bed.has_only(&[0, 1, 2], NEW);
        bed.configure(&[&[0, 1, 2]]);
        bed.settle(&mut rng);
        bed.has_only(&[0, 1, 2], NEW);
    }
}

#[test]
fn changes_of_configurations_at_any_time_leave_one_key() {
    for seed in 0..300 {
        let (mut bed, mut rng) = (Bed::new(4), Rng::new(seed));
        let mut told = 0;
        for _ in 0..6 {
            for _ in 0..rng.below(30) {
                bed.step(rng.below(4));
            }
            if told < 4 {
                bed.begin(told, NEW).unwrap();
                told += 1;
            }
            bed.configure(&[&[0, 1, 2, 3]]);
        }
        bed.settle(&mut rng);
        bed.has_only(&[0, 1, 2, 3], NEW);
    }
}

#[test]
fn a_daemon_that_begins_with_the_new_key_is_not_waited_for() {
    let (mut bed, mut rng) = (Bed::new(2), Rng::new(9));
    // It can be heard by those that know the key, and joins them when they use it.
    bed.daemons.insert(member(2), Bed::daemon(2, NEW));
    for index in 0..2 {
        bed.begin(index, NEW).unwrap();
    }
    for index in [0, 0, 1, 1, 0, 1] {
        bed.step(index);
    }
    let used = |index| bed.keys(index).0 == NEW;
    assert!(used(0) && used(1), "both use it, and have not said so");
    bed.configure(&[&[0, 1, 2]]);
    bed.settle(&mut rng);
    bed.has_only(&[0, 1, 2], NEW);
}

#[test]
fn words_of_strangers_and_of_transitions_do_not_count() {
    let mut change = KeyChange::new(member(0), OLD);
    let known = Statement {
        key: NEW,
        step: Step::Known,
    };
    change.handle_statement(member(1), known);
    change.handle_regular(&[member(0), member(1)]);
    change.handle_statement(member(7), known);
    assert_eq!(change.progress(), None);
    change.begin(NEW).unwrap();
    change.handle_transitional();
    assert_eq!(change.next_statement(), None);
    change.handle_statement(member(0), known);
    change.handle_statement(member(1), known);
    assert_eq!(change.poll_act(), None);
    change.handle_regular(&[member(0)]);
    assert_eq!(change.next_statement(), Some(known), "said again");
}

#[test]
fn what_was_given_up_does_not_count_although_it_was_said_twice() {
    let members = [member(0), member(1)];
    let mut change = KeyChange::new(member(0), OLD);
    let said = |key, step| Statement { key, step };
    change.handle_regular(&members);
    change.handle_statement(member(1), said(NEW, Step::Known));
    change.handle_statement(member(0), said(OTHER, Step::Known));
    change.handle_statement(member(0), said(OTHER, Step::GivenUp));
    change.handle_statement(member(1), said(OTHER, Step::Known));
    let progress = change.progress().expect("1 has begun one");
    assert_eq!(
        (progress.next, progress.waits_for),
        (OTHER, vec![member(0)])
    );
    let mut other = KeyChange::new(member(1), OLD);
    other.handle_regular(&members);
    other.begin(OTHER).expect("nothing was said");
    other.handle_statement(member(0), said(OTHER, Step::Known));
    other.handle_statement(member(0), said(OTHER, Step::GivenUp));
    other.handle_statement(member(1), said(OTHER, Step::Known));
    assert_eq!(other.poll_act(), None, "0 does not know it");
}
