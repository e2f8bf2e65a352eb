//! A configuration of every kind of setting: what is read, what is refused, what is documented.

#![expect(unreachable_pub, reason = "the macro declares public items")]

use core::time::Duration;
use std::format;
use std::string::{String, ToString as _};
use std::vec::Vec;

use super::{Kind, Needs, Preset, Setting, Settings as _, Spec, Value, Written};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Leaf {
    Green,
    Black,
}

crate::setting_words! { Leaf { "green" => Green, "black" => Black } }

crate::settings! {
    /// Settings of a kettle.
    #[derive(Clone, PartialEq, Debug)]
    pub struct KettleConfig {
        /// How long it boils,
        /// at least.
        pub boil: Duration = Duration::from_secs(3) => Spec::interval().rule("not above steep"),
            "Too small: cold. Too large: steam.";
        /// Bytes of tea.
        pub leaves: usize = 64 => Spec::size(1, 128), "Too small: water.";
        /// Which.
        pub leaf: Leaf = Leaf::Green => Spec::word(Leaf::WORDS), "A matter of taste.";
        /// How many drink it.
        pub cups: Option<u32> = None => Spec::count("cups", 1, u32::MAX).unset("as many as come"),
            "Too small: thirst.";
        /// How long it stands, if it does.
        pub steep: Option<Duration> = None, keys [STEEP, STEEP_MINUTES];
        /// Who drinks it.
        pub guests: Vec<String> = Vec::new();
    }
    presets [
        Preset { name: "plain", meaning: "Tea.", make: KettleConfig::default },
    ]
}

const STEEP: Setting<KettleConfig> = Setting {
    name: "steep",
    text: "Whether it stands.",
    spec: Spec::flag(),
    wrong: "Bitter.",
    get: |config| Some(Value::Flag(config.steep.is_some())),
    set: |config, value| config.steep = (value == Value::Flag(true)).then_some(Duration::ZERO),
    needs: None,
};

const STEEP_MINUTES: Setting<KettleConfig> = Setting {
    name: "steep_minutes",
    text: "For how long.",
    spec: Spec::count("minutes", 0, 10),
    wrong: "Bitter.",
    get: |config| Some(Value::Integer(config.steep?.as_secs() / 60)),
    set: |config, value| {
        if let Value::Integer(minutes) = value {
            config.steep = Some(Duration::from_secs(60 * minutes));
        }
    },
    needs: Some(Needs {
        what: "steep = true",
        is_met: |config| config.steep.is_some(),
    }),
};

/// Reads `written` as the setting `name` of a configuration; what is wrong and what to do, or the
/// value shown.
fn read(name: &str, written: Written<'_>) -> String {
    let setting = KettleConfig::setting(name).unwrap();
    match setting.spec.kind.read(written) {
        Ok(value) => {
            let mut config = KettleConfig::default();
            (setting.set)(&mut config, value);
            setting.shown(&config)
        }
        Err(wrong) => format!("{} | {}", wrong.message, wrong.help),
    }
}

#[test]
fn fields_become_settings_in_their_order() {
    let names: Vec<&str> = KettleConfig::settings()
        .map(|setting| setting.name)
        .collect();
    let expected = ["boil", "leaves", "leaf", "cups", "steep", "steep_minutes"];
    assert_eq!(names, expected);
    let boil = KettleConfig::setting("boil").unwrap();
    assert_eq!(boil.meaning(), "How long it boils, at least.");
    assert_eq!(boil.spec.describe(), "a duration above 0; not above steep");
    assert_eq!((KettleConfig::PRESETS[0].make)(), KettleConfig::default());
}

#[test]
fn what_is_written_is_read_and_shown_again() {
    assert_eq!(read("boil", Written::Text("1.5 s")), "`\"1500 ms\"`");
    assert_eq!(read("leaves", Written::Integer(7)), "`7`");
    assert_eq!(read("leaves", Written::Text("0.125 KiB")), "`128`");
    assert_eq!(read("leaf", Written::Text("black")), "`\"black\"`");
    assert_eq!(read("cups", Written::Integer(2)), "`2`");
    assert_eq!(read("steep", Written::Flag(false)), "`false`");
    assert_eq!(read("steep_minutes", Written::Integer(3)), "`3`");
    let cups = KettleConfig::setting("cups").unwrap();
    assert_eq!(cups.shown(&KettleConfig::default()), "as many as come");
}

#[test]
fn what_is_wrong_says_what_would_be_right() {
    for (name, written, expected) in [
        (
            "boil",
            Written::Integer(150),
            "the number 150 where a duration belongs | for example \"150 ms\"",
        ),
        (
            "boil",
            Written::Text("0 s"),
            "0 s is out of range | use a duration above 0",
        ),
        (
            "leaves",
            Written::Integer(129),
            "129 is out of range | use 1 to 128 bytes",
        ),
        (
            "leaves",
            Written::Integer(-1),
            "-1 is below 0 | use 0 or more",
        ),
        (
            "leaf",
            Written::Text("balck"),
            "there is no `balck` | did you mean `black`?",
        ),
        (
            "leaf",
            Written::Flag(true),
            "true where a word belongs | for example \"green\"",
        ),
        (
            "cups",
            Written::Integer(1 << 32),
            "4294967296 is out of range | use 1 or more",
        ),
        (
            "cups",
            Written::Float(0.5),
            "the number 0.5 where a whole number belongs | for example 8",
        ),
        (
            "steep",
            Written::Other("a list"),
            "a list where `true` or `false` belongs | for example true",
        ),
    ] {
        assert_eq!(read(name, written), expected);
    }
}

#[test]
fn a_word_or_a_quantity() {
    let kind = Kind::WordOr(&["window", "fair"], &Kind::Bandwidth { least: 8 });
    let read = |text| kind.read(Written::Text(text)).map(|value| kind.toml(value));
    assert_eq!(read("fair").unwrap(), "\"fair\"");
    assert_eq!(read("1 kb/s").unwrap(), "\"1000 b/s\"");
    let told = |text| read(text).unwrap_err();
    assert!(told("fiar").help.contains("did you mean `fair`?"));
    assert!(told("7 b/s").message.contains("out of range"));
    assert!(told("10 Mbps").help.contains("10 Mb/s"));
}

#[test]
fn a_configuration_out_of_range_is_refused_by_name() {
    let config = KettleConfig {
        leaves: 500,
        ..KettleConfig::default()
    };
    let error = config.check_ranges().unwrap_err();
    assert_eq!(error.field, "leaves");
    assert_eq!(
        error.to_string(),
        "leaves: 500 is out of range; use 1 to 128 bytes"
    );
    let error = config
        .refuse("boil", "at most steep")
        .with_remedy("use less");
    assert_eq!(error.to_string(), "boil: 3 s is out of range; use less");
}
