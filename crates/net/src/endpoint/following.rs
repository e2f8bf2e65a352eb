//! Follows the endpoint's interface, for hosts whose address may change while they run: a lease
//! ends and the next one is another address, or the interface goes and comes back as another
//! device.
//!
//! The kernel keeps a membership with the device: it does not come back with a new one. A socket is
//! bound to an address: nothing leaves from one that the host has no longer. Peers notice a member
//! that has moved by its datagrams, and challenge it (`core`'s admission).

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use groupcast_core::{Protocol, Time};

use super::Endpoint;
use crate::config::Group;
use crate::error::NetError;
use crate::interface::Interface;
use crate::open::with_free_port;
use crate::socket::Sockets;
use crate::sys;

/// Where the sockets are: the interface that had the listen address when they were set up.
#[derive(Debug)]
pub(super) struct Seat {
    name: String,
    index: u32,
    /// Whether it was there when it was last looked for.
    is_there: bool,
}

/// What became of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// It was gone and is back, with the same address.
    Back,
    /// It has this address now.
    To(Ipv4Addr),
}

impl<P: Protocol> Endpoint<P> {
    /// The interface is looked at this often.
    const LOOK_EVERY: Duration = Duration::from_secs(1);

    /// Looks, once a second, whether the interface still has the address at which the endpoint
    /// listens, and is still the same device. Joins the group again if it is not, and moves to the
    /// interface's new address if it has another one; the port stays if it is free there. Returns
    /// what has become of it. For callers whose peers need not find them by their address. The
    /// first call takes down which interface that is; an address of no interface that is up then,
    /// as 127.0.0.2, is not followed.
    pub fn follow_interface(&mut self) -> Option<Moved> {
        let now = self.now();
        if now < self.look_at {
            return None;
        }
        self.look_at = now + Self::LOOK_EVERY;
        match sys::interfaces() {
            Ok(up) => self.follow(&up),
            Err(error) => {
                tracing::debug!(%error, "cannot list the interfaces");
                None
            }
        }
    }

    fn follow(&mut self, up: &[Interface]) -> Option<Moved> {
        let address = *self.config.listen.ip();
        let index = |it: &Interface| sys::interface_index(&it.name).unwrap_or_default();
        let here = up.iter().find(|it| it.address == address);
        let Some(seat) = &mut self.seat else {
            self.seat = here.map(|it| Seat {
                name: it.name.clone(),
                index: index(it),
                is_there: true,
            });
            return None;
        };
        if let Some(here) = here {
            let index = index(here);
            if seat.is_there && seat.index == index {
                return None;
            }
            let result = self.join_anew();
            self.seated(here.name.clone(), index, result)
                .then_some(Moved::Back)
        } else if let Some(other) = up.iter().find(|it| it.name == seat.name) {
            let index = index(other);
            let result = self.move_to(other.address);
            let moved = self.seated(other.name.clone(), index, result);
            moved.then_some(Moved::To(other.address))
        } else {
            seat.is_there = false;
            None
        }
    }

    /// Notes where the sockets are, if they could be set up; else it is tried again.
    fn seated(&mut self, name: String, index: u32, result: Result<(), NetError>) -> bool {
        if let Err(error) = &result {
            tracing::warn!(%error, name, "cannot follow the interface");
        }
        let is_there = result.is_ok();
        self.seat = Some(Seat {
            name,
            index,
            is_there,
        });
        is_there
    }

    /// The address is back: joins the group on the device that has it now.
    fn join_anew(&mut self) -> Result<(), NetError> {
        let interface = *self.config.listen.ip();
        let Group::Multicast(group) = self.config.group else {
            return Ok(());
        };
        self.control
            .socket
            .set_multicast_if_v4(&interface)
            .map_err(NetError::system("choose the interface for multicasts"))?;
        if self.is_member {
            // The device that it was joined on may be gone.
            let _ = self.data.socket.leave_multicast_v4(group.ip(), &interface);
            let joined = self.data.socket.join_multicast_v4(group.ip(), &interface);
            joined.map_err(|source| NetError::NoMulticast {
                listen: interface,
                group: *group.ip(),
                source,
            })?;
        }
        Ok(())
    }

    /// The interface has another address: opens the sockets there.
    fn move_to(&mut self, address: Ipv4Addr) -> Result<(), NetError> {
        let mut config = self.config.clone();
        config.listen = SocketAddrV4::new(address, config.listen.port());
        let mut opened = Sockets::open(&config);
        if let (Err(NetError::InUse { .. }), Group::Multicast(_)) = (&opened, &config.group) {
            config.listen = with_free_port(config.listen);
            opened = Sockets::open(&config);
        }
        let sockets = opened?;
        for (socket, token) in [
            (&sockets.control, Self::CONTROL),
            (&sockets.data, Self::DATA),
        ] {
            self.waiter
                .register(socket, token)
                .map_err(NetError::system("register a socket"))?;
        }
        self.control.replace(sockets.control);
        self.data.replace(sockets.data);
        self.buffer = sockets.buffer;
        self.config = config;
        self.watches_room = false;
        // The new socket has joined the group; what the node wants is followed from now on.
        self.is_member = true;
        self.rejoin_at = Time::ZERO;
        Ok(())
    }
}
