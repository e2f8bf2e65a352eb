//! Names of groups, clients and daemons: the rules for them, and private names.
//!
//! - A *group* is named by 1 to 255 bytes of UTF-8 without control characters and without `@`.
//!   Users may make names hierarchical with `/`; here it is a letter like any other.
//! - A *client* and a *host* (a daemon) are named alike, by at most 127 bytes.
//! - A *private name*, `client@host`, addresses one client. `@` occurs in no group's name, so a
//!   private name cannot be joined.

use std::fmt;

use groupcast_core::text::is_visible;

/// The most bytes of a group's name.
pub const GROUP_NAME_MAX: usize = 255;
/// The most bytes of a client's name, without `@host`.
pub const CLIENT_NAME_MAX: usize = 127;
/// The most bytes of a daemon's name.
pub const HOST_NAME_MAX: usize = 127;

/// Why a name is not allowed. The text says what is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// No letters at all.
    #[error("the name of a {what} must not be empty: give it 1 to {max} bytes")]
    Empty {
        /// What the name is for.
        what: NameKind,
        /// The most bytes.
        max: usize,
    },
    /// Too many bytes.
    #[error(
        "the name of a {what} has {len} bytes, at most {max} are allowed: choose a shorter one"
    )]
    TooLong {
        /// What the name is for.
        what: NameKind,
        /// How many it has.
        len: usize,
        /// The most bytes.
        max: usize,
    },
    /// A control character, such as a newline, or one that cannot be seen: two names that differ in
    /// it look alike.
    #[error(
        "the name of a {what} must not contain control characters or others that cannot be seen (byte {at} begins one)"
    )]
    Control {
        /// What the name is for.
        what: NameKind,
        /// Its offset in bytes.
        at: usize,
    },
    /// An `@` where it is not allowed.
    #[error(
        "the name {name:?} contains '@', which only private names (client@host) have: choose another for the {what}"
    )]
    At {
        /// What the name is for.
        what: NameKind,
        /// The name.
        name: String,
    },
    /// A private name without a client or without a host.
    #[error("{name:?} is not a private name: those read client@host")]
    NotPrivate {
        /// The name.
        name: String,
    },
}

/// What a name is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameKind {
    /// A group.
    Group,
    /// A client.
    Client,
    /// A daemon.
    Host,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "group",
            Self::Client => "client",
            Self::Host => "daemon",
        })
    }
}

/// Whether a group may be called `name`.
pub fn check_group(name: &str) -> Result<(), NameError> {
    check(NameKind::Group, GROUP_NAME_MAX, name)
}

/// Whether a client may be called `name` (without `@host`).
pub fn check_client(name: &str) -> Result<(), NameError> {
    check(NameKind::Client, CLIENT_NAME_MAX, name)
}

/// Whether a daemon may be called `name`.
pub fn check_host(name: &str) -> Result<(), NameError> {
    check(NameKind::Host, HOST_NAME_MAX, name)
}

/// Whether a message may be sent to `name`: a group or a private name.
pub fn check_destination(name: &str) -> Result<(), NameError> {
    let Some((client, host)) = name.split_once('@') else {
        return check_group(name);
    };
    if client.is_empty() || host.is_empty() {
        return Err(NameError::NotPrivate { name: name.into() });
    }
    check_client(client)?;
    check_host(host)
}

/// Whether `name` is a private name rather than a group.
pub fn is_private(name: &str) -> bool {
    name.contains('@')
}

/// The private name of `client` at `host`.
pub fn private(client: &str, host: &str) -> String {
    format!("{client}@{host}")
}

fn check(what: NameKind, max: usize, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what, max });
    }
    if name.len() > max {
        return Err(NameError::TooLong {
            what,
            len: name.len(),
            max,
        });
    }
    // The common name is plain ASCII: one pass over its bytes settles it.
    for (at, letter) in name.char_indices() {
        if !is_visible(letter) {
            return Err(NameError::Control { what, at });
        }
        if letter == '@' {
            return Err(NameError::At {
                what,
                name: name.into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_hierarchical_utf8_without_at_and_control_characters() {
        assert_eq!(check_group("sensors/kitchen/温度 1"), Ok(()));
        assert_eq!(check_group(&"x".repeat(255)), Ok(()));
        assert!(matches!(check_group(""), Err(NameError::Empty { .. })));
        assert!(matches!(
            check_group(&"é".repeat(128)),
            Err(NameError::TooLong { len: 256, .. })
        ));
        assert!(matches!(
            check_group("a\nb"),
            Err(NameError::Control { at: 1, .. })
        ));
        for unseen in ["a\u{7f}", "a\u{9b}", "a\u{202e}b", "a\u{200b}", "a\u{feff}"] {
            assert!(
                matches!(check_group(unseen), Err(NameError::Control { at: 1, .. })),
                "{unseen:?}"
            );
        }
        assert!(matches!(
            check_group("alice@host"),
            Err(NameError::At { .. })
        ));
    }

    #[test]
    fn a_private_name_has_a_client_and_a_host() {
        assert_eq!(check_destination("alice@host-1"), Ok(()));
        assert_eq!(check_destination("room"), Ok(()));
        for bad in ["@host", "alice@", "a@b@c", "@"] {
            assert!(check_destination(bad).is_err(), "{bad}");
        }
        assert!(private(&"c".repeat(127), &"h".repeat(127)).len() <= GROUP_NAME_MAX);
    }
}
