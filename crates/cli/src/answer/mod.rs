//! `groupcast answer`: runs a command for each request to a group, and replies what it prints. The
//! other half is `groupcast request`.

mod command;

use std::io;
use std::process::ExitCode;

use groupcast_protocols::bulk::BulkConfig;
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{AnswerEvent, Answering};
use serde_json::{Value, json};

use crate::failure::{Failure, tell};
use crate::json::{self, write_line};
use crate::program;
use crate::request::REQUEST_MAX;
use crate::transfer::{Network, Place, explain, place, stop_flag};

/// Answer the requests to a group with the output of a command.
///
/// Runs CMD for each request, without a shell: the request is its standard input, its standard
/// output is the reply, and the requester learns its exit code. The command has only PATH, HOME,
/// USER, LANG, LC_ALL, TZ and TMPDIR of the environment, and may print 256 KiB. When it ends, or
/// its request is over, its child processes are ended. Every holder of the key can make it run.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    network: Network,
    /// Multicasts do not reach this host: it listens here for copies from requesters that name it
    /// by `request --peer`. UDP must get to this port and the next [default port: the group's]
    #[arg(long, value_name = "IP|NAME[:PORT]", conflicts_with_all = ["interface", "ttl"], value_parser = place)]
    listen: Option<Place>,
    /// Commands that run at once; four times as many requests wait, and more are refused
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    at_once: u16,
    /// The subgroups of this member: it answers requests to all members, or to one of these.
    /// Numbers from 0 to 63, for example 0,3,8-11 [default: one at random]
    #[arg(long, value_name = "BITS")]
    subgroup: Option<Subgroups>,
    /// Print events, one JSON object a line
    #[arg(long)]
    json: bool,
    /// The command with its arguments; the last option
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, required = true)]
    exec: Vec<String>,
}

/// Answers until it is stopped.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    json::told(args.json, answer(args))
}

fn answer(args: Args) -> Result<ExitCode, Failure> {
    if let [program, ..] = args.exec.as_slice() {
        program::doubt(program.as_ref(), ".".as_ref())?;
    }
    let answering = Answering {
        link: args.network.link_at(args.listen, BulkConfig::lan())?,
        at_once: args.at_once.into(),
        request_max: REQUEST_MAX,
        subgroups: args.subgroup,
    };
    let stop = stop_flag()?;
    let work = |asked: &_| command::run(&args.exec, asked);
    groupcast_transfer::answer(answering, &work, &stop, &mut |event| match args.json {
        true => print(&event),
        false => say(&event),
    })
    .map_err(|error| explain(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn say(event: &AnswerEvent<'_>) {
    match event {
        AnswerEvent::Listening => tell("ready to answer"),
        AnswerEvent::Begun { requester, bytes } => {
            tell(format_args!("{requester} asks ({bytes} bytes)"));
        }
        AnswerEvent::Replied {
            requester,
            code,
            bytes,
        } => tell(format_args!(
            "{requester} has the reply ({bytes} bytes, exit code {code})"
        )),
        AnswerEvent::Failed { requester, reason } => {
            tell(format_args!("no reply to {requester}: {reason}"));
        }
        AnswerEvent::Stranger(stranger) => tell(format_args!(
            "{} does not take part: {}",
            stranger.last, stranger.hint
        )),
        _ => {}
    }
}

/// Field names are a contract with scripts (docs/requests.md).
fn print(event: &AnswerEvent<'_>) {
    let line: Value = match event {
        AnswerEvent::Listening => json!({"event": "listening"}),
        AnswerEvent::Begun { requester, bytes } => {
            json!({"event": "begun", "requester": requester, "bytes": bytes})
        }
        AnswerEvent::Replied {
            requester,
            code,
            bytes,
        } => {
            json!({"event": "replied", "requester": requester, "exit_code": code, "bytes": bytes})
        }
        AnswerEvent::Failed { requester, reason } => {
            json!({"event": "failed", "requester": requester, "reason": reason})
        }
        AnswerEvent::Stranger(it) => {
            json!({"event": "stranger", "kind": it.kind, "address": it.last, "hint": it.hint})
        }
        _ => return,
    };
    // What is answered does not depend on whether somebody reads along.
    let _ = write_line(&mut io::stdout().lock(), &line);
}
