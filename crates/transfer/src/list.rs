//! Asks receivers, before files are sent, what they hold of them already.
//!
//! Two small transfers ask the receivers. The first carries the manifest; a receiver concludes it
//! well if something of it may be there: a file of its name, or one that may have been moved. If
//! any has, the second carries the manifest and the hashes of all files, block by block; a receiver
//! finds what it holds (`compare.rs`), and concludes when it is done. Then the files are sent, and
//! receivers say what they hold when they register, as those do that resume: what all hold is not
//! sent.
//!
//! Receivers of older releases refuse the first transfer, and get everything. If no receiver holds
//! anything, all get everything, and no file is read for hashes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use bytes::Bytes;
use groupcast_core::{MemberId, NodeId};
use groupcast_protocols::bulk::{DeliverTo, Notice, Outcome, STOPPED, Transfer, Wanted};
use groupcast_protocols::xgm::Subgroups;

use crate::about::{About, Content};
use crate::content::Files;
use crate::host::{BulkHost, PATIENCE, TransferError};
use crate::pace::Pace;
use crate::send::{Life, SendEvent, Waits, called, tell_trouble};

/// The outcome of a list at a receiver: the member, its name, and the outcome.
pub(crate) type Answer = (MemberId, Bytes, Outcome);

/// The answers of the receivers.
#[derive(Debug)]
pub(crate) enum Answers {
    /// No receiver answered the first list, or the user stopped it: its outcomes.
    Nobody(Vec<Answer>),
    /// The user stopped it while the files were read; the outcomes of the first list.
    Stopped(Vec<Answer>),
    /// The outcomes of the first list: some receivers have answered, in any way.
    Present {
        answers: Vec<Answer>,
        /// How many receivers had come when it began, those below relays included.
        came: usize,
        /// The files that are to be sent.
        files: Box<Files>,
    },
}

/// What a sender has at hand while it asks.
pub(crate) struct Asking<'a> {
    /// The names of the receivers that are named.
    pub(crate) required: &'a BTreeMap<NodeId, String>,
    pub(crate) pace: &'a mut Pace,
    pub(crate) stop: &'a AtomicBool,
}

/// Asks the `wanted` receivers, in these subgroups, what they hold of `files`, and has them
/// compare.
pub(crate) fn ask(
    host: &mut BulkHost,
    about: &About,
    files: Box<Files>,
    (wanted, subgroups): (Wanted, Subgroups),
    mut asking: Asking<'_>,
    tell: &mut dyn FnMut(SendEvent<'_>),
) -> Result<Answers, TransferError> {
    let Content::Files {
        id,
        layout,
        entries,
    } = about.content
    else {
        let (answers, came) = (Vec::new(), 0);
        return Ok(Answers::Present {
            answers,
            came,
            files,
        });
    };
    let list = |hashed| {
        let content = Content::List {
            id,
            layout,
            entries,
            hashed,
        };
        About {
            content,
            ..about.clone()
        }
    };
    let listed = match &wanted {
        Wanted::Listed(listed) => Some(listed.clone()),
        _ => None,
    };
    let manifest = files.manifest().clone();
    let (answers, came) = send(
        host,
        &list(false),
        manifest.clone(),
        (wanted, subgroups),
        &mut asking,
        tell,
    )?;
    let is_present = |(_, _, outcome): &&Answer| {
        !matches!(
            outcome,
            Outcome::Absent | Outcome::Vanished | Outcome::Cancelled
        )
    };
    if !answers.iter().any(|it| is_present(&it)) {
        return Ok(Answers::Nobody(answers));
    }
    let mut holders: Vec<_> = answers
        .iter()
        .filter(|(_, _, outcome)| *outcome == Outcome::Complete)
        .map(|(member, ..)| member.node)
        .collect();
    holders.sort_unstable();
    holders.dedup();
    if holders.is_empty() {
        return Ok(Answers::Present {
            answers,
            came,
            files,
        });
    }
    let wanted = match listed {
        // Nobody else is asked.
        Some(mut listed) => {
            listed.retain(|it| holders.contains(&it.node));
            Wanted::Listed(listed)
        }
        None => Wanted::Members(holders),
    };
    if !files.is_comparable() {
        let problem = "the files are not compared with what receivers have, which is done up to 1 TiB: everything is sent";
        tell(SendEvent::Warning { problem });
        return Ok(Answers::Present {
            answers,
            came,
            files,
        });
    }
    let Some(Hashed { files, hashes }) = hash(host, files, &mut asking, tell)? else {
        return Ok(Answers::Stopped(answers));
    };
    let stream = [&manifest[..], &hashes].concat().into();
    let list = &list(true);
    let wanted = (wanted, subgroups);
    send(host, list, stream, wanted, &mut asking, tell)?;
    Ok(Answers::Present {
        answers,
        came,
        files,
    })
}

/// Files, and the hashes of their blocks.
struct Hashed {
    files: Box<Files>,
    hashes: Vec<u8>,
}

/// Ends the work of a thread when it is dropped, as soon as the thread looks.
struct Goes(Arc<AtomicBool>);

impl Drop for Goes {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Reads `files`, and returns them with their hashes; `None` if the user stops it. A thread reads,
/// so that a slow disk delays nothing here; one that never answers keeps that thread alone.
fn hash(
    host: &mut BulkHost,
    mut files: Box<Files>,
    asking: &mut Asking<'_>,
    tell: &mut dyn FnMut(SendEvent<'_>),
) -> Result<Option<Hashed>, TransferError> {
    let bytes = files.layout().content;
    let goes = Goes(Arc::new(AtomicBool::new(true)));
    let (goes_on, waker) = (Arc::clone(&goes.0), host.waker());
    let (answer, answers) = mpsc::channel();
    let read = move || {
        let hashes = files.block_hashes(&mut || goes_on.load(Ordering::Relaxed));
        // Nobody may wait for it any more.
        let _ = answer.send(hashes.map(|hashes| hashes.map(|hashes| Hashed { files, hashes })));
        let _ = waker.wake();
    };
    let thread = thread::Builder::new().name("hash".into()).spawn(read);
    thread.map_err(TransferError::system("start a thread"))?;
    let since = host.now();
    let mut is_told = false;
    loop {
        match answers.try_recv() {
            Ok(hashed) => return Ok(hashed?),
            Err(TryRecvError::Disconnected) => {
                let failed = TransferError::system("read the files");
                return Err(failed(io::Error::other(
                    "the thread that reads them is gone",
                )));
            }
            Err(TryRecvError::Empty) => {}
        }
        if asking.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // What comes meanwhile is of others' transfers. It is read, so that it does not look new
        // later.
        while host.poll_event().is_some() {}
        if !is_told && host.now() - since >= Waits::PATIENCE {
            is_told = true;
            tell(SendEvent::Comparing { bytes });
        }
        asking.pace.look(tell);
        host.turn(PATIENCE)?;
        tell_trouble(host, tell);
    }
}

/// Sends `stream` to the `wanted` receivers, in these subgroups; returns the outcomes, and how many
/// receivers had come when it began.
fn send(
    host: &mut BulkHost,
    about: &About,
    stream: Bytes,
    (wanted, subgroups): (Wanted, Subgroups),
    asking: &mut Asking<'_>,
    tell: &mut dyn FnMut(SendEvent<'_>),
) -> Result<(Vec<Answer>, usize), TransferError> {
    let now = host.now();
    let transfer = Transfer {
        about: about.encode(),
        length: Some(stream.len() as u64),
        rewindable: true,
        receivers: wanted,
        subgroups,
        confirm: true,
        deliver_to: DeliverTo::AtOnce,
        replies: false,
        strict: false,
    };
    let is_first = matches!(about.content, Content::List { hashed: false, .. });
    let id = host.bulk().send(now, transfer)?;
    host.accounts().open(id.number);
    let (mut answers, mut came) = (Vec::new(), 0);
    let mut names: BTreeMap<MemberId, Bytes> = BTreeMap::new();
    let mut stopped = false;
    let mut waits = Waits::new(now);
    let mut look = now;
    loop {
        while let Some(event) = host.poll_account() {
            // Receivers below a relay count as present; the relay answers for what they hold.
            if event.number == id.number {
                host.count_behind(id, &event);
            }
        }
        while let Some(notice) = host.poll_event() {
            match notice {
                Notice::Settled {
                    id: of,
                    receiver,
                    outcome,
                    name,
                } if of == id => {
                    // Only one that refused says its name once more.
                    let registered = names.get(&receiver).filter(|_| name.is_empty());
                    let name = registered.cloned().unwrap_or(name);
                    if is_first && matches!(outcome, Outcome::Refused(_)) {
                        // It is likely to refuse the files, too, and others may be waited for
                        // long before these are announced.
                        tell(SendEvent::Settled {
                            receiver: &called(receiver, &name, asking.required),
                            outcome: &outcome,
                            life: Life::Only,
                        });
                    }
                    answers.push((receiver, name, outcome));
                }
                Notice::Registered {
                    id: of,
                    receiver,
                    name,
                    ..
                } if of == id => {
                    names.insert(receiver, name);
                    host.accounts().admit(id.number, receiver);
                }
                Notice::Started { id: of, .. } if of == id => came = host.bulk().have_come(id),
                Notice::Sent { id: of } if of == id => {
                    host.accounts().close(id.number);
                    return Ok((answers, came));
                }
                _ => {}
            }
        }
        let now = host.now();
        if asking.stop.load(Ordering::Relaxed) && !stopped {
            stopped = true;
            host.bulk().cancel(now, id, STOPPED);
            continue;
        }
        waits.tell(host, id, asking.required, tell);
        if now >= look
            && let Some(progress) = host.bulk().progress(id)
        {
            look = now + PATIENCE;
            let name_of = |member| {
                let said = names.get(&member).cloned().unwrap_or_default();
                called(member, &said, asking.required)
            };
            waits.tell_unconcluded(&progress, (now, true), &name_of, tell);
        }
        asking.pace.follow(host, id, tell)?;
        while let Some(wanted) = host.bulk().wanted(id) {
            let (start, end) = (wanted.start as usize, wanted.end as usize);
            let part = stream.slice(start.min(stream.len())..end.min(stream.len()));
            if part.is_empty() || host.bulk().offer(now, id, part).is_err() {
                break;
            }
        }
        host.turn(PATIENCE)?;
        tell_trouble(host, tell);
    }
}
