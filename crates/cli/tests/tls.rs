//! Clients over TLS: what they show, what the daemon shows them, and what each is told that is not
//! believed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use groupcast_tls::{Server, ServerFiles};

use crate::host::{Host, Ran, Running, free_port, until};

/// Writes the authority `NAME.pem`, and certificates that it signed: `OF.pem` and `OF.key`, each
/// for one name.
fn authority(host: &Host, name: &str, signed: &[(&str, &str)]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    host.write(&format!("{name}.pem"), issuer.pem());
    for (of, subject) in signed {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![(*subject).to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        host.write(&format!("{of}.pem"), certificate.pem());
        let path = host.write(&format!("{of}.key"), key.serialize_pem());
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
}

/// A daemon that shows `daemon.pem`, with `more` in its configuration.
fn daemon(host: &Host, more: &str) -> (Running, String) {
    let address = format!("127.0.0.1:{}", free_port());
    let text = format!(
        "insecure = true\nlisten = \"127.0.0.1:{}\"\nmulticast = \"{}\"\nclient_listen = \"{address}\"\n\
         tls_certificate = \"daemon.pem\"\ntls_key = \"daemon.key\"\n{more}",
        free_port(),
        host.multicast()
    );
    let path = host.write("daemon.toml", text);
    let check = host.run(&["daemon", "--check", "-c", &path]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    (host.daemon_at("a", &["--config", &path]), address)
}

#[test]
fn clients_speak_tls_and_rules_name_their_certificates() {
    let host = Host::new();
    let signed = [
        ("daemon", "127.0.0.1"),
        ("web", "web.example"),
        ("job", "job"),
    ];
    authority(&host, "ca", &signed);
    authority(&host, "other", &[("stranger", "web.example")]);
    let rules = "tls_client_ca = \"ca.pem\"\n\
                 [[access]]\ngroups = [\"room\"]\ncertificates = [\"web.example\"]\nrights = [\"join\", \"send\"]\n\
                 [[access]]\ngroups = [\"room\"]\ncertificates = [\"job\"]\nrights = [\"send\"]\n";
    let (daemon, address) = daemon(&host, rules);
    let as_of = |command: &[&str], ca: &str, identity: &str| {
        let (ca, [pem, key]) = (
            host.path(ca),
            ["pem", "key"].map(|end| host.path(&format!("{identity}.{end}"))),
        );
        let tls = [
            "--tls-ca",
            &ca,
            "--tls-certificate",
            &pem,
            "--tls-key",
            &key,
        ];
        let whole = [command, &["--server", &address], &tls].concat();
        host.command(&whole)
    };
    let run = |command: &[&str], ca: &str, identity: &str| {
        Ran::of(as_of(command, ca, identity).output().unwrap())
    };
    let mut sub = host.launch(
        "sub",
        &mut as_of(
            &["sub", "room", "--json", "--count", "2000"],
            "ca.pem",
            "web",
        ),
    );
    until("the subscriber is a member", || {
        host.read("sub.out").contains("\"event\":\"view\"")
    });
    let flood = ["pub", "room", "--count", "2000", "--size", "20000"];
    let sent = run(&flood, "ca.pem", "job");
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(sub.wait(), 0, "{}", host.read("sub.err"));
    assert_eq!(
        host.read("sub.out")
            .matches("\"event\":\"message\"")
            .count(),
        2000
    );

    run(&["sub", "room", "--once"], "ca.pem", "job").fails_with(1, &["access rules do not let"]);
    let status = ["status"];
    run(&status, "ca.pem", "stranger")
        .fails_with(1, &["by none of the authorities", "tls_client_ca"]);
    run(&status, "other.pem", "web").fails_with(1, &["by none of the authorities", "--tls-ca"]);
    let named = ["status", "--tls-name", "another"];
    run(&named, "ca.pem", "web").fails_with(1, &["no TLS with the daemon", "--tls-name"]);
    let bare = ["status", "--server", &address];
    host.run(&[&bare[..], &["--tls-ca", &host.path("ca.pem")]].concat())
        .fails_with(
            1,
            &[
                "no TLS with the daemon",
                "asks for a certificate, and none was shown",
            ],
        );
    host.run(&bare).fails_with(1, &["speaks TLS", "--tls-ca"]);
    let line = "refused a connection (from 127.0.0.1:";
    until("the log says where it came from", || {
        host.read("a.err").contains(line)
    });
    assert!(
        host.status("a").is_some(),
        "the Unix socket needs none of it"
    );

    // A client that may not be in the group any more learns it, without connecting again.
    let mut sub = host.launch(
        "late",
        &mut as_of(&["sub", "room", "--once"], "ca.pem", "web"),
    );
    until("it is a member", || {
        let groups = host.run(&["groups", "--json", "--socket", &host.socket("a")]);
        groups.stdout.contains("room")
    });
    let text = host.read("daemon.toml");
    host.write(
        "daemon.toml",
        text.replace("web.example", "another.example"),
    );
    daemon.signal("HUP");
    assert_eq!(sub.wait(), 1);
    let told = host.read("late.err");
    assert!(told.contains("access rules do not let"), "{told}");
}

#[test]
fn a_daemon_is_found_by_its_name_and_its_certificate_is_renewed_while_it_runs() {
    let host = Host::new();
    authority(&host, "ca", &[("daemon", "localhost"), ("client", "web")]);
    let (daemon, address) = daemon(&host, "tls_client_ca = \"ca.pem\"\n");
    let check = host.run(&["daemon", "--check", "-c", &host.path("daemon.toml")]);
    assert!(
        check
            .stdout
            .contains(&format!("over TCP at {address}, by TLS")),
        "{}",
        check.stdout
    );
    let doubt = "is for localhost, not for 127.0.0.1";
    assert!(check.stderr.contains(doubt), "{}", check.stderr);
    assert!(host.read("a.err").contains(doubt), "{}", host.read("a.err"));

    let port = address.rsplit_once(':').unwrap().1;
    let named = format!("localhost:{port}");
    let status = |server: &str| {
        let [ca, pem, key] = ["ca.pem", "client.pem", "client.key"].map(|file| host.path(file));
        let tls = [
            "--tls-ca",
            &ca,
            "--tls-certificate",
            &pem,
            "--tls-key",
            &key,
        ];
        host.run(&[&["status", "--server", server], &tls[..]].concat())
    };
    status(&address).fails_with(1, &["not for 127.0.0.1", "--tls-name"]);
    assert_eq!(status(&named).code, 0, "{}", status(&named).stderr);
    host.run(&["status", "--server", "localhost"])
        .fails_with(2, &["host-1.example:4811"]);
    let port_in_name = [
        "status",
        "--server",
        &address,
        "--tls-ca",
        "ca.pem",
        "--tls-name",
        &named,
    ];
    host.run(&port_in_name).fails_with(2, &["without a port"]);

    // Another authority, and another certificate in the place of the first.
    authority(&host, "ca", &[("daemon", "127.0.0.1"), ("client", "web")]);
    status(&address).fails_with(1, &["by none of the authorities"]);
    daemon.signal("HUP");
    until("the certificate was read again", || {
        host.read("a.err").contains("were read again")
    });
    assert_eq!(status(&address).code, 0, "{}", status(&address).stderr);
    host.write("daemon.pem", "nothing");
    daemon.signal("HUP");
    until("it cannot be read", || {
        host.read("a.err").contains("certificate from before")
    });
    assert_eq!(status(&address).code, 0, "{}", status(&address).stderr);
}

#[test]
fn what_tls_needs_is_said() {
    let host = Host::new();
    authority(&host, "ca", &[("daemon", "127.0.0.1")]);
    assert_eq!(host.run(&["keygen", "key"]).code, 0);
    let refused = |text: &str, words: &[&str]| {
        let path = host.write("wrong.toml", format!("key = \"key\"\n{text}"));
        host.run(&["daemon", "--check", "-c", &path])
            .fails_with(2, words);
    };
    let far = "client_listen = \"0.0.0.0:4811\"\n";
    let tls = "tls_certificate = \"daemon.pem\"\ntls_key = \"daemon.key\"\n";
    refused(far, &["in clear over the network", "tls_certificate"]);
    refused(
        &format!("{far}{tls}"),
        &["everybody who reaches", "tls_client_ca"],
    );
    refused(tls, &["tls_certificate", "client_listen"]);
    let near = "client_listen = \"127.0.0.1:4811\"\n";
    refused(
        &format!("{near}tls_certificate = \"daemon.pem\"\n"),
        &["both a certificate and its private key", "tls_key"],
    );
    let rule = "[[access]]\ngroups = [\"g\"]\ncertificates = [\"web\"]\nrights = [\"join\"]\n";
    refused(rule, &["certificates", "tls_client_ca"]);
    let rekey = "[[access]]\ncertificates = [\"web\"]\nrights = [\"rekey\"]\n";
    refused(rekey, &["over its Unix socket only"]);
    let star = "[[access]]\ngroups = [\"g\"]\ncertificates = [\"*.a\"]\nrights = [\"join\"]\n";
    refused(star, &["`*.a` is no DNS name"]);
    let path = host.write(
        "mixed.toml",
        format!("key = \"key\"\n{far}client_token = \"key\"\ntls_certificate = \"ca.pem\"\ntls_key = \"daemon.key\"\n"),
    );
    host.run(&["daemon", "--check", "-c", &path])
        .fails_with(2, &["client_token"]);
    let path = host.write(
        "pair.toml",
        format!("key = \"key\"\n{far}tls_client_ca = \"ca.pem\"\ntls_certificate = \"ca.pem\"\ntls_key = \"daemon.key\"\n"),
    );
    host.run(&["daemon", "--check", "-c", &path])
        .fails_with(1, &["cannot be used together"]);
    let path = host.write(
        "no-ca.toml",
        format!("key = \"key\"\n{far}tls_client_ca = \"daemon.pem\"\n{tls}"),
    );
    host.run(&["daemon", "--check", "-c", &path])
        .fails_with(1, &["daemon.pem", "none of an authority"]);
    host.run(&["status", "--tls-ca", "ca.pem"])
        .fails_with(2, &["--server"]);
    for option in ["--tls-ca", "--token"] {
        host.run(&["status", "--socket", "s", option, "ca.pem"])
            .fails_with(2, &["--socket", option]);
    }
}

/// A daemon whose bus alone speaks TLS shows the same certificate there.
#[test]
fn doubts_about_the_certificate_are_for_the_bus_too() {
    let host = Host::new();
    authority(&host, "ca", &[("daemon", "host-1.example")]);
    let with = |bus: &str| {
        let text = format!(
            "insecure = true\nlisten = \"127.0.0.1\"\nsocket = \"sock\"\nbus = [\"{bus}\"]\n\
             client_listen = \"0.0.0.0:{}\"\ntls_certificate = \"daemon.pem\"\ntls_key = \"daemon.key\"\n",
            free_port()
        );
        let path = host.write("bus.toml", text);
        let check = host.run(&["daemon", "--check", "-c", &path]);
        assert_eq!(check.code, 0, "{}", check.stderr);
        check.stderr
    };
    // Clients of loopback speak in clear there.
    let near = with(&format!("127.0.0.1:{}", free_port()));
    assert!(!near.contains("host-1.example"), "{near}");
    let Some(address) = own_address() else {
        return;
    };
    let far = with(&format!("{address}:{}", free_port()));
    let doubt = format!("is for host-1.example, not for {address}");
    assert_eq!(far.matches(&doubt).count(), 1, "{far}");
}

/// An address of this host that others reach, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().unwrap().ip();
    (!address.is_loopback()).then_some(address)
}

/// Serves one connection as the bus does; what came in it.
fn serve(listener: &TcpListener, tls: &Server) -> String {
    let (socket, _) = listener.accept().unwrap();
    let mut stream = tls.accept(socket).unwrap();
    let mut came = Vec::new();
    let mut greeted = false;
    loop {
        if !greeted && !stream.is_handshaking() {
            stream.write_all(b"bus 1 c1@a\n").unwrap();
            greeted = true;
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(len) => came.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        if came.ends_with(b"quit\n") {
            break;
        }
    }
    let _ = stream.write_all(b"ok\nclosed bye until later\n");
    stream.end_output();
    let _ = stream.flush();
    String::from_utf8(came).unwrap()
}

/// The bus speaks TLS at addresses beyond loopback alone, so a test of its own stands for it.
#[test]
fn terminals_and_processes_reach_the_bus_by_tls() {
    const LINES: usize = 20_000;
    let host = Host::new();
    authority(&host, "ca", &[("daemon", "127.0.0.1")]);
    authority(&host, "other", &[]);
    let files = ServerFiles {
        certificate: host.path("daemon.pem").into(),
        key: host.path("daemon.key").into(),
        client_ca: None,
    };
    let tls = Server::load(&files).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let bus = |ca: &str, more: &[&str]| {
        let ca = host.path(ca);
        host.command(&[&["bus", "--server", &address, "--tls-ca", &ca], more].concat())
    };
    let served = std::thread::scope(|scope| {
        let server = scope.spawn(|| [(); 3].map(|()| serve(&listener, &tls)));
        let commands = host.write("commands", "info\nquit\n");
        let stdin = fs::File::open(commands).unwrap();
        let talked = Ran::of(bus("ca.pem", &[]).stdin(stdin).output().unwrap());
        assert_eq!(talked.code, 0, "{}", talked.stderr);
        assert_eq!(talked.stdout, "bus 1 c1@a\nok\nclosed bye until later\n");
        // It writes more than sockets hold and ends without reading a word: all of it arrives.
        let script = format!("yes 'msg t d hello' | head -n {LINES}");
        let ran = bus("ca.pem", &["--exec", "sh", "-c", &script]).output();
        assert_eq!(Ran::of(ran.unwrap()).code, 0);
        Ran::of(bus("other.pem", &[]).output().unwrap()).fails_with(1, &["cannot connect"]);
        server.join().unwrap()
    });
    assert_eq!(served[0], "info\nquit\n");
    assert_eq!(served[1].lines().count(), LINES);
    assert_eq!(served[2], "");
}
