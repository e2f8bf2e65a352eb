//! `cargo xtask bench --instructions`: what deterministic work costs in instructions, compared to a
//! committed baseline.
//!
//! Time depends on the machine and on what else it does; instructions hardly do, so that a
//! regression of a few percent shows. Callgrind counts them in the program `instructions`
//! (crates/bench/examples), twice a case with different numbers of messages: the difference is what
//! messages cost. `--keep` writes the baseline anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::{Failure, exec};

/// Where the baseline is, from the root of the workspace.
const BASELINE: &str = "crates/bench/examples/instructions/baseline.json";
/// How many messages of every sender each case is counted with.
const COUNTS: (u64, u64) = (1000, 3000);
/// A rise of more than this share fails. The same build counts the same, but other code nearby
/// moves what is inlined.
const TOLERANCE: f64 = 0.01;

/// Instructions a message, by case, in the order of the program.
type Costs = Vec<(String, f64)>;

/// `cargo xtask bench --instructions …`
pub(crate) fn task(args: &[String]) -> Result<(), Failure> {
    let keep = match args {
        [] => false,
        [keep] if keep == "--keep" => true,
        _ => {
            return Err(Failure::Usage(
                "`bench --instructions` takes only `--keep`, which writes the baseline anew".into(),
            ));
        }
    };
    let program = exec::build_example("instructions")?;
    let costs = count(&program)?;
    let path = exec::root().join(BASELINE);
    if keep {
        return write(&path, &costs);
    }
    let baseline = read(&path)?;
    print!("{}", table(&costs, &baseline));
    let risen = risen(&costs, &baseline);
    if risen.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "more instructions than the baseline allows: {}; if that is meant, `cargo xtask bench --instructions --keep`",
        risen.join(", ")
    )))
}

fn count(program: &Path) -> Result<Costs, Failure> {
    let output = Command::new(program)
        .arg("--list")
        .output()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|case| {
            let (few, many) = COUNTS;
            let instructions = collected(program, case, many)? - collected(program, case, few)?;
            // A case of the ring orders the messages of three senders.
            let senders = if case.starts_with("ring of 3") { 3 } else { 1 };
            let cost = instructions as f64 / ((many - few) * senders) as f64;
            eprintln!("{case}: {cost:.0} instructions a message");
            Ok((case.to_owned(), cost))
        })
        .collect()
}

/// How many instructions the case takes for `count` messages.
fn collected(program: &Path, case: &str, count: u64) -> Result<i64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, &count.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Failure::Failed(format!("`{case}` under valgrind: {said}")));
    }
    total(&said)
        .ok_or_else(|| Failure::Failed(format!("callgrind did not say what it counted: {said}")))
}

/// What callgrind says at its end: `==PID== Collected : COUNT`.
fn total(said: &str) -> Option<i64> {
    said.lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
}

/// What instructions depend on beside the code.
fn tools() -> Value {
    let version = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(text)
    };
    let libc = version("ldd", &["--version"])
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_default();
    json!({
        "rustc": version("rustc", &["--version"]),
        "valgrind": version("valgrind", &["--version"]),
        "libc": libc,
    })
}

fn write(path: &Path, costs: &Costs) -> Result<(), Failure> {
    let cases: Map<String, Value> = costs
        .iter()
        .map(|(case, cost)| (case.clone(), json!(cost.round() as i64)))
        .collect();
    let text = format!("{:#}\n", json!({ "instructions": cases, "tools": tools() }));
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("kept in {}", path.display());
    Ok(())
}

fn read(path: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |error: String| {
        Failure::Failed(format!(
            "no baseline in {}: {error}; make it with --keep",
            path.display()
        ))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let (here, there) = (tools(), value.get("tools").cloned().unwrap_or_default());
    if here != there {
        eprintln!("warning: the baseline was counted with other tools ({there}, here {here})");
    }
    match value.get("instructions") {
        Some(Value::Object(cases)) => Ok(cases.clone()),
        _ => Err(wrong("no object `instructions`".into())),
    }
}

/// By which share a case differs from the baseline; `None` if that does not know it.
fn change(case: &str, cost: f64, baseline: &Map<String, Value>) -> Option<f64> {
    let before = baseline.get(case)?.as_f64()?;
    Some(cost / before - 1.0)
}

fn table(costs: &Costs, baseline: &Map<String, Value>) -> String {
    let mut text =
        "| case | instructions a message | baseline | change |\n|---|--:|--:|--:|\n".to_owned();
    for (case, cost) in costs {
        let before = baseline.get(case).and_then(Value::as_f64);
        let before = before.map_or_else(|| "none".to_owned(), |before| format!("{before:.0}"));
        let change = change(case, *cost, baseline)
            .map_or_else(String::new, |change| format!("{:+.1} %", 100.0 * change));
        text += &format!("| {case} | {cost:.0} | {before} | {change} |\n");
    }
    text
}

/// Cases that cost more than the tolerance allows, or that the baseline does not know, or has
/// beside these.
fn risen(costs: &Costs, baseline: &Map<String, Value>) -> Vec<String> {
    let more = costs
        .iter()
        .filter_map(|(case, cost)| match change(case, *cost, baseline) {
            None => Some(format!("{case} (not in the baseline)")),
            Some(change) if change > TOLERANCE => {
                Some(format!("{case} ({:+.1} %)", 100.0 * change))
            }
            Some(_) => None,
        });
    let gone = baseline
        .keys()
        .filter(|known| costs.iter().all(|(case, _)| case != *known))
        .map(|case| format!("{case} (only in the baseline)"));
    more.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_last_word_is_read() {
        let said = "==7== Events    : Ir\n==7== Collected : 123456\n==7== I   refs:      123,456\n";
        assert_eq!(total(said), Some(123_456));
        assert_eq!(total("==7== nothing"), None);
    }

    #[test]
    fn a_rise_beyond_the_tolerance_is_named_and_a_fall_is_not() {
        let Value::Object(baseline) = json!({"a": 1000, "b": 1000, "c": 1000, "gone": 1}) else {
            panic!("it is an object");
        };
        let costs = vec![
            ("a".to_owned(), 1009.0),
            ("b".to_owned(), 1011.0),
            ("c".to_owned(), 500.0),
            ("new".to_owned(), 1.0),
        ];
        assert_eq!(
            risen(&costs, &baseline),
            [
                "b (+1.1 %)",
                "new (not in the baseline)",
                "gone (only in the baseline)"
            ]
        );
        assert!(table(&costs, &baseline).contains("| c | 500 | 1000 | -50.0 % |"));
    }
}
