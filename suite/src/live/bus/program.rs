//! A client of the bus that says much at a time, and remembers what it was told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::{Outcome, until};
use super::model::Delivery;

/// Enough for what a reader does.
const STACK: usize = 128 << 10;

/// A client.
#[derive(Debug)]
pub struct Program {
    socket: UnixStream,
    name: String,
    shared: Arc<Shared>,
    /// Commands that it has said.
    asked: usize,
}

#[derive(Default, Debug)]
struct Shared {
    heard: Mutex<Heard>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct Heard {
    greeting: Option<String>,
    /// In the order of the commands; those of several lines whole.
    replies: Vec<String>,
    deliveries: Vec<Delivery>,
    /// When each of them had been read.
    arrivals: Vec<Instant>,
    /// A reply of which this many lines have not come.
    part: Option<(String, usize)>,
    /// The last line, or why there is none.
    end: Option<String>,
}

impl Program {
    /// Connects to the bus at the socket `path`, and waits until it is greeted.
    pub fn connect(path: &str) -> Outcome<Self> {
        const LIMIT: Duration = Duration::from_secs(30);
        let socket = until(LIMIT, format!("the bus at {path}"), || {
            Ok(UnixStream::connect(path).ok())
        })?;
        let shared = Arc::new(Shared::default());
        let (reader, told) = (BufReader::new(socket.try_clone()?), shared.clone());
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || read(reader, &told))?;
        let mut program = Self {
            socket,
            name: String::new(),
            shared,
            asked: 0,
        };
        let greeting = program.wait(LIMIT, "a greeting", |heard| heard.greeting.clone())?;
        program.name = greeting.rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(program)
    }

    /// Its private name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says commands, one a line; which the last of them is.
    pub fn say(&mut self, lines: &str) -> Outcome<usize> {
        self.asked += lines.lines().count() - 1;
        self.say_bytes(format!("{lines}\n").as_bytes())
    }

    /// Says one command of several lines; which it is.
    pub fn say_bytes(&mut self, command: &[u8]) -> Outcome<usize> {
        self.socket.write_all(command)?;
        self.asked += 1;
        Ok(self.asked - 1)
    }

    /// Says a command; its reply.
    pub fn ask(&mut self, line: &str, limit: Duration) -> Outcome<String> {
        let place = self.say(line)?;
        self.await_replies(limit)?;
        Ok(self.reply(place))
    }

    /// Waits until every command has its reply, and none of them is an error.
    pub fn await_replies(&mut self, limit: Duration) -> Outcome {
        let asked = self.asked;
        let error = self.wait(limit, "replies", |heard| {
            let error = heard
                .replies
                .iter()
                .find(|reply| reply.starts_with("error"));
            (error.is_some() || heard.replies.len() >= asked).then(|| error.cloned())
        })?;
        match error {
            None => Ok(()),
            Some(error) => Err(format!("{}: {error}", self.name).into()),
        }
    }

    /// Waits until the bus has said its last line, which must be a good-bye.
    pub fn await_end(&mut self, limit: Duration) -> Outcome {
        let end = self.wait(limit, "the end", |heard| heard.end.clone())?;
        match end.starts_with("closed bye ") {
            true => Ok(()),
            false => Err(format!("{}: {end}", self.name).into()),
        }
    }

    /// The reply to a command, once it is there.
    pub fn reply(&self, place: usize) -> String {
        self.heard().replies.get(place).cloned().unwrap_or_default()
    }

    /// What it was sent since it was told to [`forget`](Self::forget).
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.heard().deliveries.clone()
    }

    /// How many that is.
    pub fn delivered(&self) -> usize {
        self.heard().deliveries.len()
    }

    /// When each of them had come.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.heard().arrivals.clone()
    }

    /// Forgets replies and deliveries; all replies are there.
    pub fn forget(&mut self) {
        let mut heard = self.heard();
        heard.deliveries.clear();
        heard.arrivals.clear();
        heard.replies.clear();
        drop(heard);
        self.asked = 0;
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.shared
            .heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(
        &self,
        limit: Duration,
        what: &str,
        answer: impl Fn(&Heard) -> Option<T>,
    ) -> Outcome<T> {
        let waiting = |heard: &mut Heard| answer(heard).is_none() && heard.end.is_none();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.heard(), limit, waiting);
        let (heard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        answer(&heard).ok_or_else(|| match &heard.end {
            Some(end) => format!("{}: no {what}, but {end}", self.name).into(),
            None => format!("{}: no {what} within {limit:?}", self.name).into(),
        })
    }
}

/// Notes what the bus says, until it says no more.
fn read(mut reader: BufReader<UnixStream>, shared: &Shared) {
    loop {
        let item = next(&mut reader);
        let mut heard = shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = match item {
            Ok((line, Some(payload))) => {
                heard.deliveries.push(Delivery {
                    head: line,
                    payload,
                });
                heard.arrivals.push(Instant::now());
                false
            }
            Ok((line, None)) => note(&mut heard, line),
            Err(error) => {
                heard.end.get_or_insert(format!("the connection: {error}"));
                true
            }
        };
        drop(heard);
        shared.changed.notify_all();
        if is_over {
            return;
        }
    }
}

/// Notes a line; whether it is the last.
fn note(heard: &mut Heard, line: String) -> bool {
    if line.starts_with("ok") || line.starts_with("error") {
        // Only the reply to `clients` is a number alone.
        match line
            .strip_prefix("ok ")
            .and_then(|count| count.parse().ok())
        {
            Some(count) if count > 0 => heard.part = Some((line, count)),
            _ => heard.replies.push(line),
        }
    } else if line.starts_with(' ') {
        if let Some((reply, missing)) = &mut heard.part {
            reply.push('\n');
            reply.push_str(&line);
            *missing -= 1;
        }
        if let Some((reply, _)) = heard.part.take_if(|(_, missing)| *missing == 0) {
            heard.replies.push(reply);
        }
    } else if line.starts_with("bus ") {
        heard.greeting = Some(line);
    } else {
        heard.end = Some(line);
        return true;
    }
    false
}

/// A line, and the message of a delivery.
fn next(reader: &mut BufReader<UnixStream>) -> std::io::Result<(String, Option<String>)> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end_matches('\n').len());
    if !line.starts_with("msg ") {
        return Ok((line, None));
    }
    let length = line
        .rsplit(' ')
        .next()
        .and_then(|word| word.parse::<usize>().ok());
    let mut payload = vec![0; length.ok_or(std::io::ErrorKind::InvalidData)? + 1];
    reader.read_exact(&mut payload)?;
    payload.pop();
    let payload = String::from_utf8_lossy(&payload).into_owned();
    Ok((line, Some(payload)))
}
