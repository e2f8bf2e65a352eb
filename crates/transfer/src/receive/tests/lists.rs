//! Lists of files that are about to be sent, and the files after them.

use super::*;

/// Blocks of the file that lies in the target in part; all but one are there.
const BLOCKS: usize = 8;

/// A receiver whose target has `file` in part, on a disk that takes a few seconds for it; and the
/// file as it is sent.
fn with_a_part(bed: &Bed) -> (Service, Files, ContentId, Slow) {
    let len = BLOCKS * Layout::CHUNK as usize;
    let files = bed.file("file", len);
    let service = bed.service(false, None);
    let mut there = fs::read(bed.scratch.path("file")).unwrap();
    there[len / 2] ^= 1;
    fs::write(bed.out("file"), there).unwrap();
    let slow = Slow::new(bed.scratch.path("out"), len as u64 / 3, 0);
    let id = content_id(files.manifest());
    (service, files, id, slow)
}

fn is_claimed(service: &Service, id: &ContentId) -> bool {
    service.home.as_ref().unwrap().current().is_claimed(id)
}

/// Sends the content and waits until it is in place; meanwhile its folder counts as in use.
fn receive_claimed(bed: &Bed, service: &mut Service, source: &mut Source, id: &ContentId) {
    let mut told = Told::default();
    until(service, &mut [source], &mut told, |it| {
        for incoming in it.transfers.values() {
            let works = incoming.state == State::Receiving;
            assert!(!works || is_claimed(it, id), "its folder counts as left");
        }
        it.totals.complete == 1
    });
    let sent = fs::read(bed.scratch.path("file")).unwrap();
    assert!(fs::read(bed.out("file")).unwrap() == sent);
}

#[test]
fn a_list_that_is_sent_anew_while_the_target_is_compared_is_looked_at_after_that() {
    let bed = Bed::new();
    let (mut service, mut files, id, _slow) = with_a_part(&bed);
    let mut told = Told::default();
    let mut first = Source::of_list(&bed, &mut files);
    until(&mut service, &mut [&mut first], &mut told, |it| {
        is_claimed(it, &id)
    });
    assert_eq!(first.outcome, None, "it compares");
    // Its sender is killed, and started again.
    drop(first);
    let mut second = Source::of_list(&bed, &mut files);
    let answer = until_settled(&mut service, &mut second, &mut told);
    assert_eq!(answer, Outcome::Complete);
    let begun = Instant::now();
    until(&mut service, &mut [], &mut told, |_| {
        // The first one would be found silent in this time.
        begun.elapsed() > Duration::from_secs(3)
    });
    assert!(is_claimed(&service, &id), "the second one goes on with it");
    let mut source = Source::of(&bed, &mut files);
    receive_claimed(&bed, &mut service, &mut source, &id);
}

#[test]
fn a_list_of_what_is_complete_here_is_looked_at_though_the_sender_that_brought_it_was_killed() {
    let bed = Bed::new();
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut files = bed.file("file", LEN);
    let mut first = Source::of(&bed, &mut files);
    until(&mut service, &mut [&mut first], &mut told, |it| {
        it.totals.complete == 1
    });
    // It is killed before it hears of that, and started again.
    drop(first);
    let mut list = Source::of_list(&bed, &mut files);
    let answer = until_settled(&mut service, &mut list, &mut told);
    assert_eq!(answer, Outcome::Complete);
    assert_eq!(told.0, ["complete"], "a list is no transfer of the user's");
}

#[test]
fn what_was_compared_or_resumed_counts_as_put_in_place_by_this_process_too() {
    let bed = Bed::new();
    let (mut service, mut files, id, slow) = with_a_part(&bed);
    drop(slow);
    let mut told = Told::default();
    let mut list = Source::of_list(&bed, &mut files);
    let answer = until_settled(&mut service, &mut list, &mut told);
    assert_eq!(answer, Outcome::Complete);
    assert_eq!(send_again(&bed, &mut service).0, "complete");
    let placed = service.placed.get(id).expect("its list was here before");
    let home = service.home.as_ref().unwrap();
    assert!(placed.is_unchanged(&home.current(), &Limits::default()));
}

#[test]
fn files_that_another_sender_brings_while_the_target_is_compared_come_after_that() {
    let bed = Bed::new();
    let (mut service, mut files, id, _slow) = with_a_part(&bed);
    let mut told = Told::default();
    let mut list = Source::of_list(&bed, &mut files);
    until(&mut service, &mut [&mut list], &mut told, |it| {
        is_claimed(it, &id)
    });
    let mut source = Source::labelled(&bed, &mut files, "another");
    receive_claimed(&bed, &mut service, &mut source, &id);
}

#[test]
fn files_that_another_sender_brings_after_a_list_of_them_come_after_its_thread() {
    let bed = Bed::new();
    let (mut service, mut files, id, _slow) = with_a_part(&bed);
    let mut told = Told::default();
    let mut list = Source::of_list(&bed, &mut files);
    let answer = until_settled(&mut service, &mut list, &mut told);
    assert_eq!(answer, Outcome::Complete);
    let mut source = Source::labelled(&bed, &mut files, "another");
    receive_claimed(&bed, &mut service, &mut source, &id);
}

#[test]
fn a_list_that_ends_early_is_not_forgotten_with_what_it_waits_for() {
    let bed = Bed::new();
    let _slow = bed.slow(LEN, 3);
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut first = Source::of(&bed, &mut bed.file("file", LEN));
    until(&mut service, &mut [&mut first], &mut told, is_publishing);
    // Its list has not come whole when its sender is stopped.
    let mut list = Source::of_list(&bed, &mut bed.again("file"));
    list.stream = Bytes::new();
    let has_list = |it: &Service| it.lists.len() == 1;
    until(&mut service, &mut [&mut list], &mut told, has_list);
    let now = list.host.now();
    list.host.bulk().cancel(now, list.id, STOPPED);
    let has_ended = |it: &Service| it.lists.len() == 0;
    until(&mut service, &mut [&mut list], &mut told, has_ended);
    assert!(is_publishing(&service));
    let mut second = Source::of(&bed, &mut bed.again("file"));
    let sources = &mut [&mut first, &mut second];
    let are_complete = |it: &Service| it.totals.complete == 2;
    until(&mut service, sources, &mut told, are_complete);
    assert_eq!(told.0, ["complete"; 2]);
}

#[test]
fn lists_of_senders_that_were_killed_keep_no_others_out() {
    let bed = Bed::new();
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    for number in 0..Service::TRANSFERS_MAX {
        let mut files = bed.file(&format!("list-{number}"), LEN);
        let mut list = Source::of_list(&bed, &mut files);
        let answer = until_settled(&mut service, &mut list, &mut told);
        assert_eq!(answer, Outcome::Complete);
        // It is killed before it sends the files.
    }
    let begun = Instant::now();
    until(&mut service, &mut [], &mut told, |_| {
        // They are found silent, and then their files are late.
        begun.elapsed() > Duration::from_secs(6)
    });
    assert_eq!(service.lists.len(), Service::TRANSFERS_MAX);
    let mut files = bed.file("file", LEN);
    let mut source = Source::of(&bed, &mut files);
    until(&mut service, &mut [&mut source], &mut told, |it| {
        it.ended() > 0
    });
    assert_eq!(told.0, ["complete"]);
}

#[test]
fn the_hashes_of_all_lists_under_way_are_no_longer_than_a_list_may_be() {
    let bed = Bed::new();
    let blocks = 20;
    let hashes = blocks * crate::about::HASH as usize;
    let mut receiving = bed.receiving(false, None);
    receiving.limits.manifest_max = 2 * hashes - 1;
    let mut service = Service::new(receiving).unwrap();
    let mut told = Told::default();
    let len = blocks * Layout::CHUNK as usize;
    let mut first = Source::of_list(&bed, &mut bed.file("first", len));
    until(&mut service, &mut [&mut first], &mut told, |it| {
        it.lists.len() == 1
    });
    // Meanwhile nothing more of it comes.
    let mut second = Source::of_list(&bed, &mut bed.file("second", len));
    let answer = until_settled(&mut service, &mut second, &mut told);
    let Outcome::Refused(why) = answer else {
        panic!("{answer:?}");
    };
    assert!(why.contains("hashes"), "{why}");
}
