"""The separable engine against direct sums, in long double where rounding of the scores themselves would show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from attnflow.engines import fused, separable, separable_grid
from attnflow.engines import separable_blocks as blocks
from attnflow.engines import separable_degrees as degrees
from attnflow.engines.separable import TOLERANCE, softmax
from attnflow.engines.separable_grid import PANEL, SOURCE_PANEL
from attnflow.engines.separable_products import exponentials

Array = NDArray[np.float64]


def cost(q: Array, k: Array, gain: float) -> float:
    """What the engine expects to do, in pairs of the fused engine; infinity where it leaves the sums to that."""
    made = separable.plan(q, k, gain)
    return math.inf if made is None else made.cost(len(q), len(k))


def reference(q: Array, k: Array, v: Array, log_masses: Array | None, gain: float) -> tuple[Array, Array]:
    """Means and totals with scores in extended precision, where the machine has it."""
    scores = np.longdouble(gain) * (q.astype(np.longdouble) @ k.astype(np.longdouble).T)
    if log_masses is not None:
        scores += log_masses
    top = scores.max(axis=1, keepdims=True)
    e = np.exp((scores - top).astype(float))
    return e @ v / e.sum(axis=1, keepdims=True), (top[:, 0] + np.log(e.sum(axis=1))).astype(float)


def errors(
    q: Array, k: Array, v: Array, log_masses: Array | None, gain: float, rows: NDArray[np.int64] | None = None
) -> tuple[float, float]:
    """Error of the means as a fraction of the diameter of the values, of the totals beyond their rounding."""
    mean, log_total = softmax(q, k, v, log_masses, gain)
    assert mean.shape == (len(q), v.shape[1])
    at = np.arange(len(q)) if rows is None else rows
    centre = v[0]  # sums of differences, so that the reference does not lose digits far from the origin
    expected, expected_total = reference(q[at], k, v - centre, log_masses, gain)
    diameter = max(float(np.linalg.norm(np.ptp(v, axis=0))), 8e-16 * float(np.abs(v).max()) / TOLERANCE, 1e-300)
    allowed = 1e-15 * (np.abs(expected_total) + gain * np.abs(q[at]).sum(axis=1) * np.abs(k).max())
    wrong = np.abs(log_total[at] - expected_total) - allowed
    return float(np.linalg.norm(mean[at] - centre - expected, axis=1).max()) / diameter, float(wrong.max())


def clusters(rng: np.random.Generator, n: int, d: int, stragglers: float) -> Array:
    """Two tight clusters far apart, and some tokens anywhere."""
    ends = np.array([[10.0, 4.0, -2.0], [-10.0, -3.0, 1.0]])[:, :d]
    x = ends[rng.integers(0, 2, n)] + 0.01 * rng.standard_normal((n, d))
    lost = rng.random(n) < stragglers
    x[lost] = 5 * rng.standard_normal((int(lost.sum()), d))
    return x


def disc(rng: np.random.Generator, n: int, d: int) -> Array:
    x = rng.standard_normal((n, d))
    return 3 * x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / d)


CLOUDS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "normal": lambda rng, n, d: rng.standard_normal((n, d)),
    "disc": disc,
    "heavy tails": lambda rng, n, d: rng.standard_t(3, (n, d)),
    "clusters": lambda rng, n, d: clusters(rng, n, d, 0.0),
    "stragglers": lambda rng, n, d: clusters(rng, n, d, 0.05),
    "line": lambda rng, n, d: rng.standard_normal((n, 1)) * np.array([0.6, 0.8, 0.3])[:d] + 0.2,
    "outlier": lambda rng, n, d: np.concatenate([rng.standard_normal((n - 1, d)), np.full((1, d), 1e4)]),
    "equal": lambda rng, n, d: np.tile(rng.standard_normal(d), (n, 1)),
    "zero": lambda rng, n, d: np.zeros((n, d)),
    "one": lambda rng, n, d: rng.standard_normal((1, d)),
    "two": lambda rng, n, d: rng.standard_normal((2, d)),
    "shifted": lambda rng, n, d: rng.standard_normal((n, d)) + 3e3 * np.array([1.0, -0.7, 0.4])[:d],
    "flat": lambda rng, n, d: rng.standard_normal((n, d)) * np.array([1.0, 1e-9, 1e-3])[:d],
    "lattice": lambda rng, n, d: rng.integers(-2, 3, (n, d)).astype(float),
}
GAINS = [1e-6, 1e-3, 0.1, 1.0, 4.0, 30.0, 1e3, 1e6]


def applies(q: Array, k: Array, gain: float, work: float = 3e7) -> bool:
    """Say whether the engine itself does the work, and not too much of it for a test."""
    return cost(q, k, gain) < work


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_tokens_hear_each_other(cloud: str, d: int) -> None:
    x = CLOUDS[cloud](np.random.default_rng(d), 603, d)
    served = 0
    for gain in GAINS:
        if applies(x, x, gain) or not math.isfinite(cost(x, x, gain)):
            wrong, wrong_total = errors(x, x, x, None, gain, np.arange(len(x) - 1, -1, -3))  # the outlier is the last
            assert wrong < TOLERANCE, gain
            assert wrong_total < TOLERANCE, gain
            served += applies(x, x, gain)
    assert served >= (1 if cloud == "outlier" else 2)


FORMS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "negative": lambda rng, d: -np.eye(d),
    "rotation": lambda rng, d: np.linalg.qr(rng.standard_normal((d, d)))[0],
    "any": lambda rng, d: rng.standard_normal((d, d)),
    "singular": lambda rng, d: np.outer(np.ones(d), rng.standard_normal(d)),
    "zero": lambda rng, d: np.zeros((d, d)),
}


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cloud", ["normal", "heavy tails", "stragglers", "shifted"])
def test_queries_under_any_form_with_masses(cloud: str, form: str, d: int) -> None:
    rng = np.random.default_rng(d + 10)
    x = CLOUDS[cloud](rng, 501, d)
    q = x[:203] @ FORMS[form](rng, d).T
    log_masses = rng.uniform(-6, 6, 501) * math.log(10)
    served, some = 0, np.arange(0, 203, 3)
    for gain in (1e-6, 1e-3, 0.3, 3.0, 40.0):
        if applies(q, x, gain):
            served += 1
            assert max(errors(q, x, x, log_masses, gain, some)) < TOLERANCE, gain
            assert max(errors(q, x, rng.standard_normal((501, 3)) + 7, log_masses, gain, some)) < TOLERANCE, gain
    assert served >= 2


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_worst_place_in_a_panel(d: int) -> None:
    """Panels as wide as allowed; targets at their ends, which hear sources on the far side because these weigh more."""
    rng = np.random.default_rng(0)
    for panels, z in itertools.product((1, 2, 3), (PANEL, SOURCE_PANEL)):
        side = np.linspace(-1, 1, 2 * panels + 1)
        x = np.stack(np.meshgrid(*[side] * d), axis=-1).reshape(-1, d)
        gain = panels * z * (1 - 1e-9)
        for _ in range(5):
            log_masses = -2 * gain * x @ rng.uniform(-1, 1, d) + rng.uniform(-3, 3, len(x))
            assert errors(x, x, x, log_masses, gain)[0] < 0.8 * TOLERANCE
            # Without a gradient only sources in wide panels err.
            assert errors(x, x, x**3, log_masses, gain)[0] < (0.2 if z == PANEL else 0.6) * TOLERANCE


@pytest.mark.parametrize(("d", "gain"), [(1, 30.0), (2, 0.01), (2, 4.0), (3, 1.0)])
def test_many_tokens_on_sampled_queries(d: int, gain: float) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((40_003, d)).clip(-3, 3)
    at = np.concatenate([x.argmax(axis=0), x.argmin(axis=0), rng.integers(0, len(x), 20)])
    assert max(errors(x, x, x, None, gain, at)) < TOLERANCE


def test_far_clusters_beyond_the_range_of_doubles() -> None:
    """Terms go from e^-4000 to e^4000, blocks of the grid carry scales of their own."""
    x = clusters(np.random.default_rng(0), 1501, 2, 0.01)
    assert applies(x, x, 30.0)
    assert max(errors(x, x, x, None, 30.0)) < TOLERANCE


def test_a_line_at_an_angle_is_turned_into_an_axis() -> None:
    x = np.linspace(-3, 3, 1000)[:, None] * np.array([[0.6, 0.8]])
    along = x @ np.array([[0.6, -0.8], [0.8, 0.6]])
    assert cost(x, x, 30.0) < 1.1 * cost(along, along, 30.0)
    assert max(errors(x, x, x, None, 30.0)) < TOLERANCE


def test_other_engines_do_what_this_one_cannot() -> None:
    rng = np.random.default_rng(1)
    wide, plane = rng.standard_normal((50, 5)), rng.standard_normal((50, 2))
    assert cost(wide, wide, 1.0) == math.inf
    assert cost(plane, plane, 1e300) == cost(1e200 * plane, plane, 1e200) == math.inf
    for q, v, gain in [(wide, wide, 1.0), (plane, plane, 1e300), (plane, rng.standard_normal((50, 9)), 1.0)]:
        keys = q
        for ours, theirs in zip(softmax(q, keys, v, None, gain), fused.softmax(q, keys, v, None, gain), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_exponents_that_rounding_would_spoil_are_left_to_others() -> None:
    x = np.concatenate([np.random.default_rng(1).standard_normal((50, 2)), [[1e3, 0.0], [-1e3, 0.0]]])
    assert math.isfinite(cost(x, x, 0.02))
    assert cost(x, x, 0.05) == math.inf  # kappa = 5e4
    assert math.isfinite(cost(x[:50] + 1e3, x[:50], 1.0))
    assert cost(x[:50] + 1e5, x[:50], 1.0) == math.inf  # the weights e^{g <c_t, s>} of keys


def test_the_prediction_grows_with_the_work_and_depends_on_the_inputs_alone() -> None:
    x = np.random.default_rng(2).standard_normal((3000, 2))
    costs = [cost(x, x, gain) for gain in (1e-6, 1.0, 10.0, 30.0)]
    assert costs == sorted(costs)
    assert costs == [cost(x.copy(), x, gain) for gain in (1e-6, 1.0, 10.0, 30.0)]
    assert cost(x[:50], x[:50], 1.0) > 50**2
    assert cost(x, x, 1.0) < len(x) ** 2 < cost(x, x, 30.0)


def test_coefficients_of_powers_are_exact_for_polynomials_of_degree_15() -> None:
    for k in range(blocks.P):
        coefficients = blocks.TO_POWERS @ (blocks.TO_CHEBYSHEV @ np.cos(k * np.arccos(blocks.NODES)))
        expected = np.zeros(blocks.P)
        expected[: k + 1] = chebyshev.cheb2poly(np.eye(blocks.P)[k])[: k + 1]
        np.testing.assert_allclose(coefficients, expected, rtol=0, atol=1e-14 * 2.0**blocks.P)


def test_blocks_of_exponentials_are_chebyshev_coefficients() -> None:
    """Terms e^{g (t s - t' s')} anywhere in their panels, from the coefficients of one pair of panels."""
    rng = np.random.default_rng(0)
    gain, t, s, width = 1.3, 2.1, -1.4, np.array([0.6, 0.4])
    matrix = exponentials(np.array([0.0, t]), np.array([s, 0.5]), width, gain)[1][: blocks.P]
    for u, v in rng.uniform(-1, 1, (50, 2)):
        expected = math.exp(gain * ((t + width[0] * u) * (s + width[1] * v) - t * s))
        assert abs(chebyshev.chebval2d(v, u, matrix) / expected - 1) < 1e-12


def kept(stage: degrees.Stage, d: int) -> Array:
    """1 for the products of Chebyshev polynomials that an index set holds, 0 for the others."""
    mask = np.arange(blocks.P) < stage.rows[:, None]
    assert mask.sum() == stage.lines.sum() == stage.number
    assert sorted(stage.seats[mask.ravel()]) == list(range(stage.number))
    return mask.reshape((blocks.P,) * d).astype(float)


@pytest.mark.parametrize("zeta", [(2.0, 2.0), (2.0, 2.0, 2.0), (1.5, 1.5, 1.5), (1.01, 1.01, 1.01), (2.0, 1.1, 1.5)])
@pytest.mark.parametrize("most", [1.0, 2.0, 3.0])
def test_index_sets_lose_little_anywhere_in_a_panel(zeta: tuple[float, ...], most: float) -> None:
    """e^{<zeta x, u>} and its gradient on a grid with the corners, from the terms kept, for several x in the ball."""
    d, most = len(zeta), min(most, len(zeta))
    u = np.cos(np.pi * np.arange(9) / 8)
    values: Array = chebyshev.chebvander(u, blocks.P - 1).astype(np.float64)
    slopes: Array = np.stack([chebyshev.chebval(u, chebyshev.chebder(row)) for row in np.eye(blocks.P)], axis=1)
    last, first = (
        kept(degrees.stages(np.array(own), np.array(own), most, most)[i], d)
        for i, own in ((d, zeta), (0, tuple(1.125 * z for z in zeta)))
    )
    assert last.sum() < {2: 0.95, 3: 0.7}[d] * blocks.P**d
    for way in ([1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 1, 1], [0.8, 0.5, 0.33], [1, 0.3, 0.3], [0.3, 1, 0.3]):
        x = np.minimum(1, np.array(way[:d]) * math.sqrt(most) / np.linalg.norm(way[:d]))
        for mask, steeper, allowed in ((last, 1.0, 1.4e-10), (first, 1.125, 3e-11)):
            z = steeper * x * zeta
            factors = [blocks.TO_CHEBYSHEV @ np.exp(z[a] * blocks.NODES) for a in range(d)]
            terms, exact = mask, np.ones(())
            for a, own in enumerate(factors):
                terms = terms * own.reshape([-1 if b == a else 1 for b in range(d)])
                exact = np.multiply.outer(exact, np.exp(z[a] * u))
            total = on_grid(terms, [values] * d)
            assert np.abs(total / exact - 1).max() < 3e-11
            for a in range(d if mask is last else 0):
                slope = on_grid(terms, [slopes if b == a else values for b in range(d)])
                # As a fraction of the half-width of the sources.
                assert np.abs(slope / total - z[a]).max() / zeta[a] < allowed


def on_grid(terms: Array, bases: list[Array]) -> Array:
    """Sum_k terms_k prod_a bases_a[., k_a] at all points of a grid."""
    for basis in bases:
        terms = np.tensordot(terms, basis, axes=(0, 1))
    return terms


def test_both_kinds_of_panels() -> None:
    """Keys and queries share their panels where products are cheap, and have their own where that saves work."""
    x = np.random.default_rng(0).standard_normal((20_000, 2)).clip(-3, 3)
    cheap, dear = separable.plan(x, x, 1.0), separable.plan(x, x, 30.0)
    assert cheap is not None
    assert dear is not None
    assert cheap.grid.sources is cheap.grid.targets
    assert (dear.grid.sources.panels < dear.grid.targets.panels).all()
    at = np.random.default_rng(1).integers(0, len(x), 50)
    assert max(errors(x, x, x, None, 1.0, at)) < TOLERANCE
    assert max(errors(x, x, x, None, 30.0, at)) < TOLERANCE


def test_sources_that_all_have_no_mass_are_left_to_others() -> None:
    x = np.random.default_rng(0).standard_normal((400, 2))
    nobody = np.full(400, -np.inf)
    with np.errstate(invalid="ignore"):
        for ours, theirs in zip(softmax(x, x, x, nobody, 5.0), fused.softmax(x, x, x, nobody, 5.0), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("d", "separate"), [(2, False), (2, True), (3, False), (3, True)])
def test_slabs_of_any_size_give_the_same_sums(d: int, separate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole grids and slabs of one or two panels; with gaps, so that some slabs hold no query."""
    rng = np.random.default_rng(d)
    k = clusters(rng, 1500, d, 0.1)
    q = 4 * rng.standard_normal((400, d)) if separate else k
    v = k if not separate else rng.standard_normal((1500, 2))
    gain = 0.4 if d == 2 else 0.08
    whole = softmax(q, k, v, None, gain)
    made = separable.plan(q, k, gain)
    assert made is not None
    assert made.grid.targets.counts[0] > 2
    panel = made.grid.largest // max(made.grid.sources.counts[0], made.grid.targets.counts[0])
    for size in (1, 2 * panel):
        monkeypatch.setattr(separable_grid, "SLAB", size)
        for got, expected in zip(softmax(q, k, v, None, gain), whole, strict=True):
            np.testing.assert_array_equal(got, expected)
