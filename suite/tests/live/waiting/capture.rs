//! What an eavesdropper between the daemons captures holds no plaintext of a message or a group
//! name. To be sure that the capture would show it, the same is captured of daemons that run
//! without a key.

use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::cluster::{Cluster, MULTICAST};
use groupcast_suite::live::eavesdrop::{Eavesdropper, skipped_without_tcpdump};
use groupcast_suite::live::{Outcome, skipped};

const LIMIT: Duration = Duration::from_secs(30);
const SECRET_GROUP: &str = "zeppelin-hangar-group";
const SECRET_TEXT: &str = "the quartz compass points at the lighthouse";

/// Whether the captured frames show the message, and the group's name.
fn seen(sealed: bool) -> Outcome<(bool, bool)> {
    let mut cluster = Cluster::new(3, Link::Unlimited)?;
    let key = cluster.path("cluster.key");
    let security: &[&str] = if sealed {
        &["--key", &key]
    } else {
        &["--insecure"]
    };
    for host in 1..=3 {
        let options = [security, &["--multicast", MULTICAST]].concat();
        cluster.start_as(host, &format!("host-{host}"), &options)?;
    }
    let eavesdropper = Eavesdropper::start(&cluster)?;
    cluster.await_members(&[1, 2, 3])?;
    let mut subscriptions = Vec::new();
    for host in 1..=3 {
        subscriptions.push(cluster.subscribe(host, "sub", SECRET_GROUP)?);
    }
    let lines = format!("{SECRET_TEXT}\n").repeat(100);
    cluster.write_text("secret", &lines)?;
    let (socket, file) = (cluster.socket(1), cluster.path("secret"));
    let arguments = [
        "pub",
        SECRET_GROUP,
        "--socket",
        &socket,
        "--name",
        "pub",
        "--file",
        &file,
    ];
    let publisher = cluster
        .bed
        .launch("pub-secret", cluster.command(1, &arguments))?;
    cluster.finish(publisher, LIMIT)?;
    for subscription in &mut subscriptions {
        subscription.await_messages("pub", 100, LIMIT)?;
    }
    let capture = eavesdropper.finish()?;
    if capture.len() < lines.len() {
        return Err(format!("only {} bytes were captured", capture.len()).into());
    }
    cluster.pass();
    Ok((
        contains(&capture, SECRET_TEXT),
        contains(&capture, SECRET_GROUP),
    ))
}

fn contains(capture: &[u8], text: &str) -> bool {
    capture
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn a_capture_between_daemons_shows_no_plaintext() -> Outcome {
    if skipped() || skipped_without_tcpdump() {
        return Ok(());
    }
    match (seen(false)?, seen(true)?) {
        ((true, true), (false, false)) => Ok(()),
        (clear, sealed) => Err(format!(
            "(message, group name) should be seen in clear and are {clear:?}, and not when sealed and are {sealed:?}"
        )
        .into()),
    }
}
