//! A client of a simulated daemon with rings, and what it has seen.

use std::ops::Deref;

use groupcast_core::MemberId;
use groupcast_core::id::fnv1a;
use groupcast_session::client::Connection;
use groupcast_session::frame::ClientKind;

use super::seen::{Act, Seen};

/// A client and its connection.
pub struct Client {
    pub(super) seen: Seen,
    pub(super) connection: Connection,
}

impl Deref for Client {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        &self.seen
    }
}

impl Client {
    pub(super) fn new(name: &str, daemon: MemberId) -> Self {
        let mut connection =
            Connection::new(Some(name.to_owned()), ClientKind::Application, 1 << 40);
        connection.set_guest(fnv1a(name.as_bytes()));
        Self {
            seen: Seen::new(name, daemon),
            connection,
        }
    }

    /// Its connection, to ask for something.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Whether it can ask for something.
    pub fn is_open(&self) -> bool {
        self.seen.end.is_none() && self.connection.welcome().is_some()
    }

    /// Does something about `group`; `text` is what it says there.
    pub(super) fn act(&mut self, act: Act, group: &str, text: &str) {
        if !self.is_open() {
            return;
        }
        let connection = &mut self.connection;
        // What is refused at once is no act.
        match act {
            Act::JoinOnRing => drop(connection.join_on_ring(group, false)),
            Act::Join => drop(connection.join(group, false)),
            Act::Leave => drop(connection.leave(group)),
            Act::Claim(role, may_wait) => {
                drop(connection.join(group, false));
                drop(connection.claim(group, role, may_wait));
            }
            Act::Release(role) => {
                drop(connection.release(group, role));
                self.seen.asking.releases(group, role);
            }
            Act::Ask(ask) => {
                if let Ok(number) = connection.ask(group, ask, text.as_bytes()) {
                    self.seen.asking.asks(number, ask);
                }
            }
            Act::Publish(service) => {
                drop(connection.publish(&[group], service, text.as_bytes()));
            }
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        if let Err(error) = self.connection.handle_bytes(bytes) {
            self.seen.end = Some(format!("it does not understand its daemon: {error}"));
        }
        self.take_events();
    }

    pub(super) fn closed(&mut self) {
        self.connection.handle_closed("the connection was closed");
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.seen.see(event);
        }
        for asked in self.seen.asking.answerable() {
            // A connection that has ended answers nothing.
            drop(self.connection.answer(asked.place.seq, &asked.payload));
        }
    }
}
