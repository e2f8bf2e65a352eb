//! What a subscriber printed (`groupcast sub --json`), line by line.
//!
//! It is read strictly: a line that is not what the command line promises is an error, for that is
//! a defect too. Only a last line without its newline is passed over, since a subscriber may be
//! killed while it prints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A delivered message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The group it was printed under.
    pub group: String,
    /// Who published it: `client@host`.
    pub sender: String,
    /// What it was promised.
    pub service: String,
    /// Where it stands in the total order; `None` if it has no place (unreliable).
    pub place: Option<OrderPlace>,
    /// The bytes of the message.
    pub payload: Vec<u8>,
}

/// A place in the total order: equal at every subscriber.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OrderPlace {
    /// The ring's configuration.
    pub config: String,
    /// The place in it.
    pub seq: u64,
}

/// A view of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The name of the group.
    pub group: String,
    /// The view's identifier.
    pub view: String,
    /// Whether it is a regular one; if not, it is a transitional one.
    pub regular: bool,
    /// Why it came: `join`, `leave`, `disconnect`, `network`.
    pub cause: String,
    /// Who is in it.
    pub members: Vec<String>,
}

/// A line that a subscriber printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A message.
    Message(Message),
    /// A view.
    View(View),
    /// The connection to the daemon ended.
    Disconnected,
    /// There is a connection again, perhaps to another daemon.
    Reconnected,
    /// The subscriber took its messages too slowly, and was warned.
    Behind,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {number}: {what}: {line}")]
pub struct StreamError {
    /// Which, from 1.
    pub number: usize,
    /// What is wrong.
    pub what: String,
    /// The beginning of the line.
    pub line: String,
}

/// Everything that one subscriber printed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stream {
    /// In the order printed.
    pub lines: Vec<Line>,
}

impl Stream {
    /// Reads the output of a subscriber.
    pub fn parse(output: &str) -> Result<Self, StreamError> {
        let complete = output.rfind('\n').map_or("", |newline| &output[..=newline]);
        let lines = complete
            .lines()
            .enumerate()
            .map(|(index, line)| {
                parse_line(line).map_err(|what| StreamError {
                    number: index + 1,
                    what,
                    line: line.chars().take(160).collect(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { lines })
    }

    /// The messages, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.lines.iter().filter_map(|line| match line {
            Line::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The views, in order.
    pub fn views(&self) -> impl Iterator<Item = &View> {
        self.lines.iter().filter_map(|line| match line {
            Line::View(view) => Some(view),
            _ => None,
        })
    }

    /// The parts between connections: what came by each is a stream of its own.
    pub fn connections(&self) -> impl Iterator<Item = Self> {
        let parts = self.lines.split(|line| *line == Line::Reconnected);
        parts.map(|lines| Self {
            lines: lines.to_vec(),
        })
    }
}

fn parse_line(line: &str) -> Result<Line, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match text(&value, "event")?.as_str() {
        "message" => Ok(Line::Message(parse_message(&value)?)),
        "view" => Ok(Line::View(parse_view(&value)?)),
        "disconnected" => text(&value, "message").map(|_| Line::Disconnected),
        "reconnected" => text(&value, "name").map(|_| Line::Reconnected),
        "behind" => Ok(Line::Behind),
        other => Err(format!("an event {other:?}, which `sub` does not print")),
    }
}

fn parse_message(value: &Value) -> Result<Message, String> {
    let payload = match (value.get("text"), value.get("base64")) {
        (Some(Value::String(text)), None) => text.clone().into_bytes(),
        (None, Some(Value::String(coded))) => STANDARD
            .decode(coded)
            .map_err(|error| format!("\"base64\": {error}"))?,
        _ => return Err("either \"text\" or \"base64\" must be there".to_owned()),
    };
    let bytes = value.get("bytes").and_then(Value::as_u64);
    if bytes != Some(payload.len() as u64) {
        return Err(format!(
            "\"bytes\" is {bytes:?}, the message has {}",
            payload.len()
        ));
    }
    let service = text(value, "service")?;
    let place = match value.get("seq") {
        Some(Value::Null) if service == "unreliable" => None,
        Some(seq) => Some(OrderPlace {
            config: text(value, "config")?,
            seq: seq
                .as_u64()
                .ok_or_else(|| format!("\"seq\" is {seq} for service {service}"))?,
        }),
        None => return Err("no \"seq\"".to_owned()),
    };
    Ok(Message {
        group: text(value, "group")?,
        sender: text(value, "sender")?,
        service,
        place,
        payload,
    })
}

fn parse_view(value: &Value) -> Result<View, String> {
    let regular = match text(value, "kind")?.as_str() {
        "regular" => true,
        "transitional" => false,
        other => return Err(format!("a view of kind {other:?}")),
    };
    let cause = text(value, "cause")?;
    if !["join", "leave", "disconnect", "network"].contains(&cause.as_str()) {
        return Err(format!("a view because of {cause:?}"));
    }
    let members = value
        .get("members")
        .and_then(Value::as_array)
        .ok_or("no \"members\"")?
        .iter()
        .map(|member| member.as_str().map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or("a member that is no string")?;
    Ok(View {
        group: text(value, "group")?,
        view: match value.get("view") {
            Some(Value::String(view)) => view.clone(),
            Some(Value::Number(view)) => view.to_string(),
            _ => return Err("no \"view\"".to_owned()),
        },
        regular,
        cause,
        members,
    })
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    value
        .get(key)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| format!("no string {key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"event":"message","group":"g","groups":["g"],"sender":"p@h1","service":"agreed","config":"3-a.b","seq":65536,"bytes":2,"text":"hi"}"#;
    const VIEW: &str = r#"{"event":"view","group":"g","view":"3-a.b/1","kind":"regular","cause":"join","members":["s@h1"]}"#;

    #[test]
    fn messages_and_views_are_read_and_a_torn_last_line_is_not() {
        let output = format!("{VIEW}\n{MESSAGE}\n{}", &MESSAGE[..40]);
        let stream = Stream::parse(&output).unwrap();
        assert_eq!(stream.lines.len(), 2);
        let message = stream.messages().next().unwrap();
        assert_eq!(message.payload, b"hi");
        assert_eq!(
            message.place,
            Some(OrderPlace {
                config: "3-a.b".to_owned(),
                seq: 65536
            })
        );
        assert_eq!(stream.views().next().unwrap().cause, "join");
    }

    #[test]
    fn base64_is_decoded() {
        let line = MESSAGE.replace(r#""text":"hi""#, r#""base64":"aGk=""#);
        let stream = Stream::parse(&(line + "\n")).unwrap();
        assert_eq!(stream.messages().next().unwrap().payload, b"hi");
    }

    #[test]
    fn each_connection_is_a_stream() {
        let output = format!(
            "{VIEW}\n{{\"event\":\"disconnected\",\"message\":\"x\"}}\n\
             {{\"event\":\"reconnected\",\"name\":\"s@h1\"}}\n{VIEW}\n{MESSAGE}\n"
        );
        let stream = Stream::parse(&output).unwrap();
        let lens: Vec<usize> = stream.connections().map(|part| part.lines.len()).collect();
        assert_eq!(lens, [2, 2]);
    }

    #[test]
    fn what_the_command_line_does_not_promise_is_an_error() {
        let bad = [
            "not json".to_owned(),
            r#"{"event":"surprise"}"#.to_owned(),
            MESSAGE.replace(r#""bytes":2"#, r#""bytes":3"#),
            MESSAGE.replace(r#""seq":65536"#, r#""seq":null"#),
            MESSAGE.replace(r#","text":"hi""#, ""),
            VIEW.replace("regular", "odd"),
            VIEW.replace("join", "whim"),
            VIEW.replace(r#"["s@h1"]"#, "[1]"),
        ];
        for line in bad {
            let output = format!("{VIEW}\n{line}\n");
            let error = Stream::parse(&output).unwrap_err();
            assert_eq!(error.number, 2, "{line}");
        }
    }
}
