//! Who is in a bimodal group, as far as this daemon has heard.
//!
//! Each daemon announces which of its clients are in the group (a *presence*, a message of the
//! gossip): when that changes, when it hears of a daemon that may not know, when it has slept
//! itself, and every ten seconds. The gossip says which daemons it has heard lately; what the
//! others announced is forgotten when they are no more among these and have been silent. So a view
//! is this daemon's own, it comes late, and no message is known to stand before or after it: it is
//! marked approximate.
//!
//! A change here is shown at once; what others announce is gathered until the daemon tends the
//! group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{ConfigId, MemberId, Time};

use super::super::chain::Payload;
use super::super::output::ForSlow;
use super::super::{ClientId, Engine};
use super::envelope;
use crate::frame::DaemonFrame;
use crate::name::private;
use crate::view::{Cause, View, ViewId, ViewKind};

/// A daemon announces its clients because of newcomers no sooner than this after the last time;
/// later in a large group, so that all together make at most some 20 such announcements a second.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
const ANNOUNCE_PER_DAEMON: Duration = Duration::from_millis(50);
/// Announcements get lost, and daemons that were silent are forgotten: what was announced is
/// announced again so long after the last time, in a large group so late that all together make at
/// most some two a second. Views that are wrong are right again after that.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10);
const REPEAT_PER_DAEMON: Duration = Duration::from_millis(500);
/// A daemon that the gossip has lost is forgotten when it has been silent for so long.
const SILENT: Duration = Duration::from_secs(2);

/// What a daemon knows of a group's members at other daemons.
#[derive(Debug, Default)]
pub(super) struct Members {
    daemons: BTreeMap<MemberId, Daemon>,
    /// How many clients they have in the group together.
    others: usize,
    /// Daemons of which the gossip has heard.
    known: BTreeSet<MemberId>,
    /// What this daemon announced last may be out of date, or unheard by a newcomer: announce
    /// again, from then on.
    announce_at: Option<Time>,
    last_announced: Option<Time>,
    /// When the daemon last tended the group.
    tended: Option<Time>,
    /// The announcement is on its way to the gossip.
    announcing: bool,
    /// Subscribers here have an older view.
    changed: bool,
    views: u64,
}

#[derive(Debug)]
struct Daemon {
    host: Arc<str>,
    /// Private names of its clients in the group.
    clients: BTreeSet<Arc<str>>,
    heard: Time,
}

impl Members {
    /// The name of a daemon that was heard of.
    pub(super) fn host(&self, daemon: MemberId) -> Option<&Arc<str>> {
        self.daemons.get(&daemon).map(|daemon| &daemon.host)
    }

    /// How many members other daemons have.
    pub(super) fn others(&self) -> usize {
        self.others
    }

    /// Whether what goes to the gossip next is an announcement.
    pub(super) fn is_announcing(&self) -> bool {
        self.announcing
    }

    /// The gossip took the announcement, or never will.
    pub(super) fn announced(&mut self, now: Time) {
        self.announcing = false;
        self.announce_at = None;
        self.last_announced = Some(now);
    }

    /// What others should know has changed.
    fn announce(&mut self, now: Time) {
        self.announce_at = Some(now);
    }

    /// Some daemon may not have heard the last announcement.
    fn repeat(&mut self, now: Time) {
        let interval = ANNOUNCE_INTERVAL.max(ANNOUNCE_PER_DAEMON.saturating_mul(self.crowd()));
        let at = self.last_announced.map_or(now, |last| last + interval);
        self.announce_at.get_or_insert(at.max(now));
    }

    /// Repeats what was announced long ago, also that there are no clients.
    fn refresh(&mut self, now: Time) {
        let interval = REPEAT_INTERVAL.max(REPEAT_PER_DAEMON.saturating_mul(self.crowd()));
        if self
            .last_announced
            .is_some_and(|last| now - last >= interval)
        {
            self.announce_at.get_or_insert(now);
        }
    }

    fn crowd(&self) -> u32 {
        u32::try_from(self.known.len()).unwrap_or(u32::MAX)
    }

    /// The entry of a daemon called `host`, unless there are `max` others.
    fn entry(
        &mut self,
        now: Time,
        daemon: MemberId,
        host: &str,
        max: usize,
    ) -> Option<&mut Daemon> {
        if !self.daemons.contains_key(&daemon) {
            if self.daemons.len() >= max {
                return None;
            }
            let new = Daemon {
                host: host.into(),
                clients: BTreeSet::new(),
                heard: now,
            };
            self.daemons.insert(daemon, new);
        }
        let entry = self.daemons.get_mut(&daemon)?;
        entry.heard = now;
        Some(entry)
    }

    fn forget(&mut self, now: Time) {
        let (known, others, changed) = (&self.known, &mut self.others, &mut self.changed);
        self.daemons.retain(|id, daemon| {
            let stays = known.contains(id) || now - daemon.heard < SILENT;
            if !stays {
                *others -= daemon.clients.len();
                *changed |= !daemon.clients.is_empty();
            }
            stays
        });
    }
}

impl Engine {
    /// Says which daemons the gossip of the group `index` has heard of lately, this one excluded.
    /// Call it a few times a second: what has changed since is announced, shown or forgotten then.
    pub fn tend_bimodal(
        &mut self,
        now: Time,
        index: usize,
        daemons: impl IntoIterator<Item = MemberId>,
    ) {
        let Some(group) = self.bimodal.groups.get_mut(index) else {
            return;
        };
        let members = &mut group.members;
        let known: BTreeSet<MemberId> = daemons.into_iter().collect();
        let newcomers = known.difference(&members.known).next().is_some();
        members.known = known;
        let tended = members.tended.replace(now);
        // A daemon that slept was silent: the others may have forgotten it, and it cannot tell.
        let slept = tended.is_some_and(|last| now - last >= SILENT);
        if (newcomers || slept) && !group.subscribers.is_empty() {
            members.repeat(now);
        }
        members.refresh(now);
        members.forget(now);
        if std::mem::take(&mut members.changed) {
            self.show_bimodal_view(now, index, Cause::Network, None, None);
        }
        self.look_for_namesake(index);
    }

    pub(in super::super) fn join_bimodal(&mut self, now: Time, id: ClientId, index: usize) {
        let group = &mut self.bimodal.groups[index];
        group.subscribers.insert(id);
        group.members.announce(now);
        let changed = self.clients.get(id).map(|client| client.private.clone());
        self.show_bimodal_view(now, index, Cause::Join, changed, None);
    }

    /// A client is in the group `index` no more.
    pub(in super::super) fn part_bimodal(
        &mut self,
        now: Time,
        id: ClientId,
        index: usize,
        cause: Cause,
    ) {
        let group = &mut self.bimodal.groups[index];
        if !group.subscribers.remove(&id) {
            return;
        }
        group.members.announce(now);
        self.bimodal.filters.leave(id.0, &group.name);
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.missed.retain(|(missed, _), _| *missed != index);
        let changed = client.private.clone();
        let leaver = (cause == Cause::Leave).then_some(id);
        self.show_bimodal_view(now, index, cause, Some(changed), leaver);
    }

    /// A client is in no bimodal group any more.
    pub(in super::super) fn leave_bimodal(&mut self, now: Time, id: ClientId) {
        for index in 0..self.bimodal.groups.len() {
            self.part_bimodal(now, id, index, Cause::Disconnect);
        }
    }

    /// Private names of a group's members, in ascending order.
    pub(super) fn bimodal_members(&self, index: usize) -> Vec<Arc<str>> {
        let group = &self.bimodal.groups[index];
        let own = group.subscribers.iter();
        let own = own.filter_map(|id| Some(self.clients.get(*id)?.private.clone()));
        let daemons = group.members.daemons.values();
        let others = daemons.flat_map(|daemon| daemon.clients.iter().cloned());
        let members: BTreeSet<Arc<str>> = own.chain(others).collect();
        members.into_iter().collect()
    }

    /// This daemon's announcement, if it is time for it.
    pub(super) fn presence_due(&mut self, now: Time, index: usize) -> Option<Bytes> {
        let group = &mut self.bimodal.groups[index];
        if group.members.announce_at.is_none_or(|at| at > now) {
            return None;
        }
        group.members.announcing = true;
        let names: Vec<&str> = group
            .subscribers
            .iter()
            .filter_map(|id| Some(&*self.clients.get(*id)?.name))
            .collect();
        let mut bytes = Vec::new();
        envelope::encode_presence(&mut bytes, &self.host, names.into_iter());
        Some(bytes.into())
    }

    /// A message came of a client with this private name: its daemon lives.
    pub(super) fn heard_of(&mut self, now: Time, index: usize, from: MemberId, sender: &str) {
        if from == self.local {
            return;
        }
        let max = self.config.bimodal_members_max;
        let host = sender.rsplit('@').next().unwrap_or_default();
        let members = &mut self.bimodal.groups[index].members;
        // Without room, its gaps are reported under its identity instead of its name.
        let _ = members.entry(now, from, host, max);
    }

    /// Another daemon says which of its clients are in the group.
    pub(super) fn take_presence(
        &mut self,
        now: Time,
        index: usize,
        from: MemberId,
        host: &str,
        clients: &[&str],
    ) {
        let max = self.config.bimodal_members_max;
        let members = &mut self.bimodal.groups[index].members;
        let before = members.daemons.get(&from);
        let room = max - (members.others - before.map_or(0, |daemon| daemon.clients.len()));
        let Some(daemon) = members.entry(now, from, host, max) else {
            return;
        };
        let names = clients.iter().take(room);
        let clients: BTreeSet<Arc<str>> = names
            .map(|name| Arc::from(private(name, &daemon.host)))
            .collect();
        let before = std::mem::replace(&mut daemon.clients, clients);
        let changed = daemon.clients != before;
        let after = daemon.clients.len();
        members.others = members.others - before.len() + after;
        members.changed |= changed;
    }

    /// Shows the members to the subscribers here, and to the one that left.
    fn show_bimodal_view(
        &mut self,
        now: Time,
        index: usize,
        cause: Cause,
        changed: Option<Arc<str>>,
        leaver: Option<ClientId>,
    ) {
        let members = self.bimodal_members(index);
        let local = self.local;
        let group = &mut self.bimodal.groups[index];
        // What was gathered is shown with it.
        group.members.changed = false;
        let recipients: Vec<ClientId> = group.subscribers.iter().copied().chain(leaver).collect();
        if recipients.is_empty() {
            return;
        }
        group.members.views += 1;
        let view = View {
            group: group.name.clone(),
            id: ViewId {
                // Of no configuration: 0 is not given to any, and the view is this daemon's alone.
                config: ConfigId {
                    counter: 0,
                    representative: local,
                },
                seq: group.members.views,
                within: None,
            },
            kind: ViewKind::Regular,
            approximate: true,
            cause,
            changed,
            members,
        };
        let mut bytes = Vec::new();
        DaemonFrame::View(view).encode(&mut bytes);
        for id in recipients {
            self.hand_over_view(now, id, &bytes);
        }
    }

    /// Puts a view into a client's output. Publishers are not held back for it; a client that takes
    /// nothing at all is disconnected.
    fn hand_over_view(&mut self, now: Time, id: ClientId, frame: &[u8]) {
        let limit = self.config.disconnect_at;
        let Some(link) = self.clients.link_mut(id).filter(|link| !link.closing) else {
            return;
        };
        if link.output.in_memory() >= limit {
            return self.disconnect_slow(now, id);
        }
        let nothing = Bytes::new();
        link.output
            .deliver(frame, Payload::new(&nothing, 0, 1), ForSlow::Keep);
        let memory = link.count_memory();
        self.clients.output_changed(memory);
        self.journal.counters.views += 1;
        self.schedule.ready.insert(id);
        self.go_on_spilling(id);
    }
}
