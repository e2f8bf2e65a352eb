//! A connection to a daemon without a client library around it: what a hostile client sends.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use groupcast_client::ClientKind;
use groupcast_session::frame::{ClientFrame, FEATURES, HEADER_LEN, Hello, MAGIC, VERSION};

/// How long a daemon may take to welcome a client.
const WELCOME_LIMIT: Duration = Duration::from_secs(20);
/// How long a connection without room, or without anything to read, is left alone.
const PAUSE: Duration = Duration::from_micros(500);

/// A connection that does not block.
pub(super) struct Wire {
    stream: UnixStream,
    until: Instant,
}

impl Wire {
    /// Connects, and says nothing. All that is done with it fails after `until`.
    pub(super) fn connect(socket: &Path, until: Instant) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until })
    }

    /// Connects as the client `name`, which takes `window` bytes before it gives credit back, and
    /// waits for the welcome.
    pub(super) fn greet(
        socket: &Path,
        name: &str,
        window: u64,
        until: Instant,
    ) -> io::Result<Self> {
        let mut wire = Self::connect(socket, until)?;
        let hello = ClientFrame::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            features: FEATURES,
            kind: ClientKind::Application,
            delivery_window: window,
            name: Some(name.to_owned()),
            token: None,
        });
        let mut bytes = MAGIC.to_vec();
        hello.encode(&mut bytes);
        wire.send(&bytes)?;
        // The welcome comes after the magic, and is all that comes before a request.
        let deadline = Instant::now() + WELCOME_LIMIT;
        let mut answer = [0; MAGIC.len() + HEADER_LEN];
        let mut have = 0;
        while have < answer.len() {
            match wire.stream.read(&mut answer[have..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => have += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline.min(until) {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(wire)
    }

    /// Sends all of `bytes`, and takes nothing meanwhile.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_while(bytes, |_| Ok(()))
    }

    /// Sends all of `bytes`, and throws away what comes meanwhile.
    pub(super) fn send_and_drain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.drain()?;
        self.send_while(bytes, Self::drain)
    }

    fn send_while(
        &mut self,
        bytes: &[u8],
        mut meanwhile: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(len) => left = &left[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.check_time()?;
                    meanwhile(self)?;
                    sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        self.check_time()
    }

    /// Throws away what has come.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let mut bytes = [0; 1 << 16];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Throws away what comes, until the daemon closes.
    pub(super) fn wait_for_end(&mut self) -> io::Result<()> {
        loop {
            self.drain()?;
            self.check_time()?;
            sleep(PAUSE * 20);
        }
    }

    fn check_time(&self) -> io::Result<()> {
        match Instant::now() < self.until {
            true => Ok(()),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }
}
