//! 000 Fig. 10: a site asks to leave, stays until the token would reach it, and is gone.

use core::time::Duration;
use std::println;

use groupcast_core::Ordered as _;

use super::transcript::Group;

#[test]
fn the_exchange_of_figure_10() {
    let mut group = Group::new(4);
    group.frame(1);
    let now = group.now;
    group.sites[2].leave(now);
    group.settle();
    group.frame(2);
    group.submit(0);
    group.frame(3);
    group.submit(3);
    group.frame(4);
    group.wait(Duration::from_millis(4_000));
    let transcript = group.text();
    println!("{transcript}");
    let expected = "\
frame 1
C to all: wants to leave
frame 2
  A delivers (A,1)
A to all: data (A,1)
A to all: ACK((A,1),1,B)
  B delivers (A,1)
  C delivers (A,1)
  D delivers (A,1)
B to all: ACK(list ABD,2,D)
A to all: has heard list 1
C to all: has heard list 1
  D goes on with ABD
  D is in ABD
D to all: has heard list 1
  A goes on with ABD
  A is in ABD
  B goes on with ABD
  B is in ABD
D to all: ready for 2
A to all: ready for 2
B to all: ready for 2
  C has left
frame 3
  D delivers (D,1)
D to all: data (D,1)
D to all: ACK((D,1),3,A)
  A delivers (D,1)
  B delivers (D,1)
frame 4
A to D: Confirm(3)
A to all: ACK(null,4,B)
B to A: Confirm(4)
B to all: ACK(null,5,D)
D to B: Confirm(5)
D to all: ACK(null,6,A)
A to D: Confirm(6)";
    assert_eq!(transcript, expected);
}
