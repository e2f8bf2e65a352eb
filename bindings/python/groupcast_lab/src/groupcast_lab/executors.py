"""The executors, which run tasks: this machine, or the workers of a Dask cluster. The results are the same bytes.

An executor is anything with :meth:`Executor.run`. It hands each task to :func:`groupcast_lab.simulate.simulate`, in any
order and at any place, and runs it again if the place is lost: a task has no effect but its outcome.
"""

from __future__ import annotations

import os
import subprocess
import threading
import uuid
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, Protocol

from .errors import SweepError
from .simulate import Outcome, Task, simulate

__all__ = ["Dask", "Executor", "Local"]


class Executor(Protocol):
    """Runs tasks and yields each one's number in the sequence and its outcome, in the order in which they end."""

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        """Raises what the first task raises that fails. What still runs then, or when it is closed, is given up."""
        ...


class Local:
    """This machine: ``jobs`` simulations at a time (default: one a core), each a process of its own."""

    def __init__(self, jobs: int | None = None) -> None:
        _at_least_one(jobs)
        self.jobs = jobs or os.cpu_count() or 1

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        """See :meth:`Executor.run`. Simulations that are given up are killed."""
        running = _Processes()
        with ThreadPoolExecutor(min(self.jobs, max(len(tasks), 1)), "groupcast-lab") as pool:
            futures = {pool.submit(simulate, task, running.add): number for number, task in enumerate(tasks)}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                for future in futures:
                    future.cancel()
                running.end()


class _Processes:
    """The processes that have been started, so that they can be ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._ended = False

    def add(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes = [other for other in self._processes if other.returncode is None]
            self._processes.append(process)
            if self._ended:
                process.kill()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._processes:
                if process.returncode is None:
                    process.kill()


class Dask:
    """The workers of a Dask cluster; needs the extra ``dask``. Each thread of a worker runs one simulation at a time.

    Dask gives the tasks of a worker that is lost to another. A task whose worker is lost again and again (Dask's
    setting ``distributed.scheduler.allowed-failures``, default 3) fails the sweep: it is likely what kills them. On
    each worker this package must be installed and ``groupcast`` be found.
    """

    def __init__(self, cluster: Any = None, jobs: int | None = None) -> None:
        """``cluster``: a ``distributed.Client``, or a scheduler's address. By default a cluster of this machine is made
        for the sweep, with ``jobs`` workers of one thread (default: one a core)."""
        _at_least_one(jobs)
        if cluster is not None and jobs is not None:
            raise SweepError("`jobs` says how many workers to start; a cluster that exists has its own")
        self.cluster = cluster
        self.jobs = jobs

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
        """See :meth:`Executor.run`. On a cluster that goes on, so do simulations that are given up: to their end."""
        distributed = _distributed()
        with self._client(distributed) as client:
            # A name of its own for each sweep: Dask must not take a task for one that it knows.
            sweep = uuid.uuid4().hex
            futures = {
                client.submit(simulate, task, key=f"groupcast-{sweep}-{number}", pure=False): number
                for number, task in enumerate(tasks)
            }
            try:
                for future in distributed.as_completed(list(futures), loop=client.loop):
                    number = futures[future]
                    yield number, _result(distributed, future, tasks[number])
                    future.release()
            finally:
                client.cancel(list(futures))

    @contextmanager
    def _client(self, distributed: Any) -> Iterator[Any]:
        if isinstance(self.cluster, distributed.Client):
            yield self.cluster
        elif self.cluster is not None:
            with distributed.Client(self.cluster, set_as_default=False) as client:
                yield client
        else:
            workers = self.jobs or os.cpu_count() or 1
            with (
                distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                distributed.Client(cluster, set_as_default=False) as client,
            ):
                yield client


def _at_least_one(jobs: int | None) -> None:
    if jobs is not None and jobs < 1:
        raise SweepError(f"at least one job is needed, not {jobs}")


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise SweepError("Dask is not installed: `pip install 'groupcast-lab[dask]'`") from error
    return distributed


def _result(distributed: Any, future: Any, task: Task) -> Outcome:
    try:
        outcome: Outcome = future.result()
    except distributed.KilledWorker as error:
        raise SweepError(
            f"seed {task.seed} with {dict(task.overrides)} was given up: each worker that ran it was lost; "
            "is there enough memory?"
        ) from error
    return outcome
