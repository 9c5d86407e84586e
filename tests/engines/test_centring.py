"""Least and largest coordinates of a cloud, against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from attnflow.engines.centring import LONG, NARROW, ends


@pytest.mark.parametrize("d", [0, 1, 2, 3, NARROW, NARROW + 1, 40])
@pytest.mark.parametrize("n", [1, 2, 127, *(LONG * LONG + k for k in (-1, 0, 1, LONG - 1)), 40_000])
def test_the_least_and_the_largest_coordinates(n: int, d: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, d))
    # The extreme points may be anywhere, the last rows that fill no long row among them.
    for place in {0, n // 2, n - 1}:
        x[place] = [-9.0 - place, *[9.0 + place] * (d - 1)][:d]
        for points in (x, np.asfortranarray(x), x[::-1]):
            low, high = ends(points)
            assert low.tolist() == points.min(axis=0).tolist()
            assert high.tolist() == points.max(axis=0).tolist()


@pytest.mark.parametrize("n", [3, LONG * LONG, LONG * LONG + 5])
@pytest.mark.parametrize("d", [2, 40])
def test_a_coordinate_that_is_no_number_shows_in_the_ends(n: int, d: int) -> None:
    for place in (0, n // 2, n - 1):
        x = np.zeros((n, d))
        x[place, 1] = np.nan
        for end in ends(x):
            assert np.isnan(end).tolist() == [k == 1 for k in range(d)]
