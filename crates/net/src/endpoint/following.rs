//! Follows the endpoint's interface, for hosts whose address may change while they run: a lease
//! ends and the next one is another address, or the interface goes and comes back as another
//! device.
//!
//! The kernel keeps a membership with the device: it does not come back with a new one. A socket is
//! bound to an address: nothing leaves from one that the host has no longer. Peers notice a member
//! that has moved by its datagrams, and challenge it (`core`'s admission).
//!
//! A member without multicast is found by its address alone. It stays there, and waits until the
//! host has it again. Others go back to their first address when that is there.

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
    /// The address at which the endpoint listened at first.
    first: Ipv4Addr,
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
    /// And at least this often.
    const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);

    /// Looks, once a second, whether the interface still has the address at which the endpoint
    /// listens, and is still the same device. Joins the group again if it is not, and moves to the
    /// interface's new address if it has another one, and back to the first when that is there
    /// again; the port stays if it is free there. An address that the host has given itself for
    /// want of another (169.254.0.0/16) is left when there is one. An endpoint without multicast
    /// ([`Group::Mesh`]) does not move: its peers find it by its address. Returns what has become
    /// of it. The first call takes down which interface that is; an address of no interface that is
    /// up then, as 127.0.0.2, is not followed.
    pub fn follow_interface(&mut self) -> Option<Moved> {
        let moves = matches!(self.config.group, Group::Multicast(_));
        let up = self.look()?;
        self.follow(&up, moves)
    }

    /// The same, for an endpoint that stays at its address wherever that is. While the address is
    /// not there, or its interface is down, [`trouble`](Self::trouble) says so.
    pub fn watch_interface(&mut self) -> Option<Moved> {
        let up = self.look()?;
        self.follow(&up, false)
    }

    /// The interfaces that are up, when it is time to look at them.
    fn look(&mut self) -> Option<Vec<Interface>> {
        let now = self.now();
        if now < self.look_at {
            return None;
        }
        let up = sys::interfaces();
        // A host may have thousands, and looking should cost a thousandth of the time. But this
        // thread may have had to wait meanwhile, and would then not look for long.
        let took = self.now() - now;
        self.look_at = now + (took * 1_000).clamp(Self::LOOK_EVERY, Self::LOOK_EVERY_MAX);
        up.inspect_err(|error| tracing::debug!(%error, "cannot list the interfaces"))
            .ok()
    }

    pub(super) fn follow(&mut self, up: &[Interface], moves: bool) -> Option<Moved> {
        let address = *self.config.listen.ip();
        let index = |it: &Interface| sys::interface_index(&it.name).unwrap_or_default();
        let here = up.iter().find(|it| it.address == address);
        let Some(seat) = &mut self.seat else {
            self.seat = here.map(|it| Seat {
                name: it.name.clone(),
                index: index(it),
                first: address,
                is_there: true,
            });
            return None;
        };
        let goal = choose(seat, address, up).filter(|it| moves || it.address == address);
        let Some(goal) = goal else {
            seat.is_there = false;
            let name = seat.name.clone();
            self.trouble.note(|| absence(&name, address));
            return None;
        };
        let (is_here, index) = (goal.address == address, index(goal));
        if is_here && seat.is_there && seat.index == index {
            return None;
        }
        let result = match is_here {
            true => self.join_anew(),
            false => self.move_to(goal.address),
        };
        let moved = match is_here {
            true => Moved::Back,
            false => Moved::To(goal.address),
        };
        self.seated(goal.name.clone(), index, result)
            .then_some(moved)
    }

    /// Notes where the sockets are, if they could be set up; else it is tried again.
    fn seated(&mut self, name: String, index: u32, result: Result<(), NetError>) -> bool {
        if let Err(error) = &result {
            tracing::warn!(%error, name, "cannot follow the interface");
            self.trouble
                .note(|| format!("cannot follow the interface {name}: {error}"));
        }
        let is_there = result.is_ok();
        if is_there {
            self.trouble.end();
        }
        self.uplink.forget();
        if let Some(seat) = &mut self.seat {
            (seat.name, seat.index, seat.is_there) = (name, index, is_there);
        }
        is_there
    }

    /// The address is back: joins the group on the device that has it now. The membership of a
    /// device that has gone stays with its socket, and the system takes only so many: the socket is
    /// another one.
    fn join_anew(&mut self) -> Result<(), NetError> {
        if let Group::Mesh(_) = self.config.group {
            return Ok(());
        }
        self.control
            .socket
            .set_multicast_if_v4(self.config.listen.ip())
            .map_err(NetError::system("choose the interface for multicasts"))?;
        let (data, buffer) = Sockets::open_data(&self.config)?;
        self.waiter
            .register(&data, Self::DATA)
            .map_err(NetError::system("register a socket"))?;
        self.data.replace(data);
        self.buffer = buffer;
        self.has_joined();
        Ok(())
    }

    /// A new socket has joined the group; what the node wants is followed from now on.
    fn has_joined(&mut self) {
        self.is_member = true;
        self.rejoin_at = Time::ZERO;
        self.trouble.end();
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
        self.has_joined();
        Ok(())
    }
}

/// Why nothing can be sent from `address`, which was at the interface called `name`.
fn absence(name: &str, address: Ipv4Addr) -> String {
    let all = sys::all_interfaces().unwrap_or_default();
    match all.iter().find(|it| it.address == address) {
        Some(it) => format!(
            "the interface {} of {address} is down: nothing is sent and nothing comes",
            it.name
        ),
        None => format!(
            "{address}, which was at the interface {name}, is no address of this host any more: nothing is sent and \
             nothing comes"
        ),
    }
}

/// Where an endpoint at `address` should be: at its first address, else where it is, else at
/// another address of its interface. One that the host has given itself is the last choice, be it
/// the first.
fn choose<'a>(seat: &Seat, address: Ipv4Addr, up: &'a [Interface]) -> Option<&'a Interface> {
    let rank = |it: &Interface| match it.address {
        at if at == seat.first && !at.is_link_local() => 0,
        at if at == address => 1 + 2 * u8::from(at.is_link_local()),
        at => 2 + 2 * u8::from(at.is_link_local()),
    };
    let is_known =
        |it: &&Interface| it.name == seat.name || it.address == address || it.address == seat.first;
    up.iter().filter(is_known).min_by_key(|it| rank(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(addresses: &[(&str, [u8; 4])]) -> Vec<Interface> {
        let interface = |(name, address): &(&str, [u8; 4])| Interface {
            name: (*name).into(),
            address: (*address).into(),
            is_loopback: false,
            carries_multicast: true,
        };
        addresses.iter().map(interface).collect()
    }

    #[test]
    fn words_say_whether_an_interface_is_down_or_an_address_gone() {
        let gone = absence("eth9", Ipv4Addr::new(192, 0, 2, 1));
        assert!(gone.starts_with("192.0.2.1, which was at the interface eth9, is no address"));
        let down = absence("lo", Ipv4Addr::LOCALHOST);
        assert!(down.starts_with("the interface lo of 127.0.0.1 is down"));
    }

    #[test]
    fn an_endpoint_goes_back_to_its_first_address_and_leaves_one_that_the_host_gave_itself() {
        const FIRST: [u8; 4] = [10, 0, 0, 1];
        const OTHER: [u8; 4] = [10, 0, 0, 9];
        const OWN: [u8; 4] = [169, 254, 3, 3];
        let seat = Seat {
            name: "eth0".into(),
            index: 2,
            first: FIRST.into(),
            is_there: true,
        };
        let chosen = |at: [u8; 4], addresses: &[(&str, [u8; 4])]| {
            let up = up(addresses);
            choose(&seat, at.into(), &up).map(|it| it.address.octets())
        };
        let eth0 = |address| ("eth0", address);
        assert_eq!(chosen(FIRST, &[eth0(OTHER), eth0(FIRST)]), Some(FIRST));
        assert_eq!(chosen(FIRST, &[eth0(OWN)]), Some(OWN));
        assert_eq!(chosen(OWN, &[eth0(OWN), eth0(OTHER)]), Some(OTHER));
        assert_eq!(chosen(OTHER, &[eth0(OWN), eth0(OTHER)]), Some(OTHER));
        assert_eq!(chosen(OTHER, &[eth0(OTHER), ("eth1", FIRST)]), Some(FIRST));
        assert_eq!(chosen(OTHER, &[("eth1", OWN)]), None);
    }

    #[test]
    fn a_first_address_that_the_host_gave_itself_is_left_and_not_gone_back_to() {
        const OWN: [u8; 4] = [169, 254, 3, 3];
        const OTHER: [u8; 4] = [10, 0, 0, 9];
        let seat = Seat {
            name: "eth0".into(),
            index: 2,
            first: OWN.into(),
            is_there: true,
        };
        let both = up(&[("eth0", OWN), ("eth0", OTHER)]);
        for at in [OWN, OTHER] {
            let chosen = choose(&seat, at.into(), &both);
            assert_eq!(chosen.map(|it| it.address.octets()), Some(OTHER));
        }
        let chosen = choose(&seat, OTHER.into(), &both[..1]);
        assert_eq!(chosen.map(|it| it.address.octets()), Some(OWN));
    }
}
