//! Goal: what the swarm found once stays mended. Method: those seeds again.

use groupcast_protocols::rmp::FAMILY;
use groupcast_sim::swarm::{Swarm, SwarmConfig, replay};

/// The border of resilient messages drawn by marks that came after the declarations (21, 163, 207,
/// 216); a packet sent again in a recovery with marks that a member beside it went by, so that its
/// message stood at two places (73); a member that kept one out which all others had let in (74);
/// a token site that missed an ACK and its packet, and got them one after the other, while the
/// others took the group for silent (62,682); a member that was alone and asked a group to let it
/// in, and left out those of its members that it had in quarantine (10,015,677: four and two
/// members stayed apart for as long as the quarantines lasted); a slow member that answered a poll
/// again after it had recovered, so that the others finished the old configuration by other
/// declarations than it did, and it alone delivered a message (11,009,464); a member that came back
/// from a pause and excluded the other, which had excluded it, for half a minute (13,011,900); a
/// member that was alone, left, and had more packets than places: it ordered 128 of them after each
/// time-out (15,003,329).
#[test]
fn seeds_that_failed_once_stay_mended() {
    let swarm = Swarm::of(&FAMILY, None, SwarmConfig::of(&FAMILY));
    for seed in [
        21, 73, 74, 163, 207, 216, 62_682, 10_015_677, 11_009_464, 13_011_900, 15_003_329,
    ] {
        let report = swarm.run_seed(seed);
        assert!(report.accepted > 0, "seed {seed}: nothing was accepted");
        let violations = report.violations.join("\n");
        let again = replay(seed, "--protocol rmp");
        assert!(violations.is_empty(), "{violations}\n{again}");
    }
}
