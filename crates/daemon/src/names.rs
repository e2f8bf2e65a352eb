//! The names of daemons, for the log and for `status`.
//!
//! Members are numbers on the network; the engine learns their names when daemons exchange states.
//! A daemon that has gone, or is in its next life, is still known by its name, and so is a daemon
//! as a member of a further ring: all of them have the same node.

use std::collections::BTreeMap;
use std::sync::Arc;

use groupcast_core::{MemberId, NodeId};
use serde_json::{Value, json};

/// The names of daemons that were heard.
pub(crate) struct Names {
    of_nodes: BTreeMap<NodeId, Arc<str>>,
}

impl Names {
    /// The most that are kept.
    const MAX: usize = 1024;

    /// This daemon knows its own name.
    pub(crate) fn new(local: MemberId, name: &str) -> Self {
        Self {
            of_nodes: BTreeMap::from([(local.node, name.into())]),
        }
    }

    /// These are in the configuration. Where there are too many, the others are forgotten.
    pub(crate) fn learn(&mut self, daemons: Vec<(MemberId, Arc<str>)>) {
        if self.of_nodes.len() + daemons.len() > Self::MAX {
            self.of_nodes.clear();
        }
        let named = daemons
            .into_iter()
            .map(|(member, name)| (member.node, name));
        self.of_nodes.extend(named);
    }

    /// The name of `member`, or its number if the name is not known.
    pub(crate) fn of(&self, member: MemberId) -> String {
        let name = self.of_nodes.get(&member.node);
        name.map_or_else(|| member.to_string(), ToString::to_string)
    }

    pub(crate) fn list(&self, members: &[MemberId]) -> String {
        let names = members.iter().map(|member| self.of(*member));
        names.collect::<Vec<_>>().join(", ")
    }

    /// For `status`: the name is null if it is not known.
    pub(crate) fn json(&self, member: MemberId) -> Value {
        let name = self.of_nodes.get(&member.node);
        json!({"name": name.map(|name| &**name), "member": member.to_string()})
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
    fn names_are_bounded() {
        let mut names = Names::new(member("h1", 1), "h1");
        for number in 0..3_000 {
            let name = format!("n{number}");
            names.learn(vec![(member(&name, 1), name.into())]);
            assert!(names.of_nodes.len() <= Names::MAX);
        }
    }
}
