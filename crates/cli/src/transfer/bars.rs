//! Progress bars on a terminal: one for the transfer, and at the sender one for each receiver.
//!
//! Without a terminal there are no bars, and messages are lines on stderr.

use std::collections::BTreeMap;
use std::time::Instant;

use groupcast_core::text::printable;
use groupcast_protocols::bulk::{Outcome, PhaseKind, Progress};
use groupcast_transfer::{Described, ReceiveEvent, SendEvent, Stranger};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::amount;
use super::rates;
use super::send::in_words;
use super::speed::Speed;
use crate::failure::tell;
use crate::number::{self, number_of};

/// The bars of a sender.
pub(super) struct SendBars {
    all: MultiProgress,
    total: Option<ProgressBar>,
    speed: Speed,
    receivers: BTreeMap<String, ProgressBar>,
}

impl SendBars {
    /// With more receivers than this, receivers have no bars.
    const RECEIVERS_MAX: usize = 16;

    pub(super) fn new() -> Self {
        Self {
            all: MultiProgress::new(),
            total: None,
            speed: Speed::default(),
            receivers: BTreeMap::new(),
        }
    }

    pub(super) fn show(&mut self, event: &SendEvent<'_>) {
        match event {
            SendEvent::Announced { bytes, entries } => match bytes {
                Some(bytes) => self.say(&format!(
                    "{}, {}: looking for receivers",
                    number_of(*entries as u64, "entry", "entries"),
                    amount(*bytes)
                )),
                None => self.say("looking for receivers"),
            },
            SendEvent::Registered {
                receiver,
                address,
                copies,
            } => {
                let copies = if *copies { ", by copies" } else { "" };
                match address {
                    Some(address) => {
                        self.say(&format!("{receiver} takes part ({address}{copies})"));
                    }
                    None => self.say(&format!("{receiver} takes part")),
                }
            }
            SendEvent::Started { receivers } => {
                self.say(&format!("sending to {}", number::receivers(*receivers)));
            }
            SendEvent::Stranger(stranger) => self.say(&in_words_of(stranger)),
            SendEvent::Progress {
                progress,
                names,
                sent,
                ..
            } => self.progress(progress, names, *sent),
            SendEvent::Rate { rate: None } => self.say("it pauses"),
            SendEvent::Rate { rate } => self.say(&format!("rate: {}", rates::name(*rate))),
            SendEvent::Outrun { receiver } => {
                self.say(&format!("{receiver} misses what was released"));
            }
            SendEvent::Settled { receiver, outcome } => {
                if let Some(bar) = self.receivers.remove(*receiver) {
                    bar.finish_and_clear();
                }
                if **outcome != Outcome::Complete {
                    self.say(&format!("{receiver}: {}", in_words(outcome)));
                }
            }
            _ => {}
        }
    }

    /// Takes the bars off the terminal.
    pub(super) fn close(self) {
        for bar in self.receivers.into_values().chain(self.total) {
            bar.finish_and_clear();
        }
    }

    fn progress(&mut self, progress: &Progress, names: &[&str], sent: u64) {
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
                .entry((*name).to_owned())
                .or_insert_with(|| all.add(bar(progress.length).with_prefix((*name).to_owned())));
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

/// The bars of a receiver: one a transfer.
pub(super) struct ReceiveBars {
    all: MultiProgress,
    transfers: BTreeMap<String, (ProgressBar, Speed)>,
}

impl ReceiveBars {
    pub(super) fn new() -> Self {
        Self {
            all: MultiProgress::new(),
            transfers: BTreeMap::new(),
        }
    }

    pub(super) fn show(&mut self, event: &ReceiveEvent<'_>) {
        match event {
            ReceiveEvent::Stranger(stranger) => self.say(&in_words_of(stranger)),
            ReceiveEvent::Shared { directory } => self.say(&format!(
                "warning: other users can write to {}: they can replace what arrives there",
                printable(directory.as_os_str().as_encoded_bytes())
            )),
            ReceiveEvent::Listening => self.say("ready to receive"),
            ReceiveEvent::Accepted { transfer, held } => {
                let known = match held {
                    0 => String::new(),
                    held => format!(", {} of it are here already", amount(*held)),
                };
                self.say(&format!("receiving {}{known}", describe(transfer)));
                let bar = bar(transfer.length).with_prefix(transfer.label.clone());
                let mut speed = Speed::default();
                speed.moved(Instant::now(), *held);
                let shown = (self.all.add(bar), speed);
                self.transfers.insert(key(transfer), shown);
            }
            ReceiveEvent::Refused { transfer, reason } => {
                self.say(&format!("refused {}: {reason}", describe(transfer)));
            }
            ReceiveEvent::Progress { transfer, received } => {
                if let Some((bar, speed)) = self.transfers.get_mut(&key(transfer)) {
                    speed.moved(Instant::now(), *received);
                    bar.set_position(*received);
                    let left = transfer.length.map(|all| all.saturating_sub(*received));
                    bar.set_message(speed.describe(left));
                }
            }
            ReceiveEvent::Outrun { transfer } => {
                let described = describe(transfer);
                self.say(&format!(
                    "{described}: the sender has released what is missing here"
                ));
            }
            ReceiveEvent::Complete {
                transfer,
                received,
                took,
            } => {
                self.remove(transfer);
                self.say(&format!(
                    "complete: {}, {} in {:.2} s",
                    describe(transfer),
                    amount(*received),
                    took.as_secs_f64()
                ));
            }
            ReceiveEvent::Failed {
                transfer,
                reason,
                kept,
            } => {
                self.remove(transfer);
                let kept = match kept {
                    true => "; what has arrived is kept, to be resumed",
                    false => "",
                };
                self.say(&format!("failed: {}: {reason}{kept}", describe(transfer)));
            }
            _ => {}
        }
    }

    fn remove(&mut self, transfer: &Described) {
        if let Some((bar, _)) = self.transfers.remove(&key(transfer)) {
            bar.finish_and_clear();
        }
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
