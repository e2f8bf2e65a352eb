//! What the measuring processes on the hosts do.

use serde::{Deserialize, Serialize};

use super::both::Both;
use super::bulk::tcp;
use super::bus;
use super::clients::{Publish, Subscribe};
use super::lan::member::Member as LanMember;
use super::lan::tcp::Unicast;
use super::library::Member;
use super::{BenchError, ping, raw};
use crate::calibrate::probe::Probe;

/// Hidden arguments with which an executable is started again as a worker; the assignment follows
/// as one more.
pub const WORKER: [&str; 2] = ["bench", "worker"];

/// One worker's part of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// Multicast as fast as the receivers follow.
    RawSend(raw::Send),
    /// Receive, and say how far.
    RawReceive(raw::Receive),
    /// Ask or answer another host, one datagram at a time.
    Ping(ping::Ping),
    /// Publish to a group.
    Publish(Publish),
    /// Receive in a group.
    Subscribe(Subscribe),
    /// Publish to a group and receive in it.
    Both(Both),
    /// Send by the bus.
    BusSend(bus::Send),
    /// Receive by the bus.
    BusReceive(bus::Receive),
    /// Be a member of the ring: send and receive.
    Member(Member),
    /// Measure what the network costs.
    Probe(Probe),
    /// Send a file by TCP.
    TcpSend(tcp::Send),
    /// Receive a file by TCP.
    TcpReceive(tcp::Receive),
    /// Send messages to many, or receive them, by one of 001's protocols.
    LanMember(LanMember),
    /// The same by TCP.
    LanTcp(Unicast),
}

/// Does what `assignment` (JSON) says. The result goes to standard output.
pub fn work(assignment: &str) -> Result<(), BenchError> {
    match serde_json::from_str(assignment)? {
        Assignment::RawSend(part) => part.run(),
        Assignment::RawReceive(part) => part.run(),
        Assignment::Ping(part) => part.run(),
        Assignment::Publish(part) => part.run(),
        Assignment::Subscribe(part) => part.run(),
        Assignment::Both(part) => part.run(),
        Assignment::BusSend(part) => part.run(),
        Assignment::BusReceive(part) => part.run(),
        Assignment::Member(part) => part.run(),
        Assignment::Probe(part) => part.run(),
        Assignment::TcpSend(part) => part.run(),
        Assignment::TcpReceive(part) => part.run(),
        Assignment::LanMember(part) => part.run(),
        Assignment::LanTcp(part) => part.run(),
    }
}
