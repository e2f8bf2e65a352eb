//! Goal: stalled handshakes cost nothing, and files of TLS that are read again hold wherever TLS is
//! spoken. Method: real sockets, and turns one at a time.

use std::io::{Cursor, Write as _};
use std::net::TcpStream as StdTcpStream;

use groupcast_core::{Incarnation, MemberId, NodeId};
use groupcast_session::EngineConfig;
use groupcast_tls::{Client, ClientFiles, DoubtKind, ServerFiles};
use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::*;

const NAME: &str = "daemon.example";

/// A daemon with a certificate that it has signed itself, and a client that believes it.
fn pair(name: &str) -> (Server, Client) {
    let directory = std::env::temp_dir().join(format!("gc-pair-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = directory.join("cert.pem");
    let key = directory.join("key.pem");
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, private).unwrap();
    let client = ClientFiles {
        ca: certificate.clone(),
        identity: None,
    };
    let server = ServerFiles {
        certificate,
        key,
        client_ca: None,
    };
    let pair = (
        Server::load(&server).unwrap(),
        Client::load(&client).unwrap(),
    );
    std::fs::remove_dir_all(directory).unwrap();
    pair
}

/// A listener that speaks TLS, or text in clear.
fn listener(tls: Option<Server>) -> TcpAcceptor {
    TcpAcceptor::open(([127, 0, 0, 1], 0).into(), tls).unwrap()
}

/// Whoever reaches the address could keep a processor busy with them otherwise: each rested after a
/// read that found nothing, and was read again after the rest.
#[test]
fn handshakes_that_stall_let_the_loop_sleep() {
    const COUNT: usize = 20;
    let path = std::env::temp_dir().join(format!("gc-stall-{}", std::process::id()));
    let (server, client) = pair("stall");
    let poll = mio::Poll::new().unwrap();
    let tcp = listener(Some(server));
    let address = tcp.address().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, Some(tcp)).unwrap();
    let local = MemberId {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    let mut engine = Engine::new(EngineConfig::default(), local, "h").unwrap();
    let mut now = Time::ZERO;

    let written = Cursor::new(Vec::new());
    let mut first = client.connect(written, address.ip(), Some(NAME)).unwrap();
    first.flush().unwrap();
    let hello = first.socket().get_ref();
    let stalled: Vec<_> = (0..COUNT)
        .map(|_| {
            let mut socket = StdTcpStream::connect(address).unwrap();
            socket.write_all(&hello[..hello.len() - 1]).unwrap();
            socket
        })
        .collect();
    clients.accept_at = Some(now);
    while clients.streams.len() < COUNT {
        clients.take_input(now, &mut engine);
        clients.accept_at = Some(now);
    }
    let readable = Readiness {
        readable: true,
        writable: false,
        closed: false,
    };
    let ids: Vec<ClientId> = clients.streams.keys().copied().collect();
    for id in ids {
        clients.handle_ready(now, token_of(id), readable);
    }
    clients.accept_at = None;
    let (mut turns, end) = (0, now + Duration::from_secs(8));
    while let Some(time) = clients.patience(now, &mut engine)
        && now + time < end
    {
        turns += 1;
        assert!(turns < 100, "the loop does not sleep");
        now += time;
        clients.take_first_input(now, &mut engine);
        clients.take_input(now, &mut engine);
        clients.give_output(now, &mut engine);
    }
    assert_eq!(clients.streams.len(), COUNT, "they have time left");
    drop(stalled);
}

/// A client whose authority was taken away would go on connecting to the bus otherwise.
#[test]
fn files_of_tls_that_are_read_again_hold_for_the_bus_as_well() {
    let path = std::env::temp_dir().join(format!("gc-again-{}", std::process::id()));
    let ((before, old), (after, new)) = (pair("before"), pair("after"));
    let poll = mio::Poll::new().unwrap();
    let mut clients = Clients::open(poll.registry(), &path, None).unwrap();
    let bus = [listener(Some(before)), listener(None)];
    let addresses = bus.each_ref().map(|tcp| tcp.address().unwrap());
    let bus = bus.map(BusAcceptor::Tcp);
    clients.listen_for_bus(bus.into(), None, None).unwrap();
    clients.set_tls(&after);
    // So has what clients will refuse: of the two listeners one speaks TLS, at 127.0.0.1.
    let doubts = clients.doubts();
    let [doubt] = &doubts[..] else {
        panic!("{doubts:?}");
    };
    assert!(
        matches!(&doubt.kind, DoubtKind::NotForAddress { names, .. } if names[..] == [NAME]),
        "{doubt}"
    );

    let agrees = |clients: &Clients, client: &Client| {
        let socket = StdTcpStream::connect(addresses[0]).unwrap();
        socket.set_nonblocking(true).unwrap();
        let ip = addresses[0].ip();
        let mut client = client.connect(socket, ip, Some(NAME)).unwrap();
        let mut daemon = loop {
            match clients.bus[0].accept(None, None) {
                Ok(stream) => break stream,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        };
        let goes_on = |read: io::Result<usize>| match read {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let mut bytes = [0; 1 << 10];
        while client.is_handshaking() || daemon.is_handshaking() {
            let flushed = client.flush();
            flushed.unwrap();
            if !goes_on(io::Read::read(&mut client, &mut bytes))
                || !goes_on(io::Read::read(&mut daemon, &mut bytes))
            {
                return false;
            }
        }
        true
    };
    assert!(agrees(&clients, &new));
    assert!(!agrees(&clients, &old), "the former certificate is gone");
    let clear = StdTcpStream::connect(addresses[1]).unwrap();
    let stream = loop {
        match clients.bus[1].accept(None, None) {
            Ok(stream) => break stream,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    };
    assert!(!stream.is_handshaking(), "loopback speaks text as before");
    drop(clear);
}
