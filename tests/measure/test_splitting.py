"""Rare exits against exact enumeration of the chain, against plain simulation, and against the theorems.

The exact value adds up the probabilities of all choices of all tokens at all steps; choices too unlikely to matter are
left out, and their total bounds what that changes. Estimates are compared at five standard errors or more.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused
from scipy import stats

import attnflow as af
from attnflow.core import blocks
from attnflow.measure import splitting
from attnflow.measure.exits import exit_times
from attnflow.measure.splitting import exit_probability

Array = NDArray[np.float64]
TRIANGLE = af.tokens.polygon(3)
PAIR = np.array([[1.0], [-1.0]])
PAIRS = np.array([[1.0], [1.0], [-1.0], [-1.0]])


def choices(x: Array, P: Array, gamma: float, cut: float) -> Iterator[tuple[Array | None, float]]:
    """Go through all outcomes of a step with their probabilities; those below the cut have no tokens."""

    def token(i: int, y: Array, p: float) -> Iterator[tuple[Array | None, float]]:
        if i == len(x):
            yield y, p
            return
        landings: dict[bytes, float] = defaultdict(float)
        for j in range(len(x)):
            landings[(x[i] + gamma * (x[j] - x[i])).tobytes()] += P[i, j]
        for place, chance in landings.items():
            if p * chance < cut:
                yield None, p * chance
            else:
                z = y.copy()
                z[i] = np.frombuffer(place)
                yield from token(i + 1, z, p * chance)

    return token(0, x, 1.0)


def exact(x0: Array, law: af.Law, gamma: float, radius: float, steps: int, cut: float) -> tuple[float, float]:
    """Return bounds of P(T <= steps), by the forward recursion over all configurations."""
    now: dict[bytes, float] = {x0.tobytes(): 1.0}
    left = lost = 0.0
    for _ in range(steps):
        after: dict[bytes, float] = defaultdict(float)
        for state, chance in now.items():
            x = np.frombuffer(state).reshape(x0.shape)
            for y, p in choices(x, law.weights(x), gamma, cut / chance):
                if y is None:
                    lost += chance * p
                elif (np.linalg.norm(y - x0, axis=1) > radius).any():
                    left += chance * p
                else:
                    after[y.tobytes()] += chance * p
        now = after
    return left, left + lost


SOFT = af.Softmax
SCALENE = np.array([[1.0, 0.1], [-0.6, 0.8], [0.1, -1.0]])
SHORT = np.array([[1.0, 0.3], [1.0, -0.2], [-1.0, 0.0]])
CASES: dict[str, tuple[Array, af.Law, float, float, int, float]] = {
    # tokens, law, gamma, radius, steps, cut
    "two tokens, three picks": (PAIR, SOFT(beta=8.0), 0.1, 0.5, 12, 1e-22),
    "two tokens, warm": (PAIR, SOFT(beta=0.8), 0.1, 0.5, 7, 1e-9),
    "triangle, two picks": (TRIANGLE, SOFT(beta=11.0), 0.1, 0.2, 8, 1e-20),
    "square, two picks": (af.tokens.polygon(4), SOFT(beta=11.0), 0.1, 0.22, 5, 1e-17),
    "a pair per vertex": (PAIRS, SOFT(beta=8.0), 0.1, 0.3, 5, 1e-18),
    "a pair per vertex, warm": (PAIRS, SOFT(beta=1.0), 0.2, 0.5, 3, 1e-8),
    "a pair per vertex, at once": (PAIRS, SOFT(beta=4.0), 0.3, 0.7, 2, 1e-14),
    "exits beside moves": (np.array([[0.0], [1.0], [2.0]]), SOFT(beta=1.0), 0.4, 0.7, 3, 1e-9),
    "general position": (SCALENE, SOFT(beta=6.0), 0.2, 0.5, 6, 1e-15),
    "short and long picks": (SHORT, SOFT(beta=1.0), 0.2, 1.02 * 0.2 * math.hypot(2.0, 0.3), 4, 1e-9),
    "one that must move": (SHORT, SOFT(beta=2.0, B=[[-1.0, 0.3], [0.2, 0.5]]), 0.3, 0.7, 4, 1e-9),
    "uniform weights": (SCALENE, af.Localmax(delta=5.0), 0.2, 0.6, 4, 1e-9),
}


@cache
def bounds(name: str) -> tuple[float, float]:
    return exact(*CASES[name])


# To go through all choices of four tokens takes seconds.
MANY = "a pair per vertex"


@pytest.mark.parametrize("name", [pytest.param(name, marks=larger) if name == MANY else name for name in CASES])
def test_exact_values(name: str) -> None:
    x, law, gamma, radius, steps, _ = CASES[name]
    low, high = bounds(name)
    assert high - low < 2e-3 * low
    rare = exit_probability(x, law, gamma, radius, steps, runs=4000, seed=1)
    assert rare.error < 0.03 * rare.value
    assert low - 5 * rare.error <= rare.value <= high + 5 * rare.error
    assert rare.interval[0] < rare.value < rare.interval[1]
    assert rare.stages.sum() == pytest.approx(rare.value, rel=1e-12) or rare.value == 1


@pytest.mark.parametrize(("k", "beta", "steps"), [(3, 1.0, 3), (3, 20.0, 100), (4, 40.0, 10**3), (3, 40.0, 10**24)])
def test_a_single_pick_is_exact(k: int, beta: float, steps: int) -> None:
    S = math.fsum(math.exp(-beta * (1 - math.cos(2 * math.pi * j / k))) for j in range(1, k))
    rare = exit_probability(af.tokens.polygon(k), SOFT(beta=beta), 0.1, 0.1, steps)
    assert rare.value == pytest.approx(-math.expm1(-steps * k * math.log1p(S)), rel=1e-12)
    assert rare.error <= 1e-15 * rare.value


def test_unbiased_over_seeds_and_intervals_that_hold_the_value() -> None:
    """One path per group and 100 seeds, then intervals of 100 seeds: 19 in 20 should hold."""
    x, law, gamma, radius, steps, _ = CASES["two tokens, three picks"]
    value = bounds("two tokens, three picks")[0]
    few = np.array([exit_probability(x, law, gamma, radius, steps, 20, seed).value for seed in range(100)])
    assert abs(few.mean() - value) < 5 * few.std(ddof=1) / math.sqrt(100)
    assert few.std(ddof=1) / math.sqrt(100) < 0.07 * value
    found = [exit_probability(x, law, gamma, radius, steps, 200, seed) for seed in range(100)]
    hold = sum(rare.interval[0] <= value <= rare.interval[1] for rare in found)
    assert hold > stats.binom.ppf(1e-6, 100, 0.9)
    values = np.array([rare.value for rare in found])
    spread = float(values.std(ddof=1))
    assert abs(values.mean() - value) < 5 * spread / math.sqrt(100) < 0.1 * value
    assert np.mean([rare.error for rare in found]) == pytest.approx(spread, rel=0.3)


# Two tokens that keep picking each other, and one far away whose picks decide: the values are those of `exact`.
NEAR = np.array([[1.0, 0.0], [0.9, 0.3], [-1.0, 0.1]])


PICKED = [(4, 5.63782e-14), (5, 1.63397e-13), (6, 3.57e-13)]


@pytest.mark.parametrize(("steps", "value"), PICKED[: 3 if "ATTNFLOW_EXAMPLES" in os.environ else 1])
def test_rare_picks_among_cheap_ones(steps: int, value: float) -> None:
    """More than 8 of 30 intervals of level 0.95 miss with probability below 1e-5, and a mean by five errors too."""
    found = [exit_probability(NEAR, SOFT(beta=8.0), 0.1, 0.4, steps, seed=seed) for seed in range(30)]
    values = np.array([rare.value for rare in found])
    assert sum(not rare.interval[0] <= value <= rare.interval[1] for rare in found) <= 8
    assert abs(values.mean() - value) < 5 * values.std(ddof=1) / math.sqrt(30)
    assert values.std(ddof=1) < 0.4 * value


def test_the_values_above_are_exact() -> None:
    low, high = exact(NEAR, SOFT(beta=8.0), 0.1, 0.4, 4, 1e-20)
    assert low == pytest.approx(5.63782e-14, rel=2e-3)
    assert high - low < 2e-3 * low


def test_picks_together_in_one_step() -> None:
    """Two steps, large gamma: tokens that jump at once change what the second step can do."""
    x, law = np.array([[1.0], [0.7], [-1.0]]), SOFT(beta=4.0)
    low, high = exact(x, law, 0.6, 1.6, 2, 1e-16)
    rare = exit_probability(x, law, 0.6, 1.6, 2, runs=20000, seed=1)
    assert high - low < 1e-3 * low
    assert low - 5 * rare.error <= rare.value <= high + 5 * rare.error
    assert rare.error < 0.05 * rare.value


@pytest.mark.parametrize(
    ("beta", "gamma", "steps"), [(1.0, 0.001, 1000), (0.0, 0.04, 99), (0.5, 0.04, 60), (4.0, 0.04, 10**4)]
)
def test_likely_exits_are_probabilities(beta: float, gamma: float, steps: int) -> None:
    for seed in range(3):
        rare = exit_probability(TRIANGLE, SOFT(beta=beta), gamma, 0.15, steps, runs=200, seed=seed)
        low, high = rare.interval
        assert 0 <= low <= rare.value <= high <= 1
        assert rare.value > 0.9


@pytest.mark.parametrize(("radius", "steps"), [(0.3, 1), (0.5, 2), (0.6, 3)])
def test_too_few_steps_are_exactly_zero(radius: float, steps: int) -> None:
    rare = exit_probability(TRIANGLE, SOFT(beta=1.0), 0.1, radius, steps)
    assert (rare.value, rare.error, rare.interval) == (0.0, 0.0, (0.0, 0.0))
    assert exact(TRIANGLE, SOFT(beta=1.0), 0.1, radius, min(steps, 2), 1e-12)[0] == 0


def test_as_many_steps_as_needed_are_enough() -> None:
    """One step of gamma = 1/8 is longer than the radius by one last bit."""
    x, law = np.array([[0.0], [1.0]]), SOFT(beta=1.0)
    low, _ = exact(x, law, 0.125, math.nextafter(0.125, 0.0), 1, 1e-12)
    rare = exit_probability(x, law, 0.125, math.nextafter(0.125, 0.0), 1)
    assert low > 0.1
    assert rare.value == pytest.approx(low, rel=1e-12)


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_roulette_changes_no_mean(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "NEGLIGIBLE", max(part, 1e-12))
    _compare(("general position", "a pair per vertex, warm"))


@pytest.mark.parametrize(
    ("name", "value"), [("RARE", 0.01), ("RARE", 5.0), ("EVEN", 0.01), ("EVEN", 0.9), ("TOGETHER", 0.6)]
)
def test_no_choice_of_what_is_forced_changes_the_mean(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, name, value)
    _compare(("general position", "short and long picks", "a pair per vertex, warm", "two tokens, warm"))


def _compare(names: tuple[str, ...]) -> None:
    for name in names:
        x, law, gamma, radius, steps, _ = CASES[name]
        low, high = bounds(name)
        rare = exit_probability(x, law, gamma, radius, steps, runs=8000, seed=2)
        assert low - 5 * rare.error <= rare.value <= high + 5 * rare.error
        assert rare.error < 0.1 * low


def test_small_blocks_of_memory_change_no_law(monkeypatch: pytest.MonkeyPatch) -> None:
    x, law, gamma, radius, steps, _ = CASES["triangle, two picks"]
    value = bounds("triangle, two picks")[0]
    monkeypatch.setattr(blocks, "BLOCK", 2000)
    rare = exit_probability(x, law, gamma, radius, steps, runs=2000, seed=3)
    assert abs(rare.value - value) < 5 * rare.error < 0.2 * value


@pytest.mark.parametrize(
    ("x", "beta", "radius", "steps"), [(TRIANGLE, 3.0, 0.4, 12), (np.repeat(TRIANGLE, 2, axis=0), 3.0, 0.45, 8)]
)
def test_frequencies_of_plain_chains(x: Array, beta: float, radius: float, steps: int) -> None:
    """Level 1e-6: the error of the estimate is small beside that of the frequency."""
    runs, law = 10000, SOFT(beta=beta)
    early = int((exit_times(x, law, 0.2, radius, runs=runs, seed=4).times <= steps).sum())
    rare = exit_probability(x, law, 0.2, radius, steps, runs=4000, seed=4)
    assert 0.005 < rare.value < 0.5
    deviation = math.hypot(rare.error, math.sqrt(rare.value * (1 - rare.value) / runs))
    assert abs(early / runs - rare.value) < 4.9 * deviation


def test_the_metastable_bounds_hold() -> None:
    """P(T_2 < t) <= binom(t - 1, M) (n^2 e^{-beta c0/2})^M, and the sharper bound by stages; t = 100, M = 3."""
    eps, gamma, beta, t, n = 0.15, 0.04, 12.0, 100, 3
    D, c0, R = math.sqrt(3), 1.5, 1.0
    M = math.ceil(eps / (gamma * D))
    repaired = math.comb(t - 1, M) * (n**2 * math.exp(-beta * c0 / 2)) ** M
    staged = math.comb(t - 1, M) * math.prod(
        n * (n - 1) * math.exp(-beta * (c0 - 4 * R * j * gamma * D)) for j in range(M)
    )
    assert repaired == pytest.approx(2.1e-4, rel=0.05)
    rare = exit_probability(TRIANGLE, SOFT(beta=beta), gamma, eps, t - 1, seed=0)
    assert rare.interval[1] < staged < repaired
    # The bound by stages is not idle: it is lost without its binomial.
    assert rare.value > staged / math.comb(t - 1, M)


def test_seeds_reproduce() -> None:
    one, two, other = (exit_probability(TRIANGLE, SOFT(beta=9.0), 0.1, 0.3, 20, 100, seed) for seed in (5, 5, 6))
    assert one.value == two.value != other.value
    np.testing.assert_array_equal(one.stages, two.stages)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "steps": (lambda: exit_probability(TRIANGLE, SOFT(), 0.1, 0.1, 0), "steps is 0"),
    "part of a step": (lambda: exit_probability(TRIANGLE, SOFT(), 0.1, 0.1, 2.5), "steps is 2.5"),  # type: ignore[arg-type]
    "runs": (lambda: exit_probability(TRIANGLE, SOFT(), 0.1, 0.1, 5, runs=0), "runs is 0"),
    "heads": (lambda: exit_probability(TRIANGLE, af.Heads([SOFT(), SOFT()]), 0.1, 0.1, 5), "heads"),
    "radius": (lambda: exit_probability(TRIANGLE, SOFT(), 0.1, 1.8, 5), "no farther than 1.73"),
    "no move": (lambda: exit_probability(TRIANGLE, af.Hardmax(), 0.1, 0.1, 5), "no path that leaves was found in 1000"),
    "out of luck": (lambda: exit_probability(PAIR, SOFT(beta=1.0), 0.02, 0.58, 25, runs=20), "found in 20 runs"),
    "too rare": (lambda: exit_probability(PAIR, SOFT(beta=300.0), 0.1, 0.3, 5), "less than float64"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    call, words = REFUSED[name]
    with refused(words):
        call()


def test_paths_without_an_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        "x": af.tokens.polygon(3),
        "law": af.Softmax(beta=2.0),
        "gamma": 0.1,
        "radius": 0.5,
        "steps": 500,
    }
    with monkeypatch.context() as patch:
        patch.setattr(splitting, "MOST_MOVES", 1)
        with refused("paths have moved 1 times without an end: give fewer steps, or a larger gamma"):
            af.measure.exit_probability(**given, runs=64)
    monkeypatch.setattr(splitting, "MOST_RARE", 1)
    with refused("80 of 80 paths have made 1 rare picks without an end: give fewer steps, a smaller radius"):
        af.measure.exit_probability(af.tokens.polygon(3), af.Softmax(beta=8.0), 0.1, 0.3, 500, runs=64)
