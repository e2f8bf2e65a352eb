//! The wire format: what is encoded comes back, layouts are pinned, any bytes are survived.

use alloc::vec;

use groupcast_core::mech::closing::Holding;
use groupcast_core::mech::indices::Indices;
use groupcast_core::{MemberId, NodeId};
use proptest::prelude::*;

use super::*;
use crate::ring::numbers::{Attempt, Round, Run, Seq};
use crate::ring::parts::Part;

fn member(node: u64) -> MemberId {
    MemberId {
        node: NodeId(node),
        incarnation: Incarnation(node << 32 | 7),
    }
}

fn ring() -> ConfigId {
    ConfigId {
        counter: 3,
        representative: member(1),
    }
}

fn examples() -> Vec<Message> {
    let packet = Packet {
        origin: Index(2),
        round: Round(9),
        recovered: None,
        body: Bytes::from_static(b"body"),
    };
    let recovered = Some(Recovered {
        seq: Seq(77),
        origin: Index(1),
        part: None,
    });
    let holding = Holding {
        config: ring(),
        aru: Seq(5),
        high: Seq(8),
        safe: Seq(4),
        obligations: Indices::from_bits(5),
    };
    vec![
        Message::Data(Data {
            ring: RingKey::from(ring()).tag(),
            seq: Seq(12),
            post_token: true,
            packet: packet.clone(),
        }),
        Message::Data(Data {
            ring: RingKey::from(ring()).tag(),
            seq: Seq(13),
            post_token: false,
            packet: Packet {
                recovered,
                ..packet.clone()
            },
        }),
        Message::Data(Data {
            ring: RingKey::from(ring()).tag(),
            seq: Seq(14),
            post_token: false,
            packet: Packet {
                recovered: recovered.map(|it| Recovered {
                    part: Some(Part { at: 9, of: 13 }),
                    ..it
                }),
                ..packet
            },
        }),
        Message::Token(token()),
        Message::Join(Join {
            attempt: Attempt(4),
            counter: 3,
            leaving: true,
            proc: vec![member(1), member(2)],
            fail: vec![member(2)],
            left: vec![],
            heard: vec![member(5)],
            high: Seq(900),
            max_n: 3,
        }),
        Message::Commit(Commit {
            hop: Hop(6),
            ring: ring(),
            left: vec![member(9)],
            members: vec![
                CommitMember {
                    member: member(1),
                    attempt: Attempt(2),
                    body_max: 1431,
                    holding: Some(holding),
                },
                CommitMember {
                    member: member(2),
                    attempt: Attempt(3),
                    body_max: 0,
                    holding: None,
                },
            ],
            marks: vec![],
        }),
        Message::Announcement(Announcement {
            ring: ring(),
            members: vec![member(1)],
            heard: vec![],
        }),
        Message::Ack {
            ring: ring().into(),
            hop: Hop(5),
        },
        Message::Hurry {
            ring: ring().into(),
        },
        Message::Unordered {
            ring: ring().into(),
            origin: Index(1),
            record: Bytes::from_static(b"record"),
        },
        Message::Name(NameMessage::InUse { uptime_ms: 1234 }),
        Message::Name(NameMessage::Question { nonce: 5 }),
        Message::Name(NameMessage::Proof {
            nonce: 5,
            uptime_ms: 1234,
        }),
        Message::Probe {
            answers: true,
            number: 7,
        },
        Message::Part {
            number: 3,
            part: Part { at: 996, of: 1_000 },
            bytes: Bytes::from_static(b"part"),
        },
    ]
}

/// A short one costs far more than its bytes, while it is kept.
#[test]
fn only_the_last_part_may_be_short() {
    for (at, len, taken) in [
        (0, 247, true),
        (0, 246, false),
        (999, 1, true),
        (998, 1, false),
    ] {
        let part = Message::Part {
            number: 3,
            part: Part { at, of: 1_000 },
            bytes: vec![7; len].into(),
        };
        assert_eq!(
            Message::decode(&part.encode()).is_ok(),
            taken,
            "{at}, {len}"
        );
    }
}

fn runs(runs: &[(u64, u16)]) -> Vec<Run> {
    let run = |(first, count): &(u64, u16)| Run {
        first: Seq(*first),
        count: *count,
    };
    runs.iter().map(run).collect()
}

fn token() -> Token {
    Token {
        ring: ring().into(),
        hop: Hop(41),
        seq: Seq(20),
        aru: Seq(15),
        aru_by: Some(Index(1)),
        fcc: 6,
        retransmissions: 2,
        backlog: 1,
        install: Some(Seq(18)),
        installed: true,
        idle: false,
        called: false,
        rtr: runs(&[(16, 1), (18, 2)]),
        resilience: None,
    }
}

/// The examples of [`token`] and of a commit token, while resilient messages are about.
fn with_marks() -> [Message; 2] {
    let resilience = Some(Resilience {
        until: Seq(19),
        marks: vec![Seq(20), Seq(15), Seq(0)],
    });
    let marks = vec![OldMarks {
        ring: ring(),
        max_n: 5,
        marks: vec![Seq(7), Seq(8)],
    }];
    let mut commit = examples().into_iter().find_map(|message| match message {
        Message::Commit(commit) => Some(commit),
        _ => None,
    });
    let commit = commit.take().expect("there is one");
    [
        Message::Token(Token {
            resilience,
            ..token()
        }),
        Message::Commit(Commit { marks, ..commit }),
    ]
}

#[test]
fn marks_come_back_behind_what_was_there_before_them() {
    for message in with_marks() {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message.clone()));
        let before = match message {
            Message::Token(token) => Message::Token(Token {
                resilience: None,
                ..token
            }),
            Message::Commit(commit) => Message::Commit(Commit {
                marks: vec![],
                ..commit
            }),
            other => other,
        };
        let before = before.encode();
        assert_eq!(bytes[..before.len()], before, "the rest is as without them");
        for end in before.len() + 1..bytes.len() {
            assert!(Message::decode(&bytes.slice(..end)).is_err(), "{end}");
        }
    }
    let token = Message::Token(token()).encode();
    let marked = with_marks()[0].encode();
    // Type, length; until; 0, 5 and 20 below seq.
    let expected = [
        1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 20,
    ];
    assert_eq!(marked[token.len()..], expected);
}

#[test]
fn marks_below_the_first_number_or_until_above_the_last_are_refused() {
    let bytes = with_marks()[0].encode();
    for (at, value) in [(12, 21), (16, 21)] {
        let mut spoiled = bytes.to_vec();
        let index = spoiled.len() - 24 + at;
        spoiled[index] = value;
        assert!(Message::decode(&spoiled.into()).is_err());
    }
}

#[test]
fn every_message_comes_back() {
    for message in examples() {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

#[test]
fn no_prefix_of_a_control_message_decodes() {
    for message in examples() {
        if matches!(
            message,
            Message::Data(_) | Message::Unordered { .. } | Message::Part { .. }
        ) {
            continue;
        }
        let bytes = message.encode();
        for len in 0..bytes.len() {
            assert!(
                Message::decode(&bytes.slice(..len)).is_err(),
                "{message:?} cut to {len} bytes"
            );
        }
    }
}

#[test]
fn the_layout_of_data_and_token_is_pinned() {
    let hex = |message: &Message| {
        message
            .encode()
            .iter()
            .map(|byte| alloc::format!("{byte:02x}"))
            .collect::<alloc::string::String>()
    };
    assert_eq!(
        hex(&examples()[1]),
        "2102daa66d2d7ddf743800000000000d0900000000004d01626f6479"
    );
    assert_eq!(
        hex(&Message::Token(token())),
        "02020000000000000003000000010000000700000000000000290000000000000014000000000000000f0001\
         0000000600000002000000010000000000000012000200000000000000100001000000000000001200\
         02"
    );
    let called = Message::Token(Token {
        called: true,
        ..token()
    });
    assert_eq!(&hex(&called)[..4], "0206");
    assert_eq!(Message::decode(&called.encode()), Ok(called));
}

#[test]
fn padding_is_told_from_the_body_whatever_it_ends_with() {
    for padding in [1, 2, 3, 254, 255, 256, 8_000] {
        for body in [&b"body"[..], &[0xff, 0xff, 0xff], &[0; 3], b""] {
            let Message::Data(data) = &examples()[0] else {
                unreachable!("the first example is data")
            };
            let header = DataHeader::new(data.ring, data.seq, true, &data.packet).padded();
            let end = PaddingEnd::of(padding);
            let zeros = vec![0; padding - end.as_bytes().len()];
            let bytes = [header.as_bytes(), body, &zeros, end.as_bytes()].concat();
            let Ok(Message::Data(decoded)) = Message::decode(&bytes.into()) else {
                panic!("{padding} bytes of padding");
            };
            assert_eq!(decoded.packet.body, body);
        }
    }
}

#[test]
fn padding_longer_than_the_packet_is_refused() {
    let mut bytes = examples()[0].encode().to_vec();
    bytes[0] |= 0x80;
    for end in [&[0][..], &[40], &[1, 0, 0xff], &[0, 0, 0xff]] {
        let padded = [&bytes[..], end].concat();
        assert!(Message::decode(&padded.into()).is_err(), "{end:?}");
    }
}

#[test]
fn members_of_the_first_format_are_not_understood() {
    for kind in [3, 4, 5] {
        let bytes = [&[kind][..], &[0; 200]].concat();
        assert!(Message::decode(&bytes.into()).is_err());
    }
}

#[test]
fn an_unknown_extension_of_the_token_is_skipped() {
    let mut bytes = Message::Token(token()).encode().to_vec();
    bytes.extend_from_slice(&[200, 0, 3, 1, 2, 3]);
    assert_eq!(Message::decode(&bytes.into()), Ok(Message::Token(token())));
}

#[test]
fn requests_beyond_seq_or_out_of_order_are_refused() {
    for rtr in [
        vec![(21, 1)],
        vec![(18, 2), (16, 1)],
        vec![(16, 3), (18, 1)],
        vec![(u64::MAX, 9)],
    ] {
        let rtr = runs(&rtr);
        let bytes = Message::Token(Token { rtr, ..token() }).encode();
        assert!(matches!(
            Message::decode(&bytes),
            Err(DecodeError::Invalid {
                field: "rtr first",
                ..
            })
        ));
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
        let _ = Message::decode(&bytes.into());
    }

    #[test]
    fn damaged_messages_decode_or_are_refused(which: prop::sample::Index, at: prop::sample::Index, flip in 1u8..) {
        let mut bytes = which.get(&examples()).encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let _ = Message::decode(&bytes.into());
    }
}
