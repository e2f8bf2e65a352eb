//! Clients that take their messages too slowly: what holds for their groups, what they ask for, and
//! the warning.

use std::io::IoSlice;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::frame::{ClientFrame, DaemonFrame, Disconnect, GuestFrame};
use groupcast_session::groups::{ClientStatus, Fact, SlowRule, SlowRules};
use groupcast_session::guests::Role;
use groupcast_session::{ClientId, EngineConfig, WhenSlow};

use crate::world::World;

/// Publishers wait from here on.
const STOP_AT: usize = 4_000;
/// Unreliable messages are missed from here on, where publishers wait.
const DROP_AT: usize = 9_000;

/// A daemon with a publisher and a client that is in `blocks`, `drops` and `disconnects`, of which
/// the rules say what they are called, and does not read.
struct Slow {
    world: World,
    rng: Rng,
    one: MemberId,
    al: ClientId,
    slow: ClientId,
    published: u8,
}

impl Slow {
    fn new(wish: Option<WhenSlow>) -> Self {
        Self::with_hosts(1, wish, EngineConfig::default())
    }

    /// The same with this many daemons, of which the first has both clients.
    fn with_hosts(hosts: usize, wish: Option<WhenSlow>, config: EngineConfig) -> Self {
        let config = EngineConfig {
            stop_publishers_at: STOP_AT,
            drop_unreliable_at: DROP_AT,
            ..config
        };
        let mut world = World::with_config(hosts, config);
        let mut rng = Rng::new(1);
        let one = world.member(1);
        let all = (1..=hosts).map(|host| world.member(host)).collect();
        world.divide(&[all], &mut rng);
        world.run(&mut rng);
        let all = rules(&[
            ("drop*", WhenSlow::Drop),
            ("disconnects", WhenSlow::Disconnect),
        ]);
        world.daemon(one).engine.set_slow_rules(all);
        let slow = world.connect(one, "slow");
        let al = world.connect(one, "al");
        world.act(one, slow, |client| {
            if let Some(wish) = wish {
                client.send(&ClientFrame::WhenSlow(wish));
            }
            for group in ["blocks", "drops", "disconnects"] {
                client.join(group);
            }
        });
        world.run(&mut rng);
        world.client(one, slow).reads = false;
        Self {
            world,
            rng,
            one,
            al,
            slow,
            published: 0,
        }
    }

    /// Publishes this many messages of 1,000 bytes to `group`, one after the other.
    fn publish(&mut self, group: &str, service: Service, count: u8) {
        for _ in 0..count {
            self.published += 1;
            let number = self.published;
            self.world.act(self.one, self.al, |client| {
                client.publish(&[group], service, &[number; 1_000]);
            });
            self.world.run(&mut self.rng);
        }
    }

    /// The slow client answers in `group`. Asks its members, as a guest, a thousand bytes in each
    /// request, for as long as there is credit; how often, at most `max` times.
    fn ask(&mut self, group: &str, max: u64) -> u64 {
        self.world.act(self.one, self.slow, |client| {
            client.say(GuestFrame::Claim {
                token: 1,
                may_wait: false,
                role: Role::Answering,
                group: group.into(),
            });
        });
        self.world.run(&mut self.rng);
        self.world.act(self.one, self.al, |client| {
            client.say(GuestFrame::Guest { id: 7, floor: 0 });
        });
        for number in 1..=max {
            if !self.world.client(self.one, self.al).may_publish() {
                return number - 1;
            }
            self.world.act(self.one, self.al, |client| {
                client.say(GuestFrame::Request {
                    number,
                    answers: 1,
                    handler: None,
                    within: Duration::from_secs(600),
                    group: group.into(),
                    payload: Bytes::from(vec![1; 1_000]),
                    stream_len: 0,
                });
            });
            self.world.run(&mut self.rng);
        }
        max
    }

    /// The slow client's socket takes this many bytes, which nobody looks at.
    fn take(&mut self, mut bytes: usize) {
        let now = self.world.now;
        let engine = &mut self.world.daemon(self.one).engine;
        while bytes > 0 {
            let mut slices = [IoSlice::new(&[]); 1];
            if engine.slices(self.slow, &mut slices) == 0 {
                return;
            }
            let len = slices[0].len().min(bytes);
            engine.consumed(now, self.slow, len);
            bytes -= len;
        }
    }

    /// How often the log says that publishers are held back.
    fn held_back(&mut self) -> usize {
        let facts = &self.world.daemon(self.one).facts;
        let held_back = facts
            .iter()
            .filter(|fact| matches!(fact, Fact::HeldBack { .. }));
        held_back.count()
    }

    fn status(&mut self) -> Option<ClientStatus> {
        let status = self.world.daemon(self.one).engine.status();
        let mut clients = status.clients.into_iter();
        clients.find(|client| &*client.name == "slow@h1")
    }

    /// What the slow client was sent once it reads again.
    fn read(&mut self) -> Vec<DaemonFrame> {
        self.world.client(self.one, self.slow).reads = true;
        self.world.act(self.one, self.slow, |client| {
            client.send(&ClientFrame::Ping { token: 1 });
        });
        self.world.run(&mut self.rng);
        self.world.client(self.one, self.slow).warnings.clone()
    }
}

fn rules(of: &[(&str, WhenSlow)]) -> SlowRules {
    let rule = |(group, policy): &(&str, WhenSlow)| SlowRule {
        groups: vec![(*group).into()],
        policy: *policy,
    };
    SlowRules(of.iter().map(rule).collect())
}

#[test]
fn publishers_wait_where_the_group_blocks_and_nowhere_else() {
    for (group, waits) in [("blocks", true), ("drops", false), ("disconnects", false)] {
        let mut slow = Slow::new(None);
        slow.publish(group, Service::Agreed, 7);
        let status = slow.status().expect("it is connected");
        assert!(status.backlog > STOP_AT);
        assert_eq!(status.holds_back, waits, "{group}");
    }
}

/// The windows of many publishers may be much together: what they have sent stays in the daemon
/// once twice the limit waits for the client, and goes on when the client has taken it.
#[test]
fn of_what_publishers_have_sent_a_slow_client_gets_twice_the_limit_and_the_rest_later() {
    const PUBLISHERS: u64 = 20;
    let mut slow = Slow::new(None);
    let one = slow.one;
    let publishers: Vec<ClientId> = (0..PUBLISHERS)
        .map(|number| slow.world.connect(one, &format!("p{number}")))
        .collect();
    for number in 0..10 {
        for (index, id) in publishers.iter().enumerate() {
            slow.world.act(one, *id, |client| {
                assert!(client.may_publish(), "it has a window of half a MiB");
                client.publish(
                    &["blocks"],
                    Service::Agreed,
                    &[number, index as u8].repeat(500),
                );
            });
        }
        slow.world.run(&mut slow.rng);
    }
    let status = slow.status().expect("it is connected");
    let is_on_its_way = PUBLISHERS as usize * 1_200;
    assert!(status.holds_back);
    assert!(
        (2 * STOP_AT..2 * STOP_AT + is_on_its_way).contains(&status.backlog),
        "{} bytes wait",
        status.backlog
    );
    // A client that is gone has its last messages carried out, and its name is free.
    slow.world
        .act(one, publishers[0], |client| client.send(&ClientFrame::Bye));
    slow.world.run(&mut slow.rng);
    let end = slow.world.client(one, publishers[0]).disconnected.clone();
    assert_eq!(end.map(|(code, _)| code), Some(Disconnect::Bye));

    slow.read();
    let messages = slow.world.client(one, slow.slow).messages().count();
    assert_eq!(messages as u64, 10 * PUBLISHERS);
    for id in &publishers[1..] {
        assert_eq!(slow.world.client(one, *id).accepted, 10);
    }
}

#[test]
fn a_group_that_drops_costs_unreliable_messages_early_and_no_others() {
    for (group, dropped) in [("blocks", 0), ("drops", 3)] {
        let mut slow = Slow::new(None);
        slow.publish(group, Service::Agreed, 4);
        slow.publish(group, Service::Unreliable, 3);
        slow.publish(group, Service::Agreed, 1);
        assert_eq!(slow.status().expect("it is connected").dropped, dropped);
        let facts = &slow.world.daemon(slow.one).facts;
        let told = facts
            .iter()
            .filter(|fact| matches!(fact, Fact::Misses { .. }));
        assert_eq!(told.count(), usize::from(dropped > 0));
        let warnings = slow.read();
        let told = |frame: &DaemonFrame| match frame {
            DaemonFrame::Behind { dropped, .. } => *dropped,
            other => panic!("{other:?}"),
        };
        assert_eq!(warnings.last().map(told), Some(dropped), "{group}");
        let messages = slow.world.client(slow.one, slow.slow).messages().count();
        assert_eq!(messages as u64, 8 - dropped);
    }
}

/// A message to several groups follows the least patient rule of those that bring it to the client,
/// wherever they stand among them.
#[test]
fn of_several_groups_of_a_message_the_least_patient_holds() {
    for groups in [["blocks", "drops"], ["drops", "blocks"]] {
        let mut it = Slow::new(None);
        for number in 1..=8 {
            it.world.act(it.one, it.al, |client| {
                client.publish(&groups, Service::Unreliable, &[number; 1_000]);
            });
            it.world.run(&mut it.rng);
        }
        assert_eq!(it.held_back(), 0, "{groups:?}");
        let status = it.status().expect("it is connected");
        assert!(status.dropped > 0, "{groups:?}");
    }
    // A group that the client is not in is of no concern to it.
    let mut it = Slow::new(None);
    for number in 1..=6 {
        it.world.act(it.one, it.al, |client| {
            let groups = ["dropped-elsewhere", "blocks"];
            client.publish(&groups, Service::Agreed, &[number; 1_000]);
        });
        it.world.run(&mut it.rng);
    }
    assert_eq!(it.held_back(), 1);
}

#[test]
fn a_group_that_disconnects_does_so_early() {
    let mut slow = Slow::new(None);
    slow.publish("drops", Service::Agreed, 9);
    let disconnected = |slow: &mut Slow| {
        let status = slow.world.daemon(slow.one).engine.status();
        status.counters.clients_disconnected
    };
    assert_eq!(disconnected(&mut slow), 0);
    slow.publish("disconnects", Service::Agreed, 1);
    assert_eq!(disconnected(&mut slow), 1);
    let told = |fact: &Fact| fact.to_string().contains("disconnected slow@h1: too slow");
    assert!(slow.world.daemon(slow.one).facts.iter().any(told));
}

#[test]
fn a_client_asks_for_less_patience_not_for_more() {
    for (wish, group, waits) in [
        (WhenSlow::Drop, "blocks", false),
        (WhenSlow::Block, "drops", false),
        (WhenSlow::Block, "blocks", true),
    ] {
        let mut slow = Slow::new(Some(wish));
        slow.publish(group, Service::Agreed, 7);
        let status = slow.status().expect("it is connected");
        assert_eq!(status.when_slow, wish);
        assert_eq!(status.holds_back, waits, "{wish} in {group}");
    }
}

/// Neither does it get new time by changing its mind, nor does anybody wait for it once it has said
/// so.
#[test]
fn a_client_loses_patience_and_does_not_win_it_back() {
    let mut slow = Slow::new(None);
    slow.publish("blocks", Service::Agreed, 7);
    assert!(slow.status().expect("it is connected").holds_back);
    for wish in [WhenSlow::Drop, WhenSlow::Block] {
        slow.world.act(slow.one, slow.slow, |client| {
            client.send(&ClientFrame::WhenSlow(wish));
        });
        slow.publish("blocks", Service::Agreed, 1);
        let status = slow.status().expect("it is connected");
        assert_eq!(
            (status.when_slow, status.holds_back),
            (WhenSlow::Drop, false)
        );
    }
}

/// It comes long before messages are missed, and not with every message.
#[test]
fn a_client_that_is_behind_is_warned_once_a_second() {
    let mut slow = Slow::new(None);
    slow.publish("drops", Service::Agreed, 2);
    assert_eq!(slow.read(), [], "so little is no sign");
    let mut slow = Slow::new(None);
    slow.publish("drops", Service::Agreed, 6);
    slow.world.now += Duration::from_secs(1);
    slow.publish("drops", Service::Agreed, 2);
    let warnings = slow.read();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let DaemonFrame::Behind {
        waiting,
        limit,
        dropped: 0,
    } = warnings[0]
    else {
        panic!("{warnings:?}");
    };
    let disconnect_at = EngineConfig::default().disconnect_at as u64;
    assert!((waiting as usize) < STOP_AT && limit == disconnect_at);
}

/// A feed that drops fills again whatever the client takes. Publishers of the group that blocks
/// wait for what is theirs, which gets less all the same.
#[test]
fn publishers_do_not_wait_for_what_a_feed_that_drops_has_waiting() {
    let mut slow = Slow::new(None);
    slow.publish("blocks", Service::Agreed, 6);
    assert!(slow.status().expect("it is connected").holds_back);
    for _ in 0..8 {
        slow.take(1_000);
        slow.publish("drops", Service::Unreliable, 3);
    }
    let status = slow.status().expect("it is connected");
    assert!(status.backlog >= STOP_AT && status.dropped > 0);
    assert!(!status.holds_back, "{} bytes wait", status.backlog);

    let mut slow = Slow::new(None);
    slow.publish("drops", Service::Unreliable, 6);
    slow.publish("blocks", Service::Agreed, 2);
    let status = slow.status().expect("it is connected");
    assert!(status.backlog >= STOP_AT);
    assert!(
        !status.holds_back,
        "of the group that blocks next to nothing waits"
    );
}

#[test]
fn new_rules_hold_for_publishers_that_wait_already() {
    let mut slow = Slow::new(None);
    slow.publish("blocks", Service::Agreed, 7);
    for (policy, waits) in [(WhenSlow::Block, true), (WhenSlow::Drop, false)] {
        let all = rules(&[("drop*", policy), ("blocks", policy)]);
        slow.world.daemon(slow.one).engine.set_slow_rules(all);
        slow.publish("blocks", Service::Agreed, u8::from(waits));
        assert_eq!(slow.status().expect("it is connected").holds_back, waits);
    }
    // The same once more.
    let all = rules(&[("blocks", WhenSlow::Block)]);
    let engine = &mut slow.world.daemon(slow.one).engine;
    engine.set_slow_rules(all.clone());
    slow.publish("blocks", Service::Agreed, 1);
    let engine = &mut slow.world.daemon(slow.one).engine;
    engine.set_slow_rules(all);
    assert!(slow.status().expect("it is connected").holds_back);
}

/// What a member is asked is a message of its group: who asks waits for it, or the member goes, as
/// the rules say.
#[test]
fn requests_to_a_slow_member_follow_the_rule_of_its_group() {
    const REQUESTS: u64 = 60;
    let asked = |group: &str, wish| {
        let config = EngineConfig {
            publish_window: 6_000,
            disconnect_at: 80_000,
            ..EngineConfig::default()
        };
        let mut slow = Slow::with_hosts(1, wish, config);
        let asked = slow.ask(group, REQUESTS);
        let status = slow.world.daemon(slow.one).engine.status();
        let away = status.counters.clients_disconnected;
        let waits = slow.status().is_some_and(|status| status.holds_back);
        (asked == REQUESTS, waits, away, slow.held_back())
    };
    assert_eq!(asked("blocks", None), (false, true, 0, 1));
    assert_eq!(asked("drops", None), (true, false, 0, 0));
    assert_eq!(asked("disconnects", None).2, 1);
    assert_eq!(asked("blocks", Some(WhenSlow::Drop)), (true, false, 0, 0));
    assert_eq!(asked("blocks", Some(WhenSlow::Disconnect)).2, 1);
}

/// Nobody waits for a client that does not read what it asked for itself, and the log does not say
/// so.
#[test]
fn nobody_waits_for_what_a_client_asked_for_itself() {
    let mut slow = Slow::new(None);
    slow.world.act(slow.one, slow.slow, |client| {
        client.say(GuestFrame::Guest { id: 7, floor: 0 });
        for number in 1..=100 {
            client.say(GuestFrame::Request {
                number,
                answers: 1,
                handler: None,
                within: Duration::from_secs(600),
                group: "no name of a group is so*".into(),
                payload: Bytes::new(),
                stream_len: 0,
            });
        }
    });
    slow.publish("blocks", Service::Agreed, 2);
    let status = slow.status().expect("it is connected");
    assert!(status.backlog > STOP_AT);
    assert_eq!((status.holds_back, slow.held_back()), (false, 0));
}

/// Publishers of other daemons are not held back, whatever they have waiting: the log does not say
/// so either.
#[test]
fn the_log_says_that_publishers_wait_where_one_does() {
    let mut slow = Slow::with_hosts(2, None, EngineConfig::default());
    let two = slow.world.member(2);
    let bo = slow.world.connect(two, "bo");
    slow.world.run(&mut slow.rng);
    for number in 0..7 {
        slow.world.act(two, bo, |client| {
            client.publish(&["blocks"], Service::Agreed, &[number; 1_000]);
        });
        slow.world.run(&mut slow.rng);
    }
    let status = slow.status().expect("it is connected");
    assert!(status.backlog > STOP_AT);
    assert_eq!((status.holds_back, slow.held_back()), (false, 0));
    slow.publish("blocks", Service::Agreed, 2);
    assert!(slow.status().expect("it is connected").holds_back);
    assert_eq!(slow.held_back(), 1);
}
