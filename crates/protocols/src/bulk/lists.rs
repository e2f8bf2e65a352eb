//! What the user of an endpoint says of the transfer list of what it sends (003 5.4).

use alloc::vec::Vec;

use groupcast_core::Time;

use super::Bulk;
use super::context::Context;
use super::sender::Sender;
use super::transfer::{ListEntry, ListError, Listed, TransferId};
use crate::xgm::Subgroups;

impl Bulk {
    /// From now on a transfer is for receivers in these subgroups (003 5.4, `G_Subgroup`). The next
    /// packet says so; a receiver in none of them is [`Outcome::Excluded`] at once, and told. One
    /// that was in none before and has not answered may register when it hears the announcement.
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// [`Outcome::Excluded`]: super::Outcome::Excluded
    pub fn change_subgroups(
        &mut self,
        now: Time,
        id: TransferId,
        subgroups: Subgroups,
    ) -> Result<(), ListError> {
        self.change_list(now, id, |sender, context| {
            sender.change_subgroups(context, subgroups)
        })
    }

    /// From now on a transfer is for the receivers on this list, as far as they are in its
    /// subgroups (003 5.4, `G_Members`). Others are [`Outcome::Excluded`]. `None`: it has no list,
    /// and follows the rules of the policy `multidriver`.
    ///
    /// # Errors
    /// Nothing has changed then.
    ///
    /// [`Outcome::Excluded`]: super::Outcome::Excluded
    pub fn write_list(
        &mut self,
        now: Time,
        id: TransferId,
        list: Option<&[Listed]>,
    ) -> Result<(), ListError> {
        self.change_list(now, id, |sender, context| sender.write_list(context, list))
    }

    /// The transfer list as it is now, sorted by subgroups: who is served, and who is on it and has
    /// not come.
    pub fn read_list(&self, id: TransferId) -> Option<Vec<ListEntry>> {
        Some(self.sender(id)?.read_list())
    }

    fn change_list(
        &mut self,
        now: Time,
        id: TransferId,
        change: impl FnOnce(&mut Sender, &mut Context<'_>) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        let mut result = Err(ListError::Unknown);
        self.with_sender(now, id, |sender, context| result = change(sender, context));
        result
    }
}
