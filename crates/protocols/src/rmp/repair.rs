//! A member that misses something asks for it, and is answered (000 ch. 8).

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::mech::seq::Seq;
use groupcast_core::{MemberId, Time};

use super::askers::Verdict;
use super::config::NackTo;
use super::listing::again;
use super::numbers::{Marks, Number, Packets, Positions};
use super::operational::Operational;
use super::order::Order;
use super::polling::Polling;
use super::wire::{Ack, Data, ListAck, Message, NACK_RUNS_MAX, Nack};
use super::{Rmp, State, Timer};

/// The shortest wait, before a request, for what may have been overtaken.
const OVERTAKEN_MIN: Duration = Duration::from_micros(300);
/// The wait before an ACK that was not heard is asked for again doubles at most this many times.
const UNHEARD_TRIES: u32 = 3;
/// The first requests for the same thing go by unicast, where the setting says so: this many.
const UNICAST_TRIES: u8 = 3;
/// The most positions that are looked at for one request.
const LOOKED_AT_MAX: usize = 512;
/// Packets and ACKs that one request brings at most: a burst larger than some queue would be lost
/// again and again.
const ANSWERS_MAX: usize = 24;

impl Order {
    /// Positions whose ACK is missing, and ordered packets that are.
    fn missing(&self) -> (Vec<Positions>, Vec<Packets>) {
        let (mut positions, mut packets) = (Vec::new(), Vec::new());
        for seq in self
            .held
            .up_to(self.top.last.max(self.heard_of))
            .take(LOOKED_AT_MAX)
        {
            match self.places.get(seq.0) {
                None => add_position(&mut positions, seq),
                Some(place) if !self.holds(seq) => {
                    add_packet(&mut packets, place.origin, place.number);
                }
                Some(_) => {}
            }
        }
        (positions, packets)
    }

    /// For each member, numbers without a position that are missing before others that are here.
    fn missing_unordered(&self) -> Vec<Packets> {
        let mut packets = Vec::new();
        for (origin, site) in self.sites.iter().enumerate() {
            let first = site.placed.aru() + 1;
            for number in (first..site.packets.high()).take(NACK_RUNS_MAX) {
                if !site.packets.has(number) {
                    add_packet(&mut packets, origin as u8, Number(number));
                }
            }
        }
        packets
    }

    /// The list at `seq`, if one stands there.
    fn list_at(&self, seq: Seq) -> Option<ListAck> {
        let last = self.lists.last.as_ref()?;
        (last.at() == seq).then(|| again(last))
    }

    /// The ACK at `seq`, as far as it is kept.
    fn ack_at(&self, seq: Seq) -> Option<Ack> {
        let place = *self.places.get(seq.0).filter(|place| !place.is_list())?;
        let same = |seq: &u64| {
            let other = self.places.get(*seq);
            other.is_some_and(|other| other.stamp == place.stamp)
        };
        let first = (0..seq.0).rev().take_while(same).last();
        let first = first.unwrap_or(seq.0);
        let mut packets = Vec::new();
        for seq in (first..).take_while(same) {
            if let Some(place) = self.places.get(seq) {
                add_packet(&mut packets, place.origin, place.number);
            }
        }
        Some(Ack {
            again: true,
            issuer: place.issuer,
            next: place.next,
            tag: self.tag,
            stamp: place.stamp,
            first: Seq(first),
            marks: Marks::default(),
            packets,
        })
    }

    /// A packet to be sent again; with the marks of this member if it `tells` of itself.
    fn packet(&self, origin: u8, number: Number, tells: bool) -> Option<Data> {
        let site = self.sites.get(usize::from(origin))?;
        let packet = site.packets.get(number.0)?.clone();
        let own = tells && usize::from(origin) == self.me.at();
        Some(Data {
            again: true,
            origin,
            tag: self.tag,
            number,
            version: packet.version,
            marks: if own { self.marks() } else { Marks::default() },
            body: packet.body,
        })
    }

    /// What answers `nack`; with the marks of this member on its own packets if it `tells` of
    /// itself.
    fn answers(&self, nack: &Nack, tells: bool, most: usize) -> Vec<Message> {
        let most = most.min(ANSWERS_MAX);
        let mut answers = Vec::new();
        let mut covered = Seq::ZERO;
        for seq in nack
            .positions
            .iter()
            .take(NACK_RUNS_MAX)
            .flat_map(|run| run.iter())
        {
            if answers.len() >= most {
                return answers;
            }
            if let Some(list) = self.list_at(seq) {
                answers.push(Message::List(list));
                continue;
            }
            if seq > covered
                && let Some(ack) = self.ack_at(seq)
            {
                covered = ack.last();
                answers.push(Message::Ack(ack));
            }
            let place = self.places.get(seq.0).filter(|_| nack.whole);
            if let Some(place) = place {
                answers.extend(
                    self.packet(place.origin, place.number, tells)
                        .map(Message::Data),
                );
            }
        }
        for run in nack.packets.iter().take(NACK_RUNS_MAX) {
            for number in run.numbers() {
                if answers.len() >= most {
                    return answers;
                }
                answers.extend(self.packet(run.origin, number, tells).map(Message::Data));
            }
        }
        answers
    }
}

fn add_position(positions: &mut Vec<Positions>, seq: Seq) {
    let full = positions.len() == NACK_RUNS_MAX;
    match positions.last_mut() {
        Some(run) if run.first.0 + u64::from(run.count) == seq.0 && run.count < u8::MAX => {
            run.count += 1;
        }
        _ if full => {}
        _ => positions.push(Positions {
            first: seq,
            count: 1,
        }),
    }
}

/// Adds a packet to runs of packets, as far as a NACK has room for them.
pub(super) fn add_packet(packets: &mut Vec<Packets>, origin: u8, number: Number) {
    let full = packets.len() == NACK_RUNS_MAX;
    match packets.last_mut() {
        Some(run)
            if run.origin == origin
                && run.first.0 + u64::from(run.count) == number.0
                && run.count < u8::MAX =>
        {
            run.count += 1;
        }
        _ if full => {}
        _ => packets.push(Packets {
            origin,
            first: number,
            count: 1,
        }),
    }
}

/// Ascending positions as runs.
pub(super) fn runs(positions: impl Iterator<Item = Seq>) -> Vec<Positions> {
    let mut runs = Vec::new();
    positions.for_each(|seq| add_position(&mut runs, seq));
    runs
}

impl Operational {
    /// Whether a list is not believed in any more of which only an ACK told, by the index of a
    /// member that it brings: this one has asked for it for `longest`, and nothing above the newest
    /// ACK came meanwhile (ours).
    fn disbelieves_list(&mut self, now: Time, longest: Duration) -> bool {
        let Order { top, heard_of, .. } = self.order;
        if heard_of <= top.last {
            self.unlisted = None;
            return false;
        }
        let same = self.unlisted.filter(|(last, _)| *last == top.last);
        let (_, since) = *self.unlisted.insert(same.unwrap_or((top.last, now)));
        let is_false = now.since(since) >= longest && self.order.held >= top.last;
        if is_false {
            self.order.heard_of = top.last;
        }
        is_false
    }

    /// Whether an ACK is not believed in any more that a member knows, as it says or another one.
    /// This one has asked for it for `longest`: the group has passed the token meanwhile, and
    /// nothing is missing before it (ours).
    fn disbelieves(&mut self, now: Time, longest: Duration) -> bool {
        let Some((index, known)) = self.order.unheard() else {
            self.unheard = None;
            return false;
        };
        let same = self.unheard.filter(|it| (it.0, it.1) == (index, known));
        let (.., since) = *self.unheard.insert(same.unwrap_or((index, known, now)));
        let is_false = now.since(since) >= longest && self.order.held >= self.order.top.last;
        if is_false {
            self.order.disbelieve(index);
            self.tellings.forget(index);
        }
        is_false
    }
}

impl Rmp {
    /// Sets when to ask, if something is missing: not at once, since an ACK may overtake its
    /// packets.
    pub(super) fn plan_request(&mut self, now: Time) {
        let operational = self.state.expect_operational();
        let order = &operational.order;
        let ordered = order.held < order.top.last.max(order.heard_of);
        let unordered = order.is_named() && !order.missing_unordered().is_empty();
        if !ordered && !unordered && !order.misses_ack() {
            operational.request_tries = 0;
            self.timers.cancel(Timer::Request);
        } else if self.timers.due(Timer::Request).is_none() {
            let soon = (self.timing.trip() / 2).max(OVERTAKEN_MIN);
            let soon = soon.min(self.config.timer_min);
            self.timers.set(Timer::Request, now + soon);
        }
    }

    /// Asks for what is missing (000 ch. 8): the issuer of the last ACK, or a sender whose packets
    /// cannot be ordered.
    pub(super) fn request(&mut self, now: Time) {
        let tries_max = self.config.tries * 2;
        let operational = self.state.expect_operational();
        let order = &operational.order;
        if order.held > operational.requested_at {
            operational.request_tries = 0;
        }
        operational.requested_at = order.held;
        let tries = operational.request_tries;
        if tries > tries_max && order.held < order.top.last {
            self.poll(now, "requests are not answered", Polling::default());
            return;
        }
        operational.request_tries = match order.held < order.top.last {
            true => tries + 1,
            // Nothing is known to be missing: it is no sign that requests are not answered.
            false => (tries + 1).min(UNHEARD_TRIES),
        };
        let longest = self.config.silence_max;
        if operational.disbelieves_list(now, longest) || operational.disbelieves(now, longest) {
            self.counters.malformed += 1;
            return self.progress(now);
        }
        let order = &operational.order;
        let (positions, packets) = order.missing();
        let again = tries.min(u32::from(u8::MAX)) as u8;
        let mut nacks: Vec<Nack> = Vec::new();
        if !positions.is_empty() || !packets.is_empty() {
            // What was not repaired at once may lack its packet as well as its ACK: one at a time
            // takes twice as many answers that arrive (ours).
            nacks.extend(order.asked(tries).map(|asked| Nack {
                whole: tries > 0,
                tag: order.tag,
                asked,
                again,
                positions,
                packets,
            }));
        } else if order.misses_ack() && !order.is_named() {
            let unheard = Positions {
                first: order.top.last.next(),
                count: 1,
            };
            nacks.push(Nack {
                whole: false,
                tag: order.tag,
                asked: order.top.next,
                again,
                positions: [unheard].into(),
                packets: Vec::new(),
            });
        } else if order.is_named() {
            for run in order.missing_unordered() {
                nacks.push(Nack {
                    whole: false,
                    tag: order.tag,
                    asked: run.origin,
                    again,
                    positions: Vec::new(),
                    packets: [run].into(),
                });
            }
        }
        for nack in nacks {
            self.send_nack(nack);
        }
        self.next_lives(now, self.local);
        let timer = self.timing.request_timer(&self.config, tries);
        self.timers.set(Timer::Request, now + timer);
    }

    /// Sends a NACK to all or to the member that it asks, as the setting says. What was asked for
    /// in vain goes to all (ours): the way by unicast may not work.
    pub(super) fn send_nack(&mut self, nack: Nack) {
        let Some(order) = self.state.installed() else {
            return;
        };
        let (asked, again) = (order.member(nack.asked), nack.again);
        self.counters.nacks_sent += 1;
        let message = Message::Nack(nack);
        match (self.config.nack, asked) {
            (NackTo::Unicast, Some(asked)) if again < UNICAST_TRIES => {
                self.outbox.unicast(asked, &message);
            }
            _ => self.outbox.multicast(&message),
        }
    }

    /// Another member misses something.
    pub(super) fn handle_nack(&mut self, now: Time, from: MemberId, nack: &Nack) {
        let installed = self.state.installed();
        let Some(order) = installed.filter(|order| order.tag == nack.tag) else {
            self.counters.foreign += 1;
            return;
        };
        let (me, known) = (order.me.at(), order.index_of(from).is_some());
        if !known {
            let lacks_list = order.lacks_list();
            return self.count_stranger(lacks_list);
        }
        if usize::from(nack.asked) == me {
            let trip = self.timing.trip().max(self.config.timer_min);
            let most = match self.askers.asks(now, from, trip) {
                Verdict::Answer(most) => most,
                Verdict::Refuse => {
                    self.counters.nacks_refused += 1;
                    return;
                }
                Verdict::Exclude => return self.exclude_asker(now, from),
            };
            let answers = order.answers(nack, self.tells_marks(), most);
            self.askers.answered(from, answers.len());
            self.counters.answers_sent += answers.len() as u64;
            for answer in &answers {
                // The way by unicast may not work.
                match nack.again {
                    0 => self.outbox.unicast(from, answer),
                    _ => self.outbox.multicast(answer),
                }
            }
        }
        if let State::Operational(operational) = &self.state {
            let runs = nack.packets.iter().take(NACK_RUNS_MAX);
            let mine = runs.filter(|run| usize::from(run.origin) == me);
            for number in mine.flat_map(|run| run.numbers()) {
                self.flow.dropped(now, number, operational.sent);
            }
            self.next_lives(now, from);
        }
    }

    /// A datagram of the present configuration came from a process that is not known in it: from a
    /// newcomer, where the list is missing that brings it, else from one that breaks the rules.
    pub(super) fn count_stranger(&mut self, lacks_list: bool) {
        match lacks_list {
            true => self.counters.foreign += 1,
            false => self.counters.malformed += 1,
        }
    }

    /// A member asks on and on: the others go on without it.
    pub(super) fn exclude_asker(&mut self, now: Time, from: MemberId) {
        self.counters.nacks_refused += 1;
        if matches!(self.state, State::Operational(_)) {
            let mut seed = Polling::default();
            seed.failed.insert(from);
            self.poll(now, "a member asks on and on", seed);
        }
    }

    /// A packet came again that has a position: its sender may have missed the ACK (000 ch. 8). The
    /// member that believes that it is token site answers.
    pub(super) fn answer_duplicate(&mut self, from: MemberId, seq: Seq) {
        if let State::Operational(operational) = &self.state
            && operational.order.is_named()
            && let Some(ack) = operational.order.ack_at(seq)
        {
            self.outbox.unicast(from, &Message::Ack(ack));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmp::fixtures::order;

    #[test]
    fn a_request_is_answered_with_so_many_packets_at_most() {
        let order = order();
        let nack = Nack {
            whole: false,
            tag: order.tag,
            asked: 2,
            again: 0,
            positions: Vec::new(),
            packets: [Packets {
                origin: 1,
                first: Number(1),
                count: 3,
            }]
            .into(),
        };
        let answers = [9, 3, 2].map(|most| order.answers(&nack, true, most).len());
        assert_eq!(answers, [3, 3, 2]);
    }

    #[test]
    fn a_nack_names_runs_of_what_is_missing_as_far_as_it_has_room() {
        let counts = |runs: &[Positions]| runs.iter().map(|it| it.count).collect::<Vec<_>>();
        assert_eq!(counts(&runs((1..=300).map(Seq))), [255, 45]);
        assert_eq!(counts(&runs([1, 2, 4].map(Seq).into_iter())), [2, 1]);
        let holes = runs((0..1_000).map(|it| Seq(it * 2 + 1)));
        assert_eq!(holes.len(), NACK_RUNS_MAX);
        let mut packets = Vec::new();
        for number in (1..=300).chain([302]) {
            add_packet(&mut packets, 1, Number(number));
        }
        add_packet(&mut packets, 2, Number(303));
        let named = packets.iter().map(|it| (it.origin, it.first.0, it.count));
        let expected = [(1, 1, 255), (1, 256, 45), (1, 302, 1), (2, 303, 1)];
        assert_eq!(named.collect::<Vec<_>>(), expected);
        (0..1_000).for_each(|it| add_packet(&mut packets, 3, Number(it * 2)));
        assert_eq!(packets.len(), NACK_RUNS_MAX);
    }
}
