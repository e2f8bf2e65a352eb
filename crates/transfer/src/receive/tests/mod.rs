//! What a receiver tells of a transfer is what is found in its target, and what its sender is told.
//!
//! Goal: whatever becomes of the sender and of the receiver's user while a transfer is put in
//! place, the event, the totals, the sender's account and the target agree. Method: real sockets
//! on loopback and a slow disk; the sender is a bare instance of the protocol, so that it can
//! vanish without a word.

mod followers;
mod last_words;
mod lists;
mod relayed;

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

    /// Syncing the target takes at least this long after `len` bytes.
    fn slow(&self, len: usize, seconds: u64) -> Slow {
        Slow::new(
            self.scratch.path("out"),
            len as u64 / seconds,
            u64::MAX >> 8,
        )
    }

    /// The file `name` with this many bytes, to be sent.
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
        let deliver = |transfer: &mut Transfer| transfer.deliver_to = deliver_to;
        Self::but(bed, content, stream, label, deliver)
    }

    /// A sender of a transfer of which something is `changed`.
    fn but(
        bed: &Bed,
        content: Content,
        stream: Vec<u8>,
        label: &str,
        changed: impl FnOnce(&mut Transfer),
    ) -> Self {
        let mut host = BulkHost::open(&bed.link("sender")).unwrap();
        let about = About {
            host: "sender".into(),
            label: label.into(),
            content,
        };
        let mut transfer = Transfer {
            about: about.encode(),
            length: Some(stream.len() as u64),
            rewindable: true,
            receivers: Wanted::Count(1),
            subgroups: Subgroups::ALL,
            confirm: true,
            deliver_to: DeliverTo::AtOnce,
            replies: false,
            strict: false,
        };
        changed(&mut transfer);
        let now = host.now();
        let id = host.bulk().send(now, transfer).unwrap();
        Self {
            host,
            id,
            stream: stream.into(),
            outcome: None,
        }
    }

    /// A sender of `files`, by a transfer of which something is `changed`.
    fn of_but(bed: &Bed, files: &mut Files, changed: impl FnOnce(&mut Transfer)) -> Self {
        Self::but(bed, files.content(), Self::stream(files), "label", changed)
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
            ReceiveEvent::Warning { problem } if problem.contains("was under way") => {
                self.0.push(format!("warning: {problem}"));
            }
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

/// A list that is decoded takes up to 32 times its length: a holder of the key who announces many
/// of them would take gigabytes.
#[test]
fn the_paths_of_all_transfers_under_way_are_bounded_together() {
    let bed = Bed::new();
    let [mut first, mut second] = ["a", "b"].map(|name| bed.file(name, LEN));
    let [one, two] = [&first, &second].map(|it| it.manifest().len());
    let limits = Limits {
        paths_of_all_max: 32 * (one + two) - 1,
        ..Limits::default()
    };
    let receiving = Receiving {
        limits,
        ..bed.receiving(false, None)
    };
    let mut service = Service::new(receiving).unwrap();
    let mut told = Told::default();
    let mut waiting = Source::of(&bed, &mut first);
    let stream = std::mem::take(&mut waiting.stream);
    until(&mut service, &mut [&mut waiting], &mut told, |it| {
        it.transfers.len() == 1
    });
    let mut source = Source::of(&bed, &mut second);
    let outcome = until_settled(&mut service, &mut source, &mut told);
    let Outcome::Refused(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("the paths of all transfers"), "{reason}");
    // The first one ends, and there is room again.
    waiting.stream = stream;
    until(&mut service, &mut [&mut waiting], &mut told, |it| {
        it.totals.complete == 1 && it.transfers.is_empty()
    });
    let mut source = Source::of(&bed, &mut bed.again("b"));
    let outcome = until_settled(&mut service, &mut source, &mut told);
    assert_eq!(outcome, Outcome::Complete);
}

/// One thing had two names: the sender's account called it `refused`, and the receiver `failed`.
#[test]
fn a_disk_without_room_refuses_and_both_sides_say_that_word() {
    let bed = Bed::new();
    let mut service = bed.service(true, None);
    let home = Arc::clone(service.home.as_ref().unwrap());
    home.current().pretend_disk(1_000);
    let mut told = Told::default();
    let mut source = Source::of(&bed, &mut bed.file("file", LEN));
    let outcome = until_settled(&mut service, &mut source, &mut told);
    let Outcome::Refused(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(told.0, [format!("refused: {reason}")]);
    let totals = service.totals;
    assert_eq!((totals.refused, totals.failed), (1, 0));
    assert!(service.is_over(), "it was the first transfer");
}

/// Both are complete, and one has replaced the other: nobody could tell from what was said.
#[test]
fn two_contents_of_one_name_at_once_are_told_of() {
    let bed = Bed::new();
    let mut service = bed.service(false, None);
    let mut told = Told::default();
    let mut sources: Vec<Source> = ["one", "two"]
        .iter()
        .map(|side| {
            fs::create_dir_all(bed.scratch.path(side)).unwrap();
            let path = bed.scratch.path(side).join("name");
            fs::write(&path, side.repeat(LEN)).unwrap();
            let mut files = Files::new(Scan::of(&[path]).unwrap());
            Source::labelled(&bed, &mut files, side)
        })
        .collect();
    let mut both: Vec<&mut Source> = sources.iter_mut().collect();
    until(&mut service, &mut both, &mut told, |it| {
        it.totals.complete == 2 && it.transfers.values().all(|it| it.concluded.is_some())
    });
    until(&mut service, &mut both, &mut told, Service::is_idle);
    let warnings: Vec<_> = told.0.iter().filter(|it| it.contains("warning")).collect();
    assert_eq!(warnings.len(), 1, "{:?}", told.0);
    assert!(
        warnings[0].contains("name: ") && warnings[0].contains("while this transfer was under way"),
        "{warnings:?}"
    );
    // One after the other is how a file is updated.
    let mut third = Source::of(&bed, &mut bed.file("name", LEN));
    until(&mut service, &mut [&mut third], &mut told, |it| {
        it.totals.complete == 3 && it.is_idle()
    });
    assert_eq!(told.0.iter().filter(|it| it.contains("warning")).count(), 1);
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

/// Of a receiver that is a command nobody reads the log.
#[test]
fn the_user_is_told_what_an_earlier_receiver_has_left_half_in_place() {
    let bed = Bed::new();
    let left = service_folder(&bed).join("0123456789abcdef");
    fs::create_dir_all(&left).unwrap();
    for name in ["publishing", "manifest"] {
        fs::write(left.join(name), "damaged").unwrap();
    }
    let mut service = bed.service(false, None);
    let mut told = Vec::new();
    for _ in 0..3 {
        let mut tell = |event: ReceiveEvent<'_>| {
            if let ReceiveEvent::Warning { problem } = event {
                told.push(problem.to_owned());
            }
        };
        service.turn(Duration::ZERO, &mut tell).unwrap();
    }
    // There may be one about the receive buffer, too.
    told.retain(|problem| problem.contains("half in place"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("/0123456789abcdef there"), "{told:?}");
}

/// The receiver's own folder.
fn service_folder(bed: &Bed) -> PathBuf {
    bed.scratch.path("out/.groupcast")
}
