//! Bugs to plant: rules of requests and roles that can be broken on purpose.

/// Rules of this module that can be broken on purpose, to prove that the swarm sees it.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A request that came before is carried out again.
    Repeats,
    /// What is not in the table is carried out, whatever the guest says that it asked before; and a
    /// configuration begins with an empty table.
    NoTable,
    /// A request for a handler goes to all that answer.
    HandlerIsAll,
    /// A handler or lock that another has is granted, too.
    TakenIsHeld,
    /// After a merge everybody who had a role keeps it.
    AllHold,
    /// After a merge each daemon believes its own clients first.
    OwnFirst,
    /// A role does not end with its holder's connection.
    Outlives,
}

impl Planted {
    /// All of them.
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
