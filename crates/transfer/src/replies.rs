//! Replies that have not come whole: a bound for each, and one for all of them together.

use std::collections::BTreeMap;

use groupcast_core::MemberId;

use crate::request::Became;

/// The replies of all members that are replying.
#[derive(Debug)]
pub(crate) struct Replies {
    each_max: usize,
    all_max: usize,
    /// Bytes of all of them.
    held: usize,
    of: BTreeMap<MemberId, Result<Vec<u8>, Became>>,
}

impl Replies {
    /// None yet. One has `each_max` bytes at most, and all that are kept `all_max`.
    pub(crate) fn new(each_max: usize, all_max: usize) -> Self {
        Self {
            each_max,
            all_max,
            held: 0,
            of: BTreeMap::new(),
        }
    }

    /// The next bytes of a member's reply have come. If all together are too many then, the longest
    /// is given up.
    pub(crate) fn take(&mut self, member: MemberId, bytes: &[u8]) {
        let reply = self.of.entry(member).or_insert_with(|| Ok(Vec::new()));
        let Ok(kept) = reply else { return };
        if kept.len() + bytes.len() > self.each_max {
            return self.give_up(member, Became::TooLong);
        }
        kept.extend_from_slice(bytes);
        self.held += bytes.len();
        while self.held > self.all_max {
            let kept = self.of.iter().map(|(member, it)| (len(it), *member));
            let Some((_, longest)) = kept.max() else {
                return;
            };
            self.give_up(longest, Became::Crowded);
        }
    }

    /// The reply has come whole.
    ///
    /// # Errors
    /// What became of it if it was given up.
    pub(crate) fn end(&mut self, member: MemberId) -> Result<Vec<u8>, Became> {
        let reply = self.of.remove(&member).unwrap_or_else(|| Ok(Vec::new()));
        self.held -= len(&reply);
        reply
    }

    /// No more will come of the member's reply.
    pub(crate) fn forget(&mut self, member: MemberId) {
        let _ = self.end(member);
    }

    fn give_up(&mut self, member: MemberId, became: Became) {
        if let Some(given_up) = self.of.insert(member, Err(became)) {
            self.held -= len(&given_up);
        }
    }
}

/// The bytes that are kept of a reply.
fn len(reply: &Result<Vec<u8>, Became>) -> usize {
    reply.as_ref().map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use groupcast_core::{Incarnation, NodeId};

    use super::*;

    fn member(number: u64) -> MemberId {
        MemberId {
            node: NodeId(number),
            incarnation: Incarnation(1),
        }
    }

    #[test]
    fn of_replies_that_take_too_much_together_the_longest_makes_room() {
        let mut replies = Replies::new(1_000, 10_000);
        for number in 0..1_000 {
            replies.take(member(number), &[1; 5]);
            let kept = replies.of.values().map(len).sum::<usize>();
            assert_eq!(replies.held, kept);
        }
        for number in 0..100 {
            replies.take(member(number), &[1; 900]);
            assert!(replies.held <= 10_000, "{}", replies.held);
        }
        let crowded = (0..100).filter(|it| replies.of[&member(*it)] == Err(Became::Crowded));
        assert!((90..100).contains(&crowded.count()));
        assert_eq!(replies.end(member(500)), Ok(vec![1; 5]), "it is short");
        // What is given up stays that, and its bytes are not kept.
        let longest = replies.of.iter().find(|(_, it)| it.is_err());
        let longest = *longest.unwrap().0;
        let held = replies.held;
        replies.take(longest, &[1; 5]);
        assert_eq!(replies.held, held);
        assert_eq!(replies.end(longest), Err(Became::Crowded));
        replies.take(member(2_000), &[1; 1_001]);
        assert_eq!(replies.end(member(2_000)), Err(Became::TooLong));
        assert_eq!(replies.end(member(3_000)), Ok(Vec::new()), "it is empty");
        for number in 0..1_000 {
            replies.forget(member(number));
        }
        assert_eq!((replies.held, replies.of.len()), (0, 0));
    }
}
