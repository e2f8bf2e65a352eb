//! That the models are what they are calibrated on, and that a judge sees what is wrong.

use super::super::context::options;
use super::super::figure::POINTS;
use super::super::{Cell, Context, Data, LabHost, Options, Reproduction, Verdict};
use super::point::{Load, RmpPoint, System};
use super::{Transcript, sim};

fn fig6() -> Data {
    let options = Options {
        host: LabHost::Sim,
        ..options(1..2, true, 1)
    };
    let context = Context::new(&options, &|_, _| {});
    Transcript.run(&context).expect("four sites form a ring")
}

fn failed(verdict: &Verdict) -> usize {
    verdict.checks.iter().filter(|check| !check.held).count()
}

#[test]
fn fig_6_is_played_as_it_is_drawn() {
    let verdict = Transcript.judge(&fig6());
    assert!(verdict.passed(), "{:#?}", verdict.checks);
}

#[test]
fn a_frame_that_lacks_a_datagram_is_no_fig_6() {
    let mut data = fig6();
    let said = &mut data.tables[0];
    let nack = Cell::from("NACK(1)");
    said.rows.retain(|row| !row.contains(&nack));
    assert_eq!(failed(&Transcript.judge(&data)), 1);
}

#[test]
fn a_call_to_one_takes_a_millisecond() {
    let point = RmpPoint::alone(System::Rpc, 1, 1, Load::InTurn);
    let measured = sim::measure(&point, 1, 0.05).expect("it runs");
    assert!((0.95..1.05).contains(&measured.period), "{measured:?}");
}

#[test]
fn tcp_to_one_carries_1100_kb_a_second() {
    let point = RmpPoint::alone(System::Tcp, 1, 8_192, Load::File(2_000_000));
    let measured = sim::measure(&point, 1, 1.0).expect("it runs");
    assert!(
        (1_045.0..1_155.0).contains(&measured.throughput),
        "{measured:?}"
    );
}

#[test]
fn what_was_not_measured_passes_no_judge() {
    for figure in [
        super::FIG12,
        super::FIG13,
        super::FIG14,
        super::FIG14K,
        super::FIG15,
        super::TABLE2,
        super::MSGS,
    ] {
        let mut data = Data::new();
        data.push(super::super::Table::new(POINTS, &[("system", "")]));
        let verdict = figure.judge(&data);
        assert_eq!(failed(&verdict), verdict.checks.len(), "{}", figure.title);
        assert!(!verdict.passed(), "{}", figure.title);
    }
    assert!(!super::FAILURE.judge(&Data::new()).passed());
}
