//! Waiting: readiness of the endpoint's sockets and of the caller's sources, and when to sleep.
//!
//! A wait is one call that takes nanoseconds (the token's timers are as short) and brings the
//! events: `epoll_pwait2`, since Linux 5.11. Where it is missing, whole milliseconds are waited in
//! `epoll_wait` itself, which brings at once what it waited for; the rest, which it would round up,
//! in a `ppoll` on its descriptor, followed by a collection that does not wait. A long wait mostly
//! ends with its time: all of it is waited in the `ppoll`, so that the thread wakes once for it.
//! Before it, the thread polls for a while where [`Spin`] says so.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::thread::available_parallelism;
use std::time::Duration;

use groupcast_core::Time;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use socket2::Socket;

use crate::clock::Clock;
use crate::config::Spin;
use crate::sys;

/// What a source of the caller's is ready for. Edge-triggered: read or write until it would block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readiness {
    /// There is something to read, or its end.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The other side has closed it (or at least its sending half), or it failed.
    pub closed: bool,
}

impl Readiness {
    fn of(event: &Event) -> Self {
        Self {
            readable: event.is_readable(),
            writable: event.is_writable(),
            closed: event.is_read_closed() || event.is_write_closed() || event.is_error(),
        }
    }

    /// The same of what the kernel says.
    fn of_raw(events: u32) -> Self {
        let has = |flags: i32| events & flags as u32 == flags as u32;
        Self {
            readable: has(libc::EPOLLIN) || has(libc::EPOLLPRI),
            writable: has(libc::EPOLLOUT),
            closed: has(libc::EPOLLHUP)
                || has(libc::EPOLLERR)
                || has(libc::EPOLLIN | libc::EPOLLRDHUP),
        }
    }
}

/// The poll, and the policy of spinning.
#[derive(Debug)]
pub(crate) struct Waiter {
    poll: Poll,
    /// Where the kernel puts them, if it waits by the nanosecond.
    raw: Option<Vec<libc::epoll_event>>,
    events: Events,
    spin: Spin,
    /// Whether there is a core to spare.
    spare: bool,
    /// When the sockets last had something.
    pub(crate) traffic: Time,
    /// System calls.
    pub(crate) calls: u64,
}

impl Waiter {
    /// The most events that one collection brings; the kernel keeps the others for the next.
    const EVENTS_MAX: usize = 256;
    /// [`Spin::Auto`] spins for this long after the last traffic,
    const SPIN_AFTER_TRAFFIC: Duration = Duration::from_micros(100);
    /// and only with more cores than this.
    const SPIN_CORES_MIN: usize = 4;
    /// A wait of this length and more is a long one.
    const LONG_WAIT: Duration = Duration::from_millis(10);

    pub(crate) fn new(spin: Spin) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            raw: Some(Vec::with_capacity(Self::EVENTS_MAX)),
            events: Events::with_capacity(Self::EVENTS_MAX),
            spin,
            spare: available_parallelism().is_ok_and(|cores| cores.get() > Self::SPIN_CORES_MIN),
            traffic: Time::ZERO,
            calls: 0,
        })
    }

    /// Readable when something is ready.
    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    pub(crate) fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    pub(crate) fn register(&self, socket: &Socket, token: Token) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        let mut source = mio::unix::SourceFd(&fd);
        self.registry()
            .register(&mut source, token, Interest::READABLE)
    }

    /// Also tells when there is room in the send buffer of `socket`, or no longer. Not always on:
    /// the kernel would wake the thread for every datagram that leaves.
    pub(crate) fn watch_room(&self, socket: &Socket, token: Token, watch: bool) -> io::Result<()> {
        let interest = if watch {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let fd = socket.as_raw_fd();
        let mut source = mio::unix::SourceFd(&fd);
        self.registry().reregister(&mut source, token, interest)
    }

    /// Whether it sleeps in a wait: where it polls instead, to wake for everything costs nothing.
    pub(crate) fn sleeps(&self) -> bool {
        match self.spin {
            Spin::Off => true,
            Spin::Auto => !self.spare,
            Spin::For(_) => false,
        }
    }

    /// Waits for `socket` alone, for up to `wait`: the events are collected afterwards.
    pub(crate) fn wait_for(&mut self, socket: &Socket, wait: Duration) -> io::Result<()> {
        self.calls += 1;
        sys::wait_readable(socket, wait)
    }

    /// Waits for an event for up to `wait` from `now` on; each event goes to `sink`.
    pub(crate) fn wait(
        &mut self,
        clock: Clock,
        now: Time,
        wait: Duration,
        mut sink: impl FnMut(Token, Readiness),
    ) -> io::Result<()> {
        let end = now + wait;
        let spin_end = end.min(match self.spin {
            Spin::Off => Time::ZERO,
            Spin::Auto if !self.spare => Time::ZERO,
            Spin::Auto => self.traffic + Self::SPIN_AFTER_TRAFFIC,
            Spin::For(duration) => now + duration,
        });
        let mut at = now;
        while at < spin_end {
            if self.collect(Duration::ZERO, &mut sink)? {
                return Ok(());
            }
            // The process that wants this processor is often the one that is waited for.
            std::thread::yield_now();
            at = clock.now();
        }
        if self.raw.is_some() {
            return self.collect(end - at, &mut sink).map(|_| ());
        }
        let whole = Duration::from_millis((end - at).as_millis() as u64);
        if !whole.is_zero() && end - at < Self::LONG_WAIT {
            if self.collect(whole, &mut sink)? {
                return Ok(());
            }
            at = clock.now();
        }
        if at < end {
            self.calls += 1;
            sys::wait_readable(&self.poll, end - at)?;
        }
        self.collect(Duration::ZERO, &mut sink).map(|_| ())
    }

    /// Collects what comes within `wait`, as soon as anything does; whether anything did.
    fn collect(
        &mut self,
        wait: Duration,
        mut sink: impl FnMut(Token, Readiness),
    ) -> io::Result<bool> {
        self.calls += 1;
        if let Some(raw) = &mut self.raw {
            match sys::wait_events(&self.poll, raw, wait) {
                Ok(()) => {
                    for event in raw.iter() {
                        // The token is what mio gave the kernel with the descriptor.
                        sink(Token(event.u64 as usize), Readiness::of_raw(event.events));
                    }
                    return Ok(!raw.is_empty());
                }
                // This once the call below rounds up to a millisecond.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => self.raw = None,
                Err(error) => return Err(error),
            }
        }
        match self.poll.poll(&mut self.events, Some(wait)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        for event in &self.events {
            sink(event.token(), Readiness::of(event));
        }
        Ok(!self.events.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What a wait of at most `wait` brings, and how long it took.
    fn wait(waiter: &mut Waiter, wait: Duration) -> (Vec<(Token, Readiness)>, Duration) {
        let (clock, mut ready) = (Clock::start(), Vec::new());
        let begun = clock.now();
        waiter
            .wait(clock, begun, wait, |token, readiness| {
                ready.push((token, readiness));
            })
            .unwrap();
        (ready, clock.now() - begun)
    }

    fn pair(waiter: &Waiter, token: Token) -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fd = ours.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        waiter
            .registry()
            .register(&mut mio::unix::SourceFd(&fd), token, interest)
            .unwrap();
        (ours, theirs)
    }

    #[test]
    fn both_ways_of_waiting_bring_the_same_events_with_their_tokens() {
        let high = Token(usize::MAX - 7);
        let seen = [true, false].map(|exact| {
            let mut waiter = Waiter::new(Spin::Off).unwrap();
            if !exact {
                waiter.raw = None;
            }
            let (_ours, mut theirs) = pair(&waiter, high);
            let writable = wait(&mut waiter, Duration::from_secs(5)).0;
            theirs.write_all(b"x").unwrap();
            let readable = wait(&mut waiter, Duration::from_secs(5)).0;
            drop(theirs);
            let closed = wait(&mut waiter, Duration::from_secs(5)).0;
            [writable, readable, closed]
        });
        assert_eq!(seen[0], seen[1]);
        let [writable, readable, closed] = &seen[0];
        assert!(writable[0].1.writable && !writable[0].1.readable && !writable[0].1.closed);
        assert!(readable[0].1.readable && !readable[0].1.closed);
        assert!(closed[0].1.closed);
        assert!(seen[0].iter().flatten().all(|(token, _)| *token == high));
    }

    #[test]
    fn a_wait_without_events_takes_its_time_in_one_call() {
        let mut waiter = Waiter::new(Spin::Off).unwrap();
        if wait(&mut waiter, Duration::ZERO).0.is_empty() && waiter.raw.is_none() {
            // A kernel before 5.11.
            return;
        }
        let before = waiter.calls;
        let (ready, took) = wait(&mut waiter, Duration::from_micros(1_300));
        assert!(
            ready.is_empty() && took >= Duration::from_micros(1_300),
            "{took:?}"
        );
        assert_eq!(waiter.calls - before, 1);
    }
}
