//! A bulk endpoint on real sockets, which sender and receiver share.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use groupcast_core::node::AdmissionConfig;
use groupcast_core::text::printable;
use groupcast_core::{Incarnation, MemberId, NodeId, Protocol, Rng, Time};
use groupcast_net::{
    Clock, Endpoint, EndpointConfig, Key, KeyError, Moved, NetError, Purpose, Readiness, Sealing,
    Stranger, new_member, random_u64,
};
use groupcast_protocols::bulk::{Bulk, BulkConfig, ConfigError, Notice, TransferId};
use groupcast_protocols::channel::{BULK, RELAY, XGM};
use groupcast_protocols::managed::Glue;
use groupcast_protocols::relay::{AccountEvent, Accounts, Said, Word};
use groupcast_protocols::xgm::{
    CensusRequest, Key as MemberKey, Membership, Subgroups, WatchFrom, Xgm, XgmConfig,
};
use mio::unix::SourceFd;
use mio::{Interest, Token, Waker};

use crate::content::ReadError;
use crate::instance::{Instance, InstanceEvent};
use crate::send::Audience;
use crate::spool::SpoolError;
use crate::strangers::Strangers;
use crate::warnings::Warnings;

/// A thread that reads or writes has woken the loop.
const WAKE: Token = Token(0);

/// The sockets of another host of the same thread can be read.
const OTHER: Token = Token(1);

/// Whether multicasts reach a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkReach {
    /// They do.
    Multicast {
        /// Hosts that they do not reach: each gets a copy of what is sent to the group, once it has
        /// proved that it is there and has the key. For those that send or ask; no other host gets
        /// copies.
        without: Vec<HostAddress>,
    },
    /// They do not: it gets copies from the senders that name it. For those that receive or answer.
    Copies {
        /// The port at which it listens, on [`TransferLink::interface`]; data comes to the next
        /// one.
        port: u16,
    },
}

impl Default for LinkReach {
    fn default() -> Self {
        Self::Multicast {
            without: Vec::new(),
        }
    }
}

/// A host that multicasts do not reach, as its sender names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostAddress {
    /// What it is called until it says its name.
    pub host: String,
    /// Where it listens.
    pub address: SocketAddrV4,
}

/// The network of a sender or a receiver, and the settings of its protocol.
#[derive(Clone, Debug)]
pub struct TransferLink {
    /// Its name, by which senders require it.
    pub name: String,
    /// The interface's address. On a loopback address everything stays on this host.
    pub interface: Ipv4Addr,
    /// The group's multicast address and port.
    pub group: SocketAddrV4,
    /// How many routers its multicasts may pass, plus one. Default 1: they stay on the link.
    pub ttl: u8,
    /// The class of service of its datagrams (DSCP), 0 to 63. Default 0: none.
    pub dscp: u8,
    /// What reaches this host, and whom its multicasts do not reach. Default: multicasts reach all.
    pub reach: LinkReach,
    /// The key of the group. Without one, every host on the network can read and forge everything.
    pub key: Option<Key>,
    /// The protocol's settings. Those of the sender hold for its transfers.
    pub bulk: BulkConfig,
    /// Whether to make packets smaller if a datagram would not fit the interface's frames.
    pub fit_packet: bool,
}

impl TransferLink {
    /// The hosts that its multicasts do not reach, as it names them.
    pub(crate) fn without(&self) -> &[HostAddress] {
        match &self.reach {
            LinkReach::Multicast { without } => without,
            LinkReach::Copies { .. } => &[],
        }
    }
}

/// Why a sender or a receiver cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The sockets cannot be opened.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The operating system gives no random bytes.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The settings contradict each other.
    #[error("the setting {0}")]
    Config(#[from] ConfigError),
    /// The protocol does not take the transfer.
    #[error(transparent)]
    Send(#[from] groupcast_protocols::bulk::SendError),
    /// The protocol does not take a message.
    #[error(transparent)]
    Offer(#[from] groupcast_protocols::bulk::OfferError),
    /// The census cannot be asked for.
    #[error(transparent)]
    Census(#[from] groupcast_protocols::xgm::CensusError),
    /// The target directory cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The content cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The policy has receivers speak to each other, and some do not hear others.
    #[error(
        "{} cannot be served by this policy: its receivers speak to each other, and those that multicasts do not reach \
         hear the sender alone; take ack, nak, ring, xtp, multidriver or list",
        .host
    )]
    Unheard {
        /// One that multicasts do not reach.
        host: String,
    },
    /// A relay would hear itself.
    #[error("{group} is on both sides of this relay: it would relay what it sends itself")]
    SameGroup {
        /// The group.
        group: SocketAddrV4,
    },
    /// A member that answers would work on no request.
    #[error("the setting at_once is 0, and every request would be refused: take 1 or more")]
    NothingAtOnce,
    /// The system refused another operation.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl TransferError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// How long the census before a transfer may take. If it is not complete by then, the size of the
/// group is not known.
const COUNT_WITHIN: Duration = Duration::from_secs(2);

/// How long a turn waits at most: how late a stop request is seen.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// The key of a receiver's only member in group management.
const MEMBER: MemberKey = MemberKey(1);

/// An endpoint with one bulk instance, and its group management.
pub(crate) struct BulkHost {
    endpoint: Endpoint<Instance>,
    /// Joins the two.
    glue: Glue,
    waker: Arc<Waker>,
    ready: Vec<(Token, Readiness)>,
    /// Words of relays, until they are polled.
    accounts: VecDeque<AccountEvent>,
    /// Strangers that the user was told of.
    told: Strangers,
    /// Hosts without multicast that have not proved yet that they are there.
    awaited: Vec<HostAddress>,
    /// What became of the interface, until it is polled.
    moved: Option<Moved>,
    warnings: Warnings,
}

impl BulkHost {
    pub(crate) fn open(link: &TransferLink) -> Result<Self, TransferError> {
        Self::open_by(link, Clock::start())
    }

    /// The same with the time of `clock`.
    pub(crate) fn open_by(link: &TransferLink, clock: Clock) -> Result<Self, TransferError> {
        // Before any of them is used, and as they were given.
        link.bulk.validate()?;
        let awaited = link.without().to_vec();
        if let [first, ..] = &awaited[..]
            && link.bulk.policy.joins_receivers()
        {
            let host = first.host.clone();
            return Err(TransferError::Unheard { host });
        }
        let local = new_member(&link.name)?;
        let rng = Rng::new(random_u64()?);
        // A restarted member is a new peer, so there is room for two lives of each.
        let peers_max = link.bulk.receivers_max * 2;
        let mut endpoint = open_endpoint(link, local, (&rng, clock), peers_max)?;
        let mut bulk = link.bulk.clone();
        if link.fit_packet {
            fit(&mut bulk, &endpoint);
        }
        let bulk = Bulk::new(local, bulk, rng.fork("bulk"))?;
        let node = endpoint.node_mut();
        node.open(BULK, Instance::Bulk(Box::new(bulk)));
        let name = link.name.as_bytes();
        let xgm = Xgm::new(local, name, xgm_config(&link.bulk), rng.fork("xgm"));
        node.open(XGM, Instance::Xgm(Box::new(xgm)));
        let accounts = Accounts::new(link.bulk.receivers_max);
        node.open(RELAY, Instance::Relay(Box::new(accounts)));
        let waker =
            Waker::new(endpoint.registry(), WAKE).map_err(TransferError::system("make a waker"))?;
        let warnings = Warnings::default();
        if let Some(warning) = endpoint.receive_buffer().warning() {
            warnings.add(warning);
        }
        // Takes down which interface that is.
        endpoint.follow_interface();
        Ok(Self {
            endpoint,
            glue: Glue::new(MEMBER),
            waker: Arc::new(waker),
            ready: Vec::new(),
            accounts: VecDeque::new(),
            told: Strangers::default(),
            awaited,
            moved: None,
            warnings,
        })
    }

    /// Wakes the loop, from any thread.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    pub(crate) fn now(&self) -> Time {
        self.endpoint.now()
    }

    pub(crate) fn bulk(&mut self) -> &mut Bulk {
        let bulk = self.endpoint.node_mut().instance_mut(BULK);
        let bulk = bulk.and_then(Instance::bulk);
        bulk.expect("the instance was opened with the host and stays")
    }

    pub(crate) fn xgm(&mut self) -> &mut Xgm {
        let xgm = self.endpoint.node_mut().instance_mut(XGM);
        let xgm = xgm.and_then(Instance::xgm);
        xgm.expect("the instance was opened with the host and stays")
    }

    /// The accounts of relays that this host hears, and its own if it is a relay.
    pub(crate) fn accounts(&mut self) -> &mut Accounts {
        let accounts = self.endpoint.node_mut().instance_mut(RELAY);
        let accounts = accounts.and_then(Instance::accounts);
        accounts.expect("the instance was opened with the host and stays")
    }

    /// Bulk and accounts together, for a relay.
    pub(crate) fn relayed(&mut self) -> (&mut Bulk, &mut Accounts) {
        let (mut bulk, mut accounts) = (None, None);
        for (_, instance) in self.endpoint.node_mut().instances_mut() {
            match instance {
                Instance::Bulk(it) => bulk = Some(&mut **it),
                Instance::Relay(it) => accounts = Some(&mut **it),
                Instance::Xgm(_) => {}
            }
        }
        let both = bulk.zip(accounts);
        both.expect("the instances were opened with the host and stay")
    }

    /// What a relay has said next. Poll it before the [events](Self::poll_event) that follow from
    /// it.
    pub(crate) fn poll_account(&mut self) -> Option<AccountEvent> {
        let heard = self.accounts.pop_front();
        heard.or_else(|| self.accounts().poll_event())
    }

    /// Counts receivers below a relay of transfer `id` as receivers that have come; a relay below
    /// it that stands aside for its own receivers does not count.
    pub(crate) fn count_behind(&mut self, id: TransferId, event: &AccountEvent) {
        let now = self.now();
        match event.said {
            Said::Word(Word::Registered { node, .. }) => {
                self.bulk().stands_for(now, id, event.relay, node);
            }
            Said::Word(Word::Aside { row }) => {
                let account = self.accounts().account(event.number, event.relay);
                let row = account.and_then(|account| account.rows().get(row as usize));
                if let Some(node) = row.map(|row| row.node) {
                    self.bulk().stands_no_more_for(now, id, event.relay, node);
                }
            }
            _ => {}
        }
    }

    /// The descriptor of its poll, for a caller that waits for it together with another host.
    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.endpoint.as_raw_fd()
    }

    /// How long until its next turn is due, if its sockets have nothing before.
    pub(crate) fn due_within(&self) -> Duration {
        self.endpoint.due_within()
    }

    /// Wakes when `fd` can be read.
    pub(crate) fn wake_on(&self, fd: RawFd) -> Result<(), TransferError> {
        let registry = self.endpoint.registry();
        let registered = registry.register(&mut SourceFd(&fd), OTHER, Interest::READABLE);
        registered.map_err(TransferError::system("wait for two groups"))
    }

    /// From now on loses everything that comes, or no longer.
    #[cfg(test)]
    pub(crate) fn set_deaf(&mut self, is_deaf: bool) {
        let nothing: groupcast_net::endpoint::Filter = Box::new(|_| false);
        self.endpoint.set_filter(is_deaf.then_some(nothing));
    }

    /// Sends all waiting datagrams, without waiting.
    pub(crate) fn flush(&mut self) {
        let now = self.now();
        self.endpoint.flush(now);
    }

    /// Makes this host a receiver, in these subgroups or in one at random.
    pub(crate) fn join(&mut self, subgroups: Option<Subgroups>) {
        let xgm = self.xgm();
        let joined = xgm.join(MEMBER);
        joined.expect("the first member finds room");
        if let Some(subgroups) = subgroups.filter(|it| !it.is_empty()) {
            let set = xgm.set_subgroups(MEMBER, subgroups);
            set.expect("it has just joined, and is in a subgroup");
        }
        self.follow_subgroups();
    }

    /// Counts the hosts that receive, where the settings follow the size of the group and the
    /// audience does not say it; takes less than 1 s for few hosts. Notices that come meanwhile are
    /// of others' transfers.
    pub(crate) fn count_group(
        &mut self,
        audience: &Audience,
        stop: &AtomicBool,
    ) -> Result<(), TransferError> {
        let follows_size = self.bulk().config().policy.follows_size();
        if !follows_size || *audience != Audience::Anybody {
            return Ok(());
        }
        let now = self.now();
        let request = CensusRequest {
            timeout: COUNT_WITHIN,
            ..CensusRequest::default()
        };
        self.xgm().census(now, request)?;
        while self.xgm().is_asking() && !stop.load(Ordering::Relaxed) {
            self.turn(PATIENCE)?;
            while self.poll_event().is_some() {}
        }
        let now = self.now();
        let (glue, bulk, xgm) = self.managed();
        glue.follow(now, bulk, xgm);
        Ok(())
    }

    /// Monitors a transfer that this host sends: a receiver whose entity falls silent is given up,
    /// whatever the protocol knows of it. An entity that was never heard, as of earlier releases,
    /// does not count as silent.
    pub(crate) fn monitor(&mut self, id: TransferId) {
        let now = self.now();
        let (glue, _, xgm) = self.managed();
        let (membership, from) = (Membership::default(), WatchFrom::FirstWord);
        let monitored = glue.monitor(now, xgm, id, membership, from);
        monitored.expect("a sender has one transfer at a time");
    }

    /// The bulk instance and the entity, and the glue between them.
    fn managed(&mut self) -> (&mut Glue, &mut Bulk, &mut Xgm) {
        let (mut bulk, mut xgm) = (None, None);
        for (_, instance) in self.endpoint.node_mut().instances_mut() {
            match instance {
                Instance::Bulk(it) => bulk = Some(&mut **it),
                Instance::Xgm(it) => xgm = Some(&mut **it),
                Instance::Relay(_) => {}
            }
        }
        let both = bulk.zip(xgm);
        let (bulk, xgm) = both.expect("the instances were opened with the host and stay");
        (&mut self.glue, bulk, xgm)
    }

    /// Passes the subgroups that its member is in now to the bulk instance.
    fn follow_subgroups(&mut self) {
        if let Some(subgroups) = self.xgm().subgroups(MEMBER) {
            self.bulk().set_subgroups(subgroups);
        }
    }

    /// The next event of the transfers. Passes events of group management on to them.
    pub(crate) fn poll_event(&mut self) -> Option<Notice> {
        loop {
            let (_, event) = self.endpoint.node_mut().poll_event()?;
            let now = self.now();
            let (glue, bulk, xgm) = self.managed();
            match event {
                InstanceEvent::Bulk(notice) => {
                    glue.hear_notice(now, &notice, bulk, xgm);
                    return Some(notice);
                }
                InstanceEvent::Xgm(event) => glue.hear_event(now, &event, bulk),
                InstanceEvent::Relay(event) => self.accounts.push_back(event),
            }
        }
    }

    /// The address that `member` was heard from.
    pub(crate) fn address(&self, member: MemberId) -> Option<std::net::SocketAddr> {
        let mut peers = self.endpoint.node().peers();
        peers.find(|(peer, _)| *peer == member).map(|(_, at)| at)
    }

    /// A name for `member`, which calls itself `said`: its address follows if another one has that
    /// name in `names`, or it has none.
    pub(crate) fn unique_name(
        &self,
        names: &BTreeMap<MemberId, String>,
        member: MemberId,
        said: &[u8],
    ) -> String {
        let name = printable(said);
        let is_taken = names.values().any(|other| *other == name);
        if !name.is_empty() && !is_taken {
            return name;
        }
        let address = self.address(member);
        let address = address.map_or_else(|| member.to_string(), |at| at.to_string());
        format!("{name}@{address}")
    }

    /// The hosts without multicast that have never answered.
    pub(crate) fn awaited(&self) -> &[HostAddress] {
        &self.awaited
    }

    /// The same as members that never came, by the names that the link has for them.
    pub(crate) fn absent(&self) -> impl Iterator<Item = (MemberId, String)> + '_ {
        self.awaited.iter().map(|it| {
            let member = MemberId {
                node: NodeId::from_name(&it.host),
                incarnation: Incarnation(0),
            };
            (member, it.host.clone())
        })
    }

    /// Whether `member` gets copies, because multicasts do not reach it.
    pub(crate) fn gets_copies(&self, member: MemberId) -> bool {
        let address = self.address(member);
        let mut copies = self.endpoint.node().copies().iter();
        copies.any(|copy| Some(copy.address) == address)
    }

    /// How many datagrams were sent as copies.
    pub(crate) fn copies_sent(&self) -> u64 {
        self.endpoint.sent().copies
    }

    /// A sender of datagrams to the group that cannot belong to it; reported once for each host,
    /// and again after ten minutes.
    pub(crate) fn poll_stranger(&mut self) -> Option<Stranger> {
        let kinds = ["other_cluster", "other_version"];
        let now = self.now();
        let mut strangers = self.endpoint.strangers();
        let stranger = strangers.find(|it| {
            let is_new = it.age < Duration::from_secs(60);
            let is_one = is_new && kinds.contains(&it.kind);
            is_one && self.told.is_news(now, it.kind, it.last.ip())
        })?;
        Some(Stranger {
            hint: hint(stranger.kind).unwrap_or(stranger.hint),
            ..stranger
        })
    }

    /// Why it cannot join or leave the group, or follow its interface: once, until it can.
    pub(crate) fn poll_trouble(&mut self) -> Option<String> {
        self.endpoint.poll_trouble()
    }

    /// The next warning for the user.
    pub(crate) fn poll_warning(&mut self) -> Option<String> {
        self.warnings.take()
    }

    /// What became of the interface since the last call.
    pub(crate) fn poll_moved(&mut self) -> Option<Moved> {
        self.moved.take()
    }

    /// One turn of the loop: sends, waits for at most `patience`, reads. Poll all events before it.
    pub(crate) fn turn(&mut self, patience: Duration) -> Result<(), TransferError> {
        let moved = self.endpoint.follow_interface();
        self.moved = moved.or(self.moved);
        let now = self.now();
        let (glue, bulk, xgm) = self.managed();
        glue.follow(now, bulk, xgm);
        self.endpoint
            .turn(Some(patience), &mut self.ready)
            .map_err(TransferError::system("wait for the network"))?;
        let node = self.endpoint.node_mut();
        while node.poll_transition().is_some() {}
        let is_there = |host: &HostAddress| node.peers().any(|(_, at)| at == host.address.into());
        self.awaited.retain(|host| !is_there(host));
        self.follow_subgroups();
        Ok(())
    }
}

/// The hint for a kind of stranger to a transfer, where no daemon's key can be changed.
fn hint(kind: &str) -> Option<&'static str> {
    match kind {
        "other_cluster" => Some(
            "it has another key, or only one of the two has a key (--key, --insecure); what belongs to another key needs \
             another --group",
        ),
        "other_version" => Some("it runs another release: all in a group must speak one version"),
        _ => None,
    }
}

/// Settings of group management: a sender's entity gives up a silent receiver after the same time
/// as its transfers.
fn xgm_config(bulk: &BulkConfig) -> XgmConfig {
    XgmConfig {
        // A monitor finds out after two and a half intervals.
        watch_interval: bulk.vanish_after * 2 / 5,
        ..XgmConfig::default()
    }
}

/// The sockets of `link`, with room for `peers_max` peers.
pub(crate) fn open_endpoint<P: Protocol>(
    link: &TransferLink,
    local: MemberId,
    (rng, clock): (&Rng, Clock),
    peers_max: usize,
) -> Result<Endpoint<P>, TransferError> {
    let at = |port| SocketAddrV4::new(link.interface, port);
    let mut config = match &link.reach {
        LinkReach::Multicast { without } => {
            let mut config = EndpointConfig::multicast(at(0), link.group);
            config.invited = without.iter().map(|host| host.address).collect();
            config.copies_max = without.len();
            config
        }
        LinkReach::Copies { port } => EndpointConfig::mesh(at(*port), Vec::new()),
    };
    // With the kernel's time stamps busy processors are not taken for a queue of the network.
    config.stamps = true;
    config.multicast_ttl = link.ttl;
    config.dscp = link.dscp;
    let sealing = match &link.key {
        Some(key) => Sealing::Key(key.clone()),
        None => Sealing::Insecure,
    };
    let admission = AdmissionConfig {
        peers_max,
        ..AdmissionConfig::default()
    };
    let endpoint = Endpoint::builder(config, local, sealing)
        .purpose(Purpose::Transfer)
        .admission(admission)
        .rng(rng.clone())
        .clock(clock);
    let endpoint = match &link.reach {
        LinkReach::Multicast { .. } => endpoint.free_port(),
        LinkReach::Copies { .. } => endpoint,
    };
    Ok(endpoint.open()?)
}

/// Makes packets smaller, if a datagram of the settings would not fit the interface's frames.
fn fit(bulk: &mut BulkConfig, endpoint: &Endpoint<Instance>) {
    let header = bulk.body_max().saturating_sub(bulk.packet);
    if let Some(max) = endpoint.body_max() {
        let fitting = max.saturating_sub(header);
        bulk.packet = bulk.packet.min(fitting).max(1);
    }
}
