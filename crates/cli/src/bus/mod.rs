//! `groupcast bus`: a terminal, a file or a process at the message bus of a daemon; and traces of
//! connections.

mod file;
mod lines;
mod place;
mod relay;
mod socket;
mod terminal;
mod trace;

use std::io::{self, BufRead, BufReader, ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::JoinHandle;
use std::time::Duration;

use groupcast_core::settings::suggest::nearest;
use groupcast_core::text::printable;
use groupcast_session::frame::MAGIC;

use self::lines::Line;
use self::place::Place;
use self::socket::Socket;
use crate::failure::{Failure, printed};
use crate::program;
use crate::tls::TlsArgs;

/// Talk to the message bus of a daemon.
///
/// Lines of standard input go to the bus, and lines of the bus go to standard output, until the bus
/// ends the connection: after `quit`, or after the end of the input when all commands are carried
/// out. At a terminal you can edit the line: the arrows up and down bring earlier lines back, and
/// Tab completes commands, tags, domains and ids that the connection has seen. `help` is a command
/// of the bus; docs/bus.md describes all of them.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Words without an option, which are refused with what may be meant
    #[arg(hide = true, value_name = "WORD")]
    words: Vec<String>,
    /// The address of the daemon's bus: that of its --bus
    #[arg(
        long,
        value_name = "IP:PORT|NAME:PORT|unix:PATH",
        required_unless_present = "words"
    )]
    server: Option<Place>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Send the commands and messages of this file, or with `-` of the standard input, each after
    /// the reply to the one before it, and stop at the first error
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    file: Option<PathBuf>,
    /// Run this command with the bus as its standard input and output, and end with it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    exec: Option<Vec<String>>,
}

/// How long the daemon may take to greet.
const GREETING_WITHIN: Duration = Duration::from_secs(10);

#[derive(clap::Subcommand)]
enum What {
    /// Show what a connection sent and got: a trace, which it asked for with `tracefile`
    Trace(trace::Args),
}

/// Talks until one side ends it.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Some(What::Trace(args)) = args.what {
        return trace::show(&args);
    }
    if args.exec.as_ref().is_some_and(|words| words[..1] == [""]) {
        return Err(program::unnamed());
    }
    if let [word, ..] = &args.words[..] {
        return Err(astray(word));
    }
    let Some(server) = &args.server else {
        return Err(Failure::usage("--server names no address"));
    };
    let (socket, relay) = connect(server, &args.tls)?;
    if let Some(path) = &args.file {
        return file::send(socket, path);
    }
    match args.exec {
        Some(words) => exec(socket, relay, &words),
        None if terminal::is_there() => terminal::talk(socket),
        None => talk(socket),
    }
}

/// The failure for a word that belongs to no option.
fn astray(word: &str) -> Failure {
    if word == "trace" {
        let failure =
            Failure::usage("`groupcast bus trace` takes no --server and no other option of `bus`");
        return failure.help("`groupcast bus trace FILE…`");
    }
    if word.parse::<Place>().is_ok() {
        let failure = Failure::usage(format!("the address {word} stands without its option"));
        return failure.help(format!("`groupcast bus --server {word}`"));
    }
    if Path::new(word).exists() {
        return Failure::usage(format!("the path {word} stands without its option")).help(format!(
            "`groupcast bus --server unix:{word}` talks to a socket, \
             `--server ADDRESS --file {word}` sends the commands of a file, \
             `groupcast bus trace {word}` shows a trace"
        ));
    }
    let failure = Failure::usage(format!("`groupcast bus` knows no `{word}`"));
    failure.help(match nearest(word, ["trace"]) {
        Some(near) => format!("did you mean `groupcast bus {near}`?"),
        None => "name the bus with --server IP:PORT, NAME:PORT or unix:PATH".into(),
    })
}

/// Connects to the bus; by TLS, a thread stands between.
fn connect(server: &Place, tls: &TlsArgs) -> Result<(Socket, Option<JoinHandle<()>>), Failure> {
    let Some(client) = tls.load()? else {
        return Ok((Socket::connect(server)?, None));
    };
    let Place::Tcp(server) = server else {
        return Err(Failure::usage(
            "a Unix socket needs no TLS: leave --tls-ca out",
        ));
    };
    let (socket, relay) = relay::connect(server, &client, tls.name())?;
    Ok((Socket::Unix(socket), Some(relay)))
}

/// Ties a process to the bus; its exit code is the command's.
fn exec(
    socket: Socket,
    relay: Option<JoinHandle<()>>,
    words: &[String],
) -> Result<ExitCode, Failure> {
    let [program, arguments @ ..] = words else {
        return Err(Failure::usage("--exec needs a command"));
    };
    let (input, output) = socket.into_stdio()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(input).stdout(output);
    let status = command
        .status()
        .map_err(|error| {
            let failure = Failure::failed(format!("cannot run `{program}`: {error}"));
            failure.help("--exec takes a program and its arguments, each a word of its own; a shell is `--exec sh -c '…'`")
        })?;
    // With the last of the process's sockets closed, what it sent is on its way to the end.
    drop(command);
    if let Some(relay) = relay {
        let _ = relay.join();
    }
    if let Some(signal) = status.signal() {
        return Err(Failure::failed(ended_by(program, signal)));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// That a signal ended the command `program`, for people.
fn ended_by(program: &str, signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal);
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    format!("`{program}` was ended by signal {signal}{name}")
}

/// Joins standard input and output with the bus.
fn talk(socket: Socket) -> Result<ExitCode, Failure> {
    let mut writer = socket.again()?;
    // What is typed waits in a read that nothing ends but the terminal: it must not keep the
    // process.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut writer);
        writer.end();
    });
    let mut reader = reader(socket)?;
    let mut out = io::stdout().lock();
    let to_terminal = out.is_terminal();
    let mut last = Vec::new();
    while let Some(line) = lines::read(&mut reader).map_err(broken)? {
        let shown = match to_terminal {
            true => line.shown(printable),
            false => line.bytes(),
        };
        if let Err(error) = out.write_all(&shown).and_then(|()| out.flush()) {
            // Nobody listens any more.
            printed(Err(error))?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Line::Plain(text) = line {
            last = text;
        }
    }
    ended(&last)
}

/// What the bus says, from its first line on, which is its greeting or a refusal.
fn reader(mut socket: Socket) -> Result<impl BufRead, Failure> {
    let mut begin = [0; 4];
    socket.read_within(Some(GREETING_WITHIN)).map_err(broken)?;
    let read = socket.read_exact(&mut begin);
    socket.read_within(None).map_err(broken)?;
    let is_bus = read.is_ok() && matches!(&begin, b"bus " | b"clos");
    if read.is_ok() && begin == MAGIC {
        let text =
            "what listens there is no message bus, but where a daemon listens for other clients";
        return Err(Failure::failed(text).help(
            "name an address of the daemon's --bus; `groupcast pub` and `sub` talk to this one",
        ));
    }
    if !is_bus {
        let text = match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                "what listens there says nothing: it is no message bus, or hangs"
            }
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(broken(error)),
            _ => "what listens there is no message bus",
        };
        return Err(Failure::failed(text)
            .help("name an address of the daemon's --bus; where that speaks TLS, --tls-ca too"));
    }
    Ok(BufReader::new(io::Cursor::new(begin).chain(socket)))
}

/// What the last line says of how it went.
fn ended(last: &[u8]) -> Result<ExitCode, Failure> {
    if last.starts_with(b"closed bye ") {
        return Ok(ExitCode::SUCCESS);
    }
    let text = match last.strip_prefix(b"closed ") {
        Some(reason) => format!(
            "the bus ended the connection: {}",
            printable(reason.trim_ascii_end())
        ),
        None => "the connection to the bus has ended without a word".into(),
    };
    Err(Failure::failed(text).help("connect again: what was answered with `ok` is done"))
}

fn broken(error: io::Error) -> Failure {
    Failure::failed(format!("the connection to the bus is broken: {error}"))
}
