//! The protocols that carry the messages, set up as 004 ch. 4 has them.

use std::time::Duration;

use groupcast_core::{Instrumented, MemberId, Rng, Service, Time};
use groupcast_protocols::gossip::{self, Gossip, GossipConfig, Variant};
use groupcast_protocols::ring::{self, Ring, RingConfig};
use groupcast_protocols::windowed::{Windowed, WindowedConfig};

use super::GossipOptions;
use crate::measure::BenchError;
use crate::measure::endpoint::failed;

/// No view changes, as in 004 4.4: a pause of a member is never taken for its death.
const NEVER: Duration = Duration::from_secs(600);
/// Messages that may wait for everybody's acknowledgement in the windowed group (ours; 004 prints
/// no window).
const WINDOW: u32 = 16;
/// Messages that wait at a sender that is held up; the next ones are refused, and lost to all.
const WAITING: usize = 4;

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Bimodal Multicast, by gossip.
    Pbcast,
    /// The ring, every message safe.
    Ring,
    /// A window of messages, acknowledged by everybody.
    Windowed,
}

impl Carrier {
    /// Its name on the command line and in results: the family's, or 004's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pbcast => "pbcast",
            Self::Ring => ring::FAMILY.name,
            Self::Windowed => "windowed",
        }
    }

    pub(super) fn service(self) -> Service {
        match self {
            Self::Ring => Service::Safe,
            Self::Pbcast => gossip::FAMILY.service,
            Self::Windowed => Service::Fifo,
        }
    }
}

/// The protocol of a member, set up as 004 ch. 4 has it.
pub(super) fn protocol(
    options: &GossipOptions,
    local: MemberId,
    rng: Rng,
    now: Time,
) -> Result<Box<dyn Instrumented>, BenchError> {
    let body_max = options.size + 1_000;
    let queue_max = options.size * WAITING;
    Ok(match options.carrier {
        Carrier::Pbcast => {
            let config = GossipConfig {
                // 004 4.3.1: each gossips to two a round; the variants that multicast repairs come
                // in its chapter 5.
                sub_gsize: 2,
                variant: Variant::Basic,
                ..GossipConfig::lan()
            };
            Box::new(Gossip::new(config, local, rng, now).map_err(failed)?)
        }
        Carrier::Ring => {
            let config = RingConfig {
                body_max,
                queue_max,
                members_max: options.members.max(2),
                token_loss_min: NEVER,
                token_loss_max: NEVER * 2,
                fail_to_receive: NEVER,
                ..RingConfig::lan()
            };
            Box::new(Ring::new(config, local, rng, now).map_err(failed)?)
        }
        Carrier::Windowed => {
            let config = WindowedConfig {
                window: WINDOW,
                ack_every: WINDOW / 4,
                body_max,
                queue_max,
                ..WindowedConfig::of(options.members)
            };
            Box::new(Windowed::new(config, local, rng, now).map_err(failed)?)
        }
    })
}
