use groupcast_core::Service;

use super::*;
use crate::frame::{
    BUS, BusRequest, CREDIT_PER_FRAME, MAGIC, MessageHead, Reject, Request, encode_message_head,
};
use crate::groups::Transport;
use crate::{ClientId, Engine, EngineConfig};

fn encoded(frames: &[DaemonFrame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    bytes
}

/// A connection that was welcomed, with nothing left to send.
fn open(publish_window: u64, delivery_window: u64) -> Connection {
    open_to(0, publish_window, delivery_window)
}

/// The same to a daemon with these features.
fn open_to(features: u64, publish_window: u64, delivery_window: u64) -> Connection {
    let mut connection = Connection::new(None, ClientKind::Application, delivery_window);
    let welcome = DaemonFrame::Welcome(Welcome {
        version: VERSION,
        features,
        publish_window,
        message_max: 1_000,
        private_name: "c1@h".into(),
        order: "ring".into(),
        rings: Vec::new(),
    });
    let greeting = [&MAGIC[..], &encoded(&[welcome])].concat();
    connection.handle_bytes(&greeting).unwrap();
    sent(&mut connection);
    connection
}

/// Everything that waits to be sent, taken by a stream that takes seven bytes at a time.
fn sent(connection: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = connection.poll_transmit() {
        let part = &bytes[..bytes.len().min(7)];
        all.extend_from_slice(part);
        let len = part.len();
        connection.handle_transmitted(len);
    }
    all
}

fn message(payload: &[u8]) -> Vec<u8> {
    let head = MessageHead {
        service: Service::Agreed,
        place: None,
        number: None,
        sender: "al@h",
        label: None,
    };
    let mut bytes = Vec::new();
    encode_message_head(&mut bytes, &head, 0, &["g"], payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn nothing_is_requested_before_the_welcome_or_after_the_end() {
    let mut connection = Connection::new(None, ClientKind::Application, 100);
    assert_eq!(connection.join("g", false), Err(RequestError::NotWelcome));
    assert_eq!(
        connection.publish(&["g"], Service::Agreed, b""),
        Err(RequestError::NotWelcome)
    );
    let mut connection = open(100, 100);
    connection.handle_closed("gone");
    let ended = RequestError::Ended {
        code: Disconnect::Other,
        text: "gone".into(),
    };
    assert_eq!(connection.bye(), Err(ended.clone()));
    assert_eq!(connection.publish(&["g"], Service::Agreed, b""), Err(ended));
    assert_eq!(connection.outgoing(), 0);
}

#[test]
fn a_disk_is_asked_for_where_the_daemon_has_one() {
    let mut connection = open_to(BEHIND | SPILL, 100, 100);
    assert_eq!(connection.set_when_slow(WhenSlow::Spill), Ok(()));
    assert_eq!(sent(&mut connection), [0, 0, 0, 2, 22, 3]);
    let more = RequestError::MorePatience {
        wish: WhenSlow::Block,
    };
    assert_eq!(connection.set_when_slow(WhenSlow::Block), Err(more));
    let mut connection = open_to(BEHIND, 100, 100);
    let refused = connection.set_when_slow(WhenSlow::Spill);
    assert_eq!(refused, Err(RequestError::NoSpill));
    assert_eq!(connection.set_when_slow(WhenSlow::Drop), Ok(()));
}

#[test]
fn an_old_daemon_is_asked_for_no_ring_by_any_kind_of_join() {
    let accept = |ring| BusRequest::Accept {
        group: "g".into(),
        pattern: "*".into(),
        ring,
    };
    let mut connection = open_to(BUS | BEHIND, 100, 100);
    let refused = Err(RequestError::NoRingsMade);
    assert_eq!(connection.ask_bus(1, accept(true)), refused);
    assert_eq!(connection.join_on_ring("g", false), refused);
    assert_eq!(connection.outgoing(), 0);
    assert_eq!(connection.ask_bus(1, accept(false)), Ok(()));

    let mut connection = open_to(BUS | RINGS_MADE, 100, 100);
    assert_eq!(connection.ask_bus(1, accept(true)), Ok(()));
    assert_eq!(connection.join_on_ring("g", false), Ok(()));
}

#[test]
fn what_the_daemon_said_before_the_stream_ended_is_the_reason() {
    let mut connection = open(100, 100);
    let last_words = DaemonFrame::Disconnected {
        code: Disconnect::TooSlow,
        text: "too slow".into(),
    };
    connection.handle_bytes(&encoded(&[last_words])).unwrap();
    connection.handle_closed("without a word");
    assert_eq!(connection.end(), Some((Disconnect::TooSlow, "too slow")));
    assert!(matches!(
        connection.poll_event(),
        Some(ClientEvent::Disconnected {
            code: Disconnect::TooSlow,
            ..
        })
    ));
    assert_eq!(connection.poll_event(), None);
}

#[test]
fn messages_are_numbered_and_stop_when_the_credit_is_spent() {
    let mut connection = open(300, 100);
    assert_eq!(
        connection.publish(&["g"], Service::Agreed, &[1; 200]),
        Ok(1)
    );
    assert!(!connection.is_urgent(), "messages may be gathered");
    assert_eq!(
        connection.publish(&["g"], Service::Agreed, &[2; 200]),
        Ok(2)
    );
    let no_credit = Err(RequestError::NoCredit);
    assert_eq!(connection.publish(&["g"], Service::Agreed, b""), no_credit);
    let bytes = sent(&mut connection);
    let cost = (bytes.len() + 2 * CREDIT_PER_FRAME) as u64;
    let frames = [
        DaemonFrame::Rejected {
            request: Request::Publish(2),
            code: Reject::Other,
            text: "no".into(),
        },
        DaemonFrame::Credit { bytes: cost },
        DaemonFrame::Accepted { up_to: 1 },
    ];
    assert_eq!(connection.undecided(), 2);
    connection.handle_bytes(&encoded(&frames)).unwrap();
    assert_eq!(connection.undecided(), 0);
    assert_eq!(connection.publish_head(&["g"], Service::Safe, 5), Ok(3));
    assert!(matches!(
        connection.poll_event(),
        Some(ClientEvent::Rejected { .. })
    ));
    let accepted = Some(ClientEvent::Accepted { up_to: 1 });
    assert_eq!(connection.poll_event(), accepted);
    assert_eq!(connection.poll_event(), None);
}

#[test]
fn credit_goes_back_a_quarter_of_the_window_at_a_time() {
    let frame = message(&[7; 20]);
    let cost = credit_cost(frame.len()) as u64;
    let mut connection = open(100, 8 * cost);
    for _ in 0..8 {
        connection.handle_bytes(&frame).unwrap();
    }
    assert!(connection.is_full());
    let mut granted = Vec::new();
    for taken in 1..=8 {
        assert!(connection.poll_event().is_some());
        assert_eq!(connection.is_urgent(), taken % 2 == 0);
        granted.extend(sent(&mut connection));
    }
    let mut expected = Vec::new();
    for _ in 0..4 {
        ClientFrame::Credit { bytes: 2 * cost }.encode(&mut expected);
    }
    assert_eq!(granted, expected);
    assert_eq!(connection.unread(), 0);
}

#[test]
fn discarded_events_give_their_credit_back() {
    let frame = message(b"unread");
    let mut connection = open(100, 1 << 20);
    connection.handle_bytes(&frame).unwrap();
    connection.discard_events();
    assert_eq!(connection.poll_event(), None);
    let mut expected = Vec::new();
    ClientFrame::Credit {
        bytes: credit_cost(frame.len()) as u64,
    }
    .encode(&mut expected);
    assert_eq!(sent(&mut connection), expected);
}

#[test]
fn a_connection_that_begins_anew_joins_its_groups_again() {
    let mut connection = open(1_000, 1 << 20);
    connection.join("a", false).unwrap();
    connection.join("b", true).unwrap();
    connection.join("full", false).unwrap();
    connection.leave("a").unwrap();
    connection
        .publish(&["b"], Service::Agreed, b"lost")
        .unwrap();
    let rejected = DaemonFrame::Rejected {
        request: Request::Join("full".into()),
        code: Reject::TooManyGroups,
        text: "no".into(),
    };
    connection.handle_bytes(&encoded(&[rejected])).unwrap();
    connection.handle_bytes(&message(b"unread")).unwrap();
    connection.handle_closed("gone");
    sent(&mut connection);

    connection.restart();
    let mut hello = MAGIC.to_vec();
    ClientFrame::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        features: FEATURES,
        kind: ClientKind::Application,
        delivery_window: 1 << 20,
        name: None,
        token: None,
    })
    .encode(&mut hello);
    assert_eq!(sent(&mut connection), hello);
    let welcome = DaemonFrame::Welcome(Welcome {
        version: VERSION,
        features: 0,
        publish_window: 1_000,
        message_max: 1_000,
        private_name: "c2@h".into(),
        order: "ring".into(),
        rings: Vec::new(),
    });
    let greeting = [&MAGIC[..], &encoded(&[welcome])].concat();
    connection.handle_bytes(&greeting).unwrap();
    let mut joins = Vec::new();
    ClientFrame::Join {
        group: "b".into(),
        discard_own: true,
        ring: false,
    }
    .encode(&mut joins);
    assert_eq!(sent(&mut connection), joins);
    assert!(matches!(
        connection.poll_event(),
        Some(ClientEvent::Rejected { .. })
    ));
    assert!(matches!(
        connection.poll_event(),
        Some(ClientEvent::Message(_))
    ));
    connection.give_credit();
    assert_eq!(connection.outgoing(), 0, "another daemon gave that credit");
    assert_eq!(connection.poll_event(), None);
    assert_eq!(connection.publish(&["b"], Service::Agreed, b""), Ok(1));
}

/// Carries bytes between a connection and an engine until neither has more.
fn carry(connection: &mut Connection, engine: &mut Engine, id: ClientId) {
    let now = groupcast_core::Time::ZERO;
    loop {
        let to_daemon = sent(connection);
        let mut rest = &to_daemon[..];
        while let Some(space) = engine.space(id)
            && !rest.is_empty()
        {
            let len = space.len().min(rest.len());
            space[..len].copy_from_slice(&rest[..len]);
            engine.received_all(now, id, len);
            rest = &rest[len..];
        }
        let mut to_client = Vec::new();
        while let Some(id) = engine.poll_output() {
            let mut slices = [std::io::IoSlice::new(&[]); 4];
            loop {
                let count = engine.slices(id, &mut slices);
                let bytes: Vec<u8> = slices[..count]
                    .iter()
                    .flat_map(|slice| slice.to_vec())
                    .collect();
                if bytes.is_empty() {
                    break;
                }
                engine.consumed(now, id, bytes.len());
                to_client.extend(bytes);
                slices = [std::io::IoSlice::new(&[]); 4];
            }
        }
        if to_client.is_empty() {
            return;
        }
        connection.handle_bytes(&to_client).unwrap();
    }
}

#[test]
fn an_engine_and_a_connection_talk_without_any_io() {
    let local = groupcast_core::MemberId {
        node: groupcast_core::NodeId(1),
        incarnation: groupcast_core::Incarnation(1),
    };
    let mut engine = Engine::new(EngineConfig::default(), local, "h").unwrap();
    let now = groupcast_core::Time::ZERO;
    let id = engine.connected(now, Transport::Unix).unwrap();
    let mut connection = Connection::new(Some("al".into()), ClientKind::Application, 1 << 20);
    carry(&mut connection, &mut engine, id);
    assert_eq!(connection.welcome().unwrap().private_name, "al@h");
    connection.ping(5).unwrap();
    connection.bye().unwrap();
    carry(&mut connection, &mut engine, id);
    assert_eq!(connection.poll_answer(), Some(Answer::Pong(5)));
    assert_eq!(connection.end(), Some((Disconnect::Bye, "good-bye")));
}
