//! The verdict on what clients saw, from end to end.
//!
//! It knows only what clients know, and which configurations came to which daemon. Each rule is a
//! function; a rule that speaks of all subscribers looks at the witnesses, who are in all groups
//! from the beginning.

use std::collections::{BTreeMap, BTreeSet};

use groupcast_core::{ConfigId, MemberId, OrderPlace, Service};
use groupcast_session::View;
use groupcast_session::frame::{Disconnect, Message};
use groupcast_sim::{Cluster, Status};

use super::client::{Client, Life, Published, Seen, origin};
use super::daemon::Daemon;
use super::ledger::Ledger;
use super::{GROUPS, asking};

/// What the clients of a finished run have against it, in which all came to be `at_peace`, or not.
pub(super) fn violations(
    cluster: &Cluster<Daemon>,
    ledger: &Ledger,
    at_peace: bool,
) -> Vec<String> {
    let mut found = ledger.violations.clone();
    judge_views(ledger, &mut found);
    judge_order(ledger, &mut found);
    judge_payloads(ledger, &mut found);
    judge_gaps(ledger, &mut found);
    judge_last_words(ledger, &mut found);
    let living = living(cluster);
    asking::judge(ledger, &mut found);
    if at_peace {
        asking::judge_roles(&living, ledger, &mut found);
    }
    judge_accepted(&living, ledger, &mut found);
    judge_virtual_synchrony(&living, ledger, &mut found);
    found
}

/// What keeps the clients of living daemons apart from each other: a witness without its last view
/// of a group, or with another one than others; `None` if nothing does.
pub(super) fn apart(cluster: &Cluster<Daemon>, ledger: &Ledger) -> Option<String> {
    let living = living(cluster);
    for group in GROUPS {
        let mut first: Option<&View> = None;
        for member in &living {
            let Some(witness) = ledger.witness(*member) else {
                continue;
            };
            let mut views = witness.views().rev();
            let Some(view) = views.find(|view| &*view.group == group) else {
                return Some(format!("{member:?} shows no view of {group}"));
            };
            if *first.get_or_insert(view) != view {
                return Some(format!("{member:?} has another view of {group}: {view:?}"));
            }
        }
    }
    let asks = |client: &&Client| {
        let daemon = client.lives.last().map(|life| life.daemon);
        client.open_requests() > 0 && daemon.is_some_and(|daemon| living.contains(&daemon))
    };
    if let Some(client) = ledger.clients.iter().find(asks) {
        let open = client.open_requests();
        return Some(format!(
            "{} waits for the end of {open} requests",
            client.name
        ));
    }
    let mut lives = ledger.lives();
    let stuck = lives
        .find(|(_, life)| life.said_bye && life.end.is_none() && living.contains(&life.daemon));
    stuck.map(|(client, _)| format!("{} has no answer to its good-bye", client.name))
}

fn living(cluster: &Cluster<Daemon>) -> Vec<MemberId> {
    let hosts = 0..cluster.hosts();
    let up = hosts.filter(|host| cluster.status(*host) == Status::Up);
    up.filter_map(|host| cluster.member(host)).collect()
}

/// Views of one name are equal wherever they were seen, and each is seen once in a connection.
fn judge_views(ledger: &Ledger, found: &mut Vec<String>) {
    let mut views: BTreeMap<(&str, String), &View> = BTreeMap::new();
    for (client, life) in ledger.lives() {
        let mut seen = BTreeSet::new();
        for view in life.views() {
            let name = (&*view.group, view.id.to_string());
            if !seen.insert(name.clone()) {
                found.push(format!("{} sees the view {name:?} twice", client.name));
            }
            let first = *views.entry(name.clone()).or_insert(view);
            if first != view {
                found.push(format!(
                    "views of the name {name:?} differ: {first:?}, {view:?}"
                ));
            }
        }
    }
}

/// One place has one message, places grow in a connection, and messages of one connection come in
/// the order in which they were published.
fn judge_order(ledger: &Ledger, found: &mut Vec<String>) {
    let mut places: BTreeMap<OrderPlace, (&[u8], &str)> = BTreeMap::new();
    for (client, life) in ledger.lives() {
        let mut before: Option<OrderPlace> = None;
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        for message in life.messages() {
            let (Some(place), Some((from, number))) = (message.place, origin(message)) else {
                continue;
            };
            let what = (&message.payload[..], message.sender.as_str());
            if *places.entry(place).or_insert(what) != what {
                found.push(format!("{} has another message at {place:?}", client.name));
            }
            if before.is_some_and(|before| before.seq >= place.seq) {
                found.push(format!("{} goes back to {place:?}", client.name));
            }
            before = Some(place);
            if last.insert(from, number).is_some_and(|last| last >= number) {
                found.push(format!("{} has {from}#{number} out of order", client.name));
            }
        }
    }
}

/// What comes was published, by that client, to that group, and comes once, unless it is
/// unreliable.
fn judge_payloads(ledger: &Ledger, found: &mut Vec<String>) {
    let lives = ledger.lives();
    let published: BTreeMap<usize, (&Client, &Life)> = lives
        .map(|(client, life)| (life.number, (client, life)))
        .collect();
    for (client, life) in ledger.lives() {
        let mut seen = BTreeSet::new();
        for message in life.messages() {
            let known = origin(message).and_then(|(from, number)| {
                let (sender, of) = published.get(&from)?;
                let published = of.published.get(number as usize - 1)?;
                let name = message.sender.as_str().split('@').next()?;
                let same = name == sender.name && is_for(published, message);
                same.then_some((from, number))
            });
            match known {
                None => found.push(format!(
                    "{} has {message:?}, which nobody published",
                    client.name
                )),
                Some(id) if !seen.insert(id) && message.service != Service::Unreliable => {
                    found.push(format!("{} has {id:?} twice", client.name));
                }
                Some(_) => {}
            }
        }
    }
}

fn is_for(published: &Published, message: &Message) -> bool {
    message.service == published.service
        && message
            .destinations
            .iter()
            .eq(published.groups.iter().map(String::as_str))
        && published
            .groups
            .iter()
            .any(|group| group == message.group())
}

/// A gap has a view around it: between messages of two configurations a witness sees a view.
fn judge_gaps(ledger: &Ledger, found: &mut Vec<String>) {
    for (client, life) in ledger.lives().filter(|(client, _)| client.witness) {
        let mut config: Option<ConfigId> = None;
        for seen in &life.seen {
            match seen {
                Seen::View(_) => config = None,
                Seen::Message(message) => {
                    let Some(place) = message.place else { continue };
                    if config
                        .replace(place.config)
                        .is_some_and(|it| it != place.config)
                    {
                        let name = &client.name;
                        found.push(format!("{name} comes to {place:?} without a view"));
                    }
                }
            }
        }
    }
}

/// The last word of a connection is the one that its daemon said, and a good-bye is answered when
/// all is decided.
fn judge_last_words(ledger: &Ledger, found: &mut Vec<String>) {
    for (client, life) in ledger.lives().filter(|(_, life)| !life.vanished) {
        let Some((code, text)) = &life.end else {
            continue;
        };
        let name = &client.name;
        if *code == Disconnect::Bye && (!life.said_bye || life.undecided > 0) {
            let undecided = life.undecided;
            found.push(format!(
                "{name} gets its good-bye with {undecided} undecided"
            ));
        }
        // A client that reads too late finds the connection closed.
        let cut = *code == Disconnect::Other;
        if let Some(told) = life.told.as_ref().filter(|_| !cut)
            && *told != (*code, text.clone())
        {
            found.push(format!(
                "{name} hears {code:?} {text:?} instead of {told:?}"
            ));
        }
    }
}

/// Whoever stayed with the publisher's daemon until it accepted a message, and went on with it, has
/// the message.
fn judge_accepted(living: &[MemberId], ledger: &Ledger, found: &mut Vec<String>) {
    let witnesses: BTreeMap<MemberId, &Life> = living
        .iter()
        .filter_map(|member| Some((*member, ledger.witness(*member)?)))
        .collect();
    let have: BTreeMap<MemberId, BTreeMap<(usize, u64), &Message>> = witnesses
        .iter()
        .map(|(member, life)| {
            let named = life.messages().filter_map(|it| Some((origin(it)?, it)));
            (*member, named.collect())
        })
        .collect();
    for (client, life) in ledger.lives() {
        let Some(witness) = witnesses.get(&life.daemon) else {
            continue;
        };
        let (Some(own), Some(configs)) = (have.get(&life.daemon), ledger.configs.get(&life.daemon))
        else {
            continue;
        };
        for (index, published) in life.published.iter().enumerate() {
            let number = index as u64 + 1;
            let Some(accepted_in) = life.accepted(number) else {
                continue;
            };
            if published.service == Service::Unreliable {
                continue;
            }
            let Some(message) = own.get(&(life.number, number)) else {
                let own = life.own(number).and_then(|it| Some((it, it.place?)));
                if let Some((_, place)) = own.filter(|(it, at)| was_in(witness, it, *at)) {
                    let name = &client.name;
                    found.push(format!(
                        "{name} has its {number} at {place:?}, its witness not"
                    ));
                }
                continue;
            };
            let Some(place) = message.place else { continue };
            let Some(first) = configs.iter().position(|id| *id == place.config) else {
                found.push(format!("{place:?} is in no configuration of its daemon"));
                continue;
            };
            let end = (accepted_in + 1).min(configs.len());
            let together = &configs[first.min(end)..end];
            for (member, witness) in &witnesses {
                let theirs = ledger.configs.get(member).map_or(&[][..], Vec::as_slice);
                let mut windows = theirs.windows(together.len().max(1));
                let stayed = windows.any(|some| some == together);
                let missed = !have[member].contains_key(&(life.number, number));
                if stayed && missed && was_in(witness, message, place) {
                    let name = &client.name;
                    found.push(format!("{member:?} stayed and misses {name}'s {number}"));
                }
            }
        }
    }
}

/// Whether the witness was in one of the groups of `message` before it was ordered.
fn was_in(witness: &Life, message: &Message, place: OrderPlace) -> bool {
    message.destinations.iter().any(|group| {
        let first = witness.views().find(|view| &*view.group == group);
        first.is_some_and(|view| view.id.seq != 0 && view.id.seq < place.seq)
    })
}

/// Two daemons that installed a configuration and went on together delivered the same messages in
/// it, as far as they were for both witnesses.
fn judge_virtual_synchrony(living: &[MemberId], ledger: &Ledger, found: &mut Vec<String>) {
    let installed = |life: &Life| -> BTreeSet<ConfigId> {
        let regular = life
            .views()
            .filter(|view| view.id.within.is_none() && view.changed.is_none());
        regular.map(|view| view.id.config).collect()
    };
    for (index, one) in living.iter().enumerate() {
        for two in &living[index + 1..] {
            let (Some(first), Some(second)) = (ledger.witness(*one), ledger.witness(*two)) else {
                continue;
            };
            let both = [first, second];
            let common: BTreeSet<ConfigId> = &installed(first) & &installed(second);
            let moves = |member| {
                let configs = ledger.configs.get(member).map_or(&[][..], Vec::as_slice);
                configs
                    .windows(2)
                    .map(|step| (step[0], step[1]))
                    .collect::<BTreeSet<_>>()
            };
            let together = &moves(one) & &moves(two);
            for (config, _) in together
                .iter()
                .filter(|(config, _)| common.contains(config))
            {
                let [ones, twos] = both.map(|life| shared(life, both, *config));
                if ones != twos {
                    found.push(format!(
                        "{one:?} and {two:?} went on together from {config} with other messages: {:?}",
                        ones.symmetric_difference(&twos).next()
                    ));
                }
            }
        }
    }
}

/// The places of what `life` has of `config` that was for both witnesses.
fn shared(life: &Life, both: [&Life; 2], config: ConfigId) -> BTreeSet<OrderPlace> {
    let messages = life.messages().filter_map(|message| {
        let place = message.place.filter(|place| place.config == config)?;
        let for_both = both.iter().all(|one| was_in(one, message, place));
        for_both.then_some(place)
    });
    messages.collect()
}
