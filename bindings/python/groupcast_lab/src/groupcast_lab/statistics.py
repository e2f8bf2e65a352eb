"""Means and their confidence intervals over seeds, as the simulator computes them: Student's t, exact."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from .errors import ResultsError, SweepError

__all__ = ["interval", "student_t", "summarise"]


def student_t(confidence: float, freedom: int) -> float:
    """The t of the two-sided interval that holds with ``confidence``, at ``freedom`` degrees of freedom.

    Raises :class:`ValueError` unless 0 < ``confidence`` < 1 and ``freedom`` >= 1.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence}")
    if freedom < 1:
        raise ValueError(f"an interval needs at least one degree of freedom, not {freedom}")
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        low, high = high, high * 2.0
    while True:
        middle = (low + high) / 2.0
        if not low < middle < high:  # no double lies between them
            return high
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle


def _within(t: float, freedom: int) -> float:
    """The probability that a variable with Student's distribution lies within ±t.

    Finite sums: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd) and 26.7.4 (even).
    """
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(1 if odd else 0, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    if odd:
        return 2.0 / math.pi * (angle + sine * total)
    return sine * total


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The mean of ``values`` and the ends of its confidence interval, which are NaN for fewer than two values."""
    count = len(values)
    if count == 0:
        return math.nan, math.nan, math.nan
    mean = math.fsum(values) / count
    if count == 1:
        return mean, math.nan, math.nan
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = student_t(confidence, count - 1) * math.sqrt(variance / count)
    return mean, mean - half, mean + half


def summarise(frame: pd.DataFrame, measure: str, by: str | Sequence[str], confidence: float = 0.95) -> pd.DataFrame:
    """``measure`` of ``frame`` for each combination of the columns ``by``, in the order in which they first appear.

    Columns: those of ``by``, then ``mean``, ``low``, ``high`` (the confidence interval), ``min``, ``max`` and ``seeds``
    (those that have a value). A seed counts once, with the mean of its lines: what hosts, links or windows of one run
    show is not independent, and would make the interval too narrow. In a frame without the column ``seed`` each line
    counts.
    """
    if not 0.0 < confidence < 1.0:
        raise SweepError(f"a confidence lies between 0 and 1, not {confidence}")
    keys = [by] if isinstance(by, str) else list(by)
    for column in [*keys, measure]:
        if column not in frame.columns:
            raise ResultsError(f"there is no column {column!r}; there are {', '.join(map(str, frame.columns))}")
    # A column without any value has no type to go by.
    if not pd.api.types.is_numeric_dtype(frame[measure]) and frame[measure].notna().any():
        raise ResultsError(f"the column {measure!r} has words, not numbers: nothing can be summed up")
    lines = []
    for key, group in frame.groupby(keys, sort=False, dropna=False):
        measured = group.dropna(subset=[measure])
        if "seed" in frame.columns and "seed" not in keys:
            each = measured.groupby("seed", sort=False)[measure]
            values = [math.fsum(float(value) for value in of) / len(of) for _, of in each]
        else:
            values = [float(value) for value in measured[measure]]
        mean, low, high = interval(values, confidence)
        least, greatest = (min(values), max(values)) if values else (math.nan, math.nan)
        where = key if isinstance(key, tuple) else (key,)
        lines.append([*where, mean, low, high, least, greatest, len(values)])
    return pd.DataFrame(lines, columns=[*keys, "mean", "low", "high", "min", "max", "seeds"])
