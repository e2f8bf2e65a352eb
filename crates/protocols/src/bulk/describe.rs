//! Bulk datagrams in words, for transcripts and traces.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use alloc::{format, vec};

use bytes::Bytes;

use super::transfer::{DeliverTo, Served};
use super::wire::{
    Announce, Attendance, Data, Finish, Message, Part, Purpose, ReceiverReport, Tag,
};

/// What a datagram says, in the words of the documents: `data 3, asks for flow, error and rate`.
pub fn describe(body: &[u8]) -> String {
    let Ok((_, message)) = Message::decode(&Bytes::copy_from_slice(body)) else {
        return "junk".to_string();
    };
    match message {
        Message::Announce(announce) => announced(&announce),
        Message::Data(it) => data(&it),
        Message::Start(start) => format!("start, {} receivers", start.receivers),
        Message::Report(it) => report(&it),
        Message::Tag(it) => tag(&it),
        Message::Request(request) => format!("request {}", request.stamp.0),
        Message::Poll(poll) => format!("poll {}", poll.stamp.0),
        Message::Acknowledgement(stamp) => format!("acknowledges the reply to {}", stamp.0),
        Message::Mark(mark) => format!("deliver to {mark}"),
        Message::Returned(it) => {
            let end = if it.ended { ", all of it" } else { "" };
            format!("has {} B of the reply{end}", it.next)
        }
        Message::Attend(it) => match it.attendance {
            Attendance::Attends => "is to attend".to_string(),
            Attendance::StandsBy => "is to stand by".to_string(),
            Attendance::LooksIn => "is to look in".to_string(),
        },
        Message::Join(it) => format!("joins from message {}", it.number),
        Message::Joined(number) => format!("has joined from message {number}"),
        Message::ServedWhen(it) => match it.served {
            Served::Now => "is served now".to_string(),
            Served::Later => "is served later".to_string(),
            Served::Paused => "is served after a pause".to_string(),
        },
        Message::Composite(it) => format!("{} rows of a collector", it.rows.len()),
        Message::Finish(finish) => finished(&finish).to_string(),
        Message::Refuse(_) => "refuses".to_string(),
        Message::Missed(_) => "came too late".to_string(),
    }
}

fn joined(words: Vec<String>) -> String {
    words.join(", ")
}

fn announced(announce: &Announce) -> String {
    let mut words = vec!["announces".to_string()];
    if announce.set_size > 0 {
        words.push(format!("set of {}", announce.set_size));
    }
    if announce.returns.is_some() {
        words.push("wants replies".to_string());
    }
    if let DeliverTo::UpTo { first, .. } = announce.deliver_to {
        words.push(format!("deliver to {first}"));
    }
    if let Some(subgroups) = announce.subgroups {
        words.push(format!("for {subgroups}"));
    }
    joined(words)
}

fn data(Data { header, .. }: &Data) -> String {
    let kind = match (header.parity, header.again) {
        (Some(_), _) => "parity",
        (None, true) => "repair",
        (None, false) => "data",
    };
    let mut words = vec![format!("{kind} {}", header.number.0)];
    if let Some(subgroups) = header.subgroups {
        words.push(format!("for {subgroups}"));
    }
    if header.answer {
        let rate = if header.rate {
            ", error and rate"
        } else {
            " and error"
        };
        words.push(format!("request {} for flow{rate}", header.stamp.0));
    }
    joined(words)
}

fn tag(tag: &Tag) -> String {
    let mut words = vec![format!("request {} for flow, error and rate", tag.stamp.0)];
    if let Some(subgroups) = tag.subgroups {
        words.push(format!("for {subgroups}"));
    }
    joined(words)
}

fn report(report: &ReceiverReport) -> String {
    let mut words = vec![match report.purpose {
        Purpose::Register => "registers".to_string(),
        Purpose::Ready => "is ready".to_string(),
        Purpose::Acknowledge | Purpose::Nak if report.tag.is_some() => {
            format!("replies to {}", report.seen.0)
        }
        Purpose::Acknowledge => "reports".to_string(),
        Purpose::Nak => "misses packets".to_string(),
    }];
    if report.purpose != Purpose::Register {
        words.push(format!("next {}", report.next.0));
    }
    if let Some(tag) = report.tag
        && tag.rate > 0
    {
        words.push(format!("takes {} B/s", tag.rate));
    }
    if let Some(mark) = report.delivers_to {
        words.push(format!("delivers to {mark}"));
    }
    if let Some(subgroups) = report.subgroups {
        words.push(format!("is in {subgroups}"));
    }
    if let Some(part) = &report.part {
        words.push(returned(part));
    }
    joined(words)
}

fn returned(part: &Part) -> String {
    let end = if part.end.is_some() { ", its end" } else { "" };
    format!("{} B of its reply{end}", part.bytes.len())
}

fn finished(finish: &Finish) -> &'static str {
    match finish {
        Finish::Done(_) => "closes",
        Finish::Cancelled(_) => "gives up",
        Finish::Dropped => "drops it",
        Finish::SameName => "refuses a name twice",
        Finish::Full => "is full",
        Finish::Excluded => "excludes it",
    }
}

#[cfg(test)]
mod tests {
    use super::super::numbers::Stamp;
    use super::*;

    #[test]
    fn a_datagram_is_said_in_words_and_junk_is_junk() {
        let said = |message: &Message| describe(&message.encode(1));
        assert_eq!(said(&Message::Mark(200)), "deliver to 200");
        let acknowledged = Message::Acknowledgement(Stamp(7));
        assert_eq!(said(&acknowledged), "acknowledges the reply to 7");
        assert_eq!(said(&Message::Finish(Finish::Excluded)), "excludes it");
        assert_eq!(describe(&[0xff; 40]), "junk");
    }
}
