//! What a long run is held to: a line for each bar, with what was reached, and how busy the machine
//! was.

use std::fmt;
use std::fs;

use serde_json::{Value, json};

use super::Outcome;

/// One bar: what was measured, and the most or the least that it may be.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    what: String,
    reached: f64,
    bound: Bound,
    unit: &'static str,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Bound {
    Most(f64),
    Least(f64),
}

impl Bar {
    /// `what` has `reached` this much, in `unit`, and may be `most`.
    pub fn at_most(
        what: impl Into<String>,
        reached: impl Into<f64>,
        most: impl Into<f64>,
        unit: &'static str,
    ) -> Self {
        let bound = Bound::Most(most.into());
        Self::new(what.into(), reached.into(), bound, unit)
    }

    /// `what` has `reached` this much, in `unit`, and must be `least`.
    pub fn at_least(
        what: impl Into<String>,
        reached: impl Into<f64>,
        least: impl Into<f64>,
        unit: &'static str,
    ) -> Self {
        let bound = Bound::Least(least.into());
        Self::new(what.into(), reached.into(), bound, unit)
    }

    fn new(what: String, reached: f64, bound: Bound, unit: &'static str) -> Self {
        Self {
            what,
            reached,
            bound,
            unit,
        }
    }

    /// Whether the bound is kept. A value that could not be measured (NaN) does not keep it.
    pub fn holds(&self) -> bool {
        match self.bound {
            Bound::Most(most) => self.reached <= most,
            Bound::Least(least) => self.reached >= least,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            reached,
            bound,
            unit,
        } = self;
        let word = if self.holds() { "pass" } else { "FAIL" };
        let (side, bound) = match bound {
            Bound::Most(most) => ("most", most),
            Bound::Least(least) => ("least", least),
        };
        write!(
            f,
            "{word}  {what}: {reached:.1} {unit}, at {side} {bound:.1}"
        )
    }
}

/// The bars of a run, in the order in which they were looked at.
#[derive(Clone, Default, Debug)]
pub struct Bars(Vec<Bar>);

impl Bars {
    /// Looks at one more, and prints it.
    pub fn hold(&mut self, bar: Bar) {
        println!("{bar}");
        self.0.push(bar);
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let bars = self.0.iter().map(|bar| {
            let (side, bound) = match bar.bound {
                Bound::Most(most) => ("most", most),
                Bound::Least(least) => ("least", least),
            };
            json!({
                "what": bar.what,
                "reached": bar.reached,
                side: bound,
                "unit": bar.unit,
                "pass": bar.holds(),
            })
        });
        bars.collect()
    }

    /// An error that names those that do not hold.
    pub fn verdict(&self) -> Outcome {
        let failed = self.0.iter().filter(|bar| !bar.holds());
        let failed: Vec<String> = failed.map(ToString::to_string).collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(failed.join("; ").into()),
        }
    }
}

/// How many processes wanted a processor in the last minute, in the mean, as the system says.
pub fn load_average() -> String {
    let line = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = line.split_whitespace().next();
    first.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_do_not_hold_are_named() {
        let mut bars = Bars::default();
        bars.hold(Bar::at_most("losses", 0, 0, "tokens"));
        bars.hold(Bar::at_least("rate", 100.0, 100.0, "a second"));
        assert!(bars.verdict().is_ok());
        bars.hold(Bar::at_most("p99", 21.0, 20.0, "ms"));
        bars.hold(Bar::at_most("median", f64::NAN, 20.0, "ms"));
        let error = bars.verdict().unwrap_err().to_string();
        assert!(error.contains("p99: 21.0 ms, at most 20.0"), "{error}");
        assert!(
            error.contains("median") && !error.contains("losses"),
            "{error}"
        );
    }
}
