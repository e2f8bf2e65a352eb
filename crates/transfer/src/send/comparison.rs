//! Asks the receivers what they hold of the files before these are sent (`list.rs`), and says what
//! their answers mean for the transfer.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use groupcast_core::NodeId;
use groupcast_protocols::bulk::{Outcome, Wanted};
use groupcast_protocols::xgm::Subgroups;

use super::settled::{AfterList, named, nobody, tell_settled, unanswered};
use super::{SendEvent, SendReport};
use crate::about::About;
use crate::content::Files;
use crate::host::{BulkHost, TransferError};
use crate::list::{self, Answers, Asking};
use crate::pace::Pace;

/// Whom a list of files is for.
pub(super) struct Comparison<'a> {
    /// The receivers that the files are for.
    pub(super) wanted: Wanted,
    pub(super) subgroups: Subgroups,
    /// The names of the receivers that are required.
    pub(super) required: &'a BTreeMap<NodeId, String>,
    /// Whether the transfer ends for all when one of them goes.
    pub(super) ends_for_all: bool,
}

/// What came of a comparison.
pub(super) enum Compared {
    /// Receivers are there: the files are for these.
    Present(AfterList, Box<Files>),
    /// No receiver is there, or the user stopped it, and there is no transfer.
    Nobody(SendReport),
}

impl Comparison<'_> {
    /// Sends the list of the files, and takes the answers; what all receivers hold is not sent.
    pub(super) fn ask(
        self,
        host: &mut BulkHost,
        about: &About,
        files: Box<Files>,
        pace: &mut Pace,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(SendEvent<'_>),
    ) -> Result<Compared, TransferError> {
        let wanted = (self.wanted.clone(), self.subgroups);
        let asking = Asking {
            required: self.required,
            pace,
            stop,
        };
        let bytes = files.layout().len();
        match list::ask(host, about, files, wanted, asking, tell)? {
            Answers::Present {
                answers,
                came,
                files,
            } => {
                let named = named(answers, self.required);
                let after = AfterList::of(self.wanted, came, &named, self.ends_for_all);
                after.settled.iter().for_each(|one| tell_settled(one, tell));
                Ok(Compared::Present(after, files))
            }
            Answers::Nobody(answers) => {
                let mut named = named(answers, self.required);
                named.extend(unanswered(host));
                Ok(Compared::Nobody(nobody(named, bytes, stop, tell)))
            }
            Answers::Stopped(answers) => {
                let mut named = named(answers, self.required);
                for (_, _, outcome) in &mut named {
                    // What they have said of the list is no outcome of the files.
                    if matches!(outcome, Outcome::Complete | Outcome::Failed(_)) {
                        *outcome = Outcome::Cancelled;
                    }
                }
                named.extend(unanswered(host));
                Ok(Compared::Nobody(nobody(named, bytes, stop, tell)))
            }
        }
    }
}
