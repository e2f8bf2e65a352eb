//! The lines that `sub` prints: field names and their order are a contract with scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use groupcast_core::ConfigId;
use groupcast_core::text::printable;
use groupcast_protocols::rmp;
use groupcast_session::View;
use groupcast_session::frame::{Message, Syntax};
use groupcast_session::names::lowest_top;
use serde::Serialize;

use crate::json::write_line;

/// Writes messages and views, one JSON object a line.
#[derive(Default)]
pub(crate) struct JsonLines {
    /// The configuration of the last message, and its text: it seldom changes.
    config: Option<(ConfigId, String)>,
    /// The name of the protocol that orders messages at the daemon, if the daemon says it.
    order: Option<String>,
    /// The tops of the configured rings that order groups beside it.
    rings: Vec<String>,
    /// For each group that a ring made by a join orders: the ring.
    carried: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct MessageLine<'a> {
    event: &'static str,
    /// The first destination that the subscriber joined.
    group: &'a str,
    /// All destinations, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<&'a str>,
    sender: &'a str,
    /// The tag, if a message of the bus has one.
    #[serde(skip_serializing_if = "str::is_empty")]
    tag: &'a str,
    /// The syntax of a message of the bus, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    syntax: Option<&'static str>,
    service: String,
    /// The regular configuration in which it was ordered; null for an unreliable message.
    config: Option<&'a str>,
    /// The place in the total order; null for an unreliable message, which has none.
    seq: Option<u64>,
    /// The number among the messages of the sender's daemon to the group; only in a bimodal group.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    bytes: usize,
    #[serde(flatten)]
    payload: Payload<'a>,
    /// What orders messages at the daemon; not in a bimodal group.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'a str>,
    /// The top of the ring that orders the group's messages, beside the daemon's own order.
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
}

/// The bytes of a message: as text where they are, else in base64.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Payload<'a> {
    Text(&'a str),
    Base64(String),
}

impl<'a> Payload<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

#[derive(Serialize)]
struct ViewLine<'a> {
    event: &'static str,
    group: &'a str,
    view: String,
    kind: &'static str,
    /// Present and true in a bimodal group.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approximate: bool,
    cause: &'static str,
    /// The client that came or went; not where daemons did.
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<&'a str>,
    members: Vec<&'a str>,
    /// What orders messages at the daemon; not in a bimodal group.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'a str>,
    /// The top of the ring that orders the group's messages, beside the daemon's own order.
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
}

#[derive(Serialize)]
struct GapLine<'a> {
    event: &'static str,
    group: &'a str,
    sender: &'a str,
    first: u64,
    last: u64,
}

impl JsonLines {
    /// Sets the name of the protocol that orders messages at the daemon, for the lines from now on.
    /// Groups of `rings` are ordered by those, which are RMP's.
    pub(crate) fn set_order(&mut self, order: Option<&str>, rings: &[String]) {
        self.order = order.map(str::to_owned);
        self.rings = rings.to_vec();
        self.carried.clear();
    }

    /// Notes that `ring`, which a join has made, orders the group from now on; `None`: the order
    /// that the daemon said at first.
    pub(crate) fn set_carrier(&mut self, group: String, ring: Option<String>) {
        match ring {
            Some(ring) => self.carried.insert(group, ring),
            None => self.carried.remove(&group),
        };
    }

    /// The name of the protocol that orders the messages of `group`, and the top of its ring if a
    /// ring orders them.
    fn order_of(&self, group: &str) -> (Option<&str>, Option<&str>) {
        if let Some(ring) = self.carried.get(group) {
            return (Some(rmp::ORDER.name()), Some(ring));
        }
        match lowest_top(&self.rings, group) {
            Some(index) => (Some(rmp::ORDER.name()), Some(&self.rings[index])),
            None => (self.order.as_deref(), None),
        }
    }

    /// Writes the line of a message.
    pub(crate) fn message(&mut self, out: &mut impl Write, message: &Message) -> io::Result<()> {
        let groups = match message.destinations.len() {
            0 | 1 => Vec::new(),
            _ => message.destinations.iter().collect(),
        };
        let config = message.place.map(|place| place.config);
        self.remember(config);
        let (order, ring) = self.order_of(message.group());
        let line = MessageLine {
            event: "message",
            group: message.group(),
            groups,
            sender: &message.sender,
            tag: &message.tag,
            syntax: Some(message.syntax)
                .filter(|syntax| *syntax != Syntax::Raw)
                .map(Syntax::name),
            service: message.service.to_string(),
            config: config
                .and(self.config.as_ref())
                .map(|(_, text)| text.as_str()),
            seq: message.place.map(|place| place.seq),
            number: message.number,
            bytes: message.payload.len(),
            payload: Payload::of(&message.payload),
            order: order.filter(|_| message.number.is_none()),
            ring,
        };
        write_line(out, &line)
    }

    /// Writes the line of a view.
    pub(crate) fn view(&mut self, out: &mut impl Write, view: &View) -> io::Result<()> {
        let (order, ring) = self.order_of(&view.group);
        let line = ViewLine {
            event: "view",
            group: &view.group,
            view: view.id.to_string(),
            kind: view.kind.name(),
            approximate: view.approximate,
            cause: view.cause.name(),
            who: view.changed.as_deref(),
            members: view.members.iter().map(AsRef::as_ref).collect(),
            order: order.filter(|_| !view.approximate),
            ring,
        };
        write_line(out, &line)
    }

    /// Writes the line of a gap: messages `first` to `last` of the daemon `sender` to `group`.
    pub(crate) fn gap(
        &mut self,
        out: &mut impl Write,
        group: &str,
        sender: &str,
        (first, last): (u64, u64),
    ) -> io::Result<()> {
        let line = GapLine {
            event: "gap",
            group,
            sender,
            first,
            last,
        };
        write_line(out, &line)
    }

    /// Keeps the text of `config`.
    fn remember(&mut self, config: Option<ConfigId>) {
        if let Some(id) = config
            && self.config.as_ref().is_none_or(|(last, _)| *last != id)
        {
            self.config = Some((id, id.to_string()));
        }
    }
}

/// A warning of the daemon: the subscriber takes its messages more slowly than they come.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Behind {
    pub(crate) waiting: u64,
    pub(crate) limit: u64,
    pub(crate) dropped: u64,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            waiting,
            limit,
            dropped,
        } = self;
        write!(
            f,
            "too slow: {waiting} bytes wait in the daemon, which disconnects this program at {limit}"
        )?;
        match dropped {
            0 => Ok(()),
            1 => write!(f, "; 1 unreliable message was missed"),
            _ => write!(f, "; {dropped} unreliable messages were missed"),
        }
    }
}

#[derive(Serialize)]
struct BehindLine {
    event: &'static str,
    #[serde(flatten)]
    behind: Behind,
}

/// Writes the line of a warning.
pub(crate) fn behind(out: &mut impl Write, behind: Behind) -> io::Result<()> {
    let event = "behind";
    write_line(out, &BehindLine { event, behind })
}

/// A change of the subscriber's connection, as `--json` prints it.
#[derive(Serialize)]
struct ConnectionLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

/// Writes the line for the end of the connection to the daemon, with the reason.
pub(crate) fn disconnected(out: &mut impl Write, text: &str) -> io::Result<()> {
    let line = ConnectionLine {
        event: "disconnected",
        message: Some(text),
        name: None,
    };
    write_line(out, &line)
}

/// Writes the line for a new connection, with the private name that it has.
pub(crate) fn reconnected(out: &mut impl Write, name: &str) -> io::Result<()> {
    let line = ConnectionLine {
        event: "reconnected",
        message: None,
        name: Some(name),
    };
    write_line(out, &line)
}

/// Writes a view for people: what changed, and who is there now.
pub(crate) fn describe_view(out: &mut impl Write, view: &View) -> io::Result<()> {
    let names: Vec<String> = view.members.iter().map(|name| shown(name)).collect();
    let members = names.join(", ");
    let who = match &view.changed {
        Some(changed) => format!(" of {}", shown(changed)),
        None => String::new(),
    };
    let kind = match view.approximate {
        true => "approximate",
        false => view.kind.name(),
    };
    writeln!(
        out,
        "[{}] {kind} view after {}{who}: {members}",
        shown(&view.group),
        view.cause
    )
}

/// Writes a gap for people.
pub(crate) fn describe_gap(
    out: &mut impl Write,
    group: &str,
    sender: &str,
    (first, last): (u64, u64),
) -> io::Result<()> {
    let which = match first == last {
        true => format!("message {first}"),
        false => format!("messages {first} to {last}"),
    };
    let (group, sender) = (shown(group), shown(sender));
    writeln!(out, "[{group}] lost: {which} of {sender}")
}

/// Options of messages written for people.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain {
    /// Writes the group and the sender before the message.
    pub(crate) verbose: bool,
    /// Escapes the characters that a terminal would not show as they are.
    pub(crate) escape: bool,
}

impl Plain {
    /// Writes a message: its bytes and a newline.
    pub(crate) fn message(self, out: &mut impl Write, message: &Message) -> io::Result<()> {
        if self.verbose {
            let (group, sender) = (shown(message.group()), shown(&message.sender));
            write!(out, "[{group}] {sender}: ")?;
        }
        if self.escape {
            return writeln!(out, "{}", printable(&message.payload));
        }
        out.write_all(&message.payload)?;
        out.write_all(b"\n")
    }
}

/// A name of foreign origin, made safe for a terminal.
fn shown(name: &str) -> String {
    printable(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId, OrderPlace, Service};
    use groupcast_session::{Cause, ViewId, ViewKind};

    use super::*;

    const CONFIG: ConfigId = ConfigId {
        counter: 7,
        representative: MemberId {
            node: NodeId(1),
            incarnation: Incarnation(2),
        },
    };

    fn line(message: &Message) -> String {
        let mut bytes = Vec::new();
        JsonLines::default().message(&mut bytes, message).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn message() -> Message {
        Message {
            service: Service::Agreed,
            place: Some(OrderPlace {
                config: CONFIG,
                seq: 3 << 16,
            }),
            number: None,
            sender: "al@h".into(),
            sender_id: "".into(),
            tag: "".into(),
            syntax: Syntax::Raw,
            destinations: ["g"].into_iter().collect(),
            index: 0,
            payload: b"h\"i"[..].into(),
        }
    }

    #[test]
    fn a_message_is_one_object_with_the_fields_of_the_contract() {
        assert_eq!(
            line(&message()),
            "{\"event\":\"message\",\"group\":\"g\",\"sender\":\"al@h\",\"service\":\"agreed\",\
             \"config\":\"7-0000000000000001.0000000000000002\",\"seq\":196608,\"bytes\":3,\"text\":\"h\\\"i\"}\n"
        );
    }

    #[test]
    fn lines_name_the_order_where_the_daemon_does_but_not_in_a_bimodal_group() {
        let mut lines = JsonLines::default();
        lines.set_order(Some("rmp"), &["x".into()]);
        let mut written = |message: &Message| {
            let mut bytes = Vec::new();
            lines.message(&mut bytes, message).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let ordered = written(&message());
        assert!(ordered.contains("\"service\":\"agreed\",\"config\":\"7-"));
        assert!(ordered.ends_with(",\"order\":\"rmp\"}\n"), "{ordered}");
        let numbered = Message {
            service: Service::Bimodal,
            place: None,
            number: Some(9),
            ..message()
        };
        assert!(!written(&numbered).contains("order"));
    }

    #[test]
    fn lines_of_a_ring_name_it_and_its_protocol() {
        let mut lines = JsonLines::default();
        lines.set_order(Some("ring"), &["g".into()]);
        let mut bytes = Vec::new();
        lines.message(&mut bytes, &message()).unwrap();
        let line = String::from_utf8(bytes).unwrap();
        assert!(
            line.ends_with(",\"order\":\"rmp\",\"ring\":\"g\"}\n"),
            "{line}"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_base64_and_all_groups_are_named() {
        let odd = Message {
            service: Service::Unreliable,
            place: None,
            destinations: ["other", "g"].into_iter().collect(),
            index: 1,
            payload: b"\xff\x00"[..].into(),
            ..message()
        };
        assert_eq!(
            line(&odd),
            "{\"event\":\"message\",\"group\":\"g\",\"groups\":[\"other\",\"g\"],\"sender\":\"al@h\",\
             \"service\":\"unreliable\",\"config\":null,\"seq\":null,\"bytes\":2,\"base64\":\"/wA=\"}\n"
        );
    }

    #[test]
    fn the_configuration_changes_with_the_message() {
        let mut lines = JsonLines::default();
        let mut bytes = Vec::new();
        lines.message(&mut bytes, &message()).unwrap();
        let mut later = message();
        later.place = Some(OrderPlace {
            config: ConfigId {
                counter: 8,
                ..CONFIG
            },
            seq: 4 << 16,
        });
        bytes.clear();
        lines.message(&mut bytes, &later).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("\"config\":\"8-"), "{text}");
    }

    #[test]
    fn bimodal_groups_have_numbers_gaps_and_approximate_views() {
        let numbered = Message {
            service: Service::Bimodal,
            place: None,
            number: Some(9),
            ..message()
        };
        assert!(
            line(&numbered).contains(
                "\"service\":\"bimodal\",\"config\":null,\"seq\":null,\"number\":9,\"bytes\":3"
            ),
            "{}",
            line(&numbered)
        );
        let mut bytes = Vec::new();
        JsonLines::default()
            .gap(&mut bytes, "g", "h", (3, 5))
            .unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"event\":\"gap\",\"group\":\"g\",\"sender\":\"h\",\"first\":3,\"last\":5}\n"
        );
        let mut bytes = Vec::new();
        describe_gap(&mut bytes, "g", "h", (3, 5)).unwrap();
        describe_gap(&mut bytes, "g", "h", (7, 7)).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "[g] lost: messages 3 to 5 of h\n[g] lost: message 7 of h\n"
        );
    }

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        let hostile = Message {
            payload: b"a\x1b[2J\nb"[..].into(),
            sender: "x\u{202e}y@h".into(),
            ..message()
        };
        let written = |plain: Plain| {
            let mut bytes = Vec::new();
            plain.message(&mut bytes, &hostile).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(written(Plain::default()), "a\u{1b}[2J\nb\n");
        let terminal = Plain {
            verbose: true,
            escape: true,
        };
        assert_eq!(written(terminal), "[g] x\\u{202e}y@h: a\\u{1b}[2J\\nb\n");
        assert!(line(&hostile).contains("\"sender\":\"x\\u202ey@h\""));
        let mut bytes = Vec::new();
        describe_gap(&mut bytes, "g\u{9b}", "h\u{7f}", (1, 1)).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "[g\\u{9b}] lost: message 1 of h\\u{7f}\n"
        );
    }

    #[test]
    fn a_view_names_its_members() {
        let view = View {
            group: "g".into(),
            id: ViewId {
                config: CONFIG,
                seq: 65_536,
                within: None,
            },
            kind: ViewKind::Regular,
            approximate: false,
            cause: Cause::Join,
            changed: Some("bo@h".into()),
            members: vec!["al@h".into(), "bo@h".into()],
        };
        let mut bytes = Vec::new();
        JsonLines::default().view(&mut bytes, &view).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"event\":\"view\",\"group\":\"g\",\"view\":\"7-0000000000000001.0000000000000002:65536\",\
             \"kind\":\"regular\",\"cause\":\"join\",\"who\":\"bo@h\",\"members\":[\"al@h\",\"bo@h\"]}\n"
        );
        let mut bytes = Vec::new();
        describe_view(&mut bytes, &view).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "[g] regular view after join of bo@h: al@h, bo@h\n"
        );
        let view = View {
            approximate: true,
            cause: Cause::Network,
            changed: None,
            ..view
        };
        let mut bytes = Vec::new();
        JsonLines::default().view(&mut bytes, &view).unwrap();
        describe_view(&mut bytes, &view).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.contains("\"approximate\":true,\"cause\":\"network\",\"members\":")
                && text.contains("[g] approximate view after network:"),
            "{text}"
        );
    }
}
