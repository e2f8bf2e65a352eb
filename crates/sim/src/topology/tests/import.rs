//! Edge lists: what they say, and where they go wrong.

use super::*;
use crate::topology::edges::parse;
use crate::topology::{EdgeId, Kind};

const LINK: LinkSpec = LinkSpec::ideal(1_500_000, Duration::from_millis(5));

#[test]
fn a_list_gives_its_links_in_order() {
    let text = "# three sites\n\
                ithaca  berlin   10 Mb/s  40 ms\n\
                \n\
                ithaca  boston            3.5ms   # near\n\
                berlin  roma\n\
                roma\tithaca\tunlimited\r\n\
                roma 7 1.5Gb/s 1 min\n";
    let topology = parse(text, LINK).unwrap();
    let names: Vec<_> = topology.vertices().map(|it| topology.name(it)).collect();
    assert_eq!(names, ["ithaca", "berlin", "boston", "roma", "7"]);
    assert_eq!(topology.find("7"), Some(Vertex(4)));
    assert_eq!(topology.find("3"), None, "that one is called roma");
    let expected = [
        ([0, 1], 10_000_000, MS * 40),
        ([0, 2], 1_500_000, Duration::from_micros(3_500)),
        ([1, 3], 1_500_000, MS * 5),
        ([3, 0], 0, MS * 5),
        ([3, 4], 1_500_000_000, Duration::from_secs(60)),
    ];
    assert_eq!(topology.edges().len(), expected.len());
    for (edge, (ends, bandwidth, delay)) in topology.edges().zip(expected) {
        assert_eq!(topology.ends(edge), ends.map(Vertex));
        for way in edge.ways() {
            let spec = LinkSpec {
                bandwidth,
                delay,
                ..LINK
            };
            assert_eq!(*topology.spec(way), spec);
        }
    }
    let plain = |it| topology.kind(it) == Kind::Plain;
    assert!(topology.is_connected() && topology.vertices().all(plain));
}

#[test]
fn an_error_names_the_place_and_what_to_write() {
    let cases = [
        (
            "a b\n  a  # b",
            "line 2, column 3: a link needs two vertices: write `a OTHER`",
        ),
        (
            "a b\nb b",
            "line 2, column 3: `b` is linked to itself; name two different vertices",
        ),
        (
            "a b 10",
            "line 1, column 5: `10` has no unit: write a bandwidth like `10 Mb/s` or a delay like `10 ms`",
        ),
        (
            "ü b 10 mb/s",
            "line 1, column 5: `10` has no unit: write a bandwidth like `10 Mb/s` or a delay like `10 ms`",
        ),
        (
            "a b 10mb/s",
            "line 1, column 5: `10mb/s` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`",
        ),
        (
            "a b fast",
            "line 1, column 5: `fast` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`",
        ),
        (
            "a b -5 ms",
            "line 1, column 5: `-5 ms` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`",
        ),
        (
            "a b 1.2.3 ms",
            "line 1, column 5: `1.2.3 ms` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`",
        ),
        (
            "a b . ms",
            "line 1, column 5: `.` is neither a bandwidth like `10 Mb/s` nor a delay like `5 ms`",
        ),
        (
            "ä ö 5 ms 10 Mb/s",
            "line 1, column 10: `10 Mb/s` is one too many: after the vertices comes one bandwidth, then one delay",
        ),
        (
            "a b 5 ms 6 ms",
            "line 1, column 10: `6 ms` is one too many: after the vertices comes one bandwidth, then one delay",
        ),
        (
            "a b 0 b/s",
            "line 1, column 5: `0 b/s` is out of range: a bandwidth is at least 1 b/s or `unlimited`, a delay at most 104 days",
        ),
        (
            "a b 999999999999 Gb/s",
            "line 1, column 5: `999999999999 Gb/s` is out of range: a bandwidth is at least 1 b/s or `unlimited`, a delay at most 104 days",
        ),
        (
            "",
            "line 1, column 1: there is no link in it; a line is `A B [BANDWIDTH] [DELAY]`",
        ),
        (
            "# a b\n\n",
            "line 2, column 1: there is no link in it; a line is `A B [BANDWIDTH] [DELAY]`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text, LINK).unwrap_err().to_string(), expected);
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in "([a-c#. 0-9]|Mb/s|ms|unlimited|\n){0,60}") {
        if let Ok(topology) = parse(&text, LINK) {
            prop_assert!(topology.edges().len() > 0);
        }
    }

    /// Written out as an edge list and read again, a network has the same links.
    #[test]
    fn a_network_survives_being_written_down((topology, _) in networks(false)) {
        prop_assume!(topology.edges().len() > 0);
        let mut text = String::new();
        for edge in topology.edges() {
            let [a, b] = topology.ends(edge).map(|it| topology.name(it));
            let delay = topology.spec(edge.ways()[0]).delay.as_millis();
            text += &format!("{a} {b} unlimited {delay} ms\n");
        }
        let read = parse(&text, LINK).unwrap();
        let named = |it: &Topology, edge: EdgeId| it.ends(edge).map(|end| it.name(end).into_owned());
        for edge in topology.edges() {
            prop_assert_eq!(named(&read, edge), named(&topology, edge));
            prop_assert_eq!(read.spec(edge.ways()[0]), topology.spec(edge.ways()[0]));
        }
    }
}
