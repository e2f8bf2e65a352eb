"""Against the real simulator: its files, its words, its statistics."""

import subprocess
import sys
from pathlib import Path

import pytest

import groupcast_lab as lab

REPOSITORY = Path(__file__).parents[4]


def test_every_table_is_there_and_has_its_seeds(groupcast: str, ring: lab.Scenario) -> None:
    shared = lab.Scenario(ring.text + "\n[[flow]]\nfrom = 0\nto = 1\n", ring.name)
    results = lab.run(shared, "3..5", binary=groupcast)
    for name in lab.TABLES:
        table = results.table(name)
        assert list(table["seed"].unique()) == [3, 4], name
    assert (results.runs["delivered"] > 0).all()
    assert (results.flows["delivered_bytes"] > 0).all()
    assert sorted(results.hosts["host"].unique()) == [0, 1, 2]
    assert results.runs["trace_hash"].str.fullmatch("[0-9a-f]{16}").all()
    assert results.runs["trace_hash"].nunique() == 2


def test_seeds_run_one_by_one_are_the_seeds_of_one_call(groupcast: str, ring: lab.Scenario, tmp_path: Path) -> None:
    scenario = ring.lay_out(tmp_path)
    out = tmp_path / "out"
    subprocess.run([groupcast, "sim", scenario, "--seeds", "1..4", "--out", out], check=True, stdout=subprocess.DEVNULL)
    together = lab.load(out)
    alone = lab.run(ring, range(1, 4), binary=groupcast)
    for name in lab.TABLES:
        assert alone.table(name).equals(together.table(name)), name


def test_intervals_are_those_that_the_simulator_computes(groupcast: str, ring: lab.Scenario, tmp_path: Path) -> None:
    scenario = ring.lay_out(tmp_path)
    out = tmp_path / "out"
    subprocess.run([groupcast, "sim", scenario, "--seeds", "1..6", "--out", out], check=True, stdout=subprocess.DEVNULL)
    results = lab.load(out)
    assert results.summary["confidence"] == 0.95
    assert len(results.measures) > 10
    for measure, said in results.measures.iterrows():
        values = results.runs[str(measure)].dropna()
        mean, low, high = lab.interval([float(value) for value in values])
        assert [said["mean"], said["low"], said["high"]] == pytest.approx([mean, low, high], rel=1e-9), measure
        assert said["seeds"] == len(values)


def test_parameters_take_effect(groupcast: str, ring: lab.Scenario) -> None:
    sweep = lab.sweep(
        ring,
        {"source.0.size": [100, 800], "network.link": [{"bandwidth": "1 Gb/s", "delay": "1 ms"}]},
        seeds=[1],
        binary=groupcast,
    )
    sizes = sweep.hosts["delivered_bytes"] / sweep.hosts["delivered"]
    assert sizes.tolist() == [100.0] * 3 + [800.0] * 3
    assert (sweep.runs["latency_p50_s"] > 0.001).all()


def test_files_that_a_scenario_names_travel_with_it(groupcast: str, tmp_path: Path) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "maps" / "edges.txt").write_text("a r\nb r\nc r\n")
    (tmp_path / "here" / "map.toml").write_text(
        """
        duration = "2 s"
        [network]
        kind = "edges"
        file = "../maps/edges.txt"
        members = ["a", "b"]
        link = { bandwidth = "10 Mb/s", delay = "1 ms" }
        [protocol]
        name = "flood"
        [[source]]
        hosts = 0
        rate = "100/s"
        size = 100
        """
    )
    runs = lab.run(tmp_path / "here" / "map.toml", binary=groupcast).runs
    assert (runs["vertices"][0], runs["hosts"][0], runs["links"][0]) == (4, 2, 3)
    assert runs["delivered"][0] > 100


def test_a_wrong_key_is_told_with_line_and_suggestion(groupcast: str, ring: lab.Scenario) -> None:
    wrong = lab.Scenario(ring.text.replace("arrivals", "arivals"), "wrong.toml")
    with pytest.raises(lab.ScenarioError, match=r"wrong\.toml:14:1: (?s:.*)did you mean `arrivals`"):
        lab.run(wrong, binary=groupcast)


def test_a_wrong_value_of_a_parameter_is_told(groupcast: str, ring: lab.Scenario) -> None:
    with pytest.raises(lab.ScenarioError, match="loss"):
        lab.sweep(ring, {"network.link.loss": ["10 ms"]}, binary=groupcast)


def test_the_worked_example_works(groupcast: str, tmp_path: Path) -> None:
    command = [sys.executable, REPOSITORY / "examples/python/ring_sizes.py", "--seeds", "1..3", "--sizes", "64", "1350"]
    done = subprocess.run(
        [*command, "--out", tmp_path], env={"GROUPCAST": groupcast}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "8 of 8 runs" in done.stderr
    assert "digest of all results: " in done.stdout
    for figure in ["latency.png", "distribution.png", "throughput.png"]:
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "latency.csv").read_text().count("\n") == 5
