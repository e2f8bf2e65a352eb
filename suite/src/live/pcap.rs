//! Reads what `tcpdump -w` wrote: the UDP datagrams of a capture, as an eavesdropper has them.
//!
//! The classic format, of Ethernet frames. Those that hold no whole IPv4 UDP datagram are passed
//! over; a capture that is cut off ends where it is cut off.

use std::net::{Ipv4Addr, SocketAddrV4};

/// A captured datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Where it went.
    pub to: SocketAddrV4,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The capture is not one that this file can read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PcapError {
    /// Not the classic little-endian format.
    #[error("not a capture file (it begins with {0:02x?})")]
    Format(Vec<u8>),
    /// Of frames that are not read here.
    #[error("frames of link type {0} are not read here: capture Ethernet")]
    Link(u32),
}

const LINK_ETHERNET: u32 = 1;
const ETHERNET_HEADER: usize = 14;

/// All UDP datagrams of a capture, fragments left out.
pub fn datagrams(capture: &[u8]) -> Result<Vec<Datagram>, PcapError> {
    if capture.get(..4) != Some(&[0xd4, 0xc3, 0xb2, 0xa1]) {
        return Err(PcapError::Format(capture.iter().take(4).copied().collect()));
    }
    let link = word(capture, 20).unwrap_or_default();
    if link != LINK_ETHERNET {
        return Err(PcapError::Link(link));
    }
    let mut found = Vec::new();
    let mut rest = capture.get(24..).unwrap_or_default();
    while let Some(len) = word(rest, 8).map(|len| len as usize)
        && let Some(frame) = rest.get(16..16 + len)
    {
        found.extend(frame.get(ETHERNET_HEADER..).and_then(datagram));
        rest = &rest[16 + len..];
    }
    Ok(found)
}

/// The datagram in an IPv4 packet.
fn datagram(packet: &[u8]) -> Option<Datagram> {
    let first = *packet.first()?;
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
    if first >> 4 != 4 || *packet.get(9)? != 17 || fragment != 0 {
        return None;
    }
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    let udp = packet.get(usize::from(first & 15) * 4..)?;
    let len = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    Some(Datagram {
        to: SocketAddrV4::new(
            Ipv4Addr::from(octets),
            u16::from_be_bytes([*udp.get(2)?, *udp.get(3)?]),
        ),
        payload: udp.get(8..len)?.to_vec(),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1];
        bytes.resize(20, 0);
        bytes.extend(link.to_le_bytes());
        for frame in frames {
            bytes.extend([0; 8]);
            bytes.extend((frame.len() as u32).to_le_bytes());
            bytes.extend((frame.len() as u32).to_le_bytes());
            bytes.extend(frame);
        }
        bytes
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 1, 17, 0, 0]);
        frame.extend([10, 79, 0, 1, 239, 79, 0, 1]);
        frame.extend([0, 1, 0x12, 0xc9, 0, 8 + payload.len() as u8, 0, 0]);
        frame.extend(payload);
        frame.extend([0; 5]); // Ethernet's padding is not payload
        frame
    }

    #[test]
    fn payloads_and_destinations_are_found() {
        let mut arp = frame(b"x");
        arp[14] = 0;
        let bytes = capture(LINK_ETHERNET, &[frame(b"one"), arp, frame(b"two")]);
        let found = datagrams(&bytes).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].payload, b"one");
        assert_eq!(found[1].to, "239.79.0.1:4809".parse().unwrap());
    }

    #[test]
    fn a_capture_cut_off_anywhere_is_read_up_to_there() {
        let bytes = capture(LINK_ETHERNET, &[frame(b"one"), frame(b"two")]);
        for len in 24..bytes.len() {
            assert!(datagrams(&bytes[..len]).unwrap().len() < 2);
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(datagrams(b"not a capture").is_err());
        assert_eq!(datagrams(&capture(105, &[])), Err(PcapError::Link(105)));
    }
}
