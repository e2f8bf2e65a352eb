//! Configuration changes: how daemons come to agree on the groups again, and which messages they
//! hold until they do.
//!
//! ```text
//!            first configuration                    all states are there
//! Starting ──────────────────────▶ Exchanging ─────────────────────────────▶ Steady
//!                                   │      ▲                                   │
//!                                   └──────┘                                   │
//!                       the configuration ended before          a regular configuration
//!                                          ▲                                   │
//!                                          └───────────────────────────────────┘
//! ```
//!
//! **Transition.** When a transitional configuration is installed, every subscriber here gets a
//! transitional view of each of its groups: the members whose daemons go on together. Messages that
//! follow are delivered at once.
//!
//! **Exchange.** When a regular configuration is installed, each daemon submits its *state*: its
//! clients, their groups and its numbers, as of that moment. Older messages may precede it in the
//! order, so everything delivered from the moment of installation is *held*. When the states of all
//! daemons of the configuration have been delivered, which is at the same place for all, they are
//! installed as the new state; every subscriber gets a regular view, named after that place; and
//! the held messages are carried out in their order. Since daemons hand no client's message to the
//! order meanwhile, they hold only messages that were handed over before.
//!
//! **Interrupted exchange.** If the configuration ends before all its states have come, the next
//! one begins another exchange. Held messages stay held, in their order, and so does the transition
//! of the interrupted configuration. A held message may use numbers of a daemon that was not known
//! when it came; the states of the next exchange bring them, so nothing is delivered before all who
//! will deliver it can read it. When an exchange is complete:
//!
//! 1. The interrupted configurations before it are carried out, oldest first, as an extension of
//!    the transition before them: a transitional view where each begins, then its messages, joins
//!    and leaves. These views show the clients of the daemons that came along through that
//!    transition and all since.
//! 2. The new state is installed and shown in regular views.
//! 3. The messages held in the new configuration are carried out.
//!
//! Daemons that came along all that way have held the same messages, got the same states and
//! complete the exchange at the same place, so they do the same there; other daemons have other
//! transitional members, hence other names of views. A daemon carries out its own held messages in
//! the state that it submits. Claims to roles, and roles given back, are answered when the new
//! state is installed, by what all states say together. Messages of a daemon whose state never came
//! are left out: as far as views show, no subscriber here was ever in its component.
//!
//! What is held has a limit: [`held`](super::held) says what becomes of what is over it.
//!
//! # Example: an interrupted exchange
//! Daemons h1 and h2 are in configuration 1, and h3 is alone in configuration 2; al@h1, bo@h2 and
//! cy@h3 are in the group g. h2 has handed bo's message `hello` to the order when configuration 3,
//! of all three, is installed. In its order come the state of h1, `hello` and the state of h2; then
//! h3 is cut off before its own state is ordered. h1 and h2 install configuration 4, and exchange
//! states in it, the last at place p; h3 installs configuration 5 alone, with its state at place q.
//!
//! | event at h1 and h2 | what al and bo are shown |
//! |---|---|
//! | transition out of 1: h1, h2 | transitional view `1:0` of al, bo |
//! | 3 is installed: states are exchanged | |
//! | state of h1, `hello` (held), state of h2 | |
//! | transition out of 3: h1, h2 | |
//! | 4 is installed: the exchange in 3 was interrupted | |
//! | both states, the last at p | transitional view `3:0` of al, bo; `hello`; regular view `4:p` of al, bo |
//!
//! | event at h3 | what cy is shown |
//! |---|---|
//! | transition out of 2: h3 | transitional view `2:0` of cy |
//! | 3, state of h1, `hello` (held), state of h2 | |
//! | transition out of 3: h3; 5 is installed | |
//! | its own state, at q | transitional view `3:0` of cy; `hello`; regular view `5:q` of cy |
//!
//! cy gets `hello` because the state of h2 came before the end: it says which client of h2 the
//! message names as its sender. Had h2's state not come, `hello` would be left out at h3. Either
//! way the view `3:0` stands between what cy saw before and after it: cy may have missed messages
//! there. The two views `3:0` name different members, and so are different views.

use groupcast_core::{
    ConfigId, Configuration, ConfigurationKind, Delivery, Event, Gap, MemberId, OrderPlace,
    Service, Time,
};

use super::held::{Exchange, Segment, intersection};
use super::installing::{Installing, Replaced};
use super::orders::OrderIndex;
use super::roster::Roster;
use super::steps::{Agreed, Step};
use super::wire::{Envelope, State, StateReader, StateWriter};
use super::{Carrier, Engine, Fact};
use crate::frame::{Disconnect, Reject, Request};

/// To hold a message counts for this much.
const HOLD: usize = 16;

/// This many bytes of it count for one more.
const HOLD_BYTES: usize = 64;

/// The phases of an order, as this daemon sees it.
#[derive(Debug)]
pub(super) enum Phase {
    Starting,
    Exchanging(Exchange),
    Steady,
    Stopped,
    /// The ring does not take this daemon's state: the daemon leaves it, and begins anew.
    Refused,
}

impl Engine {
    /// Handles an event of a carrier.
    pub fn handle_event(&mut self, now: Time, carrier: Carrier, event: Event) {
        match carrier {
            Carrier::Order => self.handle_ordered_event(OrderIndex::OWN, now, event),
            Carrier::Ring(index) => {
                self.handle_ordered_event(OrderIndex::of_ring(index), now, event);
            }
            Carrier::Bimodal(index) => self.handle_gossip_event(now, index, event),
        }
    }

    fn handle_ordered_event(&mut self, on: OrderIndex, now: Time, event: Event) {
        self.finish_spreading(on, now);
        match event {
            Event::Deliver(delivery) => self.handle_delivery(on, now, delivery),
            Event::Configuration(config) => match config.kind {
                ConfigurationKind::Transitional => {
                    self.handle_transition(on, now, config.id, config.members);
                }
                ConfigurationKind::Regular => self.handle_regular(on, now, config),
            },
            Event::Gap(gap) => self.handle_gap(on, now, gap),
            Event::Writable => self.orders[on].submissions.writable(),
            Event::Left => self.stop(now, "the daemon has left its group: connect to another"),
            _ => {}
        }
    }

    /// The order will not deliver messages that a majority had to hold: tells the clients of this
    /// daemon that published them. All other clients see the partition in their views at that
    /// place.
    fn handle_gap(&mut self, on: OrderIndex, now: Time, gap: Gap) {
        if gap.sender != self.orders[on].local {
            return;
        }
        for (id, number) in self.clients.placed(on, gap.first..=gap.last) {
            if let Some(client) = self.clients.get_mut(id) {
                client.turned_away(number);
            }
            let text = "the daemons here are no majority, so the message was not delivered: publish \
                        it again when the others are back";
            let request = Request::Publish(number);
            self.reject(now, id, request, Reject::Minority, text.into());
            self.schedule.ready.insert(id);
        }
    }

    fn handle_delivery(&mut self, on: OrderIndex, now: Time, delivery: Delivery) {
        // Nothing is promised of an unreliable message, so it waits for nothing.
        if delivery.service == Service::Unreliable {
            return self.apply(on, now, &delivery);
        }
        if delivery.id.sender == self.orders[on].local && delivery.place.is_some() {
            self.orders[on].submissions.came_back(delivery.id.number);
        }
        match &mut self.orders[on].phase {
            Phase::Steady => self.apply(on, now, &delivery),
            Phase::Exchanging(exchange) => {
                // A state has a place; a message that is delivered early has none.
                let place = delivery.place;
                let (from, len) = (delivery.id.sender, delivery.payload.len());
                let state = exchange.take(delivery);
                self.orders[on].work.spend(HOLD + len / HOLD_BYTES);
                match state {
                    Some(state) => {
                        let steps = vec![Step::Read(from, place, Box::new(state))];
                        self.take_steps(on, now, steps);
                    }
                    None => self.check_held(on, now),
                }
            }
            Phase::Refused => {}
            Phase::Starting | Phase::Stopped => {
                self.nonsense(delivery.id.sender, "a message before any configuration");
            }
        }
    }

    fn handle_transition(
        &mut self,
        on: OrderIndex,
        now: Time,
        closes: ConfigId,
        members: Vec<MemberId>,
    ) {
        match &mut self.orders[on].phase {
            Phase::Steady => {
                let current = self.orders[on].current.as_ref();
                let all = current.map_or(0, |current| current.members.len());
                self.orders[on].is_split = members.len() < all;
                self.apply_transition(on, now, closes, members);
            }
            Phase::Exchanging(exchange) => {
                if let Some(segment) = exchange.segments.last_mut() {
                    segment.together = Some(members);
                }
            }
            Phase::Starting | Phase::Stopped | Phase::Refused => {}
        }
    }

    fn handle_regular(&mut self, on: OrderIndex, now: Time, config: Configuration) {
        if self.orders[on].is_stopped() || self.orders[on].is_refused() {
            return;
        }
        self.close_without_transition(on, now, &config);
        self.orders[on].is_split = false;
        let mut exchange = match std::mem::replace(&mut self.orders[on].phase, Phase::Starting) {
            Phase::Exchanging(exchange) => exchange,
            _ => Exchange::default(),
        };
        let mut replaced = Replaced::default();
        if let Some(segment) = exchange.segments.last() {
            let fact = Fact::Interrupted {
                config: segment.config,
                states: segment.states.len(),
                daemons: segment.members.len(),
            };
            self.journal.fact(self.rings.fact(on, fact));
            let states = exchange.interrupt(self.orders[on].local, &config.members);
            replaced = Replaced::of(states);
        }
        let roster = self.own_roster(on, &exchange);
        let state = State {
            config: config.id,
            part: self.own_part(on, &exchange.held(), &roster),
            roster,
            names: match on {
                OrderIndex::OWN => self.names.said(),
                _ => Vec::new(),
            },
        };
        // One of an earlier configuration is of no use.
        self.orders[on].submissions.take_back_state();
        let segment = Segment::new(config.id, config.members.clone());
        exchange.segments.push(segment);
        self.orders[on].phase = Phase::Exchanging(exchange);
        self.orders[on].current = Some(config);
        self.check_held(on, now);
        let steps = vec![
            Step::Write(Box::new(StateWriter::new(state))),
            Step::LetGo(Box::new(replaced)),
        ];
        self.take_steps(on, now, steps);
    }

    /// Goes on writing this daemon's state, and hands it over when it is whole.
    pub(super) fn write_state(
        &mut self,
        on: OrderIndex,
        now: Time,
        mut writer: Box<StateWriter>,
    ) -> Vec<Step> {
        let order = &mut self.orders[on];
        let (numbers, work) = (&order.submissions.numbers, &mut order.work);
        let number = |name: &str| numbers.get(name).copied();
        if !writer.go_on(number, |it| work.spend_some(it)) {
            return vec![Step::Write(writer)];
        }
        let (state, bytes) = writer.finish();
        self.submit_state(on, now, state, bytes);
        Vec::new()
    }

    /// Goes on reading the state of the daemon `from`, and takes it when it is whole.
    pub(super) fn read_state(
        &mut self,
        on: OrderIndex,
        from: MemberId,
        place: Option<OrderPlace>,
        mut reader: Box<StateReader>,
    ) -> Vec<Step> {
        let work = &mut self.orders[on].work;
        let state = match reader.go_on(|it| work.spend_some(it)) {
            Ok(Some(state)) => state,
            Ok(None) => return vec![Step::Read(from, place, reader)],
            Err(error) => {
                self.nonsense(from, error);
                return Vec::new();
            }
        };
        let Phase::Exchanging(exchange) = &mut self.orders[on].phase else {
            return Vec::new();
        };
        match place.filter(|_| exchange.take_state(from, state)) {
            Some(place) => self.complete(on, place),
            None => Vec::new(),
        }
    }

    /// A ring that installs a regular configuration right after another is treated as if a
    /// transition had come between them.
    fn close_without_transition(&mut self, on: OrderIndex, now: Time, next: &Configuration) {
        // While states are exchanged the table is transitional.
        if !self.orders[on].table.is_transitional()
            && let Some(current) = self.orders[on].current.take()
        {
            let together = intersection(&current.members, &next.members);
            self.apply_transition(on, now, current.id, together);
        }
    }

    /// This daemon's part of the state, as of all that was delivered to it, held or not.
    fn own_roster(&self, on: OrderIndex, exchange: &Exchange) -> Roster {
        let mut roster = match self.orders[on].own_roster() {
            Some(roster) => roster.clone(),
            None => Roster::new(&self.host),
        };
        for delivery in exchange.held_of(self.orders[on].local) {
            if let Ok(Some(Envelope::Op(op))) = Envelope::decode(&delivery.payload) {
                // A malformed operation is counted when it is carried out.
                let _ = roster.apply_remembering(&op);
            }
        }
        roster
    }

    /// All states have come, the last one at `place`: they are installed, and the held messages
    /// carried out, in the steps that it returns.
    fn complete(&mut self, on: OrderIndex, place: OrderPlace) -> Vec<Step> {
        let Phase::Exchanging(exchange) =
            std::mem::replace(&mut self.orders[on].phase, Phase::Steady)
        else {
            return Vec::new();
        };
        self.orders[on].routing.changed();
        if exchange.segments.len() > 1 {
            let states = exchange.segments.last().map(|segment| &segment.states);
            for (daemon, roster) in exchange.learned.iter().chain(states.into_iter().flatten()) {
                self.orders[on].table.learn(*daemon, roster);
            }
        }
        let mut segments = exchange.segments;
        let last = segments.pop();
        for together in segments
            .iter_mut()
            .filter_map(|segment| segment.together.take())
        {
            self.orders[on].table.narrow(together);
        }
        self.orders[on].defers_roles = true;
        let mut steps = Vec::new();
        for mut segment in segments {
            if exchange.shed {
                // No subscriber is left. The requests of others are in the states by now, and
                // their clients may not be known here.
                let local = self.orders[on].local;
                segment.held.retain(|it| it.id.sender == local);
                self.orders[on].table.narrow([]);
            } else {
                // The view comes even if no message follows: messages may have been missed here.
                steps.push(Step::ShowAll((segment.config, 0), None));
            }
            steps.push(Step::Replay(segment.held));
        }
        if let Some(mut segment) = last {
            let states = std::mem::take(&mut segment.states);
            let installing = Installing::new(self.orders[on].local, states);
            steps.push(Step::Install(
                Box::new(segment),
                Box::new(installing),
                place,
            ));
        }
        steps
    }

    /// Goes on installing the states of all daemons; what follows from them comes in further steps.
    pub(super) fn install(
        &mut self,
        on: OrderIndex,
        segment: Box<Segment>,
        mut installing: Box<Installing>,
        place: OrderPlace,
    ) -> Vec<Step> {
        let order = &mut self.orders[on];
        let (compiled, work) = (&mut order.filters.compiled, &mut order.work);
        if !installing.go_on(compiled, |it| work.spend_some(it)) {
            return vec![Step::Install(segment, installing, place)];
        }
        let replaced = installing.finish(&mut order.table, &mut order.filters);
        order.defers_roles = false;
        order.is_split = segment.is_split();
        order.routing.changed();
        let (daemons, config) = (segment.members.len(), segment.config);
        let fact = Fact::Installed {
            config,
            daemons,
            groups: order.table.count(),
        };
        self.journal.fact(self.rings.fact(on, fact));
        let agreed = Agreed {
            members: segment.members,
            parts: segment.parts,
            names: segment.names,
        };
        let mut steps = vec![
            Step::ShowAll((config, place.seq), None),
            Step::Settle(Box::new(agreed), place),
            Step::Replay(segment.held),
        ];
        // The configuration ended before its last state came here; another daemon may have
        // completed the exchange before that.
        steps.extend(
            segment
                .together
                .map(|together| Step::Transition(config, together)),
        );
        steps.push(Step::FollowAhead);
        steps.push(Step::LetGo(Box::new(replaced)));
        steps
    }

    /// What the states of all daemons say beside the groups counts from now on.
    pub(super) fn settle(&mut self, on: OrderIndex, now: Time, agreed: Agreed, place: OrderPlace) {
        self.install_guests(on, now, place, agreed.parts);
        if on == OrderIndex::OWN {
            self.install_names(now, &agreed.members, agreed.names);
        }
    }

    fn apply_transition(
        &mut self,
        on: OrderIndex,
        now: Time,
        closes: ConfigId,
        members: Vec<MemberId>,
    ) {
        self.take_steps(on, now, vec![Step::Transition(closes, members)]);
    }

    /// Of the visible daemons only `members` stay visible; whether that changed anything.
    pub(super) fn narrow(&mut self, on: OrderIndex, now: Time, members: Vec<MemberId>) -> bool {
        self.orders[on].routing.changed();
        self.narrow_guests(on, now, &members);
        self.orders[on].table.narrow(members)
    }

    /// Ends the subscribers' connections when too much is held: they must not miss messages without
    /// notice.
    fn check_held(&mut self, on: OrderIndex, now: Time) {
        let limit = self.config.held_max;
        let local = self.orders[on].local;
        let Phase::Exchanging(exchange) = &mut self.orders[on].phase else {
            return;
        };
        let bytes = exchange.bytes();
        if bytes <= limit || exchange.shed {
            return;
        }
        exchange.shed(local);
        self.journal
            .fact(self.rings.fact(on, Fact::HeldTooMuch { bytes }));
        let text = format!(
            "{bytes} bytes came while daemons exchanged their state, more than may be held: connect again"
        );
        let is_own = on == OrderIndex::OWN;
        for id in self.clients.ids() {
            let client = self.clients.get(id);
            if is_own || client.is_some_and(|client| client.orders[on].bound) {
                self.disconnect(now, id, Disconnect::Overload, text.clone());
            }
        }
    }
}
