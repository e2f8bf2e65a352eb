//! The `groupcast` command line: one module a command. Here only the options common to all and the exit codes.
//!
//! Exit codes: 0 done, 1 failed, 2 usage, 3 some receivers failed. A command or option whose capability is not built
//! does not exist.

mod check;
mod daemon;
mod failure;
mod keygen;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Reliable, ordered group communication over IP multicast.
#[derive(Parser)]
#[command(name = "groupcast", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key that the daemons of one cluster share.
    Keygen(keygen::Args),
    /// Run the daemon of this host.
    Daemon(Box<daemon::Args>),
    /// Judge recorded histories: is every promise kept?
    Check(check::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Keygen(args) => keygen::run(&args),
        Command::Daemon(args) => daemon::run(*args),
        Command::Check(args) => check::run(&args),
    };
    result.unwrap_or_else(|failure| failure.report())
}
