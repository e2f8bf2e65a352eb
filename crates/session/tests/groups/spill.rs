//! Clients that take their messages too slowly, where these wait on a disk meanwhile.

use std::collections::BTreeMap;

use groupcast_core::{MemberId, Rng, Service};
use groupcast_session::frame::{ClientFrame, Disconnect, SPILL};
use groupcast_session::groups::{
    ClientStatus, Fact, SlowRule, SlowRules, SpillDone, SpillPlace, SpillWork,
};
use groupcast_session::{ClientId, EngineConfig, WhenSlow};

use crate::world::World;

/// What comes beyond this goes to the disk.
const SPILL_AT: usize = 100_000;
const MIB: usize = 1 << 20;

/// A disk for files of clients.
#[derive(Default)]
struct Disk {
    files: BTreeMap<ClientId, Vec<u8>>,
    /// What is written or read fails with this.
    broken: Option<&'static str>,
    /// What is asked for is not done.
    stuck: bool,
    /// What is read is not what was written.
    lies: bool,
    /// The longest that any file has been.
    longest: usize,
}

impl Disk {
    fn write(&mut self, client: ClientId, mut place: SpillPlace, mut bytes: &[u8]) {
        let file = self.files.entry(client).or_default();
        for (offset, len) in place.parts(bytes.len()) {
            let (now, rest) = bytes.split_at(len);
            let end = offset as usize + len;
            file.resize(file.len().max(end), 0);
            file[offset as usize..end].copy_from_slice(now);
            (place, bytes) = (place.after(len), rest);
        }
        self.longest = self.longest.max(file.len());
    }

    fn read(&self, client: ClientId, place: SpillPlace, len: usize) -> Vec<u8> {
        let file = &self.files[&client];
        let parts = place.parts(len);
        let part = |(offset, len): (u64, usize)| &file[offset as usize..offset as usize + len];
        parts.into_iter().flat_map(part).copied().collect()
    }

    fn carry_out(&mut self, work: SpillWork) -> Option<(ClientId, SpillDone)> {
        let (SpillWork::Write { client, .. }
        | SpillWork::Read { client, .. }
        | SpillWork::Forget { client }) = work;
        if let Some(why) = self.broken {
            return Some((client, SpillDone::Failed(why.into())));
        }
        match work {
            SpillWork::Write { place, bytes, .. } => {
                self.write(client, place, &bytes.concat());
                Some((client, SpillDone::Written))
            }
            SpillWork::Read { place, len, .. } => {
                let mut bytes = self.read(client, place, len);
                if self.lies {
                    bytes[..4].fill(0xff);
                }
                Some((client, SpillDone::Read(bytes.into())))
            }
            SpillWork::Forget { .. } => {
                self.files.remove(&client);
                None
            }
        }
    }
}

/// A daemon with a disk, a publisher and a client that is in `spills` and in `blocks`, and does not
/// read.
struct Spilling {
    world: World,
    rng: Rng,
    one: MemberId,
    al: ClientId,
    slow: ClientId,
    disk: Disk,
    published: Vec<Vec<u8>>,
}

impl Spilling {
    fn new(config: EngineConfig) -> Self {
        let config = EngineConfig {
            stop_publishers_at: SPILL_AT,
            drop_unreliable_at: 8 * MIB,
            ..config
        };
        let mut world = World::with_config(1, config);
        let mut rng = Rng::new(1);
        let one = world.member(1);
        world.divide(&[vec![one]], &mut rng);
        world.run(&mut rng);
        let engine = &mut world.daemon(one).engine;
        engine.set_spills(true);
        engine.set_slow_rules(SlowRules(vec![SlowRule {
            groups: vec!["spills".into()],
            policy: WhenSlow::Spill,
        }]));
        let al = world.connect(one, "al");
        let mut it = Self {
            slow: al,
            world,
            rng,
            one,
            al,
            disk: Disk::default(),
            published: Vec::new(),
        };
        it.slow = it.connect("slow");
        it
    }

    /// Another client that does not read.
    fn connect(&mut self, name: &str) -> ClientId {
        let id = self.world.connect(self.one, name);
        self.world.act(self.one, id, |client| {
            client.join("spills");
            client.join("blocks");
        });
        self.world.run(&mut self.rng);
        self.world.client(self.one, id).reads = false;
        id
    }

    /// Publishes this many messages of `len` bytes to `group`, one after the other.
    fn publish(&mut self, group: &str, count: usize, len: usize) {
        for _ in 0..count {
            let mut payload = vec![7; len];
            payload[..4].copy_from_slice(&(self.published.len() as u32).to_be_bytes());
            self.world.act(self.one, self.al, |client| {
                client.publish(&[group], Service::Agreed, &payload);
            });
            self.published.push(payload);
            self.turn();
        }
    }

    /// All that happens until nothing does.
    fn turn(&mut self) {
        loop {
            self.world.run(&mut self.rng);
            if self.disk.stuck {
                return;
            }
            let now = self.world.now;
            let engine = &mut self.world.daemon(self.one).engine;
            let Some(work) = engine.poll_spill(now) else {
                return;
            };
            if let Some((client, done)) = self.disk.carry_out(work) {
                engine.spilled(now, client, done);
            }
            // What came from the disk goes to sockets.
            self.world.act(self.one, self.al, |_| {});
        }
    }

    /// The slow client reads all that there is.
    fn read(&mut self) {
        self.world.client(self.one, self.slow).reads = true;
        self.world.act(self.one, self.slow, |client| {
            client.send(&ClientFrame::Ping { token: 1 });
        });
        self.turn();
    }

    fn status_of(&mut self, name: &str) -> Option<ClientStatus> {
        let status = self.world.daemon(self.one).engine.status();
        let mut clients = status.clients.into_iter();
        clients.find(|client| &*client.name == name)
    }

    fn status(&mut self) -> ClientStatus {
        self.status_of("slow@h1").expect("it is connected")
    }

    /// The reasons for which the daemon has ended connections.
    fn ends(&mut self) -> Vec<String> {
        let facts = &self.world.daemon(self.one).facts;
        let ends = facts.iter().filter_map(|fact| match fact {
            Fact::Disconnected {
                client, code, text, ..
            } => {
                assert_eq!(*code, Disconnect::TooSlow);
                Some(format!("{client}: {text}"))
            }
            _ => None,
        });
        ends.collect()
    }
}

/// Short and long ones, some longer than what is written at a time, and more in all than the file
/// has room for at once.
#[test]
fn what_waits_on_the_disk_holds_nobody_back_and_comes_whole_and_in_order() {
    let mut it = Spilling::new(EngineConfig {
        spill_each_max: 4 * MIB as u64,
        ..EngineConfig::default()
    });
    for _ in 0..3 {
        it.world.client(it.one, it.slow).reads = false;
        it.publish("spills", 1_000, 300);
        it.publish("spills", 2, 700_000);
        it.publish("spills", 20, 40_000);
        let status = it.status();
        assert!(status.on_disk > MIB as u64, "{status:?}");
        let in_memory = status.backlog as u64 - status.on_disk;
        assert!(in_memory < 2 * MIB as u64, "{in_memory} in memory");
        assert!(!status.holds_back);
        it.read();
        let status = it.status();
        assert_eq!((status.on_disk, status.backlog), (0, 0));
        assert!(it.disk.files.is_empty(), "nothing is left on the disk");
    }
    assert_eq!(it.ends(), [""; 0]);
    let told = it.world.client(it.one, it.slow).messages();
    let told: Vec<_> = told.map(|message| &message.payload[..]).collect();
    assert!(
        told == it.published,
        "{} of {}",
        told.len(),
        it.published.len()
    );
    assert!(it.disk.longest <= 4 * MIB);
    let facts = &it.world.daemon(it.one).facts;
    let said = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::Spills { .. }));
    assert_eq!(said.count(), 1, "once for a connection");
}

/// What blocks and stands behind what is on the disk keeps its place in the order, and holds nobody
/// back.
#[test]
fn other_groups_of_the_client_keep_the_order() {
    let mut it = Spilling::new(EngineConfig::default());
    it.publish("spills", 50, 10_000);
    for _ in 0..40 {
        it.publish("blocks", 1, 20_000);
        it.publish("spills", 1, 20_000);
    }
    let status = it.status();
    assert!(status.on_disk > 0 && !status.holds_back, "{status:?}");
    it.read();
    let told = it.world.client(it.one, it.slow).messages();
    let told: Vec<_> = told.map(|message| &message.payload[..]).collect();
    assert!(
        told == it.published,
        "{} of {}",
        told.len(),
        it.published.len()
    );
    it.world.client(it.one, it.slow).reads = false;
    it.publish("blocks", 12, 10_000);
    assert!(it.status().holds_back, "the disk is empty: it blocks again");
}

#[test]
fn a_full_disk_costs_the_slow_client_its_connection_with_the_reason() {
    let mut it = Spilling::new(EngineConfig::default());
    it.publish("spills", 20, 10_000);
    it.disk.broken = Some("No space left on device");
    it.publish("spills", 40, 10_000);
    let ends = it.ends();
    assert!(
        ends.len() == 1
            && ends[0].starts_with("slow@h1: too slow: ")
            && ends[0].contains("disk, on which they do, failed: No space left on device"),
        "{ends:?}"
    );
    assert!(it.status_of("al@h1").is_some(), "and nobody else");
}

#[test]
fn a_disk_that_gives_back_something_else_costs_the_connection() {
    let mut it = Spilling::new(EngineConfig::default());
    it.publish("spills", 60, 10_000);
    assert!(it.status().on_disk > 0);
    it.disk.lies = true;
    it.read();
    let ends = it.ends();
    assert!(
        ends.len() == 1 && ends[0].contains("does not give back what was written"),
        "{ends:?}"
    );
}

/// What is not written waits in memory, and that is bounded as ever.
#[test]
fn a_disk_that_hangs_costs_the_connection_once_memory_is_full() {
    let mut it = Spilling::new(EngineConfig {
        disconnect_at: 2 * MIB,
        ..EngineConfig::default()
    });
    it.disk.stuck = true;
    it.publish("spills", 20, 100_000);
    assert_eq!(it.ends(), [""; 0]);
    it.publish("spills", 3, 100_000);
    let ends = it.ends();
    assert!(
        ends.len() == 1 && ends[0].contains("disk took them more slowly than they came"),
        "{ends:?}"
    );
}

#[test]
fn one_client_has_so_much_on_the_disk_and_is_warned_at_half_of_it() {
    let mut it = Spilling::new(EngineConfig {
        spill_each_max: 2 * MIB as u64,
        ..EngineConfig::default()
    });
    it.publish("spills", 20, 100_000);
    assert_eq!(it.ends(), [""; 0]);
    let warned = |it: &mut Spilling| {
        it.read();
        it.world.client(it.one, it.slow).warnings.len()
    };
    it.publish("spills", 3, 100_000);
    let ends = it.ends();
    assert!(
        ends.len() == 1 && ends[0].contains("2097152 are allowed"),
        "{ends:?}"
    );
    assert!(it.disk.files.is_empty(), "nothing is left on the disk");
    let mut it = Spilling::new(EngineConfig {
        spill_each_max: 2 * MIB as u64,
        ..EngineConfig::default()
    });
    it.publish("spills", 9, 100_000);
    assert_eq!(warned(&mut it), 0);
    it.world.client(it.one, it.slow).reads = false;
    it.publish("spills", 13, 100_000);
    assert_eq!(warned(&mut it), 1);
}

#[test]
fn of_all_clients_together_the_one_with_most_on_the_disk_goes() {
    let mut it = Spilling::new(EngineConfig {
        spill_max: 3 * MIB as u64,
        ..EngineConfig::default()
    });
    it.publish("spills", 15, 100_000);
    it.connect("later");
    it.publish("spills", 10, 100_000);
    assert_eq!(it.ends(), [""; 0]);
    it.publish("spills", 10, 100_000);
    let ends = it.ends();
    assert!(
        ends.len() == 1
            && ends[0].starts_with("slow@h1: ")
            && ends[0].contains("on the daemon's disk for this client"),
        "{ends:?}"
    );
    assert!(it.status_of("later@h1").is_some());
}

/// A group that blocks does not, for a client that asks for the disk. One that drops does: that is
/// less patience.
#[test]
fn a_client_asks_for_the_disk_where_there_is_one() {
    for (has_disk, wish, holds_back) in [
        (true, Some(WhenSlow::Spill), false),
        (true, None, true),
        (false, Some(WhenSlow::Spill), true),
    ] {
        let mut it = Spilling::new(EngineConfig::default());
        it.world.daemon(it.one).engine.set_spills(has_disk);
        let other = it.world.connect(it.one, "other");
        let welcome = it.world.client(it.one, other).welcome.clone();
        let features = welcome.expect("it is welcomed").features;
        assert_eq!(features & SPILL != 0, has_disk);
        if let Some(wish) = wish {
            it.world.act(it.one, it.slow, |client| {
                client.send(&ClientFrame::WhenSlow(wish));
            });
        }
        it.publish("blocks", 20, 10_000);
        it.publish("blocks", 40, 10_000);
        let status = it.status();
        assert_eq!(status.holds_back, holds_back, "{wish:?}");
        assert_eq!(status.on_disk > 0, !holds_back, "{status:?}");
    }
}

/// Whoever vanishes, or says good-bye, leaves nothing on the disk.
#[test]
fn nothing_stays_on_the_disk_of_a_client_that_is_gone() {
    for says_bye in [false, true] {
        let mut it = Spilling::new(EngineConfig::default());
        it.publish("spills", 60, 10_000);
        assert_eq!(it.disk.files.len(), 1);
        match says_bye {
            true => it
                .world
                .act(it.one, it.slow, |client| client.send(&ClientFrame::Bye)),
            false => it.world.vanish(it.one, it.slow),
        }
        it.turn();
        assert!(it.disk.files.is_empty());
        assert_eq!(it.world.daemon(it.one).engine.status().on_disk, 0);
    }
}
