//! A test that a slow disk slows only its own receiver.
//!
//! Goal: with the settings of `send`, receivers whose disks are fast have everything in place long
//! before one whose disk is slow could have it, and that one has it in the end. Method: real
//! sockets and threads on loopback; all calls that change the disk pass by `power_loss::note`,
//! which takes as long as a slow disk below a path would. The times with and without a slow disk
//! are compared in `groupcast_protocols::bulk`, in simulated time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_protocols::bulk::{BulkConfig, Outcome};
use groupcast_protocols::xgm::Subgroups;

use crate::manifest::{Limits, Scan};
use crate::power_loss::Change;
use crate::scratch::Scratch;
use crate::{
    Audience, Cargo, LinkReach, Output, ReceiveEvent, Receiving, Sending, TransferLink, receive,
    send,
};

/// A disk behind a cache.
#[derive(Debug)]
struct SlowDisk {
    /// What lies below is on it.
    path: PathBuf,
    /// Bytes a second.
    rate: u64,
    /// Writing waits while more bytes than these are not on the disk yet.
    cache: u64,
    /// When everything that was written is on the disk.
    done: Instant,
}

static DISKS: Mutex<Vec<SlowDisk>> = Mutex::new(Vec::new());

/// A slow disk, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slow(PathBuf);

impl Slow {
    /// What lies below `path` is on a disk that takes `rate` bytes a second, and as many as `cache`
    /// at once.
    pub(crate) fn new(path: PathBuf, rate: u64, cache: u64) -> Self {
        DISKS.lock().unwrap().push(SlowDisk {
            path: path.clone(),
            rate,
            cache,
            done: Instant::now(),
        });
        Self(path)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        DISKS.lock().unwrap().retain(|disk| disk.path != self.0);
    }
}

/// Whether any disk is slow.
pub(crate) fn is_any() -> bool {
    !DISKS.lock().unwrap().is_empty()
}

/// A change was made: waits until a slow disk would have taken it.
pub(crate) fn wait(change: &Change) {
    let (path, bytes) = match change {
        Change::Write(path, _, bytes) => (path, bytes.len() as u64),
        Change::Sync(path) | Change::SyncAll(path) => (path, 0),
        _ => return,
    };
    let mut disks = DISKS.lock().unwrap();
    let Some(disk) = disks.iter_mut().find(|disk| path.starts_with(&disk.path)) else {
        return;
    };
    let time_of = |bytes: u64| Duration::from_secs_f64(bytes as f64 / disk.rate as f64);
    let (took, cached) = (time_of(bytes), time_of(disk.cache));
    disk.done = disk.done.max(Instant::now()) + took;
    let until = match bytes {
        0 => disk.done,
        _ => disk.done.checked_sub(cached).unwrap_or(disk.done),
    };
    drop(disks);
    thread::sleep(until.saturating_duration_since(Instant::now()));
}

fn link(name: &str, port: u16) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 84), port),
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
        key: None,
        bulk: BulkConfig::lan(),
        fit_packet: true,
    }
}

/// Receives one transfer; how long after `begun` it was complete.
fn complete_after(begun: Instant, receiving: Receiving, listening: &AtomicUsize) -> Duration {
    let mut complete = None;
    let received = receive(
        receiving,
        &AtomicBool::new(false),
        &mut |event| match event {
            ReceiveEvent::Listening => {
                listening.fetch_add(1, Ordering::Relaxed);
            }
            ReceiveEvent::Complete { .. } => complete = Some(begun.elapsed()),
            _ => {}
        },
    );
    assert_eq!(received.unwrap().complete, 1);
    complete.unwrap()
}

#[test]
fn a_slow_disk_slows_only_its_own_receiver() {
    const SIZE: usize = 40 << 20;
    const RATE: u64 = 4 << 20;
    const NAMES: [&str; 4] = ["one", "two", "three", "slow"];
    let scratch = Scratch::new();
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut bytes = vec![0; SIZE];
    noise.fill(&mut bytes);
    fs::write(scratch.path("file"), &bytes).unwrap();
    let disk = Slow::new(scratch.path("slow"), RATE, 1 << 20);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let listening = AtomicUsize::new(0);
    let begun = Instant::now();
    let (report, complete) = thread::scope(|scope| {
        let receivers = NAMES.map(|name| {
            let receiving = Receiving {
                output: Output::Directory(scratch.path(name)),
                once: true,
                link: link(name, port),
                limits: Limits::default(),
                partials_max: 1,
                durable: true,
                on_arrival: None,
                subgroups: None,
            };
            let listening = &listening;
            scope.spawn(move || complete_after(begun, receiving, listening))
        });
        while listening.load(Ordering::Relaxed) < NAMES.len() {
            thread::yield_now();
        }
        let sending = Sending {
            cargo: Cargo::Files(Scan::of(&[scratch.path("file")]).unwrap()),
            label: "file".into(),
            audience: Audience::Count(NAMES.len()),
            subgroups: Subgroups::ALL,
            together: false,
            strict: false,
            failed_max: None,
            rates: None,
            compare: true,
            link: link("sender", port),
        };
        let report = send(sending, &AtomicBool::new(false), &mut |_| ()).unwrap();
        let complete = receivers.map(|receiver| receiver.join().unwrap());
        (report, complete)
    });
    drop(disk);
    for name in NAMES {
        let received = fs::read(scratch.path(name).join("file")).unwrap();
        assert!(received == bytes, "{name}");
    }
    let mut outcomes = report.receivers.iter();
    assert!(
        outcomes.all(|(_, outcome)| *outcome == Outcome::Complete),
        "{report:?}"
    );
    let own = Duration::from_secs_f64(SIZE as f64 / RATE as f64);
    let [fast @ .., slow] = &complete;
    assert!(*slow > own, "the model is slow: {complete:?}");
    assert!(fast.iter().all(|it| *it < own / 2), "{complete:?}");
    let packets = (SIZE / BulkConfig::lan().packet) as u64;
    assert!(
        report.packets < 3 * packets,
        "the slow one gets what it has room for: {report:?}"
    );
}
