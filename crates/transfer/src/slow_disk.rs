//! A test that a slow disk slows only its own receiver.
//!
//! Goal: with the settings of `send`, receivers whose disks are fast have everything in place
//! though the disk of another one has taken a part of it only, and that one has it in the end.
//! Method: real sockets and threads on loopback; all calls that change the disk pass by
//! `power_loss::note`, which takes as long as a slow disk below a path would. Here the slow disk
//! takes its part, and then nothing until the others are done: no clock judges, however busy the
//! machine is. The times with and without a slow disk are compared in `groupcast_protocols::bulk`,
//! in simulated time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
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
    /// How many bytes it still takes before it takes none, until the bar is gone.
    barred_after: Option<u64>,
    /// Whether somebody waits for that.
    is_full: bool,
}

static DISKS: Mutex<Vec<SlowDisk>> = Mutex::new(Vec::new());

/// A slow disk, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slow(PathBuf);

impl Slow {
    /// What lies below `path` is on a disk that takes `rate` bytes a second, and as many as `cache`
    /// at once.
    pub(crate) fn new(path: PathBuf, rate: u64, cache: u64) -> Self {
        Self::with(path, rate, cache, None)
    }

    /// What lies below `path` is on a disk that takes so many bytes, and then none.
    fn barred(path: PathBuf, after: u64) -> Self {
        Self::with(path, u64::MAX, 0, Some(after))
    }

    fn with(path: PathBuf, rate: u64, cache: u64, barred_after: Option<u64>) -> Self {
        DISKS.lock().unwrap().push(SlowDisk {
            path: path.clone(),
            rate,
            cache,
            done: Instant::now(),
            barred_after,
            is_full: false,
        });
        Self(path)
    }

    /// It takes everything from now on; whether it has taken no more until now.
    fn lift(&self) -> bool {
        let mut disks = DISKS.lock().unwrap();
        let disk = disks.iter_mut().find(|disk| disk.path == self.0);
        disk.is_some_and(|disk| disk.barred_after.take().is_some() && disk.is_full)
    }
}

/// The longest that a barred disk takes nothing: a transfer that waits for it fails the test.
const BARRED_MAX: Duration = Duration::from_secs(60);

/// Waits while the disk of `path` takes no more, if these `bytes` are more than it takes.
fn wait_for_the_bar(path: &Path, bytes: u64) {
    let begun = Instant::now();
    loop {
        let mut disks = DISKS.lock().unwrap();
        let mut on_it = disks.iter_mut().filter(|disk| path.starts_with(&disk.path));
        let Some(disk) = on_it.find(|disk| disk.barred_after.is_some()) else {
            return;
        };
        let left = disk.barred_after.unwrap_or_default();
        if left > 0 {
            disk.barred_after = Some(left.saturating_sub(bytes));
            return;
        }
        disk.is_full = true;
        if begun.elapsed() > BARRED_MAX {
            disk.barred_after = None;
        }
        drop(disks);
        thread::sleep(Duration::from_millis(5));
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
    wait_for_the_bar(path, bytes);
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

/// Receives one transfer, and calls `when_complete` when it is in place.
fn receive_one(receiving: Receiving, listening: &AtomicUsize, when_complete: impl FnOnce()) {
    let mut when_complete = Some(when_complete);
    let received = receive(
        receiving,
        &AtomicBool::new(false),
        &mut |event| match event {
            ReceiveEvent::Listening => {
                listening.fetch_add(1, Ordering::Relaxed);
            }
            ReceiveEvent::Complete { .. } => when_complete.take().into_iter().for_each(|it| it()),
            _ => {}
        },
    );
    assert_eq!(received.unwrap().complete, 1);
}

#[test]
fn a_slow_disk_slows_only_its_own_receiver() {
    const SIZE: usize = 40 << 20;
    const FAST: [&str; 3] = ["one", "two", "three"];
    const SLOW: &str = "slow";
    let scratch = Scratch::new();
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut bytes = vec![0; SIZE];
    noise.fill(&mut bytes);
    fs::write(scratch.path("file"), &bytes).unwrap();
    let disk = Slow::barred(scratch.path(SLOW), SIZE as u64 / 8);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let (listening, complete) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_slow_complete = AtomicBool::new(false);
    let receiving = |name| Receiving {
        output: Output::Directory(scratch.path(name)),
        once: true,
        link: link(name, port),
        limits: Limits::default(),
        partials_max: 1,
        durable: true,
        on_arrival: None,
        subgroups: None,
    };
    let report = thread::scope(|scope| {
        let (listening, complete, disk) = (&listening, &complete, &disk);
        let is_slow_complete = &is_slow_complete;
        for name in FAST {
            let receiving = receiving(name);
            scope.spawn(move || {
                receive_one(receiving, listening, || {
                    let before = complete.fetch_add(1, Ordering::SeqCst);
                    assert!(!is_slow_complete.load(Ordering::SeqCst), "{name} is first");
                    if before + 1 == FAST.len() {
                        assert!(disk.lift(), "the disk is the slow one");
                    }
                });
            });
        }
        let receiving = receiving(SLOW);
        scope.spawn(move || {
            receive_one(receiving, listening, || {
                is_slow_complete.store(true, Ordering::SeqCst);
            });
        });
        while listening.load(Ordering::Relaxed) < FAST.len() + 1 {
            thread::yield_now();
        }
        let sending = Sending {
            cargo: Cargo::Files(Scan::of(&[scratch.path("file")]).unwrap()),
            label: "file".into(),
            audience: Audience::Count(FAST.len() + 1),
            subgroups: Subgroups::ALL,
            together: false,
            strict: false,
            failed_max: None,
            rates: None,
            compare: true,
            link: link("sender", port),
        };
        send(sending, &AtomicBool::new(false), &mut |_| ()).unwrap()
    });
    drop(disk);
    for name in FAST.into_iter().chain([SLOW]) {
        let received = fs::read(scratch.path(name).join("file")).unwrap();
        assert!(received == bytes, "{name}");
    }
    let mut outcomes = report.receivers.iter();
    assert!(
        outcomes.all(|(_, outcome)| *outcome == Outcome::Complete),
        "{report:?}"
    );
    let packets = (SIZE / BulkConfig::lan().packet) as u64;
    assert!(
        report.packets < 3 * packets,
        "the slow one gets what it has room for: {report:?}"
    );
}
