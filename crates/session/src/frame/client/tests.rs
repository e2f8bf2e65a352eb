use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::{FRAME_MAX, FrameDecoder, MAGIC};
use super::*;
use crate::guests::Role;

fn decode_all(bytes: &[u8]) -> Result<Vec<ClientFrame>, FrameError> {
    let mut decoder = FrameDecoder::new(FRAME_MAX);
    for piece in [&MAGIC[..], bytes] {
        for chunk in piece.chunks(1000) {
            decoder.space()[..chunk.len()].copy_from_slice(chunk);
            decoder.filled(chunk.len());
        }
    }
    let mut frames = Vec::new();
    while let Some(raw) = decoder.next_frame()? {
        frames.extend(ClientFrame::decode(raw)?);
    }
    Ok(frames)
}

#[test]
fn golden_bytes() {
    let mut bytes = Vec::new();
    ClientFrame::Hello(Hello {
        version_min: 1,
        version_max: 1,
        features: 0,
        kind: ClientKind::Tool,
        delivery_window: 0x10_0000,
        name: Some("al".into()),
        token: None,
    })
    .encode(&mut bytes);
    ClientFrame::Join {
        group: "g".into(),
        discard_own: true,
        ring: false,
    }
    .encode(&mut bytes);
    encode_publish_head(&mut bytes, 7, Service::Safe, &["g", "a@h"], 2);
    bytes.extend(b"hi");
    ClientFrame::Bye.encode(&mut bytes);
    #[rustfmt::skip]
    let golden = [
        0, 0, 0, 25, 1,  0, 1, 0, 1,  0, 0, 0, 0, 0, 0, 0, 0,  1,  0, 0, 0, 0, 0, 16, 0, 0,  2, b'a', b'l',
        0, 0, 0, 4, 2,  1,  1, b'g',
        0, 0, 0, 19, 4,  0, 0, 0, 0, 0, 0, 0, 7,  5,  2,  1, b'g',  3, b'a', b'@', b'h',  b'h', b'i',
        0, 0, 0, 1, 9,
    ];
    assert_eq!(bytes, golden);
    let frames = decode_all(&golden).unwrap();
    assert!(matches!(&frames[0], ClientFrame::Hello(hello) if hello.name.as_deref() == Some("al")));
    assert!(
        matches!(&frames[1], ClientFrame::Join { group, discard_own: true, ring: false } if group == "g")
    );
    let ClientFrame::Publish(publish) = &frames[2] else {
        panic!("{:?}", frames[2]);
    };
    assert_eq!(publish.destinations().collect::<Vec<_>>(), ["g", "a@h"]);
    assert_eq!(publish.payload(), b"hi");
    assert!(matches!(frames[3], ClientFrame::Bye));
}

#[test]
fn a_token_follows_the_name() {
    let token = AccessToken::from_bytes([9; AccessToken::LEN]);
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        features: 0,
        kind: ClientKind::Tool,
        delivery_window: 0,
        name: None,
        token: Some(token),
    };
    let mut bytes = Vec::new();
    ClientFrame::Hello(hello.clone()).encode(&mut bytes);
    assert_eq!(bytes[bytes.len() - 34..bytes.len() - 31], [0, 32, 9]);
    let frames = decode_all(&bytes).unwrap();
    assert!(matches!(&frames[..], [ClientFrame::Hello(came)] if *came == hello));
    bytes.pop();
    bytes[3] -= 1;
    assert!(decode_all(&bytes).is_err(), "it is cut short");
}

#[test]
fn golden_bytes_of_requests_and_roles() {
    let mut bytes = Vec::new();
    let (group, role) = (String::from("g"), Role::Handler(5));
    for frame in [
        GuestFrame::Guest { id: 1, floor: 2 },
        GuestFrame::Request {
            number: 3,
            answers: 1,
            handler: Some(5),
            within: Duration::from_millis(500),
            group: group.clone(),
            payload: Bytes::from_static(b"hi"),
            stream_len: 0,
        },
        GuestFrame::Answer {
            seq: 1 << 16,
            payload: Bytes::from_static(b"yo"),
            stream_len: 0,
        },
        GuestFrame::Claim {
            token: 7,
            may_wait: true,
            role,
            group: group.clone(),
        },
        GuestFrame::Release {
            token: 8,
            role,
            group,
        },
    ] {
        ClientFrame::Guest(frame).encode(&mut bytes);
    }
    #[rustfmt::skip]
    let golden = [
        0, 0, 0, 17, 17,  0, 0, 0, 0, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 2,
        0, 0, 0, 22, 18,  0, 0, 0, 0, 0, 0, 0, 3,  0, 1,  1, 0, 5,  0, 0, 1, 0xf4,  1, b'g',  b'h', b'i',
        0, 0, 0, 11, 19,  0, 0, 0, 0, 0, 1, 0, 0,  b'y', b'o',
        0, 0, 0, 15, 20,  0, 0, 0, 0, 0, 0, 0, 7,  1,  1, 0, 5,  1, b'g',
        0, 0, 0, 14, 21,  0, 0, 0, 0, 0, 0, 0, 8,  1, 0, 5,  1, b'g',
    ];
    assert_eq!(bytes, golden);
    let mut again = Vec::new();
    for frame in decode_all(&bytes).unwrap() {
        frame.encode(&mut again);
    }
    assert_eq!(again, golden);
}

#[test]
fn golden_bytes_of_the_bus() {
    let mut bytes = Vec::new();
    let request = BusRequest::Accept {
        group: "g".into(),
        pattern: "*".into(),
        ring: false,
    };
    ClientFrame::Bus { token: 7, request }.encode(&mut bytes);
    let label = Label {
        tag: "t",
        syntax: Syntax::Sexp,
    };
    encode_labelled_head(&mut bytes, 1, Service::Agreed, Some(label), &["g"], 2);
    bytes.extend(b"()");
    #[rustfmt::skip]
    let golden = [
        0, 0, 0, 13, 11,  0, 0, 0, 0, 0, 0, 0, 7,  1, b'g',  1, b'*',
        0, 0, 0, 18, 16,  0, 0, 0, 0, 0, 0, 0, 1,  4,  1,  1, b't',  1,  1, b'g',  b'(', b')',
    ];
    assert_eq!(bytes, golden);
    let frames = decode_all(&bytes).unwrap();
    let [
        ClientFrame::Bus { token: 7, .. },
        ClientFrame::Publish(publish),
    ] = &frames[..]
    else {
        panic!("{frames:?}");
    };
    assert_eq!(publish.label(), Some(label));
    assert_eq!(publish.payload(), b"()");
}

#[test]
fn frames_of_unknown_kinds_are_skipped() {
    let mut bytes = vec![0, 0, 0, 3, 200, 1, 2];
    ClientFrame::Status.encode(&mut bytes);
    let frames = decode_all(&bytes).unwrap();
    assert!(matches!(frames[..], [ClientFrame::Status]));
}

#[test]
fn a_message_without_destinations_is_malformed() {
    let bytes = [0, 0, 0, 11, 4, 0, 0, 0, 0, 0, 0, 0, 1, 4, 0];
    let error = decode_all(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a malformed publish frame: destinations, which ends at byte 10, has the value 0, which is not allowed"
    );
}

proptest! {
    #[test]
    fn publishes_come_back_and_take_any_head(
        number: u64,
        service in prop::sample::select([&Service::ALL[..], &[Service::Bimodal]].concat()),
        names in prop::collection::vec("[a-zü/]{1,20}", 1..=100),
        payload: Vec<u8>,
        head in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut bytes = Vec::new();
        let cost = encode_publish_head(&mut bytes, number, service, &names, payload.len());
        bytes.extend(&payload);
        prop_assert_eq!(bytes.len(), cost);
        let mut frames = decode_all(&bytes).unwrap();
        let Some(ClientFrame::Publish(publish)) = frames.pop() else {
            return Err(TestCaseError::fail("not a publish"));
        };
        prop_assert_eq!(publish.number, number);
        prop_assert_eq!(publish.service, service);
        prop_assert_eq!(publish.stream_len(), cost);
        prop_assert_eq!(publish.destinations().collect::<Vec<_>>(), names);
        prop_assert_eq!(publish.payload(), &payload[..]);
        let whole = publish.into_payload_after(&head);
        prop_assert_eq!(&whole[..head.len()], &head[..]);
        prop_assert_eq!(&whole[head.len()..], &payload[..]);
    }

    #[test]
    fn any_body_of_any_kind_never_panics(kind: u8, body: Vec<u8>) {
        let raw = RawFrame { kind, body: body[..].into() };
        if let Ok(Some(frame)) = ClientFrame::decode(raw) {
            // What was accepted can be said again.
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            prop_assert!(decode_all(&bytes).is_ok());
        }
    }
}
