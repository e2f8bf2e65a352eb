//! One stream on its own: holes, gaps, where it begins, and its window.

use alloc::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn put(stream: &mut Stream, number: u64, round: u64) -> Inserted {
    let round = RoundNumber(round);
    stream.insert(number, round, || Slot::new(Bytes::new(), round, true))
}

/// The same, from its sender.
fn arrive(stream: &mut Stream, number: u64, round: u64) -> Inserted {
    stream.came_from_sender(number, RoundNumber(round));
    put(stream, number, round)
}

fn drain(stream: &mut Stream) -> Vec<(u64, u64, bool)> {
    core::iter::from_fn(|| stream.next())
        .map(|next| match next {
            Next::Deliver(number, _) => (number, number, true),
            Next::Gap(first, last) => (first, last, false),
        })
        .collect()
}

#[test]
fn a_hole_waits_for_its_age_then_is_a_gap_in_its_place() {
    let mut stream = Stream::from(0, 64);
    put(&mut stream, 1, 0);
    put(&mut stream, 4, 0);
    assert_eq!(drain(&mut stream), [(1, 1, true)]);
    assert_eq!(stream.missing(1, 9).collect::<Vec<_>>(), [3, 2]);
    stream.give_up(RoundNumber(2), 2);
    assert_eq!(drain(&mut stream), []);
    stream.give_up(RoundNumber(3), 2);
    assert_eq!(drain(&mut stream), [(2, 3, false), (4, 4, true)]);
    assert_eq!(put(&mut stream, 2, 3), Inserted::Late);
}

#[test]
fn a_late_copy_fills_a_lost_hole_that_is_not_reported_yet() {
    let mut stream = Stream::from(0, 64);
    put(&mut stream, 2, 0);
    stream.claimed(4, 5, RoundNumber(5));
    stream.give_up(RoundNumber(6), 3);
    assert_eq!(put(&mut stream, 1, 6), Inserted::New);
    assert_eq!(drain(&mut stream), [(1, 1, true), (2, 2, true)]);
}

#[test]
fn a_claim_moves_the_stream_by_its_window_at_most() {
    let mut stream = Stream::from(0, 64);
    stream.claimed(1, u64::MAX, RoundNumber(0));
    assert_eq!(stream.missing(1, u64::MAX).count(), 64);
    let mut far = Stream::from(0, 64);
    far.claimed(1 << 40, 1 << 41, RoundNumber(0));
    assert_eq!(far.missing(1, u64::MAX).count(), 64);
    assert!(far.is_beyond(65) && !far.is_beyond(64));
}

#[test]
fn what_others_claim_beyond_a_senders_own_word_is_forgotten_unless_it_is_new() {
    let mut stream = Stream::from(0, 64);
    arrive(&mut stream, 2, 0);
    stream.claimed(1, 9, RoundNumber(0));
    put(&mut stream, 9, 0);
    stream.claimed(1, 12, RoundNumber(1));
    // Its own word from before it sent the second message.
    assert_eq!(stream.described(1, RoundNumber(9)).len(), 0);
    assert_eq!(stream.high, 12);
    // The message was named too long ago, and what is missing is so since the last claim.
    assert_eq!(stream.described(5, RoundNumber(3)).len(), 1);
    assert_eq!((stream.high, stream.holes.len()), (12, 3));
    assert_eq!(stream.missing(6, 99).count(), 7);
    assert_eq!(stream.described(5, RoundNumber(4)).len(), 0);
    assert_eq!(stream.missing(1, 99).collect::<Vec<_>>(), [5, 4, 3, 1]);
    stream.give_up(RoundNumber(9), 3);
    assert_eq!(
        drain(&mut stream),
        [(1, 1, false), (2, 2, true), (3, 5, false)]
    );
    assert_eq!(put(&mut stream, 6, 9), Inserted::New);
    assert_eq!(drain(&mut stream), [(6, 6, true)]);
}

#[test]
fn a_stream_of_which_nothing_was_told_begins_anew_where_its_sender_says() {
    let claimed = || {
        let mut stream = Stream::met_at(1000, 999, RoundNumber(0), 64);
        put(&mut stream, 1000, 0);
        stream
    };
    let mut stream = claimed();
    assert_eq!(stream.described(5, RoundNumber(0)).len(), 1);
    arrive(&mut stream, 6, 0);
    assert_eq!(drain(&mut stream), [(6, 6, true)]);
    let mut stream = claimed();
    assert_eq!(arrive(&mut stream, 6, 0), Inserted::New);
    stream.close();
    assert_eq!(drain(&mut stream), [(6, 6, true)]);
    // What was told cannot be taken back.
    let mut stream = claimed();
    stream.close();
    assert_eq!(drain(&mut stream), [(1000, 1000, true)]);
    assert_eq!(arrive(&mut stream, 6, 0), Inserted::Late);
}

#[test]
fn what_another_has_repaired_is_looked_for_among_what_is_held() {
    let mut stream = Stream::from(0, 8192);
    for number in 1..=5 {
        put(&mut stream, number * 10, 0);
    }
    let mut run = Run::of(1, 500_000);
    (1..=500_000).for_each(|number| run.set_repaired(number));
    assert_eq!(stream.flag(&run), 5);
    let mut run = Run::of(15, 45);
    run.set_repaired(30);
    assert_eq!(stream.flag(&run), 2, "30 and 40");
    let flagged = stream.slots().map(|(_, slot)| slot.flagged);
    assert_eq!(flagged.collect::<Vec<_>>(), [1, 1, 2, 1, 1]);
}

#[test]
fn a_message_beyond_the_window_leaves_the_old_ones_behind() {
    let mut stream = Stream::from(0, 64);
    put(&mut stream, 2, 0);
    put(&mut stream, 1000, 0);
    assert_eq!(
        drain(&mut stream),
        [(1, 1, false), (2, 2, true), (3, 936, false)]
    );
    assert_eq!(stream.missing(1, 2000).count(), 63);
}

#[test]
fn a_stream_met_in_its_middle_begins_where_the_first_digest_says() {
    let mut stream = Stream::met_at(10, 9, RoundNumber(3), 64);
    put(&mut stream, 10, 3);
    assert_eq!(drain(&mut stream), []);
    stream.claimed(8, 10, RoundNumber(4));
    stream.close();
    assert_eq!(stream.missing(1, 20).collect::<Vec<_>>(), [9, 8]);
    put(&mut stream, 8, 4);
    assert_eq!(drain(&mut stream), [(8, 8, true)]);
    assert_eq!(put(&mut stream, 7, 4), Inserted::Late);
}

#[test]
fn what_is_lost_before_the_first_delivery_of_a_stream_met_in_its_middle_is_no_gap() {
    let met = |arrived: &[u64]| {
        let mut stream = Stream::met_at(10, 9, RoundNumber(0), 64);
        stream.claimed(5, 12, RoundNumber(0));
        stream.close();
        for number in arrived {
            put(&mut stream, *number, 0);
        }
        stream.give_up(RoundNumber(9), 3);
        drain(&mut stream)
    };
    let gaps = [(7, 7, true), (8, 8, false), (9, 9, true), (10, 12, false)];
    assert_eq!(met(&[7, 9]), gaps);
    assert_eq!(met(&[12]), [(10, 11, false), (12, 12, true)]);
}

#[test]
fn a_description_from_before_the_first_arrival_settles_where_the_stream_begins() {
    let mut stream = Stream::met_at(2, 1, RoundNumber(0), 64);
    put(&mut stream, 2, 0);
    stream.described(0, RoundNumber(0));
    assert_eq!(drain(&mut stream), []);
    assert_eq!(stream.missing(1, 9).collect::<Vec<_>>(), [1]);
    stream.give_up(RoundNumber(9), 3);
    assert_eq!(drain(&mut stream), [(1, 1, false), (2, 2, true)]);
    // From before all that the window can hold: the rest of it is given up at once.
    let mut far = Stream::met_at(100, 99, RoundNumber(0), 64);
    arrive(&mut far, 100, 0);
    far.described(3, RoundNumber(0));
    assert_eq!(drain(&mut far), [(4, 36, false)]);
    assert_eq!(far.missing(1, 200).count(), 63);
}

#[test]
fn what_the_window_left_behind_stays_given_up_when_the_sender_denies_what_came() {
    let mut stream = Stream::met_at(2, 1, RoundNumber(0), 16);
    arrive(&mut stream, 2, 0);
    put(&mut stream, 25, 0);
    // By now the first are no longer new; the window leaves 3 to 25 behind.
    put(&mut stream, 41, 3);
    stream.described(2, RoundNumber(3));
    assert_eq!(stream.missing(3, 25).count(), 23);
    stream.close();
    assert_eq!(drain(&mut stream), [(2, 2, true), (3, 25, false)]);
}

proptest! {
    /// The same where the stream is met in its middle and its sender says of itself what it
    /// likes.
    #[test]
    fn a_stream_met_in_its_middle_is_told_once_and_in_order(
        met in 1u64..40, steps in prop::collection::vec((1u64..80, 0u8..6), 1..100)
    ) {
        let mut stream = Stream::met_at(met, met - 1, RoundNumber(0), 16);
        put(&mut stream, met, 0);
        let (mut round, mut next) = (0, None);
        for (number, what) in steps {
            match what {
                0 => { round += 1; stream.give_up(RoundNumber(round), 3); }
                1 => stream.claimed(number, number + 2, RoundNumber(round)),
                2 => drop(stream.described(number - 1, RoundNumber(round))),
                3 if number < 8 => stream.close(),
                4 => { arrive(&mut stream, number, round); }
                _ => { put(&mut stream, number, round); }
            }
            for (first, last, _) in drain(&mut stream) {
                prop_assert!(first <= last && next.is_none_or(|next| first == next));
                next = Some(last + 1);
            }
            prop_assert!(stream.high - stream.done <= 16 || stream.open.is_some());
        }
    }

    /// Whatever arrives in whatever order: every number is delivered or reported, once, in
    /// order.
    #[test]
    fn every_number_is_delivered_or_reported_once_and_in_order(
        steps in prop::collection::vec((1u64..40, 0u8..4), 1..100)
    ) {
        let mut stream = Stream::from(0, 64);
        let (mut round, mut told, mut arrived) = (0, Vec::new(), BTreeSet::new());
        let mut high = 0;
        for (number, what) in steps {
            match what {
                0 => { round += 1; stream.give_up(RoundNumber(round), 3); }
                1 => { stream.claimed(number, number + 2, RoundNumber(round)); high = high.max(number + 2); }
                _ => {
                    high = high.max(number);
                    if put(&mut stream, number, round) == Inserted::New {
                        prop_assert!(arrived.insert(number));
                    }
                }
            }
            told.extend(drain(&mut stream));
            stream.retain(|_, _, _| true);
        }
        stream.give_up(RoundNumber(round + 10), 3);
        told.extend(drain(&mut stream));
        let mut next = 1;
        for (first, last, delivered) in told {
            prop_assert_eq!(first, next);
            prop_assert!((first..=last).all(|number| arrived.contains(&number) == delivered));
            next = last + 1;
        }
        prop_assert_eq!(next, high + 1);
    }
}
