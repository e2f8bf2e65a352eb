//! What daemons say to each other in a bimodal group: three kinds of envelope, each one message of
//! the gossip.
//!
//! | envelope | layout |
//! |---|---|
//! | 1 data | client number (varint), private name of the client, payload |
//! | 2 presence | host name; count (varint) and so many clients of that host that are in the group, without `@host` |
//! | 3 labelled data | as data, but before the payload: syntax `u8`, tag as a name |
//!
//! A *name* is `u8 length | UTF-8`. Names travel with every message: nothing is agreed in these
//! groups, so nothing can be bound to numbers.

use groupcast_core::wire::{DecodeError, Reader, Writer};

use crate::frame::text::{put_name, take_name};
use crate::frame::{Label, Syntax};
use crate::name::{check_client, check_destination, check_host, is_private};

const DATA: u8 = 1;
const PRESENCE: u8 = 2;
const LABELLED: u8 = 3;

/// The most clients that a presence names.
pub(super) const NAMES_MAX: usize = 256;

/// A decoded envelope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Envelope<'a> {
    /// A client's message.
    Data {
        /// The client's number at its daemon.
        client: u64,
        /// Its private name.
        sender: &'a str,
        /// Its tag, and what the payload is written in.
        label: Label<'a>,
        /// Where its payload begins.
        payload_at: usize,
    },
    /// The clients of a daemon that are in the group.
    Presence {
        /// The daemon's name.
        host: &'a str,
        /// Names of its clients, without `@host`: at most [`NAMES_MAX`].
        clients: Vec<&'a str>,
    },
}

impl<'a> Envelope<'a> {
    /// The envelope in `bytes`; `None` if its kind is unknown, which a newer daemon may send.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Option<Self>, DecodeError> {
        let reader = &mut Reader::new(bytes);
        match reader.u8("envelope")? {
            kind @ (DATA | LABELLED) => {
                let client = reader.varint("client number")?;
                let sender = take_name(reader, "sender")?;
                if !is_private(sender) || check_destination(sender).is_err() {
                    return Err(reader.invalid("sender", sender.len() as u64));
                }
                let label = match kind {
                    LABELLED => Label {
                        syntax: Syntax::take(reader)?,
                        tag: take_name(reader, "tag")?,
                    },
                    _ => Label::NONE,
                };
                Ok(Some(Self::Data {
                    client,
                    sender,
                    label,
                    payload_at: reader.position(),
                }))
            }
            PRESENCE => {
                let host = take_name(reader, "host")?;
                if check_host(host).is_err() {
                    return Err(reader.invalid("host", host.len() as u64));
                }
                let count = reader.varint("clients")?;
                if count > NAMES_MAX as u64 {
                    return Err(reader.invalid("clients", count));
                }
                let clients = (0..count)
                    .map(|_| {
                        let name = take_name(reader, "client")?;
                        match check_client(name) {
                            Ok(()) => Ok(name),
                            Err(_) => Err(reader.invalid("client", name.len() as u64)),
                        }
                    })
                    .collect::<Result<_, _>>()?;
                reader.finish()?;
                Ok(Some(Self::Presence { host, clients }))
            }
            _ => Ok(None),
        }
    }
}

/// Appends a data envelope up to its payload.
pub(super) fn encode_data_head(
    bytes: &mut Vec<u8>,
    client: u64,
    sender: &str,
    label: Option<Label<'_>>,
) {
    let writer = &mut Writer::new(bytes);
    let kind = label.map_or(DATA, |_| LABELLED);
    put_name(writer.u8(kind).varint(client), sender);
    if let Some(label) = label {
        put_name(writer.u8(label.syntax as u8), label.tag);
    }
}

/// Appends the presence of `clients` (names without `@host`) at `host`; the first [`NAMES_MAX`] of
/// them.
pub(super) fn encode_presence<'a>(
    bytes: &mut Vec<u8>,
    host: &str,
    clients: impl ExactSizeIterator<Item = &'a str>,
) {
    let writer = &mut Writer::new(bytes);
    put_name(writer.u8(PRESENCE), host);
    writer.varint(clients.len().min(NAMES_MAX) as u64);
    for name in clients.take(NAMES_MAX) {
        put_name(writer, name);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let mut bytes = Vec::new();
        encode_data_head(&mut bytes, 300, "al@h", None);
        assert_eq!(bytes, [1, 0xac, 2, 4, b'a', b'l', b'@', b'h']);
        bytes.clear();
        let label = Label {
            tag: "up",
            syntax: Syntax::Sexp,
        };
        encode_data_head(&mut bytes, 7, "al@h", Some(label));
        let syntax = Syntax::Sexp as u8;
        assert_eq!(
            bytes,
            [3, 7, 4, b'a', b'l', b'@', b'h', syntax, 2, b'u', b'p']
        );
        assert_eq!(
            Envelope::decode(&bytes),
            Ok(Some(Envelope::Data {
                client: 7,
                sender: "al@h",
                label,
                payload_at: bytes.len(),
            }))
        );
        bytes.clear();
        encode_presence(&mut bytes, "h", ["al", "bo"].into_iter());
        assert_eq!(bytes, [2, 1, b'h', 2, 2, b'a', b'l', 2, b'b', b'o']);
        let clients = vec!["al", "bo"];
        assert_eq!(
            Envelope::decode(&bytes),
            Ok(Some(Envelope::Presence { host: "h", clients }))
        );
    }

    #[test]
    fn a_presence_is_bounded_however_many_there_are() {
        let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
        let mut bytes = Vec::new();
        encode_presence(&mut bytes, "h", names.iter().map(String::as_str));
        let Ok(Some(Envelope::Presence { clients, .. })) = Envelope::decode(&bytes) else {
            panic!("not a presence");
        };
        assert_eq!(clients.len(), NAMES_MAX);
        // A count that no bytes stand behind.
        assert!(Envelope::decode(&[2, 1, b'h', 0xff, 0xff, 0x7f]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(kind in 0u8..5, mut bytes: Vec<u8>) {
            bytes.insert(0, kind);
            if let Ok(Some(Envelope::Data { payload_at, .. })) = Envelope::decode(&bytes) {
                prop_assert!(payload_at <= bytes.len());
            }
        }
    }
}
