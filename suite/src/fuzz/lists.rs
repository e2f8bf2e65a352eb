//! S-expressions and CSTREAM: any bytes as either, whole and in pieces.
//!
//! Whatever comes: no panic. A list is converted into the other syntax and back without loss. The
//! end of a list is found, however its bytes are cut into pieces.

use groupcast_lmbl::{Balance, Limits, Syntax, check, convert};

/// Small enough that inputs meet them.
const LIMITS: Limits = Limits {
    depth: 12,
    items: 60,
    bytes: 2_000,
};

/// Reads `data` as a message; the first byte chooses how it begins.
pub fn lists(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let begin: &[u8] = match how % 3 {
        0 => b"(",
        1 => b"cs[",
        _ => b"",
    };
    let message = [begin, rest].concat();
    for limits in [LIMITS, Limits::default()] {
        for syntax in [Syntax::Sexp, Syntax::Cstream] {
            if check(syntax, &message, limits).is_ok() {
                there_and_back(syntax, &message);
            }
        }
    }
}

fn there_and_back(syntax: Syntax, message: &[u8]) {
    let limits = Limits::default();
    let other = match syntax {
        Syntax::Sexp => Syntax::Cstream,
        Syntax::Cstream => Syntax::Sexp,
    };
    let there = convert(syntax, message, limits).expect("what is a list is converted");
    assert_eq!(check(other, &there, limits), Ok(()), "and is one there");
    let back = convert(other, &there, limits).expect("and back");
    let again = convert(syntax, &back, limits).expect("and there again");
    assert_eq!(again, there, "as the same");
    match syntax {
        Syntax::Cstream => assert_eq!(back, message, "a CSTREAM has one form"),
        Syntax::Sexp => {
            let mut balance = Balance::new();
            let end = message
                .chunks(3)
                .enumerate()
                .find_map(|(index, piece)| balance.feed(piece).map(|at| index * 3 + at));
            let end = end.expect("a list has an end");
            assert_eq!(check(Syntax::Sexp, &message[..end], limits), Ok(()));
        }
    }
}
