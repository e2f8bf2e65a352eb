//! Requests of a client of the bus beside publishing, and the clients that it is told of.

use groupcast_core::wire::{DecodeError, Reader, Writer};

use super::text::{put_name, take_name};
use super::{frame, kind};

/// A request of the bus. All but [`Clients`](Self::Clients) travel in the order, and are answered
/// at their place in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BusRequest {
    /// Delivers to this client the messages to a group, or to all groups below a name, whose tag
    /// matches a pattern.
    Accept {
        /// The group; or `*.` and a name, for all groups below the name.
        group: String,
        /// A regular expression, or `*`.
        pattern: String,
        /// Whether it asks for a ring of its own for the group, if there is none.
        ring: bool,
    },
    /// Takes an accepted pattern back.
    Reject {
        /// As it was accepted.
        group: String,
        /// As it was accepted.
        pattern: String,
    },
    /// Gives the client an id, beside its private name. It is a client of the bus from then on.
    Identify {
        /// A group's name; empty for none.
        id: String,
    },
    /// Asks which clients would get a message.
    Who {
        /// Its tag; `*` for any tag.
        tag: String,
        /// Its destination.
        group: String,
    },
    /// Asks which clients are on the bus, at all daemons.
    Clients,
}

impl BusRequest {
    /// The request in a frame of this kind, with its token; `None` if the kind is not of the bus.
    pub(super) fn decode(
        code: u8,
        reader: &mut Reader<'_>,
    ) -> Result<Option<(u64, Self)>, DecodeError> {
        if !matches!(code, kind::ACCEPT..=kind::BUS_CLIENTS | kind::ACCEPT_RING) {
            return Ok(None);
        }
        let token = reader.u64("token")?;
        let mut name = |field| take_name(reader, field).map(str::to_owned);
        let request = match code {
            kind::ACCEPT | kind::ACCEPT_RING => Self::Accept {
                group: name("group")?,
                pattern: name("pattern")?,
                ring: code == kind::ACCEPT_RING,
            },
            kind::REJECT => Self::Reject {
                group: name("group")?,
                pattern: name("pattern")?,
            },
            kind::IDENTIFY => Self::Identify { id: name("id")? },
            kind::WHO => Self::Who {
                tag: name("tag")?,
                group: name("group")?,
            },
            _ => Self::Clients,
        };
        Ok(Some((token, request)))
    }

    /// Appends the frame to `bytes`.
    ///
    /// # Panics
    /// If a text exceeds 255 bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, token: u64) {
        let (code, names) = match self {
            Self::Accept {
                group,
                pattern,
                ring,
            } => {
                let code = match ring {
                    true => kind::ACCEPT_RING,
                    false => kind::ACCEPT,
                };
                (code, [group, pattern].to_vec())
            }
            Self::Reject { group, pattern } => (kind::REJECT, [group, pattern].to_vec()),
            Self::Identify { id } => (kind::IDENTIFY, [id].to_vec()),
            Self::Who { tag, group } => (kind::WHO, [tag, group].to_vec()),
            Self::Clients => (kind::BUS_CLIENTS, Vec::new()),
        };
        frame(bytes, code, 0, |body| {
            body.u64(token);
            for name in names {
                put_name(body, name);
            }
        });
    }

    /// The bytes of its texts.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Accept { group, pattern, .. } | Self::Reject { group, pattern } => {
                group.len() + pattern.len()
            }
            Self::Identify { id } => id.len(),
            Self::Who { tag, group } => tag.len() + group.len(),
            Self::Clients => 0,
        }
    }
}

/// A client of the bus, as others are told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BusClient {
    /// Its private name.
    pub name: String,
    /// Its id; empty if it has none.
    pub id: String,
    /// The groups for which it has patterns, in ascending order.
    pub groups: Vec<String>,
}

impl BusClient {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: take_name(reader, "name")?.into(),
            id: take_name(reader, "id")?.into(),
            groups: take_names(reader, "groups")?,
        })
    }

    pub(super) fn encode(&self, body: &mut Writer<'_>) {
        put_name(body, &self.name);
        put_name(body, &self.id);
        put_names(body, &self.groups);
    }
}

/// Writes `u32 count` and as many names.
pub(super) fn put_names(body: &mut Writer<'_>, names: &[String]) {
    body.u32(names.len() as u32);
    for name in names {
        put_name(body, name);
    }
}

/// Reads `u32 count` and as many names; allocates no more than was read.
pub(super) fn take_names(
    reader: &mut Reader<'_>,
    field: &'static str,
) -> Result<Vec<String>, DecodeError> {
    (0..reader.u32(field)?)
        .map(|_| take_name(reader, field).map(str::to_owned))
        .collect()
}
