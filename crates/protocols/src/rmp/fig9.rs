//! 000 Fig. 9: a site asks to be let in, is placed after the token site, gets the last packets and
//! ACKs, and confirms.

use core::time::Duration;
use std::println;

use super::transcript::Group;

#[test]
fn the_exchange_of_figure_9() {
    let mut group = Group::new(3);
    group.frame(1);
    group.submit(1);
    group.submit(2);
    group.frame(2);
    group.start();
    group.frame(3);
    group.wait(Duration::from_millis(10));
    group.frame(4);
    group.submit(3);
    let transcript = group.text();
    println!("{transcript}");
    let expected = "\
frame 1
B to all: data (B,1)
  A delivers (B,1)
A to all: ACK((B,1),1,B)
  B delivers (B,1)
  C delivers (B,1)
C to all: data (C,1)
  B delivers (C,1)
B to all: ACK((C,1),2,C)
  A delivers (C,1)
  C delivers (C,1)
frame 2
D to all: wants to join
C to all: ACK(list ABCD,3,D)
A to all: has heard list 1
  B goes on with ABC
  B is in ABCD
B to all: has heard list 1
  A goes on with ABC
  A is in ABCD
  C goes on with ABC
  C is in ABCD
D to C: NACK(2)
C to D: ACK((C,1),2,C)
C to D: data (C,1)
  D is in ABCD
frame 3
D to C: Confirm(3)
D to all: ready for 3
frame 4
  D delivers (D,1)
D to all: data (D,1)
D to all: ACK((D,1),4,A)
  A delivers (D,1)
  B delivers (D,1)
  C delivers (D,1)";
    assert_eq!(transcript, expected);
}

#[test]
fn a_newcomer_that_misses_the_list_asks_again_and_gets_it() {
    let mut group = Group::new(3);
    group.submit(1);
    group.loses = Some(3);
    group.start();
    group.wait(Duration::from_millis(20));
    let transcript = group.text();
    println!("{transcript}");
    let expected = "\
B to all: data (B,1)
  A delivers (B,1)
A to all: ACK((B,1),1,B)
  B delivers (B,1)
  C delivers (B,1)
D to all: wants to join
B to all: ACK(list ABDC,2,D), not to D
A to all: has heard list 1
  C goes on with ABC
  C is in ABCD
C to all: has heard list 1
  A goes on with ABC
  A is in ABCD
  B goes on with ABC
  B is in ABCD
B to all: ACK(list ABDC,2,D)
C to D: ACK(list ABDC,2,D)
D to B: NACK(1)
B to D: ACK((B,1),1,B)
B to D: data (B,1)
  D is in ABCD
D to B: Confirm(2)
D to all: ready for 2";
    assert_eq!(transcript, expected);
}
