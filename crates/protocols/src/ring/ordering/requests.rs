//! Requests for packets, on the token: which this member answers, which it makes, and the member
//! that receives nothing however often it asks.

use alloc::vec::Vec;
use core::time::Duration;

use groupcast_core::{MemberId, Time};

use super::{Limits, Ordering};
use crate::ring::numbers::{Run, Seq};
use crate::ring::wire::{DATA_HEADER, RTR_RUNS_MAX, Token};

/// A visit answers as many requests as it may initiate packets, or this many if that is more.
const ANSWERS_MIN: u32 = 4;
/// Most sequence numbers that the runs of one token stand for.
const REQUESTS_MAX: usize = 4096;
/// A request that was answered here is left to others at no more visits than this before it is
/// answered again. Too many: where this member alone has the packet, it takes as many rotations.
const LEAVES_MAX: u32 = 8;
/// All wait in vain for a packet after this many times what a member that cannot receive is given.
const VAIN_WAITS: u32 = 8;

/// A request that was answered at this member, for as long as not all hold the packet.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Answer {
    /// How many times.
    times: u32,
    /// At how many visits it was left to others since.
    left: u32,
    /// It was answered at the last visit.
    is_last: bool,
}

impl Ordering {
    /// Takes the requests that can be answered here off the token, at most a window of them.
    ///
    /// A request that was answered here and comes again is left to the members behind, at one visit
    /// after the first answer, at two after the second and so on: the ways from here to the member
    /// that misses the packet may not work, and those of several members in a row.
    pub(super) fn answer_requests(&mut self, token: &mut Token, limits: Limits) -> Vec<Seq> {
        let (mut sent, mut open, mut again) = (Vec::new(), Vec::new(), 0);
        let most = self
            .answers_max
            .min(limits.personal.max(ANSWERS_MIN) as usize);
        let others = self.members.len().saturating_sub(2) as u32;
        let leaves_max = others.clamp(1, LEAVES_MAX);
        let sent_last = self.answers.values().filter(|it| it.is_last).count();
        self.answers.retain(|seq, _| *seq > token.aru);
        for seq in requests(&token.rtr) {
            let answer = self.answers.get_mut(&seq);
            again += usize::from(answer.as_ref().is_some_and(|it| it.is_last));
            if let Some(answer) = answer.filter(|it| it.left < it.times.min(leaves_max)) {
                answer.left += 1;
                open.push(seq);
            } else if sent.len() >= most || self.window.get(seq).is_none() {
                open.push(seq);
            } else {
                sent.push(seq);
            }
        }
        if sent_last > 0 {
            let lost = again * 2 > sent_last;
            self.answers_max = if lost {
                (sent_last / 2).max(1)
            } else {
                most * 2
            };
        }
        token.rtr = runs(open.into_iter());
        self.note_answered(&sent);
        sent
    }

    /// These requests are answered at this visit.
    fn note_answered(&mut self, sent: &[Seq]) {
        for answer in self.answers.values_mut() {
            answer.is_last = false;
        }
        for seq in sent {
            let answer = self.answers.entry(*seq).or_default();
            answer.times = answer.times.saturating_add(1);
            (answer.left, answer.is_last) = (0, true);
        }
    }

    /// Adds what is missing here. Only up to the seq of the round before: what was claimed since
    /// may not have been sent yet (002 III-A.2).
    pub(super) fn make_requests(&self, token: &mut Token) {
        // What it has no room for it could not keep.
        let last = self.requestable.min(token.seq).min(self.window.end());
        let missing = self.window.missing(last).take(RTR_RUNS_MAX * 64);
        if token.rtr.is_empty() {
            token.rtr = runs(missing);
        } else {
            let mut all: Vec<Seq> = requests(&token.rtr).chain(missing).collect();
            all.sort_unstable();
            all.dedup();
            token.rtr = runs(all.into_iter());
        }
        // What everybody holds needs no answer: a request that crossed its answer.
        let aru = token.aru;
        token.rtr.retain(|run| run.end() > aru.next());
    }

    /// The member that does not receive, if there is one: the token's aru stays where that member
    /// lowered it for longer than `patience`, although the next packet is here, and is
    /// retransmitted (Totem's fail-to-receive).
    pub(in crate::ring) fn cannot_receive(
        &mut self,
        now: Time,
        token: &Token,
        patience: Duration,
    ) -> Option<MemberId> {
        let held_here = self.window.has(token.aru.next());
        let Some(by) = token.aru_by.filter(|by| *by != self.me && held_here) else {
            self.stuck = None;
            return None;
        };
        match self.stuck {
            Some((index, aru, since)) if index == by && aru == token.aru => {
                (now.since(since) >= patience).then(|| self.members[by.at()])
            }
            _ => {
                self.stuck = Some((by, token.aru, now));
                None
            }
        }
    }

    /// The length of the body of the datagram that has the packet at which the token's aru stays.
    pub(in crate::ring) fn missed_bytes(&self, token: &Token) -> usize {
        let packet = self.window.get(token.aru.next());
        packet.map_or(0, |packet| DATA_HEADER + packet.body.len())
    }

    /// Whether all wait for a packet that nobody has: the token's aru stays where it is below its
    /// seq for eight times `patience`. A member that is deaf is excluded by then, so somebody
    /// claimed what was never sent. A new ring leaves that behind.
    pub(in crate::ring) fn waits_in_vain(
        &mut self,
        now: Time,
        token: &Token,
        patience: Duration,
    ) -> bool {
        if token.aru >= token.seq {
            self.behind = None;
            return false;
        }
        match self.behind {
            Some((aru, since)) if aru == token.aru => now.since(since) >= patience * VAIN_WAITS,
            _ => {
                self.behind = Some((token.aru, now));
                false
            }
        }
    }
}

fn requests(rtr: &[Run]) -> impl Iterator<Item = Seq> {
    rtr.iter().flat_map(|run| run.iter()).take(REQUESTS_MAX)
}

/// Ascending numbers as runs, the lowest of them if there are too many.
fn runs(seqs: impl Iterator<Item = Seq>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for seq in seqs {
        let full = runs.len() == RTR_RUNS_MAX;
        match runs.last_mut() {
            Some(run) if run.end() == seq && run.count < u16::MAX => run.count += 1,
            _ if full => break,
            _ => runs.push(Run {
                first: seq,
                count: 1,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ring::numbers::Index;
    use crate::ring::ordering::tests::{hold, order, token};

    fn run(first: u64, last: u64) -> Run {
        Run {
            first: Seq(first),
            count: (last + 1 - first) as u16,
        }
    }

    /// What `order` answers of `asked`, and what it leaves, if it may send `personal` packets.
    fn answer(order: &mut Ordering, asked: &[Run], personal: u32) -> (Vec<u64>, Vec<Run>) {
        // Somebody misses all that is asked for.
        let mut token = Token {
            aru: order.window.discarded(),
            rtr: asked.to_vec(),
            ..token(order, 150)
        };
        let limits = Limits {
            personal,
            global: 0,
            seq_gap: 0,
        };
        let answered = order.answer_requests(&mut token, limits);
        (answered.iter().map(|seq| seq.0).collect(), token.rtr)
    }

    #[test]
    fn a_visit_answers_what_it_holds_up_to_its_window_and_leaves_the_rest() {
        let mut ring = order(3, 0);
        hold(&mut ring, (101..=120).filter(|seq| *seq != 103));
        let (answered, left) = answer(&mut ring, &[run(101, 104), run(107, 120)], 6);
        assert_eq!(answered, [101, 102, 104, 107, 108, 109]);
        assert_eq!(left, [run(103, 103), run(110, 120)]);
    }

    #[test]
    fn a_request_that_comes_again_is_left_to_another_and_fewer_are_answered_then() {
        let mut ring = order(3, 0);
        hold(&mut ring, 101..=120);
        let mut next = |asked: &[Run]| answer(&mut ring, asked, 2);
        let (answered, left) = next(&[run(101, 112)]);
        assert_eq!(
            answered,
            [101, 102, 103, 104],
            "four, however small the window"
        );
        assert_eq!(left, [run(105, 112)]);
        let (answered, left) = next(&[run(101, 112)]);
        assert_eq!(answered, [105, 106, 107, 108]);
        assert_eq!(left, [run(101, 104), run(109, 112)]);
        // All of the first answers were lost: half as many. None of the second: twice as many.
        assert_eq!(next(&[run(109, 116)]).0, [109, 110]);
        assert_eq!(next(&[run(111, 120)]).0, [111, 112, 113, 114]);
        // Half of them were lost, which is not most.
        assert_eq!(next(&[run(113, 120)]).0, [115, 116, 117, 118]);
        // Three of four were.
        let asked = [run(101, 102), run(115, 117), run(119, 120)];
        assert_eq!(next(&asked).0, [101, 102, 119, 120]);
        assert_eq!(next(&[run(101, 110)]).0, [103, 104]);
    }

    #[test]
    fn however_much_is_lost_one_request_is_answered() {
        let mut ring = order(3, 0);
        hold(&mut ring, 101..=120);
        let mut next = |asked: &[Run]| answer(&mut ring, asked, 2).0;
        assert_eq!(next(&[run(101, 101)]), [101]);
        assert!(next(&[run(101, 101)]).is_empty());
        assert_eq!(next(&[run(102, 105)]), [102]);
        assert_eq!(next(&[run(103, 106)]), [103]);
        assert_eq!(next(&[run(104, 106)]), [104, 105]);
    }

    #[test]
    fn a_visit_asks_for_what_is_missing_below_the_seq_of_the_round_before() {
        let mut ring = order(3, 0);
        hold(&mut ring, [101, 104, 105, 108]);
        ring.requestable = Seq(107);
        let mut asking = Token {
            seq: Seq(110),
            aru: Seq(101),
            ..ring.first_token()
        };
        ring.make_requests(&mut asking);
        assert_eq!(asking.rtr, [run(102, 103), run(106, 107)]);
        // Others ask for some of it, and for more.
        asking.rtr = vec![run(103, 104), run(107, 109)];
        ring.make_requests(&mut asking);
        assert_eq!(asking.rtr, [run(102, 104), run(106, 109)]);
    }

    #[test]
    fn what_all_hold_is_asked_for_no_more() {
        let ring = order(3, 0);
        let mut asking = Token {
            aru: Seq(110),
            rtr: vec![run(103, 105), run(108, 110), run(112, 112)],
            ..token(&ring, 120)
        };
        ring.make_requests(&mut asking);
        assert_eq!(asking.rtr, [run(112, 112)]);
        asking.aru = Seq(109);
        asking.rtr = vec![run(108, 110)];
        ring.make_requests(&mut asking);
        assert_eq!(asking.rtr, [run(108, 110)]);
    }

    #[test]
    fn a_token_has_room_for_the_lowest_runs() {
        let long: Vec<Run> = runs((1..=65_540).map(Seq));
        assert_eq!(long, [run(1, 65_535), run(65_536, 65_540)]);
        let many = runs((1..=1_000).map(|index| Seq(2 * index)));
        assert_eq!(many.len(), RTR_RUNS_MAX);
        assert_eq!(many.last(), Some(&run(128, 128)));
        let last_is_long = (1..RTR_RUNS_MAX as u64).map(|index| 2 * index);
        let last_is_long = runs(last_is_long.chain(128..=130).map(Seq));
        assert_eq!(last_is_long.last(), Some(&run(128, 130)));
        assert_eq!(requests(&[run(1, 5_000)]).count(), REQUESTS_MAX);
    }

    #[test]
    fn a_gap_of_a_whole_window_is_asked_for_at_once() {
        let mut ring = order(3, 0);
        hold(&mut ring, [200]);
        ring.requestable = Seq(199);
        let mut asking = Token {
            aru: Seq(100),
            ..token(&ring, 200)
        };
        ring.make_requests(&mut asking);
        assert_eq!(asking.rtr, [run(101, 199)]);
    }

    #[test]
    fn what_all_lack_for_long_was_never_sent() {
        let mut ring = order(3, 0);
        let lacks = |aru| Token {
            aru: Seq(aru),
            ..token(&order(3, 0), 105)
        };
        let patience = Duration::from_millis(10);
        let mut vain = |ms, aru| ring.waits_in_vain(Time::from_millis(ms), &lacks(aru), patience);
        assert!(!vain(0, 101) && !vain(79, 101) && vain(80, 101));
        // It came, or all are there: the time begins anew.
        assert!(!vain(81, 102) && !vain(160, 102) && vain(161, 102));
        assert!(!vain(170, 105) && !vain(250, 102));
    }

    #[test]
    fn who_holds_aru_down_for_long_though_the_packet_is_here_cannot_receive() {
        let mut ring = order(3, 0);
        hold(&mut ring, [102, 103, 104]);
        let (patience, start) = (Duration::from_millis(10), Time::from_millis(5));
        let after = |ms| start + Duration::from_millis(ms);
        let stuck = |by, aru| Token {
            seq: Seq(105),
            aru: Seq(aru),
            aru_by: Some(Index(by)),
            ..order(3, 0).first_token()
        };
        let two = Some(order(3, 0).members[2]);
        let mut deaf = |ms, token: &Token| ring.cannot_receive(after(ms), token, patience);
        assert_eq!(deaf(0, &stuck(2, 101)), None);
        assert_eq!(deaf(9, &stuck(2, 101)), None);
        assert_eq!(deaf(10, &stuck(2, 101)), two);
        // It got one packet, or another member is behind: the time begins anew.
        assert_eq!(deaf(11, &stuck(2, 102)), None);
        assert_eq!(deaf(20, &stuck(1, 102)), None);
        assert_eq!(deaf(29, &stuck(2, 102)), None);
        assert_eq!(deaf(38, &stuck(2, 102)), None);
        // What nobody sends here cannot be heard; and this member is not its own judge.
        assert_eq!(deaf(39, &stuck(2, 104)), None);
        assert_eq!(deaf(60, &stuck(2, 104)), None);
        assert_eq!(deaf(61, &stuck(0, 102)), None);
        assert_eq!(deaf(75, &stuck(0, 102)), None);
        assert_eq!(deaf(76, &stuck(2, 102)), None);
        assert_eq!(deaf(77, &stuck(0, 102)), None);
        assert_eq!(deaf(88, &stuck(2, 102)), None);
        let nobody = Token {
            aru_by: None,
            ..stuck(2, 102)
        };
        assert_eq!(deaf(89, &nobody), None);
        assert_eq!(deaf(99, &stuck(2, 102)), None);
        assert_eq!(deaf(109, &stuck(2, 102)), two);
    }
}
