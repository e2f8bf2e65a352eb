//! The processes of a point: which protocol, with which of 004's parameters.

use std::sync::Arc;
use std::time::Duration;

use groupcast_core::trace::Inspect;
use groupcast_core::{Instrumented, MemberId, Service};
use groupcast_protocols::flood;
use groupcast_protocols::gossip::{
    self, Dissemination, Gossip, GossipConfig, HashConfig, Hierarchy, Variant,
};
use groupcast_protocols::ring::{self, Ring, RingConfig};
use groupcast_protocols::srm::{self, Srm, SrmConfig, Timing};
use groupcast_protocols::windowed::{self, Windowed, WindowedConfig};
use groupcast_sim::Factory;

use super::super::RunError;
use super::network::{Network, Shape};
use super::point::{GossipPoint, Scheme};

/// IP and UDP headers, and what a node frames a body with: prefix, channel, tag.
const FRAMING: u32 = 28 + 24 + 1 + 16;
/// Spanning trees that messages are spread along (004 3.6.1 leaves their number open).
const TREES: u16 = 16;
/// Messages that may wait for everybody's acknowledgement, less than come in a sleep (ours; 004
/// prints no window).
const WINDOW: u32 = 16;
/// Messages that may wait at a sender that is held up; the user's next ones are refused.
const WAITING: usize = 4;
/// The members that a ring takes at most.
const RING_MAX: usize = 128;

/// What members run.
pub(super) struct Built<P> {
    pub(super) factory: Factory<P>,
    pub(super) inspect: Inspect,
    pub(super) service: Service,
    /// Bytes of a message for the user, so that its packet on a link has as many as the setting
    /// says.
    pub(super) payload: u32,
    /// Whether members know each other from the start: 004's have no membership, the ring makes its
    /// own.
    pub(super) acquainted: bool,
}

impl Built<Box<dyn Instrumented>> {
    /// The processes of `setting` on `network`.
    pub(super) fn new(setting: &GossipPoint, net: &Network) -> Result<Self, RunError> {
        match setting.scheme {
            Scheme::Bare => Ok(Self {
                factory: Arc::new(|local, rng, now| flood::FAMILY.build(local, rng, now)),
                inspect: flood::inspect,
                service: Service::Unreliable,
                payload: payload(setting, 8),
                acquainted: true,
            }),
            Scheme::Srm | Scheme::AdaptiveSrm => srm(setting),
            Scheme::Ring => ring(setting, net),
            Scheme::Windowed => windowed(setting),
            Scheme::Pbcast
            | Scheme::Ipmc
            | Scheme::Grb
            | Scheme::Hierarchical
            | Scheme::Local
            | Scheme::Hash => {
                let gossip = gossip(setting, net)?;
                let factory = gossip.factory;
                Ok(Self {
                    factory: Arc::new(move |local, rng, now| Box::new(factory(local, rng, now))),
                    inspect: gossip.inspect,
                    service: gossip.service,
                    payload: gossip.payload,
                    acquainted: gossip.acquainted,
                })
            }
        }
    }
}

/// What is left for the user of a packet whose protocol has this many bytes of its own.
fn payload(setting: &GossipPoint, header: u32) -> u32 {
    setting.size.saturating_sub(FRAMING + header)
}

fn refused(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

/// 004 6.3: C1 = C2 = 2 and D1 = D2 = log10 G, on stars C1 = D1 = 0 and C2 = D2 = √G.
fn srm(setting: &GossipPoint) -> Result<Built<Box<dyn Instrumented>>, RunError> {
    let fixed = match setting.shape {
        Shape::Star { .. } => Timing::SqrtGroup,
        _ => Timing::LogGroup,
    };
    let config = SrmConfig {
        timing: match setting.scheme {
            Scheme::AdaptiveSrm => Timing::Adaptive,
            _ => fixed,
        },
        group: Some(setting.shape.members()),
        ..SrmConfig::ns2()
    };
    config.validate().map_err(refused)?;
    Ok(Built {
        factory: Arc::new(move |local, rng, now| -> Box<dyn Instrumented> {
            let srm = Srm::new(config.clone(), local, rng, now);
            Box::new(srm.expect("the settings were checked"))
        }),
        inspect: srm::inspect,
        service: Service::Reliable,
        payload: payload(setting, 4),
        acquainted: true,
    })
}

/// 004 4.4: failure time-outs above every pause. A sleep of 100 ms follows another with probability
/// p; one in a million lasts for 14 s at p = 0.9.
fn ring(setting: &GossipPoint, net: &Network) -> Result<Built<Box<dyn Instrumented>>, RunError> {
    let pause = Duration::from_secs(60);
    let lan = RingConfig::lan();
    let config = RingConfig {
        body_max: setting.size as usize + 1_000,
        members_max: net.topology.hosts().len().clamp(1, RING_MAX),
        token_loss_min: pause,
        token_loss_max: pause * 2,
        fail_to_receive: pause,
        queue_max: setting.size as usize * WAITING,
        ..lan
    };
    config.validate().map_err(refused)?;
    Ok(Built {
        factory: Arc::new(move |local, rng, now| -> Box<dyn Instrumented> {
            let ring = Ring::new(config.clone(), local, rng, now);
            Box::new(ring.expect("the settings were checked"))
        }),
        inspect: ring::inspect,
        service: Service::Safe,
        payload: payload(setting, 48),
        acquainted: false,
    })
}

fn windowed(setting: &GossipPoint) -> Result<Built<Box<dyn Instrumented>>, RunError> {
    let config = WindowedConfig {
        window: WINDOW,
        ack_every: WINDOW / 4,
        queue_max: setting.size as usize * WAITING,
        ..WindowedConfig::of(setting.shape.members() as usize)
    };
    config.validate().map_err(refused)?;
    Ok(Built {
        factory: Arc::new(move |local, rng, now| -> Box<dyn Instrumented> {
            let windowed = Windowed::new(config.clone(), local, rng, now);
            Box::new(windowed.expect("the settings were checked"))
        }),
        inspect: windowed::inspect,
        service: Service::Fifo,
        payload: payload(setting, 16),
        acquainted: true,
    })
}

/// 004 5.2 and 7.3 by multicast; on the switch of ch. 4 along spanning trees.
pub(super) fn gossip(setting: &GossipPoint, net: &Network) -> Result<Built<Gossip>, RunError> {
    let open = &setting.open;
    let config = GossipConfig {
        sub_gsize: open.sub_gsize,
        limit_requests: open.limit,
        limit_retrans: open.limit,
        duplicate_resets: open.duplicate_resets,
        variant: match setting.scheme {
            Scheme::Ipmc | Scheme::Hash => Variant::Ipmc,
            Scheme::Grb | Scheme::Hierarchical => Variant::Grb,
            Scheme::Local => Variant::Local,
            _ => Variant::Basic,
        },
        hash: (setting.scheme == Scheme::Hash).then(|| HashConfig {
            bufferers: open.bufferers,
            ..HashConfig::default()
        }),
        dissemination: match setting.shape {
            Shape::Switch { .. } => Dissemination::Trees {
                trees: TREES,
                arity: open.arity,
                seed: 1,
            },
            _ => Dissemination::Multicast,
        },
        ..GossipConfig::paper()
    };
    config.validate().map_err(refused)?;
    let zones = net.zones.clone();
    let hierarchical = setting.scheme == Scheme::Hierarchical;
    let is_link = setting.shape.links();
    Ok(Built {
        factory: Arc::new(move |local: MemberId, rng, now| {
            // A host's process is the node that has its index, from 1.
            let host = local.node.0.saturating_sub(1) as usize;
            let config = GossipConfig {
                zone: zones.get(host).copied().unwrap_or(0),
                hierarchy: hierarchical.then(|| Hierarchy {
                    link: is_link(host),
                    remote_every: 1,
                }),
                ..config.clone()
            };
            let gossip = Gossip::new(config, local, rng, now);
            gossip.expect("the settings were checked")
        }),
        inspect: gossip::inspect,
        service: Service::Fifo,
        payload: payload(setting, 27),
        acquainted: true,
    })
}
