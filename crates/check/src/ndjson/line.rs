//! One line of a history as JSON says it, and what it means.

use std::borrow::Cow;
use std::str::FromStr;

use groupcast_core::trace::Observation;
use groupcast_core::{
    ConfigId, ConfigurationKind, Gap, Incarnation, MemberId, MessageId, NodeId, OrderPlace, Service,
};
use serde::Deserialize;

/// A line. Fields that it does not name are skipped, so that a later version may add some.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line<'a> {
    Start {
        schema: u32,
        member: MemberText,
        #[serde(borrow)]
        name: Option<Cow<'a, str>>,
        #[serde(default)]
        early: bool,
        #[serde(borrow)]
        ring: Option<Cow<'a, str>>,
    },
    Submit {
        #[serde(borrow)]
        group: Option<Cow<'a, str>>,
        sender: MemberText,
        number: u64,
        service: ServiceText,
        digest: DigestText,
    },
    Deliver {
        #[serde(borrow)]
        group: Option<Cow<'a, str>>,
        sender: MemberText,
        number: u64,
        service: ServiceText,
        config: Option<ConfigText>,
        seq: Option<u64>,
        digest: DigestText,
    },
    Configuration {
        kind: Kind,
        config: ConfigText,
        members: Vec<MemberText>,
    },
    Enrolled {
        sender: MemberText,
        number: u64,
    },
    Held {
        sender: MemberText,
        number: u64,
    },
    AllHold {
        sender: MemberText,
        number: u64,
        holders: Vec<MemberText>,
    },
    Account {
        sender: MemberText,
        number: u64,
        complete: Vec<MemberText>,
        failed: Vec<MemberText>,
    },
    View {
        group: String,
        view: String,
        members: Vec<String>,
    },
    Gap {
        #[serde(borrow)]
        group: Option<Cow<'a, str>>,
        sender: MemberText,
        first: u64,
        last: u64,
    },
    Asked {
        request: String,
        group: String,
        client: String,
    },
    Replied {
        request: String,
        client: String,
        handler: Option<u16>,
    },
    Granted(RoleAt),
    Freed(RoleAt),
    Joined {
        #[serde(borrow)]
        ring: Cow<'a, str>,
        member: MemberText,
    },
    Leave,
    Crash,
}

/// A role of a client, from a place of the order on.
#[derive(Deserialize)]
pub(super) struct RoleAt {
    group: String,
    role: String,
    client: String,
    config: ConfigText,
    seq: u64,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Regular,
    Transitional,
}

#[derive(Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub(super) struct MemberText(pub(super) MemberId);

#[derive(Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub(super) struct ConfigText(ConfigId);

#[derive(Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub(super) struct DigestText(u64);

#[derive(Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub(super) struct ServiceText(Service);

impl Line<'_> {
    /// The bimodal group that the line tells of, if it does.
    pub(super) fn group(&self) -> Option<&str> {
        match self {
            Self::Submit { group, .. } | Self::Deliver { group, .. } | Self::Gap { group, .. } => {
                group.as_deref()
            }
            _ => None,
        }
    }

    /// The further ring that the daemon has joined, and who it is there, if the line tells that.
    pub(super) fn joined(&self) -> Option<(&str, MemberId)> {
        match self {
            Self::Joined { ring, member } => Some((ring, member.0)),
            _ => None,
        }
    }

    /// What the observer saw, or what is wrong with the line; `None` if it tells of no such thing.
    pub(super) fn into_observation(self) -> Result<Option<Observation>, String> {
        Ok(Some(match self {
            Self::Joined { .. } => return Ok(None),
            Self::Start { .. } => Observation::Start,
            Self::Submit {
                sender,
                number,
                service,
                digest,
                ..
            } => Observation::Submit {
                id: message(sender, number),
                service: service.0,
                digest: digest.0,
            },
            Self::Deliver {
                sender,
                number,
                service,
                config,
                seq,
                digest,
                ..
            } => Observation::Deliver {
                id: message(sender, number),
                service: service.0,
                place: place(config, seq)?,
                digest: digest.0,
            },
            Self::Configuration {
                kind,
                config,
                members,
            } => Observation::Configuration {
                kind: match kind {
                    Kind::Regular => ConfigurationKind::Regular,
                    Kind::Transitional => ConfigurationKind::Transitional,
                },
                id: config.0,
                members: members_of(members),
            },
            Self::Enrolled { sender, number } => Observation::Enrolled {
                id: message(sender, number),
            },
            Self::Held { sender, number } => Observation::Held {
                id: message(sender, number),
            },
            Self::AllHold {
                sender,
                number,
                holders,
            } => Observation::AllHold {
                id: message(sender, number),
                holders: members_of(holders),
            },
            Self::Account {
                sender,
                number,
                complete,
                failed,
            } => Observation::Account {
                id: message(sender, number),
                complete: members_of(complete),
                failed: members_of(failed),
            },
            Self::View {
                group,
                view,
                members,
            } => Observation::GroupView {
                group,
                view,
                members,
            },
            Self::Gap {
                sender,
                first,
                last,
                ..
            } if first <= last => Observation::Gap(Gap {
                sender: sender.0,
                first,
                last,
            }),
            Self::Gap { .. } => return Err("\"first\" is above \"last\"".to_owned()),
            Self::Asked {
                request,
                group,
                client,
            } => Observation::Asked {
                request,
                group,
                client,
            },
            Self::Replied {
                request,
                client,
                handler,
            } => Observation::Replied {
                request,
                client,
                handler,
            },
            Self::Granted(at) => Observation::Granted {
                place: at.place(),
                group: at.group,
                role: at.role,
                client: at.client,
            },
            Self::Freed(at) => Observation::Freed {
                place: at.place(),
                group: at.group,
                role: at.role,
                client: at.client,
            },
            Self::Leave => Observation::Leave,
            Self::Crash => Observation::Crash,
        }))
    }
}

impl RoleAt {
    fn place(&self) -> OrderPlace {
        OrderPlace {
            config: self.config.0,
            seq: self.seq,
        }
    }
}

fn members_of(texts: Vec<MemberText>) -> Vec<MemberId> {
    texts.into_iter().map(|member| member.0).collect()
}

fn message(sender: MemberText, number: u64) -> MessageId {
    MessageId {
        sender: sender.0,
        number,
    }
}

fn place(config: Option<ConfigText>, seq: Option<u64>) -> Result<Option<OrderPlace>, String> {
    match (config, seq) {
        (Some(config), Some(seq)) => Ok(Some(OrderPlace {
            config: config.0,
            seq,
        })),
        (None, None) => Ok(None),
        _ => Err("\"config\" and \"seq\" belong together: give both, or null for both".to_owned()),
    }
}

impl TryFrom<Cow<'_, str>> for MemberText {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        member(&text).map(Self).ok_or_else(|| {
            format!("{text:?} is not a member: write NODE.INCARNATION, 16 hexadecimal digits each")
        })
    }
}

impl TryFrom<Cow<'_, str>> for ConfigText {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        config(&text).map(Self).ok_or_else(|| {
            format!("{text:?} is not a configuration: write COUNTER-NODE.INCARNATION")
        })
    }
}

impl TryFrom<Cow<'_, str>> for DigestText {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        hex(&text)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a digest: write 16 hexadecimal digits"))
    }
}

impl TryFrom<Cow<'_, str>> for ServiceText {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        let service = Service::from_str(&text).map_err(|error| error.to_string())?;
        Ok(Self(service))
    }
}

fn config(text: &str) -> Option<ConfigId> {
    let (counter, representative) = text.split_once('-')?;
    Some(ConfigId {
        counter: counter.parse().ok()?,
        representative: member(representative)?,
    })
}

fn member(text: &str) -> Option<MemberId> {
    let (node, incarnation) = text.split_once('.')?;
    Some(MemberId {
        node: NodeId(hex(node)?),
        incarnation: Incarnation(hex(incarnation)?),
    })
}

fn hex(text: &str) -> Option<u64> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(text, 16).ok())?
}
