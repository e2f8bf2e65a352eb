use groupcast_core::{Incarnation, NodeId};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const ALL: Wanted = Wanted {
    answers: 0,
    within: Duration::from_secs(3600),
};

fn party(client: u64) -> Party {
    Party {
        daemon: MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        },
        client,
    }
}

fn members(count: usize) -> Vec<Party> {
    (0..count as u64).map(party).collect()
}

/// A guest asks this many members; why it may not.
fn ask(open: &mut Open, key: Key, asked: usize) -> Result<(), &'static str> {
    open.begin(Time::ZERO, key, key.0.0, ALL, asked)?;
    open.place(key, "g".into(), members(asked));
    Ok(())
}

fn endings(open: &mut Open) -> Vec<(u64, Ending)> {
    let ended = open.effects.drain(..).filter_map(|effect| match effect {
        Effect::Ended { number, ending, .. } => Some((number, ending)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn what_is_open_is_bounded_by_the_answers_that_it_waits_for() {
    let mut open = Open::default();
    const ASKED: usize = 4_095;
    let each = ASKED + 1;
    let of_one = AWAITED_PER_GUEST_MAX / each;
    let guests = AWAITED_MAX / AWAITED_PER_GUEST_MAX;
    for guest in 0..guests as u64 {
        for number in 0..of_one as u64 {
            let key = (GuestId(guest), number);
            assert_eq!(ask(&mut open, key, ASKED), Ok(()));
        }
        let key = (GuestId(guest), 1_000);
        assert_eq!(ask(&mut open, key, ASKED), Err(GUEST_AWAITS));
    }
    let next = (GuestId(1_000), 1);
    assert_eq!(ask(&mut open, next, ASKED), Err(ALL_AWAIT));
    assert_eq!(endings(&mut open), []);
    // What ends makes room, whatever ends it.
    open.end((GuestId(0), 0), Ending::Short);
    assert_eq!(ask(&mut open, next, ASKED), Ok(()));
    let late = Time::ZERO + ALL.within + SECOND;
    while open.next_deadline().is_some() {
        open.handle_timeout(late);
    }
    assert_eq!(endings(&mut open).len(), guests * of_one + 1);
    assert_eq!((open.weight, open.guests.len()), (0, 0));
    assert!(open.awaited.is_empty() && open.requests.is_empty());
}

/// Ten guests with as many open requests as they may have, which ask one member.
fn crowd() -> (Open, usize) {
    let mut open = Open::default();
    for guest in 0..10 {
        for number in 0..OPEN_MAX as u64 {
            ask(&mut open, (GuestId(guest), number), 1).unwrap();
        }
    }
    open.effects.clear();
    (open, 10 * OPEN_MAX)
}

/// How many requests end in each call until none has to.
fn parts(open: &mut Open, now: Time) -> Vec<usize> {
    let mut parts = Vec::new();
    while open.next_deadline().is_some_and(|due| due <= now) {
        open.handle_timeout(now);
        parts.push(endings(open).len());
    }
    parts
}

#[test]
fn very_many_requests_whose_time_is_up_together_end_in_parts() {
    let (mut open, all) = crowd();
    assert!(parts(&mut open, Time::ZERO + SECOND).is_empty());
    let parts = parts(&mut open, Time::ZERO + ALL.within);
    assert!(parts.iter().all(|ended| *ended <= END_AT_ONCE), "{parts:?}");
    assert_eq!(parts.iter().sum::<usize>(), all);
    assert!(open.awaited.is_empty() && open.requests.is_empty());
}

#[test]
fn very_many_requests_to_a_member_that_goes_end_in_parts_and_it_answers_none_of_them() {
    let (mut open, all) = crowd();
    open.member_gone(party(0), Some("g"));
    let mut ended = vec![endings(&mut open).len()];
    // It comes back, and is asked once more.
    let last = (GuestId(9), OPEN_MAX as u64 - 1);
    let again = (GuestId(10), 1);
    ask(&mut open, again, 1).unwrap();
    open.effects.clear();
    for key in [last, again] {
        open.answer(key, party(0), "al@h".into(), Bytes::new());
    }
    assert_eq!(endings(&mut open), [(1, Ending::Complete)]);
    ended.extend(parts(&mut open, Time::ZERO));
    assert!(ended.iter().all(|ended| *ended <= END_AT_ONCE), "{ended:?}");
    assert_eq!(ended.iter().sum::<usize>(), all);
    assert!(open.awaited.is_empty() && open.requests.is_empty());
}

/// A guest may use a number again of which its daemon knows nothing any more.
#[test]
fn a_request_that_came_after_a_member_had_gone_waits_for_it() {
    let (mut open, _) = crowd();
    open.member_gone(party(0), Some("g"));
    let last = (GuestId(9), OPEN_MAX as u64 - 1);
    open.end(last, Ending::TimedOut);
    ask(&mut open, last, 1).unwrap();
    open.effects.clear();
    parts(&mut open, Time::ZERO);
    assert!(open.contains(last));
    open.answer(last, party(0), "al@h".into(), Bytes::new());
    assert_eq!(endings(&mut open), [(last.1, Ending::Complete)]);
}

#[test]
fn members_that_come_between_make_nobody_exceed_the_bound() {
    let mut open = Open::default();
    let key = (GuestId(1), 1);
    open.begin(Time::ZERO, key, 1, ALL, 0).unwrap();
    open.place(key, "g".into(), members(AWAITED_PER_GUEST_MAX));
    assert_eq!(endings(&mut open), [(1, Ending::Unknown)]);
    assert!(open.awaited.is_empty() && open.requests.is_empty());
    assert_eq!(open.weight, 0);
}

#[test]
fn requests_of_a_connection_that_is_gone_are_those_of_the_guests_other_one() {
    let mut open = Open::default();
    let guest = GuestId(1);
    for client in [7, 8] {
        open.guest_came(guest, client);
    }
    for (number, client) in [(1, 7), (2, 8)] {
        open.begin(Time::ZERO, (guest, number), client, ALL, 1)
            .unwrap();
        open.place((guest, number), "g".into(), members(1));
    }
    open.guest_gone(Time::ZERO, guest, 7);
    assert!(open.away.is_empty(), "it is here");
    for other in 100..200 {
        let other = GuestId(other);
        open.guest_came(other, other.0);
        ask(&mut open, (other, 1), 1).unwrap();
        open.guest_gone(Time::ZERO, other, other.0);
    }
    assert_eq!(open.away.len(), AWAY_MAX);
    open.effects.clear();
    for number in [1, 2] {
        let (from, payload) = ("al@h".into(), Bytes::new());
        open.answer((guest, number), party(0), from, payload);
    }
    let ends = [(1, Ending::Complete), (2, Ending::Complete)];
    assert_eq!(endings(&mut open), ends);
    open.guest_gone(Time::ZERO, guest, 8);
    let away = (100..200).map(GuestId).skip(100 - AWAY_MAX);
    assert!(away.eq(open.away.iter().copied()));
    assert_eq!(open.guests.len(), AWAY_MAX);
}

/// Where a connection takes up some of its guest's requests, the others still count as waiting.
#[test]
fn of_guests_that_are_away_no_more_is_kept_whatever_they_asked_between() {
    let mut open = Open::default();
    for guest in 0..2 * AWAY_MAX as u64 {
        let guest = GuestId(guest);
        open.guest_came(guest, 1);
        for number in [1, 2] {
            open.begin(Time::ZERO, (guest, number), 1, ALL, 1).unwrap();
            open.place((guest, number), "g".into(), members(1));
        }
        open.guest_gone(Time::ZERO, guest, 1);
        open.guest_came(guest, 2);
        open.begin(Time::ZERO, (guest, 2), 2, ALL, 1).unwrap();
        open.end((guest, 2), Ending::Short);
        open.guest_gone(Time::ZERO, guest, 2);
    }
    assert_eq!(open.away.len(), AWAY_MAX);
    assert_eq!(open.requests.len(), AWAY_MAX);
    // Requests that a connection has are nobody's to erase, though others of its guest wait.
    let guest = open.away[0];
    open.guest_came(guest, 3);
    open.begin(Time::ZERO, (guest, 3), 3, ALL, 1).unwrap();
    for other in 1_000..1_000 + AWAY_MAX as u64 {
        let other = GuestId(other);
        open.guest_came(other, 1);
        open.begin(Time::ZERO, (other, 1), 1, ALL, 1).unwrap();
        open.guest_gone(Time::ZERO, other, 1);
    }
    assert!(!open.contains((guest, 1)));
    assert!(open.contains((guest, 3)));
}

#[test]
fn a_guest_that_was_away_gets_as_many_answers_as_it_wants_and_no_more() {
    let mut open = Open::default();
    let (guest, wanted) = (GuestId(1), Wanted { answers: 1, ..ALL });
    let key = (guest, 1);
    open.guest_came(guest, 1);
    open.begin(Time::ZERO, key, 1, wanted, 3).unwrap();
    open.place(key, "g".into(), members(3));
    open.guest_gone(Time::ZERO, guest, 1);
    for member in members(3) {
        open.answer(key, member, "m@h".into(), Bytes::from_static(b"yes"));
    }
    open.effects.clear();
    open.guest_came(guest, 2);
    open.begin(Time::ZERO, key, 2, wanted, 3).unwrap();
    let answers = open
        .effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Answer { .. }));
    assert_eq!(answers.count(), 1);
    let end = open.effects.back();
    let is_end = |effect: &Effect| {
        matches!(
            effect,
            Effect::Ended {
                ending: Ending::Complete,
                answers: 1,
                ..
            }
        )
    };
    assert!(end.is_some_and(is_end), "{end:?}");
}

/// A ring is left and joined again while its guests have as many requests as they may.
#[test]
fn very_many_requests_of_a_former_life_end_in_parts_and_no_answer_to_them_counts() {
    let (mut open, all) = crowd();
    let waits = (GuestId(20), 1);
    open.begin(Time::ZERO, waits, 20, ALL, 1).unwrap();
    // One is placed, and one was handed to the order and has not come back.
    let (placed, under_way) = ((GuestId(9), OPEN_MAX as u64 - 1), (GuestId(21), 1));
    open.begin(Time::ZERO, under_way, 21, ALL, 1).unwrap();
    open.begin_anew([waits, placed]);
    let mut ended = vec![endings(&mut open).len()];
    for key in [placed, under_way] {
        assert!(!open.contains(key) && !open.is_placed(key), "{key:?}");
        open.answer(key, party(0), "al@h".into(), Bytes::new());
        open.place(key, "g".into(), members(1));
    }
    assert!(open.effects.is_empty(), "{:?}", open.effects);
    // Its guest asks again: the end comes before that.
    ask(&mut open, placed, 1).unwrap();
    assert_eq!(endings(&mut open), [(placed.1, Ending::Unknown)]);
    open.place(waits, "g".into(), members(1));
    ended.extend(parts(&mut open, Time::ZERO));
    assert!(ended.iter().all(|ended| *ended <= END_AT_ONCE), "{ended:?}");
    assert_eq!(ended.iter().sum::<usize>(), all);
    open.answer(waits, party(0), "al@h".into(), Bytes::new());
    open.answer(placed, party(0), "al@h".into(), Bytes::new());
    let complete = [(waits.1, Ending::Complete), (placed.1, Ending::Complete)];
    assert_eq!(endings(&mut open), complete);
    assert!(open.awaited.is_empty() && open.requests.is_empty());
    assert_eq!(open.next_deadline(), None);
}
