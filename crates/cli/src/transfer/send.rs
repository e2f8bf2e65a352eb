//! `groupcast send`: options to a transfer, its events to lines or bars, its report to an exit
//! code.

mod paper;
mod verdict;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use groupcast_core::text::printable;
use groupcast_protocols::bulk::{
    BulkConfig, Multidriver, Policy, RateControl, Share, SlowPolicy, Xtp,
};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Cargo, Exclude, Scan, ScanError, SendEvent, SendReport, Sending, TransferError,
};

pub(crate) use self::verdict::in_words;
use self::verdict::{is_without_answer, judge};
use super::bars::{SendBars, SendShown};
use super::lines::{self, Line};
use super::printer::Printer;
use super::status::StatusFile;
use super::{Network, Peer, explain, peer, rates, stop_flag};
use crate::failure::{Failure, printed, tell, tell_unread};
use crate::json;
use crate::number;
use crate::number::number_of;

/// Send files, directories or a pipe to many receivers at once.
///
/// Each receiver runs `groupcast recv` with the same group and key. Every byte is verified there,
/// and files appear in their place when all of them are complete. A transfer that breaks off is
/// resumed when it is started again. The shared key proves that a sender belongs to the group, not
/// which of its hosts it is. Exit code 3: some receivers failed, and are named.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files and directories, or - for the standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    network: Network,
    /// Hosts that multicasts do not reach: each gets a copy of everything at this address, where
    /// its `groupcast recv --listen` takes it, in the same transfer as the others. One that does
    /// not answer counts as absent, with exit code 3. Copies count against --rate [default port:
    /// the group's]
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',', value_parser = peer)]
    peer: Vec<Peer>,
    /// Wait for N receivers [default: for those that register within a second of the first]
    #[arg(long, value_name = "N", conflicts_with = "require", value_parser = clap::value_parser!(u16).range(1..))]
    receivers: Option<u16>,
    /// Wait for these receivers, by the names of their hosts; others may come, too
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', value_parser = super::required)]
    require: Vec<String>,
    /// Send to these receivers and no others, by the names of their hosts; wait for them
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', conflicts_with_all = ["receivers", "require", "min", "max", "list"], value_parser = super::name)]
    to: Vec<String>,
    /// Send to the receivers on this list and no others: a line for each, its name and the
    /// subgroups that it is in, as `groupcast census --as-list` writes them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["receivers", "require", "min", "max"])]
    list: Option<PathBuf>,
    /// Serve no receiver if fewer than N come within --wait; exit code 1
    #[arg(long, value_name = "N", conflicts_with_all = ["receivers", "require"], value_parser = clap::value_parser!(u16).range(1..))]
    min: Option<u16>,
    /// Begin when N receivers are there; later ones are told that they are not served
    #[arg(long, value_name = "N", conflicts_with_all = ["receivers", "require"], value_parser = clap::value_parser!(u16).range(1..))]
    max: Option<u16>,
    /// Only for receivers in one of these subgroups (`groupcast recv --subgroup`): numbers from 0
    /// to 63, for example 0,3,8-11 [default: for all]
    #[arg(long, value_name = "BITS")]
    subgroup: Option<Subgroups>,
    /// Put files in place only when all receivers have verified everything: those that the sender
    /// waits for, and those that were there at the start. If one is gone before, none does. Files
    /// only
    #[arg(long)]
    together: bool,
    /// End the transfer for all if a required receiver is gone, and tell the others. Exit code 3
    #[arg(long)]
    strict: bool,
    /// End the transfer for all when more than N receivers have failed; they keep their parts for
    /// the next attempt. Exit code 3
    #[arg(long, value_name = "N", conflicts_with = "together")]
    max_failed: Option<u16>,
    /// Leave out files that match; several times for several patterns. `*` and `?` are for a name,
    /// `**` for any directories, [a-z] for a letter, {a,b} for either. Without `/` it matches a
    /// name anywhere, with `/` the path that receivers see; at the end, `/` means directories only
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// List the entries that would be sent, and send nothing
    #[arg(long, conflicts_with = "status")]
    dry_run: bool,
    /// Keep the state of the transfer and of each receiver in a JSON file, which is replaced in one
    /// step
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Do not ask receivers which parts of the files they have: send all that is not resumed
    #[arg(long)]
    no_compare: bool,
    /// How long to wait for receivers, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    wait: u32,
    /// Which receivers acknowledge which packets; auto chooses nak, which is best on most networks
    #[arg(long, value_enum, default_value_t = Protocol::Auto)]
    protocol: Protocol,
    /// As paper 001 has the protocol (ack, nak, ring or tree), for its experiments: go-back-N
    /// without parity, a reservation first, the window alone, and all wait for the slowest.
    /// --window, --packet, --poll and --height are those of its Table 3 unless given
    #[arg(long)]
    paper: bool,
    /// Packets that may be under way [default: 1024; with --paper: 5 (ack), 50 (nak, ring), 20
    /// (tree)]
    #[arg(long, value_name = "PACKETS")]
    window: Option<u32>,
    /// Bytes of a packet, 64 to 65000 [default: what fits a frame; with --paper: 50000 (ack), 8000
    /// (the others)]; above a frame, datagrams are sent in fragments
    #[arg(long, value_name = "BYTES", value_parser = packet)]
    packet: Option<usize>,
    /// With nak: packets from one that all acknowledge to the next [default: an eighth of
    /// the window; with --paper: 86 % of it]; with xtp, multidriver and list: from one request to
    /// the next [default: a sixteenth of it]
    #[arg(long, value_name = "PACKETS")]
    poll: Option<u32>,
    /// With tree: receivers in a chain [default: 4; with --paper: 6]
    #[arg(long, value_name = "N")]
    height: Option<u32>,
    /// Megabits a second (0.01 to 1000000), auto (as much as the network takes, and the receivers
    /// that are waited for, see --slow; TCP on the same link gets its share), background (only what
    /// other traffic leaves), max (for a link without other traffic: TCP gets almost nothing), or
    /// window (only the window limits the rate). auto:50, background:50 and max:50 are at most 50
    /// [default: auto; with --paper: window]
    #[arg(long, value_name = "MBPS|auto|background|max|window", value_parser = rates::rate)]
    rate: Option<RateControl>,
    /// The rate from a time of the day on, or `pause`; at least two, as --rate-at 08:00=20
    /// --rate-at 18:00=auto: before the first of a day the last one holds. In local time. SIGUSR1
    /// pauses a transfer, and SIGUSR2 ends that pause
    #[arg(long, value_name = "HH:MM=RATE", conflicts_with = "rate", value_parser = rates::entry)]
    rate_at: Vec<rates::Entry>,
    /// What happens to receivers that hold back all others for a second, at any rate: to a third
    /// of all at most, and with drop also to one of two. With a fixed rate, what does not fit
    /// through a slow link is sent again until then [default: demote; with --paper: wait]
    #[arg(long, value_enum)]
    slow: Option<Slow>,
    /// Print events, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// The least bytes of a packet: with fewer, most of what is sent is headers.
const PACKET_MIN: usize = 64;

fn packet(text: &str) -> Result<usize, String> {
    let most = BulkConfig::PACKET_MAX;
    let says = format!("a packet has {PACKET_MIN} to {most} bytes");
    let packet: usize =
        number::size(text, 0, u64::MAX).map_err(|error| format!("{error}; {says}"))?;
    match (PACKET_MIN..=most).contains(&packet) {
        true => Ok(packet),
        false => Err(says),
    }
}

/// Receivers in a chain, if none is said.
const HEIGHT: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// The default for files: nak
    Auto,
    /// Every receiver acknowledges every packet
    Ack,
    /// Receivers ask for packets that they miss, and are polled
    Nak,
    /// Receivers acknowledge in turn
    Ring,
    /// Receivers acknowledge along chains
    Tree,
    /// Receivers answer requests to the group; one that misses released data is served afterwards
    Xtp,
    /// Every receiver replies to every request, and is acknowledged; no NAKs
    Multidriver,
    /// As multidriver, with subgroups in every packet and few replies at once
    List,
}

impl Protocol {
    /// Whether the sender asks all receivers at an interval of packets.
    fn is_polled(self) -> bool {
        match self {
            Self::Auto | Self::Nak | Self::Xtp | Self::Multidriver | Self::List => true,
            Self::Ack | Self::Ring | Self::Tree => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Slow {
    /// The others wait
    Wait,
    /// It is served after the others
    Demote,
    /// It is given up
    Drop,
}

/// Sends, and says what became of it.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    json::told(args.json, attempt(&args))
}

fn attempt(args: &Args) -> Result<ExitCode, Failure> {
    // It is replaced from the start, and what was there would be lost.
    if let Some(path) = &args.status
        && Scan::takes(
            &args.paths,
            &exclude(&args.exclude).unwrap_or_default(),
            path,
        )
    {
        let path = printable(path.as_os_str().as_encoded_bytes());
        return Err(Failure::usage(format!(
            "the status file {path} is among the files that are sent, and changes meanwhile"
        ))
        .help("keep it elsewhere, or leave it out with --exclude"));
    }
    let begin = |path: &Path| {
        StatusFile::begin(path).map_err(|error| {
            let path = path.display();
            Failure::failed(format!("cannot write the status to {path}: {error}"))
        })
    };
    let mut status = args.status.as_deref().map(begin).transpose()?;
    let ended = carry_out(args, status.as_mut());
    if let (Some(status), Err(failure)) = (&mut status, &ended) {
        // It may have failed before anything was sent, and before signals were caught.
        let stop = AtomicBool::new(false);
        if let Some(problem) = status.end(failure.number(), &stop) {
            tell(problem);
        }
    }
    ended
}

fn carry_out(args: &Args, mut status: Option<&mut StatusFile>) -> Result<ExitCode, Failure> {
    let bulk = args.checked_settings()?;
    let audience = args.audience(bulk.receivers_max)?;
    let rate = bulk.rate;
    let fit_packet = args.packet.is_none() && !args.paper;
    let mut link = None;
    if !args.dry_run {
        // Without a key nothing is sent: the files, which may be many, are not listed for that.
        link = Some(args.network.link_with(&args.peer, bulk, fit_packet)?);
    }
    let (cargo, label) = cargo(&args.paths, &args.exclude)?;
    let is_pipe = matches!(cargo, Cargo::Pipe(_));
    let link = match (&cargo, link) {
        (Cargo::Files(scan), None) => return dry_run(scan, args.json),
        (Cargo::Files(_), Some(link)) => link,
        (Cargo::Pipe(_), Some(link)) if args.exclude.is_empty() => link,
        (Cargo::Pipe(_), _) => {
            return Err(Failure::usage(
                "nobody knows what comes out of a pipe: --dry-run and --exclude are for files",
            ));
        }
    };
    if is_pipe && args.together {
        return Err(Failure::usage(
            "a pipe has no place that it could wait for: --together is for files",
        ));
    }
    if let Some(problem) = status.as_mut().and_then(|status| status.announce(&label)) {
        tell(problem);
    }
    let sending = Sending {
        cargo,
        label,
        audience,
        subgroups: args.subgroup.unwrap_or(Subgroups::ALL),
        together: args.together,
        strict: args.strict,
        // 001 sends every message whole.
        compare: !args.no_compare && !args.paper,
        failed_max: args.max_failed.map(usize::from),
        rates: Some(rates::follow(rate, args.rate_at.clone())?),
        link,
    };
    let stop = stop_flag()?;
    let screen = Screen::new(args.json)?;
    let report = groupcast_transfer::send(sending, &stop, &mut |event| {
        if let Some(problem) = status.as_mut().and_then(|status| status.take(&event)) {
            screen.say(problem);
        }
        screen.show(&event);
    });
    conclude(args, is_pipe, report, status, screen, &stop)
}

/// Says what became of it: the last line or summary, the status file, and the exit code.
fn conclude(
    args: &Args,
    is_pipe: bool,
    report: Result<SendReport, TransferError>,
    mut status: Option<&mut StatusFile>,
    screen: Screen,
    stop: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let (report, judged) = match report {
        Ok(report) => {
            if let Screen::Lines(printer) = &screen {
                printer.print_last(Line::Json(lines::report(&report)));
            }
            let judged = judge(
                &report,
                args.receivers.map(usize::from),
                args.subgroup,
                is_pipe,
            );
            let judged = judged.map_err(|failure| match is_without_answer(&report, &args.peer) {
                true => failure.help(Peer::advice("recv")),
                false => failure,
            });
            if let (Screen::Bars(printer), Ok(summary)) = (&screen, &judged) {
                printer.print_last(SendShown::Done(summary.clone()));
            }
            let judged = judged.map(|_| ()).map_err(Failure::accounted);
            (Some(report), judged)
        }
        Err(error) => (None, Err(explain(&error))),
    };
    // Before the last lines: whoever looks at the file need not read them.
    if let (Some(status), Some(report)) = (&mut status, &report) {
        let exit_code = judged.as_ref().map_or_else(Failure::number, |()| 0);
        if let Some(problem) = status.done(report, exit_code) {
            screen.say(problem);
        }
    }
    let ended = screen.end(stop);
    let is_read = *ended.as_ref().unwrap_or(&true);
    let lost = |error| Failure::failed(format!("cannot write the account: {error}"));
    let judged = judged.map_err(|failure| failure.read(is_read));
    let judged = judged.and_then(|()| ended.map(|_| ()).map_err(lost));
    if let Some(status) = &mut status {
        // An account that is lost is a failure, too.
        let exit_code = judged.as_ref().map_or_else(Failure::number, |()| 0);
        match status.end(exit_code, stop) {
            Some(problem) if is_read => tell(problem),
            Some(problem) => tell_unread(problem),
            None => {}
        }
    }
    judged.map(|()| ExitCode::SUCCESS)
}

/// Refuses settings that cannot work, by the options that choose them: `rate` is the one of the
/// rate.
fn check(bulk: &BulkConfig, rate: &'static str) -> Result<(), Failure> {
    let gives_way = matches!(
        bulk.rate,
        RateControl::Adaptive {
            share: Share::Rest,
            ..
        }
    );
    if gives_way && !bulk.policy.has_round_trips() {
        return Err(Failure::usage(format!(
            "{rate} background is for --protocol nak, ack and ring: with the others the sender does not see what other \
             traffic leaves. Choose one of these, or a rate in Mb/s, as {}",
            match rate {
                "--rate" => "--rate 20",
                _ => "--rate-at 08:00=20",
            }
        )));
    }
    bulk.validate().map_err(|error| {
        let option = match error.field {
            "poll" | "request_every" | "round_every" => "--poll",
            "rate" => rate,
            "window" => "--window",
            "packet" => "--packet",
            "height" => "--height",
            field => return Failure::usage(format!("the setting {field}: {}", error.problem())),
        };
        Failure::usage(format!("{option}: {}; {}", error.problem(), error.remedy))
    })
}

/// Where a sender's events are shown.
enum Screen {
    Lines(Printer<Line>),
    Bars(Printer<SendShown>),
}

impl Screen {
    fn new(json: bool) -> Result<Self, Failure> {
        match json {
            true => lines::printer(true).map(Self::Lines),
            false => SendBars::printer().map(Self::Bars),
        }
    }

    fn show(&self, event: &SendEvent<'_>) {
        match self {
            Self::Lines(printer) => lines::print(printer, lines::sent(event)),
            Self::Bars(printer) => SendShown::print(printer, event),
        }
    }

    /// A line for people.
    fn say(&self, text: String) {
        match self {
            Self::Lines(printer) => printer.print(Line::Text(text)),
            Self::Bars(printer) => printer.print(SendShown::Say(text)),
        }
    }

    /// As [`Printer::end`].
    fn end(self, stop: &AtomicBool) -> io::Result<bool> {
        match self {
            Self::Lines(printer) => printer.end(stop),
            Self::Bars(printer) => printer.end(stop),
        }
    }
}

/// Says what would be sent.
fn dry_run(scan: &Scan, json: bool) -> Result<ExitCode, Failure> {
    printed(super::dry_run::list(&scan.manifest, json))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn settings(&self) -> Result<BulkConfig, Failure> {
        if self.paper {
            return paper::settings(self);
        }
        let defaults = BulkConfig::lan();
        let window = self.window.unwrap_or(defaults.window);
        let rounds = Multidriver {
            every: self.poll.unwrap_or((window / 16).max(1)),
            ..Multidriver::for_window(window)
        };
        let policy = match self.protocol {
            Protocol::Auto | Protocol::Nak => Policy::Nak {
                poll: self.poll.unwrap_or((window / 8).max(1)),
            },
            Protocol::Ack => Policy::Ack,
            Protocol::Ring => Policy::Ring,
            Protocol::Tree => Policy::Tree {
                height: self.height.unwrap_or(HEIGHT),
            },
            Protocol::Xtp => Policy::Xtp(Xtp {
                every: self.poll.unwrap_or((window / 16).max(1)),
                ..Xtp::for_window(window)
            }),
            Protocol::Multidriver => Policy::Multidriver(rounds),
            Protocol::List => Policy::List(rounds),
        };
        let parity = policy.takes_parity();
        Ok(BulkConfig {
            policy,
            block: defaults.block.filter(|_| parity),
            window,
            packet: self.packet.unwrap_or(defaults.packet),
            rate: self.rate.unwrap_or(defaults.rate),
            slow: match self.slow {
                Some(Slow::Wait) => SlowPolicy::Wait,
                Some(Slow::Demote) | None => SlowPolicy::Demote,
                Some(Slow::Drop) => SlowPolicy::Drop,
            },
            register_within: self.register_within(),
            ..defaults
        })
    }

    /// The settings, if they can work together.
    fn checked_settings(&self) -> Result<BulkConfig, Failure> {
        let bulk = self.settings()?;
        check(&bulk, "--rate")?;
        if self.height.is_some() && self.protocol != Protocol::Tree {
            return Err(Failure::usage(
                "--height is for --protocol tree: with the others there are no chains",
            ));
        }
        if self.poll.is_some() && !self.protocol.is_polled() {
            return Err(Failure::usage(
                "--poll is for --protocol nak, xtp, multidriver and list: with the others nobody is asked at an interval",
            ));
        }
        for rate in self.rate_at.iter().filter_map(rates::Entry::rate) {
            let bulk = BulkConfig {
                rate,
                ..bulk.clone()
            };
            check(&bulk, "--rate-at")?;
        }
        if bulk.rate == RateControl::FAIR
            && self.rate_at.is_empty()
            && !bulk.policy.has_round_trips()
        {
            tell(
                "with this --protocol the rate `auto` is `max`: TCP on the same link is left with next to nothing; --rate MBPS bounds it",
            );
        }
        Ok(bulk)
    }

    fn register_within(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }

    fn audience(&self, receivers_max: usize) -> Result<Audience, Failure> {
        if self.min.is_some() || self.max.is_some() {
            let min = self.min.map_or(1, usize::from);
            let max = self.max.map_or(receivers_max, usize::from);
            return match min <= max {
                true => Ok(Audience::Between { min, max }),
                false => Err(Failure::usage(format!(
                    "--min {min} is more than the most that are served, {max}"
                ))),
            };
        }
        if let Some(path) = &self.list {
            return super::list_file::read(path, receivers_max).map(Audience::Listed);
        }
        if !self.to.is_empty() {
            let names = each_once(&self.to).into_iter();
            let listed = names.map(|name| (name, Subgroups::ALL)).collect();
            return Ok(Audience::Listed(listed));
        }
        Ok(match self.receivers {
            Some(count) => Audience::Count(count.into()),
            None if self.require.is_empty() => Audience::Anybody,
            None => Audience::Required(each_once(&self.require)),
        })
    }
}

/// The names without those that stand there before.
fn each_once(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = names.iter().filter(|name| seen.insert(*name));
    names.cloned().collect()
}

/// What `patterns` leave out.
fn exclude(patterns: &[String]) -> Result<Exclude, Failure> {
    Exclude::new(patterns.iter().map(String::as_str)).map_err(Failure::usage)
}

/// What is sent, and its name for people.
fn cargo(paths: &[PathBuf], patterns: &[String]) -> Result<(Cargo, String), Failure> {
    let exclude = exclude(patterns)?;
    if let [path] = paths
        && path == Path::new("-")
    {
        // Not the standard library's: that one keeps bytes back in a buffer of its own.
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        let stdin = stdin
            .map_err(|error| Failure::failed(format!("cannot read the standard input: {error}")))?;
        return Ok((Cargo::Pipe(Box::new(File::from(stdin))), "stdin".into()));
    }
    if paths.iter().any(|path| path == Path::new("-")) {
        return Err(Failure::usage(
            "the standard input cannot be sent together with files",
        ));
    }
    let scan = Scan::without(paths, &exclude).map_err(|error| match error {
        ScanError::SameName { .. }
        | ScanError::Nameless { .. }
        | ScanError::Special { .. }
        | ScanError::Sizeless { .. } => Failure::usage(error),
        error => Failure::failed(error),
    })?;
    for skipped in &scan.skipped {
        tell(format_args!(
            "not sent: {} is {}",
            printable(skipped.path.as_os_str().as_encoded_bytes()),
            skipped.what
        ));
    }
    if scan.manifest.entries().is_empty() {
        return Err(Failure::usage("--exclude leaves out everything"));
    }
    for pattern in patterns {
        if let Some(first) = begins_elsewhere(pattern, paths, &scan) {
            let pattern = printable(pattern.as_bytes());
            let first = printable(first.as_bytes());
            tell(format_args!(
                "warning: --exclude {pattern} leaves out nothing: with a `/` it is for whole paths as receivers see \
                 them, and none begins with `{first}`"
            ));
        }
    }
    if scan.excluded > 0 {
        let left_out = number_of(scan.excluded as u64, "entry", "entries");
        tell(format_args!("left out: {left_out}"));
    }
    let names: Vec<String> = scan
        .manifest
        .entries()
        .iter()
        .filter(|entry| !entry.path.contains(&b'/'))
        .map(|entry| printable(&entry.path))
        .collect();
    Ok((Cargo::Files(scan), names.join(", ")))
}

/// The first name of a `pattern` for whole paths that is the first of no path of what is sent.
fn begins_elsewhere<'p>(pattern: &'p str, paths: &[PathBuf], scan: &Scan) -> Option<&'p str> {
    let anchored = pattern.trim_end_matches('/');
    let first = anchored.trim_start_matches('/').split('/').next()?;
    let is_plain = !first.contains(['*', '?', '[', '{', '\\']);
    let entries = scan.manifest.entries().iter();
    let mut sent = entries.map(|entry| &entry.path[..]);
    let is_of = |path: &[u8]| path.split(|byte| *byte == b'/').next() == Some(first.as_bytes());
    // What is left out whole is not among the entries.
    let mut named = paths.iter().filter_map(|path| path.file_name());
    let is_sent = sent.any(is_of) || named.any(|name| name == first);
    (anchored.contains('/') && is_plain && !is_sent).then_some(first)
}
