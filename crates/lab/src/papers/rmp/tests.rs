//! That the judge of Fig. 6 sees what is wrong.

use super::super::context::options;
use super::super::{Cell, Context, Data, LabHost, Options, Reproduction, Verdict};
use super::Transcript;

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
