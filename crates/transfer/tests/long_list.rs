//! A list of files that is longer than a receiver's credit arrives.
//!
//! Goal: the list is as long as its own limit lets it be, not as the protocol's buffer. Method:
//! 45,000 empty files with long names, whose list is 10 MB, over real sockets on loopback; the
//! protocol's buffer is 8 MiB.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot make its files has failed"
)]

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use groupcast_transfer::bulk::{BulkConfig, Outcome};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Cargo, Limits, LinkReach, Output, ReceiveEvent, Receiving, Scan, Sending,
    TransferLink, receive, send,
};

const FILES: usize = 45_000;

fn link(name: &str, port: u16) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 81), port),
        key: None,
        bulk: BulkConfig::lan(),
        fit_packet: true,
    }
}

/// The list writes down what a name does not share with the one before: nearly all of these.
fn make_files(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    let rest = "long-name-".repeat(20);
    for index in 0..FILES {
        File::create(directory.join(format!("{index:05}-{rest}"))).unwrap();
    }
}

#[test]
fn a_list_of_files_longer_than_the_credit_arrives() {
    let scratch = std::env::temp_dir().join(format!("gc-long-list-{}", std::process::id()));
    let (from, to) = (scratch.join("files"), scratch.join("out"));
    make_files(&from);
    let scan = Scan::of(std::slice::from_ref(&from)).unwrap();
    assert!(scan.manifest.encode().len() > BulkConfig::lan().buffer_max);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let listening = AtomicBool::new(false);
    let (received, report) = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let receiving = Receiving {
                output: Output::Directory(to.clone()),
                once: true,
                link: link("receiver", port),
                limits: Limits::default(),
                partials_max: 1,
                durable: true,
                on_arrival: None,
                subgroups: None,
            };
            receive(receiving, &AtomicBool::new(false), &mut |event| {
                if matches!(event, ReceiveEvent::Listening) {
                    listening.store(true, Ordering::Relaxed);
                }
            })
        });
        while !listening.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let sending = Sending {
            cargo: Cargo::Files(scan),
            label: "files".into(),
            audience: Audience::Count(1),
            subgroups: Subgroups::ALL,
            together: false,
            strict: false,
            failed_max: None,
            rates: None,
            compare: true,
            link: link("sender", port),
        };
        let report = send(sending, &AtomicBool::new(false), &mut |_| ());
        (receiver.join().unwrap(), report)
    });
    assert_eq!(received.unwrap().complete, 1);
    let report = report.unwrap();
    assert_eq!(
        report.receivers,
        [("receiver".to_owned(), Outcome::Complete)]
    );
    assert_eq!(fs::read_dir(to.join("files")).unwrap().count(), FILES);
    let _ = fs::remove_dir_all(scratch);
}
