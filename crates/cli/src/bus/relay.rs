//! TLS for the bus: a thread between a socket of this process, which speaks as the bus does, and
//! the daemon's.
//!
//! So a process that has the bus as its standard input and output needs to know nothing of TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use groupcast_client::tls;
use groupcast_tls::TlsStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::GREETING_WITHIN;
use super::socket::{CONNECT_WITHIN, connect_tcp};
use crate::failure::Failure;
use crate::server::Server;

/// Bytes that are on their way in each direction, at most.
const CHUNK: usize = 64 << 10;

/// Connects to the bus at `server`, whose certificate is for `name` if not for the name or the
/// address that was given; the socket that speaks with it, and the thread between them,
/// which ends when the daemon has ended the connection.
pub(super) fn connect(
    server: &Server,
    tls: &tls::Client,
    name: Option<&str>,
) -> Result<(UnixStream, JoinHandle<()>), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot connect to the bus at {server}: {error}"))
            .help("name an address of the daemon's --bus, and the authority of its certificate")
    };
    let connected = connect_tcp(server, CONNECT_WITHIN)?.and_then(|socket| {
        socket.set_nonblocking(true)?;
        let address = socket.peer_addr()?;
        Ok((socket, address))
    });
    let (socket, address) = connected.map_err(|error| failed(&error))?;
    let stream = tls.connect(socket, address.ip(), name.or(server.name()));
    let mut relay = Relay::new(stream.map_err(|error| failed(&error))?);
    relay.greet().map_err(|error| failed(&error))?;
    let pair = UnixStream::pair().and_then(|(here, there)| {
        there.set_nonblocking(true)?;
        Ok((here, there))
    });
    let (here, there) = pair.map_err(super::broken)?;
    Ok((here, std::thread::spawn(move || relay.run(there))))
}

/// What is on its way.
struct Relay {
    daemon: TlsStream<TcpStream>,
    from_daemon: Vec<u8>,
    to_daemon: Vec<u8>,
    /// Nothing more comes from there.
    daemon_ended: bool,
    here_ended: bool,
}

impl Relay {
    fn new(daemon: TlsStream<TcpStream>) -> Self {
        Self {
            daemon,
            from_daemon: Vec::new(),
            to_daemon: Vec::new(),
            daemon_ended: false,
            here_ended: false,
        }
    }

    /// Waits for the first bytes of the greeting: who is not believed is told before anything is
    /// sent.
    fn greet(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + GREETING_WITHIN;
        self.flush()?;
        while self.from_daemon.is_empty() && !self.daemon_ended {
            if self.read_daemon()? {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "it does not greet"));
            }
            let mut fds = [PollFd::new(self.daemon.socket(), self.daemon_flags())];
            wait(&mut fds, Some(left))?;
            self.flush()?;
        }
        Ok(())
    }

    /// Relays until the daemon has ended the connection, or it is broken.
    fn run(mut self, mut here: UnixStream) {
        while !(self.daemon_ended && self.from_daemon.is_empty()) {
            let moved = self.turn(&mut here).and_then(|moved| match moved {
                true => Ok(()),
                false => self.sleep(&here),
            });
            if moved.is_err() {
                break;
            }
        }
        let _ = here.shutdown(std::net::Shutdown::Both);
    }

    /// Moves what there is; whether there was something.
    fn turn(&mut self, here: &mut UnixStream) -> io::Result<bool> {
        let mut moved = false;
        if self.from_daemon.is_empty() && !self.daemon_ended {
            moved |= self.read_daemon()?;
        }
        if !self.from_daemon.is_empty() {
            match now(here.write(&self.from_daemon)) {
                Ok(len) => {
                    self.from_daemon.drain(..len.unwrap_or(0));
                    moved |= len.is_some();
                }
                // Nobody reads here any more: the daemon is to hear what was sent all the same.
                Err(_) => self.from_daemon.clear(),
            }
        }
        if self.to_daemon.is_empty() && !self.here_ended {
            let mut bytes = vec![0; CHUNK];
            match now(here.read(&mut bytes)) {
                Ok(Some(0)) | Err(_) => {
                    self.here_ended = true;
                    self.daemon.end_output();
                    moved = true;
                }
                Ok(Some(len)) => {
                    self.to_daemon.extend_from_slice(&bytes[..len]);
                    moved = true;
                }
                Ok(None) => {}
            }
        }
        if !self.to_daemon.is_empty()
            && let Some(len) = now(self.daemon.write(&self.to_daemon))?
        {
            self.to_daemon.drain(..len);
            moved = true;
        }
        self.flush()?;
        Ok(moved)
    }

    /// Reads from the daemon; whether something came.
    fn read_daemon(&mut self) -> io::Result<bool> {
        let mut bytes = vec![0; CHUNK];
        loop {
            match self.daemon.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    let Some(len) = now(read)? else {
                        return Ok(false);
                    };
                    self.from_daemon.extend_from_slice(&bytes[..len]);
                    self.daemon_ended = len == 0;
                    return Ok(true);
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        now(self.daemon.flush()).map(|_| ())
    }

    /// What to wait for at the daemon's socket.
    fn daemon_flags(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.from_daemon.is_empty());
        let unsent = self.daemon.has_unsent() || !self.to_daemon.is_empty();
        flags.set(PollFlags::OUT, unsent);
        flags
    }

    /// Sleeps until something can be moved.
    fn sleep(&self, here: &UnixStream) -> io::Result<()> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.to_daemon.is_empty() && !self.here_ended);
        flags.set(PollFlags::OUT, !self.from_daemon.is_empty());
        let daemon = PollFd::new(self.daemon.socket(), self.daemon_flags());
        // A socket that has ended would wake it for nothing.
        match flags.is_empty() {
            true => wait(&mut [daemon], None),
            false => wait(&mut [daemon, PollFd::new(here, flags)], None),
        }
    }
}

fn wait(fds: &mut [PollFd<'_>], within: Option<Duration>) -> io::Result<()> {
    let within = within.and_then(|within| Timespec::try_from(within).ok());
    match poll(fds, within.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What could be done now; `None` if the other side must move first.
fn now<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
