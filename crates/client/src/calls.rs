//! Counts of a client's system calls.

use std::io;

/// System calls of a [`Client`](crate::Client) since it was made; with TLS, calls of the layer
/// above the socket. They show, for instance, whether a client is woken for each message: it then
/// waits once for each read, and reads one message at a time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Calls {
    /// Waits for something to read, or for room to write.
    pub waits: u64,
    /// Reads that brought bytes, or the end.
    pub reads: u64,
    /// Reads that found nothing, or failed.
    pub reads_empty: u64,
    /// Writes that took bytes.
    pub writes: u64,
    /// Writes that found no room, or failed.
    pub writes_blocked: u64,
}

impl Calls {
    /// A read ended with `result`.
    pub(crate) fn count_read(&mut self, result: &io::Result<Option<usize>>) {
        let (found, nothing) = (&mut self.reads, &mut self.reads_empty);
        *if has_moved(result) { found } else { nothing } += 1;
    }

    /// A write ended with `result`.
    pub(crate) fn count_write(&mut self, result: &io::Result<Option<usize>>) {
        let (given, nothing) = (&mut self.writes, &mut self.writes_blocked);
        *if has_moved(result) { given } else { nothing } += 1;
    }
}

fn has_moved(result: &io::Result<Option<usize>>) -> bool {
    matches!(result, Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_counted_once_by_what_it_brought() {
        let mut calls = Calls::default();
        calls.count_read(&Ok(Some(0)));
        calls.count_read(&Ok(None));
        calls.count_write(&Ok(Some(5)));
        calls.count_write(&Err(io::ErrorKind::BrokenPipe.into()));
        let expected = Calls {
            reads: 1,
            reads_empty: 1,
            writes: 1,
            writes_blocked: 1,
            waits: 0,
        };
        assert_eq!(calls, expected);
    }
}
