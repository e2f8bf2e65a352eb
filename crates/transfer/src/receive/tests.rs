//! What a receiver tells of a transfer is what is found in its target, and what its sender is told.
//!
//! Goal: whatever becomes of the sender and of the receiver's user while a transfer is put in
//! place, the event, the totals, the sender's account and the target agree. Method: real sockets
//! on loopback and a slow disk; the sender is a bare instance of the protocol, so that it can
//! vanish without a word.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use groupcast_protocols::bulk::{BulkConfig, Outcome, STOPPED, Transfer, Wanted};

use super::*;
use crate::LinkReach;
use crate::content::{Files, content_id};
use crate::manifest::Scan;
use crate::received::ReceivedFiles;
use crate::scratch::Scratch;
use crate::slow_disk::Slow;
use crate::spool::Claim;

/// How long a turn waits.
const TURN: Duration = Duration::from_millis(2);

/// A directory for files and targets, and the port of a group.
struct Bed {
    scratch: Scratch,
    port: u16,
}

impl Bed {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self {
            scratch: Scratch::new(),
            port: socket.local_addr().unwrap().port(),
        }
    }

    fn link(&self, name: &str) -> TransferLink {
        TransferLink {
            name: name.into(),
            interface: Ipv4Addr::LOCALHOST,
            group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 85), self.port),
            ttl: 1,
            dscp: 0,
            reach: LinkReach::default(),
            key: None,
            bulk: BulkConfig {
                vanish_after: Duration::from_secs(2),
                rto_max: Duration::from_millis(500),
                ..BulkConfig::lan()
            },
            fit_packet: true,
        }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.scratch.path("out").join(name)
    }

    /// A receiver with the target `out`, which runs `command` for what is in place.
    fn service(&self, once: bool, command: Option<&[&str]>) -> Service {
        Service::new(self.receiving(once, command)).unwrap()
    }

    fn receiving(&self, once: bool, command: Option<&[&str]>) -> Receiving {
        let on_arrival = command.map(|words| OnArrival {
            command: words.iter().map(Into::into).collect(),
            limit: Duration::from_secs(60),
        });
        Receiving {
            output: Output::Directory(self.scratch.path("out")),
            once,
            link: self.link("receiver"),
            limits: Limits::default(),
            partials_max: 8,
            durable: true,
            on_arrival,
            subgroups: None,
        }
    }

    /// Syncing the target takes at least so long after `len` bytes.
    fn slow(&self, len: usize, seconds: u64) -> Slow {
        Slow::new(
            self.scratch.path("out"),
            len as u64 / seconds,
            u64::MAX >> 8,
        )
    }

    /// The file `name` with so many bytes, to be sent.
    fn file(&self, name: &str, len: usize) -> Files {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 253) as u8).collect();
        fs::write(self.scratch.path(name), bytes).unwrap();
        self.again(name)
    }

    /// The same file, unchanged.
    fn again(&self, name: &str) -> Files {
        Files::new(Scan::of(&[self.scratch.path(name)]).unwrap())
    }
}

/// A sender of one transfer.
struct Source {
    host: BulkHost,
    id: TransferId,
    stream: Bytes,
    outcome: Option<Outcome>,
}

impl Source {
    fn begin(bed: &Bed, content: Content, stream: Vec<u8>, label: &str) -> Self {
        Self::that_delivers(bed, content, stream, label, DeliverTo::AtOnce)
    }

    fn that_delivers(
        bed: &Bed,
        content: Content,
        stream: Vec<u8>,
        label: &str,
        deliver_to: DeliverTo,
    ) -> Self {
        let mut host = BulkHost::open(&bed.link("sender")).unwrap();
        let about = About {
            host: "sender".into(),
            label: label.into(),
            content,
        };
        let transfer = Transfer {
            about: about.encode(),
            length: Some(stream.len() as u64),
            rewindable: true,
            receivers: Wanted::Count(1),
            subgroups: Subgroups::ALL,
            confirm: true,
            deliver_to,
            replies: false,
            strict: false,
        };
        let now = host.now();
        let id = host.bulk().send(now, transfer).unwrap();
        Self {
            host,
            id,
            stream: stream.into(),
            outcome: None,
        }
    }

    /// A sender of `files`.
    fn of(bed: &Bed, files: &mut Files) -> Self {
        Self::labelled(bed, files, "label")
    }

    fn labelled(bed: &Bed, files: &mut Files, label: &str) -> Self {
        Self::begin(bed, files.content(), Self::stream(files), label)
    }

    /// A sender of `files` that all are to put in place together.
    fn together(bed: &Bed, files: &mut Files) -> Self {
        let stream = Self::stream(files);
        Self::that_delivers(bed, files.content(), stream, "label", DeliverTo::Aside)
    }

    fn stream(files: &mut Files) -> Vec<u8> {
        let mut stream = files.manifest().to_vec();
        for index in 0..files.layout().chunks() {
            stream.extend_from_slice(&files.read_chunk(index).unwrap());
        }
        stream
    }

    /// A sender of the list of `files`, with their hashes.
    fn of_list(bed: &Bed, files: &mut Files) -> Self {
        let Content::Files {
            id,
            layout,
            entries,
        } = files.content()
        else {
            panic!("they are files");
        };
        let list = Content::List {
            id,
            layout,
            entries,
            hashed: true,
        };
        let hashes = files.block_hashes(&mut || true).unwrap().unwrap();
        let stream = [&files.manifest()[..], &hashes].concat();
        Self::begin(bed, list, stream, "label")
    }

    fn turn(&mut self) {
        let now = self.host.now();
        while let Some(wanted) = self.host.bulk().wanted(self.id) {
            let len = self.stream.len() as u64;
            let part = wanted.start.min(len) as usize..wanted.end.min(len) as usize;
            let part = self.stream.slice(part);
            if part.is_empty() || self.host.bulk().offer(now, self.id, part).is_err() {
                break;
            }
        }
        self.host.turn(TURN).unwrap();
        while let Some(notice) = self.host.poll_event() {
            if let Notice::Settled { outcome, .. } = notice {
                self.outcome = Some(outcome);
            }
        }
    }

    /// Goes on until it knows what became of the receiver.
    fn settle(mut self) -> Outcome {
        loop {
            self.turn();
            if let Some(outcome) = self.outcome.take() {
                return outcome;
            }
        }
    }
}

/// What the user was told of transfers that have ended.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    fn take(&mut self, event: &ReceiveEvent<'_>) {
        match event {
            ReceiveEvent::Complete { .. } => self.0.push("complete".into()),
            ReceiveEvent::Failed { reason, .. } => self.0.push(format!("failed: {reason}")),
            ReceiveEvent::Refused { reason, .. } => self.0.push(format!("refused: {reason}")),
            _ => {}
        }
    }
}

/// Runs the receiver and senders until `is_done`.
fn until(
    service: &mut Service,
    sources: &mut [&mut Source],
    told: &mut Told,
    mut is_done: impl FnMut(&Service) -> bool,
) {
    let begun = Instant::now();
    while !is_done(service) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", told.0);
        service.turn(TURN, &mut |event| told.take(&event)).unwrap();
        for source in &mut *sources {
            source.turn();
        }
    }
}

/// Runs the receiver and a sender until that knows what became of the receiver.
fn until_settled(service: &mut Service, source: &mut Source, told: &mut Told) -> Outcome {
    let begun = Instant::now();
    loop {
        if let Some(outcome) = source.outcome.take() {
            return outcome;
        }
        service.turn(TURN, &mut |event| told.take(&event)).unwrap();
        source.turn();
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

/// A command that adds a line to the file `runs`, and fails if the file `fails` is there.
const COUNTS: &[&str] = &["sh", "-c", "echo >> ../runs; test ! -e ../fails"];

/// Sends `file` once more; what the user is told, and how often the command has run in all.
fn send_again(bed: &Bed, service: &mut Service) -> (String, usize) {
    let mut told = Told::default();
    let mut source = Source::of(bed, &mut bed.again("file"));
    let before = service.ended();
    let is_over = |it: &Service| it.ended() > before && it.transfers.is_empty();
    until(service, &mut [&mut source], &mut told, is_over);
    let runs = fs::read_to_string(bed.scratch.path("runs")).unwrap_or_default();
    (told.0.concat(), runs.len())
}

/// Whether anything is being put in place, and its sender is there.
fn is_publishing(service: &Service) -> bool {
    let mut transfers = service.transfers.values();
    transfers.any(|it| it.state == State::Publishing)
}

const LEN: usize = 400_000;

/// So much that half of it, at least, comes only when the disk has taken the rest.
const LONG: usize = 16_000_000;

#[test]
fn a_transfer_whose_sender_vanishes_after_the_last_byte_is_told_as_the_disk_ends_it() {
    for (command, expected) in [
        (None, "complete"),
        (
            Some(&["false"][..]),
            "failed: it is in place, but the command failed: exit status: 1",
        ),
    ] {
        let bed = Bed::new();
        let _slow = bed.slow(LEN, 4);
        let mut service = bed.service(true, command);
        let mut told = Told::default();
        let mut source = Source::of(&bed, &mut bed.file("file", LEN));
        until(&mut service, &mut [&mut source], &mut told, is_publishing);
        drop(source);
        until(&mut service, &mut [], &mut told, |it| {
            it.transfers.is_empty()
        });
        assert_eq!(told.0, [""; 0], "the disk has not ended it");
        assert!(!service.is_over());
        until(&mut service, &mut [], &mut told, Service::is_over);
        assert_eq!(told.0, [expected]);
        let ended = (service.totals.complete, service.totals.failed);
        assert_eq!(ended, if command.is_none() { (1, 0) } else { (0, 1) });
        assert_eq!(fs::read(bed.out("file")).unwrap().len(), LEN);
    }
}

/// Stops a receiver of `len` bytes once `is_time`: its totals, what it told, and what its sender
/// was told.
fn stop_when(
    bed: &Bed,
    len: usize,
    is_time: fn(&Service) -> bool,
) -> (Received, Vec<String>, Outcome) {
    let mut told = Told::default();
    thread::scope(|scope| {
        let mut service = bed.service(true, None);
        let source = scope.spawn(|| Source::of(bed, &mut bed.file("file", len)).settle());
        until(&mut service, &mut [], &mut told, is_time);
        let stop = AtomicBool::new(true);
        let totals = service.run(&stop, &mut |event| told.take(&event)).unwrap();
        (totals, told.0, source.join().unwrap())
    })
}

#[test]
fn a_receiver_that_is_stopped_while_it_puts_a_transfer_in_place_finishes_and_says_so() {
    let bed = Bed::new();
    let _slow = bed.slow(LEN, 3);
    let (totals, told, outcome) = stop_when(&bed, LEN, is_publishing);
    assert_eq!((totals.complete, totals.failed), (1, 0));
    assert_eq!(told, ["complete"]);
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LEN);
}

#[test]
fn the_outcome_of_what_a_stopped_receiver_puts_in_place_may_be_lost_once() {
    let bed = Bed::new();
    let _slow = bed.slow(LEN, 2);
    let mut service = bed.service(true, None);
    let mut told = Told::default();
    let mut source = Source::of(&bed, &mut bed.file("file", LEN));
    until(&mut service, &mut [&mut source], &mut told, is_publishing);
    service.give_up(&mut |event| told.take(&event));
    let sources = &mut [&mut source];
    until(&mut service, sources, &mut told, |it| {
        it.totals.complete == 1
    });
    // The next turn sends the outcome.
    source.host.set_deaf(true);
    for _ in 0..20 {
        service.turn(TURN, &mut |event| told.take(&event)).unwrap();
        source.turn();
    }
    source.host.set_deaf(false);
    let begun = Instant::now();
    let sources = &mut [&mut source];
    until(&mut service, sources, &mut told, Service::is_over);
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(service);
    assert_eq!(source.settle(), Outcome::Complete);
}

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

/// A receiver of `file` with a slow disk, its first sender, and a second one that follows that.
fn with_follower(bed: &Bed, told: &mut Told) -> (Service, Source, Source) {
    let first = Source::of(bed, &mut bed.file("file", LONG));
    with_follower_of(bed, told, first)
}

/// The same with this first sender of `file`.
fn with_follower_of(bed: &Bed, told: &mut Told, mut first: Source) -> (Service, Source, Source) {
    let mut service = bed.service(false, None);
    until(&mut service, &mut [&mut first], told, |it| {
        it.transfers.len() == 1
    });
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

#[test]
fn a_sender_that_puts_in_place_together_takes_over_from_one_that_others_follow() {
    let bed = Bed::new();
    let _slow = Slow::new(bed.scratch.path("out"), LONG as u64 / 4, 0);
    let mut told = Told::default();
    let (mut service, mut first, mut second) = with_follower(&bed, &mut told);
    let mut third = Source::together(&bed, &mut bed.again("file"));
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
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LONG);
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

#[test]
fn a_receiver_that_is_stopped_before_has_nothing_in_place() {
    let bed = Bed::new();
    let (totals, told, outcome) = stop_when(&bed, 20_000_000, |service| {
        let mut transfers = service.transfers.values();
        transfers.any(|it| it.state == State::Receiving && it.received > 100_000)
    });
    assert_eq!((totals.complete, totals.failed), (0, 1));
    assert_eq!(told, ["failed: the receiver was stopped"]);
    assert_eq!(outcome, Outcome::Failed("the receiver was stopped".into()));
    assert!(!bed.out("file").exists());
}

#[test]
fn a_sender_that_is_stopped_while_the_last_byte_is_put_in_place_stops_nothing() {
    let bed = Bed::new();
    let _slow = bed.slow(LEN, 2);
    let mut service = bed.service(true, None);
    let mut told = Told::default();
    let mut source = Source::of(&bed, &mut bed.file("file", LEN));
    until(&mut service, &mut [&mut source], &mut told, is_publishing);
    let now = source.host.now();
    source.host.bulk().cancel(now, source.id, STOPPED);
    until(
        &mut service,
        &mut [&mut source],
        &mut told,
        Service::is_over,
    );
    assert_eq!(told.0, ["complete"]);
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LEN);
}

#[test]
fn the_same_content_sent_anew_while_it_is_put_in_place_is_put_there_after_that() {
    let bed = Bed::new();
    let _slow = bed.slow(LEN, 2);
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut first = Source::of(&bed, &mut bed.file("file", LEN));
    until(&mut service, &mut [&mut first], &mut told, is_publishing);
    let mut second = Source::of(&bed, &mut bed.again("file"));
    until(
        &mut service,
        &mut [&mut first, &mut second],
        &mut told,
        |it| it.totals.complete == 2,
    );
    assert_eq!(told.0, ["complete"; 2]);
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LEN);
}

const FAILED: &str = "failed: it is in place, but the command failed: exit status: 1";

#[test]
fn the_command_runs_again_after_it_has_failed_for_content_that_was_in_place_before() {
    let bed = Bed::new();
    let mut service = bed.service(false, Some(COUNTS));
    bed.file("file", LEN);
    assert_eq!(send_again(&bed, &mut service), ("complete".into(), 1));
    assert_eq!(
        send_again(&bed, &mut service),
        ("complete".into(), 1),
        "it is there, and the command has run"
    );
    fs::write(bed.out("file"), "changed").unwrap();
    fs::write(bed.scratch.path("fails"), "").unwrap();
    assert_eq!(send_again(&bed, &mut service), (FAILED.into(), 2));
    fs::remove_file(bed.scratch.path("fails")).unwrap();
    assert_eq!(send_again(&bed, &mut service), ("complete".into(), 3));
    assert_eq!(send_again(&bed, &mut service), ("complete".into(), 3));
}

#[test]
fn the_command_runs_for_what_was_half_in_place_before() {
    let bed = Bed::new();
    let mut service = bed.service(false, Some(COUNTS));
    let mut files = bed.file("file", LEN);
    let spool = service.home.as_ref().unwrap().current();
    let id = content_id(files.manifest());
    {
        let claim = Claim::new(&spool, id.short().into_bytes());
        let limits = Limits::default();
        let mut received = ReceivedFiles::new(claim, id, files.layout(), limits).unwrap();
        received.begin(files.manifest()).unwrap();
        for index in 0..files.layout().chunks() {
            let chunk = files.read_chunk(index).unwrap();
            received.write(index, chunk.to_vec()).unwrap();
        }
        // A move has failed.
        spool
            .folder(&id)
            .unwrap()
            .begin_publishing(true, &[])
            .unwrap();
    }
    fs::write(bed.scratch.path("fails"), "").unwrap();
    assert_eq!(send_again(&bed, &mut service), (FAILED.into(), 1));
    assert_eq!(fs::read(bed.out("file")).unwrap().len(), LEN);
    fs::remove_file(bed.scratch.path("fails")).unwrap();
    assert_eq!(send_again(&bed, &mut service), ("complete".into(), 2));
}

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
fn a_directory_that_others_can_write_to_is_told() {
    use std::os::unix::fs::PermissionsExt as _;

    let bed = Bed::new();
    let out = bed.scratch.path("out");
    for (mode, expected) in [
        (0o755, &["Listening"][..]),
        (0o777, &["Shared", "Listening"]),
    ] {
        fs::create_dir_all(&out).unwrap();
        fs::set_permissions(&out, fs::Permissions::from_mode(mode)).unwrap();
        let mut told = Vec::new();
        let mut tell = |event: ReceiveEvent<'_>| {
            let text = format!("{event:?}");
            told.extend(text.split(' ').next().map(str::to_owned));
        };
        receive(
            bed.receiving(false, None),
            &AtomicBool::new(true),
            &mut tell,
        )
        .unwrap();
        assert_eq!(told, expected);
    }
}

#[test]
fn a_directory_that_is_removed_while_the_receiver_runs_is_made_anew() {
    let bed = Bed::new();
    let mut service = bed.service(false, None);
    bed.file("file", LEN);
    assert_eq!(send_again(&bed, &mut service).0, "complete");
    let out = bed.scratch.path("out");
    let spool = || service_folder(&bed).exists();
    for remove in ["folder", "directory", "directory, and another is there"] {
        match remove {
            "folder" => fs::remove_dir_all(service_folder(&bed)).unwrap(),
            _ => fs::remove_dir_all(&out).unwrap(),
        }
        if remove.ends_with("there") {
            fs::create_dir(&out).unwrap();
        }
        assert!(!spool());
        // What comes next is another content, so that it does not count as in place.
        bed.file("file", LEN + remove.len());
        assert_eq!(send_again(&bed, &mut service).0, "complete", "{remove}");
        assert_eq!(fs::read(bed.out("file")).unwrap().len(), LEN + remove.len());
        assert!(spool());
    }
    drop(service);
    assert!(!spool(), "nothing is left");
}

/// The receiver's own folder.
fn service_folder(bed: &Bed) -> PathBuf {
    bed.scratch.path("out/.groupcast")
}
