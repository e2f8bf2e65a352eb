//! Requests and roles that the histories tell of.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{ConfigId, OrderPlace};

use super::MemberIx;

/// A role of a process group: the group's name and the role's.
pub(crate) type RoleName = (String, String);

/// What happened to a role at one place of the order, as its first observers saw it.
#[derive(Default, Debug)]
pub(crate) struct Turn {
    /// Who had it from then on, and who says so first.
    pub(crate) granted: Option<(String, MemberIx)>,
}

/// All requests and roles.
#[derive(Default, Debug)]
pub(crate) struct Guests {
    /// Of each request, who was given it: a client of a member.
    asked: BTreeMap<String, BTreeSet<(MemberIx, String)>>,
    /// Of each request, who answered it.
    replied: BTreeMap<String, BTreeSet<(MemberIx, String)>>,
    /// Of each configuration and role, what happened to it, by place.
    turns: BTreeMap<(ConfigId, RoleName), BTreeMap<u64, Turn>>,
    /// Who has a role, as each observer knows it.
    held: BTreeMap<(MemberIx, RoleName), (ConfigId, String)>,
}

impl Guests {
    pub(super) fn ask(&mut self, request: &str, member: MemberIx, client: &str) {
        let asked = self.asked.entry(request.to_owned()).or_default();
        asked.insert((member, client.to_owned()));
    }

    pub(super) fn reply(&mut self, request: &str, member: MemberIx, client: &str) {
        let replied = self.replied.entry(request.to_owned()).or_default();
        replied.insert((member, client.to_owned()));
    }

    pub(super) fn grant(&mut self, by: MemberIx, role: RoleName, client: &str, at: OrderPlace) {
        let turn = self.turn(&role, at);
        turn.granted.get_or_insert((client.to_owned(), by));
        self.held.insert((by, role), (at.config, client.to_owned()));
    }

    pub(super) fn free(&mut self, by: MemberIx, role: RoleName) {
        self.held.remove(&(by, role));
    }

    fn turn(&mut self, role: &RoleName, at: OrderPlace) -> &mut Turn {
        let turns = self.turns.entry((at.config, role.clone())).or_default();
        turns.entry(at.seq).or_default()
    }

    /// Whether that client of `member` was given the request.
    pub(crate) fn was_asked(&self, request: &str, member: MemberIx, client: &str) -> bool {
        let asked = self.asked.get(request);
        asked.is_some_and(|asked| asked.contains(&(member, client.to_owned())))
    }

    /// Who answered the request.
    pub(crate) fn repliers(&self, request: &str) -> impl Iterator<Item = (MemberIx, &str)> {
        let replied = self.replied.get(request).into_iter().flatten();
        replied.map(|(member, client)| (*member, client.as_str()))
    }

    /// Who has the role in `config`, as `observer` knows it.
    pub(crate) fn holder(
        &self,
        observer: MemberIx,
        role: &RoleName,
        config: ConfigId,
    ) -> Option<&str> {
        let (of, client) = self.held.get(&(observer, role.clone()))?;
        (*of == config).then_some(client.as_str())
    }

    /// What happened to the role at a place.
    pub(crate) fn turn_at(&self, role: &RoleName, at: OrderPlace) -> Option<&Turn> {
        let turns = self.turns.get(&(at.config, role.clone()))?;
        turns.get(&at.seq)
    }
}
