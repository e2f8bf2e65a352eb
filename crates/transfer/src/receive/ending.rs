//! How transfers end at a receiver, and what its user is told.
//!
//! When everything has come, the disk is asked to put it in place. From then on only the disk says
//! how the transfer ends: its thread goes on, and runs the command, whether the sender is stopped,
//! is not heard any more, or the user stops the receiver. So the outcome is told when the disk has
//! answered, and is the one that is found in the target.

use bytes::Bytes;
use groupcast_core::text::printable;
use groupcast_protocols::bulk::{Failure, STOPPED, TransferId};

use super::event::ReceiveEvent;
use super::followers::End;
use super::{Output, Service};
use crate::disk::{Done, Former, Job};
use crate::in_place::InPlace;
use crate::incoming::{Incoming, State};
use crate::manifest::ContentId;

/// The reason of a transfer that ends because its receiver is stopped.
pub const STOPPED_HERE: &str = "the receiver was stopped";

/// The reason of a transfer that ends because a later one brings its content.
pub(super) const SENT_ANEW: &str = "the same content is sent anew";

/// The reason of a transfer that is refused because another one brings its content.
pub(super) const UNDER_WAY: &str = "another sender sends the same content";

impl Service {
    /// Everything has come, and is kept aside until all receivers have it.
    pub(super) fn verify(&mut self, id: TransferId) {
        if let Some(incoming) = self.transfers.get(&id) {
            incoming.disk.ask(Job::Verify);
        }
    }

    /// Everything has come, and may be put in place.
    pub(super) fn publish(&mut self, id: TransferId) {
        if let Some(incoming) = self.transfers.get_mut(&id) {
            incoming.state = State::Publishing;
            // It counts as placed again when the disk has said so: the command may fail this time.
            let content = incoming.content_id();
            let placed = content.and_then(|content| self.placed.take(content));
            let manifest = placed.map(|placed| placed.manifest);
            incoming.manifest = manifest;
            incoming.disk.ask(Job::Publish);
        }
    }

    /// The disk has put a transfer in place; the list of its files.
    pub(super) fn published(
        &mut self,
        id: TransferId,
        manifest: Option<Bytes>,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let now = self.host.now();
        self.host.bulk().conclude(now, id, Ok(()));
        // If all had to hold it first, the sender waits for this.
        self.host.bulk().in_place(now, id);
        if let Some(mut incoming) = self.transfers.remove(&id) {
            self.complete(&mut incoming, manifest, tell);
            incoming.concluded = Some(now);
            self.transfers.insert(id, incoming);
        }
    }

    /// A transfer is in place: tells the user.
    fn complete(
        &mut self,
        incoming: &mut Incoming,
        manifest: Option<Bytes>,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        incoming.state = State::Concluded;
        self.totals.complete += 1;
        tell(ReceiveEvent::Complete {
            transfer: &incoming.described,
            received: incoming.received,
            took: incoming.since.elapsed(),
        });
        self.followers.ended(incoming.described.id, &End::Complete);
        let manifest = manifest.or_else(|| incoming.manifest.take());
        if let (Some(content), Some(manifest)) = (incoming.content_id(), manifest) {
            self.placed.put(content, InPlace::now(manifest));
        }
    }

    /// This receiver cannot go on with a transfer.
    pub(super) fn failed(
        &mut self,
        id: TransferId,
        reason: &str,
        kept: bool,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let now = self.host.now();
        let Some(incoming) = self.transfers.remove(&id) else {
            return;
        };
        // It may have been answered before it was prepared: then it has followed another one.
        let name = self.receiving.link.name.as_bytes();
        let is_refused =
            incoming.state == State::Preparing && self.host.bulk().refuse(now, id, reason, name);
        if is_refused {
            return self.refused(incoming, reason, kept, tell);
        }
        self.host.bulk().conclude(now, id, Err(reason));
        self.fail(incoming, reason, kept, tell);
    }

    /// The disk has found, before anything was taken, why a transfer cannot be: the user is told
    /// the word that its sender is told.
    fn refused(
        &mut self,
        incoming: Incoming,
        reason: &str,
        kept: bool,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        self.totals.refused += 1;
        let end = End::Failed {
            reason: reason.to_owned(),
            kept,
        };
        self.followers.ended(incoming.described.id, &end);
        tell(ReceiveEvent::Refused {
            transfer: &incoming.described,
            reason,
        });
        self.retire(incoming);
    }

    /// A transfer has come to nothing: tells the user.
    fn fail(
        &mut self,
        incoming: Incoming,
        reason: &str,
        kept: bool,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        self.totals.failed += 1;
        let end = End::Failed {
            reason: reason.to_owned(),
            kept,
        };
        self.followers.ended(incoming.described.id, &end);
        tell(ReceiveEvent::Failed {
            transfer: &incoming.described,
            reason,
            kept,
        });
        self.retire(incoming);
    }

    /// The protocol has ended the transfer well, or the sender is gone after everything had come.
    pub(super) fn ended_well(&mut self, id: TransferId, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        self.unfollow(id, "its sender is not heard any more", tell);
        match self.transfers.get(&id).map(|incoming| incoming.state) {
            // The protocol takes all for received: it has followed another one, and was to bring
            // the rest.
            Some(State::Preparing | State::Receiving) => self.broke_off(id, &Failure::Lost, tell),
            Some(State::Publishing) => self.ending.extend(self.transfers.remove(&id)),
            Some(State::Concluded) => {
                if let Some(incoming) = self.transfers.remove(&id) {
                    self.retire(incoming);
                }
            }
            None => {}
        }
    }

    /// The protocol has ended the transfer.
    pub(super) fn broke_off(
        &mut self,
        id: TransferId,
        failure: &Failure,
        tell: &mut dyn FnMut(ReceiveEvent<'_>),
    ) {
        let Some(incoming) = self.transfers.remove(&id) else {
            let reason = self.reason_of(failure);
            return self.unfollow(id, &reason, tell);
        };
        match incoming.state {
            State::Preparing | State::Receiving => {}
            State::Publishing => return self.ending.push(incoming),
            State::Concluded => return self.retire(incoming),
        }
        // If the sender was stopped, the transfer can be resumed; if it gave up for another reason,
        // its content does not exist any more.
        let is_gone = matches!(failure, Failure::Cancelled(reason) if !reason.starts_with(STOPPED));
        if is_gone {
            incoming.disk.ask(Job::Discard);
        }
        let kept = !is_gone && incoming.is_kept;
        let reason = self.reason_of(failure);
        self.followers.led_by_nobody(id, kept);
        // A transfer that is for other receivers has not failed here.
        self.totals.failed += usize::from(*failure != Failure::Excluded);
        tell(ReceiveEvent::Failed {
            transfer: &incoming.described,
            reason: &reason,
            kept,
        });
        self.retire(incoming);
    }

    /// Takes the outcomes of transfers that have ended before the disk has answered.
    pub(super) fn take_outcomes(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        for mut incoming in std::mem::take(&mut self.ending) {
            let is_outcome = |done: &Done| matches!(done, Done::Published(_) | Done::Failed { .. });
            let outcome = std::iter::from_fn(|| incoming.disk.poll()).find(is_outcome);
            match outcome {
                Some(Done::Failed { reason, kept, .. }) => self.fail(incoming, &reason, kept, tell),
                Some(Done::Published(manifest)) => {
                    self.complete(&mut incoming, manifest, tell);
                    self.retire(incoming);
                }
                _ => self.ending.push(incoming),
            }
        }
    }

    /// Whether anything is being put in place that a stopped receiver waits for. The reader of the
    /// standard output may never read on, so nothing waits for that.
    pub(super) fn puts_in_place(&self) -> bool {
        let mut under_way = self.transfers.values();
        let is_any = under_way.any(|one| one.state == State::Publishing);
        (is_any || !self.ending.is_empty()) && self.receiving.output != Output::Stdout
    }

    /// Whether a sender may not have heard yet that its transfer is complete: a datagram may be
    /// lost, and a sender that has not heard the outcome asks for it.
    pub(super) fn has_last_words(&self) -> bool {
        let now = self.host.now();
        let leading = self.transfers.values().filter_map(|one| one.concluded);
        let mut told = leading.chain(self.followers.concluded());
        told.any(|told| now - told < Self::LAST_WORDS)
    }

    /// Stops, and tells the senders; goes on with what is being put in place.
    pub(super) fn give_up(&mut self, tell: &mut dyn FnMut(ReceiveEvent<'_>)) {
        self.is_stopped = true;
        self.refuse_waiting();
        let waits = self.receiving.output != Output::Stdout;
        let ids: Vec<TransferId> = self.transfers.keys().copied().collect();
        for id in ids {
            let ends = |one: &&Incoming| match one.state {
                State::Preparing | State::Receiving => true,
                State::Publishing => !waits,
                State::Concluded => false,
            };
            if let Some(incoming) = self.transfers.get(&id).filter(ends) {
                let kept = incoming.is_kept;
                self.failed(id, STOPPED_HERE, kept, tell);
            }
        }
        if !waits {
            for incoming in std::mem::take(&mut self.ending) {
                self.fail(incoming, STOPPED_HERE, false, tell);
            }
        }
        // Senders of the same contents are told, too.
        self.follow(tell);
    }

    /// `content` is announced anew, as by a sender that was restarted: the new transfer, or list,
    /// takes over what former ones have brought. What is being put in place comes to its end first.
    pub(super) fn make_way(&mut self, content: ContentId) {
        let former = self
            .transfers
            .iter()
            .filter(|(_, one)| one.content_id() == Some(content) && one.state != State::Publishing);
        let former: Vec<TransferId> = former.map(|(id, _)| *id).collect();
        let (lists, threads) = self.lists.supersede(content);
        self.retired.extend(threads);
        let now = self.host.now();
        for id in lists.into_iter().chain(former) {
            // What is still looked at may have no answer yet.
            let name = self.receiving.link.name.as_bytes();
            self.host.bulk().refuse(now, id, SENT_ANEW, name);
            self.host.bulk().conclude(now, id, Err(SENT_ANEW));
            self.forget(id);
        }
    }

    /// The threads that still work on `content`, for the next one to wait for.
    pub(super) fn former(&mut self, content: ContentId) -> Former {
        let is_former = |retired: &mut (Option<ContentId>, _)| retired.0 == Some(content);
        let retired = self.retired.extract_if(.., is_former);
        let retired = retired.map(|(_, thread)| thread);
        let under_way = self.transfers.values_mut().chain(&mut self.ending);
        let published = under_way
            .filter(|one| one.content_id() == Some(content) && one.state == State::Publishing);
        let published = published.filter_map(|one| one.disk.close());
        retired.chain(published).collect()
    }

    /// Forgets a transfer. Its disk's thread ends by itself.
    pub(super) fn forget(&mut self, id: TransferId) {
        if let Some(incoming) = self.transfers.remove(&id) {
            self.followers.led_by_nobody(id, incoming.is_kept);
            self.retire(incoming);
        }
    }

    pub(super) fn retire(&mut self, incoming: Incoming) {
        let content = incoming.content_id();
        let thread = incoming.disk.retire();
        self.retired.extend(thread.map(|thread| (content, thread)));
    }

    /// Why the protocol has ended a transfer, for the user.
    fn reason_of(&self, failure: &Failure) -> String {
        match failure {
            Failure::Cancelled(reason) => {
                format!("its sender gave up: {}", printable(reason.as_bytes()))
            }
            Failure::Lost => "its sender is not heard any more".into(),
            Failure::Dropped => {
                "its sender gave this receiver up: too slow, too late, or not heard".into()
            }
            Failure::Outrun => {
                "its sender has released what this receiver missed, and cannot send it again".into()
            }
            Failure::Full => {
                "the sender has as many receivers as it takes: this one was one too many".into()
            }
            Failure::Excluded => "its sender sends it to other receivers".into(),
            Failure::SameName => {
                let name = printable(self.receiving.link.name.as_bytes());
                format!("another receiver is called {name} too: each needs a name of its own")
            }
            Failure::LargePackets { packet, buffer_max } => format!(
                "two of its sender's packets, of {packet} bytes, do not fit into this receiver's buffer_max of {buffer_max} bytes"
            ),
            Failure::GivenUp => "this receiver gave it up".into(),
            _ => "it came to nothing".into(),
        }
    }
}
