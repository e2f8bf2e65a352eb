//! The exchanges that 004 draws: Figs. 3.1, 5.5, 5.6 and 5.8, and the tests that a request has to
//! pass.

use alloc::string::String;
use alloc::vec::Vec;

use groupcast_core::NodeId;

use super::super::round::RoundNumber;
use super::super::{GossipConfig, Variant};
use super::script::{Script, id, message};

/// Basic Pbcast that gossips with `partners` in rounds 1, 2 and so on.
fn paper(variant: Variant, partners: &str) -> GossipConfig {
    let rounds = partners.chars();
    GossipConfig {
        variant,
        partners: rounds
            .map(|name| alloc::vec![NodeId(u64::from(u32::from(name)))])
            .collect(),
        ..GossipConfig::paper()
    }
}

/// What was said but gossip.
fn without_gossip(script: &mut Script) -> Vec<String> {
    let mut said = script.said();
    said.retain(|line| !line.contains("gossip") && !line.contains("join"));
    said
}

#[test]
fn figure_3_1_a_member_that_misses_a_message_asks_whoever_gossips_of_it() {
    let mut script = Script::new("ABCDE", |who| {
        paper(
            Variant::Basic,
            match who {
                'A' => "E",
                'B' => "C",
                'C' => "A",
                'D' => "B",
                _ => "A",
            },
        )
    });
    script.arrives = alloc::boxed::Box::new(|_, to, what| {
        (to, what) != ('C', "data A1") && (to, what) != ('D', "data A2")
    });
    for text in ["M0", "M1", "M2"] {
        script.submit('A', text);
    }
    assert_eq!(script.told('C'), [""; 0]);
    script.said();
    script.round_of_all();
    assert_eq!(
        without_gossip(&mut script),
        ["C -> B: request 1 A1", "B -> C: repair A1"]
    );
    assert_eq!(script.told('C'), ["A1", "A2", "A3"]);
    // Nobody gossiped to D in this round.
    assert_eq!(script.told('D'), ["A1"]);
}

/// 004 Fig. 5.5 and 5.6: only B gets M1; who gossips with whom is given. A: C E, B: A C, C: D A, D:
/// B A, E: C D.
fn five_members(variant: Variant) -> (Vec<String>, Vec<String>, Vec<char>) {
    let mut script = Script::new("ABCDE", |who| {
        paper(
            variant,
            match who {
                'A' => "CE",
                'B' => "AC",
                'C' => "DA",
                'D' => "BA",
                _ => "CD",
            },
        )
    });
    script.arrives = alloc::boxed::Box::new(|_, to, what| to == 'B' || what != "data A1");
    script.submit('A', "M1");
    script.submit('A', "M2");
    script.said();
    // C gossips to D before the repair of M1 reaches it.
    for who in "CABDE".chars() {
        script.begin_round(who);
    }
    script.run();
    let first = without_gossip(&mut script);
    for who in "ABCDE".chars() {
        script.begin_round(who);
    }
    script.run();
    let second = without_gossip(&mut script);
    let complete = "ABCDE".chars();
    let complete = complete.filter(|who| script.members[who].holds(message('A', 1)));
    let complete = complete.collect();
    (first, second, complete)
}

#[test]
fn figure_5_5_basic_pbcast_leaves_one_member_for_a_later_round() {
    let (first, second, complete) = five_members(Variant::Basic);
    assert_eq!(first, ["C -> A: request 1 A1", "A -> C: repair A1"]);
    assert_eq!(second, ["E -> A: request 2 A1", "A -> E: repair A1"]);
    assert_eq!(complete, ['A', 'B', 'C', 'E']);
}

#[test]
fn figure_5_6_ipmc_multicasts_what_is_asked_for_twice() {
    let (first, second, complete) = five_members(Variant::Ipmc);
    assert_eq!(first, ["C -> A: request 1 A1", "A -> C: repair A1"]);
    assert_eq!(
        second,
        ["E -> A: request 2 A1", "A -> all: multicast repair A1"]
    );
    assert_eq!(complete, ['A', 'B', 'C', 'D', 'E']);
}

#[test]
fn grb_multicasts_what_another_member_repaired_too() {
    let partners = |who| match who {
        'A' => "CE",
        'B' => "DA",
        _ => "",
    };
    let mut script = Script::new("ABCDE", |who| GossipConfig {
        threshold: 100,
        ..paper(Variant::Grb, partners(who))
    });
    script.arrives = alloc::boxed::Box::new(|_, to, what| to == 'B' || what != "data A1");
    script.submit('A', "M1");
    script.submit('A', "M2");
    script.said();
    // Both repair M1 once, by unicast; then B's gossip tells A of its repair.
    script.round('A');
    script.round('B');
    script.round('B');
    script.round('A');
    assert_eq!(
        without_gossip(&mut script),
        [
            "C -> A: request 1 A1",
            "A -> C: repair A1",
            "D -> B: request 1 A1",
            "B -> D: repair A1",
            "E -> A: request 2 A1",
            "A -> all: multicast repair A1"
        ]
    );
}

#[test]
fn only_grb_says_in_its_digest_what_it_has_repaired() {
    for (variant, digest) in [(Variant::Ipmc, "A1..2"), (Variant::Grb, "A1..2 !1")] {
        let mut script = Script::new("AB", |who| {
            paper(variant, if who == 'A' { "BB" } else { "" })
        });
        script.arrives = alloc::boxed::Box::new(|_, _, what| what != "data A1");
        script.submit('A', "M1");
        script.submit('A', "M2");
        script.round('A');
        script.said();
        script.round('A');
        let said = script.said();
        assert!(said[0].ends_with(digest), "{variant:?}: {said:?}");
    }
}

#[test]
fn figure_5_8_a_neighbour_that_misses_it_too_asks_for_a_multicast() {
    // A is in one LAN, B and C in another; B and C miss M1.
    let mut script = Script::new("ABC", |who| GossipConfig {
        zone: u32::from(who != 'A'),
        ..paper(Variant::Local, if who == 'A' { "BB" } else { "AA" })
    });
    // The neighbours are known from joins.
    script.round_of_all();
    script.arrives = alloc::boxed::Box::new(|_, _, what| what != "data A1");
    script.submit('A', "M1");
    script.said();
    script.round('A');
    assert_eq!(
        without_gossip(&mut script),
        [
            "B -> A: request 2 A1",
            "B -> C: info A A1",
            "A -> B: repair A1",
            "C -> A: mcast A1",
            "A -> all: multicast repair A1"
        ]
    );
    assert_eq!(script.told('C'), ["A1"]);
}

#[test]
fn a_neighbour_that_has_it_stays_silent() {
    let mut script = Script::new("ABC", |who| GossipConfig {
        zone: u32::from(who != 'A'),
        ..paper(Variant::Local, if who == 'A' { "BB" } else { "AA" })
    });
    script.round_of_all();
    script.arrives = alloc::boxed::Box::new(|_, to, what| (to, what) != ('B', "data A1"));
    script.submit('A', "M1");
    script.said();
    script.round('A');
    assert_eq!(
        without_gossip(&mut script),
        [
            "B -> A: request 2 A1",
            "B -> C: info A A1",
            "A -> B: repair A1"
        ]
    );
}

#[test]
fn a_request_of_an_older_round_is_refused() {
    let mut script = Script::new("AB", |_| paper(Variant::Basic, "BBBB"));
    script.arrives = alloc::boxed::Box::new(|_, _, what| what != "data A1");
    script.submit('A', "M1");
    script.said();
    script.begin_round('A');
    let request = super::super::wire::Message::Request {
        round: RoundNumber(1),
        id: message('A', 1),
    };
    script.forge('B', 'A', &request);
    script.begin_round('A');
    script.forge('B', 'A', &request);
    let counters = script.member('A').counters();
    // One of the two gossips was answered in time, and one was forged in time.
    assert_eq!(counters.refused_round, 1);
    assert_eq!(script.member('B').counters().requests, 1);
}

#[test]
fn most_recent_first_and_no_more_than_the_limits() {
    let mut script = Script::new("AB", |who| GossipConfig {
        limit_requests: 3,
        limit_retrans: 2,
        ..paper(Variant::Basic, if who == 'A' { "B" } else { "" })
    });
    script.arrives = alloc::boxed::Box::new(|_, _, what| !what.starts_with("data"));
    for text in ["1", "2", "3", "4", "5"] {
        script.submit('A', text);
    }
    script.said();
    script.round('A');
    assert_eq!(
        without_gossip(&mut script),
        [
            "B -> A: request 1 A5",
            "B -> A: request 1 A4",
            "B -> A: request 1 A3",
            "A -> B: repair A5",
            "A -> B: repair A4"
        ]
    );
    assert_eq!(script.member('A').counters().refused_limit, 1);
}

#[test]
fn what_was_sent_there_in_this_round_or_the_last_is_not_sent_again() {
    let config = |cyclic| GossipConfig {
        cyclic,
        ..paper(Variant::Basic, "BBBB")
    };
    for (cyclic, repairs) in [(true, 1), (false, 2)] {
        let mut script = Script::new("AB", |_| config(cyclic));
        script.arrives = alloc::boxed::Box::new(|_, to, what| to == 'A' || what != "repair A1");
        script.arrives = {
            let mut arrives = script.arrives;
            alloc::boxed::Box::new(move |from, to, what| {
                what != "data A1" && arrives(from, to, what)
            })
        };
        script.submit('A', "M1");
        script.round('A');
        script.round('A');
        assert_eq!(script.member('A').counters().repairs, repairs);
        // Two rounds later it may have been lost.
        script.round('A');
        assert_eq!(script.member('A').counters().repairs, repairs + 1);
    }
}

#[test]
fn a_multicast_repair_counts_against_the_limit_unless_it_is_exempt() {
    for (exempt, multicasts) in [(false, 1), (true, 2)] {
        let mut script = Script::new("ABC", |_| GossipConfig {
            threshold: 1,
            limit_retrans: 1,
            multicast_exempt: exempt,
            ..paper(Variant::Ipmc, "")
        });
        script.arrives = alloc::boxed::Box::new(|_, _, what| !what.starts_with("data"));
        script.submit('A', "M1");
        script.submit('A', "M2");
        for number in [1, 2] {
            let ask = super::super::wire::Message::Request {
                round: RoundNumber(0),
                id: message('A', number),
            };
            script.forge('B', 'A', &ask);
        }
        let counters = script.member('A').counters();
        assert_eq!(counters.multicast_repairs, multicasts);
        assert_eq!(script.members[&'A'].view().next(), Some(id('B')));
    }
}
