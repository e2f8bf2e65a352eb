//! What the senders of transfers that followed another one hear of a receiver that is stopped.

use super::followers::{LONG, with_follower};
use super::*;

/// Runs a receiver that is told to stop, while `deaf` hears nothing at first; then what `deaf` is
/// told.
fn stopped(mut service: Service, other: &mut Source, mut deaf: Source, told: &mut Told) -> Outcome {
    service.give_up(&mut |event| told.take(&event));
    deaf.host.set_deaf(true);
    for _ in 0..20 {
        service.turn(TURN, &mut |event| told.take(&event)).unwrap();
        other.turn();
        deaf.turn();
    }
    deaf.host.set_deaf(false);
    let begun = Instant::now();
    let sources = &mut [other, &mut deaf];
    until(&mut service, sources, told, Service::is_over);
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(service);
    deaf.settle()
}

#[test]
fn the_outcome_of_a_transfer_that_followed_may_be_lost_once() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first, mut second) = with_follower(&bed, &mut told);
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 2
    });
    let outcome = stopped(service, &mut first, second, &mut told);
    assert_eq!(outcome, Outcome::Complete, "{:?}", told.0);
}

/// The sender waits for one more receiver, which comes only when this one has gone.
#[test]
fn a_transfer_that_followed_and_has_not_begun_is_complete_after_its_receiver_has_gone() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let mut service = bed.service(false, None);
    let mut first = Source::of(&bed, &mut bed.file("file", LONG));
    until(&mut service, &mut [&mut first], &mut told, |it| {
        it.transfers.len() == 1
    });
    let mut second = Source::of_but(&bed, &mut bed.again("file"), |transfer| {
        transfer.receivers = Wanted::Count(2);
    });
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 2
    });
    service.give_up(&mut |event| told.take(&event));
    let sources = &mut [&mut first, &mut second];
    until(&mut service, sources, &mut told, Service::is_over);
    drop(service);
    let now = second.host.now();
    second.host.bulk().begin(now, second.id);
    assert_eq!(second.settle(), Outcome::Complete, "{:?}", told.0);
}
