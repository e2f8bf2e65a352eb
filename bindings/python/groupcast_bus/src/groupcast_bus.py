"""A client of groupcast's message bus: lines of text over a plain socket (docs/bus.md).

Every command waits for its reply. What comes in between, deliveries and views, is kept for ``receive``.
Lists travel as S-expressions.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import selectors
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Bus",
    "BusError",
    "Character",
    "Closed",
    "Dotted",
    "Event",
    "Full",
    "Gap",
    "Left",
    "Message",
    "Quoted",
    "Symbol",
    "TraceEnded",
    "View",
    "dumps",
    "loads",
]

#: The most lists and marks in one another that are read or written.
DEPTH_MAX = 1000
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
#: The most bytes of deliveries that wait to be received. Beyond it no reply is waited for, since more may come
#: before it.
KEPT_MAX = 64 << 20
#: Messages of up to this many bytes are sent without asking how long one may be: a bus that takes less is none of use.
SMALL = 1024
#: What the system says of a connection whose other side it does not reach any more, besides that it was broken.
GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


class BusError(Exception):
    """The bus did not carry out a command."""

    def __init__(self, code: str, column: int, text: str) -> None:
        super().__init__(f"{code} (column {column}): {text}")
        self.code, self.column, self.text = code, column, text


class Full(BusError):
    """Too much waits to be received: receive it first. What was sent without a reply may have arrived or not."""

    def __init__(self) -> None:
        super().__init__("full", 0, "too much waits to be received: receive it first")


class Closed(ConnectionError):
    """The connection has ended; ``code`` is the bus's word for why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Symbol(str):
    """A symbol, as it is written; what is no string, number, character or bytes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({super().__repr__()})"


class Character(str):
    """A character: what follows ``#\\``, such as ``a`` or ``Space``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Character({super().__repr__()})"


@dataclass(frozen=True)
class Quoted:
    """An item with a mark before it: ``'``, `` ` ``, ``,``, ``,@``, ``#'`` or ``#``."""

    mark: str
    item: Any


@dataclass(frozen=True)
class Dotted:
    """A list whose last item stands behind a dot."""

    items: tuple[Any, ...]
    tail: Any


@dataclass(frozen=True)
class Message:
    """A delivery. ``value`` is the list that it is, or None; ``sender`` is there after ``sender(True)``."""

    tag: str
    domains: tuple[str, ...]
    data: bytes
    value: list[Any] | Dotted | None
    syntax: str
    sender: str | None = None


@dataclass(frozen=True)
class View:
    """A change of a domain, after ``views(True)``."""

    domain: str
    kind: str
    cause: str
    who: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Gap:
    """Of a bimodal domain: of what a daemon sent, these are lost to this client."""

    domain: str
    daemon: str
    first: int
    last: int


@dataclass(frozen=True)
class Left:
    """This client is no longer in a domain: the daemon's rules have changed. ``code`` is the bus's word for why."""

    domain: str
    code: str
    text: str


@dataclass(frozen=True)
class TraceEnded:
    """The trace of that name could not be written any more, after ``trace``."""

    name: str
    text: str


#: What comes in of itself.
Event = Message | View | Gap | Left | TraceEnded
#: What is sent as it is, and what is sent as a list.
Data = bytes | bytearray | memoryview
Items = list[Any] | tuple[Any, ...] | Dotted


class Bus:
    """A connection to the bus of a daemon at ``IP:PORT`` or ``unix:PATH``, or over an open socket, ``fd:NUMBER``.

    One thread at a time may be in a call, waiting or not; only ``close`` may come from another one meanwhile.
    """

    def __init__(self, address: str, timeout: float | None = 30.0) -> None:
        self._socket = _connect(address, timeout)
        # Calls wait in ``_wait`` and nowhere else: what a signal interrupts there has moved nothing.
        self._socket.setblocking(False)
        self._timeout = timeout
        #: Held by the thread that is in a call.
        self._calls = threading.RLock()
        self._buffer = bytearray()
        self._unsent = bytearray()
        #: Commands so far, and replies to them: the n-th reply is that to the n-th command, whoever waits for it.
        self._asked = 0
        self._answered = 0
        #: What came or goes is in part where it was and in part where it belongs; see ``_whole``.
        self._torn = False
        #: Why the bus has ended the connection.
        self._end: Closed | None = None
        self._events: deque[Event] = deque()
        #: The bytes of the deliveries among them.
        self._kept = 0
        #: The longest message in bytes, once it is known.
        self._message_max: int | None = None
        #: The private name; empty until the greeting.
        self.name = ""
        try:
            while len(self._buffer) < 4:
                self._fill()
            begin = bytes(self._buffer[:4])
            if begin == b"gcst":
                raise Closed("other", f"{address} is no bus, but where the daemon listens for other clients")
            if begin not in (b"bus ", b"clos"):
                raise Closed("other", f"{address} is no bus")
            self.name = words(self._line())[2]
        except TimeoutError:
            self._socket.close()
            raise TimeoutError(f"{address} says nothing: it is no bus, or one that speaks TLS, or hangs") from None
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Bus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accept(self, tag: str, domain: str, *, ring: bool = False) -> None:
        """Take the messages to ``domain`` (or ``*.domain``) whose tag matches the regular expression ``tag``.

        With ``ring`` the domain and all below it have an order of their own.
        """
        self._command(f"accept {quote(tag)} {quote(domain)}{' ring' if ring else ''}")

    def reject(self, tag: str, domain: str) -> None:
        """Take the identical ``accept`` back."""
        self._command(f"reject {quote(tag)} {quote(domain)}")

    def send(self, tag: str, domains: str | list[str], message: Data | str | Items) -> None:
        """Send bytes, a text, or a list; returns when the message is accepted.

        One that is too long is a ``BusError`` with the code ``too-long``: the bus would end the connection.
        """
        if isinstance(message, (list, tuple, Dotted)):
            mark, data = "sexp", dumps(message)
        elif isinstance(message, str):
            mark, data = "raw", message.encode(errors="surrogateescape")
        elif isinstance(message, (bytes, bytearray, memoryview)):
            mark, data = "raw", bytes(message)
        else:
            raise TypeError(f"a message is bytes, a text or a list, and no {type(message).__name__}")
        names = [domains] if isinstance(domains, str) else domains
        if not names:
            raise ValueError("a message goes to one domain at least")
        if len(data) > SMALL:
            self._refuse_too_long(len(data))
        head = f"msg {quote(tag)} {','.join(quote(name) for name in names)} {mark} {len(data)}\n"
        self._ask(head.encode() + data + b"\n")

    def _refuse_too_long(self, length: int) -> None:
        """Raises an error for a message at which the bus would end the connection."""
        if self._message_max is None:
            # A bus that does not say it is believed to take what is sent.
            self._message_max = int(self.info().get("message-max", sys.maxsize))
        if length > self._message_max:
            text = f"the message has {length} bytes, at most {self._message_max} are allowed: split it"
            raise BusError("too-long", 0, text)

    def identify(self, name: str) -> None:
        """Be called ``name``; an empty one takes it back."""
        self._command(f"id {quote(name)}")

    def ping(self, tag: str, domain: str) -> list[str]:
        """The private names of those that would get such a message; the tag ``*`` stands for all tags."""
        return words(self._command(f"ping {quote(tag)} {quote(domain)}"))

    def loop_back(self, on: bool) -> None:
        """Whether own messages come back."""
        self._command(f"loop-back {'on' if on else 'off'}")

    def service(self, word: str) -> None:
        """The service of the messages that follow."""
        self._command(f"service {quote(word)}")

    def views(self, on: bool) -> None:
        """Whether changes of the domains come as ``View``."""
        self._command(f"views {'on' if on else 'off'}")

    def sender(self, on: bool) -> None:
        """Whether messages name their sender."""
        self._command(f"from {'on' if on else 'off'}")

    def trace(self, name: str | None) -> None:
        """Have this connection written down in the daemon's directory for traces, under this name; None ends it."""
        self._command(f"tracefile {'off' if name is None else quote(name)}")

    def info(self) -> dict[str, str]:
        """What this connection is and has chosen."""
        found = re.findall(r'([^ ="]+)=("(?:[^"\\]|\\.)*"|[^ "]*)', self._command("info"))
        return {key: unquote(value) for key, value in found}

    def clients(self) -> list[list[str]]:
        """All clients of the bus: name, id and domains of each."""
        with self._alone():
            count = int(self._command("clients"))
            return [words(self._line()) for _ in range(count)]

    def receive(self, timeout: float | None = None) -> Event:
        """The next message or other event; waits for it, for ``timeout`` seconds at most if that is given."""
        with self._alone():
            before = self._timeout
            try:
                self._timeout = timeout
                while not self._events:
                    self._read()
            finally:
                self._timeout = before
            with self._whole():
                event = self._events.popleft()
                if isinstance(event, Message):
                    self._kept -= len(event.data)
            return event

    def poll(self) -> Event | None:
        """The next message or other event that has come, if there is one; never waits."""
        try:
            return self.receive(0)
        except TimeoutError:
            return None

    def fileno(self) -> int:
        """The socket, for ``select``. Before a wait, ``poll`` until there is nothing more."""
        return self._socket.fileno()

    def close(self) -> None:
        """Leave, once all that was sent is carried out. A message that was sent in part is sent whole first.

        If another thread is in a call, the connection ends at once, and that call raises ``Closed``.
        """
        if self._socket.fileno() < 0:
            return
        if not self._calls.acquire(blocking=False):
            self._end = Closed("bye", "another thread of this program has closed the connection")
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            return
        try:
            self._begin(b"quit\n")
            self._flush()
            while True:
                self._read()
                self._events.clear()
        except OSError:
            pass
        finally:
            self._socket.close()
            self._calls.release()

    def _command(self, line: str) -> str:
        return self._ask(line.encode() + b"\n")

    def _ask(self, command: bytes) -> str:
        with self._alone():
            if self._socket.fileno() < 0:
                raise Closed("bye", "this program has closed the connection")
            if self._kept > KEPT_MAX:
                raise Full
            number = self._begin(command)
            self._flush()
            line = self._line()
            while self._answered < number or line.startswith(" "):
                # A reply that came after its call was given up or interrupted, or a line of one.
                line = self._line()
        word, _, rest = line.partition(" ")
        if word == "ok":
            return rest
        code, column, text = rest.split(" ", 2)
        raise BusError(code, int(column), text)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """What is done in here is done by one thread: two that read take each other's bytes."""
        if not self._calls.acquire(blocking=False):
            raise RuntimeError(
                "another thread is in a call of this Bus: have one thread make all calls, or connect twice"
            )
        try:
            yield
        finally:
            self._calls.release()

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What is done in here waits for nothing, and is done as a whole.

        An exception of a signal (``KeyboardInterrupt``) that comes in the middle of it, and not while a call waits,
        leaves a connection of which nobody knows where it is: it cannot be used any more.
        """
        if self._torn:
            raise Closed("other", "a call was interrupted in the middle of a message")
        self._torn = True
        try:
            yield
        except OSError as error:
            # Nothing was moved.
            self._torn = False
            has_ended = isinstance(error, ConnectionError) or error.errno in GONE
            if has_ended and not isinstance(error, Closed):
                raise Closed("other", f"the connection has ended: {error}") from error
            raise
        self._torn = False

    def _begin(self, command: bytes) -> int:
        """Queues the command to be sent; returns its number."""
        with self._whole():
            self._unsent += command
            self._asked += 1
        return self._asked

    def _wait(self, events: int) -> int:
        """Waits for one of the events at the socket, for the time-out at most; returns which came."""
        if self._socket.fileno() < 0:
            raise Closed("bye", "this program has closed the connection")
        with _Selector() as selector:
            selector.register(self._socket, events)
            for _, ready in selector.select(self._timeout):
                return ready
        raise TimeoutError("the bus says nothing, or takes nothing")

    def _flush(self) -> None:
        """Sends all, and reads meanwhile: the bus may wait for that. A time-out leaves the rest to the next call."""
        try:
            self._send_unsent()
        except Closed as ended:
            # Why stands in the bus's last line, if that has come.
            with contextlib.suppress(OSError):
                while True:
                    self._read()
            raise self._end or ended from None

    def _send_unsent(self) -> None:
        while self._unsent:
            ready = self._wait(selectors.EVENT_READ | selectors.EVENT_WRITE)
            if ready & selectors.EVENT_READ:
                self._take()
            if ready & selectors.EVENT_WRITE:
                with self._whole(), contextlib.suppress(BlockingIOError):
                    del self._unsent[: self._socket.send(self._unsent[: 1 << 16])]

    def _line(self) -> str:
        """The next line of a reply; deliveries, views and gaps are kept."""
        while True:
            line = self._read()
            if line is not None:
                return line
            if self._kept > KEPT_MAX:
                raise Full

    def _read(self) -> str | None:
        """Reads a line, with the bytes of a delivery; None if it is kept. Nothing is lost by a time-out."""
        while (end := self._buffer.find(b"\n")) < 0:
            self._fill()
        line = self._buffer[:end].decode()
        word, _, rest = line.partition(" ")
        event: Event | None = None
        kept = 0
        if word == "msg":
            length = int(rest.rpartition(" ")[2])
            while len(self._buffer) < end + 1 + length + 1:
                self._fill()
            event = _message(rest, bytes(self._buffer[end + 1 : end + 1 + length]))
            end += length + 1
            kept = length
        elif word == "view":
            domain, kind, cause, who, *members = words(rest)
            event = View(domain, kind, cause, who, tuple(members))
        elif word == "gap":
            domain, daemon, first, last = words(rest)
            event = Gap(domain, daemon, int(first), int(last))
        elif word == "left":
            domain, code, text = _split(rest, 3)
            event = Left(domain, code, text)
        elif word == "trace-ended":
            name, text = _split(rest, 2)
            event = TraceEnded(name, text)
        is_reply = bool(self.name) and word in ("ok", "error")
        with self._whole():
            del self._buffer[: end + 1]
            self._answered += is_reply
            if event:
                self._events.append(event)
                self._kept += kept
        if word == "closed":
            code, _, text = rest.partition(" ")
            self._end = Closed(code, text)
            raise self._end
        # What a newer bus says of itself is for newer programs.
        return line if is_reply or not self.name or not word else None

    def _fill(self) -> None:
        self._wait(selectors.EVENT_READ)
        self._take()

    def _take(self) -> None:
        """Takes what has come."""
        with self._whole(), contextlib.suppress(BlockingIOError):
            more = self._socket.recv(1 << 16)
            self._buffer += more
            if not more:
                raise self._end or Closed("other", "the connection ended without a word")


def _connect(address: str, timeout: float | None) -> socket.socket:
    try:
        if address.startswith("fd:") and address[3:].isascii() and address[3:].isdigit():
            number = os.dup(int(address[3:]))
            try:
                return socket.socket(fileno=number)
            except BaseException:
                os.close(number)
                raise
        if not address.startswith("unix:"):
            host, _, port = address.rpartition(":")
            if not host or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
                raise ValueError(f"{address!r} is no address of a bus: IP:PORT, unix:PATH or fd:NUMBER")
            connected = socket.create_connection((host.strip("[]"), int(port)), timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.settimeout(timeout)
            connected.connect(address[5:])
        except BaseException:
            connected.close()
            raise
        return connected
    except OSError as error:
        # The system does not say to what it could not connect.
        if error.filename is None:
            error.filename = address
        raise


def _message(head: str, data: bytes) -> Message:
    tag, domains, *options, _ = items(head)
    sender, syntax = None, "sexp"
    for option in options:
        if option[0].startswith("from="):
            sender = words(option[0][5:])[0]
        else:
            syntax = option[0]
    value: list[Any] | Dotted | None = None
    if syntax == "sexp":
        # The bus has judged it; what is no list here all the same must not cost the reply that is waited for.
        with contextlib.suppress(ValueError):
            value = loads(data)
    names = tuple(unquote(name) for name in domains)
    return Message(unquote(tag[0]), names, data, value, syntax, sender)


#: One domain of several, and one word with whatever is quoted in it.
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^ ,"]+')
_ITEM = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^ "])+')
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t"}


def words(text: str) -> list[str]:
    """The words of a line, quotes taken off."""
    return [unquote(item) for item in re.findall(r'"(?:[^"\\]|\\.)*"|[^ "]+', text)]


def _split(text: str, count: int) -> list[str]:
    """``count`` words of a line, of which the last is the rest of it as it is."""
    found: list[str] = []
    while len(found) < count - 1:
        word = _ITEM.match(text)
        if word is None:
            raise ValueError(f"too few words: {text!r}")
        found.append(unquote(word[0]))
        text = text[word.end() + 1 :]
    return [*found, text]


def items(text: str) -> list[list[str]]:
    """The words of a delivery's line as they are written; its second, the domains, cut at its commas."""
    found = _ITEM.findall(text)
    return [_WORD.findall(item) if index == 1 else [item] for index, item in enumerate(found)]


def quote(word: str) -> str:
    """A word as the bus reads it."""
    if word and re.fullmatch(r'[^\s",\x00-\x1f\x7f]+', word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda it: f"\\x{ord(it[0]):02x}", escaped) + '"'


def unquote(word: str) -> str:
    """A word without its quotes."""
    if not word.startswith('"'):
        return word

    def meant(it: re.Match[bytes]) -> bytes:
        escape = it[1].decode("latin-1")
        return bytes([int(escape[1:], 16)]) if escape[0] == "x" else _ESCAPES.get(escape, it[1])

    inner = word[1:-1].encode()
    return re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", meant, inner, flags=re.S).decode()


def dumps(value: Any) -> bytes:
    """An S-expression in its canonical form."""
    out: list[bytes] = []
    # What is still to be written, last first: a stack, so that depth costs no recursion.
    todo: list[Any] = [value]
    depth = 0
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple, Dotted, Quoted)):
            depth += 1
            if depth > DEPTH_MAX:
                raise ValueError(f"more than {DEPTH_MAX} levels of lists and marks, or a list that is in itself")
        if isinstance(item, _Raw):
            out.append(item.text)
            depth -= item.ends
        elif isinstance(item, (list, tuple, Dotted)):
            if isinstance(item, Dotted) and not item.items:
                raise ValueError("an item stands before the dot of a list")
            inner = [*item.items, _Raw(b"."), item.tail] if isinstance(item, Dotted) else list(item)
            out.append(b"(")
            todo.append(_Raw(b")", ends=True))
            for index, each in reversed(list(enumerate(inner))):
                todo.append(each)
                if index:
                    todo.append(_Raw(b" "))
        elif isinstance(item, Quoted):
            if item.mark not in _MARKS or (item.mark == "#" and not isinstance(item.item, (list, tuple, Dotted))):
                raise ValueError(f"{item.mark!r} is no mark of {item.item!r}")
            gap = b" " if item.mark == "," and isinstance(item.item, Symbol) and item.item.startswith("@") else b""
            todo += [_Raw(b"", ends=True), item.item]
            out.append(item.mark.encode() + gap)
        else:
            out.append(_atom(item))
    return b"".join(out)


@dataclass(frozen=True)
class _Raw:
    """Text that ``dumps`` writes as it is. ``ends`` says that a list or a mark ends with it."""

    text: bytes
    ends: bool = False


def _atom(item: Any) -> bytes:
    if isinstance(item, Symbol):
        return _readable(item.encode(errors="surrogateescape"), item)
    if isinstance(item, Character):
        return _readable(b"#\\" + item.encode(errors="surrogateescape"), item)
    if isinstance(item, str):
        return b'"' + item.encode(errors="surrogateescape").replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    if isinstance(item, (bytes, bytearray, memoryview)):
        return b"#u8(" + b" ".join(str(byte).encode() for byte in bytes(item)) + b")"
    if item is None or item is False:
        return b"nil"
    if item is True:
        return b"t"
    if isinstance(item, float) and not math.isfinite(item):
        raise ValueError(f"{item} has no form in a list")
    if isinstance(item, int):
        return b"-" + _digits(-item) if item < 0 else _digits(item)
    if isinstance(item, float):
        return repr(item).encode()
    raise TypeError(f"{type(item).__name__} is no item of a list")


def _readable(text: bytes, item: str) -> bytes:
    """The text of an item, if what reads it finds this one item, and not another or several."""
    if not _PLAIN.fullmatch(text):
        try:
            read = loads(b"(" + text + b")")
        except ValueError:
            read = None
        if not isinstance(read, list) or [(type(it), it) for it in read] != [(type(item), item)]:
            raise ValueError(f"{item!r} would be read as something else: write it between bars, as |a b|")
    return text


#: Up to here Python reads and writes numbers itself, wherever its limit is set.
_DIGITS_MAX = 600
_BITS_MAX = 1990
_MARKS = ("'", "`", ",", ",@", "#'", "#")
_PLAIN = re.compile(rb"[A-Za-z*/<>=!?:_%&][A-Za-z0-9*/<>=!?:_%&.+-]*")
_SKIP = re.compile(rb"(?:[ \t\n\r\x0b\x0c]+|;[^\n]*)*")
_COMMENT = re.compile(rb"#\||\|#")
_MARK = re.compile(rb",@|#'|#(?=\()|['`,]")
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.S)
_BYTES = re.compile(rb"#u8\(([0-9 \t\n\r\x0c]*)\)")
_CHARACTER = re.compile(rb"#\\([\s\S][^ \t\n\r\x0b\x0c()\"'`,;]*)")
_ATOM = re.compile(rb"(?:[^ \t\n\r\x0b\x0c()\"'`,;|\\]|\\[\s\S]|\|(?:[^|\\]|\\[\s\S])*\|)+")
_INTEGER = re.compile(rb"[+-]?[0-9]+\.?")
_FLOAT = re.compile(rb"[+-]?(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+\.?(?=[eE]))(?:[eE][+-]?[0-9]+)?")


def _digits(number: int) -> bytes:
    """The digits of a number that is not negative; Python itself writes 4,300 of them at most."""
    if number.bit_length() <= _BITS_MAX:
        return str(number).encode()
    half = int(number.bit_length() * math.log10(2)) // 2
    high, low = divmod(number, 10**half)
    return _digits(high) + _digits(low).rjust(half, b"0")


def _number(digits: bytes) -> int:
    """The number that digits mean; Python itself reads 4,300 of them at most."""
    if len(digits) <= _DIGITS_MAX:
        return int(digits)
    half = len(digits) // 2
    shift: int = 10**half
    return _number(digits[:-half]) * shift + _number(digits[-half:])


def _integer(text: bytes) -> int:
    number = _number(text.strip(b"+-."))
    return -number if text.startswith(b"-") else number


def loads(data: Data | str) -> list[Any] | Dotted:
    """The list that an S-expression is; a ``ValueError`` says what is none."""
    data = data.encode(errors="surrogateescape") if isinstance(data, str) else bytes(data)
    at = 0
    # For each list that is open, and around them all: its items, how many stand before its dot, and the marks that
    # wait for an item.
    stack: list[list[Any]] = [[]]
    dots: list[int | None] = [None]
    marks: list[list[str]] = [[]]
    while True:
        at = _skip(data, at)
        if at == len(data):
            break
        if data[at : at + 1] == b"(":
            if len(stack) > DEPTH_MAX:
                raise ValueError("too many levels")
            stack.append([])
            dots.append(None)
            marks.append([])
            at += 1
            continue
        if data[at : at + 1] == b")":
            if len(stack) == 1:
                raise ValueError(f"nothing is closed at byte {at}")
            inner, dot = stack.pop(), dots.pop()
            if marks.pop():
                raise ValueError(f"a mark stands before an item: byte {at}")
            if dot is not None and len(inner) != dot + 1:
                raise ValueError(f"a dot stands before the last item: byte {at}")
            item: Any = inner if dot is None else Dotted(tuple(inner[:-1]), inner[-1])
            at += 1
        elif mark := _MARK.match(data, at):
            marks[-1].append(mark[0].decode())
            at = mark.end()
            continue
        else:
            begin = at
            item, at = _read_atom(data, at)
            if item is _DOT:
                if len(stack) == 1 or not stack[-1] or dots[-1] is not None or marks[-1]:
                    raise ValueError(f"a dot stands between two items: byte {begin}")
                dots[-1] = len(stack[-1])
                continue
        while marks[-1]:
            item = Quoted(marks[-1].pop(), item)
        stack[-1].append(item)
    if len(stack) != 1 or len(stack[0]) != 1 or marks[0]:
        raise ValueError("this is not one list")
    value = stack[0][0]
    if not isinstance(value, (list, Dotted)):
        raise ValueError("this is an item, and not a list")
    return value


#: What a lone dot is read as.
_DOT = object()


def _skip(data: bytes, at: int) -> int:
    while True:
        found = _SKIP.match(data, at)
        at = found.end() if found else at
        if data[at : at + 2] != b"#|":
            return at
        depth = 0
        for it in _COMMENT.finditer(data, at):
            depth += 1 if it[0] == b"#|" else -1
            if depth == 0:
                at = it.end()
                break
        else:
            raise ValueError("a comment has no end")


def _read_atom(data: bytes, at: int) -> tuple[Any, int]:
    if found := _STRING.match(data, at):
        return re.sub(rb"\\([\s\S])", rb"\1", found[1]).decode(errors="surrogateescape"), found.end()
    if found := _BYTES.match(data, at):
        return bytes(int(number) for number in found[1].split()), found.end()
    if found := _CHARACTER.match(data, at):
        return Character(found[1].decode(errors="surrogateescape")), found.end()
    found = _ATOM.match(data, at)
    if not found:
        raise ValueError(f"nothing can be read at byte {at}")
    text = found[0]
    if text == b".":
        return _DOT, found.end()
    if _INTEGER.fullmatch(text):
        return _integer(text), found.end()
    if _FLOAT.fullmatch(text):
        return float(text), found.end()
    return Symbol(text.decode(errors="surrogateescape")), found.end()
