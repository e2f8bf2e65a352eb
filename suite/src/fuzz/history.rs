//! The reader of histories, and the judge behind it: any file.
//!
//! Whatever is in it: no panic, a bounded list of violations; and what was understood is written
//! and understood again as the same.

use groupcast_check::ndjson::{OrderedBy, read_history, write_line, write_start};
use groupcast_check::{Checker, Outcome};
use groupcast_core::trace::Observation;
use groupcast_core::{Contract, MemberId};

/// More violations than the checker lists by default.
const VIOLATIONS_MAX: usize = 1000;

/// What the histories that are written name.
const ORDER: OrderedBy<'_> = OrderedBy {
    name: "ring",
    contract: Contract::Ordered,
    ring: None,
};

/// Reads `data` as a history, and judges it.
pub fn history(data: &[u8]) {
    let entries = read(data);
    let mut checker = Checker::new();
    let mut written = String::new();
    for (member, observation) in &entries {
        checker.observe(*member, observation);
        match observation {
            Observation::Start => write_start(&mut written, *member, "name", ORDER),
            seen => write_line(&mut written, seen),
        }
    }
    assert!(checker.finish(&Outcome::default()).len() <= VIOLATIONS_MAX);
    assert_eq!(read(written.as_bytes()), entries);
}

/// What can be read, up to the first error.
fn read(data: &[u8]) -> Vec<(MemberId, Observation)> {
    read_history("history", data)
        .map_while(Result::ok)
        .collect()
}
