//! A client by TLS whose daemon reads slowly.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use groupcast_client::{Address, Client, Options, Service};
use groupcast_session::EngineConfig;
use groupcast_tls::{ClientFiles, Server, ServerFiles, TlsStream};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::daemon::TestDaemon;

const LAST: &[u8] = b"the very last message";

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

/// Stands between a client and its daemon until `connected`; then only reads, slowly, until
/// [`LAST`] has come. Whether it has, or nothing came for three seconds.
fn read_slowly(
    socket: TcpStream,
    server: &Server,
    daemon: SocketAddr,
    connected: &AtomicBool,
) -> bool {
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
    std::thread::sleep(Duration::from_millis(300));
    let (mut tail, mut heard) = (Vec::new(), Instant::now());
    while heard.elapsed() < Duration::from_secs(3) {
        let len = read(&mut client, &mut buffer);
        if len > 0 {
            heard = Instant::now();
            tail.extend_from_slice(&buffer[..len]);
            if tail.windows(LAST.len()).any(|part| part == LAST) {
                return true;
            }
            tail.drain(..tail.len().saturating_sub(LAST.len()));
            std::thread::sleep(Duration::from_millis(1));
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
    let connected = Arc::new(AtomicBool::new(false));
    let (to, is_connected) = (daemon.tcp, connected.clone());
    let reader = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        read_slowly(socket, &server, to, &is_connected)
    });
    let mut client = Client::connect(&address, Options::default()).unwrap();
    connected.store(true, Ordering::SeqCst);
    // More than the sockets take.
    for _ in 0..2_000 {
        client
            .publish(&["g"], Service::Agreed, &[7; 8 << 10])
            .unwrap();
    }
    client.publish(&["g"], Service::Agreed, LAST).unwrap();
    client.flush().unwrap();
    // The client does nothing more.
    assert!(reader.join().unwrap(), "a part was kept back");
    drop(client);
}
