//! Requests to groups, handlers and locks (`docs/guests.md`).

use std::io;

use groupcast_session::client::{Ask, Asked, RequestError};
use groupcast_session::guests::Role;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// Asks the members of `group` that answer, or the one that has a handler; whether this client
    /// is in the group makes no difference. Returns the number of the request: 1, 2, … What follows
    /// with it are the events [`Taken`](crate::ClientEvent::Taken),
    /// [`Answer`](crate::ClientEvent::Answer) and, once, [`Ended`](crate::ClientEvent::Ended). What
    /// has not ended when the connection does is asked again by [`reconnect`](Self::reconnect), and
    /// is not carried out twice by any member. Waits for credit as [`publish`](Self::publish) does.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is none, the request is too long, or the daemon
    /// is too old for requests; [`ClientError::Unread`] if it gives no credit while events wait to
    /// be taken. Nothing was sent then. Else the connection has ended, or it does now.
    pub fn ask(&mut self, group: &str, ask: Ask, payload: &[u8]) -> Result<u64, ClientError> {
        loop {
            match self.connection().ask(group, ask, payload) {
                Ok(number) => {
                    self.flush()?;
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
                Ok(()) => return self.flush(),
                Err(RequestError::NoCredit) => self.wait_for_credit()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks for a role in `group`, which this client is in; with `may_wait` it waits while another
    /// has it. Returns the number of this, with which [`Role`](crate::ClientEvent::Role) follows,
    /// now and when the role comes or goes. A role ends with the membership and with the
    /// connection; [`reconnect`](Self::reconnect) asks for [`Role::Answering`] again.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is none or the daemon is too old for roles, and
    /// nothing was sent. Else the connection has ended, or it does now.
    pub fn claim(&mut self, group: &str, role: Role, may_wait: bool) -> Result<u64, ClientError> {
        let token = self.connection().claim(group, role, may_wait)?;
        self.flush()?;
        Ok(token)
    }

    /// Gives a role back, or the wait for it. [`Role`](crate::ClientEvent::Role) follows with the
    /// number that is returned; a role that another has is refused, and the holder named.
    ///
    /// # Errors
    /// [`ClientError::Request`] if the group's name is none or the daemon is too old for roles, and
    /// nothing was sent. Else the connection has ended, or it does now.
    pub fn release(&mut self, group: &str, role: Role) -> Result<u64, ClientError> {
        let token = self.connection().release(group, role)?;
        self.flush()?;
        Ok(token)
    }

    /// How many requests of this client have not ended.
    pub fn open_requests(&mut self) -> usize {
        self.connection().open_requests()
    }
}

/// The bits by which a client is known as a guest.
pub(crate) fn draw_guest() -> io::Result<u64> {
    let mut bits = [0; 8];
    // So few bytes come whole, as soon as the system has any.
    getrandom(&mut bits[..], GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bits))
}
