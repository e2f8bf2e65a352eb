//! What an endpoint counts: plain numbers since its start.

use std::time::Duration;

/// What a receiving socket has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReceiveCounters {
    /// Datagrams received, the filtered ones included.
    pub datagrams: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// System calls that brought something.
    pub calls: u64,
    /// System calls that found nothing.
    pub empty: u64,
    /// Calls that brought several datagrams at once (receive offload).
    pub coalesced: u64,
    /// Datagrams dropped by [`set_filter`](crate::Endpoint::set_filter).
    pub filtered: u64,
    /// Errors of the socket, other than "nothing there".
    pub errors: u64,
    /// What the kernel dropped at a full receive buffer (or for a bad checksum). A coalesced burst
    /// counts as one.
    pub kernel_drops: u64,
}

/// What an endpoint has counted of its sends. A datagram that goes to several addresses counts for
/// each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendCounters {
    /// Datagrams given to the kernel.
    pub datagrams: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those that were unicast copies of what goes to the group.
    pub copies: u64,
    /// System calls that sent something.
    pub calls: u64,
    /// Batches of several datagrams that went out in one segmented send.
    pub segmented: u64,
    /// Batches that the kernel refused to segment, so that they were sent again datagram by
    /// datagram.
    pub offload_refused: u64,
    /// Times that the send buffer was full and a batch had to wait.
    pub blocked: u64,
    /// Datagrams dropped because the send buffer stayed full for longer than the configured
    /// patience.
    pub dropped_blocked: u64,
    /// Datagrams dropped because the kernel had no memory for them (ENOBUFS, ENOMEM).
    pub no_buffers: u64,
    /// Datagrams dropped because the network or host cannot be reached just now: interface down, no
    /// route.
    pub unreachable: u64,
    /// Datagrams dropped by a local rule (EPERM, EACCES) or refused by the peer's host
    /// (ECONNREFUSED).
    pub refused: u64,
    /// Datagrams dropped because they are larger than the path takes, fragments and all.
    pub too_large: u64,
    /// Datagrams dropped for any other error.
    pub other_errors: u64,
    /// Batches for a group by multicast on an endpoint that has no multicast address.
    pub unroutable: u64,
}

/// What an [`Endpoint`](crate::Endpoint) has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Of the control socket: tokens, and all unicast where there is multicast, the copies of
    /// members that have none among it.
    pub control: ReceiveCounters,
    /// Of the data socket.
    pub data: ReceiveCounters,
    /// Of all sends; they leave from the control socket.
    pub sent: SendCounters,
    /// System calls that waited for something, or asked whether there is something.
    pub waits: u64,
    /// Times that timers of the node were due.
    pub timers: u64,
    /// Scheduling gaps of more than [`GAP`](crate::Endpoint::GAP).
    pub gaps: u64,
    /// The longest time between two looks at the clock that was not spent waiting: the process did
    /// not run, or was busy.
    pub gap_longest: Duration,
}
