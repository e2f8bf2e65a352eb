//! What receivers have already is not sent again.
//!
//! Goal: the second run of the same transfer sends next to nothing, to receivers that were
//! restarted in between and hold different parts; all of them have everything then. Method: real
//! sockets on loopback; the tree is touched, changed at one byte, and gets a new file in front of
//! all others.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot make its files has failed"
)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use groupcast_transfer::bulk::{BulkConfig, Outcome};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Cargo, Limits, LinkReach, Output, ReceiveEvent, Receiving, Scan, SendEvent,
    SendReport, Sending, TransferLink, receive, send,
};

fn link(name: &str, port: u16) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 83), port),
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
        key: None,
        bulk: BulkConfig {
            register_within: Duration::from_secs(2),
            ..BulkConfig::lan()
        },
        fit_packet: true,
    }
}

/// Starts two receivers, sends the tree to them, and ends.
fn run(scratch: &Path, required: &[&str]) -> SendReport {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let listening = AtomicUsize::new(0);
    let receiver = |name: &str| {
        let receiving = Receiving {
            output: Output::Directory(scratch.join(name)),
            once: true,
            link: link(name, port),
            limits: Limits::default(),
            partials_max: 1,
            durable: false,
            on_arrival: None,
            subgroups: None,
        };
        receive(receiving, &AtomicBool::new(false), &mut |event| {
            if matches!(event, ReceiveEvent::Listening) {
                listening.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    thread::scope(|scope| {
        let both = ["one", "two"].map(|name| scope.spawn(move || receiver(name)));
        while listening.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        let sending = Sending {
            cargo: Cargo::Files(Scan::of(&[scratch.join("tree")]).unwrap()),
            label: "tree".into(),
            audience: Audience::Required(required.iter().map(|it| (*it).into()).collect()),
            subgroups: Subgroups::ALL,
            together: false,
            strict: false,
            failed_max: None,
            rates: None,
            compare: true,
            link: link("sender", port),
        };
        let report = send(sending, &AtomicBool::new(false), &mut |_| ()).unwrap();
        for receiver in both {
            assert_eq!(receiver.join().unwrap().unwrap().complete, 1);
        }
        report
    })
}

fn assert_same(scratch: &Path, names: &[&str]) {
    for name in names {
        let sent = scratch.join("tree").join(name);
        for receiver in ["one", "two"] {
            let arrived = scratch.join(receiver).join("tree").join(name);
            assert!(
                fs::read(&arrived).unwrap() == fs::read(&sent).unwrap(),
                "{name}"
            );
            let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
            assert_eq!(time(&arrived), time(&sent), "{name}");
        }
    }
    assert!(!scratch.join("one/.groupcast").exists(), "nothing is left");
}

#[test]
fn what_receivers_hold_is_not_sent_again() {
    const LARGE: usize = 8 << 20;
    let scratch = std::env::temp_dir().join(format!("gc-again-{}", std::process::id()));
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut bytes = vec![0; LARGE];
    noise.fill(&mut bytes);
    fs::write(tree.join("large"), &bytes).unwrap();
    fs::write(tree.join("d/small"), "small").unwrap();
    fs::write(tree.join("d/empty"), "").unwrap();
    let names = ["large", "d/small", "d/empty"];

    let first = run(&scratch, &["one", "two"]);
    assert!(first.sent > LARGE as u64, "{first:?}");
    assert_same(&scratch, &names);
    let inode = |name: &str| fs::metadata(scratch.join(name)).unwrap().ino();
    let before = inode("one/tree/large");

    let second = run(&scratch, &["one", "two"]);
    assert!(second.sent < first.sent / 100, "{second:?}");

    // Touched, and something is new in front of it: no byte of the stream is where it was.
    let large = fs::File::options()
        .write(true)
        .open(tree.join("large"))
        .unwrap();
    large
        .set_modified(SystemTime::now() - Duration::from_secs(77))
        .unwrap();
    fs::write(tree.join("a"), "new").unwrap();
    let touched = run(&scratch, &["one", "two"]);
    assert!(touched.sent < 600_000, "two chunks at most: {touched:?}");
    assert_same(&scratch, &["a", "large", "d/small"]);
    assert_eq!(inode("one/tree/large"), before, "it stays where it is");

    // One byte is another here, another one there, and one receiver lacks a file. One that is
    // required does not come.
    large.write_all_at(b"x", LARGE as u64 / 2).unwrap();
    let theirs = fs::File::options()
        .write(true)
        .open(scratch.join("two/tree/large"))
        .unwrap();
    theirs.write_all_at(b"y", 5).unwrap();
    fs::remove_file(scratch.join("one/tree/d/small")).unwrap();
    let changed = run(&scratch, &["one", "two", "three"]);
    assert!(changed.sent < 5 * 300_000, "{changed:?}");
    assert_same(&scratch, &["a", "large", "d/small"]);
    // Moved and renamed, and its directory, too.
    fs::rename(tree.join("large"), tree.join("d/huge")).unwrap();
    fs::rename(tree.join("d"), tree.join("e")).unwrap();
    let moved = run(&scratch, &["one", "two"]);
    assert!(moved.sent < 600_000, "two chunks at most: {moved:?}");
    assert_same(&scratch, &["a", "e/huge", "e/small"]);

    let mut outcomes = changed.receivers;
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    let outcomes: Vec<Outcome> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Complete, Outcome::Absent, Outcome::Complete]
    );
    let _ = fs::remove_dir_all(scratch);
}

/// A transfer of the file to the receiver `one`, at the rate of the settings or, once it `pauses`,
/// at none.
fn sending(scan: Scan, port: u16, pauses: Arc<AtomicBool>) -> Sending {
    let link = link("sender", port);
    let rate = link.bulk.rate;
    Sending {
        cargo: Cargo::Files(scan),
        label: "file".into(),
        audience: Audience::Required(vec!["one".into()]),
        subgroups: Subgroups::ALL,
        together: false,
        strict: false,
        failed_max: None,
        rates: Some(Box::new(move || {
            (!pauses.load(Ordering::Relaxed)).then_some(rate)
        })),
        compare: true,
        link,
    }
}

#[test]
fn a_disk_that_hangs_while_files_are_compared_keeps_nobody_from_stopping() {
    const LONG: Duration = Duration::from_secs(60);
    let scratch = std::env::temp_dir().join(format!("gc-again-hangs-{}", std::process::id()));
    fs::create_dir_all(scratch.join("one")).unwrap();
    let file = scratch.join("file");
    fs::write(&file, "bytes").unwrap();
    fs::write(scratch.join("one/file"), "other").unwrap();
    let scan = Scan::of(std::slice::from_ref(&file)).unwrap();
    // Nobody ever writes to this: whoever opens it waits.
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).unwrap();

    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let is_listening = Arc::new(AtomicBool::new(false));
    let [stop_receiver, stop_sender, pauses] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let receiving = Receiving {
        output: Output::Directory(scratch.join("one")),
        once: false,
        link: link("one", port),
        limits: Limits::default(),
        partials_max: 1,
        durable: false,
        on_arrival: None,
        subgroups: None,
    };
    let (stop, listens) = (Arc::clone(&stop_receiver), Arc::clone(&is_listening));
    let receiver = thread::spawn(move || {
        receive(receiving, &stop, &mut |event| {
            if matches!(event, ReceiveEvent::Listening) {
                listens.store(true, Ordering::Relaxed);
            }
        })
    });
    while !is_listening.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    let (told, events) = mpsc::channel();
    let sending = sending(scan, port, Arc::clone(&pauses));
    let stop = Arc::clone(&stop_sender);
    let sender = thread::spawn(move || {
        send(sending, &stop, &mut |event| match event {
            SendEvent::Comparing { bytes } => told.send(format!("compares {bytes}")).unwrap(),
            SendEvent::Rate { rate: None } => told.send("pauses".into()).unwrap(),
            _ => {}
        })
    });
    assert_eq!(events.recv_timeout(LONG).unwrap(), "compares 5");
    pauses.store(true, Ordering::Relaxed);
    assert_eq!(events.recv_timeout(LONG).unwrap(), "pauses");
    stop_sender.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    while !sender.is_finished() {
        assert!(begun.elapsed() < LONG, "it waits for the disk");
        thread::sleep(Duration::from_millis(10));
    }
    let report = sender.join().unwrap().unwrap();
    assert!(report.stopped);
    assert_eq!(report.receivers, [("one".to_owned(), Outcome::Cancelled)]);
    stop_receiver.store(true, Ordering::Relaxed);
    assert_eq!(receiver.join().unwrap().unwrap().complete, 0);
    fs::remove_dir_all(&scratch).unwrap();
}
