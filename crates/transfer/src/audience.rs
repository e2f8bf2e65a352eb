//! Which receivers a transfer waits for, in the words of the protocol.

use std::collections::BTreeMap;

use groupcast_core::NodeId;
use groupcast_protocols::bulk::{Listed, Wanted};
use groupcast_protocols::xgm::Subgroups;

use crate::send::Audience;

impl Audience {
    /// The receivers that the protocol waits for, and the names of those that are named.
    pub(crate) fn wanted(self) -> (Wanted, BTreeMap<NodeId, String>) {
        let unnamed = |wanted| (wanted, BTreeMap::new());
        match self {
            Self::Anybody => unnamed(Wanted::Open),
            Self::Count(count) => unnamed(Wanted::Count(count)),
            Self::Between { min, max } => unnamed(Wanted::Between { min, max }),
            Self::Listed(names) => {
                let listed = |(name, subgroups): &(String, Subgroups)| Listed {
                    node: NodeId::from_name(name),
                    subgroups: *subgroups,
                };
                let list: Vec<Listed> = names.iter().map(listed).collect();
                let nodes = list.iter().map(|it| it.node);
                let named = nodes.zip(names.into_iter().map(|it| it.0)).collect();
                (Wanted::Listed(list), named)
            }
            Self::Required(names) => {
                let all = names.into_iter();
                let named: BTreeMap<NodeId, String> =
                    all.map(|name| (NodeId::from_name(&name), name)).collect();
                // Each once, however often it is named.
                (Wanted::Members(named.keys().copied().collect()), named)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_required_twice_is_waited_for_once() {
        let names = ["b", "a", "b"].map(str::to_owned);
        let (wanted, named) = Audience::Required(names.to_vec()).wanted();
        let Wanted::Members(mut nodes) = wanted else {
            panic!("they are required");
        };
        let mut expected = ["a", "b"].map(NodeId::from_name);
        nodes.sort_unstable();
        expected.sort_unstable();
        assert_eq!(nodes, expected);
        assert_eq!(named.len(), 2);
    }
}
