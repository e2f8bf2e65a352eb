//! Ends of connections while messages keep coming: good-byes succeed, and expulsions are explained.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use groupcast_client::{ClientError, Disconnect, Options, Service};
use groupcast_session::EngineConfig;

use crate::LONG;
use crate::daemon::TestDaemon;

/// Publishes to `group` until it is told to stop.
fn flood(daemon: &TestDaemon, group: &'static str, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let mut client = daemon.connect("flood");
    let stop = stop.clone();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            client
                .publish(&[group], Service::Agreed, &[7; 2_000])
                .expect("it reads what it is sent");
        }
        client.close(LONG).expect("nothing is wrong with it");
    })
}

/// Messages that keep coming, and credit that goes back while the daemon closes, are no reason for
/// a good-bye to fail.
#[test]
fn a_thousand_good_byes_under_load_succeed() {
    let daemon = TestDaemon::start("byes", EngineConfig::default());
    let stop = Arc::new(AtomicBool::new(false));
    let flood = flood(&daemon, "g", &stop);
    let begun = Instant::now();
    for round in 0..1_000 {
        let options = Options {
            // Little, so that credit goes back often.
            delivery_window: 10_000,
            ..Options::default()
        };
        let mut client = daemon.connect_with(options);
        client.join("g").unwrap();
        client
            .publish(&["other"], Service::Agreed, b"last")
            .unwrap();
        if round % 2 == 0 {
            client.next_event(Some(LONG)).unwrap();
        }
        let closed = client.close(LONG);
        assert!(closed.is_ok(), "round {round}: {closed:?}");
    }
    assert!(begun.elapsed() < 6 * LONG, "{:?}", begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
}

/// A client that is thrown out while it writes learns why, whatever it was doing.
#[test]
fn a_thousand_expulsions_are_explained() {
    let config = EngineConfig {
        disconnect_at: 20_000,
        stop_publishers_at: 1 << 30,
        ..EngineConfig::default()
    };
    let daemon = TestDaemon::start("expelled", config);
    let begun = Instant::now();
    for round in 0..1_000 {
        let mut client = daemon.connect_with(Options {
            delivery_window: 1_000,
            ..Options::default()
        });
        client.join("g").unwrap();
        // It publishes to itself and reads nothing.
        let len = [100, 1_000, 30_000][round % 3];
        let error = loop {
            let published = client.publish(&["g"], Service::Agreed, &vec![1; len]);
            if let Err(error) = published.and_then(|_| client.flush()) {
                break error;
            }
        };
        let ClientError::Disconnected { code, text } = error else {
            panic!("round {round}: {error}");
        };
        assert_eq!(code, Disconnect::TooSlow, "round {round}: {text}");
    }
    assert!(begun.elapsed() < 6 * LONG, "{:?}", begun.elapsed());
}
