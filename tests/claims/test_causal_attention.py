"""Claims of causal attention: limits, attracting states, centres."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.claims.causal.attractors import _field, _jacobian, attractor
from attnflow.claims.causal.centres import cap, expected
from attnflow.claims.check import decide, sampled
from attnflow.claims.statistics import empirical_bernstein

# Two tokens in the plane: the first rests at xi = e_1; the second listens to itself more, the nearer it is to e_2.
V = np.diag([1.0, -1.0])
START = np.array([[np.cos(0.1), np.sin(0.1)], [np.cos(1.9), np.sin(1.9)]])


def spurious(angle: float, slope: float) -> np.ndarray[Any, Any]:
    """Return B so that the second token rests at an angle, where log(a / (1 - a)) grows at a rate, a its share of x_1.

    At angle p of x_2 and x_1 = e_1 the velocity of p is sin(p) (-a - 2 (1 - a) cos(p)). It is 0 where
    a / (1 - a) = -2 cos(p), and decreases there if log(a / (1 - a)) grows faster than log(-cos(p)) does, tan(p) < 0.
    """
    p = angle
    u, w = np.array([np.cos(p), np.sin(p)]), np.array([-np.sin(p), np.cos(p)])
    # <B x, e_1 - x> with B = outer(c, f): <f, x> <c, e_1 - x>; choose c = e_1 - u, f to fit value and slope at u.
    c = np.array([1.0, 0.0]) - u
    value = np.log(-2 * np.cos(p))
    f_u = value / (c @ c)
    f_w = (slope + f_u * (c @ w)) / (c @ c)
    return np.outer(c, f_u * u + f_w * w)


def test_derivatives_of_the_field_agree_with_differences() -> None:
    rng = np.random.default_rng(0)
    x, V, B = rng.standard_normal((4, 3)), rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    steps = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
    slopes = [(_field(x + h, V, B) - _field(x - h, V, B)).ravel() / 2e-6 for h in steps]
    assert np.abs(_jacobian(x, V, B) - np.array(slopes).T).max() < 1e-8


def test_the_field_is_the_velocity_on_the_sphere() -> None:
    x, B = af.tokens.sphere(n=5, d=3, seed=1), np.random.default_rng(1).standard_normal((3, 3))
    V = np.random.default_rng(2).standard_normal((3, 3))
    law, motion = af.Masked(af.Softmax(B=B), causal=True), af.SphereFlow(V=V)
    run = af.simulate(x, law, motion, until=1e-6, record=[0.0, 1e-6])
    assert np.abs((run.final - x) / 1e-6 - _field(x, V, B)).max() < 1e-4


@pytest.mark.parametrize(("slope", "attracts"), [(8.0, True), (-8.0, False)])
def test_a_state_at_rest_attracts_by_the_slope_of_its_share(slope: float, attracts: bool) -> None:
    """The one eigenvalue on the circle is known in closed form."""
    p = 2.0
    B = spurious(p, slope)
    x = np.array([[1.0, 0.0], [np.cos(p + 1e-5), np.sin(p + 1e-5)]])
    found = attractor(x, V, B)
    assert (found is not None) == attracts
    if found is not None:
        a = -2 * np.cos(p) / (1 - 2 * np.cos(p))
        # d/dp of sin(p) (-a - 2 (1 - a) cos(p)) at its zero, with a' = a (1 - a) slope
        eigenvalue = np.sin(p) * (-(1 - 2 * np.cos(p)) * a * (1 - a) * slope + 2 * (1 - a) * np.sin(p))
        # The others: -2 of the first token, and -2 (<x_i, A_i> + 1) across the sphere.
        across = 2 * (a * np.cos(p) + (1 - a) * np.cos(2 * p) + 1)
        assert found.rate == pytest.approx(min(-eigenvalue, 2.0, across), rel=1e-6)
        assert np.abs(found.x[1] - [np.cos(p), np.sin(p)]).max() < 1e-9
        assert found.turning[0] == 0
        assert found.turning[1] == pytest.approx(np.abs(2 * np.sin(p) * np.cos(p)), rel=1e-9)


def test_a_state_that_only_floats_call_attracting_is_not_proved() -> None:
    """With V = I the first token may rest anywhere: an eigenvalue is 0."""
    x = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert attractor(x, np.eye(2), np.eye(2)) is None


def test_two_points_is_refuted_with_a_proof() -> None:
    verdict = af.check("causal/two-points", tokens=START, V=V, B=spurious(2.0, 8.0), until=60.0)
    assert (verdict.outcome, verdict.certified) == ("violated", "ball")
    assert "real parts below -" in verdict.because


def test_two_points_asks_for_a_simple_positive_eigenvalue() -> None:
    x = af.tokens.sphere(n=3, d=2, seed=0)
    for V in (-np.eye(2) + np.diag([0.5, 0.0]), np.eye(2), np.array([[1.0, -1.0], [1.0, 1.0]])):
        assert af.check("causal/two-points", tokens=x, V=V).outcome == "hypotheses not met"


@larger
@pytest.mark.parametrize("seed", range(4))
def test_search_refutes_two_points(seed: int) -> None:
    witness = af.search("causal/two-points", evaluations=400, seed=seed)
    assert witness is not None
    assert witness.verdict.certified == "ball"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=larger) for seed in (1, 2, 3))])
def test_search_refutes_the_printed_number_of_centres(seed: int) -> None:
    witness = af.search("causal/strong-centres/printed", evaluations=100, seed=seed)
    assert witness is not None
    assert witness.verdict.outcome == "violated"


@pytest.mark.parametrize("count", [2, pytest.param(100, marks=larger)])
def test_the_first_token_wins(count: int) -> None:
    claim = af.claims.get("causal/first-token")
    verdicts = [decide(claim, sampled(claim, 1, k)) for k in range(count)]
    assert {verdict.outcome for verdict in verdicts} <= {"holds", "undecided"}
    assert sum(verdict.outcome == "holds" for verdict in verdicts) >= 0.9 * count
    for verdict in verdicts:
        assert verdict.outcome == "holds" or "open hemisphere" in verdict.because


def test_a_start_of_measure_zero_is_undecided() -> None:
    verdict = af.check("causal/first-token", tokens=[[1.0, 0.0], [-1.0, 0.0]], until=20.0)
    assert verdict.outcome == "undecided"


def test_the_number_of_centres_is_that_of_a_sum_of_probabilities() -> None:
    """On the circle with delta = pi / m the part p is 1 / m; the k-th token is a centre with probability (1 - p)^k."""
    for m, n in ((4, 3), (7, 20)):
        p = Fraction(1, m)
        by_hand = sum((1 - p) ** k for k in range(n))
        assert expected(2, np.pi / m, n) == pytest.approx(float(by_hand), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_caps_have_their_part_of_the_sphere(d: int) -> None:
    x = af.tokens.sphere(n=20_000, d=d, seed=0)
    for radius in (0.5, 2.0):
        part = float((x[:, 0] >= np.cos(radius)).mean())
        assert abs(part - cap(d, radius)) < 5 * np.sqrt(0.25 / 20_000)


def test_bounds_of_a_mean_cover_it() -> None:
    """Skewed numbers, of which a normal approximation would miss the mean more often."""
    rng, level, missed = np.random.default_rng(0), 0.9, 0
    for _ in range(400):
        low, high = empirical_bernstein(rng.random(60) ** 8, 1.0, level)
        missed += not low <= 1 / 9 <= high
    assert missed <= 400 * (1 - level)
    low, high = empirical_bernstein(rng.random(10**5), 1.0, level)
    assert high - low < 0.01  # and they are not trivially wide
