//! Names and orders that unit tests share.

use bytes::Bytes;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId};

use super::config::RmpConfig;
use super::numbers::Number;
use super::order::{Order, Packet};

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

/// The order of member 2 of three; member 0 has the token, and member 1 has sent three packets.
pub(super) fn order() -> Order {
    let members = (0..3).map(member).collect();
    let lan = RmpConfig::lan();
    let mut order = Order::new(config(1), members, member(2), Seq(100), 1431, &lan);
    for number in 1..4 {
        let packet = Packet {
            version: 0,
            body: Bytes::from_static(b"packet"),
        };
        order.insert(1, Number(number), packet);
    }
    order
}
