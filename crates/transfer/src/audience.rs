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
                let ids = names.iter().map(|name| NodeId::from_name(name));
                let named = ids.clone().zip(names.iter().cloned()).collect();
                (Wanted::Members(ids.collect()), named)
            }
        }
    }
}
