//! `groupcast census`: who receives in a group.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use groupcast_core::text::printable;
use groupcast_protocols::bulk::BulkConfig;
use groupcast_transfer::xgm::{CensusRequest, Subgroups};
use groupcast_transfer::{Counted, CountedHost};
use serde_json::{Value, json};

use super::{Network, Peer, explain, list_file, peer, stop_flag, where_they_are};
use crate::failure::{Failure, printed, tell};
use crate::json::{self, write_line};
use crate::number::number_of;
use crate::table::Table;

/// Show which receivers are in a group.
///
/// Counts the hosts on which `groupcast recv` (or `answer`) runs in the group, and prints their
/// subgroups. Exit code 0 if a host answered, 1 if none did.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    network: Network,
    /// Hosts that multicasts do not reach: each gets a copy of what is asked at this address, where
    /// its `recv` or `answer --listen` takes it [default port: the group's]
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',', value_parser = peer)]
    peer: Vec<Peer>,
    /// Ask only receivers that are in one of these subgroups, for example 0,3,8-11 [default: all]
    #[arg(long, value_name = "BITS")]
    subgroup: Option<Subgroups>,
    /// Take no longer than this many seconds
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    timeout: Duration,
    /// Print names, addresses and members too
    #[arg(long)]
    list: bool,
    /// Print only a list of names and subgroups, for `groupcast send --list`
    #[arg(long, conflicts_with_all = ["list", "json"])]
    as_list: bool,
    /// Print the result, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// The longest time-out.
const TIMEOUT_MAX: f64 = 3_600.0;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or_default();
    match seconds > 0.0 && seconds <= TIMEOUT_MAX {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("not a number of seconds above 0 and up to 3600".into()),
    }
}

/// Asks, and prints what was found.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    json::told(args.json, ask(args))
}

fn ask(args: &Args) -> Result<ExitCode, Failure> {
    let request = CensusRequest {
        subgroups: args.subgroup.unwrap_or(Subgroups::ALL),
        list: args.list || args.as_list,
        timeout: args.timeout,
    };
    let link = args
        .network
        .link_with(&args.peer, BulkConfig::lan(), true)?;
    let stop = stop_flag()?;
    let counted = groupcast_transfer::census(&link, request, &stop);
    let Some(counted) = counted.map_err(|error| explain(&error))? else {
        return Err(Failure::failed("stopped before the census was over"));
    };
    printed(match args.json {
        true => print_json(&mut io::stdout().lock(), &counted),
        false if args.as_list => print_list(&mut io::stdout().lock(), &counted),
        false => print(&mut anstream::stdout().lock(), &counted),
    })?;
    for host in &counted.absent {
        tell(format_args!("{host} of --peer did not answer"));
    }
    if counted.census.hosts == 0 {
        return Err(nobody(args.subgroup).accounted());
    }
    if !counted.census.complete {
        tell("the census is not complete: the time was over; --timeout S gives it more");
    }
    Ok(ExitCode::SUCCESS)
}

fn nobody(subgroups: Option<Subgroups>) -> Failure {
    let whom = match subgroups {
        Some(subgroups) => format!("no receiver in the subgroups {subgroups} answered"),
        None => "no receiver answered".to_owned(),
    };
    Failure::failed(whom).help(where_they_are("recv"))
}

fn print(out: &mut impl Write, counted: &Counted) -> io::Result<()> {
    let census = &counted.census;
    let hosts = number_of(census.hosts as u64, "host", "hosts");
    let members = number_of(census.members, "member", "members");
    match census.hosts {
        0 => return Ok(()),
        _ => writeln!(out, "{hosts}, {members}, subgroups {}", census.subgroups)?,
    }
    if counted.hosts.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["name", "address", "members", "subgroups"]);
    for host in &counted.hosts {
        table.row([
            printable(host.name.as_bytes()),
            address(host).unwrap_or_default(),
            host.host.members.to_string(),
            host.host.subgroups.to_string(),
        ]);
    }
    table.write(out)
}

fn print_list(out: &mut impl Write, counted: &Counted) -> io::Result<()> {
    let hosts = counted.hosts.iter();
    let hosts = hosts.map(|it| (it.name.as_str(), it.host.subgroups));
    for name in list_file::write(out, hosts)? {
        let name = printable(name.as_bytes());
        tell(format_args!(
            "not on the list: the name {name:?} does not fit in one"
        ));
    }
    Ok(())
}

fn address(host: &CountedHost) -> Option<String> {
    host.address.map(|address| address.ip().to_string())
}

fn print_json(out: &mut impl Write, counted: &Counted) -> io::Result<()> {
    for host in &counted.hosts {
        let members = host.host.list.iter().flatten();
        let members: Vec<Value> = members
            .map(|(key, subgroups)| json!({"key": key.0, "subgroups": numbers(*subgroups)}))
            .collect();
        let line = json!({
            "event": "host",
            "name": host.name,
            "address": address(host),
            "subgroups": numbers(host.host.subgroups),
            "members": members,
        });
        write_line(out, &line)?;
    }
    let census = &counted.census;
    let line = json!({
        "event": "census",
        "hosts": census.hosts,
        "members": census.members,
        "subgroups": numbers(census.subgroups),
        "complete": census.complete,
        "absent": counted.absent,
        "polls": census.polls,
        "seconds": census.took.as_secs_f64(),
    });
    write_line(out, &line)
}

fn numbers(subgroups: Subgroups) -> Vec<u8> {
    subgroups.numbers().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_some_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "3601", "", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
