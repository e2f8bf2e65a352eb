//! All clients of a daemon, their names, and the sums that limits are checked against.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use groupcast_core::Time;

use super::client::{Client, ClientLink, ClientOrder, ClientPhase, MemoryChange};
use super::orders::OrderIndex;
use super::{ClientId, Transport};
use crate::frame::Hello;

/// The clients, connected or still leaving.
#[derive(Debug)]
pub(super) struct Clients {
    /// How many orders the daemon has.
    orders: usize,
    all: BTreeMap<ClientId, Client>,
    last: u64,
    /// Names that are in use.
    names: BTreeMap<Arc<str>, ClientId>,
    /// Clients that wait for a name in use.
    awaiting: BTreeSet<(Arc<str>, ClientId)>,
    /// How many clients have a connection.
    links: usize,
    /// Clients with a connection over TCP that are not welcomed yet.
    unwelcomed: BTreeSet<ClientId>,
    /// Clients with a connection over TCP that are welcomed, and whose programs have said nothing.
    silent: BTreeSet<ClientId>,
    /// Sum of the groups that clients asked to be in.
    memberships: usize,
    /// Sum of the patterns that clients asked for.
    patterns: usize,
    /// Sum of their publish windows.
    windows: u64,
    /// Sum of their input: unfinished frames, and requests that wait.
    input: usize,
    /// Sum of the memory of their output.
    output: usize,
    /// Sum of what they have on a disk.
    on_disk: u64,
}

impl Clients {
    /// No clients yet, of a daemon with this many orders.
    pub(super) fn new(orders: usize) -> Self {
        Self {
            orders,
            all: BTreeMap::new(),
            last: 0,
            names: BTreeMap::new(),
            awaiting: BTreeSet::new(),
            links: 0,
            unwelcomed: BTreeSet::new(),
            silent: BTreeSet::new(),
            memberships: 0,
            patterns: 0,
            windows: 0,
            input: 0,
            output: 0,
            on_disk: 0,
        }
    }

    /// The daemon has at least this many orders from now on.
    pub(super) fn grow(&mut self, orders: usize) {
        self.orders = self.orders.max(orders);
        for client in self.all.values_mut() {
            client.orders.grow(orders, ClientOrder::default);
        }
    }

    /// Adds a client for a new connection. Clients are numbered in the order in which they connect.
    pub(super) fn connect(&mut self, transport: Transport) -> (ClientId, &mut Client) {
        self.last += 1;
        self.links += 1;
        let id = ClientId(self.last);
        if transport == Transport::Tcp {
            self.unwelcomed.insert(id);
        }
        let orders = self.orders;
        let client = self
            .all
            .entry(id)
            .or_insert_with(|| Client::new(transport, orders));
        (id, client)
    }

    /// Forgets the connection of a client, not the client.
    pub(super) fn disconnect(&mut self, id: ClientId) {
        let Some(client) = self.all.get_mut(&id) else {
            return;
        };
        self.unwelcomed.remove(&id);
        self.silent.remove(&id);
        if let Some(link) = client.link.take() {
            self.links -= 1;
            self.windows -= link.publish_window;
            self.output -= link.counted;
            self.on_disk -= link.counted_on_disk;
        }
        self.count_unfinished(id);
    }

    /// The messages that the order has under the numbers `placed`: the client of each, and the
    /// client's number for it.
    pub(super) fn placed(
        &self,
        on: OrderIndex,
        placed: RangeInclusive<u64>,
    ) -> Vec<(ClientId, u64)> {
        let all = self.all.iter();
        let of = all.flat_map(|(id, client)| {
            let numbers = client.placed(on, placed.clone());
            numbers.map(|number| (*id, number))
        });
        of.collect()
    }

    pub(super) fn remove(&mut self, id: ClientId) {
        self.await_no_name(id);
        if let Some(client) = self.all.remove(&id) {
            self.memberships -= client.wanted.len();
            self.patterns -= client.pattern_count();
        }
    }

    /// The client asks for the messages of `group` whose tags match `pattern`.
    pub(super) fn want_pattern(&mut self, id: ClientId, group: &Arc<str>, pattern: &str) {
        if let Some(client) = self.all.get_mut(&id) {
            let patterns = client.patterns.entry(group.clone()).or_default();
            self.patterns += usize::from(patterns.insert(pattern.into()));
        }
    }

    /// The client takes a pattern back. Returns whether it was the client's last one for the group;
    /// `None` if the client did not have it.
    pub(super) fn unwant_pattern(
        &mut self,
        id: ClientId,
        group: &str,
        pattern: &str,
    ) -> Option<bool> {
        let patterns = self.all.get_mut(&id)?.patterns.get_mut(group)?;
        patterns.remove(pattern).then_some(())?;
        self.patterns -= 1;
        Some(patterns.is_empty())
    }

    /// Sum of the patterns that clients asked for.
    pub(super) fn patterns(&self) -> usize {
        self.patterns
    }

    /// The client asks to be in `group`.
    pub(super) fn want(&mut self, id: ClientId, group: Arc<str>, discard_own: bool) {
        if let Some(client) = self.all.get_mut(&id)
            && client.wanted.insert(group, discard_own).is_none()
        {
            self.memberships += 1;
        }
    }

    /// The client wants to be in `group` no more. Returns the group's name, if the client had
    /// wanted it.
    pub(super) fn unwant(&mut self, id: ClientId, group: &str) -> Option<Arc<str>> {
        let client = self.all.get_mut(&id)?;
        let (group, _) = client.wanted.remove_entry(group)?;
        let patterns = client.patterns.remove(&group);
        self.patterns -= patterns.map_or(0, |patterns| patterns.len());
        self.memberships -= 1;
        Some(group)
    }

    /// Sum of the groups that clients asked to be in.
    pub(super) fn memberships(&self) -> usize {
        self.memberships
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&Client> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.all.get_mut(&id)
    }

    pub(super) fn link_mut(&mut self, id: ClientId) -> Option<&mut ClientLink> {
        self.all.get_mut(&id)?.link.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.all.iter().map(|(id, client)| (*id, client))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ClientId, &mut Client)> {
        self.all.iter_mut().map(|(id, client)| (*id, client))
    }

    /// The numbers of all clients, for a walk that changes them.
    pub(super) fn ids(&self) -> Vec<ClientId> {
        self.all.keys().copied().collect()
    }

    /// The client that is called `name`.
    pub(super) fn holder(&self, name: &str) -> Option<ClientId> {
        self.names.get(name).copied()
    }

    pub(super) fn take_name(&mut self, name: Arc<str>, id: ClientId) {
        self.names.insert(name, id);
    }

    /// Frees `name`, if it is this client's; returns whether it was.
    pub(super) fn release_name(&mut self, name: &str, id: ClientId) -> bool {
        let held = self.holder(name) == Some(id);
        if held {
            self.names.remove(name);
        }
        held
    }

    /// The client waits for the name in its hello.
    pub(super) fn await_name(&mut self, id: ClientId, hello: Hello) {
        let Some(client) = self.all.get_mut(&id) else {
            return;
        };
        if let Some(name) = &hello.name {
            self.awaiting.insert((name.as_str().into(), id));
        }
        client.phase = ClientPhase::AwaitingName(hello);
    }

    /// The client waits for no name any more.
    pub(super) fn await_no_name(&mut self, id: ClientId) {
        if let Some(client) = self.all.get(&id)
            && let ClientPhase::AwaitingName(hello) = &client.phase
            && let Some(name) = &hello.name
        {
            self.awaiting.remove(&(name.as_str().into(), id));
        }
    }

    /// The clients that wait for `name`, with their hellos. They wait no more.
    pub(super) fn take_awaiting(&mut self, name: &Arc<str>) -> Vec<(ClientId, Hello)> {
        let mut taken = Vec::new();
        let from = (name.clone(), ClientId(0));
        while let Some(entry) = self.awaiting.range(from.clone()..).next().cloned()
            && entry.0 == *name
        {
            self.awaiting.remove(&entry);
            let id = entry.1;
            if let Some(client) = self.all.get_mut(&id)
                && let ClientPhase::AwaitingName(hello) =
                    std::mem::replace(&mut client.phase, ClientPhase::Greeting)
            {
                taken.push((id, hello));
            }
        }
        taken
    }

    /// How many clients have a connection.
    pub(super) fn links(&self) -> usize {
        self.links
    }

    /// How many clients with a connection over TCP are not welcomed yet.
    pub(super) fn unwelcomed(&self) -> usize {
        self.unwelcomed.len()
    }

    /// Takes one of them: of those from the place from which most come, the one that connected
    /// first. It is not counted among them any more. So who connects without end from one host
    /// makes room for others.
    pub(super) fn take_unwelcomed(&mut self) -> Option<ClientId> {
        let taken = self.first_of_crowd(&self.unwelcomed, |_| true)?;
        self.unwelcomed.remove(&taken);
        Some(taken)
    }

    /// Takes one of those who are connected over TCP, since `within` at least, and have said
    /// nothing: the first one from where most of them come.
    pub(super) fn take_silent(&mut self, now: Time, within: Duration) -> Option<ClientId> {
        let is_late = |client: &Client| now - client.since >= within;
        let taken = self.first_of_crowd(&self.silent, is_late)?;
        self.silent.remove(&taken);
        Some(taken)
    }

    /// Of those among `ids` that are `wanted`, and from the place from which most of them come, the
    /// one that connected first.
    fn first_of_crowd(
        &self,
        ids: &BTreeSet<ClientId>,
        wanted: impl Fn(&Client) -> bool,
    ) -> Option<ClientId> {
        let all = ids.iter().filter_map(|id| {
            let client = self.all.get(id).filter(|client| wanted(client))?;
            let place = client.address.map(|address| place_of(address.ip()));
            Some((*id, place))
        });
        let all: Vec<_> = all.collect();
        let mut counts = BTreeMap::new();
        for (_, place) in &all {
            *counts.entry(place).or_insert(0) += 1;
        }
        let most = counts.values().max();
        let mut all = all.iter();
        let first = all.find(|(_, place)| counts.get(place) == most);
        first.map(|(id, _)| *id)
    }

    /// The client is welcomed, and has this publish window.
    pub(super) fn welcomed(&mut self, id: ClientId, window: u64) {
        self.unwelcomed.remove(&id);
        self.windows += window;
    }

    /// Whether the client is welcomed, and not leaving.
    pub(super) fn is_welcomed(&self, id: ClientId) -> bool {
        let client = self.all.get(&id);
        client.is_some_and(|client| matches!(client.phase, ClientPhase::Open))
    }

    /// The program of the client `is_silent`, or has said something.
    pub(super) fn note_silence(&mut self, id: ClientId, is_silent: bool) {
        if !self.is_welcomed(id) {
            return;
        }
        let over_tcp = self.all.get(&id).map(|client| client.transport) == Some(Transport::Tcp);
        match is_silent && over_tcp {
            true => self.silent.insert(id),
            false => self.silent.remove(&id),
        };
    }

    /// Sum of the publish windows.
    pub(super) fn windows(&self) -> u64 {
        self.windows
    }

    /// Sum of the input.
    pub(super) fn input(&self) -> usize {
        self.input
    }

    /// A request of the client waits, at this cost.
    pub(super) fn queued(&mut self, id: ClientId, cost: usize) -> Option<&mut Client> {
        let client = self.all.get_mut(&id)?;
        client.queued += cost;
        self.input += cost;
        Some(client)
    }

    /// A request of the client, of this cost, waits no more.
    pub(super) fn unqueued(&mut self, id: ClientId, cost: usize) -> Option<&mut Client> {
        self.input -= cost;
        let client = self.all.get_mut(&id)?;
        client.queued -= cost;
        Some(client)
    }

    /// The output of a client was counted anew.
    pub(super) fn output_changed(&mut self, memory: MemoryChange) {
        self.output = self.output - memory.before + memory.after;
    }

    /// Counts the output of a client anew.
    pub(super) fn count_output(&mut self, id: ClientId) {
        if let Some(link) = self.link_mut(id) {
            let memory = link.count_memory();
            self.output_changed(memory);
        }
    }

    /// Sum of the memory of the output.
    pub(super) fn output(&self) -> usize {
        self.output
    }

    /// The client whose output takes most memory, and how much; `None` if nothing waits for any
    /// client.
    pub(super) fn largest_output(&self) -> Option<(ClientId, usize)> {
        let links = self.all.iter().filter_map(|(id, client)| {
            let link = client.link.as_ref()?;
            Some((*id, link.counted))
        });
        links
            .filter(|(_, counted)| *counted > 0)
            .max_by_key(|(_, counted)| *counted)
    }

    /// Counts what a client has on a disk anew.
    pub(super) fn count_on_disk(&mut self, id: ClientId) {
        let Some(link) = self.link_mut(id) else {
            return;
        };
        let after = link.output.on_disk();
        let before = std::mem::replace(&mut link.counted_on_disk, after);
        self.on_disk = self.on_disk - before + after;
    }

    /// Sum of what they have on a disk.
    pub(super) fn on_disk(&self) -> u64 {
        self.on_disk
    }

    /// The client that has most on a disk, and how much; `None` if none has anything there.
    pub(super) fn largest_on_disk(&self) -> Option<(ClientId, u64)> {
        let links = self.all.iter().filter_map(|(id, client)| {
            let link = client.link.as_ref()?;
            Some((*id, link.counted_on_disk))
        });
        links
            .filter(|(_, on_disk)| *on_disk > 0)
            .max_by_key(|(_, on_disk)| *on_disk)
    }

    /// The client with most input, how much that is, and how much of it is not a frame yet; `None`
    /// if there is no input.
    pub(super) fn largest_input(&self) -> Option<(ClientId, usize, usize)> {
        let holders = self.all.iter().map(|(id, client)| {
            let unfinished = client.unfinished;
            (*id, client.queued + unfinished, unfinished)
        });
        holders
            .filter(|(_, input, _)| *input > 0)
            .max_by_key(|(_, input, _)| *input)
    }

    /// Counts the bytes of the client that are not a frame yet as input.
    pub(super) fn count_unfinished(&mut self, id: ClientId) {
        if let Some(client) = self.all.get_mut(&id) {
            let link = client.link.as_ref();
            let unfinished = link.map_or(0, ClientLink::unfinished);
            self.input = self.input - client.unfinished + unfinished;
            client.unfinished = unfinished;
        }
    }
}

/// What is taken for one host: an IPv4 address, or the network of an IPv6 address, in which a host
/// can take any address.
pub(super) fn place_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}
