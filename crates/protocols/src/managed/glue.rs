//! What joins an entity of group management to a bulk endpoint: it tells the one what the other has
//! said. Whoever hosts the two (the simulator, the swarm, sockets) hands over every notice and
//! every event, and lets it follow after each input.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use groupcast_core::{MemberId, Time};

use crate::bulk::{Bulk, Failure, Notice, Outcome, STOPPED, TransferId};
use crate::xgm::{
    ConnectionId, Departure, Key, Membership, MonitorError, Standing, WatchFrom, Xgm, XgmEvent,
};

/// A transfer that is monitored where it is sent.
#[derive(Debug)]
struct Sent {
    id: TransferId,
    from: WatchFrom,
}

/// Joins an [`Xgm`] to a [`Bulk`]: transfers are connections (003 4.5.2).
#[derive(Debug)]
pub struct Glue {
    /// The one member of this host that receives.
    key: Key,
    sent: BTreeMap<u32, Sent>,
    received: BTreeSet<TransferId>,
}

/// What a receiver is called.
fn called(receiver: MemberId, name: &Bytes) -> Bytes {
    match name.is_empty() {
        true => alloc::format!("{:?}", receiver.node).into(),
        false => name.clone(),
    }
}

fn connection(id: TransferId) -> ConnectionId {
    ConnectionId {
        source: id.sender,
        number: id.number,
    }
}

impl Glue {
    /// For a host whose receiver is member `key`.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            sent: BTreeMap::new(),
            received: BTreeSet::new(),
        }
    }

    /// A transfer that is sent here is monitored, right after it was begun. When its membership
    /// does not hold any more it is cancelled, with the reason and the names; a receiver that is
    /// gone is settled as [`Outcome::Vanished`], one that may not drop in as
    /// [`Outcome::Excluded`]. After its end it is monitored until the last of its checkpoints is
    /// settled.
    ///
    /// # Errors
    /// If there are too many.
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

    /// Takes in what the endpoint tells, before its user does.
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

    /// Takes in what the entity tells, before its user does.
    pub fn hear_event(&self, now: Time, event: &XgmEvent, bulk: &mut Bulk) {
        match event {
            XgmEvent::Departed {
                number,
                member,
                how,
                ..
            } => {
                // One that has left has told the endpoint itself why.
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

    /// Looks how far each transfer is, and forgets those that are over. To be called after the
    /// notices and the events are taken, and before anything is sent.
    pub fn follow(&mut self, now: Time, bulk: &Bulk, xgm: &mut Xgm) {
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

    fn enter(&mut self, now: Time, id: TransferId, xgm: &mut Xgm) {
        if self.received.insert(id) {
            xgm.enter(now, self.key, connection(id));
            self.follow_source(xgm);
        }
    }

    fn exit(&mut self, now: Time, id: TransferId, standing: Standing, bulk: &Bulk, xgm: &mut Xgm) {
        if self.received.remove(&id) {
            // More may have come since it was looked at, before the end.
            let usable = bulk.usable(id).unwrap_or_default();
            xgm.advance(now, connection(id), usable);
            xgm.exit(now, connection(id), standing);
            self.follow_source(xgm);
        }
    }

    /// While it receives, only the source may move the member to other subgroups (003 4.5.1); of
    /// several sources one of them.
    fn follow_source(&self, xgm: &mut Xgm) {
        let source = self.received.first().map(|id| id.sender);
        // A host that only sends has no member.
        let _ = xgm.connect(self.key, source);
    }
}
