"""Single linkage and the diameter against all pairs, on the data where shortcuts go wrong."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refused
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

import attnflow as af
from attnflow.geometry import linkage as single
from attnflow.geometry.linkage import single_linkage

Array = NDArray[np.float64]


def clouds(kind: str, rng: np.random.Generator, n: int, d: int) -> Array:
    x: Array = rng.standard_normal((n, d))
    match kind:
        case "lattice":
            return rng.integers(-2, 4, (n, d)).astype(np.float64)
        case "tenths":
            return np.asarray(rng.integers(0, 5, (n, d)) * 0.1, dtype=np.float64)
        case "copies":
            return x[rng.integers(n, size=n)]
        case "collinear":
            return np.outer(rng.standard_normal(n), x[0]) + 100 * x[1 % n]
        case "far apart":
            return 1e-3 * x + 1e12 * rng.integers(-1, 2, (n, d))
        case "flat":
            return x * 10.0 ** rng.integers(-12, 1, d) + 1e3
        case "round":
            return np.asarray(x / np.linalg.norm(x, axis=1)[:, None])
        case "three":
            return x[:3][rng.integers(min(n, 3), size=n)] + 1e-12 * x
    return x


# The function of this name hides its module.
DIAMETER = import_module("attnflow.measure.diameter")
KINDS = ("lattice", "tenths", "copies", "collinear", "far apart", "flat", "round", "three", "gaussian")


@pytest.fixture(params=["few", "usual", "by tree", "by products"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to find near cells, with blocks so small that all loops go round."""
    if request.param != "few":
        monkeypatch.setattr(single, "MOST_COMPARED", 0)
    if request.param not in ("few", "usual"):
        monkeypatch.setattr(single, "LISTED_DIMENSION", 0)
        monkeypatch.setattr(single, "TREE_DIMENSION", 9 if request.param == "by tree" else 0)
        monkeypatch.setattr(single, "BLOCK", 60)
        monkeypatch.setattr(single, "MOST_PAIRS", 3)
        monkeypatch.setattr(single, "NEIGHBOURS", 1)
    return str(request.param)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 70), d=st.integers(1, 5), scale=st.integers(-3, 12))
def test_linkage_is_exact_also_where_distances_equal_tol(
    way: str, kind: str, seed: int, n: int, d: int, scale: int
) -> None:
    """The tolerance is one of the distances: chains of exactly that length belong together."""
    rng = np.random.default_rng(seed)
    x = clouds(kind, rng, n, d)
    gaps = np.sort(pdist(x))
    tol = float(gaps[min(len(gaps) - 1, len(gaps) * scale // 24)]) if scale >= 0 else 0.3
    expected = fcluster(linkage(x, "single"), tol, "distance")
    order = np.unique(expected, return_index=True)[1].argsort().argsort()
    np.testing.assert_array_equal(single_linkage(x, tol), order[expected - 1])


@pytest.mark.parametrize("distance", [1e-200, 1e-160, 1e-140])
def test_linkage_of_few_where_squares_underflow(distance: float) -> None:
    """Two points that are not one stay apart at tol 0 and at half their distance, and meet at their distance."""
    x = np.array([[0.0, 0.0], [distance, 0.0]])
    assert [single_linkage(x, part * distance).tolist() for part in (0.0, 0.5, 1.0)] == [[0, 1], [0, 1], [0, 0]]


def test_linkage_takes_checked_arrays_and_is_offered_to_users_for_one_more_release() -> None:
    with pytest.warns(DeprecationWarning, match=r"measure\.clusters"):
        assert af.geometry.single_linkage is single_linkage
    assert "single_linkage" not in af.geometry.__all__


def test_linkage_in_high_dimension() -> None:
    x = af.tokens.gaussian(n=200, d=128, seed=0)
    x[:80] += 10.0
    tol = float(linkage(x, "single")[-2, 2])
    assert np.bincount(single_linkage(x, tol)).tolist() == [80, 120]
    assert single_linkage(x, tol * (1 - 1e-12)).max() == 2


def test_linkage_of_many_in_few_cells() -> None:
    """Full cells that touch in one pair of points, and full cells that just do not."""
    rng = np.random.default_rng(0)
    left, right = rng.uniform(size=(400, 2)) * 0.5, rng.uniform(size=(400, 2)) * 0.5 + [1.6, 0.0]
    x = np.concatenate([left, right])
    gap = float(np.sqrt(((left[:, None] - right) ** 2).sum(axis=2).min()))
    assert single_linkage(x, gap).max() == 0
    assert single_linkage(x, gap * (1 - 1e-15)).max() == 1


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("more", [1e-7, 5e-7, 2e-6])
def test_points_slightly_farther_apart_than_tol_are_not_put_in_one_cell(way: str, d: int, more: float) -> None:
    """The diagonal of a cell is shorter than tol, so opposite corners farther apart than tol are in two."""
    for tol in (1.0, 0.3, 1e-5):
        corner = np.full(d, tol / np.sqrt(d))
        x = np.array([np.zeros(d), (1 + more) * corner, 9 * corner])
        assert single_linkage(x, tol).tolist() == [0, 1, 2]
        assert single_linkage(x, (1 + 2 * more) * tol).tolist() == [0, 0, 1]


def test_cells_across_a_gap_are_not_near() -> None:
    """After a gap of more than tol steps are counted on from a number that cells up to two steps away do not have."""
    rng = np.random.default_rng(0)
    column = np.concatenate([start + rng.uniform(0, 1.4, 9) for start in (0.0, 2.5, 40.0, 1e9)])
    steps = single._steps(column, 0.7, 1.0).reshape(4, 9)
    assert (steps.min(axis=1)[1:] - steps.max(axis=1)[:-1] > 2).all()


def test_linkage_where_cells_have_too_many_numbers(way: str) -> None:
    """In space, a million stretches along each axis would leave 64 bits."""
    x = np.repeat(np.arange(40.0)[:, None], 3, axis=1)
    assert single_linkage(x, np.sqrt(3.0)).max() == 0
    assert single_linkage(x, 1.7).max() == 39


def test_numbers_of_cells_that_would_leave_64_bits_are_not_listed() -> None:
    """Cells 4 and 5 touch. Their numbers, in a box of 2^66 cells, would be smaller than those of cells before them."""
    end, mid = 2**22, 2**20
    codes = np.array([[0, 0, 5], [3, 0, 0], [3, 0, 9], [3, 0, 18], [mid, 0, 0], [mid, 0, 1], [end, end, end]])
    cells = single.Boxes.of(0.5 * codes, np.arange(7))
    pairs = [np.stack(pair) for pair in single.near_pairs(cells, codes, np.arange(7), 0.5)]
    assert [4, 5] in np.sort(np.concatenate(pairs, axis=1).T).tolist()


def test_only_few_points_are_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of many points would not fit into memory."""
    compared, of_few = [], single._of_few

    def noted(x: Array, tol: float) -> Any:
        compared.append(len(x))
        return of_few(x, tol)

    monkeypatch.setattr(single, "_of_few", noted)
    for n in (single.MOST_COMPARED, single.MOST_COMPARED + 1):
        assert single_linkage(np.repeat([[0.0, 0.0], [3.0, 0.0]], n, axis=0)[:n], 1.0).max() == 0
    assert compared == [single.MOST_COMPARED]


def test_steps_after_a_gap_are_new_also_where_the_last_step_was_long(way: str) -> None:
    """In R^16 a cell is a quarter of tol wide: the second point is three cells away, the third beyond a gap."""
    x = np.zeros((3, 16))
    x[1:, 0] = 0.99, 3.0
    assert single_linkage(x, 1.0).tolist() == [0, 0, 1]


def test_cells_far_from_the_origin_that_touch_at_opposite_corners(way: str) -> None:
    """Centres of such cells are as far apart as cells can be that touch, and their rounding is that of far points."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        first = 1e6 * rng.uniform(-1, 1, 4)
        along = np.array([0.0, 0.4, 1.4, 1.8])
        x = first + np.outer(along, np.full(4, 0.5))
        tol = float(pdist(x[1:3])[0])
        assert single_linkage(x, tol).tolist() == [0, 0, 0, 0]
        assert single_linkage(x, tol * (1 - 1e-15)).max() == 1


def test_cells_on_both_sides_of_the_origin_stay_apart_where_only_their_boxes_are_near() -> None:
    """Boxes are .9 apart, points sqrt(1.17) = 1.08 at least; the sums of some, not their differences, are short."""
    x = np.repeat([[-0.45, -0.3], [-0.9, 0.3], [0.9, -0.3], [0.45, 0.3]], 30, axis=0)
    assert single_linkage(x, 1.0).tolist() == [0] * 60 + [1] * 60
    assert single_linkage(x, 1.09).max() == 0


@pytest.mark.parametrize("few", [1, DIAMETER.MOST_COMPARED])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 90), d=st.integers(1, 10))
def test_diameter_is_that_of_all_pairs(few: int, kind: str, seed: int, n: int, d: int) -> None:
    x = clouds(kind, np.random.default_rng(seed), n, d)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DIAMETER, "MOST_COMPARED", few)
        assert af.measure.diameter(x) == pytest.approx(pdist(x).max(), rel=1e-14)
        assert af.measure.diameter(x * 1e-120) == pytest.approx(1e-120 * pdist(x).max(), rel=1e-14)


@pytest.mark.parametrize("squeeze", [1.0, 0.999, 0.3, 1e-7, 1e-9])
def test_diameter_of_many_on_an_ellipse(squeeze: float) -> None:
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 3000)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    x = np.column_stack([np.cos(angle), squeeze * np.sin(angle)]) @ turn.T
    assert af.measure.diameter(x) == pytest.approx(pdist(x).max(), rel=1e-14)


def test_diameter_of_a_regular_polygon_and_of_a_reuleaux_triangle() -> None:
    """Parallel edges, and arcs of points at one distance from the opposite corner."""
    assert af.measure.diameter(af.tokens.polygon(5000)) == pytest.approx(2.0, rel=1e-14)
    corner = np.array([[np.cos(a), np.sin(a)] for a in np.pi / 2 + 2 * np.pi / 3 * np.arange(3)])
    arc = np.linspace(-np.pi / 6, np.pi / 6, 1000)
    arcs = [c + np.sqrt(3) * np.column_stack([np.cos(b), np.sin(b)]) for c, b in
            ((c, arc + np.arctan2(-c[1], -c[0])) for c in corner)]  # fmt: skip
    assert af.measure.diameter(np.concatenate(arcs)) == pytest.approx(np.sqrt(3), rel=1e-14)


@pytest.mark.parametrize("n", [5, 6])
def test_antipodes_where_rounding_turns_an_edge(n: int) -> None:
    """A corner comes twice, one rounding apart: that edge points anywhere, and an extreme vertex is one too early."""
    angle = 2 * np.pi * np.arange(n) / n + 0.3
    v = np.column_stack([np.cos(angle), 0.5 * np.sin(angle)])
    for corner in range(n):
        for step in product((-1, 0, 1), repeat=2):
            w = np.insert(v, corner + 1, v[corner] + 2.0**-52 * np.array(step), axis=0)
            if (w[corner] != w[corner + 1]).any():
                assert DIAMETER._farthest_antipodes(w) == pytest.approx(pdist(v).max(), rel=1e-14)


@pytest.mark.parametrize("width", [0.1, 1e-3, 1e-5, 1e-7])
def test_diameter_where_going_to_the_farthest_token_ends_at_the_wrong_pair(width: float) -> None:
    """A and B are farthest from each other, but C and D are farther apart."""
    a = 0.75 * width**2
    x = np.array([[0.0, 0.0], [1.0, 0.0], [a, width], [1 - a, -width]])
    assert af.measure.diameter(x) == pytest.approx(np.hypot(1 - 2 * a, 2 * width), rel=1e-15)


def test_the_farthest_partner_is_not_the_farthest_from_the_centre() -> None:
    y = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.7]])
    assert DIAMETER._farthest_by_products(y) == DIAMETER._farthest_by_tree(y) == 2.0


@pytest.mark.parametrize("seed", range(10))
def test_diameter_in_high_dimension(seed: int) -> None:
    x = af.tokens.gaussian(n=150, d=40, seed=seed) + 5.0
    assert af.measure.diameter(x) == pytest.approx(pdist(x).max(), rel=1e-14)


def test_distance_to_limits_against_all_pairs() -> None:
    x, limits = af.tokens.gaussian(n=50, d=3, seed=0), af.tokens.gaussian(n=7, d=3, seed=1)
    expected = np.linalg.norm(x[:, None] - limits, axis=2).min(axis=1)
    np.testing.assert_allclose(af.measure.distance_to_limits(x, limits), expected, rtol=1e-14)

    class Found:
        points = limits

    np.testing.assert_array_equal(af.measure.distance_to_limits(x, Found()), af.measure.distance_to_limits(x, limits))
    assert af.measure.distance_to_limits(limits[:1], limits).tolist() == [0.0]


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ([[1.0, 2.0]], "limits have dimension 2, but the tokens have dimension 1"),
        ([], "limits"),
        ([[np.nan]], "limits"),
    ],
)
def test_limits_are_checked(limits: list[list[float]], sentence: str) -> None:
    with refused(sentence):
        af.measure.distance_to_limits([[1.0]], limits)


def test_bad_configurations_are_refused() -> None:
    for bad in ([1.0, 2.0], [], [[np.inf]], "tokens", [[1j]]):
        with pytest.raises(af.InputError):
            af.measure.diameter(bad)
        with pytest.raises(af.InputError):
            af.measure.clusters(bad, 1.0)
    for tol in (-1.0, np.nan, "wide"):
        with refused("tol is"):
            af.measure.clusters([[1.0]], tol)  # type: ignore[arg-type]
    assert af.measure.clusters([[1.0, 2.0]], 0.0).labels.tolist() == [0]
