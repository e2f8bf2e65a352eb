//! Chooses the interface by which a host reaches its group, where no configuration names one.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};

use crate::sys;

/// Any multicast address: what routes one of them routes all, as a rule.
const PROBE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 1), 4809);

/// An interface of this host that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) is_loopback: bool,
    pub(crate) carries_multicast: bool,
}

/// The interface that was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceChoice {
    /// The interface's IPv4 address.
    pub address: Ipv4Addr,
    /// What the operator should know of it, if the choice was not the host's own.
    pub warning: Option<String>,
}

/// The address of the interface by which a host reaches its group: see [`choose_interface`].
pub fn default_interface() -> Ipv4Addr {
    choose_interface().address
}

/// The first IPv4 address of the interface called `name`, if it is up.
///
/// # Errors
/// In words: no such interface, and which there are.
pub fn interface_named(name: &str) -> Result<Ipv4Addr, String> {
    let up = sys::interfaces().map_err(|error| format!("cannot list the interfaces: {error}"))?;
    find(name, &up)
}

fn find(name: &str, up: &[Interface]) -> Result<Ipv4Addr, String> {
    if let Some(interface) = up.iter().find(|interface| interface.name == name) {
        return Ok(interface.address);
    }
    let mut names: Vec<&str> = up.iter().map(|interface| &*interface.name).collect();
    names.dedup();
    Err(format!(
        "no interface `{name}` with an IPv4 address is up: there are {}",
        names.join(", ")
    ))
}

/// Chooses the interface that multicasts leave by if the host has a route for them, else the one
/// LAN that is up. Of several it takes the first, without any 127.0.0.1, and says so.
pub fn choose_interface() -> InterfaceChoice {
    let routed = routed();
    let up = match routed {
        Some(_) => Vec::new(),
        None => sys::interfaces().unwrap_or_default(),
    };
    choose(routed, &up)
}

fn choose(routed: Option<Ipv4Addr>, up: &[Interface]) -> InterfaceChoice {
    if let Some(address) = routed {
        return InterfaceChoice {
            address,
            warning: None,
        };
    }
    let mut lans: Vec<&Interface> = Vec::new();
    for interface in up {
        let is_lan = interface.carries_multicast && !interface.is_loopback;
        // A second address of the same interface is no second LAN.
        if is_lan && lans.iter().all(|lan| lan.name != interface.name) {
            lans.push(interface);
        }
    }
    match lans.as_slice() {
        [] => InterfaceChoice {
            address: Ipv4Addr::LOCALHOST,
            warning: Some(
                "no network is up: 127.0.0.1 is taken, and nothing but this host is reached".into(),
            ),
        },
        [lan] => InterfaceChoice {
            address: lan.address,
            warning: None,
        },
        [first, others @ ..] => {
            let others: Vec<String> = others.iter().map(|lan| named(lan)).collect();
            InterfaceChoice {
                address: first.address,
                warning: Some(format!(
                    "several networks are up and none has a route for multicasts: {} is taken, not {}",
                    named(first),
                    others.join(", ")
                )),
            }
        }
    }
}

fn named(interface: &Interface) -> String {
    format!("{} ({})", interface.address, interface.name)
}

/// The address from which multicasts leave this host, if it has a route for them that is no
/// loopback.
fn routed() -> Option<Ipv4Addr> {
    // Connecting a UDP socket sends nothing; it only asks the routing table.
    let routed = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect(PROBE)?;
        socket.local_addr()
    });
    match routed.map(|address| address.ip()) {
        Ok(IpAddr::V4(ip)) if !ip.is_unspecified() && !ip.is_loopback() => Some(ip),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, last: u8) -> Interface {
        Interface {
            name: name.into(),
            address: Ipv4Addr::new(10, 0, 0, last),
            is_loopback: name == "lo",
            carries_multicast: name != "tun0",
        }
    }

    #[test]
    fn the_route_decides_where_there_is_one() {
        let routed = Ipv4Addr::new(192, 0, 2, 7);
        let choice = choose(Some(routed), &[interface("eth0", 1), interface("eth1", 2)]);
        assert_eq!((choice.address, choice.warning), (routed, None));
    }

    #[test]
    fn the_one_lan_that_is_up_is_taken_without_a_route() {
        let up = [
            interface("lo", 0),
            interface("tun0", 9),
            interface("eth0", 1),
            interface("eth0", 2),
        ];
        let choice = choose(None, &up);
        assert_eq!((choice.address, choice.warning), (up[2].address, None));
    }

    #[test]
    fn of_several_or_none_a_warning_says_what_was_taken() {
        let several = choose(None, &[interface("eth0", 1), interface("eth1", 2)]);
        assert_eq!(several.address, Ipv4Addr::new(10, 0, 0, 1));
        let warning = several.warning.unwrap();
        assert!(
            warning.contains("10.0.0.1 (eth0) is taken, not 10.0.0.2 (eth1)"),
            "{warning}"
        );
        let none = choose(None, &[interface("lo", 0)]);
        assert_eq!(none.address, Ipv4Addr::LOCALHOST);
        assert!(none.warning.unwrap().contains("127.0.0.1"));
    }

    #[test]
    fn an_interface_is_found_by_its_name_and_one_that_is_not_there_is_told() {
        let up = [
            interface("lo", 0),
            interface("eth0", 1),
            interface("eth0", 2),
        ];
        assert_eq!(find("eth0", &up), Ok(Ipv4Addr::new(10, 0, 0, 1)));
        let error = find("eth1", &up).unwrap_err();
        assert!(
            error.contains("eth1") && error.ends_with("lo, eth0"),
            "{error}"
        );
    }

    #[test]
    fn the_loopback_interface_is_up() {
        let up = sys::interfaces().unwrap();
        assert!(
            up.iter()
                .any(|it| it.is_loopback && it.address.is_loopback()),
            "{up:?}"
        );
    }
}
