//! `daemon --metrics`: the figures of a daemon for Prometheus.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot talk to its daemon has failed"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::host::{Host, free_port, until};

/// What is at the path `/metrics` of `address`.
fn scrape(address: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
    body.to_owned()
}

/// A port alone is one of loopback.
#[test]
fn the_metrics_of_a_daemon_follow_what_it_does() {
    let host = Host::new();
    let port = free_port().to_string();
    let mut daemon = host.daemon("d", &["--insecure", "--metrics", &port]);
    let address = format!("127.0.0.1:{port}");
    let log = host.read("d.err");
    assert!(log.contains(&format!("http://{address}/metrics")), "{log}");
    let _subscriber = host.subscribe("sub", "d", &[]);
    let socket = host.socket("d");
    let generated = ["--count", "5", "--size", "10"];
    let sent = host.run(&[&["pub", "room", "--socket", &socket][..], &generated].concat());
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let has = |text: &str, line: &str| text.lines().any(|it| it == line);
    until("the metrics are those of now", || {
        has(&scrape(&address), "groupcast_session_published_total 5")
    });
    let text = scrape(&address);
    for line in [
        "groupcast_operational 1",
        "groupcast_members 1",
        "groupcast_groups 1",
        "groupcast_clients{transport=\"unix\"} 1",
        "# TYPE groupcast_node_forged_total counter",
    ] {
        assert!(has(&text, line), "no {line} in\n{text}");
    }
    assert!(text.contains("groupcast_info{name=\"d\","), "{text}");
    // Another daemon cannot have the address.
    let options = ["daemon", "--insecure", "--name", "e", "--metrics", &address];
    host.run(&[&options[..], &["--socket", &host.socket("e")]].concat())
        .fails_with(1, &["cannot give metrics", "--metrics"]);
    host.run(&["daemon", "--insecure", "--metrics", "localhost"])
        .fails_with(2, &["is no address for metrics"]);
    assert_eq!(daemon.terminate(), 0);
}
