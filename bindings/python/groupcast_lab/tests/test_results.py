"""Directories of results as data frames."""

import random
import struct
from pathlib import Path

import pytest

from groupcast_lab import ResultsError, load
from groupcast_lab.results import parse_csv


def test_decimals_become_the_nearest_double() -> None:
    rng = random.Random(3)
    values = [struct.unpack("d", struct.pack("Q", rng.getrandbits(62)))[0] for _ in range(5000)]
    text = "latency_mean_s\n" + "\n".join(map(repr, values)) + "\n"
    assert list(parse_csv(text.encode())["latency_mean_s"]) == values


def test_names_that_look_like_numbers_stay_names() -> None:
    frame = parse_csv(b"seed,vertex,link,trace_hash\n1,7,3>7,12e4567890123456\n2,router,3>router,0000000000000001\n")
    assert list(frame["vertex"]) == ["7", "router"]
    assert list(frame["trace_hash"]) == ["12e4567890123456", "0000000000000001"]
    assert list(frame["seed"]) == [1, 2]


def test_an_empty_cell_is_no_value() -> None:
    frame = parse_csv(b"seed,latency_mean_s,violations\n1,,\n2,0.5,\n")
    assert frame["latency_mean_s"].isna().tolist() == [True, False]
    assert frame["violations"].isna().all()


def test_what_holds_no_results_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="not a directory"):
        load(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="no runs.csv"):
        load(tmp_path)
    (tmp_path / "runs.csv.partial").write_text("seed\n")
    with pytest.raises(ResultsError, match="has not ended"):
        load(tmp_path)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("seed\n1\n")
    results = load(tmp_path)
    assert list(results.runs["seed"]) == [1]
    with pytest.raises(ResultsError, match="no latency.csv; it has runs.csv"):
        results.latency  # noqa: B018
