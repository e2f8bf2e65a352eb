//! Receivers that are slower than a bucket lives (003 3.3.3 and 4.2): the sender acts without their
//! answers, and releases what they may miss. 003 drops them silently; ours are told, and named.
//!
//! Eight receivers, of which the last becomes slow while the transfer runs: from then on its
//! answers take longer. What it loses besides, if it loses anything, are packets that do not ask:
//! it hears every request, and answers it.

use std::time::Duration;

use groupcast_core::{Rng, Time};
use groupcast_protocols::bulk::{
    BulkConfig, Control, Counters, Damping, DeliverTo, Notice, Outcome, Policy, RateControl, Slot,
    SlowPolicy, Transfer, Wanted, Xtp,
};
use groupcast_protocols::xgm::Subgroups;

use super::super::plot::{Axis, Series};
use super::super::points::Points;
use super::super::{Cell, Context, Data, Plot, RunError, Verdict, figure};
use super::stage::{DELAY, Leaving, Stage};

/// Receivers, of which the last is slow.
const RECEIVERS: usize = 8;
/// When it becomes slow: all round trips were those of the network until then.
const SLOW_FROM: Time = Time::from_millis(300);
/// How long a bucket lives while they are: the shortest time-out.
const LIFETIME: Duration = Duration::from_millis(10);
/// Packets of a transfer, one a millisecond, and their bytes.
const PACKETS: usize = 1_000;
const PACKET: usize = 1_000;
/// Bytes of a packet's header.
const HEADER: usize = 24;
/// Of the packets that do not ask this many are lost on the way to the slow receiver, if any.
const LOSS: f64 = 0.05;
/// The round trips of the slow receiver, in milliseconds.
const ROUND_TRIPS: [f64; 13] = [
    1.0, 2.0, 5.0, 8.0, 9.0, 9.5, 9.9, 10.1, 10.5, 11.0, 15.0, 20.0, 50.0,
];

/// One point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BucketPoint {
    /// Of the slow receiver's answers, in milliseconds.
    round_trip: f64,
    /// Buckets that must agree on a release.
    agree: u32,
    loses: bool,
    /// Whether the sender's user can begin anew: a file, or a stream.
    rewinds: bool,
}

/// What came of one transfer.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Answers that came when their bucket had been acted on.
    late: u64,
    /// How often a receiver was told that what it misses was released, and how often the sender was
    /// told of one.
    outrun: u64,
    named: u64,
    /// What became of the slow receiver, and the share of the bytes that it has.
    outcome: String,
    has: f64,
    /// Other receivers that are complete.
    others: usize,
}

pub(super) fn plan(quick: bool) -> Vec<BucketPoint> {
    let round_trips: &[f64] = if quick {
        &[1.0, 9.5, 10.5, 20.0]
    } else {
        &ROUND_TRIPS
    };
    let mut plan = Vec::new();
    for round_trip in round_trips {
        for agree in [1, 4] {
            let point = |loses, rewinds| BucketPoint {
                round_trip: *round_trip,
                agree,
                loses,
                rewinds,
            };
            plan.extend([point(false, true), point(true, true), point(true, false)]);
        }
    }
    plan
}

impl BucketPoint {
    fn settings(&self) -> BulkConfig {
        let xtp = Xtp {
            every: 8,
            control: Control {
                multicast: true,
                damping: Damping::Off,
                slot: Slot::None,
            },
            buckets: 64,
            agree: self.agree,
            ..Xtp::for_window(256)
        };
        BulkConfig {
            policy: Policy::Xtp(xtp),
            block: None,
            window: 256,
            packet: PACKET,
            rate: RateControl::Fixed {
                bytes_per_second: (PACKET + HEADER) as u64 * 1_000,
            },
            slow: SlowPolicy::Wait,
            rto_min: LIFETIME,
            ..BulkConfig::lan()
        }
    }

    /// What is done to the slow receiver's datagrams.
    fn way(&self, seed: u64) -> impl FnMut(&Leaving) -> Option<Duration> + use<> {
        let mut rng = Rng::new(seed).fork("loss");
        let round_trip = Duration::from_secs_f64(self.round_trip / 1e3);
        let longer = round_trip.saturating_sub(DELAY * 2);
        let loses = self.loses;
        move |leaving| {
            let is_slow = leaving.at >= SLOW_FROM;
            let waits = is_slow && leaving.from == RECEIVERS && leaving.to == 0;
            let may_lose = is_slow && leaving.to == RECEIVERS;
            let is_lost = loses && may_lose && leaving.kind == "data" && rng.chance(LOSS);
            (!is_lost).then_some(if waits { longer } else { Duration::ZERO })
        }
    }

    fn measure(&self, seed: u64) -> Result<Measured, RunError> {
        let way = Box::new(self.way(seed));
        let mut stage = Stage::new(RECEIVERS, &self.settings(), seed, way)?;
        let length = PACKETS * PACKET;
        let transfer = Transfer {
            about: [].as_slice().into(),
            length: Some(length as u64),
            rewindable: self.rewinds,
            receivers: Wanted::Count(RECEIVERS),
            subgroups: Subgroups::ALL,
            confirm: false,
            strict: false,
            deliver_to: DeliverTo::AtOnce,
            replies: false,
        };
        stage.send(length, transfer)?;
        if !stage.run_until_sent(Duration::from_secs(30)) {
            return Err(RunError::Failed("a transfer has no end".to_owned()));
        }
        stage.run_for(Duration::from_millis(100));
        Ok(read(&stage, length))
    }
}

fn read(stage: &Stage, length: usize) -> Measured {
    let Counters {
        answers_late,
        outrun: named,
        ..
    } = stage.endpoints[0].counters();
    let mut outcomes = vec![None; RECEIVERS + 1];
    for (_, notice) in &stage.notices[0] {
        if let Notice::Settled {
            receiver, outcome, ..
        } = notice
        {
            outcomes[receiver.node.0 as usize - 1] = Some(outcome.clone());
        }
    }
    let told = stage.notices[1..].iter().flatten();
    let outrun = told.filter(|(_, notice)| matches!(notice, Notice::Outrun { .. }));
    let outcome = match &outcomes[RECEIVERS] {
        Some(Outcome::Complete) => "complete",
        Some(Outcome::Outrun) => "outrun",
        _ => "another",
    };
    let others = outcomes[1..RECEIVERS].iter();
    Measured {
        late: answers_late,
        outrun: outrun.count() as u64,
        // A stream's receiver is settled at once, a file's is counted and served again.
        named: named.max(u64::from(outcome == "outrun")),
        outcome: outcome.to_owned(),
        has: stage.received[RECEIVERS] as f64 / length as f64,
        others: others
            .filter(|outcome| **outcome == Some(Outcome::Complete))
            .count(),
    }
}

impl figure::Point for BucketPoint {
    type Measured = Measured;

    fn conditions(_: &Context<'_>, _: &[Self], data: &mut Data) {
        data.condition("network", "a round trip of 1 ms, nothing lost unless said");
        data.condition(
            "a bucket lives",
            "10 ms: the shortest time-out, where round trips are 1 ms",
        );
        data.condition(
            "transfer",
            "1,000 packets, one a millisecond; every eighth asks; undamped, without slots",
        );
        data.condition(
            "slow",
            "after 0.3 s the answers of one of eight receivers take longer; where it loses, 5 % of the \
             packets that do not ask",
        );
        data.condition(
            "agree",
            "1 is 003, 4 ours: so many buckets in a row release",
        );
    }

    fn simulate(&self, _: &Context<'_>, seed: u64) -> Result<Measured, RunError> {
        self.measure(seed)
    }

    fn on_sockets(_: &Context<'_>, _: &[Self]) -> Result<Vec<(Self, u64, Measured)>, RunError> {
        Err(RunError::Unavailable(
            "single answers are held back in the simulator alone".to_owned(),
        ))
    }

    fn columns() -> &'static [(&'static str, &'static str)] {
        &[
            ("round trip", "ms"),
            ("agree", ""),
            ("loses", ""),
            ("what", ""),
            ("seed", ""),
            ("late", ""),
            ("outrun", ""),
            ("named", ""),
            ("outcome", ""),
            ("has", ""),
            ("others complete", ""),
        ]
    }

    fn row(&self, seed: u64, measured: &Measured) -> Vec<Cell> {
        vec![
            self.round_trip.into(),
            self.agree.into(),
            (if self.loses { "yes" } else { "no" }).into(),
            (if self.rewinds { "file" } else { "stream" }).into(),
            seed.into(),
            measured.late.into(),
            measured.outrun.into(),
            measured.named.into(),
            measured.outcome.as_str().into(),
            measured.has.into(),
            measured.others.into(),
        ]
    }

    fn sweep_columns() -> &'static [(&'static str, &'static str)] {
        Self::columns()
    }

    fn sweep_row(&self, measured: &Measured) -> Vec<Cell> {
        self.row(0, measured)
    }
}

/// That a release is early exactly then, and that nobody is outrun silently.
pub(super) fn judge(data: &Data, verdict: &mut Verdict) {
    let rows: Vec<_> = data.table(figure::POINTS).records().collect();
    let lifetime = LIFETIME.as_secs_f64() * 1e3;
    let mut judged =
        |is_of: &dyn Fn(&super::super::data::RecordRef<'_>) -> bool,
         claim: &str,
         holds: &dyn Fn(&super::super::data::RecordRef<'_>) -> bool| {
            let of: Vec<_> = rows.iter().filter(|row| is_of(row)).collect();
            let held = of.iter().filter(|row| holds(row)).count();
            verdict.check(
                !of.is_empty() && held == of.len(),
                claim,
                format!("in {held} of {} transfers", of.len()),
            );
        };
    let is_slower = |row: &super::super::data::RecordRef<'_>| row.number("round trip") > lifetime;
    judged(
        &|_| true,
        "answers come too late for their buckets exactly if they take longer than a bucket lives",
        &|row| (row.number("late") > 0.0) == is_slower(row),
    );
    judged(
        &|row| row.text("loses") == "yes",
        "a receiver that misses packets is outrun exactly then",
        &|row| (row.number("outrun") > 0.0) == is_slower(row),
    );
    judged(
        &|row| row.text("loses") == "no",
        "one that misses nothing is never outrun, however late its answers",
        &|row| row.number("outrun") == 0.0 && row.text("outcome") == "complete",
    );
    judged(
        &|row| row.number("outrun") > 0.0,
        "never silently: the receiver is told, and the sender is told of it, once each",
        &|row| row.number("outrun") == 1.0 && row.number("named") == 1.0,
    );
    judged(
        &|row| row.number("outrun") > 0.0 && row.text("what") == "stream",
        "of a stream its outcome is `outrun`",
        &|row| row.text("outcome") == "outrun" && row.number("has") < 1.0,
    );
    judged(
        &|row| row.text("what") == "file",
        "of a file a later pass brings it the rest: complete, with every byte",
        &|row| row.text("outcome") == "complete" && row.number("has") == 1.0,
    );
    judged(&|_| true, "the other seven are complete", &|row| {
        row.number("others complete") == (RECEIVERS - 1) as f64
    });
    verdict.note(
        "003 drops such a receiver without a word (4.2 leaves it to group management); that it is \
         told and named is ours",
    );
    verdict.note(
        "an answer that comes too late is no sample of the round trip, so a bucket's life does not \
         grow by it: who becomes slower than that at once stays so; who becomes slow little by \
         little is waited for",
    );
}

pub(super) fn draw(data: &Data) -> Vec<Plot> {
    let points = Points::read(data);
    let mut plot = Plot::new(
        "one of eight receivers becomes slow",
        Axis::log("round trip of its answers", "ms"),
        Axis::linear("answers too late", "a transfer").from(0.0),
    );
    for agree in points.different("agree") {
        let of = points.at("agree", agree).of("loses", "no");
        let name = format!("agree {agree}");
        plot = plot.with(Series::line(name, of.curve("round trip", "late")));
    }
    let mut outrun = Plot::new(
        "if it misses packets",
        Axis::log("round trip of its answers", "ms"),
        Axis::linear("outrun", "of the transfers")
            .from(0.0)
            .to(1.05),
    );
    for agree in points.different("agree") {
        let of = points.at("agree", agree).of("loses", "yes");
        let name = format!("agree {agree}");
        outrun = outrun.with(Series::line(name, of.curve("round trip", "outrun")));
    }
    let lifetime = LIFETIME.as_secs_f64() * 1e3;
    vec![
        plot.upright(lifetime, "a bucket lives"),
        outrun.upright(lifetime, "a bucket lives"),
    ]
}
