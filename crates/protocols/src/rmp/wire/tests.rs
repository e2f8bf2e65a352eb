//! The wire format: what is encoded comes back, layouts are pinned, any bytes are survived.

use alloc::boxed::Box;
use alloc::vec;

use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::mech::peers::Attempt;
use groupcast_core::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::rmp::numbers::{Packets, Positions};

fn member(node: u64) -> MemberId {
    MemberId {
        node: NodeId(node),
        incarnation: Incarnation(node << 32 | 7),
    }
}

fn config() -> ConfigId {
    ConfigId {
        counter: 3,
        representative: member(1),
    }
}

fn marks() -> Marks {
    Marks {
        known: Number(4),
        ready: Seq(9),
    }
}

fn data() -> Message {
    Message::Data(Data {
        again: true,
        origin: 2,
        tag: Tag(0x0102_0304_0506_0708),
        number: Number(5),
        version: 0,
        marks: marks(),
        body: Bytes::from_static(b"body"),
    })
}

fn ack() -> Ack {
    Ack {
        again: false,
        issuer: 1,
        next: 2,
        tag: config().into(),
        stamp: Stamp(7),
        first: Seq(12),
        marks: marks(),
        packets: vec![
            Packets {
                origin: 0,
                first: Number(5),
                count: 2,
            },
            Packets {
                origin: 3,
                first: Number(1),
                count: 1,
            },
        ],
    }
}

fn declared(known: u64) -> Declared {
    Declared {
        known: Number(known),
        ready: Seq(4),
        early: Number(known + 2),
    }
}

fn answer() -> Answer {
    let mut inventory = Inventory {
        holding: Holding {
            config: config(),
            aru: Seq(5),
            high: Seq(15),
            safe: Seq(4),
            obligations: Indices::from_bits(5),
        },
        max_n: 3,
        members: vec![declared(1), declared(0), declared(7)],
        passed: None,
        size: None,
        held: Vec::new(),
    };
    inventory.insert(Seq(7));
    inventory.insert(Seq(15));
    Answer {
        poller: member(3),
        attempt: Attempt(8),
        counter: 2,
        body_max: 1431,
        inventory,
    }
}

/// After a list, which all members but one have passed.
fn answer_listed() -> Answer {
    let mut answer = answer();
    answer.inventory.size = Some(4);
    answer.inventory.passed = Some(Passed {
        from: ConfigId {
            counter: 2,
            ..config()
        },
        at: Seq(9),
        gone: Some(member(4)),
        cuts: vec![Number(3), Number(0)],
    });
    answer
}

fn list() -> ListAck {
    ListAck {
        ack: Ack {
            packets: Vec::new(),
            ..ack()
        },
        list: List {
            version: 2,
            config: config(),
            max_n: 3,
            cut: Number(6),
            gone: List::NOBODY,
            ring: vec![0, 1, 2],
            roster: vec![member(1), member(2), member(3)],
            sizes: vec![1431, 1423, 1431],
            floor: Seq(8),
            starts: vec![
                Start {
                    held: Number(4),
                    first: Number(5),
                    offset: 60,
                },
                Start::default(),
            ],
        },
    }
}

fn proposal() -> Proposal {
    Proposal {
        attempt: Attempt(4),
        config: config(),
        start: Seq(15),
        max_n: 2,
        left: vec![member(4)],
        members: vec![(member(1), config()), (member(2), config())],
        sizes: vec![1400, 1431],
    }
}

fn examples() -> Vec<Message> {
    let null = Ack {
        packets: Vec::new(),
        ..ack()
    };
    let (tag, marks) = (config().into(), marks());
    vec![
        data(),
        Message::Ack(ack()),
        Message::Ack(null),
        Message::Confirm {
            tag,
            stamp: Stamp(7),
            marks,
        },
        Message::Settle { tag, marks },
        Message::Nack(Nack {
            whole: true,
            tag,
            asked: 3,
            again: 1,
            positions: vec![Positions {
                first: Seq(4),
                count: 9,
            }],
            packets: ack().packets,
        }),
        Message::Wanted(Wanted {
            tag,
            asked: 2,
            again: 1,
            members: vec![0, 3],
        }),
        Message::Relayed(Relayed {
            tag,
            members: vec![(0, marks), (3, Marks::default())],
        }),
        Message::Unordered {
            tag,
            record: Bytes::from_static(b"record"),
        },
        Message::Poll(Poll {
            attempt: Attempt(4),
            counter: 2,
            wanted: vec![member(1), member(2)],
            failed: vec![member(3)],
            left: vec![],
            heard: vec![member(9)],
        }),
        Message::Answer(answer()),
        Message::Proposal(proposal()),
        Message::Accept { config: config() },
        Message::Install { config: config() },
        Message::Ask {
            poller: member(1),
            attempt: 4,
        },
        Message::Missing(Missing {
            poller: member(1),
            attempt: Attempt(4),
            member: member(2),
            accepts: true,
        }),
        Message::Told(Told {
            member: member(2),
            said: Message::Answer(answer()).into(),
        }),
        Message::Told(Told {
            member: member(2),
            said: Message::Accept { config: config() }.into(),
        }),
        Message::Told(Told {
            member: member(1),
            said: Message::Proposal(proposal()).into(),
        }),
        Message::Announcement(Announcement {
            config: config(),
            members: vec![member(1)],
            heard: vec![member(2)],
        }),
        Message::Goodbye,
        Message::Name(NameMessage::InUse { uptime_ms: 77 }),
        Message::Name(NameMessage::Question { nonce: 78 }),
        Message::Name(NameMessage::Proof {
            nonce: 78,
            uptime_ms: 79,
        }),
        Message::Join(Join {
            counter: 2,
            high: Seq(7),
            body_max: 1431,
            config: config(),
            heard: vec![member(1)],
        }),
        Message::List(list()),
        Message::Listed(Listed {
            tag,
            version: 2,
            cut: Number(6),
            asks: true,
        }),
        Message::Leave { tag },
        Message::Probe {
            answers: true,
            number: 7,
        },
        Message::Answer(answer_listed()),
    ]
}

#[test]
fn what_is_encoded_comes_back_and_is_as_long_as_its_fields() {
    for message in examples() {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
        let rest_of_any_length = matches!(
            message,
            Message::Data(_) | Message::Unordered { .. } | Message::Answer(_) | Message::Told(_)
        );
        for len in 0..bytes.len() {
            let cut = Message::decode(&bytes.slice(..len));
            assert!(
                rest_of_any_length || cut.is_err(),
                "{message:?} cut to {len}"
            );
        }
    }
}

#[test]
fn the_layouts_of_data_and_acks_are_pinned() {
    let expected = [
        &[33, 1, 2][..],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &[0, 0, 0, 0, 0, 5],
        &[0, 0, 0, 0, 0, 4],
        &[0, 0, 0, 0, 0, 9],
        b"body",
    ];
    assert_eq!(data().encode(), expected.concat());
    assert_eq!(data().encode().len(), DATA_HEADER + 4);
    let tag = Tag::from(config()).0.to_be_bytes();
    let expected = [
        &[34, 0, 1, 2][..],
        &tag,
        &[0, 0, 0, 0, 0, 7],
        &[0, 0, 0, 0, 0, 12],
        &[0, 0, 0, 0, 0, 4],
        &[0, 0, 0, 0, 0, 9],
        &[0, 2],
        &[0, 0, 0, 0, 0, 0, 5, 2],
        &[3, 0, 0, 0, 0, 0, 1, 1],
    ];
    assert_eq!(Message::Ack(ack()).encode(), expected.concat());
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refuse = |message: Message| assert!(Message::decode(&message.encode()).is_err());
    let mut empty_run = ack();
    empty_run.packets[0].count = 0;
    refuse(Message::Ack(empty_run));
    let mut beyond_high = answer();
    beyond_high.inventory.insert(Seq(22));
    refuse(Message::Answer(beyond_high));
    let mut safe_above_aru = answer();
    safe_above_aru.inventory.holding.safe = Seq(6);
    refuse(Message::Answer(safe_above_aru));
    let mut small = answer();
    small.body_max = 100;
    refuse(Message::Answer(small));
    let mut many = answer();
    many.inventory.max_n = 129;
    refuse(Message::Answer(many));
    let twice = Proposal {
        attempt: Attempt(1),
        config: config(),
        start: Seq(1),
        max_n: 2,
        left: Vec::new(),
        members: vec![(member(2), config()), (member(2), config())],
        sizes: vec![1400; 2],
    };
    refuse(Message::Proposal(twice));
    let mut too_small = list();
    too_small.list.sizes[1] = 100;
    refuse(Message::List(too_small));
}

#[test]
fn an_inventory_has_what_was_put_into_it() {
    let inventory = answer().inventory;
    let held: Vec<u64> = (1..20).filter(|seq| inventory.has(Seq(*seq))).collect();
    assert_eq!(held, [1, 2, 3, 4, 5, 7, 15]);
}

proptest! {
    #[test]
    fn any_bytes_decode_to_a_message_or_an_error(bytes: Vec<u8>) {
        let _ = Message::decode(&bytes.into());
    }

    #[test]
    fn damaged_messages_decode_to_a_message_or_an_error(
        example in 0usize..16,
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = examples()[example].encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Message::decode(&bytes.into());
    }
}

/// A member that leaves while it joins others in vain lists them as given up: that must fit a
/// datagram.
#[test]
fn an_announcement_names_no_more_members_than_there_are_indices() {
    let decodes = |members: u64| {
        let announcement = Announcement {
            config: config(),
            members: (0..members).map(member).collect(),
            heard: Vec::new(),
        };
        let bytes = Message::Announcement(announcement).encode();
        Message::decode(&bytes).is_ok()
    };
    assert!(decodes(128) && !decodes(129));
}

#[test]
fn only_what_was_said_in_a_reformation_is_told_on() {
    let told = |said: Message| {
        let told = Told {
            member: member(4),
            said: Box::new(said),
        };
        Message::decode(&Message::Told(told).encode()).is_ok()
    };
    let accept = || Message::Accept { config: config() };
    assert!(told(accept()));
    assert!(!told(Message::Goodbye) && !told(data()));
    let of_another = Told {
        member: member(5),
        said: Box::new(accept()),
    };
    assert!(!told(Message::Told(of_another)), "what is told is not");
}
