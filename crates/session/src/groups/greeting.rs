//! The first frame of a client, its hello: the daemon welcomes it, refuses it, or lets it wait for
//! its name.

use std::sync::Arc;

use groupcast_core::Time;

use super::client::ClientPhase;
use super::{ClientId, Engine, Fact, Transport, Whence};
use crate::frame::{DaemonFrame, FEATURES, FRAME_MAX, Hello, Refusal, SPILL, VERSION, Welcome};
use crate::name::{check_client, private};

/// The least window that a client gets.
const WINDOW_MIN: u64 = 64 * 1024;

impl Engine {
    pub(super) fn handle_hello(&mut self, now: Time, id: ClientId, hello: Hello) {
        if hello.version_min > VERSION || hello.version_max < VERSION {
            let (min, max) = (hello.version_min, hello.version_max);
            let who = if min > VERSION { "daemon" } else { "client" };
            let text = format!(
                "the daemon {} speaks version {VERSION} of the client protocol, this client {min} to {max}: upgrade the {who}",
                self.host
            );
            return self.refuse(now, id, Refusal::Version, text);
        }
        if let Some(text) = self.lacks_token(id, &hello) {
            return self.refuse(now, id, Refusal::Token, text.into());
        }
        if self.lacks_place(id, hello.kind) {
            return self.refuse(now, id, Refusal::TooManyClients, self.full());
        }
        let Some(name) = &hello.name else {
            let name = self.invent_name(id);
            return self.welcome(id, &hello, name);
        };
        if let Err(error) = check_client(name) {
            return self.refuse(now, id, Refusal::Name, error.to_string());
        }
        let Some(holder) = self.clients.holder(name) else {
            let name = name.as_str().into();
            return self.welcome(id, &hello, name);
        };
        let leaving = self
            .clients
            .get(holder)
            .is_some_and(|holder| matches!(holder.phase, ClientPhase::Leaving));
        if !leaving {
            let text = format!(
                "another client of the daemon {} is called {name:?}: choose another name, or none to get one",
                self.host
            );
            return self.refuse(now, id, Refusal::NameInUse, text);
        }
        self.clients.await_name(id, hello);
        // An order that stands still carries out no leave.
        self.set_deadline(id, Some(now + self.config.hello_within));
    }

    /// Why the client may not connect, if its token is missing or wrong.
    fn lacks_token(&self, id: ClientId, hello: &Hello) -> Option<&'static str> {
        let wanted = self.tcp_token.as_ref()?;
        let over_tcp = self.clients.get(id)?.transport == Transport::Tcp;
        match &hello.token {
            _ if !over_tcp => None,
            Some(token) if token == wanted => None,
            Some(_) => Some("the token is another than this daemon's: use a copy of its file"),
            None => Some(
                "this daemon asks its TCP clients for a token: give the one in the file of its client_token",
            ),
        }
    }

    fn welcome(&mut self, id: ClientId, hello: &Hello, name: Arc<str>) {
        // When many clients share the memory for input, later ones get a smaller window, so that
        // windows never take more than half of it.
        let features = match self.spills {
            true => hello.features & FEATURES,
            false => hello.features & FEATURES & !SPILL,
        };
        let share = (self.config.input_max as u64 / 2).saturating_sub(self.clients.windows()) / 4;
        let window = share.max(WINDOW_MIN).min(self.config.publish_window as u64);
        let private: Arc<str> = private(&name, &self.host).into();
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Some(link) = &mut client.link else {
            return;
        };
        link.publish_window = window;
        link.decoder.set_frame_max(FRAME_MAX);
        link.output.set_window(hello.delivery_window);
        client.kind = hello.kind;
        client.features = features;
        client.name = name.clone();
        client.private = private.clone();
        client.phase = ClientPhase::Open;
        let (transport, whence) = (client.transport, client.whence());
        self.clients.welcomed(id, window);
        self.clients.take_name(name, id);
        self.routes_changed();
        self.journal.counters.clients_accepted += 1;
        self.set_deadline(id, None);
        let welcome = Welcome {
            version: VERSION,
            features,
            publish_window: window,
            message_max: self.config.message_max as u64,
            private_name: private.to_string(),
            order: self.config.order.clone(),
            rings: self.config.rings.clone(),
        };
        self.send(id, &DaemonFrame::Welcome(welcome));
        self.journal.fact(Fact::Connected {
            client: private,
            transport,
            whence,
        });
    }

    /// `name` is free: greets the clients that waited for it. The first gets it, and the others are
    /// told.
    pub(super) fn unpark(&mut self, now: Time, name: &Arc<str>) {
        for (id, hello) in self.clients.take_awaiting(name) {
            self.handle_hello(now, id, hello);
        }
    }

    fn invent_name(&self, id: ClientId) -> Arc<str> {
        let taken = |name: &str| self.clients.holder(name).is_some();
        let mut name = format!("c{}", id.0);
        while taken(&name) {
            name.push('\'');
        }
        name.into()
    }

    pub(super) fn refuse_stopping(&mut self, now: Time, id: ClientId) {
        let text = format!("the daemon {} is stopping: connect to another", self.host);
        self.refuse(now, id, Refusal::Stopping, text);
    }

    pub(super) fn refuse(&mut self, now: Time, id: ClientId, code: Refusal, text: String) {
        self.journal.counters.clients_refused += 1;
        self.clients.await_no_name(id);
        let mut whence = Whence::default();
        if let Some(client) = self.clients.get_mut(id) {
            client.phase = ClientPhase::Gone;
            whence = client.whence();
        }
        self.journal.fact(Fact::Refused {
            whence,
            code,
            text: text.clone(),
        });
        self.farewell(now, id, &DaemonFrame::Refused { code, text });
    }
}
