//! [`Glue`] joins an entity of group management to a bulk endpoint: it tells each what the other
//! has said. The host of the two (the simulator, the swarm, sockets) hands it every notice and
//! every event, and calls [`Glue::follow`] after each input.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{MemberId, Time};

use crate::bulk::{Bulk, Failure, Notice, Outcome, STOPPED, TransferId};
use crate::xgm::{
    ConnectionId, Departure, Key, Membership, MonitorError, Standing, WatchFrom, Xgm, XgmEvent,
};

/// A monitored transfer that this host sends.
#[derive(Debug)]
struct Sent {
    id: TransferId,
    from: WatchFrom,
}

/// Joins an [`Xgm`] to a [`Bulk`]: transfers are connections (003 4.5.2).
#[derive(Debug)]
pub struct Glue {
    /// The key of the one member of this host that receives.
    key: Key,
    /// The monitored transfers of this host, by number.
    sent: BTreeMap<u32, Sent>,
    /// The transfers that the member takes part in as a receiver.
    received: BTreeSet<TransferId>,
}

/// The name of a receiver; its node if it has none.
fn called(receiver: MemberId, name: &Bytes) -> Bytes {
    match name.is_empty() {
        true => alloc::format!("{:?}", receiver.node).into(),
        false => name.clone(),
    }
}

/// The connection that a transfer is (003 4.5.2).
fn connection(id: TransferId) -> ConnectionId {
    ConnectionId {
        source: id.sender,
        number: id.number,
    }
}

impl Glue {
    /// The glue of a host whose receiving member has the key `key`.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            sent: BTreeMap::new(),
            received: BTreeSet::new(),
        }
    }

    /// Monitors a transfer that this host sends; to be called right after it was begun. When the
    /// membership does not hold any more, the transfer is cancelled with the reason and the names.
    /// A receiver that is gone is settled as [`Outcome::Vanished`], one that may not drop in as
    /// [`Outcome::Excluded`]. After the transfer's end the monitor stays until the last checkpoint
    /// is settled.
    ///
    /// # Errors
    /// If too many transfers are monitored, or this one is already.
    pub fn monitor(
        &mut self,
        now: Time,
        xgm: &mut Xgm,
        id: TransferId,
        membership: Membership,
        from: WatchFrom,
    ) -> Result<(), MonitorError> {
        xgm.monitor(now, id.number, membership)?;
        self.sent.insert(id.number, Sent { id, from });
        Ok(())
    }

    /// Takes in a notice of the endpoint; to be called before the endpoint's user takes it.
    pub fn hear_notice(&mut self, now: Time, notice: &Notice, bulk: &mut Bulk, xgm: &mut Xgm) {
        match notice {
            Notice::Registered {
                id, receiver, name, ..
            } => {
                let Some(sent) = self.sent.get(&id.number) else {
                    return;
                };
                let name = called(*receiver, name);
                let watched = xgm.watch(id.number, *receiver, &name, sent.from);
                if watched.is_err() {
                    bulk.dismiss(now, *id, *receiver, &Outcome::Excluded);
                }
            }
            Notice::Started { id, .. } => xgm.begin_monitor(id.number),
            Notice::Received { id, .. } => self.enter(now, *id, xgm),
            Notice::Ended { id } => {
                self.enter(now, *id, xgm);
                self.exit(now, *id, Standing::Complete, bulk, xgm);
            }
            Notice::Failed { id, failure } => {
                let standing = match failure {
                    Failure::Lost => Standing::Closed,
                    _ => Standing::Left,
                };
                self.exit(now, *id, standing, bulk, xgm);
            }
            _ => {}
        }
    }

    /// Takes in an event of the entity; to be called before the entity's user takes it.
    pub fn hear_event(&self, now: Time, event: &XgmEvent, bulk: &mut Bulk) {
        match event {
            XgmEvent::Departed {
                number,
                member,
                how,
                ..
            } => {
                // A member that has left has told the endpoint itself.
                if let Some(sent) = self.sent.get(number).filter(|_| *how != Departure::Left) {
                    bulk.dismiss(now, sent.id, *member, &Outcome::Vanished);
                }
            }
            XgmEvent::Violated { number, violation } => {
                if let Some(sent) = self.sent.get(number) {
                    let reason = alloc::format!("{STOPPED}: {violation}");
                    bulk.cancel(now, sent.id, &reason);
                }
            }
            _ => {}
        }
    }

    /// Tells the entity how far each transfer has come, and the endpoint how many hosts were
    /// counted; forgets the transfers that are over. To be called after the notices and the events
    /// are taken, and before anything is sent.
    pub fn follow(&mut self, now: Time, bulk: &mut Bulk, xgm: &mut Xgm) {
        // A census counts this host too, if it has a member. It does not receive what it sends.
        let own = usize::from(xgm.members() > 0);
        bulk.set_group_size(xgm.size().map(|hosts| hosts.saturating_sub(own)));
        for (id, held) in bulk.receiving() {
            self.enter(now, id, xgm);
            xgm.advance(now, connection(id), held);
        }
        let gone = self.received.iter().filter(|id| !bulk.is_receiving(**id));
        let gone: Vec<TransferId> = gone.copied().collect();
        for id in gone {
            self.exit(now, id, Standing::Closed, bulk, xgm);
        }
        let over = self.sent.values().filter(|sent| !bulk.is_sending(sent.id));
        let over: Vec<u32> = over.map(|sent| sent.id.number).collect();
        for number in over {
            self.sent.remove(&number);
            xgm.end_monitor(number);
        }
    }

    /// The member takes part in a transfer, if it did not before.
    fn enter(&mut self, now: Time, id: TransferId, xgm: &mut Xgm) {
        if self.received.insert(id) {
            xgm.enter(now, self.key, connection(id));
            self.follow_source(xgm);
        }
    }

    /// The member takes part in a transfer no more, in which it has this standing.
    fn exit(&mut self, now: Time, id: TransferId, standing: Standing, bulk: &Bulk, xgm: &mut Xgm) {
        if self.received.remove(&id) {
            // More may have come before the end than `follow` has seen.
            let usable = bulk.usable(id).unwrap_or_default();
            xgm.advance(now, connection(id), usable);
            xgm.exit(now, connection(id), standing);
            self.follow_source(xgm);
        }
    }

    /// While the member receives, only the source may move it to other subgroups (003 4.5.1); if
    /// there are several sources, one of them.
    fn follow_source(&self, xgm: &mut Xgm) {
        let source = self.received.first().map(|id| id.sender);
        // A host that only sends has no member.
        let _ = xgm.connect(self.key, source);
    }
}
