//! On how many members each message is buffered (004 7.5.2: Fig. 7.11).
//!
//! Looked at while a message is no longer in anybody's short-term buffer and not stable yet: who
//! holds it then is a bufferer that has it.

use std::ops::Range;
use std::time::Duration;

use groupcast_core::node::Channel;
use groupcast_core::{MessageId, Node, Time};

use super::super::calc::loss::{member_loss, p_fail};
use super::super::data::Table;
use super::super::plot::{Axis, Series};
use super::super::{Context, Data, LabHost, Plot, Reproduction, RunError, Verdict};
use super::SWEEP;
use super::curve::brief;
use super::network::{Network, Shape};
use super::point::{GossipPoint, Open, Scheme};
use super::protocol;
use super::sim::PreparedRun;

/// Locations message by message.
pub struct Locations;

/// 004 7.5.2: 500 messages from number 1000 on.
const FIRST: u64 = 1_000;
const COUNT: u64 = 500;
const LOSSES: [f64; 2] = [0.001, 0.015];
const MEMBERS: u32 = 100;
/// About how many links a message crosses in a tree of depth 4: for the choice of C.
const LINKS: f64 = 3.4;
/// When a message is looked at, after it was sent: before the ten rounds of stability, and so late
/// that those who got it by a repair have it no longer in their short-term buffer, which is three
/// rounds.
const LOOK: Duration = Duration::from_millis(950);
/// The program's one protocol on every host.
const CHANNEL: Channel = Channel::SOLE;

const BUFFERED: &str = "locations";
const GROUPS: &str = "groups";
/// Over what 004 leaves open: members gossiped to in a round.
const SWEPT: u32 = 2;

/// The C with which a message is lost no more often than with C = 6 at the smaller loss.
fn wanted(loss: f64) -> u32 {
    let fails = |wanted: u32, loss: f64| {
        p_fail(
            f64::from(MEMBERS),
            f64::from(wanted),
            member_loss(loss, LINKS),
        )
    };
    let limit = fails(Open::OURS.bufferers, LOSSES[0]);
    let found = (Open::OURS.bufferers..MEMBERS).find(|wanted| fails(*wanted, loss) <= limit);
    found.unwrap_or(MEMBERS)
}

fn setting(loss: f64, sub_gsize: u32, quick: bool) -> GossipPoint {
    let count = if quick {
        FIRST + COUNT / 10
    } else {
        FIRST + COUNT
    };
    GossipPoint {
        noise: loss,
        seconds: count as f64 / 100.0 + 1.0,
        open: Open {
            bufferers: wanted(loss),
            sub_gsize,
            ..Open::OURS
        },
        ..GossipPoint::new(Shape::Dense { size: MEMBERS }, Scheme::Hash)
    }
}

/// What one group came to.
struct Group {
    loss: f64,
    sub_gsize: u32,
    wanted: u32,
    seed: u64,
    /// Of each message looked at, on how many members it is.
    locations: Vec<u32>,
    /// Messages that some member did not deliver.
    missing: f64,
}

fn measure(loss: f64, sub_gsize: u32, seed: u64, quick: bool) -> Result<Group, RunError> {
    let setting = setting(loss, sub_gsize, quick);
    let net = Network::build(&setting, seed)?;
    let gossip = protocol::gossip(&setting, &net)?;
    let mut staged = PreparedRun::new(&setting, seed, net, gossip)?;
    let count = if quick { COUNT / 10 } else { COUNT };
    let mut locations = Vec::new();
    for number in FIRST..FIRST + count {
        // The first message goes out as the source begins.
        let sent = Duration::from_secs_f64((number - 1) as f64 / setting.rate);
        staged
            .experiment
            .run_to(Time::ZERO + staged.begin + sent + LOOK);
        let hosts = 0..staged.experiment.hosts();
        let node = staged.experiment.node(staged.sender);
        let Some(sender) = node.map(Node::local) else {
            return Err(RunError::Failed("the sender does not run".to_owned()));
        };
        let id = MessageId { sender, number };
        let holds = |host: &usize| {
            let node = staged.experiment.node(*host);
            let instance = node.and_then(|node| node.instance(CHANNEL));
            instance.is_some_and(|gossip| gossip.holds(id))
        };
        locations.push(hosts.filter(holds).count() as u32);
    }
    let run = staged.finish(&setting)?;
    Ok(Group {
        loss,
        sub_gsize,
        wanted: setting.open.bufferers,
        seed,
        locations,
        missing: run.missing(None),
    })
}

impl Reproduction for Locations {
    fn title(&self) -> &'static str {
        "On how many of 100 members each message is buffered"
    }

    fn hosts(&self) -> &'static [LabHost] {
        &[LabHost::Sim]
    }

    fn seeds(&self) -> Range<u64> {
        1..6
    }

    fn run(&self, context: &Context<'_>) -> Result<Data, RunError> {
        let ours = Open::OURS.sub_gsize;
        let [low, high] = LOSSES;
        let points: Vec<(f64, u32, u64)> = [(low, ours), (high, ours), (high, SWEPT)]
            .into_iter()
            .flat_map(|(loss, sub_gsize)| context.seeds().map(move |seed| (loss, sub_gsize, seed)))
            .collect();
        let quick = context.options().quick;
        let mut groups = context.each(&points, |(loss, sub_gsize, seed)| {
            measure(*loss, *sub_gsize, *seed, quick)
        })?;
        let swept = groups.split_off(groups.len() / 3 * 2);
        let mut data = Data::new();
        data.condition("C at the smaller loss (004: about 6)", Open::OURS.bufferers);
        data.condition("links a message crosses, for the choice of C", LINKS);
        data.condition("short-term buffer (ours)", "3 rounds");
        let mut buffered = Table::new(
            BUFFERED,
            &[
                ("loss", ""),
                ("seed", ""),
                ("message", ""),
                ("locations", ""),
            ],
        );
        let mut all = Table::new(
            GROUPS,
            &[("loss", ""), ("wanted", ""), ("seed", ""), ("missing", "")],
        );
        for group in &groups {
            for (number, locations) in (FIRST..).zip(&group.locations) {
                buffered.row([
                    group.loss.into(),
                    group.seed.into(),
                    number.into(),
                    (*locations).into(),
                ]);
            }
            all.row([
                group.loss.into(),
                group.wanted.into(),
                group.seed.into(),
                group.missing.into(),
            ]);
        }
        data.push(buffered);
        data.push(all);
        let mut sweep = Table::new(
            SWEEP,
            &[
                ("loss", ""),
                ("sub-gsize", ""),
                ("seed", ""),
                ("missing", ""),
            ],
        );
        for group in &swept {
            sweep.row([
                group.loss.into(),
                group.sub_gsize.into(),
                group.seed.into(),
                group.missing.into(),
            ]);
        }
        data.push(sweep);
        Ok(data)
    }

    fn judge(&self, data: &Data) -> Verdict {
        let mut verdict = Verdict::new();
        let mut found = Vec::new();
        for loss in LOSSES {
            let wanted = data
                .table(GROUPS)
                .having("loss", loss)
                .next()
                .map_or(f64::NAN, |row| row.number("wanted"));
            let locations: Vec<f64> = data
                .table(BUFFERED)
                .having("loss", loss)
                .map(|row| row.number("locations"))
                .collect();
            let mean = locations.iter().sum::<f64>() / locations.len() as f64;
            let nowhere = locations.iter().filter(|it| **it == 0.0).count();
            let share = nowhere as f64 / locations.len() as f64;
            verdict.check(
                (mean / wanted - 1.0).abs() <= 0.1,
                format!("loss {loss}: the mean number of locations is C, within 10 %"),
                format!("{} beside {wanted}", brief(mean)),
            );
            verdict.note(format!(
                "loss {loss}: {nowhere} of {} messages on no member (004: 3 of 500 at 0.1 %)",
                locations.len()
            ));
            found.push((mean, share));
        }
        let [(low, unbuffered), (high, fewer)] = [0, 1].map(|index| found[index]);
        verdict.check(
            high > low && fewer <= unbuffered,
            "at the higher loss: more locations, and no more messages on none",
            format!(
                "{} beside {} locations; {:.2} beside {:.2} % on none",
                brief(high),
                brief(low),
                fewer * 100.0,
                unbuffered * 100.0
            ),
        );
        let missing: Vec<f64> = data
            .table(GROUPS)
            .records()
            .map(|row| row.number("missing"))
            .collect();
        verdict.check(
            !missing.is_empty() && missing.iter().all(|it| *it == 0.0),
            "every member delivers every message, buffered somewhere or not",
            format!(
                "{} not delivered in {} groups",
                missing.iter().sum::<f64>(),
                missing.len()
            ),
        );
        let swept: Vec<f64> = data
            .table(SWEEP)
            .records()
            .map(|row| row.number("missing"))
            .collect();
        if !swept.is_empty() {
            verdict.note(format!(
                "what 004 leaves open: with a sub-gsize of {SWEPT} and the higher loss {} not delivered in {} groups",
                swept.iter().sum::<f64>(),
                swept.len()
            ));
        }
        verdict
    }

    fn plots(&self, data: &Data) -> Vec<Plot> {
        let plot = |loss: f64| {
            let first = data.table(BUFFERED).having("loss", loss).next();
            let seed = first.map_or(f64::NAN, |row| row.number("seed"));
            let points = data
                .table(BUFFERED)
                .having("loss", loss)
                .filter(|row| row.number("seed") == seed)
                .map(|row| (row.number("message"), row.number("locations")));
            Plot::new(
                format!("{} % loss a link", loss * 100.0),
                Axis::linear("message", ""),
                Axis::linear("members that buffer it", "").from(0.0),
            )
            .with(Series::points(Scheme::Hash.name(), points))
        };
        LOSSES.map(plot).to_vec()
    }
}
