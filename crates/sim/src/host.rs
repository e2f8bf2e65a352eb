//! A host: one process at a time, two bounded receive queues, a processor that takes its time, and a clock of its own.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use groupcast_core::{Configuration, Delivery, MemberId, Node, SocketClass, Time};

use crate::clock::{Clock, ClockRate};

/// What the hosts are like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// Processor time to receive a datagram. Default 2 µs.
    pub receive_cost: Duration,
    /// Processor time to send a datagram. Default 1 µs.
    pub send_cost: Duration,
    /// Datagrams that wait on the data socket before more are dropped. Default 2,048.
    pub data_queue: usize,
    /// Datagrams that wait on the token socket before more are dropped. Default 256.
    pub token_queue: usize,
    /// The most datagrams of one send. Default 32.
    pub segments_max: usize,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            receive_cost: Duration::from_micros(2),
            send_cost: Duration::from_micros(1),
            data_queue: 2_048,
            token_queue: 256,
            segments_max: 32,
        }
    }
}

/// What a host is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Its process runs.
    Up,
    /// Its process is stopped: nothing is handled, queues fill, timeouts come late.
    Paused,
    /// No process: not started yet, or crashed.
    Down,
    /// Its process left the group gracefully and ended.
    Left,
}

/// A datagram on its way.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// The host that sent it.
    pub(crate) from: usize,
    /// The address that it claims to come from.
    pub(crate) source: SocketAddr,
    pub(crate) class: SocketClass,
    pub(crate) bytes: Box<[u8]>,
}

/// A datagram in a receive queue.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) datagram: Rc<Datagram>,
    /// The bit that the network flipped in this copy.
    pub(crate) flipped: Option<u32>,
}

/// What the user of a host's current process saw.
#[derive(Clone, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) name_in_use: bool,
}

/// One host.
pub(crate) struct Host<P> {
    pub(crate) status: Status,
    /// The process, also after it left or crashed, for inspection.
    pub(crate) node: Option<Node<P>>,
    /// How many processes have run here.
    pub(crate) lives: u64,
    pub(crate) seen: Seen,
    pub(crate) clock: Clock,
    pub(crate) rate: ClockRate,
    pub(crate) data: VecDeque<Received>,
    pub(crate) token: VecDeque<Received>,
    /// Datagrams dropped at a full receive queue.
    pub(crate) overflowed: u64,
    pub(crate) busy_until: Time,
    /// Whether an event waits that takes the next datagram from the queues.
    pub(crate) work_scheduled: bool,
    /// When the next timer event happens; earlier ones are void.
    pub(crate) timer: Option<Time>,
    pub(crate) timer_generation: u64,
    /// Timeouts handled in a row that left the next one due at once.
    pub(crate) spinning: u32,
}

impl<P> Host<P> {
    pub(crate) fn new() -> Self {
        Self {
            status: Status::Down,
            node: None,
            lives: 0,
            seen: Seen::default(),
            clock: Clock::new(Time::ZERO, ClockRate::TRUE),
            rate: ClockRate::TRUE,
            data: VecDeque::new(),
            token: VecDeque::new(),
            overflowed: 0,
            busy_until: Time::ZERO,
            work_scheduled: false,
            timer: None,
            timer_generation: 0,
            spinning: 0,
        }
    }

    /// Whether a process exists, stopped or not: its sockets take datagrams.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.status, Status::Up | Status::Paused)
    }

    pub(crate) fn queues_are_empty(&self) -> bool {
        self.data.is_empty() && self.token.is_empty()
    }

    /// Puts a datagram into its queue, if there is room.
    pub(crate) fn enqueue(&mut self, config: &HostConfig, received: Received) {
        let (queue, limit) = match received.datagram.class {
            SocketClass::Data => (&mut self.data, config.data_queue),
            SocketClass::Token => (&mut self.token, config.token_queue),
        };
        if queue.len() < limit {
            queue.push_back(received);
        } else {
            self.overflowed += 1;
        }
    }

    /// The next datagram, from the queue `first` if it has one.
    pub(crate) fn dequeue(&mut self, first: SocketClass) -> Option<Received> {
        match first {
            SocketClass::Data => self.data.pop_front().or_else(|| self.token.pop_front()),
            SocketClass::Token => self.token.pop_front().or_else(|| self.data.pop_front()),
        }
    }

    /// The process ended: its sockets and timers are gone.
    pub(crate) fn close(&mut self, status: Status) {
        self.status = status;
        self.data.clear();
        self.token.clear();
        self.timer = None;
        self.timer_generation += 1;
    }
}

impl<P: groupcast_core::Protocol> Host<P> {
    pub(crate) fn member(&self) -> Option<MemberId> {
        self.node.as_ref().map(Node::local)
    }
}

const PORT: u16 = 4810;

/// The invented address of host number `index`.
pub(crate) fn address(index: usize) -> SocketAddr {
    let last = u32::from(Ipv4Addr::new(10, 0, 0, 1)) + index as u32;
    SocketAddrV4::new(Ipv4Addr::from(last), PORT).into()
}

/// The host behind an address, if it is one of `hosts`.
pub(crate) fn host_at(address: SocketAddr, hosts: usize) -> Option<usize> {
    let SocketAddr::V4(address) = address else {
        return None;
    };
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 1));
    let index = u32::from(*address.ip()).checked_sub(first)? as usize;
    (index < hosts).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_hosts_belong_together() {
        for index in [0, 1, 8, 300] {
            assert_eq!(host_at(address(index), 301), Some(index));
        }
        assert_eq!(host_at(address(3), 3), None);
        assert_eq!(address(0).to_string(), "10.0.0.1:4810");
    }
}
