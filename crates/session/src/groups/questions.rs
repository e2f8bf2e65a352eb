//! Questions of clients about the daemon. The engine queues them, and the daemon answers: it knows
//! more than the engine.
//!
//! Clients are answered in rotation, one question each, so that one that asks much keeps no other
//! waiting. A change of the key goes before all other questions.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use groupcast_core::Time;

use super::{ClientId, Engine, Transport};
use crate::frame::{DaemonFrame, encode_report_head, kind};

/// The most questions of one client, of one kind, that wait; further ones are skipped.
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

/// The questions that wait.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// About administration: they go first.
    of_administration: Rotation,
    others: Rotation,
}

impl Questions {
    /// The client asks, unless as many questions of it wait as may.
    fn push(&mut self, client: ClientId, question: Question) {
        match question {
            Question::Rekey(_) => self.of_administration.push(client, question),
            Question::Status | Question::Groups => self.others.push(client, question),
        }
    }

    fn pop(&mut self) -> Option<(ClientId, Question)> {
        self.of_administration.pop().or_else(|| self.others.pop())
    }

    /// The client is gone, with its questions.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.of_administration.forget(client);
        self.others.forget(client);
    }

    fn is_empty(&self) -> bool {
        self.of_administration.turns.is_empty() && self.others.turns.is_empty()
    }
}

/// Questions of one kind. Each client with some has a place in the queue.
#[derive(Debug, Default)]
struct Rotation {
    /// The client at each place; the lowest is next.
    turns: BTreeMap<u64, ClientId>,
    /// The place and the questions of each client.
    asked: BTreeMap<ClientId, (u64, VecDeque<Question>)>,
    /// Places that were given.
    places: u64,
}

impl Rotation {
    fn push(&mut self, client: ClientId, question: Question) {
        if let Some((_, questions)) = self.asked.get_mut(&client) {
            if questions.len() < QUESTIONS_MAX {
                questions.push_back(question);
            }
            return;
        }
        self.wait(client, VecDeque::from([question]));
    }

    fn pop(&mut self) -> Option<(ClientId, Question)> {
        let (_, client) = self.turns.pop_first()?;
        let (_, mut questions) = self.asked.remove(&client)?;
        let question = questions.pop_front()?;
        if !questions.is_empty() {
            self.wait(client, questions);
        }
        Some((client, question))
    }

    fn forget(&mut self, client: ClientId) {
        if let Some((place, _)) = self.asked.remove(&client) {
            self.turns.remove(&place);
        }
    }

    /// Gives the client the last place.
    fn wait(&mut self, client: ClientId, questions: VecDeque<Question>) {
        self.places += 1;
        self.turns.insert(self.places, client);
        self.asked.insert(client, (self.places, questions));
    }
}

impl Engine {
    /// The next question of a client; answer it by [`answer`](Self::answer).
    pub fn poll_question(&mut self) -> Option<(ClientId, Question)> {
        self.questions.pop()
    }

    /// Whether questions wait.
    pub fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Answers a question in JSON, which is not copied: it may have megabytes. Nothing happens if
    /// the client has gone.
    pub fn answer(&mut self, now: Time, client: ClientId, question: Question, json: Bytes) {
        let kind = match question {
            Question::Status => kind::STATUS_REPORT,
            Question::Groups => kind::GROUPS_REPORT,
            Question::Rekey(_) => kind::REKEY_REPORT,
        };
        let mut head = Vec::new();
        encode_report_head(&mut head, kind, json.len());
        self.put(client, &head, &json);
        self.check_backlog(now, client);
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

    /// Whether the client has a connection: nobody waits for its answers otherwise.
    pub fn is_connected(&self, client: ClientId) -> bool {
        let link = self.clients.get(client).and_then(|it| it.link.as_ref());
        link.is_some_and(|link| !link.closing)
    }

    /// The user at the other end of a client's Unix socket, if the system said who that is.
    pub fn user_of(&self, client: ClientId) -> Option<u32> {
        self.clients.get(client)?.user
    }

    /// The private name of a client and where it comes from, for the log.
    pub fn describe(&self, client: ClientId) -> String {
        let entry = self.clients.get(client);
        entry.map_or_else(
            || format!("{client:?}"),
            |entry| format!("{}{}", entry.private, entry.whence()),
        )
    }

    /// Queues a question, unless [`QUESTIONS_MAX`] of the client wait already.
    pub(super) fn ask(&mut self, client: ClientId, question: Question) {
        self.questions.push(client, question);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(questions: &mut Questions) -> Vec<(u64, Question)> {
        let popped = std::iter::from_fn(|| questions.pop());
        popped
            .map(|(client, question)| (client.0, question))
            .collect()
    }

    #[test]
    fn clients_are_answered_in_rotation_and_a_change_of_the_key_first() {
        let mut questions = Questions::default();
        for _ in 0..100 {
            questions.push(ClientId(1), Question::Status);
            questions.push(ClientId(2), Question::Groups);
        }
        questions.push(ClientId(3), Question::Status);
        questions.push(ClientId(1), Question::Rekey("/k".into()));
        let asked = order(&mut questions);
        assert!(questions.is_empty());
        assert_eq!(asked.len(), 1 + 2 * QUESTIONS_MAX + 1);
        assert_eq!(asked[0], (1, Question::Rekey("/k".into())));
        let clients: Vec<u64> = asked[1..6].iter().map(|(client, _)| *client).collect();
        assert_eq!(clients, [1, 2, 3, 1, 2]);
    }

    /// To copy some megabytes takes some milliseconds.
    #[test]
    fn a_long_answer_is_not_copied() {
        use crate::frame::MAGIC;
        use crate::groups::spread::tests::crowd;

        let mut engine = crowd(1, 0);
        let client = ClientId(1);
        let json = Bytes::from(vec![b' '; 100_000]);
        engine.answer(Time::ZERO, client, Question::Groups, json.clone());
        let mut slices = [std::io::IoSlice::new(&[]); 8];
        let count = engine.slices(client, &mut slices);
        let last = &slices[count - 1];
        assert_eq!(last.as_ptr(), json.as_ptr());
        let said: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
        let mut bytes = Vec::new();
        DaemonFrame::GroupsReport(json).encode(&mut bytes);
        assert!(said.strip_prefix(&MAGIC[..]).unwrap_or(&said) == bytes);
    }

    #[test]
    fn who_comes_back_waits_behind_those_that_wait_and_who_goes_takes_its_questions_along() {
        let mut questions = Questions::default();
        for client in [1, 1, 2, 3, 3] {
            questions.push(ClientId(client), Question::Status);
        }
        questions.push(ClientId(3), Question::Rekey("/k".into()));
        questions.forget(ClientId(3));
        assert_eq!(questions.pop(), Some((ClientId(1), Question::Status)));
        questions.forget(ClientId(1));
        questions.push(ClientId(1), Question::Groups);
        let asked = order(&mut questions);
        assert_eq!(asked, [(2, Question::Status), (1, Question::Groups)]);
        assert!(questions.others.asked.is_empty());
    }
}
