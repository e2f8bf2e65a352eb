//! Labels: the bytes before a body that say which bimodal group or further ring it is for, where
//! several share a channel or an address.

use groupcast_core::NodeId;

/// The length of a label, in bytes.
pub(crate) const LABEL_LEN: usize = 8;

/// What a body of a group or ring begins with.
pub(crate) type Label = [u8; LABEL_LEN];

/// The label of the bimodal group called `name`, or of the ring whose top that is: the hash of the
/// name, as with the names of daemons. A collision of two is as unlikely as one of two daemons'
/// names.
pub(crate) fn label(name: &str) -> Label {
    NodeId::from_name(name).0.to_be_bytes()
}
