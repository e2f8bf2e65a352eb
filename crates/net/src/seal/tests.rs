//! What is sealed opens for whom it was sealed, with the key it was sealed under, and for nobody
//! else.

use groupcast_core::wire::{PREFIX_LEN, Prefix, VERSION};

use super::*;

const ALICE: Incarnation = Incarnation(0xa11ce);
const BOB: Incarnation = Incarnation(0xb0b);
const CAROL: Incarnation = Incarnation(0xca401);
const PREFIX: [u8; PREFIX_LEN] = [7; PREFIX_LEN];

fn sealer(key: u8, local: Incarnation) -> AesGcmSealer {
    AesGcmSealer::new(&Key::from_bytes([key; 32]), Purpose::Group, local)
}

fn group() -> AssociatedData {
    AssociatedData::new(&PREFIX, None)
}

fn sealed(by: &mut AesGcmSealer, nonce: u64, body: &[u8]) -> Vec<u8> {
    sealed_with(by, nonce, &group(), body)
}

fn sealed_with(
    by: &mut AesGcmSealer,
    nonce: u64,
    associated: &AssociatedData,
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = body.to_vec();
    let mut tag = [0; AesGcmSealer::OVERHEAD];
    by.seal(nonce, associated, &mut bytes, &mut tag);
    bytes.extend_from_slice(&tag);
    bytes
}

#[test]
fn what_is_sealed_opens_with_the_same_key_sender_nonce_and_prefix_only() {
    let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
    let bytes = sealed(&mut alice, 5, b"to all");
    assert!(!bytes.windows(6).any(|window| window == b"to all"));

    let mut opened = bytes.clone();
    assert_eq!(bob.open(ALICE, 5, &group(), &mut opened), Ok(()));
    assert_eq!(&opened[..6], b"to all");

    let mut other_prefix = PREFIX;
    other_prefix[3] ^= 1;
    let other_prefix = AssociatedData::new(&other_prefix, None);
    assert!(bob.open(BOB, 5, &group(), &mut bytes.clone()).is_err());
    assert!(bob.open(ALICE, 6, &group(), &mut bytes.clone()).is_err());
    assert!(
        bob.open(ALICE, 5, &other_prefix, &mut bytes.clone())
            .is_err()
    );
    assert!(
        sealer(2, BOB)
            .open(ALICE, 5, &group(), &mut bytes.clone())
            .is_err()
    );
}

#[test]
fn what_is_for_one_opens_for_nobody_else() {
    let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
    let to_bob = AssociatedData::new(&PREFIX, Some(BOB));
    let to_carol = AssociatedData::new(&PREFIX, Some(CAROL));
    let bytes = sealed_with(&mut alice, 5, &to_bob, b"token");
    let mut open = |associated| bob.open(ALICE, 5, associated, &mut bytes.clone());
    assert_eq!(open(&to_bob), Ok(()));
    assert_eq!(open(&to_carol), Err(OpenError));
    assert_eq!(open(&group()), Err(OpenError));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
    let bytes = sealed(&mut alice, 0, b"x");
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(bob.open(ALICE, 0, &group(), &mut damaged), Err(OpenError));
    }
}

#[test]
fn keys_of_strangers_do_not_pile_up() {
    let mut bob = sealer(1, BOB);
    for stranger in 0..1000 {
        let sender = Incarnation(stranger);
        let mut alike = sealer(1, sender);
        let mut forged = vec![0; 40];
        assert!(bob.open(sender, 0, &group(), &mut forged).is_err());
        let mut genuine = sealed(&mut alike, 0, b"hello");
        assert!(bob.open(sender, 0, &group(), &mut genuine).is_ok());
    }
    let keys = &bob.current;
    assert_eq!(keys.candidates.len(), KeySet::CANDIDATES_MAX);
    assert_eq!(keys.oldest.len(), KeySet::CANDIDATES_MAX);
    assert!(keys.admitted.is_empty());
    bob.keep(Incarnation(999));
    bob.keep(Incarnation(3));
    assert_eq!(bob.current.admitted.len(), 2);
    assert!(bob.has_key_of(Incarnation(3)) && bob.has_key_of(Incarnation(998)));
    assert_eq!(bob.current.candidates.len(), bob.current.oldest.len());
    bob.forget(Incarnation(3));
    assert_eq!(bob.current.admitted.len(), 1);
    assert!(!bob.has_key_of(Incarnation(3)));
}

#[test]
fn what_is_sealed_for_one_purpose_opens_for_no_other() {
    let key = Key::from_bytes([1; 32]);
    let mut daemon = AesGcmSealer::new(&key, Purpose::Group, ALICE);
    let mut transfer = AesGcmSealer::new(&key, Purpose::Transfer, BOB);
    assert_ne!(daemon.cluster(), transfer.cluster());
    let bytes = sealed(&mut daemon, 5, b"to daemons");
    let opened = transfer.open(ALICE, 5, &group(), &mut bytes.clone());
    assert_eq!(opened, Err(OpenError));
}

/// `body`, sealed to all with its whole prefix.
fn said(by: &mut AesGcmSealer, counter: u64) -> (AssociatedData, u64, Vec<u8>) {
    let prefix = Prefix {
        version: VERSION,
        cluster: by.cluster(),
        sender: by.local,
        addressed: false,
        counter,
    };
    let associated = AssociatedData::new(&prefix.encode(), None);
    let body = sealed_with(by, prefix.nonce(), &associated, b"to all");
    (associated, prefix.nonce(), body)
}

#[test]
fn between_the_steps_of_a_change_both_keys_open_and_one_seals() {
    let (mut alice, mut bob) = (sealer(1, ALICE), sealer(1, BOB));
    bob.keep(ALICE);
    let (old, new) = (alice.cluster(), sealer(2, ALICE).cluster());
    let opens = |bob: &mut AesGcmSealer, said: &(AssociatedData, u64, Vec<u8>)| {
        let (associated, nonce, body) = said;
        bob.takes(associated.cluster())
            && bob
                .open(ALICE, *nonce, associated, &mut body.clone())
                .is_ok()
    };
    let first = said(&mut alice, 1);
    bob.learn(&[2; 32]).unwrap();
    assert!(bob.has_key_of(ALICE), "it is admitted under both");
    assert_eq!((bob.cluster(), bob.takes(new)), (old, true));
    alice.learn(&[2; 32]).unwrap();
    assert_eq!(
        said(&mut alice, 2).0.cluster(),
        old,
        "learning is not using"
    );
    alice.switch();
    let third = said(&mut alice, 3);
    assert_eq!(third.0.cluster(), new);
    assert!(opens(&mut bob, &first) && opens(&mut bob, &third));
    bob.switch();
    assert!(opens(&mut bob, &first) && opens(&mut bob, &third));
    bob.drop_other(true);
    assert!(!opens(&mut bob, &first) && opens(&mut bob, &third));
    assert!(bob.was_used(old) && !bob.was_used(new));
    assert_eq!(bob.learn(&[2; 32]), Err(SameTag));
}

#[test]
fn derivation_is_pinned() {
    // Daemons of different releases share a cluster: none of this may change within major
    // version 4. The values are those of another implementation (Python's hmac and
    // cryptography).
    let mut alice = sealer(1, ALICE);
    assert_eq!(alice.cluster(), ClusterTag(0x7e6f_a138));
    let expected: [u8; 20] = [
        0xd2, 0x32, 0x73, 0x2a, 0x2a, 0xee, 0x64, 0xaa, 0x28, 0x5b, 0xbd, 0xc4, 0xad, 0xbd, 0x20,
        0x9b, 0x4c, 0xc8, 0x29, 0x96,
    ];
    assert_eq!(sealed(&mut alice, 1, b"ring"), expected);
    assert_ne!(sealer(2, ALICE).cluster(), alice.cluster());
    assert_ne!(InsecureSealer.cluster(), alice.cluster());
}

#[test]
fn an_addressed_datagram_is_pinned() {
    // As above: within major version 4 nothing of this changes, and the bytes are those of the
    // other implementation.
    let mut alice = sealer(1, ALICE);
    let prefix = Prefix {
        version: VERSION,
        cluster: alice.cluster(),
        sender: ALICE,
        addressed: true,
        counter: 2,
    };
    let clear = prefix.encode();
    let associated = AssociatedData::new(&clear, Some(BOB));
    let body = sealed_with(&mut alice, prefix.nonce(), &associated, b"ring");
    let expected: [u8; 44] = [
        0x67, 0x63, 0x04, 0x00, 0x7e, 0x6f, 0xa1, 0x38, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x11,
        0xce, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x63, 0x01, 0x49, 0x0e, 0x3b, 0x0b,
        0xa4, 0xcc, 0xb9, 0x25, 0xc7, 0x32, 0xce, 0x08, 0x9d, 0xf6, 0x92, 0xb6, 0x2f, 0x2c,
    ];
    assert_eq!([&clear[..], &body].concat(), expected);
}
