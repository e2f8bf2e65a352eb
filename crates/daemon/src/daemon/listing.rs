//! The answer to `groupcast groups`, described in `docs/status.md`, in parts: each turn of the loop
//! writes some of the groups.

use bytes::Bytes;
use groupcast_session::groups::Listed;
use groupcast_session::{ClientId, Engine};
use serde::Serialize;

/// So many names of groups and members stand in a part, about: a tenth of a millisecond.
const PART: usize = 512;

/// A group, in the answer.
#[derive(Serialize)]
struct SaidGroup<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approximate: bool,
    group: &'a str,
    members: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring: Option<&'a str>,
}

/// An answer that is being written.
pub(super) struct Listing {
    /// Who asked.
    pub(super) client: ClientId,
    listed: Listed,
    json: Vec<u8>,
}

impl Listing {
    /// Nothing is written yet.
    pub(super) fn begin(client: ClientId) -> Self {
        Self {
            client,
            listed: Listed::default(),
            json: b"[".to_vec(),
        }
    }

    /// Writes some more groups; returns whether all are written.
    pub(super) fn go_on(&mut self, engine: &Engine) -> bool {
        for group in engine.next_groups(&mut self.listed, PART) {
            if self.json.len() > 1 {
                self.json.push(b',');
            }
            let said = SaidGroup {
                approximate: group.approximate,
                group: &group.name,
                members: group.members.iter().map(AsRef::as_ref).collect(),
                ring: group.ring.as_deref(),
            };
            serde_json::to_writer(&mut self.json, &said)
                .expect("strings and flags can be written into memory");
        }
        self.listed.is_whole()
    }

    /// Who asked, and the answer.
    pub(super) fn finish(mut self) -> (ClientId, Bytes) {
        self.json.push(b']');
        (self.client, self.json.into())
    }
}
