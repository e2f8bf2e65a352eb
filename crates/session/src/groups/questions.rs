//! What clients ask about the daemon, which the daemon answers: it knows more than the engine does.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use bytes::Bytes;

use super::{ClientId, Engine, Transport};
use crate::frame::DaemonFrame;

/// Questions of one client that may wait; more are not answered twice.
const QUESTIONS_MAX: usize = 16;

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// How the daemon is: answered in JSON.
    Status,
    /// Which groups there are: answered in JSON.
    Groups,
    /// To change the cluster's key to that of a file on this host: answered in JSON. Of clients on
    /// the Unix socket only.
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
    pub fn answer(&mut self, client: ClientId, question: Question, json: Bytes) {
        let frame = match question {
            Question::Status => DaemonFrame::StatusReport(json),
            Question::Groups => DaemonFrame::GroupsReport(json),
            Question::Rekey(_) => DaemonFrame::RekeyReport(json),
        };
        self.send(client, &frame);
    }

    /// A client gives a new key. One of another host names files that are not there, and has no
    /// business with this host's.
    pub(super) fn ask_rekey(&mut self, client: ClientId, path: Vec<u8>) {
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
        self.send(client, &DaemonFrame::RekeyReport(error.into()));
    }

    /// The user at the other end of a client's Unix socket, if the system said who that is.
    pub fn user_of(&self, client: ClientId) -> Option<u32> {
        self.clients.get(client)?.user
    }

    /// Notes a question; a client that asks without waiting for answers gets fewer.
    pub(super) fn ask(&mut self, client: ClientId, question: Question) {
        if let Some(asker) = self.clients.get_mut(client)
            && asker.questions < QUESTIONS_MAX
        {
            asker.questions += 1;
            self.questions.push_back((client, question));
        }
    }
}
