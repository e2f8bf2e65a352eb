//! Several senders of one content at one receiver.

use super::*;

/// So much that half of it, at least, comes only when the disk has taken the rest.
pub(super) const LONG: usize = 16_000_000;

/// Both senders of `file` hear that this receiver has it, and it does.
fn both_are_complete(
    bed: &Bed,
    mut service: Service,
    mut told: Told,
    [mut first, mut second]: [Source; 2],
) {
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 2
    });
    assert_eq!(told.0, ["complete"; 2]);
    for mut source in [first, second] {
        let outcome = until_settled(&mut service, &mut source, &mut told);
        assert_eq!(outcome, Outcome::Complete);
    }
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LONG);
}

#[test]
fn two_senders_of_one_content_at_once_end_with_the_same_outcome() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut first = Source::of(&bed, &mut bed.file("file", LONG));
    until(&mut service, &mut [&mut first], &mut told, |it| {
        it.transfers.len() == 1
    });
    let second = Source::of(&bed, &mut bed.again("file"));
    both_are_complete(&bed, service, told, [first, second]);
}

#[test]
fn two_senders_of_one_content_are_both_told_that_the_receiver_is_stopped() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (service, first, second) = with_follower(&bed, &mut told);
    let stop = AtomicBool::new(true);
    service.run(&stop, &mut |event| told.take(&event)).unwrap();
    assert_eq!(told.0, ["failed: the receiver was stopped"; 2]);
    for source in [first, second] {
        let expected = Outcome::Failed("the receiver was stopped".into());
        assert_eq!(source.settle(), expected);
    }
}

/// A service that takes what `source` sends.
fn that_takes(bed: &Bed, told: &mut Told, source: &mut Source) -> Service {
    let mut service = bed.service(false, None);
    until(&mut service, &mut [source], told, |it| {
        it.transfers.len() == 1
    });
    service
}

/// A receiver of `file` with a slow disk, its first sender, and a second one that follows that.
pub(super) fn with_follower(bed: &Bed, told: &mut Told) -> (Service, Source, Source) {
    let first = Source::of(bed, &mut bed.file("file", LONG));
    with_follower_of(bed, told, first)
}

/// The same with this first sender of `file`.
fn with_follower_of(bed: &Bed, told: &mut Told, mut first: Source) -> (Service, Source, Source) {
    let mut service = that_takes(bed, told, &mut first);
    let mut second = Source::of(bed, &mut bed.again("file"));
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, told, |it| {
        it.followers.following() == 1
    });
    (service, first, second)
}

#[test]
fn a_sender_brings_the_rest_if_the_one_that_it_follows_is_stopped() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first, mut second) = with_follower(&bed, &mut told);
    let now = first.host.now();
    first.host.bulk().cancel(now, first.id, STOPPED);
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| it.totals.failed == 1);
    let outcome = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(told.0.len(), 2);
    assert_eq!(told.0[1], "complete");
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LONG);
}

#[test]
fn a_sender_brings_the_rest_if_the_one_that_it_follows_sends_a_damaged_chunk() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let mut files = bed.file("file", LONG);
    let mut stream = Source::stream(&mut files);
    // The last byte is one of the last chunk's hash.
    *stream.last_mut().unwrap() ^= 1;
    let first = Source::begin(&bed, files.content(), stream, "label");
    let (mut service, mut first, mut second) = with_follower_of(&bed, &mut told, first);
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete + it.totals.failed == 2
    });
    let (failed, complete) = told.0.split_first().unwrap();
    assert!(failed.contains("hash"), "{failed}");
    assert_eq!(complete, ["complete"]);
    let outcome = until_settled(&mut service, &mut first, &mut told);
    assert!(matches!(outcome, Outcome::Failed(reason) if reason.contains("hash")));
    let outcome = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(outcome, Outcome::Complete);
    let sent = fs::read(bed.scratch.path("file")).unwrap();
    assert!(fs::read(bed.out("file")).unwrap() == sent);
}

#[test]
fn who_follows_a_sender_that_is_killed_and_started_again_follows_the_new_one() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, first, mut second) = with_follower(&bed, &mut told);
    drop(first);
    let mut third = Source::of(&bed, &mut bed.again("file"));
    let sources = &mut [&mut second, &mut third];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete + it.totals.failed == 2
    });
    assert_eq!(told.0, ["complete"; 2]);
    for mut source in [second, third] {
        let outcome = until_settled(&mut service, &mut source, &mut told);
        assert_eq!(outcome, Outcome::Complete);
    }
}

#[test]
fn a_sender_that_brings_nothing_for_long_follows_the_one_that_follows_it() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, first, mut second) = with_follower(&bed, &mut told);
    let (former, next) = (first.id, second.id);
    service.followers.patience = Duration::from_millis(500);
    until(&mut service, &mut [&mut second], &mut told, |it| {
        it.transfers.contains_key(&next)
    });
    assert!(!service.transfers.contains_key(&former));
    service.followers.patience = Duration::from_secs(60);
    both_are_complete(&bed, service, told, [first, second]);
}

/// A sender of `file` that all are to put in place together, with such a number.
fn together(bed: &Bed, is_it: impl Fn(TransferId) -> bool) -> Source {
    let sources = std::iter::repeat_with(|| Source::together(bed, &mut bed.again("file")));
    let mut fitting = sources.filter(|source| is_it(source.id));
    fitting.next().unwrap()
}

/// A service that takes what such a sender sends.
fn with_one_together(bed: &Bed, told: &mut Told) -> (Service, Source) {
    bed.file("file", LONG);
    let mut first = together(bed, |_| true);
    (that_takes(bed, told, &mut first), first)
}

#[test]
fn a_sender_that_puts_in_place_together_takes_over_from_those_with_a_higher_number() {
    const LESS: usize = LONG / 4;
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LESS as u64 / 4, 0);
    let mut told = Told::default();
    let first = Source::of(&bed, &mut bed.file("file", LESS));
    let (mut service, mut first, mut second) = with_follower_of(&bed, &mut told, first);
    let mut third = together(&bed, |id| id < first.id);
    let sources = &mut [&mut first, &mut second, &mut third];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 1
    });
    assert_eq!(
        told.0,
        ["failed: the same content is sent anew", "complete"]
    );
    let outcome = until_settled(&mut service, &mut third, &mut told);
    assert_eq!(outcome, Outcome::Complete);
    for mut source in [first, second] {
        let outcome = until_settled(&mut service, &mut source, &mut told);
        let (Outcome::Failed(reason) | Outcome::Refused(reason)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(reason, "the same content is sent anew");
    }
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LESS);
}

#[test]
fn a_sender_that_puts_in_place_together_is_refused_beside_one_with_a_lower_number() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first) = with_one_together(&bed, &mut told);
    let mut second = together(&bed, |id| id > first.id);
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 1
    });
    let refused = "another sender sends the same content";
    assert_eq!(told.0, [format!("refused: {refused}"), "complete".into()]);
    let outcome = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(outcome, Outcome::Refused(refused.into()));
    let outcome = until_settled(&mut service, &mut first, &mut told);
    assert_eq!(outcome, Outcome::Complete);
}

#[test]
fn a_sender_that_puts_in_place_together_and_is_gone_takes_over_from_none() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first) = with_one_together(&bed, &mut told);
    // It is heard once.
    let mut second = together(&bed, |id| id < first.id);
    while service.followers.len() == 0 {
        first.turn();
        second.turn();
        service.turn(TURN, &mut |event| told.take(&event)).unwrap();
    }
    drop(second);
    let outcome = until_settled(&mut service, &mut first, &mut told);
    assert_eq!(outcome, Outcome::Complete, "{:?}", told.0);
}

/// What the second receiver of the same two senders does, which heard the other one first.
#[test]
fn a_sender_that_puts_in_place_together_takes_over_from_another_such_one_with_a_higher_number() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first) = with_one_together(&bed, &mut told);
    let mut second = together(&bed, |id| id < first.id);
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 1
    });
    let outcome = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(outcome, Outcome::Complete, "{:?}", told.0);
    let outcome = until_settled(&mut service, &mut first, &mut told);
    assert_eq!(
        outcome,
        Outcome::Failed("the same content is sent anew".into())
    );
}

#[test]
fn a_sender_that_puts_in_place_together_and_was_started_again_takes_over() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, first) = with_one_together(&bed, &mut told);
    let former = first.id;
    drop(first);
    let mut second = together(&bed, |id| id > former);
    let outcome = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(told.0, ["complete"]);
}

#[test]
fn a_sender_whose_files_are_looked_at_hears_that_they_are_sent_anew() {
    let bed = Bed::new();
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut files = bed.file("file", LEN);
    let content = content_id(files.manifest());
    // The disk's thread waits for that of a former transfer.
    let former = thread::spawn(|| thread::sleep(Duration::from_secs(2)));
    service.retired.push((Some(content), former));
    let mut first = Source::of(&bed, &mut files);
    until(&mut service, &mut [&mut first], &mut told, |it| {
        it.transfers.len() == 1
    });
    service.make_way(content);
    let outcome = until_settled(&mut service, &mut first, &mut told);
    let expected = Outcome::Refused("the same content is sent anew".into());
    assert_eq!(outcome, expected);
}

#[test]
fn another_sender_leads_if_the_next_one_is_gone_before_it_brings_anything() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first, mut second) = with_follower(&bed, &mut told);
    let mut third = Source::of(&bed, &mut bed.again("file"));
    let sources = &mut [&mut first, &mut second, &mut third];
    until(&mut service, sources, &mut told, |it| {
        it.followers.following() == 2
    });
    let now = first.host.now();
    first.host.bulk().cancel(now, first.id, STOPPED);
    let former = first.id;
    let sources = &mut [&mut first, &mut second, &mut third];
    until(&mut service, sources, &mut told, |it| {
        let mut transfers = it.transfers.iter();
        transfers.any(|(id, one)| *id != former && one.state == State::Preparing)
    });
    let (next, mut last) = match service.transfers.contains_key(&second.id) {
        true => (second, third),
        false => (third, second),
    };
    // It has told the protocol that it holds everything: that is what the protocol says when it is
    // not heard any more.
    service.ended_well(next.id, &mut |event| told.take(&event));
    drop(next);
    let outcome = until_settled(&mut service, &mut last, &mut told);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(told.0.len(), 3, "{:?}", told.0);
    assert_eq!(told.0[1], "failed: its sender is not heard any more");
    assert_eq!(told.0[2], "complete");
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LONG);
}

#[test]
fn a_sender_that_was_started_again_takes_over_from_the_one_that_was_killed() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut first = Source::of(&bed, &mut bed.file("file", LONG));
    until(&mut service, &mut [&mut first], &mut told, |it| {
        it.transfers.len() == 1
    });
    drop(first);
    let mut second = Source::of(&bed, &mut bed.again("file"));
    let outcome = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(told.0, ["complete"]);
}
