//! Goal: nothing that one member sends harms the group after it is gone.
//! Method: a member that sends a message about membership as no member of ours would, and then
//! dies; the others go on together.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Incarnation, Instrumented, MemberId, MessageId, NodeId, Ordered, Protocol,
    Rng, Service, SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};
use groupcast_sim::{Cluster, ClusterConfig};

use super::honest;
use crate::insider::{Group, works};

/// What a member says that has heard these.
type Says = fn(MemberId, &BTreeSet<MemberId>) -> Vec<u8>;

/// A member that says one thing a few times.
struct Insider {
    local: MemberId,
    says: Says,
    heard: BTreeSet<MemberId>,
    next: Time,
    left: u32,
}

/// Counters that a join may carry: the lowest, the highest.
const COUNTERS: [u64; 2] = [0, (1 << 62) - 1];
const JOIN: u8 = 10;
const ANNOUNCEMENT: u8 = 12;

impl Insider {
    fn new(local: MemberId, now: Time, says: Says) -> Self {
        Self {
            local,
            says,
            heard: BTreeSet::new(),
            next: now + Duration::from_millis(20),
            left: 10,
        }
    }
}

impl Protocol for Insider {
    type Event = Event;

    fn handle_datagram(&mut self, _: Time, from: MemberId, _: Bytes) {
        self.heard.insert(from);
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if self.left == 0 || now < self.next {
            return None;
        }
        self.left -= 1;
        self.next = now + Duration::from_millis(20);
        buf.push(&[&(self.says)(self.local, &self.heard)]);
        Some(Transmit {
            destination: Destination::Group,
            class: SocketClass::Data,
        })
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }
}

impl Ordered for Insider {
    fn submit(&mut self, _: Time, _: Service, _: Bytes) -> Result<MessageId, SubmitError> {
        Err(SubmitError::Leaving)
    }

    fn services(&self) -> &'static [Service] {
        &[]
    }

    fn leave(&mut self, _: Time) {}

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Insider {}

/// A list on the wire.
fn put<'a>(body: &mut Vec<u8>, members: impl IntoIterator<Item = &'a MemberId>) {
    let members: Vec<&MemberId> = members.into_iter().collect();
    body.extend((members.len() as u16).to_be_bytes());
    for MemberId { node, incarnation } in members {
        body.extend(node.0.to_be_bytes());
        body.extend(incarnation.0.to_be_bytes());
    }
}

/// The first of these members that are not.
fn invented(count: u64) -> Vec<MemberId> {
    let member = |number| MemberId {
        node: NodeId(1_000 + number),
        incarnation: Incarnation(number),
    };
    (0..count).map(member).collect()
}

/// As many lives of one that is not.
fn lives(count: u64) -> Vec<MemberId> {
    let node = NodeId(1_000);
    let live = |it: MemberId| MemberId { node, ..it };
    invented(count).into_iter().map(live).collect()
}

/// The announcement of a ring with these members, which hears these.
fn announcement(local: MemberId, members: &[MemberId], heard: &BTreeSet<MemberId>) -> Vec<u8> {
    let mut body = vec![ANNOUNCEMENT];
    body.extend(7u64.to_be_bytes());
    body.extend(local.node.0.to_be_bytes());
    body.extend(local.incarnation.0.to_be_bytes());
    put(&mut body, members);
    put(&mut body, heard);
    body
}

/// A join with these lists: who is wanted, who is given up, who has left, who is heard.
fn join(counter: u64, lists: [&[MemberId]; 4]) -> Vec<u8> {
    let mut body = vec![JOIN, 0];
    body.extend(1u64.to_be_bytes());
    body.extend(counter.to_be_bytes());
    lists.iter().for_each(|list| put(&mut body, *list));
    body.extend([0; 10]);
    body
}

/// Three members whom a fourth tells what `says` says are a ring again when that is gone.
fn is_outlived(seed: u64, says: Says) {
    let insider = 3;
    let factory = move |member: MemberId, rng: Rng, now| -> Box<dyn Instrumented> {
        // Hosts are nodes 1, 2, …
        if member.node.0 as usize == insider + 1 {
            return Box::new(Insider::new(member, now, says));
        }
        honest(member, rng, now)
    };
    let mut group: Group = Cluster::new(ClusterConfig::new(4, seed), factory);
    for host in 0..3 {
        group.start(host);
    }
    group.run_for(Duration::from_secs(1));
    group.start(insider);
    group.run_for(Duration::from_secs(1));
    group.crash(insider);
    works(&mut group, "when it is gone");
    // And again, when the ring changes the next time.
    group.restart(0);
    works(&mut group, "when the ring has changed again");
    group.check();
}

#[test]
fn a_join_with_the_highest_counter_harms_only_while_its_sender_is_there() {
    is_outlived(71, |local, _| join(COUNTERS[1], [&[local], &[], &[], &[]]));
}

/// What others repeat of it would be longer than a datagram can be.
#[test]
fn however_many_members_a_message_names_the_others_go_on() {
    let says: [Says; 6] = [
        |local, heard| announcement(local, &invented(2_100), heard),
        |local, heard| announcement(local, &lives(2_100), heard),
        |local, heard| {
            let mut wanted = invented(3_900);
            wanted.push(local);
            join(COUNTERS[0], [&wanted, &[], &[], &known(heard)])
        },
        |local, heard| {
            join(
                COUNTERS[0],
                [&[local], &invented(3_900), &[], &known(heard)],
            )
        },
        |local, heard| {
            join(
                COUNTERS[0],
                [&[local], &[], &invented(4_080), &known(heard)],
            )
        },
        |local, heard| {
            let gone = invented(1_900);
            join(COUNTERS[0], [&[local], &gone, &gone, &known(heard)])
        },
    ];
    says.into_iter().for_each(|says| is_outlived(72, says));
}

fn known(heard: &BTreeSet<MemberId>) -> Vec<MemberId> {
    heard.iter().copied().collect()
}
