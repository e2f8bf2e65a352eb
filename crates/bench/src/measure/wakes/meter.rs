//! Reading what processes have done, at both ends of the window.

use std::path::Path;
use std::time::Duration;

use groupcast_client::{Address, Client, ClientKind, Options};
use serde_json::Value;

use super::super::BenchError;
use super::super::clock::{self, Instant};
use super::super::parts::Parts;
use super::super::ring::RingOptions;
use super::Counts;
use super::report::{Done, Role, Work};
use crate::process::Process;
use crate::testbed::Testbed;

/// How long a daemon may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections to the daemons, which are asked what they have counted. A question wakes its daemon
/// about twice: no more than one message more in the window does.
pub(in super::super) struct Meter {
    daemons: Vec<Client>,
}

impl Meter {
    /// Connects to the daemons at these sockets.
    pub(in super::super) fn connect(
        sockets: impl Iterator<Item = String>,
    ) -> Result<Self, BenchError> {
        let options = Options {
            kind: ClientKind::Tool,
            ..Options::default()
        };
        let connect = |socket: String| {
            Client::connect(&Address::from(Path::new(&socket)), options.clone())
                .map_err(|error| BenchError::client("count what a daemon does", error))
        };
        Ok(Self {
            daemons: sockets.map(connect).collect::<Result<_, _>>()?,
        })
    }

    /// What the daemons have counted until now.
    pub(in super::super) fn read(&mut self) -> Result<Counts, BenchError> {
        self.daemons
            .iter_mut()
            .try_fold(Counts::default(), |sum, daemon| {
                let status = daemon
                    .status(PATIENCE)
                    .map_err(|error| BenchError::client("count what a daemon does", error))?;
                Ok(sum + counts(&serde_json::from_slice(&status)?))
            })
    }
}

/// Counting from one end of a measurement to the other.
pub(in super::super) struct Watch {
    meter: Meter,
    since: Instant,
    done: Vec<Done>,
    daemons: Counts,
}

/// What was done meanwhile.
pub(in super::super) struct Watched {
    seconds: f64,
    roles: Vec<Done>,
    daemons: Counts,
}

impl Watch {
    /// Counts what is done from now on.
    pub(in super::super) fn begin(bed: &Testbed, parts: &Parts) -> Result<Self, BenchError> {
        let mut meter = parts.meter(bed)?;
        Ok(Self {
            daemons: meter.read()?,
            done: parts.done()?,
            since: clock::now(),
            meter,
        })
    }

    /// What was done since then.
    pub(in super::super) fn end(&mut self, parts: &Parts) -> Result<Watched, BenchError> {
        let seconds = (clock::now() - self.since) as f64 / 1e9;
        let done = parts.done()?;
        Ok(Watched {
            seconds,
            roles: done
                .iter()
                .zip(&self.done)
                .map(|(now, then)| now.since(then))
                .collect(),
            daemons: self.meter.read()? - self.daemons,
        })
    }
}

impl Watched {
    /// With what senders and receivers counted themselves, and how many messages all receivers got
    /// a second.
    pub(in super::super) fn work(
        self,
        options: &RingOptions,
        [senders, receivers]: [Counts; 2],
        delivered_per_s: f64,
    ) -> Work {
        let own = |mut role: Done| {
            role.counts = match role.role {
                Role::Daemons => self.daemons,
                Role::Senders => senders,
                Role::Receivers | Role::Clients | Role::Members => receivers,
            };
            role
        };
        Work {
            hosts: options.hosts,
            is_paced: options.interval().is_some(),
            messages: (delivered_per_s * self.seconds / options.hosts as f64) as u64,
            seconds: self.seconds,
            roles: self.roles.into_iter().map(own).collect(),
        }
    }
}

/// What a daemon's status says of what it has counted (docs/status.md).
fn counts(status: &Value) -> Counts {
    let counters = &status["counters"];
    let (net, clients) = (&counters["net"], &counters["clients"]);
    let of = |value: &Value| value.as_u64().unwrap_or(0);
    let both = |name: &str| of(&net["control"][name]) + of(&net["data"][name]);
    Counts {
        waits: of(&net["waits"]),
        receives: both("calls"),
        receives_empty: both("empty"),
        sends: of(&net["sent"]["calls"]),
        reads: of(&clients["reads"]),
        reads_empty: of(&clients["reads_empty"]),
        writes: of(&clients["writes"]),
        writes_blocked: of(&clients["writes_blocked"]),
        timers: of(&net["timers"]),
        visits: of(&counters["ring"]["visits"]),
    }
}

/// What the processes of a role have done until now; what they count themselves is not in it.
pub(in super::super) fn done(role: Role, processes: &[Process]) -> Result<Done, BenchError> {
    let mut done = Done::none(role, processes.len());
    for process in processes {
        let ended = |_| BenchError::process(process, "ended during the measurement");
        let switches = process.switches().map_err(ended)?;
        done.wakings += switches.voluntary;
        done.switches += switches.voluntary + switches.involuntary;
        done.cpu_s += process.usage().map_err(ended)?.cpu.as_secs_f64();
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_the_names_that_it_has() {
        let status = serde_json::json!({"counters": {
            "net": {
                "control": {"calls": 1, "empty": 2},
                "data": {"calls": 10, "empty": 20},
                "sent": {"calls": 5},
                "waits": 7,
                "timers": 3,
            },
            "clients": {"reads": 4, "reads_empty": 6, "writes": 8, "writes_blocked": 9},
            "ring": {"visits": 77},
        }});
        let counts = counts(&status);
        assert_eq!((counts.receives, counts.receives_empty), (11, 22));
        assert_eq!((counts.visits, counts.timers), (77, 3));
        assert_eq!(counts.total(), 7 + 33 + 5 + 4 + 6 + 8 + 9);
    }
}
