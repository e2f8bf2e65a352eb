//! The daemon that a command talks to, and the common parts of the conversation.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use groupcast_client::{
    AccessToken, Address, Client, ClientError, ClientKind, ConnectError, Options, Refusal,
};
use groupcast_net::{Key, KeyError};
use serde_json::Value;

use crate::failure::{self, Failure};
use crate::json::{shown, write_line};
use crate::server::Server;
use crate::tls::TlsArgs;

/// How long the daemon may take to answer a question.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The failure for a token that cannot be read, whose file is written as that of a key is.
fn no_token(error: KeyError) -> Failure {
    match error {
        KeyError::Missing { path } => {
            Failure::failed(format!("there is no token file {}", path.display()))
                .help("copy there the file that the daemon's `client_token` names")
        }
        other => Failure::failed(other),
    }
}

/// The failure for a daemon at `address` that there is no connection to, with the options that
/// matter. The client's library knows none of them.
pub(crate) fn unconnected(error: &ConnectError, address: &Address) -> Failure {
    let failure = Failure::failed(error);
    match error {
        ConnectError::NoDaemon { .. }
        | ConnectError::NoSocket { .. }
        | ConnectError::Stranger { .. } => failure.help("--socket PATH names a daemon's socket"),
        ConnectError::NoServer { address, .. } => failure.help(format_args!(
            "`groupcast daemon --client-listen {address}` listens there; --server names another"
        )),
        ConnectError::Refused {
            code: Refusal::Token,
            ..
        } => failure.help("--token FILE names a copy of the file of the daemon's `client_token`"),
        ConnectError::Bus { .. } => {
            let bus = match address {
                Address::Unix(path) => format!("unix:{}", path.display()),
                other => other.to_string(),
            };
            failure.help(format_args!(
                "`groupcast bus --server {bus}` talks to it; name the daemon's socket with --socket, or its \
                 client_listen with --server"
            ))
        }
        ConnectError::NeedsTls { .. } => failure.help(
            "--tls-ca names its authority, and --tls-certificate and --tls-key a certificate for this client",
        ),
        ConnectError::Untrusted { .. } => failure.help(
            "--tls-ca names the authorities, --tls-name what the daemon's certificate is for, and \
             --tls-certificate this client's",
        ),
        _ => failure,
    }
}

/// The path of a daemon's socket; what is written as that of a bus is none.
#[derive(Clone)]
pub(crate) struct SocketPath;

impl TypedValueParser for SocketPath {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        option: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, clap::Error> {
        let path = |word: &OsStr| match word.as_bytes().strip_prefix(b"unix:") {
            Some(_) => Err("write the path alone, without `unix:`"),
            None if word.is_empty() => Err("the path is empty"),
            None => Ok(PathBuf::from(word)),
        };
        let parser = OsStringValueParser::new().try_map(move |word| path(&word));
        parser.parse_ref(command, option, value)
    }
}

/// Which daemon to talk to.
#[derive(Clone, clap::Args)]
pub(crate) struct Target {
    /// The daemon's Unix socket [default: $GROUPCAST_SOCKET, else that of this user's daemon, or of
    /// this host's]
    #[arg(
        long,
        value_name = "PATH",
        value_parser = SocketPath,
        conflicts_with_all = ["server", "tls_ca"]
    )]
    socket: Option<PathBuf>,
    /// The daemon's TCP address for clients, or a name of its host and the port
    #[arg(long, value_name = "IP:PORT")]
    server: Option<Server>,
    /// The token that the daemon asks TCP clients for: a copy of the file that its `client_token`
    /// names
    #[arg(
        long,
        value_name = "FILE",
        requires = "server",
        conflicts_with = "socket"
    )]
    token: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

impl Target {
    /// The daemon at the Unix socket `socket`, or this user's, or this host's.
    pub(crate) fn local(socket: Option<PathBuf>) -> Self {
        Self {
            socket,
            server: None,
            token: None,
            tls: TlsArgs::default(),
        }
    }

    /// Connects as a client that joins and publishes, called `name` if there is one.
    pub(crate) fn connect(&self, name: Option<&str>) -> Result<Client, Failure> {
        self.connect_with(Options {
            name: name.map(str::to_owned),
            ..Options::default()
        })
    }

    /// Connects as a tool, which joins nothing.
    pub(crate) fn connect_as_tool(&self) -> Result<Client, Failure> {
        self.connect_with(Options {
            kind: ClientKind::Tool,
            ..Options::default()
        })
    }

    /// Asks one question as a tool; the answer is JSON.
    pub(crate) fn ask<B: AsRef<[u8]>>(
        &self,
        question: impl FnOnce(&mut Client, Duration) -> Result<B, ClientError>,
    ) -> Result<Value, Failure> {
        let mut client = self.connect_as_tool()?;
        let answer = question(&mut client, ANSWER_WITHIN).map_err(Failure::failed)?;
        let value = serde_json::from_slice(answer.as_ref()).map_err(|error| {
            Failure::failed(format!("the daemon's answer makes no sense: {error}"))
                .help("use programs of one version")
        })?;
        // The answer is here: how the connection closes does not matter.
        let _ = client.close(ANSWER_WITHIN);
        Ok(value)
    }

    fn connect_with(&self, mut options: Options) -> Result<Client, Failure> {
        if let Some(path) = &self.token {
            let token = Key::load(path).map_err(no_token)?;
            options.token = Some(AccessToken::from_bytes(*token.as_bytes()));
        }
        let addresses = self.addresses()?;
        let mut failed = None;
        for address in addresses {
            match Client::connect(&address, options.clone()) {
                Ok(client) => return Ok(client),
                Err(error) => failed = Some(unconnected(&error, &address)),
            }
        }
        Err(failed.expect("there is at least one address"))
    }

    /// Where the daemon is, at least one address, in the order in which to try them. A name is
    /// looked up anew with each call.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, Failure> {
        match (&self.socket, &self.server) {
            (Some(path), _) => Ok(vec![Address::Unix(path.clone())]),
            (None, Some(server)) => self.remote(server),
            (None, None) => {
                let socket = socket_of_environment().map_or(Address::Default, Address::Unix);
                Ok(vec![socket])
            }
        }
    }

    /// The daemon at `server`, by each of its addresses.
    fn remote(&self, server: &Server) -> Result<Vec<Address>, Failure> {
        let addresses = server.addresses()?.into_iter();
        let Some(tls) = self.tls.load()? else {
            return Ok(addresses.map(Address::Tcp).collect());
        };
        let name = self.tls.name().or(server.name());
        let by_tls = |address| Address::Tls {
            address,
            name: name.map(str::to_owned),
            tls: tls.clone(),
        };
        Ok(addresses.map(by_tls).collect())
    }
}

/// The environment variable that stands for `--socket`.
const SOCKET_VARIABLE: &str = "GROUPCAST_SOCKET";

/// The socket that the environment names, if it names one.
pub(crate) fn socket_of_environment() -> Option<PathBuf> {
    std::env::var_os(SOCKET_VARIABLE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Prints an answer: for programs as one line of JSON, for people with `write`. A reader that has
/// gone is no failure.
pub(crate) fn print(
    answer: &Value,
    json: bool,
    write: impl FnOnce(&mut dyn Write, &Value) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    let mut stdout = anstream::stdout().lock();
    let printed = print_to(&mut stdout, answer, json, write);
    failure::printed(printed.and_then(|()| stdout.flush()))?;
    Ok(ExitCode::SUCCESS)
}

/// The same into `out`. The daemon has names from all over the network, and over TCP it may be
/// anybody: nothing in its answer controls the terminal.
fn print_to(
    out: &mut impl Write,
    answer: &Value,
    json: bool,
    write: impl FnOnce(&mut dyn Write, &Value) -> io::Result<()>,
) -> io::Result<()> {
    match (json, answer) {
        (true, Value::Array(lines)) => lines.iter().try_for_each(|line| write_line(out, line)),
        (true, line) => write_line(out, line),
        (false, answer) => write(out, &shown(answer)),
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::text::is_visible;
    use serde_json::json;

    use super::*;

    /// Clears the screen, and writes from right to left.
    const HOSTILE: &str = "al\u{9b}2J\u{1b}[2J\n\u{202e}@h";

    #[test]
    fn no_answer_of_a_daemon_controls_the_terminal() {
        let status = json!({
            "name": HOSTILE,
            "trouble": HOSTILE,
            "configuration": {"id": HOSTILE, "members": [{"name": HOSTILE, "member": HOSTILE}]},
            "strangers": [{"kind": "key", "last": HOSTILE, "hint": HOSTILE}],
            "rings": [{"top": HOSTILE, "trouble": HOSTILE}],
            "bimodal": [{"group": HOSTILE}],
            "clients": [{"name": HOSTILE, "transport": HOSTILE}],
            "waits_for": [HOSTILE],
        });
        let groups = json!([{"group": HOSTILE, "members": [HOSTILE], "ring": HOSTILE}]);
        type Shows = fn(&mut dyn Write, &Value) -> io::Result<()>;
        let all: [(&Value, Shows); 3] = [
            (&status, crate::status::write),
            (&groups, crate::groups::write),
            (&status, crate::rekey::write),
        ];
        for (answer, write) in all {
            for json in [false, true] {
                let mut out = Vec::new();
                print_to(&mut out, answer, json, write).unwrap();
                let mut plain = Vec::new();
                let mut strip = anstream::StripStream::new(&mut plain);
                // The styles of a table are ours; those of an answer would be in the JSON.
                match json {
                    true => plain = out,
                    false => strip.write_all(&out).unwrap(),
                }
                let text = String::from_utf8(plain).unwrap();
                let shown = if json {
                    "al\\u009b2J"
                } else {
                    "al\\u{9b}2J\\u{1b}"
                };
                assert!(text.contains(shown), "{text}");
                let mut lines = text.lines();
                assert!(lines.all(|line| line.chars().all(is_visible)), "{text:?}");
                assert!(!text.lines().any(|line| line.starts_with("@h")), "{text:?}");
            }
        }
    }
}
