//! Early delivery: messages that are delivered before they are ordered, without a place.
//!
//! - FIFO: who delivers a `fifo` message early has delivered, or reported as lost, every earlier
//!   message of its sender that is promised that order and that anybody delivers in the same
//!   configuration. (That none of them comes later is the rule `fifo`.)
//! - The same set: members that move together delivered the same early messages in the
//!   configuration that they leave, each in its regular or in its transitional part: what one
//!   delivered early is carried to those that go along.
//!
//! 000 ch. 2 (unordered and source-ordered delivery) with EVS 4 (failure atomicity).

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{ConfigurationKind, Service};

use super::{At, End};
use crate::ledger::{ConfigIx, Ledger, MemberIx, MessageIx, Step};
use crate::violation::Violations;

pub(crate) struct Rule;

impl super::Rule for Rule {
    fn name(&self) -> &'static str {
        "early"
    }

    fn step(&self, at: &At<'_>, step: &Step<'_>, found: &mut Violations) {
        if let Step::Install {
            kind: ConfigurationKind::Regular,
            config,
            ..
        } = *step
        {
            check_same(at, config, found);
        }
    }

    fn finish(&self, end: &End<'_>, found: &mut Violations) {
        let delivered = delivered(end.ledger);
        for (observer, life) in end.ledger.observers() {
            for index in 0..life.stays.len() {
                let of_config = delivered.get(&life.stays[index].config);
                let of_config = of_config.into_iter().flatten().copied();
                check_holes(end, observer, index, of_config, found);
            }
        }
    }
}

/// Whether the observer, which goes on to `config`, delivered the same early messages as the first
/// that went the same way.
fn check_same(at: &At<'_>, config: ConfigIx, found: &mut Violations) {
    let (ledger, life) = (at.ledger, at.life());
    let Some(stay) = life.stay() else { return };
    let (Some(transitional), Some(first)) =
        (stay.transitional, ledger.transition(stay.config, config))
    else {
        return;
    };
    if transitional.set != first.set {
        return;
    }
    let set = |messages: &[MessageIx]| messages.iter().copied().collect::<BTreeSet<_>>();
    let mine = set(life.early_in(life.stays.len() - 1));
    let theirs = set(ledger.life(first.by).early_in(first.stay));
    let lacks = theirs.difference(&mine).next();
    if let Some(message) = lacks.or_else(|| mine.difference(&theirs).next()) {
        at.report(found, || {
            let (message, by) = (ledger.call_message(*message), ledger.call_member(first.by));
            let has = if lacks.is_some() {
                "lacks"
            } else {
                "delivered"
            };
            let config = ledger.call_config(stay.config);
            format!("moved on from {config} together with {by}, but {has} {message} alone")
        });
    }
}

/// What anybody delivered in each configuration, placed or early.
fn delivered(ledger: &Ledger) -> BTreeMap<ConfigIx, BTreeSet<MessageIx>> {
    let mut delivered: BTreeMap<ConfigIx, BTreeSet<MessageIx>> = BTreeMap::new();
    for (ix, config) in ledger.configs() {
        let placed = config.order.values().copied();
        delivered.entry(ix).or_default().extend(placed);
    }
    for (_, life) in ledger.observers() {
        for (index, stay) in life.stays.iter().enumerate() {
            let early = life.early_in(index).iter().copied();
            delivered.entry(stay.config).or_default().extend(early);
        }
    }
    delivered
}

/// Whether the observer delivered a FIFO message early, in its stay number `index`, without an
/// earlier one of the same sender among those of that configuration.
fn check_holes(
    end: &End<'_>,
    observer: MemberIx,
    index: usize,
    of_config: impl Iterator<Item = MessageIx>,
    found: &mut Violations,
) {
    let ledger = end.ledger;
    let life = ledger.life(observer);
    let service = |message: MessageIx| {
        let sighting = ledger.message(message).sighting;
        sighting.map_or(Service::Unreliable, |first| first.service)
    };
    let mut last: BTreeMap<MemberIx, MessageIx> = BTreeMap::new();
    for message in life.early_in(index).iter().copied() {
        if service(message) == Service::Fifo {
            let of_sender = last
                .entry(ledger.message(message).sender)
                .or_insert(message);
            if ledger.message(*of_sender).id.number < ledger.message(message).id.number {
                *of_sender = message;
            }
        }
    }
    for missed in of_config.filter(|it| service(*it).is_fifo() && !life.has(*it)) {
        let record = ledger.message(missed);
        let behind = last.get(&record.sender).copied();
        let behind = behind.filter(|last| record.id.number < ledger.message(*last).id.number);
        if let Some(last) = behind.filter(|_| !life.has_reported(record.sender, record.id.number)) {
            end.report(found, observer, || {
                let (last, missed) = (ledger.call_message(last), ledger.call_placed(missed));
                format!("delivers {last} early without {missed}, which others delivered")
            });
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::Contract;

    use crate::story::Story;

    fn accept(text: &str) {
        Story::of(text).under(Contract::OrderedEarly).accept();
    }

    fn reject(rule: &str, text: &str) {
        Story::of(text).under(Contract::OrderedEarly).reject(rule);
    }

    const TWO: &str = "a,b regular 1a ab; a submit a1 fifo; a submit a2 reliable; a submit a3 fifo;
        a submit a4 agreed; a deliver a1 -; a deliver a2 -; a deliver a3 -; a deliver a4 1a:4";
    const END: &str = "a,b transitional 1a ab; a,b regular 2a ab";

    #[test]
    fn reliable_messages_come_in_any_order_and_fifo_ones_behind_each_other() {
        accept(&format!(
            "{TWO}; b deliver a1 -; b deliver a3 -; b deliver a2 -"
        ));
        accept(&format!(
            "{TWO}; b deliver a2 -; b deliver a1 -; b deliver a3 -"
        ));
        reject("fifo", &format!("{TWO}; b deliver a3 -; b deliver a1 -"));
        reject("early", &format!("{TWO}; b deliver a3 -"));
    }

    #[test]
    fn a_fifo_message_waits_for_earlier_ones_of_every_service_but_reliable() {
        let story = "a,b regular 1a ab; a submit a1 safe; a submit a2 fifo; a deliver a1 1a:1;
            a deliver a2 -";
        accept(&format!("{story}; b deliver a1 1a:1; b deliver a2 -"));
        reject(
            "fifo",
            &format!("{story}; b deliver a2 -; b deliver a1 1a:1"),
        );
        reject("early", &format!("{story}; b deliver a2 -"));
    }

    #[test]
    fn who_moves_together_delivered_the_same_early_messages() {
        let all = "b deliver a1 -; b deliver a2 -; b deliver a3 -; b deliver a4 1a:4";
        accept(&format!("{TWO}; {all}; {END}"));
        let late = "a,b regular 1a ab; a submit a1 fifo; a submit a2 fifo; a deliver a1 -;
            a deliver a2 -; b deliver a1 -; a,b transitional 1a ab; b deliver a2 -;
            a,b regular 2a ab";
        accept(late);
        let without = "b deliver a1 -; b deliver a3 -; b deliver a4 1a:4";
        reject("early", &format!("{TWO}; {without}; {END}"));
        let apart = "b transitional 1a b; b regular 2b b; a transitional 1a a; a regular 2a a";
        accept(&format!("{TWO}; {without}; {apart}"));
    }

    #[test]
    fn nothing_is_delivered_early_twice() {
        reject(
            "integrity",
            &format!("{TWO}; b deliver a1 -; b deliver a1 -"),
        );
        reject(
            "agreed",
            &format!("{TWO}; b deliver a1 -; b deliver a2 -; b deliver a4 -"),
        );
    }
}
