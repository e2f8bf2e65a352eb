"""Sweeps: a scenario over a grid of parameters and a range of seeds, on any executor.

One task is one point and one seed. The outcomes are put together in the order of points and seeds, whoever ran them and
in whatever order they ended, so that a sweep is the same bytes on one core and on a cluster.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from .errors import BinaryError, ResultsError, SweepError
from .executors import Dask, Executor, Local
from .results import Results, Tables, content, parse_csv
from .scenario import Scenario
from .simulate import Outcome, Task, as_overrides
from .statistics import summarise
from .store import Store
from .values import Value, to_toml

__all__ = ["Cell", "Parameters", "Point", "Sweep", "load_sweep", "run", "sweep"]

Point: TypeAlias = Mapping[str, Value]
"""Keys of the scenario, dotted (``source.0.rate``), and the values laid over them."""

Parameters: TypeAlias = "Mapping[str, Sequence[Value]] | Iterable[Point]"
"""A grid, each key with its values; or the points themselves."""

_RESERVED = ("seeds", "capture")
"""Keys that a sweep does not take: the seeds are an argument, and captures are written for one run, not for many."""


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    point: Point
    seed: int
    outcome: Outcome


class Sweep(Tables):
    """The results of a sweep. Its tables have a column for each parameter, named like its key, before their own."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        super().__init__()
        self.cells = tuple(cells)
        self.parameters: tuple[str, ...] = tuple(dict.fromkeys(key for cell in self.cells for key in cell.point))
        """The keys that were swept."""

    def cell(self, point: Point, seed: int) -> Results:
        """The results of one run."""
        for cell in self.cells:
            if cell.seed == seed and dict(cell.point) == dict(point):
                return Results(cell.outcome.files, f"seed {seed} at {dict(point)}")
        raise ResultsError(f"the sweep has no seed {seed} at {dict(point)}")

    def summarise(self, measure: str, table: str = "runs", confidence: float = 0.95) -> pd.DataFrame:
        """``measure`` over the seeds at each point; see :func:`groupcast_lab.statistics.summarise`."""
        frame = self.table(table)
        if not self.parameters:
            raise SweepError("a sweep without parameters has one point; see `interval` for its mean over seeds")
        return summarise(frame, measure, self.parameters, confidence)

    def digest(self) -> str:
        """SHA-256 of all points, seeds and files: equal if and only if two sweeps are, bit for bit."""
        digest = hashlib.sha256()
        for cell in self.cells:
            names = sorted(cell.outcome.files)
            head = {"point": {k: to_toml(v) for k, v in cell.point.items()}, "seed": cell.seed}
            sizes = [[name, len(cell.outcome.files[name])] for name in names]
            digest.update(json.dumps([head, sizes], sort_keys=True).encode())
            for name in names:
                digest.update(cell.outcome.files[name])
        return digest.hexdigest()

    def _parse(self, name: str) -> pd.DataFrame:
        frames = []
        for cell in self.cells:
            origin = f"the run of seed {cell.seed} at {dict(cell.point)}"
            frame = parse_csv(content(cell.outcome.files, f"{name}.csv", origin))
            for place, key in enumerate(self.parameters):
                frame.insert(place, key, [_scalar(cell.point.get(key))] * len(frame))
            frames.append(frame)
        # Columns without a value in one run are of another type there; empty frames say nothing about types.
        filled = [frame for frame in frames if len(frame)]
        return pd.concat(filled, ignore_index=True) if filled else frames[0]


def sweep(
    scenario: Scenario | str | os.PathLike[str],
    parameters: Parameters = (),
    seeds: int | range | Iterable[int] | str = 1,
    executor: str | Executor = "local",
    *,
    jobs: int | None = None,
    binary: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    keep: Sequence[str] | str = ("*.csv", "summary.json"),
    timeout: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Runs ``scenario`` at every point of ``parameters`` with every seed.

    :param scenario: a path, or a :class:`Scenario`.
    :param parameters: a grid (``{"source.0.size": [64, 1350], "network.link.loss": ["0 %", "1 %"]}`` has four points),
        or a list of points. Keys are those of ``groupcast sim --set``.
    :param seeds: ``range(1, 6)``, ``"1..6"``, any integers, or one.
    :param executor: ``"local"``, ``"dask"`` (a cluster of this machine, made for the sweep), or an
        :class:`Executor`: ``Dask(client)``, ``Dask("tcp://…")``, one of your own.
    :param jobs: runs at a time with ``"local"`` and ``"dask"``; default: one a core.
    :param binary: the program; default: the variable ``GROUPCAST``, else ``groupcast`` on the ``PATH``.
    :param out: a directory that keeps every run as soon as it ends. Calling again goes on where it was interrupted;
        :func:`load_sweep` reads it.
    :param keep: patterns of the files to keep of each run. Fewer take less memory.
    :param timeout: seconds of wall clock for one run; default: none.
    :param progress: called with the numbers of finished and of all runs.
    :raises ScenarioError: if the scenario or a value is wrong.
    :raises SimulationError: if a run fails. The other runs are given up; what ``out`` has is kept.
    :raises SweepError: if the sweep itself is wrong, or workers were lost again and again.
    :raises BinaryError: if there is no program, or not the same one everywhere.
    """
    described = scenario if isinstance(scenario, Scenario) else Scenario.read(scenario)
    if isinstance(keep, str):  # or its letters would be the patterns
        keep = (keep,)
    if timeout is not None and not timeout > 0:
        raise SweepError(f"a timeout is a number of seconds above 0, not {timeout!r}")
    points, numbers = _points(parameters), _seeds(seeds)
    where = _executor(executor, jobs)
    program = os.path.abspath(binary) if isinstance(binary, os.PathLike) else binary
    plan = [(point, seed) for point in points for seed in numbers]
    tasks = [Task(described, seed, as_overrides(point), program, tuple(keep), timeout) for point, seed in plan]
    store = _store(Path(out), tasks, plan) if out is not None else None
    outcomes: dict[int, Outcome] = store.finished() if store else {}
    remaining = [number for number in range(len(tasks)) if number not in outcomes]
    if progress:
        progress(len(outcomes), len(tasks))
    with closing(where.run([tasks[number] for number in remaining])) as ended:
        for index, outcome in ended:
            number = remaining[index]
            outcomes[number] = outcome
            if store:
                store.put(number, outcome)
            if progress:
                progress(len(outcomes), len(tasks))
    _same_build(outcomes.values())
    return Sweep([Cell(point, seed, outcomes[number]) for number, (point, seed) in enumerate(plan)])


def run(
    scenario: Scenario | str | os.PathLike[str],
    seeds: int | range | Iterable[int] | str = 1,
    overrides: Point | None = None,
    *,
    jobs: int | None = None,
    binary: str | os.PathLike[str] | None = None,
) -> Sweep:
    """Runs ``scenario``, with ``overrides`` laid over it, with every seed on this machine: a sweep of one point."""
    return sweep(scenario, [overrides or {}], seeds, jobs=jobs, binary=binary)


def load_sweep(out: str | os.PathLike[str]) -> Sweep:
    """The sweep that was run with ``out``. Raises :class:`ResultsError` if it is not there or not complete."""
    plan, outcomes = Store.load(Path(out))
    _same_build(outcomes)
    return Sweep([Cell(point, seed, outcome) for (point, seed), outcome in zip(plan, outcomes, strict=True)])


def _store(out: Path, tasks: Sequence[Task], plan: Sequence[tuple[Point, int]]) -> Store:
    try:
        return Store(out, tasks, plan)
    except OSError as error:
        raise SweepError(f"cannot keep the runs in {out}: {error.strerror or error}") from error


def _points(parameters: Parameters) -> list[Point]:
    if isinstance(parameters, Mapping):
        for key, values in parameters.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise SweepError(f"{key}: a list of values is needed, not {values!r}")
        lists = [list(values) for values in parameters.values()]
        points: list[Point] = [dict(zip(parameters, values, strict=True)) for values in itertools.product(*lists)]
    else:
        points = list(parameters) or [{}]
        for point in points:
            if not isinstance(point, Mapping):
                raise SweepError(f"a point is a mapping of keys to values, not {point!r}")
        points = [dict(point) for point in points]
    if not points:
        raise SweepError("a parameter has no values: the sweep has no points")
    for point in points:
        for key in point:
            if key.split(".")[0] in _RESERVED:
                raise SweepError(
                    f"{key}: a sweep does not take it; seeds are the argument `seeds`, captures are of `groupcast sim`"
                )
    if len({tuple(sorted(as_overrides(point))) for point in points}) < len(points):
        raise SweepError("a point occurs twice")
    return points


def _seeds(seeds: int | range | Iterable[int] | str) -> list[int]:
    if isinstance(seeds, str):
        first, dots, end = seeds.partition("..")
        if not (dots and first.isdecimal() and end.isdecimal()):
            raise SweepError(f"seeds are written A..B, from A to B - 1, not {seeds!r}")
        numbers = list(range(int(first), int(end)))
    else:
        try:
            numbers = [index(seed) for seed in ((seeds,) if isinstance(seeds, int) else seeds)]
        except TypeError as error:  # 1.5 is no seed, nor is "1"
            raise SweepError(f"seeds are whole numbers from 0, each once: {error}") from None
    if not numbers:
        raise SweepError("there is no seed")
    if any(seed < 0 for seed in numbers) or len(set(numbers)) < len(numbers):
        raise SweepError("seeds are whole numbers from 0, each once")
    return numbers


def _executor(executor: str | Executor, jobs: int | None) -> Executor:
    if executor == "local":
        return Local(jobs)
    if executor == "dask":
        return Dask(jobs=jobs)
    if isinstance(executor, str):
        raise SweepError(f'there is no executor {executor!r}; there are "local", "dask", and objects with `run`')
    if not callable(getattr(executor, "run", None)):
        raise SweepError(f"an executor is a name or an object with `run`, not {executor!r}")
    if jobs is not None:
        raise SweepError('`jobs` goes with the executors "local" and "dask"; others know their own')
    return executor


def _same_build(outcomes: Iterable[Outcome]) -> None:
    builds = sorted({outcome.build for outcome in outcomes})
    if len(builds) > 1:
        raise BinaryError(
            f"runs were made by different builds of groupcast ({', '.join(build[:12] for build in builds)}); "
            "install the same on every worker, or begin anew in another directory"
        )


def _scalar(value: Value | None) -> bool | int | float | str | None:
    """``value`` as a cell of a table: lists and tables are written as TOML."""
    return to_toml(value) if isinstance(value, (list, tuple, Mapping)) else value
