//! What clients do: each submission of a scenario is an act of one of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{Rng, Service, SubmitError, Time};
use groupcast_sim::swarm::{Application, Submission};
use groupcast_sim::{Cluster, Status};

use super::client::{Client, Published};
use super::daemon::{Daemon, lock};
use super::ledger::{Ledger, Tally};
use super::{GROUPS, asking, judge};

/// Clients of one host, beside its witness.
const CLIENTS_MAX: usize = 4;
/// How often it is looked whether all is done.
const GLANCE: Duration = Duration::from_millis(20);

/// The clients of a run, as the application of its scenario.
#[derive(Debug)]
pub struct Acts {
    rng: Rng,
    ledger: Arc<Mutex<Ledger>>,
    tally: Arc<Mutex<Tally>>,
}

/// One act.
pub(super) enum Act {
    /// Drawn at random, with what a publication would say.
    Drawn {
        rng: Rng,
        service: Service,
        len: usize,
    },
    /// All clients read from now on.
    ReadOn,
}

impl Acts {
    pub(super) fn new(seed: u64, ledger: Arc<Mutex<Ledger>>, tally: Arc<Mutex<Tally>>) -> Self {
        Self {
            rng: Rng::new(seed).fork("acts"),
            ledger,
            tally,
        }
    }
}

impl Application<Daemon> for Acts {
    fn submit(
        &mut self,
        cluster: &mut Cluster<Daemon>,
        host: usize,
        submission: &Submission,
        payload: Bytes,
    ) -> Result<(), SubmitError> {
        // The act follows from the submission alone, so that fewer of them do the same.
        let of_time = self.rng.fork_index(submission.at.as_nanos());
        let act = Act::Drawn {
            rng: of_time.fork_index(submission.host as u64),
            service: submission.service,
            len: payload.len(),
        };
        cluster.act(host, |daemon, now| daemon.act(now, act));
        Ok(())
    }

    fn finish(&mut self, cluster: &mut Cluster<Daemon>, limit: Time) -> Result<(), String> {
        let up = |cluster: &Cluster<Daemon>| -> Vec<usize> {
            let hosts = 0..cluster.hosts();
            hosts
                .filter(|host| cluster.status(*host) == Status::Up)
                .collect()
        };
        loop {
            for host in up(cluster) {
                cluster.act(host, |daemon, now| daemon.act(now, Act::ReadOn));
            }
            let busy = up(cluster).into_iter().find(|host| {
                let daemon = cluster.protocol(*host);
                daemon.is_some_and(|daemon| !daemon.is_quiet())
            });
            let undone = match busy {
                Some(host) => format!("{:?} is busy", cluster.protocol(host)),
                None => match judge::apart(cluster, &lock(&self.ledger)) {
                    None => return Ok(()),
                    Some(apart) => apart,
                },
            };
            if cluster.now() >= limit {
                return Err(format!("long after the healing {undone}"));
            }
            cluster.run_for(GLANCE);
        }
    }

    fn violations(&mut self, cluster: &mut Cluster<Daemon>, at_peace: bool) -> Vec<String> {
        let mut ledger = lock(&self.ledger);
        for host in 0..cluster.hosts() {
            if let Some(member) = cluster.member(host).filter(|_| !cluster.is_alive(host)) {
                ledger.daemon_ended(host, member);
            }
        }
        self.tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(&ledger);
        judge::violations(cluster, &ledger, at_peace)
    }
}

/// A client of `daemon`'s host does something.
pub(super) fn carry_out(daemon: &mut Daemon, now: Time, ledger: &mut Ledger, act: Act) {
    match act {
        Act::ReadOn => ledger
            .of_host(daemon.host)
            .for_each(|client| client.reads = true),
        Act::Drawn {
            mut rng,
            service,
            len,
        } => carry_out_drawn(daemon, now, ledger, &mut rng, (service, len)),
    }
}

fn carry_out_drawn(
    daemon: &mut Daemon,
    now: Time,
    ledger: &mut Ledger,
    rng: &mut Rng,
    (service, len): (Service, usize),
) {
    let host = daemon.host;
    let act = rng.below(100);
    let apps = ledger
        .of_host(host)
        .filter(|client| !client.witness)
        .count();
    if apps == 0 || (act < 6 && apps < CLIENTS_MAX) {
        let name = format!("c{}", ledger.lives);
        ledger.clients.push(Client::new(name, host, false));
        let index = ledger.clients.len() - 1;
        return daemon.connect(now, ledger, index);
    }
    let clients = ledger.clients.iter();
    let of_host: Vec<usize> = clients
        .enumerate()
        .filter(|(_, client)| client.host == host && !client.witness)
        .map(|(index, _)| index)
        .collect();
    let Some(index) = rng.pick(&of_host).copied() else {
        return;
    };
    let client = &mut ledger.clients[index];
    if !client.is_connected() {
        return daemon.connect(now, ledger, index);
    }
    match act {
        0..14 => change_membership(client, rng),
        14..17 => {
            if client.connection().bye().is_ok()
                && let Some(life) = client.life()
            {
                life.said_bye = true;
            }
        }
        17..20 => {
            if client.vanish() {
                daemon.vanish(now, client);
            }
        }
        20..24 => client.reads = false,
        24..30 => client.reads = true,
        30..48 => asking::act(client, rng),
        _ => publish(client, rng, service, len),
    }
}

fn change_membership(client: &mut Client, rng: &mut Rng) {
    let group = rng.pick(&GROUPS).copied().unwrap_or(GROUPS[0]);
    let asked = match rng.chance(0.65) {
        true => client.connection().join(group, false),
        false => client.connection().leave(group),
    };
    // Before its welcome it waits.
    drop(asked);
}

/// To one group or more, or to one witness; what it says begins with the number of the connection
/// and its own.
fn publish(client: &mut Client, rng: &mut Rng, service: Service, len: usize) {
    let mut groups: Vec<String> = GROUPS.map(String::from).to_vec();
    let first = rng.below(groups.len() as u64) as usize;
    groups.rotate_left(first);
    groups.truncate(rng.range(1..4) as usize);
    let Some(life) = client.life().filter(|life| !life.said_bye) else {
        return;
    };
    let number = life.published.len() as u64 + 1;
    let mut payload = format!("{}#{number:06}", life.number);
    payload.extend(std::iter::repeat_n(' ', len));
    let names: Vec<&str> = groups.iter().map(String::as_str).collect();
    let published = client
        .connection()
        .publish(&names, service, payload.as_bytes());
    if published.is_ok()
        && let Some(life) = client.life()
    {
        life.published.push(Published { groups, service });
    }
}
