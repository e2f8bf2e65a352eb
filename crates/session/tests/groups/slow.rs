//! Clients that take their messages too slowly: what holds for their groups, what they ask for, and
//! the warning.

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::frame::{ClientFrame, DaemonFrame};
use groupcast_session::groups::{ClientStatus, Fact, SlowRule, SlowRules};
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
        let config = EngineConfig {
            stop_publishers_at: STOP_AT,
            drop_unreliable_at: DROP_AT,
            ..EngineConfig::default()
        };
        let mut world = World::with_config(1, config);
        let mut rng = Rng::new(1);
        let one = world.member(1);
        world.divide(&[vec![one]], &mut rng);
        world.run(&mut rng);
        let rule = |group: &str, policy| SlowRule {
            groups: vec![group.into()],
            policy,
        };
        let rules = vec![
            rule("drop*", WhenSlow::Drop),
            rule("disconnects", WhenSlow::Disconnect),
        ];
        world.daemon(one).engine.set_slow_rules(SlowRules(rules));
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

    /// Publishes so many messages of 1,000 bytes to `group`, one after the other.
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
    slow.world.now += std::time::Duration::from_secs(1);
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
