//! What the system knows of a TCP connection.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys;

/// This many questions in a row without an answer count as silence.
const PROBES_MIN: u8 = 3;

/// For how long nothing has come of the other host, if that owes this one an answer: it has not
/// acknowledged what was sent to it, or has not answered several questions for room. `None` if it
/// owes none, or the system does not say.
///
/// The system answers for its programs: a host whose program does not read, and which has no more
/// room for that reason, owes nothing. (`TCP_USER_TIMEOUT` ends its connection, too.)
pub fn silence(socket: BorrowedFd<'_>) -> Option<Duration> {
    let info = sys::tcp_info(socket).ok()?;
    let owes = info.tcpi_unacked > 0 || info.tcpi_probes >= PROBES_MIN;
    owes.then(|| Duration::from_millis(info.tcpi_last_ack_recv.into()))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::thread::sleep;
    use std::time::Instant;

    use socket2::{SockFilter, SockRef};

    use super::*;

    /// A connection: this side, and the other.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, other)
    }

    /// From now on the other host takes nothing that comes, as if it were gone.
    fn vanish(other: &TcpStream) {
        const RETURN: u16 = 6;
        let nothing = SockFilter::new(RETURN, 0, 0, 0);
        SockRef::from(other).attach_filter(&[nothing]).unwrap();
    }

    /// Writes until there is no more room.
    fn fill(stream: &mut TcpStream) {
        stream.set_nonblocking(true).unwrap();
        let error = loop {
            if let Err(error) = stream.write(&[0; 65_536]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }

    fn await_silence(stream: &TcpStream, of: Duration) {
        let begun = Instant::now();
        while silence(stream.as_fd()).is_none_or(|it| it < of) {
            assert!(begun.elapsed() < Duration::from_secs(60));
            sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_host_that_acknowledges_nothing_is_silent() {
        let (mut stream, other) = connected();
        stream.write_all(b"one").unwrap();
        assert_eq!(silence(stream.as_fd()), None, "it answers at once");
        vanish(&other);
        stream.write_all(b"two").unwrap();
        await_silence(&stream, Duration::from_millis(300));
    }

    #[test]
    fn a_host_without_room_is_silent_once_it_answers_no_questions() {
        let (mut stream, other) = connected();
        fill(&mut stream);
        // Some questions for room, which are answered.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            let silent = silence(stream.as_fd());
            assert!(silent.is_none_or(|it| it < Duration::from_millis(500)));
            sleep(Duration::from_millis(10));
        }
        vanish(&other);
        await_silence(&stream, Duration::from_secs(2));
    }
}
