//! `groupcast sub`: joins groups and prints their messages and views until it is stopped.
//!
//! Lines are gathered while messages keep coming and written as soon as there is a pause, so that
//! it is quick under load and nothing lingers when there is none.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast_client::{
    Cause, Client, ClientError, ClientEvent, ConnectError, Message, Refusal, View, ViewId,
    ViewKind, WhenSlow,
};
use groupcast_core::id::fnv1a;
use groupcast_core::text::printable;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Failure, tell};
use crate::line::{self, Behind, JsonLines, Plain, describe_gap, describe_view};
use crate::number;
use crate::reader;
use crate::target::{Target, unconnected};

/// While nothing comes, signals and the reader of stdout are looked at this often.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Lines are written at least this often while messages keep coming.
const WRITE_WITHIN: Duration = Duration::from_millis(50);
/// Bytes of lines that are gathered.
const GATHERED: usize = 64 << 10;
/// How long to wait before connecting again, the first time and at most.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long a good-bye may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Join groups and print their messages and views.
///
/// Without --json it prints each message's bytes and a newline on stdout (on a terminal, characters
/// that it would not show are escaped), and views and lost messages of bimodal groups on stderr.
/// Exit code 0 at SIGINT or SIGTERM, when its reader has gone, and after --count messages. A daemon
/// must run when it starts. When the daemon goes later, it connects again: messages of the time
/// between are not repeated, and views stand before and after the gap. With --once it ends with
/// exit code 1 instead.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The groups to join
    #[arg(value_name = "GROUP", required = true, value_parser = group)]
    groups: Vec<String>,
    #[command(flatten)]
    target: Target,
    /// This client's name, without `@host` [default: the daemon makes one]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Print one JSON object a message, view or gap and line
    #[arg(long)]
    json: bool,
    /// Ask for a ring of its own for each group: an order for it and all names below it, which
    /// other groups do not wait for. It is made if there is none, and refused where groups
    /// below it are in use
    #[arg(long)]
    ring: bool,
    /// Print the group and the sender before each message
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,
    /// End when the connection to the daemon ends, instead of connecting again
    #[arg(long)]
    once: bool,
    /// What the daemon does when this program takes messages too slowly: `block`, publishers wait;
    /// `spill`, they wait on its disk; `drop`, unreliable messages are missed; `disconnect`
    /// [default: what the daemon's rules say]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    when_slow: Option<WhenSlow>,
    /// End after N messages
    #[arg(long, value_name = "N", value_parser = number::above_0::<NonZeroU64>)]
    count: Option<NonZeroU64>,
}

fn group(name: &str) -> Result<String, String> {
    match groupcast_session::name::check_group(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn policy(word: &str) -> Result<WhenSlow, String> {
    WhenSlow::find(|policy| policy.name() == word).ok_or_else(|| {
        format!(
            "there are: {}",
            WhenSlow::ALL.map(WhenSlow::name).join(", ")
        )
    })
}

/// Why it prints no more.
enum End {
    /// All messages that were asked for are printed, or a signal came.
    Done,
    /// What is printed has no reader any more.
    ReaderGone,
    /// The connection to the daemon has ended, for this reason.
    Disconnected(String),
}

/// Joins and prints until something ends it.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stopped))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stopped)))
            .map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    }
    let mut client = args.target.connect(args.name.as_deref())?;
    if let Some(policy) = args.when_slow {
        client.set_when_slow(policy).map_err(Failure::failed)?;
    }
    for group in &args.groups {
        let joined = match args.ring {
            true => client.join_on_ring(group),
            false => client.join(group),
        };
        joined.map_err(Failure::failed)?;
    }
    let mut printer = Printer::new(args)?;
    printer.set_order(client.order(), client.rings());
    let mut left = args.count.map(NonZeroU64::get);
    loop {
        match follow(&mut client, &mut printer, &mut left, &stopped)? {
            End::Done => {
                // All messages that were asked for have been printed: a daemon that ends just now
                // changes nothing.
                drop(client.close(CLOSE_WITHIN));
                break;
            }
            End::ReaderGone => break,
            End::Disconnected(text) if args.once => {
                return Err(Failure::failed(format!(
                    "the connection to the daemon has ended: {text}"
                ))
                .help("subscribe again when the daemon is back; what was sent meanwhile is not repeated"));
            }
            End::Disconnected(text) => {
                let own = client.private_name().to_owned();
                if printer.disconnected(&own, &text)?.is_none()
                    || !reconnect(&args.target, &mut client, &mut printer, &stopped)?
                {
                    break;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects again, when there is a daemon to connect to; false if a signal or a reader that has
/// gone ends it before.
fn reconnect(
    target: &Target,
    client: &mut Client,
    printer: &mut Printer,
    stopped: &AtomicBool,
) -> Result<bool, Failure> {
    let mut pause = RETRY_MIN;
    // Each reason is told once, not with every attempt.
    let mut told = String::new();
    loop {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            if stopped.load(Ordering::Relaxed) || printer.reader_gone() {
                return Ok(false);
            }
            std::thread::sleep(LOOK_UP.min(pause));
        }
        let is_over = || stopped.load(Ordering::Relaxed) || printer.reader_gone();
        match attempt(target, client, &is_over) {
            Ok(()) => {
                printer.set_order(client.order(), client.rings());
                let printed = printer.reconnected(client.private_name())?;
                return Ok(printed.is_some());
            }
            Err(NotYet::Over) => return Ok(false),
            Err(NotYet::Never(failure)) => return Err(failure),
            Err(NotYet::Perhaps(why)) => {
                if why != told {
                    tell(format_args!(
                        "cannot connect yet, and try again: {}",
                        printable(why.as_bytes())
                    ));
                    told = why;
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Why an attempt to connect again has failed.
enum NotYet {
    /// Each attempt will fail.
    Never(Failure),
    /// Another one may succeed.
    Perhaps(String),
    /// A signal came, or the reader has gone.
    Over,
}

/// Tries each address that the daemon has now, until `is_over`: its name may have got another one.
fn attempt(target: &Target, client: &mut Client, is_over: &dyn Fn() -> bool) -> Result<(), NotYet> {
    let addresses = target.addresses();
    let addresses = addresses.map_err(|failure| NotYet::Perhaps(failure.to_string()))?;
    let mut why = String::new();
    let mut never = None;
    for address in addresses {
        if is_over() {
            return Err(NotYet::Over);
        }
        match client.reconnect_at(&address) {
            Ok(()) => return Ok(()),
            // The daemon is another one than before, and would refuse this client every time.
            Err(
                error @ ConnectError::Refused {
                    code: Refusal::Version | Refusal::Name | Refusal::Protocol,
                    ..
                },
            ) => never = Some(unconnected(&error, &address)),
            Err(error) => why = error.to_string(),
        }
    }
    Err(match never {
        Some(failure) => NotYet::Never(failure),
        None => NotYet::Perhaps(why),
    })
}

/// Prints what comes until something ends it; `left` is how many messages are asked for.
fn follow(
    client: &mut Client,
    printer: &mut Printer,
    left: &mut Option<u64>,
    stopped: &AtomicBool,
) -> Result<End, Failure> {
    loop {
        let event = match client.next_event(Some(Duration::ZERO)) {
            Ok(None) => {
                if printer.flush()?.is_none() {
                    return Ok(End::ReaderGone);
                }
                client.next_event(Some(LOOK_UP))
            }
            event => event,
        };
        if stopped.load(Ordering::Relaxed) {
            printer.flush()?;
            return Ok(End::Done);
        }
        let event = match event {
            Err(ClientError::Disconnected { text, .. }) => return Ok(End::Disconnected(text)),
            Err(ClientError::Io(error)) => return Ok(End::Disconnected(error.to_string())),
            event => event.map_err(Failure::failed)?,
        };
        let printed = match event {
            None if printer.reader_gone() => None,
            None => Some(()),
            Some(ClientEvent::Message(message)) => {
                let printed = printer.message(&message)?;
                if let Some(left) = left {
                    *left -= 1;
                    if *left == 0 {
                        printer.flush()?;
                        return Ok(End::Done);
                    }
                }
                printed
            }
            Some(ClientEvent::View(view)) => printer.view(view)?,
            Some(ClientEvent::Gap {
                group,
                sender,
                first,
                last,
            }) => printer.gap(&group, &sender, (first, last))?,
            Some(ClientEvent::Behind {
                waiting,
                limit,
                dropped,
            }) => printer.behind(Behind {
                waiting,
                limit,
                dropped,
            })?,
            Some(ClientEvent::Carried { group, ring }) => {
                printer.set_carrier(group, ring);
                Some(())
            }
            Some(ClientEvent::Rejected { request, text, .. }) => {
                return Err(Failure::failed(format!(
                    "the daemon rejected the {request}: {text}"
                )));
            }
            Some(ClientEvent::Disconnected { text, .. }) => return Ok(End::Disconnected(text)),
            Some(_) => Some(()),
        };
        if printed.is_none() {
            return Ok(End::ReaderGone);
        }
    }
}

/// Where messages and views are printed. What returns an option says `None` when the reader of
/// stdout has gone.
struct Printer {
    stdout: BufWriter<File>,
    json: Option<JsonLines>,
    plain: Plain,
    /// The last view of each group.
    views: BTreeMap<Arc<str>, View>,
    written: Instant,
}

impl Printer {
    fn new(args: &Args) -> Result<Self, Failure> {
        // Not the standard library's handle: that looks for newlines and writes at each.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let stdout =
            stdout.map_err(|error| Failure::failed(format!("cannot write to stdout: {error}")))?;
        Ok(Self {
            stdout: BufWriter::with_capacity(GATHERED, File::from(stdout)),
            json: args.json.then(JsonLines::default),
            plain: Plain {
                verbose: args.verbose,
                escape: io::stdout().is_terminal(),
            },
            views: BTreeMap::new(),
            written: Instant::now(),
        })
    }

    /// From now on lines name what orders messages at the daemon, if it is known.
    fn set_order(&mut self, order: Option<&str>, rings: &[String]) {
        if let Some(lines) = &mut self.json {
            lines.set_order(order, rings);
        }
    }

    /// From now on lines of the group name this ring, which a join has made.
    fn set_carrier(&mut self, group: String, ring: Option<String>) {
        if let Some(lines) = &mut self.json {
            lines.set_carrier(group, ring);
        }
    }

    fn message(&mut self, message: &Message) -> Result<Option<()>, Failure> {
        let printed = match &mut self.json {
            Some(lines) => lines.message(&mut self.stdout, message),
            None => self.plain.message(&mut self.stdout, message),
        };
        self.after(printed)
    }

    fn view(&mut self, view: View) -> Result<Option<()>, Failure> {
        let printed = self.write_view(&view);
        self.views.insert(view.group.clone(), view);
        self.after(printed)
    }

    fn write_view(&mut self, view: &View) -> io::Result<()> {
        match &mut self.json {
            Some(lines) => lines.view(&mut self.stdout, view),
            None => {
                // Views go to stderr: a user who has closed it does not want them.
                let _ = describe_view(&mut anstream::stderr().lock(), view);
                Ok(())
            }
        }
    }

    /// The connection of the client called `own` has ended. A view of each group, with this client
    /// alone in it, stands before what is missed from now on; the views after joining again stand
    /// behind it.
    fn disconnected(&mut self, own: &str, text: &str) -> Result<Option<()>, Failure> {
        let views = std::mem::take(&mut self.views);
        let mut printed = Ok(());
        for last in views.into_values() {
            let alone = cut_off(last, own);
            printed = printed.and_then(|()| self.write_view(&alone));
        }
        let printed = printed.and_then(|()| {
            if self.json.is_some() {
                return line::disconnected(&mut self.stdout, text);
            }
            let text = printable(text.as_bytes());
            let _ = writeln!(
                anstream::stderr(),
                "the connection to the daemon has ended: {text}; connecting again"
            );
            Ok(())
        });
        match outcome(printed)? {
            Some(()) => self.flush(),
            None => Ok(None),
        }
    }

    /// There is a connection again, under the private name `own`.
    fn reconnected(&mut self, own: &str) -> Result<Option<()>, Failure> {
        let printed = match self.json {
            Some(_) => line::reconnected(&mut self.stdout, own),
            None => {
                let own = printable(own.as_bytes());
                let _ = writeln!(
                    anstream::stderr(),
                    "connected again as {own}; what was sent meanwhile is not repeated"
                );
                Ok(())
            }
        };
        self.after(printed)
    }

    fn gap(&mut self, group: &str, sender: &str, range: (u64, u64)) -> Result<Option<()>, Failure> {
        let printed = match &mut self.json {
            Some(lines) => lines.gap(&mut self.stdout, group, sender, range),
            None => {
                let _ = describe_gap(&mut anstream::stderr().lock(), group, sender, range);
                Ok(())
            }
        };
        self.after(printed)
    }

    fn behind(&mut self, behind: Behind) -> Result<Option<()>, Failure> {
        let printed = match self.json {
            Some(_) => line::behind(&mut self.stdout, behind),
            None => {
                let _ = writeln!(anstream::stderr(), "{behind}");
                Ok(())
            }
        };
        self.after(printed)
    }

    fn flush(&mut self) -> Result<Option<()>, Failure> {
        self.written = Instant::now();
        let flushed = self.stdout.flush();
        outcome(flushed)
    }

    fn after(&mut self, printed: io::Result<()>) -> Result<Option<()>, Failure> {
        match outcome(printed)? {
            Some(()) if self.written.elapsed() >= WRITE_WITHIN => self.flush(),
            printed => Ok(printed),
        }
    }

    /// Whether the reader of stdout has gone, asked without writing anything.
    fn reader_gone(&self) -> bool {
        reader::has_gone(self.stdout.get_ref())
    }
}

/// The view of a subscriber that has lost its daemon: of `last`, it alone is left.
fn cut_off(last: View, own: &str) -> View {
    let own: Arc<str> = own.into();
    View {
        id: ViewId {
            within: Some(fnv1a(own.as_bytes())),
            ..last.id
        },
        kind: ViewKind::Transitional,
        cause: Cause::Disconnect,
        changed: Some(own.clone()),
        members: vec![own],
        ..last
    }
}

fn outcome(printed: io::Result<()>) -> Result<Option<()>, Failure> {
    match printed {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
    }
}
