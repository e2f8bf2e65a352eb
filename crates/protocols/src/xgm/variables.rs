//! Variables of the group, of subgroups and of members (003 4.5.1: state).

use bytes::Bytes;
use groupcast_core::{Destination, MemberId};

use super::entity::Xgm;
use super::wire::Message;
use super::{Key, NAME_MAX, Scope, Subgroups, VALUE_MAX, VARIABLES_MAX, VariableError, XgmEvent};

impl Xgm {
    /// Sets a variable. A variable of the group or of subgroups is set at every host that it
    /// concerns, this one included, with the reliability of a datagram; one of a member at this
    /// host alone.
    ///
    /// # Errors
    /// If the name or value is too long, the scope is no subgroup, there are too many variables, or
    /// too much waits to be sent.
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
        if host.is_none() && self.is_kept_here(scope) && !self.has_room_for(scope, &name) {
            return Err(VariableError::TooMany);
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
        let mut variables = self.variables.iter();
        let found = variables.find(|((of, called), _)| *of == scope && called == name);
        found.map(|(_, value)| value)
    }

    fn is_kept_here(&self, scope: Scope) -> bool {
        match scope {
            Scope::Group => true,
            Scope::Subgroups(subgroups) => self.members.union().matches(subgroups),
            Scope::Member(key) => self.members.subgroups(key).is_some(),
        }
    }

    fn has_room_for(&self, scope: Scope, name: &Bytes) -> bool {
        let is_known = self.variables.contains_key(&(scope, name.clone()));
        is_known || self.variables.len() < VARIABLES_MAX
    }

    pub(super) fn handle_set(&mut self, by: MemberId, scope: Scope, name: Bytes, value: Bytes) {
        if !self.is_kept_here(scope) || !self.has_room_for(scope, &name) {
            return;
        }
        self.variables.insert((scope, name.clone()), value.clone());
        self.tell(XgmEvent::Set {
            scope,
            name,
            value,
            by,
        });
    }
}
