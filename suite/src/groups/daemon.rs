//! A daemon without sockets: a member of the order, the engine of its groups, and pipes to its
//! clients.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use groupcast_core::trace::{Observation, Transition, digest};
use groupcast_core::{
    ConfigurationKind, Event, Instrumented, MemberId, MessageId, Ordered, Protocol, Service,
    SocketClass, SubmitError, Time, Transmit, TransmitBuf,
};
use groupcast_session::groups::{Carrier, Fact, Question, Transport};
use groupcast_session::guests::Planted;
use groupcast_session::{ClientId, Engine, EngineConfig};

use super::asking;
use super::client::Client;
use super::ledger::Ledger;
use super::{GROUPS, acts};

/// A process of the simulator: a member of the ring or of RMP with the clients of its host.
pub struct Daemon {
    ring: Box<dyn Instrumented>,
    engine: Engine,
    local: MemberId,
    pub(super) host: usize,
    ledger: Arc<Mutex<Ledger>>,
    /// For the simulator, in the order of the history.
    out: VecDeque<Out>,
    /// Clients whose pipe had no room.
    blocked: BTreeSet<ClientId>,
    /// Something happened beside the ring: bytes may have to move.
    active: bool,
    /// An exchange of states was interrupted: what came of it later may make no sense.
    interrupted: bool,
}

enum Out {
    Event(Event),
    Observation(Observation),
}

/// Bytes that a client writes at once: frames come in pieces.
const CHUNK: usize = 700;

impl Daemon {
    /// The daemon of `local`, whose witness connects at once, and the clients of its host that were
    /// connected to the one before.
    pub(super) fn new(
        ring: Box<dyn Instrumented>,
        (limits, plant): (&EngineConfig, Option<Planted>),
        local: MemberId,
        now: Time,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Self {
        // The simulator numbers its hosts so.
        let host = local.node.0 as usize - 1;
        let engine = Engine::new(limits.clone(), local, &format!("h{host}"));
        let mut engine = engine.expect("the limits are right");
        engine.plant(plant);
        let mut daemon = Self {
            ring,
            engine,
            local,
            host,
            ledger,
            out: VecDeque::new(),
            blocked: BTreeSet::new(),
            active: true,
            interrupted: false,
        };
        daemon.take_clients(now);
        daemon
    }

    fn take_clients(&mut self, now: Time) {
        let ledger = Arc::clone(&self.ledger);
        let mut ledger = lock(&ledger);
        // The simulator drops the process before this one only when this one is there.
        let lives = ledger.of_host(self.host).filter_map(|client| client.life());
        let before: BTreeSet<MemberId> = lives.map(|life| life.daemon).collect();
        for daemon in before {
            ledger.daemon_ended(self.host, daemon);
        }
        let witness = format!("witness{}", ledger.lives);
        ledger.clients.push(Client::new(witness, self.host, true));
        for index in 0..ledger.clients.len() {
            let client = &ledger.clients[index];
            let ended = client.lives.last().and_then(|life| life.end.as_ref());
            let comes_back = !client.witness && ended.is_some() && !self.parted(client);
            let new = client.witness && client.lives.is_empty();
            if client.host == self.host && (new || comes_back) {
                self.connect(now, &mut ledger, index);
            }
        }
        drop(ledger);
        self.settle(now);
    }

    /// Whether a client wanted its last connection to end.
    fn parted(&self, client: &Client) -> bool {
        let last = client.lives.last();
        last.is_some_and(|life| life.said_bye || life.vanished)
    }

    /// A connection of the client with this index in the ledger.
    pub(super) fn connect(&mut self, now: Time, ledger: &mut Ledger, index: usize) {
        if let Some(id) = self.engine.connected(now, Transport::Unix) {
            ledger.lives += 1;
            let number = ledger.lives;
            ledger.clients[index].connected(self.local, id, number);
        }
    }

    /// A client closes its connection without a word.
    pub(super) fn vanish(&mut self, now: Time, client: &mut Client) {
        if let Some(id) = client.at.take() {
            self.engine.closed(now, id);
            self.blocked.remove(&id);
        }
    }

    /// Something that a client does; then everything goes on.
    pub(super) fn act(&mut self, now: Time, act: acts::Act) {
        let ledger = Arc::clone(&self.ledger);
        acts::carry_out(self, now, &mut lock(&ledger), act);
        self.active = true;
        self.settle(now);
    }

    /// Takes what the ring has to say to the engine, what the engine has to say to the ring, and
    /// moves the bytes of all clients, until nothing moves.
    fn settle(&mut self, now: Time) {
        loop {
            let mut moved = false;
            while let Some(event) = self.ring.poll_event() {
                self.take_event(now, event);
                moved = true;
                // Or a burst would expel clients that had no chance to read.
                while self.exchange(now) {}
            }
            if std::mem::take(&mut self.active) {
                while self.exchange(now) {}
            }
            moved |= self.pump(now);
            if !moved {
                return;
            }
        }
    }

    fn take_event(&mut self, now: Time, event: Event) {
        let ledger = Arc::clone(&self.ledger);
        let mut ledger = lock(&ledger);
        self.out.push_back(Out::Event(event.clone()));
        let mut is_own = false;
        match &event {
            Event::Configuration(it) if it.kind == ConfigurationKind::Regular => {
                ledger.configs.entry(self.local).or_default().push(it.id);
            }
            Event::Deliver(it) => is_own = !ledger.of_engines.contains(&it.id),
            _ => {}
        }
        if !is_own {
            self.engine.handle_event(now, Carrier::Order, event);
        }
        self.take_notes(&mut ledger);
    }

    /// Views go to the history at this place; facts are looked at.
    fn take_notes(&mut self, ledger: &mut Ledger) {
        while let Some((_, observation)) = self.engine.poll_observation() {
            self.out.push_back(Out::Observation(observation));
        }
        while let Some(fact) = self.engine.poll_fact() {
            match fact {
                Fact::Disconnected {
                    client, code, text, ..
                } => {
                    let (name, host) = (client.split('@').next().unwrap_or_default(), self.host);
                    let mut clients = ledger.of_host(host);
                    let client = clients.find(|it| it.at.is_some() && it.name == name);
                    if let Some(life) = client.and_then(Client::life) {
                        life.told = Some((code, text));
                    }
                }
                Fact::Interrupted { .. } => self.interrupted = true,
                Fact::Nonsense { from, error } if !self.interrupted => {
                    let wrong = format!("h{} finds nonsense of {from:?}: {error}", self.host);
                    ledger.violations.push(wrong);
                }
                _ => {}
            }
        }
    }

    /// Hands messages to the ring; whether there were any.
    fn pump(&mut self, now: Time) -> bool {
        let ledger = Arc::clone(&self.ledger);
        let mut ledger = lock(&ledger);
        let (ring, out, mut any) = (&mut self.ring, &mut self.out, false);
        self.engine.pump(now, |_, service, payload| {
            let digest = digest(&payload);
            let id = ring.submit(now, service, payload)?;
            any = true;
            ledger.of_engines.insert(id);
            out.push_back(Out::Observation(Observation::Submit {
                id,
                service,
                digest,
            }));
            Ok(id)
        });
        self.take_notes(&mut ledger);
        self.active |= any;
        any
    }

    /// Moves bytes between the engine and the clients of the host; whether any moved.
    fn exchange(&mut self, now: Time) -> bool {
        let ledger = Arc::clone(&self.ledger);
        let mut ledger = lock(&ledger);
        let mut moved = false;
        for client in ledger.of_host(self.host) {
            moved |= self.take_input(now, client);
        }
        let mut ready = std::mem::take(&mut self.blocked);
        while let Some((id, question)) = self.engine.poll_question() {
            let json = match question {
                Question::Status => "{}",
                Question::Groups => "[]",
                Question::Rekey(_) => "{}",
            };
            self.engine
                .answer(now, id, question, Bytes::from_static(json.as_bytes()));
        }
        while let Some(id) = self.engine.poll_output() {
            ready.insert(id);
        }
        for id in ready {
            if let Some(client) = ledger.client(self.host, id) {
                moved |= self.give_output(now, client, id);
            }
        }
        let configs = ledger.configs_of(self.local);
        let mut wrong = Vec::new();
        for client in ledger.of_host(self.host) {
            match client.read(configs) {
                Ok(any) => moved |= any | asking::answer(client),
                Err(error) => wrong.push(error),
            }
        }
        ledger.violations.append(&mut wrong);
        while let Some(id) = self.engine.poll_close() {
            moved = true;
            self.blocked.remove(&id);
            if let Some(client) = ledger.client(self.host, id) {
                client.close();
            }
        }
        self.take_notes(&mut ledger);
        moved
    }

    /// What a client wants to say goes to the engine, as far as it takes it.
    fn take_input(&mut self, now: Time, client: &mut Client) -> bool {
        let Some(id) = client.at else {
            return false;
        };
        let mut moved = false;
        let connection = client.connection();
        while let Some(bytes) = connection.poll_transmit()
            && let Some(space) = self.engine.space(id)
        {
            let len = bytes.len().min(space.len()).min(CHUNK);
            space[..len].copy_from_slice(&bytes[..len]);
            connection.handle_transmitted(len);
            self.engine.received_all(now, id, len);
            moved = true;
        }
        if client.witness && client.lives.len() == 1 && !client.joined && client.is_welcome() {
            client.joined = true;
            for group in GROUPS {
                let asked = client.connection().join(group, false);
                asked.expect("it is welcome, and the name is allowed");
            }
            moved = true;
        }
        moved
    }

    /// What the engine has for a client goes into its pipe, as far as there is room.
    fn give_output(&mut self, now: Time, client: &mut Client, id: ClientId) -> bool {
        let mut moved = false;
        loop {
            let room = client.room();
            let mut slices = [IoSlice::new(&[]); 8];
            let count = self.engine.slices(id, &mut slices);
            let mut taken = Vec::new();
            for slice in &slices[..count] {
                let len = slice.len().min(room - taken.len());
                taken.extend_from_slice(&slice[..len]);
            }
            let waits = slices[..count].iter().any(|slice| !slice.is_empty());
            if taken.is_empty() {
                if waits {
                    self.blocked.insert(id);
                }
                return moved;
            }
            client.written(&taken);
            self.engine.consumed(now, id, taken.len());
            moved = true;
        }
    }

    /// Whether the engine is at peace: all states are exchanged, and nobody waits for anything.
    pub(super) fn is_quiet(&self) -> bool {
        let status = self.engine.status();
        let clients = status.clients.iter();
        let waits = clients.filter(|it| it.unaccepted > 0 || it.backlog > 0 || it.input > 0);
        status.held == 0 && waits.count() == 0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        lock(&self.ledger).daemon_ended(self.host, self.local);
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon")
            .field("local", &self.local)
            .field("engine", &self.engine.status())
            .finish_non_exhaustive()
    }
}

/// The ledger, even after a panic elsewhere, which is reported as such.
pub(super) fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Protocol for Daemon {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, body: Bytes) {
        self.ring.handle_datagram(now, from, body);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.ring.handle_timeout(now);
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
            self.active = true;
        }
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        self.ring.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        match self.out.pop_front()? {
            Out::Event(event) => Some(event),
            observation @ Out::Observation(_) => {
                self.out.push_front(observation);
                None
            }
        }
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        self.ring.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let both = [self.ring.poll_timeout(), self.engine.poll_timeout()];
        both.into_iter().flatten().min()
    }

    fn read_first(&self) -> SocketClass {
        self.ring.read_first()
    }
}

impl Ordered for Daemon {
    fn services(&self) -> &'static [Service] {
        self.ring.services()
    }

    /// A message of the simulator's own, beside those of clients.
    fn submit(
        &mut self,
        now: Time,
        service: Service,
        payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        self.ring.submit(now, service, payload)
    }

    fn leave(&mut self, now: Time) {
        self.ring.leave(now);
        self.settle(now);
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Daemon {
    fn poll_observation(&mut self) -> Option<Observation> {
        match self.out.pop_front()? {
            Out::Observation(observation) => Some(observation),
            event @ Out::Event(_) => {
                self.out.push_front(event);
                None
            }
        }
    }
}
