"""A file to all of a domain: files.py receive ADDRESS DOMAIN DIRECTORY, and then files.py send ADDRESS DOMAIN FILE.

The sender asks with ``ping`` who would get the file, and sends its name and length, then pieces, then its digest, each
as one message: the order of the bus is the order of the file. A receiver says to the sender's private name that it has
the file and that the digest is right, or why not. A file is in the directory once it is right, never before.

After a cut, the sender's side goes on with the file. A receiver on the other side sees in its view that the sender is
not there any more, and drops the part that it has; so does one that sees a piece missing. The sender names those that
did not say that they have it, and ends with 1: it can be sent again, and who has it is asked to take it again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from pathlib import Path
from typing import BinaryIO

from groupcast_bus import Bus, Message, View

PIECE = 64 << 10
#: The longest file that a receiver takes.
LENGTH_MAX = 1 << 30
#: Files that a receiver takes at a time; the one that has rested the longest makes room.
FILES_MAX = 16
#: Seconds between two looks at who is still there.
LOOK = 2.0
#: So many looks without a word, and those that have said nothing yet are not waited for.
LOOKS_MAX = 30


def send(address: str, domain: str, path: Path) -> dict[str, str]:
    """Send a file; what each of the receivers said of it: ``got``, ``lacks`` with a reason, or ``gone``."""
    with Bus(address) as bus, path.open("rb") as file:
        key = secrets.token_hex(8)
        waited = set(bus.ping("file-begin", domain))
        said: dict[str, str] = {}
        digest = hashlib.sha256()
        length = os.fstat(file.fileno()).st_size
        bus.send("file-begin", domain, [key, path.name, length])
        at = 0
        while piece := file.read(PIECE):
            digest.update(piece)
            bus.send("file-piece", domain, key.encode() + at.to_bytes(8, "big") + piece)
            at += len(piece)
        bus.send("file-end", domain, [key, digest.hexdigest()])
        looks = 0
        while missing := waited - set(said):
            try:
                event = bus.receive(LOOK)
            except TimeoutError:
                looks += 1
                # Those that have left, or are on the other side of a cut.
                gone = missing - set(bus.ping("file-begin", domain))
                said |= dict.fromkeys(gone, "gone")
                if looks == LOOKS_MAX:
                    said |= dict.fromkeys(missing - gone, "says nothing")
                continue
            looks = 0
            match event:
                case Message(tag="file-said", value=[str(of), str(name), str(what)]) if of == key and name in waited:
                    said[name] = what
        return said


class Arriving:
    """A file of which a part has come."""

    def __init__(self, sender: str, path: Path, length: int) -> None:
        self.sender, self.path, self.length = sender, path, length
        self.digest = hashlib.sha256()
        self.at = 0
        self.part = path.with_name(f".{secrets.token_hex(8)}.part")
        self.file: BinaryIO = self.part.open("xb")

    def take(self, at: int, piece: bytes) -> bool:
        """Add a piece; whether it is the next one."""
        if at != self.at or at + len(piece) > self.length:
            return False
        self.file.write(piece)
        self.digest.update(piece)
        self.at += len(piece)
        return True

    def end(self, digest: str) -> bool:
        """Put it in place, if it is whole and right."""
        self.file.close()
        is_right = self.at == self.length and self.digest.hexdigest() == digest
        if is_right:
            self.part.replace(self.path)
        else:
            self.part.unlink()
        return is_right

    def drop(self) -> None:
        """Leave nothing behind."""
        self.file.close()
        self.part.unlink(missing_ok=True)


class Receiver:
    """Files of a domain, into a directory."""

    def __init__(self, address: str, domain: str, directory: Path) -> None:
        self._directory = directory
        self._arriving: dict[str, Arriving] = {}
        self.bus = Bus(address)
        self.bus.views(True)
        self.bus.sender(True)
        self.bus.accept("file-.*", domain)

    def step(self, timeout: float | None = None) -> Path | None:
        """Take the next event; the file that it has put in place, if it has."""
        match self.bus.receive(timeout):
            case Message(tag="file-begin", value=[str(key), str(name), int(length)], sender=str(sender)):
                self._begin(key, sender, name, length)
            case Message(tag="file-piece", data=data) if len(data) >= 24:
                key = data[:16].decode(errors="replace")
                arriving = self._arriving.get(key)
                if arriving and not arriving.take(int.from_bytes(data[16:24], "big"), data[24:]):
                    self._drop(key, "lacks a piece")
            case Message(tag="file-end", value=[str(key), str(digest)]) if key in self._arriving:
                arriving = self._arriving.pop(key)
                if arriving.end(digest):
                    self._say(arriving.sender, key, "got")
                    return arriving.path
                self._say(arriving.sender, key, "lacks a piece, or has another digest")
            case View(kind="regular", cause="network"):
                # Pieces may have been sent on the other side of the cut. Whoever of the senders is still there?
                there = {name for name, *_ in self.bus.clients()}
                for key in [key for key, arriving in self._arriving.items() if arriving.sender not in there]:
                    self._drop(key, "is on the other side of a cut")
        return None

    def _begin(self, key: str, sender: str, name: str, length: int) -> None:
        is_name = name not in ("", ".", "..") and not name.startswith(".") and name == Path(name).name
        if key in self._arriving or len(key) != 16 or not is_name or not name.isprintable():
            self._say(sender, key, "lacks it: no name of a file")
        elif not 0 <= length <= LENGTH_MAX:
            self._say(sender, key, "lacks it: too long")
        else:
            if len(self._arriving) == FILES_MAX:
                self._drop(next(iter(self._arriving)), "lacks it: too many at a time")
            self._arriving[key] = Arriving(sender, self._directory / name, length)

    def _drop(self, key: str, why: str) -> None:
        arriving = self._arriving.pop(key)
        arriving.drop()
        self._say(arriving.sender, key, why)

    def _say(self, sender: str, key: str, what: str) -> None:
        self.bus.send("file-said", sender, [key, self.bus.name, what])

    def close(self) -> None:
        """Leave, and leave nothing half behind."""
        for arriving in self._arriving.values():
            arriving.drop()
        self._arriving.clear()
        self.bus.close()


def main() -> int:
    """Send or receive."""
    if len(sys.argv) != 5 or sys.argv[1] not in ("send", "receive"):
        sys.exit("usage: files.py receive ADDRESS DOMAIN DIRECTORY, or files.py send ADDRESS DOMAIN FILE")
    what, address, domain, path = sys.argv[1:]
    if what == "receive":
        receiver = Receiver(address, domain, Path(path))
        try:
            while True:
                if (file := receiver.step()) is not None:
                    print(f"got {file}", flush=True)
        finally:
            receiver.close()
    begun = time.monotonic()
    said = send(address, domain, Path(path))
    for name, how in sorted(said.items()):
        print(f"{name}: {how}")
    print(f"{len(said)} receivers, {time.monotonic() - begun:.1f} s")
    return 0 if said and all(how == "got" for how in said.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        # Another name is that of a file.
        is_bus = error.filename in [None, sys.argv[2]]
        hint = ": is a daemon running with --bus and this address?" if is_bus else ""
        sys.exit(f"error: {error}{hint}")
