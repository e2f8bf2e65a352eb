//! This daemon's state in an exchange, on its way to the order. A state that is longer than a
//! message goes in parts; if it is longer than [`STATE_MAX`], the daemon disconnects the clients
//! with most in it. Without its state no other daemon could agree on the groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use groupcast_core::{ConfigId, SubmitError, Time};

use super::orders::OrderIndex;
use super::wire::{STATE_MAX, State, StatePart};
use super::{ClientId, Engine, Fact};
use crate::frame::Disconnect;

/// The bytes of a claim to a role in a state, at least.
const CLAIM_LEN: usize = 32;

/// A state on its way to the order.
#[derive(Debug)]
pub(super) struct OwnState {
    config: ConfigId,
    /// The envelopes to be submitted: the whole state, or its parts.
    waiting: VecDeque<Bytes>,
    in_parts: bool,
}

impl OwnState {
    fn new(config: ConfigId, bytes: Vec<u8>) -> Self {
        Self {
            config,
            waiting: VecDeque::from([bytes.into()]),
            in_parts: false,
        }
    }

    /// The envelope that goes next.
    pub(super) fn next(&self) -> Option<&Bytes> {
        self.waiting.front()
    }

    /// The answer of the order to the next envelope. Returns whether the order has taken all of
    /// them.
    ///
    /// # Errors
    /// If the order does not take the state in parts, either.
    pub(super) fn submitted<T>(
        &mut self,
        result: Result<T, SubmitError>,
    ) -> Result<bool, SubmitError> {
        match result {
            Ok(_) => {
                self.waiting.pop_front();
                Ok(self.waiting.is_empty())
            }
            Err(SubmitError::TooLarge { len, max }) if !self.in_parts => {
                let whole = self.waiting.front();
                let parts = whole.and_then(|whole| StatePart::split(self.config, whole, max));
                self.waiting = parts.ok_or(SubmitError::TooLarge { len, max })?;
                self.in_parts = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

impl State {
    /// Removes groups, patterns and roles of clients, the largest first, until the state is
    /// `excess` bytes shorter. Returns these clients. Their names stay in it, because their
    /// messages may be on the way.
    fn lighten(&mut self, excess: usize) -> Vec<u64> {
        let bound: BTreeSet<&Arc<str>> = self.roster.bindings.iter().collect();
        let mut lens: BTreeMap<u64, usize> = BTreeMap::new();
        for (number, client) in &self.roster.clients {
            let names = client
                .groups
                .iter()
                .map(|group| match bound.contains(group) {
                    true => 1,
                    false => group.len() + 2,
                });
            let bus = client.bus.iter().flat_map(|bus| bus.patterns.values());
            let patterns = bus.flatten().map(|pattern| pattern.len() + 1);
            lens.insert(*number, names.chain(patterns).sum());
        }
        for claim in &self.part.claims {
            *lens.entry(claim.client).or_default() += CLAIM_LEN;
        }
        let mut largest: Vec<(u64, usize)> = lens.into_iter().collect();
        largest.sort_by_key(|(number, len)| (std::cmp::Reverse(*len), *number));
        let mut left = excess;
        let mut lightened = Vec::new();
        for (number, len) in largest {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(len);
            if let Some(client) = self.roster.clients.get_mut(&number) {
                let client = Arc::make_mut(client);
                client.groups.clear();
                client.bus = None;
            }
            lightened.push(number);
        }
        let gone: BTreeSet<u64> = lightened.iter().copied().collect();
        let claims = &mut self.part.claims;
        claims.retain(|claim| !gone.contains(&claim.client));
        lightened
    }
}

impl Engine {
    /// Submits this daemon's state to the order, before everything else: `bytes` are its envelope.
    pub(super) fn submit_state(&mut self, on: OrderIndex, now: Time, state: State, bytes: Vec<u8>) {
        self.submit_state_within(on, now, state, bytes, STATE_MAX);
    }

    fn submit_state_within(
        &mut self,
        on: OrderIndex,
        now: Time,
        mut state: State,
        mut bytes: Vec<u8>,
        max: usize,
    ) {
        let len = bytes.len();
        if len > max {
            let lightened = state.lighten(len - max);
            bytes = state.encoded();
            let clients = lightened.len();
            let fact = Fact::StateTooLarge { len, max, clients };
            self.journal.fact(self.rings.fact(on, fact));
            let text = format!(
                "the groups, patterns and roles of the clients of the daemon {} take {len} bytes, {max} are allowed, and \
                 this client has most of them: be in fewer groups",
                self.host
            );
            for number in lightened {
                self.disconnect(now, ClientId(number), Disconnect::Overload, text.clone());
            }
        }
        let state = OwnState::new(state.config, bytes);
        self.orders[on].submissions.set_state(state);
    }

    /// The order refuses this daemon's state, so this daemon's clients there would wait for ever.
    /// If the daemon is leaving the order, their connections end with that. If the order is a
    /// further ring, only its clients of this daemon are disconnected: the daemon leaves the ring,
    /// and everything else goes on.
    pub(super) fn state_refused(&mut self, on: OrderIndex, now: Time, error: &SubmitError) {
        let is_leaving = *error == SubmitError::Leaving;
        let error = error.to_string();
        let what = match self.rings.top(on) {
            Some(top) => format!("the ring {top:?}"),
            None => "what orders the messages".to_owned(),
        };
        let text = format!(
            "{what} does not take the state of the daemon {}: {error}: connect to another",
            self.host
        );
        let refused = Fact::StateRefused { error };
        self.journal.fact(self.rings.fact(on, refused));
        match on.ring() {
            _ if is_leaving => {}
            Some(index) => self.give_up_ring(now, index, &text),
            None => self.stop(now, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, MemberId, NodeId, OrderPlace, Service};

    use super::*;
    use crate::groups::roster::Roster;
    use crate::groups::wire::{Envelope, GroupRef, Op};
    use crate::groups::{Carrier, EngineConfig, PhaseName};
    use crate::guests::{Part, PartClaim, Role};

    fn member() -> MemberId {
        MemberId {
            node: NodeId(1),
            incarnation: Incarnation(1),
        }
    }

    /// Three clients: the second has most, the third nothing.
    fn state() -> State {
        let config = ConfigId {
            counter: 1,
            representative: member(),
        };
        let mut roster = Roster::new("h");
        for (client, name) in [(1, "al"), (2, "bo"), (3, "cy")] {
            roster.apply(&Op::BindClient { client, name }).unwrap();
        }
        for (client, groups) in [(1, 10), (2, 50)] {
            for group in 0..groups {
                let name = format!("{client}-{group}-{}", "x".repeat(200));
                let group = GroupRef::Named(&name);
                roster.apply(&Op::Join { client, group }).unwrap();
            }
        }
        let claim = |client| PartClaim {
            client,
            token: 1,
            group: "g".into(),
            role: Role::Lock(1),
            since: OrderPlace { config, seq: 1 },
            flags: 1,
        };
        let part = Part {
            claims: vec![claim(1), claim(2)],
            guests: Vec::new(),
        };
        State {
            config,
            roster,
            part,
            names: Vec::new(),
        }
    }

    #[test]
    fn a_state_becomes_as_short_as_it_must_at_the_cost_of_who_has_most() {
        let whole = state().encoded().len();
        for max in [whole - 1, whole / 2, 2_500] {
            let mut state = state();
            assert_eq!(state.lighten(whole - max), [2]);
            assert!(state.encoded().len() <= max);
            assert_eq!(state.roster.clients[&1].groups.len(), 10);
            assert_eq!(&*state.roster.clients[&2].private, "bo@h");
            assert_eq!(state.part.claims.len(), 1);
        }
        let mut state = state();
        assert_eq!(state.lighten(whole - 1_000), [2, 1]);
        assert!(state.encoded().len() <= 1_000);
    }

    #[test]
    fn what_is_too_long_for_one_message_goes_in_parts_and_what_is_too_long_for_all_without_some() {
        let mut engine = Engine::new(EngineConfig::default(), member(), "h").unwrap();
        let bytes = state().encoded();
        engine.submit_state_within(OrderIndex::OWN, Time::ZERO, state(), bytes, 5_000);
        let facts: Vec<Fact> = std::iter::from_fn(|| engine.poll_fact()).collect();
        let too_large = |fact: &Fact| matches!(fact, Fact::StateTooLarge { clients: 1, .. });
        assert!(facts.iter().any(too_large), "{facts:?}");
        let mut taken = Vec::new();
        engine.pump(Time::ZERO, |carrier, service, payload| {
            assert_eq!((carrier, service), (Carrier::Order, Service::Agreed));
            let (len, max) = (payload.len(), 500);
            if len > max {
                return Err(SubmitError::TooLarge { len, max });
            }
            if taken.len() == 2 {
                return Err(SubmitError::Full { queued: 1 });
            }
            taken.push(payload);
            Ok(groupcast_core::MessageId {
                sender: member(),
                number: taken.len() as u64,
            })
        });
        assert_eq!(taken.len(), 2);
        for envelope in taken {
            let part = Envelope::decode(&envelope).unwrap();
            assert!(matches!(part, Some(Envelope::StatePart(_))));
        }
        assert!(
            engine.orders[OrderIndex::OWN]
                .submissions
                .next_of_state()
                .is_some(),
            "the rest waits"
        );
    }

    #[test]
    fn where_no_state_can_be_sent_clients_are_told_and_the_status_says_so() {
        let mut engine = Engine::new(EngineConfig::default(), member(), "h").unwrap();
        let bytes = state().encoded();
        engine.submit_state(OrderIndex::OWN, Time::ZERO, state(), bytes);
        engine.pump(Time::ZERO, |_, _, payload| {
            let len = payload.len();
            Err(SubmitError::TooLarge { len, max: 10 })
        });
        assert_eq!(engine.status().phase, PhaseName::Stopped);
        let facts: Vec<Fact> = std::iter::from_fn(|| engine.poll_fact()).collect();
        let refused = |fact: &Fact| matches!(fact, Fact::StateRefused { .. });
        assert!(facts.iter().any(refused), "{facts:?}");
    }

    #[test]
    fn a_ring_that_takes_no_state_is_left_and_the_own_order_goes_on() {
        let config = EngineConfig {
            rings: vec!["cb".to_owned()],
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, member(), "h").unwrap();
        engine.begin_ring(Time::ZERO, 0, member());
        let bytes = state().encoded();
        engine.submit_state(OrderIndex::of_ring(0), Time::ZERO, state(), bytes);
        engine.pump(Time::ZERO, |carrier, _, payload| {
            assert_eq!(carrier, Carrier::Ring(0));
            let len = payload.len();
            Err(SubmitError::TooLarge { len, max: 10 })
        });
        let status = engine.status();
        assert_eq!(status.phase, PhaseName::Starting);
        assert_eq!(status.rings[0].phase, PhaseName::Stopped);
        assert!(!engine.uses_ring(0), "so that it is left");
        let facts: Vec<Fact> = std::iter::from_fn(|| engine.poll_fact()).collect();
        let refused = |fact: &Fact| match fact {
            Fact::InRing { ring, fact } => {
                **ring == *"cb" && matches!(**fact, Fact::StateRefused { .. })
            }
            _ => false,
        };
        assert!(facts.iter().any(refused), "{facts:?}");
        engine.begin_ring(Time::ZERO, 0, member());
        assert_eq!(engine.status().rings[0].phase, PhaseName::Starting);
    }
}
