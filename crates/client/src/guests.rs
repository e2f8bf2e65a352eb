//! Requests to groups, handlers and locks (`docs/guests.md`).

use std::io;

use groupcast_session::client::{Ask, Asked, RequestError};
use groupcast_session::guests::Role;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// Asks the members of `group` that answer requests, or the one that has a handler; this client
    /// need not be in the group. Returns the number of the request: 1, 2, … The events with this
    /// number are [`Taken`](crate::ClientEvent::Taken), [`Answer`](crate::ClientEvent::Answer) and,
    /// once, [`Ended`](crate::ClientEvent::Ended). [`reconnect`](Self::reconnect) repeats a request
    /// that has not ended when the connection does; no member carries it out twice. Waits for
    /// credit as [`publish`](Self::publish) does.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is not allowed, the request is too long, or the
    /// daemon is too old for requests; [`ClientError::Unread`] if the daemon gives no credit while
    /// events wait to be taken. Nothing was sent then. Any other error means that the connection
    /// has ended.
    pub fn ask(&mut self, group: &str, ask: Ask, payload: &[u8]) -> Result<u64, ClientError> {
        loop {
            match self.connection().ask(group, ask, payload) {
                Ok(number) => {
                    self.write_gathered()?;
                    return Ok(number);
                }
                Err(RequestError::NoCredit) => self.wait_for_credit()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers a request that came as [`Asked`](crate::ClientEvent::Asked). Only the first answer
    /// counts. Waits for credit as [`publish`](Self::publish) does.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn answer(&mut self, asked: &Asked, payload: &[u8]) -> Result<(), ClientError> {
        loop {
            match self.connection().answer(asked.place.seq, payload) {
                Ok(()) => return self.write_gathered(),
                Err(RequestError::NoCredit) => self.wait_for_credit()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Claims a role in `group`, which this client must be in; with `may_wait` it waits while
    /// another client has it. Returns the number of the claim: [`Role`](crate::ClientEvent::Role)
    /// events with it follow, now and when the role comes or goes. A role ends with the membership
    /// and with the connection; [`reconnect`](Self::reconnect) claims [`Role::Answering`] again.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is not allowed or the daemon is too old for
    /// roles; nothing was sent then. Any other error means that the connection has ended.
    pub fn claim(&mut self, group: &str, role: Role, may_wait: bool) -> Result<u64, ClientError> {
        let token = self.connection().claim(group, role, may_wait)?;
        self.write_gathered()?;
        Ok(token)
    }

    /// Gives a role back, or stops waiting for it. Returns a number: a
    /// [`Role`](crate::ClientEvent::Role) event with it follows. To give back a role that another
    /// client has is refused, and the event names the holder.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is not allowed or the daemon is too old for
    /// roles; nothing was sent then. Any other error means that the connection has ended.
    pub fn release(&mut self, group: &str, role: Role) -> Result<u64, ClientError> {
        let token = self.connection().release(group, role)?;
        self.write_gathered()?;
        Ok(token)
    }

    /// How many requests of this client have not ended.
    pub fn open_requests(&mut self) -> usize {
        self.connection().open_requests()
    }
}

/// Draws the random bits by which a client is known as a guest.
pub(crate) fn draw_guest() -> io::Result<u64> {
    let mut bits = [0; 8];
    // The system gives this few bytes in one call.
    getrandom(&mut bits[..], GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bits))
}
