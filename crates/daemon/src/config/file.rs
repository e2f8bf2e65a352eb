//! A configuration file: TOML to [`Options`], every mistake with the place where it is.

use std::io::{self, Read as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use groupcast_core::settings::read::{self, Written, Wrong};
use groupcast_core::settings::suggest::{did_you_mean, nearest};
use groupcast_net::open_regular;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::access;
use super::bus::BusAddress;
use super::error::{DaemonConfigError, FilePlace, Source};
use super::keys::{Key, keys};
use super::options::Options;
use super::rings;
use super::when_slow;

/// A configuration file: its options, and its text to point into.
#[derive(Clone, Debug)]
pub struct File {
    /// What it says.
    pub options: Options,
    source: Arc<Source>,
}

impl File {
    /// The longest configuration, in bytes.
    const LEN_MAX: u64 = 1 << 20;

    /// Where it was read from.
    pub(super) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Reads the file at `path`. Relative paths in it are relative to its directory.
    ///
    /// # Errors
    /// If it cannot be read, or as [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, DaemonConfigError> {
        let text = read_text(path).map_err(|source| DaemonConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut file = Self::parse(path, &text)?;
        if let Some(directory) = path.parent() {
            let options = &mut file.options;
            let paths = [
                &mut options.socket,
                &mut options.key,
                &mut options.client_token,
                &mut options.tls_certificate,
                &mut options.tls_key,
                &mut options.tls_client_ca,
                &mut options.history,
                &mut options.bus_trace,
                &mut options.spill_dir,
                &mut options.log_file,
            ];
            for named in paths.into_iter().flatten() {
                *named = directory.join(&*named);
            }
            for address in options.bus.iter_mut().flatten() {
                if let BusAddress::Unix(path) = address {
                    *path = directory.join(&*path);
                }
            }
        }
        Ok(file)
    }

    /// Reads `text` as the contents of the file at `path`.
    ///
    /// # Errors
    /// The first mistake in the order of the text: no TOML, an unknown key, or a value that its key
    /// cannot have.
    pub fn parse(path: &Path, text: &str) -> Result<Self, DaemonConfigError> {
        let source = Arc::new(Source {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        let document = DeTable::parse(text).map_err(|error| DaemonConfigError::Syntax {
            message: error.message().to_owned(),
            place: FilePlace {
                source: source.clone(),
                span: error.span().unwrap_or(0..0),
            },
        })?;
        let mut reader = Reader {
            keys: keys(),
            source: source.clone(),
            options: Options::default(),
        };
        reader.table(None, document.get_ref())?;
        Ok(Self {
            options: reader.options,
            source,
        })
    }

    /// Where the file sets the dotted `key`, if it does.
    pub fn place(&self, key: &str) -> Option<FilePlace> {
        let document = DeTable::parse(&self.source.text).ok()?;
        let mut table = document.get_ref();
        let (parents, last) = match key.rsplit_once('.') {
            Some((parents, last)) => (parents.split('.').collect(), last),
            None => (Vec::new(), key),
        };
        for parent in parents {
            table = table.get(parent).map(Spanned::get_ref)?.as_table()?;
        }
        let value: &Spanned<DeValue<'_>> = table.get(last)?;
        Some(FilePlace {
            source: self.source.clone(),
            span: value.span(),
        })
    }

    /// Where the item `index` of the list `key` stands, or the table of that number among those of
    /// this name.
    pub(super) fn place_of_item(&self, key: &str, index: usize) -> Option<FilePlace> {
        let document = DeTable::parse(&self.source.text).ok()?;
        let items = document.get_ref().get(key)?.get_ref().as_array()?;
        Some(FilePlace {
            source: self.source.clone(),
            span: items.get(index)?.span(),
        })
    }
}

/// The text of the file at `path`, if it is a regular one that is not too long.
fn read_text(path: &Path) -> io::Result<String> {
    let file = open_regular(path)?.ok_or_else(|| io::Error::other("it is not a regular file"))?;
    let mut text = String::new();
    file.take(File::LEN_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 <= File::LEN_MAX {
        true => Ok(text),
        false => Err(io::Error::other("it is longer than any configuration")),
    }
}

/// A file being read.
struct Reader {
    keys: Vec<Key>,
    source: Arc<Source>,
    options: Options,
}

impl Reader {
    /// Reads the table called `name`, or the top.
    fn table(&mut self, name: Option<&str>, table: &DeTable<'_>) -> Result<(), DaemonConfigError> {
        // In the order of the file, so that the first mistake is the one that is shown.
        let mut members: Vec<_> = table.iter().collect();
        members.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in members {
            let word = key.get_ref().as_ref();
            let dotted = match name {
                Some(table) => format!("{table}.{word}"),
                None => word.to_owned(),
            };
            let is_table = name.is_none() && self.names("").any(|table| table == dotted);
            match value.get_ref() {
                DeValue::Table(table) if is_table => self.table(Some(&dotted), table)?,
                other if is_table => {
                    let found = written(other).describe();
                    let wrong = Wrong {
                        message: format!("{found} where a table belongs"),
                        help: match dotted.as_str() {
                            "ring" => "write [ring] and its keys below, for the settings of the ring; further \
                                       rings are tables [[rings]]"
                                .to_owned(),
                            _ => format!("write [{dotted}] and its keys below"),
                        },
                    };
                    return Err(self.wrong(dotted, wrong, value.span()));
                }
                other => match self.value(&dotted, other) {
                    Some(Ok(())) => {}
                    Some(Err(wrong)) => {
                        let span = self.item_at_fault(&dotted, other);
                        let span = span.unwrap_or_else(|| value.span());
                        return Err(self.wrong(dotted, wrong, span));
                    }
                    None => return Err(self.unknown(name, word, key.span())),
                },
            }
        }
        Ok(())
    }

    /// Reads the value of the dotted `key`; nothing if there is no such key.
    fn value(&mut self, key: &str, value: &DeValue<'_>) -> Option<Result<(), Wrong>> {
        let known = self.keys.iter().find(|known| known.name == key)?;
        let read = match known.kind {
            Some(kind) => kind.read(written(value)).map(|value| {
                self.options.settings.insert(key.to_owned(), value);
            }),
            None => self.options.set(key, value),
        };
        Some(read)
    }

    /// Where the first item of a list is that by itself cannot be in it.
    fn item_at_fault(&mut self, key: &str, list: &DeValue<'_>) -> Option<std::ops::Range<usize>> {
        let DeValue::Array(items) = list else {
            return None;
        };
        let mut items = items.iter();
        let at_fault = items.find(|item| {
            let mut alone = DeArray::new();
            alone.push((*item).clone());
            matches!(self.value(key, &DeValue::Array(alone)), Some(Err(_)))
        });
        at_fault.map(Spanned::span)
    }

    /// The keys of the table `parent`; at the top, the tables.
    fn names(&self, parent: &str) -> impl Iterator<Item = &str> {
        self.keys.iter().filter_map(move |key| match parent {
            "" => key.table(),
            parent => key.name.strip_prefix(parent)?.strip_prefix('.'),
        })
    }

    fn unknown(
        &self,
        table: Option<&str>,
        key: &str,
        span: std::ops::Range<usize>,
    ) -> DaemonConfigError {
        let mut known: Vec<&str> = match table {
            Some(table) => self.names(table).collect(),
            None => {
                let top = self.keys.iter().filter(|key| key.table().is_none());
                top.map(|key| key.name.as_str())
                    .chain(self.names(""))
                    .collect()
            }
        };
        known.dedup();
        let elsewhere = || {
            let mut others = self
                .keys
                .iter()
                .filter_map(|other| Some((other.table()?, other)));
            let (table, _) = others.find(|(_, other)| other.name.ends_with(&format!(".{key}")))?;
            Some(format!("`{key}` is a key of [{table}]"))
        };
        let help = match nearest(key, known.iter().copied()) {
            Some(_) => did_you_mean(key, &known),
            None => elsewhere().unwrap_or_else(|| "docs/configuration.md lists every key".into()),
        };
        let message = match table {
            Some(table) => format!("not a key of [{table}]"),
            None => "not a key of the daemon's configuration".into(),
        };
        let dotted = table.map_or_else(|| key.to_owned(), |table| format!("{table}.{key}"));
        self.wrong(dotted, Wrong { message, help }, span)
    }

    fn wrong(&self, key: String, wrong: Wrong, span: std::ops::Range<usize>) -> DaemonConfigError {
        DaemonConfigError::Value {
            key,
            message: wrong.message,
            help: wrong.help,
            place: Some(FilePlace {
                source: self.source.clone(),
                span,
            }),
        }
    }
}

/// A value of TOML as lists of settings read it.
pub(super) fn written<'a>(value: &'a DeValue<'_>) -> Written<'a> {
    match value {
        DeValue::String(text) => Written::Text(text),
        // A number that no key could take anyway becomes a float, so that every key refuses it.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Written::Float(f64::INFINITY), Written::Integer),
        DeValue::Float(number) => Written::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Written::Flag(*flag),
        DeValue::Datetime(_) => Written::Other("a date"),
        DeValue::Array(_) => Written::Other("a list"),
        DeValue::Table(_) => Written::Other("a table"),
    }
}

impl Options {
    /// Sets a key that is in no list of settings.
    fn set(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), Wrong> {
        match key {
            "name" => self.name = Some(text(value)?.to_owned()),
            "listen" => self.listen = Some(parsed(value, "\"10.0.0.5:4810\"")?),
            "multicast" => self.multicast = Some(address(value)?),
            "ttl" => self.ttl = Some(time_to_live(value)?),
            "multicast_loop" => self.multicast_loop = Some(read::flag(written(value))?),
            "peer" => self.peer = Some(list(value, "[\"10.0.0.6:4810\"]", address)?),
            "socket" => self.socket = Some(text(value)?.into()),
            "client_listen" => self.client_listen = Some(address(value)?),
            "bus" => {
                let address = |item: &_| parsed(item, "\"127.0.0.1:4812\"");
                self.bus = Some(list(value, "[\"127.0.0.1:4812\"]", address)?);
            }
            "bus_trace" => self.bus_trace = Some(text(value)?.into()),
            "metrics" => {
                let example = match written(value) {
                    Written::Integer(port) => format!("\"{port}\""),
                    _ => "\"127.0.0.1:9812\"".to_owned(),
                };
                self.metrics = Some(parsed(value, &example)?);
            }
            "spill_dir" => self.spill_dir = Some(text(value)?.into()),
            "client_token" => self.client_token = Some(text(value)?.into()),
            "tls_certificate" => self.tls_certificate = Some(text(value)?.into()),
            "tls_key" => self.tls_key = Some(text(value)?.into()),
            "tls_client_ca" => self.tls_client_ca = Some(text(value)?.into()),
            "access" => self.access = Some(access::access(value)?),
            "when_slow" => self.when_slow = Some(when_slow::when_slow(value)?),
            "key" => self.key = Some(text(value)?.into()),
            "insecure" => self.insecure = Some(read::flag(written(value))?),
            "protocol" => self.protocol = Some(text(value)?.to_owned()),
            "rings" => self.rings = Some(rings::rings(value)?),
            "ring_pool" => self.ring_pool = Some(rings::pool(value)?),
            "history" => self.history = Some(text(value)?.into()),
            "log" => self.log = Some(text(value)?.to_owned()),
            "log_file" => self.log_file = Some(text(value)?.into()),
            "bimodal.groups" => {
                let groups = list(value, "[\"ticks\"]", |item| Ok(text(item)?.to_owned()))?;
                self.bimodal_groups = Some(groups);
            }
            _ => unreachable!("every key without a kind is set here"),
        }
        Ok(())
    }
}

pub(super) fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, Wrong> {
    text_such_as(value, "\"a name\"")
}

/// A text, of which `example` is one.
fn text_such_as<'a>(value: &'a DeValue<'_>, example: &str) -> Result<&'a str, Wrong> {
    match value {
        DeValue::String(text) => Ok(text),
        _ => written(value).mistyped("a string", example),
    }
}

fn parsed<T: FromStr<Err = String>>(value: &DeValue<'_>, example: &str) -> Result<T, Wrong> {
    text_such_as(value, example)?
        .parse()
        .map_err(|message: String| {
            let (message, help) = message.split_once(": ").unwrap_or((&message, ""));
            Wrong {
                message: message.to_owned(),
                help: help.to_owned(),
            }
        })
}

pub(super) fn address<T: FromStr>(value: &DeValue<'_>) -> Result<T, Wrong> {
    let text = text_such_as(value, "\"10.0.0.6:4810\"")?;
    text.parse().map_err(|_| Wrong {
        message: format!("`{text}` is not an address and a port"),
        help: "write them in digits, for example \"10.0.0.6:4810\"".into(),
    })
}

fn time_to_live(value: &DeValue<'_>) -> Result<u8, Wrong> {
    let number = read::number(written(value))?;
    u8::try_from(number).map_err(|_| Wrong {
        message: format!("{number} is out of range"),
        help: "use 1 to 255".into(),
    })
}

pub(super) fn list<'a, T>(
    value: &'a DeValue<'_>,
    example: &str,
    read: impl Fn(&'a DeValue<'a>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    match value {
        DeValue::Array(items) => items.iter().map(|item| read(item.get_ref())).collect(),
        _ => written(value).mistyped("a list", example),
    }
}
