//! Frames of a daemon: what is written comes back, and the bytes are pinned.

use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId, OrderPlace, Service};
use proptest::prelude::*;

use super::super::{FRAME_MAX, FrameDecoder, HEADER_LEN, MAGIC, Syntax};
use super::*;
use crate::guests::{Ending, Role, RoleNotice, RoleState};
use crate::view::{Cause, ViewId, ViewKind};

fn decode_all(bytes: &[u8]) -> Result<Vec<DaemonFrame>, FrameError> {
    let mut decoder = FrameDecoder::new(FRAME_MAX);
    for piece in [&MAGIC[..], bytes] {
        for chunk in piece.chunks(1000) {
            decoder.space()[..chunk.len()].copy_from_slice(chunk);
            decoder.filled(chunk.len());
        }
    }
    let mut frames = Vec::new();
    while let Some(raw) = decoder.next_frame()? {
        frames.extend(DaemonFrame::decode(raw)?);
    }
    Ok(frames)
}

fn config() -> ConfigId {
    ConfigId {
        counter: 3,
        representative: MemberId {
            node: NodeId(4),
            incarnation: Incarnation(5),
        },
    }
}

fn one_of_each() -> Vec<DaemonFrame> {
    let place = OrderPlace {
        config: config(),
        seq: 9 << 16,
    };
    let message = Message {
        service: Service::Agreed,
        place: Some(place),
        number: None,
        sender: "al@h".into(),
        sender_id: "".into(),
        tag: "".into(),
        syntax: Syntax::Raw,
        destinations: ["g", "room/ü"].into_iter().collect(),
        index: 1,
        payload: Bytes::from_static(b"hello"),
    };
    let unplaced = Message {
        service: Service::Unreliable,
        place: None,
        payload: Bytes::new(),
        ..message.clone()
    };
    let labelled = Message {
        sender_id: "al.x".into(),
        tag: "draw".into(),
        syntax: Syntax::Cstream,
        ..message.clone()
    };
    let numbered = Message {
        service: Service::Bimodal,
        number: Some(77),
        ..unplaced.clone()
    };
    let view = View {
        group: "g".into(),
        id: ViewId {
            config: config(),
            seq: 65_537,
            within: None,
        },
        kind: ViewKind::Regular,
        approximate: false,
        cause: Cause::Join,
        changed: Some("bo@h".into()),
        members: vec!["al@h".into(), "bo@h".into()],
    };
    let transitional = View {
        id: ViewId {
            within: Some(77),
            ..view.id
        },
        kind: ViewKind::Transitional,
        cause: Cause::Network,
        changed: None,
        members: Vec::new(),
        ..view.clone()
    };
    let approximate = View {
        approximate: true,
        ..view.clone()
    };
    vec![
        DaemonFrame::Welcome(Welcome {
            version: 1,
            features: 0,
            publish_window: 4 << 20,
            message_max: 64 << 20,
            private_name: "al@h".into(),
            order: String::new(),
            rings: Vec::new(),
        }),
        DaemonFrame::Refused {
            code: Refusal::NameInUse,
            text: "choose another".into(),
        },
        DaemonFrame::Message(message),
        DaemonFrame::Message(unplaced),
        DaemonFrame::View(view),
        DaemonFrame::View(transitional),
        DaemonFrame::Accepted { up_to: 12 },
        DaemonFrame::Credit { bytes: 1 << 20 },
        DaemonFrame::Rejected {
            request: Request::Publish(4),
            code: Reject::TooLarge,
            text: "too large".into(),
        },
        DaemonFrame::Rejected {
            request: Request::Join("a@b".into()),
            code: Reject::Name,
            text: "has an @".into(),
        },
        DaemonFrame::StatusReport(Bytes::from_static(b"{}")),
        DaemonFrame::GroupsReport(Bytes::from_static(b"[]")),
        DaemonFrame::Disconnected {
            code: Disconnect::TooSlow,
            text: "too slow".into(),
        },
        DaemonFrame::Pong { token: 5 },
        DaemonFrame::Message(numbered),
        DaemonFrame::View(approximate),
        DaemonFrame::Gap {
            group: "g".into(),
            sender: "h".into(),
            first: 3,
            last: 5,
        },
        DaemonFrame::Welcome(Welcome {
            version: 1,
            features: ORDER_NAME | RINGS,
            publish_window: 4 << 20,
            message_max: 64 << 20,
            private_name: "al@h".into(),
            order: "ring".into(),
            rings: vec!["wb.cb".into()],
        }),
        DaemonFrame::RekeyReport(Bytes::from_static(b"{}")),
        DaemonFrame::Message(labelled),
        DaemonFrame::Done {
            token: 3,
            result: Ok(()),
        },
        DaemonFrame::Done {
            token: 3,
            result: Err((Reject::Pattern, "no".into())),
        },
        DaemonFrame::WhoReport {
            token: 4,
            ids: vec!["al".into(), "bo@h".into()],
        },
        DaemonFrame::BusClientsReport {
            token: 5,
            clients: vec![BusClient {
                name: "al@h".into(),
                id: String::new(),
                groups: vec!["*.b".into(), "a.b".into()],
            }],
        },
        DaemonFrame::Guest(
            GuestReply::Request {
                place,
                handler: Some(5),
                guest: "al@h".into(),
                group: "g".into(),
            },
            Bytes::from_static(b"hi"),
        ),
        DaemonFrame::Guest(
            GuestReply::Taken {
                number: 3,
                asked: 2,
            },
            Bytes::new(),
        ),
        DaemonFrame::Guest(
            GuestReply::Answer {
                number: 3,
                from: "bo@h".into(),
            },
            Bytes::from_static(b"yo"),
        ),
        DaemonFrame::Guest(
            GuestReply::Ended {
                number: 3,
                ending: Ending::Refused,
                answers: 1,
                code: Reject::TooManyGuests,
                text: "full".into(),
            },
            Bytes::new(),
        ),
        role(RoleState::Held),
        role(RoleState::Lost {
            holder: "bo@h".into(),
        }),
        role(RoleState::Refused {
            holder: "bo@h".into(),
            code: Reject::Taken,
            text: "taken".into(),
        }),
        DaemonFrame::Behind {
            waiting: 7,
            limit: 8,
            dropped: 9,
        },
    ]
}

#[test]
fn every_frame_comes_back() {
    let frames = one_of_each();
    let mut bytes = Vec::new();
    for frame in &frames {
        frame.encode(&mut bytes);
    }
    assert_eq!(decode_all(&bytes).unwrap(), frames);
}

fn role(state: RoleState) -> DaemonFrame {
    let notice = RoleNotice {
        token: 7,
        group: "g".into(),
        role: Role::Lock(2),
        state,
    };
    DaemonFrame::Guest(GuestReply::Role(notice), Bytes::new())
}

#[test]
fn golden_bytes_of_roles() {
    let mut bytes = Vec::new();
    role(RoleState::Waits {
        holder: "bo@h".into(),
    })
    .encode(&mut bytes);
    #[rustfmt::skip]
    let golden = [
        0, 0, 0, 21, 86,  0, 0, 0, 0, 0, 0, 0, 7,  1,  2, 0, 2,  1, b'g',  4, b'b', b'o', b'@', b'h',  0,
    ];
    assert_eq!(bytes, golden);
}

#[test]
fn golden_bytes() {
    let mut bytes = Vec::new();
    one_of_each()[2].encode(&mut bytes);
    #[rustfmt::skip]
    let golden = [
        0, 0, 0, 57, 67,  1,  4,  1,
        0, 0, 0, 0, 0, 0, 0, 3,  0, 0, 0, 0, 0, 0, 0, 4,  0, 0, 0, 0, 0, 0, 0, 5,
        0, 0, 0, 0, 0, 9, 0, 0,
        4, b'a', b'l', b'@', b'h',
        2,  1, b'g',  7, b'r', b'o', b'o', b'm', b'/', 0xc3, 0xbc,
        b'h', b'e', b'l', b'l', b'o',
    ];
    assert_eq!(bytes, golden);
    bytes.clear();
    DaemonFrame::Refused {
        code: Refusal::Version,
        text: "old".into(),
    }
    .encode(&mut bytes);
    assert_eq!(bytes, [0, 0, 0, 5, 66, 2, b'o', b'l', b'd']);
    bytes.clear();
    one_of_each()[16].encode(&mut bytes);
    #[rustfmt::skip]
    let gap = [
        0, 0, 0, 21, 76,  0, 0, 0, 0, 0, 0, 0, 3,  0, 0, 0, 0, 0, 0, 0, 5,  1, b'g',  1, b'h',
    ];
    assert_eq!(bytes, gap);
    bytes.clear();
    one_of_each()[19].encode(&mut bytes);
    #[rustfmt::skip]
    let labelled = [
        0, 0, 0, 68, 78,  1,  4,  1,
        0, 0, 0, 0, 0, 0, 0, 3,  0, 0, 0, 0, 0, 0, 0, 4,  0, 0, 0, 0, 0, 0, 0, 5,
        0, 0, 0, 0, 0, 9, 0, 0,
        4, b'a', b'l', b'@', b'h',  4, b'a', b'l', b'.', b'x',  2,  4, b'd', b'r', b'a', b'w',
        2,  1, b'g',  7, b'r', b'o', b'o', b'm', b'/', 0xc3, 0xbc,
        b'h', b'e', b'l', b'l', b'o',
    ];
    assert_eq!(bytes, labelled);
    bytes.clear();
    one_of_each()[22].encode(&mut bytes);
    #[rustfmt::skip]
    let who = [
        0, 0, 0, 21, 80,  0, 0, 0, 0, 0, 0, 0, 4,  0, 0, 0, 2,
        2, b'a', b'l',  4, b'b', b'o', b'@', b'h',
    ];
    assert_eq!(bytes, who);
    let ends = [
        (0, &b"\x04al@h"[..]),
        (17, b"\x04al@h\x04ring\0\0\0\x01\x05wb.cb"),
    ];
    for (index, end) in ends {
        bytes.clear();
        one_of_each()[index].encode(&mut bytes);
        assert!(bytes.ends_with(end), "{bytes:?}");
        assert_eq!(bytes.len(), HEADER_LEN + 26 + end.len());
    }
}

#[test]
fn the_index_can_be_changed_in_an_encoded_head() {
    let frames = one_of_each();
    let mut bytes = Vec::new();
    frames[2].encode(&mut bytes);
    bytes[HEADER_LEN] = 0;
    let frames = decode_all(&bytes).unwrap();
    let DaemonFrame::Message(message) = &frames[0] else {
        panic!("{:?}", frames[0]);
    };
    assert_eq!(message.group(), "g");
}

#[test]
fn codes_of_newer_daemons_are_read_as_other() {
    let frames = decode_all(&[0, 0, 0, 4, 66, 99, b'h', b'm']).unwrap();
    assert_eq!(
        frames,
        [DaemonFrame::Refused {
            code: Refusal::Other,
            text: "hm".into()
        }]
    );
}

proptest! {
    #[test]
    fn any_body_of_any_kind_never_panics(kind in 60u8..84, body: Vec<u8>) {
        let raw = RawFrame { kind, body: body[..].into() };
        if let Ok(Some(frame)) = DaemonFrame::decode(raw) {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            prop_assert_eq!(decode_all(&bytes).unwrap(), vec![frame]);
        }
    }

    #[test]
    fn truncated_frames_are_errors_not_panics(which in 0usize..24, cut in 1usize..40) {
        let mut bytes = Vec::new();
        one_of_each()[which].encode(&mut bytes);
        let body = &bytes[HEADER_LEN..];
        let body = &body[..body.len().saturating_sub(cut)];
        let _ = DaemonFrame::decode(RawFrame { kind: bytes[4], body: body.into() });
    }
}
