//! What a client of daemons with rings has seen, and what it has against it: the same for simulated
//! clients and for those of live daemons.

use std::collections::BTreeMap;

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::View;
use groupcast_session::client::{Ask, ClientEvent};
use groupcast_session::frame::Request;
use groupcast_session::guests::Role;

use crate::asking::{Asking, draw_ask, draw_role};

/// The probes of each group, which come to all who are in it.
pub(crate) type Probes<'a> = BTreeMap<&'a str, Vec<String>>;

/// What a client does.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Joins, and asks for a ring.
    JoinOnRing,
    Join,
    Leave,
    /// Joins, claims a role, and may wait for it.
    Claim(Role, bool),
    Release(Role),
    Ask(Ask),
    Publish(Service),
}

impl Act {
    /// One of them, at random.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let (role, ask, may_wait) = (draw_role(rng), draw_ask(rng), rng.chance(0.5));
        match rng.below(100) {
            0..22 => Self::JoinOnRing,
            22..40 => Self::Join,
            40..52 => Self::Leave,
            52..70 => Self::Claim(role, may_wait),
            70..74 => Self::Release(role),
            74..90 => Self::Ask(ask),
            _ => Self::Publish(Service::Agreed),
        }
    }
}

/// What a client has seen in its connection.
pub struct Seen {
    /// The client's name, without that of its daemon: no other has it.
    pub name: String,
    /// The daemon that it is connected to.
    daemon: MemberId,
    /// The last view of each group, and how many there were.
    pub views: BTreeMap<String, (View, usize)>,
    /// How many messages there were of each text.
    pub messages: BTreeMap<String, usize>,
    /// Joins that were refused, and why.
    pub refused: Vec<(String, String)>,
    /// Which ring carries a group, of those that joins have made.
    pub carried: BTreeMap<String, String>,
    /// What it asked, was asked and holds.
    pub(crate) asking: Asking,
    /// Why the connection has ended.
    pub end: Option<String>,
}

impl Seen {
    pub(crate) fn new(name: &str, daemon: MemberId) -> Self {
        Self {
            name: name.to_owned(),
            daemon,
            views: BTreeMap::new(),
            messages: BTreeMap::new(),
            refused: Vec::new(),
            carried: BTreeMap::new(),
            asking: Asking::default(),
            end: None,
        }
    }

    /// The last view of `group`, if this client is in it.
    pub fn view(&self, group: &str) -> Option<&View> {
        let (view, _) = self.views.get(group)?;
        let mut members = view.members.iter();
        let is_in = members.any(|member| member.split('@').next() == Some(self.name.as_str()));
        is_in.then_some(view)
    }

    pub(crate) fn see(&mut self, event: ClientEvent) {
        self.asking.see(self.daemon, &self.name, &event);
        match event {
            ClientEvent::View(view) => {
                let count = self.views.get(&*view.group).map_or(0, |(_, count)| *count);
                self.views.insert(view.group.to_string(), (view, count + 1));
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
            ClientEvent::Disconnected { text, .. } => self.end = Some(text),
            _ => {}
        }
    }

    /// All who are in one of `groups` see one view of it: that which is in `views`, if others have
    /// seen one, and it is carried by the lowest of the tops of `rings`.
    pub(crate) fn agrees<'a>(
        &self,
        groups: &[&'a str],
        rings: &[String],
        views: &mut BTreeMap<&'a str, Vec<String>>,
    ) -> Result<(), String> {
        for group in groups {
            let Some(view) = self.view(group) else {
                continue;
            };
            let members: Vec<String> = view.members.iter().map(ToString::to_string).collect();
            let first = views.entry(group).or_insert_with(|| members.clone());
            if *first != members {
                return Err(format!("of {group} there are {first:?} and {members:?}"));
            }
            let carries = |top: &&String| *top == group || group.ends_with(&format!(".{top}"));
            let ring = rings.iter().filter(carries).max_by_key(|top| top.len());
            let told = self.carried.get(*group);
            if told != ring {
                let name = &self.name;
                return Err(format!(
                    "{name} is told that {told:?} carries {group}, not {ring:?}"
                ));
            }
        }
        Ok(())
    }

    /// The probes of the groups that it is in came, once each.
    pub(crate) fn got_once(&self, probes: &Probes<'_>) -> Result<(), String> {
        for (group, probes) in probes {
            if self.view(group).is_none() {
                continue;
            }
            for probe in probes {
                let got = self.messages.get(probe).copied().unwrap_or(0);
                if got != 1 {
                    return Err(format!("{} got {probe:?} {got} times", self.name));
                }
            }
        }
        Ok(())
    }
}
