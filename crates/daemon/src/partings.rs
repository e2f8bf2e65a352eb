//! Which daemons a new configuration is without, and which are back.

use groupcast_core::{Configuration, Incarnation, MemberId};

use crate::latest::Latest;

/// The members of the last regular configuration, and those that were lost and are not back yet.
#[derive(Default)]
pub(crate) struct Partings {
    members: Vec<MemberId>,
    lost: Latest<Incarnation>,
}

/// What a new regular configuration says of daemons.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Parted {
    /// They said good-bye.
    pub(crate) left: Vec<MemberId>,
    /// They did not.
    pub(crate) lost: Vec<MemberId>,
    /// They said good-bye, and their next life is here.
    pub(crate) restarted: Vec<MemberId>,
    /// They did not, and their next life is here.
    pub(crate) crashed: Vec<MemberId>,
    /// They were lost, and are here again.
    pub(crate) back: Vec<MemberId>,
    /// Their former lives were lost, and they are here.
    pub(crate) back_restarted: Vec<MemberId>,
}

impl Partings {
    /// The members of the last regular configuration.
    pub(crate) fn members(&self) -> &[MemberId] {
        &self.members
    }

    /// A regular configuration was installed.
    pub(crate) fn note(&mut self, configuration: &Configuration) -> Parted {
        let members = &configuration.members;
        let mut parted = Parted::default();
        for member in members {
            let lost = self.lost.remove(member.node);
            match lost.map(|lost| lost == member.incarnation) {
                Some(true) => parted.back.push(*member),
                Some(false) => parted.back_restarted.push(*member),
                None => {}
            }
        }
        let gone = self.members.iter().filter(|it| !members.contains(it));
        for member in gone {
            let is_here = members.iter().any(|it| it.node == member.node);
            let has_left = configuration.left.contains(member);
            let list = match (has_left, is_here) {
                (true, false) => &mut parted.left,
                (true, true) => &mut parted.restarted,
                (false, true) => &mut parted.crashed,
                (false, false) => {
                    self.lost.insert(member.node, member.incarnation);
                    &mut parted.lost
                }
            };
            list.push(*member);
        }
        self.members.clone_from(members);
        parted
    }
}

#[cfg(test)]
mod tests {
    use groupcast_core::{ConfigId, ConfigurationKind, NodeId};

    use super::*;

    fn member(node: u64, incarnation: u64) -> MemberId {
        MemberId {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        }
    }

    fn note(partings: &mut Partings, members: &[MemberId], left: &[MemberId]) -> Parted {
        partings.note(&Configuration {
            kind: ConfigurationKind::Regular,
            id: ConfigId {
                counter: 1,
                representative: members[0],
            },
            members: members.to_vec(),
            left: left.to_vec(),
        })
    }

    #[test]
    fn who_was_lost_is_back_once() {
        let (a, b, c) = (member(1, 1), member(2, 1), member(3, 1));
        let mut partings = Partings::default();
        assert_eq!(note(&mut partings, &[a, b, c], &[]), Parted::default());
        assert_eq!(note(&mut partings, &[a], &[]).lost, [b, c]);
        assert_eq!(partings.members(), [a]);
        let next = member(3, 2);
        let parted = note(&mut partings, &[a, b, next], &[]);
        let back = Parted {
            back: vec![b],
            back_restarted: vec![next],
            ..Parted::default()
        };
        assert_eq!(parted, back);
        assert_eq!(note(&mut partings, &[a, b, next], &[]), Parted::default());
    }

    #[test]
    fn who_is_here_in_its_next_life_was_restarted() {
        let (a, b, c) = (member(1, 1), member(2, 1), member(3, 1));
        let mut partings = Partings::default();
        note(&mut partings, &[a, b, c], &[]);
        let all = [a, member(2, 2), member(3, 2)];
        let parted = note(&mut partings, &all, &[c]);
        assert_eq!((&parted.crashed, &parted.restarted), (&vec![b], &vec![c]));
        assert_eq!((parted.lost, parted.left), (vec![], vec![]));
        let parted = note(&mut partings, &[a, all[1]], &[all[2]]);
        assert_eq!((parted.left, parted.back), (vec![all[2]], vec![]));
    }

    #[test]
    fn of_many_that_are_lost_the_latest_are_known() {
        let own = member(0, 1);
        let most = Latest::<Incarnation>::MAX as u64;
        let mut partings = Partings::default();
        for number in 1..=most + 1 {
            note(&mut partings, &[own, member(number, 1)], &[]);
            note(&mut partings, &[own], &[]);
        }
        let all = [1, 2, most + 1].map(|number| member(number, 1));
        let back = note(&mut partings, &[&[own], &all[..]].concat(), &[]).back;
        assert_eq!(back, all[1..]);
    }
}
