//! Floods of strangers' datagrams: what they may cost, and that they keep nobody out.

use super::*;
use crate::node::hello::Hello;

/// A node under attack, and what it sent.
struct Target {
    node: Node<Courier>,
    /// Bytes of each hello that it sent, and where to.
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

impl Target {
    fn new(admission: AdmissionConfig) -> Self {
        let mut node = node(0, 1);
        node.admission = Admission::new(
            node.local(),
            Reach::Multicast,
            Vec::new(),
            admission,
            &Rng::new(5),
        );
        Self {
            node,
            sent: Vec::new(),
        }
    }

    /// `sent` arrives from `from`, and is answered.
    fn take(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) -> Result<(), Rejected> {
        let result = self.node.handle_datagram(now, from, BytesMut::from(bytes));
        let mut buf = self.node.transmit_buf(1);
        while let Some(outgoing) = self.node.poll_transmit(now, &mut buf) {
            let Route::Unicast(to) = outgoing.route else {
                panic!("a hello goes to one address");
            };
            self.sent.push((to.address, buf.as_bytes().to_vec()));
        }
        result
    }

    fn answers(&mut self) -> usize {
        core::mem::take(&mut self.sent).len()
    }
}

/// What `node` says to the group, sealed.
fn said(node: &mut Node<Courier>, body: &'static str) -> Vec<u8> {
    courier(node).outbox.push_back((Destination::Group, body));
    polled(node).expect("it was submitted")
}

fn polled(node: &mut Node<Courier>) -> Option<Vec<u8>> {
    let mut buf = node.transmit_buf(1);
    node.poll_transmit(Time::ZERO, &mut buf)?;
    Some(buf.as_bytes().to_vec())
}

fn micros(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}

/// A datagram of each of `count` lives that are over.
fn recordings(count: u64) -> Vec<Vec<u8>> {
    let lives = 100..100 + count;
    lives
        .map(|life| said(&mut node(9, life), "a former life"))
        .collect()
}

/// When a newcomer that says something every 20 ms is admitted at `target`, while at every
/// microsecond of `flood` something arrives; `None` if not within 5 s.
fn admitted_after(
    target: &mut Target,
    mut flood: impl FnMut(&mut Target, u64),
    home: SocketAddr,
) -> Option<u64> {
    let mut newcomer = node(1, 1);
    for micro in 0..5_000_000 {
        flood(target, micro);
        if micro % 20_000 == 7 {
            let bytes = said(&mut newcomer, "here I am");
            let _ = target.take(micros(micro), home, &bytes);
        }
        for (to, bytes) in core::mem::take(&mut target.sent) {
            if to != home {
                continue;
            }
            let bytes = BytesMut::from(&bytes[..]);
            if newcomer
                .handle_datagram(micros(micro), address(0), bytes)
                .is_ok()
                && let Some(answer) = polled(&mut newcomer)
            {
                let _ = target.take(micros(micro), home, &answer);
            }
        }
        if target.node.peers().count() > 0 {
            return Some(micro);
        }
    }
    None
}

#[test]
fn recordings_of_former_lives_keep_no_newcomer_out() {
    let recordings = recordings(400);
    // From one address, from the newcomer's own, and from forged ones.
    let forged = |micro: u64| SocketAddr::from(((micro as u32).to_be_bytes(), 7000));
    let sources: [&dyn Fn(u64) -> SocketAddr; 3] = [&|_| address(9), &|_| address(1), &forged];
    for (source, from) in sources.into_iter().enumerate() {
        let mut target = Target::new(AdmissionConfig::default());
        let flood = |target: &mut Target, micro: u64| {
            if micro.is_multiple_of(10) {
                let bytes = &recordings[(micro / 10) as usize % recordings.len()];
                let _ = target.take(micros(micro), from(micro), bytes);
            }
        };
        let after = admitted_after(&mut target, flood, address(1));
        assert!(after.is_some(), "source {source}");
    }
}

#[test]
fn datagrams_of_unknown_senders_are_opened_at_a_bounded_rate() {
    /// Counts what it is asked to open.
    struct Counting(Checksum, alloc::rc::Rc<core::cell::Cell<u32>>);

    impl Sealer for Counting {
        fn overhead(&self) -> usize {
            self.0.overhead()
        }

        fn cluster(&self) -> ClusterTag {
            self.0.cluster()
        }

        fn seal(&mut self, nonce: u64, data: &AssociatedData, body: &mut [u8], tag: &mut [u8]) {
            self.0.seal(nonce, data, body, tag);
        }

        fn open(
            &mut self,
            sender: Incarnation,
            nonce: u64,
            data: &AssociatedData,
            sealed: &mut [u8],
        ) -> Result<(), OpenError> {
            self.1.set(self.1.get() + 1);
            self.0.open(sender, nonce, data, sealed)
        }

        fn has_key_of(&self, _: Incarnation) -> bool {
            false
        }

        fn keep(&mut self, _: Incarnation) {}

        fn forget(&mut self, _: Incarnation) {}
    }

    let opened = alloc::rc::Rc::default();
    let mut target = Target::new(AdmissionConfig::default());
    let checksum = Checksum(target.node.local().incarnation);
    target.node.sealer = Box::new(Counting(checksum, alloc::rc::Rc::clone(&opened)));
    let mut forged = said(&mut node(9, 1), "nobody has this incarnation");
    for micro in 0..1_000_000 {
        forged[8..16].copy_from_slice(&(micro | 1u64 << 40).to_be_bytes());
        let rejected = target.take(micros(micro), address(9), &forged);
        assert!(matches!(
            rejected,
            Err(Rejected::Forged | Rejected::Unexamined)
        ));
    }
    assert!((2_000..=2_500).contains(&opened.get()), "{}", opened.get());
    let counters = target.node.counters();
    assert_eq!(counters.unexamined + counters.forged, 1_000_000);
    assert_eq!(target.answers(), 0);
    // Meanwhile somebody at another address was heard.
    let other = said(&mut node(1, 1), "here I am");
    let result = target.take(micros(1_000_000), address(1), &other);
    assert_eq!(result, Err(Rejected::Unadmitted));
    assert_eq!(target.answers(), 1);
}

#[test]
fn a_hello_is_answered_once_by_who_knows_its_sender_and_seldom_by_others() {
    let mut nodes = Nodes((0..2).map(|index| node(index, 1)).collect());
    let mut target = Target::new(AdmissionConfig::default());
    core::mem::swap(&mut target.node, &mut nodes.0[0]);
    // Node 1 challenges node 0, because it heard something of it.
    let first = said(&mut target.node, "here I am");
    let _ = nodes.0[1].handle_datagram(Time::ZERO, address(0), BytesMut::from(&first[..]));
    let challenge = polled(&mut nodes.0[1]).expect("a challenge");
    for micro in 0..100_000 {
        let now = micros(15 * micro);
        let result = target.take(now, address(1), &challenge);
        assert!(matches!(result, Ok(()) | Err(Rejected::Unexamined)));
    }
    let answers = target.answers();
    assert!((1..=20).contains(&answers), "{answers} answers in 1.5 s");

    target
        .node
        .trust(micros(1_500_000), nodes.0[1].local(), address(1));
    let now = micros(1_500_001);
    assert_eq!(target.take(now, address(1), &challenge), Ok(()));
    assert_eq!(target.answers(), 1);
    let again = target.take(now, address(1), &challenge);
    assert_eq!(again, Err(Rejected::Replayed));
    assert_eq!(target.answers(), 0);
}

/// The echo of a node to a challenge of `target`.
fn proof(target: &mut Target, node: &mut Node<Courier>, now: Time) -> Vec<u8> {
    let first = said(node, "here I am");
    let result = target.take(now, address(1), &first);
    assert_eq!(result, Err(Rejected::Unadmitted));
    let (_, challenge) = target.sent.pop().expect("a challenge");
    let challenge = BytesMut::from(&challenge[..]);
    assert_eq!(node.handle_datagram(now, address(0), challenge), Ok(()));
    polled(node).expect("an echo")
}

#[test]
fn a_challenge_expires() {
    for (age, admitted) in [(900, 1), (2_100, 0)] {
        let mut target = Target::new(AdmissionConfig::default());
        let echo = proof(&mut target, &mut node(1, 1), Time::ZERO);
        let _ = target.take(Time::from_millis(age), address(1), &echo);
        assert_eq!(target.node.peers().count(), admitted, "after {age} ms");
    }
}

#[test]
fn an_echo_from_elsewhere_proves_nothing() {
    let mut target = Target::new(AdmissionConfig::default());
    let echo = proof(&mut target, &mut node(1, 1), Time::ZERO);
    let _ = target.take(Time::ZERO, address(9), &echo);
    assert_eq!(target.node.peers().count(), 0);
    let _ = target.take(Time::ZERO, address(1), &echo);
    assert_eq!(target.node.peers().count(), 1);
}

#[test]
fn who_was_forgotten_is_not_let_in_by_a_recording_of_its_proof() {
    let mut target = Target::new(AdmissionConfig {
        peers_max: 1,
        ..AdmissionConfig::default()
    });
    let mut first = node(1, 1);
    let echo = proof(&mut target, &mut first, Time::ZERO);
    let said_later = said(&mut first, "once");
    assert_eq!(target.take(Time::ZERO, address(1), &echo), Ok(()));
    assert_eq!(target.take(Time::ZERO, address(1), &said_later), Ok(()));
    // Another one takes its place, within the life of its challenge.
    let now = Time::from_millis(1);
    let next = proof(&mut target, &mut node(2, 1), now);
    assert_eq!(target.take(now, address(1), &next), Ok(()));
    target.sent.clear();
    for recording in [&echo, &said_later] {
        let _ = target.take(now, address(1), recording);
    }
    let member = node(2, 1).local();
    let peers: Vec<_> = target.node.peers().map(|(member, _)| member).collect();
    assert_eq!(peers, [member]);
    assert_eq!(courier(&mut target.node).inbox.len(), 1);
}

#[test]
fn a_challenge_is_no_larger_than_what_caused_it_from_seven_bytes_on() {
    let bodies = [
        "",
        "x",
        "seven77",
        "ten bytes!",
        "far longer than any hello is",
    ];
    for (index, body) in bodies.into_iter().enumerate() {
        let mut target = Target::new(AdmissionConfig::default());
        let cause = said(&mut node(1 + index, 1), body);
        let _ = target.take(Time::ZERO, address(1), &cause);
        let least = cause.len() - body.len() + Hello::CHALLENGE_LEN;
        let sizes: Vec<usize> = target.sent.iter().map(|(_, it)| it.len()).collect();
        assert_eq!(sizes.len(), 1);
        assert!(sizes[0] <= cause.len().max(least));
    }
}
