//! Access rules of a daemon that change while its clients join, leave and publish, as the script
//! has it.
//!
//! The engine is compared with a plain reading of the rules (`may`): no client is ever shown a
//! message of a group that it may not join at that time, or a message that its sender was not
//! allowed to send. And no rule has an effect after its end: once there are none, every client can
//! do everything again.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, MessageId, OrderPlace, Service,
    Time,
};
use groupcast_session::frame::{
    ClientFrame, ClientKind, DaemonFrame, FRAME_MAX, FrameDecoder, Hello, MAGIC, VERSION,
    encode_publish_head,
};
use groupcast_session::groups::{Access, Carrier, Principal, Right, Rule, Transport, Whence};
use groupcast_session::{ClientId, Engine, EngineConfig};

use super::{Script, member};

/// Who connects: how, as which user, with a certificate for which name.
const CLIENTS: [(Transport, Option<u32>, Option<&str>); 5] = [
    (Transport::Unix, Some(0), None),
    (Transport::Unix, Some(7), None),
    (Transport::Unix, Some(8), None),
    (Transport::Tcp, None, Some("web.example")),
    (Transport::Tcp, None, None),
];
const GROUPS: [&str; 3] = ["news", "news/local", "ops"];
/// What rules name.
const NAMED: [&str; 4] = ["news", "news*", "ops", "*"];
const RULES_MAX: usize = 4;

/// Plays `script` to a daemon that is alone.
pub fn access(script: &[u8]) {
    let mut script = Script(script);
    let mut stage = FuzzStage::new();
    while let Some(step) = script.step() {
        stage.play(step, &mut script);
        stage.settle();
    }
    stage.recover();
}

/// What a client has said and been shown.
struct Client {
    index: usize,
    decoder: FrameDecoder,
    published: u64,
    /// Messages that it was shown since the last check: the group, and the payload.
    shown: Vec<(String, Vec<u8>)>,
}

struct FuzzStage {
    engine: Engine,
    now: Time,
    config: ConfigId,
    clients: BTreeMap<ClientId, Client>,
    rules: Vec<Rule>,
    order: VecDeque<(u64, Service, Bytes)>,
    submitted: u64,
    seq: u64,
}

impl FuzzStage {
    fn new() -> Self {
        let engine = Engine::new(EngineConfig::default(), member(0), "host");
        let config = ConfigId {
            counter: 1,
            representative: member(0),
        };
        let mut stage = Self {
            engine: engine.expect("the settings are allowed"),
            now: Time::ZERO,
            config,
            clients: BTreeMap::new(),
            rules: Vec::new(),
            order: VecDeque::new(),
            submitted: 0,
            seq: 1,
        };
        let configuration = Configuration {
            kind: ConfigurationKind::Regular,
            id: config,
            members: vec![member(0)],
            left: Vec::new(),
        };
        stage.hear(Event::Configuration(configuration));
        stage.settle();
        for index in 0..CLIENTS.len() {
            stage.connect(index);
        }
        stage.settle();
        stage
    }

    fn hear(&mut self, event: Event) {
        self.engine.handle_event(self.now, Carrier::Order, event);
    }

    fn connect(&mut self, index: usize) {
        let (transport, user, certificate) = CLIENTS[index];
        let whence = Whence {
            user,
            ..Whence::default()
        };
        let id = self.engine.connected_from(self.now, transport, whence);
        let id = id.expect("there is room for it");
        let names = certificate.iter().map(|name| (*name).to_owned()).collect();
        self.engine.certified(id, names);
        let client = Client {
            index,
            decoder: FrameDecoder::new(FRAME_MAX),
            published: 0,
            shown: Vec::new(),
        };
        self.clients.insert(id, client);
        let mut bytes = MAGIC.to_vec();
        ClientFrame::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            features: 0,
            kind: ClientKind::Application,
            delivery_window: 1 << 40,
            name: None,
            token: None,
        })
        .encode(&mut bytes);
        self.say(id, &bytes);
    }

    fn say(&mut self, id: ClientId, mut bytes: &[u8]) {
        while !bytes.is_empty()
            && let Some(space) = self.engine.space(id)
        {
            let len = space.len().min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            self.engine.received_all(self.now, id, len);
        }
    }

    fn play(&mut self, step: u8, script: &mut Script<'_>) {
        let who = script.index(CLIENTS.len());
        let group = GROUPS[script.index(GROUPS.len())];
        let found = self.clients.iter().find(|(_, client)| client.index == who);
        let Some(id) = found.map(|(id, _)| *id) else {
            return;
        };
        match step % 8 {
            0 | 1 => self.join(id, group),
            2 => self.request(
                id,
                &ClientFrame::Leave {
                    group: group.into(),
                },
            ),
            3..=5 => self.publish(id, group),
            6 => self.set_rules(rules(script)),
            _ => {
                self.now += Duration::from_millis(u64::from(script.u8()));
                self.engine.handle_timeout(self.now);
            }
        }
    }

    fn join(&mut self, id: ClientId, group: &str) {
        let (group, discard_own) = (group.into(), false);
        self.request(
            id,
            &ClientFrame::Join {
                group,
                discard_own,
                ring: false,
            },
        );
    }

    fn request(&mut self, id: ClientId, frame: &ClientFrame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.say(id, &bytes);
    }

    /// Publishes a message whose payload is the index of the client.
    fn publish(&mut self, id: ClientId, group: &str) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.published += 1;
        let (number, payload) = (client.published, [client.index as u8]);
        let mut bytes = Vec::new();
        encode_publish_head(&mut bytes, number, Service::Agreed, &[group], payload.len());
        bytes.extend(payload);
        self.say(id, &bytes);
    }

    fn set_rules(&mut self, rules: Vec<Rule>) {
        self.rules.clone_from(&rules);
        self.engine.set_access(self.now, Access(rules));
    }

    /// Carries out all that was asked for, and looks at what clients were shown.
    fn settle(&mut self) {
        loop {
            let (order, submitted) = (&mut self.order, &mut self.submitted);
            self.engine.pump(self.now, |_, service, payload| {
                *submitted += 1;
                order.push_back((*submitted, service, payload));
                let (sender, number) = (member(0), *submitted);
                Ok(MessageId { sender, number })
            });
            self.drain();
            let Some((number, service, payload)) = self.order.pop_front() else {
                break;
            };
            self.seq += 1;
            let place = OrderPlace {
                config: self.config,
                seq: self.seq << 16,
            };
            let sender = member(0);
            self.hear(Event::Deliver(Delivery {
                id: MessageId { sender, number },
                service,
                place: Some(place),
                payload,
            }));
        }
        while self.engine.poll_observation().is_some() {}
        while self.engine.poll_fact().is_some() {}
        self.check();
    }

    fn drain(&mut self) {
        while let Some(id) = self.engine.poll_output() {
            loop {
                let mut slices = [IoSlice::new(&[]); 16];
                let count = self.engine.slices(id, &mut slices);
                let bytes: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
                if bytes.is_empty() {
                    break;
                }
                self.engine.consumed(self.now, id, bytes.len());
                if let Some(client) = self.clients.get_mut(&id) {
                    client.read(&bytes);
                }
            }
        }
        let closed = self.engine.poll_close();
        assert_eq!(closed, None, "who did nothing wrong is not closed");
    }

    fn check(&mut self) {
        for client in self.clients.values_mut() {
            for (group, payload) in client.shown.drain(..) {
                let sender = usize::from(payload[0]);
                let reader = client.index;
                let may_join = may(&self.rules, reader, Right::Join, &group);
                assert!(may_join, "client {reader} was shown a message of {group}");
                let may_send = may(&self.rules, sender, Right::Send, &group);
                assert!(may_send, "client {sender} sent to {group}");
            }
        }
    }

    /// Takes all rules away: then every client is shown what any client publishes.
    fn recover(&mut self) {
        self.set_rules(Vec::new());
        let ids: Vec<ClientId> = self.clients.keys().copied().collect();
        for id in &ids {
            for group in GROUPS {
                self.join(*id, group);
            }
        }
        self.settle();
        for group in GROUPS {
            self.publish(ids[0], group);
        }
        let before = self.engine.counters().delivered;
        self.settle();
        let shown = self.engine.counters().delivered - before;
        assert_eq!(shown, (ids.len() * GROUPS.len()) as u64);
    }
}

impl Client {
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.decoder.space();
            let len = space.len().min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            self.decoder.filled(len);
            while let Some(raw) = self.decoder.next_frame().expect("a daemon sends frames") {
                let frame = DaemonFrame::decode(raw).expect("they are well formed");
                if let Some(DaemonFrame::Message(message)) = frame {
                    let group = message.group().to_owned();
                    self.shown.push((group, message.payload.to_vec()));
                }
            }
        }
    }
}

/// Up to [`RULES_MAX`] rules that the script chooses.
fn rules(script: &mut Script<'_>) -> Vec<Rule> {
    let count = script.index(RULES_MAX + 1);
    let rule = |script: &mut Script<'_>| {
        let (named, who, rights) = (script.index(NAMED.len()), script.u8(), script.u8());
        let principals = [
            Principal::User(7),
            Principal::User(8),
            Principal::Certificate("WEB.example".into()),
            Principal::Tcp,
        ];
        let chosen = principals.into_iter().enumerate();
        let rights = [(Right::Join, 1), (Right::Send, 2), (Right::Rekey, 4)]
            .into_iter()
            .filter(|(_, bit)| rights & bit != 0);
        Rule {
            groups: vec![NAMED[named].to_owned()],
            who: chosen
                .filter(|(bit, _)| who >> bit & 1 != 0)
                .map(|(_, principal)| principal)
                .collect(),
            rights: rights.map(|(right, _)| right).collect(),
        }
    };
    (0..count).map(|_| rule(script)).collect()
}

/// Whether a client may do something with a group, by the plainest reading.
fn may(rules: &[Rule], client: usize, right: Right, group: &str) -> bool {
    let (transport, user, certificate) = CLIENTS[client];
    let named = rules.iter().filter(|rule| {
        let name = &rule.groups[0];
        name == group || name.ends_with('*') && group.starts_with(name.trim_end_matches('*'))
    });
    let named: Vec<&Rule> = named.collect();
    let is = |principal: &Principal| match principal {
        Principal::User(number) => user == Some(*number),
        Principal::Certificate(name) => {
            certificate.is_some_and(|shown| shown.to_lowercase() == name.to_lowercase())
        }
        Principal::Tcp => transport == Transport::Tcp,
    };
    let gives = |rule: &&&Rule| rule.rights.contains(&right) && rule.who.iter().any(is);
    named.is_empty() || named.iter().any(|rule| gives(&rule))
}
