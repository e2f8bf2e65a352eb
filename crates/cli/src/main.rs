//! The `groupcast` command line: one module a command. Here only the options common to all and the
//! exit codes.
//!
//! Exit codes: 0 done, 1 failed, 2 usage, 3 some receivers failed. A command or option whose
//! capability is not built does not exist.

mod answer;
mod bench;
mod bus;
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
mod monitor;
mod number;
mod order;
mod program;
mod publish;
mod reader;
mod rekey;
mod request;
mod server;
mod shell;
mod sim;
mod status;
mod sub;
mod table;
mod target;
mod tls;
mod transfer;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Reliable, ordered group communication over IP multicast.
#[derive(Parser)]
#[command(name = "groupcast", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// What each does is said by its `Args`, briefly in the first paragraph and at length in all.
#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Keygen(keygen::Args),
    Daemon(Box<daemon::Args>),
    Sub(sub::Args),
    Pub(publish::Args),
    Send(Box<transfer::send::Args>),
    Recv(Box<transfer::receive::Args>),
    Relay(Box<transfer::relay::Args>),
    Census(transfer::census::Args),
    Request(Box<request::Args>),
    Answer(Box<answer::Args>),
    Status(status::Args),
    Monitor(monitor::Args),
    Groups(groups::Args),
    Bus(bus::Args),
    Rekey(rekey::Args),
    Check(check::Args),
    Sim(sim::Args),
    Bench(bench::Args),
    Lab(Box<lab::Args>),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// The command line. What looks like a negative number after an option is its value, so that the
/// option itself says what it takes: none of them begins with a digit.
fn command() -> clap::Command {
    fn read(command: clap::Command) -> clap::Command {
        let takes_value = |arg: &clap::Arg| {
            !arg.is_positional()
                && arg.get_action().takes_values()
                && !arg.is_allow_hyphen_values_set()
        };
        command
            .mut_args(|arg| match takes_value(&arg) {
                true => arg.allow_negative_numbers(true),
                false => arg,
            })
            .mut_subcommands(read)
    }
    read(Cli::command())
}

/// The command that was given; ends the process if there is none.
fn given() -> Command {
    let mut matches = command().get_matches();
    let cli = Cli::from_arg_matches_mut(&mut matches);
    cli.unwrap_or_else(|error| error.format(&mut command()).exit())
        .command
}

fn main() -> ExitCode {
    let result = match given() {
        Command::Demo(args) => demo::run(&args),
        Command::Keygen(args) => keygen::run(&args),
        Command::Daemon(args) => daemon::run(*args),
        Command::Sub(args) => sub::run(&args),
        Command::Pub(args) => publish::run(&args),
        Command::Send(args) => transfer::send::run(*args),
        Command::Recv(args) => transfer::receive::run(*args),
        Command::Relay(args) => transfer::relay::run(*args),
        Command::Census(args) => transfer::census::run(&args),
        Command::Request(args) => request::run(*args),
        Command::Answer(args) => answer::run(*args),
        Command::Status(args) => status::run(&args),
        Command::Monitor(args) => monitor::run(&args),
        Command::Groups(args) => groups::run(&args),
        Command::Bus(args) => bus::run(args),
        Command::Rekey(args) => rekey::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Lab(args) => lab::run(*args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
    };
    result.unwrap_or_else(|failure| failure.report())
}
