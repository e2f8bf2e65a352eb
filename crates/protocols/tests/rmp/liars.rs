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
const PROPOSED_MAX_N: usize = 39;
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

/// The answer of a member that has passed a list behind the configuration that it comes from, and
/// is in an older one.
fn as_one_that_went_back(body: &mut [u8]) {
    const HEAD: usize = 97;
    let declared = if body.len() > HEAD { body[96] } else { 0 };
    if body[0] != ANSWERS[0] || declared < 3 {
        return;
    }
    // What it says of three members makes room for it, and for a byte of bits.
    let at = HEAD + 18 * usize::from(declared - 3);
    let held = body.len() - (HEAD + 18 * usize::from(declared)) + 1;
    body[0] = ANSWERS[1];
    body[96] -= 3;
    let from: [u8; 24] = body[CONFIGURATION..CONFIGURATION + 24]
        .try_into()
        .expect("it has this length");
    body[CONFIGURATION..CONFIGURATION + 8].fill(0);
    let mut aru = [0; 8];
    aru[2..].copy_from_slice(&body[HIGH - 6..HIGH]);
    let high = u64::from_be_bytes(aru) + 8 * held as u64;
    body[HIGH..HIGH + 6].copy_from_slice(&high.to_be_bytes()[2..]);
    body[at..at + 3].copy_from_slice(&[0, 3, 1]);
    body[at + 3..at + 27].copy_from_slice(&from);
    body[at + 27..at + 33].copy_from_slice(&aru[2..]);
    // Somebody else has left with it, and nobody sent anything before.
    body[at + 33..at + 35].copy_from_slice(&[0, 1]);
    body[at + 35..at + 51].fill(0xff);
    body[at + 51..at + 54].fill(0);
}

#[test]
fn a_list_that_was_not_passed_is_over_when_its_teller_is_gone() {
    let lies: &[(&str, Lie)] = &[("and an older configuration", as_one_that_went_back)];
    each_is_over(honest, FAMILY.contract, lies);
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
