//! Progress bars on a terminal: one for the transfer, and at the sender one for each receiver.
//!
//! Without a terminal there are no bars, and messages are lines on stderr. Bars are drawn on the
//! printing thread (`printer.rs`); here an event becomes what is to be drawn, too.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use groupcast_core::text::printable;
use groupcast_protocols::bulk::{Outcome, PhaseKind, Progress};
use groupcast_transfer::{Described, Life, ReceiveEvent, SendEvent, Stranger};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::amount;
use super::lines::{left_out, served_in_words};
use super::printer::{Print, Printer};
use super::rates;
use super::send::in_words;
use super::speed::Speed;
use crate::failure::{Failure, tell};
use crate::number::{self, number_of};

/// What a user sees of a sender.
pub(super) enum SendShown {
    /// A line.
    Say(String),
    /// How far it is: of each receiver, its name, and how many bytes were sent.
    Progress(Progress, Vec<String>, u64),
    /// A receiver is settled; why it is not complete, or that it is although it was restarted.
    Settled(String, Option<String>),
    /// All is over, and this is the last line.
    Done(String),
}

impl SendShown {
    /// What there is to be seen of `event`.
    fn of(event: &SendEvent<'_>) -> Option<Self> {
        Some(match event {
            SendEvent::Announced { bytes, entries } => Self::Say(match bytes {
                Some(bytes) => format!(
                    "{}, {}: looking for receivers",
                    number_of(*entries as u64, "entry", "entries"),
                    amount(*bytes)
                ),
                None => "looking for receivers".into(),
            }),
            SendEvent::Registered {
                receiver,
                address,
                copies,
                back,
            } => {
                let copies = if *copies { ", by copies" } else { "" };
                let place = match address {
                    Some(address) => format!(" ({address}{copies})"),
                    None => String::new(),
                };
                Self::Say(match back {
                    Some(former) => format!("{former} came back, as {receiver}"),
                    None => format!("{receiver} takes part{place}"),
                })
            }
            SendEvent::Waiting {
                names,
                missing,
                here,
                left,
            } => Self::Say(waiting(names, *missing, *here, left.as_secs())),
            SendEvent::Comparing { bytes } => Self::Say(format!(
                "reading {}, to compare it with what receivers have",
                amount(*bytes)
            )),
            SendEvent::Unconcluded { names, compare } => Self::Say(unconcluded(names, *compare)),
            SendEvent::CameLate { receiver, address } => Self::Say(came_late(receiver, *address)),
            SendEvent::Started { receivers } => {
                Self::Say(format!("sending to {}", number::receivers(*receivers)))
            }
            SendEvent::Stranger(stranger) => Self::Say(in_words_of(stranger)),
            SendEvent::Trouble { problem } => Self::Say(trouble(problem)),
            SendEvent::Warning { problem } => Self::Say(warning(problem)),
            SendEvent::Progress {
                progress,
                names,
                sent,
                ..
            } => {
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                Self::Progress((*progress).clone(), names, *sent)
            }
            SendEvent::Rate { rate } => Self::Say(rates::in_words(*rate)),
            SendEvent::Outrun { receiver } => {
                Self::Say(format!("{receiver} misses what was released"))
            }
            SendEvent::Settled {
                receiver,
                outcome,
                life,
            } => {
                // That it came back was said.
                let is_told = !matches!(
                    (life, outcome),
                    (Life::Former, Outcome::Vanished | Outcome::Complete)
                        | (Life::Only, Outcome::Complete)
                );
                let outcome = is_told.then(|| in_words(outcome));
                Self::Settled((*receiver).to_owned(), outcome)
            }
            _ => return None,
        })
    }

    /// Has it printed.
    pub(super) fn print(printer: &Printer<Self>, event: &SendEvent<'_>) {
        match Self::of(event) {
            Some(shown @ Self::Progress(..)) => printer.print_stale(shown),
            Some(shown) => printer.print(shown),
            None => {}
        }
    }
}

/// The most names in a line of those that a sender waits for.
const NAMES_MAX: usize = 8;

/// Which receivers have not concluded, though everything is sent to them.
fn unconcluded(names: &[&str], compare: bool) -> String {
    let named = names.iter().take(NAMES_MAX).copied().map(String::from);
    let others = names.len().saturating_sub(NAMES_MAX) as u64;
    let others = (others > 0).then(|| number_of(others, "other", "others"));
    let named: Vec<String> = named.chain(others).collect();
    let named = named.join(", ");
    match compare {
        true => format!("waiting for {named}: they look through what they have of the files"),
        false => format!(
            "waiting for {named}: everything is sent, and they put it in place or run a command"
        ),
    }
}

/// For whom a sender waits.
fn waiting(names: &[&str], missing: usize, here: usize, left: u64) -> String {
    let left = number_of(left, "second", "seconds");
    if missing == 0 && here > 0 {
        return format!("as many are here as are needed ({here}); others may come for {left} more");
    }
    if missing == 0 {
        return format!("no receiver has answered yet; {left} more");
    }
    let named = names.iter().take(NAMES_MAX).copied();
    let others = missing.saturating_sub(names.len().min(NAMES_MAX));
    let others = match (others, names.is_empty()) {
        (0, _) => None,
        (_, true) => Some(format!("{missing} more")),
        (others, false) => Some(number_of(others as u64, "other", "others")),
    };
    let named: Vec<String> = named.map(String::from).chain(others).collect();
    format!(
        "waiting for {} ({here} here); {left} more",
        named.join(", ")
    )
}

/// The bars of a sender.
pub(super) struct SendBars {
    all: MultiProgress,
    total: Option<ProgressBar>,
    speed: Speed,
    receivers: BTreeMap<String, ProgressBar>,
}

impl Print for SendBars {
    type Item = SendShown;

    fn print(&mut self, shown: SendShown) {
        match shown {
            SendShown::Say(text) => self.say(&text),
            SendShown::Progress(progress, names, sent) => self.progress(&progress, &names, sent),
            SendShown::Settled(receiver, problem) => {
                if let Some(bar) = self.receivers.remove(&receiver) {
                    bar.finish_and_clear();
                }
                if let Some(problem) = problem {
                    self.say(&format!("{receiver}: {problem}"));
                }
            }
            SendShown::Done(text) => {
                self.clear();
                tell(text);
            }
        }
    }

    fn left_out(&mut self, lines: u64) {
        self.say(&left_out(lines));
    }

    fn close(mut self) -> io::Result<()> {
        self.clear();
        Ok(())
    }
}

impl SendBars {
    /// With more receivers than this, receivers have no bars.
    const RECEIVERS_MAX: usize = 16;

    /// A printer of bars.
    pub(super) fn printer() -> Result<Printer<SendShown>, Failure> {
        Printer::start(Self {
            all: MultiProgress::new(),
            total: None,
            speed: Speed::default(),
            receivers: BTreeMap::new(),
        })
    }

    /// Takes the bars off the terminal.
    fn clear(&mut self) {
        let receivers = std::mem::take(&mut self.receivers);
        for bar in receivers.into_values().chain(self.total.take()) {
            bar.finish_and_clear();
        }
    }

    fn progress(&mut self, progress: &Progress, names: &[String], sent: u64) {
        self.speed.moved(Instant::now(), sent);
        let left = progress
            .length
            .map(|length| length.saturating_sub(progress.position));
        let all = &self.all;
        let total = self
            .total
            .get_or_insert_with(|| all.add(bar(progress.length)));
        total.set_position(progress.position);
        total.set_prefix("all");
        total.set_message(match progress.phase {
            PhaseKind::Concluding => "waiting for the receivers to put it in place".to_owned(),
            _ => format!("{:34} pass {}", self.speed.describe(left), progress.pass),
        });
        if names.len() > Self::RECEIVERS_MAX {
            return;
        }
        for (receiver, name) in progress.receivers.iter().zip(names) {
            let bar = self
                .receivers
                .entry(name.clone())
                .or_insert_with(|| all.add(bar(progress.length).with_prefix(name.clone())));
            bar.set_position(receiver.held);
            let loss = f64::from(receiver.loss_permille) / 10.0;
            let later = if receiver.waited_for {
                ""
            } else {
                ", served later"
            };
            bar.set_message(format!("{loss:.1} % lost{later}"));
        }
    }

    fn say(&self, text: &str) {
        say(&self.all, text);
    }
}

/// That a stream began before this receiver came, for people.
fn missed(address: Option<SocketAddr>) -> String {
    let from = address.map_or_else(String::new, |address| format!(" from {address}"));
    format!("a stream{from} began before this receiver came: nothing of it comes here")
}

/// What a user sees of a receiver. Transfers are known by their [`key`].
pub(super) enum ReceiveShown {
    /// A line.
    Say(String),
    /// A transfer begins, of which so many bytes are here.
    Begin(Described, u64),
    /// So many bytes of a transfer are here.
    Progress(Described, u64),
    /// A transfer has ended.
    End(String, String),
}

impl ReceiveShown {
    /// What there is to be seen of `event`.
    fn of(event: &ReceiveEvent<'_>) -> Option<Self> {
        Some(match event {
            ReceiveEvent::Stranger(stranger) => Self::Say(in_words_of(stranger)),
            ReceiveEvent::Trouble { problem } => Self::Say(trouble(problem)),
            ReceiveEvent::Warning { problem } => Self::Say(warning(problem)),
            ReceiveEvent::Shared { directory } => Self::Say(format!(
                "warning: other users can write to {}: they can replace what arrives there",
                printable(directory.as_os_str().as_encoded_bytes())
            )),
            ReceiveEvent::Renewed { directory } => Self::Say(format!(
                "{} was removed or moved away: it is made anew",
                printable(directory.as_os_str().as_encoded_bytes())
            )),
            ReceiveEvent::Rejoined { address } => Self::Say(match address {
                Some(address) => {
                    format!("the interface has the address {address} now: joined again")
                }
                None => "the interface is back: joined again".into(),
            }),
            ReceiveEvent::Listening => Self::Say("ready to receive".into()),
            ReceiveEvent::Accepted { transfer, held } => Self::Begin((*transfer).clone(), *held),
            ReceiveEvent::Refused { transfer, reason } => {
                Self::Say(format!("refused {}: {reason}", describe(transfer)))
            }
            ReceiveEvent::Progress { transfer, received } => {
                Self::Progress((*transfer).clone(), *received)
            }
            ReceiveEvent::Served { transfer, served } => Self::Say(format!(
                "{}: {}",
                describe(transfer),
                served_in_words(*served)
            )),
            ReceiveEvent::Missed { address } => Self::Say(missed(*address)),
            ReceiveEvent::Outrun { transfer } => Self::Say(format!(
                "{}: the sender has released what is missing here",
                describe(transfer)
            )),
            ReceiveEvent::Complete {
                transfer,
                received,
                took,
            } => {
                let text = format!(
                    "complete: {}, {} in {:.2} s",
                    describe(transfer),
                    amount(*received),
                    took.as_secs_f64()
                );
                Self::End(key(transfer), text)
            }
            ReceiveEvent::Failed {
                transfer,
                reason,
                kept,
            } => {
                let kept = match kept {
                    true => "; what has arrived is kept, to be resumed",
                    false => "",
                };
                let text = format!("failed: {}: {reason}{kept}", describe(transfer));
                Self::End(key(transfer), text)
            }
            _ => return None,
        })
    }

    /// Has it printed.
    pub(super) fn print(printer: &Printer<Self>, event: &ReceiveEvent<'_>) {
        match Self::of(event) {
            Some(shown @ Self::Progress(..)) => printer.print_stale(shown),
            Some(shown) => printer.print(shown),
            None => {}
        }
    }
}

/// The bars of a receiver: one a transfer.
pub(super) struct ReceiveBars {
    all: MultiProgress,
    transfers: BTreeMap<String, (ProgressBar, Speed)>,
}

impl Print for ReceiveBars {
    type Item = ReceiveShown;

    fn print(&mut self, shown: ReceiveShown) {
        match shown {
            ReceiveShown::Say(text) => self.say(&text),
            ReceiveShown::Begin(transfer, held) => {
                let known = match held {
                    0 => String::new(),
                    held => format!(", {} of it are here already", amount(held)),
                };
                self.say(&format!("receiving {}{known}", describe(&transfer)));
                if let Some((bar, _)) = self.transfers.remove(&key(&transfer)) {
                    // It followed another one, and brings the rest itself.
                    bar.finish_and_clear();
                }
                let bar = bar(transfer.length).with_prefix(transfer.label.clone());
                let mut speed = Speed::default();
                speed.moved(Instant::now(), held);
                let shown = (self.all.add(bar), speed);
                self.transfers.insert(key(&transfer), shown);
            }
            ReceiveShown::Progress(transfer, received) => {
                if let Some((bar, speed)) = self.transfers.get_mut(&key(&transfer)) {
                    speed.moved(Instant::now(), received);
                    bar.set_position(received);
                    let left = transfer.length.map(|all| all.saturating_sub(received));
                    bar.set_message(speed.describe(left));
                }
            }
            ReceiveShown::End(key, text) => {
                if let Some((bar, _)) = self.transfers.remove(&key) {
                    bar.finish_and_clear();
                }
                self.say(&text);
            }
        }
    }

    fn left_out(&mut self, lines: u64) {
        self.say(&left_out(lines));
    }

    fn close(self) -> io::Result<()> {
        for (bar, _) in self.transfers.into_values() {
            bar.finish_and_clear();
        }
        Ok(())
    }
}

impl ReceiveBars {
    /// A printer of bars.
    pub(super) fn printer() -> Result<Printer<ReceiveShown>, Failure> {
        Printer::start(Self {
            all: MultiProgress::new(),
            transfers: BTreeMap::new(),
        })
    }

    fn say(&self, text: &str) {
        say(&self.all, text);
    }
}

fn key(transfer: &Described) -> String {
    format!("{}-{}", transfer.id.sender, transfer.id.number)
}

fn describe(transfer: &Described) -> String {
    format!("{} from {}", transfer.label, transfer.sender)
}

/// In words, why a sender whose datagrams arrive here does not take part.
fn in_words_of(stranger: &Stranger) -> String {
    format!("{} does not take part: {}", stranger.last, stranger.hint)
}

/// That a receiver came too late, for people.
pub(super) fn came_late(receiver: &str, address: Option<SocketAddr>) -> String {
    let place = address.map_or_else(String::new, |it| format!(" ({it})"));
    format!("{receiver}{place} came too late, and gets nothing of it")
}

/// What keeps a host from its group, for people.
pub(super) fn trouble(problem: &str) -> String {
    format!("warning: {problem}; it is tried again each second")
}

/// What a user could do something about, for people.
pub(super) fn warning(problem: &str) -> String {
    format!("warning: {problem}")
}

/// A line above the bars, or on stderr where there is no terminal.
fn say(all: &MultiProgress, text: &str) {
    all.suspend(|| tell(text));
}

fn bar(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{prefix:16} {bar:30} {binary_bytes:>11} of {binary_total_bytes:11} {msg}",
        ),
        None => (
            ProgressBar::no_length(),
            "{prefix:16} {binary_bytes:>11} {msg}",
        ),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
