//! What clients ask about the daemon, which the daemon answers: it knows more than the engine does.

use bytes::Bytes;

use super::{ClientId, Engine};
use crate::frame::DaemonFrame;

/// Questions of one client that may wait; more are not answered twice.
const QUESTIONS_MAX: usize = 16;

/// What a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// How the daemon is: answered in JSON.
    Status,
    /// Which groups there are: answered in JSON.
    Groups,
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
        };
        self.send(client, &frame);
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
