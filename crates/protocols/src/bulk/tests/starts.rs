//! Goal: a Start that all have lost costs no storm of rosters. Method: the small network, in which
//! what is lost is chosen.

use std::boxed::Box;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::endpoints::config;
use super::net::{Net, file};
use crate::bulk::wire::Message;
use crate::bulk::{BulkConfig, RateControl, Wanted};

const LENGTH: usize = 400_000;

#[test]
fn a_start_that_all_have_lost_is_told_to_each_alone() {
    const RECEIVERS: usize = 40;
    let settings = BulkConfig {
        rate: RateControl::Fixed {
            bytes_per_second: 1_000_000,
        },
        ..config()
    };
    let mut net = Net::new(RECEIVERS + 1, &settings, LENGTH);
    let starts = Rc::new(Cell::new(0));
    let seen = Rc::clone(&starts);
    net.loses = Some(Box::new(move |_, _, body| {
        let is_start = matches!(Message::decode(body), Ok((_, Message::Start(_))));
        seen.set(seen.get() + usize::from(is_start));
        // That of the beginning.
        is_start && seen.get() <= RECEIVERS
    }));
    net.send(file(LENGTH, Wanted::Count(RECEIVERS)));
    net.must(Duration::from_secs(5), Net::is_sent);
    assert!((1..=RECEIVERS).all(|index| net.has_stream(index, 0)));
    let starts = starts.get();
    assert!((2 * RECEIVERS..4 * RECEIVERS).contains(&starts), "{starts}");
}
