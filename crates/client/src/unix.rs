//! Connecting to a Unix socket in bounded time.
//!
//! MBLib (`bindings/c`) has a copy of this function, since it depends on no crate of the daemon's
//! clients.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The pause between two attempts to connect to a socket that has no room for one more connection.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// Connects to the Unix socket at `path`, by a stream that does not block. The system waits without
/// a limit for room in the row of connections that the other side has not accepted yet; this waits
/// for `within` at most.
///
/// # Errors
/// What the system says, or [`TimedOut`](io::ErrorKind::TimedOut).
pub fn connect_unix(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now().checked_add(within);
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let left = deadline.map_or(ROOM_PAUSE, |at| {
            at.saturating_duration_since(Instant::now())
        });
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(left.min(ROOM_PAUSE));
    }
}
