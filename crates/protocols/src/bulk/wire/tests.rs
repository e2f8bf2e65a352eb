//! What is written comes back; damage is another message or an error; the layout of a data packet
//! is pinned.

use core::ops::Range;
use core::time::Duration;

use groupcast_core::{Incarnation, MemberId, NodeId};
use proptest::prelude::*;

use super::super::config::{Collectors, Control, Damping, Multidriver, Policy, Slot, Xtp};
use super::super::transfer::{DeliverTo, Opening, Served};
use super::*;

fn packets((start, end): (u64, u64)) -> Range<PacketNumber> {
    PacketNumber(start)..PacketNumber(end)
}

fn member(node: u64) -> MemberId {
    MemberId {
        node: NodeId(node),
        incarnation: Incarnation(node + 1),
    }
}

fn examples() -> Vec<Message> {
    let data = Data {
        header: DataHeader {
            transfer: 9,
            answer: true,
            last: false,
            again: true,
            ends: false,
            rate: false,
            stamp: Stamp(77),
            number: PacketNumber(1 << 33),
            parity: None,
            kept: 0,
            from_arrival: false,
            subgroups: None,
        },
        body: Bytes::from_static(b"stream"),
    };
    let mut kept = data.clone();
    kept.header.kept = 1023;
    let mut tagged = kept.clone();
    tagged.header.rate = true;
    let mut vector = tagged.clone();
    vector.header.subgroups = Some(Subgroups(0b110));
    let mut stamped = data.clone();
    stamped.header.from_arrival = true;
    let mut ending = data.clone();
    ending.header.ends = true;
    let mut parity = data.clone();
    parity.header.parity = Some(7);
    let announce = Announce {
        policy: Policy::Tree { height: 6 },
        set_size: 0,
        returns: None,
        deliver_to: DeliverTo::AtOnce,
        go_back: true,
        meet: true,
        confirm: false,
        rewindable: true,
        messages: None,
        packet: 1400,
        block: 64,
        length: Some(0),
        nak_delay_us: None,
        named: false,
        subgroups: None,
        about: Bytes::from_static(b"about"),
    };
    let xtp = Announce {
        policy: Policy::Xtp(Xtp {
            every: 16,
            control: Control {
                multicast: true,
                damping: Damping::Rseq,
                slot: Slot::UpTo(Duration::from_micros(700)),
            },
            ..Xtp::for_window(1024)
        }),
        ..announce.clone()
    };
    let multidriver = Announce {
        policy: Policy::Multidriver(Multidriver {
            backoff: Duration::from_micros(90),
            ..Multidriver::for_window(1)
        }),
        set_size: 200,
        returns: Some(300),
        deliver_to: DeliverTo::UpTo {
            first: 70_000,
            step: None,
        },
        ..announce.clone()
    };
    let for_some = Announce {
        policy: Policy::List(Multidriver {
            backoff: Duration::from_micros(90),
            ..Multidriver::for_window(1)
        }),
        subgroups: Some(Subgroups(0b1001)),
        named: true,
        rewindable: false,
        ..multidriver.clone()
    };
    let of_messages = Announce {
        messages: Some(Opening::AtStart),
        block: 0,
        length: None,
        ..announce.clone()
    };
    let may_be_joined = Announce {
        messages: Some(Opening::AtAnyTime),
        subgroups: Some(Subgroups(5)),
        ..of_messages.clone()
    };
    let unanswered = Announce {
        messages: Some(Opening::Unanswered),
        ..of_messages.clone()
    };
    let start = Start {
        pass: PassNumber(2),
        answer: true,
        receivers: 9,
        first: 7,
        members: [member(1), member(2)].into(),
        collectors: None,
        asks_where_restored: true,
    };
    let collected = Start {
        collectors: Some(CollectorList {
            version: 3,
            members: [member(2), member(9)].into(),
        }),
        ..start.clone()
    };
    let collectors = Announce {
        policy: Policy::Collectors(Collectors {
            every: 20,
            wait: Duration::from_micros(900),
            ..Collectors::for_window(1)
        }),
        ..announce.clone()
    };
    let report = ReceiverReport {
        sender: Incarnation(8),
        purpose: Purpose::Nak,
        answers: true,
        aggregate: false,
        outrun: true,
        pass: PassNumber(2),
        status: Status::Failed("the disk is full".into()),
        next: PacketNumber(5),
        limit: PacketNumber(900),
        seen: Stamp(300),
        received: 290,
        delay_us: 12,
        listed_below: PacketNumber(70),
        missing: [(5, 6), (9, 70)].map(packets).into(),
        tag: None,
        delivers_to: None,
        part: None,
        subgroups: None,
        attends: None,
        restores_below: None,
        name: Bytes::new(),
    };
    let reply = ReceiverReport {
        tag: Some(ReplyTag {
            rate: 1_000_000,
            burst: 64_000,
        }),
        delivers_to: Some(70_000),
        part: Some(Part {
            count: 900,
            offset: 70,
            waiting: 90,
            end: None,
            bytes: Bytes::from_static(b"return"),
        }),
        ..report.clone()
    };
    let last = ReceiverReport {
        part: Some(Part {
            count: 3,
            offset: 0,
            waiting: 0,
            end: Some(u32::MAX),
            bytes: Bytes::new(),
        }),
        status: Status::Holding,
        attends: Some(u32::MAX),
        ..report.clone()
    };
    let ready = ReceiverReport {
        purpose: Purpose::Ready,
        status: Status::Receiving,
        restores_below: Some(PacketNumber(64)),
        ..last.clone()
    };
    let in_some = ReceiverReport {
        purpose: Purpose::Register,
        status: Status::Receiving,
        subgroups: Some(Subgroups(1 << 63)),
        name: Bytes::from_static(b"host"),
        ..reply.clone()
    };
    let row = |index, status, delivers_to| Row {
        index,
        report: ReceiverReport {
            outrun: false,
            status,
            delivers_to,
            ..report.clone()
        },
    };
    let mut acknowledging = row(300, Status::Holding, Some(70_000));
    acknowledging.report.purpose = Purpose::Acknowledge;
    acknowledging.report.missing.clear();
    let composite = Composite {
        sender: Incarnation(8),
        pass: PassNumber(2),
        rows: [row(0, Status::Receiving, None), acknowledging].into(),
    };
    let poll = Poll {
        pass: PassNumber(1),
        stamp: Stamp(4),
        top: PacketNumber(8),
        length: None,
    };
    [
        Message::Data(data),
        Message::Data(parity),
        Message::Data(ending),
        Message::Announce(announce),
        Message::Announce(of_messages),
        Message::Announce(may_be_joined),
        Message::Announce(unanswered),
        Message::Join(Join::AT_START),
        Message::Join(Join {
            place: PacketNumber(1 << 33),
            number: 70_000,
        }),
        Message::Joined(70_000),
        Message::Missed("late".into()),
        Message::Start(start),
        Message::Report(report),
        Message::Poll(poll),
        Message::Data(kept),
        Message::Announce(xtp),
        Message::Announce(collectors),
        Message::Start(collected),
        Message::Composite(composite),
        Message::Request(Request {
            pass: PassNumber(1),
            stamp: Stamp(5),
            top: PacketNumber(80),
            kept: PacketNumber(17),
            length: Some(90_000),
        }),
        Message::Data(tagged),
        Message::Announce(multidriver),
        Message::Report(reply),
        Message::Tag(Tag {
            pass: PassNumber(1),
            stamp: Stamp(6),
            top: PacketNumber(80),
            length: Some(90_000),
            again: true,
            rate: false,
            backoff: 200,
            subgroups: None,
        }),
        Message::Acknowledgement(Stamp(6)),
        Message::Mark(140_000),
        Message::Report(last),
        Message::Returned(Returned {
            gap: true,
            ended: false,
            next: 70,
            limit: 17_000,
            count: 900,
        }),
        Message::Finish(Finish::Done(None)),
        Message::Finish(Finish::Done(Some(Subgroups(7)))),
        Message::Data(vector),
        Message::Data(stamped),
        Message::Tag(Tag {
            pass: PassNumber(1),
            stamp: Stamp(6),
            top: PacketNumber(80),
            length: None,
            again: false,
            rate: true,
            backoff: 0,
            subgroups: Some(Subgroups(0b110)),
        }),
        Message::Finish(Finish::Cancelled("why".into())),
        Message::Finish(Finish::Dropped),
        Message::Finish(Finish::SameName),
        Message::Finish(Finish::Full),
        Message::Finish(Finish::Excluded),
        Message::Announce(for_some),
        Message::Report(in_some),
        Message::Report(ready),
        Message::Attend(Attend {
            version: 70_000,
            attendance: Attendance::LooksIn,
        }),
        Message::ServedWhen(ServedWhen {
            all: false,
            version: 70_000,
            served: Served::Later,
            holds: Duration::from_millis(4_950),
        }),
        Message::ServedWhen(ServedWhen {
            all: true,
            version: 1,
            served: Served::Paused,
            holds: Duration::from_millis(u64::from(u32::MAX)),
        }),
        Message::Refuse(Refusal {
            reason: "no".into(),
            name: Bytes::new(),
        }),
        Message::Refuse(Refusal {
            reason: "the disk is full".into(),
            name: Bytes::from_static(b"host"),
        }),
    ]
    .into()
}

#[test]
fn what_was_encoded_comes_back_and_no_shorter_body_does() {
    for message in examples() {
        let bytes = message.encode(9);
        assert_eq!(Message::decode(&bytes), Ok((9, message)));
        assert!(Message::decode(&bytes.slice(..4)).is_err());
    }
}

#[test]
fn the_layout_of_when_it_is_served_is_pinned() {
    let said = ServedWhen {
        all: true,
        version: 258,
        served: Served::Paused,
        holds: Duration::from_millis(259),
    };
    let golden = [18, 0, 0, 0, 9, 2, 0, 0, 1, 2, 3, 0, 0, 1, 3];
    assert_eq!(Message::ServedWhen(said).encode(9)[..], golden);
}

#[test]
fn the_layout_of_a_data_packet_is_pinned() {
    let bytes = examples()[0].encode(9);
    assert_eq!(
        bytes[..DATA_HEADER],
        [
            1, 0, 0, 0, 9, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 2, 0, 0, 0, 0
        ]
    );
    assert_eq!(bytes[DATA_HEADER..], *b"stream");
}

#[test]
fn a_place_that_no_message_can_have_is_an_error() {
    let with = |place, number| Join {
        place: PacketNumber(place),
        number,
    };
    for wrong in [
        with(0, 2),
        with(3, 1),
        with(3, 0),
        with(3, 5),
        with(u64::MAX, 2),
    ] {
        let body = Message::Join(wrong).encode(9);
        assert!(Message::decode(&body).is_err(), "{wrong:?}");
    }
    assert!(Message::decode(&Message::Joined(0).encode(9)).is_err());
}

proptest! {
    #[test]
    fn any_bytes_decode_to_a_message_that_encodes_or_to_an_error(kind in 0u8..20, bytes: Vec<u8>) {
        let body: Bytes = [&[kind, 0, 0, 0, 1], &bytes[..]].concat().into();
        if let Ok((transfer, message)) = Message::decode(&body) {
            prop_assert!(message.encode(transfer).len() <= body.len() + 2 * REASON_MAX);
        }
    }

    #[test]
    fn a_damaged_message_is_another_or_an_error(which in 0..examples().len(), at in 0usize..90, bit in 0u8..8) {
        let mut bytes = examples()[which].encode(1).to_vec();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let body = Bytes::from(bytes);
        if let Ok((transfer, message)) = Message::decode(&body) {
            prop_assert_eq!(Message::decode(&message.encode(transfer)).map(|(_, again)| again), Ok(message));
        }
    }
}

/// It is handed on with another delay, which may be longer.
#[test]
fn a_row_of_a_composite_is_shorter_than_a_datagram() {
    let report = examples().into_iter().find_map(|message| match message {
        Message::Report(report) => Some(report),
        _ => None,
    });
    let report = report.expect("a report is among them");
    for (gaps, fits) in [(1_400, true), (1_401, false)] {
        let missing = (0..gaps).map(|at| PacketNumber(2 * at)..PacketNumber(2 * at + 1));
        let row = Row {
            index: 0,
            report: ReceiverReport {
                missing: missing.collect(),
                ..report.clone()
            },
        };
        let composite = Composite {
            sender: Incarnation(8),
            pass: PassNumber(2),
            rows: [row].into(),
        };
        let encoded = Message::Composite(composite).encode(1);
        assert_eq!(Message::decode(&encoded).is_ok(), fits);
    }
}
