//! That rows come out as they are judged at small cost, and that a judge sees what is wrong.

use super::super::context::options;
use super::super::{Cell, Context, Data, LabHost, Options, Reproduction, Verdict};
use super::{BUCKET, DAMPING};

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
fn what_was_not_measured_passes_no_judge() {
    for row in [&DAMPING as &dyn Reproduction, &BUCKET] {
        let mut data = Data::new();
        data.push(super::super::Table::new("points", &[("means", "")]));
        let verdict = row.judge(&data);
        assert_eq!(failed(&verdict), verdict.checks.len(), "{}", row.title());
        assert!(!verdict.passed(), "{}", row.title());
    }
}
