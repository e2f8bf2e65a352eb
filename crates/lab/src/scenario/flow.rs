//! `[[flow]]`: TCP-like flows that share links with the protocol.

use groupcast_core::{Rng, Time};
use groupcast_sim::flow::{Congestion, FlowConfig};

use super::error::ScenarioError;
use super::section::{Entry, Section};
use super::select::Hosts;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The words for ways to control congestion.
pub(super) const CONTROLS: &[(&str, Congestion)] = &[
    ("cubic", Congestion::Cubic),
    ("reno", Congestion::Reno),
    ("bbr", Congestion::Bbr),
];

/// A `[[flow]]`, read: a flow from each host of `from` to the one of `to` in its place.
#[derive(Clone, Debug)]
pub(super) struct FlowKeys {
    from: Hosts,
    to: Hosts,
    congestion: Congestion,
    start: Time,
    stop: Time,
    window_max: Option<u64>,
}

impl FlowKeys {
    /// `end`: of the world.
    pub(super) fn read(section: &Section<'_>, end: Time) -> Result<Self> {
        let time = |entry: &Entry<'_>| Ok(Time::ZERO + entry.duration()?);
        let flow = Self {
            from: section.required("from", Hosts::read)?,
            to: section.required("to", Hosts::read)?,
            congestion: section.or("control", Congestion::Cubic, |entry| entry.word(CONTROLS))?,
            start: section.or("start", Time::ZERO, time)?,
            stop: section.or("stop", Time::MAX, time)?,
            window_max: section.optional("window_max", |entry| entry.size_in(1_448, 1 << 30))?,
        };
        match (section.get("start"), section.get("stop")) {
            (Some(start), _) if flow.start >= end => {
                return Err(start.wrong(
                    "after the end of the world",
                    "start before `duration`, or make that longer",
                ));
            }
            (_, Some(stop)) if flow.stop <= flow.start => {
                return Err(stop.wrong(
                    "not after `start`",
                    "nothing would be sent: leave the flow out",
                ));
            }
            _ => section.finish(|_| None)?,
        }
        Ok(flow)
    }

    /// Its flows among `count` hosts.
    pub(super) fn plan(&self, count: usize, rng: &Rng) -> Result<Vec<FlowConfig>> {
        let from = self.from.resolve(count, &mut rng.fork("from"))?;
        let to = self.to.resolve(count, &mut rng.fork("to"))?;
        if from.len() != to.len() {
            return Err(self.to.spot().wrong(
                format!("{} flows cannot end at {} hosts", from.len(), to.len()),
                "name as many hosts here as in `from`",
            ));
        }
        let pairs = from.into_iter().zip(to);
        let planned = pairs.map(|(from, to)| {
            if from == to {
                let help = "a flow crosses the network: name another host";
                let what = format!("a flow from host {from} to itself");
                return Err(self.to.spot().wrong(what, help));
            }
            let flow = FlowConfig::new([from, to], self.congestion);
            Ok(FlowConfig {
                start: self.start,
                stop: self.stop,
                window_max: self.window_max.unwrap_or(flow.window_max),
                ..flow
            })
        });
        planned.collect()
    }
}
