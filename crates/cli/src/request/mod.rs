//! `groupcast request`: asks a group, and prints what each member replies. The other half is
//! `groupcast answer`.

mod account;
mod lines;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use groupcast_protocols::bulk::{BulkConfig, Multidriver, Policy};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{Audience, RequestEvent, Requesting};

use crate::failure::{Failure, printed, tell};
use crate::json;
use crate::transfer::{Network, Peer, explain, peer, stop_flag};

/// Ask all members of a group, and print the reply of each.
///
/// Members run `groupcast answer` with the same group and key. Each reply is one line, printed when
/// it has come completely. Exit code 1: no member was asked, because none came, or fewer than
/// --min; 3: some members have not replied, or their commands ended with another exit code than 0;
/// stderr names them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file that is the request, `-` or nothing for the standard input; at most 1 MiB
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    network: Network,
    /// Hosts that multicasts do not reach: each gets a copy of the request at this address, where
    /// its `groupcast answer --listen` takes it. One that does not answer counts as failed [default
    /// port: the group's]
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',', value_parser = peer)]
    peer: Vec<Peer>,
    /// Ask no member if fewer than N come within --wait; exit code 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    min: Option<u16>,
    /// Begin when N members are there; later ones are told that they are not asked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max: Option<u16>,
    /// Ask only members in one of these subgroups (`groupcast answer --subgroup`): numbers from 0
    /// to 63, for example 0,3,8-11 [default: all]
    #[arg(long, value_name = "BITS")]
    subgroup: Option<Subgroups>,
    /// How long to wait for members to come, in seconds; without --min and --max it begins a second
    /// after the first
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    wait: Duration,
    /// End after S seconds: members that have not replied by then count as failed
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Run no command anywhere before all members that were there at the start hold the whole
    /// request, with any OFFSET; in the protocol, they see no byte from OFFSET on before. If one of
    /// them is gone before, no command runs
    #[arg(long, value_name = "OFFSET")]
    deliver_to: Option<u64>,
    /// Let each member wait for a random time before it sends: MS for each member, at most a second
    /// [default: 0.05 for each when they come, and none for replies]
    #[arg(long, value_name = "MS", value_parser = backoff)]
    backoff: Option<Duration>,
    /// Print replies and the account, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// The longest request, in bytes: what `groupcast answer` takes.
pub(crate) const REQUEST_MAX: usize = 1 << 20;

/// The longest reply, in bytes: what `groupcast answer` lets a command print.
pub(crate) const REPLY_MAX: usize = 256 << 10;

/// The most bytes of replies that have not come whole.
const REPLIES_MAX: usize = 128 << 20;

/// The longest time-out, in seconds.
const TIMEOUT_MAX: f64 = 86_400.0;

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or_default();
    match seconds > 0.0 && seconds <= TIMEOUT_MAX {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("not a number of seconds above 0 and up to 86400".into()),
    }
}

fn backoff(text: &str) -> Result<Duration, String> {
    let milliseconds: f64 = text.parse().unwrap_or(-1.0);
    match (0.0..=1_000.0).contains(&milliseconds) {
        true => Ok(Duration::from_secs_f64(milliseconds / 1_000.0)),
        false => Err("not a number of milliseconds from 0 to 1000".into()),
    }
}

/// Asks, prints what comes, and says what became of it.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    json::told(args.json, ask(args))
}

fn ask(args: Args) -> Result<ExitCode, Failure> {
    let bulk = args.settings();
    bulk.validate()
        .map_err(|error| Failure::usage(format!("the setting {error}")))?;
    let audience = args.audience(bulk.receivers_max)?;
    let requesting = Requesting {
        bytes: read(args.file.as_deref())?.into(),
        audience,
        subgroups: args.subgroup.unwrap_or(Subgroups::ALL),
        deliver_to: args.deliver_to,
        timeout: args.timeout,
        reply_max: REPLY_MAX,
        replies_max: REPLIES_MAX,
        link: args.network.link_with(&args.peer, bulk, true)?,
    };
    let stop = stop_flag()?;
    let json = args.json;
    let mut told = Ok(());
    let report = groupcast_transfer::request(requesting, &stop, &mut |event| match event {
        RequestEvent::Reply {
            member,
            code,
            bytes,
        } if told.is_ok() => {
            // What cannot be shown is no reason to ask less.
            told = lines::reply(json, member, code, bytes);
        }
        RequestEvent::Stranger(stranger) => tell(format_args!(
            "{} does not take part: {}",
            stranger.last, stranger.hint
        )),
        _ => {}
    });
    let report = report.map_err(|error| explain(&error))?;
    if json {
        told = told.and(lines::account(&report));
    }
    let code = account::judge(&report, args.subgroup, json).map_err(Failure::accounted)?;
    printed(told)?;
    Ok(code)
}

impl Args {
    fn settings(&self) -> BulkConfig {
        let settings = Requesting::settings();
        let rule = Multidriver::for_window(settings.window);
        let rule = match self.backoff {
            Some(backoff) => Multidriver {
                backoff,
                use_backoff: true,
                ..rule
            },
            None => rule,
        };
        BulkConfig {
            policy: Policy::Multidriver(rule),
            register_within: self.wait,
            ..settings
        }
    }

    fn audience(&self, receivers_max: usize) -> Result<Audience, Failure> {
        if self.min.is_none() && self.max.is_none() {
            return Ok(Audience::Anybody);
        }
        let min = self.min.map_or(1, usize::from);
        let max = self.max.map_or(receivers_max, usize::from);
        match min <= max {
            true => Ok(Audience::Between { min, max }),
            false => Err(Failure::usage(format!(
                "--min {min} is more than the most that are asked, {max}"
            ))),
        }
    }
}

/// The request: a file, or the standard input.
fn read(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let source: Box<dyn Read> = match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let file = File::open(path).map_err(|error| {
                Failure::failed(format!("cannot read {}: {error}", path.display()))
            })?;
            Box::new(file)
        }
        None => {
            if io::stdin().is_terminal() {
                tell("what is typed is the request; Ctrl-D ends it");
            }
            Box::new(io::stdin().lock())
        }
    };
    let mut request = Vec::new();
    source
        .take(REQUEST_MAX as u64 + 1)
        .read_to_end(&mut request)
        .map_err(|error| Failure::failed(format!("cannot read the request: {error}")))?;
    match request.len() > REQUEST_MAX {
        true => Err(
            Failure::usage(format!("a request has at most {REQUEST_MAX} bytes"))
                .help("`groupcast send` takes files of any length to a group"),
        ),
        false => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_within_their_range() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(backoff("0.05"), Ok(Duration::from_micros(50)));
        for text in ["-1", "nan", "inf", "86401", "", "x"] {
            assert!(seconds(text).is_err() && backoff(text).is_err(), "{text}");
        }
        assert!(seconds("0").is_err() && backoff("0").is_ok());
    }
}
