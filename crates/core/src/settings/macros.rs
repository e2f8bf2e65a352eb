//! The declaration of a configuration.

/// Declares a configuration and the list of its settings, each in one place.
///
/// A field is `pub name: Type = default`, and, where files can set it, `=> spec, "what goes
/// wrong"`. The field's own documentation is the setting's meaning; default and what goes wrong are
/// added to it. A field that files set by other keys than its own ends in `, keys [...]` with
/// constants of type [`Setting`](crate::settings::Setting). A field ends in `;`.
///
/// ```
/// use core::time::Duration;
/// use groupcast_core::settings::{Settings as _, Spec};
///
/// groupcast_core::settings! {
///     /// Settings of a kettle.
///     #[derive(Clone, Debug)]
///     pub struct KettleConfig {
///         /// How long it boils.
///         pub boil: Duration = Duration::from_secs(3) => Spec::interval(),
///             "Too small: cold tea. Too large: steam.";
///         /// Who drinks it.
///         pub guests: Vec<String> = Vec::new();
///     }
/// }
///
/// let kettle = KettleConfig::default();
/// assert!(kettle.check_ranges().is_ok());
/// let boil = KettleConfig::settings().next().unwrap();
/// assert_eq!((boil.name, boil.shown(&kettle).as_str()), ("boil", "`\"3 s\"`"));
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$outer:meta])*
        pub struct $config:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[cfg($($cfg:tt)*)])?
                pub $field:ident: $type:ty = $default:expr
                    $(=> $spec:expr, $wrong:literal)?
                    $(, keys [$($key:expr),* $(,)?])?
                ;
            )*
        }
        $(presets [$($preset:expr),* $(,)?])?
    ) => {
        $(#[$outer])*
        pub struct $config {
            $(
                $(#[doc = $doc])*
                #[doc = concat!("\n\nDefault: `", stringify!($default), "`.")]
                $(#[doc = $wrong])?
                $(#[cfg($($cfg)*)])?
                pub $field: $type,
            )*
        }

        impl Default for $config {
            fn default() -> Self {
                Self {
                    $(
                        $(#[cfg($($cfg)*)])?
                        $field: $default,
                    )*
                }
            }
        }

        impl $crate::settings::Settings for $config {
            const FIELDS: &'static [&'static [$crate::settings::Setting<Self>]] = &[$(
                $crate::settings!(
                    @keys $field [$($doc)*] [$($spec, $wrong)?] [$($($key),*)?]
                ),
            )*];

            $(const PRESETS: &'static [$crate::settings::Preset<Self>] = &[$($preset),*];)?
        }
    };

    // The keys by which files set a field: its own, and others.
    (@keys $field:ident [$($doc:literal)*] [$spec:expr, $wrong:literal] [$($key:expr),*]) => {
        &[
            $crate::settings::Setting {
                name: stringify!($field),
                text: concat!($($doc, "\n"),*),
                spec: $spec,
                wrong: $wrong,
                get: |config| $crate::settings::SettingField::to_value(&config.$field),
                set: |config, value| {
                    if let Some(value) = $crate::settings::SettingField::from_value(value) {
                        config.$field = value;
                    }
                },
                needs: None,
            },
            $($key,)*
        ]
    };
    (@keys $field:ident [$($doc:literal)*] [] [$($key:expr),*]) => {
        &[$($key,)*]
    };
}

/// Gives the variants of an enum without data the words by which files name them, so that a field
/// of it can be a setting.
///
/// ```
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// pub enum Tea { Green, Black }
///
/// groupcast_core::setting_words! { Tea { "green" => Green, "black" => Black } }
///
/// assert_eq!(Tea::WORDS, ["green", "black"]);
/// ```
#[macro_export]
macro_rules! setting_words {
    ($type:ident { $($word:literal => $variant:ident),* $(,)? }) => {
        impl $type {
            /// The words by which files name them.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
        }

        impl $crate::settings::SettingField for $type {
            fn to_value(&self) -> Option<$crate::settings::Value> {
                Some($crate::settings::Value::Word(match self {
                    $(Self::$variant => $word,)*
                }))
            }

            fn from_value(value: $crate::settings::Value) -> Option<Self> {
                match value {
                    $($crate::settings::Value::Word($word) => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
