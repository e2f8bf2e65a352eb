//! Random members.

use super::*;
use crate::topology::{DrawError, draw};

proptest! {
    #[test]
    fn as_many_as_were_asked_for_are_drawn_in_order(seed: u64, size in 0..60u32, fixed in 0..60u32, count in 0..70usize) {
        let all: Vec<_> = (0..size).collect();
        let include: Vec<_> = (0..fixed.min(size)).rev().map(|it| it * 7 % size).collect();
        let mut distinct = include.clone();
        distinct.sort_unstable();
        distinct.dedup();
        match draw(&all, &include, count, &mut Rng::new(seed)) {
            Ok(drawn) => {
                prop_assert_eq!(drawn.len(), count);
                prop_assert!(drawn.is_sorted_by(|a, b| a < b));
                prop_assert!(drawn.iter().all(|it| *it < size));
                prop_assert!(include.iter().all(|it| drawn.contains(it)));
            }
            Err(DrawError::TooMany { all, .. }) => prop_assert!(count > all),
            Err(DrawError::TooFew { include, .. }) => {
                prop_assert_eq!(include, distinct.len());
                prop_assert!(count < include);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn a_larger_draw_adds_to_a_smaller_one() {
    let all: Vec<_> = (0..1_000).collect();
    let drawn = |count| draw(&all, &[500], count, &mut Rng::new(3)).unwrap();
    let (few, many) = (drawn(20), drawn(80));
    assert!(few.iter().all(|it| many.contains(it)));
    assert_eq!(drawn(1_000), all);
    assert_eq!(drawn(1), [500]);
}

/// Each of 10 is among 3 in 10 of 10,000 draws, with a standard deviation of 46.
#[test]
fn all_are_equally_likely() {
    let all: Vec<_> = (0..10usize).collect();
    let mut rng = Rng::new(5);
    let mut counts = [0i32; 10];
    for _ in 0..10_000 {
        for one in draw(&all, &[], 3, &mut rng).unwrap() {
            counts[one] += 1;
        }
    }
    assert!(
        counts.iter().all(|count| (count - 3_000).abs() < 230),
        "{counts:?}"
    );
}

#[test]
fn what_cannot_be_drawn_is_refused_with_the_reason() {
    let say = |include: &[u32], count| {
        let drawn = draw(&[1, 2, 2, 3], include, count, &mut Rng::new(1));
        drawn.unwrap_err().to_string()
    };
    assert_eq!(say(&[], 4), "4 are to be drawn, but there are only 3");
    assert_eq!(
        say(&[1, 2], 1),
        "1 are to be drawn, but 2 are to be among them"
    );
    assert_eq!(
        say(&[9], 2),
        "one that is to be included is not among those to draw from"
    );
}
