//! Bugs to plant: rules of requests and roles that can be broken on purpose.

/// Rules of this module that can be broken on purpose, to prove that the swarm sees that.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A request that came before is carried out again.
    Repeats,
    /// A request that is not in the table is carried out, even if the guest says that it asked
    /// before; and a configuration begins with an empty table.
    NoTable,
    /// A request for a handler goes to all members that answer.
    HandlerIsAll,
    /// A handler or lock is granted even if another client has it.
    TakenIsHeld,
    /// After a merge every client that had a role keeps it.
    AllHold,
    /// After a merge each daemon believes its own clients first.
    OwnFirst,
    /// A role does not end with its holder's connection.
    Outlives,
}

impl Planted {
    /// All planted bugs.
    pub const ALL: [Self; 7] = [
        Self::Repeats,
        Self::NoTable,
        Self::HandlerIsAll,
        Self::TakenIsHeld,
        Self::AllHold,
        Self::OwnFirst,
        Self::Outlives,
    ];
}
