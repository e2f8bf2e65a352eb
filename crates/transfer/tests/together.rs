//! Files that are sent together are in place everywhere or nowhere.
//!
//! Goal: no receiver puts anything in place before all that are waited for have verified it.
//! Method: real sockets on loopback, in rounds in which every receiver replies; one transfer waits
//! for a receiver that never comes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot make its files has failed"
)]

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_transfer::bulk::{BulkConfig, Multidriver, Outcome, Policy};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Cargo, Limits, LinkReach, Output, ReceiveEvent, Received, Receiving, Scan,
    SendReport, Sending, TransferLink, receive, send,
};

fn link(name: &str, port: u16) -> TransferLink {
    let lan = BulkConfig::lan();
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 82), port),
        key: None,
        bulk: BulkConfig {
            policy: Policy::Multidriver(Multidriver::for_window(lan.window)),
            block: None,
            register_within: Duration::from_secs(2),
            ..lan
        },
        fit_packet: true,
    }
}

/// Sends `image` to receivers `one` and `two`, together, for this audience, which is waited for for
/// this long; what came of it.
fn send_to_two(scratch: &Path, audience: Audience, wait: Duration) -> (SendReport, [Received; 2]) {
    let image = scratch.join("image");
    fs::create_dir_all(scratch).unwrap();
    fs::write(&image, vec![7; 300_000]).unwrap();
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
            durable: true,
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
            cargo: Cargo::Files(Scan::of(std::slice::from_ref(&image)).unwrap()),
            label: "image".into(),
            audience,
            subgroups: Subgroups::ALL,
            together: true,
            strict: false,
            failed_max: None,
            rates: None,
            compare: true,
            link: {
                let mut link = link("sender", port);
                link.bulk.register_within = wait;
                link
            },
        };
        let report = send(sending, &AtomicBool::new(false), &mut |_| ()).unwrap();
        let received = both.map(|receiver| receiver.join().unwrap().unwrap());
        (report, received)
    })
}

const SHORT: Duration = Duration::from_secs(2);

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn outcomes(mut report: SendReport) -> Vec<(String, Outcome)> {
    report.receivers.sort_by(|a, b| a.0.cmp(&b.0));
    report.receivers
}

#[test]
fn files_are_in_place_everywhere_or_nowhere() {
    let scratch = std::env::temp_dir().join(format!("gc-together-{}", std::process::id()));
    let place = |name: &str| scratch.join(name).join("image");

    let absent = Audience::Required(names(&["one", "two", "three"]));
    let (begun, wait) = (Instant::now(), Duration::from_secs(8));
    let (report, received) = send_to_two(&scratch, absent, wait);
    assert!(begun.elapsed() < wait * 2, "it is waited for once");
    let expected = [
        ("one".to_owned(), Outcome::Cancelled),
        ("three".to_owned(), Outcome::Absent),
        ("two".to_owned(), Outcome::Cancelled),
    ];
    assert_eq!(outcomes(report), expected);
    assert_eq!(received.map(|it| (it.complete, it.failed)), [(0, 1); 2]);
    assert!(!place("one").exists() && !place("two").exists());

    let begun = Instant::now();
    let (report, received) = send_to_two(&scratch, Audience::Count(3), wait);
    assert!(begun.elapsed() < wait * 2, "it is waited for once");
    let few = ["one", "two"].map(|name| (name.to_owned(), Outcome::TooFew));
    assert_eq!(outcomes(report), few);
    assert_eq!(received.map(|it| it.complete), [0; 2]);

    let too_many = Audience::Between { min: 3, max: 4 };
    let (report, received) = send_to_two(&scratch, too_many, SHORT);
    assert_eq!(outcomes(report), few);
    assert_eq!(received.map(|it| it.complete), [0; 2]);

    let required = Audience::Required(names(&["one", "two"]));
    let (report, received) = send_to_two(&scratch, required, SHORT);
    let all = ["one", "two"].map(|name| (name.to_owned(), Outcome::Complete));
    assert_eq!(outcomes(report), all);
    assert_eq!(received.map(|it| it.complete), [1; 2]);
    let content = fs::read(scratch.join("image")).unwrap();
    assert!(
        ["one", "two"]
            .iter()
            .all(|name| fs::read(place(name)).unwrap() == content)
    );
    let _ = fs::remove_dir_all(scratch);
}
