//! Senders that cannot go back in the stream, as relays: what a receiver says to hold they release.

use super::followers::LONG;
use super::*;

/// A sender of `files` that sends no byte twice once it is released.
fn that_cannot_go_back(bed: &Bed, files: &mut Files) -> Source {
    Source::of_but(bed, files, |transfer| transfer.rewindable = false)
}

/// The first of two senders is stopped when the other one follows it, or has taken over.
#[test]
fn a_receiver_of_two_senders_of_which_one_cannot_go_back_gets_all_of_the_later_one() {
    type Begin = fn(&Bed, &mut Files) -> Source;
    let relays: [[Begin; 2]; 3] = [
        [that_cannot_go_back, that_cannot_go_back],
        [that_cannot_go_back, Source::of],
        [Source::of, that_cannot_go_back],
    ];
    for begin in relays {
        let bed = Bed::new();
        let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
        let mut service = bed.service(false, None);
        let mut told = Told::default();
        let mut first = begin[0](&bed, &mut bed.file("file", LONG));
        until(&mut service, &mut [&mut first], &mut told, |it| {
            it.transfers.len() == 1
        });
        let mut second = begin[1](&bed, &mut bed.again("file"));
        let (former, next) = (first.id, second.id);
        let sources = &mut [&mut first, &mut second];
        until(&mut service, sources, &mut told, |it| {
            it.followers.following() == 1 || it.transfers.contains_key(&next)
        });
        assert_eq!(service.followers.following(), 0, "it could not bring it");
        assert!(!service.transfers.contains_key(&former));
        let now = first.host.now();
        first.host.bulk().cancel(now, first.id, STOPPED);
        let sources = &mut [&mut first, &mut second];
        until(&mut service, sources, &mut told, |it| {
            it.totals.complete == 1
        });
        let outcome = until_settled(&mut service, &mut second, &mut told);
        assert_eq!(outcome, Outcome::Complete, "{:?}", told.0);
        assert_eq!(told.0.last().map(String::as_str), Some("complete"));
        assert_eq!(fs::read(bed.out("file")).unwrap().len(), LONG);
    }
}
