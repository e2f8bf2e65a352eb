//! A digest of what one incarnation of a member has seen: the facts that the demo prints and waits
//! for.

use std::time::Instant;

use groupcast_core::id::fnv1a;
use groupcast_core::trace::Observation;
use groupcast_core::{ConfigId, ConfigurationKind, Contract, MemberId, OrderPlace, Service};

/// A configuration that a member installed.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    /// Regular or transitional.
    pub(crate) kind: ConfigurationKind,
    /// Its id; of a transitional one, the id of the regular one that it closes.
    pub(crate) id: ConfigId,
    /// The members, in ascending order.
    pub(crate) members: Vec<MemberId>,
    /// When the member installed it.
    pub(crate) at: Instant,
    /// The messages delivered in it so far.
    pub(crate) tally: Tally,
    /// When the first message was delivered in it.
    pub(crate) first_delivery: Option<Instant>,
}

impl Installed {
    /// Whether `other` is the same configuration.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.kind == other.kind && self.id == other.id && self.members == other.members
    }
}

/// The messages that were delivered, and in which order, as digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    /// How many messages were delivered.
    pub(crate) messages: u64,
    /// How many of these may be delivered before they are ordered.
    pub(crate) early: u64,
    /// Digest of the ordered messages, their bytes and their places, in the order of delivery:
    /// equal only if the same was delivered in the same order.
    order: u64,
    /// Digest of the messages that may be delivered before they are ordered, in no order.
    set: u64,
}

impl Tally {
    const NONE: Self = Self {
        messages: 0,
        early: 0,
        order: 0,
        set: 0,
    };

    /// Adds a delivery, under `contract`: messages that it lets come before they are ordered count
    /// whenever they come.
    fn add(&mut self, observation: &Observation, contract: Contract) {
        let Observation::Deliver {
            id,
            service,
            place,
            digest,
        } = observation
        else {
            return;
        };
        self.messages += 1;
        if contract == Contract::OrderedEarly
            && matches!(service, Service::Reliable | Service::Fifo)
        {
            let words = [
                id.sender.node.0,
                id.sender.incarnation.0,
                id.number,
                *digest,
            ];
            self.set = self.set.wrapping_add(hash(&words));
            self.early += 1;
            return;
        }
        let (counter, seq) = place.map_or((0, 0), |place| (place.config.counter, place.seq));
        let sender = (id.sender.node.0, id.sender.incarnation.0);
        self.order = hash(&[
            self.order, sender.0, sender.1, id.number, counter, seq, *digest,
        ]);
    }

    /// One number for all: equal only if the same messages were delivered, the ordered ones in the
    /// same order.
    pub(crate) fn digest(&self) -> u64 {
        self.order.wrapping_add(self.set)
    }
}

fn hash(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    fnv1a(&bytes)
}

/// The record of one incarnation of a member.
#[derive(Clone, Debug)]
pub(crate) struct Diary {
    owner: MemberId,
    /// The contract of its group.
    contract: Contract,
    /// The configuration at the mark, if there was one, and those installed since, the oldest
    /// first.
    path: Vec<Installed>,
    /// How many of `path` are from before the mark: 0 or 1.
    before: usize,
    tally: Tally,
    bytes: u64,
    last_delivery: Option<Instant>,
    last_place: Option<OrderPlace>,
    submitted: u64,
    own_delivered: u64,
    left: Option<Instant>,
}

impl Diary {
    /// The empty record of an incarnation that has not begun.
    pub(crate) fn new(owner: MemberId, contract: Contract) -> Self {
        Self {
            owner,
            contract,
            path: Vec::new(),
            before: 0,
            tally: Tally::NONE,
            bytes: 0,
            last_delivery: None,
            last_place: None,
            submitted: 0,
            own_delivered: 0,
            left: None,
        }
    }

    /// Takes in the next observation.
    pub(crate) fn enter(&mut self, at: Instant, observation: &Observation) {
        match observation {
            Observation::Submit { .. } => self.submitted += 1,
            Observation::Deliver { id, place, .. } => {
                self.tally.add(observation, self.contract);
                self.own_delivered += u64::from(id.sender == self.owner);
                self.last_place = place.or(self.last_place);
                self.last_delivery = Some(at);
                if let Some(current) = self.path.last_mut() {
                    current.tally.add(observation, self.contract);
                    current.first_delivery.get_or_insert(at);
                }
            }
            Observation::Configuration { kind, id, members } => {
                self.path.push(Installed {
                    kind: *kind,
                    id: *id,
                    members: members.clone(),
                    at,
                    tally: Tally::NONE,
                    first_delivery: None,
                });
            }
            Observation::Leave => self.left = Some(at),
            _ => {}
        }
    }

    /// Counts delivered payload bytes.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Forgets path, tally and bytes: from here on they are counted anew.
    pub(crate) fn mark(&mut self) {
        self.path.drain(..self.path.len().saturating_sub(1));
        self.before = self.path.len();
        self.tally = Tally::NONE;
        self.bytes = 0;
        self.last_delivery = None;
    }

    /// The configuration that the member is in.
    pub(crate) fn current(&self) -> Option<&Installed> {
        self.path.last()
    }

    /// The regular configuration that the member is in, unless it is between two.
    pub(crate) fn regular(&self) -> Option<&Installed> {
        self.current()
            .filter(|current| current.kind == ConfigurationKind::Regular)
    }

    /// The configurations installed since the mark.
    pub(crate) fn path(&self) -> &[Installed] {
        &self.path[self.before..]
    }

    /// The tally of the messages delivered since the mark.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Payload bytes delivered since the mark.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the last message since the mark was delivered.
    pub(crate) fn last_delivery(&self) -> Option<Instant> {
        self.last_delivery
    }

    /// The place of the last delivered message in the order.
    pub(crate) fn last_place(&self) -> Option<OrderPlace> {
        self.last_place
    }

    /// Whether all own messages are delivered.
    pub(crate) fn is_served(&self) -> bool {
        self.submitted == self.own_delivered
    }

    /// When it left gracefully.
    pub(crate) fn left(&self) -> Option<Instant> {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, MessageId, NodeId};

    use super::*;

    const OWNER: MemberId = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(2),
    };
    const CONFIG: ConfigId = ConfigId {
        counter: 3,
        representative: OWNER,
    };

    fn deliver(number: u64, seq: u64) -> Observation {
        Observation::Deliver {
            id: MessageId {
                sender: OWNER,
                number,
            },
            service: Service::Agreed,
            place: Some(OrderPlace {
                config: CONFIG,
                seq,
            }),
            digest: number,
        }
    }

    fn regular() -> Observation {
        Observation::Configuration {
            kind: ConfigurationKind::Regular,
            id: CONFIG,
            members: vec![OWNER],
        }
    }

    fn diary(observations: &[Observation]) -> Diary {
        diary_under(Contract::Ordered, observations)
    }

    fn diary_under(contract: Contract, observations: &[Observation]) -> Diary {
        let mut diary = Diary::new(OWNER, contract);
        for observation in observations {
            diary.enter(Instant::now(), observation);
        }
        diary
    }

    #[test]
    fn the_digest_tells_orders_apart() {
        let forth = diary(&[regular(), deliver(1, 1), deliver(2, 2)]);
        let same = diary(&[regular(), deliver(1, 1), deliver(2, 2)]);
        let back = diary(&[regular(), deliver(2, 1), deliver(1, 2)]);
        let fewer = diary(&[regular(), deliver(1, 1)]);
        assert_eq!(forth.tally(), same.tally());
        assert_ne!(forth.tally().digest(), back.tally().digest());
        assert_ne!(forth.tally().digest(), fewer.tally().digest());
    }

    #[test]
    fn what_comes_early_counts_whenever_it_comes() {
        let early = |number: u64| {
            let mut observation = deliver(number, 0);
            if let Observation::Deliver { service, place, .. } = &mut observation {
                (*service, *place) = (Service::Fifo, None);
            }
            observation
        };
        let of = |contract, middle: [Observation; 2]| {
            let [first, second] = middle;
            diary_under(contract, &[regular(), first, second]).tally()
        };
        let contract = Contract::OrderedEarly;
        let forth = of(contract, [early(1), deliver(2, 2)]);
        assert_eq!(forth, of(contract, [deliver(2, 2), early(1)]));
        assert_eq!((forth.messages, forth.early), (2, 1));
        assert_ne!(forth, of(contract, [early(3), deliver(2, 2)]));
        let contract = Contract::Ordered;
        let forth = of(contract, [early(1), deliver(2, 2)]);
        assert_ne!(forth, of(contract, [deliver(2, 2), early(1)]));
    }

    #[test]
    fn a_mark_begins_a_new_chapter_in_the_same_configuration() {
        let mut diary = diary(&[regular(), deliver(1, 1)]);
        diary.mark();
        assert_eq!((diary.path().len(), diary.tally()), (0, Tally::NONE));
        diary.enter(Instant::now(), &deliver(2, 2));
        assert_eq!(diary.tally().messages, 1);
        let current = diary.regular().unwrap();
        assert_eq!((current.id, current.tally.messages), (CONFIG, 2));
    }
}
