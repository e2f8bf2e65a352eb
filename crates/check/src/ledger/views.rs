//! The views of process groups that the histories tell of.

use std::collections::BTreeMap;

use super::{ConfigIx, MemberIx, index};

index!(
    /// A process group.
    GroupIx
);
index!(
    /// A view of a process group, among the views of that group.
    ViewIx
);

/// A place in a member's life that other members pass as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The regular configuration, or the one being closed.
    pub(crate) config: ConfigIx,
    /// In the transitional configuration.
    pub(crate) transitional: bool,
    /// The last ordered message delivered since the regular configuration was installed.
    pub(crate) seq: Option<u64>,
}

impl PartialEq for Moment {
    /// Whether it is the same place in the total order: where one member is in the regular
    /// configuration still, another may already be in a transitional one.
    fn eq(&self, other: &Self) -> bool {
        (self.config, self.seq) == (other.config, other.seq)
    }
}

/// A view, as its first observer saw it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) members: Vec<String>,
    pub(crate) by: MemberIx,
    /// `None` before the first configuration.
    pub(crate) moment: Option<Moment>,
}

#[derive(Debug)]
struct Group {
    name: String,
    views: Vec<View>,
    by_name: BTreeMap<String, ViewIx>,
    /// What each observer saw, in order.
    seen: BTreeMap<MemberIx, Vec<ViewIx>>,
}

/// The views of all groups, as members installed them.
#[derive(Default, Debug)]
pub(crate) struct Views {
    groups: Vec<Group>,
    by_name: BTreeMap<String, GroupIx>,
}

impl Views {
    pub(super) fn group_ix(&mut self, name: &str) -> GroupIx {
        if let Some(ix) = self.by_name.get(name) {
            return *ix;
        }
        let ix = GroupIx::new(self.groups.len());
        self.groups.push(Group {
            name: name.to_owned(),
            views: Vec::new(),
            by_name: BTreeMap::new(),
            seen: BTreeMap::new(),
        });
        self.by_name.insert(name.to_owned(), ix);
        ix
    }

    pub(super) fn find(&self, group: GroupIx, view: &str) -> Option<ViewIx> {
        self.groups[group.get()].by_name.get(view).copied()
    }

    pub(super) fn insert(
        &mut self,
        group: GroupIx,
        name: &str,
        members: &[String],
        by: MemberIx,
        moment: Option<Moment>,
    ) -> ViewIx {
        let group = &mut self.groups[group.get()];
        let ix = ViewIx::new(group.views.len());
        group.views.push(View {
            name: name.to_owned(),
            members: members.to_vec(),
            by,
            moment,
        });
        group.by_name.insert(name.to_owned(), ix);
        ix
    }

    pub(super) fn enter(&mut self, group: GroupIx, observer: MemberIx, view: ViewIx) {
        let seen = &mut self.groups[group.get()].seen;
        seen.entry(observer).or_default().push(view);
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupIx> + use<> {
        (0..self.groups.len()).map(GroupIx::new)
    }

    pub(crate) fn name(&self, group: GroupIx) -> &str {
        &self.groups[group.get()].name
    }

    pub(crate) fn view(&self, group: GroupIx, view: ViewIx) -> &View {
        &self.groups[group.get()].views[view.get()]
    }

    pub(crate) fn count(&self, group: GroupIx) -> usize {
        self.groups[group.get()].views.len()
    }

    /// What each observer saw of `group`, in order.
    pub(crate) fn seen(&self, group: GroupIx) -> impl Iterator<Item = (MemberIx, &[ViewIx])> {
        let seen = self.groups[group.get()].seen.iter();
        seen.map(|(observer, views)| (*observer, views.as_slice()))
    }

    /// What `observer` saw of `group`, in order.
    pub(crate) fn seen_by(&self, group: GroupIx, observer: MemberIx) -> &[ViewIx] {
        let seen = self.groups[group.get()].seen.get(&observer);
        seen.map_or(&[], Vec::as_slice)
    }
}
