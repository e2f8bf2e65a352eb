//! Hostile clients. There are ten ways to be hostile, each in a process of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use groupcast_bench::Process;
use groupcast_client::{Address, Client, Options, Service};
use groupcast_session::frame::{ClientFrame, encode_publish_head};

use super::super::Outcome;
use super::super::cluster::Cluster;
use super::wire::Wire;

/// The hidden word: with it the soak program plays the clients of one way.
pub(super) const MOB: &str = "mob";
/// The name of what a process does that is to be killed; no way by itself.
const VICTIM: &str = "victim";
/// Frames that are sent in one piece.
const BURST: usize = 1_000;
/// Of a frame that never comes whole: the length that it announces, and the bytes that come.
const HALF: (u32, usize) = (32 << 20, 16 << 20);
/// As many groups as a client of the way `many-groups` tries to join.
const GROUPS: usize = 10_000;
/// For clients that do not read: messages a second of each publisher, and their bytes.
const FEED: (f64, usize) = (1_000.0, 1_000);
/// How long a client that is to be killed lives.
const LIFE: Duration = Duration::from_millis(200);
/// The pause after a connection that failed.
const PAUSE: Duration = Duration::from_millis(1);

/// What a hostile client does until its connection fails; then it does it again.
type Way = fn(&Post) -> io::Result<()>;

/// The ways, by name.
const WAYS: [(&str, Way); 10] = [
    ("silent", silent),
    ("half-frames", half_frames),
    ("never-reading", never_reading),
    ("empty-credit", empty_credit),
    ("joins", joins),
    ("unknown-frames", unknown_frames),
    ("many-groups", many_groups),
    ("giant-lengths", giant_lengths),
    ("storm", storm),
    ("killed", killed),
];

/// The names of the ways.
pub(super) fn ways() -> impl Iterator<Item = &'static str> {
    WAYS.iter().map(|(name, _)| *name)
}

/// Starts `clients` clients of one way in a process, at the daemons of `hosts` in turn, for at most
/// `length`.
pub(super) fn start(
    cluster: &Cluster,
    way: &str,
    clients: usize,
    length: Duration,
    hosts: &[usize],
) -> Outcome<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([MOB, way, &clients.to_string()])
        .arg(length.as_secs_f64().to_string())
        .args(hosts.iter().map(|host| cluster.socket(*host)));
    Ok(cluster.bed.launch(&format!("mob-{way}"), command)?)
}

/// The clients of one way, in their process.
pub(super) fn main(words: &[&str]) -> Outcome {
    let [way, clients, seconds, sockets @ ..] = words else {
        return Err("usage: mob WAY CLIENTS SECONDS SOCKET...".into());
    };
    let until = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let run = match WAYS.iter().find(|(name, _)| name == way) {
        Some((_, run)) => *run,
        None if *way == VICTIM => victim,
        None => return Err(format!("there is no way `{way}`").into()),
    };
    let clients: usize = clients.parse()?;
    thread::scope(|scope| {
        for index in 0..clients {
            let post = Post {
                way,
                index,
                socket: sockets[index % sockets.len()].into(),
                until,
            };
            scope.spawn(move || post.hold(run));
        }
    });
    Ok(())
}

/// One hostile client: its way, its number, and the daemon that it attacks.
struct Post<'a> {
    way: &'a str,
    index: usize,
    socket: PathBuf,
    until: Instant,
}

impl Post<'_> {
    fn hold(&self, run: Way) {
        while Instant::now() < self.until {
            // An error is expected: the daemon ends the connection.
            if run(self).is_err() {
                sleep(PAUSE);
            }
        }
    }

    fn name(&self) -> String {
        format!("mob-{}-{}", self.way, self.index)
    }

    fn group(&self) -> String {
        format!("mob/{}", self.way)
    }

    fn connect(&self) -> io::Result<Wire> {
        Wire::connect(&self.socket, self.until)
    }

    fn greet(&self, window: u64) -> io::Result<Wire> {
        Wire::greet(&self.socket, &self.name(), window, self.until)
    }

    /// Publishes to the group of this way, at a steady pace.
    fn feed(&self) -> io::Result<()> {
        let options = Options {
            name: Some(self.name()),
            ..Options::default()
        };
        let address = Address::Unix(self.socket.clone());
        let mut client = Client::connect(&address, options).map_err(io::Error::other)?;
        let (rate, size) = FEED;
        let (group, payload) = (self.group(), vec![0; size]);
        let mut due = Instant::now();
        while Instant::now() < self.until {
            sleep(due.saturating_duration_since(Instant::now()));
            let published = client.publish(&[&group], Service::Agreed, &payload);
            published.map_err(io::Error::other)?;
            client.flush().map_err(io::Error::other)?;
            due += Duration::from_secs_f64(1.0 / rate);
            let nothing = Some(Duration::ZERO);
            while client
                .next_event(nothing)
                .map_err(io::Error::other)?
                .is_some()
            {}
        }
        Ok(())
    }
}

fn encoded(frames: impl IntoIterator<Item = ClientFrame>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.encode(&mut bytes);
    }
    bytes
}

fn join(group: String) -> ClientFrame {
    let discard_own = false;
    ClientFrame::Join {
        group,
        discard_own,
        ring: false,
    }
}

/// Connects and says nothing.
fn silent(post: &Post<'_>) -> io::Result<()> {
    post.connect()?.wait_for_end()
}

/// Begins a long message and does not end it.
fn half_frames(post: &Post<'_>) -> io::Result<()> {
    let mut wire = post.greet(1 << 20)?;
    let (announced, sent) = HALF;
    let mut head = Vec::new();
    let group = post.group();
    let len = announced as usize;
    encode_publish_head(&mut head, 1, Service::Agreed, &[&group], len);
    wire.send(&head)?;
    let piece = vec![0; 1 << 16];
    for _ in 0..sent / piece.len() {
        wire.send(&piece)?;
    }
    wire.wait_for_end()
}

/// Half of them publish. The other half get these messages and do not read; they send pings, whose
/// answers wait, too.
fn never_reading(post: &Post<'_>) -> io::Result<()> {
    if post.index % 2 == 1 {
        return post.feed();
    }
    let mut wire = post.greet(u64::MAX)?;
    wire.send(&encoded([join(post.group())]))?;
    loop {
        wire.send(&encoded([ClientFrame::Ping { token: 1 }]))?;
        sleep(PAUSE * 100);
    }
}

/// Half of them publish. The other half get these messages, and give no credit for them but frames
/// of 0 bytes of credit.
fn empty_credit(post: &Post<'_>) -> io::Result<()> {
    if post.index % 2 == 1 {
        return post.feed();
    }
    let mut wire = post.greet(1)?;
    wire.send(&encoded([join(post.group())]))?;
    let burst = encoded((0..BURST).map(|_| ClientFrame::Credit { bytes: 0 }));
    loop {
        wire.send_and_drain(&burst)?;
    }
}

/// Half of them join and leave in turn, half join again the group that they are in.
fn joins(post: &Post<'_>) -> io::Result<()> {
    let mut wire = post.greet(1 << 20)?;
    let group = || post.group();
    let leaves = post.index % 2 == 1;
    let burst = encoded((0..BURST).map(|index| match leaves && index % 2 == 1 {
        true => ClientFrame::Leave { group: group() },
        false => join(group()),
    }));
    loop {
        wire.send_and_drain(&burst)?;
    }
}

/// Sends frames of an unknown kind, as short as a frame can be.
fn unknown_frames(post: &Post<'_>) -> io::Result<()> {
    let mut wire = post.greet(1 << 20)?;
    let burst = [0, 0, 0, 1, 200].repeat(BURST);
    loop {
        wire.send_and_drain(&burst)?;
    }
}

/// Joins more groups than a client may be in, and begins again.
fn many_groups(post: &Post<'_>) -> io::Result<()> {
    let mut wire = post.greet(1 << 20)?;
    for number in 0..GROUPS {
        let group = format!("{}/{}/{number}", post.group(), post.index);
        wire.send_and_drain(&encoded([join(group)]))?;
    }
    sleep(PAUSE * 1_000);
    Ok(())
}

/// Announces a frame of 4 GiB.
fn giant_lengths(post: &Post<'_>) -> io::Result<()> {
    let mut wire = post.greet(1 << 20)?;
    wire.send(&u32::MAX.to_be_bytes())?;
    wire.send(&[4; 4096])?;
    wire.wait_for_end()
}

/// Connects and goes.
fn storm(post: &Post<'_>) -> io::Result<()> {
    post.connect().map(drop)
}

/// Starts a process that joins and publishes, and kills it meanwhile.
fn killed(post: &Post<'_>) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let seconds = (post.until - Instant::now()).as_secs_f64().to_string();
    command.args([MOB, VICTIM, "1", &seconds]).arg(&post.socket);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    sleep(LIFE);
    child.kill()?;
    child.wait().map(drop)
}

/// What the process does that is to be killed.
fn victim(post: &Post<'_>) -> io::Result<()> {
    let unique = format!("victim-{}", std::process::id());
    let mut wire = Wire::greet(Path::new(&post.socket), &unique, 1 << 20, post.until)?;
    wire.send(&encoded((0..50).map(|n| join(format!("mob/killed/{n}")))))?;
    for number in 1.. {
        let mut message = Vec::new();
        let payload = [0; 100];
        let group = "mob/killed/0";
        encode_publish_head(
            &mut message,
            number,
            Service::Agreed,
            &[group],
            payload.len(),
        );
        message.extend(payload);
        wire.send_and_drain(&message)?;
        sleep(PAUSE);
    }
    Ok(())
}
