//! Requests to groups, handlers and locks at the client: numbers its requests, and asks again after
//! a reconnect what has not ended. `docs/guests.md` has the guarantees.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::OrderPlace;

use super::{ClientEvent, Connection, RequestError};
use crate::frame::{ClientFrame, GUESTS, GuestFrame, GuestReply, credit_cost};
use crate::guests::Role;
use crate::name::check_group;

/// The options of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// How many answers are enough; 0 (the default) for those of all members that are asked.
    pub answers: u16,
    /// Asks only the member that has this handler. Default: all members that answer requests.
    pub handler: Option<u16>,
    /// For how long to wait, from when the daemon has read the request: 1 ms to 1 hour. Default 10
    /// s.
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

/// A request to this client, as a member of a group. Until the program answers, no other process
/// knows that it was processed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Its place in the order. An answer names the sequence number; where the daemon is in several
    /// orders, that may be a later one than the request's.
    pub place: OrderPlace,
    /// The handler that it asks for, which this client had at that place.
    pub handler: Option<u16>,
    /// The private name of the client that asks.
    pub guest: String,
    /// The group.
    pub group: String,
    /// The request's bytes.
    pub payload: Bytes,
}

/// This client as a guest.
#[derive(Debug, Default)]
pub(super) struct GuestSide {
    /// The 64 bits by which it is known.
    id: Option<u64>,
    /// The number of its last request.
    last: u64,
    /// The number of its last request before this connection.
    floor: u64,
    /// The daemon knows which guest it is.
    introduced: bool,
    /// Requests that have not ended.
    open: BTreeMap<u64, GuestFrame>,
    /// Those of them that have to be sent again.
    repeats: VecDeque<u64>,
    /// The last number of a claim or a release.
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

    /// The client has left `group`.
    pub(super) fn left(&mut self, group: &str) {
        self.answering.remove(group);
    }
}

impl Connection {
    /// Sets the bits by which this client is known as a guest: random ones, which nobody else can
    /// guess. They stay when it connects again, so that no request is carried out twice. Without
    /// them [`ask`](Self::ask) fails; later calls change nothing.
    pub fn set_guest(&mut self, id: u64) {
        self.guest.id.get_or_insert(id);
    }

    /// Asks the members of `group` that answer requests, or the one that has a handler. Returns the
    /// number of the request: 1, 2, … over all connections. The events with this number are
    /// [`Taken`](ClientEvent::Taken) when the request has come to its place in the order, an
    /// [`Answer`](ClientEvent::Answer) for each member that answers, and
    /// [`Ended`](ClientEvent::Ended). A request that has not ended when the connection does is
    /// asked again after [`restart`](Self::restart); its bytes are kept until it has ended.
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

    /// Answers the request that this client was given at `seq` ([`Asked::place`]). The daemon
    /// ignores a second answer, and one to no request.
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
    /// client has it. Returns the number of the claim: [`Role`](ClientEvent::Role) events with it
    /// follow, now and when the role comes or goes. After [`restart`](Self::restart) only
    /// [`Role::Answering`] is asked for again; handlers and locks were lost with the connection.
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

    /// Gives a role back, or stops waiting for it. Returns a number: a [`Role`](ClientEvent::Role)
    /// event with it follows.
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

    /// The daemon has welcomed this client: claims [`Role::Answering`] again where it had it, and
    /// repeats requests.
    pub(super) fn answer_again(&mut self) {
        if self.check_guests().is_err() {
            return;
        }
        for group in self.guest.answering.clone() {
            // The connection has just begun, so a claim cannot fail.
            let _ = self.claim(&group, Role::Answering, false);
        }
        self.repeat();
    }

    /// Sends requests that have not ended again, as far as there is credit.
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

    /// Turns a frame about requests and roles into an event.
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
