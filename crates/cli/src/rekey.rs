//! `groupcast rekey`: give a daemon the cluster's new key while it runs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::failure::Failure;
use crate::target::{SocketPath, Target, print};

/// Change the cluster's key while its daemons run: once on each host.
///
/// Make the new key with `groupcast keygen`, copy it to every host over a channel that you trust,
/// and run this on each of them. The key itself never travels between daemons. Once all members of
/// the group know it they use it, and then the old one is dead; no message is lost, and nothing
/// waits. `groupcast status` says how far the change is and which hosts it waits for. Then let
/// `key` of each daemon's configuration name the new file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file of the new key: root's or the daemon's user's, readable by its owner only
    #[arg(value_name = "NEWFILE")]
    file: PathBuf,
    /// The daemon's Unix socket [default: $GROUPCAST_SOCKET, else that of this user's daemon, or of
    /// this host's]
    #[arg(long, value_name = "PATH", value_parser = SocketPath)]
    socket: Option<PathBuf>,
    /// Print the daemon's answer, a refusal too, as one JSON object (docs/rekey.md)
    #[arg(long)]
    json: bool,
}

/// Gives the daemon the key and prints its answer.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // The daemon follows no link. What this user cannot find, the daemon looks for by its name.
    let path = args.file.canonicalize();
    let path = path.or_else(|_| std::path::absolute(&args.file));
    let path = path.map_err(Failure::failed)?;
    let target = Target::local(args.socket.clone());
    let answer = target.ask(|client, within| client.rekey(&path, within))?;
    if let Some(error) = answer["error"].as_str() {
        if args.json {
            print(&answer, true, write)?;
        }
        return Err(Failure::failed(format!("the key is not changed: {error}")));
    }
    print(&answer, args.json, write)
}

/// Writes the answer for people.
pub(crate) fn write(out: &mut dyn Write, answer: &Value) -> io::Result<()> {
    let key = answer["fingerprint"].as_str().unwrap_or_default();
    writeln!(
        out,
        "the new key, fingerprint {key}, is known to this daemon"
    )?;
    let hosts = answer["waits_for"].as_array();
    let hosts: Vec<&str> = hosts
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match hosts.is_empty() {
        true => writeln!(
            out,
            "all members of its group know it, and use it from now on"
        ),
        false => writeln!(
            out,
            "not yet to {}: run `groupcast rekey NEWFILE` there, too",
            hosts.join(", ")
        ),
    }
}
