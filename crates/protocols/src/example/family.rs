//! The example as a family of the registry.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use groupcast_core::family::{Factory, Family, Situation, Trial, Variant};
use groupcast_core::trace::{Inspected, Role};
use groupcast_core::{Contract, Instrumented, MemberId, Rng, Service, SocketClass, Time};

use super::{DATA, Example, REQUEST, STATE};

/// Each sender's messages in order, and a report of those that are lost.
pub const FAMILY: Family = Family {
    name: "example",
    services: Example::SERVICES,
    service: Service::Fifo,
    contract: Contract::Gapped,
    variants: &[Variant { name: "", build }],
    settings: None,
    inspect,
    trial: Trial {
        len_max: Example::MESSAGE_MAX,
        services: Some(Example::SERVICES),
        rest: Duration::from_secs(10),
        ..Trial::new(vary)
    },
};

fn build(local: MemberId, _rng: Rng, now: Time) -> Box<dyn Instrumented> {
    Box::new(Example::new(512, local, now))
}

/// Much and little is kept for repairs.
fn vary(mut rng: Rng, _situation: &Situation) -> Factory {
    let kept_max = rng.range(8..600) as usize;
    Arc::new(move |local, _, now| Box::new(Example::new(kept_max, local, now)))
}

fn inspect(_class: SocketClass, body: &[u8], payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match body {
        [DATA, rest @ ..] if rest.len() >= 8 => {
            payload(&rest[8..]);
            ("data", Role::Data)
        }
        [STATE, ..] if body.len() == 17 => ("state", Role::Control),
        [REQUEST, ..] if body.len() == 17 => ("request", Role::Request),
        _ => ("junk", Role::Control),
    };
    Inspected { kind, role }
}
