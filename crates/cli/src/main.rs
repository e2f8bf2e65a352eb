//! The `groupcast` command line: one module a command. Here only the options common to all and the exit codes.
//!
//! Exit codes: 0 done, 1 failed, 2 usage, 3 some receivers failed. A command or option whose capability is not built
//! does not exist.

mod bench;
mod check;
mod daemon;
mod demo;
mod failure;
mod groups;
mod json;
mod keygen;
mod lab;
mod line;
mod lines;
mod publish;
mod sim;
mod status;
mod sub;
mod table;
mod target;
mod transfer;

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
    /// Watch the whole life of a group on this machine: order, crash, view change, partition, merge.
    Demo(demo::Args),
    /// Make a key that the daemons of one cluster share.
    Keygen(keygen::Args),
    /// Run the daemon of this host.
    Daemon(Box<daemon::Args>),
    /// Join groups and print their messages and views.
    Sub(sub::Args),
    /// Send messages to groups: lines of a file or of stdin, or generated ones.
    Pub(publish::Args),
    /// Send files, directories or a pipe to many receivers at once; needs no daemon.
    Send(Box<transfer::send::Args>),
    /// Receive what is sent to a group: files into a directory, or a pipe.
    Recv(Box<transfer::receive::Args>),
    /// Show the state of a daemon.
    Status(status::Args),
    /// List the groups that have members, and who they are.
    Groups(groups::Args),
    /// Judge recorded histories: is every promise kept?
    Check(check::Args),
    /// Run a scenario in the simulator: network, hosts, protocol, load and changes in one TOML file.
    Sim(sim::Args),
    /// Measure throughput and latency on a test bed of this machine.
    Bench(bench::Args),
    /// Regenerate the papers' tables and figures: data, plots, verdicts.
    Lab(Box<lab::Args>),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Keygen(args) => keygen::run(&args),
        Command::Daemon(args) => daemon::run(*args),
        Command::Sub(args) => sub::run(&args),
        Command::Pub(args) => publish::run(&args),
        Command::Send(args) => transfer::send::run(*args),
        Command::Recv(args) => transfer::receive::run(*args),
        Command::Status(args) => status::run(&args),
        Command::Groups(args) => groups::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Lab(args) => lab::run(*args),
    };
    result.unwrap_or_else(|failure| failure.report())
}
