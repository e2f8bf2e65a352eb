"""A scenario travels with the files that it names."""

from pathlib import Path

import pytest

from groupcast_lab import Scenario, ScenarioError

WITH_FILES = """
[network]
kind = "edges"
file = "../maps/edges.txt"

[[source]]
arrivals = "trace"
file = "trace.txt"
"""


def test_named_files_are_found_again_wherever_it_is_laid_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "scenarios").mkdir(parents=True)
    (home / "maps").mkdir()
    (home / "maps" / "edges.txt").write_text("a b\n")
    (home / "scenarios" / "trace.txt").write_text("0.5 100\n")
    (home / "scenarios" / "map.toml").write_text(WITH_FILES)

    scenario = Scenario.read(home / "scenarios" / "map.toml")
    away = tmp_path / "away"
    path = scenario.lay_out(away)

    assert path.read_text() == WITH_FILES
    assert (path.parent / "../maps/edges.txt").read_text() == "a b\n"
    assert (path.parent / "trace.txt").read_text() == "0.5 100\n"
    assert all(away in file.resolve().parents for file in away.rglob("*.t*"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="nowhere.toml"):
        Scenario.read(tmp_path / "nowhere.toml")
    (tmp_path / "map.toml").write_text(WITH_FILES)
    with pytest.raises(ScenarioError, match="maps/edges.txt"):
        Scenario.read(tmp_path / "map.toml")


def test_broken_toml_is_left_to_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("duration = \n")
    assert Scenario.read(tmp_path / "broken.toml").text == "duration = \n"
