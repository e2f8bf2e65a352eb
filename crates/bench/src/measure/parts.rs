//! The processes of a measurement of the ring: daemons with clients, or members, one set a host.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use super::both::Both;
use super::clients::{Publish, Subscribe};
use super::library::Member;
use super::ring::{ClientsOf, Mode, RingOptions};
use super::wakes::meter::{self, Meter};
use super::wakes::report::{Done, Role};
use super::{Assignment, BenchError, assign, await_ready};
use crate::process::Process;
use crate::testbed::Testbed;

pub(super) const MULTICAST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 79, 1, 1), 4809);
pub(super) const PORT: u16 = 4810;
const GROUP: &str = "bench";

/// The processes of a measurement.
pub(super) struct Parts {
    daemons: Vec<Process>,
    /// What the receivers are.
    receivers_are: Role,
    /// Each has a [`Tally`] for a result.
    pub(super) receivers: Vec<Process>,
    /// Senders that are not receivers; each says how many messages it sent.
    pub(super) senders: Vec<Process>,
}

impl Parts {
    /// Starts those of run `run`, from 0; all are ready when this returns.
    pub(super) fn start(
        bed: &Testbed,
        options: &RingOptions,
        run: usize,
        executable: &Path,
    ) -> Result<Self, BenchError> {
        match options.mode {
            Mode::Daemon => start_daemons_and_clients(bed, options, run, executable),
            Mode::Library => start_members(bed, options, run, executable),
        }
    }

    /// Those of another measurement: `receivers` and `senders` are as here.
    pub(super) fn of(
        daemons: Vec<Process>,
        receivers: Vec<Process>,
        senders: Vec<Process>,
    ) -> Self {
        Self {
            daemons,
            receivers_are: Role::Receivers,
            receivers,
            senders,
        }
    }

    /// What they have used of the processors.
    pub(super) fn cpu_seconds(&self) -> Result<f64, BenchError> {
        let processes = self.daemons.iter().chain(&self.receivers);
        processes
            .chain(&self.senders)
            .try_fold(0.0, |sum, process| {
                let usage = process.usage().map_err(|_| ended(process))?;
                Ok(sum + usage.cpu.as_secs_f64())
            })
    }

    /// What they have done so far, by role, but for what they count themselves.
    pub(super) fn done(&self) -> Result<Vec<Done>, BenchError> {
        let roles = [
            (Role::Daemons, &self.daemons),
            (Role::Senders, &self.senders),
            (self.receivers_are, &self.receivers),
        ];
        let present = roles
            .into_iter()
            .filter(|(_, processes)| !processes.is_empty());
        present
            .map(|(role, processes)| meter::done(role, processes))
            .collect()
    }

    /// Connections to the daemons, to ask what they count.
    pub(super) fn meter(&self, bed: &Testbed) -> Result<Meter, BenchError> {
        Meter::connect((1..=self.daemons.len()).map(|host| socket(bed, host)))
    }

    /// The most memory that any daemon had resident at a time, in bytes; of any member, where there
    /// are no daemons.
    pub(super) fn memory_peak(&self) -> Result<u64, BenchError> {
        let processes = if self.daemons.is_empty() {
            &self.receivers
        } else {
            &self.daemons
        };
        processes.iter().try_fold(0, |peak, process| {
            let own = process.resident_peak().map_err(|_| ended(process))?;
            Ok(own.max(peak))
        })
    }
}

fn ended(process: &Process) -> BenchError {
    BenchError::process(process, "ended during the measurement")
}

fn start_daemons_and_clients(
    bed: &Testbed,
    options: &RingOptions,
    run: usize,
    executable: &Path,
) -> Result<Parts, BenchError> {
    let daemons = start_daemons(bed, executable, options)?;
    Ok(match options.clients {
        ClientsOf::Two => Parts::of(
            daemons,
            start_receivers(bed, executable)?,
            start_senders(bed, executable, options, run)?,
        ),
        ClientsOf::One => Parts {
            daemons,
            receivers_are: Role::Clients,
            receivers: start_both(bed, executable, options, run)?,
            senders: Vec::new(),
        },
    })
}

/// One process a host with the order in it; all of them are in one configuration when this returns.
fn start_members(
    bed: &Testbed,
    options: &RingOptions,
    run: usize,
    executable: &Path,
) -> Result<Parts, BenchError> {
    let key = make_key(bed, executable, options.encrypt)?;
    let receivers = start(bed, |host| {
        let part = Member {
            host: host as u32,
            listen: SocketAddrV4::new(bed.address(host), PORT),
            multicast: MULTICAST,
            members: bed.hosts(),
            key: key.clone(),
            size: options.size,
            service: options.service.to_string(),
            sends: options.sends(host, run),
            interval_ns: options.interval(),
            order: options.order.name().to_owned(),
            windows: options.windows,
            spin: options.spin,
        };
        let label = format!("member-{host}");
        assign(bed, host, &label, executable, &Assignment::Member(part))
    })?;
    Ok(Parts {
        daemons: Vec::new(),
        receivers_are: Role::Members,
        receivers,
        senders: Vec::new(),
    })
}

/// Makes the key of the cluster, if there is to be one; where it is.
pub(crate) fn make_key(
    bed: &Testbed,
    executable: &Path,
    encrypt: bool,
) -> Result<Option<String>, BenchError> {
    if !encrypt {
        return Ok(None);
    }
    let key = path(bed, "cluster.key");
    if Path::new(&key).exists() {
        // The bed was measured on before.
        return Ok(Some(key));
    }
    let mut command = bed.command(1, executable);
    command.args(["keygen", &key]);
    let mut keygen = bed.launch("keygen", command)?;
    let ended = keygen
        .wait(Duration::from_secs(10))
        .map_err(BenchError::io("wait for keygen"))?;
    if !ended.is_some_and(|status| status.success()) {
        return Err(BenchError::process(&keygen, "made no key"));
    }
    Ok(Some(key))
}

/// One daemon a host.
fn start_daemons(
    bed: &Testbed,
    executable: &Path,
    options: &RingOptions,
) -> Result<Vec<Process>, BenchError> {
    let key = make_key(bed, executable, options.encrypt)?;
    let config = path(bed, "daemon.toml");
    fs::write(&config, options.configuration())
        .map_err(BenchError::io("write the configuration"))?;
    (1..=bed.hosts())
        .map(|host| {
            let mut command = bed.command(host, executable);
            command.args(["daemon", "-c", &config, "--name", &format!("host-{host}")]);
            command.args(["--listen", &format!("{}:{PORT}", bed.address(host))]);
            command.args(["--multicast", &MULTICAST.to_string()]);
            command.args(["--socket", &socket(bed, host)]);
            match &key {
                Some(key) => command.args(["--key", key]),
                None => command.arg("--insecure"),
            };
            Ok(bed.launch(&format!("daemon-{host}"), command)?)
        })
        .collect()
}

/// One receiving client a host; all of them are members of the group when this returns.
fn start_receivers(bed: &Testbed, executable: &Path) -> Result<Vec<Process>, BenchError> {
    start(bed, |host| {
        let part = subscribe(bed, host);
        let label = format!("receiver-{host}");
        assign(bed, host, &label, executable, &Assignment::Subscribe(part))
    })
}

fn subscribe(bed: &Testbed, host: usize) -> Subscribe {
    Subscribe {
        socket: socket(bed, host),
        group: GROUP.to_owned(),
        members: bed.hosts(),
    }
}

fn publish(bed: &Testbed, host: usize, options: &RingOptions) -> Publish {
    Publish {
        socket: socket(bed, host),
        group: GROUP.to_owned(),
        sender: host as u32,
        size: options.size,
        service: options.service.to_string(),
        interval_ns: options.interval(),
    }
}

/// One client a host that receives, and sends if the host does; all of them are members of the
/// group when this returns.
fn start_both(
    bed: &Testbed,
    executable: &Path,
    options: &RingOptions,
    run: usize,
) -> Result<Vec<Process>, BenchError> {
    start(bed, |host| {
        let sends = options.sends(host, run);
        let part = Both {
            subscribe: subscribe(bed, host),
            publish: sends.then(|| publish(bed, host, options)),
        };
        let label = format!("client-{host}");
        assign(bed, host, &label, executable, &Assignment::Both(part))
    })
}

/// One sending client on each host that sends, not a member of the group.
fn start_senders(
    bed: &Testbed,
    executable: &Path,
    options: &RingOptions,
    run: usize,
) -> Result<Vec<Process>, BenchError> {
    let hosts = (1..=bed.hosts()).filter(|host| options.sends(*host, run));
    start_on(hosts, |host| {
        let part = publish(bed, host, options);
        let label = format!("sender-{host}");
        assign(bed, host, &label, executable, &Assignment::Publish(part))
    })
}

/// Starts one worker a host and waits until all are ready.
pub(super) fn start(
    bed: &Testbed,
    worker: impl Fn(usize) -> Result<Process, BenchError>,
) -> Result<Vec<Process>, BenchError> {
    start_on(1..=bed.hosts(), worker)
}

/// The same on some hosts; the worker is told which.
pub(super) fn start_on(
    hosts: impl Iterator<Item = usize>,
    worker: impl Fn(usize) -> Result<Process, BenchError>,
) -> Result<Vec<Process>, BenchError> {
    let mut processes = hosts.map(worker).collect::<Result<Vec<_>, _>>()?;
    for process in &mut processes {
        await_ready(process)?;
    }
    Ok(processes)
}

fn socket(bed: &Testbed, host: usize) -> String {
    path(bed, &format!("host-{host}.sock"))
}

fn path(bed: &Testbed, name: &str) -> String {
    bed.directory().join(name).display().to_string()
}
