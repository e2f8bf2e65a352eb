"""Sweeps on Dask: the same bytes as here, also when a worker is killed while it works."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import groupcast_lab as lab

distributed = pytest.importorskip("distributed")

SCENARIO = lab.Scenario("duration = '1 s'\n", "small.toml")
SIZES: list[lab.Value] = [1, 64, 200, 500, 1350, 4000, 8850, 60000]
SEEDS = range(1, 6)


@pytest.fixture
def client() -> Iterator[Any]:
    """Two workers, each a process with one thread."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_two_workers_one_of_them_killed_bring_the_same_bytes(client: Any, stand_in: Path) -> None:
    points: dict[str, list[lab.Value]] = {"source.0.size": SIZES, "behave.sleep": [0.05]}
    here = lab.sweep(SCENARIO, points, SEEDS, binary=stand_in)
    killed = _Killer(client)
    there = lab.sweep(SCENARIO, points, SEEDS, lab.Dask(client), binary=stand_in, progress=killed)

    assert killed.tasks, "no worker was killed while it had a task"
    assert there.digest() == here.digest()
    assert there.runs.equals(here.runs)
    assert len(there.cells) == 40


def test_the_real_simulator_gives_the_same_bytes_on_two_workers_one_of_them_killed(
    client: Any, groupcast: str, ring: lab.Scenario
) -> None:
    points: dict[str, list[lab.Value]] = {"source.0.size": SIZES}
    here = lab.sweep(ring, points, SEEDS, binary=groupcast)
    killed = _Killer(client)
    there = lab.sweep(ring, points, SEEDS, lab.Dask(client), binary=groupcast, progress=killed)

    assert killed.tasks, "no worker was killed while it had a task"
    assert there.digest() == here.digest()
    assert there.windows.equals(here.windows)


def test_a_cluster_is_made_for_the_sweep(stand_in: Path) -> None:
    sweep = lab.sweep(SCENARIO, {"source.0.size": [1, 2]}, [1], "dask", jobs=1, binary=stand_in)
    assert list(sweep.runs["delivered"]) == [11, 21]
    assert not [child for child in psutil.Process().children(recursive=True) if "stand-in" in child.name()]


def test_a_task_whose_workers_are_always_lost_is_given_up(client: Any, tmp_path: Path) -> None:
    murderer = tmp_path / "murderer"
    murderer.write_text("#!/bin/sh\nkill -9 $PPID\nsleep 10\n")
    murderer.chmod(0o755)
    with pytest.raises(lab.SweepError, match="each worker that ran it was lost"):
        lab.sweep(SCENARIO, seeds=1, executor=lab.Dask(client), binary=murderer)


def test_errors_of_the_scenario_come_back_as_they_are(client: Any, stand_in: Path) -> None:
    with pytest.raises(lab.ScenarioError, match="told to end with 2"):
        lab.sweep(SCENARIO, {"behave.exit": [2]}, executor=lab.Dask(client), binary=stand_in)


class _Killer:
    """As progress of a sweep: kills, once some runs have ended, a worker that has a task."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._pids: dict[str, int] = client.run(os.getpid)
        self.tasks: tuple[str, ...] = ()

    def __call__(self, finished: int, _all: int) -> None:
        if self.tasks or finished < 3:
            return
        for address, tasks in self._client.processing().items():
            if tasks:
                self.tasks = tuple(map(str, tasks))
                os.kill(self._pids[address], signal.SIGKILL)
                return
