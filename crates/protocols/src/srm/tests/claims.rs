//! What one member says of another one's messages makes nobody lose them.

use super::listener::Listener;
use super::*;

/// One that has two messages of member 2.
fn listener() -> Listener {
    let mut listener = Listener::with(SrmConfig {
        window_max: 64,
        catch_up_max: 16,
        ..SrmConfig::lan()
    });
    for number in [1, 2] {
        assert_eq!(listener.hear(2, data(number)), [(number, true)]);
    }
    listener
}

impl Listener {
    fn asked(&self) -> usize {
        self.srm.config.requests_max - self.srm.recovery.room(&self.srm.config)
    }

    /// Up to where it tells others that messages of member 2 exist.
    fn tells(&mut self) -> u64 {
        self.srm.send_session(self.now);
        let bytes = self.srm.control.pop_back().expect("it was made just now");
        let Ok(Message::Session(session)) = Message::decode(&bytes.into()) else {
            panic!("not a session message");
        };
        let told = session.states.iter().find(|(it, _)| *it == member(2));
        told.expect("there is room for one").1
    }
}

fn of_2(number: u64) -> MessageId {
    MessageId {
        sender: member(2),
        number,
    }
}

fn data(number: u64) -> Vec<u8> {
    listener::data(Service::Fifo, number)
}

fn repair(number: u64) -> Vec<u8> {
    let mut bytes = wire::repair_header(of_2(number), Service::Fifo, Duration::ZERO);
    bytes.push(7);
    bytes
}

/// Member 3 says that member 2 has sent this many.
fn claims(number: u64) -> Vec<u8> {
    let session = Session {
        number: SessionNumber(1),
        states: [(member(2), number)].to_vec(),
        ..Session::default()
    };
    session.encode()
}

/// Member 2 says how many it has sent.
fn says(number: u64, highest: u64) -> Vec<u8> {
    let session = Session {
        number: SessionNumber(number),
        highest,
        ..Session::default()
    };
    session.encode()
}

#[test]
fn who_says_that_a_source_is_far_ahead_makes_nobody_lose_its_messages() {
    let mut listener = listener();
    for _ in 0..5 {
        assert_eq!(listener.hear(3, claims(1_000_000)), []);
        let request = wire::request(of_2(50), Duration::ZERO);
        assert_eq!(listener.hear(3, request), []);
        assert_eq!(listener.tells(), 2, "it does not tell the lie on");
        listener.pass(150);
        assert_eq!(listener.asked(), 0, "nobody answered");
    }
    assert_eq!(listener.srm.counters.given_up, 0);
    // That others ask is no sign of it any more.
    let request = wire::request(of_2(50), Duration::ZERO);
    assert_eq!(listener.hear(4, request), []);
    assert_eq!(listener.asked(), 0);
    for number in 3..100 {
        assert_eq!(listener.hear(2, data(number)), [(number, true)]);
    }
}

#[test]
fn what_its_source_denies_is_not_asked_for() {
    let mut listener = listener();
    assert_eq!(listener.hear(3, claims(9)), []);
    assert_eq!(listener.asked(), 7);
    assert_eq!(listener.hear(2, says(1, 4)), []);
    assert_eq!(listener.asked(), 2, "3 and 4");
    // What it said before is no denial.
    assert_eq!(listener.hear(3, claims(6)), []);
    assert_eq!(listener.hear(2, says(2, 3)), []);
    assert_eq!(listener.asked(), 4);
    listener.pass(150);
    assert_eq!(
        listener.hear(2, data(5)),
        [(3, false), (4, false), (5, true)]
    );
}

#[test]
fn what_others_say_and_have_is_delivered() {
    let mut listener = listener();
    assert_eq!(listener.hear(3, claims(4)), []);
    assert_eq!(listener.asked(), 2);
    assert_eq!(listener.hear(3, repair(4)), []);
    assert_eq!(
        listener.hear(3, repair(3)),
        [(3, true), (4, true)],
        "the source is not heard"
    );
    // What is before a message that is here is lost, if nobody answers.
    assert_eq!(listener.hear(3, repair(6)), []);
    listener.pass(150);
    assert_eq!(
        listener.hear(3, repair(7)),
        [(5, false), (6, true), (7, true)]
    );
}
