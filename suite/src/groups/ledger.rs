//! What is known of all clients and daemons of a run, from outside: it outlives each of them.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{ConfigId, MemberId, MessageId};
use groupcast_session::ClientId;
use groupcast_session::frame::Disconnect;

use super::client::{Client, Life};
use crate::asking::AskTally;

/// All clients of a run, and what its daemons went through.
#[derive(Default)]
pub struct Ledger {
    pub(super) clients: Vec<Client>,
    /// The regular configurations that came to each daemon.
    pub(super) configs: BTreeMap<MemberId, Vec<ConfigId>>,
    /// Messages of engines; all others are the simulator's own.
    pub(super) of_engines: BTreeSet<MessageId>,
    /// Connections that there were.
    pub(super) lives: usize,
    /// What was wrong at once.
    pub(super) violations: Vec<String>,
}

/// What the clients of finished runs went through.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Connections of clients, witnesses apart.
    pub connections: u64,
    /// Those that ended with the answer to a good-bye.
    pub parted: u64,
    /// Those that the daemon ended because the client did not read, and that heard so in the end.
    pub expelled: u64,
    /// Those that ended in any other way: they vanished, or their daemon did.
    pub lost: u64,
    /// Messages that clients published.
    pub published: u64,
    /// Messages that they saw, and the witnesses.
    pub seen: u64,
    /// Views that they saw, and the witnesses.
    pub views: u64,
    /// What they asked each other.
    pub asked: AskTally,
}

impl Tally {
    /// Adds what the clients of one run went through.
    pub(super) fn add(&mut self, ledger: &Ledger) {
        for client in &ledger.clients {
            self.asked.add(&client.asking);
        }
        for (client, life) in ledger.lives() {
            self.seen += life.messages().count() as u64;
            self.views += life.views().count() as u64;
            self.published += life.published.len() as u64;
            if client.witness {
                continue;
            }
            self.connections += 1;
            let expelled = [Disconnect::TooSlow, Disconnect::Overload];
            match &life.end {
                Some((Disconnect::Bye, _)) => self.parted += 1,
                Some((code, _)) if expelled.contains(code) => self.expelled += 1,
                Some(_) => self.lost += 1,
                None => {}
            }
        }
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger")
            .field("clients", &self.clients.len())
            .field("daemons", &self.configs.len())
            .finish_non_exhaustive()
    }
}

impl Ledger {
    /// The client that `daemon`'s host has under `id`.
    pub(super) fn client(&mut self, host: usize, id: ClientId) -> Option<&mut Client> {
        let mut clients = self.clients.iter_mut();
        clients.find(|client| client.host == host && client.at == Some(id))
    }

    /// The clients of a host.
    pub(super) fn of_host(&mut self, host: usize) -> impl Iterator<Item = &mut Client> {
        let clients = self.clients.iter_mut();
        clients.filter(move |client| client.host == host)
    }

    /// How many regular configurations came to `daemon`.
    pub(super) fn configs_of(&self, daemon: MemberId) -> usize {
        self.configs.get(&daemon).map_or(0, Vec::len)
    }

    /// `daemon` at `host` is no more: its clients find their connections closed, once they read.
    pub(super) fn daemon_ended(&mut self, host: usize, daemon: MemberId) {
        let configs = self.configs_of(daemon);
        let mut wrong = Vec::new();
        for client in self.of_host(host) {
            if client.life().is_some_and(|life| life.daemon == daemon) {
                client.close();
                wrong.extend(client.read(configs).err());
            }
        }
        self.violations.append(&mut wrong);
    }

    /// All connections that ever were, with the client of each.
    pub(super) fn lives(&self) -> impl Iterator<Item = (&Client, &Life)> {
        self.clients
            .iter()
            .flat_map(|client| client.lives.iter().map(move |life| (client, life)))
    }

    /// What the witness of a daemon saw; `None` if the daemon expelled it, because more than its
    /// limit came at once when states had been exchanged.
    pub(super) fn witness(&self, daemon: MemberId) -> Option<&Life> {
        let mut lives = self.lives();
        let witness = lives.find(|(client, life)| client.witness && life.daemon == daemon);
        let witness = witness.filter(|(_, life)| !life.is_expelled());
        witness.map(|(_, life)| life)
    }
}
