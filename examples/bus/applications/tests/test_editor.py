"""The text, alone and with four that edit it at once at real daemons; and the editor at a terminal."""

from __future__ import annotations

import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import WITHIN, Daemons

from editor import LINES_MAX, Text
from replica import Member

HERE = Path(__file__).parent.parent
EDITS = 1000


def text_of(*lines: str) -> Text:
    text = Text()
    for number, line in enumerate(lines):
        text.apply(text.insert(number - 1, line))
    return text


def test_edits_that_meet_do_what_their_authors_meant() -> None:
    text = text_of("one", "two", "three")
    change, late_change = text.change(1, "TWO"), text.change(1, "zwei")
    below, late_delete = text.insert(1, "below two"), text.delete(1)
    text.apply(text.insert(-1, "zero"))
    text.apply(change)
    # Its author has not seen the change: both stay.
    text.apply(late_change)
    text.apply(below)
    # Its author has not seen the change: the line stays.
    text.apply(late_delete)
    assert str(text) == "zero\none\nTWO\nbelow two\nzwei\nthree\n"
    gone = text.change(2, "was TWO")
    text.apply(text.delete(2))
    text.apply(gone)
    assert str(text) == "zero\none\nwas TWO\nbelow two\nzwei\nthree\n"


def test_what_is_no_edit_does_nothing() -> None:
    text = text_of("one")
    odd: list[Any] = ["", "insert", "change", "delete", 0, 1, -(10**30), 10**30, [], b"x", 2.5, "a\x1b[2J", "x" * 3000]
    draw = random.Random(1)
    for _ in range(5000):
        edit = [draw.choice(["insert", "change", "delete"]), *draw.choices(odd, k=draw.randrange(6))]
        text.apply(edit)
        text.load([edit, *text.dump()])
    assert all(line.text.isprintable() and len(line.text) < 3000 for line in text.lines)
    for _ in range(LINES_MAX + 5):
        text.apply(text.insert(-1, "x"))
    assert len(text.lines) == LINES_MAX


def edit_at_random(member: Member, text: Text, draw: random.Random, edits: int) -> None:
    """Edit what is there, and take what others do in between."""
    for number in range(edits):
        member.step(0)
        chance, lines = draw.random(), len(text.lines)
        if lines == 0 or chance < 0.4:
            member.edit(text.insert(draw.randrange(-1, lines), f"{member.replica.nick} {number}"))
        elif chance < 0.8:
            member.edit(text.change(draw.randrange(lines), f"{member.replica.nick} {number}"))
        else:
            member.edit(text.delete(draw.randrange(lines)))


def run_all(works: list[Any]) -> None:
    """Run all at once, and fail with the first that fails."""
    failed: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def take_until(member: Member, holds: Any) -> None:
    """Take what comes until it holds; as long as something comes, there is time."""
    end = time.monotonic() + WITHIN
    before = -1
    while not holds():
        if member.replica.edits != before:
            before, end = member.replica.edits, time.monotonic() + WITHIN
        assert time.monotonic() < end, f"{member.replica.nick} has {before} edits of {member.replica.members}"
        member.step(0.1)


def ignore(_: str) -> None:
    pass


def test_four_at_once_have_equal_texts(daemons: Daemons) -> None:
    # One daemon: on a machine that is loaded enough two may lose each other, and a cut loses edits.
    address = daemons.start("h1")
    texts = [Text() for _ in range(4)]
    members = [Member([address], "text.d", f"u{number}", text, ignore) for number, text in enumerate(texts)]

    def work(number: int) -> None:
        member = members[number]
        take_until(member, lambda: len(member.replica.members) == 4 and member.replica.is_settled)
        edit_at_random(member, texts[number], random.Random(number), EDITS)
        take_until(member, lambda: member.replica.edits == 4 * EDITS and member.replica.is_settled)

    run_all([lambda number=number: work(number) for number in range(4)])
    assert len(str(texts[0]).splitlines()) > EDITS / 4
    assert all(text.dump() == texts[0].dump() for text in texts)
    for member in members:
        member.close()


def test_after_a_cut_there_is_one_text_again(daemons: Daemons) -> None:
    addresses = [daemons.start("h1"), daemons.start("h2")]
    texts = [Text(), Text()]
    told: list[list[str]] = [[], []]
    one, two = (
        Member([address], "text.d", f"u{number}", text, lines.append)
        for number, (address, text, lines) in enumerate(zip(addresses, texts, told, strict=True))
    )
    both = [one, two]

    def take(holds: Any) -> None:
        end = time.monotonic() + WITHIN
        while not holds():
            assert time.monotonic() < end, (told, [member.replica.members for member in both])
            for member in both:
                member.step(0.05)

    take(lambda: all(len(member.replica.members) == 2 and member.replica.is_settled for member in both))
    one.edit(texts[0].insert(-1, "before"))
    take(lambda: all(str(text) == "before\n" for text in texts))
    # While h2 stands still, u0 goes on without it.
    daemons.signal("h2", signal.SIGSTOP)
    try:
        take(lambda: one.replica.members == {one.replica.name})
        for words in ("during", "it"):
            one.edit(texts[0].insert(-1, words))
        take(lambda: one.replica.edits == 3)
    finally:
        daemons.signal("h2", signal.SIGCONT)
    take(lambda: len(one.replica.members) == 2 and one.replica.edits >= 3 and one.replica.is_settled)
    take(lambda: texts[0].dump() == texts[1].dump())
    assert str(texts[1]) == "it\nduring\nbefore\n"
    assert any(line.startswith("view (the network has changed): u0; without u1") for line in told[0]), told
    assert "the copy of u0 is taken over (3 edits); yours had 1" in told[1], told
    for member in both:
        member.close()


class Person:
    """An editor at a terminal, and what it has written there."""

    def __init__(self, address: str, nick: str, directory: Path) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "80", "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, str(HERE / "editor.py"), address, "text.d", nick]
        self.editor = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=directory
        )
        os.close(theirs)

    def types(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def sees(self, words: str) -> None:
        end = time.monotonic() + WITHIN
        seen = b""
        while words.encode() not in seen:
            assert time.monotonic() < end, seen
            assert self.editor.poll() is None, seen
            # All of the screen is drawn anew, not what has changed.
            self.types("\x0c")
            seen = b""
            while select.select([self._ours], [], [], 0.2)[0]:
                seen += os.read(self._ours, 1 << 16)

    def leaves(self) -> None:
        self.types("\x18")
        while self.editor.poll() is None:
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    os.read(self._ours, 1 << 16)
                except OSError:
                    break
        assert self.editor.wait() == 0
        os.close(self._ours)


def test_what_one_types_the_other_sees(daemons: Daemons, tmp_path: Path) -> None:
    if os.environ.get("TERMINFO") is None and not any(
        Path(place, "x/xterm").exists() for place in ("/usr/share/terminfo", "/lib/terminfo", "/etc/terminfo")
    ):
        pytest.skip("there is no description of xterm here")
    address = daemons.start("h1")
    al = Person(address, "al", tmp_path)
    al.sees("ready")
    al.types("first words\r")
    bo = Person(address, "bo", tmp_path)
    bo.sees("first words")
    bo.types(" of-bo\x17")
    bo.sees("written to text.d.txt")
    al.sees("of-bo")
    written = (tmp_path / "text.d.txt").read_text()
    assert written == "first words of-bo\n\n"
    for person in (al, bo):
        person.leaves()
