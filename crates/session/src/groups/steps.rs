//! What a change of the configuration brings to clients, in steps, so that each turn of the host
//! has a part of them.
//!
//! There is a view of each group with clients of this daemon, and all messages that were held are
//! carried out. The steps stand in a queue of their order, and nothing else of the order is done
//! before them: a view comes before the messages of that view, and everything has its effect at its
//! place.

use std::collections::VecDeque;
use std::sync::Arc;

use groupcast_core::{ConfigId, Delivery, MemberId, OrderPlace, Time};

use super::Engine;
use super::held::Segment;
use super::orders::OrderIndex;
use super::spread::HAND_OVER;
use crate::guests::Parts;

/// A step.
#[derive(Debug)]
pub(super) enum Step {
    /// Views of all groups with subscribers here, named after this place.
    ShowAll((ConfigId, u64)),
    /// Views of these groups, the last of them first.
    Show((ConfigId, u64), Vec<Arc<str>>),
    /// Messages that were held, in their order.
    Replay(VecDeque<Delivery>),
    /// The states of all daemons of a configuration, the last of which came at this place.
    Install(Box<Segment>, OrderPlace),
    /// What those states say beside the groups.
    Settle(Box<Agreed>, OrderPlace),
    /// This configuration ends, and these daemons go on together.
    Transition(ConfigId, Vec<MemberId>),
    /// Messages that came before their senders were known.
    FollowAhead,
}

/// What the states of the daemons of a configuration say beside the groups.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) members: Vec<MemberId>,
    /// Roles and guests.
    pub(super) parts: Parts,
    /// Rings that joins have made.
    pub(super) names: Vec<(MemberId, Vec<u8>)>,
}

impl Engine {
    /// Takes steps behind those that wait, as far as there is time for them in this turn.
    pub(super) fn take_steps(&mut self, on: OrderIndex, now: Time, steps: Vec<Step>) {
        self.orders[on].steps.extend(steps);
        self.go_on_stepping(on, now);
    }

    /// Goes on with the steps that wait, until there is no time for more.
    pub(super) fn go_on_stepping(&mut self, on: OrderIndex, now: Time) {
        while !self.orders[on].has_no_time()
            && let Some(step) = self.orders[on].steps.pop_front()
        {
            for next in self.take_step(on, now, step).into_iter().rev() {
                self.orders[on].steps.push_front(next);
            }
        }
    }

    /// Takes a step; returns what is to be done behind it, or of it, before the others.
    fn take_step(&mut self, on: OrderIndex, now: Time, step: Step) -> Vec<Step> {
        match step {
            Step::ShowAll(at) => {
                let mut groups = self.orders[on].table.subscribed();
                groups.reverse();
                return vec![Step::Show(at, groups)];
            }
            Step::Show(at, mut groups) => {
                while let Some(group) = groups.pop() {
                    self.show_change(on, now, &group, at);
                    if self.orders[on].has_no_time() && !groups.is_empty() {
                        return vec![Step::Show(at, groups)];
                    }
                }
            }
            Step::Replay(mut held) => {
                while let Some(delivery) = held.pop_front() {
                    self.orders[on].work.spend(HAND_OVER);
                    self.apply(on, now, &delivery);
                    if self.orders[on].has_no_time() && !held.is_empty() {
                        return vec![Step::Replay(held)];
                    }
                }
            }
            Step::Install(segment, place) => return self.install(on, *segment, place),
            Step::Settle(agreed, place) => self.settle(on, now, *agreed, place),
            Step::Transition(closes, members) => {
                if self.narrow(on, now, members) {
                    return vec![Step::ShowAll((closes, 0))];
                }
            }
            Step::FollowAhead => self.follow_ahead(on, now, None),
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::IoSlice;

    use groupcast_core::trace::Observation;
    use groupcast_core::{Configuration, ConfigurationKind, Event, Incarnation, MessageId, NodeId};

    use super::*;
    use crate::groups::roster::Roster;
    use crate::groups::spread::WORK_PER_TURN;
    use crate::groups::spread::tests::{LOCAL, crowd, deliver, message};
    use crate::groups::wire::{GroupRef, Op};
    use crate::groups::{Carrier, ClientId};

    const ON: OrderIndex = OrderIndex::OWN;
    const OTHER: MemberId = MemberId {
        node: NodeId(2),
        incarnation: Incarnation(2),
    };

    fn configuration(kind: ConfigurationKind, counter: u64, members: &[MemberId]) -> Event {
        Event::Configuration(Configuration {
            kind,
            id: ConfigId {
                counter,
                representative: LOCAL,
            },
            members: members.to_vec(),
            left: Vec::new(),
        })
    }

    /// An engine in a configuration with another one.
    fn begin(mut engine: Engine) -> Engine {
        let Event::Configuration(current) =
            configuration(ConfigurationKind::Regular, 1, &[LOCAL, OTHER])
        else {
            panic!("it is one");
        };
        engine.orders[ON].current = Some(current);
        engine
    }

    /// Begins turns of so much work until there is time for an event; how many.
    fn turn(engine: &mut Engine, work: Option<usize>) -> usize {
        let mut turns = 0;
        while let Some(work) = work {
            engine.begin_turn(Time::ZERO, work);
            turns += 1;
            if engine.has_time_for(Carrier::Order) {
                break;
            }
        }
        turns
    }

    fn handle(engine: &mut Engine, work: Option<usize>, event: Event) -> usize {
        let turns = turn(engine, work);
        engine.handle_event(Time::ZERO, Carrier::Order, event);
        turns
    }

    /// This daemon's state, as the order delivers it.
    fn state(engine: &mut Engine, seq: u64) -> Event {
        let mut states = Vec::new();
        engine.pump(Time::ZERO, |_, _, payload| {
            states.push(payload.to_vec());
            let number = states.len() as u64;
            let sender = LOCAL;
            Ok(MessageId { sender, number })
        });
        assert_eq!(states.len(), 1);
        deliver(seq, states.remove(0))
    }

    /// All that a client has got.
    fn output(engine: &mut Engine, client: u64) -> Vec<u8> {
        let (id, mut bytes) = (ClientId(client), Vec::new());
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = engine.slices(id, &mut slices);
            let more: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
            if more.is_empty() {
                return bytes;
            }
            engine.consumed(Time::ZERO, id, more.len());
            bytes.extend(more);
        }
    }

    /// Through a transition and an interrupted exchange, with messages and a leave held in both.
    /// Returns what each client and the history got, and how many turns that took.
    fn change(work: Option<usize>) -> (Vec<Vec<u8>>, Vec<(Carrier, Observation)>, usize) {
        const CLIENTS: u64 = 5;
        let mut engine = begin(crowd(CLIENTS, 6));
        let mut turns = 0;
        let mut leave = Vec::new();
        let group = GroupRef::Named("g1");
        Op::Leave { client: 3, group }.encode(&mut leave);
        let alone = &[LOCAL];
        for event in [
            configuration(ConfigurationKind::Transitional, 1, alone),
            message(1, 6, "in the transition"),
            configuration(ConfigurationKind::Regular, 2, alone),
            message(2, 6, "held"),
            deliver(3, leave),
            message(4, 6, "held behind the leave"),
            configuration(ConfigurationKind::Transitional, 2, alone),
            configuration(ConfigurationKind::Regular, 3, alone),
            message(5, 6, "held in the second one"),
        ] {
            turns += handle(&mut engine, work, event);
        }
        let state = state(&mut engine, 6);
        for event in [
            state,
            message(7, 6, "behind all"),
            configuration(ConfigurationKind::Transitional, 3, alone),
        ] {
            turns += handle(&mut engine, work, event);
        }
        turns += turn(&mut engine, work);
        let outputs = (1..=CLIENTS).map(|it| output(&mut engine, it)).collect();
        let observations = std::iter::from_fn(|| engine.poll_observation());
        let observations = observations.collect();
        (outputs, observations, turns)
    }

    #[test]
    fn clients_get_the_same_in_the_same_order_however_short_turns_are() {
        let (outputs, observations, _) = change(None);
        let text = String::from_utf8_lossy(&outputs[0]);
        for part in ["in the transition", "held behind the leave", "behind all"] {
            assert!(text.contains(part), "{part}");
        }
        for work in [1, 50, 300, WORK_PER_TURN] {
            let (same, lines, turns) = change(Some(work));
            assert!(same == outputs, "with {work}");
            assert_eq!(lines, observations, "with {work}");
            assert!(turns > 50 || work > 1, "{turns}");
        }
    }

    /// 1,000 clients that are each in ten of 10,000 groups.
    #[test]
    fn views_of_ten_thousand_groups_keep_no_turn_long() {
        const CLIENTS: u64 = 1_000;
        const GROUPS: u64 = 10_000;
        let mut engine = begin(crowd(CLIENTS, 0));
        let mut roster = Roster::new("h");
        for client in 1..=CLIENTS {
            let name = &format!("c{client}");
            roster.apply(&Op::BindClient { client, name }).unwrap();
            for index in 0..10 {
                let name = format!("g{}", (client * 10 + index) % GROUPS);
                let group = GroupRef::Named(&name);
                roster.apply(&Op::Join { client, group }).unwrap();
            }
        }
        let rosters = BTreeMap::from([(LOCAL, roster)]);
        engine.orders[ON].table.install(rosters);
        let done = |engine: &mut Engine, events: Vec<Event>| {
            let mut parts = Vec::new();
            let mut events = events.into_iter().peekable();
            loop {
                let before = engine.orders[ON].work.done();
                engine.begin_turn(Time::ZERO, WORK_PER_TURN);
                while engine.has_time_for(Carrier::Order)
                    && let Some(event) = events.next()
                {
                    engine.handle_event(Time::ZERO, Carrier::Order, event);
                }
                parts.push(engine.orders[ON].work.done() - before);
                if events.peek().is_none() && engine.has_time_for(Carrier::Order) {
                    return parts;
                }
            }
        };
        let alone = &[LOCAL];
        let transition = configuration(ConfigurationKind::Transitional, 1, alone);
        let regular = configuration(ConfigurationKind::Regular, 2, alone);
        let mut turns = done(&mut engine, vec![transition, regular]);
        let state = state(&mut engine, 1);
        turns.extend(done(&mut engine, vec![state]));
        assert_eq!(engine.counters().views, 2 * GROUPS);
        // The states are installed at once.
        let most = WORK_PER_TURN + 40 * GROUPS as usize;
        assert!(turns.iter().all(|it| *it <= most), "{turns:?}");
        assert!(turns.len() >= 6, "{turns:?}");
    }
}
