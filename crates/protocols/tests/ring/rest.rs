//! Goal: a message of a quiet ring costs a call and no rotation, and is as sure to arrive as any
//! other. Method: messages of all members out of rest, apart and close together, with losses where
//! nothing follows that would show them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{MessageId, Rng, Service, SocketClass};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::Cluster;

use super::{formed, with_config};
use crate::all_have;

/// First byte of a token's body.
const TOKEN: u8 = 2;
/// First byte of the body that acknowledges a token.
const ACK: u8 = 6;
/// Three ways of 30 µs and more: to call, to pass the token, and of the message.
const THREE_WAYS: Duration = Duration::from_micros(200);

/// Settings with which a token with nothing to confirm rests for much longer than it would
/// otherwise.
fn at_rest_for_long(confirm_after: Duration) -> RingConfig {
    RingConfig {
        token_loss_min: Duration::from_secs(20),
        token_loss_max: Duration::from_secs(20),
        idle_hold: Duration::from_secs(5),
        confirm_after,
        ..RingConfig::lan()
    }
}

/// A ring of `hosts` whose token rests, for much longer than it would otherwise, with nothing to
/// confirm.
fn resting(hosts: usize, seed: u64, confirm_after: Duration) -> Cluster<Ring> {
    let mut cluster = with_config(hosts, seed, at_rest_for_long(confirm_after));
    cluster.must(
        "one ring",
        Cluster::all_in_one_configuration,
        Duration::from_secs(2),
    );
    cluster.run_for(Duration::from_millis(900));
    cluster
}

/// Counts the tokens that are sent from now on.
fn tokens(cluster: &mut Cluster<Ring>) -> Rc<Cell<u32>> {
    count(cluster, TOKEN)
}

/// Counts the datagrams with this first byte that are sent from now on.
fn count(cluster: &mut Cluster<Ring>, kind: u8) -> Rc<Cell<u32>> {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    cluster.drop_all(move |info| {
        let hit = info.body().first() == Some(&kind);
        counted.set(counted.get() + u32::from(hit));
        false
    });
    count
}

/// The next packet to `deaf` is lost; whether it was.
fn loses(cluster: &mut Cluster<Ring>, deaf: usize) -> Rc<Cell<bool>> {
    let lost = Rc::new(Cell::new(false));
    let told = lost.clone();
    cluster.drop_next(move |info| {
        let hit = info.to == deaf && info.class == SocketClass::Data;
        told.set(told.get() || hit);
        hit
    });
    lost
}

fn say(cluster: &mut Cluster<Ring>, host: usize, service: Service) -> MessageId {
    cluster
        .submit(host, service, "a few words")
        .expect("there is room")
}

fn arrives(cluster: &mut Cluster<Ring>, id: MessageId, limit: Duration) {
    cluster.must(
        "delivered everywhere",
        |cluster| (0..cluster.hosts()).all(|host| cluster.has_delivered(host, id)),
        limit,
    );
}

#[test]
fn a_message_moves_the_token_to_its_sender_and_back_and_one_rotation_confirms_several() {
    let mut cluster = resting(6, 41, Duration::from_millis(50));
    let tokens = tokens(&mut cluster);
    for sender in 0..6 {
        let id = say(&mut cluster, sender, Service::Agreed);
        arrives(&mut cluster, id, THREE_WAYS);
        cluster.run_for(Duration::from_millis(1));
    }
    // One member is the representative, where the token rests.
    assert_eq!(tokens.get(), 5 * 2);
    cluster.run_for(Duration::from_millis(100));
    assert_eq!(tokens.get(), 5 * 2 + 6, "one rotation more");
    cluster.check();
}

/// The first of a row of lone messages is lost at a member; how long it takes until that is found.
fn found_after(cluster: &mut Cluster<Ring>, sender: usize, deaf: usize) -> Duration {
    let lost = loses(cluster, deaf);
    let at = cluster.now();
    let id = say(cluster, sender, Service::Agreed);
    arrives(cluster, id, Duration::from_millis(100));
    assert!(lost.get());
    let found = cluster.now() - at;
    cluster.run_for(Duration::from_millis(100));
    found
}

#[test]
fn what_is_confirmed_without_loss_again_and_again_is_confirmed_later_until_something_is_lost() {
    let mut cluster = resting(4, 49, Duration::from_millis(3));
    for _ in 0..5 {
        say(&mut cluster, 1, Service::Agreed);
        cluster.run_for(Duration::from_millis(100));
    }
    let late = found_after(&mut cluster, 1, 2);
    assert!(
        (Duration::from_millis(24)..Duration::from_millis(27)).contains(&late),
        "{late:?}"
    );
    let soon = found_after(&mut cluster, 3, 0);
    assert!(soon < Duration::from_millis(5), "after a loss: {soon:?}");
    cluster.check();
}

#[test]
fn a_row_of_messages_without_loss_takes_a_rotation_each_128_of_them() {
    let mut cluster = resting(4, 50, Duration::from_secs(1));
    let tokens = tokens(&mut cluster);
    let mut rotations = Vec::new();
    for number in 1..=512 {
        let before = tokens.get();
        let id = say(&mut cluster, 1, Service::Agreed);
        arrives(&mut cluster, id, THREE_WAYS);
        cluster.run_for(Duration::from_millis(1));
        if tokens.get() > before + 2 {
            rotations.push(number);
        }
    }
    let apart: Vec<i32> = rotations.windows(2).map(|it| it[1] - it[0]).collect();
    assert_eq!((rotations[0], apart), (17, vec![33, 65, 129, 129, 129]));
    cluster.check();
}

#[test]
fn a_token_that_was_called_returns_without_an_acknowledgement() {
    let mut cluster = resting(4, 51, Duration::from_secs(1));
    let acks = count(&mut cluster, ACK);
    let id = say(&mut cluster, 2, Service::Agreed);
    arrives(&mut cluster, id, THREE_WAYS);
    cluster.run_for(Duration::from_millis(500));
    assert_eq!(acks.get(), 0);
    cluster.check();
}

#[test]
fn a_token_whose_return_is_lost_is_asked_for_again() {
    for lost in [1, 3] {
        let mut cluster = resting(4, 52, Duration::from_secs(1));
        let (gone, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(lost)));
        let counted = gone.clone();
        cluster.drop_all(move |info| {
            let returns = info.from == 2 && info.body().first() == Some(&TOKEN);
            let hit = returns && left.get() > 0;
            left.set(left.get() - u32::from(hit));
            counted.set(counted.get() + u32::from(hit));
            hit
        });
        let first = say(&mut cluster, 2, Service::Agreed);
        arrives(&mut cluster, first, THREE_WAYS);
        cluster.run_for(Duration::from_millis(1));
        assert!(gone.get() > 0);
        // It is back when the call came again, which is sent both ways.
        let next = say(&mut cluster, 1, Service::Agreed);
        arrives(&mut cluster, next, Duration::from_millis(10));
        assert_eq!(gone.get(), lost);
        cluster.check();
    }
}

#[test]
fn messages_apart_or_close_together_are_all_there_in_no_time() {
    let mut cluster = formed(5, 42);
    let mut random = Rng::new(42);
    cluster.run_for(Duration::from_millis(900));
    for _ in 0..1_500 {
        let pause = match random.next_u64() % 3 {
            0 => random.next_u64() % 50,
            _ => random.next_u64() % 6_000,
        };
        cluster.run_for(Duration::from_micros(pause));
        let sender = random.next_u64() as usize % 5;
        let id = say(&mut cluster, sender, Service::Agreed);
        // At worst the token has just left for another caller, or goes round.
        arrives(&mut cluster, id, Duration::from_micros(700));
    }
    cluster.check();
}

#[test]
fn a_lone_message_that_is_lost_is_found_by_the_rotation_that_confirms_it() {
    let mut cluster = resting(4, 43, Duration::from_millis(3));
    for (sender, deaf) in [(0, 3), (1, 0), (3, 2), (2, 3)] {
        let lost = loses(&mut cluster, deaf);
        let id = say(&mut cluster, sender, Service::Agreed);
        arrives(&mut cluster, id, Duration::from_millis(5));
        assert!(lost.get());
        cluster.run_for(Duration::from_millis(20));
    }
    cluster.check();
}

#[cfg(feature = "planted-bugs")]
#[test]
fn without_the_rotation_that_confirms_it_a_lost_message_is_missed_for_long() {
    use groupcast_protocols::ring::Planted;

    for planted in [Planted::NoConfirmation, Planted::CallAdvancesAru] {
        let config = RingConfig {
            planted: Some(planted),
            ..at_rest_for_long(Duration::from_millis(3))
        };
        let mut cluster = with_config(4, 48, config);
        cluster.run_for(Duration::from_secs(1));
        let lost = loses(&mut cluster, 2);
        let id = say(&mut cluster, 3, Service::Agreed);
        cluster.run_for(Duration::from_millis(100));
        assert!(lost.get());
        assert!(!cluster.has_delivered(2, id), "{planted:?}");
    }
}

#[test]
fn a_lone_message_that_is_lost_is_found_at_once_when_another_follows() {
    let mut cluster = resting(4, 44, Duration::from_secs(4));
    for (sender, deaf) in [(0, 3), (1, 0), (3, 2), (2, 3)] {
        let lost = loses(&mut cluster, deaf);
        let first = say(&mut cluster, sender, Service::Agreed);
        cluster.run_for(Duration::from_millis(20));
        assert!(lost.get());
        let next = say(&mut cluster, (sender + 1) % 4, Service::Agreed);
        arrives(&mut cluster, first, Duration::from_millis(2));
        arrives(&mut cluster, next, Duration::from_millis(1));
        cluster.run_for(Duration::from_millis(20));
    }
    cluster.check();
}

#[test]
fn a_safe_message_behind_what_is_not_confirmed_does_not_wait_for_it() {
    let mut cluster = resting(5, 45, Duration::from_secs(4));
    for sender in 0..5 {
        let agreed = say(&mut cluster, sender, Service::Agreed);
        arrives(&mut cluster, agreed, THREE_WAYS);
        let safe = say(&mut cluster, (sender + 2) % 5, Service::Safe);
        arrives(&mut cluster, safe, Duration::from_millis(2));
    }
    cluster.check();
}

#[test]
fn a_message_whose_sender_dies_before_the_rotation_reaches_all_or_none() {
    for (seed, heard_by) in [(46, Some(1)), (47, None)] {
        let mut cluster = resting(4, seed, Duration::from_millis(3));
        cluster.drop_all(move |info| {
            info.from == 2 && info.class == SocketClass::Data && Some(info.to) != heard_by
        });
        let id = say(&mut cluster, 2, Service::Agreed);
        cluster.run_for(Duration::from_millis(1));
        cluster.crash(2);
        cluster.heal();
        cluster.run_for(Duration::from_secs(25));
        for host in [0, 1, 3] {
            assert_eq!(cluster.has_delivered(host, id), heard_by.is_some());
        }
        cluster.check();
    }
}

/// Unreliable messages have no place in the order, but the token's visits say how many may go: who
/// has more calls for the token, which nobody else does.
#[test]
fn unreliable_messages_of_any_member_wake_a_resting_token() {
    for sender in 0..3 {
        let mut cluster = formed(3, 71);
        cluster.run_for(Duration::from_millis(900));
        let mut ids = Vec::new();
        for _ in 0..200 {
            for _ in 0..20 {
                let id = cluster.submit(sender, Service::Unreliable, "a sample");
                ids.push(id.expect("there is room"));
            }
            cluster.run_for(Duration::from_millis(1));
        }
        let limit = Duration::from_millis(5);
        cluster.must("delivered", |it| all_have(it, &ids), limit);
        cluster.check();
    }
}

/// Of many at once a few go with each visit of the token, the representative's as well: receive
/// buffers hold the others' packets, too.
#[test]
fn a_burst_of_unreliable_messages_goes_with_many_visits() {
    for sender in 0..3 {
        let mut cluster = formed(3, 72);
        cluster.run_for(Duration::from_millis(900));
        let tokens = tokens(&mut cluster);
        let say = |_| cluster.submit(sender, Service::Unreliable, "a sample");
        let ids: Vec<_> = (0..250).map(say).map(Result::unwrap).collect();
        let limit = Duration::from_millis(20);
        cluster.must("delivered", |it| all_have(it, &ids), limit);
        assert!(tokens.get() >= 20, "{} tokens", tokens.get());
        cluster.check();
    }
}
