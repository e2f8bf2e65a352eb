//! The names of daemons, for the log and for `status`.
//!
//! Members are numbers on the network; the engine learns their names when daemons exchange states.
//! A daemon that has gone, or is in its next life, is still known by its name, and so is a daemon
//! as a member of a further ring: all of them have the same node.

use std::sync::Arc;

use groupcast_core::{MemberId, NodeId};
use serde_json::{Value, json};

use crate::latest::Latest;

/// The names of daemons that were heard.
pub(crate) struct Names {
    /// This daemon, whose name is never forgotten.
    local: (NodeId, Arc<str>),
    others: Latest<Arc<str>>,
}

impl Names {
    /// This daemon is `local`, with the name `name`.
    pub(crate) fn new(local: MemberId, name: &str) -> Self {
        Self {
            local: (local.node, name.into()),
            others: Latest::default(),
        }
    }

    /// Enters the names of the daemons of a configuration.
    pub(crate) fn learn(&mut self, daemons: Vec<(MemberId, Arc<str>)>) {
        for (member, name) in daemons {
            if member.node != self.local.0 {
                self.others.insert(member.node, name);
            }
        }
    }

    fn find(&self, member: MemberId) -> Option<&str> {
        match member.node == self.local.0 {
            true => Some(&self.local.1),
            false => self.others.get(member.node).map(|name| &**name),
        }
    }

    /// The name of `member`, or its number if the name is not known.
    pub(crate) fn of(&self, member: MemberId) -> String {
        let name = self.find(member);
        name.map_or_else(|| member.to_string(), ToOwned::to_owned)
    }

    pub(crate) fn list(&self, members: &[MemberId]) -> String {
        let names = members.iter().map(|member| self.of(*member));
        names.collect::<Vec<_>>().join(", ")
    }

    /// For `status`: the name is null if it is not known.
    pub(crate) fn json(&self, member: MemberId) -> Value {
        json!({"name": self.find(member), "member": member.to_string()})
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;

    fn member(name: &str, incarnation: u64) -> MemberId {
        MemberId {
            node: NodeId::from_name(name),
            incarnation: Incarnation(incarnation),
        }
    }

    #[test]
    fn a_daemon_keeps_its_name_when_it_is_gone_and_in_its_next_life() {
        let mut names = Names::new(member("h1", 1), "h1");
        names.learn(vec![(member("h2", 1), "h2".into())]);
        names.learn(vec![(member("h3", 1), "h3".into())]);
        let all = [member("h1", 1), member("h2", 7), member("h3", 1)];
        assert_eq!(names.list(&all), "h1, h2, h3");
        let unknown = member("h4", 1);
        assert_eq!(names.of(unknown), unknown.to_string());
        assert_eq!(names.json(unknown)["name"], Value::Null);
    }

    #[test]
    fn names_are_bounded_and_the_own_one_is_not_forgotten() {
        let local = member("h1", 1);
        let mut names = Names::new(local, "h1");
        let other = |number| {
            let name = format!("n{number}");
            (member(&name, 1), Arc::from(name))
        };
        const OTHERS: usize = 3 * Latest::<()>::MAX;
        for number in 0..OTHERS {
            names.learn(vec![(local, "h1".into()), other(number)]);
        }
        assert_eq!(names.of(local), "h1");
        let kept = (0..OTHERS).filter(|number| names.find(other(*number).0).is_some());
        assert!(kept.eq(2 * Latest::<()>::MAX..OTHERS), "the newest");
    }
}
