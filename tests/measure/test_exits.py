"""Exit times against closed forms, literal chains, sums of geometric times, and the theory of low temperatures.

Statistical tests have fixed seeds and a level of 1e-6 each, so that a wrong law and not bad luck makes them fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused
from scipy import stats

import attnflow as af
from attnflow.core import blocks
from attnflow.measure import exits
from attnflow.measure.exits import ExitTimes, GeometricLaw, exit_rate, exit_times

Array = NDArray[np.float64]
LEVEL = 1e-6
TRIANGLE = af.tokens.polygon(3)
PAIR = np.array([[1.0], [-1.0]])
SOFT = af.Softmax


def chance(k: int, beta: float) -> float:
    """The probability that a given corner of the regular k-gon picks another one."""
    S = math.fsum(math.exp(-beta * (1 - math.cos(2 * math.pi * j / k))) for j in range(1, k))
    return S / (1 + S)


def gap(k: float) -> float:
    return 1 - math.cos(2 * math.pi / k)


# The geometric law


@pytest.mark.parametrize("p", [0.9, 0.5, 0.01, 1e-6])
def test_geometric_law(p: float) -> None:
    law, other = GeometricLaw(math.log1p(-p)), stats.geom(p)
    assert law.mean == pytest.approx(other.mean(), rel=1e-12)
    assert law.median == other.median()
    for q in (1e-9, 0.1, 0.73, 1 - 1e-9):
        assert law.quantile(q) == other.ppf(q)
    for t in (-1, 0, 1, 2.5, 7, 10**6):
        assert law.chance(t) == pytest.approx(other.cdf(t), rel=1e-9)


def test_quantiles_at_whole_numbers() -> None:
    """P(T <= t) = 1 - 2^{-t}, or 1 - (3/4)^t: at each of these values the quantile jumps."""
    for stay in (Fraction(1, 2), Fraction(3, 4)):
        law = GeometricLaw(math.log(stay))
        for t in range(1, 25):
            q = float(1 - stay**t)
            assert law.quantile(q * (1 - 1e-12)) == t
            assert law.quantile(q + (1 - q) * 1e-9) == t + 1
    assert [GeometricLaw(math.log(0.5) / t).median for t in range(1, 60)] == list(range(1, 60))


def test_a_certain_exit() -> None:
    law = GeometricLaw(-math.inf)
    assert (law.mean, law.median, law.chance(1), law.chance(0)) == (1.0, 1, 1.0, 0.0)
    with refused("below 1"):
        law.quantile(1.0)


# Polygons, where the first move leaves


@pytest.mark.parametrize(("beta", "median"), [(1.0, 2), (2.0, 8), (3.0, 32), (4.0, 141)])
def test_medians_of_one_token_of_a_triangle(beta: float, median: int) -> None:
    found = exit_times(TRIANGLE, SOFT(beta=beta), 0.1, 0.1, token=1)
    assert found.exact is not None
    assert found.exact.median == median
    assert found.times.dtype == np.int64


@pytest.mark.parametrize(("k", "median"), [(3, 3.958e25), (4, 8.158e16)])
def test_medians_at_low_temperature(k: int, median: float) -> None:
    found = exit_times(af.tokens.polygon(k), SOFT(beta=40.0), 0.1, 0.1, runs=2001, token=0, seed=3)
    assert found.exact is not None
    assert isinstance(found.exact.median, int)
    assert found.exact.median == pytest.approx(median, rel=2e-4)
    assert found.exact.mean == pytest.approx(median / math.log(2), rel=2e-4)
    p = chance(k, 40.0)
    assert stats.kstest([float(t) * p for t in found.times], "expon").pvalue > LEVEL
    below = sum(t <= found.exact.median for t in found.times)
    assert stats.binomtest(below, 2001).pvalue > LEVEL
    assert found.times.dtype == (object if max(found.times) >= 2**63 else np.int64)
    assert isinstance(found.median, int)


@pytest.mark.parametrize(("k", "beta"), [(2, 1.0), (3, 3.0), (5, 6.0)])
def test_the_first_of_all_tokens_is_geometric(k: int, beta: float) -> None:
    found = exit_times(af.tokens.polygon(k), SOFT(beta=beta), 0.1, 0.05, runs=4000, seed=1)
    assert found.exact is not None
    assert found.exact.log_stay == pytest.approx(k * math.log1p(-chance(k, beta)), rel=1e-12)
    geometric = stats.geom(-math.expm1(found.exact.log_stay))
    edges = np.unique(geometric.ppf(np.linspace(0, 1, 21)[1:-1]))
    bins = np.concatenate([[0], edges, [np.inf]])
    expected = np.diff(geometric.cdf(bins)) * 4000
    assert stats.chisquare(np.histogram(found.times, bins + 0.5)[0], expected).pvalue > LEVEL


def test_the_law_is_exact_only_if_every_pick_leads_out() -> None:
    square, law = af.tokens.polygon(4), SOFT(beta=2.0)
    side, diagonal = 0.1 * math.sqrt(2), 0.2
    assert exit_times(square, law, 0.1, 0.999 * side).exact is not None
    assert exit_times(square, law, 0.1, 1.001 * side).exact is None
    assert exit_times(square, law, 0.1, 0.999 * diagonal).exact is None
    # Picks of probability zero do not count: the one token that hears the other leaves at once.
    far = exit_times([[1.0], [0.9], [-5.0]], af.Hardmax(), 0.5, 0.04, token=1)
    assert far.exact is not None
    assert set(far.times) == {1}


def test_probabilities_of_1e_minus_300() -> None:
    found = exit_times(PAIR, SOFT(beta=345.0), 1.0, 1.0, runs=400)
    assert found.exact is not None
    assert found.exact.log_stay == pytest.approx(-2 * math.exp(-690.0), rel=1e-9)
    scaled = [math.exp(math.log(t) - 690.0) * 2 for t in found.times]
    assert stats.kstest(scaled, "expon").pvalue > LEVEL


# Several picks


def literal_exit(x0: Array, law: af.Law, gamma: float, radius: float, rng: np.random.Generator) -> int:
    """The chain as it is written, one step after the other."""
    x = x0.copy()
    for t in range(1, 10**6):
        P = law.weights(x)
        y = np.array([x[rng.choice(len(x), p=row)] for row in P])
        x = x + gamma * (y - x)
        if (np.linalg.norm(x - x0, axis=1) > radius).any():
            return t
    raise AssertionError


@pytest.mark.parametrize(
    ("x", "law", "gamma", "radius"),
    [
        (TRIANGLE, SOFT(beta=1.5), 0.2, 0.6),
        (np.array([[1.0], [1.0], [-1.0], [-1.0]]), SOFT(beta=0.8), 0.2, 0.7),
        (np.array([[1.0, 0.1], [-0.6, 0.8], [0.1, -1.0]]), SOFT(beta=1.0, B=[[1.0, 0.5], [-0.5, 1.0]]), 0.3, 0.8),
        (np.array([[0.0], [1.0]]), af.HegselmannKrause(eps=3.0), 0.4, 0.45),
    ],
)
def test_literal_chains_leave_as_late(x: Array, law: af.Law, gamma: float, radius: float) -> None:
    rng = np.random.default_rng(0)
    slow = [literal_exit(x, law, gamma, radius, rng) for _ in range(400)]
    found = exit_times(x, law, gamma, radius, runs=4000)
    assert found.exact is None
    edges = np.unique(np.quantile(found.times, np.linspace(0, 1, 9)[1:-1], method="inverted_cdf"))
    bins = np.concatenate([[0], edges, [np.inf]]) + 0.5
    table = np.array([np.histogram(times, bins)[0] for times in (slow, found.times)])
    assert table.min() > 4
    assert stats.chi2_contingency(table).pvalue > LEVEL


def test_one_token_among_held_ones_waits_for_each_pick() -> None:
    """It goes from 1 towards -1 in three picks, each after a geometric time of its own."""
    beta, gamma, radius, runs = 2.0, 0.1, 0.5, 4000
    found = exit_times(PAIR, SOFT(beta=beta), gamma, radius, runs=runs, token=0)
    places = [1.0, 0.8, 0.62]
    p = [1 / (1 + math.exp(beta * y * (y + 1))) for y in places]
    grid = np.arange(2000)
    law = np.ones(1)
    for one in p:
        law = np.convolve(law, stats.geom.pmf(grid, one))
    cdf = law.cumsum()
    edges = np.array([int(np.searchsorted(cdf, q)) for q in np.linspace(0, 1, 16)[1:-1]])
    expected = np.diff(np.concatenate([[0], cdf[edges], [1]])) * runs
    counts = np.histogram(found.times, np.concatenate([[0], edges, [np.inf]]) + 0.5)[0]
    assert stats.chisquare(counts, expected).pvalue > LEVEL
    assert found.times.mean() == pytest.approx(sum(1 / one for one in p), rel=0.1)


def test_small_blocks_of_memory_change_no_law(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exit_times(TRIANGLE, SOFT(beta=1.5), 0.2, 0.6, runs=3000)
    monkeypatch.setattr(blocks, "BLOCK", 1000)
    parts = exit_times(TRIANGLE, SOFT(beta=1.5), 0.2, 0.6, runs=3000, seed=1)
    assert parts.times.shape == (3000,)
    assert stats.ks_2samp(whole.times, parts.times).pvalue > LEVEL


def test_ties_of_other_laws() -> None:
    uniform = exit_times(TRIANGLE, af.Localmax(delta=5.0), 0.1, 0.1)
    assert uniform.exact is not None
    assert uniform.exact.log_stay == pytest.approx(3 * math.log(1 / 3))
    assert uniform.gap is None
    swap = exit_times(PAIR, af.Hardmax(B=[[-1.0]]), 0.5, 0.9)
    assert swap.exact == GeometricLaw(-math.inf)
    assert set(swap.times) == {1}


def test_seeds_reproduce() -> None:
    one, two, other = (exit_times(TRIANGLE, SOFT(beta=2.0), 0.1, 0.4, 50, seed).times for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


# Medians and their intervals


@pytest.mark.parametrize("n", [1, 5, 6, 7, 10, 100, 999, 1000])
def test_the_interval_is_the_tightest_that_holds(n: int) -> None:
    """Times 1..n: the k-th and the k-th from the end hold the median if a coin falls k to n - k times."""
    found = ExitTimes(np.random.default_rng(0).permutation(n) + 1, None, None)
    holds = [math.fsum(stats.binom.pmf(range(k, n - k + 1), n, 0.5)) for k in range(n // 2 + 1)]
    k = max((k for k in range(1, n // 2 + 1) if holds[k] >= 0.95), default=0)
    assert found.interval == ((k, n + 1 - k) if k else (1, math.inf))
    assert found.median == (n + 1) // 2


def test_intervals_hold_the_true_median() -> None:
    held = 0
    for seed in range(200):
        found = exit_times(TRIANGLE, SOFT(beta=4.0), 0.1, 0.1, runs=60, seed=seed)
        assert found.exact is not None
        held += found.interval[0] <= found.exact.median <= found.interval[1]
    assert held > stats.binom.ppf(LEVEL, 200, 0.95)


# The gap


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8])
def test_the_gap_of_polygons(k: int) -> None:
    for token in (None, 1):
        found = exit_times(af.tokens.polygon(k, angle=0.3), SOFT(beta=3.0), 0.1, 0.05, runs=10, token=token)
        assert found.gap == pytest.approx(gap(k), rel=1e-9)


def test_the_gap_with_a_matrix_and_of_negative_beta() -> None:
    B = np.array([[1.0, 0.4], [-0.2, 0.8]])
    s = TRIANGLE @ B.T @ TRIANGLE.T
    cheapest = min(s[i, i] - s[i, j] for i in range(3) for j in range(3) if i != j)
    assert exit_times(TRIANGLE, SOFT(B=B), 0.1, 0.1, runs=9).gap == pytest.approx(cheapest)
    assert exit_times(TRIANGLE, SOFT(beta=-1.0, B=-B), 0.1, 0.1, runs=9).gap == pytest.approx(cheapest)


def three(angle: float, tilt: float = 0.0) -> Array:
    """Two tokens near each other and one far away."""
    turns = np.array([angle, -angle, math.pi + tilt])
    return np.column_stack([np.cos(turns), np.sin(turns)])


def test_the_dearest_pick_of_the_path_is_the_gap() -> None:
    """With gamma = 1 two tokens become one, at the cost 1 - cos 2a, before any leaves, at the cost 1 + cos a."""
    a = 0.2
    assert exit_times(three(a), SOFT(beta=3.0), 1.0, 0.3, runs=9).gap == pytest.approx(gap(math.pi / a))
    assert exit_times(three(a), SOFT(beta=3.0), 1.0, 0.5, runs=9).gap == pytest.approx(1 + math.cos(a))
    # Where they meet decides what leaving costs.
    assert exit_times(three(a, 0.1), SOFT(beta=3.0), 1.0, 0.5, runs=9).gap is None
    rate = exit_rate(three(a), [6.0, 7.0, 8.0, 9.0, 10.0], 1.0, 0.5, runs=4000)
    assert abs(rate.slope - (1 + math.cos(a))) < rate.error < 0.2


def test_no_gap_where_tokens_return() -> None:
    pairs = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    assert exit_times(pairs, SOFT(beta=1.0), 0.3, 0.9, runs=9).gap is None
    assert exit_times(pairs, SOFT(beta=1.0), 0.3, 0.5, runs=9).gap == pytest.approx(2.0)


def test_what_costs_nothing() -> None:
    """The middle token is drawn to 1 in any case: three free steps, and then a fourth."""
    x = np.array([[1.0], [0.5], [-1.0]])
    for radius in (0.1, 0.3):
        assert exit_times(x, SOFT(beta=30.0), 0.25, radius, runs=9).gap == 0
    # At 0 it hears all alike, but leaves on either side; of two tokens that choose there are too many ways.
    x[1] = 0.0
    assert exit_times(x, SOFT(beta=30.0), 0.25, 0.3, runs=9).gap == 0
    assert exit_times([*x, [0.0]], SOFT(beta=30.0), 0.25, 0.3, runs=9).gap is None
    repelled = [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]]
    assert exit_times(repelled, SOFT(beta=-30.0), 0.1, 0.1, runs=9).gap is None
    # A token may rest as well, but not two.
    rests = [[1.0, 0.0], [1.0, 0.5], [-1.0, 0.0], [-1.0, 0.5]]
    assert exit_times(rests[:2], SOFT(beta=30.0), 0.5, 0.2, runs=9).gap == 0
    assert exit_times(rests, SOFT(beta=30.0), 0.5, 0.2, runs=9).gap is None


def test_the_gap_of_each_token() -> None:
    x = np.array([[1.0, 0.1], [-0.6, 0.8], [0.1, -1.0]])
    s = x @ x.T
    for i in range(3):
        cheapest = min(s[i, i] - s[i, j] for j in range(3) if j != i)
        assert exit_times(x, SOFT(beta=2.0), 0.1, 0.05, runs=9, token=i).gap == pytest.approx(cheapest)


# The rate


@pytest.mark.parametrize("k", [3, 4, 5, 6, 8])
def test_rates_of_polygons(k: int) -> None:
    for token in (None, 0):
        rate = exit_rate(af.tokens.polygon(k), [10.0, 20.0, 30.0, 40.0], 0.1, 0.05, runs=50, token=token)
        assert rate.gap == pytest.approx(gap(k))
        assert abs(rate.slope - gap(k)) < rate.error < 0.06 * gap(k)
        assert rate.medians[-1] == pytest.approx(
            math.log(2) / (1 if token == 0 else k) / -math.log1p(-chance(k, 40.0)), rel=1e-6, abs=1
        )
    assert rate.betas.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert len(rate.exits) == 4


def test_the_error_owns_up_to_the_drift() -> None:
    """At small beta the slope is far from its limit."""
    for betas in ([1.0, 2.0, 3.0], [1.0, 1.5, 2.0, 2.5, 3.0, 3.5], [2.0, 4.0, 8.0]):
        for k in (3, 4, 5, 6):
            rate = exit_rate(af.tokens.polygon(k), betas, 0.1, 0.05, runs=6)
            assert abs(rate.slope - gap(k)) < rate.error


def test_rates_from_samples() -> None:
    """Three picks to the exit: the first costs most."""
    held = 0
    for seed in range(10):
        rate = exit_rate(TRIANGLE, [8.0, 10.0, 12.0, 14.0, 16.0], 0.04, 0.15, runs=500, seed=seed)
        assert all(found.exact is None for found in rate.exits)
        assert rate.medians == [found.median for found in rate.exits]
        assert rate.gap == pytest.approx(1.5)
        assert rate.error < 0.4
        held += abs(rate.slope - 1.5) < rate.error
    # Each fails with probability 1/20 or less.
    assert held > stats.binom.ppf(LEVEL, 10, 0.95)


def test_lines_are_fitted_with_weights() -> None:
    rng = np.random.default_rng(0)
    beta, y, noise = np.array([1.0, 2.0, 4.0, 5.0]), rng.standard_normal(4), np.array([1e-3, 2e-3, 1e-2, 5e-3])
    (slope, _), cov = np.polyfit(beta, y, 1, w=1 / noise, cov="unscaled")
    assert exits._line(beta, y, noise) == pytest.approx((slope, math.sqrt(cov[0, 0])))


# Refusals


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "radius": (lambda: exit_times(TRIANGLE, SOFT(), 0.1, 0.0), "radius is 0"),
    "hull": (lambda: exit_times(TRIANGLE, SOFT(), 0.1, 1.74), "no farther than 1.73"),
    "hull of one": (lambda: exit_times([[0.0], [1.0], [-1.0]], SOFT(), 0.1, 1.5, token=0), "no farther than 1:"),
    "consensus": (lambda: exit_times(np.ones((4, 2)), SOFT(), 0.1, 0.1), "no farther than 0"),
    "gamma": (lambda: exit_times(TRIANGLE, SOFT(), 1.5, 0.1), "gamma is 1.5"),
    "runs": (lambda: exit_times(TRIANGLE, SOFT(), 0.1, 0.1, runs=0), "runs is 0"),
    "seed": (lambda: exit_times(TRIANGLE, SOFT(), 0.1, 0.1, seed=-1), "seed is -1"),
    "token": (lambda: exit_times(TRIANGLE, SOFT(), 0.1, 0.1, token=3), "no token 3"),
    "heads": (lambda: exit_times(TRIANGLE, af.Heads([SOFT(), SOFT()]), 0.1, 0.1), "heads"),
    "time": (lambda: exit_times(TRIANGLE, SOFT(beta=lambda t: 1.0), 0.1, 0.1), "function of time"),
    "law": (lambda: exit_times(TRIANGLE, 4.0, 0.1, 0.1), "law is 4.0"),  # type: ignore[arg-type]
    "settled": (lambda: exit_times(TRIANGLE, af.Hardmax(), 0.1, 0.1), "no token ever moves"),
    "frozen": (lambda: exit_times(TRIANGLE, SOFT(beta=1e6), 0.1, 0.1), "no token ever moves"),
    "at rest": (lambda: exit_times([[1.0], [0.5], [-1.0]], af.Hardmax(), 0.5, 1.0), "1000 of 1000 chains never leave"),
    "three betas": (lambda: exit_rate(TRIANGLE, [1.0, 2.0], 0.1, 0.1), "three or more"),
    "betas": (lambda: exit_rate(TRIANGLE, [1.0, 3.0, 2.0], 0.1, 0.1), "increasing order"),
    "beta zero": (lambda: exit_rate(TRIANGLE, [0.0, 3.0, 4.0], 0.1, 0.1), "positive"),
    "beta nan": (lambda: exit_rate(TRIANGLE, [1.0, math.nan, 4.0], 0.1, 0.1), "increasing order"),
    "B of time": (lambda: exit_rate(TRIANGLE, [1, 2, 3], 0.1, 0.1, B=lambda t: np.eye(2)), "function of time"),
    "no rate": (lambda: exit_rate(PAIR, [20, 30, 40], 0.5, 0.1, B=[[-1.0]]), "at every first step"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    call, words = REFUSED[name]
    with refused(words):
        call()


def test_chains_that_move_too_often_end_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exits, "MOST_MOVES", 30)
    with refused(r"moved 30 times.*exit_probability"):
        exit_times(np.repeat(TRIANGLE, 2, axis=0), SOFT(beta=12.0), 0.1, 0.5, runs=20)


def test_exits_of_what_is_no_chain_are_refused() -> None:
    run = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Layers(gamma=0.5), until=1)
    with refused("exits are those of a chain of tokens of mass one, but the motion is Layers.*: use Jumps"):
        exits._of_chains(run, radius=0.5)


def test_a_chain_that_cannot_move_goes_nowhere() -> None:
    rule = exits.exit_problem([[1.0], [-1.0]], af.Softmax(beta=1.0), 0.5, 0.5)[1]
    assert exits._cheapest(np.array([[1.0], [1.0]]), rule) == []
    assert len(exits._cheapest(np.array([[1.0], [-1.0]]), rule)) > 0
