"""One task: what is called, what comes back, and how each way of failing is told."""

import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from groupcast_lab import (
    BINARY_VARIABLE,
    BinaryError,
    Scenario,
    ScenarioError,
    SimulationError,
    Task,
    find_binary,
    simulate,
)

SCENARIO = Scenario("duration = '1 s'\n", "small.toml")


def task(program: Path, seed: int = 7, timeout: float | None = None, **behave: object) -> Task:
    overrides = tuple((f"behave.{key}", str(value)) for key, value in behave.items())
    return Task(SCENARIO, seed, overrides, str(program), timeout=timeout)


def test_finished_files_come_back_as_they_were(stand_in: Path) -> None:
    outcome = simulate(task(stand_in))
    assert sorted(outcome.files) == ["runs.csv", "summary.json"]
    assert b"\n7,7,0.008,0000000000000007\n" in outcome.files["runs.csv"]
    assert outcome.files["summary.json"] == b'{"scenario": "small"}'
    assert len(outcome.build) == 64


def test_a_wrong_scenario_and_a_failed_run_are_told_apart_in_the_simulators_words(stand_in: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^small.toml: told to end with 2$"):
        simulate(task(stand_in, exit=2))
    with pytest.raises(SimulationError, match=r"^small.toml: told to end with 1$"):
        simulate(task(stand_in, exit=1))


def test_a_run_that_somebody_kills_is_run_again(stand_in: Path, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    outcome = simulate(task(stand_in, die_once=mark))
    assert mark.exists()
    assert outcome.files == simulate(task(stand_in)).files


def test_a_run_that_is_killed_every_time_fails(stand_in: Path) -> None:
    with pytest.raises(SimulationError, match="killed 3 times, last by SIGKILL"):
        simulate(task(stand_in, sleep=30), started=lambda process: process.kill())


def test_the_timeout_ends_a_run(stand_in: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(SimulationError, match=r"ended after 0.3 s"):
        simulate(task(stand_in, timeout=0.3, sleep=30))
    assert time.monotonic() - begun < 10


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_simulation_ends_when_its_worker_is_killed(stand_in: Path) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            simulate(task(stand_in, sleep=60))
        finally:
            os._exit(1)
    worker = psutil.Process(pid)
    children = _eventually(worker.children)
    worker.kill()
    os.waitpid(pid, 0)
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert gone
    assert not alive


def test_the_program_is_looked_for_in_order(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(BINARY_VARIABLE, raising=False)
    with pytest.raises(BinaryError, match=r"'groupcast'.*cargo build"):
        find_binary()
    monkeypatch.setenv(BINARY_VARIABLE, str(stand_in))
    assert find_binary() == str(stand_in)
    with pytest.raises(BinaryError, match="'/no/such/program'"):
        find_binary("/no/such/program")


def test_a_program_that_is_another_is_told() -> None:
    with pytest.raises(BinaryError, match="/bin/true ended well and wrote no results"):
        simulate(task(Path("/bin/true")))


def test_tasks_run_beside_each_other(stand_in: Path) -> None:
    outcomes: dict[int, bytes] = {}

    def one(seed: int) -> None:
        outcomes[seed] = simulate(task(stand_in, seed)).files["runs.csv"]

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {seed: text.split()[1].split(b",")[0] for seed, text in outcomes.items()} == {
        seed: str(seed).encode() for seed in range(4)
    }


def _eventually(what: "object") -> list[psutil.Process]:
    """The first non-empty answer within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if answer := what():  # type: ignore[operator]
            return answer
        time.sleep(0.02)
    raise AssertionError("it never came")
