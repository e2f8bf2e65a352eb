//! Goal: another process with a member's name ends the member only by a proof, and only if the
//! member has just begun.
//! Method: datagrams of the other process, by hand, at a member that is alone; the same for every
//! family that orders messages.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Event, Incarnation, Instrumented, MemberId, NodeId, Rng, Time, TransmitBuf};
use groupcast_protocols::registry;

const NODE: NodeId = NodeId(7);
const LOCAL: MemberId = MemberId {
    node: NODE,
    incarnation: Incarnation(1),
};
const OTHER: MemberId = MemberId {
    node: NODE,
    incarnation: Incarnation(2),
};

/// The kinds of the three messages about names.
struct Kinds {
    in_use: u8,
    question: u8,
    proof: u8,
}

fn kinds(family: &str) -> Kinds {
    let (in_use, question, proof) = match family {
        "ring" => (9, 25, 41),
        "rmp" => (47, 48, 49),
        other => panic!("how {other} talks about names is not known here"),
    };
    Kinds {
        in_use,
        question,
        proof,
    }
}

/// A member of each ordered family, and how it talks about names.
fn members() -> impl Iterator<Item = (Box<dyn Instrumented>, Kinds)> {
    registry::ORDERED.iter().map(|order| {
        let member = order.family.build(LOCAL, Rng::new(3), Time::ZERO);
        (member, kinds(order.name()))
    })
}

fn message(kind: u8, fields: &[u64]) -> Bytes {
    let fields = fields.iter().flat_map(|field| field.to_be_bytes());
    std::iter::once(kind).chain(fields).collect()
}

/// Lets the member run until `end`; the last datagram of `kind` that it sent.
fn run(member: &mut dyn Instrumented, end: Time, kind: u8) -> Option<Vec<u8>> {
    let mut buf = TransmitBuf::new(16, 0, 0);
    let mut found = None;
    loop {
        let now = member.poll_timeout().filter(|at| *at <= end);
        member.handle_timeout(now.unwrap_or(end));
        loop {
            buf.clear();
            if member.poll_transmit(now.unwrap_or(end), &mut buf).is_none() {
                break;
            }
            let sent = buf.iter().filter(|body| body.first() == Some(&kind));
            found = sent.last().map(<[u8]>::to_vec).or(found);
        }
        if now.is_none() {
            return found;
        }
    }
}

fn events(member: &mut dyn Instrumented) -> Vec<Event> {
    std::iter::from_fn(|| member.poll_event()).collect()
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::NameInUse { .. })
}

#[test]
fn a_word_of_a_key_holder_ends_nobody() {
    for (mut member, kinds) in members() {
        let now = Time::from_millis(5);
        member.handle_datagram(now, OTHER, message(kinds.in_use, &[u64::MAX]));
        member.handle_datagram(now, OTHER, message(kinds.proof, &[0, u64::MAX]));
        run(&mut *member, Time::from_millis(50), kinds.question);
        assert!(!events(&mut *member).iter().any(is_end));
    }
}

/// The other process proves that it is alive and has run for longer.
fn give_way(member: &mut dyn Instrumented, kinds: &Kinds) {
    let now = Time::from_millis(5);
    member.handle_datagram(now, OTHER, message(kinds.in_use, &[u64::MAX]));
    let question = run(member, Time::from_millis(6), kinds.question);
    let question = question.expect("it asks");
    let nonce = u64::from_be_bytes(question[1..9].try_into().expect("a nonce has eight bytes"));
    let proof = message(kinds.proof, &[nonce, u64::MAX]);
    member.handle_datagram(Time::from_millis(7), OTHER, proof);
}

#[test]
fn a_new_member_asks_and_gives_way_to_the_answer() {
    for (mut member, kinds) in members() {
        give_way(&mut *member, &kinds);
        assert!(events(&mut *member).iter().any(is_end));
    }
}

#[test]
fn a_member_that_has_given_way_leaves_at_once() {
    for (mut member, kinds) in members() {
        give_way(&mut *member, &kinds);
        events(&mut *member);
        member.leave(Time::from_millis(8));
        assert_eq!(events(&mut *member), [Event::Left]);
        member.leave(Time::from_millis(9));
        run(&mut *member, Time::ZERO + Duration::from_secs(2), 0);
        assert_eq!(events(&mut *member), []);
    }
}

#[test]
fn a_member_that_gives_way_while_it_leaves_has_left() {
    for (mut member, kinds) in members() {
        // Before it is in a configuration a leave takes its time.
        member.leave(Time::from_millis(4));
        give_way(&mut *member, &kinds);
        run(&mut *member, Time::ZERO + Duration::from_secs(2), 0);
        let said = events(&mut *member);
        let left = said.iter().filter(|event| **event == Event::Left);
        assert_eq!(left.count(), 1, "{said:?}");
        assert!(said.iter().any(is_end), "{said:?}");
    }
}

#[test]
fn a_member_that_has_run_for_long_stays_and_says_that_its_name_is_contested() {
    for (mut member, kinds) in members() {
        let now = Time::ZERO + Duration::from_secs(11);
        run(&mut *member, now, kinds.question);
        events(&mut *member);
        member.handle_datagram(now, OTHER, message(kinds.in_use, &[u64::MAX]));
        let question = run(&mut *member, now, kinds.question);
        assert_eq!(question, None);
        let contested = Event::NameContested { other: OTHER };
        let said = events(&mut *member);
        assert!(said.contains(&contested) && !said.iter().any(is_end));
    }
}
