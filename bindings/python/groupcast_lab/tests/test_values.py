"""Values as TOML, and as numbers."""

import math
import sys
from typing import Any

import numpy as np
import pytest

from groupcast_lab import quantity, to_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.mark.parametrize(
    "value",
    [
        True,
        -3,
        10**18,
        0.1,
        1e-300,
        math.inf,
        "50/s",
        'quotes " and \\ and \n and \x7f and ü',
        [1, "two", [3.0]],
        {"to_bad": 0.01, "nested": {"a b": []}},
        [],
        {},
    ],
)
def test_a_value_survives_the_way_through_toml(value: Any) -> None:
    assert tomllib.loads(f"value = {to_toml(value)}")["value"] == value


def test_numpy_scalars_are_numbers() -> None:
    assert to_toml(np.int64(5)) == "5"
    assert to_toml([np.float64(0.25), np.True_]) == "[0.25, true]"


def test_what_toml_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        to_toml({"a": None})


@pytest.mark.parametrize(
    ("value", "number", "unit"),
    [
        ("10 ms", 0.01, "s"),
        ("1.5 Mb/s", 1.5e6, "bit/s"),
        ("64 KiB", 65536.0, "B"),
        ("1.5 GB", 1.5e9, "B"),
        ("100/s", 100.0, "/s"),
        ("0.1 %", 0.001, ""),
        (210, 210.0, ""),
        ("50 packets", 50.0, "packets"),
    ],
)
def test_quantities_are_read_in_base_units(value: Any, number: float, unit: str) -> None:
    read = quantity(value)
    assert read is not None
    assert read[0] == pytest.approx(number)
    assert read[1] == unit


@pytest.mark.parametrize("value", ["tree", "10 parsecs", "ms", "", True, [1], None])
def test_what_is_no_quantity_is_none(value: Any) -> None:
    assert quantity(value) is None
