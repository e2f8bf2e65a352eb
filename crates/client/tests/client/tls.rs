//! A client by TLS whose daemon does not read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use groupcast_client::{Address, Client, Options, Service};
use groupcast_session::EngineConfig;
use groupcast_tls::{ClientFiles, Server, ServerFiles, TlsStream};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::daemon::TestDaemon;

/// Writes an authority, and a certificate for 127.0.0.1 that it signed; the directory.
fn certificates() -> PathBuf {
    let directory = std::env::temp_dir().join(format!("gc-client-tls-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let files = [
        ("ca.pem", issuer.pem()),
        ("daemon.pem", certificate.pem()),
        ("daemon.key", key.serialize_pem()),
    ];
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    directory
}

/// Stands between a client and its daemon until `connected`; the client's side.
fn introduce(
    socket: TcpStream,
    server: &Server,
    daemon: SocketAddr,
    connected: &AtomicBool,
) -> TlsStream<TcpStream> {
    socket
        .set_read_timeout(Some(Duration::from_millis(2)))
        .unwrap();
    let mut client = server.accept(socket).unwrap();
    let mut daemon = TcpStream::connect(daemon).unwrap();
    daemon.set_nonblocking(true).unwrap();
    let mut buffer = [0; 16 << 10];
    while !connected.load(Ordering::SeqCst) {
        let len = read(&mut client, &mut buffer);
        daemon.write_all(&buffer[..len]).unwrap();
        if let Ok(len) = daemon.read(&mut buffer) {
            client.write_all(&buffer[..len]).unwrap();
        }
    }
    client
}

/// Whether `last` comes before nothing has come for three seconds.
fn hears(mut client: TlsStream<TcpStream>, last: &[u8]) -> bool {
    let (mut tail, mut heard) = (Vec::new(), Instant::now());
    let mut buffer = [0; 16 << 10];
    while heard.elapsed() < Duration::from_secs(3) {
        let len = read(&mut client, &mut buffer);
        if len > 0 {
            heard = Instant::now();
            tail.extend_from_slice(&buffer[..len]);
            if tail.windows(last.len()).any(|part| part == last) {
                return true;
            }
            tail.drain(..tail.len().saturating_sub(last.len()));
        }
    }
    false
}

fn read(client: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> usize {
    match client.read(buffer) {
        Ok(len) => len,
        Err(error) => {
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted),
                "{error}"
            );
            0
        }
    }
}

#[test]
fn what_is_flushed_is_with_the_system() {
    let directory = certificates();
    let files = ServerFiles {
        certificate: directory.join("daemon.pem"),
        key: directory.join("daemon.key"),
        client_ca: None,
    };
    let server = Server::load(&files).unwrap();
    let files = ClientFiles {
        ca: directory.join("ca.pem"),
        identity: None,
    };
    let tls = groupcast_client::tls::Client::load(&files).unwrap();
    fs::remove_dir_all(directory).unwrap();
    let config = EngineConfig {
        publish_window: 32 << 20,
        ..EngineConfig::default()
    };
    let daemon = TestDaemon::start("tls", config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tls {
        address: listener.local_addr().unwrap(),
        name: None,
        tls,
    };
    let to = daemon.tcp;
    let connected = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let are_connected = connected.clone();
    let (measured, wait_measured) = channel();
    let (flushed, wait_flushed) = channel();
    let reader = std::thread::spawn(move || {
        let next = |connected| introduce(listener.accept().unwrap().0, &server, to, connected);
        let first = next(&are_connected[0]);
        let last = wait_measured.recv().unwrap();
        drop(first);
        let second = next(&are_connected[1]);
        // If the sockets take less this time, flushing waits for somebody who reads.
        let _ = wait_flushed.recv_timeout(Duration::from_secs(2));
        hears(second, &payload(last))
    });
    // How many messages can be flushed to somebody who does not read.
    let count = Arc::new(AtomicU32::new(0));
    let mut client = Client::connect(&address, Options::default()).unwrap();
    connected[0].store(true, Ordering::SeqCst);
    let counted = count.clone();
    let publisher = std::thread::spawn(move || {
        for number in 1.. {
            let published = client.publish(&["g"], Service::Agreed, &payload(number));
            if published.and_then(|_| client.flush()).is_err() {
                return;
            }
            counted.store(number, Ordering::SeqCst);
        }
    });
    let (mut most, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        if count.load(Ordering::SeqCst) != most {
            (most, since) = (count.load(Ordering::SeqCst), Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    measured.send(most).unwrap();
    publisher.join().unwrap();
    // The same once more; then the client does nothing, and all is read.
    let mut client = Client::connect(&address, Options::default()).unwrap();
    connected[1].store(true, Ordering::SeqCst);
    for number in 1..=most {
        client
            .publish(&["g"], Service::Agreed, &payload(number))
            .unwrap();
        client.flush().unwrap();
    }
    let _ = flushed.send(());
    let has_all = reader.join().unwrap();
    assert!(has_all, "of {most} messages a part was kept back");
    drop(client);
}

/// A message that no other one is like.
fn payload(number: u32) -> Vec<u8> {
    format!("{number:010};").repeat(700).into_bytes()
}
