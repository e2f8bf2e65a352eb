//! What became of a transfer, for its user: the last words, and the exit code.

use groupcast_core::text::printable;
use groupcast_protocols::bulk::Outcome;
use groupcast_protocols::relay::{RELAY_GONE, RELAY_STOPPED};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{STOPPED_HERE, SendReport};

use super::super::{Peer, amount, where_they_are};
use crate::failure::Failure;
use crate::number;

/// What the report means for the user who started the transfer: if all is well, what there is to
/// say of it.
pub(super) fn judge(
    report: &SendReport,
    expected: Option<usize>,
    subgroups: Option<Subgroups>,
    is_pipe: bool,
) -> Result<String, Failure> {
    let bad: Vec<String> = report
        .receivers
        .iter()
        .filter(|(_, outcome)| *outcome != Outcome::Complete)
        .map(|(name, outcome)| format!("{name}: {}", in_words(outcome)))
        .collect();
    let good = report.receivers.len() - bad.len();
    if report.stopped {
        return Err(Failure::failed(format!(
            "stopped: {} complete, {} not",
            number::receivers(good),
            bad.len()
        ))
        .help(match is_pipe {
            true => "a pipe cannot be resumed",
            false => "the same command resumes with what the receivers have",
        }));
    }
    if report.receivers.is_empty()
        && let Some(subgroups) = subgroups
    {
        let failure = format!("nobody in the subgroups {subgroups} received anything");
        return Err(Failure::failed(failure).help(
            "receivers are in the subgroups of `groupcast recv --subgroup`, else in one at random; `groupcast census \
             --list` shows them",
        ));
    }
    if report.receivers.is_empty() {
        return Err(Failure::failed("nobody received anything").help(where_they_are("recv")));
    }
    let too_few = |(_, outcome): &&(String, Outcome)| *outcome == Outcome::TooFew;
    let came = report.receivers.iter().filter(too_few).count();
    if came > 0 {
        let came = number::receivers(came);
        let failure = Failure::failed(format!("only {came} came: nobody was served"));
        return Err(failure.help("--min says how many are needed, --wait how long they may take"));
    }
    let missing = expected.unwrap_or(0).saturating_sub(report.receivers.len());
    if !bad.is_empty() || missing > 0 {
        let failed = bad.len() + missing;
        let never_came = |(_, outcome): &&(String, Outcome)| *outcome == Outcome::Absent;
        let absent = report.receivers.iter().filter(never_came).count() + missing;
        let mut message = match good + failed {
            1 => "the only receiver is not complete".to_owned(),
            all => format!("{good} of {all} receivers are complete"),
        };
        for one in bad {
            message.push_str("\n  ");
            message.push_str(&one);
        }
        if missing > 0 {
            message.push_str(&format!("\n  {missing} never came"));
        }
        let failure = Failure::some_receivers(message);
        return Err(match (absent == failed, is_pipe) {
            (true, _) => failure.help(format!(
                "{}. `groupcast census --list` shows the receivers that answer; one below a relay is named by \
                 --require, and not by --to",
                where_they_are("recv")
            )),
            (false, true) => failure,
            (false, false) if report.receivers.iter().any(|(_, it)| is_for_a_reason(it)) => failure
                .help(
                    "first mend what is said above, or the same happens again; then the same command sends only what \
                     receivers do not have yet",
                ),
            (false, false) => {
                failure.help("the same command again sends only what receivers do not have yet")
            }
        });
    }
    Ok(summary(report, good))
}

/// Whether a receiver has said why it has not got it, which may hold for the next attempt, too.
fn is_for_a_reason(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(reason) | Outcome::Failed(reason) => !is_over(reason),
        Outcome::SameName => true,
        _ => false,
    }
}

/// Whether a receiver says only that it, or the relay above it, has ended: that does not hold for
/// the next attempt.
fn is_over(reason: &str) -> bool {
    [STOPPED_HERE, RELAY_STOPPED, RELAY_GONE].contains(&reason)
}

/// Whether one of the hosts that multicasts do not reach has never answered.
pub(super) fn is_without_answer(report: &SendReport, peers: &[Peer]) -> bool {
    let names: Vec<String> = peers.iter().map(Peer::to_string).collect();
    let mut receivers = report.receivers.iter();
    receivers.any(|(name, outcome)| *outcome == Outcome::Absent && names.contains(name))
}

/// What was sent, how fast, and how much of it again. What the receivers held already does not
/// count.
fn summary(report: &SendReport, receivers: usize) -> String {
    let seconds = report.took.as_secs_f64();
    let receivers = number::receivers(receivers);
    let sent = report.sent.min(report.bytes);
    let part = match sent == report.bytes {
        true => String::new(),
        false => format!(", {} of it sent,", amount(sent)),
    };
    let speed = match sent {
        0 => String::new(),
        sent => format!(": {}", speed(sent as f64 * 8.0 / seconds.max(1e-9))),
    };
    format!(
        "{} to {receivers}{part} in {seconds:.2} s{speed}, {} of {} packets sent again",
        amount(report.bytes),
        report.repeated,
        report.packets,
    )
}

/// So many bits a second, for people.
fn speed(bits: f64) -> String {
    match bits {
        10e6.. => format!("{:.0} Mb/s", bits * 1e-6),
        1e6.. => format!("{:.1} Mb/s", bits * 1e-6),
        10e3.. => format!("{:.0} kb/s", bits * 1e-3),
        _ => format!("{:.1} kb/s", bits * 1e-3),
    }
}

/// An outcome for people.
pub(crate) fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete => "complete".into(),
        Outcome::Refused(reason) => format!("refused: {}", printable(reason.as_bytes())),
        Outcome::Failed(reason) => format!("failed: {}", printable(reason.as_bytes())),
        Outcome::Vanished => "not heard any more".into(),
        Outcome::Slow => "too slow".into(),
        Outcome::Late => "came too late for a stream".into(),
        Outcome::Outrun => "outrun: what it missed had been released".into(),
        Outcome::TooFew => "not served: too few receivers came".into(),
        Outcome::Excluded => "excluded: it is not for this receiver any more".into(),
        Outcome::Absent => "never came".into(),
        Outcome::SameName => {
            "another receiver has the same name: give each its own (--name)".into()
        }
        Outcome::Cancelled => "cancelled".into(),
        _ => "not complete".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_rate_is_of_what_was_sent_and_not_of_what_was_held() {
        let report = SendReport {
            receivers: Vec::new(),
            bytes: 500 << 30,
            sent: 2 << 20,
            packets: 1500,
            repeated: 3,
            copies: 0,
            took: Duration::from_secs(1),
            stopped: false,
        };
        let shown = summary(&report, 2);
        let expected = "500.00 GiB to 2 receivers, 2.00 MiB of it sent, in 1.00 s: 17 Mb/s";
        assert!(shown.starts_with(expected), "{shown}");
    }

    #[test]
    fn a_low_rate_is_a_number_and_nothing_sent_has_none() {
        let shown = |sent, millis| {
            let report = SendReport {
                bytes: 20_060,
                sent,
                took: Duration::from_millis(millis),
                ..sent_to(Vec::new())
            };
            summary(&report, 1)
        };
        let slow = shown(20_060, 15_980);
        assert!(slow.contains("in 15.98 s: 10 kb/s, 0 of"), "{slow}");
        let none = shown(0, 10);
        assert!(none.contains("0 B of it sent, in 0.01 s, 0 of"), "{none}");
        let rates = [940e6, 9.94e6, 2.5e6, 12_300.0, 1_200.0].map(speed);
        let expected = ["940 Mb/s", "9.9 Mb/s", "2.5 Mb/s", "12 kb/s", "1.2 kb/s"];
        assert_eq!(rates, expected);
    }

    #[test]
    fn what_would_fail_again_is_to_be_mended_first() {
        let judged = |outcome| {
            let one = |name: &str, outcome| (name.to_owned(), outcome);
            let report = sent_to(vec![one("a", Outcome::Complete), one("b", outcome)]);
            format!("{:?}", judge(&report, None, None, false).unwrap_err())
        };
        let no = || "no".to_owned();
        for outcome in [
            Outcome::SameName,
            Outcome::Refused(no()),
            Outcome::Failed(no()),
        ] {
            let said = judged(outcome);
            assert!(said.contains("first mend what is said above"), "{said}");
        }
        let over = [STOPPED_HERE, RELAY_STOPPED, RELAY_GONE].map(|it| Outcome::Failed(it.into()));
        let passing = [Outcome::Vanished, Outcome::Slow, Outcome::Cancelled];
        for outcome in passing.into_iter().chain(over) {
            let said = judged(outcome);
            assert!(!said.contains("first mend"), "{said}");
        }
    }

    /// The report of 1,000 bytes that were sent to these receivers.
    fn sent_to(receivers: Vec<(String, Outcome)>) -> SendReport {
        SendReport {
            receivers,
            bytes: 1000,
            sent: 1000,
            packets: 1,
            repeated: 0,
            copies: 0,
            took: Duration::from_secs(1),
            stopped: false,
        }
    }

    #[test]
    fn a_receiver_that_never_came_is_looked_for_and_not_said_to_have_something() {
        let judged = |outcomes: &[Outcome]| {
            let named = outcomes.iter().enumerate();
            let report = sent_to(named.map(|(n, it)| (format!("r{n}"), it.clone())).collect());
            format!("{:?}", judge(&report, None, None, false).unwrap_err())
        };
        let nobody = judged(&[Outcome::Complete, Outcome::Absent]);
        assert!(nobody.contains("--interface lo"), "{nobody}");
        assert!(!nobody.contains("do not have yet"), "{nobody}");
        let one_died = judged(&[Outcome::Vanished, Outcome::Absent]);
        assert!(one_died.contains("do not have yet"), "{one_died}");
    }

    #[test]
    fn a_receiver_of_a_number_that_never_came_is_a_failure() {
        let complete = |name: &str| (name.to_owned(), Outcome::Complete);
        let report = sent_to(vec![complete("a"), complete("b")]);
        let failure = judge(&report, Some(3), None, false).unwrap_err();
        assert_eq!(failure.number(), 3);
        let said = format!("{failure:?}");
        assert!(said.contains("1 never came"), "{said}");
        assert!(judge(&report, Some(2), None, false).is_ok());
    }

    #[test]
    fn what_receivers_say_cannot_play_with_the_terminal() {
        let said = in_words(&Outcome::Refused("no\u{1b}[2J\u{202e}".into()));
        assert_eq!(said, "refused: no\\u{1b}[2J\\u{202e}");
    }
}
