//! Datagrams sent and received, by their role and by the protocol's own word for them.

use groupcast_core::trace::{Inspected, Role};
use serde::{Serialize, Serializer};

/// Datagrams and their bytes, as UDP payload.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Packets {
    /// Sent: a multicast is one.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Received by the process.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
}

impl Packets {
    /// All of `other` too.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
    }
}

/// Datagrams of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct KindCount {
    /// The protocol's word for it.
    pub kind: &'static str,
    /// What it is for.
    #[serde(serialize_with = "role")]
    pub role: Role,
    /// The datagrams of this kind, and their bytes.
    #[serde(flatten)]
    pub packets: Packets,
}

/// Datagrams by role.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Traffic {
    /// Messages for the first time.
    pub data: Packets,
    /// Tokens, acknowledgements, digests, joins.
    pub control: Packets,
    /// For messages that were missed.
    pub requests: Packets,
    /// Messages that were sent again.
    pub repairs: Packets,
}

impl Traffic {
    /// Those of one role.
    pub fn of(&self, role: Role) -> &Packets {
        match role {
            Role::Data => &self.data,
            Role::Control => &self.control,
            Role::Request => &self.requests,
            Role::Repair => &self.repairs,
        }
    }

    /// All of `other` too.
    pub fn add(&mut self, other: &Self) {
        self.data.add(&other.data);
        self.control.add(&other.control);
        self.requests.add(&other.requests);
        self.repairs.add(&other.repairs);
    }

    /// By role, from counts by kind.
    pub(super) fn from_kinds(kinds: &[KindCount]) -> Self {
        let mut traffic = Self::default();
        for count in kinds {
            let role = match count.role {
                Role::Data => &mut traffic.data,
                Role::Control => &mut traffic.control,
                Role::Request => &mut traffic.requests,
                Role::Repair => &mut traffic.repairs,
            };
            role.add(&count.packets);
        }
        traffic
    }
}

/// The word for a role, in results.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Data => "data",
        Role::Control => "control",
        Role::Request => "request",
        Role::Repair => "repair",
    }
}

fn role<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role_name(*role))
}

/// The count for a kind. Kinds are words of a program's text, so there are few: a row is searched
/// fastest.
#[inline]
pub(super) fn count_of(kinds: &mut Vec<KindCount>, inspected: Inspected) -> &mut Packets {
    let Inspected { kind, role } = inspected;
    let found = kinds
        .iter()
        .position(|count| count.role == role && count.kind == kind);
    let index = found.unwrap_or_else(|| {
        let packets = Packets::default();
        kinds.push(KindCount {
            kind,
            role,
            packets,
        });
        kinds.len() - 1
    });
    &mut kinds[index].packets
}
