"""Functions of eight numbers at once, against those of Python's own library."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from attnflow.engines import simd
from attnflow.engines.simd import WIDTH, load, store

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
MANTISSAS = RNG.uniform(1, 2, 4000)
POSITIVE = {
    "around 1": 1 + RNG.uniform(-1e-3, 1e-3, 4000),
    "next to 1": 1 + 2.0**-52 * np.arange(-40, 40),
    "where the exponent changes": math.sqrt(0.5) + 2.0**-53 * np.arange(-20, 20),
    "next to the root of 2": math.sqrt(2.0) + 2.0**-52 * np.arange(-20, 20),
    "from 1/2 to 2": RNG.uniform(0.5, 2, 4000),
    "all sizes": np.ldexp(MANTISSAS, RNG.integers(-1022, 1024, 4000)),
    "powers of two": 2.0 ** np.arange(-1022, 1024),
    "ends": np.array([2.0**-1022, np.finfo(float).max]),
}


def applied(function: Any, x: Array) -> Array:
    """Return the function of each number."""

    def all_of(x: Any, y: Any) -> None:
        for i in range(0, len(x), WIDTH):
            store(y, i, function(load(x, i)))

    padded = np.ones(-(-len(x) // WIDTH) * WIDTH)
    padded[: len(x)] = x
    result = np.empty_like(padded)
    numba.njit(all_of)(padded, result)
    return result[: len(x)]


@pytest.mark.parametrize("numbers", POSITIVE)
def test_logarithms(numbers: str) -> None:
    x = POSITIVE[numbers]
    expected = np.array([math.log2(number) for number in x.tolist()])
    found = applied(simd.log2, x)
    # Relative to the logarithm itself, next to 1 too, where it is small.
    assert np.all(np.abs(found - expected) <= 5e-16 * np.abs(expected))


def test_logarithms_of_powers_of_two_are_exact() -> None:
    assert applied(simd.log2, POSITIVE["powers of two"]).tolist() == list(range(-1022, 1024))


@pytest.mark.parametrize("number", [0.0, -0.0, -1.0, -math.inf, math.inf, math.nan, 2.0**-1023, 5e-324])
def test_what_has_no_logarithm_gives_nan(number: float) -> None:
    x = np.array([4.0, number, 8.0])
    assert np.array_equal(applied(simd.log2, x), [2.0, math.nan, 3.0], equal_nan=True)


@pytest.mark.parametrize(("name", "allowed"), [("exp2", 3e-15), ("exp2_within", 3e-15), ("exp2_short", 2e-12)])
def test_powers(name: str, allowed: float) -> None:
    y = np.random.default_rng(1).uniform(-1000, 1000, 4000)
    expected = np.array([2.0**number for number in y.tolist()])
    found = applied(getattr(simd, name), y)
    assert np.all(np.abs(found - expected) <= allowed * expected)
    assert applied(getattr(simd, name), np.arange(-990.0, 990.0)).tolist() == [2.0**k for k in range(-990, 990)]


def test_powers_of_very_negative_numbers() -> None:
    y = np.array([-1001.0, -1e300, -math.inf])
    assert applied(simd.exp2, y).tolist() == [0.0] * 3
    assert applied(simd.exp2_short, y).tolist() == [2.0**-1000] * 3
