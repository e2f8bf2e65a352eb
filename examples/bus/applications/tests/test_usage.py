"""What a user gets who starts a program in the wrong way: one line that says what to do, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent
NOBODY = "unix:/nobody/listens/here"


def ended(*words: str) -> str:
    """The one line that the program ends with."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, str(FOLDER / words[0]), *words[1:]]
    run = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=60)
    assert run.returncode == 1
    [line] = run.stderr.splitlines()
    return line


@pytest.mark.parametrize("program", ["editor.py", "files.py", "whiteboard.py"])
def test_without_its_words_a_program_says_how_it_is_called(program: str) -> None:
    assert ended(program).startswith(f"usage: {program} ")


@pytest.mark.parametrize("words", [("files.py", "send", NOBODY, "d", "f"), ("whiteboard.py", NOBODY, "d", "al")])
def test_where_no_bus_listens_a_program_says_so(words: tuple[str, ...]) -> None:
    assert "is a daemon running with --bus" in ended(*words)


def test_the_editor_asks_for_a_terminal() -> None:
    assert "terminal" in ended("editor.py", NOBODY, "d", "al")
