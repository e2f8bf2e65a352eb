//! Names that unit tests share.

use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId};

pub(super) fn member(site: u64) -> MemberId {
    MemberId {
        node: NodeId(site),
        incarnation: Incarnation(site),
    }
}

pub(super) fn config(counter: u64) -> ConfigId {
    ConfigId {
        counter,
        representative: member(0),
    }
}
