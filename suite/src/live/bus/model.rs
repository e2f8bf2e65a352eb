//! Which client should get what, in the plainest way.

use std::collections::BTreeSet;

/// What a client writes and reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// S-expressions.
    Sexp,
    /// CSTREAM.
    Cstream,
    /// Whatever comes; it sends text.
    Raw,
}

impl Form {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sexp => "sexp",
            Self::Cstream => "cstream",
            Self::Raw => "raw",
        }
    }

    /// The message of this number.
    fn payload(self, number: usize) -> String {
        match self {
            Self::Sexp => format!("(m {number} \"x\")"),
            Self::Cstream => {
                let len = number.to_string().len();
                format!("cs[y1:mi{len}:{number}s1:x]")
            }
            Self::Raw => format!("m {number} x"),
        }
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its private name.
    pub name: String,
    /// What it is called.
    pub id: String,
    /// Patterns for tags, and the domains that they are for.
    pub accepted: BTreeSet<(String, String)>,
    /// Whether its own messages come to it.
    pub loop_back: bool,
    /// What it writes and reads.
    pub form: Form,
}

impl Member {
    /// One that accepts nothing.
    pub fn new(name: &str, form: Form) -> Self {
        Self {
            name: name.to_owned(),
            id: String::new(),
            accepted: BTreeSet::new(),
            loop_back: true,
            form,
        }
    }

    /// Whether a message with `tag` to `domain` is for it.
    pub fn accepts(&self, tag: &str, domain: &str) -> bool {
        let is_for = |group: &str| match group.strip_prefix('*') {
            Some(below) => domain.ends_with(below),
            None => group == domain,
        };
        let matches = |pattern: &str| match pattern {
            "*" => true,
            "a|b" => matches!(tag, "a" | "b"),
            "b+" => !tag.is_empty() && tag.bytes().all(|byte| byte == b'b'),
            other => other == tag,
        };
        let mut accepted = self.accepted.iter();
        accepted.any(|(pattern, group)| is_for(group) && matches(pattern)) || self.id == domain
    }

    /// Whether it gets `message`, if it is another's.
    pub fn gets(&self, message: &Message) -> bool {
        let mut domains = message.domains.iter();
        domains.any(|domain| self.accepts(&message.tag, domain))
    }

    /// How `ping` names it.
    pub fn called(&self) -> &str {
        match self.id.is_empty() {
            true => &self.name,
            false => &self.id,
        }
    }
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// It is unique.
    pub number: usize,
    /// Which client sends it.
    pub sender: usize,
    /// Its tag.
    pub tag: String,
    /// Where it goes.
    pub domains: Vec<String>,
    /// What it is written in.
    pub form: Form,
}

/// What a client is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The line.
    pub head: String,
    /// The bytes that follow.
    pub payload: String,
}

impl Message {
    /// What its sender says.
    pub fn command(&self) -> Vec<u8> {
        let payload = self.form.payload(self.number);
        format!("{} {}\n{payload}\n", self.beginning(), payload.len()).into_bytes()
    }

    /// What a client is sent that reads `form`.
    pub fn delivery(&self, form: Form) -> Delivery {
        let (mark, payload) = match (self.form, form) {
            (Form::Raw, Form::Raw) => ("", self.form.payload(self.number)),
            (Form::Raw, _) => ("raw ", self.form.payload(self.number)),
            (own, Form::Raw) => (
                ["sexp ", "cstream "][own as usize],
                own.payload(self.number),
            ),
            (_, other) => ("", other.payload(self.number)),
        };
        Delivery {
            head: format!("{} {mark}{}", self.beginning(), payload.len()),
            payload,
        }
    }

    fn beginning(&self) -> String {
        format!("msg {} {}", self.tag, self.domains.join(","))
    }
}

impl Delivery {
    /// The number of its message, if it is one of ours.
    pub fn number(&self) -> Option<usize> {
        match self.payload.strip_prefix("cs[y1:mi") {
            // LENGTH ':' NUMBER 's'
            Some(rest) => rest.split([':', 's']).nth(1)?.parse().ok(),
            None => self.payload.split(' ').nth(1)?.parse().ok(),
        }
    }
}

/// The domain of this number: of ten branches.
pub fn domain(number: usize) -> String {
    format!("d{number}.g{}.top", number % 10)
}

/// All below a branch, or below the root.
pub fn wildcard(number: usize) -> String {
    match number {
        10 => "*.top".to_owned(),
        branch => format!("*.g{branch}.top"),
    }
}

/// The pattern of this number, below 5.
pub fn pattern(number: usize) -> String {
    ["*", "a|b", "b+", "a", "bb"][number].to_owned()
}

/// The tag of this number, below 4.
pub fn tag(number: usize) -> String {
    ["a", "b", "bb", "c"][number].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_for_whom_its_tag_domain_or_id_names() {
        let mut member = Member::new("c1@h", Form::Sexp);
        member.id = "al".into();
        member.accepted.insert(("b+".into(), "*.g1.top".into()));
        assert!(member.accepts("bb", "d1.g1.top") && member.accepts("c", "al"));
        assert!(!member.accepts("a", "d1.g1.top") && !member.accepts("b", "d2.g2.top"));
        assert_eq!(member.called(), "al");
    }

    #[test]
    fn deliveries_name_their_message_in_every_form() {
        for sent in [Form::Sexp, Form::Cstream, Form::Raw] {
            let message = Message {
                number: 1203,
                sender: 1,
                tag: "a".into(),
                domains: vec!["x.y".into(), "z".into()],
                form: sent,
            };
            for got in [Form::Sexp, Form::Cstream, Form::Raw] {
                let delivery = message.delivery(got);
                assert_eq!(delivery.number(), Some(1203), "{delivery:?}");
            }
        }
        let odd = Delivery {
            head: String::new(),
            payload: "else".into(),
        };
        assert_eq!(odd.number(), None);
    }
}
