//! The codecs that every message passes: frames between client and daemon, records in packets,
//! prefixes of datagrams.

use std::hint::black_box;

use bytes::Bytes;
use groupcast_core::wire::{ClusterTag, Prefix, VERSION};
use groupcast_core::{ConfigId, Incarnation, MemberId, NodeId, OrderPlace, Service};
use groupcast_protocols::packing::{Packer, Record, Unpacker};
use groupcast_session::frame::{
    ClientFrame, DaemonFrame, FRAME_MAX, FrameDecoder, MAGIC, MessageHead, encode_message_head,
    encode_publish_head,
};

/// Records in a packet, as the ring packs them.
const BODY_MAX: usize = 1407;
/// Messages in one read of a socket.
const BATCH: u64 = 16;
const GROUP: &str = "bench";

/// A client publishes, the daemon understands, and hands on; another client understands.
pub(crate) fn frames(count: u64, size: usize) {
    let payload = vec![b'.'; size];
    let place = OrderPlace {
        config: ConfigId {
            counter: 1,
            representative: MemberId {
                node: NodeId(1),
                incarnation: Incarnation(1),
            },
        },
        seq: 1,
    };
    let (mut at_daemon, mut at_client) = (decoder(), decoder());
    let (mut published, mut delivered) = (Vec::new(), Vec::new());
    let mut number = 0;
    while number < count {
        published.clear();
        for _ in 0..BATCH.min(count - number) {
            number += 1;
            encode_publish_head(&mut published, number, Service::Agreed, &[GROUP], size);
            published.extend_from_slice(&payload);
        }
        fill(&mut at_daemon, &published);
        delivered.clear();
        while let Some(raw) = at_daemon.next_frame().expect("own frames decode") {
            let frame = ClientFrame::decode(raw).expect("own frames decode");
            let Some(ClientFrame::Publish(publish)) = frame else {
                panic!("only messages were published");
            };
            let envelope = publish.into_payload_after(&[0; 8]);
            let head = MessageHead {
                service: Service::Agreed,
                place: Some(place),
                number: None,
                sender: "sender@host-1",
                label: None,
            };
            let message = envelope.slice(8..);
            encode_message_head(&mut delivered, &head, 0, &[GROUP], message.len());
            delivered.extend_from_slice(&message);
        }
        fill(&mut at_client, &delivered);
        while let Some(raw) = at_client.next_frame().expect("own frames decode") {
            black_box(DaemonFrame::decode(raw).expect("own frames decode"));
        }
    }
}

fn decoder() -> FrameDecoder {
    let mut decoder = FrameDecoder::new(FRAME_MAX);
    fill(&mut decoder, &MAGIC);
    decoder
}

fn fill(decoder: &mut FrameDecoder, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let space = decoder.space();
        let len = space.len().min(bytes.len());
        space[..len].copy_from_slice(&bytes[..len]);
        decoder.filled(len);
        bytes = &bytes[len..];
    }
}

/// Messages into packets, and out of them again.
pub(crate) fn packing(count: u64, size: usize) {
    let payload = Bytes::from(vec![b'.'; size]);
    let mut packer = Packer::default();
    let mut unpacker = Unpacker::default();
    for number in 1..=count {
        packer.push(Record {
            service: Service::Agreed,
            number,
            payload: payload.clone(),
        });
        if number % BATCH != 0 && number != count {
            continue;
        }
        while let Some(body) = packer.pack(BODY_MAX) {
            let mut at = 0;
            while let Some(record) = unpacker
                .next(&body, &mut at, FRAME_MAX)
                .expect("own packets decode")
            {
                black_box(record);
            }
        }
    }
}

/// Prefixes, written and read.
pub(crate) fn prefix(count: u64) {
    for counter in 0..count {
        let prefix = Prefix {
            version: VERSION,
            cluster: ClusterTag(7),
            sender: Incarnation(9),
            addressed: counter % 16 == 0,
            counter,
        };
        let bytes = black_box(prefix.encode());
        black_box(Prefix::decode(&bytes).expect("own prefixes decode"));
    }
}
