//! What a daemon asks of its host: real-time priority and locked memory, where the host grants
//! them, and a clear refusal where it does not.

use std::process::Command;

use crate::host::{Host, Ran};

const CONFIG: &str = "insecure = true\n[process]\nreal_time_priority = 3\nlock_memory = true\n";

#[test]
fn a_daemon_has_real_time_priority_and_locked_memory_or_says_what_it_lacks() {
    let host = Host::new();
    let path = host.write("rt.toml", CONFIG);
    let listen = format!("127.0.0.1:{}", crate::host::free_port());
    let options = ["--listen", &listen, "--multicast", host.multicast()];
    let mut command = host.command(&["daemon", "--config", &path, "--name", "rt"]);
    command.args(["--socket", &host.socket("rt")]).args(options);
    let mut daemon = host.launch("rt", &mut command);
    let mut answers = false;
    crate::host::until("it answers or ends", || {
        answers = host.status("rt").is_some();
        answers || !daemon.is_running()
    });
    if !answers {
        assert_eq!(daemon.wait(), 1);
        let said = host.read("rt.err");
        let lacks = ["CAP_IPC_LOCK", "CAP_SYS_NICE"];
        assert!(lacks.iter().any(|it| said.contains(it)), "{said}");
        eprintln!("this host grants neither: {said}");
        return;
    }
    let of_process = |file: &str| {
        let path = format!("/proc/{}/{file}", daemon.child.id());
        std::fs::read_to_string(path).unwrap()
    };
    // proc(5): behind the name in brackets, fields 40 and 41 are the priority and the policy.
    let stat = of_process("stat");
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    assert_eq!(fields[37..39], ["3", "1"], "SCHED_FIFO is 1: {stat}");
    let status = of_process("status");
    let locked = status.lines().find(|line| line.starts_with("VmLck:"));
    let locked = locked
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    assert!(locked.parse::<u64>().unwrap() > 1_000, "{locked} kB");
    assert!(host.read("rt.err").contains("real-time priority 3"));
    assert_eq!(daemon.terminate(), 0);
}

#[test]
fn a_daemon_without_the_rights_refuses_to_start_and_names_them() {
    let host = Host::new();
    let cases = [
        ("real_time_priority = 3", "CAP_SYS_NICE", "RLIMIT_RTPRIO"),
        ("lock_memory = true", "CAP_IPC_LOCK", "RLIMIT_MEMLOCK"),
    ];
    for (setting, capability, limit) in cases {
        let path = host.write(
            "rt.toml",
            format!("insecure = true\n[process]\n{setting}\n"),
        );
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set", "-sys_nice,-ipc_lock"])
            .args(["--inh-caps", "-sys_nice,-ipc_lock"])
            .args(["prlimit", "--rtprio=0", "--memlock=65536"])
            .args([env!("CARGO_BIN_EXE_groupcast"), "daemon", "--config", &path])
            .args(["--listen", "127.0.0.1:4899", "--socket", &host.socket("rt")]);
        let ran = match command.output() {
            Ok(output) => Ran::of(output),
            Err(error) => return eprintln!("skipped: setpriv: {error}"),
        };
        if ran.code == 127 || ran.stderr.contains("setpriv:") {
            return eprintln!("skipped: {}", ran.stderr);
        }
        ran.fails_with(1, &[capability, limit]);
    }
}
