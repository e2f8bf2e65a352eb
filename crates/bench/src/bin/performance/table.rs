//! The table of a sweep: figures of every row that was measured, what is asked of it, and whether
//! it is so.

use std::fmt::Write as _;

use serde_json::Value;

use crate::plan::{self, Bar, Mode, Rate, Row};
use crate::results::Results;

const HEAD: &str = "\
| link | hosts | mode | what | Mb/s | messages/s | by raw | of the ceiling | latency, µs: mean | 99 % | round trips | CPU, % of all cores | CPU s a million | MiB | asked |
|---|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
";

/// The table as markdown, with the conditions before it.
pub(crate) fn table(results: &Results) -> String {
    let rows: Vec<Row> = plan::all()
        .into_iter()
        .filter(|row| results.report(&row.call.to_string()).is_some())
        .collect();
    let mut text = conditions(results, &rows);
    text.push_str(HEAD);
    for row in &rows {
        text.push_str(&line(results, row));
        text.push('\n');
    }
    text
}

/// The conditions, each once, with the number of rows measured under it.
fn conditions(results: &Results, rows: &[Row]) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for row in rows {
        let Some(conditions) = results.conditions(&row.call.to_string()) else {
            continue;
        };
        let line = conditions.line();
        match counts.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => counts.push((line, 1)),
        }
    }
    let mut text = String::new();
    for (line, count) in counts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {count} rows: {line}");
    }
    text.push('\n');
    text
}

fn line(results: &Results, row: &Row) -> String {
    let name = row.call.to_string();
    let report = results.report(&name).unwrap_or(&Value::Null);
    let number = |pointer: &str, scale: f64, digits: usize| {
        report
            .pointer(pointer)
            .and_then(Value::as_f64)
            .map_or_else(String::new, |figure| format!("{:.digits$}", scale * figure))
    };
    let mode = match row.call.mode {
        Mode::Daemon => "daemon",
        Mode::Library => "library",
    };
    let asked: Vec<String> = row
        .bars
        .iter()
        .map(|bar| verdict(results, &name, *bar))
        .collect();
    // At full speed latency is the length of queues.
    let paced = row.call.rate != Rate::Max;
    let latency = |pointer| {
        if paced || row.part == "small" {
            number(pointer, 1.0, 0)
        } else {
            String::new()
        }
    };
    format!(
        "| {} | {} | {mode} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        row.call.link,
        row.call.hosts,
        what(row),
        number("/mbps_slowest", 1.0, if paced { 1 } else { 0 }),
        number("/msgs_per_s", 1.0, 0),
        if paced {
            String::new()
        } else {
            number("/ratio", 1.0, 2)
        },
        number("/of_ceiling", 100.0, 1),
        latency("/latency_us/mean"),
        latency("/latency_us/p99"),
        number("/latency_ratio", 1.0, 1),
        number("/cpu_percent", 1.0, 0),
        number("/cpu_s_per_million", 1.0, 2),
        number("/memory_peak_mib", 1.0, 0),
        asked.join("; "),
    )
}

/// What is special about a row.
fn what(row: &Row) -> String {
    let call = &row.call;
    let mut words = Vec::new();
    if call.size != 1350 {
        words.push(format!("{} B", call.size));
    }
    if call.service != "agreed" {
        words.push(call.service.to_owned());
    }
    match call.rate {
        Rate::Max => {}
        Rate::Mbps(rate) => words.push(format!("{rate} Mb/s")),
        Rate::Half => words.push("half of the most".to_owned()),
    }
    if !call.encrypt {
        words.push("in clear".to_owned());
    }
    if call.loss > 0 {
        words.push(format!("{} % lost", call.loss));
    }
    if let Some(spin) = call.spin {
        words.push(format!("spinning {}", if spin { "on" } else { "off" }));
    }
    if call.original {
        words.push("original ring".to_owned());
    }
    words.join(", ")
}

/// What is asked of the row `name`, and whether it is so.
fn verdict(results: &Results, name: &str, bar: Bar) -> String {
    let own = |pointer| results.figure(name, pointer);
    let mbps = |other: plan::BenchCall| results.figure(&other.to_string(), "/mbps_slowest");
    let share = |a: Option<f64>, b: Option<f64>| Some(a? / b?).filter(|share| share.is_finite());
    let (asked, figure) = match bar {
        Bar::Raw(_) => ("× raw", own("/ratio")),
        Bar::Ceiling(_) => ("of the ceiling", own("/of_ceiling")),
        Bar::RoundTrips(_) => ("round trips", own("/latency_ratio")),
        Bar::Processor(_) => ("% CPU", own("/cpu_percent")),
        Bar::Messages(_) => ("messages/s", own("/msgs_per_s")),
        Bar::P99(_) => ("µs at 99 %", own("/latency_us/p99")),
        Bar::ShareOf(_, other) if other.link == "none" => {
            ("of agreed", share(own("/mbps_slowest"), mbps(other)))
        }
        Bar::ShareOf(_, other) => (
            "of what is carried without loss",
            share(own("/mbps_slowest"), mbps(other)),
        ),
        Bar::Leaves(_, other) => (
            "left by encryption",
            share(mbps(other), own("/mbps_slowest")),
        ),
        Bar::LatencyOf(_, other) => (
            "of the latency with spinning off",
            share(
                own("/latency_us/mean"),
                results.figure(&other.to_string(), "/latency_us/mean"),
            ),
        ),
    };
    let (limit, ceiling) = limit(bar);
    let sign = if ceiling { '≤' } else { '≥' };
    match figure {
        None => format!("{sign} {limit} {asked}: not known"),
        Some(figure) if figure == limit || (figure < limit) == ceiling => {
            format!("{sign} {limit} {asked}: yes ({figure:.2})")
        }
        Some(figure) => format!("{sign} {limit} {asked}: **no** ({figure:.2})"),
    }
}

/// The number that is asked, and whether it is the most, not the least.
fn limit(bar: Bar) -> (f64, bool) {
    match bar {
        Bar::Raw(limit)
        | Bar::Ceiling(limit)
        | Bar::Messages(limit)
        | Bar::ShareOf(limit, _)
        | Bar::Leaves(limit, _) => (limit, false),
        Bar::RoundTrips(limit)
        | Bar::Processor(limit)
        | Bar::P99(limit)
        | Bar::LatencyOf(limit, _) => (limit, true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conditions::Conditions;

    fn measured() -> Results {
        let conditions = Conditions::sample();
        let mut results = Results::default();
        for row in plan::all() {
            let mbps = if row.call.service == "safe" {
                80.0
            } else {
                100.0
            };
            let report = json!({
                "mbps_slowest": mbps, "msgs_per_s": 9259.0, "ratio": 4.5, "of_ceiling": 0.9, "cpu_percent": 12.0,
                "latency_us": {"mean": 200.4, "p50": 180.0, "p99": 400.0}, "latency_ratio": 5.0,
            });
            results.keep(row.call.to_string(), report, &conditions);
        }
        results
    }

    #[test]
    fn every_row_says_what_is_asked_and_whether_it_is_so() {
        let text = table(&measured());
        let line = |beginning: &str| {
            text.lines()
                .find(|line| line.starts_with(beginning))
                .unwrap_or_else(|| panic!("no line `{beginning}` in {text}"))
        };
        assert!(line("| none | 3 | daemon |  |").ends_with("| ≥ 4 × raw: yes (4.50) |"));
        assert!(line("| none | 5 | daemon |  |").ends_with("| ≥ 5 × raw: **no** (4.50) |"));
        assert!(
            line("| none | 3 | daemon | 5 Mb/s, spinning off |")
                .ends_with("≤ 3.5 round trips: **no** (5.00); ≤ 10 % CPU: **no** (12.00) |")
        );
        assert!(line("| none | 3 | daemon | safe |").contains("≥ 0.85 of agreed: **no** (0.80)"));
        assert!(
            line("| none | 2 | daemon | 5 Mb/s, spinning on |").contains("≤ 0.5 of the latency")
        );
        assert!(text.starts_with(&format!("- {} rows: commit abc", plan::all().len())));
    }

    #[test]
    fn a_row_that_was_not_measured_is_not_in_the_table() {
        assert_eq!(table(&Results::default()).lines().count(), 3);
    }
}
