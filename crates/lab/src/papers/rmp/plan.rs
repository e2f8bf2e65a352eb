//! Which points each figure has (000 ch. 8–10).

use groupcast_core::Service;

use super::bus_layer::Version;
use super::point::{Load, RmpPoint, System};

/// 000's packets of 8 KB.
const LARGE: u32 = 8_192;
/// "5MB data files".
const FILE: Load = Load::File(5_000_000);
/// Sources and sinks were 1, 2, 4 and 8, no more sources than sinks.
const COUNTS: [usize; 4] = [1, 2, 4, 8];
/// A packet of a message that a meter recognises before it is delivered.
const SMALL: u32 = 64;

/// Fig. 12 and 15: the ten loads.
pub(super) fn loads(quick: bool) -> Vec<RmpPoint> {
    let mbus2 = System::BusOnRmp(Version::Final);
    let file = |system: System| match quick && system == System::MbusI {
        true => Load::File(1_000_000),
        false => FILE,
    };
    let of = |system: System| {
        COUNTS.into_iter().flat_map(move |sources| {
            let sinks = COUNTS.into_iter().filter(move |sinks| *sinks >= sources);
            sinks.map(move |sinks| RmpPoint::among(system, sources, sinks, LARGE, file(system)))
        })
    };
    [System::Rmp, mbus2, System::MbusI]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// How many destinations Fig. 13 and 14 go through.
fn destinations(quick: bool) -> &'static [usize] {
    match quick {
        true => &[1, 2, 4, 8],
        false => &[1, 2, 3, 4, 5, 6, 7, 8],
    }
}

/// Fig. 13: a lone sender that is no destination; TCP to one is what the host model is calibrated
/// on.
pub(super) fn throughput(quick: bool) -> Vec<RmpPoint> {
    let calibrated = RmpPoint::alone(System::Tcp, 1, LARGE, FILE);
    let of = |system: System| {
        let all = destinations(quick).iter();
        all.map(move |sinks| RmpPoint::alone(system, *sinks, LARGE, FILE))
    };
    [System::Rmp, System::MbusI, System::Rpc]
        .into_iter()
        .flat_map(of)
        .chain([calibrated])
        .collect()
}

/// Fig. 14: the same with packets of one byte; RPC to one is what the host model is calibrated on.
pub(super) fn latency(quick: bool) -> Vec<RmpPoint> {
    let services = [Service::Agreed, Service::Reliable];
    let rmp = |sinks: usize| {
        services
            .map(|service| RmpPoint::alone(System::Rmp, sinks, 1, Load::InTurn).service(service))
    };
    let rpc = |sinks: usize| RmpPoint::alone(System::Rpc, sinks, 1, Load::InTurn);
    let all = destinations(quick).iter().copied();
    all.flat_map(|sinks| rmp(sinks).into_iter().chain([rpc(sinks)]))
        .collect()
}

/// "Heavy load": all of eight sites send, or one, with K from 0 to N − 1.
pub(super) fn resilience(quick: bool) -> Vec<RmpPoint> {
    let sites = 8;
    let (sources, resilience): (&[usize], &[u8]) = match quick {
        true => (&[1, 2, 8], &[0, 1, 3, 7]),
        false => (&[1, 2, 4, 8], &[0, 1, 2, 3, 4, 5, 6, 7]),
    };
    let service = |k: u8| match k {
        0 => Service::Agreed,
        _ => Service::KResilient(k),
    };
    let of = |sources: usize| {
        let point = RmpPoint::among(System::Rmp, sources, sites, SMALL, Load::Always);
        resilience.iter().map(move |k| point.service(service(*k)))
    };
    sources.iter().flat_map(|sources| of(*sources)).collect()
}

/// Table 2: two hosts, one sends, after each step; and RMP alone.
pub(super) fn versions(_quick: bool) -> Vec<RmpPoint> {
    let of = |version: Version| {
        let system = System::BusOnRmp(version);
        RmpPoint::alone(system, 1, version.size(), Load::Always).loss(version.loss())
    };
    let raw = RmpPoint::alone(System::Rmp, 1, LARGE, Load::Always);
    Version::ALL.into_iter().map(of).chain([raw]).collect()
}

/// How many datagrams a message takes (ch. 8): rings of three sizes, load from a message now and
/// then to as many as go, and loss.
pub(super) fn messages(quick: bool) -> Vec<RmpPoint> {
    let (losses, rates): (&[f64], &[f64]) = match quick {
        true => (&[0.0, 0.02, 0.1], &[1.0, 20.0]),
        false => (
            &[0.0, 0.005, 0.01, 0.02, 0.05, 0.1],
            &[0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
        ),
    };
    let of = |sites: usize| {
        let point = move |load| RmpPoint::among(System::Rmp, sites, sites, SMALL, load);
        let lossy = losses
            .iter()
            .map(move |loss| point(Load::Always).loss(*loss));
        let slow = rates.iter().map(move |rate| RmpPoint {
            sources: 1,
            ..point(Load::Rate(*rate))
        });
        lossy.chain(slow)
    };
    [3, 4, 8].into_iter().flat_map(of).collect()
}
