//! Histories as files: one JSON object a line, for live daemons and for people. `docs/history.md`
//! is the schema.
//!
//! A file tells one or more lives of one daemon. Each begins with a `start` line; a daemon that
//! starts again with the same file goes on at its end ([`HistoryWriter::append`]). A daemon that is
//! killed may leave a torn line at the end of a life: that is legal, and the line does not count.

mod line;
mod read;
mod write;

pub use read::{History, HistoryError, Joined, read_history};
pub use write::{HistoryWriter, OrderedBy, is_history, write_line, write_start};

/// The version of the schema that this crate writes. It reads all up to it: version 1 has neither
/// the services `k-resilient:K` and `majority` nor gaps of ordered messages, version 2 neither
/// requests nor roles, version 3 does not tell which rings a daemon joins.
pub const SCHEMA: u32 = 4;

#[cfg(test)]
mod tests {
    use groupcast_core::trace::Observation;
    use groupcast_core::{Contract, MemberId, Rng};

    use super::*;
    use crate::story::Story;

    const EVERYTHING: &str =
        "a start; a regular 1a ab; a submit a1 safe digest=5; a deliver a1 1a:65536;
        a deliver b9 - digest=7; a transitional 1a a; a view chat\"\\ü 1-a x,y;
        a enrolled b9; a held b9; a all_hold a1 bc; a account a1 b c; a gap b 10 12; a asked g:1 chat x@a; a replied g:1 x@a 3;
        a replied g:2 x@a -; a granted chat lock x@a 1a:65536; a freed chat lock x@a 1a:65537; a leave";

    fn everything() -> (MemberId, Vec<Observation>) {
        let story = Story::of(EVERYTHING);
        let member = story.observations()[0].0;
        let observations = story.observations().iter();
        (member, observations.map(|(_, seen)| seen.clone()).collect())
    }

    const RING: OrderedBy<'_> = OrderedBy {
        name: "ring",
        contract: Contract::Ordered,
        ring: None,
    };
    const EARLY: OrderedBy<'_> = OrderedBy {
        name: "rmp",
        contract: Contract::OrderedEarly,
        ring: None,
    };

    fn written(name: &str) -> Vec<u8> {
        let (member, observations) = everything();
        let mut writer = HistoryWriter::new(Vec::new(), member, name, RING).unwrap();
        for observation in &observations {
            writer.write(observation).unwrap();
        }
        writer.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<(MemberId, Observation)>, HistoryError> {
        read_history("h.ndjson", bytes).collect()
    }

    #[test]
    fn what_is_written_comes_back() {
        let (member, observations) = everything();
        let expected: Vec<_> = observations
            .into_iter()
            .map(|seen| (member, seen))
            .collect();
        let bytes = written("a");
        assert_eq!(read(&bytes).unwrap(), expected);
        let mut history = read_history("h.ndjson", bytes.as_slice());
        history.next();
        assert_eq!(history.name(), Some("a"));
    }

    #[test]
    fn the_lines_are_pinned() {
        let text = String::from_utf8(written("a")).unwrap();
        let expected = r#"{"event":"start","schema":4,"member":"0000000000000061.0000000000006100","name":"a","order":"ring"}
{"event":"configuration","kind":"regular","config":"1-0000000000000061.0000000000006100","members":["0000000000000061.0000000000006100","0000000000000062.0000000000006200"]}
{"event":"submit","sender":"0000000000000061.0000000000006100","number":1,"service":"safe","digest":"0000000000000005"}
{"event":"deliver","sender":"0000000000000061.0000000000006100","number":1,"service":"safe","config":"1-0000000000000061.0000000000006100","seq":65536,"digest":"0000000000000005"}
{"event":"deliver","sender":"0000000000000062.0000000000006200","number":9,"service":"unreliable","config":null,"seq":null,"digest":"0000000000000007"}
{"event":"configuration","kind":"transitional","config":"1-0000000000000061.0000000000006100","members":["0000000000000061.0000000000006100"]}
{"event":"view","group":"chat\"\\ü","view":"1-a","members":["x","y"]}
{"event":"enrolled","sender":"0000000000000062.0000000000006200","number":9}
{"event":"held","sender":"0000000000000062.0000000000006200","number":9}
{"event":"all_hold","sender":"0000000000000061.0000000000006100","number":1,"holders":["0000000000000062.0000000000006200","0000000000000063.0000000000006300"]}
{"event":"account","sender":"0000000000000061.0000000000006100","number":1,"complete":["0000000000000062.0000000000006200"],"failed":["0000000000000063.0000000000006300"]}
{"event":"gap","sender":"0000000000000062.0000000000006200","first":10,"last":12}
{"event":"asked","request":"g:1","group":"chat","client":"x@a"}
{"event":"replied","request":"g:1","client":"x@a","handler":3}
{"event":"replied","request":"g:2","client":"x@a","handler":null}
{"event":"granted","group":"chat","role":"lock","client":"x@a","config":"1-0000000000000061.0000000000006100","seq":65536}
{"event":"freed","group":"chat","role":"lock","client":"x@a","config":"1-0000000000000061.0000000000006100","seq":65537}
{"event":"leave"}
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn a_history_that_does_not_name_the_order_is_read_too() {
        let with = String::from_utf8(written("a")).unwrap();
        let without = with.replacen(",\"order\":\"ring\"", "", 1);
        assert_ne!(with, without);
        assert_eq!(
            read(with.as_bytes()).unwrap(),
            read(without.as_bytes()).unwrap()
        );
    }

    #[test]
    fn a_history_says_whether_messages_come_early() {
        let (member, _) = everything();
        for (order, early) in [(RING, false), (EARLY, true)] {
            let mut text = String::new();
            write_start(&mut text, member, "a", order);
            let mut history = read_history("a", text.as_bytes());
            assert!(history.next().is_some());
            assert_eq!(history.is_early(), early, "{text}");
        }
    }

    #[test]
    fn a_history_tells_which_rings_its_daemon_has_joined() {
        let (member, observations) = everything();
        let mut writer = HistoryWriter::new(Vec::new(), member, "a", RING).unwrap();
        let there = MemberId {
            incarnation: groupcast_core::Incarnation(7),
            ..member
        };
        writer.write_joined("w\"b.cb", there).unwrap();
        writer.write(&Observation::Leave).unwrap();
        let bytes = writer.into_inner();
        let mut history = read_history("h.ndjson", bytes.as_slice());
        let seen: Vec<_> = history.by_ref().map(Result::unwrap).collect();
        let leave = observations.last().unwrap().clone();
        assert_eq!(seen, [(member, Observation::Start), (member, leave)]);
        let joined = Joined {
            ring: "w\"b.cb".into(),
            member: there,
            name: Some("a".into()),
        };
        assert_eq!(history.joined(), [joined]);
    }

    /// Torn after any byte, a history reads as its whole lines.
    #[test]
    fn a_torn_last_line_is_legal() {
        let bytes = written("a");
        let all = read(&bytes).unwrap();
        for end in 0..bytes.len() {
            let whole = bytes[..end].iter().filter(|byte| **byte == b'\n').count();
            let seen = read(&bytes[..end]).unwrap();
            // A last line that lacks nothing but its line feed is whole.
            let is_whole = bytes[end] == b'\n';
            assert_eq!(seen, all[..whole + usize::from(is_whole)], "torn at {end}");
        }
    }

    #[test]
    fn a_daemon_that_starts_again_goes_on_in_the_same_file() {
        let first = written("a");
        let mut bytes = first[..first.len() - 3].to_vec();
        bytes.push(b'\n');
        bytes.extend(written("a"));
        let lives = read(&bytes).unwrap();
        let starts = lives.iter().filter(|(_, seen)| *seen == Observation::Start);
        assert_eq!(starts.count(), 2);
        assert_eq!(lives.len(), 2 * everything().1.len() - 1);
    }

    #[test]
    fn append_mends_a_torn_line() {
        let path =
            std::env::temp_dir().join(format!("groupcast-check-{}.ndjson", std::process::id()));
        let torn = &written("a")[..300];
        std::fs::write(&path, torn).unwrap();
        let (member, _) = everything();
        let mut writer = HistoryWriter::append(&path, member, "a", EARLY).unwrap();
        writer.write(&Observation::Crash).unwrap();
        writer.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let seen: Vec<_> = read(&bytes)
            .unwrap()
            .into_iter()
            .map(|(_, seen)| seen)
            .collect();
        assert_eq!(seen.len(), 4);
        assert_eq!(seen[2..], [Observation::Start, Observation::Crash]);
    }

    /// Digests tell those who guess a payload whether they are right.
    #[test]
    fn a_new_file_can_be_read_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let file = format!("groupcast-check-mode-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let (member, _) = everything();
        HistoryWriter::append(&path, member, "a", EARLY).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn two_do_not_write_into_one_file() {
        let file = format!("groupcast-check-shared-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let (member, _) = everything();
        let first = HistoryWriter::append(&path, member, "a", EARLY).unwrap();
        let error = HistoryWriter::append(&path, member, "b", EARLY).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
        drop(first);
        HistoryWriter::append(&path, member, "b", EARLY).unwrap();
        let starts = std::fs::read_to_string(&path).unwrap();
        assert_eq!(starts.lines().count(), 2, "{starts}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn append_writes_into_no_file_that_holds_something_else() {
        let file = format!("groupcast-check-foreign-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let (member, _) = everything();
        for foreign in ["127.0.0.1 localhost\n", "\n", "{\"event\":\"deliver\"}\n"] {
            std::fs::write(&path, foreign).unwrap();
            let error = HistoryWriter::append(&path, member, "a", EARLY).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
        // What a full disk left of the first line is no reason to refuse.
        for whole in ["", "{\"eve", "{\"event\":\"start\",\"sch"] {
            std::fs::write(&path, whole).unwrap();
            HistoryWriter::append(&path, member, "a", EARLY).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        let good = String::from_utf8(written("a")).unwrap();
        let what = |from: &str, to: &str| {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            read(bad.as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(
            what("\"number\":1,", ""),
            "h.ndjson:3: missing field `number`"
        );
        assert_eq!(
            what("\"safe\"", "\"total\""),
            "h.ndjson:3: not a service: use unreliable, reliable, fifo, causal, agreed, k-resilient:K, majority, safe or bimodal"
        );
        assert_eq!(
            what("61.0000000000006100\",\"number", "61\",\"number"),
            "h.ndjson:3: \"0000000000000061\" is not a member: write NODE.INCARNATION, 16 hexadecimal digits each"
        );
        assert_eq!(
            what("config\":\"1-", "config\":\"-"),
            "h.ndjson:2: \"-0000000000000061.0000000000006100\" is not a configuration: write COUNTER-NODE.INCARNATION"
        );
        assert_eq!(
            what("\"digest\":\"0000000000000005\"", "\"digest\":\"5\""),
            "h.ndjson:3: \"5\" is not a digest: write 16 hexadecimal digits"
        );
        assert_eq!(
            what("\"seq\":65536", "\"seq\":null"),
            "h.ndjson:4: \"config\" and \"seq\" belong together: give both, or null for both"
        );
        assert!(what("\"leave\"", "\"sleep\"").starts_with("h.ndjson:18: unknown variant `sleep`"));
        assert_eq!(
            what("\"schema\":4", "\"schema\":5"),
            "h.ndjson:1: schema 5 is not known to this version, which reads schemas 1 to 4"
        );
        assert!(what("{\"event\":\"submit\"", "hello").starts_with("h.ndjson:3: expected value"));
        assert_eq!(
            what("{\"event\":\"start\"", "{\"event\":\"leave\""),
            "h.ndjson:1: not a history: it does not begin with a \"start\" line"
        );
    }

    #[test]
    fn a_torn_line_in_the_middle_of_a_life_is_an_error() {
        let good = String::from_utf8(written("a")).unwrap();
        let bad = good.replacen("\"}\n{\"event\":\"deliver\"", "\n{\"event\":\"deliver\"", 1);
        let error = read(bad.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error,
            "h.ndjson:3: the line is incomplete, but the life goes on after it"
        );
    }

    /// Whatever the bytes, reading ends, with observations or an error.
    #[test]
    fn damaged_bytes_never_panic() {
        let good = written("a");
        let mut errors = 0;
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let mut bytes = good.clone();
            for _ in 0..rng.range(1..4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            errors += u32::from(read(&bytes).is_err());
        }
        // Most damage hits a key or a value; some only a name.
        assert!((1000..2000).contains(&errors), "{errors}");
    }
}
