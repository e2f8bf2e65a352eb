//! `groupcast groups`: which groups have members, and who they are.

use std::io::{self, Write};
use std::process::ExitCode;

use groupcast_client::Client;
use serde_json::Value;

use crate::failure::Failure;
use crate::table::Table;
use crate::target::{Target, print};

/// List the groups that have members, with their members.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print one JSON object a group and line: {"group","members":[…]}, and "ring" if one
    /// orders it
    #[arg(long)]
    json: bool,
}

/// Asks the daemon and prints its answer.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let answer = args.target.ask(Client::groups)?;
    print(&answer, args.json, write)
}

/// Writes the groups for people.
pub(crate) fn write(out: &mut dyn Write, groups: &Value) -> io::Result<()> {
    let mut table = Table::new(&["group", "members"]);
    for group in groups.as_array().into_iter().flatten() {
        let members = group["members"].as_array().into_iter().flatten();
        let names: Vec<&str> = members.filter_map(Value::as_str).collect();
        let heard = match group["approximate"].as_bool() {
            Some(true) => " (as far as heard)",
            _ => "",
        };
        let ring = group["ring"].as_str();
        let ring = ring.map_or(String::new(), |top| format!(" (ring {top})"));
        table.row([
            group["group"].as_str().unwrap_or_default().to_owned(),
            format!("{}{heard}{ring}", names.join(", ")),
        ]);
    }
    table.write(out)
}
