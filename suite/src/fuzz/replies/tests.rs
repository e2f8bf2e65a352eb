//! Goal: scripts of the stage get somewhere, under every opening of a connection. Method: scripts
//! that are written by hand, and noise.

use groupcast_core::Rng;

use super::connections::{CONNECTION, CONNECTIONS};
use super::*;

/// Long enough for whatever is under way: datagrams are delivered as time goes on.
fn go_on() -> Vec<u8> {
    [0xf0, 5, 60, 0xf0, 5, 60, 0xf0].repeat(4)
}

/// Of each member the first and the last message of its connection.
fn given(stage: &FuzzStage) -> Vec<(u64, u64)> {
    let receivers = stage.given[1..].iter();
    let lasts = receivers.filter_map(|lives| lives.last());
    lasts.map(|given| (given.first, given.last)).collect()
}

/// Three messages.
const TALK: [u8; 9] = [0x1e, 7, 200, 0x1e, 8, 0, 0x2e, 9, 1];
/// Both members' users end their replies.
const END: [u8; 6] = [13, 0, 3, 13, 1, 0];

#[test]
fn scripts_end_in_whole_replies_and_in_none() {
    // Announced and registered, said by both, ended by both, run to the end.
    let say = [11, 0, 1, 200, 11, 1, 2, 9, 14, 0];
    let script = [&[9][..], &go_on(), &say, &go_on(), &END, &go_on()].concat();
    let stage = FuzzStage::after(&script);
    let told: Vec<usize> = stage.replies.values().map(|reply| reply.told).collect();
    assert_eq!(told, [1_601, 73]);
    assert!(stage.members[0].progress(stage.id).is_none(), "it is over");
    // Any bytes are a script.
    let mut rng = Rng::new(5);
    for _ in 0..300 {
        let noise: Vec<u8> = (0..300).map(|_| rng.below(256) as u8).collect();
        replies(&noise);
    }
}

#[test]
fn every_connection_carries_messages_to_its_end() {
    for index in 0..CONNECTIONS.len() as u8 {
        let choice = CONNECTION | index << 2 | 1;
        let script = [
            &[choice][..],
            &go_on(),
            &TALK,
            &go_on(),
            &END,
            &[0xdf],
            &go_on(),
        ];
        let stage = FuzzStage::after(&script.concat());
        assert_eq!(given(&stage), [(1, 3); 2], "{index}");
        assert!(stage.members[0].progress(stage.id).is_none(), "it is over");
    }
}

#[test]
fn a_member_joins_a_connection_that_runs() {
    // The second member does not hear the first announcement.
    let miss = [5, 0, 0x00, 7];
    let script = [&[CONNECTION | 5 << 2][..], &miss, &[0x00], &TALK];
    let rest = [&go_on()[..], &TALK, &go_on(), &[0xdf], &go_on()];
    let stage = FuzzStage::after(&[script.concat(), rest.concat()].concat());
    assert_eq!(given(&stage), [(1, 6), (4, 6)]);
    assert!(stage.members[0].progress(stage.id).is_none(), "it is over");
}
