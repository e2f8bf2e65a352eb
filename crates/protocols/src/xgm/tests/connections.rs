//! Connections: who is in one, who has gone, which checkpoint each has reached, and what repeated,
//! late and foreign datagrams change: nothing. Method: entities without a network, whose datagrams
//! arrive at once or are lost by choice.

use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, Protocol as _, Rng, Time, TransmitBuf};

use super::super::wire::{Ask, Message, Report, Told};
use super::super::*;
use super::member;

const KEY: Key = Key(1);
const NUMBER: u32 = 7;
const FROM: WatchFrom = WatchFrom::Registration;

/// Entity 0 is the source; what each has told, and whom nothing reaches.
struct Group {
    now: Time,
    entities: Vec<Xgm>,
    cut: Vec<bool>,
    told: Vec<XgmEvent>,
    /// What was sent, to be sent again.
    sent: Vec<(usize, MemberId, Bytes)>,
}

impl Group {
    /// A source, and this many members that are in its connection and watched.
    fn of(members: usize, membership: Membership) -> Self {
        let entity = |index: usize| {
            let name = std::format!("host-{index}");
            let rng = Rng::new(index as u64);
            Xgm::new(
                member(index as u64),
                name.as_bytes(),
                XgmConfig::default(),
                rng,
            )
        };
        let mut group = Self {
            now: Time::from_millis(1),
            entities: (0..=members).map(entity).collect(),
            cut: std::vec![false; members + 1],
            told: Vec::new(),
            sent: Vec::new(),
        };
        let now = group.now;
        let monitored = group.entities[0].monitor(now, NUMBER, membership);
        assert_eq!(monitored, Ok(()));
        for index in 1..=members {
            group.join(index);
        }
        group.settle();
        group
    }

    fn id() -> ConnectionId {
        ConnectionId {
            source: member(0),
            number: NUMBER,
        }
    }

    fn join(&mut self, index: usize) {
        let name = std::format!("host-{index}");
        let watched = self.entities[0].watch(NUMBER, member(index as u64), name.as_bytes(), FROM);
        assert_eq!(watched, Ok(()));
        let entity = &mut self.entities[index];
        entity.join(KEY).expect("it is the first");
        let subgroups = Subgroups::one(index as u8);
        entity.set_subgroups(KEY, subgroups).expect("it has joined");
        entity.enter(self.now, KEY, Self::id());
    }

    fn advance(&mut self, index: usize, progress: u64) {
        self.entities[index].advance(self.now, Self::id(), progress);
        self.settle();
    }

    fn exit(&mut self, index: usize, standing: Standing) {
        self.entities[index].exit(self.now, Self::id(), standing);
        self.settle();
    }

    fn checkpoint(&mut self, place: u64) {
        let set = self.entities[0].checkpoint(self.now, NUMBER, place);
        assert_eq!(set, Ok(()));
    }

    /// Lets everything that was said arrive.
    fn settle(&mut self) {
        let mut buf = TransmitBuf::new(1, 0, 0);
        let mut is_any = true;
        while std::mem::take(&mut is_any) {
            for from in 0..self.entities.len() {
                buf.clear();
                while let Some(transmit) = self.entities[from].poll_transmit(self.now, &mut buf) {
                    is_any = true;
                    let body = Bytes::copy_from_slice(buf.iter().next().expect("it wrote one"));
                    buf.clear();
                    for to in 0..self.entities.len() {
                        let reaches = match transmit.destination {
                            Destination::Group => to != from,
                            Destination::Member(member) => member == self.entities[to].local(),
                        };
                        if reaches && !self.cut[from] && !self.cut[to] {
                            let source = self.entities[from].local();
                            self.sent.push((to, source, body.clone()));
                            self.entities[to].handle_datagram(self.now, source, body.clone());
                        }
                    }
                }
            }
        }
        while let Some(event) = self.entities[0].poll_event() {
            self.told.push(event);
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            let due = self.entities.iter().filter_map(Xgm::poll_timeout).min();
            let Some(due) = due.filter(|due| *due <= end) else {
                break;
            };
            self.now = self.now.max(due);
            for entity in &mut self.entities {
                entity.handle_timeout(self.now);
            }
        }
        self.now = end;
        self.settle();
    }

    /// Who has gone, and how.
    fn departed(&self) -> Vec<(&[u8], Departure)> {
        let departed = self.told.iter().filter_map(|event| match event {
            XgmEvent::Departed { name, how, .. } => Some((&name[..], *how)),
            _ => None,
        });
        departed.collect()
    }

    fn violations(&self) -> Vec<&Violation> {
        let violations = self.told.iter().filter_map(|event| match event {
            XgmEvent::Violated { violation, .. } => Some(violation),
            _ => None,
        });
        violations.collect()
    }

    /// What each member has of each checkpoint that is over.
    fn accounts(&self) -> Vec<(u64, Vec<Holding>)> {
        let accounts = self.told.iter().filter_map(|event| match event {
            XgmEvent::Checkpoint(account) => {
                let holdings = account.members.iter().map(|it| it.holding);
                Some((account.place, holdings.collect()))
            }
            _ => None,
        });
        accounts.collect()
    }
}

fn at_least(count: usize) -> Membership {
    Membership {
        count,
        ..Membership::default()
    }
}

#[test]
fn who_falls_silent_is_named_and_who_answers_is_not() {
    let mut group = Group::of(5, at_least(4));
    group.entities[0].begin_monitor(NUMBER);
    group.run(Duration::from_secs(60));
    assert_eq!(group.departed(), []);
    for (silent, expected) in [(2, 0), (4, 1)] {
        group.cut[silent] = true;
        group.run(Duration::from_secs(3));
        let name = std::format!("host-{silent}");
        let last = group.departed().pop();
        assert_eq!(last, Some((name.as_bytes(), Departure::Silent)));
        assert_eq!(group.violations().len(), expected, "four are needed");
    }
    let violation = group.violations()[0];
    assert_eq!(violation.rule, Rule::Count);
    assert_eq!(violation.names, [&b"host-2"[..], b"host-4"]);
    let told = group.told.len();
    group.cut.fill(false);
    group.run(Duration::from_secs(10));
    assert_eq!(group.told.len(), told, "each is told once");
}

#[test]
fn what_is_required_is_counted_named_or_in_subgroups() {
    let nodes = Membership {
        nodes: [member(3).node].into(),
        ..Membership::default()
    };
    let subgroups = Membership {
        subgroups: Subgroups(0b1000),
        ..Membership::default()
    };
    let nobody_leaves = Membership {
        may_leave: false,
        ..Membership::default()
    };
    for (membership, rule, names) in [
        (nodes, Rule::Nodes, &["host-3"][..]),
        (subgroups, Rule::Subgroups, &["host-3"]),
        (at_least(2), Rule::Count, &["host-1", "host-3"]),
        (nobody_leaves, Rule::Leaves, &["host-1"]),
    ] {
        let mut group = Group::of(3, membership);
        group.run(Duration::from_secs(2));
        group.entities[0].begin_monitor(NUMBER);
        group.settle();
        group.exit(2, Standing::Complete);
        group.exit(1, Standing::Left);
        group.exit(3, Standing::Closed);
        let expected = Violation {
            rule,
            names: names.iter().map(|it| Bytes::from(*it)).collect(),
        };
        assert_eq!(group.violations(), [&expected]);
        let departed = [
            (&b"host-1"[..], Departure::Left),
            (b"host-3", Departure::Closed),
        ];
        assert_eq!(group.departed(), departed, "who is complete has not gone");
    }
    let absent = Membership {
        nodes: [member(9).node].into(),
        ..Membership::default()
    };
    let mut group = Group::of(1, absent);
    assert!(group.violations().is_empty(), "it has not begun");
    group.entities[0].begin_monitor(NUMBER);
    group.settle();
    assert_eq!(group.violations()[0].names, ["n9"]);
}

/// Its report may be lost: until it says which subgroups it is in, it may be in those required.
#[test]
fn a_subgroup_is_not_missed_before_all_have_said_which_they_are_in() {
    let membership = Membership {
        subgroups: Subgroups::one(5),
        ..Membership::default()
    };
    let mut group = Group::of(0, membership);
    for index in 1..=2 {
        let entity = Xgm::new(member(index), b"", XgmConfig::default(), Rng::new(index));
        group.entities.push(entity);
        group.cut.push(true);
        group.join(index as usize);
    }
    group.settle();
    group.entities[0].begin_monitor(NUMBER);
    group.settle();
    assert!(group.violations().is_empty(), "neither has said a word");
    group.cut[1] = false;
    group.run(Duration::from_secs(1));
    assert!(group.violations().is_empty(), "the second may be in it");
    group.cut[2] = false;
    group.run(Duration::from_secs(1));
    assert_eq!(group.violations().len(), 1);
    assert_eq!(group.violations()[0].rule, Rule::Subgroups);
    assert!(group.departed().is_empty());
}

#[test]
fn who_may_not_drop_in_is_not_watched() {
    let closed = Membership {
        may_join: false,
        ..Membership::default()
    };
    let mut group = Group::of(1, closed);
    group.entities[0].begin_monitor(NUMBER);
    let watched = group.entities[0].watch(NUMBER, member(5), b"late", FROM);
    assert_eq!(watched, Err(MonitorError::NoJoins));
    let open = group.entities[0].watch(NUMBER + 1, member(5), b"late", FROM);
    assert_eq!(open, Err(MonitorError::Unknown));
}

#[test]
fn a_request_that_is_refused_says_why() {
    let mut group = Group::of(1, Membership::default());
    let source = &mut group.entities[0];
    let mut monitor = |number| source.monitor(Time::ZERO, number, Membership::default());
    assert_eq!(monitor(NUMBER), Err(MonitorError::Monitored));
    let mut others = (NUMBER + 1..).map(&mut monitor);
    let refused = others.by_ref().take(100).find(Result::is_err);
    assert_eq!(refused, Some(Err(MonitorError::TooManyConnections)));
    let mut members = (100..).map(|index| source.watch(NUMBER, member(index), b"", FROM));
    let refused = members
        .by_ref()
        .take(XgmConfig::default().hosts_max + 1)
        .find(Result::is_err);
    assert_eq!(refused, Some(Err(MonitorError::TooManyMembers)));
    let mut checkpoints = (0..100).map(|place| source.checkpoint(Time::ZERO, NUMBER, place));
    let refused = checkpoints.find(Result::is_err);
    assert_eq!(refused, Some(Err(MonitorError::TooManyCheckpoints)));
}

#[test]
fn several_checkpoints_are_accounted_for_each_by_the_word_of_every_member() {
    let mut group = Group::of(4, Membership::default());
    group.advance(1, 50);
    group.checkpoint(100);
    group.checkpoint(40);
    group.checkpoint(200);
    group.run(Duration::from_millis(500));
    for index in [1, 2, 3] {
        group.advance(index, 60);
    }
    assert!(group.accounts().is_empty(), "host-4 has nothing yet");
    group.advance(4, 45);
    let has = Holding::Has;
    assert_eq!(group.accounts(), [(40, std::vec![has; 4])]);
    group.advance(1, 120);
    group.exit(2, Standing::Complete);
    group.exit(3, Standing::Left);
    group.cut[4] = true;
    group.run(Duration::from_secs(3));
    let at_100 = (100, std::vec![has, has, Holding::HasNot, Holding::Unknown]);
    assert_eq!(group.accounts()[1..], [at_100]);
    group.entities[0].release_monitor(NUMBER);
    group.settle();
    let open = Holding::Unknown;
    let at_200 = (200, std::vec![open, has, Holding::HasNot, Holding::Unknown]);
    assert_eq!(group.accounts()[2..], [at_200]);
    assert_eq!(group.entities[0].account(NUMBER, 40), None);
}

/// A report that is lost is made good by an answer; so is what an unwatched member says.
#[test]
fn a_lost_report_is_found_by_asking() {
    let mut group = Group::of(2, Membership::default());
    group.run(Duration::from_secs(2));
    group.cut[1] = true;
    group.exit(1, Standing::Left);
    assert!(group.departed().is_empty());
    group.cut[1] = false;
    group.run(Duration::from_secs(2));
    assert_eq!(group.departed(), [(&b"host-1"[..], Departure::Left)]);
}

#[test]
fn what_is_repeated_or_late_changes_nothing() {
    let mut group = Group::of(3, at_least(3));
    group.entities[0].begin_monitor(NUMBER);
    group.checkpoint(100);
    group.run(Duration::from_secs(5));
    group.exit(2, Standing::Complete);
    let account = group.entities[0].account(NUMBER, 100);
    let (told, answered) = (group.told.len(), group.entities[1].counters().standings);
    for (to, from, body) in std::mem::take(&mut group.sent) {
        for _ in 0..3 {
            group.entities[to].handle_datagram(group.now, from, body.clone());
            let now = group.now;
            group.entities[to].handle_timeout(now);
        }
    }
    assert_eq!(group.entities[1].counters().standings, answered);
    assert_eq!(group.entities[0].account(NUMBER, 100), account);
    group.settle();
    assert_eq!(group.told.len(), told);
    // Recordings do not keep alive one that is gone.
    group.cut[3] = true;
    for _ in 0..30 {
        group.run(Duration::from_millis(100));
        for (to, from, body) in group.sent.clone() {
            group.entities[to].handle_datagram(group.now, from, body);
        }
    }
    assert_eq!(group.departed(), [(&b"host-3"[..], Departure::Silent)]);
}

#[test]
fn what_others_say_of_a_connection_changes_nothing() {
    let mut group = Group::of(2, at_least(2));
    group.entities[0].begin_monitor(NUMBER);
    group.run(Duration::from_secs(2));
    let stranger = member(9);
    let told = Told {
        number: NUMBER,
        round: 1,
        standing: Standing::Left,
        subgroups: Subgroups(1),
        progress: 100,
    };
    let report = Report {
        number: NUMBER,
        key: KEY,
        standing: Standing::Closed,
        subgroups: Subgroups(1),
        progress: 100,
        name: Bytes::from_static(b"host-1"),
    };
    let ask = Ask {
        number: NUMBER,
        round: 1_000,
        only: member(1).incarnation,
        spread: Duration::ZERO,
        places: [1].into(),
    };
    let account = group.entities[0].account(NUMBER, 50);
    let now = group.now;
    for message in [Message::Told(told.clone()), Message::Report(report)] {
        group.entities[0].handle_datagram(now, stranger, message.encode().into());
    }
    // An answer to an ask that was never sent, too.
    let early = Told {
        round: u32::MAX,
        ..told
    };
    let early = Message::Told(early).encode();
    group.entities[0].handle_datagram(now, member(1), early.into());
    assert_eq!(group.entities[0].account(NUMBER, 50), account);
    assert!(group.departed().is_empty());
    // A source that asks about a connection of its own learns that the member is not in it, and no
    // more.
    let ask = Message::Ask(ask).encode();
    group.entities[1].handle_datagram(now, stranger, ask.into());
    let mut buf = TransmitBuf::new(1, 0, 0);
    let sent = group.entities[1].poll_transmit(now, &mut buf);
    let sent = sent.expect("it answers one that asks it alone");
    assert_eq!(sent.destination, Destination::Member(stranger));
    let answer = Message::decode(buf.iter().next().expect("one"));
    let is_stranger = |told: &Told| told.standing == Standing::Stranger && told.progress == 0;
    assert!(matches!(&answer, Ok(Message::Told(told)) if is_stranger(told)));
    group.run(Duration::from_secs(5));
    assert!(group.departed().is_empty(), "its source still has it");
}

#[test]
fn a_flood_of_asks_costs_a_bounded_number_of_answers_and_the_source_is_answered() {
    let mut group = Group::of(1, at_least(1));
    group.entities[0].begin_monitor(NUMBER);
    let mut answers = 0;
    for count in 1..=100_000 {
        // For ten seconds, about a connection that it is not in.
        group.now += Duration::from_micros(100);
        let ask = Ask {
            number: NUMBER,
            round: count,
            only: member(1).incarnation,
            spread: Duration::ZERO,
            places: Vec::new(),
        };
        let body = Message::Ask(ask).encode().into();
        let now = group.now;
        let before = group.entities[1].counters().standings;
        group.entities[1].handle_datagram(now, member(9), body);
        answers += group.entities[1].counters().standings - before;
        for entity in &mut group.entities {
            if entity.poll_timeout().is_some_and(|due| due <= now) {
                entity.handle_timeout(now);
            }
        }
        group.settle();
    }
    let rate = u64::from(XgmConfig::default().answers_max);
    assert!((rate * 9..=rate * 12).contains(&answers), "{answers}");
    assert!(group.departed().is_empty(), "the source was answered");
}

/// Receivers of earlier releases say nothing.
#[test]
fn one_that_is_watched_from_its_first_word_on_is_not_blamed_for_having_said_none() {
    let mut group = Group::of(1, at_least(1));
    let old = group.entities[0].watch(NUMBER, member(9), b"old", WatchFrom::FirstWord);
    assert_eq!(old, Ok(()));
    group.entities[0].begin_monitor(NUMBER);
    group.run(Duration::from_secs(20));
    assert!(group.departed().is_empty());
    let told = Told {
        number: NUMBER,
        round: 0,
        standing: Standing::Within,
        subgroups: Subgroups(1),
        progress: 1,
    };
    let (now, body) = (group.now, Message::Told(told).encode());
    group.entities[0].handle_datagram(now, member(9), body.into());
    group.run(Duration::from_secs(3));
    assert_eq!(group.departed(), [(&b"old"[..], Departure::Silent)]);
}

#[test]
fn when_all_is_over_nobody_waits_for_one_that_has_never_said_a_word() {
    let mut group = Group::of(1, Membership::default());
    let old = group.entities[0].watch(NUMBER, member(9), b"old", WatchFrom::FirstWord);
    assert_eq!(old, Ok(()));
    group.checkpoint(100);
    group.advance(1, 100);
    group.run(Duration::from_secs(20));
    assert!(
        group.accounts().is_empty(),
        "it may still say that it has it"
    );
    group.entities[0].end_monitor(NUMBER);
    group.settle();
    let account = (100, std::vec![Holding::Has, Holding::Unknown]);
    assert_eq!(group.accounts(), [account]);
    assert_eq!(group.entities[0].account(NUMBER, 100), None, "released");
}

/// Its report and its registration come together; it dies before it is asked for the first time.
#[test]
fn what_one_has_said_before_it_is_watched_counts() {
    let mut group = Group::of(1, at_least(1));
    let report = |standing| Report {
        number: NUMBER,
        key: KEY,
        standing,
        subgroups: Subgroups(1),
        progress: 0,
        name: Bytes::from_static(b"host-9"),
    };
    let now = group.now;
    for (index, standing) in [(9, Standing::Within), (8, Standing::Left)] {
        let body = Message::Report(report(standing)).encode();
        group.entities[0].handle_datagram(now, member(index), body.into());
        let from = WatchFrom::FirstWord;
        let watched = group.entities[0].watch(NUMBER, member(index), b"host", from);
        assert_eq!(watched, Ok(()));
    }
    group.settle();
    assert_eq!(group.departed(), [(&b"host"[..], Departure::Left)]);
    group.run(Duration::from_secs(3));
    let silent = (&b"host"[..], Departure::Silent);
    assert_eq!(group.departed()[1..], [silent]);
}

#[test]
fn a_source_that_was_paused_blames_nobody() {
    let mut group = Group::of(3, at_least(3));
    group.entities[0].begin_monitor(NUMBER);
    group.run(Duration::from_secs(2));
    group.now += Duration::from_secs(3_600);
    group.run(Duration::from_secs(5));
    assert!(group.departed().is_empty(), "{:?}", group.departed());
}

/// Ends of connections are remembered, but not without bound.
#[test]
fn what_is_remembered_of_connections_is_bounded() {
    let mut xgm = Xgm::new(member(1), b"a", XgmConfig::default(), Rng::new(1));
    xgm.join(KEY).expect("it is the first");
    let id = |number| ConnectionId {
        source: member(0),
        number,
    };
    for number in 0..1_000 {
        xgm.enter(Time::ZERO, KEY, id(number));
        xgm.exit(Time::ZERO, id(number), Standing::Complete);
    }
    let kept = (0..1_000).filter(|number| xgm.standing(id(*number)).is_some());
    assert_eq!(kept.count(), 64);
    assert_eq!(xgm.standing(id(999)), Some((Standing::Complete, 0)));
}

/// What the swarm and the fuzz target play: members that monitor each other's connections.
#[test]
fn the_family_asks_tells_and_reports() {
    use groupcast_check::Contract;
    use groupcast_sim::{Cluster, ClusterConfig};

    use super::super::family::XgmMessages;

    let config = ClusterConfig {
        contract: Contract::Unreliable,
        ..ClusterConfig::new(3, 1)
    };
    let mut cluster = Cluster::started(config, |member, rng, now| {
        XgmMessages::new(member, XgmConfig::default(), rng, now)
    });
    let seen = std::rc::Rc::new(std::cell::RefCell::new([0_u64; 256]));
    let sees = std::rc::Rc::clone(&seen);
    cluster.drop_all(move |datagram| {
        if let Some(kind) = datagram.body().first().filter(|_| !datagram.is_admission()) {
            sees.borrow_mut()[usize::from(*kind)] += 1;
        }
        false
    });
    cluster.run_for(Duration::from_secs(60));
    for kind in 1..=7 {
        let seen = seen.borrow()[kind];
        assert!(seen > 0, "no datagram of kind {kind}");
    }
    let stale = |host| {
        let host: &XgmMessages = cluster.protocol(host).expect("it runs");
        host.xgm.counters().stale
    };
    assert!((0..3).any(|host| stale(host) > 0), "what is late is seen");
}
