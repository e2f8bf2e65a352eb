//! Metrics for Prometheus and what reads its text format, over HTTP at an address of their own
//! (docs/metrics.md).
//!
//! A scraper may be slow, and the daemon's thread does not wait for it: threads of this module read
//! the requests and write the answers, and ask the daemon for its status, once a second at most.
//! The daemon's thread only says its status.

mod http;
mod text;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::error::DaemonError;
use crate::stop::{drain, pair};

/// The most connections at a time; the next one ends the oldest of them.
const CONNECTIONS_MAX: usize = 8;
/// The most threads of connections, those of ended ones included. Where there are so many, the next
/// connection is closed at once.
const THREADS_MAX: usize = 4 * CONNECTIONS_MAX;
/// How long a connection may take, from its request to the end of the answer.
const CONNECTION_WITHIN: Duration = Duration::from_secs(5);
/// How long the daemon may take to say its status.
const STATUS_WITHIN: Duration = Duration::from_secs(2);
/// Requests get the last answer again as long as it is not older than this.
const FRESH: Duration = Duration::from_secs(1);
/// How long to wait after an accept that failed for want of a resource.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The stack of a thread: all of it may be locked into memory.
const STACK: usize = 128 << 10;

/// A question for the status, and where it goes.
type Question = SyncSender<Value>;

/// The metrics, from the side of the daemon's loop.
#[derive(Debug)]
pub(crate) struct Metrics {
    address: SocketAddr,
    questions: Receiver<Question>,
    /// Readable when there is a question.
    wake: mio::net::UnixStream,
    /// Its end ends the thread that accepts.
    stop: Option<UnixStream>,
    acceptor: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Listens at `address`.
    pub(crate) fn open(address: SocketAddr) -> Result<Self, DaemonError> {
        let failed = |source| DaemonError::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (ask, questions) = sync_channel(1);
        let (waker, wake) = pair().map_err(failed)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let desk = Arc::new(Desk {
            ask,
            waker,
            kept: Mutex::new(None),
            open: Mutex::default(),
            threads: AtomicUsize::new(0),
        });
        let acceptor = spawn("metrics", move || accept(&listener, &stopped, &desk));
        Ok(Self {
            address,
            questions,
            wake,
            stop: Some(stop),
            acceptor: Some(acceptor.map_err(failed)?),
        })
    }

    /// The loop wakes with `token` when there is a question.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.wake, token, Interest::READABLE)
    }

    /// The address that it is bound to, with the port that the system chose if none was given.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the question that has come, if one has, with what `status` says. What becomes of
    /// that is not the loop's work.
    pub(crate) fn answer(&mut self, status: impl FnOnce() -> Value) {
        drain(&mut self.wake);
        if let Ok(question) = self.questions.try_recv() {
            // One that is not waited for any more takes nothing.
            let _ = question.try_send(status());
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(acceptor) = self.acceptor.take() {
            // If it has panicked, the address is free as well.
            let _ = acceptor.join();
        }
    }
}

/// Where the threads of connections get their answers.
struct Desk {
    ask: SyncSender<Question>,
    /// Wakes the loop.
    waker: UnixStream,
    /// The last answer, and when it was given; `None` if the daemon did not say its status in time.
    kept: Mutex<Option<(Instant, Option<Arc<str>>)>>,
    /// Connections now, the oldest first.
    open: Mutex<VecDeque<Arc<TcpStream>>>,
    /// Their threads, and those of ended connections that have not ended yet.
    threads: AtomicUsize,
}

impl Desk {
    /// The metrics; `None` if the daemon does not say them in time, or has ended.
    fn metrics(&self) -> Option<Arc<str>> {
        let came = Instant::now();
        // A request that comes meanwhile waits, and gets the same, even if that is nothing.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*kept
            && (*at >= came || text.is_some() && at.elapsed() < FRESH)
        {
            return text.clone();
        }
        let text = self.ask().map(|status| text::of(&status).into());
        *kept = Some((Instant::now(), text.clone()));
        text
    }

    /// Counts a connection. If it is one too many, the oldest ends: connections that ask nothing
    /// must not keep others out for the time that they may take.
    fn enter(&self, socket: Arc<TcpStream>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(socket);
        if open.len() > CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            // Its thread finds the end, or that there was one already.
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// The thread of a connection ends.
    fn leave(&self, socket: &Arc<TcpStream>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|it| !Arc::ptr_eq(it, socket));
        drop(open);
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    fn ask(&self) -> Option<Value> {
        let (question, answer) = sync_channel(1);
        self.ask.try_send(question).ok()?;
        // If it is full, the loop wakes all the same.
        let _ = (&self.waker).write(&[0]);
        answer.recv_timeout(STATUS_WITHIN).ok()
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
    thread.spawn(work)
}

/// Accepts connections, a thread for each, until the other end of `stopped` is closed.
fn accept(listener: &TcpListener, stopped: &UnixStream, desk: &Arc<Desk>) {
    loop {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        // If waiting fails, accepting will fail or find nothing.
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok((socket, _)) => serve(socket, desk),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn serve(socket: TcpStream, desk: &Arc<Desk>) {
    if desk.threads.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
        desk.threads.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let socket = Arc::new(socket);
    desk.enter(Arc::clone(&socket));
    let (of_thread, served) = (Arc::clone(desk), Arc::clone(&socket));
    let begun = spawn("metrics", move || {
        let end = Instant::now() + CONNECTION_WITHIN;
        // A peer that has gone or is too slow is told nothing.
        let _ = http::serve(&served, end, || of_thread.metrics());
        of_thread.leave(&served);
    });
    if begun.is_err() {
        desk.leave(&socket);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::atomic::AtomicBool;

    use serde_json::json;

    use super::*;

    /// What the server at `address` says to `request`.
    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut socket = TcpStream::connect(address).unwrap();
        // It may have been refused, and closed, before all of it is written.
        let _ = socket.write_all(request);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// A daemon's loop that answers until it is told to stop; how often it was asked.
    fn daemon(mut metrics: Metrics, stop: Arc<AtomicBool>) -> JoinHandle<usize> {
        thread::spawn(move || {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                metrics.answer(|| {
                    asked += 1;
                    json!({"name": "h1", "version": "1", "protocol": "ring", "groups": 7})
                });
                thread::sleep(Duration::from_millis(1));
            }
            asked
        })
    }

    #[test]
    fn scrapes_are_answered_and_everything_else_is_refused() {
        let metrics = Metrics::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        let stop = Arc::new(AtomicBool::new(false));
        let loop_ = daemon(metrics, Arc::clone(&stop));
        let good = ask(
            address,
            b"GET /metrics HTTP/1.1\r\nHost: h1\r\nAccept: */*\r\n\r\n",
        );
        let (head, body) = good.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"));
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(body.contains("\ngroupcast_groups 7\n"), "{body}");
        let only_head = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert_eq!(only_head, format!("{head}\r\n\r\n"));
        for (request, code) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"GET /metrics?x=y HTTP/1.1\n\n", "200"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\xff\x00 \r\n\r\n", "400"),
            (&[b'x'; 64 << 10], "431"),
        ] {
            let answer = ask(address, request);
            assert!(
                answer.starts_with(&format!("HTTP/1.0 {code} ")),
                "{code}: {answer}"
            );
        }
        stop.store(true, Ordering::Relaxed);
        assert!(
            loop_.join().unwrap() < 4,
            "the daemon is asked once a second"
        );
        // The address goes with the daemon.
        TcpListener::bind(address).unwrap();
    }

    #[test]
    fn silent_connections_are_few_and_end() {
        let metrics = Metrics::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        let stop = Arc::new(AtomicBool::new(false));
        let loop_ = daemon(metrics, Arc::clone(&stop));
        let begun = Instant::now();
        let mut silent = Vec::new();
        for _ in 0..10 {
            for _ in 0..CONNECTIONS_MAX {
                silent.push(TcpStream::connect(address).unwrap());
            }
            let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
            // Those that were ended have no thread any more.
            thread::sleep(Duration::from_millis(50));
        }
        assert!(begun.elapsed() < CONNECTION_WITHIN, "nobody was waited for");
        for mut socket in silent {
            socket.read_to_end(&mut Vec::new()).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        loop_.join().unwrap();
    }

    #[test]
    fn a_daemon_that_is_busy_is_not_waited_for_without_an_end() {
        let metrics = Metrics::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        // However many ask, they wait for the same answer and not for each other.
        let asking: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|_| thread::spawn(move || ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")))
            .collect();
        for answer in asking {
            let answer = answer.join().unwrap();
            assert!(answer.starts_with("HTTP/1.0 503 "), "{answer}");
        }
    }
}
