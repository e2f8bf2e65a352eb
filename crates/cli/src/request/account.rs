//! The outcome of a request for the user who made it: text and exit code.

use std::process::ExitCode;

use groupcast_protocols::bulk::Outcome;
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{Became, RequestReport};

use crate::failure::{Failure, tell};
use crate::number::number_of;
use crate::transfer::{Peer, send, where_they_are};

/// The exit code or the failure that follows from a report.
pub(super) fn judge(
    report: &RequestReport,
    subgroups: Option<Subgroups>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let members = report.members.iter();
    let problem = |(name, became): &(String, Became)| match became {
        Became::Replied { code: 0, .. } => None,
        other => Some(format!("{name}: {}", in_words(other))),
    };
    let problems: Vec<String> = members.filter_map(problem).collect();
    let all = report.members.len();
    let replies = report.members.iter();
    let has_replied = |(_, became): &&(String, Became)| matches!(became, Became::Replied { .. });
    let replies = replies.filter(has_replied).count();
    if report.stopped {
        return Err(Failure::failed(format!(
            "stopped: {} of {all} came",
            number_of(replies as u64, "reply", "replies")
        )));
    }
    if all == 0
        && let Some(subgroups) = subgroups
    {
        let failure = format!("nobody in the subgroups {subgroups} is there to reply");
        return Err(Failure::failed(failure).help(
            "members are in the subgroups of `groupcast answer --subgroup`, else in one at random",
        ));
    }
    if all == 0 {
        return Err(Failure::failed("nobody is there to reply").help(where_they_are("answer")));
    }
    // Hosts of --peer: no others are waited for by name.
    let is_absent = |(_, became): &&(String, Became)| *became == Became::Failed(Outcome::Absent);
    let absent = report.members.iter().filter(is_absent).count();
    if absent == all {
        let failure = format!("nobody is there to reply{}", below(&problems));
        return Err(Failure::failed(failure).help(Peer::advice("answer")));
    }
    let is_too_few = |(_, became): &&(String, Became)| *became == Became::Failed(Outcome::TooFew);
    let came = report.members.iter().filter(is_too_few).count();
    if came > 0 {
        let came = number_of(came as u64, "member", "members");
        let failure = Failure::failed(format!("only {came} came: nobody was asked"));
        return Err(failure.help("--min says how many are needed, --wait how long they may take"));
    }
    if !problems.is_empty() {
        let good = all - problems.len();
        let all = number_of(all as u64, "member", "members");
        let message = format!(
            "replied with exit code 0: {good} of {all}{}",
            below(&problems)
        );
        let failure = Failure::some_receivers(message);
        return Err(match absent {
            0 => failure,
            _ => failure.help(Peer::advice("answer")),
        });
    }
    if !json {
        let seconds = report.took.as_secs_f64();
        let replies = number_of(replies as u64, "reply", "replies");
        tell(format_args!("{replies} in {seconds:.2} s"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Each on a line of its own below the first.
fn below(problems: &[String]) -> String {
    problems.iter().map(|it| format!("\n  {it}")).collect()
}

/// The outcome of a member, for people.
pub(super) fn in_words(became: &Became) -> String {
    match became {
        Became::Replied { code, .. } => format!("exit code {code}"),
        Became::TooLong => format!("its reply is longer than {} bytes", super::REPLY_MAX),
        Became::Crowded => format!(
            "all replies under way had more than {} bytes, and its was the longest: ask fewer members at once",
            super::REPLIES_MAX
        ),
        Became::TimedOut => "no reply in time".into(),
        Became::Failed(outcome) => send::in_words(outcome),
        _ => "no reply".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report(members: &[(&str, Became)]) -> RequestReport {
        RequestReport {
            members: members
                .iter()
                .map(|(name, became)| ((*name).to_owned(), became.clone()))
                .collect(),
            took: Duration::from_secs(1),
            timed_out: false,
            stopped: false,
        }
    }

    fn code(members: &[(&str, Became)]) -> ExitCode {
        match judge(&report(members), None, true) {
            Ok(code) => code,
            Err(failure) => failure.code(),
        }
    }

    #[test]
    fn the_exit_code_says_whether_all_or_some_or_nobody_replied() {
        let replied = |code| Became::Replied { code, bytes: 3 };
        assert_eq!(code(&[("a", replied(0))]), ExitCode::SUCCESS);
        assert_eq!(
            code(&[("a", replied(0)), ("b", replied(2))]),
            ExitCode::from(3)
        );
        assert_eq!(code(&[("a", Became::TimedOut)]), ExitCode::from(3));
        assert_eq!(
            code(&[("a", Became::Failed(Outcome::TooFew))]),
            ExitCode::from(1)
        );
        assert_eq!(code(&[]), ExitCode::from(1));
        let named = judge(&report(&[("a", replied(0)), ("b", replied(2))]), None, true);
        let named = named.map(|_| ()).unwrap_err().to_string();
        assert!(named.contains("1 of 2 members") && named.contains("b: exit code 2"));
    }
}
