"""Points that coincide, against a dictionary of places."""

from __future__ import annotations

import numpy as np
import pytest

from attnflow.geometry.copies import SAMPLE, copies


def places(count: int, n: int, seed: int = 0) -> np.ndarray:
    """Return n points at exactly this number of places, in any order."""
    rng = np.random.default_rng(seed)
    every = rng.standard_normal((count, 2))
    return every[rng.permutation(np.concatenate([np.arange(count), rng.integers(count, size=n - count)]))]


@pytest.mark.parametrize(("count", "n"), [(1, 2), (2, 4), (3, 6), (3, 7), (2, 3), (3, 4), (3, 5), (4, 7), (1, 1)])
def test_copies_are_told_where_at_most_half_of_the_points_are_distinct(count: int, n: int) -> None:
    x = places(count, n)
    found = copies(x)
    assert (found is not None) == (2 * count <= n)
    if found is not None:
        first: dict[tuple[float, ...], int] = {}
        for i, p in enumerate(x.tolist()):
            first.setdefault(tuple(p), i)
        assert found.first.tolist() == list(first.values())
        assert found.label.tolist() == [list(first).index(tuple(p)) for p in x.tolist()]
        assert found.added(None).tolist() == [int((x == x[i]).all(axis=1).sum()) for i in first.values()]
        masses = np.arange(n, dtype=float)
        assert found.added(masses).tolist() == [masses[(x == x[i]).all(axis=1)].sum() for i in first.values()]


def test_at_a_glance_copies_are_seen_where_places_are_few() -> None:
    """Every sixteenth point is looked at: five places are seen often, 6 SAMPLE of them seldom twice."""
    few, many = places(5, 16 * SAMPLE), places(6 * SAMPLE, 16 * SAMPLE)
    assert copies(few, at_a_glance=True) is not None
    assert copies(many) is not None
    assert copies(many, at_a_glance=True) is None


def test_points_that_are_not_finite_have_no_copies() -> None:
    assert copies(np.full((4, 2), np.inf)) is None
    assert copies(np.array([[1.0, np.nan], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])) is None
