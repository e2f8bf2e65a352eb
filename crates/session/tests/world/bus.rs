//! A client of the bus: lines in, lines out.

use groupcast_core::MemberId;
use groupcast_session::ClientId;
use groupcast_session::bus::Bus;
use groupcast_session::groups::Transport;

use super::World;

pub struct BusClient {
    pub bus: Bus,
    /// What it was sent and was not asked for.
    pub text: Vec<u8>,
    pub open: bool,
}

impl BusClient {
    /// Takes what the daemon sent; whether it has something to say to that.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.bus.take_frames(bytes).expect("frames are right");
        self.text.extend_from_slice(self.bus.text());
        let len = self.bus.text().len();
        self.bus.text_taken(len);
        self.bus.has_frames()
    }
}

impl World {
    /// Connects a client of the bus.
    pub fn connect_bus(&mut self, member: MemberId) -> ClientId {
        let now = self.now;
        let daemon = self.daemon(member);
        let id = daemon
            .engine
            .connected(now, Transport::Unix)
            .expect("there is room");
        let client = BusClient {
            bus: Bus::new(None),
            text: Vec::new(),
            open: true,
        };
        daemon.buses.insert(id, client);
        self.flush_bus(member, id);
        self.settle(member);
        id
    }

    /// A client of the bus writes `text`, line ends included.
    pub fn say(&mut self, member: MemberId, id: ClientId, text: &str) {
        let client = self.bus(member, id);
        client.bus.take_text(text.as_bytes());
        client.take(&[]);
        self.flush_bus(member, id);
        self.settle(member);
    }

    /// What a client of the bus was sent since the last time.
    pub fn heard(&mut self, member: MemberId, id: ClientId) -> String {
        let text = std::mem::take(&mut self.bus(member, id).text);
        String::from_utf8(text).expect("it is text")
    }

    fn bus(&mut self, member: MemberId, id: ClientId) -> &mut BusClient {
        let buses = &mut self.daemon(member).buses;
        buses.get_mut(&id).expect("the client is known")
    }

    /// Hands what the bus has for the daemon to it; false if `id` is no client of the bus.
    pub fn flush_bus(&mut self, member: MemberId, id: ClientId) -> bool {
        let now = self.now;
        let daemon = self.daemon(member);
        let Some(client) = daemon.buses.get_mut(&id) else {
            return false;
        };
        while client.bus.has_frames() {
            let Some(space) = daemon.engine.space(id) else {
                break;
            };
            let frames = client.bus.frames();
            let len = space.len().min(frames.len());
            space[..len].copy_from_slice(&frames[..len]);
            client.bus.frames_taken(len);
            daemon.engine.received_all(now, id, len);
            client.take(&[]);
        }
        true
    }
}
