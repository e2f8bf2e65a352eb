//! Four sites in an exchange: a script says who sends when, and which ACK a site does not hear;
//! what they then say is theirs, and is recorded.
//!
//! A network of its own: every datagram takes [`DELAY`], none is lost but that ACK, and no
//! processor takes time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::{
    Destination, Event, Incarnation, MemberId, NodeId, Ordered as _, Protocol as _, Rng, Service,
    Time, TransmitBuf,
};
use groupcast_protocols::rmp::{NackTo, Rmp, RmpConfig, Said};

use super::super::super::RunError;

/// One way, for every datagram.
pub(super) const DELAY: Duration = Duration::from_micros(100);
/// The sites' names, in the order of the token: A has it first.
pub(super) const SITES: [&str; 4] = ["A", "B", "C", "D"];
/// When the first frame begins: the sites have formed one configuration.
const BEGIN: Duration = Duration::from_millis(300);

/// This many streams of random numbers are tried.
const SEEDS: u64 = 50;

/// What happens when a frame of the figure begins.
pub(super) struct Frame {
    /// Its number in the figure; 0 is what comes behind the last one.
    pub(super) number: u32,
    /// How long it takes.
    pub(super) takes: Duration,
    /// The site that sends a message as it begins.
    pub(super) sends: Option<usize>,
    /// The site that does not hear the first ACK in it.
    pub(super) deaf: Option<usize>,
}

/// A datagram that was sent.
pub(super) struct Spoken {
    pub(super) frame: u32,
    /// Since the first frame began.
    pub(super) at: Duration,
    pub(super) from: usize,
    /// All sites, if `None`.
    pub(super) to: Option<usize>,
    /// In the figure's notation, such as `ACK((B,1),1,B)`.
    pub(super) what: String,
    pub(super) lost_by: Option<usize>,
}

/// A message that a site delivered.
pub(super) struct Delivered {
    pub(super) frame: u32,
    pub(super) at: Duration,
    pub(super) site: usize,
    /// Such as `(B,1)`.
    pub(super) message: String,
}

/// A site took the token.
pub(super) struct Taken {
    pub(super) site: usize,
    /// The timestamp of the ACK that passed it.
    pub(super) stamp: u64,
    /// The site keeps nothing up to this timestamp.
    pub(super) freed: u64,
}

/// What happened in an exchange.
#[derive(Default)]
pub(super) struct Exchange {
    pub(super) said: Vec<Spoken>,
    pub(super) delivered: Vec<Delivered>,
    pub(super) taken: Vec<Taken>,
}

/// The four sites, and the datagrams between them.
struct ExchangeStage {
    sites: Vec<Rmp>,
    now: Time,
    /// By when they arrive and in which order they were sent.
    flying: BTreeMap<(Time, u64), (usize, usize, Bytes)>,
    sent: u64,
    frame: Option<u32>,
    deaf: Option<usize>,
    /// The place, in the configuration's list, of the first token site: A.
    first: usize,
    exchange: Exchange,
}

/// Plays `frames`, one after the other.
pub(super) fn play(frames: &[Frame]) -> Result<Exchange, RunError> {
    let mut stage = ExchangeStage::formed()?;
    for frame in frames {
        stage.frame = Some(frame.number);
        stage.deaf = frame.deaf;
        if let Some(site) = frame.sends {
            stage.submit(site)?;
        }
        stage.run_to(stage.now + frame.takes);
    }
    Ok(stage.exchange)
}

fn member(site: usize) -> MemberId {
    MemberId {
        node: NodeId(site as u64 + 1),
        incarnation: Incarnation(site as u64 + 1),
    }
}

fn place(member: MemberId) -> usize {
    member.node.0 as usize - 1
}

impl ExchangeStage {
    /// The sites in one ring, in the order of their names, in which nothing was ordered: they
    /// formed it at once. With other random numbers some would join it later, behind its token
    /// site.
    fn formed() -> Result<Self, RunError> {
        for seed in 1..=SEEDS {
            let mut stage = Self::new(seed)?;
            stage.run_to(Time::ZERO + BEGIN);
            let all: Vec<MemberId> = (0..SITES.len()).map(member).collect();
            let whole = |site: &Rmp| {
                let status = site.status();
                status.members == all && status.high == 0
            };
            if let Some(ring) = stage.sites[0].configuration()
                && stage.sites.iter().all(whole)
            {
                stage.first = place(ring.representative);
                return Ok(stage);
            }
        }
        Err(RunError::Failed(
            "the sites formed no ring at once".to_owned(),
        ))
    }

    fn new(seed: u64) -> Result<Self, RunError> {
        let config = RmpConfig {
            nack: NackTo::Unicast,
            // 000's sites say nothing to strangers.
            announce_interval: Duration::from_secs(3_600),
            ..RmpConfig::paper()
        };
        let sites = (0..SITES.len()).map(|site| {
            let rng = Rng::new(seed).fork_index(site as u64);
            Rmp::new(config.clone(), member(site), rng, Time::ZERO)
        });
        let sites: Result<Vec<Rmp>, _> = sites.collect();
        let mut stage = Self {
            sites: sites.map_err(|error| RunError::Failed(error.to_string()))?,
            now: Time::ZERO,
            flying: BTreeMap::new(),
            sent: 0,
            frame: None,
            deaf: None,
            first: 0,
            exchange: Exchange::default(),
        };
        (0..SITES.len()).for_each(|site| stage.drain(site));
        Ok(stage)
    }

    /// The site at a place of the configuration's list.
    fn site(&self, place: usize) -> usize {
        (place + SITES.len() - self.first) % SITES.len()
    }

    /// The place of a site in that list.
    fn place(&self, site: usize) -> usize {
        (self.first + site) % SITES.len()
    }

    /// A packet in the figure's notation.
    fn packet(&self, origin: usize, number: u64) -> String {
        format!("({},{number})", SITES[self.site(origin)])
    }

    /// A datagram in the figure's notation; `None` if the figure has none such.
    fn notation(&self, said: &Said) -> Option<String> {
        Some(match said {
            Said::Data { origin, number } => format!("data {}", self.packet(*origin, *number)),
            Said::Ack {
                packets,
                stamp,
                next,
            } => {
                let packet = |(origin, number): &(usize, u64)| self.packet(*origin, *number);
                let packets = match packets.is_empty() {
                    true => "null".to_owned(),
                    false => packets.iter().map(packet).collect(),
                };
                format!("ACK({packets},{stamp},{})", SITES[self.site(*next)])
            }
            Said::Nack {
                position: Some(position),
            } => format!("NACK({position})"),
            Said::Nack { position: None } => "NACK".to_owned(),
            Said::Confirm { stamp } => format!("Confirm({stamp})"),
            _ => return None,
        })
    }

    /// What is due until `end` happens, in the order of time.
    fn run_to(&mut self, end: Time) {
        loop {
            let timer = self.sites.iter().filter_map(Rmp::poll_timeout).min();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let next = timer.into_iter().chain(arrival).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if arrival.is_some_and(|at| at <= self.now)
                && let Some((_, (from, to, body))) = self.flying.pop_first()
            {
                self.arrive(from, to, body);
            } else {
                for site in 0..SITES.len() {
                    self.sites[site].handle_timeout(self.now);
                    self.drain(site);
                }
            }
        }
        self.now = end;
    }

    fn submit(&mut self, site: usize) -> Result<(), RunError> {
        let message = Bytes::from_static(b"message");
        let place = self.place(site);
        self.sites[place]
            .submit(self.now, Service::Agreed, message)
            .map_err(|error| RunError::Failed(error.to_string()))?;
        self.drain(place);
        Ok(())
    }

    fn arrive(&mut self, from: usize, to: usize, body: Bytes) {
        let said = Said::read(&body);
        self.sites[to].handle_datagram(self.now, member(from), body);
        self.drain(to);
        if let Some(Said::Ack { stamp, next, .. }) = said
            && next == to
            && self.frame.is_some()
        {
            // One packet a timestamp until all are ordered: positions count the same.
            let freed = self.sites[to].status().safe;
            let site = self.site(to);
            self.exchange.taken.push(Taken { site, stamp, freed });
        }
    }

    fn drain(&mut self, from: usize) {
        let mut buf = TransmitBuf::new(1, 0, 0);
        loop {
            buf.clear();
            let Some(transmit) = self.sites[from].poll_transmit(self.now, &mut buf) else {
                break;
            };
            self.say(
                from,
                transmit.destination,
                &Bytes::copy_from_slice(buf.as_bytes()),
            );
        }
        while let Some(event) = self.sites[from].poll_event() {
            if let Event::Deliver(delivery) = event
                && let Some(frame) = self.frame
            {
                let sender = place(delivery.id.sender);
                let delivered = Delivered {
                    frame,
                    at: self.now - (Time::ZERO + BEGIN),
                    site: self.site(from),
                    message: self.packet(sender, delivery.id.number),
                };
                self.exchange.delivered.push(delivered);
            }
        }
    }

    fn say(&mut self, from: usize, destination: Destination, body: &Bytes) {
        let said = Said::read(body);
        let to = match destination {
            Destination::Group => None,
            Destination::Member(member) => Some(place(member)),
        };
        let lost_by = match said {
            Some(Said::Ack { .. }) => self.deaf.take(),
            _ => None,
        };
        let deaf = lost_by.map(|site| self.place(site));
        let others = (0..SITES.len()).filter(|other| *other != from && Some(*other) != deaf);
        for receiver in others.filter(|other| to.is_none_or(|to| to == *other)) {
            self.sent += 1;
            let datagram = (from, receiver, body.clone());
            self.flying.insert((self.now + DELAY, self.sent), datagram);
        }
        let what = said.as_ref().and_then(|said| self.notation(said));
        if let (Some(frame), Some(what)) = (self.frame, what) {
            let spoken = Spoken {
                frame,
                at: self.now - (Time::ZERO + BEGIN),
                from: self.site(from),
                to: to.map(|to| self.site(to)),
                what,
                lost_by,
            };
            self.exchange.said.push(spoken);
        }
    }
}
