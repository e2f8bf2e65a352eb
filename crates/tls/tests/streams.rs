//! Two ends of a connection over a pair of sockets that do not block, with certificates made here.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use groupcast_tls::{Client, ClientFiles, DoubtKind, Server, ServerFiles, TlsError, TlsStream};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};

type End = TlsStream<UnixStream>;

/// A directory with an authority, which signs certificates; removed at the end.
struct Authority {
    directory: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("gc-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(directory.join("ca.pem"), issuer.pem()).unwrap();
        Self { directory, issuer }
    }

    fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// A certificate for `names`, and its key: `NAME.pem`, `NAME.key`.
    fn sign(&self, name: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        self.sign_as(name, names, |_| {})
    }

    /// The same of a certificate that `alter` has changed.
    fn sign_as(
        &self,
        name: &str,
        names: &[&str],
        alter: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        alter(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = [("pem", certificate.pem()), ("key", key.serialize_pem())];
        let [certificate, key] = files.map(|(extension, text)| {
            let path = self.directory.join(format!("{name}.{extension}"));
            fs::write(&path, text).unwrap();
            mode(&path, 0o600);
            path
        });
        (certificate, key)
    }

    fn server(&self, client_ca: Option<PathBuf>) -> Server {
        self.server_as(client_ca, |_| {})
    }

    /// A server whose certificate `alter` has changed.
    fn server_as(
        &self,
        client_ca: Option<PathBuf>,
        alter: impl FnOnce(&mut CertificateParams),
    ) -> Server {
        let names = ["127.0.0.1", "daemon.example"];
        let (certificate, key) = self.sign_as("daemon", &names, alter);
        let files = ServerFiles {
            certificate,
            key,
            client_ca,
        };
        Server::load(&files).unwrap()
    }

    fn client(&self, identity: Option<(PathBuf, PathBuf)>) -> Client {
        let ca = self.ca();
        Client::load(&ClientFiles { ca, identity }).unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn ends(server: &Server, client: &Client, name: Option<&str>) -> (End, End) {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    let server = server.accept(one).unwrap();
    let client = client.connect(other, [127, 0, 0, 1].into(), name).unwrap();
    (server, client)
}

/// The first message of a client that speaks TLS 1.2 at most: it offers the suites of that version,
/// and has no extension that names versions.
fn hello_of_tls12() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0]);
    body.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x2f]);
    body.extend([1, 0]);
    // Groups: x25519. Signatures: ECDSA and RSA with SHA-256. Points: uncompressed.
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 29][..],
        &[0, 13, 0, 6, 0, 4, 4, 3, 8, 4],
        &[0, 11, 0, 2, 1, 0],
    ]
    .concat();
    body.extend([0, extensions.len() as u8]);
    body.extend(extensions);
    let mut hello = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    hello.extend(body);
    hello
}

/// The alert `protocol_version` of RFC 8446 6.2.
#[test]
fn a_client_that_speaks_no_tls13_is_refused_and_told_the_version() {
    let authority = Authority::new("tls12");
    let (one, mut client) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    let mut server = authority.server(None).accept(one).unwrap();
    client.write_all(&hello_of_tls12()).unwrap();
    let error = server.read(&mut [0; 100]).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::WouldBlock, "{error}");
    drop(server);
    let mut told = Vec::new();
    client.read_to_end(&mut told).unwrap();
    assert_eq!(told, [21, 3, 3, 0, 2, 2, 70]);
}

/// Writes `sent` at one end, and reads at the other until all is there or one end fails.
fn pass(from: &mut End, to: &mut End, sent: &[u8]) -> Result<Vec<u8>, String> {
    let (mut written, mut got) = (0, Vec::new());
    let mut buffer = [0; 8192];
    for _ in 0..10_000 {
        if written < sent.len() {
            match from.write(&sent[written..]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        for end in [&mut *from, &mut *to] {
            match end.flush() {
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error.to_string());
                }
                _ => {}
            }
            match end.read(&mut buffer) {
                Ok(len) => got.extend_from_slice(&buffer[..len]),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if got.len() >= sent.len() && !from.has_unsent() {
            return Ok(got);
        }
    }
    Err(format!("{} of {} bytes came", got.len(), sent.len()))
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What reading at `to` costs, beside what can be read, of records of `len` bytes each.
fn work(len: usize) -> (usize, usize) {
    let authority = Authority::new(&format!("work-{len}"));
    let (mut server, mut client) = ends(&authority.server(None), &authority.client(None), None);
    pass(&mut client, &mut server, b"hello").unwrap();
    let before = server.take_work();
    assert_eq!(before, 0, "a handshake is shorter than a record");
    let (mut given, mut work) = (0, 0);
    let mut buffer = [0; 16 << 10];
    for _ in 0..100 {
        while client.write(&buffer[..len]).is_ok() {}
        loop {
            match server.read(&mut buffer) {
                Ok(len) => given += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
            work += server.take_work();
        }
    }
    (given, work)
}

#[test]
fn records_without_much_in_them_cost_what_they_take_to_open() {
    let (given, cost) = work(16_000);
    assert!(given > 1_000_000 && cost < given / 50, "{cost} for {given}");
    let (given, cost) = work(1);
    assert!(given > 1_000 && cost > given * 60, "{cost} for {given}");
}

#[test]
fn what_is_written_comes_out_at_the_other_end_and_an_end_is_an_end() {
    let authority = Authority::new("passes");
    let (mut server, mut client) = ends(&authority.server(None), &authority.client(None), None);
    assert!(server.is_handshaking() && client.is_handshaking());
    let long: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    assert_eq!(pass(&mut client, &mut server, &long).unwrap(), long);
    assert!(!server.is_handshaking() && !client.is_handshaking());
    assert_eq!(pass(&mut server, &mut client, &long).unwrap(), long);
    assert!(server.peer_names().is_empty(), "it was asked for none");

    server.end_output();
    server.flush().unwrap();
    let mut buffer = [0; 16];
    assert_eq!(client.read(&mut buffer).unwrap(), 0);
    drop(client);
    let cut = server.read(&mut buffer).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::UnexpectedEof, "nobody said good-bye");
}

#[test]
fn a_reader_that_takes_nothing_stops_the_writer() {
    let authority = Authority::new("full");
    let (mut server, mut client) = ends(&authority.server(None), &authority.client(None), None);
    pass(&mut client, &mut server, b"hello").unwrap();
    let mut taken = 0;
    let full = loop {
        match server.write(&[0; 4096]) {
            Ok(len) => taken += len,
            Err(error) => break error,
        }
        assert!(taken < 16 << 20, "it is kept in memory without bound");
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    assert!(server.has_unsent());
    assert_eq!(server.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_client_shows_the_names_of_its_certificate_where_it_is_asked() {
    let authority = Authority::new("names");
    let server = authority.server(Some(authority.ca()));
    let identity = authority.sign("web", &["web-1", "web.example"]);
    let (mut daemon, mut client) = ends(
        &server,
        &authority.client(Some(identity)),
        Some("daemon.example"),
    );
    pass(&mut client, &mut daemon, b"hello").unwrap();
    assert_eq!(daemon.peer_names(), ["web-1", "web.example"]);

    let (mut daemon, mut client) = ends(&server, &authority.client(None), None);
    let refused = pass(&mut client, &mut daemon, b"hello").unwrap_err();
    assert!(refused.contains("no certificate"), "{refused}");
    let stranger = Authority::new("stranger");
    let identity = stranger.sign("web", &["web.example"]);
    let (mut daemon, mut client) = ends(&server, &authority.client(Some(identity)), None);
    let refused = pass(&mut client, &mut daemon, b"hello").unwrap_err();
    assert!(refused.contains("tls_client_ca"), "{refused}");
}

#[test]
fn a_client_believes_the_authority_and_the_name_that_it_was_told() {
    let (authority, stranger) = (Authority::new("told"), Authority::new("other"));
    let server = authority.server(None);
    for (client, name) in [
        (stranger.client(None), None),
        (authority.client(None), Some("another.example")),
        (authority.client(None), Some("127.0.0.2")),
    ] {
        let (mut daemon, mut client) = ends(&server, &client, name);
        let refused = pass(&mut daemon, &mut client, b"hello").unwrap_err();
        assert!(refused.contains("certificate"), "{refused}");
    }
    let (one, _other) = UnixStream::pair().unwrap();
    let refused = authority
        .client(None)
        .connect(one, [127, 0, 0, 1].into(), Some("no name"));
    assert!(refused.unwrap_err().to_string().contains("`no name`"));
}

#[test]
fn what_is_no_tls_is_an_error_at_once() {
    let authority = Authority::new("plain");
    let (mut plain, socket) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut daemon = authority.server(None).accept(socket).unwrap();
    plain.write_all(b"GCC1 hello in clear").unwrap();
    let error = daemon.read(&mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn each_wrong_file_is_named() {
    let authority = Authority::new("files");
    let (certificate, key) = authority.sign("daemon", &["a"]);
    let (_, other) = authority.sign("other", &["b"]);
    let directory = authority.directory.clone();
    let files = ServerFiles {
        certificate,
        key,
        client_ca: None,
    };
    let fails = |files: ServerFiles, words: &str| {
        let error = Server::load(&files).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        error
    };
    let with_key = |key: &Path| ServerFiles {
        key: key.into(),
        ..files.clone()
    };
    fails(with_key(&directory.join("none")), "none");
    fails(with_key(&other), "cannot be used together");
    fails(with_key(&files.certificate), "holds no private key");
    fails(with_key(&directory), "is not a regular file");
    // As openssl writes one with a password, and as it once did.
    for text in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----\n",
    ] {
        let path = directory.join("encrypted.key");
        fs::write(&path, text).unwrap();
        mode(&path, 0o600);
        fails(with_key(&path), "is encrypted");
    }
    let chain = directory.join("chain.pem");
    let (ca, own) = (authority.ca(), &files.certificate);
    let text = [&ca, own].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&chain, text.concat()).unwrap();
    let from_above = ServerFiles {
        certificate: chain,
        ..files.clone()
    };
    fails(from_above, "the first is the one of the key");
    let swapped = ServerFiles {
        certificate: files.key.clone(),
        ..files.clone()
    };
    fails(swapped, "holds no certificate");
    let with_ca = ServerFiles {
        client_ca: Some(files.key.clone()),
        ..files.clone()
    };
    fails(with_ca, "holds no certificate");
    // Who has the key of such a certificate could make others for clients.
    let no_ca = ServerFiles {
        client_ca: Some(files.certificate.clone()),
        ..files.clone()
    };
    fails(no_ca, "holds a certificate that is none of an authority");
    let mixed = directory.join("mixed.pem");
    let text = [&ca, own].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&mixed, text.concat()).unwrap();
    let with_mixed = ServerFiles {
        client_ca: Some(mixed),
        ..files.clone()
    };
    fails(with_mixed, "holds as number 2 a certificate that is none");
    let of_itself = |alter: Alter| {
        let path = directory.join("self.pem");
        fs::write(&path, self_signed(alter)).unwrap();
        ServerFiles {
            client_ca: Some(path),
            ..files.clone()
        }
    };
    // Its times are for those that it has signed.
    for alter in [expired, not_yet_valid] {
        Server::load(&of_itself(alter)).unwrap();
    }
    fails(
        of_itself(no_authority),
        "basicConstraints does not say CA:TRUE",
    );
    mode(&files.certificate, 0o644);
    fails(with_key(&files.certificate), "holds no private key");
    mode(&files.key, 0o666);
    let exposed = fails(files.clone(), "chmod 600");
    assert!(matches!(exposed, TlsError::Exposed { mode: 0o666, .. }));
}

/// An authority's own certificate, changed.
fn self_signed(alter: Alter) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    alter(&mut params);
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

/// Only root can give a file away.
#[test]
fn a_private_key_of_another_user_is_none_of_a_daemon() {
    let authority = Authority::new("owner");
    let (certificate, key) = authority.sign("daemon", &["a"]);
    if fs::metadata(&key).unwrap().uid() != 0 {
        return;
    }
    let files = ServerFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: None,
    };
    Server::load(&files).unwrap();
    chown(&key, Some(12_345), None).unwrap();
    let error = Server::load(&files).unwrap_err();
    assert!(
        matches!(error, TlsError::Foreign { owner: 12_345, .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("daemon.key") && text.contains("chown"),
        "{text}"
    );
    // Who runs a client has named its files.
    authority.client(Some((certificate, key)));
}

/// Changes what is signed.
type Alter = fn(&mut CertificateParams);

fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2001, 1, 1);
}

fn not_yet_valid(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(3000, 1, 1);
    params.not_after = date_time_ymd(3001, 1, 1);
}

fn no_authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::NoCa;
}

fn an_authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn for_mail_and_servers(params: &mut CertificateParams) {
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::EmailProtection,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
}

fn for_clients_only(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}

/// What each side says of a connection that fails: the client, then the daemon.
fn said(server: &Server, client: &Client, name: Option<&str>) -> [String; 2] {
    let (mut daemon, mut client) = ends(server, client, name);
    let mut said = [String::new(), String::new()];
    let mut buffer = [0; 64];
    for _ in 0..100 {
        for (end, said) in [&mut client, &mut daemon].into_iter().zip(&mut said) {
            let _ = end.write(b"hello");
            match end.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::InvalidData && said.is_empty() => {
                    *said = error.to_string();
                }
                _ => {}
            }
        }
    }
    said
}

#[test]
fn why_a_certificate_is_refused_is_said_on_both_sides_in_words() {
    let (here, stranger) = (Authority::new("here"), Authority::new("elsewhere"));
    let held = |said: [String; 2], words: [&str; 2]| {
        for (said, words) in said.iter().zip(words) {
            assert!(said.contains(words), "{said:?} does not say {words:?}");
        }
    };
    let client = here.client(None);
    let alters: [(Alter, [&str; 2]); 4] = [
        (expired, ["the daemon's certificate expired", "has expired"]),
        (not_yet_valid, ["is not valid for another", "not valid yet"]),
        (
            for_clients_only,
            [
                "it is not for servers: its extendedKeyUsage has clientAuth, and not serverAuth",
                "it is not for this purpose (extendedKeyUsage)",
            ],
        ),
        (
            an_authority,
            [
                "it is one of an authority (basicConstraints says CA:TRUE)",
                "does not take the daemon's certificate",
            ],
        ),
    ];
    for (alter, words) in alters {
        held(said(&here.server_as(None, alter), &client, None), words);
    }
    let server = here.server(None);
    let words = [
        "by none of the authorities in the file",
        "by none of the authorities that it knows",
    ];
    held(said(&server, &stranger.client(None), None), words);
    let words = ["daemon.example, not for other.example", "does not take"];
    held(said(&server, &client, Some("other.example")), words);

    let asks = here.server(Some(here.ca()));
    let words = [
        "asks for a certificate, and none was shown",
        "the client showed no certificate",
    ];
    held(said(&asks, &client, None), words);
    let old = here.client(Some(here.sign_as("old", &["web"], expired)));
    let words = [
        "this client's certificate has expired",
        "the client's certificate expired",
    ];
    held(said(&asks, &old, None), words);
    let no_client = here.client(Some(here.sign_as("mail", &["web"], for_mail_and_servers)));
    let words = [
        "this client's certificate: it is not for this purpose",
        "extendedKeyUsage has 1.3.6.1.5.5.7.3.4, serverAuth, and not clientAuth",
    ];
    held(said(&asks, &no_client, None), words);
    let foreign = here.client(Some(stranger.sign("web", &["web"])));
    let words = [
        "by none of the authorities that it knows",
        "authorities in tls_client_ca",
    ];
    held(said(&asks, &foreign, None), words);
}

#[test]
fn what_clients_will_refuse_is_known_before_they_do() {
    let authority = Authority::new("doubts");
    let now = SystemTime::now();
    let here = Some(IpAddr::from([127, 0, 0, 1]));
    let kinds = |server: &Server, now: SystemTime, address: Option<IpAddr>| -> Vec<DoubtKind> {
        let doubts = server.doubts(now, address.as_slice()).into_iter();
        doubts.map(|doubt| doubt.kind).collect()
    };
    let server = authority.server_as(None, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
    });
    let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs((18_262 + days) * 86_400);
    assert_eq!(kinds(&server, day(100), here), []);
    let soon = &kinds(&server, day(360), here)[..];
    assert!(
        matches!(soon, [DoubtKind::ExpiresSoon(left)] if left.as_secs() == 5 * 86_400),
        "{soon:?}"
    );
    assert!(matches!(
        kinds(&server, now, here)[..],
        [DoubtKind::Expired(_)]
    ));
    let early = SystemTime::UNIX_EPOCH;
    assert!(matches!(
        kinds(&server, early, here)[..],
        [DoubtKind::NotYetValid(_)]
    ));
    let text = server.doubts(now, here.as_slice())[0].to_string();
    assert!(
        text.contains("daemon.pem expired") && text.contains("SIGHUP"),
        "{text}"
    );

    let server = authority.server(None);
    assert_eq!(kinds(&server, now, here), []);
    assert_eq!(kinds(&server, now, Some([0, 0, 0, 0].into())), []);
    // Each address counts once, and the times of the certificate once for all of them.
    let far = |last| IpAddr::from([10, 0, 0, last]);
    let all = [far(5), far(5), [127, 0, 0, 1].into(), far(6)];
    let elsewhere = server.doubts(now, &all);
    assert_eq!(elsewhere.len(), 2, "{elsewhere:?}");
    let text = elsewhere[0].to_string();
    assert!(
        text.contains("daemon.example") && text.contains("not for 10.0.0.5"),
        "{text}"
    );
    let server = authority.server_as(None, for_clients_only);
    let unusable = |server: &Server| match &kinds(server, now, here)[..] {
        [DoubtKind::Unusable(why)] => why.clone(),
        others => panic!("{others:?}"),
    };
    let why = unusable(&server);
    assert!(why.contains("has clientAuth, and not serverAuth"), "{why}");
    let why = unusable(&authority.server_as(None, an_authority));
    assert!(why.contains("CA:FALSE"), "{why}");
}

#[test]
fn a_record_that_has_come_in_part_is_known() {
    let authority = Authority::new("parts");
    let (mut server, mut client) = ends(&authority.server(None), &authority.client(None), None);
    pass(&mut client, &mut server, b"hello").unwrap();
    assert!(!server.is_in_record());
    // The header of a record of 100 bytes, past the client's library.
    client
        .socket_mut()
        .write_all(&[23, 3, 3, 0, 100, 1, 2, 3])
        .unwrap();
    let later = server.read(&mut [0; 64]).unwrap_err();
    assert!(is_later(&later), "{later}");
    assert!(server.is_in_record());
}
