"""Hulls against linear programs, exact polytopes and degenerate clouds."""

from __future__ import annotations

import os
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from larger import few
from numpy.typing import NDArray
from refusals import refused
from scipy.optimize import linprog

import attnflow as af
from attnflow.geometry import hull
from attnflow.geometry.affine import Frame
from attnflow.geometry.extreme import extreme
from attnflow.geometry.nearest import distance, non_negative

Array = NDArray[np.float64]


def combination_exists(corners: Array, p: Array) -> bool:
    """A linear program: whether p is a convex combination of the corners."""
    system = np.vstack([corners.T, np.ones(len(corners))])
    return bool(linprog(np.zeros(len(corners)), A_eq=system, b_eq=np.append(p, 1.0), method="highs").status == 0)


def exposes(corners: Array, members: tuple[int, ...]) -> bool:
    """A linear program: whether some direction has exactly these corners highest."""
    rest = np.delete(np.arange(len(corners)), members)
    first = corners[members[0]]
    equal = corners[list(members[1:])] - first if len(members) > 1 else None
    found = linprog(
        np.zeros(corners.shape[1]),
        A_ub=corners[rest] - first,
        b_ub=-np.ones(len(rest)),
        A_eq=equal,
        b_eq=None if equal is None else np.zeros(len(equal)),
        bounds=(None, None),
        method="highs",
    )
    return bool(found.status == 0)


def flat_cloud(n: int, d: int, r: int, seed: int) -> Array:
    """A cloud in a random r-dimensional affine subspace of R^d."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, r)) @ rng.standard_normal((r, d)) + rng.standard_normal(d)


@pytest.mark.parametrize(("d", "n"), [(1, 9), (2, 30), (3, 40), (4, 40), (5, 40), (6, 40), (8, 60), (10, 60)])
def test_vertices_against_linear_programs(d: int, n: int) -> None:
    x = np.concatenate([af.tokens.gaussian(n, d, seed=d), 0.3 * af.tokens.gaussian(n, d, seed=d + 100)])
    expected = [i for i in range(len(x)) if not combination_exists(np.delete(x, i, axis=0), x[i])]
    k = hull(x)
    assert sorted(k.indices.tolist()) == expected
    assert k.dimension == d
    np.testing.assert_array_equal(k.vertices, x[k.indices])


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10])
def test_membership_against_linear_programs(d: int) -> None:
    x = af.tokens.gaussian(25, d, seed=d)
    k = hull(x)
    rng = np.random.default_rng(d)
    inner = rng.dirichlet(np.ones(25), size=20) @ x
    p = np.concatenate([inner, 4 * inner, 2 * rng.standard_normal((20, d))])
    expected = [combination_exists(x, q) for q in p]
    assert 0 < sum(expected) < len(p)
    inside = k.contains(p)
    assert np.asarray(inside).tolist() == expected
    assert [k.contains(q) for q in p] == expected
    np.testing.assert_array_equal(np.asarray(k.distance(p)) == 0, inside)
    assert k.contains(p, tol=100.0).all()  # type: ignore[union-attr]


@few
@given(st.integers(0, 10**6), st.integers(1, 10), st.integers(1, 30))
def test_the_nearest_point_satisfies_its_optimality_conditions(seed: int, d: int, n: int) -> None:
    """The point y is nearest to p in K iff y is in K and <p - y, v - y> <= 0 for every vertex v."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-100, 100)
    x = scale * rng.standard_normal((n, d))
    p = scale * rng.standard_normal(d) * 2
    k = hull(x)
    y = k.nearest(p)
    assert k.contains(y)
    assert combination_exists(x / scale, y / scale) or k.distance(y) == 0
    assert ((x - y) @ (p - y)).max() <= 1e-12 * scale**2
    assert k.distance(p) == pytest.approx(np.linalg.norm(p - y), abs=1e-13 * scale)


@few
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(6, 16))
def test_edges_and_facets_are_exposed_faces(seed: int, d: int, n: int) -> None:
    """Against linear programs: an edge is a pair of vertices that some direction exposes."""
    k = hull(np.random.default_rng(seed).standard_normal((n, d)))
    pairs = {pair for pair in combinations(range(len(k.vertices)), 2) if exposes(k.vertices, pair)}
    assert {tuple(edge) for edge in k.edges.tolist()} == pairs
    for facet in k.facets[:10]:
        assert exposes(k.vertices, facet)
    slack = k.offsets - k.vertices @ k.normals.T
    assert slack.min() > -1e-12
    assert all((slack[list(facet), f] < 1e-12).all() for f, facet in enumerate(k.facets))
    np.testing.assert_allclose(np.linalg.norm(k.normals, axis=1), 1)
    if d == 3:
        assert len(k.vertices) - len(k.edges) + len(k.facets) == 2


def test_edges_in_high_dimension_need_no_facets() -> None:
    """Seventy points in R^10 have too many facets to list; edges come from quadratic programs, not linear ones."""
    k = hull(af.tokens.gaussian(70, 10, seed=0))
    with refused("too many to list"):
        _ = k.facets
    found = {tuple(edge) for edge in k.edges.tolist()}
    for pair in list(combinations(range(0, 70, 6), 2)):
        assert (pair in found) == exposes(k.vertices, pair)


@pytest.mark.parametrize("d", [2, 3, 4, 5, 6])
def test_cubes_on_a_lattice(d: int) -> None:
    """Every point of the lattice {0, .1, .2, .3}^d is given; most are inside faces, where rounding decides in Qhull."""
    side = 4 if d <= 4 else 3
    x = np.array(list(product(range(side), repeat=d))) * 0.1
    k = hull(x)
    assert len(k.vertices) == 2**d
    assert set(np.unique(k.vertices)) == {0.0, x.max()}
    assert len(k.facets) == 2 * d
    assert all(len(facet) == 2 ** (d - 1) for facet in k.facets)
    assert len(k.edges) == d * 2 ** (d - 1)
    assert all(len(k.neighbours(i)) == d for i in range(2**d))


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_cross_polytopes(d: int) -> None:
    k = hull(np.concatenate([np.eye(d), -np.eye(d), np.zeros((1, d))]))
    assert len(k.vertices) == 2 * d
    assert len(k.facets) == 2**d
    assert len(k.edges) == (2 * d * (2 * d - 1) // 2 - d if d > 2 else 4)
    assert k.support(np.ones(d)) == 1
    np.testing.assert_allclose(k.offsets, 1 / np.sqrt(d))


@pytest.mark.parametrize("mirror", [1.0, -1.0])
def test_neighbours_that_are_both_nearly_flat_are_not_left_out_together(mirror: float) -> None:
    """Of two corners of small height, one stays: without both, the first would be further than tol from the hull."""
    tol = 1e-3
    x = np.array([[-0.5, 0.0], [-0.2, -0.0012], [0.1, -0.0016], [0.5, 0.0], [0.5, 1.0], [-0.5, 1.0]])
    x *= [mirror, 1.0]
    kept = extreme(x, Frame.of(x, tol), tol)
    assert len(kept) == 5
    assert max(hull(x[kept]).distance(p) for p in x) <= tol


@pytest.mark.parametrize(("n", "d", "r"), [(40, 3, 1), (40, 3, 2), (200, 2, 1), (40, 6, 3), (1_000, 5, 2), (5, 9, 4)])
def test_flat_clouds_are_those_of_their_own_dimension(n: int, d: int, r: int) -> None:
    """The same linear combinations of points in R^r have the same vertices, edges and facets."""
    rng = np.random.default_rng(n)
    y = rng.standard_normal((n, r))
    x = y @ rng.standard_normal((r, d)) + 10 * rng.standard_normal(d)
    flat, full = hull(x), hull(y)
    assert flat.dimension == r
    assert sorted(flat.indices.tolist()) == sorted(full.indices.tolist())
    named = {tuple(sorted(flat.indices[edge].tolist())) for edge in flat.edges}
    assert named == {tuple(sorted(full.indices[edge].tolist())) for edge in full.edges}
    assert len(flat.facets) == len(full.facets)
    middle = x.mean(axis=0)
    assert flat.contains(middle)
    away = np.linalg.svd(x - middle)[2][-1]
    assert not flat.contains(middle + 1e-9 * away)
    assert flat.distance(middle + 0.25 * away) == pytest.approx(0.25)


def test_points_that_coincide() -> None:
    assert hull([[2.0, 3.0]] * 5).indices.tolist() == [0]
    point = hull([[2.0, 3.0]] * 5)
    assert (point.dimension, point.contains([2.0, 3.0]), point.distance([2.0, 4.0])) == (0, True, 1.0)
    assert point.facets == []
    assert point.edges.shape == (0, 2)
    twice = hull(np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, -0.0], [0.0, 1.0]], 3, axis=0)[::-1])
    assert twice.indices.tolist() == [0, 3, 6]
    assert hull([[0.0, 0.0], [0.0, 0.0]]).dimension == 0


def test_few_points_in_a_large_space() -> None:
    k = hull(np.eye(12)[:4])
    assert (k.dimension, len(k.vertices), len(k.facets), len(k.edges)) == (3, 4, 4, 6)
    assert k.contains(np.eye(12)[:4].mean(axis=0))
    assert not k.contains(np.zeros(12))
    assert k.distance(np.zeros(12)) == pytest.approx(0.5)


@given(st.integers(0, 10**6), st.integers(2, 4), st.floats(-130, 130))
def test_scaling_permuting_and_moving_the_cloud(seed: int, d: int, log_scale: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(30, d)).astype(float)  # a lattice with copies
    order = rng.permutation(len(x))
    corners = {tuple(v) for v in hull(x).vertices}
    assert {tuple(v) for v in hull(x[order]).vertices} == corners
    moved = hull(10.0**log_scale * (x + 8.0))
    assert sorted(moved.indices.tolist()) == sorted(hull(x).indices.tolist())
    assert len(moved.edges) == len(hull(x).edges)


def test_many_tokens_in_the_plane() -> None:
    """In `make test-all` a million."""
    x = af.tokens.gaussian(1_000_000 if "ATTNFLOW_EXAMPLES" in os.environ else 200_000, 2, seed=0)
    k = hull(x)
    u = af.tokens.sphere(100, 2, seed=1)
    np.testing.assert_array_equal(k.support(u), (x @ u.T).max(axis=0))
    inside = np.asarray(k.contains(x))
    assert inside.all()
    corners = k.vertices
    steps = np.roll(corners, -1, axis=0) - corners
    after = np.roll(steps, -1, axis=0)
    turns = steps[:, 0] * after[:, 1] - steps[:, 1] * after[:, 0]
    assert (turns > 0).all()


def test_a_needle_is_not_flat_and_its_sharp_corner_not_fat() -> None:
    needle = hull([[0.0, 0.0], [1.0, 1e-12], [1.0, -1e-12], [0.5, 0.0]])
    assert (needle.dimension, needle.indices.tolist()) == (2, [0, 2, 1])
    assert needle.contains([0.5, 0.0])
    assert not needle.contains([-1e-6, 0.0])
    assert needle.distance([-1e-6, 0.0]) == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hull([]), "tokens are empty|have shape"),
        (lambda: hull([[1.0, np.nan]]), "not finite"),
        (lambda: hull([[1.0, 2.0]]).contains([1.0]), r"shape \(1,\), expected \(2,\)"),
        (lambda: hull([[1.0, 2.0]]).distance([np.inf, 0.0]), "not finite"),
        (lambda: hull([[1.0, 2.0]]).support("up"), "not an array of numbers"),
        (lambda: hull([[1.0, 2.0]]).contains([1.0, 2.0], tol=-1), "tol is -1"),
        (lambda: hull([[1.0, 2.0]]).contains([1e154, 0.0]), "squares leave float64"),
        (lambda: hull([[1.0, 2.0]]).neighbours(1), "no vertex 1"),
        (lambda: hull([[1.0, 2.0]]).neighbours(-1), "number of a vertex"),
        (lambda: hull([[1.0, 2.0]]).face([]), "at least one"),
        (lambda: hull([[1.0, 2.0]]).face([7]), "no vertex 7"),
    ],
)
def test_bad_input_is_refused(call: object, words: str) -> None:
    with refused(words):
        call()  # type: ignore[operator]


@example(seed=126, d=3, n=10)  # two vertices within rounding of each other
@example(seed=49, d=2, n=17)  # the same in the plane
@example(seed=895, d=2, n=23)  # a corner in line with its neighbours, but not between them
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 24))
def test_nearly_degenerate_clouds_lose_nothing(seed: int, d: int, n: int) -> None:
    """Lattices shaken by 1e-17 to 1e-5, some skinny, turned or moved: every point stays within rounding of K."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(n, d)) + 10 ** rng.uniform(-17, -5) * rng.standard_normal((n, d)) * (
        rng.random((n, 1)) < 0.5
    )
    if seed % 2:
        x = x * 10 ** rng.uniform(-8, 0, size=d) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    if seed % 3 == 0:
        x = x + 10 * rng.standard_normal(d)
    k = hull(x)
    assert np.max(k.distance(x)) <= 8 * k.tol
    assert np.all(k.contains(x, tol=8 * k.tol))
    u = af.tokens.sphere(40, d, seed=seed)
    assert np.max((x @ u.T).max(axis=0) - k.support(u)) <= 8 * k.tol
    if k.dimension:
        assert np.max(k.vertices @ k.normals.T - k.offsets) <= 100 * k.tol
    if k.dimension == 3:
        assert len(k.vertices) - len(k.edges) + len(k.facets) == 2


@pytest.mark.parametrize("seed", [0, 1, 36, 177])
def test_no_vertex_is_within_rounding_of_the_others(seed: int) -> None:
    """Three points near the middle of a side, shaken: for the last two seeds Qhull takes one of them for a vertex."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(8, 3)).astype(float)
    middle = x[:3].mean(axis=0) if seed % 2 else (x[0] + x[1]) / 2
    x = np.vstack([x, [middle + 10 ** rng.uniform(-17, -13) * rng.standard_normal(3) for _ in range(3)]])
    k = hull(x)
    away = [distance(np.delete(k.vertices, i, axis=0), v) for i, v in enumerate(k.vertices)]
    assert min(away) > k.tol
    assert np.max(k.distance(x)) <= 8 * k.tol


@pytest.mark.parametrize("d", [2, 3, 4, 7])
@pytest.mark.parametrize("step", [1e-15, 4e-15, 1e-14])
def test_of_two_points_closer_than_rounding_one_stays(d: int, step: float) -> None:
    """Each is within rounding of the hull of the others, its twin among them, and yet not both can go."""
    cube = np.array(list(product((0.0, 1.0), repeat=d)))
    twins = hull(np.concatenate([cube, cube + step * np.random.default_rng(d).uniform(-1, 1, size=cube.shape)]))
    assert len(twins.vertices) == 2**d
    assert np.max(twins.distance(cube)) <= 2 * step


def test_a_point_beyond_the_end_of_a_side_is_a_corner() -> None:
    """(0, 0) is within rounding of the line through its neighbours, but not of the segment between them."""
    k = hull([[0.0, 0.0], [1.0, 0.0], [2.0, 1e-16], [1.5, 1.0]])
    assert 0 in k.indices.tolist()
    assert k.contains([0.0, 0.0])


def test_points_far_away_are_known_up_to_their_own_rounding() -> None:
    """A flat hull, and a point far out in its plane that has itself been rounded: on the plane, not in the hull."""
    k = hull([[0.0, 0.0, 0.0], [0.1, 0.1, 0.1]])
    inside = np.array([0.1, 0.1, 0.1]) / 3
    assert k.contains(inside)
    assert not k.contains(1e6 * inside)


def test_several_points_at_once_and_none() -> None:
    square = hull(np.array(list(product((-1.0, 1.0), repeat=2))))
    np.testing.assert_allclose(square.nearest([[5.0, 0.0], [0.0, 5.0]]), [[1.0, 0.0], [0.0, 1.0]], atol=1e-14)
    assert square.nearest(np.empty((0, 2))).shape == (0, 2)
    assert np.asarray(square.distance(np.empty((0, 2)))).shape == (0,)
    assert np.asarray(square.contains(np.empty((0, 2)))).shape == (0,)
    assert hull([[1.0, 2.0]]).boundary().shape == (0, 0)


def test_a_hull_that_qhull_gives_up_has_no_facets_but_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.spatial

    corners = np.array(list(product((0.0, 1.0), repeat=3)))
    found = hull(corners)

    def failing(points: Any) -> Any:
        raise scipy.spatial.QhullError("precision")

    monkeypatch.setattr(scipy.spatial, "ConvexHull", failing)
    with refused("the facets of these 8 vertices in dimension 3 are degenerate beyond the precision of Qhull"):
        _ = found.facets
    assert found.support([1.0, 1.0, 1.0]) == pytest.approx(3.0)


def test_least_squares_that_cycle_are_solved_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    def cycling(*given: Any, **named: Any) -> Any:
        raise RuntimeError("Maximum number of iterations reached.")

    system, target = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 2.0])
    usual = non_negative(system, target)
    monkeypatch.setattr(scipy.optimize, "nnls", cycling)
    np.testing.assert_allclose(non_negative(system, target), usual, atol=1e-12)
    assert usual.min() == 0.0
