//! All keys of a configuration file, in the order of the document, with what there is to know of
//! each.
//!
//! The keys of the tables come from the lists of the parts that they configure: `[clients]` and a
//! part of `[bimodal]` from the group engine's, `[net]` from the driver's, `[ring]`, `[rmp]` and
//! the rest of `[bimodal]` from the protocols', `[process]` from the daemon's own. Only the keys at
//! the top, the presets and `bimodal.groups` are written down here.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::LazyLock;

use groupcast_core::family::OrderFamily;
use groupcast_core::settings::{Kind, Setting, SettingState, Settings};
use groupcast_net::EndpointConfig;
use groupcast_protocols::gossip::GossipConfig;
use groupcast_protocols::registry::ORDERED;
use groupcast_session::EngineConfig;

use super::order::order_key;
use super::{LISTEN_PORT, MULTICAST, ProcessConfig, top};

/// What there is to know of a key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Dotted: the table, if it is in one, and the key.
    pub name: String,
    /// What it decides.
    pub meaning: String,
    /// What kind of value, in which unit, in which range.
    pub value: String,
    /// The default: as TOML in backquotes, or in words where it is found out at the start.
    pub default: String,
    /// What goes wrong when it is too small or too large, or otherwise wrong.
    pub wrong: String,
    /// What values it takes, where it is a setting of a list.
    pub(super) kind: Option<Kind>,
}

/// The names of the presets of each protocol of [`ORDERED`], as words of a key.
static PRESETS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    let names = |order: &&OrderFamily| order.presets().iter().map(|it| it.name).collect();
    ORDERED.iter().map(names).collect()
});

/// All keys.
pub fn keys() -> Vec<Key> {
    let mut keys: Vec<Key> = top::TOP.iter().map(Key::from).collect();
    let engine = EngineConfig::default();
    let (of_bimodal, of_clients): (Vec<_>, Vec<_>) = EngineConfig::settings()
        .map(|setting| Key::new(engine_key(setting.name), setting, &engine))
        .partition(|key| key.name.starts_with("bimodal."));
    keys.extend(of_clients);
    keys.extend(of::<EndpointConfig>("net", &usual_endpoint()));
    for (order, presets) in ORDERED.iter().zip(&*PRESETS) {
        keys.extend(of_order(order, presets));
    }
    keys.push(groups());
    keys.extend(of_bimodal);
    keys.extend(of::<GossipConfig>("bimodal", &GossipConfig::lan()));
    keys.extend(of::<ProcessConfig>("process", &ProcessConfig::default()));
    keys
}

/// The keys of the table of a protocol that orders messages; `presets` are their names.
fn of_order(order: &OrderFamily, presets: &'static [&'static str]) -> Vec<Key> {
    let mut keys = vec![preset(order, presets)];
    let usual = order.daemon_config(None).map(|config| config.list());
    let settings = usual.into_iter().flatten();
    let settings = settings.filter(|setting| !setting.spec.is_experimental);
    keys.extend(settings.map(|setting| Key::of_state(order_key(order, setting.name), &setting)));
    let body_max = order_key(order, "body_max");
    if let Some(key) = keys.iter_mut().find(|key| key.name == body_max) {
        key.default += ", or what the interface takes in one piece if that is less";
    }
    keys
}

/// The keys of the table `table`, whose defaults are those of `usual`.
fn of<C: Settings>(table: &str, usual: &C) -> Vec<Key> {
    in_daemon::<C>()
        .map(|setting| Key::new(format!("{table}.{}", setting.name), setting, usual))
        .collect()
}

/// The settings that a daemon's configuration has.
pub(super) fn in_daemon<C: Settings>() -> impl Iterator<Item = &'static Setting<C>> {
    C::settings().filter(|setting| !setting.spec.is_experimental)
}

/// The dotted key of the group engine's setting called `field`.
pub(super) fn engine_key(field: &str) -> String {
    match (
        field.strip_prefix("bimodal_"),
        field.strip_prefix("clients_"),
    ) {
        (Some(key), _) => format!("bimodal.{key}"),
        (None, Some(key)) => format!("clients.{key}"),
        (None, None) => format!("clients.{field}"),
    }
}

/// An endpoint as it is unless told otherwise.
fn usual_endpoint() -> EndpointConfig {
    EndpointConfig::multicast(
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, LISTEN_PORT),
        MULTICAST,
    )
}

fn preset(order: &OrderFamily, names: &'static [&'static str]) -> Key {
    let presets = order.presets();
    let meanings = presets.iter();
    let meanings = meanings.map(|preset| format!("`{}`: {}", preset.name, preset.meaning));
    let words: Vec<String> = names.iter().map(|word| format!("`\"{word}\"`")).collect();
    Key {
        name: order_key(order, "preset"),
        meaning: format!(
            "Which settings the others of this table are laid over. {}. The defaults below are those of `{}`.",
            meanings.collect::<Vec<_>>().join(". "),
            names[0]
        ),
        value: words.join(" or "),
        default: words[0].clone(),
        wrong: "`lan` on slow links: configurations break and form again without end. `wan` on fast ones: six times \
                the time to notice a crash, or more."
            .into(),
        kind: Some(Kind::Word(names)),
    }
}

fn groups() -> Key {
    Key {
        name: "bimodal.groups".into(),
        meaning: "The bimodal groups: gossip carries them instead of the ring, in each sender's order; lost messages \
                  are reported, and no member waits for another. Publish to them with `--service bimodal`."
            .into(),
        value: "list of names of groups, at most 64".into(),
        default: "`[]`".into(),
        wrong: "A group that is not in the lists of all daemons whose clients use it: daemons without it refuse to \
                publish to it as `bimodal`, and refuse joins once they have heard of it. Each group costs every daemon \
                a few datagrams a second."
            .into(),
        kind: None,
    }
}

impl Key {
    fn new<C>(name: String, setting: &Setting<C>, usual: &C) -> Self {
        Self {
            name,
            meaning: setting.meaning(),
            value: setting.spec.describe(),
            default: setting.shown(usual),
            wrong: setting.wrong.to_owned(),
            kind: Some(setting.spec.kind),
        }
    }

    fn of_state(name: String, setting: &SettingState) -> Self {
        Self {
            name,
            meaning: setting.meaning.clone(),
            value: setting.spec.describe(),
            default: setting.shown(),
            wrong: setting.wrong.to_owned(),
            kind: Some(setting.spec.kind),
        }
    }

    /// The table that it is in, if it is in one.
    pub fn table(&self) -> Option<&str> {
        self.name.split_once('.').map(|(table, _)| table)
    }

    /// The default as TOML, if it is a constant.
    pub fn default_toml(&self) -> Option<&str> {
        let (value, rest) = self.default.strip_prefix('`')?.split_once('`')?;
        rest.is_empty().then_some(value)
    }
}

impl From<&top::TopKey> for Key {
    fn from(key: &top::TopKey) -> Self {
        Self {
            name: key.name.into(),
            meaning: key.meaning.into(),
            value: key.value.into(),
            default: key.default.into(),
            wrong: key.wrong.into(),
            kind: None,
        }
    }
}
