//! Bugs planted on purpose, for the swarm to find: how a protocol names its own.
//!
//! Each breaks one rule of a protocol. The rules themselves know nothing of it: at a few seams a
//! rule hands what it has just decided to a method of the protocol's `Plants`, which spoils it if
//! that bug is planted. Only a build with the feature `planted-bugs` can plant one, and no released
//! binary has it: elsewhere `Plants` is empty, and its methods compile to nothing.

/// The word names no planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no planted bug has this name")]
pub struct UnknownPlanted;

/// Declares `Planted`, the bugs of a protocol, each with its name on the command line.
macro_rules! planted {
    ($($(#[$about:meta])* $bug:ident = $name:literal,)*) => {
        /// A broken rule.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Planted {
            $($(#[$about])* $bug,)*
        }

        impl Planted {
            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)*
                }
            }

            /// The names of `bugs`.
            pub const fn names<const N: usize>(bugs: [Self; N]) -> [&'static str; N] {
                let mut names = [""; N];
                let mut index = 0;
                while index < N {
                    names[index] = bugs[index].name();
                    index += 1;
                }
                names
            }
        }

        impl core::str::FromStr for Planted {
            type Err = $crate::planted::UnknownPlanted;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($name => Ok(Self::$bug),)*
                    _ => Err($crate::planted::UnknownPlanted),
                }
            }
        }
    };
}

pub(crate) use planted;
