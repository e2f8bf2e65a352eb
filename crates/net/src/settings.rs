//! The settings of an endpoint that files can have.

use groupcast_core::settings::{Kind, Setting, SettingField, Settings, Spec, Value};

use crate::config::{EndpointConfig, Spin};

/// A setting that is a field of [`EndpointConfig`].
macro_rules! field {
    ($field:ident, $spec:expr, $text:literal, $wrong:literal) => {
        Setting {
            name: stringify!($field),
            text: $text,
            spec: $spec,
            wrong: $wrong,
            get: |config| config.$field.to_value(),
            set: |config, value| {
                if let Some(value) = SettingField::from_value(value) {
                    config.$field = value;
                }
            },
            needs: None,
        }
    };
}

impl Settings for EndpointConfig {
    const FIELDS: &'static [&'static [Setting<Self>]] = &[&[
        field!(
            copies_max,
            Spec::count("daemons", 0, 256),
            "The most daemons without multicast (those that have `peer`) that this one admits where it has multicast: \
             each gets a unicast copy of every multicast.",
            "Too small: such a daemon is not let in, as the log says, and those that admit it and those that do not \
             waver; have the same at all. Too large: every datagram may leave so many times."
        ),
        field!(
            receive_buffer,
            Spec::size(0, u64::MAX).rule(
                "the kernel gives no more than net.core.rmem_max unless the process may exceed it, and a warning says so"
            ),
            "Bytes of receive buffer to ask the kernel for, for data.",
            "Too small: datagrams are lost, and sent again, whenever the process does not run for a while. Too large: \
             memory."
        ),
        field!(
            send_buffer,
            Spec::size(0, u64::MAX),
            "Bytes of send buffer to ask for.",
            "Too small: sends wait for the device more often. Larger than the device's queue (commonly 1,000 packets): \
             a busy link drops datagrams instead of slowing the sender down."
        ),
        field!(
            offload,
            Spec::flag(),
            "Whether to use segmentation offload on sending and coalescing on receipt. Where the kernel or the device \
             refuses, it falls back by itself.",
            "False: several times the processor time a datagram. True with a broken device driver: losses."
        ),
        field!(
            segments_max,
            Spec::count("datagrams", 1, 64),
            "The most datagrams in one send.",
            "Too small: more system calls. Too large: long bursts, which small buffers drop whole."
        ),
        field!(
            receive_max,
            Spec::count("datagrams", 1, 65_536),
            "About how many datagrams are taken in one turn before clients get theirs.",
            "Too small: more turns, less batching. Too large: clients wait while the network is busy."
        ),
        field!(
            send_patience,
            Spec::time(),
            "How long a batch waits for room in the send buffer before it is dropped, and recovered like any other \
             loss.",
            "Too small: needless losses on a busy link. Too large: the token waits with it, up to the loss of the ring."
        ),
        field!(
            spin,
            Spec::of(Kind::WordOr(&["auto", "off"], &Spec::time().kind)),
            "Whether to poll the sockets for a while before sleeping: waking up costs some 40 microseconds, polling \
             costs a core. `auto`: after traffic, where the process may use more than four cores.",
            "Polling where processes outnumber cores: all of them become slower."
        ),
    ]];
}

impl SettingField for Spin {
    fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Auto => Value::Word("auto"),
            Self::Off => Value::Word("off"),
            Self::For(time) => Value::Time(*time),
        })
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Word("auto") => Some(Self::Auto),
            Value::Word("off") => Some(Self::Off),
            Value::Time(time) => Some(Self::For(time)),
            _ => None,
        }
    }
}
