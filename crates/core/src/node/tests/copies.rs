//! Nodes without multicast among nodes that have it: who gets copies, on whose word, and for how
//! long.

use core::time::Duration;

use super::*;

/// A node without multicast that knows the addresses of `seeds`.
fn without(index: usize, life: u64, seeds: &[usize]) -> Node<Courier> {
    let seeds = seeds.iter().map(|seed| address(*seed)).collect();
    node_with(index, life, Reach::Mesh(seeds), AdmissionConfig::default())
}

/// Nodes 0 to 2 with multicast and nodes 3 and 4 without, which know the addresses of all; they
/// have admitted one another.
fn mixed() -> Nodes {
    let mut nodes: Vec<Node<Courier>> = (0..3).map(|index| node(index, 1)).collect();
    nodes.extend((3..5).map(|index| without(index, 1, &[0, 1, 2, 3, 4])));
    let mut nodes = Nodes(nodes);
    introduce(&mut nodes);
    nodes
}

/// All nodes say something to the group, until all of them have heard each other.
fn introduce(nodes: &mut Nodes) {
    // A peer that is not admitted yet gets no copy, and challenges keep a distance: the next time
    // all do.
    for round in 0..3 {
        for index in 0..nodes.0.len() {
            nodes.submit(index, Destination::Group, "hello");
        }
        nodes.settle_at(Time::from_millis(100 * round));
    }
    for node in &mut nodes.0 {
        courier(node).inbox.clear();
    }
}

fn copied(node: &Node<Courier>) -> Vec<SocketAddr> {
    node.copies().iter().map(|copy| copy.address).collect()
}

fn addresses(indices: &[usize]) -> Vec<SocketAddr> {
    indices.iter().map(|index| address(*index)).collect()
}

/// What `node` sends to the group at `now`, hellos left out; whether it was sent.
fn send_to_group(node: &mut Node<Courier>, now: Time) -> Vec<Route> {
    courier(node).outbox.push_back((Destination::Group, "x"));
    let mut buf = node.transmit_buf(1);
    let mut routes = Vec::new();
    while let Some(outgoing) = node.poll_transmit(now, &mut buf) {
        routes.push(outgoing.route);
    }
    routes
}

#[test]
fn those_without_multicast_get_copies_of_the_same_bytes_and_no_others_do() {
    let mut nodes = mixed();
    for index in 0..3 {
        assert_eq!(copied(&nodes.0[index]), addresses(&[3, 4]));
        assert!(nodes.0[index].copies().iter().all(|copy| copy.data_apart));
    }
    assert_eq!(copied(&nodes.0[3])[..3], addresses(&[0, 1, 2]));
    for index in 0..5 {
        let sealed = nodes.0[index].counters().sealed;
        let sent = nodes.seal(index, Destination::Group, "one for all");
        assert_eq!(nodes.0[index].counters().sealed, sealed + 1, "sealed once");
        for to in (0..5).filter(|to| *to != index) {
            assert_eq!(nodes.deliver(to, &sent), Ok(()), "{index} to {to}");
        }
    }
}

#[test]
fn what_is_for_one_member_goes_to_it_alone_and_says_where_it_takes_data() {
    let mut nodes = mixed();
    for (from, to, data_apart) in [(0, 3, true), (3, 0, false), (3, 4, true), (0, 1, false)] {
        let member = nodes.member(to);
        let sent = nodes.seal(from, member, "for one");
        let address = address(to);
        let recipient = Recipient {
            address,
            data_apart,
        };
        assert_eq!(sent.route, Route::Unicast(recipient), "{from} to {to}");
    }
}

#[test]
fn a_peer_that_was_not_configured_gets_copies_once_it_is_admitted() {
    let mut nodes = Nodes(Vec::from([node(0, 1), without(1, 1, &[0]), node(2, 1)]));
    introduce(&mut nodes);
    assert_eq!(copied(&nodes.0[1]), addresses(&[0]), "nobody told it of 2");
    // Node 2 is told the address by its configuration, as a node without multicast is.
    nodes.0[2] = without(2, 2, &[1]);
    introduce(&mut nodes);
    assert_eq!(copied(&nodes.0[1]), addresses(&[0, 2]));
    assert_eq!(copied(&nodes.0[2]), addresses(&[1]));
}

#[test]
fn an_address_in_the_configuration_that_is_not_admitted_takes_everything_at_its_port() {
    let node = without(0, 1, &[1, 2, 1]);
    assert_eq!(copied(&node), addresses(&[1, 2]), "each once");
    assert!(node.copies().iter().all(|copy| !copy.data_apart));
}

/// A hello of node `from` to node `to`, sealed as any.
fn hello(nodes: &mut Nodes, from: usize, to: usize, hello: Hello) -> Sent {
    let addressee = nodes.0[to].local().incarnation;
    let node = &mut nodes.0[from];
    let mut buf = node.transmit_buf(1);
    buf.push(&[&hello.encode()]);
    node.seal(Channel::NODE, Some(addressee), &mut buf);
    Sent {
        from: address(from),
        route: unicast(to),
        copies: Vec::new(),
        bytes: buf.as_bytes().to_vec(),
    }
}

#[test]
fn nobody_gets_copies_on_the_word_of_a_datagram_that_proves_nothing() {
    let mut nodes = Nodes::introduced(2);
    let node = nodes.0[1].local().node;
    let claim = Hello {
        challenge: None,
        echo: Some(Echo {
            node,
            cookie: Cookie::from_bits(7),
            multicast: false,
        }),
    };
    let claim = hello(&mut nodes, 1, 0, claim);
    assert_eq!(nodes.deliver(0, &claim), Ok(()));
    assert!(nodes.0[0].copies().is_empty(), "the cookie is not node 0's");
    // From another address, where nobody was challenged.
    let moved = Sent {
        from: address(9),
        ..nodes.seal(1, Destination::Group, "as if from elsewhere")
    };
    assert_eq!(nodes.deliver(0, &moved), Ok(()));
    assert!(nodes.0[0].copies().is_empty());
}

#[test]
fn who_does_not_answer_gets_no_copies_until_it_is_heard_again() {
    let mut nodes = mixed();
    let mut stopped = None;
    let mut asked = 0;
    for second in 1..60 {
        let now = Time::from_millis(1_000 * second);
        let routes = send_to_group(&mut nodes.0[0], now);
        let hellos = routes.iter().filter(|it| matches!(it, Route::Unicast(_)));
        asked += hellos.count();
        if nodes.0[0].copies().is_empty() {
            stopped.get_or_insert(second);
        }
    }
    assert!((10..20).contains(&stopped.unwrap()), "{stopped:?}");
    assert!((20..=22).contains(&asked), "{asked} questions to two");
    let here = nodes.seal(4, Destination::Group, "here I am");
    assert_eq!(nodes.deliver(0, &here), Ok(()));
    assert_eq!(copied(&nodes.0[0]), addresses(&[4]));
}

#[test]
fn who_answers_gets_copies_for_as_long_as_it_does() {
    let mut nodes = mixed();
    for second in 1..60 {
        let now = Time::from_millis(1_000 * second);
        for index in [0, 3, 0] {
            if index == 0 && second % 2 == 0 {
                courier(&mut nodes.0[0])
                    .outbox
                    .push_back((Destination::Group, "x"));
            }
            // Hellos go to and fro; nothing else reaches node 0, and node 4 is away.
            let mut buf = nodes.0[index].transmit_buf(1);
            while let Some(outgoing) = nodes.0[index].poll_transmit(now, &mut buf) {
                let bytes = BytesMut::from(buf.as_bytes());
                match outgoing.route {
                    Route::Unicast(to) if to.address == address(3 - index) => {
                        let to = &mut nodes.0[3 - index];
                        to.handle_datagram(now, address(index), bytes).unwrap();
                    }
                    _ => {}
                }
            }
        }
    }
    assert_eq!(copied(&nodes.0[0]), addresses(&[3]));
}

#[test]
fn a_node_that_begins_anew_gets_one_copy_wherever_it_is() {
    let mut nodes = mixed();
    nodes.0[3] = without(3, 2, &[0, 1, 2, 4]);
    introduce(&mut nodes);
    assert_eq!(nodes.0[0].peers().count(), 5, "the former life too");
    let mut all = copied(&nodes.0[0]);
    all.sort_unstable();
    assert_eq!(all, addresses(&[3, 4]));
    // Its next life has multicast.
    nodes.0[3] = node(3, 3);
    introduce(&mut nodes);
    assert_eq!(copied(&nodes.0[0]), addresses(&[4]));
}

#[test]
fn no_more_get_copies_than_may_and_only_those_that_are_gone_make_room() {
    let admission = AdmissionConfig {
        copies_max: 2,
        ..AdmissionConfig::default()
    };
    let mut nodes = Nodes(Vec::from([node_with(0, 1, Reach::Multicast, admission)]));
    nodes.0.extend((1..4).map(|index| without(index, 1, &[0])));
    introduce(&mut nodes);
    assert_eq!(copied(&nodes.0[0]), addresses(&[1, 2]));
    assert!(nodes.0[0].counters().copies_refused > 0);
    assert_eq!(nodes.0[3].peers().count(), 0, "it was not answered");
    // A new life of one that has a place keeps it.
    nodes.0[2] = without(2, 2, &[0]);
    introduce(&mut nodes);
    let mut all = copied(&nodes.0[0]);
    all.sort_unstable();
    assert_eq!(all, addresses(&[1, 2]));

    let mut now = Time::ZERO;
    while !nodes.0[0].copies().is_empty() {
        now += Duration::from_secs(1);
        send_to_group(&mut nodes.0[0], now);
    }
    let here = nodes.seal(3, Destination::Group, "here I am");
    assert_eq!(nodes.deliver_at(now, 0, &here), Err(Rejected::Unadmitted));
    for (from, to) in [(0, 3), (3, 0), (0, 3)] {
        let sent = nodes.sent(from).unwrap();
        assert_eq!(nodes.deliver_at(now, to, &sent), Ok(()));
    }
    assert_eq!(copied(&nodes.0[0]), addresses(&[3]));
    // Of the two that were gone, one finds a place.
    let here = [1, 2].map(|index| nodes.seal(index, Destination::Group, "back again"));
    assert_eq!(nodes.deliver_at(now, 0, &here[0]), Ok(()));
    assert_eq!(
        nodes.deliver_at(now, 0, &here[1]),
        Err(Rejected::Unadmitted)
    );
    assert_eq!(nodes.0[0].copies().len(), 2);
}

/// Node 0 has multicast and invites those at the addresses `invited`; node 1 has multicast, too.
fn with_invited(invited: &[usize]) -> Vec<Node<Courier>> {
    let admission = AdmissionConfig {
        copies_max: invited.len(),
        ..AdmissionConfig::default()
    };
    let reach = (Reach::Multicast, invited);
    Vec::from([inviting(0, 1, reach, admission), node(1, 1)])
}

#[test]
fn an_invited_node_without_multicast_needs_to_know_nobody() {
    let mut nodes = with_invited(&[2, 3]);
    nodes.extend((2..4).map(|index| without(index, 1, &[])));
    let mut nodes = Nodes(nodes);
    introduce(&mut nodes);
    assert_eq!(copied(&nodes.0[0]), addresses(&[2, 3]));
    for index in 2..4 {
        assert_eq!(copied(&nodes.0[index]), addresses(&[0]));
    }
    assert!(nodes.0[1].copies().is_empty(), "it has invited nobody");
    let sent = nodes.seal(0, Destination::Group, "one for all");
    for to in 1..4 {
        assert_eq!(nodes.deliver(to, &sent), Ok(()));
    }
}

#[test]
fn an_address_where_nobody_proves_to_be_gets_invitations_and_nothing_else() {
    let mut node = with_invited(&[2]).remove(0);
    let (mut invitations, mut largest) = (0, 0);
    for tenth in 0..100 {
        courier(&mut node)
            .outbox
            .push_back((Destination::Group, "a large body that is for the group"));
        let mut buf = node.transmit_buf(1);
        while let Some(outgoing) = node.poll_transmit(Time::from_millis(100 * tenth), &mut buf) {
            assert!(node.copied().is_empty());
            if outgoing.route == unicast(2) {
                invitations += 1;
                largest = largest.max(buf.as_bytes().len());
            }
        }
    }
    assert_eq!(invitations, 50, "five a second");
    let invitation = Node::<Courier>::HEADROOM + Hello::CHALLENGE_LEN + TAG_LEN;
    assert_eq!(largest, invitation, "and the answer is no longer");
}

#[test]
fn an_invitation_is_answered_though_its_sender_is_known() {
    let mut nodes = with_invited(&[2]);
    nodes.push(without(2, 1, &[]));
    let mut nodes = Nodes(nodes);
    let now = Time::ZERO;
    // The last echo is lost: node 2 has admitted node 0, and says nothing by itself.
    nodes.submit(0, Destination::Group, "hello");
    let first = nodes.sent(0).unwrap();
    assert_eq!(first.route, Route::Multicast);
    let mut lengths = Vec::new();
    for (from, to) in [(0, 2), (2, 0), (0, 2)] {
        let sent = nodes.sent(from).unwrap();
        lengths.push(sent.bytes.len());
        let _ = nodes.deliver(to, &sent);
    }
    assert!(
        lengths[1] <= lengths[0],
        "who asked in another's name sends him no more"
    );
    assert!(nodes.sent(2).is_some(), "it is lost");
    assert_eq!(nodes.0[2].peers().count(), 1);
    assert_eq!(nodes.0[0].peers().count(), 0);
    let later = now + Duration::from_secs(1);
    nodes.submit(0, Destination::Group, "hello");
    nodes.settle_at(later);
    assert_eq!(copied(&nodes.0[0]), addresses(&[2]));
}

#[test]
fn a_hello_for_all_is_no_invitation() {
    let mut nodes = with_invited(&[2]);
    nodes.push(without(2, 1, &[]));
    let mut nodes = Nodes(nodes);
    let node = &mut nodes.0[0];
    let mut buf = node.transmit_buf(1);
    let challenge = Hello {
        challenge: Some(Cookie::from_bits(7)),
        echo: None,
    };
    buf.push(&[&challenge.encode()]);
    node.seal(Channel::NODE, None, &mut buf);
    let sent = Sent {
        from: address(0),
        route: Route::Multicast,
        copies: Vec::new(),
        bytes: buf.as_bytes().to_vec(),
    };
    assert_eq!(nodes.deliver(2, &sent), Err(Rejected::Channel));
    assert!(nodes.sent(2).is_none(), "no answer");
}

#[test]
fn a_protocol_is_told_who_gets_copies_and_may_leave_some_out() {
    let mut nodes = mixed();
    let members = |nodes: &Nodes, all: &[usize]| -> Vec<MemberId> {
        all.iter().map(|index| nodes.0[*index].local()).collect()
    };
    let told = courier(&mut nodes.0[0]).told.clone();
    assert_eq!(told, members(&nodes, &[3, 4]));
    assert!(
        courier(&mut nodes.0[3]).told.is_empty(),
        "it has no multicast"
    );
    courier(&mut nodes.0[0]).leaves_out = Some(told[0]);
    let sent = nodes.seal(0, Destination::Group, "not for node 3");
    assert_eq!(sent.copies, addresses(&[4]));
    assert_eq!(copied(&nodes.0[0]), addresses(&[3, 4]), "it is there");
    courier(&mut nodes.0[0]).leaves_out = None;
    let sent = nodes.seal(0, Destination::Group, "for all");
    assert_eq!(sent.copies, addresses(&[3, 4]));
}

#[test]
fn the_multicast_and_each_copy_leave_first_in_turn() {
    let mut nodes = mixed();
    let node = &mut nodes.0[0];
    // In which order a datagram leaves for the group; `None` is the multicast address.
    let mut order = || {
        courier(node).outbox.push_back((Destination::Group, "x"));
        let mut buf = node.transmit_buf(1);
        let outgoing = node.poll_transmit(Time::ZERO, &mut buf);
        assert_eq!(outgoing.unwrap().route, Route::Multicast);
        let mut order: Vec<Option<SocketAddr>> =
            node.copied().iter().map(|it| Some(it.address)).collect();
        order.insert(node.copied_before(), None);
        order
    };
    let orders: Vec<_> = (0..6).map(|_| order()).collect();
    let all = [None, Some(address(3)), Some(address(4))];
    for place in 0..3 {
        let at_place = |target: &Option<SocketAddr>| {
            let of = orders.iter();
            of.filter(|order| order[place] == *target).count()
        };
        assert_eq!(all.each_ref().map(at_place), [2; 3], "{orders:?}");
    }
    assert!(orders.iter().all(|order| order.len() == 3));
}

#[test]
fn a_new_life_under_another_name_gets_copies_whatever_became_of_the_former() {
    let mut nodes = mixed();
    let former = nodes.0[3].local();
    // Another node at the address of node 3.
    let local = MemberId {
        node: NodeId(33),
        incarnation: Incarnation(33),
    };
    let config = NodeConfig {
        local,
        ..nodes.0[3].config.clone()
    };
    let mut other = Node::new(config, Box::new(Checksum(local.incarnation)), &Rng::new(33));
    other.open(CHANNEL, Courier::default());
    nodes.0[3] = other;
    introduce(&mut nodes);
    courier(&mut nodes.0[0]).leaves_out = Some(former);
    let sent = nodes.seal(0, Destination::Group, "once to each address");
    let mut all = sent.copies;
    all.sort_unstable();
    assert_eq!(all, addresses(&[3, 4]));
}

#[test]
fn a_peer_that_was_not_configured_is_forgotten_when_it_is_silent() {
    let mut nodes = with_invited(&[2]);
    nodes.push(without(2, 1, &[]));
    let mut nodes = Nodes(nodes);
    introduce(&mut nodes);
    assert_eq!(copied(&nodes.0[2]), addresses(&[0]));
    for second in 1..30 {
        send_to_group(&mut nodes.0[2], Time::from_millis(1_000 * second));
    }
    assert!(nodes.0[2].copies().is_empty(), "the sender has gone");
}
