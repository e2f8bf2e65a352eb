"""What a run wrote, as data frames: one a file of ``docs/scenarios.md``, with its columns.

The files are kept as they are and parsed when a table is first asked for.
"""

from __future__ import annotations

import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pandas as pd

from .errors import ResultsError

__all__ = ["TABLES", "Results", "Tables", "load"]

TABLES = ("runs", "hosts", "links", "flows", "windows", "latency", "packets", "counters")
"""The tables, named like their files without ``.csv``."""

_TEXT_COLUMNS: Any = dict.fromkeys(("counter", "kind", "link", "measure", "role", "trace_hash", "vertex"), "object")
"""Columns that stay text even if every cell of them looks like a number."""

_EXACT: Any = {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
"""What has pandas read each decimal as the nearest double. From 3.1 on it does so unasked and warns if asked."""


class Tables(ABC):
    """Tables by name. Each is parsed once; it is yours to change a ``copy()`` of it, not the frame itself."""

    def __init__(self) -> None:
        self._parsed: dict[str, pd.DataFrame] = {}

    def table(self, name: str) -> pd.DataFrame:
        """The table ``name``, one of :data:`TABLES`. Raises :class:`ResultsError` if there is none."""
        if name not in self._parsed:
            self._parsed[name] = self._parse(name)
        return self._parsed[name]

    @abstractmethod
    def _parse(self, name: str) -> pd.DataFrame:
        """The table ``name``, from the files."""

    @property
    def runs(self) -> pd.DataFrame:
        """One line a seed: throughput, latency, losses, packets by role, the trace hash."""
        return self.table("runs")

    @property
    def hosts(self) -> pd.DataFrame:
        """One line a seed and host."""
        return self.table("hosts")

    @property
    def links(self) -> pd.DataFrame:
        """One line a seed and direction of a link."""
        return self.table("links")

    @property
    def flows(self) -> pd.DataFrame:
        """One line a seed and flow: what streams beside the protocol got. Empty without flows."""
        return self.table("flows")

    @property
    def windows(self) -> pd.DataFrame:
        """One line a seed, host and window of time: what was delivered in it."""
        return self.table("windows")

    @property
    def latency(self) -> pd.DataFrame:
        """Histograms: one line a seed, host, measure and bin that is not empty."""
        return self.table("latency")

    @property
    def packets(self) -> pd.DataFrame:
        """One line a seed, host and kind of packet."""
        return self.table("packets")

    @property
    def counters(self) -> pd.DataFrame:
        """What the protocol itself counted."""
        return self.table("counters")


class Results(Tables):
    """What one call of ``groupcast sim --out`` wrote."""

    def __init__(self, files: Mapping[str, bytes], origin: str) -> None:
        """``files`` by name; ``origin`` says in errors where they came from."""
        super().__init__()
        self.files = files
        self.origin = origin

    @property
    def summary(self) -> dict[str, Any]:
        """``summary.json``: scenario, version, seeds, and every measure over the seeds."""
        summary: dict[str, Any] = json.loads(content(self.files, "summary.json", self.origin))
        return summary

    @property
    def measures(self) -> pd.DataFrame:
        """The measures of :attr:`summary`, one line each: ``mean``, ``low``, ``high``, ``min``, ``max``, ``seeds``."""
        return pd.DataFrame.from_dict(self.summary["measures"], orient="index").rename_axis("measure")

    def _parse(self, name: str) -> pd.DataFrame:
        return parse_csv(content(self.files, f"{name}.csv", self.origin))


def load(folder: str | os.PathLike[str]) -> Results:
    """The results in ``folder``, which ``groupcast sim --out`` wrote.

    Captures (``*.pcap``) are left where they are. Raises :class:`ResultsError` if there are no results, or if the run
    that writes them has not ended.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ResultsError(f"{folder} is not a directory; `groupcast sim FILE --out {folder}` writes one")
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".csv", ".json")}
    if "runs.csv" not in files:
        unfinished = any(folder.glob("*.partial"))
        raise ResultsError(
            f"the run that writes {folder} has not ended, or was interrupted: run it again"
            if unfinished
            else f"{folder} holds no results: there is no runs.csv"
        )
    return Results(files, str(folder))


def content(files: Mapping[str, bytes], name: str, origin: str) -> bytes:
    """The file ``name`` of ``files``. Raises :class:`ResultsError` if it is not there."""
    try:
        return files[name]
    except KeyError:
        raise ResultsError(f"{origin} has no {name}; it has {', '.join(sorted(files)) or 'nothing'}") from None


def parse_csv(text: bytes) -> pd.DataFrame:
    """A table of the results. Every decimal becomes the nearest double, so that equal files are equal frames."""
    return cast(pd.DataFrame, pd.read_csv(io.BytesIO(text), dtype=_TEXT_COLUMNS, **_EXACT))
