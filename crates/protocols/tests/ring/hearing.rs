//! Goal: members say who is left out and why, and from whom nothing comes.
//! Method: ways are closed; what the members around them say.

use std::time::Duration;

use groupcast_core::status::{GivenUp, Hearing};
use groupcast_core::{Ordered as _, Service, SocketClass};
use groupcast_protocols::ring::Ring;
use groupcast_sim::Cluster;

use super::formed;

fn hearing(cluster: &Cluster<Ring>, host: usize) -> Hearing {
    let ring = cluster.protocol(host).expect("it runs");
    ring.hearing(cluster.now())
}

/// The hosts in the order in which the token visits them.
fn round(cluster: &Cluster<Ring>) -> Vec<usize> {
    let members = &cluster.current_configuration(0).expect("installed").members;
    let host = |member| (0..cluster.hosts()).find(|it| cluster.member(*it) == Some(member));
    let hosts = members.iter().map(|member| host(*member).expect("a host"));
    hosts.collect()
}

/// Why `host` says that `member` is left out, if it was heard there in the last second.
fn why(cluster: &Cluster<Ring>, host: usize, member: usize) -> Option<GivenUp> {
    let member = cluster.member(member)?;
    let said = hearing(cluster, host).left_out;
    let said = said.iter().find(|it| it.member == member)?;
    let heard = cluster.now() - said.heard?;
    (heard < Duration::from_secs(1)).then_some(said.why)
}

#[test]
fn who_hears_a_member_that_is_left_out_knows_who_does_not() {
    let mut cluster = formed(5, 71);
    let order = round(&cluster);
    let (hears, pair) = (order[0], [order[2], order[3]]);
    cluster.block(pair[0], pair[1]);
    cluster.block(pair[1], pair[0]);
    let word = |cluster: &Cluster<Ring>| {
        [pair, [pair[1], pair[0]]]
            .into_iter()
            .find(|[out, witness]| {
                let witness = cluster.member(*witness).map(GivenUp::Word);
                witness.is_some() && why(cluster, hears, *out) == witness
            })
    };
    let told = |cluster: &Cluster<Ring>| word(cluster).is_some();
    cluster.must("a witness is named", told, Duration::from_secs(20));
    let [out, witness] = word(&cluster).expect("it was named");
    let not_heard = hearing(&cluster, witness).left_out;
    let not_heard = not_heard
        .iter()
        .find(|it| Some(it.member) == cluster.member(out));
    let not_heard = not_heard.expect("it is left out there, too");
    assert_eq!((not_heard.why, not_heard.heard), (GivenUp::Silent, None));
    assert_eq!(not_heard.answers, Some(false));
    let alone = |cluster: &Cluster<Ring>| why(cluster, out, hears) == Some(GivenUp::GaveUsUp);
    cluster.must(
        "it knows that it was given up",
        alone,
        Duration::from_secs(2),
    );
    cluster.heal();
    let one = Cluster::all_in_one_configuration;
    cluster.must("one ring", one, Duration::from_secs(5));
    cluster.run_for(Duration::from_secs(1));
    for host in order {
        assert_eq!(hearing(&cluster, host), Hearing::default());
    }
}

#[test]
fn a_closed_way_that_harms_nobody_is_known_where_it_leads() {
    let mut cluster = formed(5, 72);
    let order = round(&cluster);
    let (from, to) = (order[0], order[2]);
    let before = cluster.configurations(0).len();
    cluster.run_for(Duration::from_secs(30));
    cluster.block(from, to);
    let from = cluster.member(from).expect("it runs");
    let known = move |cluster: &Cluster<Ring>| hearing(cluster, to).unheard == [from];
    cluster.must("it is not heard", known, Duration::from_secs(15));
    for host in order.iter().filter(|host| **host != to) {
        assert_eq!(hearing(&cluster, *host).unheard, []);
    }
    cluster.heal();
    let heard = move |cluster: &Cluster<Ring>| hearing(cluster, to).unheard.is_empty();
    cluster.must("it is heard", heard, Duration::from_secs(3));
    assert_eq!(cluster.configurations(0).len(), before);
}

#[test]
fn the_length_that_does_not_get_through_is_known() {
    let mut cluster = formed(4, 73);
    let out = 2;
    cluster.drop_all(move |info| info.to == out && info.class == SocketClass::Data);
    for host in 0..4 {
        let long = vec![7; 5_000];
        cluster
            .submit(host, Service::Agreed, long)
            .expect("it is taken");
    }
    let misses = |cluster: &Cluster<Ring>| {
        let member = cluster.member(out).expect("it runs");
        let mut all = (0..4).flat_map(|host| hearing(cluster, host).left_out);
        all.any(|it| {
            let long = matches!(it.why, GivenUp::MissesPackets { bytes } if bytes > 1_000);
            long && it.member == member
        })
    };
    cluster.must("it is left out", misses, Duration::from_secs(2));
    let transitions = cluster.transitions().iter();
    let mut excluded = transitions.filter(|it| it.transition.cause == "member cannot receive");
    let first = excluded.next().expect("it was excluded");
    assert_eq!(first.transition.about, cluster.member(out));
}
