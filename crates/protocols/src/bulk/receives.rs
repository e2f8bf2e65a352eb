//! What the user of an endpoint says as a receiver.

use groupcast_core::Time;

use super::Bulk;
use super::receiver::Receiver;
use super::transfer::{Acceptance, DeliverTo, TransferId, UnknownTransfer};
use crate::xgm::Subgroups;

impl Bulk {
    /// The subgroups that this endpoint is in as a receiver: all, unless told otherwise.
    pub fn subgroups(&self) -> Subgroups {
        self.shared.subgroups
    }

    /// From now on this endpoint is offered what is for one of these subgroups, and does not answer
    /// to what is for others (003 5.4, `G_Subgroup`). What it has answered goes on.
    pub fn set_subgroups(&mut self, subgroups: Subgroups) {
        self.shared.subgroups = subgroups;
    }

    /// Takes part in a transfer that was announced. If two of its packets do not fit into
    /// `buffer_max`, it fails at once ([`Failure::LargePackets`]), and its sender learns why.
    ///
    /// [`Failure::LargePackets`]: super::Failure::LargePackets
    ///
    /// # Errors
    /// If there is no such transfer, or it was answered before.
    pub fn accept(
        &mut self,
        now: Time,
        id: TransferId,
        acceptance: &Acceptance,
    ) -> Result<(), UnknownTransfer> {
        let receiver = self.receivers.get_mut(&id).ok_or(UnknownTransfer)?;
        if !receiver.accept(&mut self.shared.at(now), acceptance) {
            return Err(UnknownTransfer);
        }
        if receiver.is_over() {
            self.forget(id);
        }
        Ok(())
    }

    /// Of a transfer that was accepted and has not been concluded, what `acceptance` has is held,
    /// and nothing else, whatever was held or has come before. What is missing then is sent in a
    /// later pass. Name and order are those of before.
    ///
    /// # Errors
    /// If there is no such transfer, it was not accepted or is concluded, or it is none that can be
    /// [held again](Self::may_hold_less).
    pub fn hold_again(
        &mut self,
        now: Time,
        id: TransferId,
        acceptance: &Acceptance,
    ) -> Result<(), UnknownTransfer> {
        let receiver = self.receivers.get_mut(&id).ok_or(UnknownTransfer)?;
        match receiver.hold_again(&mut self.shared.at(now), acceptance) {
            true => Ok(()),
            false => Err(UnknownTransfer),
        }
    }

    /// Takes no part in a transfer that was announced; its sender learns `reason`, and what this
    /// receiver is called (at most 255 bytes; more are cut; none, if it is not called anything).
    /// False if it was answered before, or is not known: then nothing is said.
    pub fn refuse(&mut self, now: Time, id: TransferId, reason: &str, name: &[u8]) -> bool {
        let receiver = self.receivers.get_mut(&id);
        let Some(receiver) = receiver.filter(|receiver| !receiver.is_answered()) else {
            return false;
        };
        receiver.refuse(&mut self.shared.at(now), reason, name);
        self.forget(id);
        true
    }

    /// `bytes` that were handed over are done with: there is room for as many more.
    pub fn consumed(&mut self, now: Time, id: TransferId, bytes: u64) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.consumed(&mut self.shared.at(now), bytes);
        }
    }

    /// The user's last word on a transfer: that all is well (once it has been
    /// [received]), or why it gives up. What is handed over after it gave up is
    /// of no use.
    ///
    /// [received]: super::Notice::Received
    pub fn conclude(&mut self, now: Time, id: TransferId, result: Result<(), &str>) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.conclude(&mut self.shared.at(now), result);
        }
    }

    /// What the user kept aside is in place, after all [held] it
    /// ([`DeliverTo::Aside`]).
    ///
    /// [held]: super::Notice::AllHold
    pub fn in_place(&mut self, now: Time, id: TransferId) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.put_in_place(&mut self.shared.at(now));
        }
    }

    /// Bytes of this receiver's reply to a transfer that [wants](Self::wants_reply) one and was
    /// accepted, after those before (003 5.3.2, `X_MRreply`). They are taken as far as there is
    /// room in `reply_buffer`; how many were. If not all, [`Notice::ReplyRoom`] tells when to go
    /// on.
    ///
    /// [`Notice::ReplyRoom`]: super::Notice::ReplyRoom
    pub fn reply(&mut self, now: Time, id: TransferId, bytes: &[u8]) -> usize {
        let receiver = self.receivers.get_mut(&id);
        receiver.map_or(0, |it| it.add_return(&mut self.shared.at(now), bytes))
    }

    /// This receiver's reply ends where it is, perhaps without a byte; the sender's user is told
    /// `code`.
    pub fn finish_reply(&mut self, now: Time, id: TransferId, code: u32) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            receiver.end_return(&mut self.shared.at(now), code);
        }
    }

    /// Whether a transfer that was announced wants its receivers to reply.
    pub fn wants_reply(&self, id: TransferId) -> bool {
        self.receivers.get(&id).is_some_and(Receiver::wants_reply)
    }

    /// Whether a transfer that was announced carries messages: data is handed over in order, and
    /// [`Notice::MessageEnded`] says where they end.
    ///
    /// [`Notice::MessageEnded`]: super::Notice::MessageEnded
    pub fn carries_messages(&self, id: TransferId) -> bool {
        let receiver = self.receivers.get(&id);
        receiver.is_some_and(Receiver::carries_messages)
    }

    /// When the sender of a transfer that was announced here was last heard.
    pub fn heard(&self, id: TransferId) -> Option<Time> {
        self.receivers.get(&id).map(Receiver::heard)
    }

    /// Whether less than was said to be held of a transfer that was announced here may be
    /// [held](Self::hold_again) later. What is held counts only when it is concluded
    /// ([`Transfer::confirm`](super::Transfer::confirm), delivered [at once](DeliverTo::AtOnce)),
    /// what was sent can be sent again ([`Transfer::rewindable`](super::Transfer::rewindable)), and
    /// it carries no messages.
    pub fn may_hold_less(&self, id: TransferId) -> bool {
        self.receivers.get(&id).is_some_and(Receiver::may_hold_less)
    }

    /// Whether what was sent of a transfer that was announced here can be sent again
    /// ([`Transfer::rewindable`](super::Transfer::rewindable)).
    pub fn is_rewindable(&self, id: TransferId) -> bool {
        let receiver = self.receivers.get(&id);
        receiver.is_some_and(Receiver::is_rewindable)
    }

    /// When this receiver delivers what it has of a transfer that was announced; steps are the
    /// sender's alone.
    pub fn deliver_to(&self, id: TransferId) -> Option<DeliverTo> {
        self.receivers.get(&id).map(Receiver::deliver_to)
    }
}
