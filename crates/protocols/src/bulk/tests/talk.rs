//! What tests of connections have in common: small windows and packets, short time-outs, and
//! messages that can be told apart.

use std::time::Duration;
use std::vec::Vec;

use bytes::Bytes;

use crate::bulk::{BulkConfig, Policy};

pub(super) const WINDOW: u32 = 16;
pub(super) const PACKET: usize = 100;

/// Settings of an endpoint that talks on connections.
pub(super) fn talking(policy: Policy) -> BulkConfig {
    BulkConfig {
        policy,
        block: None,
        packet: PACKET,
        window: WINDOW,
        announce_interval: Duration::from_millis(20),
        vanish_after: Duration::from_secs(2),
        rto_max: Duration::from_millis(200),
        ..BulkConfig::lan()
    }
}

/// Messages of this many bytes, each with bytes of its own.
pub(super) fn messages(lengths: impl IntoIterator<Item = usize>) -> Vec<Bytes> {
    let bytes = |(index, len)| -> Bytes {
        let bytes = (0..len).map(|at| (at * 7 + index * 13) as u8);
        bytes.collect::<Vec<u8>>().into()
    };
    lengths.into_iter().enumerate().map(bytes).collect()
}
