//! The message bus: any text of a program, at a daemon that is alone, cut anywhere.
//!
//! Whatever comes: no panic, no more than one reply for a line, and what the bus says can be read:
//! each line begins with a word that it may begin with, and a delivery has the bytes that it
//! announces.

use std::io::IoSlice;

use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, MessageId, OrderPlace, Service,
    SubmitError, Time,
};
use groupcast_session::bus::Bus;
use groupcast_session::groups::{Carrier, Transport};
use groupcast_session::{ClientId, Engine, EngineConfig};

use super::member;

/// Gives `data` to a bus: the first byte says how many bytes come at a time, and whether the text
/// ends.
pub fn bus(data: &[u8]) {
    let Some((how, text)) = data.split_first() else {
        return;
    };
    let mut alone = Alone::new();
    // The client accepts everything, so that much is delivered.
    alone.take(b"accept * a\naccept b* *.a\nfrom on\nviews on\n");
    let piece = 1 + usize::from(how >> 1) * 4;
    for part in text.chunks(piece) {
        if alone.bus.wants_text() {
            alone.take(part);
        }
    }
    if how & 1 == 1 {
        alone.bus.end_text();
        alone.settle();
    }
    let lines = 4 + text.split(|byte| *byte == b'\n').count();
    let replies = read(&alone.heard);
    assert!(replies <= lines, "{replies} replies to {lines} lines");
}

/// A daemon without others, and its client.
struct Alone {
    engine: Engine,
    id: ClientId,
    bus: Bus,
    ordered: u64,
    heard: Vec<u8>,
}

impl Alone {
    fn new() -> Self {
        let config = EngineConfig {
            patterns_per_client_max: 20,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, member(0), "h").expect("the limits are right");
        let configuration = Configuration {
            kind: ConfigurationKind::Regular,
            id: place(0).config,
            members: vec![member(0)],
            left: Vec::new(),
        };
        let event = Event::Configuration(configuration);
        engine.handle_event(Time::ZERO, Carrier::Order, event);
        let id = engine.connected(Time::ZERO, Transport::Unix);
        let mut alone = Self {
            engine,
            id: id.expect("there is room"),
            bus: Bus::new(None),
            ordered: 0,
            heard: Vec::new(),
        };
        alone.settle();
        alone
    }

    fn take(&mut self, text: &[u8]) {
        self.bus.take_text(text);
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let busy = self.feed_engine() | self.order() | self.feed_bus();
            self.heard.extend_from_slice(self.bus.text());
            let len = self.bus.text().len();
            self.bus.text_taken(len);
            if !busy {
                return;
            }
        }
    }

    fn feed_engine(&mut self) -> bool {
        let mut busy = false;
        while self.bus.has_frames()
            && let Some(space) = self.engine.space(self.id)
        {
            let frames = self.bus.frames();
            let len = frames.len().min(space.len());
            space[..len].copy_from_slice(&frames[..len]);
            self.bus.frames_taken(len);
            self.engine.received_all(Time::ZERO, self.id, len);
            busy = true;
        }
        busy
    }

    fn order(&mut self) -> bool {
        let mut ordered = Vec::new();
        let number = &mut self.ordered;
        self.engine.pump(Time::ZERO, |_, service, payload| {
            *number += 1;
            let id = MessageId {
                sender: member(0),
                number: *number,
            };
            ordered.push(Delivery {
                id,
                service,
                place: (service != Service::Unreliable).then(|| place(*number << 16)),
                payload,
            });
            Ok::<_, SubmitError>(id)
        });
        let busy = !ordered.is_empty();
        for delivery in ordered {
            let event = Event::Deliver(delivery);
            self.engine.handle_event(Time::ZERO, Carrier::Order, event);
        }
        busy
    }

    fn feed_bus(&mut self) -> bool {
        let mut slices = [IoSlice::new(&[]); 16];
        let count = self.engine.slices(self.id, &mut slices);
        let parts = slices[..count].iter();
        let bytes: Vec<u8> = parts.flat_map(|part| part.iter().copied()).collect();
        self.engine.consumed(Time::ZERO, self.id, bytes.len());
        self.bus.take_frames(&bytes).expect("frames are right");
        !bytes.is_empty()
    }
}

fn place(seq: u64) -> OrderPlace {
    OrderPlace {
        config: ConfigId {
            counter: 1,
            representative: member(0),
        },
        seq,
    }
}

/// Reads what the bus said. Returns how many replies are in it.
fn read(mut heard: &[u8]) -> usize {
    let mut replies = 0;
    while !heard.is_empty() {
        let end = heard.iter().position(|byte| *byte == b'\n');
        let (line, rest) = heard.split_at(end.expect("every line has an end") + 1);
        heard = rest;
        let line = std::str::from_utf8(line)
            .expect("lines are text")
            .trim_end();
        match line.split(' ').next() {
            Some("ok" | "error") => replies += 1,
            Some("" | "bus" | "view" | "closed") => {}
            Some("msg") => {
                let len = line.rsplit(' ').next().and_then(|len| len.parse().ok());
                let (_, rest) = heard.split_at(len.expect("a delivery has a length"));
                heard = rest.strip_prefix(b"\n").expect("and ends with its line");
            }
            other => panic!("the bus said {other:?}"),
        }
    }
    replies
}
