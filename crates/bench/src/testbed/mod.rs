//! A network on one machine: hosts are network namespaces, joined by a switch that can be slow,
//! lossy or cut in parts.
//!
//! ```text
//!   gc-ID-1         gc-ID-2              gc-ID-N
//!   ┌──────┐        ┌──────┐             ┌──────┐
//!   │ eth0 │10.79.x.1 eth0 │10.79.x.2    │ eth0 │10.79.x.N    loss: nft at netdev ingress of eth0
//!   └──┬───┘        └──┬───┘             └──┬───┘             rate: token bucket on eth0 and on each port
//!   ┌──┴───────────────┴────────────────────┴───┐
//!   │ p1              p2     gc-ID-sw       pN  │             parts: one bridge for each part
//!   └───────────────────────────────────────────┘
//! ```
//!
//! The root namespace stays untouched. A bed takes itself down when dropped; one whose creator was
//! killed is removed by the next that is built. Needs root, `ip`, `tc`, `nft`, and a kernel with
//! veth, bridge, tbf and netdev filters; no netem, so there is no delay and no reordering here:
//! those are the simulator's.
//!
//! What runs on the hosts, and what is measured, is left to the callers.

mod command;
mod link;
mod naming;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use self::command::run;
pub use self::link::{Link, UnknownLink};
use self::naming::Identity;
use crate::process::Process;

/// The most hosts of one bed.
pub const HOSTS_MAX: usize = 64;

/// Why a test bed could not be built or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A tool could not be started.
    #[error("cannot run `{command}`: {source}")]
    Start {
        /// The whole command.
        command: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A tool failed.
    #[error("`{command}` failed: {stderr}")]
    Failed {
        /// The whole command.
        command: String,
        /// What it said.
        stderr: String,
    },
    /// A tool did not come to an end.
    #[error("`{command}` was stopped after {} s", limit.as_secs())]
    Timeout {
        /// The whole command.
        command: String,
        /// How long it was given.
        limit: Duration,
    },
    /// This process cannot be told apart from others.
    #[error("cannot read /proc: {0}")]
    Proc(io::Error),
    /// Outputs have no place.
    #[error("cannot write to {}: {source}", path.display())]
    Output {
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// More or fewer hosts than a bed can have.
    #[error("a test bed has 1 to {HOSTS_MAX} hosts, not {0}")]
    Hosts(usize),
}

/// N hosts and a switch. Hosts are numbered from 1.
#[derive(Debug)]
pub struct Testbed {
    identity: Identity,
    hosts: usize,
    link: Link,
    directory: PathBuf,
    keeps_outputs: bool,
}

impl Testbed {
    /// Whether beds can be built here, or in words why not. Builds a small one the first time it is
    /// asked.
    pub fn available() -> Result<(), String> {
        static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
        ANSWER
            .get_or_init(|| {
                if !rustix::process::geteuid().is_root() {
                    return Err("needs root to create network namespaces".to_owned());
                }
                Self::new(2, Link::Gbit1)
                    .and_then(|bed| {
                        bed.lose(1, 10)?;
                        bed.cut(2)
                    })
                    .map_err(|error| {
                        format!("needs network namespaces with veth, bridge, tbf and nft: {error}")
                    })
            })
            .clone()
    }

    /// Builds a bed of `hosts` hosts whose wires are `link`, without loss and whole.
    pub fn new(hosts: usize, link: Link) -> Result<Self, TestbedError> {
        if !(1..=HOSTS_MAX).contains(&hosts) {
            return Err(TestbedError::Hosts(hosts));
        }
        naming::remove_stale()?;
        let identity = Identity::next()?;
        let directory = identity.directory();
        fs::create_dir_all(&directory).map_err(|source| TestbedError::Output {
            path: directory.clone(),
            source,
        })?;
        // From here on, dropping the value cleans up whatever exists.
        let bed = Self {
            identity,
            hosts,
            link,
            directory,
            keeps_outputs: false,
        };
        bed.build_switch()?;
        for host in 1..=hosts {
            bed.build_host(host)?;
        }
        Ok(bed)
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// What the wires are.
    pub fn link(&self) -> Link {
        self.link
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 79, self.identity.subnet(), host as u8)
    }

    /// Where the outputs of processes are while the bed exists.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether the outputs outlive the bed, as they do when it is dropped by a panic. Not unless
    /// told.
    pub fn keep_outputs(&mut self, keep: bool) {
        self.keeps_outputs = keep;
    }

    /// A command that runs `program` on `host`, with nothing to read; the caller adds arguments.
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        self.command_in(&self.identity.host(host), program)
    }

    /// The same at the switch, where every frame comes by.
    pub fn switch_command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_in(&self.identity.switch(), program)
    }

    fn command_in(&self, namespace: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace])
            .arg(program)
            .current_dir(&self.directory)
            .stdin(Stdio::null());
        command
    }

    /// Starts a [`command`](Self::command). Its outputs go to `LABEL.out` and `LABEL.err` in the
    /// bed's directory.
    pub fn launch(&self, label: &str, command: Command) -> Result<Process, TestbedError> {
        Process::spawn(label, &self.directory, command).map_err(|source| TestbedError::Output {
            path: self.directory.join(label),
            source,
        })
    }

    /// From now on, `host` loses `permille` of 1,000 frames that reach it, at random; 0 for none,
    /// 1,000 for all.
    pub fn lose(&self, host: usize, permille: u16) -> Result<(), TestbedError> {
        let mut script = "add table netdev gc\ndelete table netdev gc\n".to_owned();
        if permille > 0 {
            script.push_str(&format!(
                "table netdev gc {{\n\
                 chain rx {{\n\
                 type filter hook ingress device eth0 priority 0\n\
                 numgen random mod 1000 < {permille} drop\n\
                 }}\n\
                 }}\n"
            ));
        }
        self.nft(host, &script)
    }

    /// From now on, `host` hears nothing of `others`, while they hear it: the way is closed in one
    /// direction, for multicasts and unicasts alike. An empty list opens it again.
    pub fn deafen(&self, host: usize, others: &[usize]) -> Result<(), TestbedError> {
        let mut script = "add table netdev gcway\ndelete table netdev gcway\n".to_owned();
        if !others.is_empty() {
            let addresses: Vec<String> = others
                .iter()
                .map(|other| self.address(*other).to_string())
                .collect();
            script.push_str(&format!(
                "table netdev gcway {{\n\
                 chain rx {{\n\
                 type filter hook ingress device eth0 priority 1\n\
                 ip saddr {{ {} }} drop\n\
                 }}\n\
                 }}\n",
                addresses.join(", ")
            ));
        }
        self.nft(host, &script)
    }

    /// From now on, no multicast reaches `host`, and none of its own leaves: sending one fails.
    pub fn without_multicast(&self, host: usize) -> Result<(), TestbedError> {
        let script = "table netdev gcmc {\n\
                      chain rx {\n\
                      type filter hook ingress device eth0 priority 2\n\
                      ip daddr 224.0.0.0/4 drop\n\
                      }\n\
                      }\n\
                      table ip gcmc {\n\
                      chain tx {\n\
                      type filter hook output priority 0\n\
                      ip daddr 224.0.0.0/4 drop\n\
                      }\n\
                      }\n";
        self.nft(host, script)
    }

    /// From now on, counts what reaches the interface of `host` and is for its address alone.
    pub fn count_unicasts(&self, host: usize) -> Result<(), TestbedError> {
        let address = self.address(host);
        let script = format!(
            "table netdev gcuni {{\n\
             counter unicasts {{}}\n\
             chain rx {{\n\
             type filter hook ingress device eth0 priority -1\n\
             ip daddr {address} counter name unicasts\n\
             }}\n\
             }}\n"
        );
        self.nft(host, &script)
    }

    /// How many bytes of IP those were.
    pub fn unicasts(&self, host: usize) -> Result<u64, TestbedError> {
        let namespace = self.identity.host(host);
        let command = ["netns", "exec", &namespace, "nft", "list", "counters"];
        let counters = run("ip", &command, "")?;
        let bytes = counters
            .split_once("bytes ")
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .and_then(|bytes| bytes.parse().ok());
        bytes.ok_or_else(|| TestbedError::Failed {
            command: command.join(" "),
            stderr: format!("it printed {counters:?}"),
        })
    }

    /// From now on, the interface of `host` takes packets of `bytes`: longer ones do not reach it,
    /// and its own leave in fragments. Only on links with a rate: without one, segments cross as
    /// one packet, which passes whole.
    pub fn set_mtu(&self, host: usize, bytes: u16) -> Result<(), TestbedError> {
        let namespace = self.identity.host(host);
        let script = format!("link set eth0 mtu {bytes}\n");
        run("ip", &["-n", &namespace, "-batch", "-"], &script).map(|_| ())
    }

    /// Takes the interface of `host` away, and gives it another one of the same name with the same
    /// address: what was joined on the former one is not on this one.
    pub fn replace_interface(&self, host: usize) -> Result<(), TestbedError> {
        self.switch(&format!("link del p{host}\n"))?;
        self.build_wire(host, self.address(host))
    }

    /// From now on `host` has another address, as after a lease has ended; which one.
    pub fn change_address(&self, host: usize) -> Result<Ipv4Addr, TestbedError> {
        let namespace = self.identity.host(host);
        let [a, b, c, _] = self.address(host).octets();
        let address = Ipv4Addr::new(a, b, c, 255 - host as u8);
        let script = format!(
            "address flush dev eth0\n\
             address add {address}/24 dev eth0\n\
             route replace 224.0.0.0/4 dev eth0\n"
        );
        run("ip", &["-n", &namespace, "-batch", "-"], &script)?;
        Ok(address)
    }

    /// From now on, and at the latest after two seconds, the switch sends a multicast only to hosts
    /// that have joined its group: IGMP snooping, with a querier in each part. It is of version 3:
    /// with version 2 a host that heard another join says neither that it joins nor that it leaves.
    pub fn follow_memberships(&self) -> Result<(), TestbedError> {
        let mut script = String::new();
        for part in 0..=self.hosts {
            // In hundredths of a second. A querier waits that long for answers before a bridge
            // stops flooding, so the interval is set first.
            script.push_str(&format!(
                "link set br{part} type bridge mcast_igmp_version 3 mcast_query_response_interval 100 \
                 mcast_last_member_interval 10\n\
                 link set br{part} type bridge mcast_snooping 1 mcast_querier 1\n"
            ));
        }
        self.switch(&script)
    }

    /// Bytes that the switch has sent to `host` since the bed was built.
    pub fn sent_to(&self, host: usize) -> Result<u64, TestbedError> {
        let path = format!("/sys/class/net/p{host}/statistics/tx_bytes");
        let command = ["netns", "exec", &self.identity.switch(), "cat", &path];
        let counter = run("ip", &command, "")?;
        counter.trim().parse().map_err(|_| TestbedError::Failed {
            command: command.join(" "),
            stderr: format!("it printed {counter:?}"),
        })
    }

    /// Cuts `host` off: no frame reaches it and none of its own leaves, while its interface looks
    /// healthy. At once.
    pub fn cut(&self, host: usize) -> Result<(), TestbedError> {
        self.switch(&self.move_to_part(host, host))
    }

    /// Joins `host` to those that no part was made of. At once.
    pub fn rejoin(&self, host: usize) -> Result<(), TestbedError> {
        self.switch(&self.move_to_part(host, 0))
    }

    /// Joins all parts again. At once.
    pub fn heal(&self) -> Result<(), TestbedError> {
        let script: String = (1..=self.hosts)
            .map(|host| self.move_to_part(host, 0))
            .collect();
        self.switch(&script)
    }

    /// Splits the network: hosts of one part reach each other only. Hosts in no part stay together
    /// as one more.
    pub fn partition(&self, parts: &[&[usize]]) -> Result<(), TestbedError> {
        let mut script = String::new();
        for host in 1..=self.hosts {
            // A part is named by its first host; part 0 is everybody else's.
            let part = parts
                .iter()
                .find(|part| part.contains(&host))
                .map_or(0, |part| part[0]);
            script.push_str(&self.move_to_part(host, part));
        }
        self.switch(&script)
    }

    fn build_switch(&self) -> Result<(), TestbedError> {
        let namespace = self.identity.switch();
        run("ip", &["netns", "add", &namespace], "")?;
        quieten(&namespace)?;
        forward_only(&namespace)?;
        let mut script = String::new();
        for part in 0..=self.hosts {
            script.push_str(&format!(
                "link add br{part} type bridge mcast_snooping 0 stp_state 0 forward_delay 0\n\
                 link set br{part} up\n"
            ));
        }
        self.switch(&script)
    }

    fn build_host(&self, host: usize) -> Result<(), TestbedError> {
        let namespace = self.identity.host(host);
        run("ip", &["netns", "add", &namespace], "")?;
        quieten(&namespace)?;
        run("ip", &["-n", &namespace, "link", "set", "lo", "up"], "")?;
        self.build_wire(host, self.address(host))
    }

    /// The wire of a host, with this address at its end.
    fn build_wire(&self, host: usize, address: Ipv4Addr) -> Result<(), TestbedError> {
        let (switch, namespace) = (self.identity.switch(), self.identity.host(host));
        let port = format!("p{host}");
        let offload = self.link.offload_options();
        self.switch(&format!(
            "link add {port} type veth peer name eth0 netns {namespace}\n\
             link set {port} master br0 {offload} up\n"
        ))?;
        run(
            "ip",
            &["-n", &namespace, "-batch", "-"],
            &format!(
                "link set eth0 {offload} up\n\
                 address add {address}/24 dev eth0\n\
                 route add 224.0.0.0/4 dev eth0\n"
            ),
        )?;
        let host_queue = self.link.host_queue("eth0");
        if !host_queue.is_empty() {
            run("tc", &["-n", &namespace, "-batch", "-"], &host_queue)?;
        }
        let switch_queue = self.link.switch_queue(&port);
        if !switch_queue.is_empty() {
            run("tc", &["-n", &switch, "-batch", "-"], &switch_queue)?;
        }
        Ok(())
    }

    fn nft(&self, host: usize, script: &str) -> Result<(), TestbedError> {
        let namespace = self.identity.host(host);
        let command = ["netns", "exec", &namespace, "nft", "-f", "-"];
        run("ip", &command, script).map(|_| ())
    }

    fn move_to_part(&self, host: usize, part: usize) -> String {
        format!("link set p{host} master br{part}\n")
    }

    fn switch(&self, script: &str) -> Result<(), TestbedError> {
        let namespace = self.identity.switch();
        run("ip", &["-n", &namespace, "-batch", "-"], script).map(|_| ())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // Nothing can be reported from here, and the next bed removes what this one leaves.
        for host in 1..=self.hosts {
            let _ = naming::remove(&self.identity.host(host));
        }
        let _ = naming::remove(&self.identity.switch());
        if self.keeps_outputs || std::thread::panicking() {
            eprintln!("outputs are kept in {}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// No IPv6 in this namespace: its announcements would only add noise to measurements.
fn quieten(namespace: &str) -> Result<(), TestbedError> {
    let script = "for scope in all default; do \
                  [ ! -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/$scope/disable_ipv6; done";
    run("ip", &["netns", "exec", namespace, "sh", "-c", script], "").map(|_| ())
}

/// A switch has no firewall: where the kernel's bridges ask `iptables` for leave to forward, this
/// one does not, which would cost a sixth of the processors at 1 Gb/s.
fn forward_only(namespace: &str) -> Result<(), TestbedError> {
    let script = "for table in arp ip ip6; do f=/proc/sys/net/bridge/bridge-nf-call-${table}tables; \
                  [ ! -e $f ] || echo 0 > $f; done";
    run("ip", &["netns", "exec", namespace, "sh", "-c", script], "").map(|_| ())
}
