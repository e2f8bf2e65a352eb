//! The members of a bimodal group, as far as this daemon has heard.
//!
//! Each daemon announces which of its clients are in the group (a *presence*, a message of the
//! gossip): when that changes, when it hears of a daemon that may not know, when it has slept
//! itself, and every ten seconds. The gossip says which daemons it has heard lately. What a daemon
//! announced is forgotten when it is not among these any more and has been silent. So a view is
//! this daemon's own and comes late, and no message is known to stand before or after it: it is
//! marked approximate.
//!
//! A client is shown its own join or leave at once. All changes, those of this daemon's clients
//! too, are gathered for the others until [`Engine::tend_bimodal`]: a view is shown to every
//! subscriber, so a client that joins and leaves in a loop would keep a daemon busy with views.

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

/// The least time between two announcements that newcomers cause. In a large group it is
/// [`ANNOUNCE_PER_DAEMON`] for each daemon, so that all together make at most some 20 such
/// announcements a second.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
const ANNOUNCE_PER_DAEMON: Duration = Duration::from_millis(50);
/// A daemon repeats its announcement this long after the last one, because announcements get lost,
/// and silent daemons are forgotten: a wrong view is right again after this. In a large group it is
/// [`REPEAT_PER_DAEMON`] for each daemon, so that all together make at most some two a second.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10);
const REPEAT_PER_DAEMON: Duration = Duration::from_millis(500);
/// A daemon that the gossip does not hear is forgotten when it has been silent for this long.
const SILENT: Duration = Duration::from_secs(2);

/// A group's members at other daemons, and this daemon's announcements.
#[derive(Debug, Default)]
pub(super) struct Members {
    daemons: BTreeMap<MemberId, Daemon>,
    /// How many clients other daemons have in the group together.
    others: usize,
    /// Daemons that the gossip has heard lately.
    known: BTreeSet<MemberId>,
    /// When to announce again, because the last announcement is out of date or a newcomer may not
    /// have heard it.
    announce_at: Option<Time>,
    last_announced: Option<Time>,
    /// When the daemon last tended the group.
    tended: Option<Time>,
    /// The announcement is on its way to the gossip.
    announcing: bool,
    /// What the views of subscribers here lack.
    behind: Behind,
    /// Subscribers that lack nothing of it.
    shown: BTreeSet<ClientId>,
    views: u64,
}

/// What has changed since a view was shown to all subscribers here.
#[derive(Debug, Default)]
enum Behind {
    #[default]
    Nothing,
    /// A client of this daemon.
    One(Cause, Arc<str>),
    /// Clients of other daemons, or several.
    Many,
}

#[derive(Debug)]
struct Daemon {
    host: Arc<str>,
    /// Private names of its clients in the group.
    clients: BTreeSet<Arc<str>>,
    heard: Time,
}

impl Members {
    /// The name of a daemon, if this daemon has heard it.
    pub(super) fn host(&self, daemon: MemberId) -> Option<&Arc<str>> {
        self.daemons.get(&daemon).map(|daemon| &daemon.host)
    }

    /// How many members other daemons have.
    pub(super) fn others(&self) -> usize {
        self.others
    }

    /// Whether the next message for the gossip is an announcement.
    pub(super) fn is_announcing(&self) -> bool {
        self.announcing
    }

    /// The gossip took the announcement, or never will.
    pub(super) fn announced(&mut self, now: Time) {
        self.announcing = false;
        self.announce_at = None;
        self.last_announced = Some(now);
    }

    /// This daemon's clients in the group have changed: announces at once.
    fn announce(&mut self, now: Time) {
        self.announce_at = Some(now);
    }

    /// A daemon may not have heard the last announcement: announces again, after
    /// [`ANNOUNCE_INTERVAL`].
    fn repeat(&mut self, now: Time) {
        let interval = ANNOUNCE_INTERVAL.max(ANNOUNCE_PER_DAEMON.saturating_mul(self.crowd()));
        let at = self.last_announced.map_or(now, |last| last + interval);
        self.announce_at.get_or_insert(at.max(now));
    }

    /// Announces again if the last announcement is old, even if there are no clients.
    fn refresh(&mut self, now: Time) {
        let interval = REPEAT_INTERVAL.max(REPEAT_PER_DAEMON.saturating_mul(self.crowd()));
        if self
            .last_announced
            .is_some_and(|last| now - last >= interval)
        {
            self.announce_at.get_or_insert(now);
        }
    }

    /// The members have changed, by `one` client of this daemon or at another daemon.
    fn changed(&mut self, one: Option<(Cause, Arc<str>)>) {
        self.shown.clear();
        self.behind = match (&self.behind, one) {
            (Behind::Nothing, Some((cause, client))) => Behind::One(cause, client),
            _ => Behind::Many,
        };
    }

    fn crowd(&self) -> u32 {
        u32::try_from(self.known.len()).unwrap_or(u32::MAX)
    }

    /// The entry of a daemon called `host`. `None` if it has none and there are `max` entries.
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
        let (known, others) = (&self.known, &mut self.others);
        let mut changed = false;
        self.daemons.retain(|id, daemon| {
            let stays = known.contains(id) || now - daemon.heard < SILENT;
            if !stays {
                *others -= daemon.clients.len();
                changed |= !daemon.clients.is_empty();
            }
            stays
        });
        if changed {
            self.changed(None);
        }
    }
}

impl Engine {
    /// Tells the engine which daemons the gossip of the group `index` has heard lately, without
    /// this one. Call it a few times a second: it announces, shows and forgets what is due.
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
        // This daemon may have slept: others may have forgotten its clients meanwhile.
        let slept = tended.is_some_and(|last| now - last >= SILENT);
        if (newcomers || slept) && !group.subscribers.is_empty() {
            members.repeat(now);
        }
        members.refresh(now);
        members.forget(now);
        let shown = std::mem::take(&mut members.shown);
        let (cause, changed) = match std::mem::take(&mut members.behind) {
            Behind::Nothing => return self.look_for_namesake(index),
            Behind::One(cause, client) => (cause, Some(client)),
            Behind::Many => (Cause::Network, None),
        };
        let recipients = group.subscribers.difference(&shown).copied().collect();
        self.show_bimodal_view(now, index, cause, changed, recipients);
        self.look_for_namesake(index);
    }

    pub(in super::super) fn join_bimodal(&mut self, now: Time, id: ClientId, index: usize) {
        let group = &mut self.bimodal.groups[index];
        group.subscribers.insert(id);
        group.members.announce(now);
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let changed = client.private.clone();
        group.members.changed(Some((Cause::Join, changed.clone())));
        group.members.shown.insert(id);
        self.show_own_change(now, index, Cause::Join, changed, id);
    }

    /// A client has left the group `index`.
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
        let group = &mut self.bimodal.groups[index];
        group.members.changed(Some((cause, changed.clone())));
        if cause == Cause::Leave {
            self.show_own_change(now, index, cause, changed, id);
        }
    }

    /// Shows a client its own join or leave, which counts as work that it makes.
    fn show_own_change(
        &mut self,
        now: Time,
        index: usize,
        cause: Cause,
        changed: Arc<str>,
        id: ClientId,
    ) {
        let named = self.show_bimodal_view(now, index, cause, Some(changed), vec![id]);
        self.named += named as u64;
    }

    /// A client leaves all bimodal groups.
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

    /// This daemon's announcement, if it is due.
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

    /// A message came from a client with this private name: its daemon lives.
    pub(super) fn heard_of(&mut self, now: Time, index: usize, from: MemberId, sender: &str) {
        if from == self.local {
            return;
        }
        let max = self.config.bimodal_members_max;
        let host = sender.rsplit('@').next().unwrap_or_default();
        let members = &mut self.bimodal.groups[index].members;
        // If there is no room for an entry, gaps are reported under the daemon's identity instead
        // of its name.
        let _ = members.entry(now, from, host, max);
    }

    /// Another daemon announces which of its clients are in the group.
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
        if changed {
            members.changed(None);
        }
    }

    /// Shows the members to `recipients`; how many there are.
    fn show_bimodal_view(
        &mut self,
        now: Time,
        index: usize,
        cause: Cause,
        changed: Option<Arc<str>>,
        recipients: Vec<ClientId>,
    ) -> usize {
        if recipients.is_empty() {
            return 0;
        }
        let members = self.bimodal_members(index);
        let (local, named) = (self.local, members.len());
        let group = &mut self.bimodal.groups[index];
        group.members.views += 1;
        let view = View {
            group: group.name.clone(),
            id: ViewId {
                // The view belongs to no configuration, and no configuration has the counter 0.
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
        self.check_output(now);
        named
    }

    /// Puts a view into a client's output. No publisher is held back for it; a client with too much
    /// output is disconnected.
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
