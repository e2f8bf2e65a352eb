//! How long a byte takes to N receivers on an open connection, until the sender knows that all have
//! it, beside a byte over TCP to each of them, and one back, one after the other (003 5.5.2).
//!
//! ```text
//! crossover                                        20 receivers in this process, on loopback
//! crossover listen NAME ADDRESS                    a receiver, on the interface with this address
//! crossover measure ADDRESS NAME=ADDRESS...        the sender, to the first 1, 2, 3 ... of these
//! ```

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_transfer::bulk::{BulkConfig, Multidriver, Opening, Outcome, Policy, Xtp};
use groupcast_transfer::xgm::Subgroups;
use groupcast_transfer::{
    Audience, Connecting, LinkReach, ListenEvent, Listening, Next, TransferLink, connect, listen,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 192, 79, 7), 4825);
/// Of the byte that comes back over TCP.
const ECHO_PORT: u16 = 4826;
/// Messages before the measured ones, and those; of XTP, whose buckets live long, fewer.
const FIRST: u64 = 20;
const MEASURED: u64 = 300;
const MEASURED_XTP: u64 = 50;
/// This many receivers are measured.
const COUNTS: [usize; 11] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let stop = &AtomicBool::new(false);
    match &args[..] {
        [] => on_loopback(stop),
        ["listen", name, address] => {
            let address: Ipv4Addr = address.parse()?;
            let echo = TcpListener::bind((address, ECHO_PORT))?;
            thread::spawn(move || echo_all(&echo));
            receiver(name, address, stop, &|| println!("listening"))
        }
        ["measure", address, receivers @ ..] if !receivers.is_empty() => {
            let parse = |receiver: &&str| -> Result<(String, SocketAddrV4)> {
                let (name, address) = receiver.split_once('=').ok_or("NAME=ADDRESS is wanted")?;
                Ok((name.into(), SocketAddrV4::new(address.parse()?, ECHO_PORT)))
            };
            let receivers = receivers.iter().map(parse).collect::<Result<Vec<_>>>()?;
            measure_all(address.parse()?, &receivers)
        }
        _ => Err("crossover [listen NAME ADDRESS | measure ADDRESS NAME=ADDRESS...]".into()),
    }
}

/// All of it in this process.
fn on_loopback(stop: &AtomicBool) -> Result<()> {
    let listening = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut receivers = Vec::new();
        for number in 1..=20 {
            let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, echo.local_addr()?.port());
            thread::spawn(move || echo_all(&echo));
            let name = format!("{number:02}");
            receivers.push((name.clone(), address));
            scope.spawn(move || {
                receiver(&name, Ipv4Addr::LOCALHOST, stop, &|| {
                    listening.fetch_add(1, Ordering::Relaxed);
                })
            });
        }
        while listening.load(Ordering::Relaxed) < receivers.len() {
            thread::yield_now();
        }
        let measured = measure_all(Ipv4Addr::LOCALHOST, &receivers);
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

fn link(name: &str, interface: Ipv4Addr, bulk: BulkConfig) -> TransferLink {
    TransferLink {
        name: name.into(),
        interface,
        group: GROUP,
        key: None,
        bulk,
        fit_packet: true,
        ttl: 1,
        dscp: 0,
        reach: LinkReach::default(),
    }
}

fn receiver(name: &str, interface: Ipv4Addr, stop: &AtomicBool, is_ready: &dyn Fn()) -> Result<()> {
    let listening = Listening {
        link: link(name, interface, BulkConfig::lan()),
        message_max: 1 << 20,
        subgroups: None,
    };
    let tell = &mut |event: ListenEvent<'_>| {
        if let ListenEvent::Listening = event {
            is_ready();
        }
    };
    Ok(listen(listening, stop, tell)?)
}

/// Gives back each byte on each connection.
fn echo_all(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        thread::spawn(move || -> std::io::Result<()> {
            stream.set_nodelay(true)?;
            let mut byte = [0];
            loop {
                stream.read_exact(&mut byte)?;
                stream.write_all(&byte)?;
            }
        });
    }
}

/// The median of how long each took.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times
        .get(times.len() / 2)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

fn measure_all(interface: Ipv4Addr, receivers: &[(String, SocketAddrV4)]) -> Result<()> {
    let window = BulkConfig::lan().window;
    let once = Xtp {
        agree: 1,
        ..Xtp::for_window(window)
    };
    let policies = [
        ("nak", Policy::Nak { poll: window }),
        (
            "multidriver",
            Policy::Multidriver(Multidriver::for_window(window)),
        ),
        ("list", Policy::List(Multidriver::for_window(window))),
        ("xtp", Policy::Xtp(Xtp::for_window(window))),
        ("xtp, agree 1", Policy::Xtp(once)),
    ];
    let names = policies.map(|(name, _)| name).join(" | ");
    println!("| receivers | TCP, one after another | {names} |");
    println!("|---|---|{}", "---|".repeat(policies.len()));
    for count in COUNTS.into_iter().filter(|count| *count <= receivers.len()) {
        let some = &receivers[..count];
        print!("| {count} | {:.0} |", one_after_another(some)?);
        for (_, policy) in policies {
            print!(" {:.0} |", on_a_connection(interface, some, policy)?);
        }
        println!();
    }
    println!("\nmedians of {MEASURED} in µs, of XTP of {MEASURED_XTP}");
    Ok(())
}

/// A byte to each and back over open TCP connections.
fn one_after_another(receivers: &[(String, SocketAddrV4)]) -> Result<f64> {
    let open = |(_, address): &(String, SocketAddrV4)| -> Result<TcpStream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut streams = receivers.iter().map(open).collect::<Result<Vec<_>>>()?;
    let mut times = Vec::new();
    for number in 0..FIRST + MEASURED {
        let begun = Instant::now();
        for stream in &mut streams {
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])?;
        }
        if number >= FIRST {
            times.push(begun.elapsed());
        }
    }
    Ok(median(times))
}

/// A byte to all on a connection of this policy, the next when all have the one before.
fn on_a_connection(
    interface: Ipv4Addr,
    receivers: &[(String, SocketAddrV4)],
    policy: Policy,
) -> Result<f64> {
    let listed = receivers
        .iter()
        .map(|(name, _)| (name.clone(), Subgroups::ALL));
    let connecting = Connecting {
        audience: Audience::Listed(listed.collect()),
        opening: Opening::AtStart,
        subgroups: Subgroups::ALL,
        link: link(
            "sender",
            interface,
            BulkConfig {
                policy,
                ..Connecting::settings()
            },
        ),
    };
    let measured = match policy {
        Policy::Xtp(_) => MEASURED_XTP,
        _ => MEASURED,
    };
    let (mut sent, mut begun, mut times) = (0, Instant::now(), Vec::new());
    let mut next = |all_have: u64| {
        if all_have < sent {
            return Next::Wait;
        }
        if sent > FIRST {
            times.push(begun.elapsed());
        }
        if sent == FIRST + measured {
            return Next::Close;
        }
        sent += 1;
        begun = Instant::now();
        Next::Message(b"x".as_slice().into())
    };
    let connected = connect(connecting, &AtomicBool::new(false), &mut next, &mut |_| ())?;
    let is_complete = |(_, outcome): &(String, Outcome)| *outcome == Outcome::Complete;
    match connected.receivers.iter().all(is_complete) {
        true => Ok(median(times)),
        false => {
            let without = connected.receivers.iter().filter(|it| !is_complete(it));
            let without: Vec<&str> = without.map(|(name, _)| &**name).collect();
            Err(format!("not everything has come to {}", without.join(", ")).into())
        }
    }
}
