use std::collections::BTreeSet;

use bytes::Bytes;
use groupcast_core::{Incarnation, MemberId, NodeId, OrderPlace};
use proptest::prelude::*;

use super::*;
use crate::frame::FRAME_MAX;
use crate::groups::EngineConfig;
use crate::groups::roster::{BusPart, Roster, RosterClient};
use crate::guests::{
    Blank, GUESTS_MAX, GuestId, PART_FLAGS, Part, PartClaim, PartGuest, Party,
    ROLES_PER_DAEMON_MAX, Role,
};
use crate::name::private;

fn state() -> State {
    let mut roster = Roster::new("h");
    for op in [
        Op::BindGroup {
            number: 1,
            name: "g",
        },
        Op::BindClient {
            client: 4,
            name: "al",
        },
        Op::Join {
            client: 4,
            group: GroupRef::Bound(1),
        },
        Op::Join {
            client: 4,
            group: GroupRef::Named("unbound"),
        },
        Op::BindClient {
            client: 5,
            name: "bo",
        },
        Op::Disconnect { client: 5 },
    ] {
        roster.apply_remembering(&op).unwrap();
    }
    State {
        config: ConfigId {
            counter: 1,
            representative: MemberId {
                node: NodeId(2),
                incarnation: Incarnation(3),
            },
        },
        roster,
        part: Part::default(),
        names: Vec::new(),
    }
}

/// The state that is read from `bytes`, however small the parts are.
fn decode(bytes: &[u8]) -> State {
    let Ok(Some(Envelope::State(config))) = Envelope::decode(bytes) else {
        panic!("not a state");
    };
    let begin = || StateReader::new(config, Bytes::copy_from_slice(bytes));
    let state = begin().go_on(|_| true).unwrap();
    let mut reader = begin();
    let in_parts = (0..).find_map(|_| reader.go_on(|_| false).unwrap());
    assert_eq!(in_parts, state);
    state.expect("there was time for all of it")
}

/// The envelope of a state, which is the same however small the parts are.
fn encode(state: &State) -> Vec<u8> {
    let bytes = state.encoded();
    let mut writer = StateWriter::new(state.clone());
    let bindings = &state.roster.bindings;
    // A number that the state does not have is of no use to who reads it.
    let number = |name: &str| match bindings.iter().position(|it| **it == *name) {
        Some(at) => Some(at as u64 + 1),
        None => Some(bindings.len() as u64 + 1),
    };
    let mut parts = 1;
    while !writer.go_on(number, |_| false) {
        parts += 1;
    }
    assert_eq!(writer.finish().1, bytes);
    let names = state.roster.clients.values().map(|it| 1 + it.groups.len());
    assert!(parts > names.sum::<usize>(), "{parts}");
    bytes
}

#[test]
fn golden_bytes() {
    let mut bytes = Vec::new();
    let refs = [GroupRef::Bound(300), GroupRef::Named("a@h")];
    encode_data_head(&mut bytes, 9, None, None, refs.into_iter());
    assert_eq!(bytes, [3, 18, 2, 0xac, 2, 0, 3, b'a', b'@', b'h']);
    bytes.clear();
    Op::Join {
        client: 200,
        group: GroupRef::Bound(1),
    }
    .encode(&mut bytes);
    assert_eq!(bytes, [4, 0xc8, 1, 1]);
    let bytes = state().encoded();
    #[rustfmt::skip]
    let golden = [
        7,  0, 0, 0, 0, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 0, 0, 0, 0, 3,  1, b'h',
        1,  1, b'g',
        1,  4, 2, b'a', b'l',  2,  1,  0, 7, b'u', b'n', b'b', b'o', b'u', b'n', b'd',
        1,  5, 2, b'b', b'o',
    ];
    assert_eq!(bytes, golden);
}

#[test]
fn a_state_comes_back() {
    let bytes = encode(&state());
    let decoded = decode(&bytes);
    assert_eq!(decoded, state());
}

#[test]
fn a_state_with_clients_of_the_bus_comes_back() {
    let mut with = state();
    for what in [
        BusOp::Accept {
            group: GroupRef::Bound(1),
            pattern: "a|b",
        },
        BusOp::Accept {
            group: GroupRef::Named("*.b"),
            pattern: "*",
        },
        BusOp::Identify { id: "al.b" },
    ] {
        let op = Op::Bus {
            client: 4,
            token: 300,
            what,
        };
        let mut bytes = Vec::new();
        op.encode(&mut bytes);
        let Ok(Some(Envelope::Op(decoded))) = Envelope::decode(&bytes) else {
            panic!("not an operation");
        };
        assert_eq!(decoded, op);
        with.roster.apply(&op).unwrap();
    }
    let bytes = encode(&with);
    #[rustfmt::skip]
    let golden = [
        1,  4, 4, b'a', b'l', b'.', b'b',  2,
        0, 3, b'*', b'.', b'b', 1, 1, b'*',  1, 1, 3, b'a', b'|', b'b',
    ];
    assert!(bytes.ends_with(&golden), "{bytes:?}");
    let decoded = decode(&bytes);
    assert_eq!(decoded, with);
}

#[test]
fn a_state_with_roles_and_guests_comes_back() {
    let mut with = state();
    let since = OrderPlace {
        config: with.config,
        seq: 300,
    };
    let home = Party {
        daemon: with.config.representative,
        client: 4,
    };
    with.part.claims.push(PartClaim {
        client: 4,
        token: 7,
        group: "g".into(),
        role: Role::Handler(258),
        since,
        flags: 1,
    });
    with.part.guests.push(PartGuest {
        guest: GuestId(9),
        last: 300,
        blank: None,
        at: 5,
        home,
        present: true,
    });
    let blank = Blank { above: 2, upto: 6 };
    with.part.guests.push(PartGuest {
        guest: GuestId(10),
        last: 7,
        blank: Some(blank),
        at: 5,
        home,
        present: false,
    });
    let bytes = encode(&with);
    let plain = state().encoded();
    #[rustfmt::skip]
    let golden = [
        0,
        1,  1,  1,  4, 7, 1,  1, 1, 2,
        0, 0, 0, 0, 0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 0, 0, 0, 0, 3,  0xac, 2,
        2,  0, 0, 0, 0, 0, 0, 0, 9,  0xac, 2,  5,
        0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 0, 0, 0, 0, 3,  4,  1,
        0, 0, 0, 0, 0, 0, 0, 10,  7,  5,
        0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 0, 0, 0, 0, 3,  4,  2,  2, 6,
    ];
    assert_eq!(bytes, [&plain[..], &golden].concat());
    let decoded = decode(&bytes);
    assert_eq!(decoded, with);
}

/// Whatever the clients do of what the limits allow, their daemon's state is one that daemons take,
/// with room for what changes while it is on its way. The longest names, none of them bound; every
/// number in the table is taken by a group that has no members any more.
#[test]
fn the_largest_state_of_the_default_limits_is_taken() {
    let limits = EngineConfig::default();
    let mut with = state();
    let long = |kind: char, number: usize| -> Arc<str> { format!("{kind}{number:0>254}").into() };
    let roster = &mut with.roster;
    roster.bindings = (0..BINDINGS_MAX).map(|number| long('b', number)).collect();
    let since = OrderPlace {
        config: with.config,
        seq: u64::MAX,
    };
    for index in 0..limits.clients_max {
        let of = |max: usize| (index..max).step_by(limits.clients_max);
        let groups: BTreeSet<_> = of(limits.memberships_max)
            .map(|number| long('g', number))
            .collect();
        let patterns = of(limits.memberships_max).zip(&groups);
        let patterns = patterns.map(|(number, group)| {
            let pattern = long('p', number);
            (group.clone(), BTreeSet::from([pattern]))
        });
        let number = u64::from(u32::MAX) + index as u64;
        let claims = of(limits.roles_max).zip(groups.iter().cycle());
        let claims = claims.map(|(role, group)| PartClaim {
            client: number,
            token: u64::MAX,
            group: group.clone(),
            role: Role::Lock(role as u16),
            since,
            flags: PART_FLAGS,
        });
        with.part.claims.extend(claims);
        let bus = BusPart {
            id: Some(long('i', index)),
            patterns: patterns.collect(),
        };
        let client = RosterClient {
            private: private(&long('c', index)[..255 - 2], "h").into(),
            groups,
            bus: Some(bus),
        };
        roster.clients.insert(number, Arc::new(client));
    }
    assert_eq!(with.part.claims.len(), limits.roles_max);
    let home = Party {
        daemon: with.config.representative,
        client: u64::MAX,
    };
    with.part.guests = vec![
        PartGuest {
            guest: GuestId(1),
            last: u64::MAX,
            blank: Some(Blank {
                above: u64::MAX - 1,
                upto: u64::MAX,
            }),
            at: u64::MAX,
            home,
            present: true,
        };
        GUESTS_MAX
    ];
    let bytes = with.encoded();
    assert!(bytes.len() > FRAME_MAX, "one message would hold it");
    assert!(bytes.len() < STATE_MAX / 2, "{} bytes", bytes.len());
    let mut gathered = StateParts::default();
    let mut whole = None;
    for envelope in StatePart::split(with.config, &bytes, FRAME_MAX).unwrap() {
        let Ok(Some(Envelope::StatePart(part))) = Envelope::decode(&envelope) else {
            panic!("not a part");
        };
        whole = gathered.take(&part);
    }
    assert_eq!(whole.as_deref(), Some(&bytes[..]));
    // The part of roles, with names that are written once.
    let mut without = with.clone();
    without.part = Part::default();
    let shorter = without.encoded();
    let roles = bytes.len() - shorter.len();
    assert!(
        roles < limits.roles_max * (64 + 257) + GUESTS_MAX * 96,
        "{roles}"
    );
}

#[test]
fn a_group_is_written_once_for_all_its_roles() {
    let mut with = state();
    let len = |with: &State| with.encoded().len();
    let since = OrderPlace {
        config: with.config,
        seq: 1,
    };
    let group: Arc<str> = "x".repeat(255).into();
    with.part.claims = (0..256)
        .map(|number| PartClaim {
            client: 4,
            token: 7,
            group: group.clone(),
            role: Role::Lock(number),
            since,
            flags: 1,
        })
        .collect();
    let roles = len(&with) - len(&state());
    assert!(roles < 256 * 64 + 300, "{roles} bytes");
}

#[test]
fn claims_and_guests_beyond_the_limits_are_read_over() {
    let mut with = state();
    let since = OrderPlace {
        config: with.config,
        seq: 1,
    };
    let claim = PartClaim {
        client: 4,
        token: 7,
        group: "g".into(),
        role: Role::Lock(1),
        since,
        flags: 1,
    };
    let home = Party {
        daemon: with.config.representative,
        client: 4,
    };
    let guest = PartGuest {
        guest: GuestId(9),
        last: 1,
        blank: None,
        at: 5,
        home,
        present: true,
    };
    with.part.claims = vec![claim; 2 * ROLES_PER_DAEMON_MAX + 5];
    with.part.guests = vec![guest; GUESTS_MAX + 5];
    let bytes = with.encoded();
    let decoded = decode(&bytes);
    assert_eq!(decoded.part.claims.len(), 2 * ROLES_PER_DAEMON_MAX);
    assert_eq!(decoded.part.guests.len(), GUESTS_MAX);
}

#[test]
fn what_is_said_of_requests_and_roles_comes_back() {
    let group = GroupRef::Bound(1);
    let role = Role::Lock(2);
    for (op, golden) in [
        (
            GuestOp::Request {
                guest: GuestId(1),
                number: 300,
                floor: 4,
                handler: Some(0),
                group,
            },
            &[14, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0xac, 2, 4, 1, 1][..],
        ),
        (
            GuestOp::Answer {
                guest: GuestId(1),
                number: 3,
            },
            &[15, 9, 0, 0, 0, 0, 0, 0, 0, 1, 3],
        ),
        (
            GuestOp::Claim {
                token: 5,
                may_wait: true,
                role,
                group,
            },
            &[16, 9, 5, 1, 2, 0, 2, 1],
        ),
        (
            GuestOp::Release {
                token: 5,
                role,
                group,
            },
            &[17, 9, 5, 2, 0, 2, 1],
        ),
    ] {
        let mut bytes = Vec::new();
        op.encode(&mut bytes, 9);
        assert_eq!(bytes, golden);
        let Ok(Some(Envelope::Guest {
            client: 9,
            op: decoded,
            payload_at,
        })) = Envelope::decode(&bytes)
        else {
            panic!("not an envelope of requests and roles");
        };
        assert_eq!((decoded, payload_at), (op, bytes.len()));
    }
}

#[test]
fn unknown_kinds_are_not_errors() {
    assert!(Envelope::decode(&[99, 1, 2]).unwrap().is_none());
    assert!(Envelope::decode(&[]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_never_panic(kind in 0u8..19, mut bytes: Vec<u8>) {
        bytes.insert(0, kind);
        match Envelope::decode(&bytes) {
            Ok(Some(Envelope::Data(mut data))) => {
                while let Ok(Some(_)) = data.next_destination() {}
                prop_assert!(data.payload_at() <= bytes.len());
            }
            Ok(Some(Envelope::State(config))) => {
                let _ = StateReader::new(config, bytes.into()).go_on(|_| true);
            }
            _ => {}
        }
    }

    #[test]
    fn a_changed_state_never_panics(at in 0usize..100, value: u8) {
        let mut bytes = state().encoded();
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = Envelope::decode(&bytes);
    }

    #[test]
    fn data_comes_back(client in 0u64..1 << 60, named: bool, numbers in prop::collection::vec(1u64.., 1..100)) {
        let mut bytes = Vec::new();
        let refs = numbers.iter().map(|number| GroupRef::Bound(*number));
        encode_data_head(&mut bytes, client, named.then_some("al@h"), None, refs);
        let head = bytes.len();
        bytes.extend(b"payload");
        let Ok(Some(Envelope::Data(mut data))) = Envelope::decode(&bytes) else {
            return Err(TestCaseError::fail("not data"));
        };
        prop_assert_eq!(data.client, client);
        prop_assert_eq!(data.sender, named.then_some("al@h"));
        for number in numbers {
            prop_assert_eq!(data.next_destination(), Ok(Some(GroupRef::Bound(number))));
        }
        prop_assert_eq!(data.next_destination(), Ok(None));
        prop_assert_eq!(data.payload_at(), head);
    }
}
