"""The set S against a numerical search of KKT points, exact polygons, and where tokens really end."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refused
from scipy.optimize import minimize

import attnflow as af
from attnflow.geometry import hull, stationary_points

Array = NDArray[np.float64]


def positive(d: int, seed: int) -> Array:
    m = np.random.default_rng(seed).standard_normal((d, d))
    return m @ m.T + 0.2 * np.eye(d)


def residual(x: Array, v: Array, B: Array) -> float:
    """How far x is from satisfying max_j <Bx, v_j> = <Bx, x>."""
    return float((v @ (B @ x)).max() - x @ B @ x)


def every_subset(v: Array, B: Array) -> list[Array]:
    """All KKT points by brute force over all subsets of vertices, by Lagrange's equations instead of projections."""
    found: list[Array] = []
    k, d = v.shape
    for size in range(1, min(k, d + 1) + 1):
        for part in combinations(range(k), size):
            gram = v[list(part)] @ B @ v[list(part)].T
            system = np.block([[gram, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            if np.linalg.cond(system) > 1e10:
                continue
            weights = np.linalg.solve(system, np.append(np.zeros(size), 1.0))[:size]
            x = weights @ v[list(part)]
            new = all(np.linalg.norm(x - y) > 1e-7 for y in found)
            if weights.min() > -1e-9 and residual(x, v, B) < 1e-9 and new:
                found.append(x)
    if hull(v).contains(np.zeros(d)) and all(np.linalg.norm(y) > 1e-7 for y in found):
        found.append(np.zeros(d))
    return found


@pytest.mark.parametrize(("d", "seed"), [(d, seed) for d in (1, 2, 3, 4) for seed in range(6)] + [(6, 0), (7, 1)])
def test_all_kkt_points_and_no_others(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((d + 5, d)) + (seed % 2) * rng.standard_normal(d)
    B = positive(d, seed)
    s = stationary_points(v, B)
    expected = every_subset(hull(v).vertices, B)
    assert len(s) == len(expected)
    for x in expected:
        assert np.linalg.norm(s.points - x, axis=1).min() < 1e-8
    for x, face in zip(s.points, s.faces, strict=True):
        assert residual(x, v, B) < 1e-10
        assert hull(v[list(face)]).distance(x) < 1e-10


@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_numerical_ascent_ends_only_in_the_set(d: int) -> None:
    """Maximise <Bx, x> over the weights from many starts: every KKT point that SLSQP finds is in S."""
    rng = np.random.default_rng(d)
    v, B = rng.standard_normal((d + 4, d)), positive(d, d)
    s = stationary_points(v, B)
    B /= np.abs(v @ B @ v.T).max()
    gram = v @ B @ v.T
    reached = set()
    for _ in range(30):
        found = minimize(
            lambda w: -w @ gram @ w,
            rng.dirichlet(np.ones(len(v))),
            jac=lambda w: -2 * gram @ w,
            bounds=[(0, 1)] * len(v),
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        x = found.x @ v
        if found.success and abs(residual(x, v, B)) < 1e-7:
            distances = np.linalg.norm(s.points - x, axis=1)
            assert distances.min() < 1e-5
            reached.add(int(distances.argmin()))
    assert reached
    assert all(s.attracts[i] for i in reached)  # ascent stops at strict local maxima
    assert s.attracts[(np.einsum("ia,ab,ib->i", s.points, B, s.points)).argmax()]


@given(st.integers(0, 10**6), st.integers(3, 12))
def test_polygons_have_at_most_2m_plus_1_points(seed: int, k: int) -> None:
    v = hull(np.random.default_rng(seed).standard_normal((k, 2))).vertices
    s = stationary_points(v)
    assert len(s) <= 2 * len(v) + 1
    assert len(s) == len(every_subset(v, np.eye(2)))


def test_exact_sets() -> None:
    triangle = stationary_points(af.tokens.polygon(3))
    assert (len(triangle), triangle.attracts.sum()) == (7, 3)
    np.testing.assert_allclose(
        np.sort(np.linalg.norm(triangle.points, axis=1)), [0, 0.5, 0.5, 0.5, 1, 1, 1], atol=1e-15
    )
    assert [len(face) for face in triangle.faces] == [1, 1, 1, 2, 2, 2, 3]
    cube = stationary_points(np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], dtype=float))
    assert [sum(len(f) == m for f in cube.faces) for m in (1, 2, 4, 8)] == [8, 12, 6, 1]
    assert cube.attracts.sum() == 8
    line = stationary_points([[1.0], [3.0], [-2.0], [0.5]])
    assert line.points.ravel().tolist() == [3.0, -2.0, 0.0]
    assert line.faces == [(1,), (2,), (1, 2)]


def test_polytopes_away_from_the_origin() -> None:
    """Vertices need not be in S: of the triangle (1, 0), (3, 1), (3, -1) the tip is not, the far side is."""
    s = stationary_points([[1.0, 0.0], [3.0, 1.0], [3.0, -1.0]])
    np.testing.assert_allclose(s.points, [[3.0, 1.0], [3.0, -1.0], [3.0, 0.0]], atol=1e-14)
    assert s.faces == [(1,), (2,), (1, 2)]
    assert s.attracts.tolist() == [True, True, False]
    np.testing.assert_allclose(s.margins, [2 / 10, 2 / 10, 6 / 10])


def test_ties_are_in_the_set_but_do_not_attract() -> None:
    """The foot of 0 on the side from (1, 0) to (1, 1) is the corner (1, 0) itself."""
    s = stationary_points([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    at = {tuple(p): (face, bool(a)) for p, face, a in zip(s.points.round(12) + 0.0, s.faces, s.attracts, strict=True)}
    assert at[(1.0, 0.0)] == ((0,), False)
    assert at[(1.0, 1.0)] == ((1,), True)
    assert at[(0.0, 0.0)] == ((0, 2), False)  # 0 lies on a side
    assert at[(-1.0, 0.0)] == ((2,), True)
    assert len(s) == 5  # and the foot of 0 on the third side


@pytest.mark.parametrize("small", [1e-15, 1e-9, 0.5])
def test_a_vertex_near_the_origin_owns_its_cell(small: float) -> None:
    """<v, v - w> = small (small + 1) for the vertices v = -small and w = 1: no rounding, since v is as given."""
    s = stationary_points([[-small], [1.0]])
    at = {p: (bool(a), m) for (p,), a, m in zip(s.points.tolist(), s.attracts, s.margins, strict=True)}
    assert at[-small] == (True, pytest.approx(small * (small + 1), rel=1e-12))
    assert at[1.0] == (True, pytest.approx(1 + small, rel=1e-12))


def test_flat_and_repeated_data() -> None:
    """A triangle at height 1 in space: the same set as in its plane, 0 replaced by its foot."""
    plane = af.tokens.polygon(3)
    space = stationary_points(np.column_stack([np.repeat(plane, 2, axis=0), np.ones(6)]))
    flat = stationary_points(plane)
    assert len(space) == len(flat)
    np.testing.assert_allclose(space.points[:, :2], flat.points, atol=1e-14)
    np.testing.assert_allclose(space.points[:, 2], 1)
    assert space.faces[0] == (0,)
    one = stationary_points([[2.0, 3.0]] * 4)
    assert (one.points.tolist(), one.attracts.tolist()) == ([[2.0, 3.0]], [True])
    assert stationary_points([[0.0, 0.0]]).points.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_scales(scale: float) -> None:
    v = af.tokens.gaussian(8, 3, seed=0)
    s, large = stationary_points(v), stationary_points(scale * v)
    np.testing.assert_allclose(large.points / scale, s.points, atol=1e-13)
    assert large.faces == s.faces


def test_hardmax_tokens_end_in_the_set() -> None:
    """Square with two tokens on its axis: they tend to the middles of two sides, points of S that do not attract."""
    x0 = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.5, 0.0], [-0.5, 0.0]])
    run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=200)
    s = stationary_points(hull(run.final).vertices)
    where = np.linalg.norm(run.final[:, None] - s.points, axis=2)
    assert where.min(axis=1).max() < 1e-15
    assert [len(s.faces[i]) for i in where.argmin(axis=1)] == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("B", [np.diag([1.0, 0.0]), np.diag([1.0, -1.0]), [[1.0, 1.0], [0.0, 1.0]]])
def test_forms_without_a_finite_set_are_refused(B: Array) -> None:
    with refused("positive definite"):
        stationary_points([[1.0, 0.0], [0.0, 1.0]], B)


def exact_set(corners: list[tuple[Fraction, Fraction]]) -> set[tuple[Fraction, Fraction]]:
    """The set S of a polygon in exact arithmetic: vertices, feet of 0 on sides, and 0 itself if it is inside."""
    found = set()
    sides = list(zip(corners, corners[1:] + corners[:1], strict=True))
    feet = [(p, Fraction(0)) for p in corners]
    for p, q in sides:
        e = (q[0] - p[0], q[1] - p[1])
        s = -(p[0] * e[0] + p[1] * e[1]) / (e[0] ** 2 + e[1] ** 2)
        if 0 <= s <= 1:
            feet.append(((p[0] + s * e[0], p[1] + s * e[1]), s))
    for y, _ in feet:
        if all(y[0] * (y[0] - v[0]) + y[1] * (y[1] - v[1]) >= 0 for v in corners):
            found.add(y)
    if all(p[0] * q[1] - p[1] * q[0] >= 0 for p, q in sides):
        found.add((Fraction(0), Fraction(0)))
    return found


@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(0, 14), st.sampled_from([0, 8, 15]))
def test_shifted_and_skinny_polygons_against_exact_rationals(seed: int, k: int, shift: int, thin: int) -> None:
    """Integer polygons far from the origin, or 2^15 times longer than wide, where ties are exact."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, size=(k, 2)) * [2.0**-thin, 1.0] + (
        rng.integers(-1, 2, size=2) * 2.0**shift if not thin else 0
    )
    body = hull(x)
    if body.dimension < 2:
        return
    s = stationary_points(x)
    expected = exact_set([(Fraction(a), Fraction(b)) for a, b in body.vertices.tolist()])
    assert len(s) == len(expected)
    for y in expected:
        assert np.linalg.norm(s.points - [float(y[0]), float(y[1])], axis=1).min() <= 1e-12 * np.abs(x).max()
    owners = af.geometry.cells(body.vertices)
    strict = owners.own_margins() > owners.own_rounding()
    assert s.attracts.sum() == strict.sum()


def test_too_many_faces_are_refused() -> None:
    with refused("too many to look at"):
        stationary_points(af.tokens.gaussian(25, 24, seed=0))
