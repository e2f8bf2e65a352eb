//! The requests of a client to its daemon.

use std::path::Path;

use groupcast_core::Service;

use super::{Connection, Joined, RequestError};
use crate::frame::{
    BEHIND, BUS, BusRequest, ClientFrame, DESTINATIONS_MAX, Label, REKEY, RESILIENT, RINGS_MADE,
    SPILL, credit_cost, encode_labelled_head,
};
use crate::name::{check_destination, check_group};
use crate::when_slow::WhenSlow;

impl Connection {
    /// Asks to become a member of `group`. With `discard_own` the group does not deliver this
    /// client's own messages to it.
    pub fn join(&mut self, group: &str, discard_own: bool) -> Result<(), RequestError> {
        self.join_by(
            group,
            Joined {
                discard_own,
                ring: false,
            },
        )
    }

    /// Asks to become a member of `group`, on a ring of its own. If there is none, the daemons make
    /// one: an order for the group and all names below it. Hosts without clients in these groups
    /// get none of its messages.
    ///
    /// [`ClientEvent::Carried`](super::ClientEvent::Carried) comes before the first view. The ring
    /// does not carry messages published before that event.
    ///
    /// # Errors
    /// [`RequestError::NoRingsMade`] if the daemon is too old for such rings.
    pub fn join_on_ring(&mut self, group: &str, discard_own: bool) -> Result<(), RequestError> {
        self.check_rings_made()?;
        self.join_by(
            group,
            Joined {
                discard_own,
                ring: true,
            },
        )
    }

    fn join_by(&mut self, group: &str, joined: Joined) -> Result<(), RequestError> {
        check_group(group)?;
        self.request(&joined.frame(group))?;
        self.groups.insert(group.into(), joined);
        Ok(())
    }

    /// Asks to leave `group`.
    pub fn leave(&mut self, group: &str) -> Result<(), RequestError> {
        check_group(group)?;
        self.request(&ClientFrame::Leave {
            group: group.into(),
        })?;
        self.groups.remove(group);
        self.guest.left(group);
        Ok(())
    }

    /// Sets the daemon's policy should this client take its messages too slowly, from now on and in
    /// later connections. By default the daemon's rules for the groups hold. A client can ask for
    /// less patience than they have and than it asked for before, not for more.
    pub fn set_when_slow(&mut self, policy: WhenSlow) -> Result<(), RequestError> {
        let welcome = self.welcome.as_ref();
        if welcome.is_some_and(|welcome| welcome.features & BEHIND == 0) {
            return Err(RequestError::NoWhenSlow);
        }
        let spills = welcome.is_none_or(|welcome| welcome.features & SPILL != 0);
        if policy == WhenSlow::Spill && !spills {
            return Err(RequestError::NoSpill);
        }
        if policy < self.when_slow {
            return Err(RequestError::MorePatience { wish: policy });
        }
        self.request(&ClientFrame::WhenSlow(policy))?;
        self.when_slow = policy;
        Ok(())
    }

    /// Publishes a message to groups or private names. A receiver gets it by the first of them that
    /// it is in. Returns the number of the message: 1, 2, … Nothing is sent if it fails.
    pub fn publish(
        &mut self,
        groups: &[&str],
        service: Service,
        payload: &[u8],
    ) -> Result<u64, RequestError> {
        let number = self.publish_head(groups, service, payload.len())?;
        self.outgoing.gather().extend_from_slice(payload);
        Ok(number)
    }

    /// The same for a payload that the caller sends itself, so that a long one is not copied. The
    /// caller has to send everything that [`poll_transmit`](Self::poll_transmit) gives, and right
    /// after it `payload_len` bytes.
    pub fn publish_head(
        &mut self,
        groups: &[&str],
        service: Service,
        payload_len: usize,
    ) -> Result<u64, RequestError> {
        self.publish_any(groups, service, None, payload_len)
    }

    /// The same as [`publish`](Self::publish), with a tag, by which receivers select messages, and
    /// the syntax of the payload.
    ///
    /// # Errors
    /// [`RequestError::NoBus`] if the daemon is older than labels.
    ///
    /// # Panics
    /// If the tag has more than 255 bytes.
    pub fn publish_labelled(
        &mut self,
        groups: &[&str],
        service: Service,
        label: Label<'_>,
        payload: &[u8],
    ) -> Result<u64, RequestError> {
        self.check_bus()?;
        let number = self.publish_any(groups, service, Some(label), payload.len())?;
        self.outgoing.gather().extend_from_slice(payload);
        Ok(number)
    }

    fn publish_any(
        &mut self,
        groups: &[&str],
        service: Service,
        label: Option<Label<'_>>,
        payload_len: usize,
    ) -> Result<u64, RequestError> {
        if groups.is_empty() || groups.len() > DESTINATIONS_MAX {
            return Err(RequestError::Destinations {
                count: groups.len(),
                max: DESTINATIONS_MAX,
            });
        }
        for group in groups {
            check_destination(group)?;
        }
        let welcome = self.welcome.as_ref().ok_or(RequestError::NotWelcome)?;
        if payload_len as u64 > welcome.message_max {
            return Err(RequestError::TooLarge {
                len: payload_len,
                max: welcome.message_max,
            });
        }
        if !service.has_code() {
            return Err(RequestError::Resilience { service });
        }
        let later = matches!(service, Service::KResilient(_) | Service::Majority);
        if later && welcome.features & RESILIENT == 0 {
            return Err(RequestError::Service { service });
        }
        self.check_end()?;
        if !self.has_credit() {
            return Err(RequestError::NoCredit);
        }
        let number = self.publications.last() + 1;
        let bytes = self.outgoing.gather();
        let len = encode_labelled_head(bytes, number, service, label, groups, payload_len);
        self.publications.published(credit_cost(len) as u64);
        Ok(number)
    }

    /// Asks for the daemon's status: [`Answer::Status`](super::Answer::Status) follows.
    pub fn ask_status(&mut self) -> Result<(), RequestError> {
        self.request(&ClientFrame::Status)
    }

    /// Asks for all groups: [`Answer::Groups`](super::Answer::Groups) follows.
    pub fn ask_groups(&mut self) -> Result<(), RequestError> {
        self.request(&ClientFrame::Groups)
    }

    /// Asks the daemon to change to the key in the file `path` on the daemon's host:
    /// [`Answer::Rekey`](super::Answer::Rekey) follows.
    ///
    /// # Errors
    /// [`RequestError::NoRekey`] if the daemon is of a release that cannot change its key.
    pub fn ask_rekey(&mut self, path: &Path) -> Result<(), RequestError> {
        let welcome = self.welcome.as_ref();
        if welcome.is_some_and(|welcome| welcome.features & REKEY == 0) {
            return Err(RequestError::NoRekey);
        }
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        self.request(&ClientFrame::Rekey { path })
    }

    /// Asks for a sign of life: [`Answer::Pong`](super::Answer::Pong) with `token` follows.
    pub fn ping(&mut self, token: u64) -> Result<(), RequestError> {
        self.request(&ClientFrame::Ping { token })
    }

    /// Makes a request of the bus: [`ClientEvent::Done`](super::ClientEvent::Done),
    /// [`ClientEvent::Who`](super::ClientEvent::Who) or
    /// [`ClientEvent::BusClients`](super::ClientEvent::BusClients) follows, with `token`.
    ///
    /// # Errors
    /// [`RequestError::NoBus`] if the daemon is older than the bus,
    /// [`RequestError::NoRingsMade`] if the request is for a ring and the daemon is too old for it.
    ///
    /// # Panics
    /// If a text of the request has more than 255 bytes.
    pub fn ask_bus(&mut self, token: u64, request: BusRequest) -> Result<(), RequestError> {
        self.check_bus()?;
        if matches!(request, BusRequest::Accept { ring: true, .. }) {
            self.check_rings_made()?;
        }
        self.request(&ClientFrame::Bus { token, request })
    }

    fn check_bus(&self) -> Result<(), RequestError> {
        let welcome = self.welcome.as_ref();
        match welcome.is_some_and(|welcome| welcome.features & BUS == 0) {
            true => Err(RequestError::NoBus),
            false => Ok(()),
        }
    }

    /// An older daemon joins a group without the ring and says nothing, and ends the connection for
    /// a request of the bus that it does not know.
    fn check_rings_made(&self) -> Result<(), RequestError> {
        let welcome = self.welcome.as_ref();
        match welcome.is_some_and(|welcome| welcome.features & RINGS_MADE == 0) {
            true => Err(RequestError::NoRingsMade),
            false => Ok(()),
        }
    }

    /// Says good-bye: when the daemon has accepted everything it ends the connection with
    /// [`Disconnect::Bye`](crate::frame::Disconnect::Bye).
    pub fn bye(&mut self) -> Result<(), RequestError> {
        self.request(&ClientFrame::Bye)
    }
}
