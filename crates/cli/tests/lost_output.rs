//! Output that is lost, or that nobody reads any more.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start its processes has failed"
)]

use std::fs::{self, File};

use serde_json::Value;

use crate::transfer::Group;

#[test]
fn the_status_has_the_exit_code_also_where_the_account_is_lost() {
    let group = Group::new();
    fs::write(group.path("file"), vec![7; 10_000]).unwrap();
    let _receiver = group.receiver("there", &[]);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (required, code) in [("there", 1), ("there,absent", 3)] {
        let mut command = group.command(&["send", "file", "--json", "--wait", "2"]);
        command.args(["--require", required, "--status", "status"]);
        let sent = command.stdout(full()).status().unwrap();
        assert_eq!(sent.code(), Some(code));
        let status: Value = serde_json::from_str(&group.host.read("status")).unwrap();
        assert_eq!(
            (&status["state"], &status["exit_code"]),
            (&"done".into(), &code.into())
        );
    }
}
