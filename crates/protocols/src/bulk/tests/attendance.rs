//! Goal: a receiver that is served later and gets little meanwhile leaves the multicast group until
//! its pass, and comes back whatever datagrams are lost. Method: the small network, in which what
//! is sent to the group reaches only who listens. `port.rs` is the same over links that are shared.

use std::boxed::Box;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Protocol as _, Time};

use super::net::{Net, file, member};
use crate::bulk::wire::{Attendance, Message};
use crate::bulk::{BulkConfig, Failure, Notice, Outcome, Policy, RateControl, SlowPolicy, Wanted};

/// The receiver that loses much.
const SLOW: usize = 3;
const LENGTH: usize = 6_000_000;

fn config() -> BulkConfig {
    BulkConfig {
        packet: 1000,
        slow: SlowPolicy::Demote,
        slow_after: Duration::from_millis(20),
        present_within: Duration::from_millis(200),
        // So that there is time to come and go.
        rate: RateControl::Fixed {
            bytes_per_second: 3_000_000,
        },
        ..BulkConfig::lan()
    }
}

/// A transfer to seven, one of which loses half of all.
fn begun(config: &BulkConfig) -> Net {
    let mut net = Net::new(9, config, LENGTH);
    net.acceptance[8] = None;
    net.loss[SLOW] = 0.5;
    net.send(file(LENGTH, Wanted::Count(7)));
    net
}

/// Of the datagrams to the slow receiver those are lost that say such an attendance, until it was
/// said this often.
fn loses(net: &mut Net, attendance: Attendance, mut times: u32) {
    net.loses = Some(Box::new(move |_: Time, to, body: &Bytes| {
        let says = |message| matches!(message, Message::Attend(it) if it.attendance == attendance);
        let is_lost = to == SLOW
            && times > 0
            && Message::decode(body).is_ok_and(|(_, message)| says(message));
        times -= u32::from(is_lost);
        is_lost
    }));
}

fn listens(net: &Net) -> bool {
    net.endpoints[SLOW].listens()
}

#[test]
fn a_receiver_that_loses_much_leaves_the_group_and_comes_back_for_its_pass() {
    for policy in [Policy::Nak { poll: 64 }, Policy::Ack, Policy::Ring] {
        let mut net = begun(&BulkConfig { policy, ..config() });
        net.must(Duration::from_secs(60), |net| !listens(net));
        // What is on its way comes still.
        net.run(Duration::from_millis(5));
        let asked = net.endpoints[SLOW].counters().naks_sent;
        net.run(Duration::from_millis(50));
        assert_eq!(
            net.endpoints[SLOW].counters().naks_sent,
            asked,
            "{policy:?}"
        );
        net.must(Duration::from_secs(60), |net| {
            (1..8).all(|index| index == SLOW || net.has_stream(index, 0))
        });
        net.must(Duration::from_secs(60), Net::is_sent);
        assert!(listens(&net) && net.has_stream(SLOW, 0), "{policy:?}");
        assert_eq!(net.outcomes()[&member(SLOW)], Outcome::Complete);
        assert_eq!(net.endpoints[0].counters().stood_by, 1);
    }
}

#[test]
fn words_on_attendance_that_are_lost_are_said_again() {
    for attendance in [Attendance::StandsBy, Attendance::Attends] {
        let mut net = begun(&config());
        loses(&mut net, attendance, 6);
        net.must(Duration::from_secs(60), |net| {
            net.endpoints[0].counters().stood_by == 1
        });
        net.must(Duration::from_secs(60), Net::is_sent);
        assert!(listens(&net) && net.has_stream(SLOW, 0), "{attendance:?}");
        assert_eq!(net.outcomes()[&member(SLOW)], Outcome::Complete);
    }
}

#[test]
fn a_receiver_that_stands_by_stays_away_though_most_of_what_it_is_told_is_lost() {
    let config = BulkConfig {
        rto_max: Duration::from_millis(500),
        vanish_after: Duration::from_secs(2),
        ..config()
    };
    let mut net = begun(&config);
    net.must(Duration::from_secs(60), |net| !listens(net));
    let mut told = 0;
    net.loses = Some(Box::new(move |_: Time, to, body: &Bytes| {
        let is_told = |message| matches!(message, Message::Attend(_));
        let counts = to == SLOW && Message::decode(body).is_ok_and(|(_, message)| is_told(message));
        told += u32::from(counts);
        counts && !told.is_multiple_of(3)
    }));
    net.must(Duration::from_secs(60), |net| {
        let have_all = (1..8).all(|index| index == SLOW || net.has_stream(index, 0));
        assert!(have_all || !listens(net), "it looks in at {:?}", net.now);
        have_all
    });
    net.must(Duration::from_secs(60), Net::is_sent);
    assert_eq!(net.outcomes()[&member(SLOW)], Outcome::Complete);
}

#[test]
fn a_receiver_that_stands_by_hears_that_the_transfer_is_cancelled() {
    let mut net = begun(&config());
    net.must(Duration::from_secs(60), |net| !listens(net));
    net.loss[SLOW] = 0.0;
    let (now, id) = (net.now, net.id.expect("it was sent"));
    net.endpoints[0].cancel(now, id, "no more");
    net.must(Duration::from_millis(100), listens);
    let failure = Failure::Cancelled("no more".into());
    assert_eq!(
        net.notices[SLOW].last(),
        Some(&Notice::Failed { id, failure })
    );
}

#[test]
fn a_receiver_that_stands_by_and_whose_sender_is_gone_listens_again() {
    let mut net = begun(&config());
    net.must(Duration::from_secs(60), |net| !listens(net));
    net.cut[0] = true;
    // First it looks in: its sender may have begun anew.
    net.must(config().vanish_after * 3 / 4, listens);
    net.must(Duration::from_secs(1), |net| !listens(net));
    let id = net.id.expect("it was sent");
    let failed = Notice::Failed {
        id,
        failure: Failure::Lost,
    };
    let has_failed = |net: &Net| net.notices[SLOW].last() == Some(&failed);
    net.must(config().vanish_after, has_failed);
    assert!(listens(&net));
}

#[test]
fn a_receiver_that_stands_by_takes_what_another_member_announces() {
    let mut net = begun(&config());
    net.must(Duration::from_secs(60), |net| !listens(net));
    net.loss[SLOW] = 0.0;
    let now = net.now;
    let other = net.endpoints[8]
        .send(now, file(0, Wanted::Members([member(SLOW).node].into())))
        .expect("it can be sent");
    let is_complete = |net: &Net| {
        net.notices[8].iter().any(|notice| {
            matches!(notice, Notice::Settled { id, receiver, outcome: Outcome::Complete, .. }
                if *id == other && *receiver == member(SLOW))
        })
    };
    net.must(Duration::from_secs(2), is_complete);
    // It goes again, since the first transfer still has others to serve.
    net.must(Duration::from_secs(2), |net| !listens(net));
    assert!(!net.has_stream(1, 0), "the first transfer goes on");
    net.must(Duration::from_secs(60), Net::is_sent);
    assert!(net.has_stream(SLOW, 0));
}
