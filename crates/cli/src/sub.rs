//! `groupcast sub`: joins groups and prints their messages and views until it is stopped.
//!
//! Lines are gathered while messages keep coming and written as soon as there is a pause, so that
//! it is quick under load and nothing lingers when there is none.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast_client::{Client, ClientEvent, Message, View};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::line::{JsonLines, describe_gap, describe_view};
use crate::target::Target;

/// While nothing comes, signals and the reader of stdout are looked at this often.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Lines are written at least this often while messages keep coming.
const WRITE_WITHIN: Duration = Duration::from_millis(50);
/// Bytes of lines that are gathered.
const GATHERED: usize = 64 << 10;
/// How long a good-bye may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Join groups and print their messages and views.
///
/// Plain: each message's bytes and a newline on stdout; views, and what is lost in a bimodal group,
/// on stderr. It ends with exit code 0 at SIGINT or SIGTERM, when its reader has gone, and after
/// --count messages; with 1 when the daemon has gone.
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
    /// End after N messages
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU64>,
}

fn group(name: &str) -> Result<String, String> {
    match groupcast_session::name::check_group(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Why it ends without having failed.
enum End {
    /// All messages that were asked for are printed, or a signal came.
    Done,
    /// What is printed has no reader any more.
    ReaderGone,
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
    for group in &args.groups {
        client.join(group).map_err(Failure::failed)?;
    }
    let mut printer = Printer::new(args.json)?;
    match follow(&mut client, &mut printer, args.count, &stopped)? {
        // A daemon that goes away just now takes nothing with it that was asked for.
        End::Done => drop(client.close(CLOSE_WITHIN)),
        End::ReaderGone => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn follow(
    client: &mut Client,
    printer: &mut Printer,
    count: Option<NonZeroU64>,
    stopped: &AtomicBool,
) -> Result<End, Failure> {
    let mut left = count.map(NonZeroU64::get);
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
        let printed = match event.map_err(Failure::failed)? {
            None if printer.reader_gone() => None,
            None => Some(()),
            Some(ClientEvent::Message(message)) => {
                let printed = printer.message(&message)?;
                if let Some(left) = &mut left {
                    *left -= 1;
                    if *left == 0 {
                        printer.flush()?;
                        return Ok(End::Done);
                    }
                }
                printed
            }
            Some(ClientEvent::View(view)) => printer.view(&view)?,
            Some(ClientEvent::Gap {
                group,
                sender,
                first,
                last,
            }) => printer.gap(&group, &sender, (first, last))?,
            Some(ClientEvent::Rejected { request, text, .. }) => {
                return Err(Failure::failed(format!(
                    "the daemon rejected the {request}: {text}"
                )));
            }
            Some(ClientEvent::Disconnected { text, .. }) => {
                printer.flush()?;
                return Err(Failure::failed(format!(
                    "the connection to the daemon has ended: {text}"
                ))
                .help("subscribe again when the daemon is back; what was sent meanwhile is not repeated"));
            }
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
    written: Instant,
}

impl Printer {
    fn new(json: bool) -> Result<Self, Failure> {
        // Not the standard library's handle: that looks for newlines and writes at each.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let stdout =
            stdout.map_err(|error| Failure::failed(format!("cannot write to stdout: {error}")))?;
        Ok(Self {
            stdout: BufWriter::with_capacity(GATHERED, File::from(stdout)),
            json: json.then(JsonLines::default),
            written: Instant::now(),
        })
    }

    fn message(&mut self, message: &Message) -> Result<Option<()>, Failure> {
        let printed = match &mut self.json {
            Some(lines) => lines.message(&mut self.stdout, message),
            None => self
                .stdout
                .write_all(&message.payload)
                .and_then(|()| self.stdout.write_all(b"\n")),
        };
        self.after(printed)
    }

    fn view(&mut self, view: &View) -> Result<Option<()>, Failure> {
        let printed = match &mut self.json {
            Some(lines) => lines.view(&mut self.stdout, view),
            None => {
                // Views are remarks: a user who closed stderr does not want them.
                let _ = describe_view(&mut anstream::stderr().lock(), view);
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
        let mut stdout = [PollFd::new(self.stdout.get_ref(), PollFlags::empty())];
        let asked = poll(&mut stdout, Some(&Timespec::default()));
        asked.is_ok()
            && stdout[0]
                .revents()
                .intersects(PollFlags::ERR | PollFlags::HUP)
    }
}

fn outcome(printed: io::Result<()>) -> Result<Option<()>, Failure> {
    match printed {
        Ok(()) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
    }
}
