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
use std::time::Duration;

use groupcast_transfer::bulk::{BulkConfig, OfferError, Outcome, Policy, Xtp};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Connected, Connecting, ConnectionEvent, ListenEvent, Listening, Next, TransferError,
    TransferLink, connect, listen,
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
    let (_, connected, told) = talk(&messages(40), Connecting::settings(), 1_000).unwrap();
    let failed = connected
        .receivers
        .iter()
        .find(|it| it.1 != Outcome::Complete);
    let reason = "a message has at most 1000 bytes here".to_owned();
    assert_eq!(failed, Some(&("00".into(), Outcome::Failed(reason))));
    assert_eq!(connected.all_have, 40);
    let last = told[0].last();
    let expected = Told::Broken("a message was too long for this receiver".into());
    assert_eq!(last, Some(&expected));
    assert!(
        told[1..]
            .iter()
            .all(|told| told.last() == Some(&Told::Closed))
    );
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
