//! The rules of `[[access]]`: which clients may do what.

use std::fs;

use groupcast_core::settings::read::{self, Wrong};
use groupcast_core::settings::suggest::{alternatives, did_you_mean, nearest};
use groupcast_session::groups::{Access, Principal, Right, Rule};
use groupcast_session::name::check_destination;
use toml::de::{DeTable, DeValue};

use super::file::{list, text, written};

/// The keys of a rule.
const KEYS: [&str; 5] = ["groups", "users", "certificates", "tcp", "rights"];
/// The file of the system's users.
const USERS: &str = "/etc/passwd";

/// Reads all rules.
pub(super) fn access(value: &DeValue<'_>) -> Result<Access, Wrong> {
    let rules = list(value, "[[access]]", |item| match item {
        DeValue::Table(table) => rule(table),
        other => written(other).mistyped("a table", "{ users = [\"root\"], rights = [\"rekey\"] }"),
    })?;
    Ok(Access(rules))
}

fn rule(table: &DeTable<'_>) -> Result<Rule, Wrong> {
    let mut rule = Rule {
        groups: Vec::new(),
        who: Vec::new(),
        rights: Vec::new(),
    };
    for (key, value) in table {
        let value = value.get_ref();
        match key.get_ref().as_ref() {
            "groups" => {
                rule.groups = list(value, "[\"ops/*\"]", group)?;
            }
            "users" => rule.who.extend(list(value, "[\"root\", 1000]", user)?),
            "certificates" => {
                let names = list(value, "[\"web.example\"]", |item| certificate(text(item)?))?;
                rule.who.extend(names);
            }
            "tcp" if read::flag(written(value))? => rule.who.push(Principal::Tcp),
            "tcp" => {}
            "rights" => rule.rights = list(value, "[\"join\", \"send\"]", right)?,
            other => {
                return Err(Wrong {
                    message: format!("`{other}` is not a key of a rule"),
                    help: did_you_mean(other, &KEYS),
                });
            }
        }
    }
    let of_groups = rule.rights.iter().any(|right| *right != Right::Rekey);
    if of_groups == rule.groups.is_empty() {
        return Err(Wrong {
            message: "a rule names groups if it gives `join` or `send`, and else none".into(),
            help: "for example groups = [\"ops/*\"] and rights = [\"join\", \"send\"]".into(),
        });
    }
    let at_the_socket = |principal: &Principal| matches!(principal, Principal::User(_));
    if rule.rights.contains(&Right::Rekey) && !rule.who.iter().all(at_the_socket) {
        return Err(Wrong {
            message: "a daemon takes a new key over its Unix socket only".into(),
            help: "give `rekey` to `users`, in a rule of their own".into(),
        });
    }
    Ok(rule)
}

/// A name or a pattern in `groups`. A rule for what no group is called is a rule for none.
pub(super) fn group(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = text(value)?;
    match check_destination(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(error) => Err(Wrong {
            message: format!("`groups` holds {name:?}, which no group is called: {error}"),
            help: "write a group's name, \"ops/*\" for all that begin so, or \"*\" for all groups"
                .into(),
        }),
    }
}

/// The principal of clients with a certificate for `name`.
fn certificate(name: &str) -> Result<Principal, Wrong> {
    let is_name = name.contains(|letter: char| letter.is_ascii_alphabetic())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'));
    if is_name {
        return Ok(Principal::Certificate(name.to_owned()));
    }
    Err(Wrong {
        message: format!("`{name}` is no DNS name"),
        help: "write a whole name as it stands in the certificate, for example web.example".into(),
    })
}

fn right(value: &DeValue<'_>) -> Result<Right, Wrong> {
    let word = text(value)?;
    let known = Right::WORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, right)| *right).ok_or_else(|| Wrong {
        message: format!("`{word}` is no right"),
        help: meant(word),
    })
}

/// A suggestion for a wrong right: the one that was meant, or the list of all. A `read` does not
/// suggest `send`, although only two letters differ.
fn meant(word: &str) -> String {
    let words = Right::WORDS.map(|(word, _)| word);
    let alike = words
        .into_iter()
        .filter(|known| known.chars().next() == word.chars().next());
    match nearest(word, alike) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("use {}", alternatives(&words)),
    }
}

fn user(value: &DeValue<'_>) -> Result<Principal, Wrong> {
    if let DeValue::Integer(_) = value {
        let number = read::number(written(value))?;
        return u32::try_from(number)
            .map(Principal::User)
            .map_err(|_| Wrong {
                message: format!("{number} is no user's number"),
                help: "write what `id -u USER` says".into(),
            });
    }
    let name = text(value)?;
    let users = fs::read_to_string(USERS).unwrap_or_default();
    number_of(name, &users)
        .map(Principal::User)
        .ok_or_else(|| no_user(name))
}

/// Why `name` is no user's.
fn no_user(name: &str) -> Wrong {
    match name.parse::<u32>() {
        Ok(number) => Wrong {
            message: format!(
                "{name:?} in quotes is a user's name, and {USERS} has none that is called so"
            ),
            help: format!(
                "if it is the user's number, write it without quotes: users = [{number}]"
            ),
        },
        Err(_) => Wrong {
            message: format!("there is no user `{name}` in {USERS}"),
            help: "write the user's number, which `id -u USER` says".into(),
        },
    }
}

/// The number of the user called `name` in the text of a file like `/etc/passwd`.
fn number_of(name: &str, users: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0::/root:/bin/sh\nal:x:1000:100::/:\nbroken\n";
        assert_eq!(number_of("root", users), Some(0));
        assert_eq!(number_of("al", users), Some(1000));
        for none in ["a", "alice", "broken", ""] {
            assert_eq!(number_of(none, users), None, "{none}");
        }
    }
}
