//! What the ways of a topology are like: one entry for all that are alike.
//!
//! Ten thousand links of a generated network share one specification, which then stays in the
//! processor's nearest cache while packets hop; a way that is changed gets an entry of its own.

use crate::link::LinkSpec;

/// Specifications by way.
#[derive(Clone, Default, Debug)]
pub(super) struct Specs {
    /// The different ones (or nearly: equal ones that were not added in a row are not looked for).
    distinct: Vec<LinkSpec>,
    /// How many ways have each of them.
    users: Vec<u32>,
    /// Which of them each way has.
    of: Vec<u32>,
}

impl Specs {
    /// The specification of the next way.
    pub(super) fn push(&mut self, spec: LinkSpec) {
        if self.distinct.last() == Some(&spec) {
            let last = self.distinct.len() - 1;
            self.users[last] += 1;
        } else {
            self.distinct.push(spec);
            self.users.push(1);
        }
        self.of.push(self.distinct.len() as u32 - 1);
    }

    /// Of way number `way`.
    pub(super) fn get(&self, way: usize) -> &LinkSpec {
        &self.distinct[self.of[way] as usize]
    }

    /// Of way number `way` alone, to be changed.
    pub(super) fn get_mut(&mut self, way: usize) -> &mut LinkSpec {
        let entry = self.of[way] as usize;
        if self.users[entry] == 1 {
            return &mut self.distinct[entry];
        }
        self.users[entry] -= 1;
        let own = self.distinct.len();
        self.of[way] = own as u32;
        self.users.push(1);
        self.distinct.push(self.distinct[entry]);
        &mut self.distinct[own]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ways_share_until_one_is_changed() {
        let spec = LinkSpec::ideal(1_000, Duration::from_millis(5));
        let mut specs = Specs::default();
        for _ in 0..100 {
            specs.push(spec);
        }
        assert_eq!(specs.distinct.len(), 1);
        for bandwidth in 0..50 {
            specs.get_mut(7).bandwidth = bandwidth;
        }
        assert_eq!(specs.distinct.len(), 2, "changed again in its place");
        for way in 0..100 {
            let bandwidth = if way == 7 { 49 } else { 1_000 };
            assert_eq!(specs.get(way).bandwidth, bandwidth, "way {way}");
        }
    }

    #[test]
    fn the_last_of_many_is_changed_in_its_place() {
        let mut specs = Specs::default();
        for _ in 0..3 {
            specs.push(LinkSpec::ideal(1_000, Duration::ZERO));
        }
        for way in 0..3 {
            specs.get_mut(way).bandwidth = way as u64;
        }
        assert_eq!(specs.distinct.len(), 3);
        assert_eq!([0, 1, 2].map(|way| specs.get(way).bandwidth), [0, 1, 2]);
    }
}
