"""Cells against brute force, SciPy's half-space intersection and exact shapes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refused
from scipy.spatial import ConvexHull, HalfspaceIntersection

import attnflow as af
from attnflow.geometry import cells, genericity, hull

Array = NDArray[np.float64]
SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def positive(d: int, seed: int) -> Array:
    m = np.random.default_rng(seed).standard_normal((d, d))
    return m @ m.T + 0.1 * np.eye(d)


def area(polygon: Array) -> float:
    x, y = polygon.T if len(polygon) else np.zeros((2, 1))
    return float(0.5 * (x * np.roll(y, -1) - np.roll(x, -1) * y).sum())


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("kind", ["identity", "positive", "any"])
def test_labels_gaps_and_regions_against_brute_force(d: int, kind: str) -> None:
    rng = np.random.default_rng(d)
    v = rng.standard_normal((12, d))
    B = {"identity": None, "positive": positive(d, 1), "any": rng.standard_normal((d, d))}[kind]
    parts = cells(v, B)
    inside = rng.dirichlet(np.ones(12), size=300) @ v
    scores = np.array([[(x if B is None else B @ x) @ w for w in v] for x in inside])
    labels = scores.argmax(axis=1)
    np.testing.assert_array_equal(parts.label(inside), labels)
    tops = np.sort(scores, axis=1)
    np.testing.assert_allclose(parts.gap(inside), tops[:, -1] - tops[:, -2], atol=1e-12)
    assert not parts.ambiguous(inside).any()
    for i in range(12):
        np.testing.assert_array_equal(parts.region(i).contains(inside), labels == i)


@pytest.mark.parametrize("seed", range(6))
def test_polygons_cover_the_hull_and_agree_with_scipy(seed: int) -> None:
    """Areas add up to that of K; each polygon is SciPy's intersection of the half-planes of all vertices."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((15, 2)) + (seed % 3) * 0.5
    B = None if seed % 2 else positive(2, seed)
    parts = cells(hull(x).vertices, B)
    polygons = parts.polygons()
    assert sum(map(area, polygons)) == pytest.approx(ConvexHull(x).volume, rel=1e-12)
    outer = ConvexHull(x).equations
    for i, polygon in enumerate(polygons):
        if area(polygon) < 1e-6:
            continue
        assert area(polygon) > 0  # counter-clockwise
        v = parts.vertices
        a = (np.delete(v, i, axis=0) - v[i]) @ parts.B
        rows = np.vstack([outer, np.column_stack([a, np.zeros(len(a))])])
        found = HalfspaceIntersection(rows, polygon.mean(axis=0)).intersections
        assert area(polygon) == pytest.approx(ConvexHull(found).volume, rel=1e-10)
        np.testing.assert_array_equal(parts.label(0.999 * polygon + 0.001 * polygon.mean(axis=0)), i)


@pytest.mark.parametrize("seed", range(4))
def test_polyhedra_cover_the_hull(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = hull(rng.standard_normal((14, 3))).vertices
    bodies = cells(v, positive(3, seed)).polyhedra()
    volumes = [ConvexHull(body.vertices).volume if body is not None and body.dimension == 3 else 0.0 for body in bodies]
    assert sum(volumes) == pytest.approx(ConvexHull(v).volume, rel=1e-10)
    for i, body in enumerate(bodies):
        if body is not None and body.dimension == 3:
            assert len(body.vertices) - len(body.edges) + len(body.facets) == 2
            assert cells(v, positive(3, seed)).label(body.vertices.mean(axis=0)).tolist() == [i]


def test_the_cells_of_a_cube_are_cubes() -> None:
    cube = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    for v, body in zip(cube, cells(cube).polyhedra(), strict=True):
        assert body is not None
        assert {tuple(p + 0.0) for p in body.vertices} == {
            (a, b, c) for a in (0.0, v[0]) for b in (0.0, v[1]) for c in (0.0, v[2])
        }
        assert len(body.facets) == 6


def test_a_tie_is_labelled_by_the_first_and_reported() -> None:
    parts = cells(SQUARE)
    on_boundary = [[0.5, 0.0], [0.0, 0.0], [0.3, 0.2]]
    assert parts.label(on_boundary).tolist() == [0, 0, 0]
    np.testing.assert_array_equal(parts.gap(on_boundary), [0.0, 0.0, 0.4])
    assert parts.ambiguous(on_boundary).tolist() == [True, True, False]


def test_copies_of_a_vertex_are_no_ambiguity() -> None:
    parts = cells(np.concatenate([SQUARE, SQUARE[:1]]))
    assert parts.label([[0.5, 0.2]]).tolist() == [0]
    assert parts.gap([[0.5, 0.2]]) == pytest.approx([0.4])
    assert not parts.ambiguous([[0.5, 0.2]])[0]
    assert area(parts.polygons()[4]) == area(parts.polygons()[0]) == 1.0
    assert cells([[1.0, 2.0]] * 3).gap([[3.0, 4.0]]).tolist() == [np.inf]


@pytest.mark.parametrize(
    ("v", "B", "shapes"),
    [
        ([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]], None, [0, 0, 2]),  # collinear, 0 outside: the farthest takes all
        ([[-1.0, 0.0], [0.0, 0.0], [2.0, 0.0]], None, [2, 1, 2]),  # the middle one keeps a point, 0
        ([[-1.0, -1.0], [2.0, 2.0]], None, [2, 2]),
        (SQUARE, np.zeros((2, 2)), [4, 4, 4, 4]),  # no scores: every cell is the whole square
        (SQUARE, np.diag([1.0, 0.0]), [4, 4, 4, 4]),  # scores see one coordinate: halves, each twice
        ([[3.0, 3.0]], None, [1]),
        ([[1.0, 0.0], [3.0, 1.0], [3.0, -1.0]], None, [0, 3, 3]),  # 0 outside, (1, 0) is nobody's best
    ],
)
def test_degenerate_cells(v: Array, B: Array | None, shapes: list[int]) -> None:
    polygons = cells(v, B).polygons()
    assert [len(polygon) for polygon in polygons] == shapes


def test_thin_cells_are_exact() -> None:
    """A cell of width 1e-9, far below the tolerance of any linear program."""
    v = np.array([[1.0, 0.0], [1.0 - 1e-9, 1e-4], [-1.0, 1.0], [-1.0, -1.0]])
    polygons = cells(v).polygons()
    assert sum(map(area, polygons)) == pytest.approx(ConvexHull(v).volume, rel=1e-12)
    # Between v_0 and v_1 runs the line <x, v_0 - v_1> = 0, that is x_1 = 1e-5 x_0.
    boundary = [p for p in polygons[0] if abs(p @ (v[0] - v[1])) < 1e-15 and p.any()]
    assert len(boundary) >= 1
    assert boundary[0][1] == pytest.approx(1e-5 * boundary[0][0], rel=1e-6)


def test_dominance_cones_and_their_erosion() -> None:
    """The seven-gon: every point of the erosion has its ball inside, and no point farther in is left out."""
    v = af.tokens.polygon(7)
    cone = cells(v).dominance(2, 0.05)
    eroded = cone.erode(0.03)
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(7) / 3, size=20_000) @ v
    inside = np.array([min((v[2] - v[j]) @ x for j in range(7) if j != 2) >= 0.05 for x in p])
    np.testing.assert_array_equal(cone.contains(p), inside)
    circle = 0.03 * af.tokens.polygon(720)
    kept = np.asarray(eroded.contains(p))
    assert 10 < kept.sum() < inside.sum()
    for x in p[inside]:
        ball = bool(np.asarray(cone.contains(x + circle)).all())
        wider = bool(np.asarray(cone.contains(x + 1.0001 * circle)).all())
        assert wider <= bool(eroded.contains(x)) <= ball
    corners = eroded.vertices
    assert hull(cone.vertices).contains(corners).all()  # type: ignore[union-attr]
    slack = np.sort(cone.offsets - corners @ cone.normals.T, axis=1)
    np.testing.assert_allclose(slack[:, :2], 0.03, atol=1e-12)  # each corner touches two sides at distance delta


def test_erosions_that_leave_nothing() -> None:
    segment = cells([[1.0, 0.0], [-1.0, 0.0]]).dominance(0, 0.1)
    np.testing.assert_allclose(np.sort(segment.vertices[:, 0]), [0.05, 1.0])
    assert segment.erode(1e-6).empty
    assert not segment.erode(0.0).empty
    assert cells(SQUARE).dominance(0, 2.5).empty
    assert cells(SQUARE).dominance(0, 2.0).vertices.tolist() == [[1.0, 1.0]]
    # The inscribed triangle: dominance by eta = 1.5 holds at the vertex alone, half the squared side.
    assert cells(af.tokens.polygon(3)).dominance(0, 1.5 + 1e-9).empty
    assert not cells(af.tokens.polygon(3)).dominance(0, 1.5 - 1e-9).empty


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(4, 14))
def test_the_neighbours_test_of_ownership_equals_that_of_all_vertices(seed: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    v = hull(rng.standard_normal((k, d)) + rng.standard_normal(d) * (seed % 2)).vertices
    parts = cells(v, positive(d, seed))
    every, near = parts.own_margins(), parts.own_margins(neighbours=True)
    clear = np.minimum(np.abs(every), np.abs(near)) > 1e-9
    np.testing.assert_array_equal((every > 0)[clear], (near > 0)[clear])
    strict = np.array([all(v[i] @ parts.B @ (v[i] - v[j]) > 0 for j in range(len(v)) if j != i) for i in range(len(v))])
    np.testing.assert_array_equal((every > 0)[clear], strict[clear])


def test_ownership_on_exact_ties() -> None:
    """(1, 1) and (1, 0): <v_1, v_0 - v_1> = 0, a tie that a non-strict test would let pass."""
    parts = cells([[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    assert parts.own_margins().tolist() == [1.0, 0.0, 2.0]
    assert (np.abs(parts.own_margins()) <= parts.own_rounding()).tolist() == [False, True, False]
    with refused("positive definite"):
        cells(SQUARE, np.diag([1.0, -1.0])).own_margins(neighbours=True)
    with refused("vertex 4 is not an extreme point"):
        cells([*SQUARE, [0.2, 0.0]]).own_margins(neighbours=True)
    with refused("vertex 0 is the origin"):
        cells([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).own_margins(neighbours=True)


@pytest.mark.parametrize("B", [None, np.diag([2.0, 1.0]), np.diag([1.0, -0.5]), np.array([[0.3, 1.0], [1.0, 0.2]])])
def test_equal_energies_make_cells_voronoi_cells(B: Array | None) -> None:
    """Proposition 4.5 of the Frank-Wolfe paper needs only symmetry: indefinite forms are included."""
    rng = np.random.default_rng(0)
    matrix = np.eye(2) if B is None else B
    v = rng.standard_normal((40, 2))
    v = v[np.einsum("ia,ab,ib->i", v, matrix, v) > 0.05]
    v /= np.sqrt(np.einsum("ia,ab,ib->i", v, matrix, v))[:, None]
    parts = cells(v, B)
    np.testing.assert_allclose(parts.energies(), 0.5)
    x = rng.dirichlet(np.ones(len(v)), size=500) @ v
    squares = np.array([[(p - w) @ matrix @ (p - w) for w in v] for p in x])
    clear = np.sort(squares, axis=1)
    clear_rows = clear[:, 1] - clear[:, 0] > 1e-9
    np.testing.assert_array_equal(parts.voronoi_label(x)[clear_rows], squares.argmin(axis=1)[clear_rows])
    np.testing.assert_array_equal(parts.label(x)[clear_rows], parts.voronoi_label(x)[clear_rows])
    np.testing.assert_allclose(2 * parts.voronoi_gap(x), clear[:, 1] - clear[:, 0], atol=1e-12)


def test_unequal_energies_or_no_symmetry_break_it() -> None:
    x = [[0.7, 0.4]]
    pair = cells([[1.0, 0.0], [0.0, 3.0]])
    assert pair.label(x) != pair.voronoi_label(x)
    with refused("not symmetric"):
        cells(SQUARE, [[1.0, 1.0], [0.0, 1.0]]).voronoi_label(x)


def test_genericity_names_what_breaks_what() -> None:
    cloud = np.concatenate([SQUARE, [[0.4, 0.2], [-0.1, -0.6]]])
    good = genericity(cloud)
    assert good.generic
    assert good.assignment.tolist() == [0, 1, 2, 3, 0, 2]
    origin = genericity(np.concatenate([cloud, [[0.0, 0.0]]]))
    assert [(b.condition, b.what, b.index, b.decided) for b in origin.broken] == [("c", "token", 6, True)]
    lost = genericity([[3.0, 1.0], [3.0, -1.0], [1.0, 0.0]])
    assert [(b.condition, b.what, b.index) for b in lost.broken] == [("b", "vertex", 2), ("c", "token", 2)]
    assert lost.broken[0].margin == -2.0
    listed = genericity(cloud, vertices=[*SQUARE[:3], [0.4, 0.2], SQUARE[0]])
    assert [(b.what, b.index) for b in listed.broken if b.condition == "a"] == [
        ("vertex", 3),
        ("vertex", 4),
        ("token", 3),
    ]
    assert "loses its cell" in next(b.because for b in listed.broken if b.condition == "b")
    near = genericity(np.concatenate([cloud, [[0.5, 1e-17]]]))
    assert near.undecided
    assert not near.generic


def test_genericity_at_the_level_of_rounding() -> None:
    """Token 3 is extreme by one part in 2^52, which the hull leaves out: not generic, and not decided."""
    x = np.array([[2.0, -1.0], [-2.0, -1.0], [0.0, 2.0], [0.3, -1 - 2.0**-52], [1.9, -0.9]])
    report = genericity(x)
    assert [(b.condition, b.what, b.index, b.decided) for b in report.broken] == [("a", "token", 3, False)]
    assert report.undecided
    inside = np.array(x)
    inside[3, 1] = -1.0  # on the side: no vertex
    assert genericity(inside).generic
    listed = genericity(x, vertices=x[:4])
    assert [(b.condition, b.index, b.decided) for b in listed.broken if b.condition == "a"] == [("a", 3, False)]


def test_genericity_with_tokens_on_the_boundary_of_a_lattice() -> None:
    """Points of a lattice of step .1 on the sides of a square are no extreme points, exactly or up to rounding."""
    steps = np.arange(-10, 11) * 0.125
    sides = np.concatenate([[(s, 1.25), (s, -1.25), (1.25, s), (-1.25, s)] for s in steps[1:-1] if s != 0])
    corners = 1.25 * SQUARE
    assert genericity(np.concatenate([corners, sides])).generic


def test_directions_that_a_singular_form_does_not_see() -> None:
    """B = p q^T sees v through <p, v> only: vertices that differ across p share their cell, up to rounding of B."""
    p, q = np.array([0.1, 0.3]), np.array([0.7, 0.2])
    across = np.array([0.3, -0.1])
    v = np.array([p, p + across, -p, -p + across])
    polygons = cells(v, np.outer(p, q)).polygons()
    assert area(polygons[0]) == pytest.approx(area(polygons[1]), rel=1e-12)
    assert area(polygons[0]) + area(polygons[2]) == pytest.approx(ConvexHull(v).volume, rel=1e-12)


def test_directions_that_a_singular_form_does_not_see_in_many_dimensions() -> None:
    """Sums of 16 products round more than those of two: vertices 0 and 1, across which B is blind, are alike."""
    rng = np.random.default_rng(0)
    across = rng.standard_normal(16)
    B = np.eye(16) - np.outer(across, across) / (across @ across)
    v = rng.standard_normal((17, 16))
    v[1] = v[0] + across
    inside = rng.dirichlet(np.full(17, 0.2), size=300) @ v
    scores = inside @ (v @ B).T
    first = np.maximum(scores[:, 0], scores[:, 1]) > scores[:, 2:].max(axis=1)
    assert 10 < first.sum() < 290
    parts = cells(v, B)
    for i in (0, 1):
        np.testing.assert_array_equal(parts.region(i).contains(inside), first)


def test_ambiguity_counts_what_cancels() -> None:
    """B x = x_0 - x_1 is tiny where the coordinates are large: its rounding is theirs."""
    parts = cells([[1.0, 0.0], [-1.0, 0.0]], [[0.1, -0.1], [0.0, 0.0]])
    assert parts.ambiguous([[3e8, 3e8 + 1e-7]])[0]
    assert not parts.ambiguous([[3e8, 3e8 + 1.0]])[0]


def test_ownership_at_the_level_of_rounding_is_not_decided() -> None:
    """Vertex 1 owns its cell by 2^-54 of nothing: reported, not decided; an exact tie is decided."""
    near = genericity([[1.0, 1.0], [1.0, 2.0**-55], [-1.0, 0.0], [0.3, 0.6]])
    assert [(b.condition, b.index, b.decided) for b in near.broken] == [("b", 1, False), ("c", 1, False)]
    exact = genericity([[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.3, 0.6]])
    assert [(b.condition, b.index, b.decided) for b in exact.broken] == [("b", 1, True), ("c", 1, True)]


def test_forms_of_extreme_size_are_refused_or_scaled() -> None:
    triangle = af.tokens.polygon(3)
    expected = [len(p) for p in cells(triangle).polygons()]
    for scale in (1e-100, 1e100):
        parts = cells(triangle, scale * np.eye(2))
        assert [len(p) for p in parts.polygons()] == expected
        np.testing.assert_array_equal(parts.label(0.5 * triangle), [0, 1, 2])
    for scale in (1e-200, 1e200):
        with refused("leave float64"):
            cells(triangle, scale * np.eye(2))


def test_regions_with_too_many_corners_are_refused_but_contain() -> None:
    v = af.tokens.gaussian(15, 10, seed=0)
    x = np.random.default_rng(0).dirichlet(np.ones(15), size=200) @ v
    leader = (x @ v.T).argmax(axis=1)
    i = int(np.bincount(leader).argmax())
    region = cells(v).region(i)
    with refused("too many to list"):
        _ = region.vertices
    assert 0 < (leader == i).sum() < 200
    np.testing.assert_array_equal(region.contains(x), leader == i)


def test_a_polygon_of_many_sides() -> None:
    v = af.tokens.polygon(300)
    areas = [area(p) for p in cells(v).polygons()]
    np.testing.assert_allclose(areas, 0.5 * np.sin(2 * np.pi / 300), rtol=1e-9)


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=9, unique=True))
def test_areas_on_lattices_are_exact_rationals(corners: list[tuple[int, int]]) -> None:
    """Cells of integer polygons, clipped in exact rationals, have the same areas; ties and flat cells included."""
    v = hull(np.array(corners, dtype=float)).vertices
    polygons = cells(v).polygons()
    whole = [(Fraction(int(a)), Fraction(int(b))) for a, b in v]
    for i, polygon in enumerate(polygons):
        exact = list(whole)
        for j in range(len(v)):
            exact = clipped(exact, [whole[j][0] - whole[i][0], whole[j][1] - whole[i][1]])
        size = (
            sum((p[0] * q[1] - q[0] * p[1] for p, q in zip(exact, exact[1:] + exact[:1], strict=True)), Fraction(0)) / 2
        )
        assert abs(area(polygon)) == pytest.approx(abs(float(size)), abs=1e-12)
        assert (len(polygon) == 0) == (len(exact) == 0)


def clipped(polygon: list[tuple[Fraction, Fraction]], a: list[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """Cut {<a, x> <= 0} out of a polygon, in exact arithmetic."""
    result = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        s, r = a[0] * p[0] + a[1] * p[1], a[0] * q[0] + a[1] * q[1]
        if s <= 0:
            result.append(p)
        if s * r < 0:
            result.append((p[0] + s / (s - r) * (q[0] - p[0]), p[1] + s / (s - r) * (q[1] - p[1])))
    return result


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cells([1.0, 2.0]), r"vertices have shape \(2,\)"),
        (lambda: cells(SQUARE, np.eye(3)), "give a 2 by 2 matrix"),
        (lambda: cells(SQUARE, lambda t: np.eye(2)), "function of time"),  # type: ignore[arg-type]
        (lambda: cells(np.eye(3)).polygons(), "polyhedra"),
        (lambda: cells(SQUARE).polyhedra(), "polygons"),
        (lambda: cells(SQUARE).region(4), "no vertex 4"),
        (lambda: genericity(SQUARE, vertices=np.eye(3)), "dimension 3"),
        (lambda: cells(SQUARE).dominance(0, -1.0), "eta is -1"),
        (lambda: cells(SQUARE).region(0).erode(-1.0), "delta is -1"),
        (lambda: cells(SQUARE).label([[1.0, 2.0, 3.0]]), "expected"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], words: str) -> None:
    with refused(words):
        call()
