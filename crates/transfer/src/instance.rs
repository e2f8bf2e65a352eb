//! The protocol instances of a host: bulk transfers, group management, and the accounts of relays.

use bytes::Bytes;
use groupcast_core::trace::{Observable, Observation, Transition};
use groupcast_core::{MemberId, Protocol, SocketClass, Time, Transmit, TransmitBuf, Uplink};
use groupcast_protocols::bulk::{Bulk, Notice};
use groupcast_protocols::relay::{AccountEvent, Accounts};
use groupcast_protocols::xgm::{Xgm, XgmEvent};

/// One of the three.
pub(crate) enum Instance {
    Bulk(Box<Bulk>),
    Xgm(Box<Xgm>),
    Relay(Box<Accounts>),
}

/// An event of one of the three.
pub(crate) enum InstanceEvent {
    Bulk(Notice),
    Xgm(XgmEvent),
    Relay(AccountEvent),
}

impl Instance {
    pub(crate) fn bulk(&mut self) -> Option<&mut Bulk> {
        match self {
            Self::Bulk(bulk) => Some(bulk),
            Self::Xgm(_) | Self::Relay(_) => None,
        }
    }

    pub(crate) fn xgm(&mut self) -> Option<&mut Xgm> {
        match self {
            Self::Xgm(xgm) => Some(xgm),
            Self::Bulk(_) | Self::Relay(_) => None,
        }
    }

    pub(crate) fn accounts(&mut self) -> Option<&mut Accounts> {
        match self {
            Self::Relay(accounts) => Some(accounts),
            Self::Bulk(_) | Self::Xgm(_) => None,
        }
    }
}

impl Observable for InstanceEvent {
    fn observation(&self) -> Option<Observation> {
        match self {
            Self::Bulk(notice) => notice.observation(),
            Self::Xgm(event) => event.observation(),
            Self::Relay(_) => None,
        }
    }
}

impl Protocol for Instance {
    type Event = InstanceEvent;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        match self {
            Self::Bulk(bulk) => bulk.handle_datagram(now, from, body),
            Self::Xgm(xgm) => xgm.handle_datagram(now, from, body),
            Self::Relay(accounts) => accounts.handle_datagram(now, from, &body),
        }
    }

    fn handle_arrival(&mut self, now: Time, arrived: Time, from: MemberId, body: Bytes) {
        match self {
            Self::Bulk(bulk) => bulk.handle_arrival(now, arrived, from, body),
            Self::Xgm(xgm) => xgm.handle_datagram(now, from, body),
            Self::Relay(accounts) => accounts.handle_datagram(now, from, &body),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Bulk(bulk) => bulk.handle_timeout(now),
            Self::Xgm(xgm) => xgm.handle_timeout(now),
            Self::Relay(accounts) => accounts.handle_timeout(now),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        match self {
            Self::Bulk(bulk) => bulk.poll_transmit(now, buf),
            Self::Xgm(xgm) => xgm.poll_transmit(now, buf),
            Self::Relay(accounts) => accounts.poll_transmit(buf),
        }
    }

    fn poll_event(&mut self) -> Option<InstanceEvent> {
        match self {
            Self::Bulk(bulk) => bulk.poll_event().map(InstanceEvent::Bulk),
            Self::Xgm(xgm) => xgm.poll_event().map(InstanceEvent::Xgm),
            Self::Relay(accounts) => accounts.poll_event().map(InstanceEvent::Relay),
        }
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        match self {
            Self::Bulk(bulk) => bulk.poll_transition(),
            Self::Xgm(xgm) => xgm.poll_transition(),
            Self::Relay(_) => None,
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Self::Bulk(bulk) => bulk.poll_timeout(),
            Self::Xgm(xgm) => xgm.poll_timeout(),
            Self::Relay(accounts) => accounts.poll_timeout(),
        }
    }

    fn read_first(&self) -> SocketClass {
        match self {
            Self::Bulk(bulk) => bulk.read_first(),
            Self::Xgm(xgm) => xgm.read_first(),
            Self::Relay(_) => SocketClass::Control,
        }
    }

    /// A monitor asks each host that it does not hear, and relays are told one by one: while no
    /// transfer needs the group, nothing does.
    fn listens(&self) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.listens(),
            Self::Xgm(_) | Self::Relay(_) => false,
        }
    }

    fn wants_uplink(&self, now: Time) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.wants_uplink(now),
            Self::Xgm(_) | Self::Relay(_) => false,
        }
    }

    fn handle_uplink(&mut self, now: Time, uplink: Uplink) {
        match self {
            Self::Bulk(bulk) => bulk.handle_uplink(now, uplink),
            Self::Xgm(_) | Self::Relay(_) => {}
        }
    }

    fn handle_copies(&mut self, now: Time, members: &[MemberId]) {
        match self {
            Self::Bulk(bulk) => bulk.handle_copies(now, members),
            Self::Xgm(_) | Self::Relay(_) => {}
        }
    }

    fn copies_to(&self, member: MemberId) -> bool {
        match self {
            Self::Bulk(bulk) => bulk.copies_to(member),
            Self::Xgm(_) | Self::Relay(_) => true,
        }
    }
}
