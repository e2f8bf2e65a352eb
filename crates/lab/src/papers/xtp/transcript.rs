//! 003 Fig. 5.2 and section 5.4, datagram by datagram: a transaction under the Multidriver from its
//! opening to its close, and a group that is pruned under the List-Based Multidriver.

use std::ops::Range;
use std::time::Duration;

use groupcast_core::Time;
use groupcast_protocols::bulk::{
    BulkConfig, DeliverTo, Failure, Multidriver, Notice, Outcome, Policy, RateControl, SlowPolicy,
    Transfer, Wanted,
};
use groupcast_protocols::xgm::Subgroups;

use super::super::data::{RecordRef, Table};
use super::super::plot::{Axis, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Verdict};
use super::stage::{DELAY, Stage};

/// The sender, and the receivers.
const NAMES: [&str; 4] = ["S", "A", "B", "C"];
const RECEIVERS: usize = 3;
/// Bytes of a packet, and packets of the window.
const PACKET: usize = 100;
const WINDOW: u32 = 4;
/// From one mark to the next, in bytes.
const STEP: u64 = 400;
/// What each receiver's user replies.
const REPLY: &[u8] = b"done";
/// `BACKOFF_TIME` for each receiver of the set.
const BACKOFF: Duration = Duration::from_millis(1);
/// What was sent, what was delivered, what became of receivers.
const SAID: &str = "said";
const DELIVERED: &str = "delivered";
const ENDED: &str = "ended";
/// What a datagram takes in the drawing, in milliseconds.
const DRAWN: f64 = 0.5;

/// Which exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Play {
    /// Fig. 5.2.
    Transaction,
    /// 5.4.
    Prune,
}

/// A transcript.
pub struct Transcript(Play);

/// Fig. 5.2.
pub const FIG2: Transcript = Transcript(Play::Transaction);
/// Section 5.4: a group is pruned.
pub const PRUNE: Transcript = Transcript(Play::Prune);

impl Play {
    /// Packets of the transfer: there are some left when a group is pruned.
    fn packets(self) -> usize {
        match self {
            Self::Transaction => 8,
            Self::Prune => 16,
        }
    }

    fn settings(self) -> BulkConfig {
        let rule = Multidriver {
            every: WINDOW,
            backoff: BACKOFF,
            ..Multidriver::for_window(WINDOW)
        };
        BulkConfig {
            policy: match self {
                Self::Transaction => Policy::Multidriver(rule),
                Self::Prune => Policy::List(rule),
            },
            block: None,
            packet: PACKET,
            window: WINDOW,
            rate: RateControl::Window,
            slow: SlowPolicy::Wait,
            ..BulkConfig::lan()
        }
    }

    fn transfer(self) -> Transfer {
        let all: Subgroups = (0..RECEIVERS as u8)
            .map(Subgroups::one)
            .fold(Subgroups(0), |all, one| Subgroups(all.0 | one.0));
        let transfer = Transfer {
            about: [].as_slice().into(),
            length: Some((self.packets() * PACKET) as u64),
            rewindable: false,
            receivers: Wanted::Count(RECEIVERS),
            subgroups: Subgroups::ALL,
            confirm: false,
            strict: false,
            deliver_to: DeliverTo::AtOnce,
            replies: false,
        };
        match self {
            Self::Transaction => Transfer {
                deliver_to: DeliverTo::UpTo {
                    first: 0,
                    step: Some(STEP),
                },
                replies: true,
                ..transfer
            },
            Self::Prune => Transfer {
                subgroups: all,
                ..transfer
            },
        }
    }
}

/// Plays an exchange.
fn play(what: Play) -> Result<Stage, RunError> {
    let way = Box::new(|_: &_| Some(Duration::ZERO));
    let mut stage = Stage::new(RECEIVERS, &what.settings(), 1, way)?;
    for (index, endpoint) in stage.endpoints.iter_mut().enumerate().skip(1) {
        endpoint.set_subgroups(Subgroups::one(index as u8 - 1));
    }
    stage.said = Some(Vec::new());
    stage.reply = REPLY.into();
    stage.send(what.packets() * PACKET, what.transfer())?;
    if what == Play::Prune {
        // Until the first round is over; then C's subgroup is pruned.
        let is_answered = |stage: &Stage| stage.endpoints[0].counters().replies_acknowledged == 3;
        stage.run_until(is_answered, Duration::from_secs(1));
        let now = stage.now;
        let left = Subgroups(Subgroups::one(0).0 | Subgroups::one(1).0);
        let changed = stage
            .sending()
            .map(|(id, endpoint)| endpoint.change_subgroups(now, id, left));
        if !matches!(changed, Some(Ok(()))) {
            return Err(RunError::Failed("the list does not change".to_owned()));
        }
    }
    if !stage.run_until_sent(Duration::from_secs(10)) {
        return Err(RunError::Failed("the exchange has no end".to_owned()));
    }
    stage.run_for(Duration::from_millis(5));
    Ok(stage)
}

fn millis(at: Time) -> f64 {
    at.as_nanos() as f64 / 1e6
}

/// What became of a receiver, as the sender's user and its own were told.
fn ended(stage: &Stage, index: usize) -> (&'static str, &'static str) {
    let settled = stage.notices[0]
        .iter()
        .find_map(|(_, notice)| match notice {
            Notice::Settled {
                receiver, outcome, ..
            } if receiver.node.0 as usize - 1 == index => Some(outcome),
            _ => None,
        });
    let sender = match settled {
        Some(Outcome::Complete) => "complete",
        Some(Outcome::Excluded) => "excluded",
        _ => "another",
    };
    let receiver = match stage.notices[index].last() {
        Some((_, Notice::Ended { .. })) => "closed",
        Some((
            _,
            Notice::Failed {
                failure: Failure::Excluded,
                ..
            },
        )) => "excluded",
        _ => "another",
    };
    (sender, receiver)
}

fn tables(stage: &Stage) -> [Table; 3] {
    let mut said = Table::new(
        SAID,
        &[("at", "ms"), ("from", ""), ("to", ""), ("datagram", "")],
    );
    for it in stage.said.iter().flatten() {
        said.row([
            millis(it.at).into(),
            NAMES[it.from].into(),
            it.to.map_or("all", |to| NAMES[to]).into(),
            it.what.as_str().into(),
        ]);
    }
    let mut delivered = Table::new(DELIVERED, &[("at", "ms"), ("receiver", ""), ("bytes", "B")]);
    for (at, receiver, bytes) in &stage.delivered {
        delivered.row([millis(*at).into(), NAMES[*receiver].into(), (*bytes).into()]);
    }
    let mut outcomes = Table::new(
        ENDED,
        &[("receiver", ""), ("sender's word", ""), ("its own", "")],
    );
    for (index, name) in NAMES.into_iter().enumerate().skip(1) {
        let (sender, receiver) = ended(stage, index);
        outcomes.row([name.into(), sender.into(), receiver.into()]);
    }
    [said, delivered, outcomes]
}

impl Reproduction for Transcript {
    fn title(&self) -> &'static str {
        match self.0 {
            Play::Transaction => "A transaction: opening, tags, replies, deliver-to, close",
            Play::Prune => "A group is pruned while it is sent to",
        }
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Sim]
    }

    fn seeds(&self) -> Range<u64> {
        1..2
    }

    fn run(&self, _: &Context<'_>) -> Result<Data, RunError> {
        let stage = play(self.0)?;
        let mut data = Data::new();
        data.condition(
            "a datagram takes",
            format!("{} ms", DELAY.as_secs_f64() * 1e3),
        );
        data.condition(
            "transfer",
            format!(
                "{} packets of {PACKET} B, a window of {WINDOW}, a request with every {WINDOW}th",
                self.0.packets()
            ),
        );
        data.condition("BACKOFF_TIME", "1 ms for each of the set, 3 ms");
        match self.0 {
            Play::Transaction => {
                data.condition("deliver-to", format!("0 at first, then every {STEP} B"));
                data.condition("each user's reply", format!("{} B", REPLY.len()));
            }
            Play::Prune => data.condition(
                "subgroups",
                "A is in 0, B in 1, C in 2; after the first round the transfer is for 0 and 1",
            ),
        }
        tables(&stage)
            .into_iter()
            .for_each(|table| data.push(table));
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        match self.0 {
            Play::Transaction => transaction(data, &mut verdict),
            Play::Prune => prune(data, &mut verdict),
        }
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        vec![drawn(data)]
    }
}

/// The datagrams of which `is` holds.
fn those<'a>(data: &'a Data, is: impl Fn(&RecordRef<'a>) -> bool) -> Vec<RecordRef<'a>> {
    data.table(SAID).records().filter(|row| is(row)).collect()
}

/// Those that begin with some words.
fn beginning<'a>(data: &'a Data, words: &str) -> Vec<RecordRef<'a>> {
    those(data, |row| row.text("datagram").starts_with(words))
}

fn first(rows: &[RecordRef<'_>]) -> f64 {
    rows.first().map_or(f64::NAN, |row| row.number("at"))
}

fn last(rows: &[RecordRef<'_>]) -> f64 {
    rows.last().map_or(f64::NAN, |row| row.number("at"))
}

/// Who sent them, in order, in a word.
fn senders(rows: &[RecordRef<'_>]) -> String {
    let mut all: Vec<&str> = rows.iter().map(|row| row.text("from")).collect();
    all.sort_unstable();
    all.concat()
}

/// Every request is answered by each of `whom`, and each of these replies acknowledged.
fn rounds(data: &Data, verdict: &mut Verdict, whom: &str, claim: &str) {
    let requests = those(data, |row| {
        row.text("from") == "S" && row.text("datagram").contains("request ")
    });
    let mut wrong = Vec::new();
    for row in &requests {
        let number = row.text("datagram").split("request ").nth(1);
        let number = number.and_then(|it| it.split(' ').next());
        let number = number.unwrap_or_default();
        let replies = those(data, |row| {
            let begin = format!("replies to {number},");
            row.text("datagram").starts_with(&begin) && whom.contains(row.text("from"))
        });
        let acknowledged = those(data, |row| {
            row.text("datagram") == format!("acknowledges the reply to {number}")
                && whom.contains(row.text("to"))
        });
        if senders(&replies) != whom || acknowledged.len() != whom.len() {
            wrong.push(format!(
                "request {number}: replies of {:?}, {} acknowledged",
                senders(&replies),
                acknowledged.len()
            ));
        }
    }
    verdict.check(
        requests.len() >= 2 && wrong.is_empty(),
        claim,
        match wrong.first() {
            None => format!("{} requests", requests.len()),
            Some(first) => first.clone(),
        },
    );
}

/// Fig. 5.2 and 5.3: what each part of the exchange is.
fn transaction(data: &Data, verdict: &mut Verdict) {
    let announced = beginning(data, "announces");
    let registered = beginning(data, "registers");
    let started = beginning(data, "start");
    let waited = last(&registered) - first(&announced);
    verdict.check(
        announced.first().is_some_and(|row| {
            let text = row.text("datagram");
            ["set of 3", "wants replies", "deliver to 0"]
                .iter()
                .all(|it| text.contains(it))
        }),
        "opening: the sender announces the size of the set, that it takes replies, and the mark",
        announced
            .first()
            .map_or("nothing", |row| row.text("datagram")),
    );
    verdict.check(
        senders(&registered) == "ABC" && waited <= 3.5 && first(&started) >= last(&registered),
        "each receiver opens its return side once, within BACKOFF_TIME, and the data follows when all have",
        format!("{} within {waited:.2} ms", senders(&registered)),
    );
    rounds(
        data,
        verdict,
        "ABC",
        "each request for flow, error and rate brings one reply of every receiver, and the sender acknowledges each",
    );
    marks(data, verdict);
    let replied = those(data, |row| {
        row.text("datagram").contains("4 B of its reply, its end")
    });
    let taken = beginning(data, "has 4 B of the reply, all of it");
    verdict.check(
        senders(&replied) == "ABC" && taken.len() == RECEIVERS,
        "each user's reply goes with a packet of its receiver, once, and the sender acknowledges it",
        format!("{} replied, {} acknowledged", senders(&replied), taken.len()),
    );
    let closes = beginning(data, "closes");
    let after = those(data, |row| {
        row.number("at") > first(&closes) && row.text("from") != "S"
    });
    let ended: Vec<&str> = data
        .table(ENDED)
        .records()
        .map(|row| row.text("its own"))
        .collect();
    verdict.check(
        !closes.is_empty() && after.is_empty() && ended == ["closed"; RECEIVERS],
        "the sender closes, and receive and return side close together: no receiver says anything after it",
        format!("closed: {}", ended.join(", ")),
    );
}

/// Deliver-to: nothing beyond the mark, which is raised when all hold the next part, and repeated
/// until each has said that it delivers.
fn marks(data: &Data, verdict: &mut Verdict) {
    let raised = beginning(data, "deliver to ");
    let deliveries: Vec<_> = data.table(DELIVERED).records().collect();
    let mark_at = |at: f64| {
        let below = raised.iter().filter(|row| row.number("at") < at);
        let marks = below.map(|row| {
            let text = row.text("datagram").trim_start_matches("deliver to ");
            text.parse::<f64>().unwrap_or(f64::NAN)
        });
        marks.fold(0.0, f64::max)
    };
    let beyond = deliveries
        .iter()
        .filter(|row| row.number("bytes") > mark_at(row.number("at")))
        .count();
    verdict.check(
        beyond == 0 && !deliveries.is_empty() && !raised.is_empty(),
        "deliver-to: no receiver delivers beyond the mark",
        format!(
            "{beyond} of {} deliveries do; marks: {}",
            deliveries.len(),
            said(&raised)
        ),
    );
    let mut early = 0;
    for row in &raised {
        let mark: f64 = mark_at(row.number("at") + 1e-9);
        let needed = mark / PACKET as f64;
        let holds = |name: &str| {
            let mut said = data.table(SAID).records();
            said.any(|it| {
                let next = it.text("datagram").split("next ").nth(1);
                let next = next
                    .and_then(|it| it.split(',').next())
                    .and_then(|it| it.parse::<f64>().ok());
                it.text("from") == name
                    && it.number("at") < row.number("at")
                    && next.is_some_and(|next| next >= needed)
            })
        };
        early += usize::from(!NAMES[1..].iter().all(|name| holds(name)));
    }
    verdict.check(
        early == 0 && !raised.is_empty(),
        "a mark is raised only when every receiver has said that it holds what is below",
        format!("{early} of {} too early", raised.len()),
    );
    let echoed = those(data, |row| row.text("datagram").contains("delivers to 800"));
    let mut who: Vec<&str> = echoed.iter().map(|row| row.text("from")).collect();
    who.sort_unstable();
    who.dedup();
    verdict.check(
        who == NAMES[1..],
        "each receiver says that it delivers to the last mark",
        who.concat(),
    );
}

fn said(rows: &[RecordRef<'_>]) -> String {
    let mut each: Vec<&str> = rows.iter().map(|row| row.text("datagram")).collect();
    each.dedup();
    each.join(", ")
}

/// 5.4: the vector rides in the next packet, the excluded close and are silent, the others go on.
fn prune(data: &Data, verdict: &mut Verdict) {
    let of_subgroups = |row: &RecordRef<'_>, vector: &str| {
        row.text("from") == "S" && row.text("datagram").contains(&format!("for {vector}"))
    };
    let registered = beginning(data, "registers");
    let named = registered
        .iter()
        .all(|row| row.text("datagram").contains("is in"));
    verdict.check(
        senders(&registered) == "ABC" && named,
        "every receiver registers with its subgroups",
        said(&registered),
    );
    let pruned = those(data, |row| of_subgroups(row, "0-1"));
    let before = those(data, |row| {
        of_subgroups(row, "0-2") && row.text("datagram").starts_with("data")
    });
    verdict.check(
        !before.is_empty()
            && !pruned.is_empty()
            && last(&before) < first(&pruned)
            && pruned.iter().any(|row| row.text("datagram").starts_with("data")),
        "the vector of the sender rides in every packet; once it is changed, in every one that follows",
        format!("{} packets for 0-2, then {} for 0-1", before.len(), pruned.len()),
    );
    let excluded = beginning(data, "excludes it");
    verdict.check(
        !excluded.is_empty() && excluded.iter().all(|row| row.text("to") == "C"),
        "who is pruned is told (ours; in 003 it reads the vector)",
        format!("{} to C", excluded.len()),
    );
    // What it had sent before it could know.
    let knows = first(&pruned).min(first(&excluded)) + DELAY.as_secs_f64() * 1e3;
    let after = those(data, |row| {
        row.text("from") == "C" && row.number("at") > knows
    });
    verdict.check(
        after.is_empty(),
        "it leaves at once, and says nothing any more",
        format!("{} datagrams of C after that", after.len()),
    );
    rounds(
        data,
        verdict,
        "AB",
        "the others reply to each request, once, and are acknowledged, before and after",
    );
    let ended: Vec<String> = data
        .table(ENDED)
        .records()
        .map(|row| format!("{} {}", row.text("sender's word"), row.text("its own")))
        .collect();
    verdict.check(
        ended == ["complete closed", "complete closed", "excluded excluded"],
        "the others are complete and close; both ends' users know who was excluded",
        ended.join(", "),
    );
    let had = |name: &str| {
        let of = data
            .table(DELIVERED)
            .records()
            .filter(|row| row.text("receiver") == name);
        of.map(|row| row.number("bytes")).fold(0.0, f64::max)
    };
    let whole = (Play::Prune.packets() * PACKET) as f64;
    verdict.check(
        had("A") == whole && had("B") == whole && had("C") < whole,
        "and have every byte, which it has not",
        format!("A {}, B {}, C {} B", had("A"), had("B"), had("C")),
    );
}

/// The datagrams, each a line from its sender to each of its receivers.
fn drawn(data: &Data) -> Plot {
    let place = |name: &str| NAMES.iter().position(|it| *it == name);
    let rows: Vec<_> = data.table(SAID).records().collect();
    let end = rows.last().map_or(1.0, |row| row.number("at")) + DRAWN;
    let mut plot = Plot::new(
        "who says what to whom",
        Axis::linear("time", "ms").from(0.0).to(end),
        Axis::categories("site", NAMES),
    );
    let kinds = [
        (
            "opening and close",
            ["announces", "registers", "start", "closes", "excludes"],
        ),
        (
            "data and requests",
            ["data", "repair", "request", "parity", "poll"],
        ),
        (
            "replies",
            ["replies", "reports", "misses", "is ready", "refuses"],
        ),
        (
            "acknowledgements and marks",
            ["acknowledges", "deliver to", "has ", "drops", "gives"],
        ),
    ];
    for (name, words) in kinds {
        let of = rows.iter().filter(|row| {
            let text = row.text("datagram");
            words.iter().any(|word| text.starts_with(word))
        });
        let lines = of.flat_map(|row| {
            let sender = place(row.text("from")).unwrap_or_default();
            let at = row.number("at");
            let to = place(row.text("to"));
            let goes = (0..NAMES.len()).filter(move |it| to.map_or(*it != sender, |to| *it == to));
            goes.flat_map(move |to| {
                let begin = (at, sender as f64);
                // Beside the others of its kind nothing is joined.
                [begin, (at + DRAWN, to as f64), begin, (f64::NAN, f64::NAN)]
            })
        });
        plot = plot.with(Series::line(name, lines));
    }
    plot
}
