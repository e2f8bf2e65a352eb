"""The laboratory of groupcast in Python: run scenarios, sweep over parameters and seeds, load and plot what came out.

>>> import groupcast_lab as lab
>>> sweep = lab.sweep("ring.toml", {"source.0.size": [200, 1350]}, seeds=range(1, 6), executor="dask")  # doctest: +SKIP
>>> lab.plot_measure(sweep, "latency_p99_s", x="source.0.size")  # doctest: +SKIP

The simulation itself is the program ``groupcast`` (``groupcast sim``); this package calls it and reads its files, which
``docs/scenarios.md`` describes. ``docs/python-lab.md`` is the guide.
"""

from .errors import BinaryError, LabError, ResultsError, ScenarioError, SimulationError, SweepError
from .executors import Dask, Executor, Local
from .plots import plot_latency, plot_links, plot_measure, plot_windows
from .results import TABLES, Results, Tables, load
from .scenario import Scenario
from .simulate import BINARY_VARIABLE, Outcome, Task, find_binary, simulate
from .statistics import interval, student_t, summarise
from .sweep import Cell, Parameters, Point, Sweep, load_sweep, run, sweep
from .values import Value, quantity, to_toml

__all__ = [
    "BINARY_VARIABLE",
    "TABLES",
    "BinaryError",
    "Cell",
    "Dask",
    "Executor",
    "LabError",
    "Local",
    "Outcome",
    "Parameters",
    "Point",
    "Results",
    "ResultsError",
    "Scenario",
    "ScenarioError",
    "SimulationError",
    "Sweep",
    "SweepError",
    "Tables",
    "Task",
    "Value",
    "find_binary",
    "interval",
    "load",
    "load_sweep",
    "plot_latency",
    "plot_links",
    "plot_measure",
    "plot_windows",
    "quantity",
    "run",
    "simulate",
    "student_t",
    "summarise",
    "sweep",
    "to_toml",
]
