//! A relay receives transfers of one group, and sends them on into another, in pieces as they come.
//! It writes nothing to a disk.
//!
//! Here are the two hosts and their loop, on one thread. [`groupcast_protocols::relay`] passes the
//! data between them and keeps the accounts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use groupcast_core::MemberId;
use groupcast_core::text::printable;
use groupcast_net::{Clock, Stranger};
use groupcast_protocols::bulk::{BulkConfig, Notice, Outcome, Served, SlowPolicy, TransferId};
use groupcast_protocols::relay::{Carries, Relay, RelayConfig, RelayEvent as Passed, Sides};
use groupcast_protocols::xgm::Subgroups;

use crate::about::{About, AboutConnection, AboutRequest, Content};
use crate::host::{BulkHost, PATIENCE, TransferError, TransferLink};
use crate::manifest::{ContentId, Limits};
use crate::receive::Described;

/// A relay to be run.
#[derive(Clone, Debug)]
pub struct Relaying {
    /// The group that it receives from. Its receivers stand in accounts under its name there.
    pub from: TransferLink,
    /// The group that it sends into, which must be another one. Its settings are made by
    /// [`below`](Self::below).
    pub to: TransferLink,
}

impl Relaying {
    /// The settings of the side that sends: one pass, in which all wait for the slowest receiver,
    /// and which begins when the relay says so: `register_within` is a day, that is, never over
    /// before that.
    pub fn below(bulk: BulkConfig) -> BulkConfig {
        BulkConfig {
            slow: SlowPolicy::Wait,
            register_within: Duration::from_secs(86_400),
            ..bulk
        }
    }
}

/// A side of a relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The group that it receives from.
    From,
    /// The group that it sends into.
    To,
}

/// An event at a relay.
#[derive(Debug)]
#[non_exhaustive]
pub enum RelayEvent<'a> {
    /// The relay is ready for transfers.
    Listening,
    /// A transfer is relayed to the receivers below that have registered.
    Accepted {
        /// The transfer.
        transfer: &'a Described,
        /// How many receivers that are.
        receivers: usize,
    },
    /// A transfer is not relayed.
    Refused {
        /// The transfer.
        transfer: &'a Described,
        /// The reason, in words.
        reason: &'a str,
    },
    /// A receiver takes part below.
    Registered {
        /// The transfer.
        transfer: &'a Described,
        /// The name of the receiver; below another relay `relay/name`.
        receiver: &'a str,
    },
    /// When the relay is served has changed, and so it has for the receivers below.
    Served {
        /// The transfer.
        transfer: &'a Described,
        /// When.
        served: Served,
    },
    /// A receiver below is settled.
    Settled {
        /// The transfer.
        transfer: &'a Described,
        /// The name of the receiver.
        receiver: &'a str,
        /// The outcome at the receiver.
        outcome: &'a Outcome,
    },
    /// A receiver below came too late. It gets nothing, and is in no account; the sender is told.
    CameLate {
        /// The transfer.
        transfer: &'a Described,
        /// The name of the receiver.
        receiver: &'a str,
    },
    /// A transfer has ended here.
    Done {
        /// The transfer.
        transfer: &'a Described,
        /// How many receivers below are complete.
        complete: usize,
        /// How many are not.
        failed: usize,
        /// How many bytes came.
        received: u64,
        /// The time since it was announced.
        took: Duration,
        /// Why it is not complete for all, for people.
        problem: Option<&'a str>,
    },
    /// A program with another key, or of another release, sends to one of the groups; reported once
    /// for each of the two.
    Stranger {
        /// The group that it sends to.
        side: Side,
        /// The sender.
        stranger: Stranger,
    },
    /// The relay cannot join or leave one of the groups, or not at the address that the interface
    /// there has now. It tries again each second; reported once until that works.
    Trouble {
        /// The group.
        side: Side,
        /// What it cannot, and why, in words.
        problem: &'a str,
    },
    /// Something that goes on in spite of it, and that a user could do something about: the receive
    /// buffer is smaller than asked for.
    Warning {
        /// The group.
        side: Side,
        /// What it is, in words.
        problem: &'a str,
    },
}

/// The totals of a relay that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Relayed {
    /// How many transfers are complete at all receivers below.
    pub complete: usize,
    /// How many are not.
    pub failed: usize,
}

/// Relays until `stop` is set; transfers under way end then, and both sides are told. `tell` gets
/// the events.
///
/// # Errors
/// If the two groups are one, or the network cannot be used.
pub fn relay(
    relaying: Relaying,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(RelayEvent<'_>),
) -> Result<Relayed, TransferError> {
    let Relaying { from, mut to } = relaying;
    if from.group == to.group {
        return Err(TransferError::SameGroup { group: from.group });
    }
    to.bulk = Relaying::below(to.bulk);
    let clock = Clock::start();
    let mut upper = BulkHost::open_by(&from, clock)?;
    // It does not know the subgroups of the receivers below, so it is in all.
    upper.join(Some(Subgroups::ALL));
    let lower = BulkHost::open_by(&to, clock)?;
    upper.wake_on(lower.as_raw_fd())?;
    let mut service = Service {
        upper,
        lower,
        relay: Relay::new(RelayConfig::new(from.name.as_bytes())),
        name: from.name,
        shown: BTreeMap::new(),
        refused: VecDeque::new(),
        totals: Relayed::default(),
    };
    tell(RelayEvent::Listening);
    while !stop.load(Ordering::Relaxed) {
        service.turn(PATIENCE)?;
        service.take(tell);
        service.tell_trouble(tell);
    }
    service.stop(tell)?;
    Ok(service.totals)
}

struct Service {
    upper: BulkHost,
    lower: BulkHost,
    relay: Relay,
    name: String,
    /// Descriptions of the transfers under way, and when they began; lists are not in it.
    shown: BTreeMap<TransferId, (Described, Instant)>,
    /// The files whose list was refused, which the user was told, until they come themselves: their
    /// sender, their content, and the reason.
    refused: VecDeque<(MemberId, ContentId, String)>,
    totals: Relayed,
}

impl Service {
    /// How many turns the last words to both sides need.
    const LAST_TURNS: usize = 3;
    /// The most refused lists that are remembered.
    const REFUSED_MAX: usize = 16;

    /// One turn of both hosts. All events have to be taken before.
    fn turn(&mut self, patience: Duration) -> Result<(), TransferError> {
        self.lower.flush();
        let patience = patience.min(self.lower.due_within());
        self.upper.turn(patience)?;
        self.lower.turn(Duration::ZERO)
    }

    fn sides(&mut self) -> (&mut Relay, Sides<'_>) {
        let (upper, told) = self.upper.relayed();
        let (lower, kept) = self.lower.relayed();
        let sides = Sides {
            upper,
            lower,
            told,
            kept,
        };
        (&mut self.relay, sides)
    }

    /// Passes the events of both hosts to the relay, and lets it work.
    fn take(&mut self, tell: &mut dyn FnMut(RelayEvent<'_>)) {
        let now = self.upper.now();
        while let Some(event) = self.lower.poll_account() {
            let (relay, mut sides) = self.sides();
            relay.hear_account(now, &mut sides, &event);
        }
        // Announcements below come first: they show whether an announcement above is this relay's
        // own.
        while let Some(notice) = self.lower.poll_event() {
            let (relay, mut sides) = self.sides();
            relay.hear_lower(now, &mut sides, notice);
        }
        while let Some(notice) = self.upper.poll_event() {
            match notice {
                Notice::Announced { id, about, length } => self.announced(id, &about, length, tell),
                notice => {
                    let (relay, mut sides) = self.sides();
                    relay.hear_upper(now, &mut sides, notice);
                }
            }
        }
        let (relay, mut sides) = self.sides();
        relay.work(now, &mut sides);
        while let Some(event) = self.relay.poll_event() {
            self.tell(&event, tell);
        }
    }

    fn announced(
        &mut self,
        id: TransferId,
        about: &Bytes,
        length: Option<u64>,
        tell: &mut dyn FnMut(RelayEvent<'_>),
    ) {
        if AboutRequest::is_announced(about) || AboutConnection::is_announced(about) {
            // It is for those that answer requests, or listen.
            return;
        }
        let now = self.upper.now();
        let described = match About::decode(about, length, &Limits::default()) {
            Ok(about) => about,
            Err(error) => {
                let transfer = &Described {
                    id,
                    label: String::new(),
                    sender: id.sender.to_string(),
                    length,
                };
                let reason = &format!("not understood: {error}");
                let name = self.name.as_bytes();
                self.upper.bulk().refuse(now, id, reason, name);
                return tell(RelayEvent::Refused { transfer, reason });
            }
        };
        let carries = match described.content {
            Content::Files { .. } => Carries::Files,
            Content::Pipe => Carries::Stream,
            Content::List { .. } => Carries::List,
        };
        let content = described.content_id();
        let described = Described {
            id,
            label: printable(described.label.as_bytes()),
            sender: printable(described.host.as_bytes()),
            length: match described.content {
                Content::List { layout, .. } => Some(layout.len()),
                Content::Files { .. } | Content::Pipe => length,
            },
        };
        let (relay, mut sides) = self.sides();
        relay.offered(now, &mut sides, id, about, length, carries);
        let is_list = carries == Carries::List;
        if !is_list {
            self.shown.insert(id, (described.clone(), Instant::now()));
        }
        while let Some(event) = self.relay.poll_event() {
            match event {
                Passed::Refused { id: of, reason } if of == id => {
                    self.shown.remove(&id);
                    self.tell_refused(&described, content, is_list, &reason, tell);
                }
                event => self.tell(&event, tell),
            }
        }
    }

    /// Tells the user that the relay does not take what was just announced: once, of files that are
    /// announced with their list first.
    fn tell_refused(
        &mut self,
        transfer: &Described,
        content: Option<ContentId>,
        is_list: bool,
        reason: &str,
        tell: &mut dyn FnMut(RelayEvent<'_>),
    ) {
        let sender = transfer.id.sender;
        let is_it = |it: &(MemberId, ContentId, String)| {
            it.0 == sender && Some(it.1) == content && it.2 == reason
        };
        let told = self.refused.iter().position(is_it);
        match (told, content) {
            (Some(_), _) if is_list => return,
            (Some(told), _) => {
                self.refused.remove(told);
                return;
            }
            (None, Some(content)) if is_list => {
                self.refused.truncate(Self::REFUSED_MAX - 1);
                let refused = (sender, content, reason.to_owned());
                self.refused.push_front(refused);
            }
            (None, _) => {}
        }
        tell(RelayEvent::Refused { transfer, reason });
    }

    /// Tells the user of an event. Lists are no transfers of the user's, and left out.
    fn tell(&mut self, event: &Passed, tell: &mut dyn FnMut(RelayEvent<'_>)) {
        let id = match event {
            Passed::Refused { id, .. }
            | Passed::Accepted { id, .. }
            | Passed::Registered { id, .. }
            | Passed::Served { id, .. }
            | Passed::Settled { id, .. }
            | Passed::CameLate { id, .. }
            | Passed::Concluded { id, .. } => *id,
            _ => return,
        };
        let Some((transfer, since)) = self.shown.get(&id) else {
            return;
        };
        match event {
            Passed::Refused { reason, .. } => tell(RelayEvent::Refused { transfer, reason }),
            Passed::Accepted { receivers, .. } => {
                let receivers = *receivers;
                tell(RelayEvent::Accepted {
                    transfer,
                    receivers,
                });
            }
            Passed::Registered { name, .. } => {
                let receiver = &printable(name);
                tell(RelayEvent::Registered { transfer, receiver });
            }
            Passed::Served { served, .. } => {
                let served = *served;
                tell(RelayEvent::Served { transfer, served });
            }
            Passed::Settled { name, outcome, .. } => {
                let receiver = &printable(name);
                tell(RelayEvent::Settled {
                    transfer,
                    receiver,
                    outcome,
                });
            }
            Passed::CameLate { name, .. } => {
                let receiver = &printable(name);
                tell(RelayEvent::CameLate { transfer, receiver });
            }
            Passed::Concluded {
                complete,
                failed,
                bytes,
                result,
                ..
            } => {
                match result {
                    Ok(()) => self.totals.complete += 1,
                    Err(_) => self.totals.failed += 1,
                }
                tell(RelayEvent::Done {
                    transfer,
                    complete: *complete,
                    failed: *failed,
                    received: *bytes,
                    took: since.elapsed(),
                    problem: result.as_ref().err().map(String::as_str),
                });
            }
            _ => {}
        }
        if matches!(event, Passed::Refused { .. } | Passed::Concluded { .. }) {
            self.shown.remove(&id);
        }
    }

    fn tell_trouble(&mut self, tell: &mut dyn FnMut(RelayEvent<'_>)) {
        for (side, host) in [(Side::From, &mut self.upper), (Side::To, &mut self.lower)] {
            while let Some(stranger) = host.poll_stranger() {
                tell(RelayEvent::Stranger { side, stranger });
            }
            if let Some(problem) = host.poll_trouble() {
                let problem = &problem;
                tell(RelayEvent::Trouble { side, problem });
            }
            while let Some(problem) = host.poll_warning() {
                let problem = &problem;
                tell(RelayEvent::Warning { side, problem });
            }
        }
    }

    /// Ends all transfers, and sends the last words to both sides.
    fn stop(&mut self, tell: &mut dyn FnMut(RelayEvent<'_>)) -> Result<(), TransferError> {
        let now = self.upper.now();
        let (relay, mut sides) = self.sides();
        relay.stop(now, &mut sides);
        for _ in 0..Self::LAST_TURNS {
            self.take(tell);
            self.turn(Duration::ZERO)?;
        }
        self.take(tell);
        Ok(())
    }
}
