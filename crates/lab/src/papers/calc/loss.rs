//! 004 7.2 in closed form: how likely a message is lost to all its bufferers, and so for good.

/// The share of a group's members that miss a message which crosses `links` links, each losing a
/// share `link_loss`.
pub(in crate::papers) fn member_loss(link_loss: f64, links: f64) -> f64 {
    1.0 - (1.0 - link_loss).powf(links)
}

/// How likely an initial multicast fails: somebody misses it and no bufferer has it.
///
/// `members` in the group, `wanted` bufferers wanted, `loss` as of [`member_loss`]. 004 7.2: 1 − P1
/// − P2.
pub(in crate::papers) fn p_fail(members: f64, wanted: f64, loss: f64) -> f64 {
    let bufferer = wanted / members;
    let nobody_buffers_it = (1.0 - bufferer * (1.0 - loss)).powf(members);
    let all_have_it_unbuffered = ((1.0 - bufferer) * (1.0 - loss)).powf(members);
    nobody_buffers_it - all_have_it_unbuffered
}

/// What [`p_fail`] tends to as the group grows.
pub(in crate::papers) fn p_fail_limit(wanted: f64, loss: f64) -> f64 {
    (-wanted * (1.0 - loss)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_member_fails_only_by_losing_what_it_should_buffer() {
        // It buffers everything (C = n = 1): the multicast fails if it is lost.
        assert!((p_fail(1.0, 1.0, 0.2) - 0.2).abs() < 1e-12);
        // With nothing lost, a message that nobody buffers has still reached all.
        assert!(p_fail(50.0, 6.0, 0.0).abs() < 1e-12);
    }

    #[test]
    fn the_failure_tends_to_its_limit_from_below() {
        let limit = p_fail_limit(6.0, 0.1);
        let distance = |members: f64| limit - p_fail(members, 6.0, 0.1);
        assert!(distance(100.0) > distance(1000.0) && distance(1000.0) > distance(10_000.0));
        assert!(distance(1e6) > 0.0 && distance(1e6) / limit < 1e-4);
    }

    #[test]
    fn loss_adds_up_along_the_way() {
        assert!((member_loss(0.1, 2.0) - 0.19).abs() < 1e-12);
        assert!(member_loss(0.1, 0.0).abs() < 1e-12);
    }
}
