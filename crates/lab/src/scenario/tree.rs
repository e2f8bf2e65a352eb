//! A TOML document whose every key and value knows where it was written, and values laid over it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ErrorSpan, ScenarioError, Source};

/// A value and where it is.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: ErrorSpan,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// A date or time, which no key takes.
    Date,
    List(Vec<Node>),
    Table(Table),
}

/// Values by key.
pub(super) type Table = BTreeMap<String, Member>;

/// A value of a table.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Where the key is.
    pub(super) key: ErrorSpan,
    pub(super) node: Node,
}

impl Value {
    /// What to call it in a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::String(text) => format!("the string `{text}`"),
            Self::Integer(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number}"),
            Self::Boolean(value) => value.to_string(),
            Self::Date => "a date".into(),
            Self::List(_) => "a list".into(),
            Self::Table(_) => "a table".into(),
        }
    }
}

/// Reads a document.
pub(super) fn parse(source: &Arc<Source>) -> Result<Node, ScenarioError> {
    let document = DeTable::parse(&source.text).map_err(|error| ScenarioError::Syntax {
        message: error.message().to_owned(),
        place: place(source, error.span().unwrap_or(0..0)),
    })?;
    Ok(Node {
        value: Value::Table(table(source, document.get_ref())),
        place: place(source, 0..0),
    })
}

/// Lays `KEY=VALUE` over `document`.
pub(super) fn overlay(document: &mut Node, setting: &str) -> Result<(), ScenarioError> {
    let source = Arc::new(Source {
        name: "--set".into(),
        text: setting.to_owned(),
    });
    let wrong = |span: Range<usize>, message: String, help: &str| ScenarioError::Value {
        key: None,
        message,
        help: help.to_owned(),
        place: place(&source, span),
    };
    let Some((path, value)) = setting.split_once('=') else {
        return Err(wrong(
            0..setting.len(),
            "no value".into(),
            "write KEY=VALUE, for example source.0.rate=50/s",
        ));
    };
    let value_at = path.len() + 1;
    let mut target = document;
    let mut at = 0;
    let parts: Vec<&str> = path.split('.').map(str::trim).collect();
    for (index, part) in parts.iter().enumerate() {
        let span = at..at + part.len();
        at = span.end + 1;
        if part.is_empty() {
            return Err(wrong(
                span,
                "an empty key".into(),
                "write KEY=VALUE, the key dotted",
            ));
        }
        let last = index + 1 == parts.len();
        target = match &mut target.value {
            Value::List(list) => {
                let len = list.len();
                part.parse()
                    .ok()
                    .and_then(|index: usize| list.get_mut(index))
                    .ok_or_else(|| {
                        wrong(
                            span,
                            format!("`{part}` is not in a list of {len}"),
                            "lists are counted from 0",
                        )
                    })?
            }
            Value::Table(table) => {
                let key = place(&source, span);
                &mut table
                    .entry((*part).to_owned())
                    .or_insert_with(|| Member {
                        node: Node {
                            value: Value::Table(Table::new()),
                            place: key.clone(),
                        },
                        key,
                    })
                    .node
            }
            other => {
                let message = format!("`{part}` cannot be in {}", other.describe());
                return Err(wrong(span, message, "leave out the last part of the key"));
            }
        };
        if last {
            *target = literal(&source, value, value_at);
        }
    }
    Ok(())
}

/// A value in TOML; text that is none is a string. All of it is at one place.
fn literal(source: &Arc<Source>, text: &str, at: usize) -> Node {
    let here = place(source, at..at + text.len());
    let mut node = Node {
        value: match DeValue::parse(text.trim()) {
            Ok(parsed) => value(source, parsed.get_ref()),
            Err(_) => Value::String(text.trim().to_owned()),
        },
        place: here.clone(),
    };
    relocate(&mut node, &here);
    node
}

fn place(source: &Arc<Source>, span: Range<usize>) -> ErrorSpan {
    ErrorSpan {
        source: source.clone(),
        span,
    }
}

fn table(source: &Arc<Source>, from: &DeTable<'_>) -> Table {
    from.iter()
        .map(|(key, value)| {
            let member = Member {
                key: place(source, key.span()),
                node: node(source, value),
            };
            (key.get_ref().clone().into_owned(), member)
        })
        .collect()
}

fn node(source: &Arc<Source>, from: &Spanned<DeValue<'_>>) -> Node {
    Node {
        value: value(source, from.get_ref()),
        place: place(source, from.span()),
    }
}

fn value(source: &Arc<Source>, from: &DeValue<'_>) -> Value {
    match from {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        // What no key could take anyway is a float, so that every key refuses it as too large.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Float(f64::INFINITY), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => Value::List(list.iter().map(|item| node(source, item)).collect()),
        DeValue::Table(members) => Value::Table(table(source, members)),
    }
}

/// Moves all places in `node` to `at`.
fn relocate(node: &mut Node, at: &ErrorSpan) {
    node.place = at.clone();
    match &mut node.value {
        Value::Table(table) => {
            for member in table.values_mut() {
                member.key = at.clone();
                relocate(&mut member.node, at);
            }
        }
        Value::List(list) => list.iter_mut().for_each(|node| relocate(node, at)),
        _ => {}
    }
}
