//! Captures of what passed a link, as `tcpdump` and Wireshark read them: classic pcap with
//! nanoseconds.
//!
//! The simulator knows datagrams, not frames: Ethernet, IPv4 and UDP headers are made here, with
//! true lengths, fragment offsets and checksums. Preamble, check sequence and padding are not in
//! the file, as in real captures.
//!
//! ```text
//! file    magic 0xa1b23c4d, version 2.4, zone 0, accuracy 0, snap length, link type 1 (Ethernet); little endian
//! packet  seconds, nanoseconds, bytes captured, bytes on the wire; 32 bits each, little endian; then the frame
//! frame   to 6, from 6, 0x0800 | IPv4 header 20 | UDP header 8, in the first fragment only | payload
//! ```

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use groupcast_core::Time;

use super::ip::{IP_HEADER, UDP_HEADER, UDP_PAYLOAD_MAX, fragments};

const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const ETHERNET_HEADER: usize = 14;
const SNAP_LENGTH: u32 = 262_144;
const PROTOCOL_UDP: u8 = 17;
const MORE_FRAGMENTS: u16 = 0x2000;

/// An IP packet on a link.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Who sends on this link and who receives: numbers of which MAC addresses are made.
    pub stations: [u32; 2],
    /// Who sent the datagram. IPv4.
    pub from: SocketAddr,
    /// To whom. IPv4; a multicast address makes a multicast frame.
    pub to: SocketAddr,
    /// What fragments of one datagram have in common.
    pub identification: u16,
    /// Hops that it may still go.
    pub ttl: u8,
    /// Of the network; it decides where the datagram was cut.
    pub mtu: u32,
    /// Which packet of the datagram it is, from 0.
    pub fragment: u32,
    /// The payload of the whole datagram.
    pub payload: &'a [u8],
}

/// A pcap file in the making. It makes one write a packet: give it a buffered writer.
#[derive(Debug)]
pub struct Pcap<W> {
    out: W,
    packets: u64,
    /// Of the packet that is written, kept for its memory.
    frame: Vec<u8>,
}

impl<W: Write> Pcap<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut out: W) -> io::Result<Self> {
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC_NANOS.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        for word in [0, 0, SNAP_LENGTH, LINK_TYPE_ETHERNET] {
            header.extend(u32::to_le_bytes(word));
        }
        out.write_all(&header)?;
        Ok(Self {
            out,
            packets: 0,
            frame: Vec::new(),
        })
    }

    /// Adds a packet that passed at `now`.
    ///
    /// # Errors
    /// `InvalidInput` if IPv4 and UDP cannot carry such a packet: the file stays as it was.
    /// Otherwise the writer's.
    pub fn write(&mut self, now: Time, frame: &Frame<'_>) -> io::Result<()> {
        let (from, to) = (ipv4(frame.from)?, ipv4(frame.to)?);
        let (offset, bytes, is_last) = cut(frame)?;
        let len = (ETHERNET_HEADER as u32 + bytes).to_le_bytes();
        let nanos = now.as_nanos();
        let out = &mut self.frame;
        out.clear();
        // Seconds of pcap have 32 bits: a capture that runs longer than 136 years wraps.
        out.extend(((nanos / 1_000_000_000) as u32).to_le_bytes());
        out.extend(((nanos % 1_000_000_000) as u32).to_le_bytes());
        out.extend(len);
        out.extend(len);
        out.extend(mac(frame.stations[1], *to.ip()));
        out.extend(mac(frame.stations[0], *from.ip()));
        out.extend([0x08, 0x00]);
        let flags = if is_last { 0 } else { MORE_FRAGMENTS };
        out.extend(ip_header(frame, bytes, flags | (offset / 8) as u16));
        // The UDP header is the first bytes of what IP carries.
        let carried = offset as usize..(offset + bytes - IP_HEADER) as usize;
        let header_len = UDP_HEADER as usize;
        if carried.start == 0 {
            out.extend(udp_header(from, to, frame.payload));
        }
        let begin = carried.start.saturating_sub(header_len);
        let end = carried.end.saturating_sub(header_len);
        out.extend(frame.payload.get(begin..end).unwrap_or_default());
        self.packets += 1;
        self.out.write_all(out)
    }

    /// How many packets were written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The writer's, when it is flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Where in the IP payload of the whole datagram a packet begins, its bytes, and whether it is the
/// last.
fn cut(frame: &Frame<'_>) -> io::Result<(u32, u32, bool)> {
    let payload = u32::try_from(frame.payload.len())
        .ok()
        .filter(|len| *len <= UDP_PAYLOAD_MAX)
        .ok_or_else(|| {
            invalid(format!(
                "a UDP datagram has at most {UDP_PAYLOAD_MAX} bytes"
            ))
        })?;
    let mut packets = fragments(payload, frame.mtu);
    let mut offset = 0;
    for index in 0..=frame.fragment {
        let Some(bytes) = packets.next() else { break };
        if index == frame.fragment {
            return Ok((offset, bytes, packets.len() == 0));
        }
        offset += bytes - IP_HEADER;
    }
    Err(invalid(format!(
        "a datagram of {payload} bytes has no fragment {} at an MTU of {}",
        frame.fragment, frame.mtu
    )))
}

fn ipv4(address: SocketAddr) -> io::Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(address) => Err(invalid(format!("captures are of IPv4, not of {address}"))),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// The address of a station, locally administered, or the one that a multicast address maps to (RFC
/// 1112).
fn mac(station: u32, address: Ipv4Addr) -> [u8; 6] {
    if address.is_multicast() {
        let [_, b, c, d] = address.octets();
        return [0x01, 0x00, 0x5e, b & 0x7f, c, d];
    }
    let [a, b, c, d] = station.to_be_bytes();
    [0x02, 0x00, a, b, c, d]
}

fn ip_header(frame: &Frame<'_>, bytes: u32, flags_and_offset: u16) -> [u8; 20] {
    let address = |of: SocketAddr| match of {
        SocketAddr::V4(address) => address.ip().octets(),
        SocketAddr::V6(_) => [0; 4],
    };
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    header[4..6].copy_from_slice(&frame.identification.to_be_bytes());
    header[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
    header[8] = frame.ttl;
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&address(frame.from));
    header[16..20].copy_from_slice(&address(frame.to));
    let checksum = checksum(&[&header]);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

fn udp_header(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> [u8; 8] {
    let len = (payload.len() + UDP_HEADER as usize) as u16;
    let mut header = [0; 8];
    header[0..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    header[4..6].copy_from_slice(&len.to_be_bytes());
    let [high, low] = len.to_be_bytes();
    let pseudo = [0, PROTOCOL_UDP, high, low];
    let (source, target) = (from.ip().octets(), to.ip().octets());
    // Zero says that there is no checksum: a sum of zero is sent as its other form (RFC 768).
    let checksum = match checksum(&[&source, &target, &pseudo, &header, payload]) {
        0 => 0xffff,
        sum => sum,
    };
    header[6..8].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// The Internet checksum (RFC 1071) of parts of which all but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let mut words = part.chunks_exact(2);
        for word in &mut words {
            sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [odd] = words.remainder() {
            sum += u64::from(*odd) << 8;
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8], fragment: u32) -> Frame<'_> {
        Frame {
            stations: [7, 300],
            from: "10.0.0.1:4810".parse().unwrap(),
            to: "10.0.0.2:4811".parse().unwrap(),
            identification: 0x1234,
            ttl: 64,
            mtu: 1_500,
            fragment,
            payload,
        }
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// The packets of a file: seconds, nanoseconds, frame.
    fn packets(mut file: &[u8]) -> Vec<(u32, u32, &[u8])> {
        assert_eq!(
            [0, 4, 16, 20].map(|at| word(file, at)),
            [MAGIC_NANOS, 0x0004_0002, SNAP_LENGTH, 1]
        );
        file = &file[24..];
        let mut packets = Vec::new();
        while !file.is_empty() {
            let len = word(file, 8);
            assert_eq!(len, word(file, 12));
            let (packet, rest) = file.split_at(16 + len as usize);
            packets.push((word(packet, 0), word(packet, 4), &packet[16..]));
            file = rest;
        }
        packets
    }

    #[test]
    fn a_packet_is_written_byte_by_byte() {
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        let now = Time::from_nanos(3_000_000_007);
        pcap.write(now, &frame(b"hello", 0)).unwrap();
        let file = pcap.finish().unwrap();
        let expected: [u8; 47] = [
            2, 0, 0, 0, 1, 44, 2, 0, 0, 0, 0, 7, 8, 0, // Ethernet
            0x45, 0, 0, 33, 0x12, 0x34, 0, 0, 64, 17, 0x54, 0x96, 10, 0, 0, 1, 10, 0, 0,
            2, // IPv4
            0x12, 0xca, 0x12, 0xcb, 0, 13, 0x82, 0x6a, // UDP
            b'h', b'e', b'l', b'l', b'o',
        ];
        assert_eq!(packets(&file), [(3, 7, &expected[..])]);
        // A header with its own checksum in it sums to zero.
        assert_eq!(checksum(&[&expected[14..34]]), 0);
        let pseudo = [0, PROTOCOL_UDP, 0, 13];
        assert_eq!(checksum(&[&expected[26..34], &pseudo, &expected[34..]]), 0);
    }

    #[test]
    fn a_multicast_datagram_goes_to_the_address_of_its_group() {
        let to = "239.192.200.7:4810".parse().unwrap();
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        let multicast = Frame {
            to,
            ..frame(b"x", 0)
        };
        pcap.write(Time::ZERO, &multicast).unwrap();
        let file = pcap.finish().unwrap();
        assert_eq!(packets(&file)[0].2[..6], [0x01, 0x00, 0x5e, 64, 200, 7]);
    }

    #[test]
    fn fragments_carry_the_whole_datagram_once() {
        let payload: Vec<u8> = (0..8_192u32).map(|it| it as u8).collect();
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        let total = fragments(8_192, 1_500).len() as u32;
        for fragment in 0..total {
            pcap.write(Time::ZERO, &frame(&payload, fragment)).unwrap();
        }
        assert_eq!(pcap.packets(), u64::from(total));
        let file = pcap.finish().unwrap();
        let mut carried = Vec::<u8>::new();
        for (index, (_, _, bytes)) in packets(&file).iter().enumerate() {
            let ip = &bytes[14..];
            assert_eq!(checksum(&[&ip[..20]]), 0);
            assert_eq!(ip[4..6], [0x12, 0x34]);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            let flags = u16::from_be_bytes([ip[6], ip[7]]);
            assert_eq!(usize::from(flags & 0x1fff) * 8, carried.len());
            assert_eq!(flags & MORE_FRAGMENTS == 0, index as u32 == total - 1);
            carried.extend(&ip[20..]);
        }
        assert_eq!(carried[4..6], 8_200u16.to_be_bytes());
        assert_eq!(carried[8..], payload);
    }

    #[test]
    fn what_ipv4_cannot_carry_is_refused_and_the_file_stays_as_it_was() {
        let large = vec![0; 65_508];
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        let v6 = Frame {
            to: "[ff02::1]:4810".parse().unwrap(),
            ..frame(b"", 0)
        };
        for (bad, why) in [
            (frame(&large, 0), "at most 65507 bytes"),
            (frame(b"abc", 1), "no fragment 1 at an MTU of 1500"),
            (v6, "captures are of IPv4, not of [ff02::1]:4810"),
        ] {
            let error = pcap.write(Time::ZERO, &bad).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(pcap.packets(), 0);
        assert_eq!(pcap.finish().unwrap().len(), 24);
    }
}
