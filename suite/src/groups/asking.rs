//! Requests, handlers and locks in the simulation: what clients ask and answer. The verdict on it
//! is that of [`crate::asking`].

use groupcast_core::{MemberId, Rng};

use super::GROUPS;
use super::client::Client;
use super::ledger::Ledger;
use crate::asking::{self, draw_ask, draw_role};

/// What the clients of a finished run have against what became of their requests.
pub(super) fn judge(ledger: &Ledger, found: &mut Vec<String>) {
    for client in &ledger.clients {
        client.asking.judge(&client.name, found);
    }
}

/// The same of roles, when all are together: two groups that are apart rightly have a holder each.
pub(super) fn judge_roles(living: &[MemberId], ledger: &Ledger, found: &mut Vec<String>) {
    let connected = ledger.clients.iter().filter(|client| {
        let daemon = client.lives.last().map(|life| life.daemon);
        client.is_connected() && daemon.is_some_and(|daemon| living.contains(&daemon))
    });
    let connected = connected.map(|client| (client.name.as_str(), &client.asking));
    asking::judge_roles(connected, found);
}

/// Something that a client does about requests and roles.
pub(super) fn act(client: &mut Client, rng: &mut Rng) {
    let group = rng.pick(&GROUPS).copied().unwrap_or(GROUPS[0]);
    let role = draw_role(rng);
    // Before its welcome, and without credit, it does something else another time.
    match rng.below(10) {
        0..5 => ask(client, rng, group),
        5..9 => {
            let _ = client.connection().join(group, false);
            let _ = client.connection().claim(group, role, rng.chance(0.5));
        }
        _ => {
            let _ = client.connection().release(group, role);
            client.asking.releases(group, role);
        }
    }
}

fn ask(client: &mut Client, rng: &mut Rng, group: &str) {
    let ask = draw_ask(rng);
    let number = client.asking.count() + 1;
    let payload = format!("{}?{number}", client.name);
    if let Ok(number) = client.connection().ask(group, ask, payload.as_bytes()) {
        client.asking.asks(number, ask);
    }
}

/// The client answers what it was given, most of it; whether there was anything.
pub(super) fn answer(client: &mut Client) -> bool {
    let mut any = false;
    for asked in client.asking.answerable() {
        let answered = client.connection().answer(asked.place.seq, &asked.payload);
        any |= answered.is_ok();
    }
    any
}
