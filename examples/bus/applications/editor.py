"""A text that several users edit at once, each in a terminal: editor.py ADDRESS[,ADDRESS…] DOMAIN NICK.

Type to change the line that is marked; Enter, or an arrow up or down, sends it. Enter also begins a new line below it.
Backspace at an empty line takes it out. Ctrl-W writes the text to the file DOMAIN.txt, Ctrl-L draws the screen anew,
Ctrl-X leaves.

A line is known by an id, not by its number, and an edit says which version of the line its author saw. So edits that
meet do what their authors meant, and nothing that was typed is lost: of two changes of one line the first in the order
changes it, and the other becomes a line of its own below. A line that somebody has changed is not deleted by an author
who had not seen that. ``Text`` is the text, and knows neither terminal nor bus.
"""

from __future__ import annotations

import curses
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replica import Member

LINES_MAX = 10_000
LENGTH_MAX = 2_000


@dataclass
class Line:
    """A line, and how often it was changed."""

    id: str
    version: int
    text: str


class Text:
    """The lines. An edit that is none, or too much, does nothing."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def insert(self, below: int, words: str) -> list[Any]:
        """The edit that puts a line below the one of this number, -1 for the top."""
        return ["insert", self._id(below), below, secrets.token_hex(8), words]

    def change(self, number: int, words: str) -> list[Any]:
        """The edit that changes a line."""
        return ["change", self._id(number), number, self.lines[number].version, secrets.token_hex(8), words]

    def delete(self, number: int) -> list[Any]:
        """The edit that takes a line out."""
        return ["delete", self._id(number), number, self.lines[number].version]

    def apply(self, edit: list[Any]) -> None:
        """Make an edit as all others make it."""
        match edit:
            case ["insert", str(id), int(number), str(new), str(words)]:
                at = self.find(id, number)
                self._put(number + 1 if at is None else at + 1, Line(new, 0, words))
            case ["change", str(id), int(number), int(version), str(new), str(words)] if len(words) <= LENGTH_MAX:
                at = self.find(id, number)
                if at is None:
                    self._put(number, Line(new, 0, words))
                elif self.lines[at].version == version:
                    self.lines[at] = Line(id, version + 1, words)
                elif self.lines[at].text != words:
                    self._put(at + 1, Line(new, 0, words))
            case ["delete", str(id), int(number), int(version)]:
                at = self.find(id, number)
                if at is not None and self.lines[at].version == version:
                    del self.lines[at]

    def dump(self) -> list[Any]:
        """All lines."""
        return [[line.id, line.version, line.text] for line in self.lines]

    def load(self, items: list[Any]) -> None:
        """Be what ``dump`` said."""
        self.lines = []
        for item in items:
            match item:
                case [str(id), int(version), str(words)]:
                    self._put(len(self.lines), Line(id, version, words))

    def find(self, id: str, near: int) -> int | None:
        """Where the line with this id is now; it was ``near``."""
        if 0 <= near < len(self.lines) and self.lines[near].id == id:
            return near
        return next((at for at, line in enumerate(self.lines) if line.id == id), None)

    def __str__(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)

    def _id(self, number: int) -> str:
        return self.lines[number].id if number >= 0 else ""

    def _put(self, at: int, line: Line) -> None:
        if len(self.lines) < LINES_MAX and len(line.text) <= LENGTH_MAX and line.text.isprintable():
            self.lines.insert(max(0, min(at, len(self.lines))), line)


class Screen:
    """What one user sees, and types."""

    def __init__(self, window: curses.window, member: Member, lines: Text, file: Path) -> None:
        self._window, self._member, self._text, self._file = window, member, lines, file
        self._here = ""
        self._number = 0
        #: What was typed over the line that is marked, and not sent.
        self._draft: str | None = None
        self.told: list[str] = []

    def run(self) -> None:
        """Go on until the user leaves."""
        self._window.nodelay(True)
        while True:
            self._draw()
            self._take(None, [sys.stdin])
            while True:
                try:
                    key = self._window.get_wch()
                except curses.error:
                    break
                if key == "\x18":
                    return
                self._press(key)

    def _press(self, key: int | str) -> None:
        words = self._words()
        if key in ("\r", "\n", curses.KEY_ENTER):
            self._commit()
            # In an empty text there is no line to be below of.
            self._member.edit(self._text.insert(self._number if self._text.lines else -1, ""))
            # It is there now, unless all wait for a copy.
            self._take(0)
            self._go(self._number + 1)
        elif key in (curses.KEY_UP, curses.KEY_DOWN):
            self._commit()
            self._go(self._number + (1 if key == curses.KEY_DOWN else -1))
        elif key in (curses.KEY_BACKSPACE, "\x7f", "\b"):
            if not words and self._text.lines:
                self._draft = None
                self._member.edit(self._text.delete(self._number))
            else:
                self._draft = words[:-1]
        elif key == "\x0c":
            self._window.clear()
        elif key == "\x17":
            self._commit()
            self._file.write_text(str(self._text), encoding="utf-8")
            self.told.append(f"written to {self._file}")
        elif isinstance(key, str) and key.isprintable() and len(words) < LENGTH_MAX:
            self._draft = words + key

    def _words(self) -> str:
        if self._draft is not None:
            return self._draft
        return self._text.lines[self._number].text if self._text.lines else ""

    def _commit(self) -> None:
        """Send what was typed, and take what it has become."""
        draft, self._draft = self._draft, None
        if draft is None:
            return
        if not self._text.lines:
            self._member.edit(self._text.insert(-1, draft))
        elif draft != self._text.lines[self._number].text:
            self._member.edit(self._text.change(self._number, draft))
        self._take(0)

    def _take(self, timeout: float | None, others: Any = ()) -> None:
        """Take what has come; the mark stays at its line, wherever that is now."""
        self._member.step(timeout, others)
        if (items := self._member.replica.superseded) is not None:
            self._member.replica.superseded = None
            before = Text()
            before.load(items)
            file = self._file.with_suffix(".before.txt")
            file.write_text(str(before), encoding="utf-8")
            self.told.append(f"what you had is in {file}")
        at = self._text.find(self._here, self._number)
        self._go(self._number if at is None else at)

    def _go(self, number: int) -> None:
        self._number = max(0, min(number, len(self._text.lines) - 1))
        self._here = self._text.lines[self._number].id if self._text.lines else ""

    def _draw(self) -> None:
        rows, columns = self._window.getmaxyx()
        first = max(0, self._number - rows + 4)
        self._window.erase()
        for row, line in enumerate(self._text.lines[first : first + rows - 3]):
            marked = first + row == self._number
            words = self._words() if marked else line.text
            self._put(row, columns, words, curses.A_REVERSE if marked else curses.A_NORMAL)
        if not self._text.lines and self._draft:
            self._put(0, columns, self._draft, curses.A_REVERSE)
        for row, note in enumerate(self.told[-2:]):
            self._put(rows - 3 + row, columns, note, curses.A_DIM)
        state = "ready" if self._member.replica.is_settled else "waiting for a copy"
        self._put(rows - 1, columns, f"{state} · Ctrl-W writes, Ctrl-X leaves", curses.A_DIM)
        self._window.refresh()

    def _put(self, row: int, columns: int, words: str, how: int) -> None:
        # The end of a long line is what is typed at.
        self._window.addstr(row, 0, (words or " ")[-(columns - 1) :], how)


def main() -> None:
    """Edit."""
    if len(sys.argv) != 4:
        sys.exit("usage: editor.py ADDRESS[,ADDRESS…] DOMAIN NICK")
    addresses, domain, nick = sys.argv[1:]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.exit("error: the editor needs a terminal")
    lines = Text()
    told: list[str] = []
    member = Member(addresses.split(","), domain, nick, lines, told.append)

    def edit(window: curses.window) -> None:
        curses.raw()
        screen = Screen(window, member, lines, Path(f"{domain}.txt"))
        screen.told = told
        screen.run()

    curses.wrapper(edit)
    member.close()


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        # Another name is that of a file.
        is_bus = error.filename in [None, *sys.argv[1].split(",")]
        hint = ": is a daemon running with --bus and this address?" if is_bus else ""
        sys.exit(f"error: {error}{hint}")
