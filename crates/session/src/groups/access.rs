//! Rules of the daemon's configuration that say what clients may do. A rule tells clients apart by
//! the user at the other end of a Unix socket, by the certificate of a client over TLS, or by the
//! kind of connection.
//!
//! Everybody may join, and send to, a group that no rule names. In a group that rules name, a
//! client has the rights that these rules give to it. A client reads a group by joining it: only
//! members get its messages. The right to change the key belongs to no group: root and the daemon's
//! own user have it at the Unix socket, unless rules give it; then only those have it to whom a
//! rule gives it.

use super::client::Transport;

/// A right that a rule can give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// To be a member of a group, and so to read it.
    Join,
    /// To publish to a group, or to a private name.
    Send,
    /// To change the cluster's key by way of this daemon.
    Rekey,
}

impl Right {
    /// The words of the configuration for the rights.
    pub const WORDS: [(&str, Self); 3] = [
        ("join", Self::Join),
        ("send", Self::Send),
        ("rekey", Self::Rekey),
    ];
}

/// The clients that a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Principal {
    /// The processes of a user, by its number, at the Unix socket.
    User(u32),
    /// Clients over TCP that showed a certificate for this DNS name.
    Certificate(String),
    /// All clients over TCP.
    Tcp,
}

/// A rule: it gives rights in groups to clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Names of groups. One that ends in `*` means all names that begin with the rest; one that
    /// begins with `*.` means all names below the rest, and is one itself.
    pub groups: Vec<String>,
    /// The clients to which it gives the rights.
    pub who: Vec<Principal>,
    /// The rights that it gives.
    pub rights: Vec<Right>,
}

/// Whether `group` is one of `named`, begins with one that ends in `*`, or is below one that begins
/// with `*.`.
pub(super) fn names(named: &[String], group: &str) -> bool {
    named.iter().any(|name| {
        if let Some(beginning) = name.strip_suffix('*') {
            return group.starts_with(beginning);
        }
        match name.strip_prefix('*') {
            Some(end) if end.starts_with('.') && end.len() > 1 => group.ends_with(end),
            _ => name == group,
        }
    })
}

/// All rules of a daemon. Without any, everybody may do everything but change the key.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Access(pub Vec<Rule>);

/// The identity of a client, as far as the daemon can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin<'a> {
    pub(super) transport: Transport,
    /// The user at the other end, if the system says who that is.
    pub(super) user: Option<u32>,
    /// The DNS names of the certificate that it showed.
    pub(super) certificate: &'a [String],
}

impl Origin<'_> {
    fn is(self, principal: &Principal) -> bool {
        match principal {
            Principal::User(user) => self.transport == Transport::Unix && self.user == Some(*user),
            Principal::Certificate(name) => {
                let mut names = self.certificate.iter();
                names.any(|shown| shown.eq_ignore_ascii_case(name))
            }
            Principal::Tcp => self.transport == Transport::Tcp,
        }
    }
}

impl Access {
    /// Whether a client may join, or send to, the group `group`.
    pub(super) fn allows(&self, client: Origin<'_>, right: Right, group: &str) -> bool {
        let rules = self.0.iter().filter(|rule| names(&rule.groups, group));
        Self::gives(rules, client, right)
    }

    /// Whether a client may change the key of a daemon that runs as the user `own`.
    pub(super) fn allows_rekey(&self, client: Origin<'_>, own: Option<u32>) -> bool {
        let gives = |rule: &&Rule| rule.rights.contains(&Right::Rekey);
        let mut rules = self.0.iter().filter(gives).peekable();
        if rules.peek().is_none() {
            let is = |user| client.is(&Principal::User(user));
            return is(0) || own.is_some_and(is);
        }
        Self::gives(rules, client, Right::Rekey)
    }

    /// Whether one of `rules` gives the right to the client, or there are none.
    fn gives<'a>(rules: impl Iterator<Item = &'a Rule>, client: Origin<'_>, right: Right) -> bool {
        let mut restricted = false;
        for rule in rules {
            restricted = true;
            let gives = rule.rights.contains(&right);
            if gives && rule.who.iter().any(|principal| client.is(principal)) {
                return true;
            }
        }
        !restricted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Origin<'_> = Origin {
        transport: Transport::Unix,
        user: Some(1000),
        certificate: &[],
    };
    const BOB: Origin<'_> = Origin {
        user: Some(1001),
        ..ALICE
    };
    const REMOTE: Origin<'_> = Origin {
        transport: Transport::Tcp,
        user: None,
        certificate: &[],
    };

    fn rule(groups: &[&str], who: &[Principal], rights: &[Right]) -> Rule {
        Rule {
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            who: who.to_vec(),
            rights: rights.to_vec(),
        }
    }

    #[test]
    fn what_no_rule_names_is_everybodys_and_the_rest_is_for_whom_a_rule_gives_it() {
        let alice = Principal::User(1000);
        let access = Access(vec![
            rule(&["ops/*"], &[alice], &[Right::Join, Right::Send]),
            rule(&["ops/alerts"], &[Principal::Tcp], &[Right::Send]),
        ]);
        for client in [ALICE, BOB, REMOTE] {
            assert!(access.allows(client, Right::Join, "chat"));
        }
        let may = |client, right, group| access.allows(client, right, group);
        assert!(may(ALICE, Right::Join, "ops/alerts") && may(ALICE, Right::Send, "ops/x"));
        assert!(!may(BOB, Right::Join, "ops/x") && !may(BOB, Right::Send, "ops/"));
        assert!(may(REMOTE, Right::Send, "ops/alerts"));
        assert!(!may(REMOTE, Right::Join, "ops/alerts") && !may(REMOTE, Right::Send, "ops/x"));
        assert!(may(BOB, Right::Send, "ops"), "the name without the slash");
    }

    /// Clients of the bus ask for `*.REST`, and an operator writes that into a rule: it would close
    /// the group of that very name alone.
    #[test]
    fn a_rule_for_all_below_a_name_is_for_each_of_them() {
        let alice = Principal::User(1000);
        let access = Access(vec![rule(&["*.team", "*."], &[alice], &[Right::Join])]);
        let may = |client, group| access.allows(client, Right::Join, group);
        for group in ["a.team", "b.a.team", "*.team", "*."] {
            assert!(may(ALICE, group) && !may(BOB, group), "{group}");
        }
        for group in ["team", "ateam", "a.team.x", "a.steam", "*", "x."] {
            assert!(may(BOB, group), "{group}");
        }
    }

    #[test]
    fn a_certificate_is_for_each_of_its_names() {
        let names = ["web-1".to_owned(), "Web.Example".to_owned()];
        let web = Origin {
            certificate: &names,
            ..REMOTE
        };
        let of = |name: &str| Principal::Certificate(name.into());
        let access = Access(vec![
            rule(&["feed"], &[of("web.example")], &[Right::Join]),
            rule(&["jobs"], &[of("worker")], &[Right::Send]),
        ]);
        assert!(access.allows(web, Right::Join, "feed"));
        assert!(!access.allows(web, Right::Send, "feed"));
        assert!(!access.allows(web, Right::Send, "jobs"));
        for other in [REMOTE, ALICE] {
            assert!(!access.allows(other, Right::Join, "feed"));
        }
    }

    #[test]
    fn a_user_is_believed_by_the_unix_socket_alone() {
        let root = rule(&[], &[Principal::User(0)], &[Right::Rekey]);
        let access = Access(vec![root]);
        let of = |transport, user| Origin {
            transport,
            user,
            certificate: &[],
        };
        let may = |client| access.allows_rekey(client, Some(1000));
        assert!(may(of(Transport::Unix, Some(0))));
        assert!(!may(of(Transport::Tcp, Some(0))));
        assert!(!may(of(Transport::Unix, None)));
        assert!(!may(ALICE), "the daemon's own user, whom no rule names");
        assert!(access.allows(BOB, Right::Send, "g"), "no group is named");
    }

    #[test]
    fn without_a_rule_root_and_the_daemons_user_alone_change_the_key() {
        let of_groups = rule(&["ops"], &[Principal::User(1001)], &[Right::Send]);
        let root = Origin {
            user: Some(0),
            ..ALICE
        };
        for access in [Access::default(), Access(vec![of_groups])] {
            let may = |client| access.allows_rekey(client, Some(1000));
            assert!(may(ALICE) && may(root));
            assert!(!may(BOB) && !may(REMOTE));
            assert!(access.allows_rekey(root, None) && !access.allows_rekey(ALICE, None));
        }
        let bob = Access(vec![rule(&[], &[Principal::User(1001)], &[Right::Rekey])]);
        assert!(bob.allows_rekey(BOB, Some(1000)) && !bob.allows_rekey(REMOTE, Some(1000)));
    }
}
