//! A client of a simulated daemon with rings, and what it has seen.

use std::collections::BTreeMap;

use groupcast_core::id::fnv1a;
use groupcast_session::View;
use groupcast_session::client::{ClientEvent, Connection};
use groupcast_session::frame::{ClientKind, Request};
use groupcast_session::guests::{Ending, Role, RoleState};

/// A client and its connection.
pub struct Client {
    /// Its name.
    pub name: String,
    pub(super) connection: Connection,
    /// The last view of each group, and how many there were.
    pub views: BTreeMap<String, (View, usize)>,
    /// How many messages there were of each text.
    pub messages: BTreeMap<String, usize>,
    /// Joins that were refused, and why.
    pub refused: Vec<(String, String)>,
    /// Which ring carries a group, of those that joins have made.
    pub carried: BTreeMap<String, String>,
    /// What became of the roles that it claimed.
    pub roles: BTreeMap<(String, Role), RoleState>,
    /// What it was asked: payloads of requests.
    pub asked: Vec<String>,
    /// How its own requests ended.
    pub ended: BTreeMap<u64, (Ending, u32)>,
    /// Why the connection has ended.
    pub end: Option<String>,
}

impl Client {
    pub(super) fn new(name: &str) -> Self {
        let mut connection =
            Connection::new(Some(name.to_owned()), ClientKind::Application, 1 << 40);
        connection.set_guest(fnv1a(name.as_bytes()));
        Self {
            name: name.to_owned(),
            connection,
            views: BTreeMap::new(),
            messages: BTreeMap::new(),
            refused: Vec::new(),
            carried: BTreeMap::new(),
            roles: BTreeMap::new(),
            asked: Vec::new(),
            ended: BTreeMap::new(),
            end: None,
        }
    }

    /// Its connection, to ask for something.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Whether it can ask for something.
    pub fn is_open(&self) -> bool {
        self.end.is_none() && self.connection.welcome().is_some()
    }

    /// The last view of `group`, if this client is in it.
    pub fn view(&self, group: &str) -> Option<&View> {
        let own = &self.connection.welcome()?.private_name;
        let (view, _) = self.views.get(group)?;
        let is_in = view.members.iter().any(|member| **member == **own);
        is_in.then_some(view)
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        if let Err(error) = self.connection.handle_bytes(bytes) {
            self.end = Some(format!("it does not understand its daemon: {error}"));
        }
        self.take_events();
    }

    pub(super) fn closed(&mut self) {
        self.connection.handle_closed("the connection was closed");
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                ClientEvent::View(view) => {
                    let count = self.views.get(&*view.group).map_or(0, |(_, count)| *count);
                    let group = view.group.to_string();
                    let own = self.connection.welcome().map(|it| it.private_name.clone());
                    let mut members = view.members.iter();
                    if !members.any(|member| Some(&**member) == own.as_deref()) {
                        // Who is in the group no more has no role in it.
                        self.roles.retain(|(of, _), _| *of != group);
                    }
                    self.views.insert(group, (view, count + 1));
                }
                ClientEvent::Message(message) => {
                    let text = String::from_utf8_lossy(&message.payload).into_owned();
                    *self.messages.entry(text).or_default() += 1;
                }
                ClientEvent::Rejected {
                    request: Request::Join(group),
                    text,
                    ..
                } => self.refused.push((group, text)),
                ClientEvent::Carried { group, ring } => {
                    match ring {
                        Some(ring) => self.carried.insert(group, ring),
                        None => self.carried.remove(&group),
                    };
                }
                ClientEvent::Role(notice) => {
                    self.roles.insert((notice.group, notice.role), notice.state);
                }
                ClientEvent::Asked(asked) => {
                    let text = String::from_utf8_lossy(&asked.payload).into_owned();
                    self.asked.push(text);
                    // A connection that has ended answers nothing.
                    drop(self.connection.answer(asked.place.seq, b"here"));
                }
                ClientEvent::Ended {
                    number,
                    ending,
                    answers,
                    ..
                } => {
                    self.ended.insert(number, (ending, answers));
                }
                ClientEvent::Disconnected { text, .. } => self.end = Some(text),
                _ => {}
            }
        }
    }
}
