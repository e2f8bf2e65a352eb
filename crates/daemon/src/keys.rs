//! The cluster's keys at this daemon, and everything that seals and opens under them: the daemon's
//! own node, and the node of each further ring that it is in.
//!
//! The statements of daemons about a change of the key, in their own order, hold for their rings,
//! too. So each step is made at all nodes together, before any statement or datagram that follows
//! from it. The node of a ring exists only while the daemon is in the ring: a node that opens later
//! gets the keys of that time. All members of a ring are in the daemons' own order, so no other
//! process has to be asked.

use groupcast_core::seal::SameTag;
use groupcast_core::{MemberId, Node, Protocol};
use groupcast_net::{Key, KeyError, Sealing};

use crate::config::{Config, Security};
use crate::instance::Instance;
use crate::rings::{Labelled, Ring};

/// The current keys.
#[derive(Clone)]
pub(crate) struct Keys {
    /// The key to seal and open under, or none.
    sealing: Sealing,
    /// A second key to open under.
    other: Option<Key>,
}

impl Keys {
    /// The key that the configuration names, if it names one.
    pub(crate) fn load(config: &Config) -> Result<Self, KeyError> {
        let sealing = match &config.security {
            Security::Key(path) => Sealing::Key(Key::load_own(path)?),
            Security::Insecure => Sealing::Insecure,
        };
        Ok(Self {
            sealing,
            other: None,
        })
    }

    /// The sealing of a node that opens now.
    pub(crate) fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    /// Gives a node that seals under [`sealing`](Self::sealing) the other key, if there is one.
    ///
    /// # Errors
    /// If the two keys cannot be told from each other.
    pub(crate) fn give_other<P: Protocol>(&self, node: &mut Node<P>) -> Result<(), SameTag> {
        match &self.other {
            Some(other) => node.learn_key(other.as_bytes()),
            None => Ok(()),
        }
    }
}

/// All nodes that seal and open, to be changed together.
pub(crate) struct Seals<'a> {
    pub(crate) keys: &'a mut Keys,
    pub(crate) node: &'a mut Node<Instance>,
    pub(crate) rings: &'a mut [Option<Ring>],
}

impl Seals<'_> {
    /// The daemon's member in its own order.
    pub(crate) fn local(&self) -> MemberId {
        self.node.local()
    }

    /// From now on opens under `key`, too.
    ///
    /// # Errors
    /// If it cannot be told from the key in use; nothing has changed.
    pub(crate) fn learn(&mut self, key: &Key) -> Result<(), SameTag> {
        self.node.learn_key(key.as_bytes())?;
        for node in open_nodes(self.rings) {
            node.learn_key(key.as_bytes())?;
        }
        self.keys.other = Some(key.clone());
        Ok(())
    }

    /// From now on seals under the learned key, and still opens under the one before.
    pub(crate) fn switch(&mut self) {
        self.node.use_learned_key();
        open_nodes(self.rings).for_each(Node::use_learned_key);
        if let (Some(other), Sealing::Key(current)) = (&mut self.keys.other, &mut self.keys.sealing)
        {
            std::mem::swap(current, other);
        }
    }

    /// From now on opens only under the key in use. `was_used`: whether the other key was in use
    /// before.
    pub(crate) fn drop_other(&mut self, was_used: bool) {
        self.node.drop_other_key(was_used);
        open_nodes(self.rings).for_each(|node| node.drop_other_key(was_used));
        self.keys.other = None;
    }
}

/// The nodes of the rings that the daemon is in, or is leaving.
fn open_nodes(rings: &mut [Option<Ring>]) -> impl Iterator<Item = &mut Node<Labelled>> {
    rings.iter_mut().flatten().filter_map(Ring::node_mut)
}
