//! That rows come out as they are judged at small cost, and that a judge sees what is wrong.

use super::super::context::options;
use super::super::{Cell, Context, Data, LabHost, Options, Reproduction, Verdict};
use super::{BUCKET, COMPARE, DAMPING, FIG2, PRUNE, TABLE1, TABLE4, TABLE6, TABLE7};

fn run(row: &dyn Reproduction) -> Data {
    let options = Options {
        host: LabHost::Sim,
        ..options(1..2, true, 1)
    };
    let context = Context::new(&options, &|_, _| {});
    row.run(&context).expect("it runs")
}

fn failed(verdict: &Verdict) -> usize {
    verdict.checks.iter().filter(|check| !check.held).count()
}

/// Replaces the values of a column in rows where `is` holds of another.
fn spoil(data: &mut Data, column: &str, to: f64, is: impl Fn(&[Cell]) -> bool) {
    let table = &mut data.tables[0];
    let at = table.columns.iter().position(|it| it.name == column);
    let at = at.expect("there is such a column");
    for row in table.rows.iter_mut().filter(|row| is(row)) {
        row[at] = to.into();
    }
}

#[test]
fn damping_follows_the_law_and_one_answer_too_many_is_seen() {
    let mut data = run(&DAMPING);
    let verdict = DAMPING.judge(&data);
    assert!(verdict.passed(), "{:#?}", verdict.checks);
    spoil(&mut data, "answers", 21.0, |row| {
        row[0] == Cell::from("none") && row[1] == Cell::from(20_u32)
    });
    assert_eq!(failed(&DAMPING.judge(&data)), 1);
}

#[test]
fn a_release_is_early_exactly_if_answers_are_and_who_is_not_named_is_seen() {
    let mut data = run(&BUCKET);
    let verdict = BUCKET.judge(&data);
    assert!(verdict.passed(), "{:#?}", verdict.checks);
    spoil(&mut data, "named", 0.0, |_| true);
    assert_eq!(failed(&BUCKET.judge(&data)), 1);
}

#[test]
fn the_model_is_what_it_is_fitted_to() {
    for row in [&TABLE1, &TABLE4] {
        let verdict = row.judge(&run(row));
        let fitted = verdict.checks.iter();
        let fitted: Vec<_> = fitted
            .filter(|it| it.claim.starts_with("calibration"))
            .collect();
        assert!(fitted.len() >= 3, "{}", row.title);
        assert!(fitted.iter().all(|check| check.held), "{fitted:#?}");
    }
}

#[test]
fn a_list_that_is_ahead_of_the_multidriver_is_seen() {
    let mut data = run(&TABLE7);
    assert!(TABLE7.judge(&data).passed());
    spoil(&mut data, "throughput", 900.0, |row| {
        row[0] == Cell::from("list-based")
    });
    assert_eq!(failed(&TABLE7.judge(&data)), 1);
}

#[test]
fn policies_send_as_many_acknowledgements_as_is_known_and_one_more_is_seen() {
    let mut data = run(&COMPARE);
    let verdict = COMPARE.judge(&data);
    assert!(verdict.passed(), "{:#?}", verdict.checks);
    spoil(&mut data, "control at the sender", 25.0, |row| {
        row[0] == Cell::from("nak") && row[2] == Cell::from(500_000_u32)
    });
    assert_eq!(failed(&COMPARE.judge(&data)), 1);
    spoil(&mut data, "control at the sender", 13.0, |row| {
        row[0] == Cell::from("collectors")
    });
    spoil(&mut data, "packets in all", 6.0, |row| {
        row[0] == Cell::from("mtp")
    });
    assert_eq!(failed(&COMPARE.judge(&data)), 3);
}

#[test]
fn transcripts_are_as_003_tells_and_one_without_a_reply_is_not() {
    for (row, without) in [(&FIG2, "acknowledges"), (&PRUNE, "excludes")] {
        let mut data = run(row);
        let verdict = row.judge(&data);
        assert!(verdict.passed(), "{:#?}", verdict.checks);
        let table = &mut data.tables[0];
        let said = |row: &Vec<Cell>| format!("{:?}", row[3]).contains(without);
        table.rows.retain(|row| !said(row));
        assert_eq!(failed(&row.judge(&data)), 1, "{}", row.title());
    }
}

#[test]
fn what_was_not_measured_passes_no_judge() {
    let rows: [&dyn Reproduction; 7] = [
        &COMPARE, &DAMPING, &BUCKET, &TABLE1, &TABLE4, &TABLE6, &TABLE7,
    ];
    for row in rows {
        let mut data = Data::new();
        data.push(super::super::Table::new("points", &[("means", "")]));
        let verdict = row.judge(&data);
        assert_eq!(failed(&verdict), verdict.checks.len(), "{}", row.title());
        assert!(!verdict.passed(), "{}", row.title());
    }
}
