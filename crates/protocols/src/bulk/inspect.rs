//! Reading bulk datagrams from outside, for measurements and traces.

use bytes::Bytes;
use groupcast_core::SocketClass;
use groupcast_core::trace::{Inspected, Role};

use super::wire::{Message, Purpose};

/// An [`Inspect`](groupcast_core::trace::Inspect) for bulk transfers. A stream has no messages in
/// single packets: none are told.
pub fn inspect(_class: SocketClass, body: &[u8], _payload: &mut dyn FnMut(&[u8])) -> Inspected {
    let (kind, role) = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok((_, Message::Data(data))) if data.header.parity.is_some() => ("parity", Role::Repair),
        Ok((_, Message::Data(data))) if data.header.again => ("repair", Role::Repair),
        Ok((_, Message::Data(_))) => ("data", Role::Data),
        Ok((_, Message::Announce(_))) => ("announce", Role::Control),
        Ok((_, Message::Start(_))) => ("start", Role::Control),
        Ok((_, Message::Report(report))) => match report.purpose {
            Purpose::Register => ("register", Role::Control),
            Purpose::Ready => ("ready", Role::Control),
            Purpose::Acknowledge => ("report", Role::Control),
            Purpose::Nak => ("nak", Role::Request),
        },
        Ok((_, Message::Request(_))) => ("request", Role::Control),
        Ok((_, Message::Tag(_))) => ("tag", Role::Control),
        Ok((_, Message::Acknowledgement(_))) => ("acknowledgement", Role::Control),
        Ok((_, Message::Mark(_))) => ("mark", Role::Control),
        Ok((_, Message::Returned(_))) => ("return acknowledgement", Role::Control),
        Ok((_, Message::Poll(_))) => ("poll", Role::Control),
        Ok((_, Message::Attend(_))) => ("attend", Role::Control),
        Ok((_, Message::Join(_))) => ("join", Role::Control),
        Ok((_, Message::Joined(_))) => ("joined", Role::Control),
        Ok((_, Message::ServedWhen(_))) => ("served", Role::Control),
        Ok((_, Message::Composite(_))) => ("composite", Role::Control),
        Ok((_, Message::Finish(_))) => ("finish", Role::Control),
        Ok((_, Message::Refuse(_))) => ("refuse", Role::Control),
        Ok((_, Message::Missed(_))) => ("missed", Role::Control),
        Err(_) => ("junk", Role::Control),
    };
    Inspected { kind, role }
}

/// As [`inspect`], with data that asks every receiver for a report told apart: `asking data` and
/// `asking repair`. For prices by kind, and for who loses what.
pub fn inspect_requests(
    class: SocketClass,
    body: &[u8],
    payload: &mut dyn FnMut(&[u8]),
) -> Inspected {
    let told = inspect(class, body, payload);
    let asks = match Message::decode(&Bytes::copy_from_slice(body)) {
        Ok((_, Message::Data(data))) => data.header.answer && data.header.parity.is_none(),
        _ => false,
    };
    let kind = match told.kind {
        "data" if asks => "asking data",
        "repair" if asks => "asking repair",
        kind => kind,
    };
    Inspected { kind, ..told }
}
