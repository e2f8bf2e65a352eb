"""A file to all of a domain."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from pathlib import Path

from conftest import WITHIN, Daemons
from groupcast_bus import Bus, Message

from files import PIECE, Receiver, send


class Folder:
    """A receiver in a thread of its own, until it has so many files."""

    def __init__(self, address: str, directory: Path, count: int) -> None:
        directory.mkdir()
        self.directory = directory
        self._receiver = Receiver(address, "files.d", directory)
        self._thread = threading.Thread(target=self._take, args=(count,))
        self._thread.start()

    def _take(self, count: int) -> None:
        while count > 0:
            count -= self._receiver.step(WITHIN) is not None
        self._receiver.close()

    def wait(self) -> dict[str, bytes]:
        self._thread.join()
        return {file.name: file.read_bytes() for file in self.directory.iterdir()}


def test_a_file_comes_whole_to_all_of_a_domain(daemons: Daemons, tmp_path: Path) -> None:
    address = daemons.start("h1")
    draw = random.Random(1)
    files = {"long.bin": draw.randbytes(20 * PIECE + 17), "empty": b"", "a b.txt": b"x" * PIECE}
    folders = [Folder(address, tmp_path / f"to{n}", len(files)) for n in range(4)]
    with Bus(address) as bus:
        while len(bus.ping("file-begin", "files.d")) != len(folders):
            pass
    for name, data in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        said = send(address, "files.d", path)
        assert sorted(said.values()) == ["got"] * len(folders), said
    for folder in folders:
        assert folder.wait() == files


def said_of(bus: Bus, receiver: Receiver) -> str:
    """What the receiver says next."""
    end = time.monotonic() + WITHIN
    while True:
        assert time.monotonic() < end, "the receiver says nothing"
        with contextlib.suppress(TimeoutError):
            receiver.step(0.05)
        event = bus.poll()
        if isinstance(event, Message) and isinstance(event.value, list):
            return str(event.value[2])


def test_what_is_wrong_leaves_nothing_behind(daemons: Daemons, tmp_path: Path) -> None:
    address = daemons.start("h1")
    receiver = Receiver(address, "files.d", tmp_path)
    before = set(tmp_path.iterdir())
    key = "0123456789abcdef"

    def piece(at: int, data: bytes) -> bytes:
        return key.encode() + at.to_bytes(8, "big") + data

    with Bus(address) as bus:

        def begin(name: str, length: int) -> None:
            bus.send("file-begin", "files.d", [key, name, length])

        for name in ("../x", "", "..", ".hidden", "a/b", "a\x00b"):
            begin(name, 5)
            assert "no name" in said_of(bus, receiver), name
        begin("x", 1 << 50)
        assert "too long" in said_of(bus, receiver)
        begin("x", 10)
        bus.send("file-piece", "files.d", piece(0, b"abc"))
        bus.send("file-piece", "files.d", piece(4, b"efg"))
        assert said_of(bus, receiver) == "lacks a piece"
        begin("x", 3)
        bus.send("file-piece", "files.d", piece(0, b"abc"))
        bus.send("file-end", "files.d", [key, "0" * 64])
        assert "another digest" in said_of(bus, receiver)
        # One that does not end, and what is no message of ours.
        begin("x", 3)
        bus.send("file-piece", "files.d", b"short")
        bus.send("file-end", "files.d", "no list")
        bus.send("file-end", "files.d", ["other", "0"])
        bus.send("file-begin", "files.d", [key, "..", 5])
        assert "no name" in said_of(bus, receiver)
    receiver.close()
    assert set(tmp_path.iterdir()) == before
