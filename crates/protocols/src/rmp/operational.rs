//! Operational: packets are sent until they have positions, and what is deliverable is delivered
//! (000 ch. 8).

use alloc::collections::{BTreeSet, VecDeque};

use groupcast_core::mech::seq::Seq;
use groupcast_core::mech::window::Insert;
use groupcast_core::{MemberId, Time};

use super::config::{FRAME_RECORDS, OrderRule, RmpConfig};
use super::flow::Acknowledged;
use super::listing::Wishes;
use super::numbers::{Marks, Number, Stamp, Tag};
use super::order::{Order, Packet};
use super::polling::Polling;
use super::relaying::Tellings;
use super::token::{Pass, PassesOn};
use super::wire::{Data, Message};
use super::{Rmp, State, Timer};
use crate::packing::waits_for_marks;

/// What only an operational member needs.
#[derive(Clone, Hash, Debug)]
pub(super) struct Operational {
    /// The order of the configuration.
    pub(super) order: Order,
    /// The last ACK of this member, until there is a sign that the token was taken.
    pub(super) pass: Option<Pass>,
    /// The newest ACK whose token this member has taken and said so.
    pub(super) confirmed: Stamp,
    /// Since when this member has the token.
    pub(super) token_since: Option<Time>,
    /// When the newest ACK was heard or sent.
    pub(super) moved: Option<Time>,
    /// ACKs without packets in a row.
    pub(super) nulls: usize,
    /// Own packets without an ACK, the oldest first.
    in_flight: VecDeque<Flight>,
    /// How many frames they are.
    unacknowledged: u32,
    /// The number of the last own packet.
    pub(super) sent: Number,
    /// How many times in a row the oldest packet's timer expired.
    pub(super) data_tries: u32,
    /// What this member has told all of itself.
    pub(super) told: Marks,
    /// How many times in a row requests were not answered.
    pub(super) request_tries: u32,
    /// Up to where the order was settled, delivered and ready everywhere when marks were waited for
    /// last.
    pub(super) wanted_at: (Seq, Seq, Seq),
    /// How many times in a row marks were asked for since.
    pub(super) wanted_tries: u32,
    /// Marks that others told.
    pub(super) tellings: Tellings,
    /// What a member says that it knows of its packets and is not known here, and since when it is
    /// asked for.
    pub(super) unheard: Option<(u8, Number, Time)>,
    /// Where the newest ACK that is known here ends while one that names a member of a list that
    /// was not heard tells of more, and since when that is asked for.
    pub(super) unlisted: Option<(Seq, Time)>,
    /// How far everything was held when the last request was sent.
    pub(super) requested_at: Seq,
    /// The ways of token passes that this member may have to send on.
    pub(super) passes: PassesOn,
    /// Members that said good-bye.
    pub(super) left: BTreeSet<MemberId>,
    /// The processes that want to come, and the members that want to go.
    pub(super) wishes: Wishes,
}

/// A packet on its way.
#[derive(Clone, Copy, Hash, Debug)]
struct Flight {
    number: Number,
    frames: u32,
    at: Time,
    again: bool,
}

impl Operational {
    pub(super) fn new(order: Order) -> Self {
        let sent = order.last_sent();
        Self {
            requested_at: order.held,
            order,
            pass: None,
            confirmed: Stamp::default(),
            token_since: None,
            moved: None,
            nulls: 0,
            in_flight: VecDeque::new(),
            unacknowledged: 0,
            sent,
            data_tries: 0,
            told: Marks::default(),
            wanted_at: Default::default(),
            wanted_tries: 0,
            tellings: Tellings::default(),
            unheard: None,
            unlisted: None,
            passes: PassesOn::default(),
            request_tries: 0,
            left: BTreeSet::new(),
            wishes: Wishes::default(),
        }
    }

    /// Whether a message waits here, or no position may be given out, until other members say more.
    pub(super) fn waits(&self) -> bool {
        let open = self.order.list_is_open() || !self.wishes.is_empty();
        // What is safe, as this member knows, others may wait for: they have not heard this one.
        let untold = self.told.ready < self.order.safe_to;
        let at_limit = self.order.gap_end() <= self.order.top.last;
        open || untold || at_limit || self.order.cursor.delivered() < self.order.top.last
    }
}

impl Rmp {
    /// Sends, orders, delivers and plans whatever is due: called after every input, and after every
    /// message of the user.
    pub(super) fn act(&mut self, now: Time) {
        if !matches!(self.state, State::Operational(_)) {
            return;
        }
        self.send_packets(now);
        while self.order_packets(now) {
            // Nobody else gives a member that is alone another turn, in which there is room again.
            if self.state.expect_operational().order.is_alone() {
                self.deliver();
            }
            self.send_packets(now);
        }
        self.hold_token(now);
        self.deliver();
        self.pass_list(now);
        if !matches!(self.state, State::Operational(_)) {
            return;
        }
        self.plan_request(now);
        self.settle();
        self.plan_marks(now);
        self.plan_wanted(now);
        self.wake_submitter();
        self.leave_when_done(now);
    }

    /// Delivers whatever the rules allow now.
    pub(super) fn deliver(&mut self) {
        let order = &mut self.state.expect_operational().order;
        let events = &mut self.events;
        order.deliver(&mut |event| events.push_back(event));
        order.discard();
    }

    /// Sends packets as the window allows (000 ch. 8, flow control).
    fn send_packets(&mut self, now: Time) {
        let most = self.records_max();
        let frame = most.min(FRAME_RECORDS);
        let operational = self.state.expect_operational();
        let Operational {
            order,
            in_flight,
            unacknowledged,
            sent,
            told,
            ..
        } = operational;
        let mut flown = false;
        let waiting = self.queue.bytes();
        while let Some(max) = self
            .flow
            .packet_max(self.queue.bytes(), *unacknowledged, frame, most)
            && let Some((body, early)) = self.queue.pack(max)
        {
            let frames = body.len().div_ceil(frame) as u32;
            let me = order.me.0 as u8;
            *sent = sent.next();
            if early {
                order.own_early = *sent;
            }
            let version = order.lists.newest();
            let packet = Packet {
                version,
                body: body.clone(),
            };
            order.insert(me, *sent, packet);
            let marks = order.marks();
            *told = marks;
            if !order.is_alone() {
                self.outbox.multicast(&Message::Data(Data {
                    again: false,
                    origin: me,
                    tag: order.tag,
                    number: *sent,
                    version,
                    marks,
                    body,
                }));
            }
            *unacknowledged += frames;
            in_flight.push_back(Flight {
                number: *sent,
                frames,
                at: now,
                again: false,
            });
            self.counters.packets_sent += 1;
            flown = true;
        }
        self.queue.took(waiting);
        if flown && self.timers.due(Timer::Data).is_none() {
            self.plan_data(now);
        }
    }

    fn plan_data(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        if operational.in_flight.is_empty() {
            self.timers.cancel(Timer::Data);
        } else {
            let timer = self.timing.data_timer(&self.config, operational.data_tries);
            self.timers.set(Timer::Data, now + timer);
        }
    }

    /// Own packets have got positions.
    pub(super) fn note_acknowledged(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let order = &operational.order;
        let (known, settled) = (order.acknowledged(), order.marks().known);
        let by_other = usize::from(order.top.issuer) != order.me.at();
        let mut packets = Acknowledged {
            number: known,
            frames: 0,
            trip: None,
            full: !self.queue.is_empty(),
        };
        while let Some(flight) = operational.in_flight.front().copied()
            && flight.number <= known
        {
            operational.in_flight.pop_front();
            operational.unacknowledged -= flight.frames;
            packets.frames += flight.frames;
            if !flight.again && by_other {
                let trip = now.since(flight.at);
                self.timing.measured(trip);
                packets.trip = Some(trip);
            }
        }
        if packets.frames > 0 {
            operational.data_tries = 0;
            let (sent, last) = (operational.sent, order.top.last);
            let senders = |since| order.senders(since);
            self.flow.acknowledged(now, packets, sent, last, senders);
            self.plan_data(now);
        }
        // An older ACK that comes late makes places known, too.
        self.queue.settle(settled);
    }

    /// The oldest packets have no ACK in time: they go again (000 ch. 8).
    pub(super) fn data_again(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        operational.data_tries += 1;
        // That the token has moved since the oldest was sent shows that the group lives: it may be
        // at its limit.
        let oldest = operational.in_flight.front().map(|flight| flight.at);
        let factor = if operational.moved > oldest { 2 } else { 1 };
        let tries_max = self.config.tries * factor * self.brittle.patience(now);
        if operational.data_tries > tries_max {
            self.poll(now, "packet without a position", Polling::default());
            return;
        }
        self.timing.expired();
        self.flow.expired(now, self.timing.trip(), operational.sent);
        let Operational {
            order, in_flight, ..
        } = operational;
        let me = order.me.0 as u8;
        let last = in_flight.len().saturating_sub(1);
        let ends = |(index, _): &(usize, _)| *index == 0 || *index == last;
        for (_, flight) in in_flight.iter_mut().enumerate().filter(ends) {
            flight.again = true;
            let body = order.sites[order.me.at()].packets.get(flight.number.0);
            if let Some(packet) = body.filter(|_| !order.is_alone()) {
                self.counters.packets_again += 1;
                self.outbox.multicast(&Message::Data(Data {
                    again: true,
                    origin: me,
                    tag: order.tag,
                    number: flight.number,
                    version: packet.version,
                    marks: order.marks(),
                    body: packet.body.clone(),
                }));
            }
        }
        self.plan_data(now);
    }

    /// Tells the others that own packets have positions, if nothing was sent since that says so.
    fn settle(&mut self) {
        let operational = self.state.expect_operational();
        let untold = operational.order.marks().known > operational.told.known;
        if untold && self.config.order == OrderRule::Settled {
            self.tell_marks();
        }
    }

    /// Sets when to say how far this member is, if others may wait for it: the token, which would
    /// tell, may be stuck.
    fn plan_marks(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let (order, told) = (&operational.order, operational.told.ready);
        let blocked = order.cursor.blocked();
        let waits = blocked.is_some_and(|record| waits_for_marks(record.service));
        // A member that leaves with a list has no token any more that would tell.
        let others_wait = waits || order.resilient_to > told || order.is_going();
        if !others_wait || order.marks().ready <= told {
            self.timers.cancel(Timer::Marks);
        } else if self.timers.due(Timer::Marks).is_none() {
            let soon = self.config.timer_min;
            self.timers.set(Timer::Marks, now + soon);
        }
    }

    /// Multicasts the marks of this member alone.
    pub(super) fn tell_marks(&mut self) {
        let operational = self.state.expect_operational();
        let order = &operational.order;
        if !order.is_alone() {
            let (tag, marks) = (order.tag, order.marks());
            operational.told = marks;
            self.counters.settles_sent += 1;
            self.outbox.multicast(&Message::Settle { tag, marks });
        }
    }

    /// The order that datagrams with `tag` belong to: that of the present configuration; of the old
    /// one in recovery, to which the others bring what is missing.
    pub(super) fn order_of(&mut self, tag: Tag) -> Option<&mut Order> {
        match &mut self.state {
            State::Operational(operational) => Some(&mut operational.order),
            State::Recovering(recovering) => recovering.old.as_mut(),
            State::Joining(joining) => joining.order.as_mut(),
            // What this member holds is declared: nothing may be added.
            State::Polling(_) | State::Standby(_) | State::Left(_) => None,
        }
        .filter(|order| order.tag == tag)
    }

    /// Whether members tell each other of themselves. Once this one has declared what it holds, it
    /// learns more in recovery; but others go by what it declared, and so must all.
    pub(super) fn tells_marks(&self) -> bool {
        matches!(self.state, State::Operational(_) | State::Joining(_))
    }

    /// After something came for the order with `tag`.
    pub(super) fn progress(&mut self, now: Time) {
        match &self.state {
            State::Operational(_) => self.act(now),
            State::Recovering(_) => self.recover(now),
            State::Joining(_) => self.join_if_complete(now),
            State::Polling(_) | State::Standby(_) | State::Left(_) => {}
        }
    }

    pub(super) fn handle_data(&mut self, now: Time, from: MemberId, data: Data) {
        let tells = self.tells_marks();
        let Some(order) = self.order_of(data.tag) else {
            self.counters.foreign += 1;
            return;
        };
        let own = order.member(data.origin) == Some(from);
        if usize::from(data.origin) >= order.roster.len() {
            // Of a list that was not heard.
            self.counters.foreign += 1;
            return;
        }
        let stranger = order.index_of(from).is_none();
        if stranger && order.lacks_list() {
            // A repair, by a member that the list brings.
            self.counters.foreign += 1;
            return;
        }
        let invented = usize::from(data.origin) == order.me.at() && data.number > order.last_sent();
        let too_long = data.body.len() > RmpConfig::records_max(order.longest());
        if !own && !data.again || stranger || invented || too_long {
            self.counters.malformed += 1;
            return;
        }
        let placed = order.sites[usize::from(data.origin)]
            .placed
            .get(data.number.0)
            .copied();
        let packet = Packet {
            version: data.version,
            body: data.body,
        };
        let inserted = order.insert(data.origin, data.number, packet);
        if own && tells {
            order.note_marks(data.origin, data.marks);
        }
        match inserted {
            Insert::New => self.counters.packets_received += 1,
            Insert::Duplicate => {
                self.counters.packets_duplicate += 1;
                if let Some(seq) = placed.filter(|_| own && data.again) {
                    self.answer_duplicate(from, seq);
                }
            }
            Insert::Beyond => self.counters.packets_beyond += 1,
        }
        self.progress(now);
    }

    pub(super) fn handle_settle(&mut self, now: Time, from: MemberId, tag: Tag, marks: Marks) {
        if self.note_marks_of(from, tag, marks) {
            self.progress(now);
        }
    }

    pub(super) fn note_marks_of(&mut self, from: MemberId, tag: Tag, marks: Marks) -> bool {
        let State::Operational(operational) = &mut self.state else {
            return false;
        };
        let order = &mut operational.order;
        let index = order.index_of(from).filter(|_| order.tag == tag);
        match index {
            Some(index) => order.note_marks(index, marks),
            None => self.counters.foreign += 1,
        }
        index.is_some()
    }
}
