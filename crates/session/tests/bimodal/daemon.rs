//! A daemon's engine beside a gossip that a test plays.

use std::collections::BTreeMap;

use bytes::Bytes;
use groupcast_core::{
    Delivery, Event, Gap, Incarnation, MemberId, MessageId, NodeId, Service, SubmitError, Time,
};
use groupcast_session::bus::Bus;
use groupcast_session::groups::{Carrier, Transport};
use groupcast_session::{ClientId, Engine, EngineConfig};

use crate::world::bus::BusClient;
use crate::world::client::TestClient;
use crate::world::take_output;

pub(super) fn member(host: u64) -> MemberId {
    MemberId {
        node: NodeId(host),
        incarnation: Incarnation(host),
    }
}

pub(super) fn config() -> EngineConfig {
    EngineConfig {
        bimodal_groups: vec!["ticks".into(), "news".into()],
        ..EngineConfig::default()
    }
}

/// A daemon whose gossip takes everything unless it is full, and keeps what it took for the test to
/// spread.
pub(super) struct Daemon {
    pub(super) member: MemberId,
    pub(super) engine: Engine,
    pub(super) clients: BTreeMap<ClientId, TestClient>,
    pub(super) buses: BTreeMap<ClientId, BusClient>,
    pub(super) submitted: BTreeMap<usize, u64>,
    /// What the gossip took and nobody else has: the group's index and the message.
    pub(super) sent: Vec<(usize, Delivery)>,
    pub(super) full: bool,
    pub(super) now: Time,
}

impl Daemon {
    pub(super) fn new(host: u64, config: EngineConfig) -> Self {
        let member = member(host);
        Self {
            member,
            engine: Engine::new(config, member, &format!("h{host}")).expect("the limits are right"),
            clients: BTreeMap::new(),
            buses: BTreeMap::new(),
            submitted: BTreeMap::new(),
            sent: Vec::new(),
            full: false,
            now: Time::ZERO,
        }
    }

    pub(super) fn connect(&mut self, name: &str) -> ClientId {
        self.connect_with(TestClient::new(name))
    }

    pub(super) fn connect_with(&mut self, client: TestClient) -> ClientId {
        let id = self.engine.connected(self.now, Transport::Unix);
        let id = id.expect("there is room");
        self.clients.insert(id, client);
        self.settle();
        id
    }

    /// A client of the bus; what it is greeted with is forgotten.
    pub(super) fn connect_bus(&mut self) -> ClientId {
        let id = self.engine.connected(self.now, Transport::Unix);
        let id = id.expect("there is room");
        let client = BusClient {
            bus: Bus::new(None),
            text: Vec::new(),
            open: true,
        };
        self.buses.insert(id, client);
        self.settle();
        self.heard(id);
        id
    }

    /// A client of the bus says a line; what it is sent then.
    pub(super) fn say(&mut self, id: ClientId, line: &str) -> String {
        let client = self.buses.get_mut(&id).expect("the client is known");
        client.bus.take_text(format!("{line}\n").as_bytes());
        client.take(&[]);
        self.settle();
        self.heard(id)
    }

    /// What a client of the bus was sent since the last time.
    pub(super) fn heard(&mut self, id: ClientId) -> String {
        let client = self.buses.get_mut(&id).expect("the client is known");
        String::from_utf8(std::mem::take(&mut client.text)).expect("it is text")
    }

    pub(super) fn act(&mut self, id: ClientId, act: impl FnOnce(&mut TestClient)) {
        act(self.client(id));
        self.settle();
    }

    pub(super) fn client(&mut self, id: ClientId) -> &mut TestClient {
        self.clients.get_mut(&id).expect("the client is known")
    }

    pub(super) fn story(&mut self, id: ClientId) -> Vec<String> {
        self.client(id).story()
    }

    /// Something happened in the gossip of group `index`.
    pub(super) fn event(&mut self, index: usize, event: Event) {
        let carrier = Carrier::Bimodal(index);
        self.engine.handle_event(self.now, carrier, event);
        self.settle();
    }

    pub(super) fn gap(&mut self, index: usize, host: u64, first: u64, last: u64) {
        let sender = member(host);
        let gap = Gap {
            sender,
            first,
            last,
        };
        self.event(index, Event::Gap(gap));
    }

    /// The gossip has heard of these hosts.
    pub(super) fn tend(&mut self, hosts: &[u64]) {
        for index in 0..2 {
            let daemons = hosts.iter().map(|host| member(*host));
            self.engine.tend_bimodal(self.now, index, daemons);
        }
        self.settle();
    }

    /// Carries bytes and messages until nothing moves any more.
    pub(super) fn settle(&mut self) {
        loop {
            for (id, client) in &mut self.clients {
                let written = std::mem::take(&mut client.written);
                let mut rest = &written[..];
                while !rest.is_empty() && client.open {
                    let Some(space) = self.engine.space(*id) else {
                        break;
                    };
                    let len = space.len().min(rest.len());
                    space[..len].copy_from_slice(&rest[..len]);
                    self.engine.received_all(self.now, *id, len);
                    rest = &rest[len..];
                }
            }
            for (id, client) in &mut self.buses {
                while client.bus.has_frames() && client.open {
                    let Some(space) = self.engine.space(*id) else {
                        break;
                    };
                    let frames = client.bus.frames();
                    let len = space.len().min(frames.len());
                    space[..len].copy_from_slice(&frames[..len]);
                    client.bus.frames_taken(len);
                    self.engine.received_all(self.now, *id, len);
                    client.take(&[]);
                }
            }
            let mut delivered = Vec::new();
            let (member, full, submitted) = (self.member, self.full, &mut self.submitted);
            self.engine.pump(self.now, |carrier, service, payload| {
                let Carrier::Bimodal(index) = carrier else {
                    panic!("nothing of a bimodal group is for the ring");
                };
                assert_eq!(service, Service::Bimodal);
                if full {
                    return Err(SubmitError::Full { queued: 1 });
                }
                let number = submitted.entry(index).or_default();
                *number += 1;
                let delivery = delivery(member, *number, payload);
                delivered.push((index, delivery.clone()));
                Ok(delivery.id)
            });
            let idle = delivered.is_empty();
            for (index, delivery) in delivered {
                let own = Event::Deliver(delivery.clone());
                self.engine
                    .handle_event(self.now, Carrier::Bimodal(index), own);
                self.sent.push((index, delivery));
            }
            let mut wrote = false;
            while let Some(id) = self.engine.poll_output() {
                if let Some(client) = self.buses.get_mut(&id) {
                    wrote |= client.take(&take_output(&mut self.engine, self.now, id));
                    continue;
                }
                let client = self.clients.get_mut(&id).expect("it connected");
                if client.reads {
                    client
                        .received
                        .extend(take_output(&mut self.engine, self.now, id));
                    client.read(0);
                    wrote |= !client.written.is_empty();
                }
            }
            while let Some(id) = self.engine.poll_close() {
                match self.buses.get_mut(&id) {
                    Some(client) => client.open = false,
                    None => self.client(id).open = false,
                }
            }
            if idle && !wrote {
                return;
            }
        }
    }
}

pub(super) fn delivery(sender: MemberId, number: u64, payload: Bytes) -> Delivery {
    Delivery {
        id: MessageId { sender, number },
        service: Service::Fifo,
        place: None,
        payload,
    }
}

/// Everything that `from` sent reaches `to`.
pub(super) fn spread(from: &mut Daemon, to: &mut Daemon) {
    for (index, delivery) in from.sent.drain(..) {
        to.event(index, Event::Deliver(delivery));
    }
}

/// Two daemons that know each other, with a subscriber of `ticks` each.
pub(super) fn pair() -> (Daemon, ClientId, Daemon, ClientId) {
    let (mut one, mut two) = (Daemon::new(1, config()), Daemon::new(2, config()));
    let (al, bo) = (one.connect("al"), two.connect("bo"));
    one.act(al, |client| client.join("ticks"));
    two.act(bo, |client| client.join("ticks"));
    spread(&mut one, &mut two);
    spread(&mut two, &mut one);
    one.tend(&[2]);
    two.tend(&[1]);
    (one, al, two, bo)
}
