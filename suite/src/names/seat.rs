//! A process of the simulator: a member of one order of a daemon, whose engine and members of other
//! orders are in processes beside it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::rc::Rc;

use bytes::{Buf as _, Bytes};
use groupcast_core::trace::{Observation, Transition, digest};
use groupcast_core::{
    Event, Instrumented, MemberId, MessageId, NodeId, Ordered, Protocol, Service, SubmitError,
    Time, Transmit, TransmitBuf,
};
use groupcast_session::client::Connection;
use groupcast_session::groups::{Carrier, Question};
use groupcast_session::{ClientId, Engine};

use super::client::Client;

/// Bytes of a label, as at a daemon. They count for the length of a body.
pub(super) const LABEL: usize = 8;
/// Bytes that go between a client and its daemon at once.
const CHUNK: usize = 4_096;

/// The first bytes of each body of an order.
pub(super) type Label = [u8; LABEL];

/// The label of the order called `name`.
pub(super) fn label(name: &str) -> Label {
    NodeId::from_name(name).0.to_be_bytes()
}

/// A process: a seat of a daemon in one order.
pub struct Seat {
    local: MemberId,
    state: State,
}

enum State {
    /// It has begun, and belongs to no daemon yet.
    Alone(Box<dyn Instrumented>),
    /// It belongs to this daemon, as the seat with this number.
    Taken(Rc<RefCell<Daemon>>, usize),
}

/// A member of an order.
pub(super) struct Member {
    pub(super) protocol: Box<dyn Instrumented>,
    label: Label,
    /// The world's time when its clock began.
    born: Time,
    /// What happened, for its history.
    out: VecDeque<Out>,
    /// Whether its events are given to the engine.
    pub(super) for_engine: bool,
    /// Datagrams of other orders.
    foreign: u64,
}

enum Out {
    Event(Event),
    Observation(Observation),
}

/// A daemon: an engine, its members, and its clients.
pub(super) struct Daemon {
    /// Its member of the daemons' own order.
    pub(super) local: MemberId,
    pub(super) engine: Engine,
    /// By the number of their seats; 0 is that of the daemon's own order.
    pub(super) members: BTreeMap<usize, Member>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    /// Members that may have something to send.
    pub(super) dirty: BTreeSet<usize>,
    /// The world's time when it began.
    pub(super) born: Time,
}

impl Seat {
    /// A process that begins.
    pub(super) fn new(protocol: Box<dyn Instrumented>) -> Self {
        Self {
            local: protocol.local(),
            state: State::Alone(protocol),
        }
    }

    /// From now on it is the member of `daemon` at the seat `number`, whose datagrams begin with
    /// `label`.
    pub(super) fn take(
        &mut self,
        daemon: &Rc<RefCell<Daemon>>,
        number: usize,
        label: Label,
        born: Time,
    ) {
        let taken = State::Taken(Rc::clone(daemon), number);
        if let State::Alone(protocol) = std::mem::replace(&mut self.state, taken) {
            let member = Member {
                protocol,
                label,
                born,
                out: VecDeque::new(),
                for_engine: true,
                foreign: 0,
            };
            daemon.borrow_mut().members.insert(number, member);
        }
    }

    /// Does something with the member, then all that follows from it.
    fn input(&mut self, now: Time, input: impl FnOnce(&mut dyn Instrumented)) {
        match &mut self.state {
            State::Alone(protocol) => input(protocol.as_mut()),
            State::Taken(daemon, number) => {
                let mut daemon = daemon.borrow_mut();
                let Some(member) = daemon.members.get_mut(number) else {
                    return;
                };
                input(member.protocol.as_mut());
                let at = daemon.time_of(*number, now);
                daemon.settle(at);
            }
        }
    }

    fn look<T>(&self, look: impl FnOnce(&dyn Instrumented) -> T) -> Option<T> {
        match &self.state {
            State::Alone(protocol) => Some(look(protocol.as_ref())),
            State::Taken(daemon, number) => {
                let daemon = daemon.borrow();
                let member = daemon.members.get(number)?;
                Some(look(member.protocol.as_ref()))
            }
        }
    }

    /// Datagrams of other orders that came.
    pub fn foreign(&self) -> u64 {
        match &self.state {
            State::Alone(_) => 0,
            State::Taken(daemon, number) => {
                let daemon = daemon.borrow();
                daemon.members.get(number).map_or(0, |it| it.foreign)
            }
        }
    }
}

impl Daemon {
    /// The daemon's time when the clock of a member shows `now`.
    fn time_of(&self, number: usize, now: Time) -> Time {
        let born = self.members[&number].born;
        now + (born - self.born)
    }

    /// Does what follows, until nothing does.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            let mut moved = self.take_events(now);
            moved |= self.exchange(now);
            moved |= self.pump(now);
            if !moved {
                return;
            }
        }
    }

    fn take_events(&mut self, now: Time) -> bool {
        let mut any = false;
        let numbers: Vec<usize> = self.members.keys().copied().collect();
        for number in numbers {
            while let Some(member) = self.members.get_mut(&number)
                && let Some(event) = member.protocol.poll_event()
            {
                any = true;
                self.dirty.insert(number);
                member.out.push_back(Out::Event(event.clone()));
                if !member.for_engine {
                    continue;
                }
                let carrier = match number {
                    0 => Carrier::Order,
                    ring => Carrier::Ring(ring - 1),
                };
                self.engine.handle_event(now, carrier, event);
                self.take_notes();
                // Or a burst would expel clients that had no chance to read.
                while self.exchange(now) {}
            }
        }
        any
    }

    /// What the engine saw goes to the histories.
    fn take_notes(&mut self) {
        while let Some((carrier, observation)) = self.engine.poll_observation() {
            let number = match carrier {
                Carrier::Ring(ring) => ring + 1,
                _ => 0,
            };
            if let Some(member) = self.members.get_mut(&number) {
                member.out.push_back(Out::Observation(observation));
                self.dirty.insert(number);
            }
        }
        while self.engine.poll_fact().is_some() {}
    }

    fn pump(&mut self, now: Time) -> bool {
        let (members, dirty, born) = (&mut self.members, &mut self.dirty, self.born);
        let mut any = false;
        self.engine.pump(now, |carrier, service, payload| {
            let number = match carrier {
                Carrier::Ring(ring) => ring + 1,
                _ => 0,
            };
            let member = members.get_mut(&number).filter(|it| it.for_engine);
            let member = member.ok_or(SubmitError::Full { queued: 0 })?;
            let at = (born + (now - Time::ZERO)) - member.born;
            let digest = digest(&payload);
            let id = member.protocol.submit(Time::ZERO + at, service, payload)?;
            member.out.push_back(Out::Observation(Observation::Submit {
                id,
                service,
                digest,
            }));
            dirty.insert(number);
            any = true;
            Ok(id)
        });
        self.take_notes();
        any
    }

    /// Moves bytes between the engine and the clients; whether any moved.
    fn exchange(&mut self, now: Time) -> bool {
        let mut moved = false;
        let Self {
            engine, clients, ..
        } = self;
        for (id, client) in clients.iter_mut() {
            moved |= write(engine, now, *id, &mut client.connection);
        }
        while let Some((id, question)) = engine.poll_question() {
            let json: &'static [u8] = match question {
                Question::Groups => b"[]",
                _ => b"{}",
            };
            engine.answer(now, id, question, Bytes::from_static(json));
        }
        while let Some(id) = engine.poll_output() {
            let bytes = take(engine, now, id);
            if let Some(client) = clients.get_mut(&id) {
                moved |= !bytes.is_empty();
                client.read(&bytes);
            }
        }
        while let Some(id) = engine.poll_close() {
            moved = true;
            if let Some(client) = clients.get_mut(&id) {
                client.closed();
            }
        }
        self.take_notes();
        moved
    }
}

/// What a client has written goes to the engine, as far as it takes it.
fn write(engine: &mut Engine, now: Time, id: ClientId, connection: &mut Connection) -> bool {
    let mut moved = false;
    while let Some(bytes) = connection.poll_transmit()
        && let Some(space) = engine.space(id)
    {
        let len = bytes.len().min(space.len()).min(CHUNK);
        space[..len].copy_from_slice(&bytes[..len]);
        connection.handle_transmitted(len);
        engine.received_all(now, id, len);
        moved = true;
    }
    moved
}

/// What the engine has for a client.
fn take(engine: &mut Engine, now: Time, id: ClientId) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = engine.slices(id, &mut slices);
        let before = taken.len();
        for slice in &slices[..count] {
            taken.extend_from_slice(slice);
        }
        let len = taken.len() - before;
        if len == 0 {
            return taken;
        }
        engine.consumed(now, id, len);
    }
}

impl Protocol for Seat {
    type Event = Event;

    fn handle_datagram(&mut self, now: Time, from: MemberId, mut body: Bytes) {
        if let State::Taken(daemon, number) = &self.state {
            let mut daemon = daemon.borrow_mut();
            let Some(member) = daemon.members.get_mut(number) else {
                return;
            };
            if body.first_chunk::<LABEL>() != Some(&member.label) {
                member.foreign += 1;
                return;
            }
            body.advance(LABEL);
        } else {
            return;
        }
        self.input(now, |protocol| protocol.handle_datagram(now, from, body));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.input(now, |protocol| protocol.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut TransmitBuf) -> Option<Transmit> {
        let State::Taken(daemon, number) = &self.state else {
            // It has no label to say it under.
            return None;
        };
        let mut daemon = daemon.borrow_mut();
        let member = daemon.members.get_mut(number)?;
        buf.set_label(&member.label);
        let transmit = member.protocol.poll_transmit(now, buf);
        buf.set_label(&[]);
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        let State::Taken(daemon, number) = &self.state else {
            return None;
        };
        let mut daemon = daemon.borrow_mut();
        let out = &mut daemon.members.get_mut(number)?.out;
        match out.front()? {
            Out::Event(_) => {}
            Out::Observation(_) => return None,
        }
        match out.pop_front() {
            Some(Out::Event(event)) => Some(event),
            _ => None,
        }
    }

    fn poll_transition(&mut self) -> Option<Transition> {
        let State::Taken(daemon, number) = &self.state else {
            return None;
        };
        let mut daemon = daemon.borrow_mut();
        daemon.members.get_mut(number)?.protocol.poll_transition()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.look(|protocol| protocol.poll_timeout()).flatten()
    }

    fn read_first(&self) -> groupcast_core::SocketClass {
        let first = self.look(|protocol| protocol.read_first());
        first.unwrap_or(groupcast_core::SocketClass::Data)
    }
}

impl Ordered for Seat {
    fn services(&self) -> &'static [Service] {
        &Service::ALL
    }

    fn submit(
        &mut self,
        _now: Time,
        _service: Service,
        _payload: Bytes,
    ) -> Result<MessageId, SubmitError> {
        // What goes out is the engine's.
        Err(SubmitError::Leaving)
    }

    fn leave(&mut self, now: Time) {
        self.input(now, |protocol| protocol.leave(now));
    }

    fn local(&self) -> MemberId {
        self.local
    }
}

impl Instrumented for Seat {
    fn poll_observation(&mut self) -> Option<Observation> {
        let State::Taken(daemon, number) = &self.state else {
            return None;
        };
        let mut daemon = daemon.borrow_mut();
        let out = &mut daemon.members.get_mut(number)?.out;
        match out.front()? {
            Out::Observation(_) => {}
            Out::Event(_) => return None,
        }
        match out.pop_front() {
            Some(Out::Observation(observation)) => Some(observation),
            _ => None,
        }
    }
}
