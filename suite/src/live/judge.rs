//! The judgements on live runs: subscribers' streams in, faults out.
//!
//! They are what a user is promised: a subscriber that stayed has every byte, any two agree
//! wherever both were, and every gap is bracketed by views. The judgement on the daemons' histories
//! is `groupcast check`'s, not this file's.

use std::collections::BTreeMap;
use std::fmt;

use crate::live::stream::{Line, Message, OrderPlace, Stream};

/// What is wrong, in words with all that is needed to find it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A subscriber: its name in faults, and what it printed.
pub type Subscriber<'a> = (&'a str, &'a Stream);

/// At most this many faults of one kind are listed: the first ones are enough to find the cause.
const FAULTS_MAX: usize = 5;

/// A subscriber that stayed in the publisher's component has all that was published, once, in
/// order, byte for byte. `publisher` is the sender's name up to the `@`; messages of others are not
/// looked at.
pub fn complete(subscriber: Subscriber<'_>, publisher: &str, published: &[&[u8]]) -> Vec<Fault> {
    let received = payloads_of(subscriber.1, publisher);
    let mut faults = in_order(subscriber, publisher, published);
    if faults.is_empty() && received.len() != published.len() {
        faults.push(Fault(format!(
            "{} has {} of {} messages of {publisher}",
            subscriber.0,
            received.len(),
            published.len()
        )));
    }
    faults
}

/// What a subscriber has of a publisher is a beginning of what was published, without a hole, at
/// least `accepted` messages long: the judgement if the publisher's own daemon died.
pub fn beginning(
    subscriber: Subscriber<'_>,
    publisher: &str,
    published: &[&[u8]],
    accepted: usize,
) -> Vec<Fault> {
    let received = payloads_of(subscriber.1, publisher);
    let mut faults = in_order(subscriber, publisher, published);
    if received.len() < accepted {
        faults.push(Fault(format!(
            "{} has {} messages of {publisher}, but {accepted} were accepted",
            subscriber.0,
            received.len()
        )));
    }
    faults
}

fn payloads_of<'a>(stream: &'a Stream, publisher: &str) -> Vec<&'a [u8]> {
    stream
        .messages()
        .filter(|message| is_of(message, publisher))
        .map(|message| message.payload.as_slice())
        .collect()
}

fn is_of(message: &Message, publisher: &str) -> bool {
    message.sender.split('@').next() == Some(publisher)
}

/// The first message that is not the one published at its place.
fn in_order(subscriber: Subscriber<'_>, publisher: &str, published: &[&[u8]]) -> Vec<Fault> {
    let received = payloads_of(subscriber.1, publisher);
    let wrong = received
        .iter()
        .enumerate()
        .find(|(index, payload)| published.get(*index) != Some(payload));
    wrong
        .map(|(index, payload)| {
            let elsewhere = published.iter().position(|other| other == payload);
            Fault(format!(
                "{}: message {index} of {publisher} is not the one published there, but {}",
                subscriber.0,
                match elsewhere {
                    Some(other) => format!("number {other}"),
                    None => "was never published".to_owned(),
                }
            ))
        })
        .into_iter()
        .collect()
}

/// At each subscriber places strictly increase, and wherever two subscribers both were they agree:
/// equal places hold equal messages, and what one misses of the other's is bracketed by views.
pub fn agree(subscribers: &[Subscriber<'_>]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = subscribers.iter().copied().flat_map(increasing).collect();
    let indexed: Vec<Index<'_>> = subscribers.iter().copied().map(Index::new).collect();
    for one in &indexed {
        for other in &indexed {
            if one.name != other.name {
                faults.extend(one.differs_from(other));
                faults.extend(one.gaps_against(other));
            }
        }
    }
    faults
}

fn increasing((name, stream): Subscriber<'_>) -> Option<Fault> {
    let mut last: Option<&OrderPlace> = None;
    for place in stream
        .messages()
        .filter_map(|message| message.place.as_ref())
    {
        if let Some(last) = last
            && place.seq <= last.seq
        {
            return Some(Fault(format!(
                "{name}: seq {} of {} comes after seq {} of {}",
                place.seq, place.config, last.seq, last.config
            )));
        }
        last = Some(place);
    }
    None
}

/// A subscriber's stream by places.
struct Index<'a> {
    name: &'a str,
    stream: &'a Stream,
    /// Where in the stream each configuration's messages are, by `seq`.
    places: BTreeMap<&'a str, BTreeMap<u64, usize>>,
}

impl<'a> Index<'a> {
    fn new((name, stream): Subscriber<'a>) -> Self {
        let mut places: BTreeMap<&str, BTreeMap<u64, usize>> = BTreeMap::new();
        for (index, line) in stream.lines.iter().enumerate() {
            if let Line::Message(Message {
                place: Some(place), ..
            }) = line
            {
                places
                    .entry(&place.config)
                    .or_default()
                    .insert(place.seq, index);
            }
        }
        Self {
            name,
            stream,
            places,
        }
    }

    fn message(&self, index: usize) -> Option<&Message> {
        match self.stream.lines.get(index) {
            Some(Line::Message(message)) => Some(message),
            _ => None,
        }
    }

    /// Equal places with different messages.
    fn differs_from(&self, other: &Self) -> Vec<Fault> {
        self.shared(other)
            .filter(|(config, seq, _)| {
                let at = |index: &Self| {
                    let index_there = index.places.get(config)?.get(seq)?;
                    index
                        .message(*index_there)
                        .map(|m| (m.sender.clone(), m.service.clone(), m.payload.clone()))
                };
                at(self) != at(other)
            })
            .take(FAULTS_MAX)
            .map(|(config, seq, _)| {
                Fault(format!(
                    "{} and {} have different messages at seq {seq} of {config}",
                    self.name, other.name
                ))
            })
            .collect()
    }

    fn shared(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a str, u64, usize)> {
        self.places.iter().flat_map(move |(config, places)| {
            let theirs = other.places.get(config);
            places
                .iter()
                .filter(move |(seq, _)| theirs.is_some_and(|theirs| theirs.contains_key(seq)))
                .map(|(seq, index)| (*config, *seq, *index))
        })
    }

    /// Messages of `other` that this one misses although it was there: it has an earlier one of the
    /// same configuration and goes on afterwards, without a view in between that says that it
    /// moved.
    fn gaps_against(&self, other: &Self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (config, theirs) in &other.places {
            let Some(ours) = self.places.get(config) else {
                continue;
            };
            for seq in theirs.keys().filter(|seq| !ours.contains_key(seq)) {
                let Some((before, index)) = ours.range(..seq).next_back() else {
                    continue; // it came later
                };
                if !self.is_bracketed(*index) {
                    faults.push(Fault(format!(
                        "{} goes from seq {before} of {config} past seq {seq}, which {} has, without a view in between",
                        self.name, other.name
                    )));
                }
                if faults.len() == FAULTS_MAX {
                    return faults;
                }
            }
        }
        faults
    }

    /// Whether the message at `index` is the last of the stream, or followed by a change of the
    /// network before the next message, or belongs to a transitional view, in which messages of
    /// those who do not go along may be missing. The join of another client excuses no gap.
    fn is_bracketed(&self, index: usize) -> bool {
        let views = self.stream.lines[..index].iter().rev();
        let mut views = views.filter_map(|line| match line {
            Line::View(view) => Some(view),
            _ => None,
        });
        if views.next().is_some_and(|view| !view.regular) {
            return true;
        }
        let mut rest = self.stream.lines[index + 1..].iter();
        let moved = rest
            .by_ref()
            .take_while(|line| matches!(line, Line::View(_)))
            .any(
                |line| matches!(line, Line::View(view) if !view.regular || view.cause == "network"),
            );
        moved
            || !self.stream.lines[index + 1..]
                .iter()
                .any(|line| matches!(line, Line::Message(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::stream::View;

    fn message(config: &str, seq: u64, payload: &str) -> Line {
        Line::Message(Message {
            group: "g".to_owned(),
            sender: "p@h1".to_owned(),
            service: "agreed".to_owned(),
            place: Some(OrderPlace {
                config: config.to_owned(),
                seq,
            }),
            payload: payload.as_bytes().to_vec(),
        })
    }

    fn view(regular: bool, cause: &str) -> Line {
        Line::View(View {
            group: "g".to_owned(),
            view: "v".to_owned(),
            regular,
            cause: cause.to_owned(),
            members: vec!["s@h1".to_owned()],
        })
    }

    fn stream(lines: Vec<Line>) -> Stream {
        Stream { lines }
    }

    fn whole() -> Stream {
        stream(vec![
            view(true, "join"),
            message("c1", 1, "a"),
            message("c1", 2, "b"),
            message("c1", 3, "c"),
        ])
    }

    #[test]
    fn equal_streams_are_without_fault() {
        let one = whole();
        assert_eq!(agree(&[("1", &one), ("2", &one.clone())]), []);
        assert_eq!(complete(("1", &one), "p", &[b"a", b"b", b"c"]), []);
        assert_eq!(
            beginning(("1", &one), "p", &[b"a", b"b", b"c", b"d"], 3),
            []
        );
    }

    #[test]
    fn a_missing_repeated_swapped_or_invented_message_is_a_fault() {
        let one = whole();
        for published in [
            vec![&b"a"[..], b"b", b"c", b"d"],
            vec![b"a", b"b"],
            vec![b"a", b"c", b"b"],
            vec![b"a", b"b", b"x"],
        ] {
            assert_eq!(
                complete(("1", &one), "p", &published).len(),
                1,
                "{published:?}"
            );
        }
        assert_eq!(
            beginning(("1", &one), "p", &[b"a", b"b", b"c", b"d"], 4).len(),
            1
        );
        assert_eq!(beginning(("1", &one), "p", &[b"a", b"c"], 0).len(), 1);
    }

    #[test]
    fn another_publishers_messages_are_not_counted() {
        assert_eq!(complete(("1", &whole()), "q", &[]), []);
    }

    #[test]
    fn different_bytes_at_one_place_are_a_fault_of_the_pair() {
        let mut other = whole();
        other.lines[2] = message("c1", 2, "x");
        assert!(!agree(&[("1", &whole()), ("2", &other)]).is_empty());
    }

    #[test]
    fn a_place_that_does_not_grow_is_a_fault() {
        for seq in [2, 1] {
            let one = stream(vec![message("c1", 2, "a"), message("c2", seq, "b")]);
            assert_eq!(agree(&[("1", &one)]).len(), 1);
        }
    }

    #[test]
    fn a_gap_needs_a_view_of_the_network() {
        let gap = |between: Option<Line>| {
            let mut lines = vec![message("c1", 1, "a")];
            lines.extend(between);
            lines.push(message("c1", 3, "c"));
            stream(lines)
        };
        let one = whole();
        assert_eq!(agree(&[("1", &one), ("2", &gap(None))]).len(), 1);
        assert_eq!(
            agree(&[("1", &one), ("2", &gap(Some(view(true, "join"))))]).len(),
            1,
            "somebody's join excuses nothing"
        );
        assert_eq!(
            agree(&[("1", &one), ("2", &gap(Some(view(false, "network"))))]),
            []
        );
    }

    #[test]
    fn a_transitional_view_may_have_gaps() {
        let all = stream((1..4).map(|seq| message("c1", seq, "a")).collect());
        let cut = |regular| {
            let view = view(regular, "join");
            stream(vec![view, message("c1", 1, "a"), message("c1", 3, "a")])
        };
        let faults = |cut: &Stream| agree(&[("all", &all), ("cut", cut)]).len();
        assert_eq!((faults(&cut(false)), faults(&cut(true))), (0, 1));
    }

    #[test]
    fn a_gap_at_the_end_of_a_configuration_needs_a_view_too() {
        let moved = |between: Option<Line>| {
            let mut lines = vec![message("c1", 1, "a")];
            lines.extend(between);
            lines.push(message("c2", 9, "z"));
            stream(lines)
        };
        let one = whole();
        assert!(!agree(&[("1", &one), ("2", &moved(None))]).is_empty());
        assert_eq!(
            agree(&[("1", &one), ("2", &moved(Some(view(true, "network"))))]),
            []
        );
    }

    #[test]
    fn who_came_later_or_stopped_earlier_has_no_gap() {
        let late = stream(vec![view(true, "join"), message("c1", 3, "c")]);
        let early = stream(vec![message("c1", 1, "a")]);
        assert_eq!(agree(&[("1", &whole()), ("2", &late), ("3", &early)]), []);
    }
}
