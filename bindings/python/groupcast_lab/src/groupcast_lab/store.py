"""A sweep on disk, written while it runs, so that an interrupted one goes on where it was.

::

    DIR/sweep.json           the points and seeds, in order, and the key of each run
    DIR/KEY/…                the files of a finished run, and ``build`` with the SHA-256 of the program that wrote them

The key is a digest of everything that a run depends on but the program: a changed scenario or parameter is another run.
A run's directory gets its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ResultsError
from .simulate import Outcome, Task

_PLAN = "sweep.json"
"""The file with the points and seeds."""

_BUILD = "build"
"""The file of a run with the SHA-256 of the program that made it."""

_UNFINISHED = "unfinished-"
"""How the name of a directory begins whose run is being written."""


class Store:
    """The directory of one sweep."""

    def __init__(self, folder: Path, tasks: Sequence[Task], plan: Sequence[tuple[Mapping[str, Any], int]]) -> None:
        """Makes the directory if need be and writes down the plan. What an interrupted sweep left half done goes."""
        self._folder = folder
        self._keys = [_key(task) for task in tasks]
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        runs = [
            {"point": dict(point), "seed": seed, "key": key}
            for (point, seed), key in zip(plan, self._keys, strict=True)
        ]
        text = json.dumps({"runs": runs}, indent=1, default=_plain)
        replacement = folder / f"{_PLAN}.partial"
        replacement.write_text(text, encoding="utf-8")
        os.replace(replacement, folder / _PLAN)

    def finished(self) -> dict[int, Outcome]:
        """The runs that are there already, by number."""
        found = {number: _read(self._folder / key) for number, key in enumerate(self._keys)}
        return {number: outcome for number, outcome in found.items() if outcome is not None}

    def put(self, number: int, outcome: Outcome) -> None:
        """Keeps a run."""
        unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
        for name, text in outcome.files.items():
            (unfinished / name).write_bytes(text)
        (unfinished / _BUILD).write_text(outcome.build, encoding="ascii")
        unfinished.chmod(0o755)
        os.replace(unfinished, self._folder / self._keys[number])

    @staticmethod
    def load(folder: Path) -> tuple[list[tuple[Mapping[str, Any], int]], list[Outcome]]:
        """Plan and outcomes of a sweep that is complete."""
        try:
            runs = json.loads((folder / _PLAN).read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError) as error:
            raise ResultsError(f"{folder} holds no sweep: {_PLAN}: {error}") from error
        plan = [(run["point"], run["seed"]) for run in runs]
        found = [_read(folder / run["key"]) for run in runs]
        outcomes = [outcome for outcome in found if outcome is not None]
        if len(outcomes) < len(runs):
            raise ResultsError(
                f"{folder} has {len(outcomes)} of {len(runs)} runs: call `sweep` again with the same arguments to go on"
            )
        return plan, outcomes


def _key(task: Task) -> str:
    """The name of a run's directory: 64 bits of a digest of all that the run depends on, but the program."""
    head = json.dumps([task.scenario.name, task.scenario.text, task.seed, task.overrides, task.keep])
    digest = hashlib.sha256(head.encode())
    for name, text in task.scenario.attachments:
        digest.update(json.dumps([name, len(text)]).encode() + text)
    return digest.hexdigest()[:16]


def _read(run: Path) -> Outcome | None:
    """The run in a directory; ``None`` if it is not there."""
    if not run.is_dir():
        return None
    files = {path.name: path.read_bytes() for path in sorted(run.iterdir())}
    try:
        build = files.pop(_BUILD).decode()
    except KeyError:
        raise ResultsError(f"{run} is no run of a sweep: remove it") from None
    return Outcome(files, build)


def _plain(value: Any) -> Any:
    """NumPy's scalars and other values that JSON does not know."""
    return value.item()
