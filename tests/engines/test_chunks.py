"""Sums over tokens in chunks against those of one process, and against direct ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnflow.engines import chunks_softmax as sums
from attnflow.engines import dense, separable

Array = NDArray[np.float64]


def corners(rows: Array) -> Array:
    """Both ends of the box around rows."""
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


def in_chunks(queries: Array, keys: Array, gain: float, cuts: list[int]) -> Array:
    """Means by the chunks between these cuts, whose moments are added in pairs."""
    around = corners(keys)
    grid = sums.common_grid(around if queries is keys else corners(queries), around, len(keys), gain)
    assert grid is not None
    parts = [sums.moments(grid, chunk) for chunk in np.split(keys, cuts)]
    while len(parts) > 1:
        parts = [sums.added(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    field = sums.propagated(grid, parts[0])
    return np.concatenate([sums.means(field, chunk) for chunk in np.split(queries, cuts)])


def cloud(d: int, far: float = 0.0, n: int = 3000) -> Array:
    return np.random.default_rng(d).standard_normal((n, d)) + far


FORM = np.array([[0.9, -0.7, 0.2], [0.3, 0.5, -0.4], [0.1, 0.6, 0.8]])


CASES = [
    (1, 0.5, False),
    (1, 1.0, True),
    (2, 0.0, False),
    (2, 0.3, True),
    (2, 0.5, False),
    (3, 0.02, True),
    (3, 0.1, False),
]


@pytest.mark.parametrize("far", [0.0, 200.0])
@pytest.mark.parametrize(("d", "gain", "turned"), CASES)
def test_chunks_hear_what_one_process_does(d: int, gain: float, turned: bool, far: float) -> None:
    x = cloud(d, far)
    q = x @ FORM[:d, :d] if turned else x
    made = separable.plan(q, x, gain)
    assert made is not None
    assert (made.grid.turn == np.eye(max(d, 2))).all()  # other axes err otherwise, within the tolerance
    mean = in_chunks(q, x, gain, [1, 400, 401, 1300, 1900, 2950])
    # One process knows how much of its box the cloud fills, and keeps fewer polynomials.
    assert np.abs(mean - separable.softmax(q, x, x, None, gain)[0]).max() < 1e-11
    direct = dense.softmax(q[::50], x, x, None, gain)[0]
    assert np.abs(mean[::50] - direct).max() < 1e-10


@pytest.mark.parametrize(("d", "gain"), [(1, 40.0), (2, 4.0), (3, 0.5)])
def test_chunks_hear_what_direct_sums_say(d: int, gain: float) -> None:
    x = cloud(d, n=1000)
    direct = dense.softmax(x, x, x, None, gain)[0]
    assert np.abs(in_chunks(x, x, gain, [300, 900]) - direct).max() < separable.TOLERANCE * np.ptp(x, axis=0).max()


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, 499), min_size=1, max_size=9, unique=True), gain=st.floats(0.01, 4.0))
def test_any_chunks_give_the_same_sums(cuts: list[int], gain: float) -> None:
    x = cloud(2, n=500)
    assert np.abs(in_chunks(x, x, gain, sorted(cuts)) - in_chunks(x, x, gain, [])).max() < 1e-13


def test_chunks_of_far_clusters() -> None:
    """Terms go from e^-550 to e^550, and each chunk sees one cluster alone."""
    x = np.concatenate([0.01 * cloud(2, n=700) + [10.0, 4.0], 0.01 * cloud(2, n=700) - [10.0, 3.0]])
    mean = in_chunks(x, x, 5.0, [700])
    direct = dense.softmax(x, x, x, None, 5.0)[0]
    assert np.abs(mean - direct).max() < 1e-10 * 20


def test_boxes_that_only_some_chunks_fill() -> None:
    """One token far heavier than the others, by e^{g <c, x>}, in a box that the other chunks leave empty."""
    x = cloud(2, n=400) + np.array([40.0, 0.0])
    x[7] = [55.0, 9.0]
    q = 0.1 * x
    for cuts in ([8], [7], [7, 8]):
        direct = dense.softmax(q, x, x, None, 4.0)[0]
        assert np.abs(in_chunks(q, x, 4.0, cuts) - direct).max() < 1e-10 * np.ptp(x, axis=0).max()


def test_grids_that_would_be_too_large_are_none() -> None:
    for d, largest in [(1, 700.0), (2, 700.0), (3, 38.0)]:
        ends = np.stack([np.full(d, -3.0), np.full(d, 3.0)])
        assert sums.common_grid(ends, ends, 10**8, largest / 9) is not None
        assert sums.common_grid(ends, ends, 10**8, 1.3 * largest / 9) is None
    far = np.array([[1e19], [1e19]])  # whose rounding is as wide as the grid
    assert sums.common_grid(far, np.array([[0.0], [1.0]]), 10, 1.0) is None
