//! What is not delivered twice although nothing is known of its source any more: datagrams that
//! were late for minutes, or recorded, and come for the first time.

use super::super::wire::Echo;
use super::listener::Listener;
use super::*;

const NOTHING: [u64; 0] = [];

/// One that follows a single source, and has sent a session message.
fn listener() -> Listener {
    let mut listener = Listener::with(SrmConfig {
        sources_max: 1,
        source_timeout: Duration::from_secs(10),
        ..SrmConfig::lan()
    });
    listener.pass(2);
    listener
}

impl Listener {
    /// The number of its last session message, as another one echoes it.
    fn echo(&self) -> Echo {
        Echo {
            member: member(1),
            number: self.srm.peers.sessions(),
            held: Duration::ZERO,
        }
    }

    /// Follows one more source than it has bookmarks: of those before it knows nothing any more.
    fn forget_all(&mut self) {
        for source in 100..=100 + Srm::BOOKMARKS as u64 + 1 {
            self.pass(11);
            let mut told = self.deliver(source, data(1));
            if told.is_empty() {
                let session = says(0, [self.echo()]);
                assert_eq!(self.deliver(source, session), NOTHING);
                told = self.deliver(source, data(1));
            }
            assert_eq!(told, [1], "of {source}");
        }
        self.pass(11);
        assert!(self.srm.bookmarks.dropped());
    }
}

fn data(number: u64) -> Vec<u8> {
    listener::data(Service::Reliable, number)
}

fn says<const N: usize>(highest: u64, echoes: [Echo; N]) -> Vec<u8> {
    let session = Session {
        number: SessionNumber(1),
        highest,
        echoes: echoes.to_vec(),
        ..Session::default()
    };
    session.encode()
}

#[test]
fn what_is_late_of_a_source_that_was_forgotten_is_not_delivered_again() {
    let mut listener = listener();
    let old = listener.echo();
    for number in 1..=3 {
        assert_eq!(listener.deliver(2, data(number)), [number]);
    }
    listener.forget_all();
    // What was recorded: messages, and words of the source before and after it heard this member.
    for datagram in [data(3), says(0, []), says(2, []), says(1, [old]), data(2)] {
        assert_eq!(listener.deliver(2, datagram), NOTHING);
    }
    assert_eq!(listener.deliver(2, data(3)), NOTHING);
    let forged = Echo {
        number: SessionNumber(u64::MAX),
        ..old
    };
    assert_eq!(listener.deliver(2, says(0, [forged])), NOTHING);
    assert_eq!(listener.deliver(2, data(1)), NOTHING);
    assert!(listener.srm.counters.unproved >= 7);
}

#[test]
fn a_source_that_was_forgotten_and_lives_is_followed_again_by_what_it_says_of_late() {
    let mut listener = listener();
    for number in 1..=3 {
        assert_eq!(listener.deliver(2, data(number)), [number]);
    }
    listener.forget_all();
    assert_eq!(listener.deliver(2, data(4)), NOTHING);
    let fresh = says(4, [listener.echo()]);
    assert_eq!(listener.deliver(2, fresh), NOTHING);
    for number in 1..=4 {
        assert_eq!(
            listener.deliver(2, data(number)),
            NOTHING,
            "{number} may have been"
        );
    }
    assert_eq!(listener.deliver(2, data(5)), [5]);
}

/// Room for its stream is made by a bookmark that takes the place of its own.
#[test]
fn a_source_whose_bookmark_is_the_oldest_goes_on_where_it_was() {
    let mut listener = listener();
    for source in 2..=2 + Srm::BOOKMARKS as u64 {
        assert_eq!(listener.deliver(source, data(1)), [1]);
        listener.pass(11);
    }
    assert!(!listener.srm.bookmarks.dropped());
    assert_eq!(listener.deliver(2, data(1)), NOTHING);
    assert!(listener.srm.bookmarks.dropped());
    assert_eq!(listener.deliver(2, data(2)), [2]);
}
