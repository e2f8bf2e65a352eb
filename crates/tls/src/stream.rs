//! One end of a TLS connection over a socket that does not block.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::Connection;
use webpki::EndEntityCert;

use crate::records::Records;
use crate::refusal::{Side, explained};

/// Bytes that wait for the socket; more are not taken.
const UNSENT_MAX: usize = 64 << 10;
/// The most bytes of a record: this many may have come without any of them being readable.
const RECORD_MAX: u64 = (16 << 10) + 256 + 5;
/// What a byte counts that is no payload. The shortest record has 22 of them, and to open it takes
/// about as long as to read 90 bytes.
const OVERHEAD_COST: u64 = 4;

/// One end of a connection. It reads and writes like its socket, whose errors it passes on:
/// [`ErrorKind::WouldBlock`] where the socket has nothing, or no room.
///
/// What was written may wait here for room at the socket: [`flush`](Write::flush) says whether some
/// does. It must be called again when there is room.
#[derive(Debug)]
pub struct TlsStream<S> {
    socket: S,
    session: Connection,
    work: Work,
    records: Records,
}

/// Bytes in all.
#[derive(Clone, Copy, Default, Debug)]
struct Work {
    /// Read from the socket.
    taken: u64,
    /// Given to the reader.
    given: u64,
    /// Of the difference, what [`TlsStream::take_work`] has told.
    told: u64,
}

impl<S> TlsStream<S> {
    pub(crate) fn new(socket: S, mut session: Connection) -> Self {
        session.set_buffer_limit(Some(UNSENT_MAX));
        Self {
            socket,
            session,
            work: Work::default(),
            records: Records::default(),
        }
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// The socket, to register it with a poll.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// The socket alone: what comes is not opened any more, and what waits for room is lost.
    pub fn into_socket(self) -> S {
        self.socket
    }

    /// Whether the two sides have not agreed on keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether something waits for room at the socket.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether something can be read that has left the socket already.
    pub fn has_unread(&mut self) -> bool {
        let state = self.session.process_new_packets();
        // After an error, reading tells of it.
        state.map_or(true, |state| {
            state.plaintext_bytes_to_read() > 0 || state.peer_has_closed()
        })
    }

    /// Whether a record has begun to come and is not whole: nothing of it can be read before it is.
    pub fn is_in_record(&self) -> bool {
        self.records.is_open()
    }

    /// What reading has cost since the last call, beside what was given to the reader: as many
    /// bytes as can be read in that time. Records without payload would be read for nothing else.
    pub fn take_work(&mut self) -> usize {
        let Work { taken, given, told } = self.work;
        let overhead = taken.saturating_sub(given + RECORD_MAX);
        let new = overhead.saturating_sub(told);
        self.work.told += new;
        (new * OVERHEAD_COST) as usize
    }

    /// The DNS names that the other side's certificate is for, if it showed one.
    pub fn peer_names(&self) -> Vec<String> {
        let certificates = self.session.peer_certificates().unwrap_or_default();
        let Some(Ok(certificate)) = certificates.first().map(EndEntityCert::try_from) else {
            return Vec::new();
        };
        certificate.valid_dns_names().map(str::to_owned).collect()
    }

    /// Nothing more will be written: the other side is told as soon as the socket has room.
    pub fn end_output(&mut self) {
        self.session.send_close_notify();
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    /// Reads the socket once at most. 0: the other side has ended its output.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`]: the socket had something, and nothing of it can be read yet;
    /// call again. [`ErrorKind::InvalidData`]: what came is not TLS, or the other side is not
    /// believed, or does not believe this one. [`ErrorKind::UnexpectedEof`]: it ended without a
    /// word.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(len) = self.read_opened(bytes)? {
            return Ok(len);
        }
        let mut watched = self.records.watch(&mut self.socket);
        self.work.taken += self.session.read_tls(&mut watched)? as u64;
        let processed = self.session.process_new_packets();
        // The other side is to hear of a failure as well.
        let flushed = self.flush();
        if let Err(error) = processed {
            let side = match self.session {
                Connection::Client(_) => Side::Client,
                Connection::Server(_) => Side::Daemon,
            };
            let text = explained(side, &error);
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        match flushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let opened = self.read_opened(bytes)?;
        opened.ok_or_else(|| ErrorKind::Interrupted.into())
    }
}

impl<S> TlsStream<S> {
    /// Reads what has left the socket already; `None` if there is nothing.
    fn read_opened(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        match self.session.reader().read(bytes) {
            Ok(len) => {
                self.work.given += len as u64;
                Ok(Some(len))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let text = "the other side closed the connection without a word";
                Err(io::Error::new(ErrorKind::UnexpectedEof, text))
            }
            Err(error) => Err(error),
        }
    }
}

impl<S: Write> TlsStream<S> {
    /// Takes what `take` writes into the session, and hands on what the socket has room for.
    fn write_by(
        &mut self,
        take: impl FnOnce(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let taken = take(&mut self.session.writer())?;
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            // Nothing was taken: there was no room.
            _ if taken == 0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }
}

impl<S: Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_by(|writer| writer.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_by(|writer| writer.write_vectored(parts))
    }

    /// # Errors
    /// [`ErrorKind::WouldBlock`]: some of it waits for room.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}
