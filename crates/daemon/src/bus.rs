//! A connection of the bus: turns a client's text into frames for the engine, and the engine's
//! frames into text.
//!
//! To the rest of the daemon it reads and writes like the socket of a client that speaks the client
//! protocol.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use groupcast_session::bus::Bus;
use groupcast_session::bus::trace::Tracer;
use groupcast_session::frame::AccessToken;
use groupcast_session::groups::InputAhead;

use crate::stream::Stream;
use crate::trace::Traces;

/// The most bytes of text that are read at once.
const READ_BLOCK: usize = 16 << 10;

/// A socket and the bus between it and the engine.
#[derive(Debug)]
pub(crate) struct BusStream {
    socket: Stream,
    bus: Bus,
    /// The engine read while no text was wanted: the socket may have text.
    starved: bool,
    /// Bytes of text that were read since the last [`take_work`](Self::take_work).
    work: usize,
}

impl BusStream {
    /// A client of the bus at `socket`. It shows the daemon `token`, if the daemon asks TCP clients
    /// for one. Its traces go to `traces`; without them it can have none.
    pub(crate) fn new(socket: Stream, token: Option<AccessToken>, traces: Option<Traces>) -> Self {
        let bus = Bus::new(token);
        let bus = match traces {
            Some(traces) => bus.traced_by(Box::new(traces) as Box<dyn Tracer>),
            None => bus,
        };
        Self {
            socket,
            bus,
            starved: false,
            work: 0,
        }
    }

    pub(crate) fn socket(&self) -> &Stream {
        &self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Stream {
        &mut self.socket
    }

    /// The socket alone, when the bus has no more text.
    pub(crate) fn into_socket(self) -> Stream {
        self.socket
    }

    /// Tells the client if its trace has ended by an error; returns whether it has.
    pub(crate) fn tend_trace(&mut self) -> bool {
        self.bus.tend_trace()
    }

    /// The work of reading since the last call, in bytes, beside the bytes that the engine got.
    pub(crate) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work) + self.socket.take_work()
    }

    /// How many traces it began since the last call, with or without success.
    pub(crate) fn take_begins(&mut self) -> usize {
        self.bus.take_begins()
    }

    /// What has come and is no frame that the engine has read.
    pub(crate) fn input_ahead(&self) -> InputAhead {
        let text = self.bus.input_ahead();
        InputAhead {
            unfinished: text.unfinished.or(self.socket.input_ahead().unfinished),
            ..text
        }
    }

    /// Whether text waits for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.bus.text().is_empty() || self.socket.has_unsent()
    }

    /// Whether the engine can read frames without an event of the socket.
    pub(crate) fn has_unread(&self) -> bool {
        !self.socket.is_handshaking()
            && (self.bus.has_frames()
                || self.bus.is_paused()
                || self.starved && self.bus.wants_text())
    }

    /// Reads frames that are ready; `None` if there are none.
    fn read_frames(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let frames = self.bus.frames();
        let len = frames.len().min(bytes.len());
        bytes[..len].copy_from_slice(&frames[..len]);
        (len > 0).then(|| {
            self.bus.frames_taken(len);
            len
        })
    }
}

impl Read for BusStream {
    /// # Errors
    /// [`ErrorKind::Interrupted`]: text came, and no frame of it can be read yet; call again, after
    /// a trace in a later turn.
    /// [`ErrorKind::WouldBlock`]: the socket has nothing, or no text is wanted now. And those of
    /// the socket.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut text = [0; READ_BLOCK];
        // There is no client before the TLS handshake is over.
        if !self.socket.is_handshaking() {
            if self.bus.is_paused() {
                self.bus.resume();
            }
            if let Some(len) = self.read_frames(bytes) {
                return Ok(len);
            }
            if self.bus.is_paused() {
                return Err(ErrorKind::Interrupted.into());
            }
            self.starved = !self.bus.wants_text();
            if self.starved {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        match self.socket.read(&mut text)? {
            0 => self.bus.end_text(),
            len => {
                self.work += len;
                self.bus.take_text(&text[..len]);
            }
        }
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        self.read_frames(bytes)
            .ok_or_else(|| ErrorKind::Interrupted.into())
    }
}

impl Write for BusStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for part in parts {
            if !self.bus.wants_frames() {
                break;
            }
            let bug = |error| io::Error::new(ErrorKind::InvalidData, error);
            self.bus.take_frames(part).map_err(bug)?;
            taken += part.len();
        }
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if taken > 0 => Ok(taken),
            // Nothing was taken for want of room; the flush may have made some.
            Err(error) => Err(error),
            Ok(()) => Err(ErrorKind::Interrupted.into()),
        }
    }

    /// # Errors
    /// [`ErrorKind::WouldBlock`]: some text waits for room.
    fn flush(&mut self) -> io::Result<()> {
        while !self.bus.text().is_empty() {
            match self.socket.write(self.bus.text()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => self.bus.text_taken(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.socket.flush()
    }
}
