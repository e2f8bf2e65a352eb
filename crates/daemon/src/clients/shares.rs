//! The share of a turn that reads from, or writes to, one client, and its cost. Costs are in bytes
//! read.

use std::io::{self, ErrorKind, IoSlice, Read as _, Write};
use std::time::{Duration, Instant};

use groupcast_core::Time;
use groupcast_session::groups::Handled;
use groupcast_session::{ClientId, Engine};

use super::{Clients, READ_TOTAL, token_of};
use crate::client_calls::ClientCalls;

/// The cost of a message beside its bytes: taking it over takes as long as reading this many bytes.
const MESSAGE_COST: usize = 64;
/// The cost of another frame beside its bytes: handling the shortest takes as long as reading this
/// many bytes.
pub(super) const REQUEST_COST: usize = 512;
/// A client that sends at most this many frames in a turn that publish nothing has its next turn at
/// once.
pub(super) const REQUESTS_FREE: usize = 32;
/// After more of them all such clients rest in turn, this long for each frame: five times as long
/// as handling it takes.
pub(super) const REQUEST_REST: Duration = Duration::from_micros(2);
/// A client that was read at this cost, and of which no frame ended, has sent a part of a long one.
/// Moving what has come of it counts, too.
pub(super) const LONG_PART: usize = 64 << 10;
/// After a part of a long frame all such clients rest in turn. The rest is as many times as long as
/// reading the part took as there are other clients with a long frame, this many at most: many long
/// frames have a fifth of the time, like changes of groups. Where a daemon has to wait for a
/// processor, that keeps it idle enough to have one when a token comes.
const PART_REST: u32 = 4;
/// The longest such rest.
pub(super) const PART_REST_MAX: Duration = Duration::from_millis(20);
/// The cost of a step of a TLS handshake: a signature takes as long as reading this many bytes.
const HANDSHAKE_COST: usize = 64 << 10;
/// The cost of the end of a connection, which takes a client out of all that knows it. One takes 6
/// µs, and 13 µs where the client is in a group and messages wait for it. 1 KiB of messages takes
/// 0.7 µs to read and 0.2 µs to write, and the daemon finds ends as it reads and as it writes.
pub(super) const END_COST: usize = 64 << 10;
/// The cost of a write beside its bytes: waking a client takes as long as writing this many bytes.
pub(super) const WAKE_COST: usize = 8 << 10;
/// The cost of beginning a trace: the system makes, renames and removes files for it, which may
/// take as long as everything else that a turn reads.
const TRACE_COST: usize = READ_TOTAL;
/// The rest of a client that began a trace.
const TRACE_REST: Duration = Duration::from_millis(5);
/// The cost of compiling a pattern, which takes as long as all that a turn reads, or less.
const PATTERN_COST: usize = READ_TOTAL;
/// The rest of a client that had one compiled: three times what that takes at most.
pub(super) const PATTERN_REST: Duration = Duration::from_millis(3);
/// The cost of naming a client in a view of a bimodal group, which a client's own join or leave
/// makes, or of walking over it for a list of the clients of the bus.
const NAME_COST: usize = 256;
/// A client may have this many named in a turn before it rests.
const NAMES_FREE: usize = 256;
/// Then it rests this long for each: some four times as long as naming it takes.
const NAME_REST: Duration = Duration::from_micros(1);
/// The most bytes that are written to one client in one turn; the last call may exceed it.
pub(super) const WRITE_SHARE: usize = 512 << 10;
/// The most slices that are written in one call.
const SLICES: usize = 64;

impl Clients {
    /// Reads from one client until the cost is `max`; the last call may exceed it.
    pub(super) fn read(
        &mut self,
        now: Time,
        id: ClientId,
        engine: &mut Engine,
        max: usize,
    ) -> ReadShare {
        let begun = Instant::now();
        let mut share = self.read_some(now, id, engine, max);
        let Some(stream) = self.streams.get(&id) else {
            // It has ended, and nothing is noted about it.
            return share;
        };
        if !stream.is_plain() {
            engine.set_input_ahead(now, id, stream.input_ahead());
        }
        if share.frames > 0 {
            self.long.remove(&id);
        } else if share.taken >= LONG_PART {
            self.long.insert(id);
            let others = self.long.len() as u32 - 1;
            share.part_rest = (begun.elapsed() * others.min(PART_REST)).min(PART_REST_MAX);
        }
        share
    }

    fn read_some(&mut self, now: Time, id: ClientId, engine: &mut Engine, max: usize) -> ReadShare {
        let mut share = ReadShare::default();
        let Some(stream) = self.streams.get_mut(&id) else {
            return share;
        };
        while share.taken < max {
            // What waited behind the frames before.
            if self.held.remove(&id) {
                if share.count(engine.received(now, id, 0)) {
                    self.held.insert(id);
                }
                continue;
            }
            let Some(space) = engine.space(id) else {
                break;
            };
            let room = space.len();
            let handshaking = stream.is_handshaking();
            let read = stream.read(space);
            self.calls.count_read(&read);
            share.taken += stream.take_work();
            let begins = stream.take_begins();
            share.taken += begins * TRACE_COST;
            share.begins += begins;
            let came = !matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock);
            // A read that finds nothing is no step. If it counted as one, the client would rest
            // after it, be read again, find nothing, and so on without end.
            if handshaking && came {
                share.taken += HANDSHAKE_COST;
                if !stream.is_handshaking() {
                    engine.certified(id, stream.certificate());
                }
            }
            if stream.has_unsent() && !self.blocked.contains(&id) {
                self.writable.push(id);
            }
            match read {
                Ok(0) => {
                    self.end(now, id, engine);
                    share.taken += END_COST;
                    return share;
                }
                Ok(len) => {
                    share.taken += len;
                    if share.count(engine.received(now, id, len)) {
                        self.held.insert(id);
                        continue;
                    }
                    // The read has emptied the socket: the next event tells of more.
                    if len < room && stream.is_plain() && !self.ended.contains(&id) {
                        return share;
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return share,
                    ErrorKind::Interrupted => {}
                    ErrorKind::InvalidData => {
                        self.forget(now, id);
                        engine.failed(now, id, &format!("TLS failed: {error}"));
                        share.taken += END_COST;
                        return share;
                    }
                    _ => {
                        self.end(now, id, engine);
                        share.taken += END_COST;
                        return share;
                    }
                },
            }
        }
        share.more = true;
        share
    }

    /// Writes the share of one client; returns its cost.
    pub(super) fn write(&mut self, now: Time, id: ClientId, engine: &mut Engine) -> usize {
        let Some(stream) = self.streams.get_mut(&id) else {
            return 0;
        };
        let (written, drained) = match drain(now, id, engine, stream, &mut self.calls) {
            Ok(drained) => drained,
            Err(error) => {
                tracing::debug!("{id:?}: {error}");
                self.forget(now, id);
                match error.kind() {
                    // The other side has done nothing.
                    ErrorKind::InvalidData => {
                        engine.failed(now, id, &format!("its output makes no sense: {error}"));
                    }
                    _ => engine.closed(now, id),
                }
                return END_COST;
            }
        };
        let begins = stream.take_begins();
        let cost = written + WAKE_COST + begins * TRACE_COST;
        if stream.has_unread() && !self.rests.contains(id) {
            self.readable.push(id);
        }
        if begins > 0 {
            self.rests.rest(now, id, TRACE_REST * begins as u32);
        }
        let blocked = drained == Drained::Blocked;
        if drained == Drained::Share {
            self.writable.push(id);
        }
        if blocked == self.blocked.contains(&id) {
            return cost;
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return cost;
        };
        match stream.watch_room(&self.registry, token_of(id), blocked) {
            Ok(()) if blocked => {
                self.blocked.insert(id);
            }
            Ok(()) => {
                self.blocked.remove(&id);
            }
            Err(error) => {
                // Its socket is full, so there is no telling it.
                self.forget(now, id);
                let text = format!("the system cannot wait for this client: {error}");
                engine.failed(now, id, &text);
                return cost + END_COST;
            }
        }
        cost
    }
}

/// The share that was read from a client in a turn.
#[derive(Default)]
pub(super) struct ReadShare {
    /// The cost of reading and handling it.
    pub(super) taken: usize,
    /// Whole frames.
    frames: usize,
    /// Frames that published nothing.
    requests: usize,
    /// How long the client rests after it, if it is a part of a long frame.
    part_rest: Duration,
    /// Traces that were begun.
    begins: usize,
    /// Patterns that were compiled.
    patterns: usize,
    /// Clients in views and lists that were made.
    names: usize,
    /// There may be more to read.
    pub(super) more: bool,
}

impl ReadShare {
    /// Counts what the engine has handled; whether it left something for a later turn.
    fn count(&mut self, handled: Handled) -> bool {
        let requests = handled.frames - handled.messages;
        self.taken += handled.moved;
        self.taken += handled.messages * MESSAGE_COST + requests * REQUEST_COST;
        self.taken += handled.named * NAME_COST;
        self.names += handled.named;
        self.frames += handled.frames;
        self.requests += requests;
        if handled.compiled {
            self.taken += PATTERN_COST;
            self.patterns += 1;
        }
        handled.more
    }

    /// How long the client is not read after it.
    pub(super) fn rest(&self) -> Duration {
        let requests = match self.requests > REQUESTS_FREE {
            true => REQUEST_REST * self.requests as u32,
            false => Duration::ZERO,
        };
        let traces = TRACE_REST * self.begins as u32;
        let names = match self.names > NAMES_FREE {
            true => NAME_REST * self.names as u32,
            false => Duration::ZERO,
        };
        self.part_rest + requests + traces + names + PATTERN_REST * self.patterns as u32
    }
}

/// Why no more is written to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drained {
    /// Nothing is left.
    All,
    /// Its socket takes no more.
    Blocked,
    /// The client has had its share of the turn.
    Share,
}

/// Writes the engine's output to a client, up to its share of the turn. Returns how many bytes that
/// were, and why it stopped.
fn drain(
    now: Time,
    id: ClientId,
    engine: &mut Engine,
    socket: &mut impl Write,
    calls: &mut ClientCalls,
) -> io::Result<(usize, Drained)> {
    let mut written = 0;
    while written < WRITE_SHARE {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = engine.slices(id, &mut slices);
        if count == 0 {
            return match socket.flush() {
                Ok(()) => Ok((written, Drained::All)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    Ok((written, Drained::Blocked))
                }
                Err(error) => Err(error),
            };
        }
        let result = socket.write_vectored(&slices[..count]);
        calls.count_write(&result);
        match result {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => {
                written += len;
                engine.consumed(now, id, len);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok((written, Drained::Blocked));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((written, Drained::Share))
}
