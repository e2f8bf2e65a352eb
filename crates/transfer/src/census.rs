//! A census of a group's receivers, on real sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use groupcast_core::Rng;
use groupcast_net::{Clock, Endpoint, new_member, random_u64};
use groupcast_protocols::channel::XGM;
use groupcast_protocols::xgm::{Census, CensusHost, CensusRequest, Xgm, XgmConfig, XgmEvent};

use crate::host::{PATIENCE, TransferError, TransferLink, open_endpoint};

/// The result of a census, with addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The result without addresses.
    pub census: Census,
    /// The hosts, by name, if the request asked for a list.
    pub hosts: Vec<CountedHost>,
    /// The hosts without multicast of the link that never answered, as it names them.
    pub absent: Vec<String>,
}

/// A host that answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedHost {
    /// Its name, as the host says it: it may hold any characters.
    pub name: String,
    /// The address that it was heard from.
    pub address: Option<SocketAddr>,
    /// Its answer.
    pub host: CensusHost,
}

/// Finds the receivers of the group, with the hosts without multicast that the link names.
/// `link.bulk` is not used. Takes less than 1 s for few hosts, less than 2 s for a thousand, and
/// never longer than the request's time-out; with hosts without multicast up to twice as long,
/// because it begins anew when they have proved that they are there. Returns `None` if `stop` was
/// set meanwhile.
///
/// # Errors
/// If the network cannot be used, or the request names no subgroup.
pub fn census(
    link: &TransferLink,
    request: CensusRequest,
    stop: &AtomicBool,
) -> Result<Option<Counted>, TransferError> {
    let local = new_member(&link.name)?;
    let rng = Rng::new(random_u64()?);
    let config = XgmConfig::default();
    let mut endpoint: Endpoint<Xgm> =
        open_endpoint(link, local, (&rng, Clock::start()), config.hosts_max)?;
    let xgm = Xgm::new(local, link.name.as_bytes(), config, rng.fork("xgm"));
    endpoint.node_mut().open(XGM, xgm);
    let until = endpoint.now() + request.timeout;
    let mut awaited = link.without().to_vec();
    let mut asked = awaited.len();
    ask(&mut endpoint, request)?;
    let mut ready = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        endpoint
            .turn(Some(PATIENCE), &mut ready)
            .map_err(TransferError::system("wait for the network"))?;
        let node = endpoint.node();
        awaited.retain(|host| !node.peers().any(|(_, at)| at == host.address.into()));
        while let Some((_, event)) = endpoint.node_mut().poll_event() {
            let XgmEvent::Census(census) = event else {
                continue;
            };
            let left = until - endpoint.now();
            if awaited.len() < asked && !left.is_zero() {
                // Hosts that have come since it began may have missed its polls.
                asked = awaited.len();
                let timeout = left;
                ask(&mut endpoint, CensusRequest { timeout, ..request })?;
                continue;
            }
            let absent = awaited.into_iter().map(|host| host.host).collect();
            return Ok(Some(with_addresses(census, absent, &endpoint)));
        }
    }
    Ok(None)
}

fn ask(endpoint: &mut Endpoint<Xgm>, request: CensusRequest) -> Result<(), TransferError> {
    let now = endpoint.now();
    let xgm = endpoint.node_mut().instance_mut(XGM);
    let xgm = xgm.expect("the channel was opened with the endpoint");
    xgm.census(now, request)?;
    Ok(())
}

fn with_addresses(mut census: Census, absent: Vec<String>, endpoint: &Endpoint<Xgm>) -> Counted {
    let address = |host: &CensusHost| {
        let mut peers = endpoint.node().peers();
        peers
            .find(|(peer, _)| *peer == host.member)
            .map(|(_, address)| address)
    };
    let listed = census.list.take().unwrap_or_default();
    let hosts = listed.into_iter().map(|host| CountedHost {
        name: String::from_utf8_lossy(host.name.as_deref().unwrap_or_default()).into_owned(),
        address: address(&host),
        host,
    });
    let mut hosts: Vec<CountedHost> = hosts.collect();
    hosts.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
    Counted {
        census,
        hosts,
        absent,
    }
}
