//! Programs with groups, without daemons, on the loopback interface: threads of this process, and
//! processes that run the example.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use groupcast_groups::{
    Ask, ClientEvent, Ending, Groups, GroupsError, Member, MemberBuilder, Reject, RmpConfig, Role,
    RoleState, Sealing, Service,
};

#[expect(dead_code, reason = "its main is the example's own")]
#[path = "../examples/handler.rs"]
mod handler;

/// Everything ends within this time, or the test fails.
const LIMIT: Duration = Duration::from_secs(20);
/// What a process of the example is to do; the words are separated by spaces.
const PART: &str = "GROUPCAST_PART";
/// The test that the processes run.
const THIS: &str = "the_handler_of_a_killed_process_passes_on";
/// A payload that takes many packets.
const LONG: usize = 5_000_000;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;
type Order = fn(MemberBuilder) -> MemberBuilder;

const RING: Order = |builder| builder;
const RMP: Order = |builder| builder.rmp(RmpConfig::lan());

/// A group that other runs on this host do not use; `index` tells those of this run apart.
fn address(index: u16) -> SocketAddrV4 {
    let id = std::process::id();
    let [_, _, a, b] = id.to_be_bytes();
    let port = 33_000 + (id % 3_000) as u16 * 4 + index;
    SocketAddrV4::new(Ipv4Addr::new(239, 77, a, b), port)
}

/// A program, and what it has seen.
struct Program {
    groups: Groups,
    seen: Vec<ClientEvent>,
}

impl Program {
    fn open(name: &str, address: SocketAddrV4, order: Order) -> Self {
        let builder = Member::builder(name, address, Sealing::Insecure);
        let member = order(builder.interface(Ipv4Addr::LOCALHOST)).join();
        let groups = Groups::open(member.expect("the sockets open"));
        Self {
            groups: groups.expect("the name is right"),
            seen: Vec::new(),
        }
    }

    /// The first event, of those that were seen and those to come, of which `wanted` makes
    /// something. What came before it is dropped.
    fn wait<T>(&mut self, what: &str, wanted: impl Fn(&ClientEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            for (index, event) in self.seen.iter().enumerate() {
                if let Some(found) = wanted(event) {
                    self.seen.drain(..=index);
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "{what}: {:?}", self.seen);
            let event = self.groups.next_event(Duration::from_millis(50));
            self.seen.extend(event.expect("the groups are open"));
        }
    }

    fn wait_for_members(&mut self, count: usize) {
        self.wait("a view", |event| match event {
            ClientEvent::View(view) => (view.members.len() == count).then_some(()),
            _ => None,
        });
    }

    fn wait_for_role(&mut self) -> RoleState {
        self.wait("a role", |event| match event {
            ClientEvent::Role(notice) => Some(notice.state.clone()),
            _ => None,
        })
    }
}

/// Claims all roles, answers two requests, gets a long message, and closes. Says when it has the
/// roles.
fn serve(mut ada: Program, tell: &Sender<()>) -> Outcome {
    ada.groups.join("g")?;
    for role in [Role::Answering, Role::Handler(3), Role::Lock(3)] {
        ada.groups.claim("g", role, false)?;
        assert_eq!(ada.wait_for_role(), RoleState::Held);
    }
    tell.send(())?;
    ada.wait_for_members(2);
    for _ in 0..2 {
        let asked = ada.wait("a request", |event| match event {
            ClientEvent::Asked(asked) => Some(asked.clone()),
            _ => None,
        });
        assert_eq!(asked.guest, "ben@ben");
        ada.groups.answer(&asked, b"from ada")?;
    }
    let len = ada.wait("the long message", |event| match event {
        ClientEvent::Message(message) => Some(message.payload.len()),
        _ => None,
    });
    assert_eq!(len, LONG);
    Ok(ada.groups.close(LIMIT)?)
}

/// Two programs: one serves, the other asks, wants what is taken, and gets it in its turn; a long
/// message goes beside it.
fn two_programs(index: u16, order: Order) -> Outcome {
    let address = address(index);
    let (tell, told) = channel();
    let server = thread::spawn(move || serve(Program::open("ada", address, order), &tell));
    told.recv_timeout(LIMIT)?;
    let mut ben = Program::open("ben", address, order);
    assert_eq!(ben.groups.private_name(), "ben@ben");
    ben.groups.join("g")?;
    ben.wait_for_members(2);
    for handler in [None, Some(3)] {
        let ask = Ask {
            handler,
            ..Ask::default()
        };
        ben.groups.ask("g", ask, b"?")?;
        let end = ben.wait("the end of a request", |event| match event {
            ClientEvent::Ended {
                ending, answers, ..
            } => Some((*ending, *answers)),
            _ => None,
        });
        assert_eq!(end, (Ending::Complete, 1));
    }
    ben.groups.claim("g", Role::Handler(3), false)?;
    let RoleState::Refused { holder, code, .. } = ben.wait_for_role() else {
        return Err("ada has the handler".into());
    };
    assert_eq!((&*holder, code), ("ada@ada", Reject::Taken));
    ben.groups.claim("g", Role::Lock(3), true)?;
    let holder = "ada@ada".to_owned();
    assert_eq!(ben.wait_for_role(), RoleState::Waits { holder });
    let long = vec![7; LONG];
    ben.groups.publish(&["g"], Service::Agreed, &long)?;
    assert_eq!(ben.wait_for_role(), RoleState::Held, "ada has closed");
    server.join().expect("ada sees what she should")?;
    // Nothing is sent between the calls: this much does not fit.
    let some = &long[..200_000];
    let full = (0..200).find_map(|_| ben.groups.publish(&["g"], Service::Agreed, some).err());
    assert!(matches!(full, Some(GroupsError::Full)), "{full:?}");
    Ok(ben.groups.close(LIMIT)?)
}

#[test]
fn two_programs_share_groups_requests_and_roles() -> Outcome {
    two_programs(0, RING)
}

#[test]
fn with_rmp_they_do_too() -> Outcome {
    two_programs(1, RMP)
}

#[test]
fn a_name_that_groups_cannot_show_is_refused() {
    let member = Member::builder("a@b", address(0), Sealing::Insecure)
        .interface(Ipv4Addr::LOCALHOST)
        .join()
        .unwrap();
    let error = Groups::open(member).err().unwrap();
    assert!(error.to_string().contains("'@'"), "{error}");
}

#[test]
fn a_second_program_of_a_name_is_told_and_in_no_group_any_more() {
    let address = address(2);
    let (tell, told) = channel();
    let first = thread::spawn(move || -> Outcome {
        let mut first = Program::open("ada", address, RING).groups;
        while told.try_recv().is_err() {
            first.next_event(Duration::from_millis(20))?;
        }
        Ok(first.close(LIMIT)?)
    });
    thread::sleep(Duration::from_millis(500));
    let mut second = Program::open("ada", address, RING);
    let text = second.wait("the end", |event| match event {
        ClientEvent::Disconnected { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert!(text.contains("choose another"), "{text}");
    let error = second.groups.next_event(LIMIT).unwrap_err();
    assert!(matches!(error, GroupsError::Ended(_)), "{error}");
    let closed = second.groups.close(LIMIT);
    closed.expect("it has nobody to wait for");
    tell.send(()).unwrap();
    let ended = first.join().expect("the first goes on");
    ended.expect("it closes");
}

/// A process that runs the example, and its lines.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(part: &str, order: &str) -> Self {
        let program = std::env::current_exe().expect("a test knows its program");
        let mut child = Command::new(program)
            .args(["--exact", THIS, "--nocapture"])
            .env(PART, part)
            .env("GROUP", address(3).to_string())
            .env("ORDER", order)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts again");
        let (tell, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self { child, lines }
    }

    fn await_line(&self, wanted: &str) {
        let deadline = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        while !seen.iter().any(|line: &String| line.contains(wanted)) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line {wanted:?}: {seen:#?}"),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The example: of two replicas one has the handler and is killed, the other goes on. The processes
/// run this test, too, and play the parts that it gives them.
#[test]
fn the_handler_of_a_killed_process_passes_on() {
    if let Ok(part) = std::env::var(PART) {
        let words: Vec<&str> = part.split(' ').collect();
        return handler::play(&words).expect("it does its part");
    }
    for order in ["ring", "rmp"] {
        let mut replicas = BTreeMap::new();
        replicas.insert("ada", Process::start("ada serve", order));
        replicas["ada"].await_line("the handler is here");
        replicas.insert("ben", Process::start("ben serve", order));
        replicas["ben"].await_line("ada@ada has the handler");
        Process::start("cleo ask hello", order).await_line("ada@ada: HELLO");
        replicas.remove("ada");
        Process::start("cleo ask again", order).await_line("ben@ben: AGAIN");
    }
}
