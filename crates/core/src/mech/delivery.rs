//! Delivery in one total order: up to a horizon for each service, and the end of a configuration.
//!
//! An order is a row of places, numbered by [`Seq`]. At each stands what one member initiated:
//! messages, the last bytes of a longer one, or nothing for the user. A [`Cursor`] goes along them.
//! In a regular configuration it stops at the first place that is missing, and at the first message
//! whose service has a horizon below it, which then holds back all behind it (002 III-B). When the
//! configuration is over, the rest is delivered by the rules of Extended Virtual Synchrony.
//!
//! How the places are kept and read is the protocol's own: see [`Held`].

use crate::mech::indices::{Index, Indices};
use crate::mech::seq::Seq;
use crate::service::Service;

/// The places of an order, as far as a member holds them.
pub trait Held {
    /// What is handed to the user.
    type Message;

    /// Who initiated what is held at `seq`; `None` if that is missing here.
    fn origin(&self, seq: Seq) -> Option<Index>;

    /// The next message that ends at `seq`, from the offset `at` on, which moves behind it; `None`
    /// after the last. The offset is 0 at first, and means what the protocol wants it to.
    fn next(&mut self, seq: Seq, at: &mut usize) -> Option<Self::Message>;

    /// What `message` is promised.
    fn service(message: &Self::Message) -> Service;

    /// Delivers `message`, which `origin` sent and which is the one numbered `index`, from 0 on, of
    /// those that end at `seq`; or reports it as lost, if it may not be delivered here. That is no
    /// gap: who is told of it may be given what comes behind it.
    fn deliver(&mut self, seq: Seq, index: u64, origin: Index, message: Self::Message);
}

/// How far delivery has come in one order.
#[derive(Clone, Hash, Debug)]
pub struct Cursor<M> {
    /// The place that is being delivered.
    seq: Seq,
    /// How far into it.
    at: usize,
    /// Messages that ended there so far.
    index: u64,
    /// A message that must wait; it holds back all behind it.
    blocked: Option<M>,
}

impl<M> Cursor<M> {
    /// A cursor of an order whose first place is `start + 1`.
    pub fn new(start: Seq) -> Self {
        Self {
            seq: start.next(),
            at: 0,
            index: 0,
            blocked: None,
        }
    }

    /// The place that is next.
    pub fn next(&self) -> Seq {
        self.seq
    }

    /// All places up to here are delivered.
    pub fn delivered(&self) -> Seq {
        self.seq.before()
    }

    /// The message that waits for its horizon, if one does.
    pub fn blocked(&self) -> Option<&M> {
        self.blocked.as_ref()
    }

    /// Goes on to the next place, whatever stands at this one.
    pub fn step(&mut self) {
        self.seq = self.seq.next();
        self.at = 0;
        self.index = 0;
        self.blocked = None;
    }

    /// Delivers in order: up to the first place that is missing, or the first message above the
    /// `horizon` of its service.
    pub fn deliver<H>(&mut self, held: &mut H, horizon: impl Fn(Service) -> Seq)
    where
        H: Held<Message = M>,
    {
        while let Some(origin) = held.origin(self.seq) {
            let mut next = self.take(held);
            while let Some(message) = next {
                if self.seq > horizon(H::service(&message)) {
                    self.blocked = Some(message);
                    return;
                }
                held.deliver(self.seq, self.index, origin, message);
                self.index += 1;
                next = held.next(self.seq, &mut self.at);
            }
            self.step();
        }
    }

    /// Delivers the messages of the transitional configuration: all up to `high` that are held, in
    /// order; behind the first gap only those of members in `bound`, which cannot depend on what is
    /// missing (EVS; Totem's deliver-to-originators rule). The rest of the regular configuration
    /// must have been delivered.
    pub fn deliver_transitional<H>(&mut self, held: &mut H, bound: Indices, high: Seq)
    where
        H: Held<Message = M>,
    {
        let mut behind_gap = false;
        while self.seq <= high {
            let origin = held.origin(self.seq);
            behind_gap |= origin.is_none();
            while let Some(origin) = origin.filter(|it| !behind_gap || bound.contains(*it))
                && let Some(message) = self.take(held)
            {
                held.deliver(self.seq, self.index, origin, message);
                self.index += 1;
            }
            self.step();
        }
    }

    /// The message that waits here, or the next one.
    fn take<H>(&mut self, held: &mut H) -> Option<M>
    where
        H: Held<Message = M>,
    {
        let waiting = self.blocked.take();
        waiting.or_else(|| held.next(self.seq, &mut self.at))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// At each place one origin's messages, by service. Delivered ones are (place, index).
    #[derive(Default)]
    struct Places {
        held: BTreeMap<u64, (u16, Vec<Service>)>,
        delivered: Vec<(u64, u64)>,
    }

    impl Places {
        fn with(places: &[(u64, u16, &[Service])]) -> Self {
            let held = places.iter();
            let held = held.map(|(seq, origin, services)| (*seq, (*origin, services.to_vec())));
            Self {
                held: held.collect(),
                delivered: Vec::new(),
            }
        }
    }

    impl Held for Places {
        type Message = Service;

        fn origin(&self, seq: Seq) -> Option<Index> {
            self.held.get(&seq.0).map(|(origin, _)| Index(*origin))
        }

        fn next(&mut self, seq: Seq, at: &mut usize) -> Option<Service> {
            let message = self.held[&seq.0].1.get(*at).copied();
            *at += 1;
            message
        }

        fn service(message: &Service) -> Service {
            *message
        }

        fn deliver(&mut self, seq: Seq, index: u64, _origin: Index, message: Service) {
            if message != Service::Majority {
                self.delivered.push((seq.0, index));
            }
        }
    }

    fn safe_to(mark: u64) -> impl Fn(Service) -> Seq {
        move |service| match service {
            Service::Safe => Seq(mark),
            _ => Seq::MAX,
        }
    }

    const AGREED: Service = Service::Agreed;
    const SAFE: Service = Service::Safe;

    #[test]
    fn a_message_above_its_horizon_holds_back_all_behind_it() {
        let mut places = Places::with(&[
            (1, 0, &[AGREED]),
            (2, 1, &[AGREED, SAFE, AGREED]),
            (3, 0, &[AGREED]),
        ]);
        let mut cursor = Cursor::new(Seq::ZERO);
        cursor.deliver(&mut places, safe_to(1));
        assert_eq!(places.delivered, [(1, 0), (2, 0)]);
        assert_eq!(cursor.delivered(), Seq(1));
        assert_eq!(cursor.blocked(), Some(&SAFE));
        cursor.deliver(&mut places, safe_to(2));
        assert_eq!(places.delivered[2..], [(2, 1), (2, 2), (3, 0)]);
        assert_eq!(cursor.delivered(), Seq(3));
    }

    #[test]
    fn a_step_leaves_behind_what_waited_at_its_place() {
        let mut places = Places::with(&[(1, 0, &[SAFE]), (2, 0, &[AGREED])]);
        let mut cursor = Cursor::new(Seq::ZERO);
        cursor.deliver(&mut places, safe_to(0));
        cursor.step();
        assert_eq!((cursor.next(), cursor.blocked()), (Seq(2), None));
        cursor.deliver(&mut places, safe_to(0));
        assert_eq!(places.delivered, [(2, 0)]);
    }

    #[test]
    fn nothing_is_delivered_behind_a_gap_in_a_regular_configuration() {
        let mut places = Places::with(&[(1, 0, &[AGREED]), (3, 0, &[AGREED])]);
        let mut cursor = Cursor::new(Seq::ZERO);
        cursor.deliver(&mut places, safe_to(9));
        assert_eq!(places.delivered, [(1, 0)]);
        places.held.insert(2, (0, vec![AGREED]));
        cursor.deliver(&mut places, safe_to(9));
        assert_eq!(places.delivered, [(1, 0), (2, 0), (3, 0)]);
    }

    #[test]
    fn at_the_end_those_behind_a_gap_are_delivered_whose_senders_go_along() {
        let places: [(u64, u16, &[Service]); 5] = [
            (1, 0, &[SAFE]),
            (2, 2, &[AGREED]),
            (4, 2, &[AGREED]),
            (5, 0, &[AGREED]),
            (6, 1, &[SAFE]),
        ];
        let mut places = Places::with(&places);
        let mut cursor = Cursor::new(Seq::ZERO);
        cursor.deliver(&mut places, safe_to(0));
        assert_eq!(places.delivered, []);
        let mut bound = Indices::default();
        bound.insert(Index(0));
        bound.insert(Index(1));
        cursor.deliver_transitional(&mut places, bound, Seq(6));
        assert_eq!(places.delivered, [(1, 0), (2, 0), (5, 0), (6, 0)]);
        assert_eq!(cursor.delivered(), Seq(6));
    }

    /// The place of a message that is promised to all may be behind one that is refused.
    #[test]
    fn what_is_refused_holds_nothing_back() {
        let places: [(u64, u16, &[Service]); 3] = [
            (1, 2, &[AGREED, Service::Majority, AGREED]),
            (2, 2, &[SAFE]),
            (3, 0, &[AGREED]),
        ];
        let mut places = Places::with(&places);
        let mut bound = Indices::default();
        bound.insert(Index(0));
        let mut cursor = Cursor::new(Seq::ZERO);
        cursor.deliver_transitional(&mut places, bound, Seq(3));
        assert_eq!(places.delivered, [(1, 0), (1, 2), (2, 0), (3, 0)]);
    }
}
