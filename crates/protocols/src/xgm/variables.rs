//! Variables of the group, of subgroups and of members (003 4.5.1: state).
//!
//! A host keeps [`VARIABLES_MAX`]. One manager may have them all as long as nobody else sets any;
//! when there is no room for another's, that member gives one up which has set most of them.

use alloc::collections::BTreeMap;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId};

use super::entity::Xgm;
use super::wire::Message;
use super::{Key, NAME_MAX, Scope, Subgroups, VALUE_MAX, VARIABLES_MAX, VariableError, XgmEvent};

/// The variables that a host keeps.
#[derive(Default, Debug)]
pub(super) struct Variables {
    variables: BTreeMap<(Scope, Bytes), Variable>,
    /// How many times one was set here.
    sets: u64,
}

#[derive(Debug)]
struct Variable {
    value: Bytes,
    /// The host whose manager set it last.
    by: MemberId,
    /// The count of sets here when that was.
    set: u64,
}

impl Variables {
    fn get(&self, scope: Scope, name: &[u8]) -> Option<&Bytes> {
        let mut variables = self.variables.iter();
        let found = variables.find(|((of, called), _)| *of == scope && called == name);
        found.map(|(_, variable)| &variable.value)
    }

    /// Whether `by` may set this one; and the one that is given up for it, if one must be: the last
    /// one of the member that has most, where that is at least two more than `by` has.
    fn room(&self, by: MemberId, name: &(Scope, Bytes)) -> Option<Option<(Scope, Bytes)>> {
        if self.variables.contains_key(name) || self.variables.len() < VARIABLES_MAX {
            return Some(None);
        }
        let mut counts: BTreeMap<MemberId, usize> = BTreeMap::new();
        for variable in self.variables.values() {
            *counts.entry(variable.by).or_default() += 1;
        }
        let own = counts.get(&by).copied().unwrap_or(0);
        let (most, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        if count < own + 2 {
            return None;
        }
        let of_it = self.variables.iter().filter(|(_, it)| it.by == most);
        let last = of_it.max_by_key(|(_, it)| it.set);
        last.map(|(name, _)| Some(name.clone()))
    }

    /// False if there is no room.
    fn set(&mut self, by: MemberId, name: (Scope, Bytes), value: Bytes) -> bool {
        let Some(given_up) = self.room(by, &name) else {
            return false;
        };
        if let Some(given_up) = given_up {
            self.variables.remove(&given_up);
        }
        self.sets += 1;
        let set = self.sets;
        self.variables.insert(name, Variable { value, by, set });
        true
    }
}

impl Xgm {
    /// Sets a variable. A variable of the group or of subgroups is set at every host that it
    /// concerns, this one included, with the reliability of a datagram; one of a member at this
    /// host alone.
    ///
    /// # Errors
    /// If the name or value is too long, the scope is no subgroup, there are too many variables and
    /// none of the others has set two more of them than this host, or too much waits to be sent.
    pub fn set(&mut self, scope: Scope, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
        self.set_at(None, scope, name, value)
    }

    /// Sets a variable of a member of another host, with the reliability of a datagram.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_member(
        &mut self,
        (host, key): (MemberId, Key),
        name: &[u8],
        value: &[u8],
    ) -> Result<(), VariableError> {
        let at = (host != self.local).then_some(host);
        self.set_at(at, Scope::Member(key), name, value)
    }

    fn set_at(
        &mut self,
        host: Option<MemberId>,
        scope: Scope,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), VariableError> {
        if name.len() > NAME_MAX || value.len() > VALUE_MAX {
            return Err(VariableError::TooLong);
        }
        if scope == Scope::Subgroups(Subgroups::NONE) {
            return Err(VariableError::NoSubgroup);
        }
        let name = Bytes::copy_from_slice(name);
        let value = Bytes::copy_from_slice(value);
        if host.is_none() && self.is_kept_here(scope) {
            let room = self.variables.room(self.local, &(scope, name.clone()));
            room.ok_or(VariableError::TooMany)?;
        }
        let destination = match (host, scope) {
            (Some(host), _) => Some(Destination::Member(host)),
            (None, Scope::Member(_)) => None,
            (None, _) => Some(Destination::Group),
        };
        if let Some(destination) = destination {
            let (name, value) = (name.clone(), value.clone());
            self.post(destination, &Message::Set { scope, name, value })?;
        }
        if host.is_none() {
            self.handle_set(self.local, scope, name, value);
        }
        Ok(())
    }

    /// The value of a variable, as this host knows it.
    pub fn variable(&self, scope: Scope, name: &[u8]) -> Option<&Bytes> {
        self.variables.get(scope, name)
    }

    fn is_kept_here(&self, scope: Scope) -> bool {
        match scope {
            Scope::Group => true,
            Scope::Subgroups(subgroups) => self.members.union().matches(subgroups),
            Scope::Member(key) => self.members.subgroups(key).is_some(),
        }
    }

    pub(super) fn handle_set(&mut self, by: MemberId, scope: Scope, name: Bytes, value: Bytes) {
        let is_set = self.is_kept_here(scope)
            && self.variables.set(by, (scope, name.clone()), value.clone());
        if !is_set {
            return;
        }
        self.tell(XgmEvent::Set {
            scope,
            name,
            value,
            by,
        });
    }
}
