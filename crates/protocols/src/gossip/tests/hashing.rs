//! Who keeps a message and who answers for it: 004 Figs. 7.1 and 7.3, and the shared gaps of 7.4.

use alloc::boxed::Box;
use alloc::vec::Vec;

use groupcast_core::{MemberId, MessageId, NodeId};

use super::super::{GossipConfig, HashConfig, HashPlace, Variant};
use super::script::{Script, message};

/// The twelve values that are printed beside 004 Fig. 7.1, in tenths: the members are A, B, C and
/// D; M1 is the first message of A, M2 the first of C, M3 the second of A.
fn printed(id: MessageId, member: MemberId) -> u32 {
    let row: [u32; 4] = match (id.sender.node.0, id.number) {
        (65, 1) => [2, 8, 3, 9],
        (67, 1) => [5, 4, 6, 1],
        _ => [8, 2, 4, 7],
    };
    let tenths = row[(member.node.0 - 65) as usize];
    (u64::from(tenths) * (1 << 32) / 10) as u32
}

fn config(partners: &str, hash: HashConfig) -> GossipConfig {
    GossipConfig {
        variant: Variant::Ipmc,
        hash: Some(hash),
        partners: partners
            .chars()
            .map(|name| alloc::vec![NodeId(u64::from(u32::from(name)))])
            .collect(),
        ..GossipConfig::paper()
    }
}

fn figure_7_1() -> HashConfig {
    HashConfig {
        bufferers: 1,
        short_term: 0,
        place: HashPlace::Given(printed),
        ask_bufferers: false,
        gaps: false,
    }
}

/// The four members of Fig. 7.1 after M1, M2 and M3; A misses M2. B gossips to A.
fn stage(hash: &HashConfig) -> Script {
    let mut script = Script::new("ABCD", |who| {
        config(if who == 'B' { "A" } else { "" }, hash.clone())
    });
    script.arrives = Box::new(|_, to, what| (to, what) != ('A', "data C1"));
    script.submit('A', "M1");
    script.submit('C', "M2");
    script.submit('A', "M3");
    script.said();
    script
}

fn after_gossip(script: &mut Script) -> Vec<alloc::string::String> {
    script.round('B');
    let mut said = script.said();
    said.retain(|line| !line.contains("gossip"));
    said
}

#[test]
fn figure_7_1_each_message_is_kept_where_the_hash_says() {
    let script = stage(&figure_7_1());
    let keepers = |id: MessageId| -> Vec<char> {
        let members = script.members.iter();
        members
            .filter(|(_, member)| member.holds(id))
            .map(|(name, _)| *name)
            .collect()
    };
    assert_eq!(keepers(message('A', 1)), ['A']);
    assert_eq!(keepers(message('C', 1)), ['D']);
    assert_eq!(keepers(message('A', 2)), ['B']);
}

#[test]
fn figure_7_3_who_is_asked_for_what_it_does_not_keep_asks_a_bufferer_for_the_other() {
    let mut script = stage(&figure_7_1());
    assert_eq!(
        after_gossip(&mut script),
        [
            "A -> B: request 1 C1",
            "B -> D: special request for A C1",
            "D -> A: repair C1"
        ]
    );
    assert_eq!(script.told('A'), ["A1", "A2", "C1"]);
}

#[test]
fn figure_7_1_who_misses_a_message_may_ask_a_bufferer_at_once() {
    let mut script = stage(&HashConfig {
        ask_bufferers: true,
        ..figure_7_1()
    });
    assert_eq!(
        after_gossip(&mut script),
        ["A -> D: special request for A C1", "D -> A: repair C1"]
    );
}

#[test]
fn the_short_term_buffer_answers_while_it_lasts() {
    let mut script = stage(&HashConfig {
        short_term: 3,
        ..figure_7_1()
    });
    assert_eq!(
        after_gossip(&mut script),
        ["A -> B: request 1 C1", "B -> A: repair C1"]
    );
    for _ in 0..2 {
        script.round('B');
    }
    assert!(!script.members[&'B'].holds(message('C', 1)));
    assert!(script.members[&'B'].holds(message('A', 2)));
}

#[test]
fn two_that_share_a_gap_ask_the_source_for_a_multicast() {
    let mut script = Script::new("ABCD", |who| {
        config(
            if who == 'B' { "C" } else { "" },
            HashConfig {
                gaps: true,
                short_term: 3,
                ..figure_7_1()
            },
        )
    });
    script.submit('A', "M0");
    script.arrives = Box::new(|_, _, what| what != "data A2");
    script.submit('A', "M1");
    script.submit('A', "M2");
    script.said();
    assert_eq!(
        after_gossip(&mut script),
        [
            "C -> A: multicast request A2",
            "A -> all: multicast repair A2"
        ]
    );
    for who in ['B', 'C', 'D'] {
        assert_eq!(script.told(who), ["A1", "A2", "A3"]);
    }
}
