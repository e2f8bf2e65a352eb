//! That what is written is read again, that bytes are as they were, and that nonsense is refused.

use groupcast_core::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;

fn member(node: u64) -> MemberId {
    MemberId {
        node: NodeId(node),
        incarnation: Incarnation(node + 1),
    }
}

fn run(first: u64, last: u64, flagged: &[u64]) -> Run {
    let mut run = Run::of(first, last);
    flagged.iter().for_each(|number| run.set_repaired(*number));
    run
}

fn all() -> Vec<Message> {
    let id = MessageId {
        sender: member(7),
        number: 300,
    };
    let about = SelfDescription {
        heartbeat: Heartbeat(5),
        zone: 2,
        link: true,
        sent: 400,
    };
    let holding = Holding {
        origin: member(7),
        runs: alloc::vec![run(290, 300, &[300, 291, 290]), run(1, 288, &[17])],
        gaps: alloc::vec![run(289, 289, &[])],
    };
    let header = DataHeader {
        carries: Carries::MulticastRepair,
        tree: NO_TREE,
        id,
    };
    let payload = Bytes::from_static(b"abc");
    alloc::vec![
        Message::Data { header, payload },
        Message::Gossip(Gossip {
            round: RoundNumber(9),
            about,
            alive: alloc::vec![(member(3), Heartbeat(1000))],
            digest: alloc::vec![holding],
        }),
        Message::Request {
            round: RoundNumber(9),
            id
        },
        Message::Special {
            requestor: member(4),
            id,
        },
        Message::Info {
            gossiper: member(4),
            id,
        },
        Message::Mcast { id },
        Message::MulticastRequest { id },
        Message::Join {
            about,
            answer: true,
        },
        Message::Leave,
        Message::Prove { nonce: 1 << 40 },
        Message::Proof { nonce: 7, about },
    ]
}

#[test]
fn every_message_comes_back() {
    for message in all() {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

#[test]
fn the_bytes_of_a_request_are_pinned() {
    let id = MessageId {
        sender: member(0x0102),
        number: 3,
    };
    let bytes = Message::Request {
        round: RoundNumber(7),
        id,
    }
    .encode();
    let expected = [
        5, 0, 0, 0, 0, 0, 0, 0, 7, // kind, round
        0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 3, // origin
        0, 0, 0, 0, 0, 0, 0, 3, // number
    ];
    assert_eq!(bytes[..], expected);
}

#[test]
fn a_run_that_reaches_below_the_first_number_is_refused() {
    let holding = |first, last| Holding {
        origin: member(1),
        runs: alloc::vec![run(first, last, &[])],
        gaps: Vec::new(),
    };
    let gossip = |holding| {
        Message::Gossip(Gossip {
            round: RoundNumber(1),
            about: SelfDescription {
                heartbeat: Heartbeat(0),
                zone: 0,
                link: false,
                sent: 0,
            },
            alive: Vec::new(),
            digest: alloc::vec![holding],
        })
    };
    assert!(Message::decode(&gossip(holding(1, 5)).encode()).is_ok());
    assert!(Message::decode(&gossip(holding(0, 5)).encode()).is_err());
}

#[test]
fn a_number_that_cannot_be_counted_on_from_is_refused() {
    let request = |number| Message::Mcast {
        id: MessageId {
            sender: member(1),
            number,
        },
    };
    let join = |sent| Message::Join {
        about: SelfDescription {
            heartbeat: Heartbeat(1),
            zone: 0,
            link: false,
            sent,
        },
        answer: false,
    };
    for message in [request, join] as [fn(u64) -> Message; 2] {
        assert!(Message::decode(&message(NUMBER_MAX).encode()).is_ok());
        assert!(Message::decode(&message(NUMBER_MAX + 1).encode()).is_err());
        assert!(Message::decode(&message(u64::MAX).encode()).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused_and_what_decodes_comes_back(kind in 0u8..15, rest: Vec<u8>) {
        let body = Bytes::from([&[kind], &rest[..]].concat());
        if let Ok(message) = Message::decode(&body) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn a_cut_message_is_refused(at in 1usize..200, which in 1usize..11) {
        let bytes = all()[which].encode();
        if at < bytes.len() && which != 1 {
            prop_assert!(Message::decode(&bytes.slice(..at)).is_err());
        }
    }
}
