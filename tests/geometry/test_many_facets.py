"""Polytopes with more facets than can be listed."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from refusals import refused

from attnflow.geometry import hull
from attnflow.geometry.hull import _most_facets


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_edges_of_cross_polytopes_that_have_too_many_facets(scale: float) -> None:
    """In R^17 the bound for 34 vertices is 1.5 million facets; edges join all vertices but v and -v, at any scale."""
    v = scale * np.concatenate([np.eye(17), -np.eye(17)])
    found = {(a, b) for a, b in hull(v).edges.tolist()}
    assert found == {(a, b) for a, b in combinations(range(34), 2) if b != a + 17}


@pytest.mark.parametrize("k", [6, 20, 2000])
def test_the_bound_of_facets_is_that_of_cyclic_polytopes(k: int) -> None:
    """McMullen: k sides of a polygon, 2 k - 4 in space, k (k - 3) / 2 in R^4, (k - 3) (k - 4) in R^5."""
    assert [_most_facets(k, r) for r in (2, 3, 4, 5)] == [k, 2 * k - 4, k * (k - 3) // 2, (k - 3) * (k - 4)]


def test_facets_are_not_listed_where_there_may_be_more_than_a_million() -> None:
    """1,417 vertices in R^4 may have 1,001,819 facets; in space no number of vertices is too large."""
    body = hull(np.eye(4))
    for dimension, count, many in ((4, 1415, False), (4, 1417, True), (3, 10**6, False)):
        body.dimension, body.vertices = dimension, np.empty((count, dimension))
        assert body._many_facets == many


def test_facets_are_refused_where_qhull_does_not_see_every_vertex() -> None:
    """As in clouds that are degenerate beyond its precision; here the last "vertex" is the middle of a cube."""
    body = hull(np.array(list(product((0.0, 1.0), repeat=3))))
    body.vertices = np.vstack([body.vertices, np.full(3, 0.5)])
    with refused("degenerate beyond the precision of Qhull"):
        _ = body.facets
