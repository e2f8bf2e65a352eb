//! The protocol instances of the daemon's node: the order, the bimodal groups, and listeners for
//! other orders.
//!
//! A node hosts instances of one type, so this type is an enum of them. Calls are passed on, and
//! events name their carrier.

use bytes::Bytes;
use groupcast_core::family::OrderFamily;
use groupcast_core::trace::{Observable, Observation, Transition};
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, Node, Ordered as _, Protocol, Service, SocketClass,
    SubmitError, Time, Transmit, TransmitBuf,
};
pub(crate) use groupcast_protocols::channel::BIMODAL;
use groupcast_protocols::registry::ORDERED;
use groupcast_session::groups::Carrier;

use crate::bimodal::Bimodal;
use crate::history::History;
use crate::others::Others;

/// An instance of the daemon's node.
pub(crate) enum Instance {
    /// The daemon's own order, on its family's channel.
    Order(Order),
    /// The bimodal groups, on [`BIMODAL`].
    Bimodal(Box<Bimodal>),
    /// A listener on the channel of a protocol that could be the order here, and is not.
    Others(Others),
}

/// The member of the daemon's own order, and its protocol in the registry.
pub(crate) struct Order {
    pub(crate) family: &'static OrderFamily,
    pub(crate) member: Box<dyn Instrumented>,
}

/// The order on a daemon's node.
pub(crate) fn order(node: &Node<Instance>) -> Option<&Order> {
    ORDERED
        .iter()
        .find_map(|family| match node.instance(family.channel)? {
            Instance::Order(order) => Some(order),
            Instance::Bimodal(_) | Instance::Others(_) => None,
        })
}

/// The same, for commands.
pub(crate) fn order_mut(node: &mut Node<Instance>) -> Option<&mut Order> {
    let channel = order(node)?.family.channel;
    match node.instance_mut(channel)? {
        Instance::Order(order) => Some(order),
        Instance::Bimodal(_) | Instance::Others(_) => None,
    }
}

/// The bimodal groups on a daemon's node, once they are opened.
pub(crate) fn bimodal(node: &Node<Instance>) -> Option<&Bimodal> {
    match node.instance(BIMODAL)? {
        Instance::Bimodal(groups) => Some(groups),
        Instance::Order(_) | Instance::Others(_) => None,
    }
}

/// The same, for commands.
pub(crate) fn bimodal_mut(node: &mut Node<Instance>) -> Option<&mut Bimodal> {
    match node.instance_mut(BIMODAL)? {
        Instance::Bimodal(groups) => Some(groups),
        Instance::Order(_) | Instance::Others(_) => None,
    }
}

/// The listeners for daemons with other orders, one for each protocol.
pub(crate) fn others(node: &Node<Instance>) -> impl Iterator<Item = &Others> {
    let instances = ORDERED.iter().map(|family| node.instance(family.channel));
    instances.filter_map(|instance| match instance? {
        Instance::Others(others) => Some(others),
        Instance::Order(_) | Instance::Bimodal(_) => None,
    })
}

/// Submits a message to its carrier.
pub(crate) fn submit(
    node: &mut Node<Instance>,
    now: Time,
    carrier: Carrier,
    service: Service,
    payload: Bytes,
) -> Result<MessageId, SubmitError> {
    match carrier {
        Carrier::Order => order_mut(node)
            .ok_or(SubmitError::Leaving)?
            .member
            .submit(now, service, payload),
        // Rings are not on this node.
        Carrier::Ring(_) => Err(SubmitError::Leaving),
        Carrier::Bimodal(index) => bimodal_mut(node)
            .ok_or(SubmitError::Leaving)?
            .submit(now, index, payload),
    }
}

/// An event of the order or of a bimodal group.
#[derive(Debug)]
pub(crate) struct CarrierEvent {
    pub(crate) carrier: Carrier,
    pub(crate) event: Event,
}

/// Whether a payload is too long for its digest to be made at once.
pub(crate) fn is_long(payload: &Bytes) -> bool {
    payload.len() > History::AT_ONCE
}

impl Observable for CarrierEvent {
    /// The node's observer writes the lines of the order. The daemon writes the others: lines of a
    /// bimodal group, which name the group, and lines of long messages, which wait for their
    /// digests.
    fn observation(&self) -> Option<Observation> {
        match (self.carrier, &self.event) {
            (Carrier::Order, Event::Deliver(delivery)) if is_long(&delivery.payload) => None,
            (Carrier::Order, event) => event.observation(),
            (Carrier::Bimodal(_) | Carrier::Ring(_), _) => None,
        }
    }
}

impl Protocol for Instance {
    type Event = CarrierEvent;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        match self {
            Self::Order(order) => order.member.handle_datagram(now, from, body),
            Self::Bimodal(groups) => groups.handle_datagram(now, from, body),
            Self::Others(others) => others.handle_datagram(now, from, body),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Order(order) => order.member.handle_timeout(now),
            Self::Bimodal(groups) => groups.handle_timeout(now),
            Self::Others(others) => others.handle_timeout(now),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        match self {
            Self::Order(order) => order.member.poll_transmit(now, buf),
            Self::Bimodal(groups) => groups.poll_transmit(now, buf),
            Self::Others(others) => others.poll_transmit(now, buf),
        }
    }

    fn poll_event(&mut self) -> Option<CarrierEvent> {
        match self {
            Self::Order(order) => Some(CarrierEvent {
                carrier: Carrier::Order,
                event: order.member.poll_event()?,
            }),
            Self::Bimodal(groups) => groups.poll_event(),
            Self::Others(others) => others.poll_event(),
        }
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        match self {
            Self::Order(order) => order.member.poll_transition(),
            Self::Bimodal(groups) => groups.poll_transition(),
            Self::Others(others) => others.poll_transition(),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Self::Order(order) => order.member.poll_timeout(),
            Self::Bimodal(groups) => groups.poll_timeout(),
            Self::Others(others) => others.poll_timeout(),
        }
    }

    /// The order decides: it alone uses the control socket, and every daemon has an order.
    fn read_first(&self) -> SocketClass {
        match self {
            Self::Order(order) => order.member.read_first(),
            Self::Bimodal(_) | Self::Others(_) => SocketClass::Control,
        }
    }

    /// The order decides, unless there are bimodal groups.
    fn dozes_until(&self) -> Option<Time> {
        match self {
            Self::Order(order) => order.member.dozes_until(),
            Self::Bimodal(groups) if groups.len() > 0 => None,
            Self::Bimodal(_) | Self::Others(_) => Some(Time::MAX),
        }
    }
}
