"""Values of a scenario as Python has them: written as TOML for ``--set``, and read as numbers for an axis."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["Value", "quantity", "to_toml"]

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value]"
"""What a key of a scenario can be set to."""

_UNITS: dict[str, tuple[float, str]] = {
    "ns": (1e-9, "s"),
    "us": (1e-6, "s"),
    "ms": (1e-3, "s"),
    "s": (1.0, "s"),
    "min": (60.0, "s"),
    "b/s": (1.0, "bit/s"),
    "kb/s": (1e3, "bit/s"),
    "Mb/s": (1e6, "bit/s"),
    "Gb/s": (1e9, "bit/s"),
    "B": (1.0, "B"),
    "kB": (1e3, "B"),
    "MB": (1e6, "B"),
    "GB": (1e9, "B"),
    "KiB": (1024.0, "B"),
    "MiB": (1024.0**2, "B"),
    "GiB": (1024.0**3, "B"),
    "/s": (1.0, "/s"),
    "%": (1e-2, ""),
    "packets": (1.0, "packets"),
    "": (1.0, ""),
}
_QUANTITY = re.compile(r"\s*([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/%]*)\s*")


def to_toml(value: object) -> str:
    """Writes ``value`` as TOML on one line.

    Booleans, numbers (NumPy's too), strings, lists or tuples, and mappings with string keys. Raises :class:`TypeError`
    for anything else: TOML has no ``None``.
    """
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()  # a scalar of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_string(str(key))} = {to_toml(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    raise TypeError(f"a scenario has no values of the type {type(value).__name__}: {value!r}")


def _string(text: str) -> str:
    """A basic string. TOML's escapes are JSON's, but for DEL, which JSON leaves alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quantity(value: Any) -> tuple[float, str] | None:
    """A value of a scenario as a number in base units, and that unit: ``"10 ms"`` is ``(0.01, "s")``.

    The base units are those of the results: seconds, bits a second, bytes, a second. A plain number has no unit.
    ``None`` for what is no quantity (``"tree"``, ``True``).
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value), ""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        return None
    factor, unit = _UNITS[match[2]]
    return float(match[1]) * factor, unit
