//! Rows in short: that they run, that exchanges come out as drawn, and that empty data satisfies no
//! judge.

use std::path::PathBuf;

use super::super::{Context, Data, LabHost, Options, Record, registry, rows};

fn options() -> Options {
    Options {
        host: LabHost::Sim,
        seeds: 1..2,
        quick: true,
        jobs: 1,
        executable: PathBuf::new(),
        out: None,
    }
}

fn record(id: &str) -> Record {
    let row = registry::row(id).unwrap();
    let reproduction = registry::reproduction(id).unwrap();
    let options = options();
    let data = reproduction
        .run(&Context::new(&options, &|_, _| {}))
        .unwrap();
    Record::new(row, reproduction, &options, String::new(), data)
}

#[test]
fn exchanges_come_out_as_004_draws_them() {
    for id in ["pb-fig3.1", "pb-fig5.5", "pb-fig5.8", "pb-fig7.1"] {
        let record = record(id);
        let failed = record.verdict.checks.iter().filter(|check| !check.held);
        let failed: Vec<_> = failed.collect();
        assert!(
            record.verdict.passed(),
            "{id}: {failed:#?}\n{:#?}",
            record.verdict.notes
        );
    }
}

#[test]
fn no_judge_is_content_with_nothing() {
    let simulated = rows()
        .filter(|row| row.id.starts_with("pb-"))
        .filter_map(|row| Some((row.id, registry::reproduction(row.id)?)))
        .filter(|(_, reproduction)| reproduction.hosts() == [LabHost::Sim]);
    let mut judged = 0;
    for (id, reproduction) in simulated {
        assert!(!reproduction.judge(&Data::new()).passed(), "{id}");
        judged += 1;
    }
    assert!(judged >= 20, "{judged}");
}

#[test]
fn control_receipts_follow_their_formulas_in_a_short_run_too() {
    let record = record("pb-cost");
    assert!(record.verdict.passed(), "{:#?}", record.verdict);
    assert!(
        !registry::reproduction("pb-cost")
            .unwrap()
            .plots(&record.data)
            .is_empty()
    );
}

#[test]
fn equal_seeds_give_equal_data() {
    let [one, again] = [(); 2].map(|()| record("pb-fig6.9").data);
    assert_eq!(one, again);
    assert!(one.table("histograms").rows.len() > 10);
}
