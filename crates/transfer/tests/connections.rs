//! A program sends messages on a connection that stays, over real sockets.
//!
//! Goal: every receiver gets every message whole and in order, the sender learns of each that all
//! have it, and what becomes of each receiver is told at both ends. Method: loopback, receivers as
//! threads.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot use the loopback interface has failed"
)]

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_transfer::bulk::{
    BulkConfig, OfferError, Opening, Outcome, Policy, RateControl, Xtp,
};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Connected, Connecting, ConnectionEvent, LinkReach, ListenEvent, Listening, Next,
    TransferError, TransferLink, connect, listen,
};

const RECEIVERS: usize = 5;

fn link(name: &str, port: u16, bulk: BulkConfig) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface: Ipv4Addr::LOCALHOST,
        group: SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 84), port),
        key: None,
        bulk,
        fit_packet: true,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
    }
}

/// What a receiver was told, but that it listens.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    Opened,
    Message(u64, Vec<u8>),
    Closed,
    Broken(String),
}

/// What the sender was told that all have, its end, and what each receiver was told.
type Talk = (Vec<u64>, Connected, Vec<Vec<Told>>);

/// Sends these messages to all receivers, of which the first takes messages of `message_max` bytes
/// at most.
fn talk(
    messages: &[Vec<u8>],
    settings: BulkConfig,
    message_max: usize,
) -> Result<Talk, TransferError> {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let (stop, listening) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    thread::scope(|scope| {
        let receivers = (0..RECEIVERS).map(|number| {
            scope.spawn(move || {
                let listener = Listening {
                    link: link(&format!("{number:02}"), port, BulkConfig::lan()),
                    message_max: if number == 0 { message_max } else { 1 << 20 },
                    subgroups: None,
                };
                let mut told = Vec::new();
                listen(listener, stop, &mut |event| match event {
                    ListenEvent::Listening => {
                        listening.fetch_add(1, Ordering::Relaxed);
                    }
                    ListenEvent::Opened { .. } => told.push(Told::Opened),
                    ListenEvent::Message { number, bytes, .. } => {
                        told.push(Told::Message(number, bytes.to_vec()));
                    }
                    ListenEvent::Closed { sender } => {
                        assert_eq!(sender, "sender");
                        told.push(Told::Closed);
                    }
                    ListenEvent::Broken { reason, .. } => told.push(Told::Broken(reason.into())),
                    _ => {}
                })
                .unwrap();
                told
            })
        });
        let receivers: Vec<_> = receivers.collect();
        while listening.load(Ordering::Relaxed) < RECEIVERS {
            thread::yield_now();
        }
        let connecting = Connecting {
            audience: Audience::Count(RECEIVERS),
            opening: Opening::AtStart,
            subgroups: Subgroups::ALL,
            link: link("sender", port, settings),
        };
        let mut left = messages.iter();
        let mut next = |_| {
            left.next()
                .map_or(Next::Close, |it| Next::Message(it.clone().into()))
        };
        let mut all_had = Vec::new();
        let connected = connect(
            connecting,
            &AtomicBool::new(false),
            &mut next,
            &mut |event| {
                if let ConnectionEvent::AllHave { number } = event {
                    all_had.push(number);
                }
            },
        );
        // Their last word is on its way.
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let told = receivers.into_iter().map(|it| it.join().unwrap()).collect();
        Ok((all_had, connected?, told))
    })
}

fn messages(count: usize) -> Vec<Vec<u8>> {
    let bytes = |number: usize| vec![number as u8; number * 397 % 9_000];
    (0..count).map(bytes).collect()
}

#[test]
fn every_receiver_gets_every_message_and_the_sender_knows() {
    let lan = Connecting::settings();
    let xtp = BulkConfig {
        policy: Policy::Xtp(Xtp::for_window(lan.window)),
        ..lan.clone()
    };
    let nak = BulkConfig {
        policy: BulkConfig::lan().policy,
        ..lan.clone()
    };
    for settings in [lan, xtp, nak] {
        let sent = messages(200);
        let (all_had, connected, told) = talk(&sent, settings, 1 << 20).unwrap();
        assert_eq!(all_had, (1..=200).collect::<Vec<u64>>());
        assert_eq!((connected.sent, connected.all_have), (200, 200));
        let outcomes: Vec<&Outcome> = connected.receivers.iter().map(|it| &it.1).collect();
        assert_eq!(outcomes, [&Outcome::Complete; RECEIVERS]);
        let messages = (1..)
            .zip(sent)
            .map(|(number, it)| Told::Message(number, it));
        let mut expected: Vec<Told> = messages.collect();
        expected.insert(0, Told::Opened);
        expected.push(Told::Closed);
        for told in told {
            assert_eq!(told, expected);
        }
    }
}

#[test]
fn a_receiver_that_takes_no_such_message_is_named_and_the_others_go_on() {
    // The first that is too long takes one packet, others take several.
    let sent = messages(40);
    let (_, connected, told) = talk(&sent, Connecting::settings(), 1_000).unwrap();
    let failed = connected
        .receivers
        .iter()
        .find(|it| it.1 != Outcome::Complete);
    let reason = "a message has at most 1000 bytes here".to_owned();
    assert_eq!(failed, Some(&("00".into(), Outcome::Failed(reason))));
    assert_eq!(connected.all_have, 40);
    // Nothing of the one that is too long, and none of those behind it.
    let mut expected = vec![Told::Opened];
    let taken = (1..).zip(sent).take_while(|it| it.1.len() <= 1_000);
    expected.extend(taken.map(|(number, it)| Told::Message(number, it)));
    let broken = "a message was too long for this receiver";
    expected.push(Told::Broken(broken.into()));
    assert_eq!(told[0], expected);
    assert!(
        told[1..]
            .iter()
            .all(|told| told.last() == Some(&Told::Closed))
    );
}

#[test]
fn who_takes_no_such_message_is_not_complete_though_it_had_the_last_packet_before() {
    // One packet and the last: the receiver reports that it has everything before its user sees it.
    let settings = Connecting::settings();
    for policy in [settings.policy, BulkConfig::lan().policy] {
        let settings = BulkConfig {
            policy,
            ..settings.clone()
        };
        let (_, connected, told) = talk(&[vec![0; 1_001]], settings, 1_000).unwrap();
        let failed = connected.receivers.iter().filter(|it| {
            let reason = "a message has at most 1000 bytes here".to_owned();
            it.0 == "00" && it.1 == Outcome::Failed(reason)
        });
        assert_eq!(failed.count(), 1, "{:?}", connected.receivers);
        let broken = "a message was too long for this receiver".into();
        assert_eq!(told[0], [Told::Opened, Told::Broken(broken)]);
    }
}

#[test]
fn a_message_that_never_finds_room_is_an_error() {
    let len = 64 << 20;
    let refused = talk(&[vec![0; len]], Connecting::settings(), 1 << 20);
    let Err(TransferError::Offer(error)) = refused else {
        panic!("it was taken, or another error: {refused:?}");
    };
    assert!(matches!(error, OfferError::TooLong { len: told, .. } if told == len));
}

#[test]
fn a_receiver_that_comes_late_joins_and_both_ends_know_from_which_message_on() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let stop = &AtomicBool::new(false);
    let (listening, has_joined) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let all_have = &AtomicUsize::new(0);
    let listen_as = |name: &'static str| {
        let listener = Listening {
            link: link(name, port, BulkConfig::lan()),
            message_max: 1 << 20,
            subgroups: None,
        };
        let (mut first, mut numbers, mut is_closed) = (1, Vec::new(), false);
        listen(listener, stop, &mut |event| match event {
            ListenEvent::Listening => {
                listening.fetch_add(1, Ordering::Relaxed);
            }
            ListenEvent::Joined { number, sender } => {
                assert_eq!((sender, numbers.len()), ("sender", 0));
                first = number;
            }
            ListenEvent::Message { number, bytes, .. } => {
                assert_eq!(bytes, number.to_string().as_bytes());
                numbers.push(number);
            }
            ListenEvent::Closed { .. } => is_closed = true,
            ListenEvent::Broken { reason, .. } => panic!("{name}: {reason}"),
            _ => {}
        })
        .unwrap();
        (first, numbers, is_closed)
    };
    let connected = thread::scope(|scope| {
        let early = scope.spawn(|| listen_as("early"));
        while listening.load(Ordering::Relaxed) < 1 {
            thread::yield_now();
        }
        let sender = scope.spawn(move || {
            let settings = BulkConfig {
                policy: Policy::Xtp(Xtp::for_window(64)),
                ..Connecting::settings()
            };
            let connecting = Connecting {
                // Nobody says how many there are, so it counts them first.
                audience: Audience::Anybody,
                opening: Opening::AtAnyTime,
                subgroups: Subgroups::ALL,
                link: link("sender", port, settings),
            };
            let (mut sent, mut after) = (0u64, 0);
            let mut next = |all: u64| {
                all_have.store(all as usize, Ordering::Relaxed);
                if has_joined.load(Ordering::Relaxed) > 0 {
                    after += 1;
                }
                if after > 50 {
                    return Next::Close;
                }
                // One after the other, until somebody has joined.
                if all < sent {
                    return Next::Wait;
                }
                sent += 1;
                Next::Message(sent.to_string().into())
            };
            connect(
                connecting,
                &AtomicBool::new(false),
                &mut next,
                &mut |event| {
                    if let ConnectionEvent::Joined { receiver, number } = event {
                        assert_eq!(receiver, "late");
                        has_joined.store(number as usize, Ordering::Relaxed);
                    }
                },
            )
            .unwrap()
        });
        while all_have.load(Ordering::Relaxed) < 10 {
            thread::sleep(Duration::from_millis(5));
        }
        let late = scope.spawn(|| listen_as("late"));
        let connected = sender.join().unwrap();
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let (early, late) = (early.join().unwrap(), late.join().unwrap());
        let number = has_joined.load(Ordering::Relaxed) as u64;
        assert!(number > 10);
        assert_eq!(early, (1, (1..=connected.sent).collect(), true));
        assert_eq!(late, (number, (number..=connected.sent).collect(), true));
        let mut outcomes = connected.receivers.clone();
        outcomes.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [
            ("early".to_owned(), Outcome::Complete),
            ("late".to_owned(), Outcome::Joined { number }),
        ];
        assert_eq!(outcomes, expected);
        connected
    });
    assert_eq!(connected.all_have, connected.sent);
}

#[test]
fn messages_that_nobody_answers_come_whole_and_by_their_numbers() {
    const SENT: u64 = 60;
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let (stop, listening) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let message = |number: u64| vec![number as u8; number as usize * 97];
    let message = &message;
    thread::scope(|scope| {
        let receivers = (0..RECEIVERS).map(|number| {
            scope.spawn(move || {
                let listener = Listening {
                    link: link(&format!("{number:02}"), port, BulkConfig::lan()),
                    message_max: 1 << 20,
                    subgroups: None,
                };
                let (mut numbers, mut is_closed) = (Vec::new(), false);
                listen(listener, stop, &mut |event| match event {
                    ListenEvent::Listening => {
                        listening.fetch_add(1, Ordering::Relaxed);
                    }
                    ListenEvent::Message { number, bytes, .. } => {
                        assert_eq!(bytes, message(number));
                        numbers.push(number);
                    }
                    ListenEvent::Closed { .. } => is_closed = true,
                    ListenEvent::Opened { .. } | ListenEvent::Broken { .. } => {
                        panic!("nobody was asked: {event:?}")
                    }
                    _ => {}
                })
                .unwrap();
                (numbers, is_closed)
            })
        });
        let receivers: Vec<_> = receivers.collect();
        while listening.load(Ordering::Relaxed) < RECEIVERS {
            thread::yield_now();
        }
        let settings = BulkConfig {
            rate: RateControl::Fixed {
                bytes_per_second: 10_000_000,
            },
            ..Connecting::settings()
        };
        let connecting = Connecting {
            // It waits for none of them.
            audience: Audience::Count(RECEIVERS + 1),
            opening: Opening::Unanswered,
            subgroups: Subgroups::ALL,
            link: link("sender", port, settings),
        };
        let (begun, mut sent) = (Instant::now(), 0);
        let mut next = |all_have| {
            assert_eq!(all_have, 0, "nobody says so");
            // One in 20 ms: the hosts meet each other meanwhile.
            if begun.elapsed() < Duration::from_millis(20) * sent as u32 {
                return Next::Wait;
            }
            sent += 1;
            match sent > SENT {
                true => Next::Close,
                false => Next::Message(message(sent).into()),
            }
        };
        let never = &AtomicBool::new(false);
        let connected = connect(connecting, never, &mut next, &mut |_| ()).unwrap();
        assert_eq!((connected.sent, connected.all_have), (SENT, 0));
        assert_eq!(connected.receivers, []);
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        for receiver in receivers {
            let (numbers, is_closed) = receiver.join().unwrap();
            assert!(is_closed && numbers.is_sorted_by(|one, next| one < next));
            // Those before the hosts have met are lost.
            let last: Vec<u64> = (SENT / 2..=SENT).collect();
            assert!(numbers.ends_with(&last), "{numbers:?}");
        }
    });
}

#[test]
fn settings_that_cannot_work_are_refused_as_they_were_given() {
    let lan = BulkConfig::lan;
    let wrong = [
        (
            BulkConfig {
                receivers_max: usize::MAX,
                ..lan()
            },
            "receivers_max: 18446744073709551615 is out of range",
        ),
        (
            BulkConfig { packet: 0, ..lan() },
            "packet: 0 is out of range",
        ),
        (
            BulkConfig {
                packet: 1_000_000,
                ..lan()
            },
            "packet: 1000000 is out of range",
        ),
    ];
    for (settings, message) in wrong {
        let listener = Listening {
            link: link("wrong", 4899, settings),
            message_max: 100,
            subgroups: None,
        };
        let stopped = AtomicBool::new(true);
        let error = listen(listener, &stopped, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn a_message_that_is_too_long_ends_the_connection_and_its_receivers_are_told() {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let listener = Listening {
                link: link("receiver", 4898, BulkConfig::lan()),
                message_max: 1 << 24,
                subgroups: None,
            };
            let mut told = Vec::new();
            listen(listener, stop, &mut |event| match event {
                ListenEvent::Message { number, bytes, .. } => {
                    told.push(Told::Message(number, bytes.to_vec()));
                }
                ListenEvent::Broken { reason, .. } => {
                    told.push(Told::Broken(reason.into()));
                    stop.store(true, Ordering::Relaxed);
                }
                _ => {}
            })
            .unwrap();
            told
        });
        let connecting = Connecting {
            audience: Audience::Count(1),
            opening: Opening::AtStart,
            subgroups: Subgroups::ALL,
            link: link("sender", 4898, Connecting::settings()),
        };
        let mut sent = 0;
        let mut next = |all_have| match sent {
            0 => {
                sent = 1;
                Next::Message("short".into())
            }
            1 if all_have == 1 => {
                sent = 2;
                Next::Message(vec![0; 3_000_000].into())
            }
            1 => Next::Wait,
            _ => panic!("nothing follows a message that is too long"),
        };
        let error = connect(connecting, &AtomicBool::new(false), &mut next, &mut |_| ());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("exceeds the limit"), "{error}");
        let told = receiver.join().unwrap();
        assert_eq!(told[0], Told::Message(1, b"short".to_vec()));
        assert!(
            matches!(&told[1..], [Told::Broken(reason)] if reason.contains("exceeds the limit")),
            "{told:?}"
        );
    });
}
