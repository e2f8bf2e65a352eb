//! Distributes a directory to two receivers, all in this process and on the loopback interface.
//!
//! `cargo run -p groupcast-transfer --example distribute -- PATH DIR`: what is at PATH arrives in
//! DIR/one and DIR/two. A real program has one of the three parts on each host; all it needs
//! besides is the same group and the same key.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;

use groupcast_transfer::bulk::{BulkConfig, Outcome};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Cargo, Key, Limits, LinkReach, Output, ReceiveEvent, Receiving, Scan, SendEvent,
    Sending, TransferLink, receive, send,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(path), Some(directory)) = (paths.next(), paths.next()) else {
        return Err("two arguments: what to send, and where to".into());
    };
    let key = Key::random()?;
    let receivers: Vec<_> = ["one", "two"]
        .map(|name| {
            let (link, directory) = (link(name, &key), directory.join(name));
            thread::spawn(move || take_one(link, &directory))
        })
        .into();

    // It waits for both by name, however late they begin to listen.
    let sending = Sending {
        cargo: Cargo::Files(Scan::of(&[path])?),
        label: "an example".into(),
        audience: Audience::Required(vec!["one".into(), "two".into()]),
        subgroups: Subgroups::ALL,
        together: false,
        strict: false,
        failed_max: None,
        rates: None,
        compare: true,
        link: link("sender", &key),
    };
    let report = send(sending, &AtomicBool::new(false), &mut |event| {
        if let SendEvent::Settled {
            receiver, outcome, ..
        } = event
        {
            println!("{receiver}: {}", in_words(outcome));
        }
    })?;
    println!(
        "{} bytes in {:.2} s",
        report.bytes,
        report.took.as_secs_f64()
    );
    for receiver in receivers {
        receiver
            .join()
            .map_err(|_| "a receiver has panicked")?
            .map_err(|error| error.to_string())?;
    }
    let is_complete = |(_, outcome): &(String, Outcome)| *outcome == Outcome::Complete;
    match report.receivers.iter().all(is_complete) {
        true => Ok(()),
        false => Err("not everybody has everything".into()),
    }
}

/// What became of a receiver.
fn in_words(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Complete => "it has everything",
        Outcome::Refused(reason) | Outcome::Failed(reason) => reason,
        Outcome::Absent => "it never came",
        Outcome::Vanished => "it is not heard any more",
        _ => "it has not everything",
    }
}

/// Takes one transfer into `directory`.
fn take_one(link: TransferLink, directory: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let receiving = Receiving {
        output: Output::Directory(directory.into()),
        once: true,
        link,
        limits: Limits::default(),
        partials_max: 8,
        durable: true,
        on_arrival: None,
        subgroups: None,
    };
    receive(receiving, &AtomicBool::new(false), &mut |event| {
        if let ReceiveEvent::Complete { transfer, took, .. } = event {
            let (label, sender) = (&transfer.label, &transfer.sender);
            println!("{label} from {sender} took {:.2} s", took.as_secs_f64());
        }
    })?;
    Ok(())
}

fn link(name: &str, key: &Key) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 3), 4821),
        key: Some(key.clone()),
        bulk: BulkConfig::lan(),
        fit_packet: true,
    }
}
