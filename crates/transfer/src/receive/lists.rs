//! Lists of files that are about to be sent: a receiver looks for what it holds of them, and keeps
//! what it found until they come (`crate::list`).
//!
//! Nothing of this is told to the user: it is no transfer of his.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_protocols::bulk::{Acceptance, Order, TransferId};

use super::{Described, Service};
use crate::about::{About, Content};
use crate::disk::{Disk, Done, Job};
use crate::manifest::ContentId;

/// The lists under way, and what was found.
#[derive(Default)]
pub(super) struct Lists {
    under_way: BTreeMap<TransferId, List>,
    ready: Vec<Ready>,
}

struct List {
    content: Option<ContentId>,
    manifest_len: usize,
    /// Until it goes on with the files.
    disk: Option<Disk>,
}

/// Files that are about to be sent, and what of their stream is here.
pub(super) struct Ready {
    content: ContentId,
    since: Time,
    manifest_len: usize,
    pub(super) disk: Disk,
    pub(super) held: Vec<Range<u64>>,
}

/// A thread that ends by itself, and the content that it works at.
type Retired = (Option<ContentId>, JoinHandle<()>);

impl Lists {
    /// How long what was found is kept for files that do not come.
    const KEPT: Duration = Duration::from_secs(60);

    pub(super) fn has(&self, id: TransferId) -> bool {
        self.under_way.contains_key(&id)
    }

    /// Lists, and files that are expected.
    pub(super) fn len(&self) -> usize {
        self.under_way.len() + self.ready.len()
    }

    /// Bytes of the manifests of all of them.
    pub(super) fn manifests_len(&self) -> usize {
        let lists = self.under_way.values().map(|list| list.manifest_len);
        let ready = self.ready.iter().map(|ready| ready.manifest_len);
        lists.chain(ready).sum()
    }

    /// Bytes of a list arrived.
    pub(super) fn take(&self, id: TransferId, bytes: Bytes) {
        if let Some(disk) = self.disk(id) {
            disk.ask(Job::Pipe(bytes));
        }
    }

    /// All of a list has arrived.
    pub(super) fn is_whole(&self, id: TransferId) {
        if let Some(disk) = self.disk(id) {
            disk.ask(Job::Compare);
        }
    }

    /// A list is over; its thread, if it does not go on with the files.
    pub(super) fn end(&mut self, id: TransferId) -> Option<Retired> {
        let list = self.under_way.remove(&id)?;
        let thread = list.disk?.retire()?;
        Some((list.content, thread))
    }

    /// Everything is over.
    pub(super) fn end_all(&mut self) -> Vec<Retired> {
        let ids: Vec<TransferId> = self.under_way.keys().copied().collect();
        let mut threads: Vec<Retired> = ids.into_iter().filter_map(|id| self.end(id)).collect();
        threads.extend(self.ready.drain(..).filter_map(Ready::retire));
        threads
    }

    /// What was found of the files that `content` is, if it was looked for.
    pub(super) fn ready(&mut self, content: Content) -> Option<Ready> {
        let Content::Files { id, .. } = content else {
            return None;
        };
        let at = self.ready.iter().position(|ready| ready.content == id)?;
        Some(self.ready.remove(at))
    }

    fn disk(&self, id: TransferId) -> Option<&Disk> {
        self.under_way.get(&id)?.disk.as_ref()
    }

    /// What is not waited for any longer: files that did not come in time, and former ones of
    /// `content`.
    fn expire(&mut self, now: Time, content: Option<ContentId>) -> Vec<Retired> {
        let is_over =
            |ready: &mut Ready| now - ready.since > Self::KEPT || Some(ready.content) == content;
        let over = self.ready.extract_if(.., is_over);
        over.filter_map(Ready::retire).collect()
    }
}

impl Ready {
    fn retire(self) -> Option<Retired> {
        Some((Some(self.content), self.disk.retire()?))
    }
}

impl Service {
    /// A sender asks what is here of the files that it is about to send.
    pub(super) fn list_announced(&mut self, described: &Described, about: &About) {
        let Content::List {
            id: content,
            layout,
            hashed,
            ..
        } = about.content
        else {
            return;
        };
        let now = self.host.now();
        let over = self.lists.expire(now, hashed.then_some(content));
        self.retired.extend(over);
        // The thread goes on with the stream of the files, which the list describes.
        let command = self.command(&Described {
            length: Some(layout.len()),
            ..described.clone()
        });
        let opened = self.target(about, described.id).and_then(|target| {
            Disk::open(target, command, self.host.waker()).map_err(|_| "it cannot start a thread")
        });
        let name = Bytes::copy_from_slice(self.receiving.link.name.as_bytes());
        match opened {
            Ok(disk) => {
                let list = List {
                    content: hashed.then_some(content),
                    manifest_len: layout.manifest as usize,
                    disk: Some(disk),
                };
                self.lists.under_way.insert(described.id, list);
                let acceptance = Acceptance {
                    held: Vec::new(),
                    order: Order::InOrder,
                    name,
                };
                if self
                    .host
                    .bulk()
                    .accept(now, described.id, &acceptance)
                    .is_err()
                {
                    // Its sender has gone meanwhile.
                    let thread = self.lists.end(described.id);
                    self.retired.extend(thread);
                }
            }
            Err(reason) => self.host.bulk().refuse(now, described.id, reason, &name),
        }
    }

    /// What the lists' disks have done.
    pub(super) fn take_compared(&mut self) {
        let now = self.host.now();
        let over = self.lists.expire(now, None);
        self.retired.extend(over);
        let ids: Vec<TransferId> = self.lists.under_way.keys().copied().collect();
        for id in ids {
            while let Some(done) = self.lists.disk(id).and_then(Disk::poll) {
                match done {
                    Done::Consumed(bytes) => self.host.bulk().consumed(now, id, bytes),
                    Done::Compared { is_here, held } => self.compared(now, id, is_here, held),
                    Done::Failed { reason, .. } => {
                        self.host.bulk().conclude(now, id, Err(&reason));
                    }
                    _ => {}
                }
            }
        }
    }

    fn compared(
        &mut self,
        now: Time,
        id: TransferId,
        is_here: bool,
        held: Option<Vec<Range<u64>>>,
    ) {
        let list = self.lists.under_way.get_mut(&id);
        if let Some((list, held)) = list.zip(held)
            && let (Some(content), Some(disk)) = (list.content, list.disk.take())
        {
            let manifest_len = list.manifest_len;
            self.lists.ready.push(Ready {
                content,
                since: now,
                manifest_len,
                disk,
                held,
            });
        }
        let result = match is_here {
            true => Ok(()),
            false => Err("nothing of it is here"),
        };
        self.host.bulk().conclude(now, id, result);
    }
}
