//! What goes before the data: what a transfer is, and which receivers a pass over it serves.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use groupcast_core::wire::{DecodeError, Reader, Writer};
use groupcast_core::{Incarnation, MemberId};

use super::super::config::{
    BulkConfig, Collectors, Control, Cp, Damping, Multidriver, Policy, Slot, Xtp,
};
use super::super::numbers::{PacketNumber, PassNumber};
use super::super::transfer::{DeliverTo, Opening};
use super::{NUMBER_MAX, one_more, packet, small, subgroups};
use crate::xgm::Subgroups;

/// What a transfer is, for members that may want to receive it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Announce {
    pub(in crate::bulk) policy: Policy,
    /// Receivers that are expected, for their back-off (policy `multidriver`); else 0.
    pub(in crate::bulk) set_size: u16,
    /// Return streams are wanted, and each may have this many bytes without being granted any
    /// (policy `multidriver`).
    pub(in crate::bulk) returns: Option<u64>,
    /// Steps are the sender's alone: none are read.
    pub(in crate::bulk) deliver_to: DeliverTo,
    pub(in crate::bulk) go_back: bool,
    /// Receivers register by multicast, so that they know each other.
    pub(in crate::bulk) meet: bool,
    pub(in crate::bulk) confirm: bool,
    /// What was sent can be sent again in a later pass.
    pub(in crate::bulk) rewindable: bool,
    /// It carries messages, and receivers come so: its length is open, and it has neither parity
    /// nor marks.
    pub(in crate::bulk) messages: Option<Opening>,
    pub(in crate::bulk) packet: u32,
    /// Packets of a block; 0 if there is no parity.
    pub(in crate::bulk) block: u16,
    pub(in crate::bulk) length: Option<u64>,
    /// The longest delay of a multicast NAK, in microseconds.
    pub(in crate::bulk) nak_delay_us: Option<u64>,
    /// It is for named receivers alone: whoever it does not list is not to have it.
    pub(in crate::bulk) named: bool,
    /// It is for receivers in these; `None`: for all.
    pub(in crate::bulk) subgroups: Option<Subgroups>,
    pub(in crate::bulk) about: Bytes,
}

impl Announce {
    /// Policy codes with this bit have a subgroup vector.
    const FOR_SOME: u8 = 128;

    /// Policy codes with this bit carry messages.
    const MESSAGES: u8 = 64;

    /// Policy codes with this bit can go back in the stream.
    const REWINDABLE: u8 = 32;

    /// Policy codes with this bit are for named receivers.
    const NAMED: u8 = 16;

    /// Whether it is for a receiver in these subgroups.
    pub(in crate::bulk) fn is_for(&self, own: Subgroups) -> bool {
        self.subgroups
            .is_none_or(|subgroups| subgroups.matches(own))
    }
}

/// The incarnation in the place of a receiver that has left it within the pass (policy `tree`).
pub(in crate::bulk) const EMPTY_PLACE: Incarnation = Incarnation(0);

/// A pass begins: a page of its receivers, in the order of the ring or of the chains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Start {
    pub(in crate::bulk) pass: PassNumber,
    /// Each is to report what it needs.
    pub(in crate::bulk) answer: bool,
    /// And where parity can restore that. Receivers of earlier releases do not look at this.
    pub(in crate::bulk) asks_where_restored: bool,
    pub(in crate::bulk) receivers: u16,
    pub(in crate::bulk) first: u16,
    pub(in crate::bulk) members: Vec<MemberId>,
    /// The receivers that collect in this pass (policy `collectors`).
    pub(in crate::bulk) collectors: Option<CollectorList>,
}

/// Who collects: receiver k of the roster reports to the member at k modulo their number; if that
/// is the sender, to the sender.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::bulk) struct CollectorList {
    /// It rises with every change within a pass.
    pub(in crate::bulk) version: u16,
    pub(in crate::bulk) members: Vec<MemberId>,
}

/// Where a receiver begins that comes late to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bulk) struct Join {
    /// Its first packet, with which its first message begins.
    pub(in crate::bulk) place: PacketNumber,
    /// The number of that message, from 1.
    pub(in crate::bulk) number: u64,
}

impl Join {
    /// It begins with the first.
    pub(in crate::bulk) const AT_START: Self = Self {
        place: PacketNumber::ZERO,
        number: 1,
    };
}

pub(super) fn join(reader: &mut Reader<'_>) -> Result<Join, DecodeError> {
    let place = packet(reader, "place")?;
    let number = message_number(reader)?;
    // A message has a packet at least.
    match number - 1 <= place.0 && (place.0 == 0) == (number == 1) {
        true => Ok(Join { place, number }),
        false => Err(reader.invalid("message", number)),
    }
}

/// The number of a message, from 1.
pub(super) fn message_number(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match small(reader, "message")? {
        0 => Err(reader.invalid("message", 0)),
        number => Ok(number),
    }
}

pub(super) fn announce(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Announce, DecodeError> {
    let code = reader.u8("policy")?;
    let (is_for_some, messages) = (
        code & Announce::FOR_SOME != 0,
        code & Announce::MESSAGES != 0,
    );
    let rewindable = code & Announce::REWINDABLE != 0;
    let named = code & Announce::NAMED != 0;
    let bits = Announce::FOR_SOME | Announce::MESSAGES | Announce::REWINDABLE | Announce::NAMED;
    let code = code & !bits;
    let parameter = reader.u32("parameter")?;
    let mut policy = match (code, parameter) {
        (1, _) => Policy::Ack,
        (2, 1..) => Policy::Nak { poll: parameter },
        (3, _) => Policy::Ring,
        (4, 1..) => Policy::Tree { height: parameter },
        (5, 1..) => Policy::Xtp(Xtp::for_window(parameter)),
        (6, 0..=0xffff) => Policy::Multidriver(Multidriver::for_window(1)),
        (7, 0..=0xffff) => Policy::List(Multidriver::for_window(1)),
        (8, 1..) => Policy::Collectors(Collectors::for_window(1)),
        // Of the rest a receiver needs to know nothing.
        (9, _) => Policy::Cp(Cp::default()),
        _ => return Err(reader.invalid("policy", u64::from(code))),
    };
    let flags = reader.u8("flags")?;
    let packet = reader.u32("packet size")?;
    if packet == 0 || packet as usize > BulkConfig::PACKET_MAX {
        return Err(reader.invalid("packet size", u64::from(packet)));
    }
    let block = reader.u16("block")?;
    if block > BulkConfig::BLOCK_MAX {
        return Err(reader.invalid("block", u64::from(block)));
    }
    let length = reader.varint("length")?.checked_sub(1);
    if length.is_some_and(|length| length > NUMBER_MAX) {
        return Err(reader.invalid("length", NUMBER_MAX));
    }
    let nak_delay_us = small(reader, "delay")?;
    if let Policy::Xtp(xtp) = &mut policy {
        // Of the rest a receiver needs to know nothing.
        xtp.every = parameter;
        xtp.control = control(reader, flags)?;
    }
    let (mut set_size, mut returns) = (0, None);
    if let Policy::Multidriver(rule) | Policy::List(rule) = &mut policy {
        set_size = parameter as u16;
        let backoff = small(reader, "back-off")?;
        rule.backoff = Duration::from_micros(backoff.min(Multidriver::BACKOFF_MAX_US));
        returns = match flags & 8 != 0 {
            true => Some(small(reader, "credit")?),
            false => None,
        };
    }
    if let Policy::Collectors(rule) = &mut policy {
        rule.every = parameter;
        let wait = small(reader, "wait")?;
        rule.wait = Duration::from_micros(wait.min(Collectors::WAIT_MAX_US));
    }
    let deliver_to = match (flags & 64 != 0, flags & 128 != 0) {
        (false, false) => DeliverTo::AtOnce,
        (true, false) => DeliverTo::UpTo {
            first: small(reader, "mark")?,
            step: None,
        },
        (false, true) => DeliverTo::Aside,
        (true, true) => return Err(reader.invalid("flags", u64::from(flags))),
    };
    let messages = match messages {
        true => Some(opening(reader)?),
        false => None,
    };
    if messages.is_some() && (length.is_some() || block > 0 || deliver_to != DeliverTo::AtOnce) {
        return Err(reader.invalid("messages", 1));
    }
    let subgroups = match is_for_some {
        true => Some(subgroups(reader)?),
        false => None,
    };
    if reader.remaining() > BulkConfig::ABOUT_MAX {
        return Err(reader.invalid("description's length", reader.remaining() as u64));
    }
    let about = bytes.slice(reader.position()..);
    reader.rest();
    Ok(Announce {
        policy,
        set_size,
        returns,
        deliver_to,
        go_back: flags & 1 != 0,
        meet: flags & 2 != 0,
        confirm: flags & 4 != 0,
        rewindable,
        messages,
        packet,
        block,
        length,
        nak_delay_us: (nak_delay_us > 0).then_some(nak_delay_us),
        named,
        subgroups,
        about,
    })
}

fn opening(reader: &mut Reader<'_>) -> Result<Opening, DecodeError> {
    match reader.u8("opening")? {
        1 => Ok(Opening::AtStart),
        2 => Ok(Opening::AtAnyTime),
        3 => Ok(Opening::Unanswered),
        other => Err(reader.invalid("opening", u64::from(other))),
    }
}

fn control(reader: &mut Reader<'_>, flags: u8) -> Result<Control, DecodeError> {
    let slot = small(reader, "slot")?;
    Ok(Control {
        multicast: flags & 8 != 0,
        damping: match (flags & 16 != 0, flags & 32 != 0) {
            (true, _) => Damping::Request,
            (false, true) => Damping::Rseq,
            (false, false) => Damping::Off,
        },
        slot: match slot {
            0 => Slot::None,
            slot => Slot::UpTo(Duration::from_micros(slot.min(Xtp::SLOT_MAX_US))),
        },
    })
}

fn control_flags(control: &Control) -> u8 {
    let damping = match control.damping {
        Damping::Off => 0,
        Damping::Request => 16,
        Damping::Rseq => 32,
    };
    damping | u8::from(control.multicast) << 3
}

pub(super) fn put_announce(writer: &mut Writer<'_>, announce: &Announce) {
    let (code, parameter) = match announce.policy {
        Policy::Ack => (1, 0),
        Policy::Nak { poll } => (2, poll),
        Policy::Ring => (3, 0),
        Policy::Tree { height } => (4, height),
        Policy::Xtp(xtp) => (5, xtp.every),
        Policy::Multidriver(_) => (6, announce.set_size.into()),
        Policy::List(_) => (7, announce.set_size.into()),
        Policy::Collectors(rule) => (8, rule.every),
        Policy::Cp(_) => (9, 0),
    };
    let control = match &announce.policy {
        Policy::Xtp(xtp) => Some(&xtp.control),
        _ => None,
    };
    let flags = control.map_or(0, control_flags)
        | u8::from(announce.go_back)
        | u8::from(announce.meet) << 1
        | u8::from(announce.confirm) << 2
        | u8::from(announce.returns.is_some()) << 3
        | match announce.deliver_to {
            DeliverTo::AtOnce => 0,
            DeliverTo::UpTo { .. } => 64,
            DeliverTo::Aside => 128,
        };
    let for_some = match announce.subgroups {
        Some(_) => Announce::FOR_SOME,
        None => 0,
    };
    let messages = match announce.messages {
        Some(_) => Announce::MESSAGES,
        None => 0,
    };
    let rewindable = match announce.rewindable {
        true => Announce::REWINDABLE,
        false => 0,
    };
    let named = match announce.named {
        true => Announce::NAMED,
        false => 0,
    };
    writer.u8(code | for_some | messages | rewindable | named);
    writer.u32(parameter).u8(flags);
    writer.u32(announce.packet).u16(announce.block);
    writer.varint(one_more(announce.length));
    writer.varint(announce.nak_delay_us.unwrap_or(0));
    if let Some(control) = control {
        writer.varint(control.slot.longest().as_micros() as u64);
    }
    if let Some(rule) = announce.policy.rounds() {
        writer.varint(rule.backoff.as_micros() as u64);
        if let Some(credit) = announce.returns {
            writer.varint(credit);
        }
    }
    if let Policy::Collectors(rule) = &announce.policy {
        writer.varint(rule.wait.as_micros() as u64);
    }
    if let DeliverTo::UpTo { first, .. } = announce.deliver_to {
        writer.varint(first);
    }
    if let Some(opening) = announce.messages {
        writer.u8(match opening {
            Opening::AtStart => 1,
            Opening::AtAnyTime => 2,
            Opening::Unanswered => 3,
        });
    }
    if let Some(subgroups) = announce.subgroups {
        writer.u64(subgroups.0);
    }
    writer.put(&announce.about);
}

pub(super) fn start(reader: &mut Reader<'_>) -> Result<Start, DecodeError> {
    let pass = PassNumber(reader.u16("pass")?);
    let flags = reader.u8("flags")?;
    let receivers = reader.u16("receivers")?;
    let first = reader.u16("first")?;
    let count = reader.count("members", 16)?;
    if usize::from(first) + count > usize::from(receivers) {
        return Err(reader.invalid("first", u64::from(first)));
    }
    let members = (0..count)
        .map(|_| reader.member("member"))
        .collect::<Result<_, _>>()?;
    let collectors = match flags & 4 != 0 {
        true => Some(collector_list(reader)?),
        false => None,
    };
    Ok(Start {
        pass,
        answer: flags & 1 != 0,
        asks_where_restored: flags & 8 != 0,
        receivers,
        first,
        members,
        collectors,
    })
}

fn collector_list(reader: &mut Reader<'_>) -> Result<CollectorList, DecodeError> {
    let version = reader.u16("version")?;
    let count = reader.count("collectors", 16)?;
    if count > Collectors::COUNT_MAX as usize {
        return Err(reader.invalid("collectors", count as u64));
    }
    let members = (0..count)
        .map(|_| reader.member("collector"))
        .collect::<Result<_, _>>()?;
    Ok(CollectorList { version, members })
}

pub(super) fn put_start(writer: &mut Writer<'_>, start: &Start) {
    writer.u16(start.pass.0);
    writer.u8(u8::from(start.answer)
        | u8::from(start.collectors.is_some()) << 2
        | u8::from(start.asks_where_restored) << 3);
    writer.u16(start.receivers);
    writer.u16(start.first).count(start.members.len());
    for member in &start.members {
        writer.member(*member);
    }
    if let Some(collectors) = &start.collectors {
        writer.u16(collectors.version);
        writer.count(collectors.members.len());
        for member in &collectors.members {
            writer.member(*member);
        }
    }
}
