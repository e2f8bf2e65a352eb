//! Goal: what one member declares falsely in reformations is over when it is gone.
//! Method: a member that is real but for one field of its answers; hosts crash and come back, so
//! that there are reformations; then it is gone, and the others must take messages of all services.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Service, SubmitError, Time,
    Transmit, TransmitBuf,
};
use groupcast_protocols::rmp::{FAMILY, Rmp, RmpConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// The kinds of messages that are false, and where their fields begin (`docs/rmp.md`).
const ANSWERS: [u8; 2] = [40, 54];
const CONFIGURATION: usize = 35;
const HIGH: usize = 65;
const MAX_N: usize = 93;
const PROPOSAL: [u8; 1] = [41];
const START: usize = 33;
const PROPOSED_MAX_N: usize = 41;
const LIST: [u8; 1] = [51];
const LISTED_MAX_N: usize = 65;

/// The last position that decodes.
const LAST: [u8; 6] = [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff];
/// As many members as there are indices.
const ALL: [u8; 2] = [0, 128];

/// Makes a datagram's body false.
type Lie = fn(&mut [u8]);

/// A member that sends the truth but for `lie`.
struct Liar {
    inner: Rmp,
    lie: Lie,
    scratch: TransmitBuf,
}

impl Protocol for Liar {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.inner.handle_datagram(now, from, body);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.scratch.clear();
        let transmit = self.inner.poll_transmit(now, &mut self.scratch)?;
        for body in self.scratch.iter() {
            let mut body = body.to_vec();
            (self.lie)(&mut body);
            buf.push(&[&body]);
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.inner.poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.inner.poll_timeout()
    }
}

impl Ordered for Liar {
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        self.inner.submit(now, service, payload)
    }

    fn services(&self) -> &'static [Service] {
        self.inner.services()
    }

    fn leave(&mut self, now: Time) {
        self.inner.leave(now);
    }

    fn local(&self) -> MemberId {
        self.inner.local()
    }
}

impl Instrumented for Liar {}

/// Writes `value` over a field of a body of one of `kinds`.
fn overwrite(body: &mut [u8], kinds: &[u8], at: usize, value: &[u8]) {
    if kinds.contains(&body[0])
        && let Some(field) = body.get_mut(at..at + value.len())
    {
        field.copy_from_slice(value);
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
const HOSTS: usize = 5;

type Group = Cluster<Box<dyn Instrumented>>;

/// A group of five, of which host `liar` tells `lie`; none is started.
fn group(liar: usize, lie: Lie, seed: u64) -> Group {
    let factory = move |member: MemberId, rng, now| -> Box<dyn Instrumented> {
        let rmp = Rmp::new(RmpConfig::lan(), member, rng, now).expect("the settings are valid");
        // Hosts are nodes 1, 2, …
        match member.node.0 as usize == liar + 1 {
            true => Box::new(Liar {
                inner: rmp,
                lie,
                scratch: TransmitBuf::new(64, 0, 0),
            }),
            false => Box::new(rmp),
        }
    };
    let config = ClusterConfig {
        contract: FAMILY.contract,
        ..ClusterConfig::new(HOSTS, seed)
    };
    Cluster::new(config, factory)
}

/// All who live are in one configuration, and take messages for a majority and for all.
fn works(group: &mut Group, what: &str) {
    group.must(
        "one configuration",
        Cluster::all_in_one_configuration,
        PATIENCE,
    );
    let hosts: Vec<usize> = group.alive().collect();
    let ids: Vec<MessageId> = hosts
        .iter()
        .flat_map(|host| [Service::Majority, Service::Safe].map(|service| (*host, service)))
        .map(|(host, service)| {
            let submitted = group.submit(host, service, "still here");
            submitted.unwrap_or_else(|error| panic!("{what}: host {host}: {error}"))
        })
        .collect();
    let delivered = |group: &Group| {
        hosts
            .iter()
            .all(|host| ids.iter().all(|id| group.has_delivered(*host, *id)))
    };
    group.must("delivered", delivered, PATIENCE);
}

/// Host `liar` tells `lie` from the beginning, where it comes `first`, or to a group; then it is
/// gone.
fn after(liar: usize, first: bool, lie: Lie, what: &str) {
    let mut group = group(liar, lie, 1);
    let others: Vec<usize> = (0..HOSTS).filter(|host| *host != liar).collect();
    if first {
        group.start(liar);
    }
    group.start(others[0]);
    group.run_for(Duration::from_secs(1));
    for host in &others[1..] {
        group.start(*host);
    }
    group.run_for(Duration::from_secs(1));
    if !first {
        group.start(liar);
        group.run_for(Duration::from_secs(1));
    }
    // It lies where there is a reformation.
    group.crash(others[3]);
    group.run_for(Duration::from_secs(2));
    group.partition(&[&[liar], &others[..]]);
    group.run_for(Duration::from_secs(2));
    group.heal();
    group.run_for(Duration::from_secs(2));
    group.crash(liar);
    works(&mut group, what);
    // The last one that was in a configuration with it tells a new one nothing false.
    group.restart(others[3]);
    works(&mut group, what);
    group.crash(others[0]);
    works(&mut group, what);
}

/// The answer of a member that comes from a configuration of its own.
fn as_a_stranger(body: &mut [u8]) {
    overwrite(body, &ANSWERS, CONFIGURATION, &7_u64.to_be_bytes());
}

fn all_after(lies: &[(&str, Lie)]) {
    for (what, lie) in lies {
        for (liar, first) in [(0, true), (0, false), (HOSTS - 1, true)] {
            after(liar, first, *lie, what);
        }
    }
}

#[test]
fn a_false_max_n_is_over_when_its_teller_is_gone() {
    all_after(&[
        ("more than there are indices", |body| {
            overwrite(body, &ANSWERS, MAX_N, &[0xff; 2]);
        }),
        ("as many as there are indices", |body| {
            overwrite(body, &ANSWERS, MAX_N, &ALL);
        }),
        ("as many, as a stranger", |body| {
            as_a_stranger(body);
            overwrite(body, &ANSWERS, MAX_N, &ALL);
        }),
        ("as a proposer", |body| {
            overwrite(body, &PROPOSAL, PROPOSED_MAX_N, &ALL);
        }),
        ("in a list", |body| {
            overwrite(body, &LIST, LISTED_MAX_N, &ALL);
        }),
    ]);
}

#[test]
fn a_false_position_is_over_when_its_teller_is_gone() {
    all_after(&[
        ("the last that decodes", |body| {
            overwrite(body, &ANSWERS, HIGH, &LAST);
        }),
        ("the last that decodes, as a stranger", |body| {
            as_a_stranger(body);
            overwrite(body, &ANSWERS, HIGH, &LAST);
        }),
        ("as a proposer", |body| {
            overwrite(body, &PROPOSAL, START, &LAST);
        }),
    ]);
}
