//! Unicast: the file by TCP to each receiver, one after the other or to all at once.
//!
//! The sender hands the file to the kernel (`sendfile`), a thread a receiver; a receiver writes it
//! to its file and says when it has all.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Course};
use crate::measure::{Assignment, BenchError, Said, WORKER, assign, await_ready, say};

const PORT: u16 = 7930;
/// Bytes that a receiver reads at a time.
const BLOCK: usize = 256 << 10;
/// What a receiver says when it has all.
const HAVE: [u8; 1] = [1];

/// The sender's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Send {
    file: PathBuf,
    receivers: Vec<Ipv4Addr>,
    at_once: bool,
}

/// A receiver's part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Receive {
    address: Ipv4Addr,
    file: PathBuf,
}

/// Sends to all receivers `at_once`, or to one after the other.
pub(super) fn attempt(course: &Course<'_>, at_once: bool) -> Result<Attempt, BenchError> {
    let way = if at_once { "at-once" } else { "in-turn" };
    let mut receivers = course
        .receivers()
        .map(|host| {
            let part = Receive {
                address: course.bed.address(host),
                file: course.files.clear(host)?.join(course.files.name()),
            };
            let label = format!("tcp-{way}-{host}");
            let assignment = Assignment::TcpReceive(part);
            assign(course.bed, host, &label, course.executable, &assignment)
        })
        .collect::<Result<Vec<_>, _>>()?;
    for receiver in &mut receivers {
        await_ready(receiver)?;
    }
    let part = Send {
        file: course.files.source().to_owned(),
        receivers: course
            .receivers()
            .map(|host| course.bed.address(host))
            .collect(),
        at_once,
    };
    let assignment = serde_json::to_string(&Assignment::TcpSend(part))?;
    let args = WORKER.into_iter().chain([assignment.as_str()]);
    let command = course.command(1, course.executable, args);
    let (outcome, _) = course.race(&format!("tcp-{way}"), command, course.files.name())?;
    Ok(outcome.into())
}

impl Send {
    /// Sends until every receiver has said that it has all.
    pub(in crate::measure) fn run(&self) -> Result<(), BenchError> {
        let send = |to: &Ipv4Addr| send(&self.file, *to);
        let sent: io::Result<()> = if self.at_once {
            thread::scope(|scope| {
                let threads: Vec<_> = self
                    .receivers
                    .iter()
                    .map(|to| scope.spawn(move || send(to)))
                    .collect();
                threads.into_iter().try_for_each(|thread| {
                    let ended = thread.join();
                    ended.unwrap_or_else(|_| Err(io::Error::other("a thread died")))
                })
            })
        } else {
            self.receivers.iter().try_for_each(send)
        };
        sent.map_err(BenchError::io("send by TCP"))
    }
}

fn send(file: &PathBuf, to: Ipv4Addr) -> io::Result<()> {
    let mut stream = TcpStream::connect(SocketAddrV4::new(to, PORT))?;
    io::copy(&mut File::open(file)?, &mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_exact(&mut HAVE.clone())
}

impl Receive {
    /// Receives one file.
    pub(in crate::measure) fn run(&self) -> Result<(), BenchError> {
        let listener = TcpListener::bind(SocketAddrV4::new(self.address, PORT))
            .map_err(BenchError::io("listen"))?;
        say::<()>(&Said::Ready)?;
        receive(&listener, &self.file).map_err(BenchError::io("receive by TCP"))
    }
}

fn receive(listener: &TcpListener, file: &PathBuf) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut out = File::create(file)?;
    let mut block = vec![0; BLOCK];
    loop {
        match stream.read(&mut block)? {
            0 => return stream.write_all(&HAVE),
            len => out.write_all(&block[..len])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_arrives_and_its_sender_learns_of_it() {
        let folder = std::env::temp_dir();
        let [from, to] = ["from", "to"]
            .map(|name| folder.join(format!("gc-tcp-test-{}-{name}", std::process::id())));
        let bytes: Vec<u8> = (0..3 * BLOCK + 5).map(|at| at as u8).collect();
        std::fs::write(&from, &bytes).unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
        let listener = TcpListener::bind(address).unwrap();
        let place = to.clone();
        let receiver = thread::spawn(move || receive(&listener, &place));
        send(&from, Ipv4Addr::LOCALHOST).unwrap();
        receiver.join().unwrap().unwrap();
        assert!(std::fs::read(&to).unwrap() == bytes);
        for path in [from, to] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
