//! From values to places on an axis, and which values get a tick.

use super::{Axis, Kind};

/// An axis fitted to its data and to a stretch of the drawing.
#[derive(Debug)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    /// Where `low` and `high` stand; the first may be the larger, as it is upwards in SVG.
    span: (f64, f64),
}

/// A tick: where, and what stands beside it; an empty label is a minor tick.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

impl Scale {
    /// Fits `axis` to `values` on `span`.
    pub(super) fn fit(axis: &Axis, values: impl Iterator<Item = f64>, span: (f64, f64)) -> Self {
        let shown = |value: &f64| value.is_finite() && (axis.kind != Kind::Log || *value > 0.0);
        let (mut low, mut high) = values
            .filter(shown)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 2.0);
        }
        (low, high) = match &axis.kind {
            Kind::Linear => linear_range(low, high),
            Kind::Log => log_range(low, high),
            Kind::Categories(names) => (-0.5, names.len() as f64 - 0.5),
        };
        Self {
            kind: axis.kind.clone(),
            low: axis.low.unwrap_or(low),
            high: axis.high.unwrap_or(high),
            span,
        }
    }

    /// Where `value` stands; `None` if it has no place on this axis.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.kind == Kind::Log && value <= 0.0) {
            return None;
        }
        let share = match self.kind {
            Kind::Log => (value / self.low).log10() / (self.high / self.low).log10(),
            _ => (value - self.low) / (self.high - self.low),
        };
        Some(self.span.0 + share * (self.span.1 - self.span.0))
    }

    /// Where bars begin: at zero if it is on the axis, else at its foot.
    pub(super) fn foot(&self) -> f64 {
        let zero = match self.kind {
            Kind::Log => self.low,
            _ => 0.0f64.clamp(self.low, self.high),
        };
        self.place(zero).unwrap_or(self.span.0)
    }

    /// The ticks, each with its value.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let ticks = match &self.kind {
            Kind::Linear => linear_ticks(self.low, self.high),
            Kind::Log => log_ticks(self.low, self.high),
            Kind::Categories(names) => names
                .iter()
                .enumerate()
                .map(|(index, name)| Tick {
                    at: index as f64,
                    label: name.clone(),
                })
                .collect(),
        };
        let (near, far) = (self.span.0.min(self.span.1), self.span.0.max(self.span.1));
        let inside = |tick: &Tick| {
            let place = self.place(tick.at);
            place.is_some_and(|place| (near - 0.01..=far + 0.01).contains(&place))
        };
        ticks.into_iter().filter(inside).collect()
    }
}

/// A step of 1, 2 or 5 times a power of ten that cuts `span` into about `parts`.
fn step(span: f64, parts: f64) -> f64 {
    let rough = span / parts;
    let power = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|digit| digit * power >= rough * 0.999)
        .unwrap_or(10.0);
    digit * power
}

fn linear_range(low: f64, high: f64) -> (f64, f64) {
    // From zero unless that would squeeze the data into the upper half.
    let low = if low >= 0.0 && low <= 0.5 * high {
        0.0
    } else {
        low
    };
    let span = if high > low {
        high - low
    } else {
        high.abs().max(1.0)
    };
    let step = step(span, 6.0);
    let low = (low / step).floor() * step;
    let high = (high / step - 1e-9).ceil() * step;
    (low, if high > low { high } else { low + step })
}

fn linear_ticks(low: f64, high: f64) -> Vec<Tick> {
    let step = step(high - low, 6.0);
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last)
        .map(|index| {
            let at = index as f64 * step;
            Tick {
                at,
                label: grouped(&format!("{at:.decimals$}")),
            }
        })
        .collect()
}

/// Digits of large whole numbers in groups of three.
fn grouped(number: &str) -> String {
    let digits = number.trim_start_matches('-');
    if digits.contains('.') || digits.len() < 5 {
        return number.replace('-', "−");
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    match number.starts_with('-') {
        true => format!("−{text}"),
        false => text,
    }
}

fn log_range(low: f64, high: f64) -> (f64, f64) {
    let decades = (high / low).log10();
    let round = |value: f64, up: bool| {
        let power = 10f64.powf((value.log10() + 1e-9).floor());
        let digits: &[f64] = if decades > 2.0 {
            &[1.0, 10.0]
        } else {
            &[1.0, 2.0, 5.0, 10.0]
        };
        let mut marks = digits.iter().map(|digit| digit * power);
        match up {
            true => marks
                .find(|mark| *mark >= value * 0.999_999)
                .unwrap_or(value),
            false => marks
                .rfind(|mark| *mark <= value * 1.000_001)
                .unwrap_or(value),
        }
    };
    let (low, high) = (round(low, false), round(high, true));
    (low, if high > low { high } else { low * 10.0 })
}

fn log_ticks(low: f64, high: f64) -> Vec<Tick> {
    let (first, last) = (
        (low.log10() - 1e-9).floor() as i32,
        (high.log10() + 1e-9).ceil() as i32,
    );
    let decades = (high / low).log10();
    let every = (decades / 8.0).ceil().max(1.0) as i32;
    let labelled: &[i32] = match decades {
        d if d <= 1.5 => &[1, 2, 3, 5],
        d if d <= 3.0 => &[1, 2, 5],
        _ => &[1],
    };
    let plain = first >= -3 && last <= 6;
    let mut ticks = Vec::new();
    for exponent in first..=last {
        for digit in 1..10 {
            let at = f64::from(digit) * 10f64.powi(exponent);
            let label = match labelled.contains(&digit) && exponent % every == 0 {
                true if plain => grouped(&format!("{at:.*}", (-exponent).max(0) as usize)),
                true if digit == 1 => format!("10{}", superscript(exponent)),
                true => format!("{digit}·10{}", superscript(exponent)),
                false => String::new(),
            };
            // Minor ticks between the powers are only worth their ink over a few of them.
            if !label.is_empty() || (decades <= 6.0) || (digit == 1 && decades <= 40.0) {
                ticks.push(Tick { at, label });
            }
        }
    }
    ticks
}

fn superscript(number: i32) -> String {
    let raised = |c| match c {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => char::from_u32('⁴' as u32 + c as u32 - '4' as u32).unwrap_or(c),
    };
    number.to_string().chars().map(raised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = Scale::fit(axis, values.iter().copied(), (0.0, 100.0));
        let labels = scale.ticks().into_iter().map(|tick| tick.label);
        labels.filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_enclose_the_data() {
        let axis = Axis::linear("", "");
        assert_eq!(
            labels(&axis, &[12.0, 92.0]),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            labels(&axis, &[0.12, 0.31]),
            ["0.0", "0.1", "0.2", "0.3", "0.4"]
        );
        assert_eq!(
            labels(&axis, &[0.0, 20_000.0]).last().map(String::as_str),
            Some("20\u{a0}000")
        );
        assert_eq!(
            labels(&axis, &[97.0, 99.0]).first().map(String::as_str),
            Some("97.0")
        );
    }

    #[test]
    fn log_ticks_are_powers_and_few() {
        let axis = Axis::log("", "");
        let wide = labels(&axis, &[1e-37, 0.5]);
        assert!(
            wide.len() <= 9 && wide.contains(&"10⁻³⁰".to_owned()),
            "{wide:?}"
        );
        assert_eq!(
            labels(&axis, &[100.0, 1000.0]),
            ["100", "200", "300", "500", "1000"]
        );
    }

    #[test]
    fn values_stand_where_their_share_of_the_axis_is() {
        let scale = Scale::fit(&Axis::log("", ""), [1.0, 100.0].into_iter(), (200.0, 0.0));
        assert_eq!(scale.place(10.0), Some(100.0));
        assert_eq!(scale.place(0.0), None);
        assert_eq!(scale.place(f64::NAN), None);
        let scale = Scale::fit(
            &Axis::linear("", "").from(0.0).to(10.0),
            [3.0].into_iter(),
            (0.0, 50.0),
        );
        assert_eq!(scale.place(5.0), Some(25.0));
    }
}
