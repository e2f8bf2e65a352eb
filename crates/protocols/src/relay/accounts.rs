//! Accounts on their way: a relay tells the sender of a transfer, word by word, which receivers are
//! below it and the outcome of each; the sender keeps that.
//!
//! Accounts run beside [`Bulk`](crate::bulk::Bulk) on their own channel, so that a sender of a
//! release without relays drops them. The relay repeats a page until the sender has taken it, and
//! sends the next one then. A sender that takes nothing within [`Accounts::UNHEARD`] keeps no
//! accounts: the relay has its last word in the transfer itself.
//!
//! Beside its account a relay tells which receivers came too late to be in it. It says so once.
//!
//! # Guarantees
//! The sender has the words of a relay in order, each once. It takes words only from receivers of
//! the transfer, and no more rows than its limit for all relays of a transfer together. A relay
//! that would exceed the limit, or whose words contradict each other, is told that the sender takes
//! no more.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::{Destination, MemberId, NodeId, SocketClass, Time, Transmit, TransmitBuf};

use super::account::{Account, Word};
use super::wire::{self, Late, Message, Page, Taken};
use crate::bulk::TransferId;

/// A relay has said more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountEvent {
    /// The number of the transfer, which this endpoint sends.
    pub number: u32,
    /// The relay.
    pub relay: MemberId,
    /// What it has said.
    pub said: Said,
}

/// What a relay says to the sender of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Said {
    /// The next word of its account.
    Word(Word),
    /// A receiver below came too late: it gets nothing, and is in no account. Told once for each;
    /// not if the datagram is lost.
    CameLate {
        /// Its node.
        node: NodeId,
        /// Its name; behind another relay `relay/name`.
        name: Bytes,
    },
}

/// How far a relay's account has reached the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportState {
    /// Words are on their way, or the last one has not been said yet.
    Open,
    /// The sender has the last word, and all before.
    Delivered,
    /// The sender keeps no accounts.
    Unheard,
    /// The sender takes no more.
    Full,
}

/// The accounts of one endpoint: those that it gives as a relay, and those that it keeps as a
/// sender. Drain order as for [`Protocol`](groupcast_core::Protocol).
#[derive(Debug)]
pub struct Accounts {
    rows_max: usize,
    given: BTreeMap<TransferId, Given>,
    kept: BTreeMap<u32, Kept>,
    outbox: VecDeque<(MemberId, Bytes)>,
    events: VecDeque<AccountEvent>,
}

/// The account that this endpoint gives as a relay of a transfer.
#[derive(Debug, Default)]
struct Given {
    words: Vec<Word>,
    rows: usize,
    /// How many words the sender has taken, and how many beyond are under way.
    taken: usize,
    flying: usize,
    /// When the first page was sent, and when the last one is due again.
    since: Option<Time>,
    due: Option<Time>,
    /// How often a page was sent since the sender last took any word.
    vain: u32,
    is_heard: bool,
    is_full: bool,
}

/// The accounts that this endpoint keeps of a transfer that it sends.
#[derive(Debug, Default)]
struct Kept {
    receivers: BTreeSet<MemberId>,
    relays: BTreeMap<MemberId, Told>,
    /// Which receivers came too late, and below which relay.
    late: BTreeSet<(MemberId, NodeId)>,
}

/// The account that one relay has told.
#[derive(Debug, Default)]
struct Told {
    account: Account,
    next: u32,
    is_full: bool,
}

impl Accounts {
    /// A sender that has taken nothing for this long keeps no accounts.
    pub const UNHEARD: Duration = Duration::from_secs(5);
    /// A page that is not taken is repeated after this, then each time after twice as long, up to
    /// `AGAIN_MAX`.
    const AGAIN: Duration = Duration::from_millis(100);
    const AGAIN_MAX: Duration = Duration::from_millis(400);
    /// The most datagrams that wait; if an acknowledgement is dropped, the relay repeats its page.
    const OUTBOX_MAX: usize = 4096;

    /// Accounts with room for `rows_max` receivers below relays in each transfer.
    pub fn new(rows_max: usize) -> Self {
        Self {
            rows_max,
            given: BTreeMap::new(),
            kept: BTreeMap::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Keeps the accounts of relays for transfer `number` of this endpoint.
    pub fn open(&mut self, number: u32) {
        self.kept.entry(number).or_default();
    }

    /// Notes that `receiver` is a receiver of transfer `number`, and so may be a relay.
    pub fn admit(&mut self, number: u32, receiver: MemberId) {
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.receivers.insert(receiver);
        }
    }

    /// Ends transfer `number`: returns the accounts that relays have told of it, and forgets them.
    pub fn close(&mut self, number: u32) -> BTreeMap<MemberId, Account> {
        let kept = self.kept.remove(&number).unwrap_or_default();
        let relays = kept.relays.into_iter();
        relays.map(|(relay, told)| (relay, told.account)).collect()
    }

    /// The account that `relay` has told of transfer `number`.
    pub fn account(&self, number: u32, relay: MemberId) -> Option<&Account> {
        Some(&self.kept.get(&number)?.relays.get(&relay)?.account)
    }

    /// The accounts that relays have told of transfer `number`.
    pub fn accounts(&self, number: u32) -> impl Iterator<Item = (MemberId, &Account)> {
        let relays = self
            .kept
            .get(&number)
            .into_iter()
            .flat_map(|kept| &kept.relays);
        relays.map(|(relay, told)| (*relay, &told.account))
    }

    /// Says the next word on transfer `id`, which this endpoint relays, to its sender.
    pub fn say(&mut self, now: Time, id: TransferId, word: Word) {
        let rows_max = self.rows_max;
        let given = self.given.entry(id).or_default();
        given.rows += usize::from(matches!(word, Word::Registered { .. }));
        if given.rows > rows_max {
            given.is_full = true;
        }
        if !given.is_full {
            given.words.push(word);
            if given.due.is_none() {
                given.due = Some(now);
            }
        }
    }

    /// Tells the sender of transfer `id`, which this endpoint relays, that a receiver below came
    /// too late for it.
    pub fn say_late(&mut self, id: TransferId, node: NodeId, name: Bytes) {
        if self.outbox.len() < Self::OUTBOX_MAX {
            let late = Late {
                transfer: id.number,
                node,
                name,
            };
            self.outbox.push_back((id.sender, late.encode()));
        }
    }

    /// How far the account of transfer `id` has reached its sender.
    pub fn state(&self, now: Time, id: TransferId) -> ReportState {
        let Some(given) = self.given.get(&id) else {
            return ReportState::Open;
        };
        if given.is_full {
            return ReportState::Full;
        }
        if given.taken == given.words.len() && given.words.last() == Some(&Word::Final) {
            return ReportState::Delivered;
        }
        let silent = |since: Time| now - since >= Self::UNHEARD;
        match !given.is_heard && given.since.is_some_and(silent) {
            true => ReportState::Unheard,
            false => ReportState::Open,
        }
    }

    /// Forgets transfer `id`, which this endpoint relayed.
    pub fn forget(&mut self, id: TransferId) {
        self.given.remove(&id);
    }

    /// Takes in the body of a datagram of a peer.
    pub fn handle_datagram(&mut self, now: Time, from: MemberId, body: &[u8]) {
        match Message::decode(body) {
            Ok(Message::Page(page)) => self.handle_page(from, page),
            Ok(Message::Taken(taken)) => self.handle_taken(now, from, taken),
            Ok(Message::Late(late)) => self.handle_late(from, late),
            // Junk, or a word of a later release that this one does not know.
            Err(_) => {}
        }
    }

    fn handle_page(&mut self, from: MemberId, page: Page) {
        let Some(kept) = self.kept.get_mut(&page.transfer) else {
            return;
        };
        if !kept.receivers.contains(&from) {
            // The relay repeats the page until it has registered.
            return;
        }
        let rows = kept.relays.values().map(|told| told.account.rows().len());
        let mut room = self.rows_max.saturating_sub(rows.sum());
        let told = kept.relays.entry(from).or_default();
        let known = told.next.saturating_sub(page.first) as usize;
        if page.first <= told.next && !told.is_full {
            for word in page.words.into_iter().skip(known) {
                let is_row = matches!(word, Word::Registered { .. });
                if is_row && room == 0 || !told.account.add(&word) {
                    told.is_full = true;
                    break;
                }
                room -= usize::from(is_row);
                told.next += 1;
                self.events.push_back(AccountEvent {
                    number: page.transfer,
                    relay: from,
                    said: Said::Word(word),
                });
            }
        }
        let taken = Taken {
            transfer: page.transfer,
            next: told.next,
            is_full: told.is_full,
        };
        if self.outbox.len() < Self::OUTBOX_MAX {
            self.outbox.push_back((from, taken.encode()));
        }
    }

    fn handle_taken(&mut self, now: Time, from: MemberId, taken: Taken) {
        let id = TransferId {
            sender: from,
            number: taken.transfer,
        };
        let Some(given) = self.given.get_mut(&id) else {
            return;
        };
        let next = taken.next as usize;
        if next > given.taken + given.flying {
            // The sender cannot have taken words that were not sent.
            return;
        }
        given.is_heard = true;
        given.is_full |= taken.is_full;
        if next > given.taken {
            given.flying -= next - given.taken;
            given.taken = next;
            given.vain = 0;
            let is_all = given.taken == given.words.len();
            given.due = (!is_all).then_some(now);
        }
    }

    fn handle_late(&mut self, from: MemberId, late: Late) {
        let Some(kept) = self.kept.get_mut(&late.transfer) else {
            return;
        };
        let has_room = kept.late.len() < self.rows_max && kept.receivers.contains(&from);
        if has_room && kept.late.insert((from, late.node)) {
            let (node, name) = (late.node, late.name);
            self.events.push_back(AccountEvent {
                number: late.transfer,
                relay: from,
                said: Said::CameLate { node, name },
            });
        }
    }

    /// Sends the pages that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        for (id, given) in &mut self.given {
            let is_due = given.due.is_some_and(|due| due <= now);
            if !is_due || given.is_full || given.taken == given.words.len() {
                if given.is_full || is_due {
                    given.due = None;
                }
                continue;
            }
            let first = given.taken as u32;
            let (body, count) = wire::page(id.number, first, &given.words[given.taken..]);
            given.flying = given.flying.max(count);
            given.since.get_or_insert(now);
            let doubled = Self::AGAIN.saturating_mul(1 << given.vain.min(u32::BITS - 1));
            let wait = doubled.min(Self::AGAIN_MAX);
            given.vain = given.vain.saturating_add(1);
            given.due = Some(now + wait);
            self.outbox.push_back((id.sender, body));
        }
    }

    /// Writes the next body into the empty `buf`.
    pub fn poll_transmit(&mut self, buf: &mut TransmitBuf) -> Option<Transmit> {
        let (to, body) = self.outbox.pop_front()?;
        buf.push(&[&body]);
        Some(Transmit {
            destination: Destination::Member(to),
            class: SocketClass::Control,
        })
    }

    /// What a relay has said next.
    pub fn poll_event(&mut self) -> Option<AccountEvent> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Time> {
        self.given.values().filter_map(|given| given.due).min()
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Incarnation;

    use super::*;
    use crate::bulk::Outcome;

    fn member(number: u64) -> MemberId {
        MemberId {
            node: NodeId(number),
            incarnation: Incarnation(number),
        }
    }

    fn id() -> TransferId {
        TransferId {
            sender: member(1),
            number: 3,
        }
    }

    fn registered(node: u64) -> Word {
        Word::Registered {
            node: NodeId(node),
            name: Bytes::from(alloc::format!(
                "a host with a name of its own, number {node}"
            )),
        }
    }

    /// Runs a relay's accounts and a sender's for this many milliseconds; `lost` of every three
    /// datagrams are lost.
    fn run(relay: &mut Accounts, sender: &mut Accounts, from: Time, millis: u64, lost: usize) {
        let mut buf = TransmitBuf::new(1, 0, 0);
        let mut count = 0;
        for at in 0..millis {
            let now = from + Duration::from_millis(at);
            relay.handle_timeout(now);
            sender.handle_timeout(now);
            let mut arrives = |of: &mut Accounts, to: &mut Accounts, from: MemberId| {
                buf.clear();
                while of.poll_transmit(&mut buf).is_some() {
                    count += 1;
                    let body = buf.as_bytes().to_vec();
                    buf.clear();
                    if count % 3 >= lost {
                        to.handle_datagram(now, from, &body);
                    }
                }
            };
            arrives(relay, sender, member(2));
            arrives(sender, relay, member(1));
        }
    }

    #[test]
    fn every_word_comes_once_and_in_order_whatever_is_lost() {
        let (mut relay, mut sender) = (Accounts::new(500), Accounts::new(500));
        sender.open(3);
        sender.admit(3, member(2));
        let mut words = Vec::new();
        for row in 0..200 {
            words.push(registered(row));
            let outcome = match row % 2 {
                0 => Outcome::Complete,
                _ => Outcome::Failed("its disk is full".into()),
            };
            words.push(Word::Settled {
                row: row as u32,
                outcome,
            });
        }
        let (first, rest) = words.split_at(150);
        first
            .iter()
            .for_each(|word| relay.say(Time::ZERO, id(), word.clone()));
        run(&mut relay, &mut sender, Time::ZERO, 3000, 1);
        assert_eq!(
            relay.state(Time::from_millis(3000), id()),
            ReportState::Open
        );
        let now = Time::from_millis(3000);
        rest.iter()
            .for_each(|word| relay.say(now, id(), word.clone()));
        relay.say(now, id(), Word::Final);
        run(&mut relay, &mut sender, now, 30_000, 1);
        assert_eq!(relay.state(now, id()), ReportState::Delivered);
        assert_eq!(relay.poll_timeout(), None);
        words.push(Word::Final);
        let mut told = Vec::new();
        while let Some(event) = sender.poll_event() {
            assert_eq!((event.number, event.relay), (3, member(2)));
            let Said::Word(word) = event.said else {
                panic!("nobody came late");
            };
            told.push(word);
        }
        assert_eq!(told, words);
        let accounts = sender.close(3);
        assert!(accounts[&member(2)].is_final() && accounts[&member(2)].rows().len() == 200);
    }

    #[test]
    fn a_sender_that_keeps_no_accounts_is_not_waited_for() {
        let (mut relay, mut old) = (Accounts::new(5), Accounts::new(5));
        relay.say(Time::ZERO, id(), registered(1));
        run(&mut relay, &mut old, Time::ZERO, 4900, 0);
        assert_eq!(
            relay.state(Time::from_millis(4900), id()),
            ReportState::Open
        );
        assert_eq!(
            relay.state(Time::from_millis(5100), id()),
            ReportState::Unheard
        );
    }

    #[test]
    fn nobody_but_a_receiver_is_believed_and_no_more_than_there_is_room_for() {
        let (mut relay, mut sender) = (Accounts::new(100), Accounts::new(2));
        sender.open(3);
        (0..5).for_each(|node| relay.say(Time::ZERO, id(), registered(node)));
        run(&mut relay, &mut sender, Time::ZERO, 500, 0);
        assert_eq!(sender.poll_event(), None, "it has not registered");
        sender.admit(3, member(2));
        run(&mut relay, &mut sender, Time::from_millis(500), 500, 0);
        assert_eq!(
            relay.state(Time::from_millis(1000), id()),
            ReportState::Full
        );
        let kept = sender.close(3);
        assert_eq!(kept[&member(2)].rows().len(), 2);
        assert!(!kept[&member(2)].is_final());
    }

    #[test]
    fn who_came_late_is_told_once_by_receivers_alone_up_to_the_limit() {
        let (mut relay, mut sender) = (Accounts::new(9), Accounts::new(2));
        sender.open(3);
        let late = |relay: &mut Accounts, node: u64| {
            relay.say_late(id(), NodeId(node), Bytes::from_static(b"late"));
        };
        late(&mut relay, 1);
        run(&mut relay, &mut sender, Time::ZERO, 2, 0);
        assert_eq!(sender.poll_event(), None, "it has not registered");
        sender.admit(3, member(2));
        for node in [1, 1, 2, 3] {
            late(&mut relay, node);
        }
        run(&mut relay, &mut sender, Time::from_millis(2), 2, 0);
        for node in [1, 2] {
            let told = sender.poll_event().expect("the relay has said so");
            let (node, name) = (NodeId(node), Bytes::from_static(b"late"));
            assert_eq!((told.number, told.relay), (3, member(2)));
            assert_eq!(told.said, Said::CameLate { node, name });
        }
        assert_eq!(sender.poll_event(), None, "there is room for no more");
        assert!(sender.account(3, member(2)).is_none());
    }

    #[test]
    fn words_that_make_no_sense_end_an_account() {
        for word in [
            Word::Final,
            Word::Settled {
                row: 1,
                outcome: Outcome::Complete,
            },
            Word::Aside { row: 7 },
        ] {
            let (mut relay, mut sender) = (Accounts::new(9), Accounts::new(9));
            sender.open(3);
            sender.admit(3, member(2));
            for word in [registered(1), word.clone()] {
                relay.say(Time::ZERO, id(), word);
            }
            run(&mut relay, &mut sender, Time::ZERO, 500, 0);
            let state = relay.state(Time::from_millis(500), id());
            assert_eq!(state, ReportState::Full, "{word:?}");
        }
    }
}
