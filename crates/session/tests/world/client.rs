//! A client of a test: it reads frame by frame, keeps what it saw, and checks it at once.
//!
//! Beside it a [`Connection`] gets the same bytes, publishes for it and gives its credit: what the
//! library makes of them must be what was read here. Requests that break the rules, which the
//! library does not make, are written here.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{OrderPlace, Service};
use groupcast_session::View;
use groupcast_session::client::{ClientEvent, Connection};
use groupcast_session::frame::{
    ClientFrame, ClientKind, DaemonFrame, Disconnect, FRAME_MAX, FrameDecoder, GuestFrame,
    GuestReply, Message, Refusal, Request, Welcome, credit_cost, encode_publish_head, has_credit,
};
use groupcast_session::names::lowest_top;

/// Something that a subscriber saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    Message(Message),
    View(View),
    /// Messages of a daemon, from the first number to the last, are lost to a group.
    Gap(String, String, u64, u64),
}

pub struct TestClient {
    pub name: String,
    /// For the daemon.
    pub written: Vec<u8>,
    /// From the daemon, not read yet.
    pub received: Vec<u8>,
    decoder: FrameDecoder,
    /// The same client by the library.
    connection: Connection,
    /// How much of `seen` the library was compared with.
    compared: usize,
    pub open: bool,
    /// Whether it takes what it is sent.
    pub reads: bool,
    /// Whether it gives credit back for what it reads.
    pub grants: bool,
    pub welcome: Option<Welcome>,
    pub refused: Option<(Refusal, String)>,
    pub disconnected: Option<(Disconnect, String)>,
    pub seen: Vec<Seen>,
    pub accepted: u64,
    /// For each acceptance: the number, and how many configurations its daemon had had by then.
    pub acceptances: Vec<(u64, usize)>,
    pub rejected: BTreeMap<u64, String>,
    pub rejected_groups: Vec<(Request, String)>,
    pub published: u64,
    pub credit: u64,
    pub outstanding: u64,
    pub reports: Vec<String>,
    /// Payloads that this client published and is subscribed to: accepted only after it has seen
    /// them.
    pub expects_own: BTreeMap<u64, Vec<u8>>,
    payloads: BTreeSet<Vec<u8>>,
    /// The last place that it saw of each order.
    last_places: BTreeMap<String, OrderPlace>,
    /// Which ring that a join has made carries each group that it is in, as it was told.
    pub carried: BTreeMap<String, String>,
    /// What it was told of requests and roles.
    pub guest: Vec<(GuestReply, Vec<u8>)>,
    /// What came of its requests of the bus: why one was refused, or nothing.
    pub done: Vec<(u64, String)>,
    /// How many lists of the clients of the bus it was sent.
    pub lists: usize,
    /// That it is behind, as often as it was told.
    pub warnings: Vec<DaemonFrame>,
}

impl TestClient {
    pub fn new(name: &str) -> Self {
        Self::with_window(name, 1 << 40)
    }

    pub fn with_window(name: &str, delivery_window: u64) -> Self {
        let wanted = (!name.is_empty()).then(|| name.into());
        let connection = Connection::new(wanted, ClientKind::Application, delivery_window);
        let mut client = Self {
            name: name.into(),
            written: Vec::new(),
            received: Vec::new(),
            decoder: FrameDecoder::new(FRAME_MAX),
            connection,
            compared: 0,
            open: true,
            reads: true,
            grants: true,
            welcome: None,
            refused: None,
            disconnected: None,
            seen: Vec::new(),
            accepted: 0,
            acceptances: Vec::new(),
            rejected: BTreeMap::new(),
            rejected_groups: Vec::new(),
            published: 0,
            credit: 0,
            outstanding: 0,
            reports: Vec::new(),
            expects_own: BTreeMap::new(),
            payloads: BTreeSet::new(),
            last_places: BTreeMap::new(),
            carried: BTreeMap::new(),
            guest: Vec::new(),
            done: Vec::new(),
            lists: 0,
            warnings: Vec::new(),
        };
        client.transmit();
        client
    }

    /// A client of a library that knows no features: its hello says so.
    pub fn of_older_library(name: &str) -> Self {
        let mut client = Self::new(name);
        // Behind the magic, the frame's header and two versions.
        client.written[4 + 5 + 4..][..8].fill(0);
        client
    }

    /// What the library wants to send is written.
    fn transmit(&mut self) {
        while let Some(bytes) = self.connection.poll_transmit() {
            self.written.extend_from_slice(bytes);
            let len = bytes.len();
            self.connection.handle_transmitted(len);
        }
    }

    pub fn send(&mut self, frame: &ClientFrame) {
        frame.encode(&mut self.written);
    }

    /// Says something about requests or roles; what costs credit is counted.
    pub fn say(&mut self, frame: GuestFrame) {
        let before = self.written.len();
        let credited = matches!(
            frame,
            GuestFrame::Request { .. } | GuestFrame::Answer { .. }
        );
        self.send(&ClientFrame::Guest(frame));
        if credited {
            self.outstanding += credit_cost(self.written.len() - before) as u64;
        }
    }

    pub fn join(&mut self, group: &str) {
        self.send(&ClientFrame::Join {
            group: group.into(),
            discard_own: false,
            ring: false,
        });
    }

    pub fn join_on_ring(&mut self, group: &str) {
        self.send(&ClientFrame::Join {
            group: group.into(),
            discard_own: false,
            ring: true,
        });
    }

    pub fn leave(&mut self, group: &str) {
        self.send(&ClientFrame::Leave {
            group: group.into(),
        });
    }

    /// Publishes whether there is credit or not; returns the number.
    pub fn publish(&mut self, groups: &[&str], service: Service, payload: &[u8]) -> u64 {
        self.published += 1;
        let before = self.written.len();
        let lawful = self.connection.published() + 1 == self.published;
        if lawful && self.connection.publish(groups, service, payload).is_ok() {
            self.transmit();
        } else {
            let number = self.published;
            encode_publish_head(&mut self.written, number, service, groups, payload.len());
            self.written.extend_from_slice(payload);
        }
        let len = self.written.len() - before;
        self.outstanding += credit_cost(len) as u64;
        self.published
    }

    /// Whether a message may be published now.
    pub fn may_publish(&self) -> bool {
        has_credit(self.outstanding, self.credit)
    }

    /// Reads what has been received; `configs` configurations have been delivered to its daemon.
    pub fn read(&mut self, configs: usize) {
        let received = std::mem::take(&mut self.received);
        let understood = self.connection.handle_bytes(&received);
        understood.expect("frames are right");
        let mut rest = &received[..];
        while !rest.is_empty() {
            let space = self.decoder.space();
            let len = space.len().min(rest.len());
            space[..len].copy_from_slice(&rest[..len]);
            self.decoder.filled(len);
            rest = &rest[len..];
        }
        while let Some(raw) = self.decoder.next_frame().expect("frames are whole") {
            let frame = DaemonFrame::decode(raw).expect("frames are right");
            self.take(frame.expect("the daemon speaks version 1"), configs);
        }
        self.compare();
    }

    /// The library has come to the same conclusions. A client that gives no credit leaves its
    /// events there.
    fn compare(&mut self) {
        assert_eq!(self.connection.accepted(), self.accepted);
        let end = self
            .connection
            .end()
            .map(|(code, text)| (code, text.to_owned()));
        assert_eq!(end, self.disconnected);
        let refusal = self.connection.refusal();
        let refusal = refusal.map(|(code, text)| (code, text.to_owned()));
        assert_eq!(refusal, self.refused);
        if !self.grants {
            return;
        }
        while let Some(event) = self.connection.poll_event() {
            let seen = match event {
                ClientEvent::Message(message) => Seen::Message(message),
                ClientEvent::View(view) => Seen::View(view),
                ClientEvent::Gap {
                    group,
                    sender,
                    first,
                    last,
                } => Seen::Gap(group, sender, first, last),
                _ => continue,
            };
            assert_eq!(Some(&seen), self.seen.get(self.compared));
            self.compared += 1;
        }
        assert_eq!(self.compared, self.seen.len());
        self.connection.give_credit();
        self.transmit();
    }

    fn take(&mut self, frame: DaemonFrame, configs: usize) {
        assert!(self.disconnected.is_none(), "nothing follows the last word");
        match frame {
            DaemonFrame::Welcome(welcome) => {
                self.credit = welcome.publish_window;
                self.welcome = Some(welcome);
            }
            DaemonFrame::Refused { code, text } => self.refused = Some((code, text)),
            DaemonFrame::Message(message) => self.take_message(message),
            DaemonFrame::View(view) => self.seen.push(Seen::View(view)),
            DaemonFrame::Gap {
                group,
                sender,
                first,
                last,
            } => self.seen.push(Seen::Gap(group, sender, first, last)),
            DaemonFrame::Accepted { up_to } => {
                assert!(up_to > self.accepted, "accepted grows");
                for (number, payload) in self.expects_own.range(self.accepted + 1..=up_to) {
                    assert!(
                        self.payloads.contains(payload) || self.rejected.contains_key(number),
                        "{number} is accepted before it is delivered"
                    );
                }
                self.accepted = up_to;
                self.acceptances.push((up_to, configs));
            }
            DaemonFrame::Credit { bytes } => {
                self.outstanding = self.outstanding.checked_sub(bytes).expect("no gift");
            }
            DaemonFrame::Rejected { request, text, .. } => match request {
                Request::Publish(number) => {
                    assert!(self.rejected.insert(number, text).is_none());
                }
                request => self.rejected_groups.push((request, text)),
            },
            DaemonFrame::StatusReport(json)
            | DaemonFrame::GroupsReport(json)
            | DaemonFrame::RekeyReport(json) => {
                self.reports
                    .push(String::from_utf8_lossy(&json).into_owned());
            }
            DaemonFrame::Disconnected { code, text } => self.disconnected = Some((code, text)),
            DaemonFrame::Pong { token } => self.reports.push(format!("pong {token}")),
            DaemonFrame::Done { token, result } => {
                let text = result.map_or_else(|(_, text)| text, |()| String::new());
                self.done.push((token, text));
            }
            DaemonFrame::Carried { group, ring } => {
                match ring.is_empty() {
                    true => self.carried.remove(&group),
                    false => self.carried.insert(group, ring),
                };
            }
            DaemonFrame::BusClientsReport { .. } => self.lists += 1,
            frame @ DaemonFrame::Behind { .. } => self.warnings.push(frame),
            DaemonFrame::Guest(reply, payload) => self.guest.push((reply, payload.to_vec())),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn take_message(&mut self, message: Message) {
        if let Some(place) = message.place {
            // Two orders have nothing to do with each other.
            let rings = self.welcome.as_ref().map_or(&[][..], |it| &it.rings);
            let carried = self.carried.get(message.group());
            let on = match (carried, lowest_top(rings, message.group())) {
                (Some(ring), _) => ring.clone(),
                (None, Some(index)) => rings[index].clone(),
                (None, None) => String::new(),
            };
            let last = self.last_places.insert(on, place);
            assert!(
                last.is_none_or(|last: OrderPlace| last.seq < place.seq),
                "places increase"
            );
            assert!(
                self.payloads.insert(message.payload.to_vec()) || message.payload.len() < 4,
                "a message came twice"
            );
        }
        self.seen.push(Seen::Message(message));
    }

    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::Message(message) => Some(message),
            _ => None,
        })
    }

    pub fn views(&self) -> impl DoubleEndedIterator<Item = &View> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::View(view) => Some(view),
            _ => None,
        })
    }

    /// What it saw, in short: `view regular join al@h1,bo@h2`, `al@h1>g hello`.
    pub fn story(&self) -> Vec<String> {
        let line = |seen: &Seen| match seen {
            Seen::Message(message) => format!(
                "{}>{} {}",
                message.sender,
                message.group(),
                String::from_utf8_lossy(&message.payload)
            ),
            Seen::View(view) => format!(
                "{} {} {}: {}",
                view.group,
                view.kind,
                view.cause,
                view.members.join(",")
            ),
            Seen::Gap(group, sender, first, last) => {
                format!("{group} lost {first}..{last} of {sender}")
            }
        };
        self.seen.iter().map(line).collect()
    }
}
