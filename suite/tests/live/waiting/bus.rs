//! The message bus over three hosts: a daemon is killed in the middle of a stream and comes back, a
//! host is cut off and healed. The others' clients go on in one order, `ping` names who is there,
//! and the histories are judged. And over five: many clients against a naive model.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use groupcast_bench::Link;
use groupcast_suite::live::bus::{self as crowd, Crowd};
use groupcast_suite::live::cluster::{Cluster, MULTICAST, RING, RMP};
use groupcast_suite::live::{Outcome, live, until};

const LIMIT: Duration = Duration::from_secs(30);
/// Messages that each sender sends while something happens.
const MESSAGES: usize = 2_000;

/// A program at the bus of a host's daemon.
struct Program {
    socket: UnixStream,
    /// What it was sent, line by line.
    heard: Arc<Mutex<Vec<String>>>,
    /// How many commands it has said.
    asked: usize,
}

impl Program {
    fn connect(cluster: &Cluster, host: usize) -> Outcome<Self> {
        let path = cluster.path(&format!("host-{host}.bus"));
        let socket = until(LIMIT, format!("the bus of host {host}"), || {
            Ok(UnixStream::connect(&path).ok())
        })?;
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (reader, lines) = (BufReader::new(socket.try_clone()?), heard.clone());
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                lines.lock().expect("nobody panics with it").push(line);
            }
        });
        let mut program = Self {
            socket,
            heard,
            asked: 0,
        };
        program.ask("accept draw.* *.board")?;
        program.ask(&format!("id host-{host}"))?;
        Ok(program)
    }

    fn say(&mut self, line: &str) -> Outcome {
        self.asked += 1;
        Ok(self.socket.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Says a command; its reply.
    fn ask(&mut self, line: &str) -> Outcome<String> {
        self.say(line)?;
        until(LIMIT, format!("a reply to {line:?}"), || {
            let replies = self.lines(|line| line.starts_with("ok") || line.starts_with("error"));
            Ok((replies.len() == self.asked).then(|| replies.last().cloned().unwrap_or_default()))
        })
    }

    /// Who would get a message.
    fn audience(&mut self) -> Outcome<String> {
        let reply = self.ask("ping draw-1 page.board")?;
        let mut ids: Vec<&str> = reply.split(' ').skip(1).collect();
        ids.sort();
        Ok(ids.join(" "))
    }

    fn lines(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let heard = self.heard.lock().expect("nobody panics with it");
        heard.iter().filter(|line| wanted(line)).cloned().collect()
    }

    /// The texts of the messages that it got.
    fn texts(&self) -> Vec<String> {
        self.lines(|line| line.starts_with("text "))
    }
}

/// What both got, they got in one order, and each of it once.
fn agree(one: &Program, other: &Program) -> Outcome {
    let (one, other) = (one.texts(), other.texts());
    let both: BTreeSet<_> = one.iter().filter(|text| other.contains(text)).collect();
    let of = |texts: &[String]| {
        let both = texts.iter().filter(|text| both.contains(text));
        both.cloned().collect::<Vec<_>>()
    };
    match of(&one) == of(&other) && of(&one).len() == both.len() {
        true => Ok(()),
        false => Err("two clients saw different orders".into()),
    }
}

fn send(programs: &mut [&mut Program], what: &str) -> Outcome {
    for number in 0..MESSAGES {
        for (sender, program) in programs.iter_mut().enumerate() {
            program.say(&format!(
                "msg draw-{sender} page.board text {what} {sender} {number}"
            ))?;
        }
    }
    for program in programs {
        program.ask("ping x y")?;
    }
    Ok(())
}

fn has_all(program: &Program, what: &str, senders: usize) -> Outcome {
    let texts = program.texts().into_iter();
    let count = texts
        .filter(|text| text.starts_with(&format!("text {what} ")))
        .count();
    match count == senders * MESSAGES {
        true => Ok(()),
        false => Err(format!("{count} messages of {what}").into()),
    }
}

fn bus_of(protocol: &str) -> Outcome {
    live(|| {
        let mut cluster = Cluster::new(3, Link::Unlimited)?;
        cluster.set_protocol(protocol);
        let start = |cluster: &mut Cluster, host: usize| {
            let bus = format!("unix:{}", cluster.path(&format!("host-{host}.bus")));
            cluster.start_with(host, &["--multicast", MULTICAST, "--bus", &bus])
        };
        for host in 1..=3 {
            start(&mut cluster, host)?;
        }
        cluster.await_members(&[1, 2, 3])?;
        let mut al = Program::connect(&cluster, 1)?;
        let bo = Program::connect(&cluster, 2)?;
        let mut cy = Program::connect(&cluster, 3)?;
        let everybody = "host-1 host-2 host-3";
        assert_eq!(al.audience()?, everybody);

        for number in 0..MESSAGES {
            al.say(&format!("msg draw-0 page.board text kill 0 {number}"))?;
            cy.say(&format!("msg draw-1 page.board text kill 1 {number}"))?;
            if number == MESSAGES / 2 {
                cluster.daemon(2)?.kill()?;
            }
        }
        cluster.await_members(&[1, 3])?;
        for program in [&mut al, &mut cy] {
            assert_eq!(program.audience()?, "host-1 host-3");
            has_all(program, "kill", 2)?;
        }
        agree(&al, &cy)?;
        agree(&al, &bo)?;

        start(&mut cluster, 2)?;
        cluster.await_members(&[1, 2, 3])?;
        let mut again = Program::connect(&cluster, 2)?;
        assert_eq!(again.audience()?, everybody);

        cluster.bed.cut(3)?;
        cluster.await_members(&[3])?;
        cluster.await_members(&[1, 2])?;
        send(&mut [&mut al, &mut again], "cut")?;
        assert_eq!(al.audience()?, "host-1 host-2");
        assert_eq!(cy.audience()?, "host-3");
        cluster.bed.heal()?;
        cluster.await_members(&[1, 2, 3])?;
        assert_eq!(cy.audience()?, everybody);
        send(&mut [&mut al, &mut again, &mut cy], "healed")?;
        for program in [&al, &again, &cy] {
            has_all(program, "healed", 3)?;
        }
        has_all(&again, "cut", 2)?;
        has_all(&cy, "cut", 0)?;
        agree(&al, &again)?;
        agree(&al, &cy)?;
        cluster.check_histories()
    })
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn clients_of_the_bus_outlive_a_daemon_and_a_cut() -> Outcome {
    bus_of(RING)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn clients_of_the_bus_outlive_a_daemon_and_a_cut_of_rmp() -> Outcome {
    bus_of(RMP)
}

#[test]
#[ignore = "live: needs root and network namespaces"]
fn what_many_clients_get_is_what_a_naive_model_says() -> Outcome {
    live(|| {
        let report = crowd::run(
            Crowd {
                hosts: 5,
                clients: 40,
                domains: 200,
                length: Duration::from_secs(6),
                seed: 17,
            },
            |_| {},
        )?;
        println!("{report}");
        match report.deliveries > report.messages && report.replaced > 0 {
            true => Ok(()),
            false => Err(format!("too little happened: {report}").into()),
        }
    })
}
