//! Counts of system calls for reading and writing clients, for the status.

use std::io;

/// Calls on the clients' sockets since the start. With TLS and on the bus, those of the layer above
/// the socket.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClientCalls {
    /// Reads that brought bytes, or the end.
    pub(crate) reads: u64,
    /// Reads that found nothing, or failed.
    pub(crate) reads_empty: u64,
    /// Writes that took bytes.
    pub(crate) writes: u64,
    /// Writes that found no room, or failed.
    pub(crate) writes_blocked: u64,
}

impl ClientCalls {
    /// A read ended with `result`.
    pub(crate) fn count_read(&mut self, result: &io::Result<usize>) {
        let (found, nothing) = (&mut self.reads, &mut self.reads_empty);
        *if result.is_ok() { found } else { nothing } += 1;
    }

    /// A write ended with `result`.
    pub(crate) fn count_write(&mut self, result: &io::Result<usize>) {
        let (given, nothing) = (&mut self.writes, &mut self.writes_blocked);
        *if result.is_ok() { given } else { nothing } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_counted_once_by_what_it_brought() {
        let mut calls = ClientCalls::default();
        let none = || io::Result::Err(io::ErrorKind::WouldBlock.into());
        calls.count_read(&Ok(7));
        calls.count_read(&Ok(0));
        calls.count_read(&none());
        calls.count_write(&Ok(1));
        calls.count_write(&none());
        let expected = ClientCalls {
            reads: 2,
            reads_empty: 1,
            writes: 1,
            writes_blocked: 1,
        };
        assert_eq!(calls, expected);
    }
}
