//! TCP to one receiver after the other, with which 001 compares ACK: blocking sockets, a connection
//! a message.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::thread;

use serde::{Deserialize, Serialize};

use super::{Carried, LIMIT, Watch};
use crate::measure::{BenchError, Said, await_window, clock, say};

const PORT: u16 = 7942;
/// What a receiver answers when it has all of a message.
const HAVE: [u8; 1] = [1];
/// Bytes that a receiver reads at a time.
const BLOCK: usize = 64 << 10;

/// A sender's part, or a receiver's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Unicast {
    pub(super) address: Ipv4Addr,
    pub(super) receivers: Vec<Ipv4Addr>,
    /// Bytes of the messages that it sends; the first does not count. A receiver has none.
    pub(super) messages: Vec<u64>,
}

impl Unicast {
    /// Sends its messages, or receives until it is told to end. A sender's result is a [`Carried`];
    /// a receiver sends no acknowledgements that are counted.
    pub(in crate::measure) fn run(&self) -> Result<(), BenchError> {
        if self.messages.is_empty() {
            let listener = TcpListener::bind(SocketAddrV4::new(self.address, PORT))
                .map_err(BenchError::io("listen"))?;
            // It ends with the process; its sender knows best what did not work.
            thread::spawn(move || take(&listener));
            await_window()?;
            return say(&Said::Result(0_u64));
        }
        await_window()?;
        say(&Said::Result(self.send()))
    }

    fn send(&self) -> Carried {
        let mut carried = Carried::default();
        let Some((first, rest)) = self.messages.split_first() else {
            return carried;
        };
        let mut ended = self.send_one(*first).is_ok();
        let watch = Watch::start();
        for size in rest {
            let begun = clock::now();
            ended = ended && self.send_one(*size).is_ok();
            let seconds = (clock::now() - begun) as f64 / 1e9;
            carried.seconds.push(ended.then_some(seconds));
        }
        watch.note(&mut carried);
        carried
    }

    /// One message to all, one after the other.
    fn send_one(&self, size: u64) -> io::Result<()> {
        let message = vec![b'.'; size as usize];
        let one = |to: &Ipv4Addr| hand(&message, SocketAddrV4::new(*to, PORT));
        self.receivers.iter().try_for_each(one)
    }
}

/// Brings a message to one receiver.
fn hand(message: &[u8], to: SocketAddrV4) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(message)?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_exact(&mut HAVE.clone())
}

/// Takes one message after the other.
fn take(listener: &TcpListener) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    loop {
        let (mut stream, _) = listener.accept()?;
        while stream.read(&mut block)? > 0 {}
        stream.write_all(&HAVE)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_handed_over_and_answered() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(to) = listener.local_addr().unwrap() else {
            panic!("an IPv4 address")
        };
        thread::spawn(move || take(&listener));
        for size in [1, 300_000] {
            hand(&vec![7; size], to).unwrap();
        }
    }
}
