//! The change of the cluster's key at this daemon: reads key files, carries statements to and from
//! the total order, and changes the keys of the [seals](Seals). [`KeyChange`] decides about the
//! steps.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use groupcast_core::seal::SameTag;
use groupcast_core::text::printable;
use groupcast_core::{ConfigurationKind, Event, MemberId, Time};
use groupcast_net::{Key, KeyError};
use groupcast_session::rekey::{Act, Fingerprint, KeyChange, Progress, Refused, Statement, Step};
use groupcast_session::{ClientId, Engine};
use serde_json::{Value, json};

use crate::config::{Config, Security};
use crate::keys::Seals;

/// How long datagrams that were sealed under the old key may still be on their way after all
/// members use the new one.
const LINGER: Duration = Duration::from_secs(1);

/// Why a daemon does not learn a new key.
#[derive(Debug, thiserror::Error)]
enum Unlearned {
    #[error("this daemon runs without a key: there is none to change")]
    NoKey,
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error(
        "it is the token of clients over TCP, which are not to know the key: make another file"
    )]
    Token,
    #[error(transparent)]
    File(#[from] KeyError),
    #[error(transparent)]
    Change(#[from] Refused),
    #[error(transparent)]
    Seal(#[from] SameTag),
}

/// The answer to a client that is not root about any file at `path` that is not taken.
fn not_taken(path: &Path) -> String {
    format!(
        "{} is missing, may not be read, or is no key file of root's or the daemon's user; the daemon's log says which",
        path.display()
    )
}

/// The change of the key, if there is a key.
pub(crate) struct Rekeying {
    change: Option<KeyChange>,
    /// The token of clients over TCP, which no key may be.
    token: Option<Fingerprint>,
    /// The file of the new key, during a change.
    file: Option<PathBuf>,
    /// When the old key is dropped.
    drop_at: Option<Time>,
    /// The change without this daemon that the log has told of.
    told: Option<Fingerprint>,
}

impl Rekeying {
    pub(crate) fn new(config: &Config, local: MemberId) -> Result<Self, KeyError> {
        let change = match &config.security {
            Security::Key(path) => {
                let current = Fingerprint(Key::load_own(path)?.fingerprint());
                Some(KeyChange::new(local, current))
            }
            Security::Insecure => None,
        };
        let token = config
            .client_token
            .as_deref()
            .map(Key::load_own)
            .transpose()?;
        Ok(Self {
            change,
            token: token.map(|token| Fingerprint(token.fingerprint())),
            file: None,
            drop_at: None,
            told: None,
        })
    }

    /// Handles an event of the daemon's own order.
    pub(crate) fn handle_event(&mut self, event: &Event) {
        let Some(change) = &mut self.change else {
            return;
        };
        match event {
            Event::Deliver(delivery) if delivery.place.is_some() => {
                // What makes no sense says nothing.
                if let Ok(Some(statement)) = Statement::decode(&delivery.payload) {
                    change.handle_statement(delivery.id.sender, statement);
                    self.tell_of_another();
                }
            }
            Event::Configuration(configuration) => match configuration.kind {
                ConfigurationKind::Regular => change.handle_regular(&configuration.members),
                ConfigurationKind::Transitional => change.handle_transitional(),
            },
            _ => {}
        }
    }

    /// A client names the file of a new key; the answer is JSON. Only root is told what is wrong
    /// with a file: others could ask about files that they may not see. A failure is a line of the
    /// log if `admit` lets it be.
    pub(crate) fn begin(
        &mut self,
        seals: &mut Seals<'_>,
        path: &Path,
        asker: ClientId,
        engine: &Engine,
        admit: impl FnOnce() -> bool,
    ) -> Value {
        match self.learn(seals, path) {
            Ok(()) => {
                let progress = self.change.as_ref().and_then(KeyChange::progress);
                let local = seals.local();
                progress.map_or(Value::Null, |progress| {
                    let mut said = describe(&progress, engine);
                    // This daemon's own statement is on its way.
                    let others = progress.waits_for.iter().filter(|it| **it != local);
                    said["waits_for"] = names(others, engine);
                    said
                })
            }
            Err(error) => {
                if admit() {
                    let error = printable(error.to_string().as_bytes());
                    let asker = engine.describe(asker);
                    tracing::warn!("the key is not changed as {asker} asked: {error}");
                }
                let is_root = engine.user_of(asker) == Some(0);
                let told = match error {
                    Unlearned::File(error) if is_root => error.to_string(),
                    Unlearned::File(_) => not_taken(path),
                    error => error.to_string(),
                };
                json!({ "error": told })
            }
        }
    }

    fn learn(&mut self, seals: &mut Seals<'_>, path: &Path) -> Result<(), Unlearned> {
        let Some(change) = &mut self.change else {
            return Err(Unlearned::NoKey);
        };
        if !path.is_absolute() {
            return Err(Unlearned::Relative(path.into()));
        }
        let key = Key::load_named(path)?;
        let next = Fingerprint(key.fingerprint());
        if self.token == Some(next) {
            return Err(Unlearned::Token);
        }
        change.check(next)?;
        let begun = change.progress().is_some_and(|it| it.own.is_some());
        if begun {
            return Ok(());
        }
        if self.drop_at.take().is_some() {
            seals.drop_other(true);
        }
        seals.learn(&key)?;
        change.begin(next)?;
        self.file = Some(path.to_owned());
        tracing::info!(
            "the new key of {}, fingerprint {next}, is known here",
            shown(path)
        );
        Ok(())
    }

    /// Changes the keys as far as that is due.
    pub(crate) fn carry_out(&mut self, now: Time, seals: &mut Seals<'_>) {
        if self.drop_at.is_some_and(|at| at <= now) {
            self.drop_at = None;
            seals.drop_other(true);
        }
        while let Some(act) = self.change.as_mut().and_then(KeyChange::poll_act) {
            match act {
                Act::Use(key) => {
                    seals.switch();
                    tracing::info!("all members know the new key {key}: it is used from now on");
                }
                Act::Finish(key) => {
                    self.drop_at = Some(now + LINGER);
                    self.finished(key);
                }
                Act::GiveUp { ours, theirs } => {
                    seals.drop_other(false);
                    self.file = None;
                    tracing::error!(
                        "the change to the key {ours} is given up, for another daemon began one to {theirs} before: run \
                         `groupcast rekey` with the file of that key"
                    );
                }
            }
        }
    }

    /// The next statement of this daemon.
    pub(crate) fn next_statement(&self) -> Option<Statement> {
        self.change.as_ref().and_then(KeyChange::next_statement)
    }

    /// The order took the statement, or never will.
    pub(crate) fn said(&mut self) {
        if let Some(change) = &mut self.change {
            change.said();
        }
    }

    /// How long until the old key is dropped, if it is to be.
    pub(crate) fn patience(&self, now: Time) -> Option<Duration> {
        self.drop_at.map(|at| at - now)
    }

    /// The key and its change, for `groupcast status`.
    pub(crate) fn status(&self, engine: &Engine) -> Value {
        let Some(change) = &self.change else {
            return Value::Null;
        };
        let progress = change.progress();
        json!({
            "fingerprint": change.current().to_string(),
            "change": progress.map(|progress| describe(&progress, engine)),
        })
    }

    fn finished(&mut self, key: Fingerprint) {
        let file = self.file.take();
        let file = file.map_or_else(|| "its file".into(), |path| shown(&path));
        tracing::info!(
            "the key was changed to {key}, and the old one is dead: let `key` name {file} before this daemon is started \
             again"
        );
    }

    /// Logs once that a change goes on in which this daemon takes no part.
    fn tell_of_another(&mut self) {
        let progress = self.change.as_ref().and_then(KeyChange::progress);
        let Some(progress) = progress.filter(|progress| progress.own.is_none()) else {
            return;
        };
        if self.told != Some(progress.next) {
            self.told = Some(progress.next);
            tracing::warn!(
                "the key of the cluster is being changed to one with the fingerprint {}: run `groupcast rekey NEWFILE` \
                 on this host too",
                progress.next
            );
        }
    }
}

/// `path`, which a client chose, as one printable line.
fn shown(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

fn describe(progress: &Progress, engine: &Engine) -> Value {
    json!({
        "fingerprint": progress.next.to_string(),
        "step": progress.own.map(Step::name),
        "waits_for": names(progress.waits_for.iter(), engine),
    })
}

fn names<'a>(members: impl Iterator<Item = &'a MemberId>, engine: &Engine) -> Value {
    let daemons = engine.daemons();
    let name = |member: &MemberId| {
        let known = daemons.iter().find(|(daemon, _)| daemon == member);
        known.map_or_else(|| member.to_string(), |(_, name)| name.to_string())
    };
    members.map(name).collect::<Vec<_>>().into()
}
