//! The endpoint's membership in the multicast group: it is there as long as the node listens.

use std::time::Duration;

use groupcast_core::{Protocol, Time};

use super::Endpoint;
use crate::config::Group;

/// What keeps the endpoint from the group, or from the address at which it should be.
#[derive(Default, Debug)]
pub(super) struct Trouble {
    /// What it is, since nothing has gone well.
    lasting: Option<String>,
    /// Whether it is to be polled.
    untold: bool,
}

impl Trouble {
    /// Something has failed, and is tried again.
    pub(super) fn note(&mut self, problem: impl FnOnce() -> String) {
        if self.lasting.is_none() {
            self.lasting = Some(problem());
            self.untold = true;
        }
    }

    /// It has gone well.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

impl<P: Protocol> Endpoint<P> {
    /// A membership that could not be changed is tried again after this long.
    const REJOIN_AFTER: Duration = Duration::from_secs(1);

    /// What keeps it from joining or leaving the group, from its address, or from following its
    /// interface ([`follow_interface`](Self::follow_interface)), in words: once, until it goes well
    /// again. It is tried each second, and each failure is logged, too.
    pub fn poll_trouble(&mut self) -> Option<String> {
        let is_new = core::mem::take(&mut self.trouble.untold);
        self.trouble.lasting.clone().filter(|_| is_new)
    }

    /// The same, as long as it lasts.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.lasting.as_deref()
    }

    /// Is in the multicast group as long as the node listens. What leaves now may ask for what
    /// comes to the group, so the group is joined before.
    pub(super) fn follow_membership(&mut self, now: Time) {
        let Group::Multicast(group) = self.config.group else {
            return;
        };
        let listens = self.node.listens();
        if listens == self.is_member || now < self.rejoin_at {
            return;
        }
        let interface = self.config.listen.ip();
        let result = match listens {
            true => self.data.socket.join_multicast_v4(group.ip(), interface),
            false => self.data.socket.leave_multicast_v4(group.ip(), interface),
        };
        match result {
            Ok(()) => {
                tracing::debug!(%group, listens, "the membership follows the protocol");
                self.is_member = listens;
                self.trouble.end();
            }
            Err(error) => {
                // The system may have no room for one more membership just now.
                tracing::warn!(%group, %error, listens, "cannot follow the protocol's membership");
                self.trouble.note(|| {
                    let change = if listens { "join" } else { "leave" };
                    format!("cannot {change} the group {group} at {interface}: {error}")
                });
                self.rejoin_at = now + Self::REJOIN_AFTER;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

    use bytes::Bytes;
    use groupcast_core::node::Channel;
    use groupcast_core::{Event, MemberId, Transmit, TransmitBuf};

    use super::*;
    use crate::config::EndpointConfig;
    use crate::endpoint::Moved;
    use crate::open::{Sealing, new_member};

    const AT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

    /// Says whether it listens, and nothing else.
    struct Listener(bool);

    impl Protocol for Listener {
        type Event = Event;

        fn handle_datagram(&mut self, _: Time, _: MemberId, _: Bytes) {}

        fn handle_timeout(&mut self, _: Time) {}

        fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
            None
        }

        fn poll_event(&mut self) -> Option<Event> {
            None
        }

        fn poll_timeout(&self) -> Option<Time> {
            None
        }

        fn listens(&self) -> bool {
            self.0
        }
    }

    /// An endpoint on loopback whose member listens to `group`.
    fn listener(group: Ipv4Addr) -> Endpoint<Listener> {
        let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let group = SocketAddrV4::new(group, port.unwrap().port());
        let config = EndpointConfig::multicast(AT, group);
        let member = new_member("a").unwrap();
        let builder = Endpoint::builder(config, member, Sealing::Insecure).free_port();
        let mut endpoint = builder.open().unwrap();
        endpoint.node_mut().open(Channel::SOLE, Listener(true));
        endpoint
    }

    fn listen(endpoint: &mut Endpoint<Listener>, listens: bool) -> Option<String> {
        let listener = endpoint.node_mut().instance_mut(Channel::SOLE);
        *listener.expect("it was opened") = Listener(listens);
        endpoint.rejoin_at = Time::ZERO;
        endpoint.follow_membership(Time::ZERO);
        endpoint.poll_trouble()
    }

    #[test]
    fn an_address_that_is_not_there_is_told_until_it_is_back() {
        let group = Ipv4Addr::new(239, 79, 1, 3);
        let mut endpoint = listener(group);
        let up = crate::sys::interfaces().unwrap();
        endpoint.follow(&up, false);
        assert_eq!(endpoint.trouble(), None);
        for _ in 0..2 {
            assert_eq!(endpoint.follow(&[], false), None);
            let trouble = endpoint.trouble().unwrap_or_default();
            assert!(trouble.contains("of 127.0.0.1 is down: nothing is sent"));
        }
        assert!(endpoint.poll_trouble().is_some());
        assert_eq!(endpoint.poll_trouble(), None, "once");
        assert_eq!(endpoint.follow(&up, false), Some(Moved::Back));
        assert_eq!(endpoint.trouble(), None);
    }

    #[test]
    fn a_membership_that_cannot_be_changed_is_told_once_until_it_can() {
        let group = Ipv4Addr::new(239, 79, 1, 2);
        let mut endpoint = listener(group);
        for _ in 0..2 {
            // It has left already, without this endpoint.
            let socket = &endpoint.data.socket;
            socket.leave_multicast_v4(&group, AT.ip()).unwrap();
            let told = listen(&mut endpoint, false);
            assert!(told.is_some_and(|it| it.starts_with("cannot leave the group 239.79.1.2")));
            assert_eq!(listen(&mut endpoint, false), None, "once");
            let socket = &endpoint.data.socket;
            socket.join_multicast_v4(&group, AT.ip()).unwrap();
            assert_eq!(listen(&mut endpoint, false), None);
            assert_eq!(listen(&mut endpoint, true), None);
            assert!(endpoint.is_member);
        }
    }
}
