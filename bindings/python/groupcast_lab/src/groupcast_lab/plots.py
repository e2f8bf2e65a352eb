"""Figures of results, with axes, units, a legend and error bars. Each function draws on axes and returns them.

Without ``ax`` a new figure is made. Nothing is shown or saved: ``ax.figure.savefig(...)`` does that. Matplotlib is
imported when something is drawn: workers draw nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from .errors import ResultsError, SweepError
from .results import Tables
from .statistics import summarise
from .sweep import Sweep
from .values import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_latency", "plot_links", "plot_measure", "plot_windows"]

_UNITS = {"_s": "s", "_bps": "bit/s", "_bytes": "B"}
"""Units of columns, by how their names end."""


def plot_measure(
    sweep: Sweep,
    measure: str,
    x: str,
    by: str | Sequence[str] | None = None,
    *,
    table: str = "runs",
    error: Literal["interval", "range"] = "interval",
    confidence: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """``measure`` over the parameter ``x``, one line for each combination of ``by``: means over seeds and error bars.

    ``by``: parameters or columns; unless given, all other parameters that have several values, so that no mean is of
    several points. With ``by=()`` there is one line, with means over all points at an ``x``.
    ``error``: the confidence interval of the mean, or the range from the least to the greatest seed. Values with units
    (``"10 ms"``) are placed as numbers; values that are no quantities side by side.
    """
    if error not in ("interval", "range"):
        raise SweepError(f'`error` is "interval" or "range", not {error!r}')
    ax = _axes(ax)
    frame = sweep.table(table)
    if by is None:
        others = (parameter for parameter in sweep.parameters if parameter != x)
        by = [other for other in others if frame[other].nunique(dropna=False) > 1]
    lines = [by] if isinstance(by, str) else list(by)
    points = summarise(frame, measure, [*lines, x], confidence)
    place, unit = _places(points[x])
    groups = points.groupby(lines, sort=False, dropna=False) if lines else [((), points)]
    for key, group in groups:
        group = group.assign(_place=place[group.index]).sort_values("_place")
        low, high = (group["low"], group["high"]) if error == "interval" else (group["min"], group["max"])
        several = group["seeds"] > 1  # one seed shows nothing of how much seeds differ: no bar, not one of no length
        bars = [(group["mean"] - low).where(several), (high - group["mean"]).where(several)]
        names = key if isinstance(key, tuple) else (key,)
        label = ", ".join(f"{column} = {name}" for column, name in zip(lines, names, strict=True))
        ax.errorbar(group["_place"], group["mean"], yerr=bars, marker="o", capsize=3, label=label or None)
    if unit is None:
        ax.set_xticks(place.drop_duplicates(), labels=[str(value) for value in points[x].drop_duplicates()])
    else:
        _with_unit(ax.xaxis, unit)
    ax.set_xlabel(x)
    ax.set_ylabel(_words(measure))
    _with_unit(ax.yaxis, _unit_of(measure))
    ax.set_title(_title(points["seeds"], confidence if error == "interval" else None), fontsize="small")
    return _finish(ax, legend=bool(lines))


def plot_latency(
    results: Tables,
    measures: Sequence[str] = ("arrival", "latency"),
    by: str | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """The share of messages over the time that they took at most, from the histograms, all seeds and hosts together.

    ``measures``: ``"arrival"`` (before ordering), ``"latency"`` (after), ``"gap"`` (between deliveries). ``by``: one
    line for each value of a column, a parameter or ``"host"``. How fine it is, the scenario says: ``latency_max`` and
    ``bins`` of ``[measure]``.
    """
    ax = _axes(ax)
    frame = results.latency
    for measure in measures:
        chosen = frame[frame["measure"] == measure]
        groups = chosen.groupby(by, sort=False) if by else [(None, chosen)]
        for key, group in groups:
            counts = group.groupby("high_s")["count"].sum().sort_index()
            if counts.empty:
                continue
            start = float(group["low_s"].min())
            times = [start, *(float(time) for time in counts.index)]
            shares = [0.0, *(float(share) for share in counts.cumsum() / counts.sum())]
            ax.plot(times, shares, label=measure if by is None else f"{measure}, {by} = {key!s}")
    if not ax.lines:
        raise ResultsError(f"the histograms have none of {', '.join(measures)}")
    _with_unit(ax.xaxis, "s")
    ax.set_xlabel("time")
    ax.set_ylabel("share of messages")
    ax.set_ylim(0.0, 1.02)
    return _finish(ax, legend=True)


def plot_windows(results: Tables, by: str = "host", *, ax: Axes | None = None) -> Axes:
    """Deliveries a second over time, window by window: mean over seeds and, unless ``by`` is ``"host"``, over hosts."""
    ax = _axes(ax)
    if results.windows["start_s"].nunique() < 2:
        raise ResultsError("there is one window of time; set measure.window to a smaller one")
    run = [*(results.parameters if isinstance(results, Sweep) else ()), "seed"]
    frame = results.windows.merge(results.runs[[*run, "simulated_s"]], on=run)
    # A window ends with the next one, the last with the run: it may be shorter than the others, or of no length.
    ends = frame.groupby([*run, "host"], sort=False, dropna=False)["start_s"].shift(-1).fillna(frame["simulated_s"])
    length = ends - frame["start_s"]
    frame = frame.assign(_rate=frame["delivered"] / length)[length > 0]
    for key, group in frame.groupby(by, sort=False):
        rate = group.groupby("start_s")["_rate"].mean().sort_index()
        ax.plot(rate.index, rate, label=f"{by} {key}" if by == "host" else f"{by} = {key}")
    ax.set_xlabel("time")
    _with_unit(ax.xaxis, "s")
    ax.set_ylabel("deliveries a second")
    ax.set_ylim(bottom=0.0)
    return _finish(ax, legend=True)


def plot_links(results: Tables, measure: str = "utilisation", top: int = 20, *, ax: Axes | None = None) -> Axes:
    """The ``top`` directions with the greatest ``measure``, a column of ``links``: mean and range over seeds.

    In a sweep each point of its parameters has a bar of its own for a direction.
    """
    ax = _axes(ax)
    lines = list(results.parameters) if isinstance(results, Sweep) else []
    points = summarise(results.links, measure, [*lines, "link"]).dropna(subset=["mean"]).nlargest(top, "mean")
    if points.empty:
        raise ResultsError(f"no link has a value of {measure}")
    bars = [points["mean"] - points["min"], points["max"] - points["mean"]]
    names = [", ".join([str(it["link"]), *(f"{key} = {it[key]}" for key in lines)]) for _, it in points.iterrows()]
    ax.barh(names, points["mean"], xerr=bars, capsize=2)
    ax.invert_yaxis()
    ax.set_xlabel(_words(measure))
    _with_unit(ax.xaxis, _unit_of(measure))
    ax.set_ylabel("link")
    return _finish(ax, legend=False)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _finish(ax: Axes, *, legend: bool) -> Axes:
    ax.grid(alpha=0.3)
    if legend:
        ax.legend(fontsize="small")
    return ax


def _places(values: pd.Series[Any]) -> tuple[pd.Series[float], str | None]:
    """Where the values lie on an axis, and the axis' unit; no unit if they are no quantities of one kind."""
    read = [quantity(value.item() if hasattr(value, "item") else value) for value in values]
    units = {each[1] for each in read if each is not None}
    if len(units) == 1 and all(each is not None for each in read):
        return pd.Series([each[0] for each in read if each is not None], index=values.index), units.pop()
    order = {value: float(place) for place, value in enumerate(values.drop_duplicates())}
    return values.map(order), None


def _with_unit(axis: Any, unit: str) -> None:
    if unit:
        from matplotlib.ticker import EngFormatter

        axis.set_major_formatter(EngFormatter(unit=unit))


def _unit_of(column: str) -> str:
    return next((unit for ending, unit in _UNITS.items() if column.endswith(ending)), "")


def _words(column: str) -> str:
    """The column's name without its unit, which the ticks have."""
    for ending in _UNITS:
        column = column.removesuffix(ending)
    return column.replace("_", " ")


def _title(seeds: pd.Series[int], confidence: float | None) -> str:
    """How many seeds the points have, and what their bars show: the interval, or without it the range."""
    least, greatest = int(seeds.min()), int(seeds.max())
    if greatest < 2:
        return "one seed, no bars"
    count = str(least) if least == greatest else f"{least} to {greatest}"
    bars = "least and greatest seed" if confidence is None else f"{100 * confidence:.4g}% confidence"
    return f"means over {count} seeds, bars: {bars}"
