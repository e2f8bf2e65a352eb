//! The processes of a measurement of the bus: daemons, receivers, senders.

use std::path::Path;

use super::super::clients::{Publish, Subscribe};
use super::super::parts::{MULTICAST, PORT, Parts, make_key, start_on};
use super::super::{Assignment, BenchError, assign};
use super::{BusOptions, Receive, Send, Via};
use crate::process::Process;
use crate::testbed::Testbed;

/// The port of the bus where one daemon is for all.
const BUS_PORT: u16 = 4812;

/// Starts the processes; all are ready when this returns.
pub(super) fn start(
    bed: &Testbed,
    options: &BusOptions,
    executable: &Path,
) -> Result<Parts, BenchError> {
    let daemons = start_daemons(bed, options, executable)?;
    let receivers = in_turn(bed, options.receivers, |index, host| {
        let part = receiver(bed, options, host);
        assign(bed, host, &format!("receiver-{index}"), executable, &part)
    })?;
    let senders = in_turn(bed, options.senders, |index, host| {
        let part = sender(bed, options, index, host);
        assign(bed, host, &format!("sender-{index}"), executable, &part)
    })?;
    Ok(Parts::of(daemons, receivers, senders))
}

/// `count` workers, spread over the hosts.
fn in_turn(
    bed: &Testbed,
    count: usize,
    worker: impl Fn(usize, usize) -> Result<Process, BenchError>,
) -> Result<Vec<Process>, BenchError> {
    start_on(1..=count, |index| {
        worker(index, (index - 1) % bed.hosts() + 1)
    })
}

fn receiver(bed: &Testbed, options: &BusOptions, host: usize) -> Assignment {
    match options.via {
        Via::Binary => Assignment::Subscribe(Subscribe {
            socket: path(bed, &format!("host-{host}.sock")),
            group: options.domains()[0].clone(),
            members: options.receivers,
        }),
        Via::Bus | Via::Single => Assignment::BusReceive(Receive {
            address: address(bed, options, host),
            domains: options.domains(),
            patterns: options.patterns(),
            form: options.syntaxes.got,
            members: options.receivers,
        }),
    }
}

fn sender(bed: &Testbed, options: &BusOptions, index: usize, host: usize) -> Assignment {
    match options.via {
        Via::Binary => Assignment::Publish(Publish {
            socket: path(bed, &format!("host-{host}.sock")),
            group: options.domains()[0].clone(),
            sender: index as u32,
            size: options.size,
            service: options.service.to_string(),
            interval_ns: options.interval(),
        }),
        Via::Bus | Via::Single => Assignment::BusSend(Send {
            address: address(bed, options, host),
            domains: options.domains(),
            tag: options.tag(),
            sender: index as u32,
            size: options.size,
            form: options.syntaxes.sent,
            service: options.service.to_string(),
            interval_ns: options.interval(),
            receivers: options.receivers,
        }),
    }
}

/// Where a program on `host` finds the bus.
fn address(bed: &Testbed, options: &BusOptions, host: usize) -> String {
    match options.via {
        Via::Single => format!("{}:{BUS_PORT}", bed.address(1)),
        Via::Bus | Via::Binary => format!("unix:{}", path(bed, &format!("host-{host}.bus"))),
    }
}

/// A daemon on each host; on the first alone, where one is for all.
fn start_daemons(
    bed: &Testbed,
    options: &BusOptions,
    executable: &Path,
) -> Result<Vec<Process>, BenchError> {
    let single = options.via == Via::Single;
    // Without certificates, clients of other hosts can only come to a daemon without a key.
    let key = make_key(bed, executable, options.encrypt && !single)?;
    let hosts = if single { 1 } else { bed.hosts() };
    (1..=hosts)
        .map(|host| {
            let mut command = bed.command(host, executable);
            command.args(["daemon", "--name", &format!("host-{host}")]);
            command.args(["--listen", &format!("{}:{PORT}", bed.address(host))]);
            command.args(["--multicast", &MULTICAST.to_string()]);
            command.args(["--socket", &path(bed, &format!("host-{host}.sock"))]);
            command.args(["--protocol", options.order.name()]);
            command.args(["--bus", &address(bed, options, host)]);
            match &key {
                Some(key) => command.args(["--key", key]),
                None => command.arg("--insecure"),
            };
            Ok(bed.launch(&format!("daemon-{host}"), command)?)
        })
        .collect()
}

fn path(bed: &Testbed, name: &str) -> String {
    bed.directory().join(name).display().to_string()
}
