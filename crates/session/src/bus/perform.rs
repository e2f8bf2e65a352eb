//! Carrying out what the program has said.

use super::answer::Pending;
use super::command::{Command, MessageHead};
use super::input::{Body, Item};
use super::settings::decide;
use super::words::Refusal;
use super::{Bus, help, quoted};
use crate::client::RequestError;
use crate::frame::{BusRequest, Label};

impl Bus {
    pub(super) fn carry_out(&mut self, item: Item) {
        match item {
            Item::Command(command) => {
                self.note_sent();
                self.input.done();
                self.command(command);
            }
            Item::Refused(refusal) => {
                self.note_sent();
                self.input.done();
                self.pending.push_back(Pending::Reply(refusal.line()));
            }
            Item::Message(head, body) => {
                if !self.connection.has_credit() {
                    return self.input.put_back(head, body);
                }
                self.note_sent();
                let reply = self.publish(&head, &body);
                self.input.done();
                self.pending.push_back(match reply {
                    Ok(number) => Pending::Message(number),
                    Err(refusal) => Pending::Reply(refusal.line()),
                });
            }
        }
    }

    fn publish(&mut self, head: &MessageHead, body: &Body) -> Result<u64, Refusal> {
        let Self {
            connection,
            input,
            settings,
            ..
        } = self;
        let payload = input.payload(body);
        let syntax = decide(settings, head, body, payload, input)?;
        let label = Label {
            tag: &head.tag,
            syntax,
        };
        let domains: Vec<&str> = head.domains.iter().map(String::as_str).collect();
        let service = settings.service;
        let published = match label == Label::NONE {
            true => connection.publish(&domains, service, payload),
            false => connection.publish_labelled(&domains, service, label, payload),
        };
        published.map_err(|error| {
            let code = match error {
                RequestError::TooLarge { .. } => "too-long",
                RequestError::Name(_) => "domain",
                RequestError::Destinations { .. } => "too-many",
                RequestError::Service { .. } => "unsupported",
                _ => "other",
            };
            Refusal::new(code, 0, error.to_string())
        })
    }

    fn command(&mut self, command: Command) {
        let pending = match command {
            Command::Accept { request, at }
            | Command::Reject { request, at }
            | Command::Ping { request, at } => {
                self.ask(request, |token| Pending::Request { token, at })
            }
            Command::Id { id, at } => {
                let request = BusRequest::Identify { id: id.clone() };
                self.ask(request, |token| Pending::Identify { token, id, at })
            }
            Command::Clients => Pending::Clients,
            Command::Toggle(toggle, on) => Pending::Toggle(toggle, on),
            Command::Service(service) => {
                self.settings.service = service;
                Pending::Reply(b"ok\n".to_vec())
            }
            Command::Syntax(syntax) => Pending::Syntax(syntax),
            Command::Trace { name, at } => Pending::Trace { name, at },
            Command::Info => Pending::Reply(self.info()),
            Command::Help(about) => Pending::Reply(help::reply(about)),
            Command::Quit => {
                self.input.end();
                self.input.clear();
                Pending::Reply(b"ok\n".to_vec())
            }
        };
        self.pending.push_back(pending);
        self.answer();
    }

    /// Asks the daemon; returns what `waiting` makes of the request's token, or the refusal.
    pub(super) fn ask(
        &mut self,
        request: BusRequest,
        waiting: impl FnOnce(u64) -> Pending,
    ) -> Pending {
        self.token += 1;
        let token = self.token;
        match self.connection.ask_bus(token, request) {
            Ok(()) => waiting(token),
            Err(error) => Pending::Reply(Refusal::new("other", 0, error.to_string()).line()),
        }
    }

    fn info(&self) -> Vec<u8> {
        let welcome = self.connection.welcome();
        let name = welcome
            .map(|it| it.private_name.clone())
            .unwrap_or_default();
        let daemon = name.split_once('@').map_or("", |(_, daemon)| daemon);
        let switch = |on| if on { "on" } else { "off" };
        let settings = &self.settings;
        let line = format!(
            "ok name={} daemon={} id={} service={} syntax={} loop-back={} views={} from={} \
             message-max={}\n",
            quoted(&name),
            quoted(daemon),
            quoted(&settings.id),
            settings.service,
            settings.own_syntax().name(),
            switch(settings.loop_back),
            switch(settings.views),
            switch(settings.from),
            welcome.map_or(0, |it| it.message_max),
        );
        line.into_bytes()
    }
}
