//! Views of a process group: who is in it, agreed by all daemons that install the view.

use std::fmt;
use std::sync::Arc;

use groupcast_core::ConfigId;

/// Identifier of a view, equal wherever the view is equal.
///
/// It names the place in the order where the view came to be, so daemons do not have to agree on a
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ViewId {
    /// The regular configuration in which the causing message was ordered; of a transitional view
    /// that a configuration change caused, the configuration that it closes.
    pub config: ConfigId,
    /// The place of the causing message in that configuration; 0 for the transitional view that a
    /// configuration change causes.
    pub seq: u64,
    /// For a transitional view, a hash of the daemons that go on together: it differs between
    /// components.
    pub within: Option<u64>,
}

impl fmt::Display for ViewId {
    /// `CONFIG:SEQ`, and `~COMPONENT` after it for a transitional view: the form of the `view`
    /// field in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.config, self.seq)?;
        match self.within {
            Some(component) => write!(f, "~{component:016x}"),
            None => Ok(()),
        }
    }
}

/// Whether a view belongs to a regular configuration or to the transition between two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ViewKind {
    /// All members are reachable, as far as the daemons know.
    Regular = 0,
    /// The members go on together; whether others get the messages that follow is unknown.
    Transitional = 1,
}

impl ViewKind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Transitional => "transitional",
        }
    }
}

impl fmt::Display for ViewKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The cause of a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Cause {
    /// A client joined the group.
    Join = 0,
    /// A client left the group.
    Leave = 1,
    /// A client's connection ended while it was in the group.
    Disconnect = 2,
    /// Daemons came or went, were cut off or met again.
    Network = 3,
}

impl Cause {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Disconnect => "disconnect",
            Self::Network => "network",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A view of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The group's name.
    pub group: Arc<str>,
    /// Its identifier.
    pub id: ViewId,
    /// Regular or transitional.
    pub kind: ViewKind,
    /// True for a bimodal group: the view has the members that this daemon has heard of. It is this
    /// daemon's view alone, and says nothing about the messages before and after it.
    pub approximate: bool,
    /// Its cause.
    pub cause: Cause,
    /// The private name of the client that joined, left or disconnected; `None` if the cause is the
    /// network.
    pub changed: Option<Arc<str>>,
    /// Private names of the members, in ascending order.
    pub members: Vec<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, MemberId, NodeId};

    use super::*;

    #[test]
    fn an_id_reads_config_place_and_component() {
        let config = ConfigId {
            counter: 7,
            representative: MemberId {
                node: NodeId(1),
                incarnation: Incarnation(2),
            },
        };
        let regular = ViewId {
            config,
            seq: 65_536,
            within: None,
        };
        assert_eq!(
            regular.to_string(),
            "7-0000000000000001.0000000000000002:65536"
        );
        let transitional = ViewId {
            seq: 0,
            within: Some(255),
            ..regular
        };
        assert_eq!(
            transitional.to_string(),
            "7-0000000000000001.0000000000000002:0~00000000000000ff"
        );
    }
}
