//! The membership that a connection requires (003 4.3, 4.5.2), and which part of it does not hold.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display};

use bytes::Bytes;
use groupcast_core::NodeId;
use groupcast_core::text::printable;

use super::Subgroups;

/// The membership that a connection is contingent on: all parts have to hold. Default: any member
/// may come and go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// At least this many members.
    pub count: usize,
    /// A member at each of these nodes.
    pub nodes: BTreeSet<NodeId>,
    /// A member in each of these subgroups.
    pub subgroups: Subgroups,
    /// Whether members may drop in once the connection has begun; if not, later ones are not
    /// watched. Default yes.
    pub may_join: bool,
    /// Whether members may drop out before they have everything. Default yes.
    pub may_leave: bool,
}

impl Default for Membership {
    fn default() -> Self {
        Self {
            count: 0,
            nodes: BTreeSet::new(),
            subgroups: Subgroups::NONE,
            may_join: true,
            may_leave: true,
        }
    }
}

/// Which part of a [`Membership`] does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// There are fewer members than required.
    Count,
    /// A node that is required is missing.
    Nodes,
    /// A subgroup that is required has no member.
    Subgroups,
    /// A member has dropped out.
    Leaves,
}

/// A membership that does not hold any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The part that does not hold.
    pub rule: Rule,
    /// The names of the members whose going broke it; for a required node that never came, the
    /// node.
    pub names: Vec<Bytes>,
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.rule {
            Rule::Count => "too few members are left",
            Rule::Nodes => "a member that is required is gone",
            Rule::Subgroups => "a subgroup that is required has no member",
            Rule::Leaves => "a member has dropped out",
        };
        f.write_str(what)?;
        let names: Vec<String> = self.names.iter().map(|name| printable(name)).collect();
        match names.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", names.join(", ")),
        }
    }
}

impl Membership {
    /// The first part that does not hold if exactly the members `present` are there.
    pub(super) fn judge(
        &self,
        present: impl Iterator<Item = (NodeId, Subgroups)> + Clone,
    ) -> Option<Rule> {
        let missing = || {
            let mut missing = self.nodes.clone();
            for (node, _) in present.clone() {
                missing.remove(&node);
            }
            missing
        };
        let covered = present.clone().map(|(_, subgroups)| subgroups);
        let covered = covered.fold(Subgroups::NONE, Subgroups::union);
        if !self.nodes.is_empty() && !missing().is_empty() {
            Some(Rule::Nodes)
        } else if !self.subgroups.without(covered).is_empty() {
            Some(Rule::Subgroups)
        } else if self.count > 0 && present.count() < self.count {
            Some(Rule::Count)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_membership_has_to_hold() {
        let membership = Membership {
            count: 2,
            nodes: [NodeId(1)].into(),
            subgroups: Subgroups(0b110),
            ..Membership::default()
        };
        let one = (NodeId(1), Subgroups(0b010));
        let two = (NodeId(2), Subgroups(0b100));
        let six = (NodeId(3), Subgroups(0b110));
        let judge = |present: &[(NodeId, Subgroups)]| membership.judge(present.iter().copied());
        assert_eq!(judge(&[one, two]), None);
        assert_eq!(judge(&[two, six]), Some(Rule::Nodes));
        assert_eq!(judge(&[one, one]), Some(Rule::Subgroups));
        let both = (NodeId(1), Subgroups(0b111));
        assert_eq!(judge(&[both]), Some(Rule::Count));
        assert_eq!(Membership::default().judge([].into_iter()), None);
    }

    #[test]
    fn a_violation_names_who_is_gone_and_its_text_is_safe_to_print() {
        let names = ["a", "b\u{1b}"].map(|name| Bytes::from_static(name.as_bytes()));
        let violation = Violation {
            rule: Rule::Count,
            names: names.into(),
        };
        let text = alloc::format!("{violation}");
        assert_eq!(text, "too few members are left: a, b\\u{1b}");
    }
}
