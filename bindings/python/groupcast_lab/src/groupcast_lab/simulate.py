"""Calls ``groupcast sim``: where the program is, one run of it, and what it says when it fails.

A :class:`Task` is a value that can be sent to another process or machine and run there by :func:`simulate`; everything
that it needs but the program itself is in it. What runs tasks, and where, is left to :mod:`groupcast_lab.executors`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from . import _guard
from .errors import BinaryError, ScenarioError, SimulationError
from .scenario import Scenario
from .values import to_toml

__all__ = ["BINARY_VARIABLE", "Outcome", "Task", "find_binary", "simulate"]

BINARY_VARIABLE = "GROUPCAST"
"""The environment variable that says where the program is."""

_ATTEMPTS = 3
"""How often a run is tried whose process somebody kills. A run that ends by itself is never repeated."""

_SCENARIO_WRONG = 2
"""The simulator's exit code for a scenario that is wrong."""


@dataclass(frozen=True)
class Task:
    """One seed of one scenario with some keys set."""

    scenario: Scenario
    seed: int
    overrides: tuple[tuple[str, str], ...] = ()
    """Keys as ``--set`` takes them, and values as TOML."""
    binary: str | None = None
    """The program; by default it is looked for where the task runs."""
    keep: tuple[str, ...] = ("*.csv", "summary.json")
    """Patterns of the files to return."""
    timeout: float | None = None
    """Seconds of wall clock after which the run is ended and has failed."""


@dataclass(frozen=True)
class Outcome:
    """What a task brought back."""

    files: Mapping[str, bytes]
    """The files of the results, as they were."""
    build: str
    """SHA-256 of the program that wrote them."""


def find_binary(binary: str | os.PathLike[str] | None = None) -> str:
    """The program: ``binary``, else what the variable ``GROUPCAST`` names, else ``groupcast`` on the ``PATH``.

    Raises :class:`BinaryError` if there is none.
    """
    asked = os.fspath(binary) if binary is not None else os.environ.get(BINARY_VARIABLE) or "groupcast"
    found = shutil.which(asked)
    if found is None:
        raise BinaryError(
            f"there is no program {asked!r}: build it with `cargo build --release` and put it on the PATH, "
            f"or name it with binary=... or the environment variable {BINARY_VARIABLE}"
        )
    return os.path.abspath(found)


def simulate(task: Task, started: Callable[[subprocess.Popen[str]], None] = lambda process: None) -> Outcome:
    """Runs ``task`` here, in a temporary directory, and returns what it wrote.

    ``started`` is told of each process. Raises :class:`ScenarioError`, :class:`SimulationError` or
    :class:`BinaryError`.
    """
    binary = find_binary(task.binary)
    with tempfile.TemporaryDirectory(prefix="groupcast-lab-", dir=_scratch()) as folder:
        scenario = task.scenario.lay_out(Path(folder, "scenario"))
        out = Path(folder, "out")
        arguments = ["--seeds", f"{task.seed}..{task.seed + 1}", "--jobs", "1", "--out", str(out)]
        for key, value in task.overrides:
            arguments += ["--set", f"{key}={value}"]
        for _ in range(_ATTEMPTS):
            code, said = _run(binary, scenario, arguments, task.timeout, started)
            if code >= 0:
                break
        complain(code, said, task.scenario.name)
        if not out.is_dir():
            raise BinaryError(f"{binary} ended well and wrote no results: it is not groupcast")
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir()) if _kept(path.name, task.keep)}
    return Outcome(files, _build(binary))


def complain(code: int, said: str, name: str) -> None:
    """Raises the error that belongs to the exit code ``code``, in the simulator's words ``said``; 0 is none."""
    if code == 0:
        return
    if code == _SCENARIO_WRONG:
        raise ScenarioError(said or f"{name}: the simulator refuses it without a word")
    if code < 0:
        raise SimulationError(
            f"{name}: killed {_ATTEMPTS} times, last by {signal.Signals(-code).name}; is there enough memory?"
        )
    raise SimulationError(said or f"{name}: the simulator ended with the exit code {code}")


def as_overrides(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """``values`` as ``--set`` takes them. Raises :class:`ScenarioError` for a value that TOML does not have."""
    try:
        return tuple((key, to_toml(value)) for key, value in values.items())
    except TypeError as error:
        raise ScenarioError(str(error)) from None


def _run(
    binary: str,
    scenario: Path,
    arguments: Sequence[str],
    timeout: float | None,
    started: Callable[[subprocess.Popen[str]], None],
) -> tuple[int, str]:
    """Runs it once: the exit code (negative: the signal that killed it), and what it said on standard error."""
    # The scenario is named without its folder: errors then show the name that its author knows.
    command = [sys.executable, "-I", "-S", _guard.__file__, str(os.getpid()), binary, "sim", scenario.name, *arguments]
    with subprocess.Popen(
        command,
        cwd=scenario.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        started(process)
        try:
            _, said = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SimulationError(f"{scenario.name}: ended after {timeout:g} s, the timeout") from None
        except BaseException:
            process.kill()
            raise
    return process.returncode, said.strip()


def _kept(name: str, patterns: Sequence[str]) -> bool:
    return not name.endswith(".partial") and any(fnmatch(name, pattern) for pattern in patterns)


def _scratch() -> str | None:
    """Where temporary directories go: in a worker of Dask below the worker's own, which its restart clears."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        folder: str = distributed.get_worker().local_directory
    except ValueError:  # we are not in a worker
        return None
    return folder


def _build(binary: str) -> str:
    """SHA-256 of the program, read again if it was replaced."""
    state = os.stat(binary)
    return _digest(binary, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=8)
def _digest(binary: str, _modified: int, _size: int) -> str:
    """The file's SHA-256, computed once as long as the file is the same."""
    digest = hashlib.sha256()
    with open(binary, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
