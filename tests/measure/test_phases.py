"""Phases against literal runs, geometric laws, a drift integral and published values.

Statistical tests have fixed seeds and a level of 1e-6 each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from larger import larger
from numpy.typing import NDArray
from refusals import refused
from scipy import integrate, stats

import attnflow as af
from attnflow.measure.exits import median_ranks
from attnflow.measure.phases import EVENTS, Phases, _chain, _Events, _Goal, _hardmax, _ranked, phases

Array = NDArray[np.float64]
# The package gives this name to the function.
module = sys.modules[phases.__module__]
LEVEL = 1e-6
INNER = np.vstack([af.tokens.polygon(3), 0.65 * af.tokens.polygon(3)])


def pulled(k: int) -> Array:
    """The k-gon, and k tokens pulled .35 from each vertex toward the centre."""
    v = af.tokens.polygon(k)
    return np.vstack([v, 0.65 * v])


def hardmax_states(x: Array, gamma: float, steps: int) -> Array:
    return af.simulate(x, af.Hardmax(ties="points"), af.Layers(gamma), steps).tokens


def events_of(states: Array, hard: Array, radius: float) -> list[int | None]:
    """The four steps, found by looking at every state; hardmax states go on at the last of those given."""
    limits, when = hard[-1], np.minimum(np.arange(len(states)), len(hard) - 1)
    strays = np.linalg.norm(states - hard[when], axis=2).max(axis=1) > radius
    home = np.linalg.norm(states - limits, axis=2).max(axis=1) <= radius
    together = np.max([np.linalg.norm(states - states[:, [i]], axis=2).max(axis=1) for i in range(len(limits))], axis=0)
    collapse = first(together <= radius)
    end = len(states) if collapse is None else collapse + 1
    arrival = first(home[:end])
    left = None if arrival is None else first(~home[:end] & (np.arange(end) > arrival))
    return [first(strays[:end]), arrival, left, collapse]


def first(true: NDArray[np.bool_]) -> int | None:
    return int(true.argmax()) if true.any() else None


def at(found: Phases, course: str, k: int) -> list[Any]:
    return [getattr(getattr(found, course), name)[k] for name in EVENTS]


def goal_of(x: Array, gamma: float, radius: float) -> _Goal:
    return _Goal(_hardmax(x, gamma, 1e-12 * af.measure.diameter(x)), radius)


@pytest.fixture
def few_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that ask nothing of chains but their first exits."""
    monkeypatch.setattr(module, "MOST_MOVES", 3)


# Hardmax


@pytest.mark.parametrize("gamma", [0.05, 0.4, 1.0])
def test_hardmax_runs_straight_once_leaders_rest(gamma: float) -> None:
    waited = 0
    for seed in range(12):
        x = af.tokens.gaussian(n=8, d=2, seed=seed)
        straight, states = _hardmax(x, gamma, 1e-12), hardmax_states(x, gamma, 900)
        waited += straight.settled > 0
        for t in (0, 1, 2, 3, 7, 30, 100, 700, 900):
            np.testing.assert_allclose(straight.at(t), states[t], atol=1e-11)
        np.testing.assert_allclose(straight.at(10**300), states[-1], atol=1e-11)
    assert gamma == 1 or waited > 0


@pytest.mark.usefixtures("few_moves")
def test_a_token_that_ties_goes_to_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    x = [[1.0, 1.0], [-1.0, 1.0], [0.0, -1.5], [0.0, 0.5]]
    np.testing.assert_allclose(phases(x, [5.0], 0.5, runs=6).limits[3], [0.0, 1.0], atol=1e-11)
    monkeypatch.setattr(module, "MOST_STEPS", 2000)
    with refused("2000 hardmax steps some token is still led by one that moves"):
        phases(x, [5.0], 0.001)


# The layers


@pytest.mark.usefixtures("few_moves")
@pytest.mark.parametrize(("gamma", "until"), [(0.1, 10_000), (0.5, 6_000), pytest.param(0.01, 6_000, marks=larger)])
def test_layers_agree_with_literal_steps(gamma: float, until: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HORIZON", until)
    tol, betas = 0.06, [2.0, 6.0]
    seen: list[int | None] = []
    for x in (INNER, af.tokens.gaussian(n=6, d=2, seed=3), np.array([[1.0], [0.2], [-0.9]])):
        found = phases(x, betas, gamma, tol=tol, runs=6)
        hard = hardmax_states(x, gamma, math.ceil(40 / gamma))
        for k, beta in enumerate(betas):
            states = af.simulate(x, af.Softmax(beta=beta), af.Layers(gamma), until).tokens
            expected = events_of(states, hard, tol * af.measure.diameter(x))
            assert at(found, "layers", k) == expected
            seen += expected
    assert max(t for t in seen if t is not None) > 500


@pytest.mark.usefixtures("few_moves")
@pytest.mark.parametrize("k", [3, 4, 5])
def test_published_arrivals(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps to arrive in balls of radius .05 at beta 16, 32, 64, 128; never within 2000 steps at 8 and below."""
    monkeypatch.setattr(module, "HORIZON", 2000)
    x = pulled(k)
    found = phases(x, [4.0, 8.0, 16.0, 32.0, 64.0, 128.0], 0.1, tol=0.05 / af.measure.diameter(x), runs=6)
    assert found.layers.arrival.tolist() == [None, None, 31, 20, 19, 19]
    assert found.radius == pytest.approx(0.05)
    assert found.layers.departure.tolist()[:2] == [None, None]


@pytest.mark.usefixtures("few_moves")
@pytest.mark.parametrize(
    ("beta", "gamma", "tol"), [(20.0, 0.1, 0.02), (40.0, 0.5, 0.05), pytest.param(150.0, 0.05, 0.01, marks=larger)]
)
def test_residence_is_the_drift_integral(beta: float, gamma: float, tol: float) -> None:
    """Two tokens at a and -a drift by 2 gamma a / (1 + e^{2 beta a^2}) per step, so little that steps are a flow."""
    found = phases([[1.0], [-1.0]], [beta], gamma, tol=tol, runs=6)

    def steps(a: float) -> float:
        return math.exp(2 * beta * (a * a - 1)) / (2 * gamma * a)

    expected = integrate.quad(steps, 1 - 2 * tol, 1.0, epsrel=1e-12)[0]
    assert math.log(found.layers.departure[0]) == pytest.approx(2 * beta + math.log(expected), abs=1e-7)
    assert found.layers.parting[0] == found.layers.departure[0]
    assert found.layers.arrival[0] == 0
    whole = integrate.quad(steps, tol, 1.0, epsrel=1e-12, points=[0.9, 0.99])[0]
    assert math.log(found.layers.collapse[0]) == pytest.approx(2 * beta + math.log(whole), abs=1e-7)
    assert isinstance(found.layers.collapse[0], int)


# The chain


@pytest.mark.usefixtures("few_moves")
@pytest.mark.parametrize(("k", "beta"), [(3, 4.0), (4, 40.0), (5, 200.0)])
def test_residence_at_the_vertices_is_geometric(k: int, beta: float) -> None:
    """One token per vertex: the first cross-pick leaves, after a geometric time."""
    x, gamma, runs = af.tokens.polygon(k), 0.1, 2000
    goal = goal_of(x, gamma, 0.9 * gamma * float(np.linalg.norm(x[0] - x[1])))
    sample = _chain(x, beta, gamma, goal, runs, np.random.default_rng(5))
    S = math.fsum(math.exp(-beta * (1 - math.cos(2 * math.pi * j / k))) for j in range(1, k))
    log_stay = -k * math.log1p(S)
    assert all(events.arrival == 0 and events.parting == events.departure for events in sample)
    times = [t for events in sample if isinstance(t := events.departure, int)]
    assert len(times) == runs
    if beta > 10:
        assert stats.kstest([-log_stay * t for t in times], "expon").pvalue > LEVEL
    else:
        chance = -math.expm1(log_stay)
        edges = np.concatenate([[0], np.unique(stats.geom.ppf(np.linspace(0, 1, 13)[1:-1], chance)), [np.inf]])
        expected = np.diff(stats.geom.cdf(edges, chance)) * runs
        assert stats.chisquare(np.histogram(times, edges + 0.5)[0], expected).pvalue > LEVEL


@pytest.mark.parametrize(
    ("beta", "gamma"), [(6.0, 0.2), pytest.param(2.0, 0.1, marks=larger), pytest.param(9.0, 0.05, marks=larger)]
)
def test_chains_have_the_law_of_literal_ones(beta: float, gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the four steps, by two-sample tests; whatever comes after the last step counts as one beyond."""
    x, radius, runs, until = INNER[:5], 0.05, 200, 100
    monkeypatch.setattr(module, "MOST_MOVES", until)
    hard = hardmax_states(x, gamma, math.ceil(40 / gamma))
    law, motion = af.Softmax(beta=beta), af.Jumps(gamma, literal=True)
    literal = [events_of(af.simulate(x, law, motion, until, seed=seed).tokens, hard, radius) for seed in range(runs)]
    sample = _chain(x, beta, gamma, goal_of(x, gamma, radius), runs, np.random.default_rng(1))
    for k, name in enumerate(EVENTS):
        mine = [t if (t := getattr(events, name)) is not None and t <= until else until + 1 for events in sample]
        theirs = [until + 1 if (t := events[k]) is None else t for events in literal]
        assert stats.ks_2samp(mine, theirs, method="asymp").pvalue > LEVEL
        assert k > 0 or np.median(theirs) < until


def test_resting_tokens_stray_from_a_moving_trajectory() -> None:
    """With radii between the distances at consecutive steps, so that they stray at each of them."""
    rng, strayed, waited = np.random.default_rng(0), 0, 0
    for seed in range(40):
        x, gamma = af.tokens.gaussian(n=8, d=2, seed=seed), (0.05, 0.3, 1.0)[seed % 3]
        settled = goal_of(x, gamma, 1.0).hardmax.settled
        start, waited = (0 if settled else seed % 4), waited + (settled > 0)
        hard = hardmax_states(x, gamma, 900)
        y = hard[start] + 0.02 * rng.uniform(-1, 1, x.shape)
        apart = np.linalg.norm(hard - y, axis=2).max(axis=1)
        for radius in (apart[start : start + 8] + apart[start + 1 : start + 9]) / 2:
            if apart[start] > radius:
                continue
            goal = goal_of(x, gamma, radius)
            for end in (start + 1, start + 2, start + 5, 800):
                step = first(apart[start + 1 : end] > radius)
                expected = None if step is None else start + 1 + step
                assert goal.strays_at_rest(y, start, end) == expected
                strayed += expected is not None
    assert strayed > 100
    assert waited > 3


@pytest.mark.usefixtures("few_moves")
def test_a_chain_at_rest_strays_as_well() -> None:
    """After one step hardmax is at 1 and .55: a chain is near only if the tokens pick what hardmax does."""
    x, beta, runs = np.array([[1.0], [0.5]]), 0.5, 400
    P = af.Softmax(beta=beta).weights(x)
    sample = _chain(x, beta, 0.1, goal_of(x, 0.1, 0.04), runs, np.random.default_rng(3))
    strayed = sum(events.parting == 1 for events in sample)
    assert stats.binomtest(strayed, runs, 1 - P[0, 0] * P[1, 0]).pvalue > LEVEL


def test_chains_that_never_move_again() -> None:
    """At beta 1000 cross-picks have no chance in float64: tokens arrive and stay, in every chain."""
    found = phases(INNER, [1000.0], 0.3, runs=10)
    assert at(found, "chain", 0) == [None, found.layers.arrival[0], None, None]
    assert at(found, "layers", 0)[0::2] == [None, None]
    assert found.unfinished.tolist() == [0]
    assert found.chain.slope is None
    assert "-" in str(found)


def test_together_means_every_pair() -> None:
    goal = goal_of(np.array([[1.0], [-1.0], [0.2]]), 0.1, 0.5)
    states = np.array([[[0.0], [0.4], [-0.4]], [[0.0], [0.2], [-0.3]]])
    assert [signs[2] for signs in goal.signs([0, 1], states)] == [False, True]


# Medians


def test_ranks_are_those_of_the_sign_test() -> None:
    for runs in (6, 10, 100, 101):
        median, low, high = median_ranks(runs)
        assert median == (runs + 1) // 2
        assert low + high == runs + 1
        assert stats.binom.cdf(low - 1, runs, 0.5) <= 0.025 < stats.binom.cdf(low, runs, 0.5)


@pytest.mark.usefixtures("few_moves")
def test_the_interval_holds_the_exact_median() -> None:
    """Of 100 intervals of 95 per cent, more than 20 miss with a chance below 1e-7."""
    x, beta, gamma = af.tokens.polygon(4), 8.0, 0.2
    S = 2 * math.exp(-beta) + math.exp(-2 * beta)
    exact = math.log(2) / (4 * math.log1p(S))
    goal, (median, low, high), missed = goal_of(x, gamma, 0.1), median_ranks(30), 0
    for seed in range(100):
        sample = _chain(x, beta, gamma, goal, 30, np.random.default_rng(seed))
        m, a, b = (_ranked(sample, "departure", rank) for rank in (median, low, high))
        assert m is not None
        assert a is not None
        assert b is not None
        assert a <= m <= b
        missed += not a <= math.ceil(exact) <= b
    assert missed <= 20


def test_unfinished_chains_hide_what_they_may_still_do() -> None:
    runs = [_Events(arrival=5), _Events(arrival=9), _Events(last=7), _Events(arrival=3, last=2)]
    assert [_ranked(runs, "arrival", k) for k in (1, 2, 3, 4)] == [3, 5, None, None]
    assert _ranked(runs, "collapse", 1) is None
    assert [_ranked([_Events(parting=4), _Events()], "parting", k) for k in (1, 2)] == [4, None]


def test_a_cap_on_moves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MOVES", 40)
    found = phases(af.tokens.polygon(3), [20.0], 0.1, runs=8)
    assert found.unfinished.tolist() == [8]
    assert found.chain.collapse.tolist() == [None]
    assert found.chain.departure[0] > 10**9
    assert "8 of 8 chains moved too often to be followed to the end" in str(found)


# The whole


@pytest.mark.usefixtures("few_moves")
@pytest.mark.parametrize("k", [pytest.param(3, marks=larger), 4])
def test_slopes_tend_to_the_gap(k: int) -> None:
    found = phases(af.tokens.polygon(k), [20.0, 40.0], 0.1, runs=60)
    assert found.gap == pytest.approx(1 - math.cos(2 * math.pi / k), rel=1e-12)
    # T_2 is about e^{beta gap} / (beta gamma ...) for the layers, hence 1 / beta less.
    assert found.gap - 2 / 20 < found.layers.slope < found.gap  # type: ignore[operator]
    assert found.chain.slope == pytest.approx(found.gap, abs=0.1)


def test_one_limit_has_no_gap() -> None:
    found = phases([[3.0], [1.0], [2.0]], [2.0, 4.0], 0.3, runs=6)
    assert found.gap is None
    assert (found.limits == 3).all()
    assert found.layers.departure.tolist() == [None, None]
    assert found.layers.collapse[1] is not None


def test_a_seed_gives_the_same_phases_and_a_table() -> None:
    found, again, other = (phases(INNER, [3.0, 5.0], 0.3, runs=8, seed=seed) for seed in (1, 1, 2))
    assert str(found) == str(again) != str(other)
    lines = str(found).splitlines()
    assert len(lines) == 7
    assert lines[1].split()[1:5] == ["|", *EVENTS[:3]]
    assert [line.split()[0] for line in lines[2:4]] == ["3", "5"]
    assert lines[2].split()[2:6] == ["-" if t is None else str(t) for t in at(found, "layers", 0)]
    assert found.betas.tolist() == [3.0, 5.0]


def test_chains_can_be_left_out() -> None:
    """Twenty tokens, whose chains take minutes: the layers alone are those of the whole comparison."""
    found, whole = phases(INNER, [3.0, 5.0], 0.3, runs=0), phases(INNER, [3.0, 5.0], 0.3, runs=6)
    for event in EVENTS:
        assert getattr(found.layers, event).tolist() == getattr(whole.layers, event).tolist()
        assert getattr(found.chain, event).tolist() == [None, None]
    assert "chain" not in str(found)
    many = phases(af.tokens.gaussian(20, 2, seed=0), [2.0, 4.0], 0.1, runs=0)
    assert None not in many.layers.collapse.tolist()


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no betas": (lambda: phases(INNER, [], 0.1), "betas are not a list"),
    "negative": (lambda: phases(INNER, [1.0, -1.0], 0.1), "betas are not a list"),
    "infinite": (lambda: phases(INNER, [math.inf], 0.1), "betas are not a list"),
    "words": (lambda: phases(INNER, ["cold"], 0.1), "betas are not an array of numbers"),
    "one beta": (lambda: phases(INNER, 5.0, 0.1), "betas are not a list"),
    "gamma": (lambda: phases(INNER, [5.0], 0.0), "gamma is 0"),
    "tol": (lambda: phases(INNER, [5.0], 0.1, tol=0.0), "tol is 0"),
    "runs": (lambda: phases(INNER, [5.0], 0.1, runs=5), "runs is 5"),
    "seed": (lambda: phases(INNER, [5.0], 0.1, seed=-1), "seed is -1"),
    "one point": (lambda: phases(np.ones((3, 2)), [5.0], 0.1), "tokens all coincide"),
    "tokens": (lambda: phases([1.0, 2.0], [5.0], 0.1), "expected \\(n, d\\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    call, words = REFUSED[name]
    with refused(words):
        call()


def test_what_happens_after_the_collapse_is_seen() -> None:
    """Tokens on a half-line come together before they arrive at their common limit, and stay."""
    x = np.array([[1.0], [2.0], [3.0]])
    found = phases(x, [5.0, 10.0], 0.1, runs=6)
    for k, beta in enumerate((5.0, 10.0)):
        run = af.simulate(x, af.Softmax(beta=beta), af.Layers(gamma=0.1), until=3000)
        home = np.abs(run.tokens - 3.0).max(axis=(1, 2)) <= found.radius
        assert found.layers.arrival[k] == int(home.argmax())
        assert found.layers.departure[k] is None
        assert home[-1]
