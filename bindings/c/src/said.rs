//! What a connection has set and accepted, to say it again to a new one.

use crate::words;

/// Commands that set what holds from then on; the last of each counts.
const SETTINGS: [&str; 6] = ["id", "loop-back", "service", "syntax", "views", "from"];

/// The commands that hold.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Settings first: they hold for what the patterns bring.
    commands: Vec<Command>,
}

#[derive(PartialEq, Eq, Debug)]
struct Command {
    name: String,
    /// Tag and domain of an `accept`; the one argument of a setting.
    arguments: Vec<String>,
    line: String,
}

impl Said {
    /// The lines to be said again, in their order.
    pub(crate) fn lines(&self) -> Vec<String> {
        let commands = self.commands.iter();
        commands.map(|command| command.line.clone()).collect()
    }

    /// The word of the last `syntax`.
    pub(crate) fn syntax(&self) -> Option<&str> {
        let mut commands = self.commands.iter();
        let set = commands.find(|command| command.name == "syntax")?;
        set.arguments.first().map(String::as_str)
    }

    /// Notes the command `name` that was carried out as `line`.
    pub(crate) fn note(&mut self, name: &str, line: &str) {
        let words = words::read(line).unwrap_or_default();
        // `ring` at the end of an `accept` is how the domain is joined, not what is accepted.
        let asks_for_ring = words.len() > 3;
        let arguments: Vec<String> = words.into_iter().skip(1).take(2).collect();
        let is_accept = |it: &Command| it.name == "accept" && it.arguments == arguments;
        match name {
            "accept" => {
                if let Some(known) = self.commands.iter_mut().find(|it| is_accept(it)) {
                    if asks_for_ring {
                        known.line = line.to_owned();
                    }
                    return;
                }
            }
            "reject" => {
                self.commands.retain(|it| !is_accept(it));
                return;
            }
            name if SETTINGS.contains(&name) => self.commands.retain(|it| it.name != name),
            _ => return,
        }
        let at = match name {
            "accept" => self.commands.len(),
            _ => 0,
        };
        let command = Command {
            name: name.to_owned(),
            arguments,
            line: line.to_owned(),
        };
        self.commands.insert(at, command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_said_again_and_nothing_else() {
        let mut said = Said::default();
        for (name, line) in [
            ("accept", "accept \"x y\" d"),
            ("accept", "accept * e"),
            ("accept", "accept \"x y\" d"),
            ("reject", "reject \"*\" e"),
            ("syntax", "syntax cstream"),
            ("syntax", "syntax sexp"),
            ("info", "info"),
            ("id", "id me"),
        ] {
            said.note(name, line);
        }
        assert_eq!(said.lines(), ["id me", "syntax sexp", "accept \"x y\" d"]);
        assert_eq!(said.syntax(), Some("sexp"));
    }

    #[test]
    fn a_ring_is_asked_for_again_until_it_is_taken_back() {
        let mut said = Said::default();
        for line in [
            "accept * a ring",
            "accept * b",
            "accept * b ring",
            "accept * c ring",
            "accept * c",
        ] {
            said.note("accept", line);
        }
        said.note("reject", "reject * a");
        assert_eq!(said.lines(), ["accept * b ring", "accept * c ring"]);
    }

    #[test]
    fn a_domain_may_begin_as_a_sender_does_and_a_tag_may_hold_commas() {
        let mut said = Said::default();
        for line in [
            "accept t d",
            "accept t from=d",
            "accept a,b d",
            "accept \"a\" d",
        ] {
            said.note("accept", line);
        }
        said.note("reject", "reject \"a,b\" d");
        said.note("reject", "reject t \"from=d\"");
        assert_eq!(said.lines(), ["accept t d", "accept \"a\" d"]);
    }
}
