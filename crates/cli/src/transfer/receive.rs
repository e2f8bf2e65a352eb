//! `groupcast recv`: options to a receiver, its events to lines or bars.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use groupcast_core::text::printable;
use groupcast_protocols::bulk::BulkConfig;
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{Limits, OnArrival, Output, Receiving};

use super::bars::{ReceiveBars, ReceiveShown};
use super::lines::{self, Line};
use super::{Network, Place, explain, place, stop_flag};
use crate::failure::Failure;
use crate::json;
use crate::program;

/// Receive the files that are sent to a group.
///
/// Takes any number of transfers until it is stopped. The files of a transfer appear in DIR when
/// all of them are complete and verified; the parts of a transfer that broke off stay in
/// DIR/.groupcast until it is resumed. Every holder of the key can write into DIR, and nowhere
/// else.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    network: Network,
    /// Multicasts do not reach this host: it listens here for copies from senders that name it by
    /// `send --peer`. UDP must get to this port and the next [default port: the group's]
    #[arg(long, value_name = "IP|NAME[:PORT]", conflicts_with_all = ["interface", "ttl"], value_parser = place)]
    listen: Option<Place>,
    /// Where files go, or - for the standard output: then it takes one stream, as with --once
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// End with the first transfer: exit code 0 if it is complete, 1 if it broke off or was refused
    #[arg(long)]
    once: bool,
    /// Do not wait for the disk before a transfer is complete: faster, but a crash of the machine
    /// can lose transfers that were complete shortly before
    #[arg(long)]
    no_sync: bool,
    /// Run this command in DIR when a transfer is in place, before its sender learns that it is
    /// complete; the last option. No shell reads it; GROUPCAST_DIR, GROUPCAST_GROUP,
    /// GROUPCAST_SENDER, GROUPCAST_LABEL, GROUPCAST_LENGTH and GROUPCAST_OUTCOME are in its
    /// environment. If it fails, the sender is told
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    exec: Option<Vec<OsString>>,
    /// With --exec: kill the command after S seconds
    #[arg(long, value_name = "S", requires = "exec", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    exec_limit: u32,
    /// The subgroups of this receiver: it takes transfers for all receivers, or for one of these.
    /// Numbers from 0 to 63, for example 0,3,8-11 [default: one at random]
    #[arg(long, value_name = "BITS")]
    subgroup: Option<Subgroups>,
    /// Print events, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Transfers that broke off and are kept.
const PARTIALS_MAX: usize = 8;

/// Receives until it is stopped.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    json::told(args.json, receive(args))
}

fn receive(args: Args) -> Result<ExitCode, Failure> {
    let to_stdout = args.out == Path::new("-");
    if to_stdout && args.json {
        return Err(Failure::usage(
            "--json and --out - would both write to the standard output",
        ));
    }
    if to_stdout && args.exec.is_some() {
        return Err(Failure::usage(
            "--exec runs a command when something is in place, and --out - puts nothing there",
        ));
    }
    // Where a link leads nowhere, nothing can be made.
    let is_free = args.out.symlink_metadata().is_err();
    let path = printable(args.out.as_os_str().as_encoded_bytes());
    let mut made = (!to_stdout && is_free).then(|| format!("{path} was not there, and is made"));
    if let Some([program, ..]) = args.exec.as_deref() {
        program::doubt(program, &args.out)?;
    }
    let on_arrival = args.exec.clone().map(|command| OnArrival {
        command,
        limit: Duration::from_secs(args.exec_limit.into()),
    });
    let receiving = Receiving {
        output: match to_stdout {
            true => Output::Stdout,
            false => Output::Directory(args.out.clone()),
        },
        once: args.once || to_stdout,
        link: args.network.link_at(args.listen, BulkConfig::lan())?,
        limits: Limits::default(),
        partials_max: PARTIALS_MAX,
        durable: !args.no_sync,
        on_arrival,
        subgroups: args.subgroup,
    };
    let once = receiving.once;
    let stop = stop_flag()?;
    let (received, is_read) = if args.json {
        let printer = lines::printer(true)?;
        let received = groupcast_transfer::receive(receiving, &stop, &mut |event| {
            // Whatever happens first, the directory is there.
            if let Some(text) = made.take() {
                printer.print(Line::Text(text));
            }
            lines::print(&printer, lines::received(&event));
        });
        (received, printer.end(&stop).unwrap_or(true))
    } else {
        let printer = ReceiveBars::printer()?;
        let received = groupcast_transfer::receive(receiving, &stop, &mut |event| {
            if let Some(text) = made.take() {
                printer.print(ReceiveShown::Say(text));
            }
            ReceiveShown::print(&printer, &event);
        });
        (received, printer.end(&stop).unwrap_or(true))
    };
    let received = received.map_err(|error| explain(&error).read(is_read))?;
    match once && received.complete == 0 {
        // What went wrong was told when it did; a receiver that was stopped before has nothing.
        true => Ok(ExitCode::from(1)),
        false => Ok(ExitCode::SUCCESS),
    }
}
