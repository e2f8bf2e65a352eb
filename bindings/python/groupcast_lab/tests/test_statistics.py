"""Intervals against tables and against what they promise."""

import math
import random

import pandas as pd
import pytest

from groupcast_lab import ResultsError, SweepError, interval, student_t, summarise


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"),
    [
        (0.95, 1, 12.7062),
        (0.95, 2, 4.30265),
        (0.95, 4, 2.77645),
        (0.95, 9, 2.26216),
        (0.95, 30, 2.04227),
        (0.95, 120, 1.97993),
        (0.99, 5, 4.03214),
        (0.90, 10, 1.81246),
        (0.50, 3, 0.764892),
    ],
)
def test_t_is_that_of_the_tables(confidence: float, freedom: int, t: float) -> None:
    assert student_t(confidence, freedom) == pytest.approx(t, rel=1e-5)


@pytest.mark.parametrize(("confidence", "freedom"), [(0.0, 3), (1.0, 3), (0.95, 0)])
def test_impossible_intervals_are_refused(confidence: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="interval|confidence"):
        student_t(confidence, freedom)


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(4000):
        _, low, high = interval([rng.gauss(3.0, 2.0) for _ in range(5)], 0.9)
        held += low <= 3.0 <= high
    assert held / 4000 == pytest.approx(0.9, abs=0.015)  # three standard errors


def test_few_values_have_no_interval() -> None:
    assert interval([5.0])[0] == 5.0
    assert all(math.isnan(end) for end in interval([5.0])[1:])
    assert all(math.isnan(end) for end in interval([]))


def test_a_summary_has_a_line_for_each_combination_in_order() -> None:
    frame = pd.DataFrame(
        {
            "size": [200, 200, 64, 64],
            "kind": ["a", "a", "a", "a"],
            "seed": [1, 2, 1, 2],
            "latency": [1.0, 3.0, None, 4.0],
        }
    )
    summary = summarise(frame, "latency", ["size", "kind"])
    assert list(summary.columns) == ["size", "kind", "mean", "low", "high", "min", "max", "seeds"]
    assert list(summary["size"]) == [200, 64]
    assert list(summary["mean"]) == [2.0, 4.0]
    assert list(summary["seeds"]) == [2, 1]
    assert summary["high"][0] == pytest.approx(2.0 + 12.7062 * 1.0, rel=1e-5)
    with pytest.raises(ResultsError, match="'lateny'; there are size, kind, seed, latency"):
        summarise(frame, "lateny", "size")


def test_what_cannot_be_summed_up_is_refused() -> None:
    frame = pd.DataFrame({"size": [64, 64], "seed": [1, 2], "trace_hash": ["0a", "0b"], "gap": [1.0, 2.0]})
    with pytest.raises(ResultsError, match="'trace_hash' has words"):
        summarise(frame, "trace_hash", "size")
    with pytest.raises(SweepError, match="not 95"):
        summarise(frame, "gap", "size", confidence=95)


def test_a_seed_counts_once_however_many_lines_it_has() -> None:
    # Two seeds of three hosts each: the hosts of a run agree, the runs do not.
    frame = pd.DataFrame(
        {"loss": ["1 %"] * 6, "seed": [1, 1, 1, 2, 2, 2], "host": [0, 1, 2] * 2, "latency": [1, 1, 1, 3, None, 3]}
    )
    (line,) = summarise(frame, "latency", "loss").to_dict("records")
    assert line["seeds"] == 2
    assert (line["mean"], line["low"], line["high"]) == pytest.approx(interval([1.0, 3.0]))
    assert (line["min"], line["max"]) == (1.0, 3.0)
    # For one host there are as many lines as seeds.
    assert list(summarise(frame, "latency", "host")["seeds"]) == [2, 1, 2]
