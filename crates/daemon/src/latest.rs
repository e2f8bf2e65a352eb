//! A bounded table of what is known of daemons, which forgets the oldest entry first.

use std::collections::{BTreeMap, VecDeque};

use groupcast_core::NodeId;

/// What is known of the daemons that were entered last.
pub(crate) struct Latest<V> {
    entries: BTreeMap<NodeId, V>,
    /// The keys of `entries`, the one that was entered first in front.
    order: VecDeque<NodeId>,
}

impl<V> Default for Latest<V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<V> Latest<V> {
    /// The most entries that are kept. A configuration has fewer members.
    pub(crate) const MAX: usize = 1024;

    /// Enters `value` as the newest, in place of what was entered for `node` before.
    pub(crate) fn insert(&mut self, node: NodeId, value: V) {
        self.remove(node);
        if self.order.len() >= Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
        self.entries.insert(node, value);
        self.order.push_back(node);
    }

    pub(crate) fn remove(&mut self, node: NodeId) -> Option<V> {
        let value = self.entries.remove(&node)?;
        self.order.retain(|it| *it != node);
        Some(value)
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&V> {
        self.entries.get(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_forgets_the_oldest_entry_alone() {
        let mut table = Latest::default();
        let most = Latest::<u64>::MAX as u64;
        for number in 0..most {
            table.insert(NodeId(number), number);
        }
        // The first is entered again, and the second is the oldest then.
        table.insert(NodeId(0), 7);
        table.insert(NodeId(most), most);
        assert_eq!(table.entries.len(), Latest::<u64>::MAX);
        assert_eq!(table.order.len(), Latest::<u64>::MAX);
        assert_eq!(
            (table.get(NodeId(0)), table.get(NodeId(1))),
            (Some(&7), None)
        );
        assert_eq!(table.remove(NodeId(2)), Some(2));
        assert_eq!(table.remove(NodeId(2)), None);
        table.insert(NodeId(2), 2);
        assert_eq!(table.get(NodeId(3)), Some(&3));
    }
}
