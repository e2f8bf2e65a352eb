//! A program that asks a group of hosts by the library (`docs/requests.md`), on a host of a bed.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Key, LinkReach, RequestEvent, Requesting, TransferLink, request,
};
use serde_json::json;

use super::{Outcome, Role};

/// The part of the requester, by its hidden word.
pub const ROLE: Role = (ASK, ask);

/// The word for [`ROLE`], before `NAME INTERFACE GROUP KEY MEMBERS TEXT`.
pub const ASK: &str = "ask-members";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most bytes of a reply.
const REPLY_MAX: usize = 256 << 10;

/// Asks this many members, and prints the lines that `groupcast request --json` has for replies and
/// for the end.
fn ask(words: &[&str]) -> Outcome {
    let [name, interface, group, key, members, text] = words else {
        return Err(format!("usage: {ASK} NAME INTERFACE GROUP KEY MEMBERS TEXT").into());
    };
    let members = members.parse()?;
    let requesting = Requesting {
        bytes: (*text).to_owned().into(),
        audience: Audience::Between {
            min: members,
            max: members,
        },
        subgroups: Subgroups::ALL,
        deliver_to: None,
        timeout: PATIENCE,
        reply_max: REPLY_MAX,
        replies_max: 128 << 20,
        link: TransferLink {
            name: (*name).into(),
            interface: interface.parse()?,
            group: group.parse()?,
            key: Some(Key::load(Path::new(key))?),
            bulk: Requesting::settings(),
            fit_packet: true,
            ttl: 1,
            dscp: 0,
            reach: LinkReach::default(),
        },
    };
    let began = Instant::now();
    request(requesting, &AtomicBool::new(false), &mut |event| {
        if let RequestEvent::Reply { member, bytes, .. } = event {
            let text = String::from_utf8_lossy(bytes);
            println!(
                "{}",
                json!({ "event": "reply", "member": member, "text": text })
            );
        }
    })?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{}", json!({ "event": "ended", "seconds": seconds }));
    Ok(())
}
