//! Goal: nothing that one member sends harms the group after it is gone.
//! Method: a member that sends a join as no member of ours would, and then dies; the others go on
//! together.

use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};
use groupcast_protocols::ring::{Ring, RingConfig};
use groupcast_sim::{Cluster, ClusterConfig};

/// A member that says one thing a few times, and hears nothing.
struct Insider {
    local: MemberId,
    body: Vec<u8>,
    next: Time,
    left: u32,
}

/// The highest counter that a join may carry.
const COUNTER: u64 = (1 << 62) - 1;
const JOIN: u8 = 10;

impl Insider {
    fn new(local: MemberId, now: Time) -> Self {
        let mut body = vec![JOIN, 0];
        body.extend(1u64.to_be_bytes());
        body.extend(COUNTER.to_be_bytes());
        body.extend(1u16.to_be_bytes());
        body.extend(local.node.0.to_be_bytes());
        body.extend(local.incarnation.0.to_be_bytes());
        body.extend([0; 16]);
        Self {
            local,
            body,
            next: now + Duration::from_millis(20),
            left: 10,
        }
    }
}

impl Protocol for Insider {
    type Event = Event;

    fn handle_datagram(&mut self, _: Time, _: MemberId, _: Bytes) {}

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if self.left == 0 || now < self.next {
            return None;
        }
        self.left -= 1;
        self.next = now + Duration::from_millis(20);
        buf.push(&[&self.body]);
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

#[test]
fn a_join_with_the_highest_counter_harms_only_while_its_sender_is_there() {
    let insider = 3;
    let factory = move |member: MemberId, rng: Rng, now| -> Box<dyn Instrumented> {
        // Hosts are nodes 1, 2, …
        if member.node.0 as usize == insider + 1 {
            return Box::new(Insider::new(member, now));
        }
        let ring = Ring::new(RingConfig::lan(), member, rng, now);
        Box::new(ring.expect("the settings are valid"))
    };
    let mut cluster: Cluster<Box<dyn Instrumented>> =
        Cluster::new(ClusterConfig::new(4, 71), factory);
    for host in 0..3 {
        cluster.start(host);
    }
    cluster.run_for(Duration::from_secs(1));
    cluster.start(insider);
    cluster.run_for(Duration::from_secs(1));
    cluster.crash(insider);
    cluster.must(
        "one ring of the others",
        Cluster::all_in_one_configuration,
        Duration::from_secs(5),
    );
    let id = cluster
        .submit(1, Service::Safe, "still here")
        .expect("there is room");
    cluster.must(
        "delivered",
        |cluster| (0..3).all(|host| cluster.has_delivered(host, id)),
        Duration::from_secs(1),
    );
    // And again, when the ring changes the next time.
    cluster.restart(0);
    cluster.must(
        "one ring again",
        Cluster::all_in_one_configuration,
        Duration::from_secs(5),
    );
    cluster.check();
}
