//! The key of five daemons is changed twice under load. Twenty times is the soak's
//! (`cargo xtask soak rekey`).

use groupcast_suite::live::rekeys::{self, Load};
use groupcast_suite::live::{Outcome, live};

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_change_of_the_key_under_load_loses_nothing_and_breaks_no_ring() -> Outcome {
    live(|| {
        let report = rekeys::run(2, Load::Text)?;
        match report.broken {
            [0, 0, 0, 0] => Ok(()),
            broken => Err(format!("the ring broke, or seals did: {broken:?}").into()),
        }
    })
}
