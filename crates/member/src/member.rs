//! The member: its commands, and the loop for its events.

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::family::OrderFamily;
use groupcast_core::trace::{Observation, digest};
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Ordered as _, Service, SubmitError,
};
use groupcast_net::{Endpoint, NetError, Readiness, Sealing};
use mio::{Token, Waker};

use crate::builder::MemberBuilder;

/// The token of the waker.
const WAKE: Token = Token(0);

/// A member of a group. See the [crate's example](crate).
///
/// It works only in calls of [`next_event`](Self::next_event). If a program does not call it, the
/// others have to wait; if that takes longer than they wait for the token (150 to 250 ms on a LAN),
/// they take the member for crashed. A dropped member falls silent in the same way, so
/// call [`leave`](Self::leave) first.
pub struct Member {
    name: String,
    endpoint: Endpoint<Box<dyn Instrumented>>,
    order: &'static OrderFamily,
    waker: Arc<Waker>,
    ready: Vec<(Token, Readiness)>,
    left: bool,
}

impl Member {
    /// Begins to build a member with the name `name`, which no other member may have, of the group
    /// at the multicast address and port `group`.
    pub fn builder(name: &str, group: SocketAddrV4, sealing: Sealing) -> MemberBuilder {
        MemberBuilder::new(name, group, sealing)
    }

    pub(crate) fn new(
        name: String,
        endpoint: Endpoint<Box<dyn Instrumented>>,
        order: &'static OrderFamily,
    ) -> Result<Self, NetError> {
        let waker = Waker::new(endpoint.registry(), WAKE).map_err(|source| NetError::System {
            what: "make a waker",
            source,
        })?;
        Ok(Self {
            name,
            endpoint,
            order,
            waker: Arc::new(waker),
            ready: Vec::new(),
            left: false,
        })
    }

    /// Submits a message; it comes back as an [`Event::Deliver`] once it is ordered, here and at
    /// every other member of the configuration. A message submitted while this member is alone is
    /// delivered here alone.
    ///
    /// # Errors
    /// [`SubmitError::Full`] if too much waits to be sent: [`Event::Writable`] tells when there is
    /// room again. Other errors if the message is too long, or the member is leaving. Nothing is
    /// submitted then.
    pub fn submit(
        &mut self,
        service: Service,
        payload: impl Into<Bytes>,
    ) -> Result<MessageId, SubmitError> {
        let payload = payload.into();
        let now = self.endpoint.now();
        let digest = self.endpoint.node().is_observed().then(|| digest(&payload));
        let id = self.group().submit(now, service, payload)?;
        if let Some(digest) = digest {
            self.endpoint.node_mut().observe(&Observation::Submit {
                id,
                service,
                digest,
            });
        }
        Ok(id)
    }

    /// Asks to leave: the others go on at once, without waiting for a time-out. [`Event::Left`] is
    /// the last event.
    pub fn leave(&mut self) {
        let now = self.endpoint.now();
        self.group().leave(now);
    }

    /// The next event: waits for it for at most `patience`, during which the protocol goes on.
    /// `None` after `patience`, when the [`waker`](Self::waker) was used, and once the member has
    /// left.
    ///
    /// # Errors
    /// If a socket fails; datagrams of others cannot cause an error.
    pub fn next_event(&mut self, patience: Duration) -> io::Result<Option<Event>> {
        let until = self.endpoint.now() + patience;
        let mut over = false;
        loop {
            if let Some((_, event)) = self.endpoint.node_mut().poll_event() {
                if event == Event::Left {
                    self.left = true;
                    let now = self.endpoint.now();
                    self.endpoint.flush(now);
                }
                return Ok(Some(event));
            }
            if over || self.left {
                return Ok(None);
            }
            let wait = until - self.endpoint.now();
            self.endpoint.turn(Some(wait), &mut self.ready)?;
            while self.endpoint.node_mut().poll_transition().is_some() {}
            over = !self.ready.is_empty() || self.endpoint.now() >= until;
        }
    }

    /// Ends the wait of [`next_event`](Self::next_event), from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// This member's id in configurations and messages.
    pub fn id(&self) -> MemberId {
        self.endpoint.node().local()
    }

    /// The name that it was opened with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the protocol that orders its messages: `ring` or `rmp`.
    pub fn order(&self) -> &'static str {
        self.order.name()
    }

    /// The endpoint under it: addresses of peers, counters, whether the kernel granted the receive
    /// buffer.
    pub fn endpoint(&mut self) -> &mut Endpoint<Box<dyn Instrumented>> {
        &mut self.endpoint
    }

    fn group(&mut self) -> &mut Box<dyn Instrumented> {
        let channel = self.order.channel;
        let member = self.endpoint.node_mut().instance_mut(channel);
        member.expect("it was opened with the endpoint and stays")
    }
}
