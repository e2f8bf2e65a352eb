//! 000 Fig. 6, packet by packet: four sites, an ACK that does not reach D, D's NACK, the Confirm of
//! C, a null ACK and D's Confirm.
//!
//! Method: four members with the paper's constants and unicast NACKs, put into a configuration in
//! which A has the token; a network without delay that loses what the test says; and a transcript of
//! all datagrams in the order in which they are sent.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use std::println;

use bytes::Bytes;
use groupcast_core::mech::seq::Seq;
use groupcast_core::{
    ConfigId, Destination, Event, Incarnation, MemberId, NodeId, Ordered as _, Protocol as _, Rng,
    Service, Time, TransmitBuf,
};

use super::config::{NackTo, RmpConfig};
use super::operational::Operational;
use super::order::Order;
use super::wire::Message;
use super::{Rmp, State};

const NAMES: [char; 4] = ['A', 'B', 'C', 'D'];

fn member(site: usize) -> MemberId {
    MemberId {
        node: NodeId(site as u64),
        incarnation: Incarnation(site as u64),
    }
}

/// Four sites and what was sent and delivered.
struct Group {
    sites: Vec<Rmp>,
    now: Time,
    transcript: Vec<String>,
    /// Drop the next ACK on its way to this site.
    loses: Option<usize>,
}

impl Group {
    fn new() -> Self {
        let config = RmpConfig {
            nack: NackTo::Unicast,
            ..RmpConfig::paper()
        };
        let now = Time::from_millis(1);
        let id = ConfigId {
            counter: 1,
            representative: member(0),
        };
        let sites = (0..4).map(|site| {
            let rng = Rng::new(site as u64);
            let mut rmp = Rmp::new(config.clone(), member(site), rng, now).unwrap();
            let members = (0..4).map(member).collect();
            let order = Order::new(id, members, member(site), Seq::ZERO, 1431, &config);
            rmp.timers.cancel_all();
            rmp.outbox = super::outbox::Outbox::default();
            rmp.state = State::Operational(Operational::new(order).into());
            rmp.act(now);
            rmp
        });
        Self {
            sites: sites.collect(),
            now,
            transcript: Vec::new(),
            loses: None,
        }
    }

    /// Sends and delivers until nobody has anything to say at this time.
    fn settle(&mut self) {
        let mut buf = TransmitBuf::new(16, 0, 0);
        let mut sent: Vec<(usize, Destination, Bytes)> = Vec::new();
        loop {
            for (from, site) in self.sites.iter_mut().enumerate() {
                while let Some(transmit) = site.poll_transmit(self.now, &mut buf) {
                    let bodies = buf.iter().map(Bytes::copy_from_slice);
                    sent.extend(bodies.map(|body| (from, transmit.destination, body)));
                    buf.clear();
                }
                while let Some(event) = site.poll_event() {
                    if let Event::Deliver(delivery) = event {
                        let of = NAMES[delivery.id.sender.node.0 as usize];
                        let number = delivery.id.number;
                        self.transcript
                            .push(format!("  {} delivers ({of},{number})", NAMES[from]));
                    }
                }
            }
            if sent.is_empty() {
                return;
            }
            let (from, destination, body) = sent.remove(0);
            let to: Vec<usize> = match destination {
                Destination::Group => (0..4).filter(|site| *site != from).collect(),
                Destination::Member(to) => vec![to.node.0 as usize],
            };
            let message = Message::decode(&body).unwrap();
            let lost = match message {
                Message::Ack(_) => self.loses.take(),
                _ => None,
            };
            self.note(from, destination, &message, lost);
            for site in to.into_iter().filter(|site| Some(*site) != lost) {
                let (now, from) = (self.now, member(from));
                self.sites[site].handle_datagram(now, from, body.clone());
            }
        }
    }

    fn note(&mut self, from: usize, to: Destination, message: &Message, lost: Option<usize>) {
        let to = match to {
            Destination::Group => "all".to_string(),
            Destination::Member(to) => NAMES[to.node.0 as usize].to_string(),
        };
        let what = match message {
            Message::Data(data) => {
                format!(
                    "data ({},{})",
                    NAMES[usize::from(data.origin)],
                    data.number.0
                )
            }
            Message::Ack(ack) => {
                let next = NAMES[usize::from(ack.next)];
                let packets = ack.packets.iter().map(|run| {
                    let origin = NAMES[usize::from(run.origin)];
                    format!("({origin},{})", run.first.0)
                });
                let packets = packets.collect::<String>();
                let packets = if packets.is_empty() {
                    "null".into()
                } else {
                    packets
                };
                format!("ACK({packets},{},{next})", ack.stamp.0)
            }
            Message::Nack(nack) => format!("NACK({})", nack.positions[0].first.0),
            Message::Confirm { stamp, .. } => format!("Confirm({})", stamp.0),
            other => format!("{other:?}"),
        };
        let lost = lost.map_or(String::new(), |site| format!(", not to {}", NAMES[site]));
        self.transcript
            .push(format!("{} to {to}: {what}{lost}", NAMES[from]));
    }

    fn submit(&mut self, site: usize) {
        let now = self.now;
        self.sites[site]
            .submit(now, Service::Agreed, Bytes::from_static(b"message"))
            .unwrap();
        self.settle();
    }

    /// Time passes until `span` is over, with every timer on time.
    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let due = self.sites.iter().filter_map(Rmp::poll_timeout);
            match due.min() {
                Some(due) if due <= end => self.now = self.now.max(due),
                _ => break,
            }
            for site in &mut self.sites {
                site.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    fn frame(&mut self, number: u32) {
        self.transcript.push(format!("frame {number}"));
    }
}

#[test]
fn the_exchange_of_figure_6() {
    let mut group = Group::new();
    group.frame(1);
    group.loses = Some(3);
    group.submit(1);
    group.frame(2);
    group.submit(3);
    group.frame(3);
    group.wait(Duration::from_millis(500));
    group.frame(4);
    group.wait(Duration::from_millis(1_000));
    let transcript = group.transcript.join("\n");
    println!("{transcript}");
    let expected = "\
frame 1
B to all: data (B,1)
  A delivers (B,1)
A to all: ACK((B,1),1,B), not to D
  B delivers (B,1)
  C delivers (B,1)
frame 2
D to all: data (D,1)
  B delivers (D,1)
B to all: ACK((D,1),2,C)
  A delivers (D,1)
  C delivers (D,1)
frame 3
D to B: NACK(1)
B to D: ACK((B,1),1,B)
  D delivers (B,1)
  D delivers (D,1)
C to B: Confirm(2)
frame 4
C to all: ACK(null,3,D)
D to C: Confirm(3)";
    assert_eq!(transcript, expected);
}

#[test]
fn a_rotation_of_null_acks_later_all_is_forgotten_and_the_token_stays() {
    let mut group = Group::new();
    group.submit(1);
    group.submit(3);
    group.wait(Duration::from_secs(30));
    let nulls = group.transcript.iter().filter(|line| line.contains("null"));
    assert_eq!(nulls.count(), 4, "{:#?}", group.transcript);
    for site in &group.sites {
        let order = site.state.installed().unwrap();
        assert_eq!(order.safe(), Seq(2), "{:?}", order.top);
        assert_eq!(order.places.base(), 3, "nothing is kept");
    }
}
