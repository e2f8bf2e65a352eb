//! Goal: what one member declares falsely in reformations is over when it is gone.
//! Method: a member that is real but for one field of its answers; hosts crash and come back, so
//! that there are reformations; then it is gone, and the others must take messages of all services.

use groupcast_protocols::rmp::FAMILY;

use super::honest;
use crate::insider::liar::{Lie, each_is_over, overwrite};

/// The kinds of messages that are false, and where their fields begin (`docs/rmp.md`).
const ANSWERS: [u8; 2] = [40, 54];
const CONFIGURATION: usize = 35;
const HIGH: usize = 65;
const MAX_N: usize = 93;
const PROPOSAL: [u8; 1] = [41];
const START: usize = 33;
const PROPOSED_MAX_N: usize = 41;
const LIST: [u8; 1] = [51];
const LISTED_MAX_N: usize = 65;

/// The last position that decodes.
const LAST: [u8; 6] = [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff];
/// As many members as there are indices.
const ALL: [u8; 2] = [0, 128];

/// The answer of a member that comes from a configuration of its own.
fn as_a_stranger(body: &mut [u8]) {
    overwrite(body, &ANSWERS, CONFIGURATION, &7_u64.to_be_bytes());
}

#[test]
fn a_false_max_n_is_over_when_its_teller_is_gone() {
    let lies: &[(&str, Lie)] = &[
        ("more than there are indices", |body| {
            overwrite(body, &ANSWERS, MAX_N, &[0xff; 2]);
        }),
        ("as many as there are indices", |body| {
            overwrite(body, &ANSWERS, MAX_N, &ALL);
        }),
        ("as many, as a stranger", |body| {
            as_a_stranger(body);
            overwrite(body, &ANSWERS, MAX_N, &ALL);
        }),
        ("as a proposer", |body| {
            overwrite(body, &PROPOSAL, PROPOSED_MAX_N, &ALL);
        }),
        ("in a list", |body| {
            overwrite(body, &LIST, LISTED_MAX_N, &ALL);
        }),
    ];
    each_is_over(honest, FAMILY.contract, lies);
}

#[test]
fn a_false_position_is_over_when_its_teller_is_gone() {
    let lies: &[(&str, Lie)] = &[
        ("the last that decodes", |body| {
            overwrite(body, &ANSWERS, HIGH, &LAST);
        }),
        ("the last that decodes, as a stranger", |body| {
            as_a_stranger(body);
            overwrite(body, &ANSWERS, HIGH, &LAST);
        }),
        ("as a proposer", |body| {
            overwrite(body, &PROPOSAL, START, &LAST);
        }),
    ];
    each_is_over(honest, FAMILY.contract, lies);
}
