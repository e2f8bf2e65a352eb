//! The rate of `groupcast send`: fixed, by the time of the day, and pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use groupcast_protocols::bulk::{RateControl, Share};
use groupcast_transfer::Rates;
use jiff::ZonedDateTime;
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::failure::Failure;

/// The bytes in a megabit: `--rate` is in megabits a second.
const BYTES_PER_MEGABIT: f64 = 125_000.0;

/// The rate from a minute of the day on; `None`: a pause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    /// Minutes after midnight, local time.
    minute: u16,
    rate: Option<RateControl>,
}

impl Entry {
    /// The rate; `None`: a pause.
    pub(super) fn rate(&self) -> Option<RateControl> {
        self.rate
    }
}

/// The rate that `text` names: `20`, `auto`, `auto:50`.
pub(super) fn rate(text: &str) -> Result<RateControl, String> {
    let (word, most) = match text.split_once(':') {
        Some((word, most)) => (word, Some(most)),
        None => (text, None),
    };
    let share = match word {
        "auto" => Share::Fair,
        "max" => Share::All,
        "background" => Share::Rest,
        "fair" => return Err("`fair` is the default now: --rate auto".into()),
        _ if most.is_some() => {
            return Err(
                "only a rate that is found has a ceiling: auto:50, background:50, max:50".into(),
            );
        }
        "window" => return Ok(RateControl::Window),
        _ => {
            let bytes_per_second = bytes_per_second(text)
                .ok_or("not a rate: megabits a second from 0.01 to 1000000, auto, background, max or window")?;
            return Ok(RateControl::Fixed { bytes_per_second });
        }
    };
    let max = match most {
        Some(most) => Some(bytes_per_second(most).ok_or_else(|| {
            format!(
                "not a ceiling: {most}; megabits a second from 0.01 to 1000000, as in {word}:50"
            )
        })?),
        None => None,
    };
    Ok(RateControl::Adaptive { max, share })
}

/// What a number of megabits a second is in bytes; `None` if `text` is none that can be had.
fn bytes_per_second(text: &str) -> Option<u64> {
    let rate: f64 = text.parse().ok()?;
    let is_possible = (0.01..=1e6).contains(&rate);
    is_possible.then_some((rate * BYTES_PER_MEGABIT) as u64)
}

/// Bytes a second in megabits.
fn megabits(bytes_per_second: u64) -> f64 {
    bytes_per_second as f64 / BYTES_PER_MEGABIT
}

/// The entry of a schedule that `text` names: `18:00=auto`, `8:00=pause`.
pub(super) fn entry(text: &str) -> Result<Entry, String> {
    let form = || format!("not a time of the day and a rate: {text}; as in 18:00=auto");
    let (time, named) = text.split_once('=').ok_or_else(form)?;
    let (hour, minute) = time.split_once(':').ok_or_else(form)?;
    let number = |digits: &str, most: u16| {
        let number: u16 = digits.parse().ok()?;
        let is_plain = digits.len() <= 2 && digits.bytes().all(|it| it.is_ascii_digit());
        (is_plain && number <= most).then_some(number)
    };
    let minute = number(hour, 23).zip(number(minute, 59).filter(|_| minute.len() == 2));
    let (hour, minute) = minute.ok_or_else(form)?;
    Ok(Entry {
        minute: hour * 60 + minute,
        rate: match named {
            "pause" => None,
            named => Some(rate(named).map_err(|error| format!("{error}, or pause"))?),
        },
    })
}

/// Rates by the time of the day.
#[derive(Debug)]
struct Schedule {
    /// The entries in the order of their times; not empty.
    entries: Vec<Entry>,
}

impl Schedule {
    fn new(mut entries: Vec<Entry>) -> Result<Self, Failure> {
        entries.sort_by_key(|entry| entry.minute);
        if entries.iter().all(|entry| entry.rate.is_none()) {
            return Err(Failure::usage(
                "--rate-at names nothing but pauses: the transfer would never go on",
            ));
        }
        if let [_] = entries.as_slice() {
            return Err(Failure::usage(
                "--rate-at is given once: say with a second one when that rate ends",
            ));
        }
        if let Some([one, _]) = entries
            .array_windows()
            .find(|[one, other]| one.minute == other.minute)
        {
            let (hour, minute) = (one.minute / 60, one.minute % 60);
            return Err(Failure::usage(format!(
                "--rate-at names {hour:02}:{minute:02} twice"
            )));
        }
        Ok(Self { entries })
    }

    /// The rate at a minute of the day; before the first entry, that of the last one.
    fn at(&self, minute: u16) -> Option<RateControl> {
        let begun = self.entries.partition_point(|entry| entry.minute <= minute);
        let index = begun.checked_sub(1).unwrap_or(self.entries.len() - 1);
        self.entries[index].rate
    }
}

/// The state that the last signal set.
const GOES: usize = 0;
const PAUSED: usize = 1;

/// The current rate at any moment: `rate`, or that of the schedule if there is one; none while the
/// user pauses the transfer.
pub(super) fn follow(rate: RateControl, schedule: Vec<Entry>) -> Result<Rates, Failure> {
    let schedule = match schedule.is_empty() {
        true => None,
        false => Some(Schedule::new(schedule)?),
    };
    let said = Arc::new(AtomicUsize::new(GOES));
    for (signal, says) in [(SIGUSR1, PAUSED), (SIGUSR2, GOES)] {
        signal_hook::flag::register_usize(signal, Arc::clone(&said), says)
            .map_err(|error| Failure::failed(format!("cannot catch signals: {error}")))?;
    }
    Ok(Box::new(move || {
        if said.load(Ordering::Relaxed) == PAUSED {
            return None;
        }
        schedule
            .as_ref()
            .map_or(Some(rate), |schedule| schedule.at(minute_now()))
    }))
}

/// Minutes since midnight, by the host's clock and time zone.
fn minute_now() -> u16 {
    let now = ZonedDateTime::now();
    u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs())
}

/// What a sender says of a rate from now on.
pub(super) fn in_words(rate: Option<RateControl>) -> String {
    match rate {
        None => "the transfer pauses".into(),
        Some(RateControl::Fixed { .. }) => format!("rate: {} Mb/s", name(rate)),
        _ => format!("rate: {}", name(rate)),
    }
}

/// A rate as `--rate-at` reads it.
pub(super) fn name(rate: Option<RateControl>) -> String {
    match rate {
        None => "pause".into(),
        Some(RateControl::Window) => "window".into(),
        Some(RateControl::Adaptive { share, max }) => {
            let word = match share {
                Share::Fair => "auto",
                Share::Rest => "background",
                Share::All => "max",
            };
            match max {
                Some(max) => format!("{word}:{}", megabits(max)),
                None => word.into(),
            }
        }
        Some(RateControl::Fixed { bytes_per_second }) => megabits(bytes_per_second).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(megabits: u64) -> Option<RateControl> {
        Some(RateControl::Fixed {
            bytes_per_second: megabits * 125_000,
        })
    }

    fn schedule(entries: &[&str]) -> Schedule {
        let entries = entries.iter().map(|text| entry(text).unwrap());
        Schedule::new(entries.collect()).unwrap()
    }

    #[test]
    fn each_entry_holds_until_the_next_and_over_midnight() {
        let office = schedule(&["18:00=window", "8:00=20", "12:30=pause"]);
        let at = |hour: u16, minute: u16| office.at(hour * 60 + minute);
        assert_eq!(at(8, 0), fixed(20));
        assert_eq!(at(12, 29), fixed(20));
        assert_eq!(at(12, 30), None);
        assert_eq!(at(18, 0), Some(RateControl::Window));
        assert_eq!(at(23, 59), Some(RateControl::Window));
        assert_eq!(at(0, 0), Some(RateControl::Window));
        assert_eq!(at(7, 59), Some(RateControl::Window));
    }

    #[test]
    fn what_is_no_entry_is_refused_with_the_form() {
        for text in [
            "",
            "8",
            "8=20",
            "8:00",
            "24:00=20",
            "8:60=20",
            "8:0=20",
            "+8:00=20",
            "008:00=20",
            "8:00:00=1",
        ] {
            let error = entry(text).unwrap_err();
            assert!(error.contains("18:00=auto"), "{text}: {error}");
        }
        assert!(entry("8:00=fast").unwrap_err().contains("or pause"));
        assert!(entry("8:00=0").is_err());
        assert!(entry("8:00=fair").unwrap_err().contains("--rate auto"));
    }

    #[test]
    fn a_rate_is_named_as_it_was_said() {
        for text in [
            "pause",
            "auto",
            "background",
            "max",
            "window",
            "20",
            "0.5",
            "auto:50",
            "background:0.5",
        ] {
            let said = entry(&format!("0:00={text}")).unwrap();
            assert_eq!(name(said.rate), text);
        }
    }

    #[test]
    fn a_ceiling_is_of_a_rate_that_is_found() {
        let max = Some(50 * 125_000);
        let share = Share::Fair;
        assert_eq!(rate("auto:50"), Ok(RateControl::Adaptive { max, share }));
        for text in ["window:50", "20:50", "fast:50"] {
            assert!(rate(text).unwrap_err().contains("auto:50"), "{text}");
        }
        for text in ["auto:", "auto:0", "auto:-5", "auto:nan", "auto:5:6"] {
            assert!(rate(text).unwrap_err().contains("not a ceiling"), "{text}");
        }
    }

    #[test]
    fn a_sender_says_that_it_pauses_and_at_which_rate_it_goes_on() {
        assert_eq!(in_words(None), "the transfer pauses");
        assert_eq!(in_words(fixed(20)), "rate: 20 Mb/s");
        assert_eq!(in_words(Some(RateControl::FAIR)), "rate: auto");
    }

    #[test]
    fn a_schedule_of_pauses_alone_is_refused() {
        let pauses = ["8:00=pause", "9:00=pause"].map(|text| entry(text).unwrap());
        assert!(Schedule::new(pauses.to_vec()).is_err());
    }

    #[test]
    fn one_entry_and_one_time_twice_are_refused() {
        let of =
            |texts: &[&str]| Schedule::new(texts.iter().map(|it| entry(it).unwrap()).collect());
        assert!(of(&["8:00=20"]).is_err());
        assert!(of(&["8:00=20", "08:00=auto"]).is_err());
        assert!(of(&["8:00=20", "08:01=auto"]).is_ok());
    }
}
