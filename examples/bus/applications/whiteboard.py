"""A whiteboard for several users in web pages: whiteboard.py ADDRESS[,ADDRESS…] DOMAIN NICK [PORT].

Serves the page at http://127.0.0.1:PORT/ and speaks to it through a WebSocket (RFC 6455): an edit of the page goes to
the bus, and what comes back in the order of the bus goes to the page. So every page draws the same strokes in the same
order. This program is the user's own: it listens on the loopback interface only, takes WebSockets only of its own
page (by ``Origin``, and requests only to its own address, by ``Host``), and the daemon knows nothing of it. Every user
of this host can open the page all the same.

An edit is ``(stroke ID COLOUR WIDTH X Y X Y …)`` or ``(erase ID)``: who erases a stroke that is gone already erases
nothing. ``Board`` is the picture, and knows neither page nor bus.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import queue
import re
import socket
import struct
import sys
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from replica import Member

PAGE = Path(__file__).with_name("whiteboard.html")
SIZE = (800, 600)
STROKES_MAX = 5_000
POINTS_MAX = 500
PAGES_MAX = 16
#: Bytes of a message of a page.
FRAME_MAX = 64 << 10
#: Messages that a page may be behind before it is let go; it connects again, and gets all.
BEHIND_MAX = 10_000
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Board:
    """The strokes, in the order in which they are drawn. An edit that is none, or too much, does nothing."""

    def __init__(self) -> None:
        self.strokes: dict[str, list[Any]] = {}

    def apply(self, edit: list[Any]) -> None:
        """Make an edit as all others make it."""
        if not is_edit(edit):
            return
        if edit[0] == "erase":
            self.strokes.pop(edit[1], None)
        elif len(self.strokes) < STROKES_MAX:
            self.strokes.setdefault(edit[1], edit[2:])

    def dump(self) -> list[Any]:
        """All strokes."""
        return [["stroke", id, *stroke] for id, stroke in self.strokes.items()]

    def load(self, items: list[Any]) -> None:
        """Be what ``dump`` said."""
        self.strokes = {}
        for item in items:
            if isinstance(item, list) and item[:1] == ["stroke"]:
                self.apply(item)


def is_edit(edit: object) -> bool:
    """Whether it is an edit, and all of it can be drawn."""
    match edit:
        case ["erase", str(id)]:
            return re.fullmatch("[0-9a-z]{1,40}", id) is not None
        case ["stroke", str(id), str(colour), width, *points]:
            inside = all(type(at) is int and 0 <= at <= SIZE[index % 2] for index, at in enumerate(points))
            is_line = len(points) % 2 == 0 and 2 <= len(points) <= 2 * POINTS_MAX and inside
            is_pen = re.fullmatch("#[0-9a-f]{6}", colour) is not None and type(width) is int and 1 <= width <= 50
            return is_line and is_pen and is_edit(["erase", id])
    return False


class Page:
    """A page that shows the board: what it is to get waits in a queue, which a thread of its own sends."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[bytes | None] = queue.Queue(BEHIND_MAX)

    def tell(self, message: object) -> None:
        """Send it, unless the page is too far behind."""
        with contextlib.suppress(queue.Full):
            self.waiting.put_nowait(frame(TEXT, json.dumps(message).encode()))
            return
        self.let_go()

    def let_go(self) -> None:
        """End its connection, whatever waits."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.waiting.get_nowait()
        self.waiting.put(None)


class Server:
    """The board, its bus, and the pages that show it."""

    def __init__(self, addresses: list[str], domain: str, nick: str, port: int) -> None:
        self.board = Board()
        self.pages: set[Page] = set()
        self._lock = threading.Lock()
        self._edits: queue.Queue[list[Any]] = queue.Queue(1000)
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._told: list[str] = []
        #: What a page that comes later is told.
        self._latest: deque[str] = deque(maxlen=20)
        self._shown: list[Any] = []
        self.member = Member(addresses, domain, nick, self.board, self._told.append)
        self.http = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (Handler,), {"board_server": self}))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"127.0.0.1:{self.http.server_address[1]}"

    def run(self) -> None:
        """Go on for ever: edits of the pages to the bus, and what the bus says to the pages."""
        while True:
            self.member.step(None, [self._woken])
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(1 << 16)
            with contextlib.suppress(queue.Empty):
                while True:
                    self.member.edit(self._edits.get_nowait())
            self._show()

    def take(self, edit: list[Any]) -> None:
        """Take an edit of a page; waits while many wait."""
        self._edits.put(edit)
        self._wake.send(b"x")

    def add(self, page: Page) -> bool:
        """Show a page everything; false if there are too many."""
        with self._lock:
            if len(self.pages) == PAGES_MAX:
                return False
            self.pages.add(page)
            page.tell({"board": self._shown})
            for line in self._latest:
                page.tell({"told": line})
            return True

    def remove(self, page: Page) -> None:
        """The page has gone."""
        with self._lock:
            self.pages.discard(page)

    def _show(self) -> None:
        """Tell the pages how the board has changed."""
        told, self._told[:] = list(self._told), []
        board = self.board.dump()
        with self._lock:
            messages: list[object] = [{"told": line} for line in told]
            # Most changes are strokes at the end.
            if board[: len(self._shown)] == self._shown:
                messages += [{"stroke": stroke} for stroke in board[len(self._shown) :]]
            else:
                messages.append({"board": board})
            self._shown = board
            self._latest.extend(told)
            for page in self.pages:
                for message in messages:
                    page.tell(message)


class Handler(BaseHTTPRequestHandler):
    """Requests of a browser of this host."""

    board_server: Server
    protocol_version = "HTTP/1.1"
    #: A browser that says nothing; pages are asked for a sign of life by TCP alone.
    timeout = 60

    def do_GET(self) -> None:
        """The page, and its WebSocket."""
        address = self.board_server.address
        ours = {address, f"localhost:{address.rpartition(':')[2]}"}
        if self.headers.get("Host") not in ours:
            # A name that somebody has made mean this host.
            self.send_error(403, "not the address of this whiteboard")
        elif self.path == "/":
            page = PAGE.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            ours_by_websocket = " ".join(f"ws://{name}" for name in sorted(ours))
            self.send_header("Content-Security-Policy", f"default-src 'unsafe-inline'; connect-src {ours_by_websocket}")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
        elif self.path != "/bus":
            self.send_error(404)
        elif self.headers.get("Origin") not in {f"http://{name}" for name in ours}:
            # Any page in the browser can ask for a WebSocket to here; only ours is to get one.
            self.send_error(403, "not the page of this whiteboard")
        else:
            self._speak()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _speak(self) -> None:
        key = self.headers.get("Sec-WebSocket-Key", "")
        if self.headers.get("Upgrade", "").lower() != "websocket" or self.headers.get("Sec-WebSocket-Version") != "13":
            self.send_error(400, "no WebSocket")
            return
        page = Page()
        if not self.board_server.add(page):
            self.send_error(503, "too many pages")
            return
        self.close_connection = True
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode("latin-1") + GUID).digest())
        self.send_header("Sec-WebSocket-Accept", accept.decode())
        self.end_headers()
        # A user may look at the board for hours.
        self.connection.settimeout(None)
        writer = threading.Thread(target=self._write, args=(page,), daemon=True)
        writer.start()
        try:
            self._read(page)
        finally:
            self.board_server.remove(page)
            page.let_go()
            writer.join()

    def _read(self, page: Page) -> None:
        while (got := read_frame(self.rfile)) is not None:
            kind, data = got
            if kind == TEXT:
                with contextlib.suppress(ValueError, RecursionError):
                    # What is no edit would go to everybody and do nothing.
                    if is_edit(edit := json.loads(data)):
                        self.board_server.take(edit)
            elif kind == PING:
                with contextlib.suppress(queue.Full):
                    page.waiting.put_nowait(frame(PONG, data))
            elif kind == CLOSE:
                return

    def _write(self, page: Page) -> None:
        with contextlib.suppress(OSError):
            while (data := page.waiting.get()) is not None:
                self.connection.sendall(data)
            self.connection.sendall(frame(CLOSE, b""))
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Readable(Protocol):
    """What frames are read from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer at the end."""


def frame(kind: int, data: bytes, mask: bytes | None = None) -> bytes:
    """A frame of a WebSocket; a client masks it (RFC 6455, 5.2)."""
    head = bytes([0x80 | kind])
    masked = 0x80 if mask else 0
    if len(data) < 126:
        head += bytes([masked | len(data)])
    elif len(data) < 1 << 16:
        head += struct.pack(">BH", masked | 126, len(data))
    else:
        head += struct.pack(">BQ", masked | 127, len(data))
    return head + (mask + unmasked(data, mask) if mask else data)


def read_frame(file: Readable, masked: bool = True, length_max: int = FRAME_MAX) -> tuple[int, bytes] | None:
    """The next frame; None at the end, and for one that we do not take: unmasked, in fragments, or too long."""
    head = file.read(2)
    if len(head) < 2 or head[0] & 0xF0 != 0x80 or bool(head[1] & 0x80) != masked:
        return None
    length = head[1] & 0x7F
    if length >= 126:
        more = file.read(2 if length == 126 else 8)
        length = int.from_bytes(more, "big")
    if length > length_max:
        return None
    mask = file.read(4) if masked else b"\0\0\0\0"
    data = file.read(length)
    return (head[0] & 0x0F, unmasked(data, mask)) if len(mask) == 4 and len(data) == length else None


def unmasked(data: bytes, mask: bytes) -> bytes:
    """The bytes without the mask, or with it."""
    return bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))


def main() -> None:
    """Serve."""
    if len(sys.argv) not in (4, 5) or not all(port.isdecimal() for port in sys.argv[4:]):
        sys.exit("usage: whiteboard.py ADDRESS[,ADDRESS…] DOMAIN NICK [PORT]")
    addresses, domain, nick, *port = sys.argv[1:]
    server = Server(addresses.split(","), domain, nick, int(port[0]) if port else 0)
    print(f"http://{server.address}/", flush=True)
    server.run()


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        # Another name is that of a file.
        is_bus = error.filename in [None, *sys.argv[1].split(",")]
        hint = ": is a daemon running with --bus and this address, and is PORT free?" if is_bus else ""
        sys.exit(f"error: {error}{hint}")
