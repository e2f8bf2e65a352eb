"""What several tests use: a simulator that misbehaves on demand, the real one, a scenario, recorded results."""

import stat
import sys
from pathlib import Path

import matplotlib
import pytest

import groupcast_lab as lab

matplotlib.use("Agg")

HERE = Path(__file__).parent

RING = """\
duration = "300 ms"
warm_up = "50 ms"

[network]
kind = "switch"
hosts = 3
link = { bandwidth = "1 Gb/s", delay = "5 us" }

[protocol]
name = "ring"

[[source]]
hosts = "all"
arrivals = "poisson"
rate = "500/s"
size = 200

[measure]
window = "50 ms"
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """``stand_in.py`` as a program."""
    program = tmp_path / "stand-in"
    program.write_text(f"#!{sys.executable} -IS\n{(HERE / 'stand_in.py').read_text(encoding='utf-8')}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture(scope="session")
def groupcast() -> str:
    """The real simulator; tests that need it are skipped where there is none."""
    try:
        return lab.find_binary()
    except lab.BinaryError as error:
        pytest.skip(str(error))


@pytest.fixture
def ring() -> lab.Scenario:
    """Three hosts on a switch run the ring for a moment."""
    return lab.Scenario(RING, "ring.toml")
