//! A table being read: typed keys, required ones, and at the end an error for keys that no table
//! has.
//!
//! What a table may hold is what its reader asks for; the suggestions for a misspelt key come from
//! there.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use groupcast_core::settings::suggest::{did_you_mean, nearest};
use groupcast_core::settings::{self, Kind, Written, Wrong, read, units};

use super::error::ScenarioError;
use super::tree::{Node, Table, Value};

type Result<T> = std::result::Result<T, ScenarioError>;

/// A table of a scenario.
pub(super) struct Section<'a> {
    /// Dotted; empty at the top.
    path: String,
    /// What the table is, for messages: `[network]`, or more exactly what kind of it.
    what: String,
    node: &'a Node,
    table: &'a Table,
    asked: RefCell<BTreeSet<&'static str>>,
}

/// A value of a table, and its dotted key.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    pub(super) key: String,
    pub(super) node: &'a Node,
}

/// Reads a value.
pub(super) type Read<'a, T> = fn(&Entry<'a>) -> Result<T>;

impl<'a> Section<'a> {
    /// The whole document.
    pub(super) fn top(document: &'a Node) -> Result<Self> {
        let entry = Entry {
            key: String::new(),
            node: document,
        };
        entry.section("a scenario")
    }

    /// Calls it `what` from now on: what can be in it depends on what was read.
    pub(super) fn rename(&mut self, what: String) {
        self.what = what;
    }

    /// The value of `key`, if it is there.
    pub(super) fn get(&self, key: &'static str) -> Option<Entry<'a>> {
        self.asked.borrow_mut().insert(key);
        self.table.get(key).map(|member| Entry {
            key: self.dotted(key),
            node: &member.node,
        })
    }

    /// The value of `key`, read, if it is there.
    pub(super) fn optional<T>(&self, key: &'static str, read: Read<'a, T>) -> Result<Option<T>> {
        self.get(key).map(|entry| read(&entry)).transpose()
    }

    /// The value of `key`, read, or what it is unless told otherwise.
    pub(super) fn or<T>(&self, key: &'static str, default: T, read: Read<'a, T>) -> Result<T> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }

    /// The entry of `key`, which must be there.
    pub(super) fn require(&self, key: &'static str) -> Result<Entry<'a>> {
        match self.get(key) {
            Some(entry) => Ok(entry),
            None => Err(self.missing(key)),
        }
    }

    /// The value of `key`, read, which must be there.
    pub(super) fn required<T>(&self, key: &'static str, read: Read<'a, T>) -> Result<T> {
        read(&self.require(key)?)
    }

    /// The tables of the list `key`; none if it is not there.
    pub(super) fn sections(&self, key: &'static str, what: &str) -> Result<Vec<Section<'a>>> {
        let Some(entry) = self.get(key) else {
            return Ok(Vec::new());
        };
        match &entry.node.value {
            Value::List(_) => {
                let items = entry.list()?;
                items.iter().map(|entry| entry.section(what)).collect()
            }
            _ => {
                let header = format!("[[{}]]", entry.key);
                Err(entry.wrong(
                    format!(
                        "{} where a list of tables belongs",
                        entry.node.value.describe()
                    ),
                    format!("there can be several: write {header}, with two brackets"),
                ))
            }
        }
    }

    /// Refuses what nobody asked for. `elsewhere` knows of keys that belong to something else.
    pub(super) fn finish(&self, elsewhere: impl Fn(&str) -> Option<String>) -> Result<()> {
        match self.others().next() {
            None => Ok(()),
            Some(key) => {
                let asked = self.asked.borrow();
                let known: Vec<&str> = asked.iter().copied().collect();
                let help = match nearest(key, known.iter().copied()) {
                    Some(_) => did_you_mean(key, &known),
                    None => elsewhere(key).unwrap_or_else(|| did_you_mean(key, &known)),
                };
                Err(self.unknown(key, help))
            }
        }
    }

    /// Which of `keys` are there, in the order of `keys`.
    pub(super) fn present(&self, keys: &[&'static str]) -> Vec<&'static str> {
        self.asked.borrow_mut().extend(keys);
        let there = |key: &&'static str| self.table.contains_key(*key);
        keys.iter().copied().filter(there).collect()
    }

    /// The keys that nobody asked for so far.
    pub(super) fn others(&self) -> impl Iterator<Item = &'a str> {
        let asked = self.asked.borrow().clone();
        let keys = self.table.keys().map(String::as_str);
        keys.filter(move |key| !asked.contains(key))
    }

    /// An error about the table as a whole.
    pub(super) fn wrong(
        &self,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Value {
            key: Some(self.path.clone()).filter(|path| !path.is_empty()),
            message: message.into(),
            help: help.into(),
            place: self.node.place.clone(),
        }
    }

    /// All of it and its dotted key, to be read again.
    pub(super) fn clone_content(&self) -> (String, Node) {
        (self.path.clone(), self.node.clone())
    }

    /// `key` is not there: nor is something like it, or that is what is wrong.
    fn missing(&self, key: &'static str) -> ScenarioError {
        match self.others().find(|other| nearest(other, [key]).is_some()) {
            Some(other) => self.unknown(other, format!("did you mean `{key}`?")),
            None => self.wrong(
                format!("`{key}` is missing"),
                format!(
                    "{} needs it: docs/scenarios.md says what it may be",
                    self.what
                ),
            ),
        }
    }

    /// Refuses `key`.
    pub(super) fn unknown(&self, key: &str, help: String) -> ScenarioError {
        let place = self
            .table
            .get(key)
            .map_or(&self.node.place, |member| &member.key);
        ScenarioError::Value {
            key: Some(self.dotted(key)),
            message: format!("not a key of {}", self.what),
            help,
            place: place.clone(),
        }
    }

    fn dotted(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }
}

impl<'a> Entry<'a> {
    /// An error about this value.
    pub(super) fn wrong(
        &self,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Value {
            key: Some(self.key.clone()).filter(|key| !key.is_empty()),
            message: message.into(),
            help: help.into(),
            place: self.node.place.clone(),
        }
    }

    /// An error about a value of another type than the one that belongs there.
    pub(super) fn mistyped<T>(&self, wanted: &str, example: &str) -> Result<T> {
        let found = self.node.value.describe();
        Err(self.wrong(
            format!("{found} where {wanted} belongs"),
            format!("for example {example}"),
        ))
    }

    fn unit<T>(&self, result: std::result::Result<T, Wrong>) -> Result<T> {
        result.map_err(|wrong| self.wrong(wrong.message, wrong.help))
    }

    /// The table that this is.
    pub(super) fn section(&self, what: &str) -> Result<Section<'a>> {
        match &self.node.value {
            Value::Table(table) => Ok(Section {
                path: self.key.clone(),
                what: what.to_owned(),
                node: self.node,
                table,
                asked: RefCell::default(),
            }),
            _ => self.mistyped("a table", "{ key = \"value\" }"),
        }
    }

    /// The values of the list that this is.
    pub(super) fn list(&self) -> Result<Vec<Entry<'a>>> {
        match &self.node.value {
            Value::List(list) => Ok(list
                .iter()
                .enumerate()
                .map(|(index, node)| Entry {
                    key: format!("{}.{index}", self.key),
                    node,
                })
                .collect()),
            _ => self.mistyped("a list", "[1, 2]"),
        }
    }

    pub(super) fn string(&self) -> Result<&'a str> {
        match &self.node.value {
            Value::String(text) => Ok(text),
            _ => self.mistyped("a string", "\"a name\""),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool> {
        self.unit(read::flag(self.written()))
    }

    /// A whole number from 0.
    pub(super) fn number(&self) -> Result<u64> {
        self.unit(read::number(self.written()))
    }

    /// A whole number within bounds.
    pub(super) fn number_in(&self, low: u64, high: u64) -> Result<u64> {
        match self.number()? {
            number if (low..=high).contains(&number) => Ok(number),
            number => Err(self.wrong(
                format!("{number} is out of range"),
                format!("use {low} to {high}"),
            )),
        }
    }

    pub(super) fn duration(&self) -> Result<Duration> {
        self.unit(read::duration(self.written()))
    }

    pub(super) fn bandwidth(&self) -> Result<u64> {
        self.unit(read::bandwidth(self.written()))
    }

    pub(super) fn size(&self) -> Result<u64> {
        self.unit(read::size(self.written()))
    }

    /// The value of a setting of that kind.
    pub(super) fn value(&self, kind: &Kind) -> Result<settings::Value> {
        self.unit(kind.read(self.written()))
    }

    /// As lists of settings read it.
    fn written(&self) -> Written<'a> {
        match &self.node.value {
            Value::String(text) => Written::Text(text),
            Value::Integer(number) => Written::Integer(*number),
            Value::Float(number) => Written::Float(*number),
            Value::Boolean(flag) => Written::Flag(*flag),
            Value::Date => Written::Other("a date"),
            Value::List(_) => Written::Other("a list"),
            Value::Table(_) => Written::Other("a table"),
        }
    }

    /// A size within bounds, in bytes.
    pub(super) fn size_in(&self, low: u64, high: u64) -> Result<u64> {
        match self.size()? {
            size if (low..=high).contains(&size) => Ok(size),
            size => Err(self.wrong(
                format!("{size} bytes is out of range"),
                format!("use {low} to {high} bytes"),
            )),
        }
    }

    pub(super) fn rate(&self) -> Result<f64> {
        match &self.node.value {
            Value::String(text) => self.unit(units::rate(text)),
            Value::Integer(number) => self.mistyped("a rate", &format!("\"{number}/s\"")),
            _ => self.mistyped("a rate", "\"100/s\""),
        }
    }

    pub(super) fn share(&self) -> Result<f64> {
        match &self.node.value {
            Value::String(text) => self.unit(units::share(text)),
            Value::Float(fraction) => self.unit(units::checked_share(*fraction)),
            Value::Integer(number) => self.unit(units::checked_share(*number as f64)),
            _ => self.mistyped("a share", "\"1 %\" or 0.01"),
        }
    }

    /// One of `words`, by name.
    pub(super) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T> {
        let text = self.string()?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(*value),
            None => {
                let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(self.wrong(format!("there is no `{text}`"), did_you_mean(text, &names)))
            }
        }
    }
}
