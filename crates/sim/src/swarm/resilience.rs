//! Directed seeds: crashes at the moment of delivery.
//!
//! Each seed forms a group, in which one member sends a message that is `k-resilient` or
//! `majority`, and data reaches as few members as the service needs. At the first delivery
//! anywhere, some of those that hold it crash. As many as the service outlives lose nothing: the
//! checker accepts the histories. If all that hold it crash, which is one more, the message is
//! lost; the checker allows that. That it sees the loss is shown by judging the same histories as
//! if the service had promised to outlive this many.

use std::time::Duration;

use groupcast_check::{Checker, Outcome};
use groupcast_core::family::{Family, Situation};
use groupcast_core::trace::{Observation, Role};
use groupcast_core::{Instrumented, MessageId, Rng, Service};

use crate::cluster::{Cluster, ClusterConfig};

/// How many of the members that hold the message crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crashes {
    /// As many as its service outlives.
    Outlived,
    /// All of them, one more than it outlives.
    OneMore,
}

/// What became of a directed seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResilienceReport {
    /// Which.
    pub seed: u64,
    /// The service of the message.
    pub service: Service,
    /// How many members the group had.
    pub members: usize,
    /// How many of them crashed.
    pub crashed: usize,
    /// What is wrong: a broken promise, a message that was not delivered at all. Empty if all is
    /// well.
    pub violations: Vec<String>,
    /// Whether the checker finds the message lost when it holds the histories to a service that
    /// outlives as many members as crashed.
    pub loss_shown: bool,
}

/// What a seed decides.
struct Plan {
    members: usize,
    service: Service,
    /// The first is the sender.
    holders: Vec<usize>,
    crashed: Vec<usize>,
}

impl Plan {
    fn new(seed: u64, crashes: Crashes) -> Self {
        let mut rng = Rng::new(seed).fork("resilience");
        let members = rng.range(3..10) as usize;
        let (service, needed, outlived) = if rng.chance(0.25) {
            (Service::Majority, members / 2 + 1, (members - 1) / 2)
        } else {
            let k = rng.range(1..members as u64 - 1) as u8;
            (Service::KResilient(k), usize::from(k) + 1, usize::from(k))
        };
        let mut hosts: Vec<usize> = (0..members).collect();
        hosts.sort_by_cached_key(|_| rng.next_u64());
        let holders = hosts[..needed].to_vec();
        let mut crashed = holders.clone();
        crashed.sort_by_cached_key(|_| rng.next_u64());
        if crashes == Crashes::Outlived {
            crashed.truncate(outlived);
        }
        Self {
            members,
            service,
            holders,
            crashed,
        }
    }

    /// The service with which no crash of this plan could have lost the message.
    fn stricter(&self) -> Service {
        Service::KResilient(self.crashed.len() as u8)
    }
}

/// How long a group may take to form, to deliver, and to form again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs one directed seed of `family`, which must carry the two services.
pub fn crash_at_delivery(family: &'static Family, seed: u64, crashes: Crashes) -> ResilienceReport {
    let plan = Plan::new(seed, crashes);
    let config = ClusterConfig {
        contract: family.contract,
        replay: format!("directed seed {seed}"),
        ..ClusterConfig::new(plan.members, seed)
    };
    let factory = family.vary(&Situation {
        seed,
        hosts: plan.members,
        calm: false,
        plant: None,
    });
    let mut cluster = Cluster::with_factory(config, factory);
    let result = tell(&mut cluster, family, &plan);
    let mut violations: Vec<String> = result.err().into_iter().collect();
    let judged = cluster.violations(true, Some(&[]));
    violations.extend(judged.iter().map(ToString::to_string));
    ResilienceReport {
        seed,
        service: plan.service,
        members: plan.members,
        crashed: plan.crashed.len(),
        violations,
        loss_shown: is_lost_under(&cluster, family, &plan),
    }
}

/// The story: a message, a delivery, crashes, and the rest goes on.
fn tell<P: Instrumented>(
    cluster: &mut Cluster<P>,
    family: &Family,
    plan: &Plan,
) -> Result<(), String> {
    cluster.start_all();
    let formed = cluster.run_until(Cluster::all_in_one_configuration, PATIENCE);
    if !formed {
        return Err("the group does not form".into());
    }
    let (inspect, holders) = (family.inspect, plan.holders.clone());
    cluster.drop_all(move |info| {
        let role = || inspect(info.class, info.body(), &mut |_| {}).role;
        !info.is_admission()
            && !holders.contains(&info.to)
            && matches!(role(), Role::Data | Role::Repair)
    });
    let sent = cluster.submit(plan.holders[0], plan.service, "at the moment of delivery");
    let id = sent.map_err(|error| format!("the message is refused: {error}"))?;
    let delivered = |cluster: &Cluster<P>| is_delivered(cluster, plan, id);
    if !cluster.run_until(delivered, PATIENCE) {
        return Err(format!("{} is not delivered", plan.service));
    }
    for host in &plan.crashed {
        cluster.crash(*host);
    }
    cluster.heal();
    let again = cluster.run_until(Cluster::all_in_one_configuration, PATIENCE);
    cluster.run_for(Duration::from_secs(2));
    match again {
        true => Ok(()),
        false => Err("the others do not go on together".into()),
    }
}

fn is_delivered<P: Instrumented>(cluster: &Cluster<P>, plan: &Plan, id: MessageId) -> bool {
    (0..plan.members).any(|host| cluster.has_delivered(host, id))
}

/// Whether the histories would break the promise of the stricter service.
fn is_lost_under<P: Instrumented>(cluster: &Cluster<P>, family: &Family, plan: &Plan) -> bool {
    let mut checker = Checker::new().under(family.contract);
    let stricter = |service: &mut Service| {
        if *service == plan.service {
            *service = plan.stricter();
        }
    };
    for (member, mut observation) in cluster.observations() {
        match &mut observation {
            Observation::Submit { service, .. } | Observation::Deliver { service, .. } => {
                stricter(service);
            }
            _ => {}
        }
        checker.observe(member, &observation);
    }
    let violations = checker.finish(&Outcome::default());
    violations.iter().any(|it| it.rule == "resilience")
}
