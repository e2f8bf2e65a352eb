//! How a violation's text calls things: by the identities that stand in the histories, so that a
//! search finds them.

use groupcast_core::{ConfigurationKind, MemberId};

use super::{ConfigIx, Ledger, MemberIx, MessageIx, Moment, SetIx, Spot};

impl Ledger {
    /// `NAME.INCARNATION` where the name is known, else the id.
    pub(crate) fn call_member(&self, member: MemberIx) -> String {
        let life = self.life(member);
        match &life.name {
            Some(name) => format!("{name}.{:016x}", life.id.incarnation.0),
            None => life.id.to_string(),
        }
    }

    pub(crate) fn call_id(&self, id: MemberId) -> String {
        self.find(id)
            .map_or_else(|| id.to_string(), |member| self.call_member(member))
    }

    pub(crate) fn call_message(&self, message: MessageIx) -> String {
        let message = self.message(message);
        let sender = self.call_member(message.sender);
        format!("message {} of {sender}", message.id.number)
    }

    /// The message and where it stands.
    pub(crate) fn call_placed(&self, message: MessageIx) -> String {
        let place = match self.message(message).sighting.and_then(|first| first.spot) {
            Some(spot) => self.call_spot(spot),
            None => "no place".to_owned(),
        };
        format!("{} ({place})", self.call_message(message))
    }

    pub(crate) fn call_config(&self, config: ConfigIx) -> String {
        format!("configuration {}", self.config(config).id)
    }

    pub(crate) fn call_spot(&self, spot: Spot) -> String {
        format!("seq {} in {}", spot.seq, self.call_config(spot.config))
    }

    pub(crate) fn call_set(&self, set: SetIx) -> String {
        let members: Vec<_> = self.set(set).iter().map(|id| self.call_id(*id)).collect();
        format!("[{}]", members.join(", "))
    }

    pub(crate) fn call_moment(&self, moment: Option<Moment>) -> String {
        let Some(moment) = moment else {
            return "before its first configuration".to_owned();
        };
        let kind = call_kind(match moment.transitional {
            true => ConfigurationKind::Transitional,
            false => ConfigurationKind::Regular,
        });
        let config = self.call_config(moment.config);
        match moment.seq {
            Some(seq) => format!("in {kind} {config} after seq {seq}"),
            None => format!("in {kind} {config} before any message"),
        }
    }
}

/// The word for it, as in histories.
pub(crate) fn call_kind(kind: ConfigurationKind) -> &'static str {
    match kind {
        ConfigurationKind::Regular => "regular",
        ConfigurationKind::Transitional => "transitional",
    }
}
