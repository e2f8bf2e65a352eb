//! Members that hold the key and send what no member of ours would, and the groups they are in:
//! what an ordered protocol must outlive is the same for each.

pub(crate) mod liar;
pub(crate) mod mutating;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Rng, Service, SubmitError, Time,
    Transmit, TransmitBuf,
};
use groupcast_sim::{Cluster, ClusterConfig};

/// A group whose members may be of several kinds.
pub(crate) type Group = Cluster<Box<dyn Instrumented>>;
/// Makes an honest member.
pub(crate) type Honest = fn(MemberId, Rng, Time) -> Box<dyn Instrumented>;

/// What an insider does with what a member sends.
pub(crate) trait Conduct {
    /// A datagram came.
    fn note_heard(&mut self, _from: MemberId, _body: &Bytes) {}

    /// What goes out instead of `body`.
    fn instead(&mut self, now: Time, body: &[u8]) -> Vec<u8>;

    /// What else goes out now.
    fn invent(&mut self, _now: Time) -> Vec<(Transmit, Vec<u8>)> {
        Vec::new()
    }

    /// When it will invent something.
    fn due(&self) -> Option<Time> {
        None
    }
}

/// A member that is real but for what it sends.
pub(crate) struct Insider<C> {
    inner: Box<dyn Instrumented>,
    conduct: C,
    outgoing: VecDeque<(Transmit, Vec<u8>)>,
    scratch: TransmitBuf,
}

impl<C: Conduct> Insider<C> {
    pub(crate) fn new(inner: Box<dyn Instrumented>, conduct: C) -> Self {
        Self {
            inner,
            conduct,
            outgoing: VecDeque::new(),
            scratch: TransmitBuf::new(64, 0, 0),
        }
    }

    /// Takes what the member would send.
    fn collect(&mut self, now: Time) {
        self.scratch.clear();
        while let Some(transmit) = self.inner.poll_transmit(now, &mut self.scratch) {
            for body in self.scratch.iter() {
                let body = self.conduct.instead(now, body);
                self.outgoing.push_back((transmit, body));
            }
            self.scratch.clear();
        }
    }
}

impl<C: Conduct> Protocol for Insider<C> {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.conduct.note_heard(from, &body);
        self.inner.handle_datagram(now, from, body);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.outgoing.extend(self.conduct.invent(now));
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        if self.outgoing.is_empty() {
            self.collect(now);
        }
        let (transmit, body) = self.outgoing.pop_front()?;
        buf.push(&[&body]);
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.inner.poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = [self.inner.poll_timeout(), self.conduct.due()];
        due.into_iter().flatten().min()
    }
}

impl<C> Ordered for Insider<C>
where
    Self: Protocol<Event = Event>,
{
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

impl<C> Instrumented for Insider<C> where Self: Ordered {}

/// A group of `hosts`, none of which is started: `insider` makes the member of the host of this
/// number, `honest` those of the others.
pub(crate) fn group(
    config: ClusterConfig,
    host: usize,
    honest: Honest,
    insider: impl Fn(Box<dyn Instrumented>, Rng, Time) -> Box<dyn Instrumented> + Send + Sync + 'static,
) -> Group {
    Cluster::new(config, move |member: MemberId, rng: Rng, now| {
        let own = rng.fork("insider");
        let inner = honest(member, rng, now);
        // Hosts are nodes 1, 2, …
        match member.node.0 as usize == host + 1 {
            true => insider(inner, own, now),
            false => inner,
        }
    })
}

/// How long a group has to come together once an insider is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// All who live are in one configuration, and take messages for a majority and for all.
pub(crate) fn works(group: &mut Group, what: &str) {
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
    assert!(group.all_in_one_configuration(), "{what}");
}
