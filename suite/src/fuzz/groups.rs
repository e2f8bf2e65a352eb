//! The group engines of two daemons, between clients and a ring that the script controls: clients
//! send valid and invalid frames, payloads of the ring are damaged or invented, the ring splits and
//! merges, time passes, queues are full. The first daemon has a disk for slow clients, which may be
//! slow, full or wrong; at the second the policy of all groups is to block.
//!
//! Whatever happens: no panic, bounded answers, every byte that a client is sent can be understood,
//! agreed and safe messages come to each client in their order, and no file grows too long.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, MemberId, MessageId, OrderPlace,
    Service, SubmitError, Time,
};
use groupcast_session::frame::{
    ClientFrame, ClientKind, DaemonFrame, FRAME_MAX, FrameDecoder, Hello, MAGIC, VERSION,
    encode_publish_head,
};
use groupcast_session::groups::{Carrier, SlowRule, SlowRules, Transport};
use groupcast_session::{ClientId, Engine, EngineConfig, WhenSlow};

use super::disk::{DiskState, FuzzDisk};
use super::{Script, member};

const DAEMONS: usize = 2;
/// Connections of a daemon that the script may open.
const CLIENTS_MAX: usize = 6;
/// More than one input may cause.
const ANSWERS_MAX: usize = 16_384;
/// From this many bytes on a client is slow.
const SLOW_AT: usize = 16 << 10;
/// The most bytes of a client on the disk, and of all clients of a daemon.
const ON_DISK_MAX: u64 = 1 << 20;
const GROUPS: [&str; 4] = ["chat", "chat/ops", "c1@host-0", "ünï"];

/// Plays `script` to two daemons.
pub fn groups(script: &[u8]) {
    play(script);
}

fn play(script: &[u8]) -> FuzzStage {
    let mut script = Script(script);
    let mut stage = FuzzStage::new();
    while let Some(step) = script.step() {
        stage.play(step, &mut script);
        stage.settle();
    }
    stage.deliver_all();
    stage.settle();
    stage
}

/// A message on the ring.
#[derive(Clone)]
struct Ordered {
    id: MessageId,
    service: Service,
    payload: Bytes,
}

struct FuzzStage {
    daemons: Vec<Daemon>,
    now: Time,
    /// Messages of each component that are ordered and not delivered yet; one component if the ring
    /// is whole.
    orders: Vec<VecDeque<Ordered>>,
    configs: u64,
    seq: u64,
}

struct Daemon {
    engine: Engine,
    member: MemberId,
    config: ConfigId,
    clients: BTreeMap<ClientId, Reader>,
    submitted: u64,
    /// The ring's queue is full.
    full: bool,
    disk: FuzzDisk,
}

/// A client's side of its connection.
struct Reader {
    decoder: FrameDecoder,
    /// The place of the last agreed or safe message.
    last: u64,
    messages: usize,
}

impl FuzzStage {
    fn new() -> Self {
        let daemons = (0..DAEMONS)
            .map(|index| {
                let member = member(index);
                let host = format!("host-{index}");
                let config = EngineConfig {
                    clients_max: 4,
                    message_max: 64 << 10,
                    stop_publishers_at: SLOW_AT,
                    spill_each_max: ON_DISK_MAX,
                    spill_max: ON_DISK_MAX,
                    ..EngineConfig::default()
                };
                let mut engine =
                    Engine::new(config, member, &host).expect("the settings are allowed");
                engine.set_spills(index == 0);
                engine.set_slow_rules(SlowRules(vec![SlowRule {
                    groups: vec![GROUPS[0].into()],
                    policy: WhenSlow::Spill,
                }]));
                Daemon {
                    engine,
                    member,
                    config: ConfigId {
                        counter: 0,
                        representative: member,
                    },
                    clients: BTreeMap::new(),
                    submitted: 0,
                    full: false,
                    disk: FuzzDisk::new(ON_DISK_MAX as usize),
                }
            })
            .collect();
        let mut stage = Self {
            daemons,
            now: Time::ZERO,
            orders: Vec::new(),
            configs: 0,
            seq: 1,
        };
        stage.install(true);
        stage.settle();
        stage
    }

    fn play(&mut self, step: u8, script: &mut Script<'_>) {
        let at = usize::from(step >> 4) % DAEMONS;
        match step % 16 {
            0 => self.connect(at, script.u8()),
            1 => self.say(
                at,
                script.u8(),
                |bytes, script| bytes.extend(script.bytes()),
                script,
            ),
            2 => self.say(at, script.u8(), hello, script),
            3..=5 => self.say(at, script.u8(), request, script),
            6 | 7 => self.say(at, script.u8(), publish, script),
            8 | 9 => self.deliver_next(at),
            10 => self.deliver_all(),
            11 => self.damage(at, script),
            12 => {
                let payload = Bytes::copy_from_slice(script.bytes());
                let service = Service::ALL[script.index(Service::ALL.len())];
                self.daemons[at].submitted += 1;
                let sender = self.daemons[at].member;
                let number = self.daemons[at].submitted;
                let id = MessageId { sender, number };
                self.order(at, id, service, payload);
            }
            13 => {
                self.deliver_all();
                let whole = self.orders.len() == 1;
                self.install(!whole);
            }
            14 => {
                self.now += Duration::from_millis(u64::from(script.u16()));
                for daemon in &mut self.daemons {
                    daemon.engine.handle_timeout(self.now);
                }
            }
            _ => self.trouble(at, script),
        }
    }

    fn connect(&mut self, at: usize, how: u8) {
        let daemon = &mut self.daemons[at];
        let transport = if how & 1 == 0 {
            Transport::Unix
        } else {
            Transport::Tcp
        };
        if daemon.clients.len() < CLIENTS_MAX
            && let Some(client) = daemon.engine.connected(self.now, transport)
        {
            let reader = Reader {
                decoder: FrameDecoder::new(FRAME_MAX),
                last: 0,
                messages: 0,
            };
            daemon.clients.insert(client, reader);
            self.receive(at, client, &MAGIC);
        }
    }

    /// A client of daemon `at` sends what `write` writes.
    fn say(
        &mut self,
        at: usize,
        which: u8,
        write: fn(&mut Vec<u8>, &mut Script<'_>),
        script: &mut Script<'_>,
    ) {
        let mut bytes = Vec::new();
        write(&mut bytes, script);
        if let Some(client) = self.daemons[at].pick(which) {
            self.receive(at, client, &bytes);
        }
    }

    fn receive(&mut self, at: usize, client: ClientId, mut bytes: &[u8]) {
        let engine = &mut self.daemons[at].engine;
        while !bytes.is_empty() {
            // The daemon reads no more of this client now. A real socket would keep the bytes; here
            // they are lost.
            let Some(space) = engine.space(client) else {
                return;
            };
            let len = space.len().min(bytes.len());
            assert!(len > 0, "a daemon that reads has room");
            let (arrived, rest) = bytes.split_at(len);
            space[..len].copy_from_slice(arrived);
            bytes = rest;
            engine.received_all(self.now, client, len);
        }
    }

    /// Other faults of a daemon: a connection breaks, the disk is slow or broken, the ring is full,
    /// the daemon stops.
    fn trouble(&mut self, at: usize, script: &mut Script<'_>) {
        let (how, which) = (script.u8(), script.u8());
        let now = self.now;
        let daemon = &mut self.daemons[at];
        match how {
            0..96 => {
                if let Some(client) = daemon.pick(which) {
                    daemon.clients.remove(&client);
                    daemon.engine.closed(now, client);
                }
            }
            96..128 => {
                daemon.disk.state = match which % 4 {
                    0 => DiskState::Fast,
                    1 => DiskState::Stuck,
                    2 => DiskState::Broken,
                    _ => DiskState::Short,
                };
            }
            128..192 => daemon.full = true,
            192..250 => {
                daemon.full = false;
                daemon
                    .engine
                    .handle_event(now, Carrier::Order, Event::Writable);
            }
            _ => daemon.engine.stop(now, "for a reason"),
        }
    }

    fn order_of(&mut self, at: usize) -> &mut VecDeque<Ordered> {
        let component = if self.orders.len() == 1 { 0 } else { at };
        &mut self.orders[component]
    }

    fn order(&mut self, at: usize, id: MessageId, service: Service, payload: Bytes) {
        self.order_of(at).push_back(Ordered {
            id,
            service,
            payload,
        });
    }

    /// The next message of the component of daemon `at` is delivered at all its members.
    fn deliver_next(&mut self, at: usize) {
        let Some(Ordered {
            id,
            service,
            payload,
        }) = self.order_of(at).pop_front()
        else {
            return;
        };
        self.seq += 1;
        let whole = self.orders.len() == 1;
        for index in (0..DAEMONS).filter(|index| whole || *index == at) {
            let daemon = &mut self.daemons[index];
            let place = OrderPlace {
                config: daemon.config,
                seq: self.seq << 16,
            };
            let delivery = Delivery {
                id,
                service,
                place: (service != Service::Unreliable).then_some(place),
                payload: payload.clone(),
            };
            daemon
                .engine
                .handle_event(self.now, Carrier::Order, Event::Deliver(delivery));
        }
    }

    fn deliver_all(&mut self) {
        for answers in 0.. {
            assert!(answers < ANSWERS_MAX, "daemons talk to each other for ever");
            let Some(at) = (0..DAEMONS).find(|at| !self.order_of(*at).is_empty()) else {
                return;
            };
            self.deliver_next(at);
            self.settle();
        }
    }

    fn damage(&mut self, at: usize, script: &mut Script<'_>) {
        let (offset, change) = (usize::from(script.u16()), script.u8());
        if let Some(message) = self.order_of(at).front_mut()
            && !message.payload.is_empty()
        {
            let mut payload = message.payload.to_vec();
            let offset = offset % payload.len();
            payload[offset] ^= change;
            if change == 0 {
                payload.truncate(offset);
            }
            message.payload = payload.into();
        }
    }

    /// Both daemons move to the next configuration: together if `whole`, else each to its own.
    fn install(&mut self, whole: bool) {
        self.configs += 1;
        let together: Vec<MemberId> = self.daemons.iter().map(|daemon| daemon.member).collect();
        let was_whole = self.orders.len() == 1;
        for daemon in &mut self.daemons {
            let alone = vec![daemon.member];
            let mut install = |kind, id, members: &[MemberId]| {
                let configuration = Configuration {
                    kind,
                    id,
                    members: members.to_vec(),
                    left: Vec::new(),
                };
                let event = Event::Configuration(configuration);
                daemon.engine.handle_event(self.now, Carrier::Order, event);
            };
            if daemon.config.counter > 0 {
                let stay = if was_whole && whole {
                    &together
                } else {
                    &alone
                };
                install(ConfigurationKind::Transitional, daemon.config, stay);
            }
            let members = if whole { &together } else { &alone };
            let id = ConfigId {
                counter: self.configs,
                representative: members[0],
            };
            install(ConfigurationKind::Regular, id, members);
            daemon.config = id;
        }
        let components = if whole { 1 } else { DAEMONS };
        self.orders = vec![VecDeque::new(); components];
    }

    /// Drains both engines.
    fn settle(&mut self) {
        for at in 0..DAEMONS {
            let daemon = &mut self.daemons[at];
            let mut submissions = Vec::new();
            daemon.engine.pump(self.now, |_, service, payload| {
                if daemon.full {
                    return Err(SubmitError::Full { queued: 0 });
                }
                daemon.submitted += 1;
                let id = MessageId {
                    sender: daemon.member,
                    number: daemon.submitted,
                };
                submissions.push((id, service, payload));
                assert!(submissions.len() < ANSWERS_MAX, "endless submissions");
                Ok(id)
            });
            while let Some((client, question)) = daemon.engine.poll_question() {
                let json = Bytes::from_static(b"{}");
                daemon.engine.answer(self.now, client, question, json);
            }
            daemon.drain_clients(self.now);
            daemon.tend_disk(self.now);
            while daemon.engine.poll_observation().is_some() {}
            while daemon.engine.poll_fact().is_some() {}
            for (id, service, payload) in submissions {
                self.order(at, id, service, payload);
            }
        }
    }
}

impl Daemon {
    /// The disk does what it is asked for, and what comes of it goes to clients.
    fn tend_disk(&mut self, now: Time) {
        for answers in 0.. {
            assert!(answers < ANSWERS_MAX, "the disk is never done");
            while let Some(work) = self.engine.poll_spill(now) {
                self.disk.ask(work);
            }
            let Some((client, done)) = self.disk.poll_done() else {
                break;
            };
            self.engine.spilled(now, client, done);
            self.drain_clients(now);
        }
        let is_done = self.disk.state != DiskState::Stuck;
        assert!(
            !is_done || self.disk.files() <= CLIENTS_MAX,
            "files are left"
        );
    }

    fn pick(&self, which: u8) -> Option<ClientId> {
        let count = self.clients.len().max(1);
        self.clients.keys().nth(usize::from(which) % count).copied()
    }

    /// Takes what clients are sent, and reads it as they would.
    fn drain_clients(&mut self, now: Time) {
        for answers in 0.. {
            assert!(answers < ANSWERS_MAX, "endless output");
            let Some(client) = self.engine.poll_output() else {
                break;
            };
            loop {
                let mut slices = [IoSlice::new(&[]); 16];
                let count = self.engine.slices(client, &mut slices);
                let bytes: Vec<u8> = slices[..count]
                    .iter()
                    .flat_map(|slice| slice.to_vec())
                    .collect();
                if bytes.is_empty() {
                    break;
                }
                self.engine.consumed(now, client, bytes.len());
                if let Some(reader) = self.clients.get_mut(&client) {
                    reader.read(&bytes);
                }
            }
        }
        while let Some(client) = self.engine.poll_close() {
            self.clients.remove(&client);
        }
    }
}

impl Reader {
    /// Reads what a daemon sent.
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.decoder.space();
            let len = space.len().min(bytes.len());
            let (arrived, rest) = bytes.split_at(len);
            space[..len].copy_from_slice(arrived);
            bytes = rest;
            self.decoder.filled(len);
            while let Some(raw) = self.decoder.next_frame().expect("a daemon sends frames") {
                let frame = DaemonFrame::decode(raw).expect("a daemon sends well-formed frames");
                self.take(frame.expect("a daemon sends known frames"));
            }
        }
    }

    fn take(&mut self, frame: DaemonFrame) {
        let DaemonFrame::Message(message) = frame else {
            return;
        };
        self.messages += 1;
        // Messages of other services may have waited for the join of their sender.
        if matches!(message.service, Service::Agreed | Service::Safe) {
            let place = message.place.expect("it has a place");
            assert!(place.seq > self.last, "messages come in their order");
            self.last = place.seq;
        }
    }
}

fn hello(bytes: &mut Vec<u8>, script: &mut Script<'_>) {
    let how = script.u8();
    ClientFrame::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION + u16::from(how & 1),
        features: u64::from(how & 2),
        kind: if how & 4 == 0 {
            ClientKind::Application
        } else {
            ClientKind::Tool
        },
        delivery_window: u64::from(script.u16()) * 16,
        name: (how & 8 != 0).then(|| format!("c{}", how >> 4)),
        token: None,
    })
    .encode(bytes);
}

fn request(bytes: &mut Vec<u8>, script: &mut Script<'_>) {
    let how = script.u8();
    let group = GROUPS[usize::from(how >> 3) % GROUPS.len()].to_owned();
    match how % 8 {
        0..=2 => ClientFrame::Join {
            group,
            discard_own: how & 128 != 0,
            ring: how & 64 != 0,
        },
        3 => ClientFrame::Leave { group },
        4 => ClientFrame::Credit {
            bytes: u64::from(script.u16()) << (how >> 4),
        },
        5 => ClientFrame::Status,
        6 => ClientFrame::Groups,
        _ if how & 128 == 0 && how & 64 == 0 => ClientFrame::Ping { token: 7 },
        _ if how & 128 == 0 => {
            let policy = script.u8() as usize % WhenSlow::ALL.len();
            ClientFrame::WhenSlow(WhenSlow::ALL[policy])
        }
        _ => ClientFrame::Bye,
    }
    .encode(bytes);
}

fn publish(bytes: &mut Vec<u8>, script: &mut Script<'_>) {
    let number = u64::from(script.u16());
    let service = Service::ALL[script.index(Service::ALL.len())];
    let first = script.index(GROUPS.len());
    let destinations = &GROUPS[..=first];
    let payload = vec![script.u8(); usize::from(script.u16())];
    encode_publish_head(bytes, number, service, destinations, payload.len());
    bytes.extend(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of a script at the first daemon.
    const CONNECT: [u8; 2] = [0, 0];
    const DELIVER: u8 = 10;

    fn hello(which: u8, window: u16) -> Vec<u8> {
        [&[2, which, 0][..], &window.to_be_bytes()].concat()
    }

    fn join_chat(which: u8) -> [u8; 3] {
        [3, which, 0]
    }

    /// All the credit that a step can give.
    fn credit(which: u8) -> [u8; 5] {
        [3, which, 0xf4, 0xff, 0xff]
    }

    /// An agreed message of 60 KiB to `chat`, which is delivered.
    fn publish(which: u8, number: u16) -> Vec<u8> {
        let agreed = Service::ALL.iter().position(|it| *it == Service::Agreed);
        let agreed = agreed.expect("there is the service") as u8;
        let [high, low] = number.to_be_bytes();
        vec![6, which, high, low, agreed, 0, low, 0xf0, 0, DELIVER]
    }

    /// The target reaches the disk: a client without credit is slow, and gets everything when it
    /// gives some.
    #[test]
    fn a_script_of_a_slow_client_writes_to_the_disk_and_reads_it_again() {
        const MESSAGES: u16 = 14;
        let mut script = Vec::new();
        for which in 0..2 {
            script.extend(CONNECT);
            script.extend(hello(which, 0));
            script.push(DELIVER);
        }
        script.extend(join_chat(0));
        script.push(DELIVER);
        for number in 1..=MESSAGES {
            script.extend(publish(1, number));
        }
        let stage = play(&script);
        let daemon = &stage.daemons[0];
        assert!(daemon.disk.counts[0] > 1 && daemon.disk.files() == 1);
        for _ in 0..=MESSAGES {
            script.extend(credit(0));
        }
        let stage = play(&script);
        let daemon = &stage.daemons[0];
        assert!(daemon.disk.counts[1] > 1);
        let reader = daemon.clients.values().next().expect("it is connected");
        assert_eq!(reader.messages, usize::from(MESSAGES));
        assert_eq!(daemon.disk.files(), 0, "the file is of no use any more");
    }
}
