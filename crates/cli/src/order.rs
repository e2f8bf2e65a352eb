//! The option that names the protocol that orders messages.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use groupcast_core::family::OrderFamily;
use groupcast_protocols::registry::{self, ORDERED};

/// Reads the name of a protocol that orders messages; a wrong one is a usage error that lists them.
pub(crate) fn parser() -> impl TypedValueParser<Value = &'static OrderFamily> {
    let names = ORDERED.iter().map(|order| order.name());
    PossibleValuesParser::new(names)
        .map(|name| registry::order(&name).expect("only names of the list are possible"))
}

/// The name of the default protocol.
pub(crate) fn usual() -> &'static str {
    ORDERED[0].name()
}
