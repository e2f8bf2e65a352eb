//! Changes of groups on their way in the order: few at a time, so that those who make many wait for
//! them, and not those who publish.

use std::collections::VecDeque;

use super::ClientId;

/// Another change goes on its way while those that are there cause fewer views than this. A change
/// shows every member of its group a view: in a large group one is as dear as hundreds in a small
/// one.
const VIEWS_MAX: usize = 256;

/// The most changes on their way: where the groups are empty, each has its own cost.
const CHANGES_MAX: usize = 16;

/// The changes of this daemon that have not come back, and the clients that wait for them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The ring's number of each, in ascending order, and the views that it causes.
    on_their_way: VecDeque<(u64, usize)>,
    /// Sum of these views.
    views: usize,
    /// Clients whose next request is a change that has to wait.
    held_back: VecDeque<ClientId>,
}

impl Changes {
    /// Whether another change may go on its way at once.
    pub(super) fn have_room(&self) -> bool {
        self.held_back.is_empty() && self.are_few()
    }

    /// The client's change has to wait, behind those that wait already.
    pub(super) fn hold_back(&mut self, client: ClientId) {
        self.held_back.push_back(client);
    }

    /// The client that has waited longest, if its change may go on its way now.
    pub(super) fn next_held_back(&mut self) -> Option<ClientId> {
        match self.are_few() {
            true => self.held_back.pop_front(),
            false => None,
        }
    }

    /// The ring took a change as its message `number`.
    pub(super) fn handed_over(&mut self, number: u64, views: usize) {
        self.on_their_way.push_back((number, views));
        self.views += views;
    }

    /// The ring's messages up to `number` have come back.
    pub(super) fn came_back(&mut self, number: u64) {
        while let Some((_, views)) = self.on_their_way.pop_front_if(|(at, _)| *at <= number) {
            self.views -= views;
        }
    }

    fn are_few(&self) -> bool {
        self.on_their_way.len() < CHANGES_MAX && self.views < VIEWS_MAX
    }
}
