//! What a connection has seen, and how a word that is being typed may go on: commands, tags,
//! domains, and the ids and private names of clients.
//!
//! Names are kept as the bus writes them, with quotes where it needs them, so that what is put in
//! is what the bus reads.

use std::collections::{BTreeSet, VecDeque};

use groupcast_core::text::printable;
use groupcast_session::bus::USAGES;

/// Names that are kept of each kind; the oldest is forgotten.
const NAMES_MAX: usize = 1000;
/// Bytes of a name as it is written; a longer one is not kept.
const NAME_LEN_MAX: usize = 1024;
/// What `service` takes; `k-resilient` wants a number.
const SERVICES: [&str; 9] = [
    "unreliable",
    "reliable",
    "fifo",
    "causal",
    "agreed",
    "k-resilient:",
    "majority",
    "safe",
    "bimodal",
];

/// Names that were seen.
#[derive(Default, Debug)]
pub(super) struct Seen {
    tags: Names,
    domains: Names,
    /// Ids and private names; they are domains too.
    clients: Names,
}

/// What could stand at the cursor.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Completion {
    /// What all candidates have in common behind what is typed already, and a blank behind the
    /// only one.
    pub(super) more: String,
    /// The candidates, if there are several.
    pub(super) candidates: Vec<String>,
}

impl Seen {
    /// Takes note of a line of the bus.
    pub(super) fn hear(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let words = split(line.trim_end(), ' ');
        match words[..] {
            ["bus", _, name, ..] => self.clients.add(name),
            ["msg", tag, domains, ref options @ ..] => {
                self.tags.add(tag);
                self.domains(domains);
                let senders = options.iter().filter_map(|it| it.strip_prefix("from="));
                senders.for_each(|sender| self.clients.add(sender));
            }
            ["view", domain, _, _, ref clients @ ..] => {
                self.domains.add(domain);
                clients.iter().for_each(|client| self.clients.add(client));
            }
            ["gap", domain, ..] => self.domains.add(domain),
            // Not the numbers of `clients` and `help`, nor what `info` says.
            ["ok", ref clients @ ..] => clients
                .iter()
                .filter(|it| !it.contains('=') && it.parse::<u64>().is_err())
                .for_each(|client| self.clients.add(client)),
            // Of `clients`; what `help` says begins with no private name.
            ["", name, id, ref domains @ ..] if name.contains('@') => {
                self.clients.add(name);
                self.clients.add(id);
                domains.iter().for_each(|domain| self.domains.add(domain));
            }
            _ => {}
        }
    }

    /// Takes note of a line that was typed.
    pub(super) fn say(&mut self, line: &str) {
        match split(line, ' ')[..] {
            ["accept" | "reject", tag, domain] => {
                self.tags.add(tag);
                self.domains.add(domain);
            }
            ["ping", _, domain] => self.domains.add(domain),
            ["msg", tag, domains, _, ..] => {
                self.tags.add(tag);
                self.domains(domains);
            }
            ["id", name] => self.clients.add(name),
            _ => {}
        }
    }

    /// How the last word of `before` may go on.
    pub(super) fn complete(&self, before: &str) -> Completion {
        let words = split(before, ' ');
        let (begun, earlier) = words.split_last().unwrap_or((&"", &[]));
        let found = match earlier {
            [] => commands(),
            [command, ..] => self.arguments(command, earlier.len()),
        };
        // Domains are a list, whose last one is typed.
        let begun = match earlier {
            ["msg", _] => split(begun, ',').pop().unwrap_or_default(),
            _ => begun,
        };
        let fits = found.into_iter().filter(|it| it.starts_with(begun));
        let candidates: BTreeSet<String> = fits.collect();
        let mut candidates: Vec<String> = candidates.into_iter().collect();
        match &candidates[..] {
            [] => Completion {
                more: String::new(),
                candidates,
            },
            [only] => {
                let end = if only.ends_with(':') { "" } else { " " };
                let more = format!("{}{end}", &only[begun.len()..]);
                candidates.clear();
                Completion { more, candidates }
            }
            [first, .., last] => {
                // They are sorted: what the first and the last share all share.
                let same = first.chars().zip(last.chars());
                let shared = same.take_while(|(one, other)| one == other);
                let shared: usize = shared.map(|(letter, _)| letter.len_utf8()).sum();
                Completion {
                    more: first[begun.len()..shared].to_owned(),
                    candidates,
                }
            }
        }
    }

    /// What may be the `index`th argument of a command.
    fn arguments(&self, command: &str, index: usize) -> Vec<String> {
        let usage = USAGES
            .iter()
            .find(|it| it.split(' ').next() == Some(command));
        let Some(argument) = usage.and_then(|usage| usage.split(' ').nth(index)) else {
            return Vec::new();
        };
        match argument.trim_matches(['[', ']']) {
            "TAG" => self.tags.all().chain(["*".into()]).collect(),
            "DOMAIN" | "DOMAIN[,DOMAIN..." => {
                self.domains.all().chain(self.clients.all()).collect()
            }
            "WORD" => SERVICES.map(String::from).into(),
            "COMMAND" => commands(),
            // Those in capitals stand for others.
            words => words
                .split('|')
                .filter(|word| word.starts_with(|it: char| it.is_ascii_lowercase()))
                .map(String::from)
                .collect(),
        }
    }

    fn domains(&mut self, list: &str) {
        let names = split(list, ',');
        names.iter().for_each(|name| self.domains.add(name));
    }
}

fn commands() -> Vec<String> {
    let names = USAGES.iter().filter_map(|usage| usage.split(' ').next());
    names.map(String::from).collect()
}

/// The parts of `text` between `mark`s that do not stand in quotes.
fn split(text: &str, mark: char) -> Vec<&str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(|letter| {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return letter == mark && !quoted,
        }
        false
    })
    .collect()
}

/// So many names, the latest.
#[derive(Default, Debug)]
struct Names {
    sorted: BTreeSet<String>,
    by_age: VecDeque<String>,
}

impl Names {
    /// Adds a name as the bus writes it.
    fn add(&mut self, name: &str) {
        let is_name = !matches!(name, "" | "\"\"" | "*") && name.len() <= NAME_LEN_MAX;
        if !is_name || printable(name.as_bytes()) != name || !self.sorted.insert(name.into()) {
            return;
        }
        self.by_age.push_back(name.into());
        if self.by_age.len() > NAMES_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.sorted.remove(&oldest);
        }
    }

    fn all(&self) -> impl Iterator<Item = String> {
        self.sorted.iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lines: &[&str]) -> Seen {
        let mut seen = Seen::default();
        for line in lines {
            seen.hear(format!("{line}\n").as_bytes());
        }
        seen
    }

    fn more(seen: &Seen, before: &str) -> String {
        seen.complete(before).more
    }

    #[test]
    fn commands_and_what_they_take_are_completed() {
        let seen = Seen::default();
        for (before, expected) in [
            ("ac", "cept "),
            ("l", "oop-back "),
            ("loop-back o", ""),
            ("loop-back of", "f "),
            ("syntax c", "stream "),
            ("tracefile ", "off "),
            ("service k", "-resilient:"),
            ("help tr", "acefile "),
            ("nothing x", ""),
            ("accept * d ", "ring "),
            ("accept * d ring ", ""),
            ("msg t d a", ""),
        ] {
            assert_eq!(more(&seen, before), expected, "{before}");
        }
        let candidates = seen.complete("loop-back o").candidates;
        assert_eq!(candidates, ["off", "on"]);
        assert_eq!(seen.complete("").candidates.len(), USAGES.len());
    }

    #[test]
    fn names_are_those_that_the_bus_has_said_or_that_were_typed() {
        let mut seen = seen(&[
            "bus 1 c1@h1",
            "msg draw page1.uiuc,\"a, b\" from=al.uiuc raw 5",
            "view room regular join c2@h2 c1@h1 c2@h2",
            "ok cy.uiuc c3@h3",
            "ok name=c9@h9 id=\"\" message-max=5",
            "ok 2",
            " c4@h4 \"\" hall.uiuc",
            " accept TAG DOMAIN [ring]: take the messages",
        ]);
        for (before, expected) in [
            ("accept d", "raw "),
            ("accept * pa", "ge1.uiuc "),
            ("msg t pa", "ge1.uiuc "),
            ("msg t room,pa", "ge1.uiuc "),
            ("msg t page1.uiuc,\"a", ", b\" "),
            ("ping * cy", ".uiuc "),
            ("msg t al", ".uiuc "),
            ("accept * ha", "ll.uiuc "),
            ("msg t c", ""),
            ("msg t c9", ""),
            ("msg t m", ""),
        ] {
            assert_eq!(more(&seen, before), expected, "{before}");
        }
        let candidates = seen.complete("msg t c").candidates;
        assert_eq!(candidates, ["c1@h1", "c2@h2", "c3@h3", "c4@h4", "cy.uiuc"]);
        seen.say("accept text garden.uiuc");
        assert_eq!(more(&seen, "msg te"), "xt ");
        assert_eq!(more(&seen, "msg text ga"), "rden.uiuc ");
    }

    #[test]
    fn what_is_kept_is_bounded_and_can_be_shown() {
        let mut seen = seen(&[
            "msg t d\u{1b}[2J raw 1",
            &format!("msg t {} 1", "x".repeat(2000)),
        ]);
        assert_eq!(seen.domains.sorted.len(), 0);
        for number in 0..3 * NAMES_MAX {
            seen.hear(format!("msg t d{number} 1\n").as_bytes());
        }
        assert_eq!(seen.domains.sorted.len(), NAMES_MAX);
        assert_eq!(more(&seen, "msg t d2999"), " ");
        assert_eq!(seen.complete("msg t d1").candidates.len(), 0);
    }
}
