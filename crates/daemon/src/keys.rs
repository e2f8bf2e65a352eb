//! The cluster's keys at this daemon, and everything that seals and opens under them: the daemon's
//! own node, and the node of each further ring that it is in.
//!
//! What daemons say of a change of the key, in their own order, holds of their rings too. So each
//! step is done at all nodes in one go, before anything is said of it or sent after it. The node of
//! a ring exists only while the daemon is in the ring: one that opens later gets the keys as they
//! are then. Who is in a ring is in the daemons' own order, so nobody else need be asked.

use groupcast_core::seal::SameTag;
use groupcast_core::{MemberId, Node, Protocol};
use groupcast_net::{Key, KeyError, Sealing};

use crate::config::{Config, Security};
use crate::instance::Instance;
use crate::rings::{Labelled, Ring};

/// The keys that hold now.
#[derive(Clone)]
pub(crate) struct Keys {
    /// What is sealed under.
    sealing: Sealing,
    /// What is opened under, too.
    other: Option<Key>,
}

impl Keys {
    /// The key that the configuration names, if it names one.
    pub(crate) fn load(config: &Config) -> Result<Self, KeyError> {
        let sealing = match &config.security {
            Security::Key(path) => Sealing::Key(Key::load(path)?),
            Security::Insecure => Sealing::Insecure,
        };
        Ok(Self {
            sealing,
            other: None,
        })
    }

    /// What a node that opens now seals under.
    pub(crate) fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    /// Gives a node that seals under [`sealing`](Self::sealing) the other key, if there is one.
    ///
    /// # Errors
    /// The keys cannot be told from each other.
    pub(crate) fn give_other<P: Protocol>(&self, node: &mut Node<P>) -> Result<(), SameTag> {
        match &self.other {
            Some(other) => node.learn_key(other.as_bytes()),
            None => Ok(()),
        }
    }
}

/// All that seals and opens, to be changed together.
pub(crate) struct Seals<'a> {
    pub(crate) keys: &'a mut Keys,
    pub(crate) node: &'a mut Node<Instance>,
    pub(crate) rings: &'a mut [Option<Ring>],
}

impl Seals<'_> {
    /// Who the daemon is in its own order.
    pub(crate) fn local(&self) -> MemberId {
        self.node.local()
    }

    /// Opens under `key` too, from now on.
    ///
    /// # Errors
    /// It cannot be told from the one in use; nothing has changed.
    pub(crate) fn learn(&mut self, key: &Key) -> Result<(), SameTag> {
        self.node.learn_key(key.as_bytes())?;
        for node in open_nodes(self.rings) {
            node.learn_key(key.as_bytes())?;
        }
        self.keys.other = Some(key.clone());
        Ok(())
    }

    /// Seals under the key that was learned, and opens under the one before still.
    pub(crate) fn switch(&mut self) {
        self.node.use_learned_key();
        open_nodes(self.rings).for_each(Node::use_learned_key);
        if let (Some(other), Sealing::Key(current)) = (&mut self.keys.other, &mut self.keys.sealing)
        {
            std::mem::swap(current, other);
        }
    }

    /// Opens nothing any more under the key that is not in use; `was_used` says that it was before.
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
