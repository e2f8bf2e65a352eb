//! Questions of clients about the daemon. The engine queues them, and the daemon answers: it knows
//! more than the engine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use groupcast_core::Time;

use super::{ClientId, Engine, Transport};
use crate::frame::DaemonFrame;

/// The most questions of one client that wait; further ones are skipped.
const QUESTIONS_MAX: usize = 16;

/// A question of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// The daemon's status: answered in JSON.
    Status,
    /// The groups that there are: answered in JSON.
    Groups,
    /// To change the cluster's key to the key in a file on this host: answered in JSON. Only
    /// clients on the Unix socket may ask.
    Rekey(PathBuf),
}

impl Engine {
    /// The next question of a client; answer it by [`answer`](Self::answer).
    pub fn poll_question(&mut self) -> Option<(ClientId, Question)> {
        while let Some((id, question)) = self.questions.pop_front() {
            if let Some(client) = self.clients.get_mut(id) {
                client.questions -= 1;
                return Some((id, question));
            }
        }
        None
    }

    /// Whether questions wait.
    pub fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Answers a question in JSON. Nothing happens if the client has gone.
    pub fn answer(&mut self, now: Time, client: ClientId, question: Question, json: Bytes) {
        let frame = match question {
            Question::Status => DaemonFrame::StatusReport(json),
            Question::Groups => DaemonFrame::GroupsReport(json),
            Question::Rekey(_) => DaemonFrame::RekeyReport(json),
        };
        self.reply(now, client, &frame);
    }

    /// A client asks to change the key to that of a file. Refused over TCP: a client of another
    /// host must not have this host's files read.
    pub(super) fn ask_rekey(&mut self, now: Time, client: ClientId, path: Vec<u8>) {
        let Some(asker) = self.clients.get(client) else {
            return;
        };
        let error = if asker.transport != Transport::Unix {
            "{\"error\":\"a daemon takes a new key over its Unix socket only\"}"
        } else if !self.access.allows_rekey(asker.origin(), self.own_user) {
            "{\"error\":\"the daemon's access rules do not let this user change the key: without one that gives \
             `rekey`, only root and the daemon's own user may\"}"
        } else {
            let path = PathBuf::from(OsString::from_vec(path));
            return self.ask(client, Question::Rekey(path));
        };
        self.reply(now, client, &DaemonFrame::RekeyReport(error.into()));
    }

    /// The user at the other end of a client's Unix socket, if the system said who that is.
    pub fn user_of(&self, client: ClientId) -> Option<u32> {
        self.clients.get(client)?.user
    }

    /// Queues a question, unless [`QUESTIONS_MAX`] of the client wait already.
    pub(super) fn ask(&mut self, client: ClientId, question: Question) {
        if let Some(asker) = self.clients.get_mut(client)
            && asker.questions < QUESTIONS_MAX
        {
            asker.questions += 1;
            self.questions.push_back((client, question));
        }
    }
}
