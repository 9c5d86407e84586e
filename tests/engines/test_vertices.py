"""Hardmax by vertices against the dense reference: the same leaders, ties and scores, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.engines import dense, vertices, vertices_kernels
from attnflow.laws import TieError

Array = NDArray[np.float64]
Instance = tuple[Array, Array, Array]

SCALES = [1e-140, 1e-100, 1e-3, 1.0, 7.3, 1e100, 1e150]


def edge_points(rng: np.random.Generator, n: int, d: int) -> Array:
    """Corners of a simplex, and points of its edges that rounding puts a little inside or outside."""
    corners = rng.standard_normal((d + 1, d))
    i, j = rng.integers(0, d + 1, (2, n))
    share = rng.random((n, 1))
    return np.concatenate([corners, corners[i] * share + corners[j] * (1 - share)])


def merged(rng: np.random.Generator, n: int, d: int) -> Array:
    """Clusters that have all but merged, around points with and without coordinates 0."""
    centres = rng.integers(-1, 2, (4, d)) * rng.choice([1.0, 0.3], (4, d))
    return centres[rng.integers(0, 4, n)] + 10.0 ** rng.uniform(-40, -15, (n, d)) * rng.choice([-1, 0, 1], (n, d))


def skinny(rng: np.random.Generator, n: int, d: int) -> Array:
    x = rng.standard_normal((n, d)) * np.concatenate([[1.0], np.full(d - 1, 1e-14)])
    return x @ np.linalg.qr(rng.standard_normal((d, d)))[0]


CLOUDS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "sphere": lambda rng, n, d: (x := rng.standard_normal((n, d))) / np.linalg.norm(x, axis=1, keepdims=True),
    "lattice": lambda rng, n, d: rng.integers(-3, 4, (n, d)).astype(float),
    "lattice of spacing 0.1": lambda rng, n, d: 0.1 * rng.integers(-4, 5, (n, d)).astype(float),
    "edges": edge_points,
    "collinear": lambda rng, n, d: rng.standard_normal((n, 1)) * rng.standard_normal(d) + rng.standard_normal(d),
    "coplanar": lambda rng, n, d: rng.standard_normal((n, max(1, d - 1))) @ rng.standard_normal((max(1, d - 1), d)),
    "coinciding": lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1)),
    "copies": lambda rng, n, d: rng.standard_normal((3, d))[rng.integers(0, 3, n)],
    "merged": merged,
    "far away": lambda rng, n, d: rng.standard_normal((n, d)) + 1e6,
    "very far away": lambda rng, n, d: rng.standard_normal((n, d)) + 1e15,
    "skinny": skinny,
}
FORMS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "identity": lambda rng, d: np.eye(d),
    "zero": lambda rng, d: np.zeros((d, d)),
    "minus identity": lambda rng, d: -np.eye(d),
    "any": lambda rng, d: rng.standard_normal((d, d)),
    "rank one": lambda rng, d: np.outer(rng.integers(-1, 2, d), rng.standard_normal(d)),
    "signs": lambda rng, d: rng.integers(-1, 2, (d, d)).astype(float),
}


@st.composite
def instances(choose: st.DrawFn) -> Instance:
    """Tokens, a form B and masses."""
    d, n = choose(st.integers(1, 3)), choose(st.sampled_from([1, 2, 5, 30, 100, 400]))
    rng = np.random.default_rng(choose(st.integers(0, 2**32 - 1)))
    x = CLOUDS[choose(st.sampled_from(list(CLOUDS)))](rng, n, d)
    if choose(st.booleans()):
        x[rng.integers(len(x))] = 0.0
    x = x * choose(st.sampled_from(SCALES))
    x = np.concatenate([x, x[rng.integers(0, len(x), len(x) // 3)]])
    return x, FORMS[choose(st.sampled_from(list(FORMS)))](rng, d), 10.0 ** rng.uniform(-6, 6, len(x))


def assert_same(q: Array, y: Array, v: Array, w: Array) -> None:
    """The engine against the reference; a mean may differ by rounding."""
    zero = np.zeros(len(q))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, best, leader = vertices.top(q, y, v, w, zero, 0.0)
        expected = dense.top(q, y, v, w, zero, 0.0)
    np.testing.assert_array_equal(best, expected[1])
    np.testing.assert_array_equal(leader, expected[2])
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-13 * np.abs(v).max())


def agrees(q: Array, y: Array) -> bool:
    try:
        # Values that tell every source apart from every other.
        assert_same(q, y, np.arange(1.0, len(y) + 1)[:, None] ** 2, np.ones(len(y)))
    except (AssertionError, ValueError):
        return False
    return True


@given(instances())
def test_leaders_ties_and_means_are_those_of_the_reference(instance: Instance) -> None:
    x, B, w = instance
    assert_same(dense.scores(x, B), x, x, w)


@given(instances(), st.integers(0, 10**6))
def test_queries_that_are_no_sources_and_values_that_are_no_places(instance: Instance, seed: int) -> None:
    x, B, w = instance
    rng = np.random.default_rng(seed)
    y, v = x[rng.permutation(len(x))], rng.standard_normal((len(x), 4))
    w = w * (rng.random(len(x)) < 0.7)
    w[rng.integers(len(x))] = 1.0
    others = rng.integers(-1, 2, x.shape) if rng.random() < 0.5 else rng.standard_normal(x.shape)
    assert_same(np.concatenate([dense.scores(x, B), others * 2.0 ** rng.integers(-1070, 400)]), y, v, w)


@given(instances(), st.sampled_from(["tokens", "points", "first"]))
def test_laws_hear_the_same(instance: Instance, ties: str) -> None:
    x, B, w = instance
    law = af.Hardmax(B=B, ties=ties)
    for masses in (None, w):
        with np.errstate(over="ignore", invalid="ignore"):
            ours = law.hear(x, masses=masses, gain=3.0, engine="vertices")
            theirs = law.hear(x, masses=masses, gain=3.0, engine="dense")
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=0, atol=1e-13 * np.abs(x).max())
        np.testing.assert_array_equal(ours.log_total, theirs.log_total)


@given(instances())
def test_laws_refuse_the_same_ties(instance: Instance) -> None:
    x, B, _ = instance
    law, said = af.Hardmax(B=B, ties="error"), []
    for engine in ("vertices", "dense"):
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                law.hear(x, engine=engine)
            said.append("nothing")
        except TieError as error:
            said.append(str(error))
    assert said[0] == said[1]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_many_queries_are_answered_by_cells(d: int) -> None:
    """Enough queries for a table, among them the corners of its cells and neighbours of those by rounding."""
    rng = np.random.default_rng(d)
    y = edge_points(rng, 300, d)
    lattice = np.stack(np.meshgrid(*[np.linspace(-1, 1, 9)] * d), axis=-1).reshape(-1, d)
    corners = lattice[np.abs(lattice).max(axis=1) == 1]
    near = [np.nextafter(corners, side) for side in (-2.0, 0.0, 2.0)]
    q = np.concatenate([rng.standard_normal((6000, d)), corners, *near])
    for cloud in (y, np.round(y), y / np.linalg.norm(y, axis=1, keepdims=True), np.repeat(y, 4, axis=0)):
        assert_same(q, cloud, cloud, np.ones(len(cloud)))


def facing(d: int, seed: int) -> tuple[Array, Array]:
    """Queries at right angles to a side of a simplex, and a few points of its edges, among many inside."""
    rng = np.random.default_rng(seed)
    y = edge_points(rng, 12, d)
    inside = rng.dirichlet(np.full(d + 1, 5.0), 200) @ y[: d + 1]
    sides = y[1:d] - y[0]
    n = np.array([sides[0, 1], -sides[0, 0]]) if d == 2 else np.cross(*sides)
    return np.outer([1.0, -1.0, 0.3, -0.7, 1 / 3, -1e3], n), np.concatenate([y, inside])


@pytest.mark.parametrize("margin", [0.0, -4 * 2.0**-53])
@pytest.mark.parametrize("d", [2, 3])
def test_the_margin_is_needed(monkeypatch: pytest.MonkeyPatch, d: int, margin: float) -> None:
    """Without it, points that rounding lifts to the top score are missed."""
    clouds = [facing(d, seed) for seed in range(200)]
    assert all(agrees(q, y) for q, y in clouds)
    monkeypatch.setattr(vertices, "MARGIN", margin)
    assert not all(agrees(q, y) for q, y in clouds)


@pytest.mark.parametrize("side", [1, 2])
def test_the_margin_of_cells_is_needed(monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    """The same when nothing is left out beforehand, and every query goes by its cell."""
    clouds = [(np.tile(q, (200, 1)), y[: 8 * side]) for q, y in (facing(2, seed) for seed in range(60))]
    monkeypatch.setattr(vertices, "ROUNDS", {})
    monkeypatch.setattr(vertices, "LONGEST_LIST", 64)
    assert all(agrees(q, y) for q, y in clouds)
    monkeypatch.setattr(vertices, "MARGIN", -16 * 2.0**-53)
    assert not all(agrees(q, y) for q, y in clouds)


def test_doubt_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query at 0 hears everybody, and so does one so faint that all products vanish."""
    y = np.random.default_rng(0).uniform(-0.4, 0.4, (300, 2))
    for q in (np.zeros((1, 2)), np.full((3, 2), 5e-324), np.array([[0.0, 0.0], [1.0, 1.0]])):
        assert agrees(q, y)
        with monkeypatch.context() as patch:
            patch.setattr(vertices, "PRODUCTS", (-1.0, np.inf))
            assert not agrees(q, y)


def test_a_query_at_zero_does_not_slow_down_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2000, 2))
    x[7] = 0.0
    sizes = []
    grow = vertices_kernels.grow

    def noted(points: Array, *rest: Any) -> None:
        sizes.append(len(points))
        grow(points, *rest)

    monkeypatch.setattr(vertices_kernels, "grow", noted)
    assert_same(x, x, x, np.ones(len(x)))
    assert len(sizes) == 1
    assert sizes[0] < 100


@pytest.mark.parametrize("d", [1, 2, 3])
def test_most_points_of_a_cloud_are_left_out(d: int) -> None:
    x = np.random.default_rng(0).standard_normal((20_000, d))
    for scale in SCALES:
        kept = vertices.candidates(scale * x, scale * x)
        assert kept is not None
        assert len(kept) < 1000
    offset = vertices.candidates(x, x + 10)
    assert offset is not None
    assert len(offset) < 1000


@pytest.mark.parametrize(("d", "fineness"), [(1, 0), (2, 8), (3, 0), (3, 1), (3, 3)])
def test_directions_close_up_and_face_outwards(d: int, fineness: int) -> None:
    corners, facets = vertices.directions(d, fineness)
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1, rtol=1e-11)
    assert (np.linalg.det(corners[facets]) > 0).all() or d == 1
    if d == 3:
        edges = np.concatenate([facets[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))])
        assert len(np.unique(edges, axis=0)) == len(edges)
        assert sorted(edges.tolist()) == sorted(edges[:, ::-1].tolist())


def test_hardmax_alone_is_served_by_vertices() -> None:
    x = af.tokens.gaussian(n=2100, d=2, seed=0)
    run = af.simulate(x, af.Hardmax(), af.Layers(gamma=0.5), until=2)
    assert run.report["engine"] == "vertices"
    reference = af.simulate(x, af.Hardmax(), af.Layers(gamma=0.5), until=2, engine="dense")
    np.testing.assert_allclose(run.final, reference.final, rtol=0, atol=1e-14)
    assert af.simulate(x, af.Localmax(), af.Layers(gamma=0.5), until=1).report["engine"] == "neighbours"
    for law in (af.Softmax(), af.Localmax(delta=0.1), af.HegselmannKrause(eps=1.0)):
        with pytest.raises(InputError, match="engine 'vertices' serves Hardmax in up to 3 dimensions alone"):
            af.simulate(x, law, af.Layers(gamma=0.5), until=2, engine="vertices")
    with pytest.raises(InputError, match="engine 'vertices' serves Hardmax in up to 3 dimensions alone"):
        af.Hardmax().hear(np.ones((5, 4)), engine="vertices")


def test_tilted_boxes_know_nothing_of_underflow_and_overflow() -> None:
    """More such queries than are handed over, so that the tree itself must answer them."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((400, 2))
    for exponent in (-1072, -1070, -1066, -1060):
        assert_same(rng.standard_normal((300, 2)) * 2.0**exponent, y, y, np.ones(len(y)))
    slanted = 1e150 * np.outer(rng.standard_normal(400), [1.0, -1.0])
    slanted[::7] += 1e140 * rng.standard_normal((58, 2))
    q = 1e160 * np.outer(rng.uniform(0.1, 1.0, 100), [1.0, 1.0])
    assert_same(q, slanted, slanted, np.ones(400))
    assert_same(np.concatenate([q, y]), slanted, slanted, np.ones(400))
