"""What figures show: places, bars, labels, units."""

from collections.abc import Iterator
from typing import Any, Literal

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import groupcast_lab as lab


class Table(lab.Tables):
    """Tables made by hand."""

    def __init__(self, **frames: pd.DataFrame) -> None:
        super().__init__()
        self._frames = frames

    def _parse(self, name: str) -> pd.DataFrame:
        return self._frames[name]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def sweep(key: str, values: list[lab.Value], kinds: list[lab.Value]) -> lab.Sweep:
    """Three seeds a point; the latency is the value's place + the kind's + the seed, in milliseconds."""
    cells = []
    for place, value in enumerate(values):
        for other, kind in enumerate(kinds):
            for seed in range(3):
                text = f"seed,latency_mean_s\n{seed},{(place + 10 * other + seed) / 1000}\n"
                outcome = lab.Outcome({"runs.csv": text.encode()}, "build")
                cells.append(lab.Cell({key: value, "kind": kind}, seed, outcome))
    return lab.Sweep(cells)


def bars(ax: Any, line: int) -> list[tuple[float, float]]:
    segments = ax.containers[line].lines[2][0].get_segments()
    return [(low, high) for (_, low), (_, high) in segments]


def test_without_by_no_mean_is_of_several_points() -> None:
    points = sweep("x", [1, 2], ["a", "b"])
    ax = lab.plot_measure(points, "latency_mean_s", x="x")
    first, second = (container.lines[0] for container in ax.containers)
    assert list(first.get_ydata()) == pytest.approx([0.001, 0.002])
    assert list(second.get_ydata()) == pytest.approx([0.011, 0.012])
    (line,) = (container.lines[0] for container in lab.plot_measure(points, "latency_mean_s", x="x", by=()).containers)
    assert list(line.get_ydata()) == pytest.approx([0.006, 0.007])


def test_bars_that_do_not_exist_are_refused() -> None:
    wrong: Any = "std"
    with pytest.raises(lab.SweepError, match="'std'"):
        lab.plot_measure(sweep("x", [1, 2], ["a"]), "latency_mean_s", x="x", error=wrong)


def test_a_measure_has_one_line_a_group_with_ranges_over_seeds() -> None:
    ax = lab.plot_measure(
        sweep("network.link.delay", ["100 us", "2 ms"], ["a", "b"]),
        "latency_mean_s",
        x="network.link.delay",
        by="kind",
        error="range",
    )
    first, second = (container.lines[0] for container in ax.containers)
    assert list(first.get_xdata()) == pytest.approx([1e-4, 2e-3])
    assert list(first.get_ydata()) == pytest.approx([0.001, 0.002])
    assert list(second.get_ydata()) == pytest.approx([0.011, 0.012])
    assert bars(ax, 0) == [pytest.approx((0.0, 0.002)), pytest.approx((0.001, 0.003))]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["kind = a", "kind = b"]
    assert ax.get_ylabel() == "latency mean"
    assert ax.yaxis.get_major_formatter()(0.002) == "2 ms"
    assert ax.xaxis.get_major_formatter()(1e-4) == "100 µs"


def test_intervals_are_those_of_the_mean() -> None:
    ax = lab.plot_measure(sweep("x", [1, 2], ["a"]), "latency_mean_s", x="x")
    half = lab.student_t(0.95, 2) * 0.001 / 3**0.5
    assert bars(ax, 0)[0] == pytest.approx((0.001 - half, 0.001 + half))
    assert "95%" in ax.get_title()
    assert "3 seeds" in ax.get_title()


@pytest.mark.parametrize("error", ["interval", "range"])
def test_one_seed_has_no_bars_and_says_so(error: Literal["interval", "range"]) -> None:
    cells = [cell for cell in sweep("x", [1, 2], ["a"]).cells if cell.seed == 0]
    ax: Any = lab.plot_measure(lab.Sweep(cells), "latency_mean_s", x="x", error=error)
    assert not any(len(segment) for segment in ax.containers[0].lines[2][0].get_segments())
    assert ax.get_title() == "one seed, no bars"
    assert list(ax.containers[0].lines[0].get_ydata()) == pytest.approx([0.0, 0.001])


def test_a_confidence_is_not_rounded_away() -> None:
    ax = lab.plot_measure(sweep("x", [1, 2], ["a"]), "latency_mean_s", x="x", confidence=0.999)
    assert "99.9% confidence" in ax.get_title()


def test_words_stand_side_by_side() -> None:
    ax = lab.plot_measure(sweep("protocol.name", ["ring", "flood"], ["a"]), "latency_mean_s", x="protocol.name")
    assert list(ax.containers[0].lines[0].get_xdata()) == [0.0, 1.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["ring", "flood"]


def test_a_distribution_rises_from_none_to_all() -> None:
    frame = pd.DataFrame(
        {
            "seed": [1, 1, 2, 1],
            "host": [0, 0, 0, 0],
            "measure": ["latency", "latency", "latency", "gap"],
            "low_s": [0.001, 0.002, 0.001, 0.5],
            "high_s": [0.002, 0.004, 0.002, 0.6],
            "count": [1, 2, 1, 9],
        }
    )
    ax = lab.plot_latency(Table(latency=frame))
    (line,) = ax.lines
    assert list(line.get_xdata()) == [0.001, 0.002, 0.004]
    assert list(line.get_ydata()) == [0.0, 0.5, 1.0]
    with pytest.raises(lab.ResultsError, match="none of loss"):
        lab.plot_latency(Table(latency=frame), ["loss"])


def test_windows_are_rates_over_time() -> None:
    frame = pd.DataFrame(
        {"seed": [1, 2, 1, 2], "host": [0] * 4, "start_s": [0.0, 0.0, 0.5, 0.5], "delivered": [10, 20, 30, 50]}
    )
    runs = pd.DataFrame({"seed": [1, 2], "simulated_s": [1.0, 1.0]})
    ax = lab.plot_windows(Table(windows=frame, runs=runs))
    (line,) = ax.lines
    assert list(line.get_xdata()) == [0.0, 0.5]
    assert list(line.get_ydata()) == [30.0, 80.0]
    with pytest.raises(lab.ResultsError, match="one window"):
        lab.plot_windows(Table(windows=frame[:2], runs=runs))


def test_a_shorter_last_window_is_no_fall_of_the_rate() -> None:
    # 100 deliveries a second for 1.1 s, and one more in the very last instant.
    frame = pd.DataFrame({"seed": 1, "host": 0, "start_s": [0.0, 0.5, 1.0], "delivered": [50, 50, 10]})
    ax = lab.plot_windows(Table(windows=frame, runs=pd.DataFrame({"seed": [1], "simulated_s": [1.1]})))
    assert list(ax.lines[0].get_ydata()) == pytest.approx([100.0, 100.0, 100.0])
    frame = pd.DataFrame({"seed": 1, "host": 0, "start_s": [0.0, 0.5, 1.0], "delivered": [50, 50, 1]})
    ax = lab.plot_windows(Table(windows=frame, runs=pd.DataFrame({"seed": [1], "simulated_s": [1.0]})))
    assert list(ax.lines[0].get_xdata()) == [0.0, 0.5]


def test_windows_of_a_swept_length_are_each_taken_by_its_own() -> None:
    cells = []
    for window in (0.25, 0.5):
        starts = [step * window for step in range(int(1 / window))]
        windows = "seed,host,start_s,delivered\n" + "".join(f"1,0,{start},{100 * window:.0f}\n" for start in starts)
        files = {"windows.csv": windows.encode(), "runs.csv": b"seed,simulated_s\n1,1.0\n"}
        cells.append(lab.Cell({"measure.window": f"{window} s"}, 1, lab.Outcome(files, "build")))
    ax = lab.plot_windows(lab.Sweep(cells), by="measure.window")
    assert [list(line.get_ydata()) for line in ax.lines] == [pytest.approx([100.0] * 4), pytest.approx([100.0] * 2)]


def test_the_busiest_links_come_first() -> None:
    frame = pd.DataFrame({"link": ["0>1", "1>0", "1>2"] * 2, "utilisation": [0.1, 0.5, None, 0.3, 0.7, None]})
    ax = lab.plot_links(Table(links=frame), top=5)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1>0", "0>1"]
    assert [patch.get_width() for patch in ax.patches] == pytest.approx([0.6, 0.2])  # type: ignore[attr-defined]


def test_a_link_at_several_points_of_a_sweep_has_a_bar_for_each() -> None:
    cells = []
    for loss, shares in (("0 %", (0.1, 0.3)), ("1 %", (0.8, 0.6))):
        for seed, share in enumerate(shares, 1):
            files = {"links.csv": f"seed,link,utilisation\n{seed},0>1,{share}\n".encode()}
            cells.append(lab.Cell({"network.link.loss": loss}, seed, lab.Outcome(files, "build")))
    ax = lab.plot_links(lab.Sweep(cells))
    names = ["0>1, network.link.loss = 1 %", "0>1, network.link.loss = 0 %"]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert [patch.get_width() for patch in ax.patches] == pytest.approx([0.7, 0.2])  # type: ignore[attr-defined]
