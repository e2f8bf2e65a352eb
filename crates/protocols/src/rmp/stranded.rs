//! A member that lacks what nobody brings goes on alone (ours).
//!
//! What members declare of their old configuration is true, and those that go along bring it to
//! each other. But a member that breaks the rules, and has the key, can make others believe what
//! cannot be: two packets at one position, or that all hold what one of them lacks. Once it is
//! gone, nobody has what follows from that, and a member that waits for it would keep the group
//! from forming for ever. So such a member finishes its old configuration as one that is cut off:
//! by itself, with its obligations. Then it comes from another configuration than the others, lacks
//! nothing of theirs, and is let in.

use groupcast_core::Time;

use super::order::Order;
use super::polling::Polling;
use super::recovering::Recovering;
use super::{Rmp, State};

/// A member goes on alone after this many recoveries in a row that brought it nothing: one more
/// than those after which a member that did not accept is left out.
const VAIN_MAX: u32 = 3;

/// Recoveries of one configuration at a member that did not get all that it must hold.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct Vain {
    /// How many in a row brought nothing.
    times: u32,
    /// How much was held when the last one began.
    amount: u64,
}

impl Order {
    /// How many places and packets were ever held here: what others bring adds to it.
    fn amount(&self) -> u64 {
        let places = (self.places.aru() + 1..=self.places.high())
            .filter(|seq| self.places.get(*seq).is_some())
            .count() as u64;
        let packets = self.sites.iter().map(|site| {
            let packets = &site.packets;
            let above = (packets.aru() + 1..=packets.high())
                .filter(|number| packets.get(*number).is_some())
                .count() as u64;
            packets.aru() + above
        });
        self.places.aru() + places + packets.sum::<u64>()
    }
}

impl Recovering {
    /// It begins at `now`.
    pub(super) fn begin(&mut self, now: Time) {
        self.begun = now;
        if let Some(old) = &mut self.old {
            old.vain.amount = old.amount();
        }
    }
}

impl Rmp {
    /// The recovery under way ends, and its configuration was not installed. True if this member
    /// went on alone, since nobody has what it lacks.
    pub(super) fn ends_stranded(&mut self, now: Time) -> bool {
        let half = self.config.recover_wait / 2;
        let State::Recovering(recovering) = &mut self.state else {
            return false;
        };
        let (complete, lasted) = (recovering.complete, now.since(recovering.begun));
        let Some(old) = &mut recovering.old else {
            return false;
        };
        if complete || old.amount() > old.vain.amount {
            old.vain = Vain::default();
        } else if lasted >= half {
            old.vain.times += 1;
        }
        let stranded = old.vain.times >= VAIN_MAX;
        if stranded {
            self.go_on_alone(now);
        }
        stranded
    }

    fn go_on_alone(&mut self, now: Time) {
        let mut seed = Polling::default();
        seed.failed.extend(self.together());
        self.poll(now, "nobody has what it lacks", seed);
        self.propose(now);
    }
}
