"""What can go wrong, by whose fault. Every message says what was wrong and what to do."""

from __future__ import annotations

__all__ = ["BinaryError", "LabError", "ResultsError", "ScenarioError", "SimulationError", "SweepError"]


class LabError(Exception):
    """The base of all errors of this package."""


class BinaryError(LabError):
    """There is no ``groupcast`` to run, or not the same one everywhere."""


class ScenarioError(LabError):
    """The scenario, or a parameter laid over it, is wrong: the simulator's words, with line, column and suggestion."""


class SimulationError(LabError):
    """A run failed, broke a promise that the checker holds it to, took too long, or was killed."""


class ResultsError(LabError):
    """A directory of results is missing, unfinished, or not what it is said to be."""


class SweepError(LabError):
    """A sweep was asked for something impossible, or lost too many workers."""
