"""The board, its WebSocket, and pages of two users, without a browser."""

from __future__ import annotations

import contextlib
import io
import json
import random
import socket
import threading
import time
from typing import Any

import pytest
from conftest import WITHIN, Daemons, until
from test_replica import Network

from whiteboard import POINTS_MAX, SIZE, STROKES_MAX, TEXT, Board, Server, frame, is_edit, read_frame

STROKES = 200


def stroke(draw: random.Random, id: str) -> list[Any]:
    points = [draw.randint(0, SIZE[index % 2]) for index in range(2 * draw.randint(1, 8))]
    return ["stroke", id, f"#{draw.randrange(1 << 24):06x}", draw.randint(1, 50), *points]


def test_what_is_no_edit_does_nothing() -> None:
    board = Board()
    good = ["stroke", "a1", "#00ff00", 3, 1, 2]
    board.apply(good)
    for wrong in (
        [],
        ["stroke"],
        ["erase"],
        ["erase", 5],
        ["erase", "a1", 5],
        ["stroke", "a1", "#ff0000", 3, 1, 2],
        ["stroke", "../x", *good[2:]],
        ["stroke", "b", "red", 3, 1, 2],
        ["stroke", "b", "#00ff00", 0, 1, 2],
        ["stroke", "b", "#00ff00", True, 1, 2],
        ["stroke", "b", "#00ff00", 3, 1],
        ["stroke", "b", "#00ff00", 3],
        ["stroke", "b", "#00ff00", 3, -1, 2],
        ["stroke", "b", "#00ff00", 3, 1, 601],
        ["stroke", "b", "#00ff00", 3, 1.5, 2],
        ["stroke", "b", "#00ff00", 3, *[1] * 2 * (POINTS_MAX + 1)],
    ):
        board.apply(wrong)
    assert board.dump() == [good]
    board.load([good, ["erase", "a1"], 5, ["stroke", "b"]])
    assert board.dump() == [good]
    for number in range(STROKES_MAX + 5):
        board.apply(["stroke", f"x{number}", *good[2:]])
    assert len(board.strokes) == STROKES_MAX
    board.apply(["erase", "a1"])
    assert len(board.strokes) == STROKES_MAX - 1
    for wrong_json in (None, 5, "stroke", {"a": 1}, [["stroke"]]):
        assert not is_edit(wrong_json)


def test_boards_are_equal_after_cuts() -> None:
    network = Network(5)
    draw = network.random
    for number in range(4):
        network.join(f"c{number}")
        network.replicas[f"c{number}"].shared = Board()
    for number in range(STROKES):
        name = draw.choice(sorted(network.replicas))
        drawn = network.replicas[name].shared.dump()
        erases = drawn and draw.random() < 0.3
        network.send(name, "edit", ["erase", draw.choice(drawn)[1]] if erases else stroke(draw, f"s{number}"))
        if number % 40 == 0:
            network.split()
        for _ in range(draw.randrange(6)):
            network.step()
    network.heal()
    network.settle()
    boards = [replica.shared.dump() for replica in network.replicas.values()]
    assert len(boards[0]) > 10
    assert all(board == boards[0] for board in boards)


@pytest.mark.parametrize("length", [0, 125, 126, 65_535, 65_536])
def test_frames_are_read_as_they_were_written(length: int) -> None:
    data = random.Random(length).randbytes(length)
    written = frame(TEXT, data, b"\x01\x02\x03\x04")
    assert read_frame(io.BytesIO(written)) == (TEXT, data)
    assert read_frame(io.BytesIO(frame(TEXT, data)), masked=False) == (TEXT, data)
    # One that a browser must mask and has not, in fragments, cut, or too long.
    assert read_frame(io.BytesIO(frame(TEXT, data))) is None
    assert read_frame(io.BytesIO(bytes([TEXT]) + written[1:])) is None
    assert read_frame(io.BytesIO(written[:-1])) is None
    assert length == 0 or read_frame(io.BytesIO(written), length_max=length - 1) is None


class Page:
    """What a page in a browser is to its program."""

    def __init__(self, address: str, origin: str | None = None, host: str | None = None, path: str = "/bus") -> None:
        name, port = address.split(":")
        self._socket = socket.create_connection((name, int(port)), WITHIN)
        self._file = self._socket.makefile("rb")
        head = f"GET {path} HTTP/1.1\r\nHost: {host or address}\r\nOrigin: {origin or f'http://{address}'}\r\n"
        head += "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        self._socket.sendall(f"{head}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        self.status = int(self._file.readline().split()[1])
        self.headers = []
        while line := self._file.readline().strip():
            self.headers.append(line.decode())
        self.strokes: list[Any] = []
        if self.status == 101:
            threading.Thread(target=self._listen, daemon=True).start()

    def send(self, message: object) -> None:
        self._socket.sendall(frame(TEXT, json.dumps(message).encode(), b"\x0a\x0b\x0c\x0d"))

    def _listen(self) -> None:
        """What the page's script does with messages."""
        with contextlib.suppress(OSError, ValueError):
            while (got := read_frame(self._file, masked=False, length_max=1 << 24)) is not None:
                message = json.loads(got[1] or b"{}")
                if "board" in message:
                    self.strokes = message["board"]
                elif "stroke" in message:
                    self.strokes = [*self.strokes, message["stroke"]]

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def serve(address: str, nick: str) -> Server:
    server = Server([address], "board.d", nick, 0)

    def run() -> None:
        # Until the test ends its daemon.
        with contextlib.suppress(ConnectionError):
            server.run()

    threading.Thread(target=run, daemon=True).start()
    return server


def test_only_the_page_of_the_board_gets_a_socket(daemons: Daemons) -> None:
    server = serve(daemons.start("h1"), "al")
    address = server.address
    port = address.split(":")[1]
    page = Page(address)
    assert page.status == 101
    # The example of RFC 6455, 1.3.
    assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in page.headers
    for wrong in (
        Page(address, origin="http://evil.example"),
        Page(address, origin="null"),
        Page(address, origin=f"https://{address}"),
        Page(address, host=f"evil.example:{port}"),
        Page(address, host=f"evil.example:{port}", path="/"),
    ):
        assert wrong.status == 403
    assert Page(address, path="/other").status == 404
    assert Page(address, origin=f"http://localhost:{port}").status == 101
    for wrong_message in ("x", None, [], ["stroke", "a\ud800", "#000000", 1, 1, 1], ["stroke", "b"]):
        page.send(wrong_message)
    good = ["stroke", "a", "#000000", 1, 1, 1]
    page.send(good)
    until("what is good is drawn", lambda: page.strokes == [good])
    page.close()


def test_pages_of_two_users_show_the_same(daemons: Daemons) -> None:
    address = daemons.start("h1")
    servers = [serve(address, "al"), serve(address, "bo")]
    until(
        "they know each other",
        lambda: all(len(server.member.replica.members) == 2 and server.member.replica.is_settled for server in servers),
    )
    pages = [Page(server.address) for server in servers]

    def work(number: int) -> None:
        page, draw = pages[number], random.Random(number)
        for count in range(STROKES):
            drawn = [stroke for stroke in page.strokes if not stroke[1].startswith("end")]
            if drawn and draw.random() < 0.3:
                page.send(["erase", draw.choice(drawn)[1]])
            else:
                page.send(stroke(draw, f"{number}x{count}"))
            if count % 10 == 0:
                time.sleep(0.01)
        page.send(["stroke", f"end{number}", "#000000", 1, 0, 0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for page in pages:
        until("all has come", lambda page=page: {"end0", "end1"} <= {stroke[1] for stroke in page.strokes})  # type: ignore[misc]
    until("the pages show the same", lambda: pages[0].strokes == pages[1].strokes)
    assert len(pages[0].strokes) > 50
    # A page that comes later sees the same.
    late = Page(servers[0].address)
    until("it has all", lambda: late.strokes == pages[0].strokes)
    for page in [*pages, late]:
        page.close()
