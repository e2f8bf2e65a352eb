//! The groups of one program: its member, an engine on top of it, and a connection between engine
//! and program, whose bytes move in memory.

use std::io::IoSlice;
use std::time::Duration;

use groupcast_core::{Event, Time};
use groupcast_member::{Member, Service};
use groupcast_net::random_u64;
use groupcast_session::client::{Ask, Asked, ClientEvent, Connection};
use groupcast_session::frame::{ClientKind, FRAME_MAX, MESSAGE_MAX};
use groupcast_session::groups::{Carrier, Transport};
use groupcast_session::guests::Role;
use groupcast_session::{ClientId, Engine, EngineConfig};

use crate::error::{GroupsError, OpenError};

/// How many bytes of events may wait in the connection; the engine keeps the others.
const WINDOW: u64 = 4 << 20;
/// The longest payload: with the engine's envelope it must fit into a message of the member.
const PAYLOAD_MAX: usize = MESSAGE_MAX - (FRAME_MAX - MESSAGE_MAX);

/// The groups of this program. See the [crate's example](crate).
///
/// It belongs to one thread, and works only in calls of [`next_event`](Self::next_event): messages
/// leave in them. The others take a program for crashed that does not call it for longer than they
/// wait for a sign of life, as [`Member`] says. A dropped value falls silent in the same way, so
/// call [`close`](Self::close).
pub struct Groups {
    member: Member,
    engine: Engine,
    client: ClientId,
    connection: Connection,
}

impl Groups {
    /// Opens groups on `member`, which has just joined: none of its events has been taken.
    ///
    /// At first the member is alone, so this program is the only member of its groups. Others come
    /// later, as views of a merge.
    ///
    /// # Errors
    /// If the member's name is not allowed, or the operating system fails; nothing is left open
    /// then.
    pub fn open(mut member: Member) -> Result<Self, OpenError> {
        let name = member.name().to_owned();
        let config = EngineConfig {
            clients_max: 1,
            message_max: PAYLOAD_MAX,
            order: member.order().to_owned(),
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, member.id(), &name)?;
        let mut connection = Connection::new(Some(name), ClientKind::Application, WINDOW);
        connection.set_guest(random_u64()?);
        let now = member.endpoint().now();
        let client = engine.connected(now, Transport::Unix);
        let mut groups = Self {
            client: client.ok_or_else(|| OpenError::Refused("it has no room".into()))?,
            member,
            engine,
            connection,
        };
        groups.exchange();
        match groups.connection.refusal() {
            Some((_, text)) => Err(OpenError::Refused(text.to_owned())),
            None => Ok(groups),
        }
    }

    /// This program's name in groups: `NAME@NAME` of the member's name. A message to it goes to
    /// this program alone.
    pub fn private_name(&self) -> &str {
        let welcome = self.connection.welcome();
        welcome.map_or("", |welcome| &welcome.private_name)
    }

    /// Becomes a member of `group`: its first event is a view that includes this program.
    ///
    /// # Errors
    /// [`GroupsError::Request`] if the group's name is not allowed; [`GroupsError::Ended`] after
    /// the last event. Nothing was sent.
    pub fn join(&mut self, group: &str) -> Result<(), GroupsError> {
        self.connection.join(group, false)?;
        self.exchange();
        Ok(())
    }

    /// Leaves `group`: its last event is a view without this program. This program's roles in it
    /// pass on.
    ///
    /// # Errors
    /// [`GroupsError::Request`] if the group's name is not allowed; [`GroupsError::Ended`] after
    /// the last event. Nothing was sent.
    pub fn leave(&mut self, group: &str) -> Result<(), GroupsError> {
        self.connection.leave(group)?;
        self.exchange();
        Ok(())
    }

    /// Publishes a message to groups or private names; this program need not be in them. Returns
    /// the number of the message: 1, 2, … [`Accepted`](ClientEvent::Accepted) tells up to which
    /// number messages are ordered.
    ///
    /// # Errors
    /// [`GroupsError::Full`] if half a megabyte waits to be sent; nothing was sent.
    pub fn publish(
        &mut self,
        groups: &[&str],
        service: Service,
        payload: &[u8],
    ) -> Result<u64, GroupsError> {
        let number = self.connection.publish(groups, service, payload)?;
        self.exchange();
        Ok(number)
    }

    /// Asks the members of `group` that answer requests, or the one that has a handler; this
    /// program need not be in the group. Returns the number of the request:
    /// [`Taken`](ClientEvent::Taken), [`Answer`](ClientEvent::Answer) and, once,
    /// [`Ended`](ClientEvent::Ended) follow with it.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn ask(&mut self, group: &str, ask: Ask, payload: &[u8]) -> Result<u64, GroupsError> {
        let number = self.connection.ask(group, ask, payload)?;
        self.exchange();
        Ok(number)
    }

    /// Answers a request that came as [`Asked`](ClientEvent::Asked). Only the first answer counts.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn answer(&mut self, asked: &Asked, payload: &[u8]) -> Result<(), GroupsError> {
        self.connection.answer(asked.place.seq, payload)?;
        self.exchange();
        Ok(())
    }

    /// Claims a role in `group`, which this program must be in: to answer requests, a handler or a
    /// lock. With `may_wait` it waits while another program has it. Returns the number of the
    /// claim: [`Role`](ClientEvent::Role) events with it follow, now and when the role comes or
    /// goes.
    ///
    /// # Errors
    /// [`GroupsError::Request`] if the group's name is not allowed; [`GroupsError::Ended`] after
    /// the last event. Nothing was sent.
    pub fn claim(&mut self, group: &str, role: Role, may_wait: bool) -> Result<u64, GroupsError> {
        let token = self.connection.claim(group, role, may_wait)?;
        self.exchange();
        Ok(token)
    }

    /// Gives a role back, or stops waiting for it. Returns a number: a [`Role`](ClientEvent::Role)
    /// event with it follows. To give back a role that another program has is refused, and the
    /// event names the holder.
    ///
    /// # Errors
    /// [`GroupsError::Request`] if the group's name is not allowed; [`GroupsError::Ended`] after
    /// the last event. Nothing was sent.
    pub fn release(&mut self, group: &str, role: Role) -> Result<u64, GroupsError> {
        let token = self.connection.release(group, role)?;
        self.exchange();
        Ok(token)
    }

    /// The next event: waits for it for at most `patience`, during which the protocol goes on.
    /// `None` after `patience`, and before it when the [waker](Member::waker) was used or a
    /// time-out of the groups was due. [`Disconnected`](ClientEvent::Disconnected) is the last
    /// event.
    ///
    /// # Errors
    /// [`GroupsError::Ended`] after the last event, [`GroupsError::Io`] if a socket fails.
    pub fn next_event(&mut self, patience: Duration) -> Result<Option<ClientEvent>, GroupsError> {
        let until = self.now() + patience;
        loop {
            if let Some(event) = self.connection.poll_event() {
                // Gives credit for the events that were taken.
                if self.connection.is_urgent() {
                    self.exchange();
                }
                return Ok(Some(event));
            }
            if let Some((_, text)) = self.connection.end() {
                return Err(GroupsError::Ended(text.to_owned()));
            }
            if !self.turn(until)? {
                return Ok(self.connection.poll_event());
            }
        }
    }

    /// Leaves all groups, then the member's configuration, so that the others go on at once. Waits
    /// for `patience` at most. Events that come meanwhile are lost.
    ///
    /// # Errors
    /// [`GroupsError::TimedOut`] if the others did not answer, [`GroupsError::Io`].
    pub fn close(mut self, patience: Duration) -> Result<(), GroupsError> {
        let until = self.now() + patience;
        if self.connection.end().is_none() {
            self.connection.bye()?;
        }
        loop {
            self.connection.discard_events();
            self.exchange();
            if self.connection.end().is_some() {
                break;
            }
            if !self.turn(until)? && self.now() >= until {
                return Err(GroupsError::TimedOut(patience));
            }
        }
        self.member.leave();
        loop {
            let left = until - self.now();
            match self.member.next_event(left)? {
                Some(Event::Left) => return Ok(()),
                None if self.now() >= until => return Err(GroupsError::TimedOut(patience)),
                _ => {}
            }
        }
    }

    /// The member under the groups, for its [`waker`](Member::waker) and its
    /// [`endpoint`](Member::endpoint). Do not take its events: the groups would miss them.
    pub fn member(&mut self) -> &mut Member {
        &mut self.member
    }

    /// Waits for one event of the member, until `until` or a time-out of the groups; returns
    /// whether there was one.
    fn turn(&mut self, until: Time) -> Result<bool, GroupsError> {
        let due = self.engine.poll_timeout().map_or(until, |at| at.min(until));
        let wait = due - self.now();
        let event = self.member.next_event(wait)?;
        let (now, any) = (self.now(), event.is_some());
        if let Some(event) = event {
            self.take(now, event);
        }
        self.engine.handle_timeout(now);
        self.exchange();
        Ok(any)
    }

    fn take(&mut self, now: Time, event: Event) {
        if let Event::NameInUse { .. } = event {
            let text = "another member has this name: choose another";
            return self.engine.stop(now, text);
        }
        self.engine.handle_event(now, Carrier::Order, event);
    }

    /// Moves bytes between the engine and this program's connection, and messages to the member,
    /// until none are left to move.
    fn exchange(&mut self) {
        let now = self.now();
        loop {
            let mut moved = self.take_requests(now);
            let member = &mut self.member;
            self.engine.pump(now, |_, service, payload| {
                let submitted = member.submit(service, payload);
                moved |= submitted.is_ok();
                submitted
            });
            moved |= self.give_output(now);
            while self.engine.poll_close().is_some() {
                self.connection.handle_closed("the groups are closed");
            }
            while let Some((_, observation)) = self.engine.poll_observation() {
                self.member.endpoint().node_mut().observe(&observation);
            }
            while self.engine.poll_fact().is_some() {}
            if !moved {
                return;
            }
        }
    }

    /// Moves this program's requests to the engine; returns whether any moved.
    fn take_requests(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(bytes) = self.connection.poll_transmit()
            && let Some(space) = self.engine.space(self.client)
        {
            let len = bytes.len().min(space.len());
            space[..len].copy_from_slice(&bytes[..len]);
            self.connection.handle_transmitted(len);
            self.engine.received_all(now, self.client, len);
            moved = true;
        }
        moved
    }

    /// Moves the engine's output to this program's connection; returns whether any moved.
    fn give_output(&mut self, now: Time) -> bool {
        let mut moved = false;
        // There is only one client.
        while self.engine.poll_output().is_some() {}
        loop {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = self.engine.slices(self.client, &mut slices);
            let mut len = 0;
            for slice in &slices[..count] {
                let taken = self.connection.handle_bytes(slice);
                taken.expect("the engine and the connection are of one version");
                len += slice.len();
            }
            if len == 0 {
                return moved;
            }
            self.engine.consumed(now, self.client, len);
            moved = true;
        }
    }

    fn now(&mut self) -> Time {
        self.member.endpoint().now()
    }
}
