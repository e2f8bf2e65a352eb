//! The outcomes of receivers below relays in the sender's report: each is named `relay/receiver`.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::text::printable;
use groupcast_core::{MemberId, NodeId};
use groupcast_protocols::bulk::{Outcome, STOPPED};
use groupcast_protocols::relay::{Account, AccountEvent, Row, Said, Word};

use super::settled::{Settled, by_name, failures};
use super::{Life, SendEvent, Sender};

/// The name of a receiver below a relay.
fn named(relay: &str, row: &Row) -> String {
    format!("{relay}/{}", printable(&row.name))
}

impl Sender {
    /// Takes what relays have said.
    pub(super) fn take_accounts(&mut self, tell: &mut dyn FnMut(SendEvent<'_>)) {
        while let Some(event) = self.host.poll_account() {
            if event.number == self.id.number {
                self.host.count_behind(self.id, &event);
                self.take_account(&event, tell);
            }
        }
    }

    fn take_account(&mut self, event: &AccountEvent, tell: &mut dyn FnMut(SendEvent<'_>)) {
        let relay = self.names.get(&event.relay).cloned().unwrap_or_default();
        match &event.said {
            Said::Word(Word::Registered { name, .. }) => {
                let receiver = format!("{relay}/{}", printable(name));
                let address = None;
                tell(SendEvent::Registered {
                    receiver: &receiver,
                    address,
                    copies: false,
                    back: None,
                });
            }
            Said::Word(Word::Settled { row, outcome }) => {
                let number = self.id.number;
                let account = self.host.accounts().account(number, event.relay);
                let row = account.and_then(|account| account.rows().get(*row as usize));
                let Some(receiver) = row.map(|row| named(&relay, row)) else {
                    return;
                };
                tell(SendEvent::Settled {
                    receiver: &receiver,
                    outcome,
                    life: Life::Only,
                });
                self.give_up_if_one_below_has_gone();
            }
            Said::CameLate { name, .. } => tell(SendEvent::CameLate {
                receiver: &format!("{relay}/{}", printable(name)),
                address: None,
            }),
            _ => {}
        }
    }

    /// Ends a strict transfer for all, once it has begun, if a receiver below a relay has failed
    /// and has no other life. Receivers that came late are not required.
    pub(super) fn give_up_if_one_below_has_gone(&mut self) {
        if !self.is_strict || self.begun.is_none() {
            return;
        }
        let number = self.id.number;
        let accounts: Vec<_> = self.host.accounts().accounts(number).collect();
        let Some((relay, row)) = gone_below(&accounts) else {
            return;
        };
        let receiver = named(self.names.get(&relay).map_or("", String::as_str), row);
        self.is_strict = false;
        self.give_up(&format!(
            "{STOPPED}: a receiver that is required has gone: {receiver}"
        ));
    }

    /// How many receivers have failed, those below relays included.
    pub(super) fn failures(&mut self) -> usize {
        let number = self.id.number;
        let accounts: Vec<_> = self.host.accounts().accounts(number).collect();
        let failed = all_failures(&self.settled, &self.names, &accounts);
        failed + self.unanswered()
    }
}

/// How many receivers have failed, those below relays included. Those are judged as
/// [`gone_below`] does.
fn all_failures(
    settled: &[Settled],
    names: &BTreeMap<MemberId, String>,
    accounts: &[(MemberId, &Account)],
) -> usize {
    let spoken_for = |member: MemberId| {
        let mut accounts = accounts.iter().filter(|(relay, _)| *relay == member);
        accounts.any(|(_, account)| stands_aside(account, own_outcome(settled, member)))
    };
    let is_below = |node: NodeId| {
        let mut rows = accounts.iter().flat_map(|(_, account)| account.receivers());
        rows.any(|row| row.node == node)
    };
    let own = settled.iter().filter(|(member, _, outcome)| {
        // A receiver that was waited for here may have come below a relay.
        let has_come = *outcome == Outcome::Absent && is_below(member.node);
        !has_come && !spoken_for(*member)
    });
    let own: Vec<Settled> = own.cloned().collect();
    failures(&own, names.keys()) + failed_below(settled, accounts)
}

/// How many receivers below relays have failed and have no other life. Receivers that came late do
/// not count. If a relay has failed, its receivers without an outcome count as failed.
fn failed_below(settled: &[Settled], accounts: &[(MemberId, &Account)]) -> usize {
    let (mut good, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for (relay, account) in accounts {
        let own = own_outcome(settled, *relay);
        let has_failed = own.is_some_and(|outcome| *outcome != Outcome::Complete);
        for row in account.receivers() {
            match &row.outcome {
                Some(Outcome::Complete) => _ = good.insert(row.node),
                None if !has_failed => _ = good.insert(row.node),
                Some(Outcome::Late) => {}
                _ => _ = failed.insert(row.node),
            }
        }
    }
    failed.difference(&good).count()
}

/// A receiver below a relay that has failed and has no other life, and its relay. Receivers that
/// came late do not count.
fn gone_below<'a>(accounts: &[(MemberId, &'a Account)]) -> Option<(MemberId, &'a Row)> {
    let lives = |node: NodeId| {
        let rows = accounts.iter().flat_map(|(_, account)| account.receivers());
        let mut rows = rows.filter(|row| row.node == node);
        rows.any(|row| matches!(row.outcome, None | Some(Outcome::Complete)))
    };
    let has_gone = |row: &&Row| {
        let is_over = !matches!(row.outcome, None | Some(Outcome::Complete | Outcome::Late));
        is_over && !lives(row.node)
    };
    let mut accounts = accounts.iter();
    accounts.find_map(|(relay, account)| Some((*relay, account.receivers().find(has_gone)?)))
}

/// The outcome of a relay itself.
fn own_outcome(settled: &[Settled], relay: MemberId) -> Option<&Outcome> {
    let own = settled.iter().find(|it| it.0 == relay);
    own.map(|(.., outcome)| outcome)
}

/// Whether the receivers below a relay, which has the outcome `own`, count in its place. If it has
/// failed and all of them are complete, it had no room to name the receiver that is not.
fn stands_aside(account: &Account, own: Option<&Outcome>) -> bool {
    let mut rows = account.receivers();
    let is_explained = !matches!(own, Some(Outcome::Failed(_)))
        || rows.any(|row| row.outcome != Some(Outcome::Complete));
    account.is_final() && account.receivers().next().is_some() && is_explained
}

/// Whether a relay has vanished.
fn is_gone(settled: &[Settled], relay: &MemberId) -> bool {
    let is_it = |it: &Settled| it.0 == *relay && it.2 == Outcome::Vanished;
    settled.iter().any(is_it)
}

/// Whether a relay was started again, and has accounted for all below it.
fn has_next_life(
    accounts: &BTreeMap<MemberId, Account>,
    settled: &[Settled],
    relay: &MemberId,
) -> bool {
    let mut others = accounts.iter().filter(|(other, _)| *other != relay);
    others.any(|(other, account)| {
        other.node == relay.node && stands_aside(account, own_outcome(settled, *other))
    })
}

/// Whether a receiver is complete by the account of another relay, or of the next life of this one.
fn is_complete_by_another(
    accounts: &BTreeMap<MemberId, Account>,
    relay: &MemberId,
    node: NodeId,
) -> bool {
    let others = accounts.iter().filter(|(other, _)| *other != relay);
    let mut rows = others.flat_map(|(_, account)| account.receivers());
    rows.any(|row| row.node == node && row.outcome == Some(Outcome::Complete))
}

/// The outcome of each receiver, those below relays included. A relay whose account of all
/// receivers below it has come is left out.
pub(super) fn all_by_name(
    mut settled: Vec<Settled>,
    names: &BTreeMap<MemberId, String>,
    accounts: &BTreeMap<MemberId, Account>,
) -> Vec<(String, Outcome)> {
    let mut below = Vec::new();
    let mut former = BTreeSet::new();
    for (relay, account) in accounts {
        // Another relay, or the next life of this one, may have completed what this one had begun.
        let is_gone = is_gone(&settled, relay);
        let is_brought = |row: &&Row| {
            let is_open = matches!(row.outcome, None | Some(Outcome::Complete));
            is_gone && is_open && is_complete_by_another(accounts, relay, row.node)
        };
        let is_good = |row: &Row| row.outcome == Some(Outcome::Complete) || is_brought(&row);
        if is_gone && has_next_life(accounts, &settled, relay) && account.receivers().all(is_good) {
            former.insert(*relay);
        }
        // The relay's own outcome holds for receivers without one.
        let unsaid = match own_outcome(&settled, *relay) {
            Some(own @ (Outcome::Complete | Outcome::Cancelled)) => own.clone(),
            _ => Outcome::Failed("not known: its relay is gone, or has failed".into()),
        };
        let name = names.get(relay).map_or("", String::as_str);
        for row in account.receivers().filter(|row| !is_brought(row)) {
            let outcome = row.outcome.clone().unwrap_or_else(|| unsaid.clone());
            below.push((named(name, row), outcome));
        }
    }
    let is_below = |member: &MemberId| {
        let rows = accounts.values().flat_map(Account::receivers);
        rows.map(|row| row.node).any(|node| node == member.node)
    };
    settled.retain(|(member, _, outcome)| {
        // One that was cancelled, as all were, has not failed: those below it are named.
        let is_relay = accounts.get(member).is_some_and(|account| {
            let is_cancelled =
                *outcome == Outcome::Cancelled && account.receivers().next().is_some();
            is_cancelled || stands_aside(account, Some(outcome))
        });
        // A receiver that was waited for here has come below a relay.
        let has_come = *outcome == Outcome::Absent && is_below(member);
        !is_relay && !has_come && !former.contains(member)
    });
    let mut receivers = by_name(settled);
    receivers.extend(below);
    receivers
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use groupcast_core::Incarnation;

    use super::*;

    fn member(node: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(node),
        }
    }

    fn account(outcomes: &[Option<Outcome>], is_final: bool) -> Account {
        let mut account = Account::default();
        for (row, outcome) in outcomes.iter().enumerate() {
            let name = Bytes::from(format!("r{row}"));
            let node = NodeId(100 + row as u64);
            assert!(account.add(&Word::Registered { node, name }));
            if let Some(outcome) = outcome.clone() {
                let row = row as u32;
                assert!(account.add(&Word::Settled { row, outcome }));
            }
        }
        assert!(!is_final || account.add(&Word::Final));
        account
    }

    fn all(own: Outcome, account: Account) -> Vec<(String, Outcome)> {
        let relay = member(1);
        let settled = vec![
            (relay, "relay".to_owned(), own),
            (member(2), "near".to_owned(), Outcome::Complete),
            (
                MemberId {
                    node: NodeId(100),
                    incarnation: Incarnation(0),
                },
                "r0".to_owned(),
                Outcome::Absent,
            ),
        ];
        let names = BTreeMap::from([(relay, "relay".to_owned())]);
        all_by_name(settled, &names, &BTreeMap::from([(relay, account)]))
    }

    #[test]
    fn those_below_stand_for_a_relay_that_has_accounted_for_all() {
        let account = account(&[Some(Outcome::Complete), Some(Outcome::Vanished)], true);
        let failed = Outcome::Failed("1 of 2 receivers below are not complete".into());
        let expected = [
            ("near".to_owned(), Outcome::Complete),
            ("relay/r0".to_owned(), Outcome::Complete),
            ("relay/r1".to_owned(), Outcome::Vanished),
        ];
        assert_eq!(all(failed, account), expected);
    }

    #[test]
    fn a_relay_that_had_no_room_to_name_who_failed_is_named_itself() {
        let account = account(&[Some(Outcome::Complete), Some(Outcome::Complete)], true);
        let failed = Outcome::Failed("the account has no room for more than 2".into());
        let expected = [
            ("relay".to_owned(), failed.clone()),
            ("near".to_owned(), Outcome::Complete),
            ("relay/r0".to_owned(), Outcome::Complete),
            ("relay/r1".to_owned(), Outcome::Complete),
        ];
        assert_eq!(all(failed, account), expected);
    }

    #[test]
    fn a_relay_that_is_gone_is_named_with_those_of_whom_nothing_is_known() {
        let account = account(&[Some(Outcome::Complete), None], false);
        let unknown = Outcome::Failed("not known: its relay is gone, or has failed".into());
        let expected = [
            ("relay".to_owned(), Outcome::Vanished),
            ("near".to_owned(), Outcome::Complete),
            ("relay/r0".to_owned(), Outcome::Complete),
            ("relay/r1".to_owned(), unknown),
        ];
        assert_eq!(all(Outcome::Vanished, account), expected);
    }

    #[test]
    fn a_relay_that_was_started_again_and_brought_it_is_no_failure() {
        let next = MemberId {
            node: NodeId(1),
            incarnation: Incarnation(9),
        };
        let settled = vec![
            (member(1), "relay".to_owned(), Outcome::Vanished),
            (next, "relay@later".to_owned(), Outcome::Complete),
        ];
        let names = BTreeMap::from([
            (member(1), "relay".to_owned()),
            (next, "relay@later".to_owned()),
        ]);
        let former = account(&[Some(Outcome::Complete), None], false);
        let both = account(&[Some(Outcome::Complete), Some(Outcome::Complete)], true);
        let accounts = BTreeMap::from([(member(1), former.clone()), (next, both)]);
        let named = |accounts: &BTreeMap<MemberId, Account>| -> Vec<String> {
            let all = all_by_name(settled.clone(), &names, accounts);
            all.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(named(&accounts), ["relay@later/r0", "relay@later/r1"]);
        // One of them has not come again.
        let one = account(&[Some(Outcome::Complete)], true);
        let accounts = BTreeMap::from([(member(1), former), (next, one)]);
        assert_eq!(named(&accounts), ["relay", "relay/r1", "relay@later/r0"]);
    }

    #[test]
    fn only_who_has_gone_for_good_is_gone() {
        let gone = |account: &Account| {
            let accounts = [(member(1), account)];
            gone_below(&accounts).map(|(relay, row)| (relay, row.node))
        };
        let rows = [
            Some(Outcome::Complete),
            None,
            Some(Outcome::Late),
            Some(Outcome::Vanished),
        ];
        let mut account = account(&rows, false);
        assert_eq!(gone(&account), Some((member(1), NodeId(103))));
        // It was started again.
        assert!(account.add(&Word::Registered {
            node: NodeId(103),
            name: Bytes::from_static(b"r3"),
        }));
        assert_eq!(gone(&account), None);
    }

    fn failures_of(settled: &[Settled], accounts: &[(MemberId, &Account)]) -> usize {
        let names = BTreeMap::from([(member(1), "relay".to_owned())]);
        all_failures(settled, &names, accounts)
    }

    #[test]
    fn who_came_late_below_a_relay_and_a_former_life_are_no_failures() {
        let rows = [
            Some(Outcome::Complete),
            None,
            Some(Outcome::Late),
            Some(Outcome::Vanished),
        ];
        let mut account = account(&rows, false);
        assert_eq!(failures_of(&[], &[(member(1), &account)]), 1);
        // It was started again, and is on its way.
        let again = |account: &mut Account| {
            assert!(account.add(&Word::Registered {
                node: NodeId(103),
                name: Bytes::from_static(b"r3"),
            }));
        };
        again(&mut account);
        assert_eq!(failures_of(&[], &[(member(1), &account)]), 0);
        // It is gone for good: it is one receiver.
        let (row, outcome) = (4, Outcome::Vanished);
        assert!(account.add(&Word::Settled { row, outcome }));
        assert_eq!(failures_of(&[], &[(member(1), &account)]), 1);
    }

    #[test]
    fn receivers_of_a_relay_that_failed_count_unless_another_relay_serves_them() {
        let relay = (member(1), "relay".to_owned(), Outcome::Vanished);
        let below = account(&[Some(Outcome::Complete), None, None], false);
        let settled = [relay];
        let alone = [(member(1), &below)];
        assert_eq!(
            failures_of(&settled, &alone),
            3,
            "the relay, and two of its receivers"
        );
        let next = account(&[None, Some(Outcome::Complete)], false);
        let both = [(member(1), &below), (member(9), &next)];
        assert_eq!(failures_of(&settled, &both), 2, "the relay, and the third");
    }

    #[test]
    fn a_receiver_that_is_waited_for_and_comes_below_a_relay_is_not_absent() {
        let absent = |node| (member(node), "r0".to_owned(), Outcome::Absent);
        let below = account(&[None], false);
        let accounts = [(member(1), &below)];
        assert_eq!(failures_of(&[absent(100)], &accounts), 0);
        assert_eq!(failures_of(&[absent(7)], &accounts), 1);
    }

    #[test]
    fn a_relay_that_was_cancelled_with_all_others_is_not_named_beside_those_below_it() {
        let account = account(&[Some(Outcome::Vanished), None], false);
        let expected = [
            ("near".to_owned(), Outcome::Complete),
            ("relay/r0".to_owned(), Outcome::Vanished),
            ("relay/r1".to_owned(), Outcome::Cancelled),
        ];
        assert_eq!(all(Outcome::Cancelled, account), expected);
    }

    #[test]
    fn the_word_of_a_relay_that_is_complete_is_that_of_all_below() {
        let account = account(&[Some(Outcome::Complete), None], false);
        let receivers = all(Outcome::Complete, account);
        assert_eq!(receivers.len(), 4);
        assert!(receivers.iter().all(|(_, it)| *it == Outcome::Complete));
    }
}
