//! A connection from its acceptance to its end: its bytes, its deadlines, and leaving.
//! `greeting.rs` handles its first frame.

use groupcast_core::Time;

use super::client::{Client, ClientOrder, ClientPhase, InputAhead, Pending};
use super::orders::OrderIndex;
use super::schedule::Timer;
use super::{ClientId, ClientStatus, Engine, Fact, Transport, Whence};
use crate::frame::{
    ClientKind, DaemonFrame, Disconnect, FRAME_MAX, FrameDecoder, FrameError, MAGIC, Refusal,
};

/// This many connections beyond `clients_max` may be open until their clients have read why they
/// are refused.
pub const REFUSED_MAX: usize = 64;
/// This many tools of root and of the daemon's own user may be connected beyond `clients_max`, so
/// that clients cannot keep operators from the daemon.
pub const OPERATORS_MAX: usize = 8;
/// The most connections over TCP that are not welcomed; beyond it one of them is refused.
const UNWELCOMED_MAX: usize = 64;
/// The most frames that a call handles: what is read at once may have thousands of short ones.
const FRAMES_MAX: usize = 64;
/// A call handles no more frames once views of bimodal groups and lists of clients that it made
/// name this many clients.
const NAMED_MAX: u64 = 256;
/// A client for which publishers are held back gets more time when it has taken this share of
/// `stop_publishers_at`.
const PROGRESS_SHARE: usize = 64;

/// The work that bytes of a client made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handled {
    /// Whole frames, of all kinds.
    pub frames: usize,
    /// The frames among them that published a message.
    pub messages: usize,
    /// Bytes of an unfinished frame that were moved to make room for the rest of it.
    pub moved: usize,
    /// A pattern had to be compiled, which takes up to a millisecond: what stands behind it waits
    /// for a later turn.
    pub compiled: bool,
    /// Members in views of bimodal groups that were made for them, and clients and groups that were
    /// walked over for lists of the clients of the bus.
    pub named: usize,
    /// Frames behind these wait, if there are any: [`Engine::received`] goes on with 0 bytes.
    pub more: bool,
}

impl Engine {
    /// A connection was accepted. `None` if there are so many that the caller should close this one
    /// at once, with [`answer_if_full`](Self::answer_if_full) if it can be written.
    pub fn connected(&mut self, now: Time, transport: Transport) -> Option<ClientId> {
        self.connected_from(now, transport, Whence::default())
    }

    /// The same, where the system told where it comes from. Its certificate comes later.
    pub fn connected_from(
        &mut self,
        now: Time,
        transport: Transport,
        whence: Whence,
    ) -> Option<ClientId> {
        // Anybody who reaches the address can connect and send nothing; such connections must not
        // keep others out.
        if transport == Transport::Tcp && self.clients.unwelcomed() >= UNWELCOMED_MAX {
            self.refuse_oldest(now);
        }
        let by_operator = transport == Transport::Unix && self.is_operator(whence.user);
        let reserved = match by_operator {
            true => OPERATORS_MAX,
            false => 0,
        };
        if self.clients.links() >= self.config.clients_max + REFUSED_MAX + reserved {
            self.journal.counters.clients_refused += 1;
            self.journal.fact(Fact::Refused {
                whence,
                code: Refusal::TooManyClients,
                text: self.full(),
            });
            return None;
        }
        let mut is_full = self.clients.links() >= self.config.clients_max;
        if is_full && !by_operator {
            is_full = !self.end_silent(now);
        }
        let (id, client) = self.clients.connect(transport);
        (client.user, client.address) = (whence.user, whence.address);
        client.since = now;
        client.reserved = is_full && by_operator;
        if let Some(link) = &mut client.link {
            link.output.control(&MAGIC);
        }
        self.schedule.ready.insert(id);
        self.set_deadline(id, Some(now + self.config.hello_within));
        if is_full && !by_operator {
            self.refuse(now, id, Refusal::TooManyClients, self.full());
        } else if self.orders[OrderIndex::OWN].is_stopped() {
            self.refuse_stopping(now, id);
        }
        Some(id)
    }

    /// The answer to a connection for which [`connected`](Self::connected) keeps nothing.
    pub fn answer_if_full(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        DaemonFrame::Refused {
            code: Refusal::TooManyClients,
            text: self.full(),
        }
        .encode(&mut bytes);
        bytes
    }

    /// Whether `user`, at the other end of a Unix socket, runs the daemon.
    fn is_operator(&self, user: Option<u32>) -> bool {
        user.is_some_and(|user| user == 0 || self.own_user == Some(user))
    }

    /// Whether a client that has said hello has a place that is kept for tools, and is none.
    pub(super) fn lacks_place(&self, id: ClientId, kind: ClientKind) -> bool {
        let client = self.clients.get(id);
        kind != ClientKind::Tool && client.is_some_and(|client| client.reserved)
    }

    pub(super) fn full(&self) -> String {
        format!(
            "the daemon {} has {} clients, as many as it takes: try again later, or raise its limit of clients",
            self.host, self.config.clients_max
        )
    }

    /// The host cannot serve `client`: ends its connection, and tells the client and the log why.
    pub fn give_up(&mut self, now: Time, client: ClientId, text: String) {
        self.disconnect(now, client, Disconnect::Other, text);
    }

    /// Refuses a connection over TCP that is not welcomed, to make room: the oldest from where most
    /// of them come.
    fn refuse_oldest(&mut self, now: Time) {
        let Some(oldest) = self.clients.take_unwelcomed() else {
            return;
        };
        let phase = self.clients.get(oldest).map(|client| &client.phase);
        let lacks = match phase {
            Some(ClientPhase::AwaitingName(_)) => "waits for a name that is in use",
            _ => "has not said hello",
        };
        let text = format!("others connect, and this client {lacks}: try again");
        self.refuse(now, oldest, Refusal::TooManyClients, text);
    }

    /// All places are taken. Ends the connection of a client that would have had to say hello by
    /// now, if its host had not said it for it; returns whether there was one.
    fn end_silent(&mut self, now: Time) -> bool {
        let Some(silent) = self.clients.take_silent(now, self.config.hello_within) else {
            return false;
        };
        let text = "others connect, and this client has said nothing: try again";
        self.disconnect(now, silent, Disconnect::Overload, text.into());
        true
    }

    /// The client showed a certificate for these DNS names. Call this before
    /// [`received`](Self::received).
    pub fn certified(&mut self, client: ClientId, names: Vec<String>) {
        if let Some(client) = self.clients.get_mut(client) {
            client.certificate = names;
        }
    }

    /// The buffer into which the next bytes from the socket of `client` go; `None` if nothing more
    /// is to be read now.
    pub fn space(&mut self, client: ClientId) -> Option<&mut [u8]> {
        let client = self.clients.get_mut(client)?;
        if !client.is_reading() {
            return None;
        }
        client.link.as_mut().map(|link| link.decoder.space())
    }

    /// The socket of `client` gave `len` bytes into [`space`](Self::space). Handles whole frames,
    /// a bounded number, and returns how much work that was, so that the caller can bound the work
    /// of a turn.
    ///
    /// # Panics
    /// If `len` is more than there was room for.
    pub fn received(&mut self, now: Time, client: ClientId, len: usize) -> Handled {
        let published = self.journal.counters.published;
        let compiled = self.journal.counters.patterns_compiled;
        let named = self.named;
        let moved = self.clients.link_mut(client).map_or(0, |link| {
            link.decoder.filled(len);
            link.decoder.take_moved()
        });
        let (frames, more) = self.handle_frames(now, client);
        let messages = (self.journal.counters.published - published) as usize;
        Handled {
            frames,
            messages,
            moved,
            compiled: self.journal.counters.patterns_compiled > compiled,
            named: (self.named - named) as usize,
            more,
        }
    }

    /// The same for a caller that does not bound the work of a turn: nothing waits behind it.
    pub fn received_all(&mut self, now: Time, client: ClientId, len: usize) {
        let mut handled = self.received(now, client, len);
        while handled.more {
            handled = self.received(now, client, 0);
        }
    }

    /// Handles frames; how many, and whether there may be more.
    fn handle_frames(&mut self, now: Time, client: ClientId) -> (usize, bool) {
        let (mut frames, mut more) = (0, false);
        let named_max = self.named + NAMED_MAX;
        while let Some(client_ref) = self.clients.get_mut(client) {
            if !client_ref.is_reading() {
                return (frames, false);
            }
            let Some(link) = client_ref.link.as_mut() else {
                return (frames, false);
            };
            match link.decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(raw)) => {
                    frames += 1;
                    let compiled = self.journal.counters.patterns_compiled;
                    self.handle_frame(now, client, raw);
                    let has_compiled = self.journal.counters.patterns_compiled > compiled;
                    let has_named = self.named >= named_max;
                    if has_compiled || has_named || frames >= FRAMES_MAX {
                        more = true;
                        break;
                    }
                }
                Err(error) => {
                    self.violation(now, client, &error);
                    return (frames, false);
                }
            }
        }
        self.clients.count_unfinished(client);
        self.watch_frame(now, client, frames > 0);
        self.check_input(now, client);
        self.check_output(now);
        (frames, more)
    }

    /// Tells the engine what `client`'s host holds of its input, which cannot be read before the
    /// rest has come, or before the engine lets the client go on. It counts as an unfinished frame.
    pub fn set_input_ahead(&mut self, now: Time, client: ClientId, ahead: InputAhead) {
        let Some(link) = self.clients.link_mut(client).filter(|link| !link.closing) else {
            return;
        };
        if link.ahead == ahead {
            return;
        }
        let anew = link.ahead.unfinished != ahead.unfinished;
        link.ahead = ahead;
        self.clients.note_silence(client, ahead.is_silent);
        self.clients.count_unfinished(client);
        self.watch_frame(now, client, anew);
        self.check_input(now, client);
    }

    /// Notes when the unfinished frame began; `anew` if frames before it were just read.
    fn watch_frame(&mut self, now: Time, id: ClientId, anew: bool) {
        let deadlines = &mut self.schedule.deadlines;
        let Some(link) = self.clients.link_mut(id) else {
            return;
        };
        if link.decoder.buffered() == 0 && link.ahead.unfinished.is_none() {
            link.frame_since = None;
        } else if anew || link.frame_since.is_none() {
            link.frame_since = Some(now);
            // One timer serves many frames: when it fires, `check_frame` sets it again for the
            // frame that is unfinished then.
            if !deadlines.is_set(id, Timer::Frame) {
                deadlines.set(id, Timer::Frame, Some(now + self.config.frame_within));
            }
        }
    }

    /// Ends a connection whose unfinished frame takes too long.
    pub(super) fn check_frame(&mut self, now: Time, id: ClientId) {
        let within = self.config.frame_within;
        let Some(link) = self.clients.link_mut(id).filter(|link| !link.closing) else {
            return;
        };
        let Some(since) = link.frame_since else {
            return;
        };
        let at = since + within;
        if at > now {
            let deadlines = &mut self.schedule.deadlines;
            return deadlines.set(id, Timer::Frame, Some(at));
        }
        let (len, seconds) = (link.unfinished(), within.as_secs());
        let text = format!(
            "a frame has not come whole within {seconds} s, only {len} bytes of it: send each message without a pause"
        );
        self.disconnect(now, id, Disconnect::Overload, text);
    }

    /// The connection of `client` has ended: the other side closed it, or an error did.
    pub fn closed(&mut self, now: Time, client: ClientId) {
        self.drop_link(client);
        let Some(entry) = self.clients.get(client) else {
            return;
        };
        match entry.phase {
            ClientPhase::Greeting | ClientPhase::AwaitingName(_) | ClientPhase::Gone => {
                self.clients.remove(client);
            }
            ClientPhase::Open => {
                self.forget_changes(client);
                self.begin_leave(now, client);
            }
            ClientPhase::Leaving => {}
        }
    }

    /// The connection of `client` has ended by the error `text`, which the log is to tell.
    pub fn failed(&mut self, now: Time, client: ClientId, text: &str) {
        let entry = self.clients.get(client);
        let whence = entry.map(Client::whence).unwrap_or_default();
        match entry.map(|entry| &entry.phase) {
            Some(ClientPhase::Greeting | ClientPhase::AwaitingName(_)) => {
                self.journal.counters.clients_refused += 1;
                self.journal.fact(Fact::Refused {
                    whence,
                    code: Refusal::Protocol,
                    text: text.to_owned(),
                });
            }
            Some(ClientPhase::Open) => {
                self.disconnect(now, client, Disconnect::Protocol, text.into());
            }
            Some(ClientPhase::Leaving | ClientPhase::Gone) | None => {}
        }
        self.closed(now, client);
    }

    /// Ends all connections because the daemon is stopping, and takes no more. To leave the ring
    /// gracefully, call its `leave` instead and go on until it says
    /// [`Event::Left`](groupcast_core::Event::Left): then the messages that the ring has taken are
    /// accepted before the connections end.
    pub fn stop(&mut self, now: Time, text: &str) {
        for on in self.orders.indices() {
            self.finish_spreading(on, now);
            self.orders[on].stop();
        }
        for id in self.clients.ids() {
            self.disconnect(now, id, Disconnect::Stopping, text.into());
        }
    }

    /// The client makes no more requests: its last ones are carried out, then it leaves its groups.
    pub(super) fn begin_leave(&mut self, now: Time, id: ClientId) {
        self.clients.note_silence(id, false);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.phase = ClientPhase::Leaving;
        self.schedule.congestion.forget(id);
        self.guest_gone(now, id);
        self.leave_bimodal(now, id);
        self.go_on_leaving(now, id);
    }

    /// The client leaves the groups of all orders, once none of its messages waits for a bimodal
    /// group.
    pub(super) fn go_on_leaving(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        if !matches!(client.phase, ClientPhase::Leaving) || client.bimodal_waiting > 0 {
            return;
        }
        let orders = self.orders.indices();
        let there: Vec<_> = orders.filter(|on| client.orders[*on].is_there()).collect();
        if there.is_empty() {
            return self.finish_leave(now, id);
        }
        for on in there {
            self.queue(on, id, Pending::Disconnect);
        }
    }

    /// The client is in no group of this order any more. Finishes its leave, if it is in none of
    /// another, either.
    pub(super) fn left_order(&mut self, on: OrderIndex, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.orders[on].bound = false;
        if !client.orders.iter().any(ClientOrder::is_there) {
            self.finish_leave(now, id);
        }
    }

    /// The client is in no group any more: its name is free.
    pub(super) fn finish_leave(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.phase = ClientPhase::Gone;
        let (name, private) = (client.name.clone(), client.private.clone());
        if self.clients.release_name(&name, id) {
            self.routes_changed();
        }
        self.journal.fact(Fact::Gone { client: private });
        if self.clients.link_mut(id).is_some_and(|link| !link.closing) {
            self.report(id);
            self.farewell(
                now,
                id,
                &DaemonFrame::Disconnected {
                    code: Disconnect::Bye,
                    text: "good-bye".into(),
                },
            );
        }
        self.forget_gone(id);
        self.unpark(now, &name);
    }

    /// Ends the connection, and tells the client why.
    pub(super) fn disconnect(&mut self, now: Time, id: ClientId, code: Disconnect, text: String) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        if client.link.as_ref().is_none_or(|link| link.closing) {
            return;
        }
        if matches!(
            client.phase,
            ClientPhase::Greeting | ClientPhase::AwaitingName(_)
        ) {
            let code = match code {
                Disconnect::Stopping => Refusal::Stopping,
                Disconnect::Other => Refusal::Other,
                _ => Refusal::Protocol,
            };
            return self.refuse(now, id, code, text);
        }
        self.journal.counters.clients_disconnected += 1;
        self.journal.fact(Fact::Disconnected {
            client: client.private.clone(),
            whence: client.whence(),
            code,
            text: text.clone(),
        });
        self.report(id);
        self.farewell(now, id, &DaemonFrame::Disconnected { code, text });
        if let Some(ClientPhase::Open) = self.clients.get(id).map(|client| &client.phase) {
            self.forget_changes(id);
            self.begin_leave(now, id);
        }
    }

    /// Removes the client's waiting joins and leaves: it is gone without a good-bye, and leaves all
    /// its groups at once anyway.
    fn forget_changes(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let is_change = |request: &Pending| matches!(request, Pending::Join(_) | Pending::Leave(_));
        let mut forgotten = 0;
        for of in client.orders.iter_mut() {
            of.requests.retain(|request| {
                let forget = is_change(request);
                if forget {
                    forgotten += request.cost();
                }
                !forget
            });
        }
        let requests = client.orders.iter().flat_map(|of| &of.requests);
        client.group_requests = requests.filter(|it| it.is_of_groups()).count();
        // A client without requests must not stay in the queue: an order that carries nothing out
        // would never remove it.
        for on in self.orders.indices() {
            let of = &mut client.orders[on];
            if of.in_turn && of.requests.is_empty() {
                of.in_turn = false;
                self.orders[on].submissions.forget_turn(id);
            }
        }
        self.clients.unqueued(id, forgotten);
    }

    /// The client broke the protocol.
    pub(super) fn violation(&mut self, now: Time, id: ClientId, error: &FrameError) {
        self.journal.counters.frames_bad += 1;
        self.disconnect(now, id, Disconnect::Protocol, error.to_string());
    }

    /// The output of `id` changed, its socket took `taken` bytes: the connection may be done, or
    /// the client no longer slow.
    pub(super) fn after_output(&mut self, now: Time, id: ClientId, taken: usize) {
        let stop_at = self.config.stop_publishers_at;
        let Some(link) = self.clients.link_mut(id) else {
            return;
        };
        if link.closing && link.output.is_empty() {
            self.schedule.closable.insert(id);
            return;
        }
        let blocking = link.output.blocking();
        let memory = link.count_memory();
        self.clients.output_changed(memory);
        self.go_on_spilling(id);
        self.report_missed(id);
        self.report_dropped(id);
        if self.schedule.congestion.is_slow(id) {
            if blocking <= stop_at / 2 {
                self.relieve(id);
            } else if self.is_progress(id, taken) {
                self.set_deadline(id, Some(now + self.config.stalled_within));
            }
        }
    }

    /// Whether a client for which publishers are held back has taken enough to get more time. If
    /// any byte were enough, a client that takes one now and then could hold them back for ever.
    fn is_progress(&mut self, id: ClientId, taken: usize) -> bool {
        let enough = (self.config.stop_publishers_at / PROGRESS_SHARE).max(1);
        let Some(link) = self.clients.link_mut(id) else {
            return false;
        };
        link.taken += taken;
        let is_progress = link.taken >= enough;
        if is_progress {
            link.taken = 0;
        }
        is_progress
    }

    /// Holds publishers back no longer for `id`.
    pub(super) fn relieve(&mut self, id: ClientId) {
        if let Some(publishers) = self.schedule.congestion.end(id) {
            if self.clients.link_mut(id).is_some_and(|link| !link.closing) {
                self.set_deadline(id, None);
            }
            self.schedule.ready.extend(publishers);
        }
    }

    pub(super) fn deadline_passed(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Some(link) = &mut client.link else {
            return;
        };
        if link.closing {
            self.schedule.closable.insert(id);
        } else if matches!(client.phase, ClientPhase::Greeting) {
            let seconds = self.config.hello_within.as_secs();
            let text = format!("no hello came within {seconds} s: connect with a groupcast client");
            self.refuse(now, id, Refusal::TooLate, text);
        } else if let ClientPhase::AwaitingName(hello) = &client.phase {
            let (name, seconds) = (hello.name.as_deref(), self.config.hello_within.as_secs());
            let text = format!(
                "a former client of the daemon {} is called {:?}, and has not left its groups within {seconds} s: try again, \
                 or choose another name",
                self.host,
                name.unwrap_or_default()
            );
            self.refuse(now, id, Refusal::NameInUse, text);
        } else {
            let backlog = link.output.backlog();
            let seconds = self.config.stalled_within.as_secs();
            let text = format!(
                "too slow: {backlog} bytes waited, and next to none were taken for {seconds} s; read messages as they come"
            );
            self.disconnect(now, id, Disconnect::TooSlow, text);
        }
    }

    pub(super) fn set_deadline(&mut self, id: ClientId, deadline: Option<Time>) {
        if self.clients.link_mut(id).is_some() {
            let deadlines = &mut self.schedule.deadlines;
            deadlines.set(id, Timer::Connection, deadline);
        }
    }

    /// Forgets the connection, not the client.
    pub(super) fn drop_link(&mut self, id: ClientId) {
        self.relieve(id);
        self.end_spill(id);
        self.schedule.forget(id);
        self.questions.forget(id);
        self.clients.disconnect(id);
        self.forget_gone(id);
    }

    fn forget_gone(&mut self, id: ClientId) {
        let gone =
            |client: &Client| matches!(client.phase, ClientPhase::Gone) && client.link.is_none();
        if self.clients.get(id).is_some_and(gone) {
            self.clients.remove(id);
        }
    }

    /// Sends the last frame of a connection.
    pub(super) fn farewell(&mut self, now: Time, id: ClientId, frame: &DaemonFrame) {
        self.end_spill(id);
        self.questions.forget(id);
        if let Some(link) = self.clients.link_mut(id) {
            link.output.drop_waiting();
        }
        self.send(id, frame);
        if let Some(link) = self.clients.link_mut(id) {
            link.closing = true;
            // Nothing more is read, so an unfinished frame only takes memory.
            link.decoder = FrameDecoder::new(FRAME_MAX);
            link.ahead = InputAhead::default();
        }
        self.clients.count_unfinished(id);
        self.clients.count_output(id);
        self.clients.count_on_disk(id);
        self.relieve(id);
        self.set_deadline(id, Some(now + self.config.farewell_within));
    }
}

impl Client {
    pub(super) fn status(&self, holds_back: bool) -> ClientStatus {
        ClientStatus {
            name: self.private.clone(),
            kind: self.kind,
            transport: self.transport,
            groups: self.wanted.len(),
            input: self.queued + self.unfinished,
            unaccepted: self.unaccepted(),
            backlog: self.link.as_ref().map_or(0, |link| link.output.backlog()),
            on_disk: self.link.as_ref().map_or(0, |link| link.output.on_disk()),
            dropped: self.dropped,
            when_slow: self.when_slow,
            holds_back,
        }
    }
}
