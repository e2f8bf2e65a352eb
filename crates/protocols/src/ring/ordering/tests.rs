//! The rules of one visit, number by number. Method: the orders of a ring of three pass a token by
//! hand, and what each sends arrives where a test wants it.

use alloc::vec;

use groupcast_core::{Incarnation, NodeId};

use super::*;
use crate::ring::numbers::Run;
use crate::ring::wire::Resilience;

const START: Seq = Seq(100);
/// Packets that members may send above what is safe; a window holds twice as many.
const GAP: u32 = 64;
const LIMITS: Limits = Limits {
    personal: 20,
    global: 100,
    seq_gap: GAP,
};

pub(in crate::ring) fn member(index: usize) -> MemberId {
    MemberId {
        node: NodeId(index as u64 + 1),
        incarnation: Incarnation(7),
    }
}

pub(in crate::ring) fn order(members: usize, me: u16) -> Ordering {
    let config = RingConfig {
        seq_gap_max: GAP,
        ..RingConfig::lan()
    };
    let members: Vec<MemberId> = (0..members).map(member).collect();
    let id = ConfigId {
        counter: 1,
        representative: members[0],
    };
    let size = PacketSize::own(&config);
    Ordering::new(id, members, Index(me), START, size, &config)
}

/// Puts packets with these numbers into the window of `order`.
pub(in crate::ring) fn hold(order: &mut Ordering, seqs: impl IntoIterator<Item = u64>) {
    for seq in seqs {
        let packet = Packet {
            origin: REPRESENTATIVE,
            round: Round::default(),
            recovered: None,
            body: Bytes::from_static(b"x"),
        };
        order.window.insert(Seq(seq), packet);
    }
}

/// A token that came round with all that was claimed up to `seq`, of which none is missing.
pub(super) fn token(order: &Ordering, seq: u64) -> Token {
    Token {
        seq: Seq(seq),
        aru: Seq(seq),
        ..order.first_token()
    }
}

/// `count` bodies of packets.
fn bodies(mut count: usize) -> impl FnMut() -> Option<NewPacket> {
    move || {
        count = count.checked_sub(1)?;
        Some((None, Bytes::from_static(b"x")))
    }
}

/// A ring of three, and its token.
struct Three {
    orders: Vec<Ordering>,
    token: Token,
}

impl Three {
    fn new() -> Self {
        let orders: Vec<Ordering> = (0..3).map(|me| order(3, me)).collect();
        let token = orders[0].first_token();
        Self { orders, token }
    }

    /// The token visits the next member, which has `new` packets to send. What it sends arrives at
    /// the members `to`.
    fn visit(&mut self, new: usize, to: &[usize]) -> Visit {
        let at = self.token.hop.member(3);
        let visit = self.orders[at].visit(&mut self.token, LIMITS, bodies(new));
        for seq in visit
            .retransmissions
            .iter()
            .copied()
            .chain(visit.new.iter())
        {
            for to in to {
                hold(&mut self.orders[*to], [seq.0]);
            }
        }
        self.token.hop = self.token.hop.plus(1);
        visit
    }

    /// seq, aru and who lowered it.
    fn told(&self) -> (u64, u64, Option<u16>) {
        let by = self.token.aru_by.map(|index| index.0);
        (self.token.seq.0, self.token.aru.0, by)
    }

    fn safe(&self) -> [u64; 3] {
        [0, 1, 2].map(|at| self.orders[at].safe.0)
    }
}

#[test]
fn aru_follows_seq_while_nobody_misses_anything_and_two_visits_make_it_safe() {
    let mut ring = Three::new();
    ring.visit(3, &[1, 2]);
    assert_eq!(ring.told(), (103, 103, None));
    ring.visit(0, &[]);
    ring.visit(2, &[0, 1]);
    assert_eq!(ring.told(), (105, 105, None));
    assert_eq!(ring.safe(), [100, 100, 100]);
    ring.visit(0, &[]);
    assert_eq!(
        ring.safe(),
        [103, 100, 100],
        "between both visits all could lower it"
    );
    ring.visit(0, &[]);
    ring.visit(0, &[]);
    assert_eq!(ring.safe(), [103, 103, 105]);
}

#[test]
fn who_misses_a_packet_lowers_aru_and_raises_it_when_the_packet_has_come() {
    let mut ring = Three::new();
    ring.visit(3, &[2]);
    hold(&mut ring.orders[1], [101, 103]);
    ring.visit(0, &[]);
    assert_eq!(ring.told(), (103, 101, Some(1)));
    assert_eq!(ring.token.rtr, [], "it may be on its way");
    ring.visit(1, &[0, 1]);
    ring.visit(0, &[]);
    assert_eq!(
        ring.told(),
        (104, 101, Some(1)),
        "others leave it where it is"
    );
    assert_eq!(ring.safe(), [101, 100, 100]);
    ring.visit(0, &[]);
    assert_eq!(ring.told(), (104, 101, Some(1)));
    let missing = Run {
        first: Seq(102),
        count: 1,
    };
    assert_eq!(ring.token.rtr, [missing]);
    let visit = ring.visit(0, &[1]);
    assert_eq!(visit.retransmissions, [Seq(102)]);
    assert_eq!(ring.token.rtr, []);
    ring.visit(0, &[]);
    ring.visit(0, &[]);
    assert_eq!(ring.told(), (104, 104, None));
}

#[test]
fn who_holds_less_than_the_one_that_lowered_aru_lowers_it_further() {
    let mut ring = Three::new();
    ring.visit(5, &[]);
    hold(&mut ring.orders[1], [101, 102, 103]);
    hold(&mut ring.orders[2], [101]);
    ring.visit(0, &[]);
    ring.visit(0, &[]);
    assert_eq!(ring.told(), (105, 101, Some(2)));
    hold(&mut ring.orders[2], [102, 103, 104]);
    ring.visit(0, &[]);
    hold(&mut ring.orders[1], [104, 105]);
    ring.visit(0, &[]);
    assert_eq!(
        ring.told(),
        (105, 101, Some(2)),
        "only who lowered it raises it"
    );
    ring.visit(0, &[]);
    assert_eq!(ring.told(), (105, 104, Some(2)), "as far as it holds all");
}

#[test]
fn what_came_ahead_of_the_token_does_not_raise_aru_above_seq() {
    let mut ring = order(3, 1);
    let mut token = token(&ring, 102);
    hold(&mut ring, 101..=104);
    ring.visit(&mut token, LIMITS, bodies(0));
    assert_eq!(
        (token.seq, token.aru, token.aru_by),
        (Seq(102), Seq(102), None)
    );
}

#[test]
fn the_token_counts_what_the_last_round_sent() {
    let mut ring = Three::new();
    ring.visit(3, &[2]);
    ring.visit(2, &[0, 2]);
    assert_eq!((ring.token.fcc, ring.token.retransmissions), (5, 0));
    ring.visit(0, &[]);
    ring.visit(1, &[1, 2]);
    assert_eq!((ring.token.fcc, ring.token.retransmissions), (3, 0));
    // The second member misses 101 to 103.
    ring.visit(0, &[]);
    assert_eq!((ring.token.fcc, ring.token.retransmissions), (1, 0));
    ring.visit(2, &[0, 1]);
    assert_eq!((ring.token.fcc, ring.token.retransmissions), (6, 3));
    ring.visit(0, &[]);
    ring.visit(0, &[]);
    assert_eq!((ring.token.fcc, ring.token.retransmissions), (5, 3));
    ring.visit(0, &[]);
    assert_eq!((ring.token.fcc, ring.token.retransmissions), (0, 0));
}

#[test]
fn a_visit_sends_no_more_than_each_limit_allows() {
    let sent = |limits: Limits, token: &mut Token| {
        let mut ring = order(3, 0);
        let visit = ring.visit(token, limits, bodies(1_000));
        assert!(visit.limited);
        visit.new.len()
    };
    let first = || order(3, 0).first_token();
    assert_eq!(sent(LIMITS, &mut first()), 20);
    let global = |fcc| Token { fcc, ..first() };
    assert_eq!(sent(LIMITS, &mut global(80)), 20);
    assert_eq!(sent(LIMITS, &mut global(81)), 19);
    assert_eq!(sent(LIMITS, &mut global(200)), 0);
    let open = Limits {
        personal: 1_000,
        global: 1_000,
        ..LIMITS
    };
    assert_eq!(sent(open, &mut first()), u64::from(GAP));
    let wide = Limits {
        seq_gap: 1_000,
        ..open
    };
    let room = u64::from(2 * GAP);
    assert_eq!(sent(wide, &mut first()), room, "more could not be kept");
    let mut few = order(3, 0);
    let visit = few.visit(&mut first(), LIMITS, bodies(19));
    assert!(!visit.limited && visit.new.len() == 19);
}

#[test]
fn retransmissions_and_old_packets_leave_less_room_for_new_ones() {
    let mut ring = order(3, 0);
    hold(&mut ring, 101..=110);
    let missing = Run {
        first: Seq(101),
        count: 5,
    };
    let mut token = Token {
        seq: Seq(110),
        aru: START,
        aru_by: Some(Index(1)),
        rtr: vec![missing],
        fcc: 10,
        ..ring.first_token()
    };
    let limits = Limits {
        personal: 50,
        global: 40,
        ..LIMITS
    };
    let visit = ring.visit(&mut token.clone(), limits, bodies(100));
    assert_eq!((visit.retransmissions.len(), visit.new.len()), (5, 25));
    let gap = Limits {
        global: 1_000,
        ..limits
    };
    token.seq = Seq(140);
    let mut ring = order(3, 0);
    let visit = ring.visit(&mut token, gap, bodies(100));
    assert_eq!(visit.new.len(), u64::from(GAP) - 40, "above what is safe");
}

#[test]
fn a_call_claims_numbers_and_changes_no_mark() {
    let mut ring = order(3, 2);
    let mut token = Token {
        hop: Hop(8),
        ..token(&ring, 105)
    };
    hold(&mut ring, 101..=105);
    let before = token.clone();
    let limits = Limits {
        global: 3,
        ..LIMITS
    };
    let claimed = ring.claim(&mut token, limits, bodies(9));
    assert_eq!((claimed.above, claimed.last), (Seq(105), Seq(108)));
    let after = Token {
        seq: Seq(108),
        ..before
    };
    assert_eq!(token, after);
    assert_eq!(
        (ring.safe, ring.aru_sent, ring.requestable),
        (START, START, START)
    );
    assert_eq!((ring.own_high, ring.round), (Seq(108), Round(2)));
    let packet = ring.window.get(Seq(108)).expect("it is kept");
    assert_eq!((packet.origin, packet.round), (Index(2), Round(2)));
}

#[test]
fn a_token_that_cannot_be_the_next_is_not_plausible() {
    let mut ring = order(3, 1);
    hold(&mut ring, 101..=110);
    let mut visited = Token {
        hop: Hop(4),
        ..token(&ring, 110)
    };
    ring.visit(&mut visited, LIMITS, bodies(0));
    ring.note_settled(&token(&ring, 105));
    let good = Token {
        hop: Hop(7),
        aru: Seq(105),
        ..visited
    };
    let seq = |seq| Token {
        seq: Seq(seq),
        ..good.clone()
    };
    let by = |index| Token {
        aru_by: Some(Index(index)),
        ..good.clone()
    };
    let marks = |count| Token {
        resilience: Some(Resilience {
            until: Seq(110),
            marks: vec![Seq(105); count],
        }),
        ..good.clone()
    };
    let last = 105 + CLAIMED_MOST;
    for token in [good.clone(), seq(last), by(2), marks(3)] {
        assert!(ring.plausible(&token), "{token:?}");
    }
    let elsewhere = Token {
        hop: Hop(8),
        ..good.clone()
    };
    let low = Token {
        aru: Seq(104),
        ..good.clone()
    };
    let of_none = [
        elsewhere,
        low,
        seq(109),
        seq(last + 1),
        by(3),
        marks(2),
        marks(4),
    ];
    for token in of_none {
        assert!(!ring.plausible(&token), "{token:?}");
    }
}

#[test]
fn a_packet_bears_the_round_of_its_visit() {
    let mut ring = Three::new();
    // The commit token made the two rounds before.
    for round in 2..5 {
        let visit = ring.visit(1, &[]);
        let packet = ring.orders[0].window.get(visit.new.last);
        assert_eq!(packet.expect("it is kept").round, Round(round));
        ring.visit(0, &[]);
        ring.visit(0, &[]);
    }
}

#[test]
fn a_ring_is_settled_when_all_hold_all_for_two_visits_and_nobody_asks() {
    let mut ring = order(3, 0);
    ring.visit(&mut token(&ring, 100), LIMITS, bodies(3));
    let settled = token(&ring, 103);
    assert!(ring.is_settled(&settled));
    assert!(
        !ring.is_settled(&token(&ring, 104)),
        "all have held it once"
    );
    let asked = Token {
        rtr: vec![Run {
            first: Seq(103),
            count: 1,
        }],
        ..settled.clone()
    };
    assert!(!ring.is_settled(&asked));
    ring.note_settled(&settled);
    assert_eq!(ring.safe, Seq(103));
}

#[test]
fn the_first_token_says_that_all_hold_what_came_before() {
    let ring = order(3, 0);
    let first = Token {
        ring: ring.key(),
        hop: Hop(6),
        seq: START,
        aru: START,
        aru_by: None,
        fcc: 0,
        retransmissions: 0,
        backlog: 0,
        install: None,
        installed: false,
        idle: false,
        called: false,
        rtr: vec![],
        resilience: None,
    };
    assert_eq!(ring.first_token(), first);
}

#[test]
fn the_token_goes_from_each_member_to_the_next_and_from_the_last_to_the_first() {
    let of = |me| order(3, me);
    assert_eq!([0, 1, 2].map(|me| of(me).predecessor().0), [2, 0, 1]);
    assert_eq!([0, 1, 2].map(|me| of(me).after(1)), [1, 2, 0].map(member));
    assert_eq!(of(1).after(2), member(0));
    assert_eq!(order(1, 0).predecessor(), Index(0));
}

#[test]
fn a_share_of_the_backlog_replaces_the_one_before() {
    let mut ring = order(3, 0);
    let mut token = Token {
        backlog: 10,
        ..ring.first_token()
    };
    ring.set_backlog(&mut token, 7);
    assert_eq!(token.backlog, 17);
    ring.visit(&mut token, LIMITS, bodies(0));
    ring.set_backlog(&mut token, 2);
    assert_eq!(token.backlog, 12);
    ring.set_backlog(&mut token, 0);
    assert_eq!(token.backlog, 10);
}

#[test]
fn a_packet_of_no_member_has_no_place() {
    let mut ring = order(3, 0);
    let data = |origin| Data {
        ring: ring.tag(),
        seq: Seq(101),
        post_token: false,
        packet: Packet {
            origin: Index(origin),
            round: Round::default(),
            recovered: None,
            body: Bytes::new(),
        },
    };
    let (stranger, last) = (data(3), data(2));
    assert_eq!(ring.handle_data(&stranger), Insert::Beyond);
    assert_eq!(ring.handle_data(&last), Insert::New);
}

#[test]
fn what_all_hold_is_kept_until_it_is_delivered_too() {
    let mut ring = order(3, 0);
    hold(&mut ring, 101..=105);
    ring.safe = Seq(104);
    ring.discard();
    assert_eq!(ring.window.discarded(), START);
    (0..2).for_each(|_| ring.cursor.step());
    ring.discard();
    assert_eq!(ring.window.discarded(), Seq(102));
    (0..3).for_each(|_| ring.cursor.step());
    ring.discard();
    assert_eq!(ring.window.discarded(), Seq(104));
}
