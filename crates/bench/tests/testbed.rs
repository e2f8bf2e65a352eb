//! Test beds against the kernel: hosts reach each other, parts do not, losses and rates are as
//! asked, nothing stays.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use groupcast_bench::{Link, Process, Testbed};

const GROUP: &str = "239.79.0.1";
const PORT: u16 = 7900;

/// Whether beds can be built; says so where the reader of the test's output sees it.
fn skipped() -> bool {
    match Testbed::available() {
        Ok(()) => false,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            true
        }
    }
}

/// Runs this executable again, inside a host.
fn again(bed: &Testbed, host: usize, label: &str, role: &str) -> Process {
    let mut command = bed.command(host, std::env::current_exe().unwrap());
    command
        .args(["role", "--exact", "--ignored", "--nocapture"])
        .env("GC_ROLE", role)
        .env("GC_ADDRESS", bed.address(host).to_string());
    bed.launch(label, command).unwrap()
}

/// Not a test: what a host does when this executable runs itself on it.
#[test]
#[ignore = "the part of this executable that runs inside a host"]
fn role() {
    let Ok(role) = std::env::var("GC_ROLE") else {
        return;
    };
    let address = std::env::var("GC_ADDRESS").unwrap();
    match role.as_str() {
        "receive" => {
            let socket = UdpSocket::bind((GROUP, PORT)).unwrap();
            socket
                .join_multicast_v4(&GROUP.parse().unwrap(), &address.parse().unwrap())
                .unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(2)))
                .unwrap();
            println!("ready");
            let mut count = 0;
            while socket.recv(&mut [0; 2000]).is_ok() {
                count += 1;
            }
            println!("received {count}");
        }
        "send" => {
            let socket = UdpSocket::bind((address.as_str(), 0)).unwrap();
            for _ in 0..1000 {
                socket.send_to(&[7; 1350], (GROUP, PORT)).unwrap();
                // Slow enough that nothing but the bed's own loss loses anything.
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        "build" => {
            let bed = Testbed::new(1, Link::Unlimited).unwrap();
            println!("built {}", name_of(bed.directory()));
            std::thread::sleep(Duration::from_secs(60));
        }
        other => panic!("no role {other}"),
    }
}

/// Of 1,000 datagrams sent by host 1 to the group, how many each other host receives.
fn multicast(bed: &Testbed) -> Vec<u32> {
    let mut receivers: Vec<Process> = (2..=bed.hosts())
        .map(|host| again(bed, host, &format!("receiver-{host}"), "receive"))
        .collect();
    for receiver in &receivers {
        wait_for(receiver, "ready");
    }
    let mut sender = again(bed, 1, "sender", "send");
    let status = sender.wait(Duration::from_secs(20)).unwrap();
    assert!(status.is_some_and(|status| status.success()));
    receivers
        .iter_mut()
        .map(|receiver| {
            receiver.wait(Duration::from_secs(20)).unwrap();
            let output = receiver.stdout().unwrap();
            let count = output.split("received ").nth(1).unwrap();
            count.lines().next().unwrap().trim().parse().unwrap()
        })
        .collect()
}

#[test]
fn multicast_reaches_all_hosts_of_a_part_and_losses_are_as_asked() {
    if skipped() {
        return;
    }
    let bed = Testbed::new(4, Link::Unlimited).unwrap();
    bed.lose(3, 200).unwrap();
    bed.cut(4).unwrap();
    let received = multicast(&bed);
    assert_eq!(received[0], 1000, "host 2 loses nothing");
    assert!(
        (700..900).contains(&received[1]),
        "host 3 received {} of 800",
        received[1]
    );
    assert_eq!(received[2], 0, "host 4 is cut off");

    bed.lose(3, 0).unwrap();
    bed.heal().unwrap();
    assert_eq!(multicast(&bed), [1000, 1000, 1000]);

    bed.partition(&[&[1, 3], &[2, 4]]).unwrap();
    assert_eq!(multicast(&bed), [0, 1000, 0]);
}

#[test]
fn a_slow_wire_carries_frames_and_nothing_stays_behind() {
    if skipped() {
        return;
    }
    let bed = Testbed::new(2, Link::Mbit100).unwrap();
    assert_eq!(multicast(&bed), [1000]);
    let directory = bed.directory().to_owned();
    let mut survivor = again(&bed, 2, "survivor", "receive");
    drop(bed);
    assert!(!directory.exists());
    assert!(
        survivor.wait(Duration::from_secs(5)).unwrap().is_some(),
        "processes end with their bed"
    );
    assert!(!namespaces().contains(&name_of(&directory)));
}

#[test]
fn the_bed_of_a_killed_creator_is_removed_by_the_next() {
    if skipped() {
        return;
    }
    let place = Testbed::new(1, Link::Unlimited).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["role", "--exact", "--ignored", "--nocapture"])
        .env("GC_ROLE", "build")
        .env("GC_ADDRESS", "");
    let mut creator = place.launch("creator", command).unwrap();
    let output = wait_for(&creator, "built ");
    let orphan = output.split("built ").nth(1).unwrap().trim().to_owned();
    creator.kill().unwrap();
    assert!(
        namespaces().contains(&orphan),
        "it had no chance to clean up"
    );

    let next = Testbed::new(1, Link::Unlimited).unwrap();
    let left = namespaces();
    assert!(!left.contains(&orphan), "{left}");
    assert!(left.contains(&name_of(next.directory())));
    assert!(
        left.contains(&name_of(place.directory())),
        "the living keep theirs"
    );
}

fn namespaces() -> String {
    let list = Command::new("ip").args(["netns", "list"]).output().unwrap();
    String::from_utf8_lossy(&list.stdout).into_owned()
}

/// What the names of a bed's namespaces begin with.
fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap().to_str().unwrap().to_owned()
}

/// What `process` has printed once `word` is in it.
fn wait_for(process: &Process, word: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let output = process.stdout().unwrap();
        if output.contains(word) && output.ends_with('\n') {
            return output;
        }
        assert!(
            Instant::now() < deadline,
            "{} did not print {word}",
            process.label()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
