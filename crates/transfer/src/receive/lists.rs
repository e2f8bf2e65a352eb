//! Lists of files that are about to be sent: a receiver compares its target with them, and keeps
//! the result until the files come (`crate::list`).
//!
//! The user is told nothing of this: a list is no transfer of the user's.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use groupcast_core::Time;
use groupcast_protocols::bulk::{Acceptance, TransferId};

use super::{Described, Service};
use crate::about::{About, Content};
use crate::disk::{Disk, Done, Job};
use crate::manifest::ContentId;

/// The lists under way, and the results.
#[derive(Default)]
pub(super) struct Lists {
    under_way: BTreeMap<TransferId, List>,
    ready: Vec<Ready>,
}

struct List {
    /// The announcement of the files, if the list carries their hashes.
    files: Option<About>,
    manifest_len: usize,
    /// The length of the hashes behind the manifest.
    hashes_len: usize,
    /// Taken away when the thread goes on with the files.
    disk: Option<Disk>,
}

/// Files that are about to be sent, and the ranges of their stream that are here.
pub(super) struct Ready {
    /// The list that announced them.
    list: TransferId,
    files: About,
    /// When the list was last seen under way.
    since: Time,
    manifest_len: usize,
    pub(super) disk: Disk,
    pub(super) held: Vec<Range<u64>>,
}

/// A thread that ends by itself, and the content that it works on.
type Retired = (Option<ContentId>, JoinHandle<()>);

impl Lists {
    /// How long a result is kept after its list has ended, if the files do not come. While the list
    /// is under way, other receivers still compare.
    const KEPT: Duration = Duration::from_secs(60);
    /// After this, if the place of a result is needed: the files come at once after their list, if
    /// their sender is there.
    const KEPT_IF_FULL: Duration = Duration::from_secs(2);

    pub(super) fn has(&self, id: TransferId) -> bool {
        self.under_way.contains_key(&id)
    }

    /// How many lists are under way, and files are expected.
    pub(super) fn len(&self) -> usize {
        self.under_way.len() + self.ready.len()
    }

    /// The length of each of their manifests.
    pub(super) fn manifest_lens(&self) -> impl Iterator<Item = usize> {
        let lists = self.under_way.values().map(|list| list.manifest_len);
        let ready = self.ready.iter().map(|ready| ready.manifest_len);
        lists.chain(ready)
    }

    /// The length of all their hashes together.
    pub(super) fn hashes_len(&self) -> usize {
        self.under_way.values().map(|list| list.hashes_len).sum()
    }

    /// Bytes of a list have come.
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

    /// A list has ended. Returns its thread, unless it goes on with the files.
    pub(super) fn end(&mut self, id: TransferId) -> Option<Retired> {
        let list = self.under_way.remove(&id)?;
        let thread = list.disk?.retire()?;
        Some((list.files.and_then(|files| files.content_id()), thread))
    }

    /// Ends all lists, and forgets all results.
    pub(super) fn end_all(&mut self) -> Vec<Retired> {
        let ids: Vec<TransferId> = self.under_way.keys().copied().collect();
        let mut threads: Vec<Retired> = ids.into_iter().filter_map(|id| self.end(id)).collect();
        threads.extend(self.ready.drain(..).filter_map(Ready::retire));
        threads
    }

    /// A transfer needs a place: gives up the oldest result for files that have not come. Returns
    /// its thread, which ends by itself; `None` if there is no such result.
    pub(super) fn make_way(&mut self, now: Time) -> Option<Vec<Retired>> {
        let is_late = |ready: &Ready| now - ready.since > Self::KEPT_IF_FULL;
        let late = self.ready.iter().enumerate().filter(|(_, it)| is_late(it));
        let (at, _) = late.min_by_key(|(_, it)| it.since)?;
        Some(self.ready.remove(at).retire().into_iter().collect())
    }

    /// Takes the result for the files that are announced now, if there is one: for the same
    /// content, with the same layout, from the same sender.
    pub(super) fn ready(&mut self, about: &About) -> Option<Ready> {
        let at = self.ready.iter().position(|ready| ready.files == *about)?;
        Some(self.ready.remove(at))
    }

    fn disk(&self, id: TransferId) -> Option<&Disk> {
        self.under_way.get(&id)?.disk.as_ref()
    }

    /// Removes the results for files that did not come in time. Returns their threads.
    fn expire(&mut self, now: Time) -> Vec<Retired> {
        for ready in &mut self.ready {
            if self.under_way.contains_key(&ready.list) {
                ready.since = now;
            }
        }
        let is_over = |ready: &mut Ready| now - ready.since > Self::KEPT;
        let over = self.ready.extract_if(.., is_over);
        over.filter_map(Ready::retire).collect()
    }

    /// `content` is announced anew, and another thread is to work on it: ends its hashed lists that
    /// are under way, and forgets what was found of it. Returns these lists, and all threads.
    pub(super) fn supersede(&mut self, content: ContentId) -> (Vec<TransferId>, Vec<Retired>) {
        let of_content = |files: &About| files.content_id() == Some(content);
        let works =
            |list: &List| list.disk.is_some() && list.files.as_ref().is_some_and(of_content);
        let lists = self.under_way.iter().filter(|(_, list)| works(list));
        let lists: Vec<TransferId> = lists.map(|(id, _)| *id).collect();
        let ended = lists.iter().filter_map(|id| self.end(*id));
        let mut threads: Vec<Retired> = ended.collect();
        let found = self.ready.extract_if(.., |ready| of_content(&ready.files));
        threads.extend(found.filter_map(Ready::retire));
        (lists, threads)
    }
}

impl Ready {
    fn retire(self) -> Option<Retired> {
        Some((self.files.content_id(), self.disk.retire()?))
    }
}

impl Service {
    /// A sender asks what this receiver holds of files that it is about to send.
    pub(super) fn list_announced(&mut self, described: &Described, about: &About) {
        let Content::List {
            id: content,
            layout,
            entries,
            hashed,
        } = about.content
        else {
            return;
        };
        let files = hashed.then(|| About {
            content: Content::Files {
                id: content,
                layout,
                entries,
            },
            ..about.clone()
        });
        let now = self.host.now();
        // The thread will go on with the stream of the files, so the command gets its length.
        let command = self.command(&Described {
            length: Some(layout.len()),
            ..described.clone()
        });
        let manifest_len = layout.manifest as usize;
        let len = described.length.unwrap_or_default();
        let hashes_len = usize::try_from(len).unwrap_or(usize::MAX);
        let hashes_len = hashes_len.saturating_sub(manifest_len);
        let has_room = self.has_room().and_then(|()| {
            let all = self.lists.hashes_len().saturating_add(hashes_len);
            match all <= self.receiving.limits.manifest_max {
                true => Ok(()),
                false => Err("the hashes of all lists under way are too long"),
            }
        });
        let target = has_room.and_then(|()| self.target(about, described.id));
        let opened = target.map_err(str::to_owned).and_then(|target| {
            let opened = Disk::open(target, command, self.host.waker());
            opened.map_err(|refused| self.not_started(Some(content), refused))
        });
        let name = Bytes::copy_from_slice(self.receiving.link.name.as_bytes());
        match opened {
            Ok(disk) => {
                let list = List {
                    files,
                    manifest_len,
                    hashes_len,
                    disk: Some(disk),
                };
                self.lists.under_way.insert(described.id, list);
                let acceptance = Acceptance::in_order(name);
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
            Err(reason) => {
                self.host.bulk().refuse(now, described.id, &reason, &name);
            }
        }
    }

    /// Takes the results of the lists' disks.
    pub(super) fn take_compared(&mut self) {
        let now = self.host.now();
        let over = self.lists.expire(now);
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
            && let (Some(files), Some(disk)) = (list.files.clone(), list.disk.take())
        {
            let manifest_len = list.manifest_len;
            self.lists.ready.push(Ready {
                list: id,
                files,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use groupcast_core::{Incarnation, MemberId, NodeId};
    use mio::{Poll, Token, Waker};

    use super::*;
    use crate::content::Files;
    use crate::disk::Target;
    use crate::manifest::Scan;
    use crate::scratch::Scratch;

    fn list() -> (TransferId, About) {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("file"), b"some bytes").unwrap();
        let scan = Scan::without(&[scratch.path("file")], &crate::Exclude::default()).unwrap();
        let about = About {
            host: "a".into(),
            label: "file".into(),
            content: Files::new(scan).content(),
        };
        let sender = MemberId {
            node: NodeId::from_name("a"),
            incarnation: Incarnation(1),
        };
        (TransferId { sender, number: 7 }, about)
    }

    /// What was found at the start of the files of `about`, whose list is under way.
    fn found(list: TransferId, about: &About) -> Lists {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut lists = Lists::default();
        let under_way = List {
            files: Some(about.clone()),
            manifest_len: 1,
            hashes_len: 0,
            disk: None,
        };
        lists.under_way.insert(list, under_way);
        lists.ready.push(Ready {
            list,
            files: about.clone(),
            since: Time::ZERO,
            manifest_len: 1,
            disk: Disk::open(Target::PipeToStdout, None, waker).unwrap(),
            held: Vec::new(),
        });
        lists
    }

    #[test]
    fn what_was_found_is_kept_while_other_receivers_look() {
        let (list, about) = list();
        let mut lists = found(list, &about);
        let hour = Time::ZERO + Duration::from_secs(3600);
        assert!(lists.expire(hour).is_empty() && lists.ready.len() == 1);
        lists.end(list);
        lists.expire(hour + Lists::KEPT);
        assert_eq!(lists.ready.len(), 1);
        lists.expire(hour + Lists::KEPT + Duration::from_millis(1));
        assert!(lists.ready.is_empty());
    }

    #[test]
    fn what_was_found_for_files_that_do_not_come_makes_way_for_others() {
        let (list, about) = list();
        let mut lists = found(list, &about);
        let late = Lists::KEPT_IF_FULL + Duration::from_millis(1);
        // Other receivers still look.
        let begun = Time::ZERO + late;
        assert!(lists.expire(begun).is_empty());
        assert!(lists.make_way(begun).is_none());
        lists.end(list);
        assert!(lists.make_way(begun + Lists::KEPT_IF_FULL).is_none());
        assert!(lists.make_way(begun + late).is_some());
        assert!(lists.ready.is_empty() && lists.make_way(begun + late).is_none());
    }

    #[test]
    fn what_was_found_is_of_no_use_for_files_that_lie_otherwise() {
        let (list, about) = list();
        let mut lists = found(list, &about);
        let mut other = about.clone();
        let Content::Files { layout, .. } = &mut other.content else {
            panic!("they are files");
        };
        layout.chunk /= 2;
        assert!(lists.ready(&other).is_none());
        let another = About {
            host: "b".into(),
            ..about.clone()
        };
        assert!(lists.ready(&another).is_none());
        assert!(lists.ready(&about).is_some());
    }
}
