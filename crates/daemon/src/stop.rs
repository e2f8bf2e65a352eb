//! Requests to a daemon by a handle or by signals: to stop, to read its configuration again, to log
//! its status.
//!
//! Each request is a byte in a pair of sockets that the loop waits for, so it wakes the loop
//! wherever it sleeps. The first request to stop lets the daemon leave its group; a second one ends
//! it at once.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

/// Asks its daemon to stop. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    requests: Arc<UnixStream>,
}

impl StopHandle {
    /// Asks the daemon to leave its group and return from its loop. The second request makes it
    /// return at once.
    pub fn stop(&self) {
        // A full socket holds enough requests; a closed one means that the daemon has ended.
        let _ = (&*self.requests).write(&[0]);
    }
}

/// The daemon's end of the pair of sockets, with the flags that signals set.
#[derive(Debug)]
pub(crate) struct StopRequests {
    pub(crate) stream: mio::net::UnixStream,
    handle: StopHandle,
    /// Wakes the loop to look at the flags.
    pub(crate) wake: mio::net::UnixStream,
    waker: UnixStream,
    hangup: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
}

/// Requests of signals beside stopping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// SIGHUP: to read the configuration again.
    pub(crate) to_read: bool,
    /// SIGUSR1: to write the status into the log.
    pub(crate) to_report: bool,
}

impl StopRequests {
    pub(crate) fn new() -> io::Result<Self> {
        let (requests, stream) = pair()?;
        let (waker, wake) = pair()?;
        Ok(Self {
            stream,
            handle: StopHandle {
                requests: Arc::new(requests),
            },
            wake,
            waker,
            hangup: Arc::default(),
            report: Arc::default(),
        })
    }

    pub(crate) fn handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// From now on SIGTERM and SIGINT are requests to stop, and SIGHUP and SIGUSR1 set flags. A
    /// second SIGTERM or SIGINT ends the process even if the loop hangs.
    pub(crate) fn catch_signals(&self) -> io::Result<()> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // In this order: the shutdown is armed by the first signal, and acts on the second.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&seen))?;
            signal_hook::flag::register(signal, Arc::clone(&seen))?;
            signal_hook::low_level::pipe::register(signal, self.handle.requests.try_clone()?)?;
        }
        for (signal, flag) in [(SIGHUP, &self.hangup), (SIGUSR1, &self.report)] {
            // In this order: when the byte wakes the loop, the flag is set.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, self.waker.try_clone()?)?;
        }
        Ok(())
    }

    /// The requests of signals since the last call.
    pub(crate) fn take_asked(&mut self) -> Asked {
        drain(&mut self.wake);
        Asked {
            to_read: self.hangup.swap(false, Ordering::Relaxed),
            to_report: self.report.swap(false, Ordering::Relaxed),
        }
    }

    /// How many requests to stop came since the last call.
    pub(crate) fn take(&mut self) -> usize {
        drain(&mut self.stream)
    }
}

/// Two ends of a pipe for wakings: one to write to, and one that the loop waits for.
pub(crate) fn pair() -> io::Result<(UnixStream, mio::net::UnixStream)> {
    let (write, read) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    read.set_nonblocking(true)?;
    Ok((write, mio::net::UnixStream::from_std(read)))
}

/// Reads all that is there; how many bytes.
pub(crate) fn drain(stream: &mut mio::net::UnixStream) -> usize {
    let mut bytes = [0; 64];
    let mut count = 0;
    loop {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return count,
            Ok(read) => count += read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_and_never_block() {
        let mut requests = StopRequests::new().unwrap();
        assert_eq!(requests.take(), 0);
        let handle = requests.handle();
        handle.stop();
        handle.clone().stop();
        assert_eq!(requests.take(), 2);
        for _ in 0..100_000 {
            handle.stop();
        }
        assert!(requests.take() > 2);
    }
}
