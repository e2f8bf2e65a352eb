//! Replies: one for each command, in the order of the commands.

use super::command::Toggle;
use super::trace::Told;
use super::words::Refusal;
use super::{Bus, NAMING, quoted};
use crate::client::ClientEvent;
use crate::frame::{BusClient, BusRequest, Disconnect, Reject, Request, Syntax};

/// A command whose reply has not been given.
#[derive(Debug)]
pub(super) enum Pending {
    /// The reply is known; those before it are not.
    Reply(Vec<u8>),
    /// What is on or off from this place in the replies on. Commands after it wait for that.
    Toggle(Toggle, bool),
    /// The syntax of messages and deliveries from this place on. Commands after it wait for that.
    Syntax(Syntax),
    /// The trace has this name from this place on, or there is none; `at` is the column of the
    /// name. Commands after it wait for that.
    Trace { name: Option<String>, at: usize },
    /// The message of this number is to be accepted.
    Message(u64),
    /// The daemon has to answer the request of this token, whose tag and domain stand in these
    /// columns.
    Request { token: u64, at: (usize, usize) },
    /// The same for a name, which the client has if the answer is `ok`. Commands after it wait for
    /// that.
    Identify { token: u64, id: String, at: usize },
    /// The daemon is asked for all clients when it has answered what came before, so that the list
    /// shows what this client did, and the client itself. Commands after it wait for that.
    Clients,
}

impl Bus {
    /// Gives the replies that are known, up to the first that is not.
    pub(super) fn answer(&mut self) {
        while let Some(pending) = self.pending.front() {
            let line = match pending {
                Pending::Reply(line) => line.clone(),
                Pending::Toggle(toggle, on) => {
                    self.settings.set(*toggle, *on);
                    b"ok\n".to_vec()
                }
                Pending::Syntax(syntax) => {
                    self.settings.syntax = Some(*syntax);
                    b"ok\n".to_vec()
                }
                Pending::Trace { name, at } => {
                    let (name, at) = (name.clone(), *at);
                    self.trace(name.as_deref(), at)
                }
                Pending::Message(number) => match self.rejected.remove(number) {
                    Some(line) => line,
                    None if *number <= self.accepted => b"ok\n".to_vec(),
                    None => return,
                },
                Pending::Request { token, .. } | Pending::Identify { token, .. } => {
                    match self.replies.remove(token) {
                        Some(line) => line,
                        None => return,
                    }
                }
                Pending::Clients => {
                    if !self.named {
                        return;
                    }
                    let at = (0, 0);
                    let asked =
                        self.ask(BusRequest::Clients, |token| Pending::Request { token, at });
                    self.pending[0] = asked;
                    continue;
                }
            };
            self.say_reply(&line);
            match self.pending.pop_front() {
                Some(Pending::Trace { name: None, .. }) => self.end_trace(),
                Some(Pending::Identify { id, .. }) if line == b"ok\n" => self.settings.id = id,
                _ => {}
            }
        }
    }

    /// The connection ends: gives the replies that are known, and says of the others that they are
    /// not.
    pub(super) fn flush_pending(&mut self) {
        self.answer();
        while let Some(pending) = self.pending.pop_front() {
            let line = match pending {
                Pending::Reply(line) => line,
                Pending::Toggle(..) | Pending::Syntax(_) => b"ok\n".to_vec(),
                Pending::Message(_)
                | Pending::Request { .. }
                | Pending::Identify { .. }
                | Pending::Trace { .. }
                | Pending::Clients => {
                    let text = "the connection ends, and it is not known whether this was done";
                    Refusal::new("other", 0, text).line()
                }
            };
            self.say_reply(&line);
            self.answer();
        }
    }

    /// Says a reply.
    fn say_reply(&mut self, line: &[u8]) {
        let at = self.out.len();
        self.out.extend_from_slice(line);
        self.note_got(Told::Reply, at);
    }

    /// Notes what an event says of commands.
    pub(super) fn note(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Done { token, result } => {
                let line = match result {
                    Ok(()) => b"ok\n".to_vec(),
                    Err((code, text)) => self.refusal(token, code, text).line(),
                };
                self.keep_reply(token, line);
            }
            ClientEvent::Who { token, ids } => {
                let words = ids.iter().map(|id| quoted(id));
                let line = std::iter::once("ok".to_owned()).chain(words);
                let line: Vec<String> = line.collect();
                self.keep_reply(token, format!("{}\n", line.join(" ")).into_bytes());
            }
            ClientEvent::BusClients { token, clients } => {
                self.keep_reply(token, list(&clients).into_bytes());
            }
            ClientEvent::Rejected {
                request,
                code,
                text,
            } => match request {
                Request::Publish(number) => {
                    let line = Refusal::new(word(code, "domain"), 0, text).line();
                    self.rejected.insert(number, line);
                }
                Request::Join(group) | Request::Leave(group) => {
                    let text = super::one_line(&text);
                    self.say(&["left", &quoted(&group), word(code, "domain"), &text]);
                }
            },
            _ => {}
        }
    }

    /// Keeps the reply to the request of `token`, until those before it are given.
    fn keep_reply(&mut self, token: u64, line: Vec<u8>) {
        if token == NAMING {
            self.named = true;
        } else {
            self.replies.insert(token, line);
        }
    }

    /// The refusal of the request of `token`, with the column of what it is about.
    fn refusal(&self, token: u64, code: Reject, text: String) -> Refusal {
        let found = self.pending.iter().find_map(|pending| match pending {
            Pending::Request { token: of, at } if *of == token => Some((*at, "domain")),
            Pending::Identify { token: of, at, .. } if *of == token => Some(((*at, *at), "name")),
            _ => None,
        });
        let ((tag, domain), name) = found.unwrap_or(((0, 0), "domain"));
        let column = match code {
            Reject::Pattern | Reject::NotAccepted => tag,
            _ => domain,
        };
        Refusal::new(word(code, name), column, text)
    }
}

/// The word for a code; for a bad name it is `name`, which says what the name is for.
fn word(code: Reject, name: &'static str) -> &'static str {
    match code {
        Reject::Name => name,
        Reject::TooLarge => "too-long",
        Reject::Unsupported => "unsupported",
        Reject::TooManyGroups => "too-many",
        Reject::Stopping => "stopping",
        Reject::Minority => "minority",
        Reject::Forbidden => "forbidden",
        Reject::Pattern => "pattern",
        Reject::NotAccepted => "not-accepted",
        Reject::Taken => "taken",
        Reject::NotHeld => "not-held",
        Reject::NotMember => "not-member",
        Reject::TooManyRoles | Reject::TooManyGuests => "too-many",
        Reject::Other => "other",
    }
}

/// The word for the end of a connection.
pub(super) fn end_word(code: Disconnect) -> &'static str {
    match code {
        Disconnect::Bye => "bye",
        Disconnect::Protocol => "protocol",
        Disconnect::TooSlow => "too-slow",
        Disconnect::Stopping => "stopping",
        Disconnect::Overload => "overload",
        Disconnect::Other => "other",
    }
}

/// The reply to `clients`.
fn list(clients: &[BusClient]) -> String {
    let mut text = format!("ok {}\n", clients.len());
    for client in clients {
        let groups = client.groups.iter().map(|group| quoted(group));
        let words = [quoted(&client.name), quoted(&client.id)].into_iter();
        for word in words.chain(groups) {
            text.push(' ');
            text.push_str(&word);
        }
        text.push('\n');
    }
    text
}
