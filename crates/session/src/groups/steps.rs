//! What a change of the configuration brings, in steps, so that each turn of the host has a part of
//! them.
//!
//! This daemon's state is written, and those of all are read and installed. There is a view of each
//! group with clients of this daemon, and all messages that were held are carried out. The steps
//! stand in a queue of their order, and nothing else of the order is done before them: a view comes
//! before the messages of that view, and everything has its effect at its place. Until all states
//! are installed the groups are as they were.

use std::collections::VecDeque;
use std::sync::Arc;

use groupcast_core::{ConfigId, Delivery, MemberId, OrderPlace, Time};

use super::Engine;
use super::held::Segment;
use super::installing::{Installing, Replaced};
use super::orders::OrderIndex;
use super::spread::HAND_OVER;
use super::wire::{StateReader, StateWriter};
use crate::guests::Parts;

/// This many groups are looked at together, and count for one each.
const LOOKED_AT: usize = 256;

/// A step.
#[derive(Debug)]
pub(super) enum Step {
    /// Views of all groups with subscribers here, or of those behind this one, named after this
    /// place.
    ShowAll((ConfigId, u64), Option<Arc<str>>),
    /// Views of these groups, the last of them first.
    Show((ConfigId, u64), Vec<Arc<str>>),
    /// Messages that were held, in their order.
    Replay(VecDeque<Delivery>),
    /// This daemon's state is written.
    Write(Box<StateWriter>),
    /// The state of a daemon, which came at this place, is read.
    Read(MemberId, Option<OrderPlace>, Box<StateReader>),
    /// The states of all daemons of a configuration, the last of which came at this place.
    Install(Box<Segment>, Box<Installing>, OrderPlace),
    /// What those states say beside the groups.
    Settle(Box<Agreed>, OrderPlace),
    /// This configuration ends, and these daemons go on together.
    Transition(ConfigId, Vec<MemberId>),
    /// Messages that came before their senders were known.
    FollowAhead,
    /// Nothing refers to this any more.
    LetGo(Box<Replaced>),
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
            Step::ShowAll(at, after) => {
                let order = &mut self.orders[on];
                let (mut groups, last) = order.table.subscribed(after.as_deref(), LOOKED_AT);
                order.work.spend(LOOKED_AT);
                groups.reverse();
                let mut steps = vec![Step::Show(at, groups)];
                steps.extend(last.map(|last| Step::ShowAll(at, Some(last))));
                return steps;
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
            Step::Write(writer) => return self.write_state(on, now, writer),
            Step::Read(from, place, reader) => {
                return self.read_state(on, from, place, reader);
            }
            Step::Install(segment, installing, place) => {
                return self.install(on, segment, installing, place);
            }
            Step::Settle(agreed, place) => self.settle(on, now, *agreed, place),
            Step::Transition(closes, members) => {
                if self.narrow(on, now, members) {
                    return vec![Step::ShowAll((closes, 0), None)];
                }
            }
            Step::FollowAhead => self.follow_ahead(on, now, None),
            Step::LetGo(mut replaced) => {
                let work = &mut self.orders[on].work;
                if !replaced.let_go(|it| work.spend_some(it)) {
                    return vec![Step::LetGo(replaced)];
                }
            }
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
    use crate::groups::wire::{GroupRef, Op, State, StatePart};
    use crate::groups::{Carrier, ClientId};
    use crate::guests::Part;

    type History = Vec<(Carrier, Observation)>;

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

    /// A host that begins turns and does not ask whether there is time.
    const DOES_NOT_ASK: Option<usize> = Some(0);

    /// Begins turns of this much work until there is time for an event; how many.
    fn turn(engine: &mut Engine, work: Option<usize>) -> usize {
        let mut turns = 0;
        while let Some(work) = work {
            engine.begin_turn(Time::ZERO, work);
            turns += 1;
            if work == 0 || engine.has_time_for(Carrier::Order) {
                break;
            }
        }
        turns
    }

    /// The same, until all is done.
    fn finish(engine: &mut Engine, work: Option<usize>) -> usize {
        turn(engine, work.map(|it| it.max(1)))
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
    fn change(work: Option<usize>) -> (Vec<Vec<u8>>, History, usize) {
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
        turns += finish(&mut engine, work);
        let state = state(&mut engine, 6);
        for event in [
            state,
            message(7, 6, "behind all"),
            configuration(ConfigurationKind::Transitional, 3, alone),
        ] {
            turns += handle(&mut engine, work, event);
        }
        turns += finish(&mut engine, work);
        let outputs = (1..=CLIENTS).map(|it| output(&mut engine, it)).collect();
        let observations = std::iter::from_fn(|| engine.poll_observation());
        let observations = observations.collect();
        (outputs, observations, turns)
    }

    #[test]
    fn clients_get_the_same_in_the_same_order_however_short_turns_are() {
        let (outputs, observations, _) = change(None);
        let texts = ["in the transition", "held behind the leave", "behind all"];
        assert_in_order(&outputs[0], &texts);
        let shown = observations.iter().map(|(_, line)| match line {
            Observation::GroupView { group, .. } => &**group,
            _ => "",
        });
        // Of the groups in their order.
        let first: Vec<&str> = shown.take(6).collect();
        assert_eq!(first, ["g0", "g1", "g2", "g3", "g4", "g5"]);
        for work in [1, 50, 300, WORK_PER_TURN] {
            let (same, lines, turns) = change(Some(work));
            assert!(same == outputs, "with {work}");
            assert_eq!(lines, observations, "with {work}");
            assert!(turns > 50 || work > 1, "{turns}");
        }
    }

    fn assert_in_order(output: &[u8], texts: &[&str]) {
        let text = String::from_utf8_lossy(output);
        let places = texts.iter().map(|it| text.find(it).expect(it));
        let places: Vec<usize> = places.collect();
        assert!(places.is_sorted(), "{texts:?} at {places:?}");
    }

    /// The other daemon's message.
    fn of_other(event: Event) -> Event {
        match event {
            Event::Deliver(mut delivery) => {
                delivery.id.sender = OTHER;
                Event::Deliver(delivery)
            }
            event => event,
        }
    }

    /// The other daemon's state in the configuration `counter`: this many clients that are each in
    /// this many of `all` groups.
    fn state_of_other(counter: u64, clients: u64, groups: u64, all: u64) -> (ConfigId, Vec<u8>) {
        let mut roster = Roster::new("far");
        for client in 1..=clients {
            let name = &format!("f{client}");
            roster.apply(&Op::BindClient { client, name }).unwrap();
            for index in 0..groups {
                let name = format!("g{}", (client * groups + index) % all);
                let group = GroupRef::Named(&name);
                roster.apply(&Op::Join { client, group }).unwrap();
            }
        }
        let config = ConfigId {
            counter,
            representative: LOCAL,
        };
        let state = State {
            config,
            roster,
            part: Part::default(),
            names: Vec::new(),
        };
        (config, state.encoded())
    }

    /// Another daemon comes, with 40 clients in all six groups and a state in parts, between which
    /// there are messages. Returns what each client and the history got, and how many turns each
    /// event took.
    fn meet(work: Option<usize>) -> (Vec<Vec<u8>>, History, Vec<usize>) {
        const CLIENTS: u64 = 5;
        let mut engine = begin(crowd(CLIENTS, 6));
        let members = &[LOCAL, OTHER];
        let (config, far) = state_of_other(2, 40, 6, 6);
        let mut turns = Vec::new();
        for event in [
            configuration(ConfigurationKind::Transitional, 1, &[LOCAL]),
            configuration(ConfigurationKind::Regular, 2, members),
        ] {
            turns.push(handle(&mut engine, work, event));
        }
        turns.push(finish(&mut engine, work));
        let own = state(&mut engine, 50);
        let mut events = vec![message(1, 6, "before all states")];
        let parts = StatePart::split(config, &far, 300).unwrap();
        assert!(parts.len() > 3, "{}", parts.len());
        for (seq, part) in (10..).zip(parts) {
            events.push(of_other(deliver(seq, part.to_vec())));
            events.push(message(20 + seq, 6, "between the parts"));
        }
        events.push(of_other(message(40, 6, "from afar")));
        events.extend([own, message(51, 6, "behind all states")]);
        for event in events {
            turns.push(handle(&mut engine, work, event));
        }
        finish(&mut engine, work);
        let outputs = (1..=CLIENTS).map(|it| output(&mut engine, it)).collect();
        let observations = std::iter::from_fn(|| engine.poll_observation());
        (outputs, observations.collect(), turns)
    }

    #[test]
    fn what_comes_while_a_state_is_read_waits_and_is_carried_out_in_the_view_of_all() {
        let (outputs, observations, _) = meet(None);
        for output in &outputs {
            let texts = [
                "f1@far",
                "before all states",
                "between the parts",
                "from afar",
                "behind all states",
            ];
            assert_in_order(output, &texts);
        }
        for work in [1, 50, 300, WORK_PER_TURN] {
            let (same, lines, turns) = meet(Some(work));
            assert!(same == outputs, "with {work}");
            assert_eq!(lines, observations, "with {work}");
            if work == 1 {
                // To write 30 memberships; to read 240; to install them all.
                let longest = |from: usize| turns.iter().filter(|it| **it >= from).count();
                assert!(turns[2] >= 30 && longest(240) >= 2, "{turns:?}");
                assert!(longest(270) >= 1, "{turns:?}");
            }
        }
    }

    /// More than are looked at together.
    #[test]
    fn views_of_many_groups_come_in_the_order_of_their_names() {
        const GROUPS: usize = 3 * LOOKED_AT;
        let mut engine = begin(crowd(1, GROUPS));
        let transition = configuration(ConfigurationKind::Transitional, 1, &[LOCAL]);
        handle(&mut engine, Some(1_000), transition);
        finish(&mut engine, Some(1_000));
        let lines = std::iter::from_fn(|| engine.poll_observation());
        let shown = lines.filter_map(|(_, line)| match line {
            Observation::GroupView { group, .. } => Some(group),
            _ => None,
        });
        let shown: Vec<String> = shown.collect();
        assert_eq!(shown.len(), GROUPS);
        assert!(shown.is_sorted(), "{shown:?}");
    }

    #[test]
    fn a_transition_that_takes_nobody_away_shows_nothing() {
        let mut engine = begin(crowd(1, 6));
        for views in [6, 6] {
            let transition = configuration(ConfigurationKind::Transitional, 1, &[LOCAL]);
            handle(&mut engine, None, transition);
            assert_eq!(engine.counters().views, views);
        }
    }

    #[test]
    fn a_host_that_does_not_ask_for_time_gets_every_step_in_its_order() {
        let (outputs, observations, _) = change(None);
        let (same, lines, _) = change(DOES_NOT_ASK);
        assert!(same == outputs);
        assert_eq!(lines, observations);
        let (outputs, observations, _) = meet(None);
        let (same, lines, _) = meet(DOES_NOT_ASK);
        assert!(same == outputs);
        assert_eq!(lines, observations);
    }

    /// To look at groups without clients here takes time, and so does letting go of what was there.
    #[test]
    fn ten_thousand_groups_of_others_keep_no_turn_long() {
        const GROUPS: u64 = 10_000;
        let mut engine = begin(crowd(1, 0));
        let work = Some(1_000);
        let mut counter = 1;
        let mut turns = Vec::new();
        // The second time all is there already, and is replaced.
        for _ in 0..2 {
            counter += 1;
            let members = &[LOCAL, OTHER];
            let regular = configuration(ConfigurationKind::Regular, counter, members);
            handle(&mut engine, work, regular);
            finish(&mut engine, work);
            let own = state(&mut engine, 1);
            handle(&mut engine, work, own);
            let (_, far) = state_of_other(counter, 1, GROUPS, GROUPS);
            handle(&mut engine, work, of_other(deliver(2, far)));
            while !engine.orders[ON].steps.is_empty() {
                let step = &engine.orders[ON].steps[0];
                let shows = matches!(step, Step::Show(..) | Step::ShowAll(..));
                let lets_go = matches!(step, Step::LetGo(_));
                turns.push((shows, lets_go));
                engine.begin_turn(Time::ZERO, 1_000);
            }
        }
        let shows = turns.iter().filter(|it| it.0).count();
        assert!(shows >= 2 * (GROUPS as usize / 1_300), "{shows}");
        let lets_go = turns.iter().filter(|it| it.1).count();
        assert!(lets_go >= 2 * (GROUPS as usize / 1_000), "{lets_go}");
    }

    /// What a turn does is counted in memberships here, and not in what they count for: a processor
    /// does that many in a few milliseconds (ADR 0056). Two daemons, each with ten clients that are
    /// in 1,000 groups of their own each, and turns of a tenth of the usual work: as if there were
    /// 100,000 memberships and whole turns.
    #[test]
    fn a_turn_does_few_of_a_hundred_thousand_memberships() {
        const CLIENTS: u64 = 10;
        const EACH: u64 = 1_000;
        const ALL: u64 = CLIENTS * EACH;
        let mut engine = begin(crowd(CLIENTS, 0));
        let mut roster = Roster::new("h");
        for client in 1..=CLIENTS {
            let name = &format!("c{client}");
            roster.apply(&Op::BindClient { client, name }).unwrap();
            for group in 0..EACH {
                let name = format!("h{client}.{group}");
                let group = GroupRef::Named(&name);
                roster.apply(&Op::Join { client, group }).unwrap();
            }
        }
        let rosters = BTreeMap::from([(LOCAL, roster)]);
        engine.orders[ON].table.install(rosters);
        let regular = configuration(ConfigurationKind::Regular, 2, &[LOCAL, OTHER]);
        let mut turns = BTreeMap::new();
        take_turns(&mut engine, regular, &mut turns);
        let own = state(&mut engine, 1);
        take_turns(&mut engine, own, &mut turns);
        let (_, far) = state_of_other(2, CLIENTS, EACH, ALL);
        take_turns(&mut engine, of_other(deliver(2, far)), &mut turns);
        assert_eq!(engine.orders[ON].table.count() as u64, 2 * ALL);
        // There are views of the transition and of what is installed, and both states are read.
        for (step, memberships, most) in [
            ("Write", ALL, 7_000),
            ("Read", 2 * ALL, 18_000),
            ("Install", 2 * ALL, 3_000),
            ("Show", 2 * ALL, 1_500),
            ("LetGo", ALL, 4_000),
        ] {
            let count: u64 = turns[step];
            assert!(count * most / 10 >= memberships, "{step}: {turns:?}");
        }
    }

    /// Hands over an event, and takes turns until there is time for another; counts those that
    /// begin with each kind of step.
    fn take_turns(engine: &mut Engine, event: Event, turns: &mut BTreeMap<&str, u64>) {
        engine.begin_turn(Time::ZERO, WORK_PER_TURN / 10);
        engine.handle_event(Time::ZERO, Carrier::Order, event);
        while !engine.has_time_for(Carrier::Order) {
            let step = match engine.orders[ON].steps.front() {
                Some(Step::Write(_)) => "Write",
                Some(Step::Read(..)) => "Read",
                Some(Step::Install(..)) => "Install",
                Some(Step::Show(..) | Step::ShowAll(..)) => "Show",
                Some(Step::LetGo(_)) => "LetGo",
                _ => "others",
            };
            *turns.entry(step).or_default() += 1;
            engine.begin_turn(Time::ZERO, WORK_PER_TURN / 10);
        }
    }

    #[test]
    fn a_state_of_an_earlier_configuration_is_not_handed_over() {
        let mut engine = begin(crowd(5, 6));
        for counter in [2, 3] {
            let members = &[LOCAL, OTHER];
            let regular = configuration(ConfigurationKind::Regular, counter, members);
            handle(&mut engine, Some(1), regular);
            while counter == 3 && !engine.has_time_for(Carrier::Order) {
                engine.pump(Time::ZERO, |_, _, _| panic!("it is not written yet"));
                engine.begin_turn(Time::ZERO, 1);
            }
            finish(&mut engine, Some(1));
        }
        state(&mut engine, 1);
    }

    /// The configuration ends before its last state has come.
    #[test]
    fn messages_of_a_configuration_come_before_the_view_of_its_end() {
        for work in [None, Some(1), Some(300)] {
            let mut engine = begin(crowd(5, 6));
            let regular = configuration(ConfigurationKind::Regular, 2, &[LOCAL, OTHER]);
            handle(&mut engine, work, regular);
            finish(&mut engine, work);
            let own = state(&mut engine, 2);
            let (_, far) = state_of_other(2, 1, 6, 6);
            for event in [
                message(1, 6, "held"),
                own,
                configuration(ConfigurationKind::Transitional, 2, &[LOCAL]),
                of_other(deliver(3, far)),
            ] {
                handle(&mut engine, work, event);
            }
            finish(&mut engine, work);
            let output = output(&mut engine, 1);
            assert_in_order(&output, &["f1@far", "held"]);
            let text = String::from_utf8_lossy(&output);
            // The last view, in which the other daemon's client is not.
            let last = text.rfind("c5@h").expect("there are views");
            assert!(
                last > text.find("held").expect("it was held"),
                "with {work:?}"
            );
            assert!(text.rfind("f1@far") < text.find("held"), "with {work:?}");
        }
    }

    #[test]
    fn groups_stay_as_they_were_until_all_states_are_installed_and_nothing_is_handed_over() {
        let mut engine = begin(crowd(5, 6));
        let (_, far) = state_of_other(2, 40, 6, 6);
        let members = &[LOCAL, OTHER];
        let before =
            |engine: &Engine| (0..6).all(|it| engine.orders[ON].table.size(&format!("g{it}")) == 5);
        let after = |engine: &Engine| {
            (0..6).all(|it| engine.orders[ON].table.size(&format!("g{it}")) == 45)
        };
        for event in [
            configuration(ConfigurationKind::Transitional, 1, &[LOCAL]),
            configuration(ConfigurationKind::Regular, 2, members),
        ] {
            handle(&mut engine, Some(1), event);
        }
        turn(&mut engine, Some(1));
        let own = state(&mut engine, 50);
        handle(&mut engine, Some(1), own);
        engine.orders[ON].submissions.stage_own(b"own".to_vec());
        handle(&mut engine, Some(1), of_other(deliver(51, far)));
        let mut installed = 0;
        while !engine.has_time_for(Carrier::Order) {
            assert!(if installed == 0 {
                before(&engine) || after(&engine)
            } else {
                after(&engine)
            });
            installed += usize::from(after(&engine));
            engine.pump(Time::ZERO, |_, _, _| panic!("steps are left"));
            engine.begin_turn(Time::ZERO, 1);
        }
        assert!(installed > 6, "views come behind that: {installed}");
        let mut submitted = 0;
        engine.pump(Time::ZERO, |_, _, _| {
            submitted += 1;
            let (sender, number) = (LOCAL, 2);
            Ok(MessageId { sender, number })
        });
        assert_eq!(submitted, 1);
    }

    #[test]
    fn a_state_that_cannot_be_read_is_counted_and_another_one_taken() {
        let mut engine = begin(crowd(5, 6));
        let (config, far) = state_of_other(2, 40, 6, 6);
        let members = &[LOCAL, OTHER];
        handle(
            &mut engine,
            Some(1),
            configuration(ConfigurationKind::Regular, 2, members),
        );
        turn(&mut engine, Some(1));
        let own = state(&mut engine, 1);
        handle(&mut engine, Some(1), own);
        let short = &far[..far.len() / 2];
        handle(&mut engine, Some(1), of_other(deliver(2, short.to_vec())));
        for part in StatePart::split(config, short, 300).unwrap() {
            handle(&mut engine, Some(1), of_other(deliver(3, part.to_vec())));
        }
        turn(&mut engine, Some(1));
        assert_eq!(engine.counters().nonsense, 2);
        assert!(!engine.orders[ON].is_steady());
        handle(&mut engine, Some(1), of_other(deliver(4, far)));
        turn(&mut engine, Some(1));
        assert!(engine.orders[ON].is_steady());
    }

    /// To hold them takes time, too, though nothing of them is begun.
    #[test]
    fn messages_that_are_held_keep_no_turn_long() {
        let mut engine = begin(crowd(5, 0));
        let members = &[LOCAL, OTHER];
        let regular = configuration(ConfigurationKind::Regular, 2, members);
        handle(&mut engine, None, regular);
        engine.begin_turn(Time::ZERO, 1_000);
        let mut held = 0;
        while engine.has_time_for(Carrier::Order) {
            held += 1;
            engine.handle_event(Time::ZERO, Carrier::Order, message(held, 6, "held"));
            assert!(held <= 100, "they count for nothing");
        }
        assert!(held >= 10, "{held}");
    }

    #[test]
    fn states_of_an_interrupted_exchange_are_let_go_in_parts() {
        const GROUPS: u64 = 1_000;
        let mut engine = begin(crowd(1, 0));
        let members = &[LOCAL, OTHER];
        let regular = |counter| configuration(ConfigurationKind::Regular, counter, members);
        handle(&mut engine, None, regular(2));
        let (_, far) = state_of_other(2, 1, GROUPS, GROUPS);
        handle(&mut engine, None, of_other(deliver(1, far)));
        handle(&mut engine, Some(1_000), regular(3));
        let mut turns = 0;
        while !engine.has_time_for(Carrier::Order) {
            turns += usize::from(matches!(engine.orders[ON].steps[0], Step::LetGo(_)));
            engine.begin_turn(Time::ZERO, 1_000);
        }
        assert!(turns >= GROUPS as usize / 100, "{turns}");
    }

    /// They may be of clients that are in no group here.
    #[test]
    fn held_messages_for_nobody_keep_no_turn_long() {
        let mut engine = begin(crowd(5, 0));
        let mut turns = Vec::new();
        let regular = configuration(ConfigurationKind::Regular, 2, &[LOCAL]);
        handle(&mut engine, None, regular);
        for seq in 1..=1_000 {
            handle(&mut engine, None, message(seq, 6, "for nobody"));
        }
        let own = state(&mut engine, 1_001);
        handle(&mut engine, Some(HAND_OVER * 10), own);
        turns.push(turn(&mut engine, Some(HAND_OVER * 10)));
        assert!(turns[0] >= 90, "{turns:?}");
    }

    /// 1,000 clients that are each in ten of 10,000 groups, and another daemon with 1,000 that are
    /// in 50 each.
    #[test]
    fn a_change_of_ten_thousand_groups_keeps_no_turn_long() {
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
        let transition = configuration(ConfigurationKind::Transitional, 1, &[LOCAL]);
        let regular = configuration(ConfigurationKind::Regular, 2, &[LOCAL, OTHER]);
        let mut turns = done(&mut engine, vec![transition, regular]);
        let own = state(&mut engine, 1);
        let (_, far) = state_of_other(2, CLIENTS, 50, GROUPS);
        let far = of_other(deliver(2, far));
        turns.extend(done(&mut engine, vec![own, far]));
        assert_eq!(engine.counters().views, 2 * GROUPS);
        // A turn ends with the view with which its work is done.
        let most = WORK_PER_TURN + 1_000;
        assert!(turns.iter().all(|it| *it <= most), "{turns:?}");
        assert!(turns.len() >= 15, "{turns:?}");
    }
}
