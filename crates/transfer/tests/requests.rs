//! A program asks a group from Rust, and answers.
//!
//! Goal: replies of any length come whole from many members, a program that panics or is too late
//! is named, and one that is over is told. Method: real sockets on loopback, members as threads.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot use the loopback interface has failed"
)]

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use groupcast_transfer::bulk::{BulkConfig, Outcome, SendError};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    AnswerEvent, Answered, Answering, Asked, Audience, Became, LinkReach, RequestEvent,
    RequestReport, Requesting, TransferError, TransferLink, answer, request,
};

const MEMBERS: usize = 12;

/// Replies, by member, with the code and the bytes of each.
type Replies = Vec<(String, u32, Vec<u8>)>;

fn link(name: &str, port: u16, bulk: BulkConfig) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 83), port),
        key: None,
        bulk,
        fit_packet: true,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
    }
}

fn requesting(port: u16) -> Requesting {
    let max = MEMBERS;
    Requesting {
        bytes: "what?".into(),
        audience: Audience::Between { min: max, max },
        subgroups: Subgroups::ALL,
        deliver_to: None,
        timeout: Duration::from_secs(3),
        reply_max: 100_000,
        replies_max: 1 << 20,
        link: link("console", port, Requesting::settings()),
    }
}

/// Asks once all members listen; each answers by `work`, with its number. The replies by member;
/// and what members were told of requests without a reply.
fn ask(
    requesting: impl FnOnce(u16) -> Requesting,
    work: impl Fn(usize, &Asked) -> Answered + Sync,
) -> (RequestReport, Replies, Vec<String>) {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let (stop, listening) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let work = &work;
    let told = &Mutex::new(Vec::new());
    let (report, replies) = thread::scope(|scope| {
        for number in 0..MEMBERS {
            scope.spawn(move || {
                let answering = Answering {
                    link: link(&format!("{number:02}"), port, BulkConfig::lan()),
                    at_once: 2,
                    request_max: 1_000,
                    subgroups: None,
                };
                let own = move |asked: &Asked| work(number, asked);
                let tell = &mut |event: AnswerEvent<'_>| match event {
                    AnswerEvent::Listening => {
                        listening.fetch_add(1, Ordering::Relaxed);
                    }
                    AnswerEvent::Failed { reason, .. } => {
                        told.lock().unwrap().push(format!("{number}: {reason}"));
                    }
                    _ => {}
                };
                answer(answering, &own, stop, tell).unwrap();
            });
        }
        while listening.load(Ordering::Relaxed) < MEMBERS {
            thread::yield_now();
        }
        let mut replies = Vec::new();
        let report = request(requesting(port), &AtomicBool::new(false), &mut |event| {
            if let RequestEvent::Reply {
                member,
                code,
                bytes,
            } = event
            {
                replies.push((member.to_owned(), code, bytes.to_vec()));
            }
        });
        stop.store(true, Ordering::Relaxed);
        replies.sort();
        let mut report = report.unwrap();
        report.members.sort_by(|a, b| a.0.cmp(&b.0));
        (report, replies)
    });
    let told = std::mem::take(&mut *told.lock().unwrap());
    (report, replies, told)
}

#[test]
fn replies_come_whole_and_whoever_has_none_is_named() {
    let over = AtomicBool::new(false);
    let (report, replies, told) = ask(requesting, |number, asked| {
        assert_eq!(
            (&asked.bytes[..], asked.requester.as_str()),
            (&b"what?"[..], "console")
        );
        match number {
            0 => Ok((9, Vec::new())),
            1 => Err("it does not know".into()),
            2 => panic!("a bug"),
            3 => Ok((0, vec![3; 100_001])),
            4 => {
                while !asked.is_over() {
                    thread::yield_now();
                }
                over.store(true, Ordering::Relaxed);
                Err("nobody hears this".into())
            }
            number => Ok((0, vec![number as u8; number * 8_000])),
        }
    });
    let became: Vec<&Became> = report.members.iter().map(|(_, became)| became).collect();
    assert_eq!(became.len(), MEMBERS);
    assert_eq!(*became[0], Became::Replied { code: 9, bytes: 0 });
    let failed = |reason: &str| Became::Failed(Outcome::Failed(reason.into()));
    assert_eq!(*became[1], failed("it does not know"));
    assert_eq!(*became[2], failed("the program that answers has panicked"));
    assert_eq!(
        (became[3], became[4]),
        (&Became::TooLong, &Became::TimedOut)
    );
    for reason in [
        "1: it does not know",
        "2: the program that answers has panicked",
    ] {
        assert!(told.iter().any(|it| it == reason), "{told:?}");
    }
    assert!(report.timed_out && over.load(Ordering::Relaxed));
    let expected = (5..MEMBERS).map(|number| {
        let bytes = vec![number as u8; number * 8_000];
        (format!("{number:02}"), 0, bytes)
    });
    let expected: Vec<_> = [("00".to_owned(), 9, Vec::new())]
        .into_iter()
        .chain(expected)
        .collect();
    assert!(replies == expected);
}

#[test]
fn a_request_that_is_too_long_is_refused_by_each_member() {
    let long = |port| Requesting {
        bytes: vec![0; 1_001].into(),
        audience: Audience::Count(MEMBERS),
        subgroups: Subgroups::ALL,
        ..requesting(port)
    };
    let (report, replies, _) = ask(long, |_, _| Ok((0, Vec::new())));
    let reason = "a request has at most 1000 bytes here".to_owned();
    let refused = Became::Failed(Outcome::Refused(reason));
    assert_eq!(report.members.len(), MEMBERS);
    assert!(report.members.iter().all(|(_, became)| *became == refused));
    assert!(replies.is_empty());
}

#[test]
fn a_request_needs_the_policy_that_has_replies() {
    let requesting = Requesting {
        link: link("console", 4_824, BulkConfig::lan()),
        ..requesting(4_824)
    };
    let refused = request(requesting, &AtomicBool::new(false), &mut |_| ());
    assert!(matches!(
        refused,
        Err(TransferError::Send(SendError::Replies))
    ));
}

#[test]
fn who_would_refuse_every_request_is_told_at_once() {
    let answering = Answering {
        link: link("00", 4_824, BulkConfig::lan()),
        at_once: 0,
        request_max: 1_000,
        subgroups: None,
    };
    let work = |_: &Asked| Ok((0, Vec::new()));
    // With this it ends at once all the same.
    let stop = AtomicBool::new(true);
    let refused = answer(answering, &work, &stop, &mut |_| ());
    assert!(matches!(refused, Err(TransferError::NothingAtOnce)));
}
