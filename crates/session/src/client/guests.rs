//! Requests to groups, handlers and locks: what a client asks and has asked, also in earlier
//! connections. `docs/guests.md` says what is promised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::OrderPlace;

use super::{ClientEvent, Connection, RequestError};
use crate::frame::{ClientFrame, GUESTS, GuestFrame, GuestReply, credit_cost};
use crate::guests::Role;
use crate::name::check_group;

/// What is asked of a group, beside its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// So many answers are enough; 0 (the default) for those of all that are asked.
    pub answers: u16,
    /// The member that has this handler is asked, and nobody else. Default: all that answer.
    pub handler: Option<u16>,
    /// For how long to wait, from when the daemon has read it: 1 ms to 1 hour. Default 10 s.
    pub within: Duration,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            answers: 0,
            handler: None,
            within: Duration::from_secs(10),
        }
    }
}

/// A request that this client is given, as a member of a group. It is not processed before the
/// program has processed it: until it answers, nobody knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Where it stands in the order. An answer names the sequence number.
    pub place: OrderPlace,
    /// The handler that it asks for, which this client had there.
    pub handler: Option<u16>,
    /// The private name of who asks.
    pub guest: String,
    /// The group.
    pub group: String,
    /// What is asked.
    pub payload: Bytes,
}

/// This client as a guest.
#[derive(Debug, Default)]
pub(super) struct GuestSide {
    /// The bits by which it is known.
    id: Option<u64>,
    /// Its last number.
    last: u64,
    /// The last before this connection.
    floor: u64,
    /// The daemon knows which guest it is.
    introduced: bool,
    /// Requests that have not ended.
    open: BTreeMap<u64, GuestFrame>,
    /// Of them, those that have to be sent again.
    repeats: VecDeque<u64>,
    /// The last number of something about roles.
    token: u64,
    /// Groups whose requests it answers.
    answering: BTreeSet<String>,
}

impl GuestSide {
    /// The connection begins anew.
    pub(super) fn restart(&mut self) {
        self.floor = self.last;
        self.introduced = false;
        self.repeats = self.open.keys().copied().collect();
    }

    /// The client is in `group` no more.
    pub(super) fn left(&mut self, group: &str) {
        self.answering.remove(group);
    }
}

impl Connection {
    /// Says by which bits this client is known as a guest: random ones, which nobody else can
    /// guess. They stay when it connects again, so that no request is carried out twice. Without
    /// them [`ask`](Self::ask) fails; later calls change nothing.
    pub fn set_guest(&mut self, id: u64) {
        self.guest.id.get_or_insert(id);
    }

    /// Asks the members of `group` that answer, or the one that has a handler. The number of the
    /// request: 1, 2, … over all connections. What follows with it:
    /// [`Taken`](ClientEvent::Taken) when it has come in the order, an
    /// [`Answer`](ClientEvent::Answer) for each that answers, and [`Ended`](ClientEvent::Ended).
    /// A request that has not ended when the connection does is asked again after
    /// [`restart`](Self::restart); its bytes are kept until then.
    ///
    /// # Errors
    /// Nothing was sent. [`RequestError::NoCredit`] as for messages.
    pub fn ask(&mut self, group: &str, ask: Ask, payload: &[u8]) -> Result<u64, RequestError> {
        check_group(group)?;
        self.check_payload(payload.len())?;
        let id = self.guest.id.ok_or(RequestError::NoGuest)?;
        if !self.has_credit() || !self.guest.repeats.is_empty() {
            return Err(RequestError::NoCredit);
        }
        self.introduce(id);
        let number = self.guest.last + 1;
        let frame = GuestFrame::Request {
            number,
            answers: ask.answers,
            handler: ask.handler,
            within: ask.within,
            group: group.into(),
            payload: Bytes::copy_from_slice(payload),
            stream_len: 0,
        };
        self.guest.last = number;
        self.put_credited(frame.clone());
        self.guest.open.insert(number, frame);
        Ok(number)
    }

    /// Answers the request that this client was given at `seq` ([`Asked::place`]). A second answer,
    /// and one to nothing, goes nowhere.
    ///
    /// # Errors
    /// Nothing was sent. [`RequestError::NoCredit`] as for messages.
    pub fn answer(&mut self, seq: u64, payload: &[u8]) -> Result<(), RequestError> {
        self.check_payload(payload.len())?;
        if !self.has_credit() {
            return Err(RequestError::NoCredit);
        }
        self.put_credited(GuestFrame::Answer {
            seq,
            payload: Bytes::copy_from_slice(payload),
            stream_len: 0,
        });
        Ok(())
    }

    /// Asks for a role in `group`, which this client is in; with `may_wait` it waits while another
    /// has it. The number of this: [`Role`](ClientEvent::Role) follows with it, now and when the
    /// role comes or goes. After [`restart`](Self::restart) only [`Role::Answering`] is asked for
    /// again; handlers and locks went with the connection.
    pub fn claim(&mut self, group: &str, role: Role, may_wait: bool) -> Result<u64, RequestError> {
        check_group(group)?;
        self.check_guests()?;
        self.guest.token += 1;
        let token = self.guest.token;
        self.request(&ClientFrame::Guest(GuestFrame::Claim {
            token,
            may_wait,
            role,
            group: group.into(),
        }))?;
        if role == Role::Answering {
            self.guest.answering.insert(group.into());
        }
        Ok(token)
    }

    /// Gives a role back, or the wait for it. The number of this: [`Role`](ClientEvent::Role)
    /// follows with it.
    pub fn release(&mut self, group: &str, role: Role) -> Result<u64, RequestError> {
        check_group(group)?;
        self.check_guests()?;
        self.guest.token += 1;
        let token = self.guest.token;
        self.request(&ClientFrame::Guest(GuestFrame::Release {
            token,
            role,
            group: group.into(),
        }))?;
        if role == Role::Answering {
            self.guest.answering.remove(group);
        }
        Ok(token)
    }

    /// How many requests of this client have not ended.
    pub fn open_requests(&self) -> usize {
        self.guest.open.len()
    }

    /// The daemon has taken this client: it answers the requests of its groups again.
    pub(super) fn answer_again(&mut self) {
        if self.check_guests().is_err() {
            return;
        }
        for group in self.guest.answering.clone() {
            // The connection has just begun: there is nothing that could refuse it.
            let _ = self.claim(&group, Role::Answering, false);
        }
        self.repeat();
    }

    /// Asks again what has not ended, as far as there is credit.
    pub(super) fn repeat(&mut self) {
        let Some(id) = self.guest.id else {
            return;
        };
        if self.check_guests().is_err() {
            return;
        }
        while self.has_credit()
            && let Some(number) = self.guest.repeats.pop_front()
        {
            if let Some(frame) = self.guest.open.get(&number).cloned() {
                self.introduce(id);
                self.put_credited(frame);
            }
        }
    }

    /// What a daemon says about requests and roles, as an event.
    pub(super) fn take_guest(&mut self, reply: GuestReply, payload: Bytes) -> ClientEvent {
        match reply {
            GuestReply::Request {
                place,
                handler,
                guest,
                group,
            } => ClientEvent::Asked(Asked {
                place,
                handler,
                guest: guest.to_string(),
                group: group.to_string(),
                payload,
            }),
            GuestReply::Taken { number, asked } => ClientEvent::Taken { number, asked },
            GuestReply::Answer { number, from } => ClientEvent::Answer {
                number,
                from: from.to_string(),
                payload,
            },
            GuestReply::Ended {
                number,
                ending,
                answers,
                code,
                text,
            } => {
                self.guest.open.remove(&number);
                ClientEvent::Ended {
                    number,
                    ending,
                    answers,
                    code,
                    text,
                }
            }
            GuestReply::Role(notice) => ClientEvent::Role(notice),
        }
    }

    fn introduce(&mut self, id: u64) {
        if !std::mem::replace(&mut self.guest.introduced, true) {
            let floor = self.guest.floor;
            let frame = GuestFrame::Guest { id, floor };
            self.outgoing.put(&ClientFrame::Guest(frame));
        }
    }

    /// Sends a frame that costs credit.
    fn put_credited(&mut self, frame: GuestFrame) {
        let before = self.outgoing.rest().len();
        self.outgoing.put(&ClientFrame::Guest(frame));
        let len = self.outgoing.rest().len() - before;
        self.publications.charged(credit_cost(len) as u64);
    }

    fn check_payload(&self, len: usize) -> Result<(), RequestError> {
        self.check_end()?;
        self.check_guests()?;
        let max = self.welcome.as_ref().map_or(0, |it| it.message_max);
        match len as u64 > max {
            true => Err(RequestError::TooLarge { len, max }),
            false => Ok(()),
        }
    }

    fn check_guests(&self) -> Result<(), RequestError> {
        let welcome = self.welcome.as_ref().ok_or(RequestError::NotWelcome)?;
        match welcome.features & GUESTS {
            0 => Err(RequestError::NoRequests),
            _ => Ok(()),
        }
    }
}
