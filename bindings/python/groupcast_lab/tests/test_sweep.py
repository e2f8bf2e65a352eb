"""Sweeps on this machine: points, order, going on after an interruption, and errors."""

import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

import groupcast_lab as lab

SCENARIO = lab.Scenario("duration = '1 s'\n", "small.toml")
GRID: dict[str, list[lab.Value]] = {"source.0.size": [64, 200], "behave.sleep": ["0", "0.01"]}


def test_a_grid_is_run_at_every_point_with_every_seed_in_order(stand_in: Path) -> None:
    sweep = lab.sweep(SCENARIO, GRID, "1..4", binary=stand_in)
    runs = sweep.runs
    assert sweep.parameters == ("source.0.size", "behave.sleep")
    assert list(runs.columns[:3]) == ["source.0.size", "behave.sleep", "seed"]
    assert list(runs["source.0.size"]) == [64] * 6 + [200] * 6
    assert list(runs["behave.sleep"]) == (["0"] * 3 + ["0.01"] * 3) * 2
    assert list(runs["seed"]) == [1, 2, 3] * 4
    assert list(runs["delivered"][:3]) == [641, 642, 643]
    assert runs["trace_hash"][0] == "0000000000000001"


def test_points_may_be_listed(stand_in: Path) -> None:
    points = [{"source.0.size": 1}, {"source.0.size": 9, "hosts.perturbed": {"chance": 0.5}}]
    runs = lab.sweep(SCENARIO, points, [3], binary=stand_in).runs
    assert list(runs["delivered"]) == [13, 93]
    assert runs["hosts.perturbed"].isna().tolist() == [True, False]
    assert runs["hosts.perturbed"][1] == '{ "chance" = 0.5 }'


def test_the_order_in_which_runs_end_does_not_matter(stand_in: Path) -> None:
    in_order = lab.sweep(SCENARIO, GRID, range(3), lab.Local(1), binary=stand_in)
    shuffled = lab.sweep(SCENARIO, GRID, range(3), _Backwards(), binary=stand_in)
    assert in_order.digest() == shuffled.digest()
    assert in_order.runs.equals(shuffled.runs)


def test_the_digest_notices_any_difference(stand_in: Path) -> None:
    digests = {
        lab.sweep(SCENARIO, {"source.0.size": sizes}, seeds, binary=stand_in).digest()
        for sizes, seeds in [([1], 1), ([2], 1), ([1], 2), ([1, 2], 1), ([2, 1], 1)]
    }
    assert len(digests) == 5


def test_a_cell_is_found_by_point_and_seed(stand_in: Path) -> None:
    sweep = lab.sweep(SCENARIO, {"source.0.size": [1, 2]}, range(2), binary=stand_in)
    assert list(sweep.cell({"source.0.size": 2}, 1).runs["delivered"]) == [21]
    with pytest.raises(lab.ResultsError, match="no seed 9"):
        sweep.cell({"source.0.size": 2}, 9)


def test_means_are_taken_over_the_seeds_of_each_point(stand_in: Path) -> None:
    sweep = lab.sweep(SCENARIO, {"source.0.size": [1, 2]}, range(3), binary=stand_in)
    summary = sweep.summarise("delivered")
    assert list(summary["mean"]) == [11.0, 21.0]
    assert list(summary["seeds"]) == [3, 3]
    with pytest.raises(lab.SweepError, match="one point"):
        lab.run(SCENARIO, range(3), binary=stand_in).summarise("delivered")


def test_an_interrupted_sweep_goes_on_where_it_was(stand_in: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt(finished: int, _all: int) -> None:
        if finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.sweep(SCENARIO, GRID, range(2), jobs=1, binary=stand_in, out=out, progress=interrupt)
    with pytest.raises(lab.ResultsError, match="2 of 8 runs"):
        lab.load_sweep(out)

    counts: list[tuple[int, int]] = []
    sweep = lab.sweep(SCENARIO, GRID, range(2), binary=stand_in, out=out, progress=lambda *count: counts.append(count))
    assert counts[0] == (2, 8)
    assert counts[-1] == (8, 8)
    assert sweep.digest() == lab.sweep(SCENARIO, GRID, range(2), binary=stand_in).digest()
    assert lab.load_sweep(out).digest() == sweep.digest()
    assert lab.load_sweep(out).runs.equals(sweep.runs)


def test_runs_of_another_scenario_are_not_taken_for_ours(stand_in: Path, tmp_path: Path) -> None:
    lab.sweep(SCENARIO, {"source.0.size": [1]}, 1, binary=stand_in, out=tmp_path / "out")
    counts: list[int] = []
    other = lab.Scenario("duration = '2 s'\n", "small.toml")
    lab.sweep(
        other, {"source.0.size": [1]}, 1, binary=stand_in, out=tmp_path / "out", progress=lambda n, _: counts.append(n)
    )
    assert counts == [0, 1]


def test_runs_of_another_build_are_not_mixed_with_ours(stand_in: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    lab.sweep(SCENARIO, {"source.0.size": [1]}, 1, binary=stand_in, out=out)
    stand_in.write_text(stand_in.read_text() + "\n# another build\n")
    with pytest.raises(lab.BinaryError, match="different builds"):
        lab.sweep(SCENARIO, {"source.0.size": [1, 2]}, 1, binary=stand_in, out=out)


def test_a_failing_run_ends_the_sweep_and_its_processes(stand_in: Path) -> None:
    points = [{"behave.sleep": 60}, {"behave.exit": 1}]
    begun = time.monotonic()
    with pytest.raises(lab.SimulationError, match="told to end with 1"):
        lab.sweep(SCENARIO, points, 1, jobs=2, binary=stand_in)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parameters": {"source.0.size": []}}, "no points"),
        ({"parameters": {"source.0.size": 64}}, "a list of values"),
        ({"parameters": {"network.link.loss": "1 %"}}, "a list of values"),
        ({"parameters": {"source.0.size": [1, 1]}}, "occurs twice"),
        ({"parameters": {"seeds": ["1..2"]}}, "argument `seeds`"),
        ({"parameters": [{"capture.links": "all"}]}, "captures"),
        ({"seeds": []}, "no seed"),
        ({"seeds": "1-5"}, r"written A\.\.B"),
        ({"seeds": [1, 1]}, "each once"),
        ({"seeds": -1}, "from 0"),
        ({"executor": "ray"}, 'there are "local", "dask"'),
        ({"executor": lab.Local(), "jobs": 3}, "know their own"),
        ({"jobs": 0}, "at least one job"),
        ({"jobs": 0, "executor": "dask"}, "at least one job"),
        ({"seeds": [1.5]}, "whole numbers"),
        ({"seeds": ["1"]}, "whole numbers"),
        ({"seeds": None}, "whole numbers"),
        ({"parameters": ["source.0.size"]}, "a point is a mapping"),
    ],
)
def test_impossible_sweeps_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(lab.SweepError, match=message):
        lab.sweep(SCENARIO, **arguments)  # type: ignore[arg-type]


def test_a_directory_that_cannot_be_made_is_named(stand_in: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(lab.SweepError, match=r"cannot keep the runs in .*/file"):
        lab.sweep(SCENARIO, binary=stand_in, out=tmp_path / "file")


def test_one_pattern_needs_no_tuple(stand_in: Path) -> None:
    sweep = lab.sweep(SCENARIO, binary=stand_in, keep="runs.csv")
    assert list(sweep.cells[0].outcome.files) == ["runs.csv"]


def test_a_value_that_toml_lacks_is_refused() -> None:
    with pytest.raises(lab.ScenarioError, match="NoneType"):
        lab.sweep(SCENARIO, [{"source.0.size": None}])  # type: ignore[dict-item]


class _Backwards:
    """An executor of somebody's own, which does the last first."""

    def run(self, tasks: Sequence[lab.Task]) -> Generator[tuple[int, lab.Outcome], None, None]:
        for number in reversed(range(len(tasks))):
            yield number, lab.simulate(tasks[number])
