//! As much of HTTP/1.0 as a scrape takes: one request without a body, and one answer.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
const HEAD_MAX: usize = 8 << 10;
/// The most bytes that are read behind a request: a connection that is closed with some unread may
/// lose the answer.
const BEHIND_MAX: usize = 256 << 10;

/// The path of the metrics.
const PATH: &str = "/metrics";
/// The type of the text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An answer.
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: Arc<str>,
    /// Whether the body goes along.
    has_body: bool,
}

/// Reads a request and answers it, until `end`.
pub(super) fn serve(
    socket: &TcpStream,
    end: Instant,
    metrics: impl FnOnce() -> Option<Arc<str>>,
) -> io::Result<()> {
    let answer = match read_head(socket, end)? {
        Some(head) => answer(&head, metrics),
        None => refusal(
            "431 Request Header Fields Too Large",
            "the request is too long\n",
        ),
    };
    let mut text = format!(
        "HTTP/1.0 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
        answer.status,
        answer.content_type,
        answer.body.len(),
    );
    if answer.status.starts_with("405") {
        text.push_str("Allow: GET, HEAD\r\n");
    }
    text.push_str("\r\n");
    if answer.has_body {
        text.push_str(&answer.body);
    }
    write_all(socket, end, text.as_bytes())?;
    socket.shutdown(Shutdown::Write)?;
    let mut rest = [0; 4096];
    let mut behind = 0;
    while behind < BEHIND_MAX {
        match read(socket, end, &mut rest)? {
            0 => break,
            len => behind += len,
        }
    }
    Ok(())
}

fn answer(head: &[u8], metrics: impl FnOnce() -> Option<Arc<str>>) -> Answer {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = str::from_utf8(line.trim_ascii_end()).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return refusal("400 Bad Request", "this is no request of HTTP/1\n");
    };
    if !version.starts_with("HTTP/1.") {
        return refusal("400 Bad Request", "this is no request of HTTP/1\n");
    }
    if !matches!(method, "GET" | "HEAD") {
        return refusal("405 Method Not Allowed", "metrics can only be read\n");
    }
    let path = target.split('?').next().unwrap_or_default();
    if path != PATH {
        return refusal("404 Not Found", "the metrics are at /metrics\n");
    }
    match metrics() {
        Some(body) => Answer {
            status: "200 OK",
            content_type: TEXT_FORMAT,
            body,
            has_body: method == "GET",
        },
        None => refusal("503 Service Unavailable", "the daemon is busy, or ends\n"),
    }
}

fn refusal(status: &'static str, why: &str) -> Answer {
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: why.into(),
        has_body: true,
    }
}

/// Reads up to the empty line behind the head; `None` if it does not come within [`HEAD_MAX`].
fn read_head(socket: &TcpStream, end: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() <= HEAD_MAX {
        let len = read(socket, end, &mut part)?;
        if len == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..len]);
        let has = |end: &[u8]| head.windows(end.len()).any(|part| part == end);
        if has(b"\r\n\r\n") || has(b"\n\n") {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// How long is left; an error if nothing is.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn read(mut socket: &TcpStream, end: Instant, part: &mut [u8]) -> io::Result<usize> {
    loop {
        socket.set_read_timeout(Some(left(end)?))?;
        match socket.read(part) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn write_all(mut socket: &TcpStream, end: Instant, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        socket.set_write_timeout(Some(left(end)?))?;
        match socket.write(text) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => text = &text[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
