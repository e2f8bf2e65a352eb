//! 000 Fig. 6, packet by packet: four sites, an ACK that does not reach D, D's NACK, the Confirm of
//! C, a null ACK and D's Confirm.

use core::time::Duration;
use std::println;

use groupcast_core::mech::seq::Seq;

use super::transcript::Group;

#[test]
fn the_exchange_of_figure_6() {
    let mut group = Group::new(4);
    group.frame(1);
    group.loses = Some(3);
    group.submit(1);
    group.frame(2);
    group.submit(3);
    group.frame(3);
    group.wait(Duration::from_millis(500));
    group.frame(4);
    group.wait(Duration::from_millis(1_000));
    let transcript = group.text();
    println!("{transcript}");
    let expected = "\
frame 1
B to all: data (B,1)
  A delivers (B,1)
A to all: ACK((B,1),1,B), not to D
  B delivers (B,1)
  C delivers (B,1)
frame 2
D to all: data (D,1)
  B delivers (D,1)
B to all: ACK((D,1),2,C)
  A delivers (D,1)
  C delivers (D,1)
frame 3
D to B: NACK(1)
B to D: ACK((B,1),1,B)
  D delivers (B,1)
  D delivers (D,1)
C to B: Confirm(2)
frame 4
C to all: ACK(null,3,D)
D to C: Confirm(3)";
    assert_eq!(transcript, expected);
}

#[test]
fn a_rotation_of_null_acks_later_all_is_forgotten_and_the_token_stays() {
    let mut group = Group::new(4);
    group.submit(1);
    group.submit(3);
    group.wait(Duration::from_secs(30));
    let nulls = group.transcript.iter().filter(|line| line.contains("null"));
    assert_eq!(nulls.count(), 4, "{:#?}", group.transcript);
    for site in &group.sites {
        let order = site.state.installed().unwrap();
        assert_eq!(order.safe(), Seq(2), "{:?}", order.top);
        assert_eq!(order.places.base(), 3, "nothing is kept");
    }
}
