//! Asks two members of a group, all in this process and on the loopback interface: each replies
//! with its name and what it was asked, in capitals.
//!
//! `cargo run -p groupcast-transfer --example ask -- QUESTION`. A real program has one of the three
//! parts on each host; all it needs besides is the same group and the same key.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use groupcast_transfer::bulk::BulkConfig;
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Answered, Answering, Asked, Audience, Became, Key, LinkReach, RequestEvent, Requesting,
    TransferLink, answer, request,
};

fn main() -> Result<(), Box<dyn Error>> {
    let question = std::env::args().nth(1).ok_or("one argument: what to ask")?;
    let key = Key::random()?;
    let stop = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        for name in ["one", "two"] {
            let answering = Answering {
                link: link(name, &key, BulkConfig::lan()),
                at_once: 4,
                request_max: 1 << 20,
                subgroups: None,
            };
            let stop = &stop;
            scope.spawn(move || {
                let work = |asked: &Asked| shout(name, asked);
                answer(answering, &work, stop, &mut |_| ())
            });
        }
        let requesting = Requesting {
            bytes: question.into(),
            // It begins when both are there, however late they begin to listen.
            audience: Audience::Between { min: 2, max: 2 },
            subgroups: Subgroups::ALL,
            deliver_to: None,
            timeout: Duration::from_secs(10),
            reply_max: 64 << 10,
            replies_max: 16 << 20,
            link: link("console", &key, Requesting::settings()),
        };
        let report = request(requesting, &AtomicBool::new(false), &mut |event| {
            if let RequestEvent::Reply { member, bytes, .. } = event {
                println!("{member}: {}", String::from_utf8_lossy(bytes));
            }
        });
        stop.store(true, Ordering::Relaxed);
        report
    })?;
    let has_replied = |(_, became): &(String, Became)| matches!(became, Became::Replied { .. });
    match report.members.len() == 2 && report.members.iter().all(has_replied) {
        true => Ok(()),
        false => {
            let silent = report.members.iter().filter(|it| !has_replied(it));
            let silent: Vec<&str> = silent.map(|(name, _)| &**name).collect();
            Err(format!(
                "no reply of {} ({} came)",
                silent.join(", "),
                report.members.len()
            )
            .into())
        }
    }
}

/// What one member replies.
fn shout(name: &str, asked: &Asked) -> Answered {
    let question = asked.bytes.to_ascii_uppercase();
    Ok((0, [name.as_bytes(), b" hears ", &question].concat()))
}

fn link(name: &str, key: &Key, bulk: BulkConfig) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 5), 4823),
        key: Some(key.clone()),
        bulk,
        fit_packet: true,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
    }
}
